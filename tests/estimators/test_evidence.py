"""The default of the estimators: statistics against all rows, the evidence against its definition, and what follows."""

import math
import tracemalloc

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine
from sklearn.linear_model import RidgeCV

import forgetless as fl
from forgetless.estimators.evidence import PRIORS
from forgetless.estimators.statistics import STRENGTHS
from forgetless.estimators.strength import Auto

D = 5


def stream(rng, n_tasks=8, rows=(4, 30), d=D, noise=1.0):
    teacher, sizes = rng.standard_normal(d), np.geomspace(0.01, 100, d)
    for _ in range(n_tasks):
        n = int(rng.integers(*rows))
        X = (rng.standard_normal((n, d)) + rng.standard_normal(d)) * sizes
        yield X, 7.0 + (X / sizes) @ teacher + noise * rng.standard_normal(n)


def all_rows(tasks):
    return tuple(np.concatenate(part) for part in zip(*tasks, strict=True))


def literal(X, y, weight=None):
    """Return λ, slopes and intercept of the definition, from all rows at once: evidence by determinants of n × n."""
    weight = np.ones(len(y)) if weight is None else weight
    mean, level = np.average(X, axis=0, weights=weight), np.average(y, weights=weight)
    scale = np.sqrt(np.average((X - mean) ** 2, axis=0, weights=weight))
    root = np.sqrt(weight)[:, None]
    Z, r = root * (X - mean) / scale, root[:, 0] * (y - level)
    strengths = STRENGTHS
    costs = []
    for strength in strengths:
        covariance = np.eye(len(y)) + Z @ Z.T / strength
        costs.append(
            (weight.sum() - 1) * math.log(r @ np.linalg.solve(covariance, r)) + np.linalg.slogdet(covariance)[1]
        )
    best = strengths[int(np.argmin(costs))]
    slopes = np.linalg.solve(Z.T @ Z + best * np.eye(X.shape[1]), Z.T @ r) / scale
    return best, slopes, level - mean @ slopes


def solution(model):
    """Return the statistics of all tasks and their solution in the user's units, without the mean in the mixture."""
    statistics, units = model._state.memory.statistics, model._state.units
    weights = statistics.weights if units is None else units.outward(statistics.weights)
    return statistics, weights[:-1, 0], weights[-1, 0]


@pytest.mark.parametrize("kind", ["arrays", "sparse", "blocks", "generator", "weights"])
def test_the_solution_is_ridge_regression_on_all_rows_with_the_strength_of_largest_evidence(rng, kind):
    tasks = list(stream(rng))
    weights = [rng.uniform(0.5, 2.0, len(y)) if kind == "weights" else np.ones(len(y)) for _, y in tasks]
    model = fl.ContinualRidge()
    for (X, y), weight in zip(tasks, weights, strict=True):
        if kind == "sparse":
            model.partial_fit(sparse.csr_array(X), y)
        elif kind == "blocks":
            model.partial_fit_blocks([(X[:2], y[:2]), (X[2:], y[2:])])
        elif kind == "generator":
            model.partial_fit_blocks((X[i : i + 3], y[i : i + 3]) for i in range(0, len(y), 3))
        else:
            model.partial_fit(X, y, sample_weight=weight if kind == "weights" else None)
    X, y = all_rows(tasks)
    statistics, slopes, intercept = solution(model)
    strength, expected, level = literal(X, y, np.concatenate(weights))
    if kind == "sparse":  # whose columns are divided by their root mean squares, and not centred
        strength, expected, level = statistics.strength, *_uncentred(X, y, statistics.strength)
    # λ is chosen again once the rows have grown by a tenth, so it may be that of somewhat fewer rows.
    assert statistics.strength == pytest.approx(strength, rel=1e-9)
    np.testing.assert_allclose(slopes, expected, rtol=1e-7)
    assert intercept == pytest.approx(level, rel=1e-7)
    residual = np.sqrt(np.concatenate(weights)) * (y - X @ expected - level)
    assert statistics.squares[0] == pytest.approx(residual @ residual, rel=1e-8)


def _uncentred(X, y, strength):
    scale = np.sqrt(np.mean(X**2, axis=0))
    Z, r = (X - X.mean(0)) / scale, y - y.mean()
    slopes = np.linalg.solve(Z.T @ Z + strength * np.eye(X.shape[1]), Z.T @ r) / scale
    return slopes, y.mean() - X.mean(0) @ slopes


def test_shares_follow_from_errors_before_learning(rng):
    tasks = list(stream(rng, noise=3.0))
    model, shares = fl.ContinualRidge(), None
    for X, y in tasks:
        if shares is not None:
            _, slopes, intercept = solution(model)
            X_clipped = model._state.clipped(X)
            level = float(np.mean(all_rows(tasks[: model.n_tasks_seen_])[1]))
            errors = np.array([np.sum((y - X_clipped @ slopes - intercept) ** 2), np.sum((y - level) ** 2)])
            shares = (0.95 * shares + 0.05 * PRIORS["seen"]) / np.sqrt(errors)
            shares /= shares.sum()
        model.partial_fit(X, y)
        shares = model._state.memory.shares if shares is None else shares
        np.testing.assert_allclose(model._state.memory.shares, shares, rtol=1e-8)
        _, slopes, intercept = solution(model)
        np.testing.assert_allclose(model.coef_, shares[0] * slopes, rtol=1e-8)


def test_noise_is_predicted_by_its_mean_and_an_exact_law_by_itself(rng):
    X, noise = rng.standard_normal((200, 10)), rng.standard_normal(200)
    groups = np.repeat(np.arange(10), 20)
    model = fl.ContinualRidge().fit(X, noise, groups=groups)
    assert np.abs(model.coef_).max() < 0.1
    exact = fl.ContinualRidge().fit(X, X @ np.arange(10.0) + 3.0, groups=groups)
    np.testing.assert_allclose(exact.coef_, np.arange(10.0), atol=0.01)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_truncation_changes_neither_the_solution_nor_its_error(rng, dtype):
    X = rng.standard_normal((12, 40))
    y = X @ rng.standard_normal(40)
    small = fl.ContinualRidge(memory=fl.LowRankMemory(4, dtype=dtype)).partial_fit(X, y)
    whole = fl.ContinualRidge(memory=fl.LowRankMemory(40)).partial_fit(X, y)
    ours, theirs = (model._state.memory.statistics for model in (small, whole))
    np.testing.assert_allclose(ours.weights, theirs.weights, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(ours.squares, theirs.squares, rtol=1e-6, atol=1e-9)
    # The diagonal of the model of the error is exact, and the rest of it is what was truncated.
    diagonal = ours.rest + np.sum(ours.vectors.astype(np.float64) ** 2, axis=0)
    np.testing.assert_allclose(diagonal, np.diag(theirs.gram), rtol=1e-5)
    assert ours.vectors.shape == (4, 40)
    assert ours.vectors.dtype == dtype
    assert 0 < small.retained_fraction_ < whole.retained_fraction_ == 1.0


@pytest.mark.parametrize("rank", [0, 3, 10])
@pytest.mark.parametrize("rows", [(1, 2), (8, 9), (80, 81)])
def test_a_small_memory_learns_all_tasks(rng, rank, rows):
    teacher, decay = rng.standard_normal(30), np.geomspace(1, 0.05, 30)
    tasks = []
    for _ in range(30):
        X = rng.standard_normal((rows[0], 30)) * decay
        tasks.append((X, X @ teacher + 0.1 * rng.standard_normal(rows[0])))
    model = fl.ContinualRidge(memory=rank, standardize=False)
    for task in tasks:
        model.partial_fit(*task)
    X = rng.standard_normal((500, 30)) * decay
    error = np.mean((model.predict(X) - X @ teacher) ** 2) / np.mean((X @ teacher) ** 2)
    assert error < (0.9 if rank == 0 else 0.6 if rows[0] == 1 else 0.1)


def test_rows_one_by_one_are_learned_as_blocks_are(rng):
    tasks = list(stream(rng, 3))
    X, y = all_rows(tasks)
    single = fl.ContinualRidge()
    for i in range(len(y)):
        single.partial_fit(X[i : i + 1], y[i : i + 1])
    statistics, slopes, _ = solution(single)
    Z = (X - X.mean(0)) / X.std(0)
    expected = np.linalg.solve(Z.T @ Z + statistics.strength * np.eye(D), Z.T @ (y - y.mean())) / X.std(0)
    np.testing.assert_allclose(slopes, expected, rtol=1e-7)


def test_features_are_clipped_near_the_range_seen(rng):
    X = rng.uniform(0.0, 1.0, (50, 2))
    y = X @ [1.0, 2.0]
    model = fl.ContinualRidge().partial_fit(X, y)
    low, high = X.min(0), X.max(0)
    far, edge = np.array([[1e6, -1e6]]), np.array([[2 * high[0] - low[0], 2 * low[1] - high[1]]])
    np.testing.assert_allclose(model.predict(far), model.predict(edge), rtol=1e-12)
    for rows in (X, edge):
        np.testing.assert_allclose(model.predict(rows), rows @ model.coef_ + model.intercept_, rtol=1e-9)
    linear = fl.ContinualRidge(schedule=Auto(clip=None)).partial_fit(X, y)
    np.testing.assert_allclose(linear.predict(far), far @ linear.coef_ + linear.intercept_, rtol=1e-9)
    for rows in (far, X[:3]):
        np.testing.assert_allclose(model.predict(sparse.csr_array(rows)), model.predict(rows), rtol=1e-9)
    # Errors before learning are those of predictions.
    model.partial_fit(far, [1.0])
    assert model.history_["mse_before"][-1] < 100.0


def test_a_column_that_hardly_varied_does_no_harm_with_any_schedule(rng):
    def task(spread, n=30):
        X = rng.standard_normal((n, 3)) * [spread, 1.0, 1.0]
        return X, X.sum(axis=1) + rng.standard_normal(n)

    tasks = [task(1e-3), *(task(1.0) for _ in range(9))]
    X, y = all_rows(tasks)
    options = {"fit_intercept": True, "standardize": True}
    full = fl.LowRankMemory(100, dtype="float64")
    models = {
        "default": fl.ContinualRidge(),
        "memory": fl.ContinualRidge(alpha=1.0, memory=full, **options),
        "weights": fl.ContinualRidge(alpha=1.0, **options),
        "increasing": fl.ContinualRidge(schedule=fl.schedules.increasing(0.1), n_tasks=10, **options),
        "joint": fl.JointRidge(alpha=1.0, **options),
    }
    for name, model in models.items():
        for each in tasks[:2]:
            model.partial_fit(*each)
        if name == "memory":  # about joint ridge regression, although the units have changed by a thousand
            np.testing.assert_allclose(model.coef_, joint_slopes(all_rows(tasks[:2])), rtol=0.01)
        for each in tasks[2:]:
            model.partial_fit(*each)
        assert np.sqrt(np.mean((model.predict(X) - y) ** 2)) < 1.3, name


def joint_slopes(rows):
    X, y = rows
    Z = (X - X.mean(0)) / X.std(0)
    return np.linalg.solve(Z.T @ Z + np.eye(3), Z.T @ (y - y.mean())) / X.std(0)


def test_no_schedule_becomes_another_kind_within_a_stream(rng):
    X, y = next(stream(rng))
    model = fl.ContinualRidge(memory=3).partial_fit(X, y)
    with pytest.raises(ValueError, match="schedule was 'auto' for the first task and cannot become"):
        model.set_params(alpha=1.0, fit_intercept=True, standardize=True).partial_fit(X, y)


def test_the_default_is_about_as_good_as_ridge_retrained_and_cross_validated():
    X, y = load_diabetes(return_X_y=True)
    order = np.argsort(X[:, 0])
    tasks = [(X[part], y[part]) for part in np.array_split(order, 12)]
    model, squares, reference, mean = fl.ContinualRidge(), 0.0, 0.0, 0.0
    for t, (A, b) in enumerate(tasks):
        if t:
            rows, targets = all_rows(tasks[:t])
            retrained = RidgeCV(10.0 ** np.arange(-5, 5)).fit(rows, targets)
            squares += np.sum((model.predict(A) - b) ** 2)
            reference += np.sum((retrained.predict(A) - b) ** 2)
            mean += np.sum((targets.mean() - b) ** 2)
        model.partial_fit(A, b)
    assert math.sqrt(squares / reference) < 1.05
    assert math.sqrt(squares / mean) < 0.8


@pytest.mark.parametrize("load", [load_iris, load_wine, load_breast_cancer])
@pytest.mark.parametrize("offset", [0.0, 1000.0])
@pytest.mark.parametrize("ordered", ["by class", "by the first column"])
def test_defaults_beat_the_mean_and_the_majority(load, offset, ordered):
    """On real columns of different sizes, centred or not, with nothing chosen."""
    X, y = load(return_X_y=True)
    order = np.argsort(y if ordered == "by class" else X[:, 0], kind="stable")
    X, y = X[order] + offset, y[order]
    groups = y if ordered == "by class" else np.arange(len(y)) * 5 // len(y)
    held = np.arange(len(y)) % 3 == 0
    classifier = fl.ContinualRidgeClassifier().fit(X[~held], y[~held], groups=groups[~held])
    majority = np.mean(y[held] == np.bincount(y[~held]).argmax())
    assert np.mean(classifier.predict(X[held]) == y[held]) > majority + 0.1
    target = X[:, 1] - offset
    features = np.delete(X, 1, axis=1)
    model = fl.ContinualRidge().fit(features[~held], target[~held], groups=groups[~held])
    error = np.mean((model.predict(features[held]) - target[held]) ** 2)
    assert error < 1.02 * np.mean((target[~held].mean() - target[held]) ** 2)


@pytest.mark.parametrize("n", [1, 2, 7])
def test_errors_of_rows_left_out_are_those_of_generalized_cross_validation(rng, n):
    X, y = rng.standard_normal((n, D)), rng.standard_normal(n)
    model = fl.ContinualRidge(fit_intercept=False, standardize=False).partial_fit(X, y)
    statistics = model._state.memory.statistics
    inverse = np.linalg.inv(X.T @ X + statistics.strength * np.eye(D))
    residual = y - X @ inverse @ X.T @ y
    freedom = min(np.trace(inverse @ X.T @ X), 0.95 * n)
    error, mean_error = statistics.leave_out_errors()
    assert error == pytest.approx(residual @ residual / (1 - freedom / n) ** 2, rel=1e-9)
    assert mean_error == pytest.approx(y @ y / max(1 - 1 / n, 0.05) ** 2, rel=1e-9)


def test_a_wide_task_takes_no_matrix_of_all_features(rng):
    d = 3000
    model = fl.ContinualRidge(memory=3)
    X, y = rng.standard_normal((4, d)), rng.standard_normal(4)
    model.partial_fit(X, y)  # what is imported and compiled at first is not counted
    tracemalloc.start()
    model.partial_fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < d * d


@pytest.mark.parametrize(("d", "correlation", "noise"), [(120, 0.95, 1.0), (120, 0.99, 10.0), (10, 0.99, 10.0)])
def test_deviations_of_coefficients_cover_the_truth_of_correlated_features(d, correlation, noise):
    """Whatever λ is: they count the bias of the regularization."""
    covered = []
    for seed in range(6):
        rng = np.random.default_rng([d, seed])
        lags = np.abs(np.subtract.outer(np.arange(d), np.arange(d)))
        root, truth = np.linalg.cholesky(correlation**lags), rng.standard_normal(d)
        model = fl.ContinualRidge()
        for _ in range(10):
            X = rng.standard_normal((40, d)) @ root.T
            model.partial_fit(X, X @ truth + noise * rng.standard_normal(40))
        covered.append(np.mean(np.abs(model.coef_ - truth) < 1.96 * model._coef_std()))
    assert np.mean(covered) > 0.9
