"""``StreamingRidge``: predictions outside of what was seen, intervals, errors, and streams that drift."""

import numpy as np
import pandas
import pytest
from scipy import sparse
from scipy.stats import norm
from sklearn.base import clone

import forgetless as fl
from support.streams import cut, learned, linear, stream


def test_features_are_held_near_the_range_seen():
    X, y = linear(40, 3)
    model = fl.StreamingRidge().partial_fit(X, np.column_stack([y, -y]))
    np.testing.assert_allclose(model.predict(X)[:, 0], -model.predict(X)[:, 1])
    width = X[:, 0].max() - X[:, 0].min()
    at_the_edge = model.predict([[X[:, 0].max() + width, 0.0, 0.0]])
    np.testing.assert_allclose(model.predict([[1e6, 0.0, 0.0]]), at_the_edge)
    for classifier in (fl.StreamingRidgeClassifier(), fl.StreamingLogistic()):
        scores = classifier.fit(X, y > y.mean()).decision_function([[1e6, 0.0, 0.0], [X[:, 0].max() + width, 0.0, 0.0]])
        assert scores[0] == pytest.approx(scores[1])
    free = clone(model).set_params(guard=None).fit(X, y)
    assert np.abs(free.predict([[1e6, 0.0, 0.0]])).max() > 1e3
    np.testing.assert_allclose(free.predict(X), model.predict(X)[:, 0])


def test_zeros_of_sparse_rows_are_held_too_where_none_was_seen():
    X, y = linear(50, 2)
    model = fl.StreamingRidge().fit(X + 100.0, y)
    new = np.array([[0.0, 100.0], [100.0, 0.0]])
    np.testing.assert_allclose(model.predict(sparse.csr_array(new)), model.predict(new), rtol=1e-12)


def test_many_rows_are_predicted_as_few():
    X, y = linear(200_000, 3)
    model = fl.StreamingRidge().fit(X[:100], y[:100])
    X[::7] *= 100
    few = np.concatenate([model.predict(part) for part in np.split(X, 100)])
    for rows in (X, np.asfortranarray(X)):
        np.testing.assert_allclose(model.predict(rows), few, rtol=1e-12, atol=1e-12)
    for bad in (np.nan, np.inf):
        X[150_000, 1] = bad
        with pytest.raises(ValueError, match=r"NaN|infinity"):
            model.predict(X)


def coverage(shape, n_tasks, seed=0, **options):
    """The fraction of new targets within the 95 % intervals, over 60 streams."""
    rng = np.random.default_rng(seed)
    inside = []
    for _ in range(60):
        *tasks, (X, y) = stream(rng, n_tasks + 1, *shape, noise=0.5)
        mean, std = learned(fl.StreamingRidge(**options), tasks).predict(X, return_std=True)
        inside.append(np.abs(y - mean) < norm.ppf(0.975) * std)
    return np.mean(inside)


@pytest.mark.parametrize("adaptive", [False, True])
@pytest.mark.parametrize("shape", [(4, 12), (5, 10), (10, 10), (30, 5), (8, 3), (15, 12)], ids=str)
@pytest.mark.parametrize("n_tasks", [1, 2, 5])
def test_intervals_cover_also_after_one_task(shape, n_tasks, adaptive):
    assert coverage(shape, n_tasks, adaptive=adaptive) >= 0.9


def test_intervals_are_not_much_too_wide():
    assert 0.93 < coverage((100, 5), 3, seed=1) < 0.98


def test_standard_errors_are_those_of_least_squares_where_the_penalty_is_small():
    X, y = linear(200, 4, noise=1.0)
    model = fl.StreamingRidge(1e-8).fit(X, y)
    A = np.column_stack([np.ones(200), X])
    gap = y - A @ np.linalg.lstsq(A, y, rcond=None)[0]
    covariance = np.linalg.inv(A.T @ A) * (gap @ gap) / (200 - 5)
    np.testing.assert_allclose(model.coefficients().columns["±"], np.sqrt(np.diag(covariance)[1:]), rtol=1e-5)
    np.testing.assert_allclose(model.coefficients().columns["coefficient"], model.coef_)


def test_coefficients_say_which_have_no_standard_error():
    X, y = linear(30, 2)
    frame = pandas.DataFrame(np.column_stack([X, np.ones(30)]), columns=["a", "b", "constant"])
    table = fl.StreamingRidge().fit(frame, y).coefficients()
    assert np.isnan(table.columns["±"]).tolist() == [False, False, True]
    np.testing.assert_allclose(table.columns["scale"], [*X.std(axis=0), 0.0])
    assert "±" not in fl.StreamingRidge(adaptive=True).fit(X, y).coefficients().columns
    assert "±" not in fl.StreamingRidge().fit(X, np.column_stack([y, y])).coefficients().columns
    assert list(fl.ContinualRidge(1.0).fit(X, y).coefficients().columns) == ["feature", "coefficient"]


def drifting(rng, n_tasks, step=0.2, n=5, noise=0.3):
    w = np.zeros(10)
    for _ in range(n_tasks):
        w = w + step * rng.standard_normal(10)
        X = rng.standard_normal((n, 10))
        yield X, X @ w + noise * rng.standard_normal(n)


def test_intervals_say_what_late_tasks_were_mistaken_by():
    """At the mean of X: the errors of n_i rows before learning, weighted by (n_i/n)², and the level."""
    model, n, errors, rows = fl.StreamingRidge(1.0, guard=None), 0, 0.0, 0.0
    for X, y in drifting(np.random.default_rng(3), 30):
        if n:
            left = (n / (n + 5)) ** 2
            errors = left * errors + np.sum((model.predict(X)[:, 0] - y) ** 2)
            rows = left * rows + 5
        n += 5
        model.partial_fit(X, np.column_stack([y, -y]))
    std = model.predict(model.rows_.mean[None], return_std=True)[1]
    np.testing.assert_allclose(std**2, errors / rows * (1 + 1 / n))


@pytest.mark.parametrize(("alpha", "rank"), [(None, None), (None, 9), (1.0, None)])
def test_adaptive_follows_a_drift_and_the_default_does_not(alpha, rank):
    tasks = list(drifting(np.random.default_rng(3), 150))
    models = [learned(fl.StreamingRidge(alpha, adaptive=adaptive, rank=rank), tasks) for adaptive in (True, False)]
    assert models[0].prequential_mse_ < (0.3 if rank is None else 0.6) * models[1].prequential_mse_


def test_a_given_strength_does_not_shrink_memories_that_forget_again_and_again(rng):
    tasks = list(drifting(rng, 150, step=0.3, n=8, noise=1.0))
    chosen, given = (learned(fl.StreamingRidge(alpha, adaptive=True), tasks) for alpha in (None, 50.0))
    assert given.prequential_mse_ < 1.2 * chosen.prequential_mse_


def test_adaptive_costs_little_where_nothing_drifts():
    tasks = cut(*linear(300, 5, noise=1.0), [10] * 30)
    models = [learned(fl.StreamingRidge(adaptive=adaptive), tasks) for adaptive in (True, False)]
    assert models[0].prequential_mse_ < 1.05 * models[1].prequential_mse_


def test_adaptive_learns_statistics_of_rows_like_rows():
    tasks = list(drifting(np.random.default_rng(5), 30))
    plain = learned(fl.StreamingRidge(adaptive=True, guard=50.0), tasks)
    blocks = fl.StreamingRidge(adaptive=True, guard=50.0)
    for X, y in tasks:
        blocks.partial_fit_rows(sum(fl.rows_of(X[i : i + 2], y[i : i + 2]) for i in (0, 2, 4)))
    np.testing.assert_allclose(blocks.coef_, plain.coef_, rtol=1e-6)
    assert blocks.prequential_mse_ == pytest.approx(plain.prequential_mse_)
    with pytest.raises(ValueError, match="leave the range that guard allows"):
        blocks.partial_fit_rows(fl.rows_of(np.full((2, 10), 1e6), [0.0, 1.0]))
    assert blocks.set_params(guard=None).partial_fit_rows(fl.rows_of(np.full((2, 10), 1e6), [0.0, 1.0]))
