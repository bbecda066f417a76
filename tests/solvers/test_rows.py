"""Rows of one task in every form: indices, and blocks that are read again."""

import numpy as np
import pytest
from scipy import sparse

import forgetless as fl
from forgetless.solvers import rows as solver_rows
from forgetless.solvers.one_task import learn, task_norm
from forgetless.solvers.rows import Limits, OneTask, Rows, check_sparse, is_zero, plain
from forgetless.solvers.stacked import Stacked, columns_divided


def test_blocks_that_change_between_reads_are_refused(rng):
    X, r = rng.standard_normal((30, 4)), rng.standard_normal((30, 1))
    for lost in (X[:10], np.vstack([X, X])):
        rows = Rows(lambda lost=lost: iter([lost]), X.shape, X.size)
        for limits in (Limits(), Limits(memory=0)):
            with pytest.raises(ValueError, match="rows when read again and 30 the first time"):
                learn(OneTask(rows, r), fl.Ridge(1.0), limits)


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csc_array, lambda X: sparse.bsr_array(X, blocksize=(2, 3))])
@pytest.mark.parametrize("shape", [(4, 9), (12, 6)])
def test_indices_up_to_the_last_are_inside_a_sparse_matrix_and_no_others(kind, shape):
    X = kind(np.ones(shape))
    assert check_sparse(X) is X
    for wrong in (X.indices.max() + 1, -1):
        X = kind(np.ones(shape))
        X.indices[-1] = wrong
        with pytest.raises(ValueError, match=r"indices of a sparse X must be in \[0, "):
            check_sparse(X)


@pytest.mark.parametrize("pointers", [[-1, 0, 1], [0, 2, 1], [-1, -2, 1]])
def test_index_pointers_that_decrease_or_are_negative_are_refused(pointers):
    X = sparse.csr_array(np.eye(2, 3))
    X.indptr = np.array(pointers, dtype=np.int32)
    with pytest.raises(ValueError, match="index pointer"):
        check_sparse(X)


@pytest.mark.parametrize("axis", [0, 1])
def test_coordinates_inside_a_sparse_matrix_and_no_others(axis):
    for entries in ([], [0], [0, 1], [1]):
        X = sparse.coo_array((np.ones(len(entries)), (entries, entries)), shape=(2, 2))
        np.testing.assert_array_equal(check_sparse(X).toarray(), X.toarray())
    for wrong in ([-1, 1], [0, 2], [2], [-1]):
        X = sparse.coo_array((np.ones(len(wrong)), ([0] * len(wrong), [0] * len(wrong))), shape=(2, 2))
        X.coords = tuple(np.array(wrong) if side == axis else X.coords[side] for side in (0, 1))
        with pytest.raises(ValueError, match=rf"{('row', 'column')[axis]} indices of a sparse X must be in \[0, 2\)"):
            check_sparse(X)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array, sparse.csc_array])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("intercept", [True, False])
def test_rows_are_weighted_and_get_a_column_of_ones(kind, weighted, intercept):
    X, weight = np.array([[1.0, 0.0], [2.0, 3.0], [0.0, 0.0]]), np.array([4.0, 9.0, 16.0])
    expected = np.hstack([X, np.ones((3, 1))]) if intercept else X
    expected = expected * np.sqrt(weight)[:, None] if weighted else expected
    made = plain(kind(X), weight if weighted else None, intercept, np.float64)
    np.testing.assert_array_equal(made.toarray() if sparse.issparse(made) else np.asarray(made), expected)


def test_columns_that_are_used(rng):
    X = sparse.csr_array((np.array([1.0, 2.0, 3.0]), np.array([7, 2, 7]), np.array([0, 2, 3])), shape=(2, 9))
    rows, columns = Rows.of(X).used_columns
    assert columns.tolist() == [2, 7]
    np.testing.assert_array_equal(rows.single.toarray(), [[2.0, 1.0], [0.0, 3.0]])
    assert Rows.of(sparse.csr_array(np.eye(3))).used_columns is None
    assert Rows.of(np.eye(2, 9)).used_columns is None
    assert task_norm(Rows.of(X)) == pytest.approx(np.linalg.norm(X.toarray(), 2), rel=1e-14)
    assert task_norm(Rows.of(0.0 * X)) == 0.0


@pytest.mark.parametrize("shape", [(40, 6), (6, 40)])
def test_products_of_single_precision_block_by_block(shape, rng, monkeypatch):
    X, U = rng.standard_normal(shape).astype(np.float32), rng.standard_normal((shape[0], 2)).astype(np.float32)
    exact = X.astype(np.float64)
    for size in (1, 200, 2**25):
        monkeypatch.setattr(solver_rows, "BLOCK_BYTES", size)
        for rows in (Rows.of(X), Rows.of(sparse.csr_array(X))):
            np.testing.assert_allclose(rows.adjoint_in_float64(U), exact.T @ U.astype(np.float64), rtol=1e-12)
            np.testing.assert_allclose(rows.gram, exact @ exact.T if rows.dual else exact.T @ exact, rtol=1e-12)


@pytest.mark.parametrize(
    ("X", "expected"),
    [
        (np.zeros((3, 2)), True),
        (np.eye(3), False),
        (np.eye(3)[::-1], False),
        (np.array([[0.0, 0.0], [0.0, 1e-300]]), False),
        (sparse.csr_array((3, 2)), True),
        (sparse.csr_array(np.eye(3)[1:]), False),
    ],
)
def test_rows_of_zeros(X, expected):
    assert is_zero(X) is expected


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize(("q", "n", "d"), [(2, 3, 9), (4, 8, 5), (3, 2, 4), (0, 3, 5)])
def test_stacked_rows_are_the_matrix_of_both(rng, convert, q, n, d):
    B, X = rng.standard_normal((q, d)), rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.6)
    whole, stack = np.concatenate([B, X]), Stacked(B, Rows.of(convert(X)))
    V, U = rng.standard_normal((d, 2)), rng.standard_normal((q + n, 2))
    np.testing.assert_array_equal(stack.whole(), whole)
    np.testing.assert_allclose(stack.forward(V), whole @ V, atol=1e-12)
    np.testing.assert_allclose(stack.adjoint(U), whole.T @ U, atol=1e-12)
    np.testing.assert_allclose(stack.adjoint_in_float64(U.astype(np.float32)), whole.T @ U.astype(np.float32))
    assert stack.dual == (q + n < d)
    np.testing.assert_allclose(stack.gram, whole @ whole.T if stack.dual else whole.T @ whole, atol=1e-12)
    root = rng.uniform(0.5, 2.0, d)
    divided = columns_divided(Rows.of(convert(X)), root).single
    np.testing.assert_allclose(divided.toarray() if sparse.issparse(divided) else divided, X / root, rtol=1e-14)
