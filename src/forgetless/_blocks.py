"""One task from row blocks that are never held together: read twice or more, or once with XᵀX added up."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from forgetless._arrays import Array, from_numpy, namespace_of, to_numpy
from forgetless._rows import Rows, is_sparse, plain, sum_of_grams
from forgetless._validation import dispatched, is_zero


class Gathered(NamedTuple):
    """What a step needs of a task: X, r = y − Xw, the sum of row weights, rows that count, w, and Xᵀr if known."""

    rows: Rows
    residual: Array
    total: float
    n: int
    weights: Array
    right: Array | None


def gathered(model: Any, read: Callable[[], Iterator[Any]], *, once: bool) -> Gathered:
    """Return a task read from blocks (X, y) or (X, y, sample_weight), checked by ``model``, seen from its weights."""
    weights: Any = None
    gram: Any = None
    right: Any = None
    squares: Any = 0.0
    residuals: list[Any] = []
    n, rows_read, stored, total, empty = 0, 0, 0, 0.0, True
    for X, y, weight in _checked(model, read()):
        weights = model._weights(X, y) if weights is None else weights
        part = plain(X, weight, bool(model.fit_intercept), weights.dtype)
        r = columns_of(y) - model._raw_predict(X, weights)
        r = r if weight is None else weighted(r, weight)
        rows_read += part.shape[0]
        stored += part.nnz if is_sparse(part) else part.shape[0] * part.shape[1]
        n += part.shape[0] if weight is None else int(np.count_nonzero(weight))
        total += float(part.shape[0]) if weight is None else float(weight.sum())
        empty = empty and is_zero(X if weight is None else X[np.flatnonzero(weight)])
        if not once:
            residuals.append(r)
            continue
        _check_gram(part.shape[1], model.memory)
        more = sum_of_grams([part], part.shape[1])
        gram = more if gram is None else gram + more
        right = part.astype(np.float64, copy=False).T @ r.astype(np.float64) + (0.0 if right is None else right)
        squares = squares + np.einsum("ij,ij->j", r, r, dtype=np.float64)
    if empty:
        raise ValueError("blocks must hold at least one row that is not zero, got none; leave this task out")
    if once:
        # Of the residual only its size is left, which is all that is asked of it beside Xᵀr.
        return Gathered(Rows.of_gram(gram, rows_read), np.sqrt(squares)[None, :], total, n, weights, right)

    def again() -> Iterator[Any]:
        for X, _, weight in _checked(model, read()):
            yield plain(X, weight, bool(model.fit_intercept), weights.dtype)

    rows = Rows(again, (rows_read, len(weights)), stored)
    return Gathered(rows, np.concatenate(residuals), total, n, weights, None)


def _checked(model: Any, blocks: Iterator[Any]) -> Iterator[tuple[Any, Any, Any]]:
    for block in blocks:
        if not isinstance(block, tuple | list) or len(block) not in (2, 3):
            raise TypeError("blocks must yield (X, y) or (X, y, sample_weight); wrap each block in a tuple")
        if dispatched(block[0]):
            raise TypeError("blocks must be NumPy arrays or SciPy matrices; convert them, or give the task whole")
        X, y, weight = (*block, None)[:3]
        yield model._validated(X, y, weight, reset="n_features_in_" not in model.__dict__)


def _check_gram(d: int, memory: int) -> None:
    if 24 * d * d > memory:
        raise MemoryError(
            f"a generator can be read once, which takes XᵀX of shape ({d}, {d}); give a list of blocks or a "
            "function that returns an iterator, or allow more with memory="
        )


def columns_of(y: Array) -> Array:
    """Return y of shape (n, c)."""
    return y[:, None] if y.ndim == 1 else y


def weighted(residual: Array, weight: Any) -> Array:
    """Return residuals scaled by the square roots of the row weights."""
    xp = namespace_of(residual)
    root = from_numpy(np.sqrt(to_numpy(weight)), like=residual)
    return residual * xp.astype(root, residual.dtype, copy=False)[:, None]
