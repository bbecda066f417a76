"""The rows of one task: products with X and Xᵀ, and the smaller of XᵀX and XXᵀ.

A task is one matrix, dense or sparse, or a stack of row blocks that are read again at every pass
and never in memory together.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from forgetless._core.arrays import Array

# size of the pieces in which rows are converted or weighted, to avoid a copy of a large task
BLOCK_BYTES = 2**25


def is_sparse(X: Any) -> bool:
    """Return whether X is a SciPy sparse matrix or array, without importing SciPy."""
    return type(X).__module__.startswith("scipy.sparse") and hasattr(X, "format")


def check_sparse(X: Any) -> Any:
    """Return a sparse matrix; ValueError for invalid indices, with which SciPy would read other
    memory.
    """
    if X.format in ("csr", "csc", "bsr"):
        # lengths and first pointer; the full check can be bypassed by the last one
        X.check_format(full_check=False)
        n = (
            X.shape[0]
            if X.format == "csc"
            else X.shape[1] // (X.blocksize[1] if X.format == "bsr" else 1)
        )
        if X.indptr.dtype.kind != "i" or X.indices.dtype.kind != "i":
            raise ValueError("the indices of a sparse X must be integers")
        if not np.all(X.indptr[1:] >= X.indptr[:-1]):
            raise ValueError("the index pointers of a sparse X must not decrease")
        if X.indices.size and (X.indices.min() < 0 or X.indices.max() >= n):
            raise ValueError(f"the indices of a sparse X must be in [0, {n})")
        return X
    return _check_coo(X.tocoo())


def _check_coo(X: Any) -> Any:
    for name, index, n in (("row", X.row, X.shape[0]), ("column", X.col, X.shape[1])):
        if index.shape != X.data.shape:
            raise ValueError(
                f"a sparse X must have one {name} index per value, got {index.shape} for"
                f" {X.data.shape}"
            )
        if index.size and (index.min() < 0 or index.max() >= n):
            raise ValueError(
                f"{name} indices of a sparse X must be in [0, {n}), got {index.min()} to"
                f" {index.max()}"
            )
    return X


def is_zero(X: Any) -> bool:
    """Return whether all entries of X are zero."""
    if is_sparse(X):
        return not bool(np.any(X.data))
    # The first row usually decides; all of a large X is compared only if that is zero.
    return not bool(np.any(X[:1, :] != 0)) and not bool(np.any(X != 0))


def plain(X: Any, weight: Any, intercept: bool, dtype: Any) -> Any:
    """Return rows in the form of the solvers: scaled by √weight, with a column of ones for the
    intercept, as floats.
    """
    if is_sparse(X):
        return _plain_sparse(X, weight, intercept, dtype)
    root = None if weight is None else np.sqrt(weight).astype(dtype, copy=False)[:, None]
    if not intercept and root is None:
        return X.astype(dtype, copy=False)
    # one copy for everything
    rows = np.empty((X.shape[0], X.shape[1] + intercept), dtype=dtype)
    rows[:, : X.shape[1]] = X
    rows[:, X.shape[1] :] = 1.0
    return rows if root is None else np.multiply(rows, root, out=rows)


def _plain_sparse(X: Any, weight: Any, intercept: bool, dtype: Any) -> Any:
    from scipy import sparse

    X = sparse.csr_array(X).astype(dtype, copy=False)
    if intercept:
        X = sparse.csr_array(
            sparse.hstack([X, np.ones((X.shape[0], 1), dtype=dtype)], format="csr")
        )
    return (
        X
        if weight is None
        else sparse.csr_array(X.multiply(np.sqrt(weight).astype(dtype)[:, None]))
    )


class Rows:
    """The matrix X (n × d) of one task.

    ``blocks`` returns an iterator over the row blocks of X, the same at every call; ``stored`` is
    the number of entries that a pass reads, n·d or the nonzeros of sparse rows; ``single`` is X
    itself where it is one block.
    """

    # whether the rows are on a cluster, as in ``RemoteRows``, with some of the products only
    remote = False

    def __init__(
        self,
        blocks: Callable[[], Iterator[Any]] | None,
        shape: tuple[int, int],
        stored: int,
        single: Any = None,
    ) -> None:
        self._stored_blocks = blocks
        self.shape = shape
        self.stored = stored
        self.single = single

    @classmethod
    def of(cls, X: Any) -> "Rows":
        """Return the rows of one plain matrix."""
        stored = int(X.nnz) if is_sparse(X) else int(X.shape[0]) * int(X.shape[1])
        return cls(lambda: iter((X,)), (int(X.shape[0]), int(X.shape[1])), stored, X)

    @classmethod
    def of_gram(cls, gram: Array, n: int) -> "Rows":
        """Return rows that can be read only once, represented by XᵀX."""
        d = gram.shape[0]
        rows = cls(None, (n, d), n * d)
        rows.gram = gram
        return rows

    @property
    def readable(self) -> bool:
        """Whether X can be read again."""
        return self._stored_blocks is not None

    def blocks(self) -> Iterator[Any]:
        """Yield the row blocks; ValueError if their number of rows has changed."""
        assert self._stored_blocks is not None, (
            "a solver read rows of which only the Gram matrix is available"
        )
        count = 0
        for block in self._stored_blocks():
            count += block.shape[0]
            if count <= self.shape[0]:
                yield block
        if count != self.shape[0]:
            raise ValueError(
                f"blocks gave {count} rows when read again and {self.shape[0]} the first time; give"
                " a list, or a function that returns a fresh iterator over the same blocks at"
                " every call"
            )

    @property
    def sparse(self) -> bool:
        """Whether X is one sparse matrix."""
        return self.single is not None and is_sparse(self.single)

    @property
    def in_parts(self) -> bool:
        """Whether X is a stack of blocks, each of which is read again at every pass."""
        return self.single is None

    def whole(self) -> Any:
        """Return X as one dense matrix; None where it is a stack of blocks."""
        return self.single.toarray() if self.sparse else self.single

    @property
    def small_side(self) -> int:
        """The side of the Gram matrix that ``gram`` returns."""
        return self.shape[0] if self.dual else self.shape[1]

    @property
    def dual(self) -> bool:
        """Whether ``gram`` is XXᵀ; for blocks it is always XᵀX, a sum over blocks."""
        return self.single is not None and self.shape[0] < self.shape[1]

    def forward(self, V: Array) -> Array:
        """Return X V of shape (n, c)."""
        if self.single is not None:
            return product(self.single, V)
        return np.concatenate([block @ V for block in self.blocks()])

    def adjoint(self, U: Array) -> Array:
        """Return Xᵀ U of shape (d, c)."""
        if self.single is not None:
            return product(self.single.T, U)
        total = np.zeros((self.shape[1], U.shape[1]), dtype=U.dtype)
        first = 0
        for block in self.blocks():
            total += block.T @ U[first : first + block.shape[0]]
            first += block.shape[0]
        return total

    def normal(self, V: Array) -> Array:
        """Return XᵀX V of shape (d, c)."""
        return self.adjoint(self.forward(V))

    def adjoint_in_float64(self, U: Array) -> Array:
        """Return Xᵀ U in float64 whatever X is, for NumPy and SciPy, without a copy of all of X."""
        if self.single is None:
            return self.adjoint(U.astype(np.float64, copy=False))
        step = max(1, BLOCK_BYTES // (8 * max(1, self.stored // self.shape[0])))
        total = np.zeros((self.shape[1], U.shape[1]))
        for i in range(0, self.shape[0], step):
            total += self.single[i : i + step].astype(np.float64).T @ U[i : i + step].astype(
                np.float64
            )
        return total

    @cached_property
    def gram(self) -> Array:
        """XXᵀ if ``dual``, else XᵀX, dense and in float64, since squares of float32 lose half its
        digits.
        """
        if self.single is None:
            return sum_of_grams(self.blocks(), self.shape[1])
        X = self.single
        if is_sparse(X):
            X = X.astype(np.float64, copy=False)
            return (X @ X.T if self.dual else X.T @ X).toarray()
        if X.dtype == np.float64:
            return X @ X.T if self.dual else X.T @ X
        if self.dual:
            X = X.astype(np.float64)
            return X @ X.T
        n = self.shape[0]
        step = max(1, BLOCK_BYTES // (8 * self.shape[1]))
        return sum_of_grams((X[i : min(i + step, n), :] for i in range(0, n, step)), self.shape[1])

    @property
    def has_gram(self) -> bool:
        """Whether ``gram`` has been computed."""
        return "gram" in self.__dict__

    @cached_property
    def used_columns(self) -> tuple["Rows", Any] | None:
        """The rows without their empty columns, and the indices of the others; None unless entries
        < features.
        """
        if not self.sparse or self.stored >= self.shape[1]:
            return None
        from scipy import sparse

        X = self.single
        columns, places = np.unique(X.indices, return_inverse=True)
        return (
            Rows.of(
                sparse.csr_array((X.data, places, X.indptr), shape=(self.shape[0], len(columns)))
            ),
            columns,
        )


def product(A: Any, V: Array) -> Array:
    """Return A V; V has a column for each target."""
    # A product with a vector runs at the speed of memory, one with a matrix of one column does not.
    return (A @ V[:, 0])[:, None] if V.shape[1] == 1 else A @ V


def sum_of_grams(blocks: Iterable[Any], d: int) -> Array:
    """Return the sum of BᵀB over row blocks B, dense and in float64."""
    total: Any = None
    for block in blocks:
        if is_sparse(block):
            block = block.astype(np.float64)
            part = (block.T @ block).toarray()
        else:
            block = block.astype(np.float64, copy=False)
            part = block.T @ block
        total = part if total is None else total + part
    return np.zeros((d, d)) if total is None else total


def normal_equations(
    X: Any, residual: Array, weight: Any, intercept: bool, dtype: Any
) -> tuple[Array, Array]:
    """Return AᵀA and Aᵀr in float64, A being the result of :func:`plain`, and residuals being
    scaled like A.
    """
    residual = residual.astype(np.float64, copy=False)
    if not (isinstance(X, np.ndarray) and X.dtype == np.float64 and weight is None and intercept):
        part = plain(X, weight, intercept, dtype)
        gram = sum_of_grams([part], part.shape[1])
        return gram, product(part.astype(np.float64, copy=False).T, residual)
    # By parts, to avoid a copy of X with a column of ones.
    n, d = X.shape
    gram = np.empty((d + 1, d + 1))
    right = np.empty((d + 1, residual.shape[1]))
    gram[:d, :d] = X.T @ X
    gram[:d, d] = gram[d, :d] = np.ones(n) @ X
    gram[d, d] = n
    right[:d], right[d] = product(X.T, residual), residual.sum(axis=0)
    return gram, right


def columns_of(y: Array) -> Array:
    """Return y of shape (n, c)."""
    return y[:, None] if y.ndim == 1 else y


def weighted(residual: Array, weight: Any) -> Array:
    """Return residuals scaled by the square roots of the row weights."""
    root = np.sqrt(weight)
    return residual * root.astype(residual.dtype, copy=False)[:, None]


class OneTask(NamedTuple):
    """A one-shot task with its residual at the current weights w."""

    rows: Rows  # X (n, d)
    residual: Array  # r = y − Xw (n, c), one column per target
    right: Array = None  # Xᵀr (d, c); optional in the argument of ``learn`` only
    norm: float | None = None  # ‖X‖₂ where it has been computed


class Limits(NamedTuple):
    """Limits of a solver."""

    tol: float = 1e-10  # bound of the relative error at which an iteration stops
    memory: int = 2**31  # largest size in bytes of a Gram matrix or a spectrum
    passes: int = 5000  # largest number of passes over X of an iteration


DEFAULT = Limits()
