"""Streaming advice: the replay is what the estimator would have done, in bounded memory, and its choice is good."""

import tracemalloc

import numpy as np
import pytest
from scipy import sparse

import forgetless as fl
from forgetless.streams import _replay


def stream(rng, count, n=6, d=8, noise=0.5, targets=()):
    teacher = rng.standard_normal((d, *targets))
    return [
        (X := rng.standard_normal((n, d)), X @ teacher + noise * rng.standard_normal((n, *targets)))
        for _ in range(count)
    ]


def learned(model, tasks, kind=np.asarray):
    for X, y in tasks:
        model.partial_fit(kind(X), y)
    return model


@pytest.mark.parametrize("targets", [(), (3,)])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("loss", ["sum", "mean"])
@pytest.mark.parametrize("intercept", [False, True])
def test_scores_are_what_constant_coefficients_would_have_cost(rng, targets, kind, loss, intercept):
    tasks = stream(rng, 7, targets=targets)
    options = {"loss": loss, "fit_intercept": intercept}
    auto = learned(fl.ContinualRidge(schedule="auto", **options), tasks, kind)
    coefficients = np.array([1e-3, 0.1, 2.0, 50.0])
    scores = auto._state.advisor.window.scores(coefficients)
    for coefficient, score in zip(coefficients, scores, strict=True):
        history = learned(fl.ContinualRidge(alpha=float(coefficient), **options), tasks, kind).history_
        size = 6 * (targets[0] if targets else 1)
        assert score == pytest.approx(size * history["mse_before"][1:].sum(), rel=1e-8)


def test_a_window_that_went_on_starts_from_the_weights_of_then(rng, monkeypatch):
    monkeypatch.setattr(_replay, "WINDOW_ROWS", 40)
    tasks = stream(rng, 23)
    path = [np.zeros(8)]
    model = fl.ContinualRidge(schedule="auto")
    for X, y in tasks:
        path.append(model.partial_fit(X, y).coef_)
        window = model._state.advisor.window
        assert len(window.gram) <= 40
        first = len(path) - 1 - len(window.targets)
        np.testing.assert_array_equal(window.anchor[:, 0], path[first])
        w, total = path[first], 0.0
        for i, (A, b) in enumerate(tasks[first : len(path) - 1]):
            total += np.sum((A @ w - b) ** 2) if i else 0.0
            w = np.linalg.solve(A.T @ A + 3.0 * np.eye(8), A.T @ b + 3.0 * w)
        assert window.scores(np.array([3.0]))[0] == pytest.approx(total, rel=1e-8)
        assert len(window.targets) >= min(len(path) - 1, 3)


def test_large_tasks_are_sampled_and_stand_for_all_their_rows(rng):
    X = rng.standard_normal((1000, 5)) * [3, 1, 1, 0.1, 0.1]
    model = fl.ContinualRidge(schedule="auto").partial_fit(X, X @ np.ones(5))
    A = model._state.advisor.window.rows[0]
    assert A.shape == (_replay.TASK_ROWS, 5)
    assert np.linalg.norm(A, 2) ** 2 == pytest.approx(np.linalg.norm(X, 2) ** 2, rel=0.4)


@pytest.mark.parametrize(("noise", "allowed"), [(0.0, 1.3), (0.3, 1.1), (3.0, 1.1)])
def test_choice_is_close_to_the_best_constant_in_hindsight(noise, allowed):
    # Without noise the first tasks decide, where the best is not to regularize at all and that is not known yet.
    ratios = []
    for seed in range(4):
        tasks = stream(np.random.default_rng([seed, int(10 * noise)]), 80, n=5, d=12, noise=noise)
        auto = learned(fl.ContinualRidge(schedule="auto"), tasks).prequential_mse_
        constants = [learned(fl.ContinualRidge(alpha=float(a)), tasks).prequential_mse_ for a in np.logspace(-4, 3, 8)]
        ratios.append(auto / min(constants))
    assert np.mean(ratios) < allowed


def test_one_badly_scaled_task_does_no_lasting_harm(rng):
    tasks = stream(rng, 40, noise=0.3)
    X = 1e4 * tasks[0][0]
    auto = learned(fl.ContinualRidge(schedule="auto"), [(X, np.zeros(6)), *tasks])
    plain = learned(fl.ContinualRidge(alpha=1.0), [(X, np.zeros(6)), *tasks])
    assert auto.history_["mse_before"][20:].mean() < 1.2 * plain.history_["mse_before"][20:].mean()


def test_many_targets_and_wide_rows_are_bounded(rng):
    X = rng.standard_normal((40, 6))
    W = rng.standard_normal((6, 400))
    model = learned(fl.ContinualRidge(schedule="auto"), [(X, X @ W + rng.standard_normal((40, 400))) for _ in range(4)])
    assert model._state.advisor.window.errors.shape[1] == _replay.TARGETS
    wide = rng.standard_normal((30, 60_000))
    narrow = fl.ContinualRidge(schedule="auto").partial_fit(wide, wide[:, 0]).partial_fit(wide, wide[:, 0])
    assert all(A.shape[0] == 4 for A in narrow._state.advisor.window.rows)


def test_a_window_never_lacks_a_task(rng):
    tasks = stream(rng, 8)
    model = learned(fl.ContinualRidge(schedule="auto"), tasks[:3])
    model.set_params(schedule=None).partial_fit(*tasks[3])
    learned(model.set_params(schedule="auto"), tasks[4:6])
    assert len(model._state.advisor.window.targets) == 2
    model.partial_fit_blocks([tasks[6], tasks[7]])
    assert model._state.advisor.window is None
    assert np.isfinite(model._state.advisor.coefficient)


def test_strength_follows_the_noise(rng):
    quiet = learned(fl.ContinualRidge(schedule="auto"), stream(rng, 60, noise=0.0))
    loud = learned(fl.ContinualRidge(schedule="auto"), stream(rng, 60, noise=3.0))
    assert quiet.history_["strength"][-1] < 1e-3 * loud.history_["strength"][-1]


def test_fit_with_groups_classifier_float32_and_blocks(rng):
    tasks = stream(rng, 6)
    X, y = np.concatenate([X for X, _ in tasks]), np.concatenate([y for _, y in tasks])
    grouped = fl.ContinualRidge(schedule="auto").fit(X, y, np.repeat(range(6), 6))
    np.testing.assert_array_equal(grouped.coef_, learned(fl.ContinualRidge(schedule="auto"), tasks).coef_)
    again = grouped.fit(X, y, np.repeat(range(6), 6))
    np.testing.assert_array_equal(again.history_["strength"], grouped.history_["strength"])
    labels = fl.ContinualRidgeClassifier(schedule="auto")
    for A, b in tasks:
        labels.partial_fit(A, b > 0, classes=[False, True])
    assert labels.predict(X).dtype == bool
    small = learned(
        fl.ContinualRidge(schedule="auto"), [(A.astype(np.float32), b.astype(np.float32)) for A, b in tasks]
    )
    assert small.coef_.dtype == np.float32
    # Blocks are not sampled: the coefficient stays what it was.
    before = grouped._state.advisor.coefficient
    grouped.partial_fit_blocks([tasks[0], tasks[1]])
    assert grouped.history_["strength"][-1] == before


def test_one_row_tasks_and_bounded_memory(rng, monkeypatch):
    monkeypatch.setattr(_replay, "WINDOW_ROWS", 120)
    model = fl.ContinualRidge(schedule="auto", history_size=10)
    A, b = rng.standard_normal((500, 1, 4)), rng.standard_normal((500, 1))
    for i in range(150):
        model.partial_fit(A[i], b[i])
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for i in range(300):
        model.partial_fit(A[i], b[i])
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    # The Gram matrix of 120 rows takes 115 kB; the rows and some bookkeeping come on top.
    assert after - before < 250_000
    assert len(model._state.advisor.window.gram) <= 120
