"""``StreamingRidge``: what it computes, and on what it does not depend."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import Ridge
from sklearn.preprocessing import StandardScaler

import forgetless as fl
from support.streams import cut, learned, linear

STRENGTHS = 10.0 ** np.arange(-2.0, 5.01, 0.5)
"""Among which the evidence chooses."""


# --- what it computes ---


@pytest.mark.parametrize("targets", [(), (2,)])
@pytest.mark.parametrize("d", [8, 12])
def test_it_is_ridge_on_standardized_columns_in_any_units(d, targets):
    X, y = linear(200, d, targets=targets)
    X = X * 10.0 ** np.linspace(-8, 8, d) + 1e3 * 10.0 ** np.linspace(-8, 8, d)
    model = learned(fl.StreamingRidge(2.0), cut(X, y, [30] * 6 + [20]))
    scaler = StandardScaler().fit(X)
    reference = Ridge(2.0).fit(scaler.transform(X), y)
    np.testing.assert_allclose(model.predict(X), reference.predict(scaler.transform(X)), rtol=1e-6)
    assert model.alpha_ == 2.0


@pytest.mark.parametrize("intercept", [True, False])
def test_without_standardization_it_is_joint_ridge(intercept):
    X, y = linear(60, 5)
    model = learned(fl.StreamingRidge(0.5, standardize=False, fit_intercept=intercept), cut(X, y, [7, 13, 40]))
    reference = Ridge(0.5, fit_intercept=intercept).fit(X, y)
    np.testing.assert_allclose(model.coef_, reference.coef_, rtol=1e-9)
    assert model.intercept_ == pytest.approx(reference.intercept_)


def evidence(X, y, intercept):
    """λ of the largest density of the targets, a Student density, with the level, if any, and log σ flat; and σ²,
    the larger one of the mean of its posterior and of the residuals over the degrees of freedom that are left.
    """
    n = len(y)
    Z = StandardScaler().fit_transform(X) if intercept else X / np.sqrt(np.mean(X**2, axis=0))
    basis = np.linalg.svd(np.eye(n) - 1 / n)[0][:, : n - 1] if intercept else np.eye(n)  # y without its mean
    rest = basis.T @ y
    K = [basis.T @ (np.eye(n) + Z @ Z.T / strength) @ basis for strength in STRENGTHS]
    minima = np.array([rest @ np.linalg.solve(each, rest) for each in K])
    costs = len(rest) * np.log(minima) + [np.linalg.slogdet(each)[1] for each in K]
    best, posterior = np.argmin(costs), np.exp(-0.5 * (costs - costs.min()))
    residual = np.linalg.solve(K[best], rest)
    left = max(np.trace(np.linalg.inv(K[best])), 0.05 * n)
    noise = max(posterior @ minima / posterior.sum() / max(len(rest) - 2, 1), residual @ residual / left)
    return STRENGTHS[best], noise


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize(("n", "noise"), [(3, 1.0), (5, 1.0), (12, 1.0), (40, 1.0), (40, 1e-3)])
def test_the_strength_has_the_largest_evidence(n, noise, intercept):
    for seed in range(10):
        X, y = linear(n, 7, seed, noise=noise)
        model = fl.StreamingRidge(fit_intercept=intercept, guard=None).fit(X, y)
        strength, variance = evidence(X, y, intercept)
        assert model.alpha_ == strength
        at = X.mean(axis=0, keepdims=True) * intercept
        assert model.predict(at, return_std=True)[1] ** 2 == pytest.approx(variance * (1 + intercept / n))
        # A target that does not vary says nothing.
        if intercept:
            assert fl.StreamingRidge().fit(X, np.column_stack([y, np.ones(n)])).alpha_ == model.alpha_


def test_two_rows_do_not_decide_a_strength_by_rounding():
    """With one degree of freedom every λ explains the targets equally well: the largest is taken."""
    rng = np.random.default_rng(3)
    for _ in range(30):
        model = fl.StreamingRidge().partial_fit(rng.standard_normal((2, 3)), rng.standard_normal(2))
        assert model.alpha_ == STRENGTHS[-1]
        light = fl.StreamingRidge().fit(rng.standard_normal((4, 3)), rng.standard_normal(4), None, np.ones(4) / 5)
        assert light.alpha_ == STRENGTHS[-1]  # less than one row


def test_fewer_rows_than_features_and_vectors_without_a_loss():
    tasks = cut(*linear(15, 40), [8, 7])
    for alpha in (1.0, None):
        fits = [learned(fl.StreamingRidge(alpha, rank=rank), tasks).coef_ for rank in (None, 30)]
        np.testing.assert_allclose(*fits, rtol=1e-8, atol=1e-12)
    assert learned(fl.StreamingRidge(rank=30), tasks).retained_fraction_ == 1.0
    # Nor do units matter without standardization, where the penalty has them.
    models = [fl.StreamingRidge(unit**2, rank=30, standardize=False) for unit in (1.0, 1e-8)]
    large, small = (model.fit(model.alpha**0.5 * tasks[0][0], tasks[0][1]).coef_ for model in models)
    np.testing.assert_allclose(1e-8 * small, large, rtol=1e-8)


def test_a_bounded_memory_keeps_the_variance_of_every_column():
    rng = np.random.default_rng(0)
    X = 1e-3 * rng.standard_normal((400, 60)) / np.arange(1.0, 61.0)
    tasks = cut(X, X @ np.ones(60) + 0.1 * rng.standard_normal(400), [20] * 20)
    exact = learned(fl.StreamingRidge(), tasks)
    assert exact.retained_fraction_ == 1.0
    errors = []
    for rank in (5, 20, 60):
        model = learned(fl.StreamingRidge(rank=rank), tasks)
        np.testing.assert_allclose(model.rows_.gram.diagonal, exact.rows_.gram.diagonal, rtol=1e-8)
        assert (0 < model.retained_fraction_ < 1) == (rank < 60)
        kept = 1.0 if rank == 60 else np.sum(model.rows_.gram.vectors**2) / exact.rows_.gram.diagonal.sum()
        assert model.retained_fraction_ == pytest.approx(kept)
        errors.append(np.mean((model.predict(X) - exact.predict(X)) ** 2))
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 1e-20


def test_tasks_beyond_the_rank_that_are_too_large_are_learned_in_parts():
    X, y = linear(360_000, 24)  # 69 MB
    whole = fl.StreamingRidge(1.0).partial_fit(X, y)
    parts = fl.StreamingRidge(1.0, rank=23).partial_fit(X, y)
    np.testing.assert_allclose(parts.coef_, whole.coef_, atol=0.05)
    assert parts.rows_.n == 360_000


def test_constant_and_distant_columns():
    X, y = linear(100, 3)
    X = np.column_stack([X, np.full(100, 1e9), 1e9 + X[:, 0]])
    model = learned(fl.StreamingRidge(), cut(X, y, [10] * 10))
    assert model.coef_[3] == 0.0
    assert np.abs(model.predict(X) - y).max() < 0.5
    model.partial_fit(X[:1] + 0.5, y[:1])  # the constant column varies now
    assert np.isfinite(model.coef_).all()


# --- on what it does not depend ---


@pytest.mark.parametrize("d", [3, 40])
@pytest.mark.parametrize("sizes", [[1] * 120, [120], [50, 1, 1, 68], [2, 3, 5, 10, 100]], ids=str)
def test_cuts_and_orders_of_rows_change_nothing(d, sizes, rng):
    X, y = linear(120, d, noise=1.0)
    whole = fl.StreamingRidge().fit(X, y)
    for order in (np.arange(120), np.arange(120)[::-1], rng.permutation(120)):
        model = learned(fl.StreamingRidge(), cut(X[order], y[order], sizes))
        assert model.alpha_ == whole.alpha_
        np.testing.assert_allclose(model.coef_, whole.coef_, rtol=1e-10, atol=1e-13)
        np.testing.assert_allclose(model.intercept_, whole.intercept_, rtol=1e-10)


@pytest.mark.parametrize("adaptive", [False, True])
@pytest.mark.parametrize("factor", [1e-120, 1e-8, 1e8, 1e120])
def test_units_of_a_column_and_of_the_target_change_nothing(factor, adaptive):
    tasks = cut(*linear(60, 3), [20, 20, 20])
    scale = np.array([1.0, factor, 1.0])
    plain, rescaled, larger, moved = (
        learned(fl.StreamingRidge(adaptive=adaptive), [(A * a, b * c + level) for A, b in tasks])
        for a, c, level in ((1.0, 1.0, 0.0), (scale, 1.0, 0.0), (1.0, factor, 0.0), (1.0, 1.0, 1000.0))
    )
    np.testing.assert_allclose(rescaled.coef_ * scale, plain.coef_, rtol=1e-8)
    np.testing.assert_allclose(larger.coef_ / factor, plain.coef_, rtol=1e-8)
    np.testing.assert_allclose(moved.coef_, plain.coef_, rtol=1e-7)


@pytest.mark.parametrize("factors", [(1e150, 1.0), (1.0, 1e150)])
def test_too_large_numbers_are_refused_also_in_a_row_that_would_wait(factors):
    X, y = linear(1000, 2)
    model = fl.StreamingRidge().fit(X, y)
    for n in (1, 1000):
        with pytest.raises(OverflowError, match="rescale"):
            model.partial_fit(X[:n] * factors[0], y[:n] * factors[1])
    assert model.rows_.n == 1000


def test_rows_of_lower_precision_are_learned_in_double_precision():
    X, y = (part.astype(np.float32) for part in linear(200, 20, noise=1.0))
    narrow, wide = fl.StreamingRidge().fit(X, y), fl.StreamingRidge().fit(X.astype(float), y.astype(float))
    assert narrow.alpha_ == wide.alpha_
    np.testing.assert_allclose(narrow.coef_, wide.coef_, rtol=1e-12)


def test_very_wide_sparse_rows_are_sent_to_another_class():
    X = sparse.random(2, 20_001, density=1e-3, format="csr", random_state=0)
    with pytest.raises(ValueError, match=r"20,001 sparse features.*use ContinualRidge\(alpha\)"):
        fl.StreamingRidge().partial_fit(X, np.ones(2))
    for model in (fl.ContinualRidge(1.0), fl.StreamingRidge(1.0)):
        assert model.partial_fit(X[:, :-1], np.ones(2)).coef_.shape == (20_000,)


def test_rows_that_wait_and_reading_in_between_change_nothing():
    X, y = linear(3000, 6, noise=1.0)
    quiet, read = (fl.StreamingRidge().partial_fit(X[:1000], y[:1000]) for _ in range(2))
    for A, b in cut(X[1000:], y[1000:], [1] * 2000):
        quiet.partial_fit(A, b)
        read.partial_fit(A, b).predict(A)
    all_rows = fl.StreamingRidge().fit(X, y)
    for model in (quiet, read, pickle.loads(pickle.dumps(quiet))):
        assert (model.rows_.n, model.n_tasks_seen_) == (3000, 2001)
        np.testing.assert_allclose(model.coef_, all_rows.coef_, rtol=1e-9)


JUDGED = [(20, 3, 9, [0, 9, 18]), (1000, 3, 9, [0, 0, 18]), (200, 160, 9, [0, 0, 18]), (50, 160, 9, [0, 9, 18])]
JUDGED += [(1000, 3, 10, [0, 10, 10]), (200, 160, 10, [0, 10, 20])]


@pytest.mark.parametrize(("first", "d", "size", "solved"), JUDGED)
def test_a_task_is_judged_by_a_solution_that_may_lack_few_rows(first, d, size, solved):
    """Less than 1 % of all rows, or than d/16 if that is more, but never 10 %."""
    X, y = linear(first + 3 * size, d, noise=1.0)
    errors = []
    for start, known in zip(range(first, len(y), size), solved, strict=True):
        judge, new = fl.StreamingRidge(1.0).fit(X[: first + known], y[: first + known]), slice(start, start + size)
        errors.append((judge.predict(X[new]) - y[new]) ** 2)
    model = learned(fl.StreamingRidge(1.0), cut(X, y, [first] + [size] * 3))
    assert model.prequential_mse_ == pytest.approx(np.mean(errors))


def test_nearly_parallel_columns_beside_few_directions_are_not_worse_than_the_mean():
    """A hundred strong directions in 600 columns, and a weak one, x₁ − x₀, on which the target depends."""
    rng = np.random.default_rng(1)
    directions, tasks = rng.standard_normal((100, 600)), []
    for _ in range(8):
        X, weak = rng.standard_normal((300, 100)) @ directions, rng.standard_normal(300)
        X[:, 1] = X[:, 0] + 0.02 * X[:, 0].std() * weak
        tasks.append((X, weak + 0.5 * rng.standard_normal(300)))
    model, (last, y) = fl.StreamingRidge(), tasks.pop()
    for task in tasks:
        error = np.mean((model.partial_fit(*task).predict(last) - y) ** 2)
        assert error < 1.1 * np.var(y)
    assert len(model.rows_.gram.vectors) == 100  # and up to 500 features a matrix
    grams = [fl.rows_of(last[:n, :d], y[:n]).gram for n, d in ((250, 500), (249, 500), (300, 501))]
    assert [hasattr(gram, "matrix") for gram in grams] == [True, False, False]  # of few rows these are less
    assert [hasattr(fl.StreamingRidge(1.0).fit(last[:, :d], y).rows_.gram, "matrix") for d in (500, 501)] == [1, 0]


def test_rows_that_wait_are_copies():
    X, y = linear(1000, 6)
    model, x = fl.StreamingRidge().partial_fit(X, y), X[:1].copy()
    model.partial_fit(x, y[:1])
    x[:] = 1e9
    assert model.rows_.high.max() < 10


@pytest.mark.parametrize(("d", "rank"), [(4, None), (40, 30)])
def test_another_strength_may_be_set_at_any_time(d, rank):
    X, y = linear(20, d)
    model = fl.StreamingRidge(1e4, rank=rank).fit(X, y)
    for alpha in (None, 3.0, 0.1, None):
        expected = fl.StreamingRidge(alpha, rank=rank).fit(X, y)
        np.testing.assert_allclose(model.set_params(alpha=alpha).coef_, expected.coef_, rtol=1e-10)
