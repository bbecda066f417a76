"""The rows of one task on a cluster: XᵀX, and its products with vectors, summed by the workers.

Weights are sent to the workers, and sums of the size of the weights, or of XᵀX, are sent back.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from forgetless._core.arrays import Array, Floats
from forgetless._core.dask_arrays import Block, computed, stacked_triangles, summed, triangle
from forgetless.solvers.rows import Rows, columns_of, is_sparse, is_zero, plain, sum_of_grams

# features up to which XᵀX is summed in the first pass: 8 MB per worker, and one pass instead of
# many
GRAM_SIDE = 1000


class Seen(NamedTuple):
    """The result of one pass over a task: sums over its rows."""

    # (4,): rows, stored entries, rows with positive weight, and blocks to learn from
    counts: Floats
    total: float  # of the row weights
    right: Floats  # Xᵀr (d, c)
    squares: Floats  # ‖r‖² (c,)
    shown: Floats  # ‖y − Xw̄‖² (c,) for the weights w̄ of predictions
    gram: Floats | None  # (d, d)


class View(NamedTuple):
    """The arguments of all functions of a block."""

    start: Array  # the weights w of the residual
    shown: Array  # the weights w̄ of predictions
    intercept: bool
    dtype: Any


def _rows_of(X: Any, y: Any, weight: Any, view: View) -> tuple[Any, Any, Any]:
    """On a worker: return X in the form of the solvers, y scaled likewise, and the weights of the
    rows; validated.
    """
    d = view.start.shape[0] - view.intercept
    if X.ndim != 2 or X.shape[1] != d:
        raise ValueError(f"every block of X must have {d} columns, got shape {X.shape}")
    y = columns_of(np.asarray(y, dtype=view.dtype))
    if len(y) != X.shape[0]:
        raise ValueError(
            f"y must have one value per row of X, got {len(y)} for {X.shape[0]} in a block"
        )
    X = X if is_sparse(X) else np.asarray(X)
    if weight is not None:
        weight = np.broadcast_to(np.asarray(weight, dtype=np.float64), (len(y),))
        if not np.isfinite(weight).all() or weight.min(initial=0.0) < 0:
            raise ValueError("sample_weight must be nonnegative and finite; drop the row or use 0")
        y = y * np.sqrt(weight).astype(view.dtype)[:, None]
    return plain(X, weight, view.intercept, view.dtype), y, weight


@np.errstate(all="ignore")  # overflows are detected in the sums
def _look(X: Any, y: Any, weight: Any, view: View, gram: bool) -> Seen:
    """On a worker: the first pass over a block."""
    A, y, weight = _rows_of(X, y, weight, view)
    n, entries = A.shape[0], A.data if is_sparse(A) else A
    total = sum_of_grams([A], A.shape[1]) if gram else None
    # A finite Gram matrix proves that all entries are finite; otherwise the entries themselves are
    # checked.
    checked = entries if total is None or not np.isfinite(total).all() else total
    if (
        not (np.isfinite(checked.sum(dtype=np.float64)) or np.isfinite(checked).all())
        or not np.isfinite(y).all()
    ):
        raise ValueError(
            "X or y contains NaN or infinity; only finite values are allowed, so drop or impute"
            " them"
        )
    r = y - A @ view.start if np.any(view.start) else y
    shown = (
        r
        if view.shown is view.start or np.array_equal(view.shown, view.start)
        else y - A @ view.shown
    )
    counting = n if weight is None else int(np.count_nonzero(weight))
    filled = counting > 0 if view.intercept else not is_zero(A)
    return Seen(
        np.array([n, entries.size, counting, filled], dtype=np.float64),
        float(n) if weight is None else float(weight.sum()),
        np.asarray(A.T @ r, dtype=np.float64),
        _squares(r),
        _squares(shown),
        total,
    )


@np.errstate(all="ignore")
def _added(parts: list[Any]) -> Any:
    """On a worker: the sum of some tuples of arrays and numbers, in float64."""
    kind = type(parts[0])
    sums = [
        None if column[0] is None else sum(column[1:], column[0])
        for column in zip(*parts, strict=True)
    ]
    return tuple(sums) if kind is tuple else kind(*sums)


def _squares(columns: Array) -> Floats:
    squares: Floats = np.einsum("ij,ij->j", columns, columns, dtype=np.float64)
    return squares


def _normal(X: Any, y: Any, weight: Any, view: View, V: Array) -> tuple[Floats]:
    """On a worker: XᵀXV of a block."""
    A = _rows_of(X, y, weight, view)[0]
    return (np.asarray(A.T @ (A @ V)),)


def _triangle(X: Any, y: Any, weight: Any, view: View) -> Floats:
    A, y, _ = _rows_of(X, y, weight, view)
    return triangle(A, y.astype(np.float64) - A.astype(np.float64) @ view.start.astype(np.float64))


class RemoteRows(Rows):
    """The matrix X of a task in blocks on a cluster; ``seen`` is the result of the first pass."""

    remote = True

    def __init__(self, blocks: Sequence[Block], view: View, seen: Seen) -> None:
        n, stored = int(seen.counts[0]), int(seen.counts[1])
        super().__init__(None, (n, len(view.start)), stored)
        self._blocks = list(blocks)
        self._view = view
        if seen.gram is not None:
            self.gram = seen.gram

    @classmethod
    def looked_at(cls, blocks: Sequence[Block], view: View) -> tuple["RemoteRows", Seen]:
        """Return the rows of some blocks after one pass over them, and the result of that pass."""
        gram = len(view.start) <= GRAM_SIDE
        (seen,) = computed(summed(_each(blocks, _look, view, gram), _added))
        return cls(blocks, view, seen), seen

    @cached_property
    def gram(self) -> Array:
        """XᵀX, in another pass where there are many features."""
        (seen,) = computed(summed(_each(self._blocks, _look, self._view, True), _added))
        return seen.gram

    def normal(self, V: Array) -> Array:
        """Return XᵀX V of shape (d, c), in one round trip."""
        import dask

        weights = dask.delayed(V)
        ((total,),) = computed(summed(_each(self._blocks, _normal, self._view, weights), _added))
        return np.asarray(total)

    def reduced(self) -> tuple[Floats, Floats]:
        """Return QᵀX and Qᵀr for an orthogonal Q: an equivalent task of at most d + c rows, as
        accurate as all rows.
        """
        (total,) = computed(summed(_each(self._blocks, _triangle, self._view), stacked_triangles))
        R = np.asarray(total)
        d = self.shape[1]
        return np.ascontiguousarray(R[:, :d]), np.ascontiguousarray(R[:, d:])


def _each(blocks: Sequence[Block], do: Any, view: View, *more: Any) -> list[Any]:
    """Return the delayed result of a function of every block; the view is sent once to each
    worker.
    """
    import dask

    shared = dask.delayed(view)
    return [block.then(do, shared, *more) for block in blocks]
