"""Dense rows above the rows of a task, as one matrix [B; X] that is assembled only for a spectrum.

A low-rank memory is such rows. The Gram matrix needs only their products with those of the task, so
X is neither copied nor made dense; solvers treat the stack like any other task.
"""

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np

from forgetless._core.arrays import Array
from forgetless.solvers.rows import Rows, is_sparse, product, sum_of_grams


class Stacked(Rows):
    """The matrix [B; X], with ``above`` = B (q, d) in the dtype of X."""

    def __init__(self, above: Array, rows: Rows) -> None:
        q, (n, d) = int(above.shape[0]), rows.shape
        self.above = above
        self.below = rows

        def both() -> Iterator[Any]:
            yield above
            yield from rows.blocks()

        super().__init__(both if rows.readable else None, (q + n, d), q * d + rows.stored)

    @property
    def dual(self) -> bool:
        """Whether ``gram`` is that of the rows: only where those of the task are one matrix."""
        return self.below.single is not None and self.shape[0] < self.shape[1]

    @property
    def in_parts(self) -> bool:
        """Whether the rows of the task are blocks, which are read again at every pass."""
        return self.below.single is None

    def whole(self) -> Any:
        """Return [B; X] as one matrix, dense; None where the rows of the task are blocks."""
        X = self.below.single
        if X is None:
            return None
        return np.concatenate([self.above, X.toarray() if is_sparse(X) else X], axis=0)

    def forward(self, V: Array) -> Array:
        """Return [B V; X V]."""
        return np.concatenate([product(self.above, V), self.below.forward(V)], axis=0)

    def adjoint(self, U: Array) -> Array:
        """Return Bᵀ U₁ + Xᵀ U₂."""
        q = self.above.shape[0]
        return product(self.above.T, U[:q, :]) + self.below.adjoint(U[q:, :])

    def adjoint_in_float64(self, U: Array) -> Array:
        """Return the same in float64, for NumPy and SciPy."""
        q = self.above.shape[0]
        first = self.above.T.astype(np.float64) @ U[:q].astype(np.float64)
        return first + self.below.adjoint_in_float64(U[q:])

    @cached_property
    def gram(self) -> Array:
        """The smaller Gram matrix, from those of the parts."""
        B = self.above.astype(np.float64, copy=False)
        rows = self.below
        if not self.dual:
            return B.T @ B + (
                sum_of_grams([rows.single], rows.shape[1]) if rows.dual else rows.gram
            )
        top = B @ B.T
        # B is the smaller factor, and on the left the product is faster.
        side = (
            rows.forward(B.T)
            if rows.sparse
            else (B @ rows.single.astype(np.float64, copy=False).T).T
        )
        low = rows.gram if rows.dual else sum_of_grams([rows.single.T], rows.shape[0])
        return np.concatenate(
            [np.concatenate([top, side.T], axis=1), np.concatenate([side, low], axis=1)], axis=0
        )


def columns_divided(rows: Rows, root: Array) -> Rows:
    """Return the rows of X·diag(root)⁻¹."""
    if not rows.readable:
        gram = rows.gram / (root[:, None] * root[None, :])
        return Rows.of_gram(gram, rows.shape[0])
    if rows.single is not None:
        return Rows.of(_divided(rows.single, root))
    return Rows(lambda: (_divided(block, root) for block in rows.blocks()), rows.shape, rows.stored)


def _divided(X: Any, root: Array) -> Any:
    if not is_sparse(X):
        return X / root.astype(X.dtype, copy=False)[None, :]
    from scipy import sparse

    divided = X.copy()
    divided.data = X.data / root.astype(X.dtype, copy=False)[X.indices]
    return sparse.csr_array(divided)
