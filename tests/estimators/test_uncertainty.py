"""Standard deviations of predictions and coefficients, against the inverse matrix that defines them."""

import numpy as np
import pytest

import forgetless as fl
from forgetless.estimators.statistics import STRENGTHS

D, ALPHA = 4, 0.3


def stream(rng, count=6, n=5):
    teacher = rng.standard_normal(D)
    for _ in range(count):
        X = rng.standard_normal((n, D)) * [3.0, 1.0, 0.5, 0.1]
        yield X, X @ teacher + 0.5 * rng.standard_normal(n)


def learned(model, tasks):
    """Return the model, and the mean squared error over the later half of the tasks before it learned them."""
    before = []
    for t, (X, y) in enumerate(tasks):
        before.append(np.mean((model.predict(X) - y) ** 2) if t else np.nan)
        model.partial_fit(X, y)
    return model, np.mean(before[len(before) // 2 :])


def with_ones(X, intercept):
    return np.column_stack([X, np.ones(len(X))]) if intercept else X


def variances(rows, gram, strength):
    """xᵀ(G + λ)⁻¹x."""
    return np.einsum("ij,ij->i", rows, np.linalg.solve(gram + strength * np.eye(rows.shape[1]), rows.T).T)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("kind", ["joint", "recursive", "memory"])
def test_deviations_are_those_of_the_inverse_of_all_rows(rng, kind, intercept):
    model = {
        "joint": lambda: fl.JointRidge(ALPHA, fit_intercept=intercept),
        "recursive": lambda: fl.RecursiveLeastSquares(ALPHA, fit_intercept=intercept),
        "memory": lambda: fl.ContinualRidge(
            ALPHA, memory=fl.LowRankMemory(D + 1, dtype="float64"), fit_intercept=intercept
        ),
    }[kind]()
    tasks, X = list(stream(rng)), rng.standard_normal((7, D))
    model, noise = learned(model, tasks)
    rows = with_ones(np.concatenate([X for X, _ in tasks]), intercept)
    expected = np.sqrt(noise * (1.0 + variances(with_ones(X, intercept), rows.T @ rows, ALPHA)))
    np.testing.assert_allclose(model.predict(X, return_std=True)[1], expected, rtol=1e-8)
    unit = np.eye(D + intercept)[:D]
    np.testing.assert_allclose(model._coef_std(), np.sqrt(noise * variances(unit, rows.T @ rows, ALPHA)), rtol=1e-8)


def test_a_truncated_memory_spreads_what_it_left_out_over_all_directions(rng):
    tasks, X = list(stream(rng)), rng.standard_normal((7, D))
    model, noise = learned(fl.ContinualRidge(ALPHA, memory=fl.LowRankMemory(2, dtype="float64")), tasks)
    B = model._state.memory.rows(np.float64)
    assert B.shape == (2, D)
    trace = sum(np.sum(A**2) for A, _ in tasks)
    left_out = (trace - np.sum(B**2)) / D
    assert left_out > 0.1 * ALPHA
    leverage = variances(X, B.T @ B, ALPHA + left_out)
    np.testing.assert_allclose(model.predict(X, return_std=True)[1], np.sqrt(noise * (1.0 + leverage)), rtol=1e-8)


def test_deviations_without_regularization_are_finite(rng):
    """A memory that holds everything, with λ = 1e-300: the inverse exists up to rounding."""
    tasks, X = list(stream(rng)), rng.standard_normal((7, D))
    model, noise = learned(fl.ContinualRidge(1e-300, memory=fl.LowRankMemory(D, dtype="float64")), tasks)
    rows = np.concatenate([X for X, _ in tasks])
    expected = np.sqrt(noise * (1.0 + variances(X, rows.T @ rows, 0.0)))
    np.testing.assert_allclose(model.predict(X, return_std=True)[1], expected, rtol=1e-3)


@pytest.mark.parametrize("rank", [2, 10])
def test_deviations_of_the_default_are_those_of_its_statistics(rng, rank):
    """G is diag(rest) + BᵀB about the mean of all rows, or all of it, and the intercept has the variance 1/n."""
    tasks = list(stream(rng))
    model = fl.ContinualRidge(memory=fl.LowRankMemory(rank, dtype="float64"), standardize=False)
    model, noise = learned(model, tasks)
    rows = np.concatenate([X for X, _ in tasks])
    X = 0.5 * (rows[:7] + rows[7:14])  # beyond the range of the rows features are clipped
    statistics = model._state.memory.statistics
    np.testing.assert_allclose(statistics.mean, rows.mean(0), rtol=1e-12)
    centred = rows - rows.mean(0)
    gram = centred.T @ centred
    if rank < D:
        gram = np.diag(statistics.rest) + statistics.vectors.T @ statistics.vectors
        np.testing.assert_allclose(np.diag(gram), np.sum(centred**2, axis=0), rtol=1e-9)
    expected = variances(X - rows.mean(0), gram, statistics.strength) + 1.0 / len(rows)
    np.testing.assert_allclose(model.predict(X, return_std=True)[1], np.sqrt(noise * (1.0 + expected)), rtol=1e-8)


def test_deviations_of_default_coefficients_are_those_of_the_posterior(rng):
    """Over the slopes and λ, about the slopes of the mixture; σ² is integrated out in the weights of λ."""
    tasks = list(stream(rng))
    model, noise = learned(fl.ContinualRidge(standardize=False, memory=D), tasks)
    X, y = (np.concatenate(parts) for parts in zip(*tasks, strict=True))
    n, X, y = len(y), X - X.mean(0), y - y.mean()
    gram, costs, squares = X.T @ X, [], []
    for strength in STRENGTHS * np.trace(gram) / D / n:
        inverse = np.linalg.inv(gram + strength * np.eye(D))
        slopes = inverse @ X.T @ y
        costs.append((n - 1) * np.log(y @ y - y @ X @ slopes) - np.linalg.slogdet(strength * inverse)[1])
        squares.append(noise * np.diag(inverse) + (slopes - model.coef_) ** 2)
    weights = np.exp(-0.5 * (np.array(costs) - min(costs)))
    np.testing.assert_allclose(model._coef_std(), np.sqrt(weights @ squares / weights.sum()), rtol=1e-6)


def test_deviations_of_default_coefficients_with_few_vectors(rng):
    """One λ, with G from the vectors and the diagonal, and the distance between the mixture and its solution."""
    model, noise = learned(
        fl.ContinualRidge(memory=fl.LowRankMemory(2, dtype="float64"), standardize=False), stream(rng)
    )
    statistics = model._state.memory.statistics
    gram = np.diag(statistics.rest) + statistics.vectors.T @ statistics.vectors
    away = statistics.weights[:D, 0] - model.coef_
    assert np.abs(away).max() > 1e-4
    expected = np.sqrt(noise * variances(np.eye(D), gram, statistics.strength) + away**2)
    np.testing.assert_allclose(model._coef_std(), expected, rtol=1e-8)


@pytest.mark.parametrize(("n", "freedom"), [(12, 5), (4, 3), (1, 0)])
def test_the_noise_after_one_task_counts_the_weights_that_were_fitted(rng, n, freedom):
    """The error after learning, times n/(n − d − 1); at least one row is left."""
    X, y = next(stream(rng, 1, n))
    model = fl.ContinualRidge(ALPHA, memory=fl.LowRankMemory(D, dtype="float64")).partial_fit(X, y)
    noise = np.sum((model.predict(X) - y) ** 2) / (n - freedom)
    expected = np.sqrt(noise * variances(np.eye(D), X.T @ X, ALPHA))
    np.testing.assert_allclose(model._coef_std(), expected, rtol=1e-8)


def test_tasks_count_by_their_rows_in_the_noise(rng):
    tasks = [next(stream(rng, 1, n)) for n in (3, 4, 50, 2)]
    model, errors = fl.JointRidge(ALPHA), []
    for t, (X, y) in enumerate(tasks):
        errors.append((model.predict(X) - y) ** 2 if t else None)
        model.partial_fit(X, y)
    rows = np.concatenate([X for X, _ in tasks])
    noise = np.mean(np.concatenate(errors[2:]))
    np.testing.assert_allclose(model._coef_std(), np.sqrt(noise * variances(np.eye(D), rows.T @ rows, ALPHA)))


@pytest.mark.parametrize("kind", ["joint", "default"])
def test_deviations_are_in_the_units_of_the_user(rng, kind):
    """Of standardized columns they scale as the coefficients do; features that have not varied have none."""
    models = [fl.JointRidge(ALPHA, fit_intercept=True, standardize=True) for _ in "ab"]
    if kind == "default":
        models = [fl.ContinualRidge() for _ in "ab"]
    for X, y in stream(rng):
        for scale, model in zip((1.0, 10.0), models, strict=True):
            model.partial_fit(np.column_stack([X * scale, np.ones(len(X))]), y)
    one, ten = (model._coef_std() for model in models)
    np.testing.assert_allclose(ten[:D], one[:D] / 10.0, rtol=1e-6)
    assert np.all(one[:D] > 0)
    assert np.isnan([one[D], ten[D]]).all()


def test_no_deviations_where_nothing_is_remembered_or_of_very_many_features(rng):
    X, y = next(stream(rng, 1))
    assert fl.ContinualRidge(ALPHA).partial_fit(X, y)._coef_std() is None
    with pytest.raises(ValueError, match="return_std needs a single target"):
        fl.ContinualRidge(ALPHA).partial_fit(X, X).predict(X, return_std=True)
    for d, exists in ((5000, True), (5001, False)):
        model = fl.ContinualRidge(ALPHA, memory=1).partial_fit(rng.standard_normal((1, d)), np.ones(1))
        assert (model._coef_std() is not None) == exists
