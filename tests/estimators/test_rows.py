"""Statistics of rows: sums of blocks, what is solved from them, and what a bounded memory keeps."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import forgetless as fl
from support.checks import check_frozen
from support.streams import linear

STORES = pytest.mark.parametrize("dense", [500, 2], ids=["matrix", "vectors"])


def assert_same(a, b, tol=1e-9):
    assert a.centered == b.centered
    for name in ("n", "mean", "target", "cross", "squares", "low", "high"):
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
    a, b, c = (fl.rows_of(X[i], Y[i], w[i], center=center, dense=dense) for i in blocks)
    assert_same(sum([a, b, c]), fl.rows_of(X, Y, w, center=center, dense=dense))
    assert_same(b + a, a + b)
    assert_same(a + (b + c), (a + b) + c)


@pytest.mark.parametrize("kind", [np.asarray, np.asfortranarray, sparse.csr_array])
@pytest.mark.parametrize("shape", [(60, 5), (1, 3), (5, 300), (777, 10), (300, 1)])
@STORES
def test_statistics_are_what_their_names_say(dense, shape, kind):
    rng = np.random.default_rng(1)
    X, Y, w = rng.standard_normal(shape) + 7, rng.standard_normal((shape[0], 2)), rng.random(shape[0])
    rows = fl.rows_of(kind(X), Y, w, dense=dense)
    mean, target = np.average(X, axis=0, weights=w), np.average(Y, axis=0, weights=w)
    A, B = X - mean, Y - target
    close = {"rtol": 1e-9, "atol": 1e-9}
    np.testing.assert_allclose(rows.gram.dot(np.eye(shape[1])), A.T @ (w[:, None] * A), **close)
    np.testing.assert_allclose(rows.gram.diagonal, (w[:, None] * A**2).sum(axis=0), **close)
    np.testing.assert_allclose(rows.cross, A.T @ (w[:, None] * B), **close)
    np.testing.assert_allclose(rows.squares, w @ B**2, **close)
    np.testing.assert_allclose(rows.target, target)
    np.testing.assert_array_equal([rows.low, rows.high], [X.min(axis=0), X.max(axis=0)])


def test_blocks_stored_as_a_matrix_and_as_vectors_add_up():
    X, y = linear(200, 30)
    one, other = fl.rows_of(X[:150], y[:150]), fl.rows_of(X[150:], y[150:], dense=2)
    for total in (one + other, other + one):
        assert_same(total, fl.rows_of(X, y))
    with pytest.raises(ValueError, match="rows must be all centred or all not"):
        one + fl.rows_of(X, y, center=False)
    # A matrix becomes vectors where the model stores vectors.
    model = fl.StreamingRidge(1.0, rank=20).partial_fit_rows(one + other)
    np.testing.assert_allclose(model.coef_, fl.StreamingRidge(1.0, rank=20).fit(X, y).coef_, rtol=1e-7)
    # What is left of the diagonal is added to that of the matrix.
    rest = (one + model.rows_).gram.matrix - one.gram.matrix - model.rows_.gram.dot(np.eye(30))
    assert np.linalg.matrix_rank(rest, tol=1e-6) == 1  # of the two means


@pytest.mark.parametrize(("rank", "n"), [(None, 40), (7, 5), (7, 40), (2, 40)])
def test_weights_errors_and_intervals_are_those_of_the_statistics(rank, n):
    """The normal equations of what is stored: a matrix, vectors, or few vectors and a diagonal."""
    rng = np.random.default_rng(2)
    X, Y = rng.standard_normal((n, 12)), rng.standard_normal((n, 2))
    model = fl.StreamingRidge(3.0, rank=rank, guard=None).fit(X, Y)
    rows, s = model.rows_, X.std(axis=0)
    assert rank is None or len(rows.gram.vectors) == min(rank, n)
    # A truncation keeps the variance of every column.
    np.testing.assert_allclose(rows.gram.diagonal, ((X - X.mean(axis=0)) ** 2).sum(axis=0))
    penalized = rows.gram.dot(np.eye(12)) + 3.0 * np.diag(s**2)
    np.testing.assert_allclose(model.coef_.T, np.linalg.solve(penalized, rows.cross), rtol=1e-8)
    # And it keeps the solution.
    np.testing.assert_allclose(model.coef_, fl.StreamingRidge(3.0).fit(X, Y).coef_, rtol=1e-8)
    new = np.vstack([rng.standard_normal((3, 12)), X[:2]])
    centred = new - X.mean(axis=0)
    leverage = np.einsum("ij,ji->i", centred, np.linalg.solve(penalized, centred.T))
    variances = model.predict(new, return_std=True)[1] ** 2
    # The noise is the larger one of two estimates.
    squares = rows.error(model.coef_.T, model.intercept_)
    freedom = np.trace(rows.gram.dot(np.linalg.inv(penalized)))
    posterior = (squares + 3.0 * np.sum((s * model.coef_) ** 2, axis=1)) / (n - 3)
    noise = np.maximum(posterior, squares / max(n - 1 - freedom, 0.05 * n))
    np.testing.assert_allclose(variances, np.outer(1 + 1 / n + leverage, noise), rtol=1e-8)
    np.testing.assert_allclose(
        rows.error(model.coef_.T, model.intercept_),
        np.sum((Y - model.predict(X)) ** 2, axis=0),
        rtol=0.3 if rank and rank < n else 1e-8,
    )


def test_a_loss_below_a_millionth_of_the_variance_is_none():
    """Of orthogonal columns a, b and b + gap·c two vectors of length one leave a part gap²/6."""
    a, b, c = 1e3 * np.linalg.qr(np.column_stack([np.ones(100), linear(100, 3)[0]]))[0].T[1:]
    for gap, lost in ((1e-4, 0.0), (1e-2, 1e-4 / 6)):
        model = fl.StreamingRidge(1.0, rank=2).fit(np.column_stack([a, b, b + gap * c]), a)
        assert 1 - model.retained_fraction_ == pytest.approx(lost, rel=1e-3, abs=1e-12)


def test_statistics_and_systems_are_frozen():
    rows = [fl.StreamingRidge(1.0, rank=rank).fit(*linear(40, 12)).rows_ for rank in (12, 3)]
    for part in (*rows, *(each.gram for each in rows), *(each.gram.system(np.ones(12)) for each in rows)):
        check_frozen(part, by_value=False)


def test_a_system_has_one_answer_however_it_is_solved():
    gram = fl.StreamingRidge(1.0, rank=3).fit(*linear(40, 12)).rows_.gram
    systems = [each.system(np.linspace(0.5, 2.0, 12)) for each in (gram, gram.dense())]
    Z, strengths = np.random.default_rng(0).standard_normal((5, 12)), np.array([0.1, 3.0])
    answers = [(s.solve(Z.T, 3.0), *s.evidence(Z.T, strengths), s.freedom(3.0), s.leverages(Z, 3.0)) for s in systems]
    for one, other in zip(*answers, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)


@STORES
def test_a_walk_is_the_prediction_of_a_kalman_filter(dense):
    X, y = linear(30, 4)
    rows, g = fl.rows_of(X, y, dense=dense), 0.3
    fit = rows.solve(2.0)
    after = rows.drifted(g, fit)
    units = np.outer(fit.scale, fit.scale)
    covariance = np.linalg.inv(rows.gram.dot(np.eye(4)) / units + 2.0 * np.eye(4))
    walked = after.gram.dot(np.eye(4)) / units + 2.0 / (1 + g * 2.0) * np.eye(4)
    np.testing.assert_allclose(np.linalg.inv(walked), covariance + g * np.eye(4), rtol=1e-9, atol=1e-12)
    assert 1.0 / after.n == pytest.approx(1 / 30 + g)
    again = after.solve(2.0 / (1 + g * 2.0), fit.scale)
    np.testing.assert_allclose(again.coef, fit.coef, rtol=1e-8)
    np.testing.assert_allclose(again.minimum, fit.minimum, rtol=1e-8)


def test_equal_singular_values_do_not_depend_on_the_memory_layout():
    """Rows of an orthogonal matrix have equal singular values: columns decide which ones are kept."""
    rng = np.random.default_rng(6)
    X = np.linalg.qr(rng.standard_normal((40, 40)))[0]
    y, new = rng.standard_normal(40), rng.standard_normal((5, 40))
    found = []
    for order in (np.arange(40), rng.permutation(40), np.arange(40)[::-1]):
        A = np.asfortranarray(X[order]) if len(found) else X[order]
        model = fl.StreamingRidge(1.0, rank=10, standardize=False, guard=None).partial_fit(A, y[order])
        found.append(model.partial_fit(new, np.ones(5)).predict(new))
    np.testing.assert_allclose(found[1:], [found[0]] * 2, rtol=1e-5)
