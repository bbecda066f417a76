"""Levels of tasks: predictions of rows whose task is known."""

import numpy as np
import pytest
from scipy import sparse

import forgetless as fl
from forgetless.estimators.levels import RATIOS, TaskMeans
from forgetless.estimators.statistics import STRENGTHS

T, n, d = 12, 20, 4
LABELS = [f"month {t}" for t in range(T)]


def stream(seed=0, spread=2.0, noise=0.5):
    """Return tasks of one linear function with levels of their own, and these levels."""
    rng = np.random.default_rng(seed)
    w, levels = rng.standard_normal(d), rng.normal(0.0, spread, T)
    tasks = []
    for level in levels:
        X = 3.0 + rng.standard_normal((n, d))
        tasks.append((X, X @ w + level + rng.normal(0.0, noise, n)))
    return tasks, levels


def learned(tasks, **parameters):
    model = fl.ContinualRidge(task_levels=True, **parameters)
    for label, (X, y) in zip(LABELS, tasks, strict=True):
        model.partial_fit(X, y, task=label)
    return model


def literal(tasks):
    """Return slopes and levels of largest restricted likelihood over both grids, by dense covariances of all rows."""
    X, y = np.concatenate([X for X, _ in tasks]), np.concatenate([y for _, y in tasks])
    Z, one = np.repeat(np.eye(T), len(y) // T, axis=0), np.ones(len(y))
    best = (np.inf, None, None)
    for ratio in RATIOS:
        for strength in STRENGTHS * np.mean(X.var(axis=0)):
            V = np.eye(len(y)) + Z @ Z.T / ratio + (X - X.mean(0)) @ (X - X.mean(0)).T / strength
            W = np.linalg.inv(V)
            b = one @ W @ y / (one @ W @ one)
            inside = W @ (y - b)
            quadratic = (y - b) @ inside
            cost = np.linalg.slogdet(V)[1] + np.log(one @ W @ one) + (len(y) - 1) * np.log(quadratic)
            if cost < best[0]:
                best = cost, (X - X.mean(0)).T @ inside / strength, Z.T @ inside / ratio
    return best[1:]


@pytest.mark.parametrize(("spread", "noise"), [(2.0, 0.5), (0.3, 1.0), (0.0, 1.0)])
def test_levels_have_the_largest_restricted_likelihood(spread, noise):
    tasks = [(X[:6], y[:6]) for X, y in stream(spread=spread, noise=noise)[0]]
    model = learned(tasks, standardize=False)
    slopes, levels = literal(tasks)
    solution = model._task_levels(model._fitted())
    np.testing.assert_allclose(solution.weights[:-1, 0], slopes, rtol=1e-8)
    np.testing.assert_allclose(list(model.task_levels_.values()), levels, rtol=1e-7, atol=1e-12)
    assert list(model.task_levels_) == LABELS


def test_levels_are_near_the_true_ones_and_shrink_with_noise():
    tasks, levels = stream()
    estimates = np.array(list(learned(tasks).task_levels_.values()))
    assert np.abs(estimates - (levels - levels.mean())).max() < 0.3
    noisy, _ = stream(spread=0.05, noise=5.0)
    model = learned(noisy)
    raw = [np.mean(y - model.predict(X)) for X, y in noisy]
    assert np.linalg.norm(list(model.task_levels_.values())) < 0.5 * np.linalg.norm(raw)


def test_a_truncated_memory_has_levels_beside_the_slopes_of_all_rows():
    rng = np.random.default_rng(0)
    tasks = [(X, X.sum(axis=1) + 5.0 * t) for t in range(4) for X in [rng.standard_normal((30, 8))]]
    model = fl.ContinualRidge(task_levels=True, memory=3)
    for X, y in tasks:
        model.partial_fit(X, y)
    state = model._fitted()
    slopes = model._task_levels(state).weights[:-1]
    np.testing.assert_array_equal(slopes, state.memory.statistics.weights[:-1])
    errors = [np.mean((model.predict(X, tasks=[t + 1] * 30) - y) ** 2) for t, (X, y) in enumerate(tasks)]
    assert np.mean(errors) < 0.1 * np.mean([np.mean((model.predict(X) - y) ** 2) for X, y in tasks])


def test_mean_loss_counts_every_task_the_same():
    tasks, _ = stream()
    longer = [(np.concatenate([X] * (1 + t % 3)), np.concatenate([y] * (1 + t % 3))) for t, (X, y) in enumerate(tasks)]
    once, repeated = learned(tasks, loss="mean", alpha=None), learned(longer, loss="mean")
    np.testing.assert_allclose(list(repeated.task_levels_.values()), list(once.task_levels_.values()), rtol=0.05)


def test_predictions_of_known_tasks_differ_by_their_levels():
    tasks, _ = stream()
    model, X = learned(tasks), tasks[0][0][:3]
    of_one = model.predict(X, tasks=["month 5"] * 3)
    mixed = model.predict(X, tasks=["month 5", "a new one", "month 2"])
    levels = model.task_levels_
    assert mixed[0] == of_one[0]
    assert mixed[1] == model.predict(X)[1]
    np.testing.assert_allclose(mixed[2] - of_one[2], levels["month 2"] - levels["month 5"])


def test_groups_blocks_sparse_rows_and_weights_give_the_same_levels():
    tasks, _ = stream()
    reference = np.array(list(learned(tasks, standardize=False).task_levels_.values()))
    X, y = np.concatenate([X for X, _ in tasks]), np.concatenate([y for _, y in tasks])
    groups = np.repeat(np.arange(T), n)
    model = fl.ContinualRidge(task_levels=True, standardize=False).fit(X, y, groups=groups)
    assert list(model.task_levels_) == [str(t) for t in range(T)]
    np.testing.assert_allclose(list(model.task_levels_.values()), reference, rtol=1e-10)
    np.testing.assert_array_equal(model.predict(X[:2], tasks=[3, 4]), model.predict(X[:2], tasks=[3.0, "4"]))
    blocks, thin, double = (fl.ContinualRidge(task_levels=True, standardize=False) for _ in range(3))
    for X, y in tasks:
        blocks.partial_fit_blocks((X[at : at + 7], y[at : at + 7]) for at in range(0, n, 7))
        thin.partial_fit(sparse.csr_array(X), y)
        # Every row twice, each of weight ½.
        double.partial_fit(np.concatenate([X, X]), np.concatenate([y, y]), sample_weight=np.full(2 * n, 0.5))
    for other in (blocks, thin, double):
        np.testing.assert_allclose(list(other.task_levels_.values()), reference, rtol=1e-8)


def test_a_task_that_comes_again_adds_to_its_level():
    tasks, _ = stream()
    halves = [(X[part], y[part]) for part in (slice(0, 8), slice(8, n)) for X, y in tasks]
    model = fl.ContinualRidge(task_levels=True)
    for label, (X, y) in zip([*LABELS, *LABELS], halves, strict=True):
        model.partial_fit(X, y, task=label)
    assert list(model.task_levels_) == LABELS
    once = learned(tasks)
    np.testing.assert_allclose(list(model.task_levels_.values()), list(once.task_levels_.values()), rtol=0.02)


def test_several_targets_have_levels_of_their_own():
    tasks, _ = stream()
    both = [(X, np.column_stack([y, 100.0 * y])) for X, y in tasks]
    model, single = learned(both, memory=None), learned(tasks, memory=None)
    levels = np.stack(list(model.task_levels_.values()))
    np.testing.assert_allclose(levels[:, 1], 100.0 * levels[:, 0], rtol=1e-8)
    np.testing.assert_allclose(levels[:, 0], list(single.task_levels_.values()), rtol=1e-6)
    assert model.predict(tasks[0][0], tasks=[LABELS[0]] * n).shape == (n, 2)


def test_tasks_of_single_rows_have_no_level():
    model = fl.ContinualRidge(task_levels=True)
    for t in range(5):
        model.partial_fit([[float(t), 1.0]], [2.0 * t + (t == 3)])
    assert set(model.task_levels_.values()) == {0.0}


def test_standard_deviations_cover_targets_of_known_tasks():
    tasks, _ = stream()
    held = [(X[15:], y[15:]) for X, y in tasks]
    model = learned([(X[:15], y[:15]) for X, y in tasks])
    inside = []
    for label, (X, y) in zip(LABELS, held, strict=True):
        mean, std = model.predict(X, return_std=True, tasks=[label] * len(y))
        inside.append(np.abs(y - mean) < 1.96 * std)
        assert np.all(std < 0.5 * model.predict(X, return_std=True)[1])  # which includes the spread of levels
    assert 0.85 <= np.mean(inside) <= 1.0


@pytest.mark.parametrize("state", ["learn", "predict"])
def test_files_hold_levels(tmp_path, state):
    tasks, _ = stream()
    model, X = learned(tasks), tasks[0][0]
    model.save(tmp_path / "model.fl", state=state)
    loaded = fl.load(tmp_path / "model.fl")
    assert loaded.task_levels_ == model.task_levels_
    np.testing.assert_allclose(loaded.predict(X, tasks=["month 3"] * n), model.predict(X, tasks=["month 3"] * n))
    if state == "learn":
        again = loaded.partial_fit(*tasks[0], task="new")
        assert again.task_levels_ == model.partial_fit(*tasks[0], task="new").task_levels_


def test_held_out_rows_are_predicted_with_levels():
    tasks, _ = stream()
    labelled = [(label, *task) for label, task in zip(LABELS, tasks, strict=True)]
    with_levels = fl.evaluate_stream(fl.ContinualRidge(task_levels=True), labelled, holdout=0.2)
    without = fl.evaluate_stream(fl.ContinualRidge(), labelled, holdout=0.2)
    assert with_levels.errors[-1].mean() < 0.3 * without.errors[-1].mean()
    np.testing.assert_allclose(with_levels.before[1:], without.before[1:])  # a new task has no level yet


def test_new_features_are_zero_in_the_means_before():
    tasks, _ = stream()
    model = learned(tasks).widen(1)
    wide, y = np.column_stack([tasks[0][0], np.ones(n)]), tasks[0][1]
    zeros = np.column_stack([tasks[0][0], np.zeros(n)])
    before = model.predict(zeros, tasks=["month 3"] * n)
    # Up to the shrinkage, which counts the features.
    np.testing.assert_allclose(before, learned(tasks).predict(tasks[0][0], tasks=["month 3"] * n), rtol=1e-3)
    assert len(model.partial_fit(wide, y, task="wide").task_levels_) == T + 1


def test_levels_need_an_intercept_labels_and_their_option():
    for parameters in ({"alpha": 1.0}, {"fit_intercept": False}, {"memory": fl.LowRankMemory(5, decay=0.1)}):
        with pytest.raises(ValueError, match="task_levels needs schedule='auto', with an intercept"):
            fl.ContinualRidge(**parameters, task_levels=True).partial_fit([[1.0]], [1.0])
    with pytest.raises(TypeError, match="task_levels must be True or False, got 'yes'"):
        fl.ContinualRidge(task_levels="yes").partial_fit([[1.0]], [1.0])
    with pytest.raises(ValueError, match="tasks needs a model with task_levels=True"):
        fl.ContinualRidge().partial_fit([[1.0], [2.0]], [1.0, 2.0]).predict([[1.0]], tasks=["a"])
    model = learned(stream()[0])
    for tasks in (["a"], "ab", 3):
        with pytest.raises(ValueError, match="one label for each of 2 rows"):
            model.predict(np.zeros((2, d)), tasks=tasks)


def test_damaged_levels_in_files_are_rejected():
    from forgetless.io import Fields

    arrays = learned(stream()[0])._fitted().levels.arrays()
    for labels in (["a"] * T, [1] * T, "a", ["a", "b"]):
        with pytest.raises(ValueError, match=r"not strings|not different|totals"):
            TaskMeans.from_fields(Fields(arrays), labels, d, 1)
