"""The statistic of rows: laws of a monoid, evidence as a density, what truncation and walks keep."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import forgetless as fl
from forgetless.estimators.linear import column_range
from forgetless.estimators.moments import Dense, LowRank
from forgetless.estimators.rows import Rows
from forgetless.estimators.systems import STRENGTHS

STORES = pytest.mark.parametrize("dense", [500, 2], ids=["matrix", "vectors"])


def data(n, d, seed=0, noise=0.1):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, X @ rng.standard_normal(d) + noise * rng.standard_normal(n) + 3.0


def assert_same(a, b, tol=1e-9):
    assert a.centered == b.centered
    np.testing.assert_allclose(a.n, b.n, rtol=tol)
    for name in ("mean", "target", "cross", "squares", "low", "high"):
        np.testing.assert_allclose(getattr(a, name), getattr(b, name), rtol=tol, atol=tol)
    identity = np.eye(len(a.mean))
    np.testing.assert_allclose(a.gram.dot(identity), b.gram.dot(identity), rtol=tol, atol=tol)


@STORES
@pytest.mark.parametrize("center", [True, False])
@given(seed=st.integers(0, 2**20), cuts=st.lists(st.integers(1, 39), min_size=2, max_size=2, unique=True))
def test_rows_are_a_commutative_monoid(dense, center, seed, cuts):
    rng = np.random.default_rng(seed)
    X, Y, w = rng.standard_normal((40, 5)) + 7, rng.standard_normal((40, 2)), rng.random(40) + 0.01
    blocks = np.split(np.arange(40), sorted(cuts))
    a, b, c = (Rows.of(X[i], Y[i], w[i], center=center, dense=dense) for i in blocks)
    whole = Rows.of(X, Y, w, center=center, dense=dense)
    assert_same(sum([a, b, c]), whole)
    assert_same(b + a, a + b)
    assert_same(a + (b + c), (a + b) + c)
    assert_same((a + b).decayed(0.5), a.decayed(0.5) + b.decayed(0.5))
    assert_same((a + b).widened(2), a.widened(2) + b.widened(2))
    place = np.array([1, -1, 0])
    assert_same((a + b).with_targets(place), a.with_targets(place) + b.with_targets(place))


@STORES
def test_statistics_are_what_their_names_say(dense):
    rng = np.random.default_rng(1)
    X, Y, w = rng.standard_normal((60, 5)) + 7, rng.standard_normal((60, 2)), rng.random(60)
    rows = Rows.of(X, Y, w, dense=dense)
    A, B = X - np.average(X, axis=0, weights=w), Y - np.average(Y, axis=0, weights=w)
    np.testing.assert_allclose(rows.gram.dot(np.eye(5)), A.T @ (w[:, None] * A))
    np.testing.assert_allclose(rows.gram.diagonal, (w[:, None] * A**2).sum(axis=0))
    np.testing.assert_allclose(rows.cross, A.T @ (w[:, None] * B))
    np.testing.assert_allclose(rows.squares, w @ B**2)
    wide = Rows.of(np.hstack([X, np.zeros((60, 2))]), Y, w, dense=dense)
    assert_same(rows.widened(2), wide)
    assert_same(Rows.of(sparse.csr_matrix(X), Y, w, dense=dense), rows, 1e-7)
    twice = np.repeat(np.arange(60), 2)
    assert_same(Rows.of(X[twice], Y[twice], dense=dense), Rows.of(X, Y, np.full(60, 2.0), dense=dense))
    assert_same(rows.decayed(0.5), Rows.of(X, Y, 0.5 * w, dense=dense))


def test_blocks_of_both_storages_add_up():
    X, y = data(200, 30)
    whole = Rows.of(X, y[:, None])
    few = Rows.of(X[150:], y[150:, None], dense=2)
    assert isinstance(few.gram, LowRank)
    assert isinstance(Rows.of(X[:5], y[:5, None]).gram, LowRank)  # few rows are kept as they are
    for total in (Rows.of(X[:150], y[:150, None]) + few, few + Rows.of(X[:150], y[:150, None])):
        assert isinstance(total.gram, Dense)
        assert_same(total, whole)
    assert_same(whole.stored(2).stored(500), whole)


@STORES
def test_solutions_solve_their_normal_equations(dense):
    rng = np.random.default_rng(2)
    X, Y = rng.standard_normal((40, 6)), rng.standard_normal((40, 2))
    rows = Rows.of(X, Y, dense=dense)
    A, B, s = X - X.mean(axis=0), Y - Y.mean(axis=0), X.std(axis=0)
    want = np.linalg.solve(A.T @ A + 3.0 * np.diag(s**2), A.T @ B)
    for fit in (rows.solve(3.0), rows.by_evidence(grid=np.array([3.0]))):
        np.testing.assert_allclose(fit.coef, want, rtol=1e-9)
        gap = B - A @ want
        penalty = 3.0 * np.sum((s[:, None] * want) ** 2, axis=0)
        np.testing.assert_allclose(fit.minimum, np.sum(gap**2, axis=0) + penalty)
        np.testing.assert_allclose(rows.residual(fit), np.sum(gap**2, axis=0))
        Z = A / s
        freedom = np.trace(np.linalg.solve(Z.T @ Z + 3.0 * np.eye(6), Z.T @ Z))
        assert rows.freedom(fit) == pytest.approx(freedom)
        np.testing.assert_allclose(
            rows.error(fit.coef, fit.intercept), np.sum((Y - X @ fit.coef - fit.intercept) ** 2, axis=0)
        )
        new = rng.standard_normal((3, 6))
        z = (new - X.mean(axis=0)) / s
        leverage = np.einsum("ij,ji->i", z, np.linalg.solve(Z.T @ Z + 3.0 * np.eye(6), z.T))
        np.testing.assert_allclose(rows.variances(new, fit, np.array([2.0, 1.0]))[:, 0], 2.0 * (1 + 1 / 40 + leverage))


@STORES
def test_the_error_of_any_weights_needs_no_rows(dense):
    rng = np.random.default_rng(3)
    X, Y, W, b = (
        rng.standard_normal((20, 4)) + 5,
        rng.standard_normal((20, 2)),
        rng.standard_normal((4, 2)),
        np.array([1.0, -2.0]),
    )
    np.testing.assert_allclose(Rows.of(X, Y, dense=dense).error(W, b), np.sum((Y - X @ W - b) ** 2, axis=0))


@pytest.mark.parametrize("n", [5, 12])
def test_evidence_is_the_density_of_the_targets(n):
    X, y = data(n, 7, noise=1.0)
    rows = Rows.of(X, y[:, None])
    Z = (X - X.mean(0)) / X.std(0)
    # A basis of what is left of y without its mean, since b is flat: y ~ N(0, σ²(I + ZZᵀ/λ)) there.
    basis = np.linalg.svd(np.eye(n) - 1 / n)[0][:, : n - 1]

    def minus_two_log(strength):  # log σ flat: a Student density
        K = basis.T @ (np.eye(n) + Z @ Z.T / strength) @ basis
        rest = basis.T @ y
        return (n - 1) * np.log(rest @ np.linalg.solve(K, rest)) + np.linalg.slogdet(K)[1]

    best = STRENGTHS[np.argmin([minus_two_log(strength) for strength in STRENGTHS])]
    assert rows.by_evidence().strength == pytest.approx(best)


def test_two_rows_do_not_decide_a_strength_by_rounding():
    """With one degree of freedom every λ explains the targets equally well: the largest is taken."""
    rng = np.random.default_rng(4)
    for _ in range(50):
        X, y = rng.standard_normal((2, 3)), rng.standard_normal((2, 1))
        assert Rows.of(X, y).by_evidence().strength == STRENGTHS[-1]


@STORES
def test_truncation_and_walk_keep_the_solution(dense):
    X, y = data(80, 10)
    rows = Rows.of(X, y[:, None], dense=dense)
    fit = rows.by_evidence()
    again = rows.drifted(0.1, fit).solve(fit.strength / (1 + 0.1 * fit.strength), fit.scale)
    np.testing.assert_allclose(again.coef, fit.coef, rtol=1e-8)
    np.testing.assert_allclose(again.minimum, fit.minimum, rtol=1e-8)
    cut = rows.truncated(3, fit)
    again = cut.solve(fit.strength, fit.scale)
    np.testing.assert_allclose(again.coef, fit.coef, rtol=1e-8)
    np.testing.assert_allclose(again.minimum, fit.minimum, rtol=1e-8)
    np.testing.assert_allclose(cut.gram.diagonal, rows.gram.diagonal, rtol=1e-10)
    assert dense > 2 or len(cut.gram.vectors) == 3


@STORES
def test_a_walk_is_the_prediction_of_a_kalman_filter(dense):
    X, y = data(30, 4)
    rows, g = Rows.of(X, y[:, None], dense=dense), 0.3
    fit = rows.solve(2.0)
    s = fit.scale
    precision = rows.gram.dot(np.eye(4)) / np.outer(s, s) + 2.0 * np.eye(4)
    walked = np.linalg.inv(np.linalg.inv(precision) + g * np.eye(4))
    after = rows.drifted(g, fit)
    np.testing.assert_allclose(
        after.gram.dot(np.eye(4)) / np.outer(s, s) + 2.0 / (1 + g * 2.0) * np.eye(4), walked, rtol=1e-9, atol=1e-12
    )
    assert 1.0 / after.n == pytest.approx(1 / 30 + g)


@pytest.mark.parametrize("rest", [0.0, 0.7])
@pytest.mark.parametrize("q", [2, 7])
def test_systems_of_vectors_equal_those_of_the_matrix(q, rest):
    rng = np.random.default_rng(5)
    B, c, u = rng.standard_normal((q, 9)), rng.standard_normal((9, 2)), rng.random(9) + 0.5
    moments = LowRank(B, np.full(9, rest))
    c = B.T @ (B @ c) + rest * c  # in the span
    fast, slow = moments.system(u), moments.dense().system(u)
    grid = np.array([0.1, 2.0])
    for a, b in zip(fast.evidence(u[:, None] * c, grid), slow.evidence(u[:, None] * c, grid), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)
    np.testing.assert_allclose(fast.solve(u[:, None] * c, 0.5), slow.solve(u[:, None] * c, 0.5), rtol=1e-9)
    Z = rng.standard_normal((4, 9))
    np.testing.assert_allclose(fast.leverages(Z, 0.5), slow.leverages(Z, 0.5), rtol=1e-8)
    assert fast.freedom(0.5) == pytest.approx(slow.freedom(0.5))


def test_equal_singular_values_do_not_depend_on_the_memory_layout():
    """Rows of an orthogonal matrix have equal singular values: which ones are kept is decided by columns."""
    rng = np.random.default_rng(6)
    X = np.linalg.qr(rng.standard_normal((40, 40)))[0]
    X = X - X.mean(axis=0)
    y = rng.standard_normal((40, 1))
    new = rng.standard_normal((5, 40))
    found = []
    for order in (np.arange(40), rng.permutation(40), np.arange(40)[::-1]):
        A = np.asfortranarray(X[order]) if len(found) else X[order]
        rows = Rows.of(A, y[order], dense=2)
        fit = rows.solve(1.0, np.ones(40))
        cut = rows.truncated(10, fit) + Rows.of(new, np.ones((5, 1)), dense=2)
        found.append(new @ cut.solve(1.0, np.ones(40)).coef)
    np.testing.assert_allclose(found[1], found[0], rtol=1e-5)
    np.testing.assert_allclose(found[2], found[0], rtol=1e-5)


def test_ranges_of_columns():
    rng = np.random.default_rng(7)
    for n, d in [(1, 3), (5, 300), (1000, 3), (777, 10), (300, 1)]:
        X = rng.standard_normal((n, d))
        for Z in (X, np.asfortranarray(X), sparse.csr_array(X)):
            low, high = column_range(Z)
            np.testing.assert_array_equal(low, X.min(axis=0))
            np.testing.assert_array_equal(high, X.max(axis=0))


def test_numbers_whose_squares_overflow_are_refused():
    with pytest.raises(OverflowError, match="rescale"):
        fl.rows_of([[1e150], [1.0]], [1.0, 2.0])


def test_rows_of_checks_what_it_gets():
    with pytest.raises(ValueError, match="NaN"):
        fl.rows_of([[np.nan]], [1.0])
    with pytest.raises(ValueError, match="nonnegative"):
        fl.rows_of([[1.0]], [1.0], [-1.0])
    rows = fl.rows_of([[1.0], [5.0]], [1.0, 2.0], [1.0, 0.0])
    assert (rows.n, rows.high.tolist()) == (1.0, [1.0])
