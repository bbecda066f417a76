"""``StreamingRidge``: what it computes, on what it does not depend, and what it says about its errors."""

import pickle

import numpy as np
import pandas
import pytest
from scipy import sparse
from scipy.stats import norm
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.preprocessing import StandardScaler

import forgetless as fl
from forgetless.estimators.systems import STRENGTHS
from golden.inputs import stream
from support.streams import learned


def data(n, d, seed=0, noise=0.1, targets=()):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, X @ rng.standard_normal((d, *targets)) + noise * rng.standard_normal((n, *targets)) + 3.0


def cut(X, y, sizes):
    places = np.cumsum(sizes)[:-1]
    return list(zip(np.split(X, places), np.split(y, places), strict=True))


# --- what it computes ---


@pytest.mark.parametrize("targets", [(), (2,)])
@pytest.mark.parametrize("d", [8, 12])
def test_it_is_ridge_on_standardized_columns_in_any_units(d, targets):
    X, y = data(200, d, targets=targets)
    X = X * 10.0 ** np.linspace(-8, 8, d) + 1e3 * 10.0 ** np.linspace(-8, 8, d)
    model = learned(fl.StreamingRidge(2.0), cut(X, y, [30] * 6 + [20]))
    scaler = StandardScaler().fit(X)
    reference = Ridge(2.0).fit(scaler.transform(X), y)
    np.testing.assert_allclose(model.predict(X), reference.predict(scaler.transform(X)), rtol=1e-6)
    assert model.alpha_ == 2.0


@pytest.mark.parametrize("intercept", [True, False])
def test_without_standardization_it_is_joint_ridge(intercept):
    X, y = data(60, 5)
    model = learned(fl.StreamingRidge(0.5, standardize=False, fit_intercept=intercept), cut(X, y, [7, 13, 40]))
    reference = Ridge(0.5, fit_intercept=intercept).fit(X, y)
    np.testing.assert_allclose(model.coef_, reference.coef_, rtol=1e-9)
    assert model.intercept_ == pytest.approx(reference.intercept_)


def test_joint_ridge_is_recursive_least_squares():
    X, y = data(50, 4)
    model, W, P = fl.StreamingRidge(1.0, standardize=False, fit_intercept=False, guard=None), np.zeros(4), np.eye(4)
    for x, target in zip(X, y, strict=True):
        model.partial_fit(x[None], [target])
        gain = P @ x / (1 + x @ P @ x)
        W, P = W + gain * (target - x @ W), P - np.outer(gain, P @ x)
        np.testing.assert_allclose(model.coef_, W, rtol=1e-8, atol=1e-12)


def test_fewer_rows_than_features_and_vectors_without_a_loss():
    X, y = data(15, 40)
    tasks = cut(X, y, [8, 7])
    for alpha in (1.0, None):
        fits = [learned(fl.StreamingRidge(alpha, rank=rank), tasks).coef_ for rank in (None, 30)]
        np.testing.assert_allclose(*fits, rtol=1e-8, atol=1e-12)
    assert learned(fl.StreamingRidge(rank=30), tasks).retained_fraction_ == 1.0


def test_a_bounded_memory_keeps_the_variance_of_every_column():
    rng = np.random.default_rng(0)
    size = np.arange(1.0, 61.0) ** -1
    tasks = [
        (X := rng.standard_normal((20, 60)) * size, X @ np.ones(60) + 0.1 * rng.standard_normal(20)) for _ in range(20)
    ]
    exact = learned(fl.StreamingRidge(), tasks)
    errors = []
    for rank in (5, 20, 60):
        model = learned(fl.StreamingRidge(rank=rank), tasks)
        np.testing.assert_allclose(model.rows_.gram.diagonal, exact.rows_.gram.diagonal, rtol=1e-8)
        assert rank == 60 or len(model.rows_.gram.vectors) == rank
        errors.append(np.mean((model.predict(tasks[0][0]) - exact.predict(tasks[0][0])) ** 2))
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 1e-20
    assert 0 < learned(fl.StreamingRidge(rank=5), tasks).retained_fraction_ < 1


def test_tall_tasks_beyond_the_rank_are_learned_in_blocks(monkeypatch):
    X, y = data(300, 12)
    whole = fl.StreamingRidge(1.0).partial_fit(X, y)
    monkeypatch.setattr("forgetless.estimators.memory.CHUNK", 12 * 8 * 40)
    parts = fl.StreamingRidge(1.0, rank=11).partial_fit(X, y)
    np.testing.assert_allclose(parts.predict(X), whole.predict(X), atol=0.05)


def test_constant_and_distant_columns():
    X, y = data(100, 3)
    X = np.column_stack([X, np.full(100, 1e9), 1e9 + X[:, 0]])
    model = learned(fl.StreamingRidge(), cut(X, y, [10] * 10))
    assert model.coef_[3] == 0.0
    assert np.abs(model.predict(X) - y).max() < 0.5
    model.partial_fit(X[:1] + 0.5, y[:1])  # the constant column varies now
    assert np.isfinite(model.coef_).all()


def test_golden_ridge():
    """The default on the golden stream: λ by enumerating the density of the targets, weights by Ridge."""
    tasks = list(stream())
    X, y = np.concatenate([A for A, _ in tasks]), np.concatenate([b for _, b in tasks])
    n = len(y)
    Z = StandardScaler().fit_transform(X)
    basis = np.linalg.svd(np.eye(n) - 1 / n)[0][:, : n - 1]  # what is left of y without its mean

    def minus_two_log(strength):
        K = basis.T @ (np.eye(n) + Z @ Z.T / strength) @ basis
        rest = basis.T @ y
        return (n - 1) * np.log(rest @ np.linalg.solve(K, rest)) + np.linalg.slogdet(K)[1]

    model = learned(fl.StreamingRidge(), tasks)
    assert model.alpha_ == STRENGTHS[np.argmin([minus_two_log(strength) for strength in STRENGTHS])]
    np.testing.assert_allclose(model.predict(X), Ridge(model.alpha_).fit(Z, y).predict(Z), rtol=1e-9)


# --- on what it does not depend ---


ORDERS = ["as they are", "reversed", "random"]


@pytest.mark.parametrize("d", [3, 40])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    "sizes", [[1] * 120, [120], [50, 1, 1, 68], [2, 3, 5, 10, 100]], ids=lambda s: f"{len(s)} tasks"
)
def test_cuts_and_orders_of_rows_change_nothing(d, order, sizes):
    X, y = data(120, d, noise=1.0)
    at = {"as they are": np.arange(120), "reversed": np.arange(120)[::-1]}.get(
        order, np.random.default_rng(1).permutation(120)
    )
    model = learned(fl.StreamingRidge(), cut(X[at], y[at], sizes))
    whole = fl.StreamingRidge().fit(X, y)
    assert model.alpha_ == whole.alpha_
    np.testing.assert_allclose(model.coef_, whole.coef_, rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(model.intercept_, whole.intercept_, rtol=1e-10)
    # The noise of a stream comes from its tasks, that of the solution does not.
    np.testing.assert_allclose(
        model.rows_.noise(model.rows_.by_evidence()), whole.rows_.noise(whole.rows_.by_evidence()), rtol=1e-10
    )


@pytest.mark.parametrize("adaptive", [False, True])
@pytest.mark.parametrize("factor", [1e-120, 1e-8, 1e8, 1e120])
def test_units_change_nothing(factor, adaptive):
    X, y = data(60, 3)
    scale = np.array([1.0, factor, 1.0])
    tasks = cut(X, y, [20, 20, 20])
    plain = learned(fl.StreamingRidge(adaptive=adaptive), tasks)
    rescaled = learned(fl.StreamingRidge(adaptive=adaptive), [(A * scale, b) for A, b in tasks])
    np.testing.assert_allclose(rescaled.predict(X * scale), plain.predict(X), rtol=1e-8)
    larger = learned(fl.StreamingRidge(adaptive=adaptive), [(A, b * factor) for A, b in tasks])
    np.testing.assert_allclose(larger.coef_ / factor, plain.coef_, rtol=1e-8)
    moved = learned(fl.StreamingRidge(adaptive=adaptive), [(A + 5.0, b + 1000.0) for A, b in tasks])
    np.testing.assert_allclose(moved.coef_, plain.coef_, rtol=1e-7)


@pytest.mark.parametrize("factors", [(1e150, 1.0), (1.0, 1e150)])
def test_too_large_numbers_are_refused_also_in_a_row_that_would_wait(factors):
    X, y = data(1000, 2)
    model = fl.StreamingRidge().fit(X, y)
    for n in (1, 1000):
        with pytest.raises(OverflowError, match="rescale"):
            model.partial_fit(X[:n] * factors[0], y[:n] * factors[1])
    assert model.rows_.n == 1000


def test_the_sum_of_a_generator_is_that_of_a_list():
    X, y = data(100, 4, noise=1.0)
    blocks = cut(X, y, [10] * 10)
    from_list = sum([fl.rows_of(A, b) for A, b in blocks])
    from_generator = sum(fl.rows_of(A, b) for A, b in iter(blocks))
    models = [fl.StreamingRidge().partial_fit_rows(rows) for rows in (from_list, from_generator)]
    np.testing.assert_array_equal(models[0].coef_, models[1].coef_)
    np.testing.assert_allclose(models[0].coef_, fl.StreamingRidge().fit(X, y).coef_, rtol=1e-10)


@pytest.mark.parametrize("adaptive", [False, True])
def test_weights_are_repeated_rows_also_in_the_standard_deviation(adaptive):
    X, y = data(40, 3, noise=1.0)
    counts = np.random.default_rng(2).integers(1, 5, 40)
    weighted, repeated = (fl.StreamingRidge(adaptive=adaptive) for _ in range(2))
    for part in np.split(np.arange(40), 4):
        weighted.partial_fit(X[part], y[part], counts[part])
        again = np.repeat(part, counts[part])
        repeated.partial_fit(X[again], y[again])
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-9)
    assert weighted.prequential_mse_ == pytest.approx(repeated.prequential_mse_)
    for one, other in zip(weighted.predict(X, return_std=True), repeated.predict(X, return_std=True), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)


def test_rows_of_weight_zero_are_not_counted():
    X, y = data(40, 3)
    y[::2] = 1e6
    weight = np.tile([0.0, 1.0], 20)
    model = fl.StreamingRidge().partial_fit(X, y, weight)
    plain = fl.StreamingRidge().partial_fit(X[1::2], y[1::2])
    assert model.rows_.n == 20
    np.testing.assert_allclose(model.coef_, plain.coef_, rtol=1e-12)
    np.testing.assert_array_equal(model.rows_.high, plain.rows_.high)


def test_rows_of_lower_precision_choose_the_same_strength():
    X, y = data(200, 20, noise=1.0)
    X, y = X.astype(np.float32), y.astype(np.float32)
    narrow, wide = fl.StreamingRidge().fit(X, y), fl.StreamingRidge().fit(X.astype(float), y.astype(float))
    assert narrow.alpha_ == wide.alpha_
    np.testing.assert_allclose(narrow.coef_, wide.coef_, rtol=1e-12)


def test_two_rows_in_the_first_task():
    rng = np.random.default_rng(3)
    found = {
        fl.StreamingRidge().partial_fit(rng.standard_normal((2, 3)), rng.standard_normal(2)).alpha_ for _ in range(30)
    }
    assert found == {STRENGTHS[-1]}


@pytest.mark.parametrize("rank", [None, 3])
def test_sparse_rows_are_dense_rows(rank):
    rng = np.random.default_rng(4)
    X = rng.standard_normal((60, 8)) * (rng.random((60, 8)) < 0.3)
    y = X @ np.ones(8) + 0.1 * rng.standard_normal(60)
    tasks = cut(X, y, [30, 30])
    dense = learned(fl.StreamingRidge(1.0, rank=rank), tasks)
    found = learned(fl.StreamingRidge(1.0, rank=rank), [(sparse.csc_matrix(A), b) for A, b in tasks])
    np.testing.assert_allclose(found.coef_, dense.coef_, rtol=1e-8)
    for A in (X, 9 * X):  # inside and outside of the range
        for one, other in zip(
            found.predict(sparse.csr_array(A), return_std=True), dense.predict(A, return_std=True), strict=True
        ):
            np.testing.assert_allclose(one, other, rtol=1e-8)


def test_zeros_of_sparse_rows_are_held_too_where_none_was_seen():
    X, y = data(50, 2)
    model = fl.StreamingRidge().fit(X + 100.0, y)
    new = np.array([[0.0, 100.0], [100.0, 0.0]])
    np.testing.assert_allclose(model.predict(sparse.csr_array(new)), model.predict(new), rtol=1e-12)


def test_very_wide_sparse_rows_are_sent_to_another_class():
    X = sparse.random(20, 10**6, density=1e-5, format="csr", random_state=0)
    with pytest.raises(ValueError, match=r"1,000,000 sparse features.*use ContinualRidge\(alpha\)"):
        fl.StreamingRidge().partial_fit(X, np.ones(20))
    assert fl.ContinualRidge(1.0).partial_fit(X, np.ones(20)).coef_.shape == (10**6,)


def test_waiting_rows_change_nothing():
    X, y = data(3000, 6)
    one = fl.StreamingRidge().partial_fit(X[:1000], y[:1000])
    for i in range(1000, 3000):
        one.partial_fit(X[i : i + 1], y[i : i + 1])
    all_rows = fl.StreamingRidge().fit(X, y)
    assert one.n_tasks_seen_ == 2001
    np.testing.assert_allclose(one.coef_, all_rows.coef_, rtol=1e-9)
    assert one.rows_.n == 3000
    again = pickle.loads(pickle.dumps(one))
    np.testing.assert_array_equal(again.coef_, one.coef_)
    # Rows that wait are copies.
    x = X[:1].copy()
    fresh = pickle.loads(pickle.dumps(all_rows)).partial_fit(x, y[:1])
    x[:] = 1e9
    assert fresh.rows_.high.max() < 10


def test_reading_in_between_changes_nothing():
    X, y = data(600, 6, noise=1.0)
    quiet, read = fl.StreamingRidge(), fl.StreamingRidge()
    for A, b in cut(X, y, [100] + [1] * 500):
        quiet.partial_fit(A, b)
        read.partial_fit(A, b).predict(A)
    np.testing.assert_allclose(read.coef_, quiet.coef_, rtol=1e-11)


def test_another_strength_may_be_set_at_any_time():
    X, y = data(50, 4)
    model = fl.StreamingRidge().fit(X, y)
    for alpha in (3.0, 0.1, None):
        np.testing.assert_allclose(
            model.set_params(alpha=alpha).coef_, fl.StreamingRidge(alpha).fit(X, y).coef_, rtol=1e-10
        )


# --- predictions ---


def test_features_are_held_near_the_range_seen():
    X, y = data(40, 3)
    model = fl.StreamingRidge().partial_fit(X, np.column_stack([y, -y]))
    assert model.coef_.shape == (2, 3)
    np.testing.assert_allclose(model.predict(X)[:, 0], -model.predict(X)[:, 1])
    width = X[:, 0].max() - X[:, 0].min()
    at_the_edge = model.predict([[X[:, 0].max() + width, 0.0, 0.0]])
    np.testing.assert_allclose(model.predict([[1e6, 0.0, 0.0]]), at_the_edge)
    free = clone(model).set_params(guard=None).fit(X, y)
    assert np.abs(free.predict([[1e6, 0.0, 0.0]])).max() > 1e3
    np.testing.assert_allclose(free.predict(X), model.predict(X)[:, 0])


def test_many_rows_are_predicted_as_few():
    X, y = data(200_000, 3)
    model = fl.StreamingRidge().fit(X[:100], y[:100])
    X[::7] *= 100
    few = np.concatenate([model.predict(part) for part in np.split(X, 100)])
    np.testing.assert_allclose(model.predict(X), few, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(model.predict(np.asfortranarray(X)), few, rtol=1e-12, atol=1e-12)
    for bad in (np.nan, np.inf):
        Z = X.copy()
        Z[150_000, 1] = bad
        with pytest.raises(ValueError, match=r"NaN|infinity"):
            model.predict(Z)


def coverage(make, shape, tasks, new, seed):
    rng = np.random.default_rng(seed)
    inside = []
    n, d = shape
    for _ in range(new):
        w, noise = rng.standard_normal(d), 0.5
        model = make()
        for _ in range(tasks):
            X = rng.standard_normal((n, d))
            model.partial_fit(X, X @ w + noise * rng.standard_normal(n))
        X = rng.standard_normal((20, d))
        mean, std = model.predict(X, return_std=True)
        inside.append(np.mean(np.abs(X @ w + noise * rng.standard_normal(20) - mean) < norm.ppf(0.975) * std))
    return np.mean(inside)


@pytest.mark.parametrize("adaptive", [False, True])
@pytest.mark.parametrize("shape", [(5, 10), (10, 10), (30, 5), (8, 3), (15, 12)], ids=str)
@pytest.mark.parametrize("tasks", [1, 2, 5])
def test_intervals_cover_also_after_one_task(shape, tasks, adaptive):
    assert coverage(lambda: fl.StreamingRidge(adaptive=adaptive), shape, tasks, 60, 0) >= 0.9


def test_intervals_are_not_much_too_wide():
    found = coverage(fl.StreamingRidge, (100, 5), 3, 60, 1)
    assert 0.93 < found < 0.98


def test_standard_errors_are_those_of_least_squares_where_the_penalty_is_small():
    X, y = data(200, 4, noise=1.0)
    model = fl.StreamingRidge(1e-8).fit(X, y)
    A = np.column_stack([np.ones(200), X])
    gap = y - A @ np.linalg.lstsq(A, y, rcond=None)[0]
    covariance = np.linalg.inv(A.T @ A) * (gap @ gap) / (200 - 5)
    np.testing.assert_allclose(model.coefficients().columns["±"], np.sqrt(np.diag(covariance)[1:]), rtol=1e-5)
    np.testing.assert_allclose(model.coefficients().columns["coefficient"], model.coef_)


def test_coefficients_say_which_have_no_standard_error():
    X, y = data(30, 2)
    frame = pandas.DataFrame(np.column_stack([X, np.ones(30)]), columns=["a", "b", "constant"])
    table = fl.StreamingRidge().fit(frame, y).coefficients()
    assert table.columns["feature"] == ["a", "b", "constant"]
    assert np.isnan(table.columns["±"]).tolist() == [False, False, True]
    np.testing.assert_allclose(table.columns["scale"], [*X.std(axis=0), 0.0])
    assert "±" not in fl.StreamingRidge(adaptive=True).fit(X, y).coefficients().columns
    assert "±" not in fl.StreamingRidge().fit(X, np.column_stack([y, y])).coefficients().columns


def test_a_model_of_scikit_learn_predicts_the_same_inside_the_range():
    X, y = data(30, 3, targets=(2,))
    for targets in (y, y[:, 0]):
        model = fl.StreamingRidge().fit(X, targets)
        np.testing.assert_allclose(model.to_sklearn().predict(X), model.predict(X), rtol=1e-12)


def test_prequential_errors_are_those_of_predictions():
    X, y = data(100, 3, noise=1.0)
    model, errors = fl.StreamingRidge(2.0), []
    for A, b in cut(X, y, [20, 30, 50]):  # each larger than what may be missing in a solution
        if errors or model.__sklearn_is_fitted__():
            errors.append((model.predict(A) - b) ** 2)
        model.partial_fit(A, b)
    assert model.prequential_mse_ == pytest.approx(np.concatenate(errors).mean())


# --- forgetting ---


def drifting(rng, n_tasks, step=0.2):
    w = np.zeros(10)
    for _ in range(n_tasks):
        w = w + step * rng.standard_normal(10)
        X = rng.standard_normal((5, 10))
        yield X, X @ w + 0.3 * rng.standard_normal(5)


@pytest.mark.parametrize(("alpha", "rank"), [(None, None), (None, 9), (1.0, None)])
def test_adaptive_follows_a_drift_and_the_default_does_not(alpha, rank):
    tasks = list(drifting(np.random.default_rng(3), 150))
    models = [learned(fl.StreamingRidge(alpha, adaptive=adaptive, rank=rank), tasks) for adaptive in (True, False)]
    assert models[0].prequential_mse_ < (0.3 if rank is None else 0.6) * models[1].prequential_mse_


def test_adaptive_costs_little_where_nothing_drifts():
    X, y = data(300, 5, noise=1.0)
    models = [learned(fl.StreamingRidge(adaptive=adaptive), cut(X, y, [10] * 30)) for adaptive in (True, False)]
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


def test_statistics_must_fit_the_model():
    rows = fl.rows_of(np.eye(3), np.ones(3))
    with pytest.raises(TypeError, match="rows_of"):
        fl.StreamingRidge().partial_fit_rows(np.eye(3))
    with pytest.raises(ValueError, match="center=False"):
        fl.StreamingRidge(1.0, fit_intercept=False).partial_fit_rows(rows)
    with pytest.raises(ValueError, match=r"rows have \(3, 1\) features and targets, the tasks before \(2, 1\)"):
        fl.StreamingRidge().fit(np.eye(2), np.ones(2)).partial_fit_rows(rows)


# --- features that come later ---


@pytest.mark.parametrize(("adaptive", "rank", "tol"), [(False, None, 1e-8), (True, None, 1e-8), (False, 4, 1e-2)])
def test_widened_models_are_those_of_columns_that_were_zero(adaptive, rank, tol):
    X, y = data(60, 4)
    wide = np.column_stack([X, np.zeros(60), np.zeros(60)])
    a, b = (fl.StreamingRidge(adaptive=adaptive, rank=rank).partial_fit(Z[:40], y[:40]) for Z in (X, wide))
    a.widen(2).partial_fit(wide[40:], y[40:])
    b.partial_fit(wide[40:], y[40:])
    np.testing.assert_allclose(a.predict(wide), b.predict(wide), rtol=tol)
    more = np.random.default_rng(9).standard_normal((20, 6))
    for model in (a, b):
        model.partial_fit(more, more.sum(axis=1))
    np.testing.assert_allclose(a.predict(more), b.predict(more), rtol=tol, atol=tol)


def test_widened_features_have_names_where_features_have():
    frame = pandas.DataFrame(data(20, 2)[0], columns=["a", "b"])
    model = fl.StreamingRidge().fit(frame, np.arange(20.0))
    with pytest.raises(ValueError, match="names"):
        model.widen(1)
    model.widen(1, ["c"]).partial_fit(frame.assign(c=1.0), np.arange(20.0))
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("parameters", "error", "words"),
    [
        ({"alpha": 0.0}, ValueError, "alpha must be positive"),
        ({"alpha": -1.0}, ValueError, "alpha must be nonnegative"),
        ({"alpha": "much"}, TypeError, "alpha must be a real number"),
        ({"rank": 0}, ValueError, "rank must be at least 1"),
        ({"guard": -1.0}, ValueError, "guard must be nonnegative"),
        ({"adaptive": "yes"}, TypeError, "adaptive must be True or False"),
        ({"fit_intercept": 1}, TypeError, "fit_intercept must be True or False"),
    ],
)
def test_parameters_are_checked(parameters, error, words):
    with pytest.raises(error, match=words):
        fl.StreamingRidge(**parameters).fit(np.eye(3), np.ones(3))
