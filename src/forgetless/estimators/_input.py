"""Inputs of a streaming estimator: arrays, groups, row blocks and dask arrays, checked and relative
to its weights.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.utils.validation import check_array, validate_data

from forgetless._core import validate
from forgetless._core.arrays import Array, check_unmasked, group_labels
from forgetless._core.dask_arrays import blocks_of
from forgetless.estimators.state import State, TaskData, sum_of_squares
from forgetless.solvers.remote import RemoteRows, View
from forgetless.solvers.rows import (
    BLOCK_BYTES,
    Rows,
    check_sparse,
    columns_of,
    is_sparse,
    is_zero,
    normal_equations,
    plain,
    weighted,
)


def array_of(X: Any) -> Any:
    """Return X, tensors of other libraries as NumPy arrays, before anything multiplies with it.

    Raises an error for a mask, or indices outside a sparse X. Data frames stay: scikit-learn takes
    the names of the features from them.
    """
    check_unmasked("X", X)
    if is_sparse(X):
        return check_sparse(X) if X.ndim == 2 else X
    if hasattr(X, "__array__") and not hasattr(X, "columns"):
        return np.asarray(X)
    return X


def is_plain(state: State, X: Any, y: Any) -> bool:
    """Return whether X and y are finite float arrays that need no conversion: the light but
    complete check.
    """
    coef = state.coef
    # a sum of two infinities is NaN, which is all that is asked here
    with np.errstate(all="ignore"):
        return bool(
            type(X) is np.ndarray
            and type(y) is np.ndarray
            and type(coef) is np.ndarray
            and X.dtype == coef.dtype
            and y.dtype == coef.dtype
            and X.ndim == 2
            and X.shape[0] > 0
            and X.shape[1] == state.origin.n_features
            and y.shape == (X.shape[0], *coef.shape[:-1])
            and math.isfinite(X.sum())
            and math.isfinite(y.sum())
            and state.origin.feature_names is None
        )


def validated(model: Any, state: State, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any]:
    """Return X, y and weights after scikit-learn's checks, in the dtype of the weights so far.

    scikit-learn takes names and tags from ``model``, and writes the features of the first rows to
    it.
    """
    coef, reset = state.coef, state.origin.n_features is None
    check_unmasked("y", y)
    X = array_of(X)
    y = None if y is None else np.asarray(y)
    floats = [np.float64, np.float32] if coef is None else [coef.dtype]
    with np.errstate(invalid="ignore"):  # the check for infinities adds them up
        X, y = validate_data(
            model,
            X,
            y,
            reset=reset,
            accept_sparse="csr",
            dtype=floats,
            multi_output=True,
            y_numeric=True,
        )
    if is_sparse(X) and not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    y = y.astype(X.dtype, copy=False)
    _check_targets(coef, y, X.shape[0])
    return X, y, _weight(sample_weight, X)


def _check_targets(coef: Array, y: Any, n: int) -> None:
    if coef is not None and tuple(y.shape[1:]) != tuple(coef.shape[:-1]):
        expected = (n, *coef.shape[:-1])
        raise ValueError(
            f"y must have shape {expected} like that of the first task, got {tuple(y.shape)}"
        )


def _weight(sample_weight: Any, X: Any) -> Any:
    if sample_weight is None:
        return None
    check_unmasked("sample_weight", sample_weight)
    n = X.shape[0]
    weight = np.asarray(sample_weight)
    if weight.ndim == 0:
        weight = np.full(n, weight)
    weight = check_array(weight, ensure_2d=False, dtype=np.float64, input_name="sample_weight")
    if weight.shape != (n,):
        raise ValueError(
            f"sample_weight must have one value per row, shape ({n},), got {weight.shape}"
        )
    if weight.min() < 0:
        raise ValueError(
            f"sample_weight must be nonnegative, got {weight.min()}; drop the row or use 0"
        )
    return weight


def group_codes(groups: Any, n: int) -> tuple[Any, int]:
    """Return a number per row, counting groups in the order in which they first appear."""
    if groups is None:
        return np.zeros(n, dtype=np.int64), 1
    labels = group_labels(groups)
    if labels.shape != (n,):
        raise ValueError(f"groups must have one label per row, shape ({n},), got {labels.shape}")
    try:
        _, first, codes = np.unique(labels, return_index=True, return_inverse=True)
    except TypeError:
        raise TypeError(
            "groups must hold labels of one kind, such as strings or integers; convert them"
        ) from None
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[codes], len(first)


def take(X: Any, y: Any, weight: Any, at: Any) -> tuple[Any, Any, Any]:
    """Return the rows numbered ``at`` of all three."""
    return X[at], y[at], None if weight is None else weight[at]


def whole(state: State, X: Any, y: Any, weight: Any) -> TaskData:
    """Return a task given as arrays, relative to the weights of a state."""
    start = state.start(X, y)
    residual, n, total = state.residual(X, y, start), int(X.shape[0]), float(X.shape[0])
    if weight is not None:
        total = float(weight.sum())
        residual = weighted(residual, weight)
    rows = _rows(X, weight, state.fit_intercept, residual.dtype)
    before = _error_before(state, X, y, weight) if state.predicts_otherwise else None
    return TaskData(
        start, rows, residual, total, n, tuple(y.shape[1:]), before=before, weight=weight
    )


def _error_before(state: State, X: Any, y: Any, weight: Any) -> float:
    """Return the squared error of the predictions before a task: of zeros before the first."""
    X = state.clipped(X, inward=True)
    residual = state.residual(X, y, state.weights) if state.n_tasks else columns_of(y)
    with np.errstate(over="ignore"):
        return sum_of_squares(residual if weight is None else weighted(residual, weight))


def _rows(X: Any, weight: Any, intercept: bool, dtype: Any) -> Rows:
    if weight is None and not intercept and X.dtype == dtype and not is_sparse(X):
        return Rows.of(X)
    n, d = int(X.shape[0]), int(X.shape[1]) + intercept
    if is_sparse(X) or 16 * n * d <= validate.FACTORIZATION_LIMIT:
        return Rows.of(plain(X, weight, intercept, dtype))
    step = max(1, BLOCK_BYTES // (8 * d))

    def blocks() -> Iterator[Any]:
        for first in range(0, n, step):
            part = slice(first, first + step)
            yield plain(X[part], None if weight is None else weight[part], intercept, dtype)

    return Rows(blocks, (n, d), n * d)


def on_cluster(state: State, X: Any, y: Any, weight: Any, check: "Check") -> tuple[TaskData, State]:
    """Return a task given as dask arrays, relative to the weights of a state, and the state; after
    one pass over it.
    """
    y = y if hasattr(y, "shape") else np.asarray(y)
    blocks = blocks_of(X, y, weight)
    wide = X.dtype if X.dtype == np.float32 else np.dtype(np.float64)  # as for tasks in memory
    targets = tuple(int(each) for each in y.shape[1:])
    # Shapes and types are checked like those of any task, by a row of them.
    one, _, _, state = check(
        state, np.zeros((1, int(X.shape[1])), dtype=wide), np.zeros((1, *targets)), None
    )
    start = state.start(one, np.zeros((1, *targets)))
    predicting = start if state.iterate is None else state.weights
    rows, seen = RemoteRows.looked_at(
        blocks, View(start, predicting, state.fit_intercept, one.dtype)
    )
    if seen.gram is not None and not np.isfinite(seen.gram).all():
        raise OverflowError(
            "the rows of this task are too large for XᵀX on a cluster; rescale X towards 1"
        )
    if seen.counts[0] and not seen.counts[2]:
        raise ValueError(
            "sample_weight is zero for every row of a task: nothing to learn; leave it out"
        )
    if not seen.counts[3]:
        raise ValueError(
            "X must hold at least one row that is not zero, got none; leave this task out"
        )
    size = np.sqrt(seen.squares)[None, :].astype(one.dtype)
    before = None if state.iterate is None else float(seen.shown.sum())
    return (
        TaskData(start, rows, size, seen.total, int(seen.counts[2]), targets, seen.right, before),
        state,
    )


Check = Callable[[State, Any, Any, Any], tuple[Any, Any, Any, State]]
"""Returns X, y and weights of a block, checked, and the state with the features of the first
block."""


def reads_once(blocks: Any) -> bool:
    """Return whether blocks can be read only once, as those of a generator."""
    return not callable(blocks) and iter(blocks) is iter(blocks)


class _Blocks:
    """Sums over the blocks of a task; of blocks that can be read once also XᵀX and Xᵀr."""

    def __init__(self, *, once: bool) -> None:
        self.once = once
        self.start: Any = None
        self.targets: tuple[int, ...] = ()
        self.gram: Any = None
        self.right: Any = None
        self.squares: Any = 0.0
        self.residuals: list[Any] = []
        self.n, self.rows_read, self.stored, self.total, self.empty = 0, 0, 0, 0.0, True
        self.before: float | None = None

    def add(self, state: State, X: Any, y: Any, weight: Any) -> None:
        """Add a block."""
        intercept = state.fit_intercept
        if self.start is None:
            self.start, self.targets = state.start(X, y), tuple(y.shape[1:])
        r = state.residual(X, y, self.start).astype(np.result_type(y, self.start), copy=False)
        r = r if weight is None else weighted(r, weight)
        if state.predicts_otherwise:
            self.before = (self.before or 0.0) + _error_before(state, X, y, weight)
        self.rows_read += X.shape[0]
        self.stored += (
            X.nnz + X.shape[0] * intercept if is_sparse(X) else X.shape[0] * len(self.start)
        )
        self.n += X.shape[0] if weight is None else int(np.count_nonzero(weight))
        self.total += float(X.shape[0]) if weight is None else float(weight.sum())
        counted = X if weight is None else X[np.flatnonzero(weight)]
        self.empty = self.empty and (counted.shape[0] == 0 if intercept else is_zero(counted))
        if self.once:
            self._add_squares(X, r, weight, intercept)
        else:
            self.residuals.append(r)

    def _add_squares(self, X: Any, r: Any, weight: Any, intercept: bool) -> None:
        """Add XᵀX, Xᵀr and ‖r‖² of a block."""
        d = len(self.start)
        if not gram_fits(d):
            raise MemoryError(
                f"a generator can be read once, which takes XᵀX of shape ({d}, {d}); give a list of"
                " blocks or a function that returns an iterator"
            )
        gram, right = normal_equations(X, r, weight, intercept, self.start.dtype)
        self.gram, self.right = (
            (gram, right) if self.gram is None else (self.gram + gram, self.right + right)
        )
        self.squares = self.squares + np.einsum("ij,ij->j", r, r, dtype=np.float64)


def in_blocks(state: State, blocks: Any, check: Check) -> tuple[TaskData, State]:
    """Return a task given as blocks (X, y) or (X, y, sample_weight), relative to the weights of a
    state, and the state.

    ``blocks`` is iterable or returns an iterator. Blocks that can be read again are; of the rest
    XᵀX is added up.
    """
    sums = _Blocks(once=reads_once(blocks))
    for block in blocks() if callable(blocks) else blocks:
        X, y, weight, state = check(state, *triple(block))
        sums.add(state, X, y, weight)
    if sums.empty:
        raise ValueError(
            "blocks must hold at least one row that is not zero, got none; leave this task out"
        )
    start, d = sums.start, len(sums.start)
    counts = (sums.total, sums.n, sums.targets, sums.right, sums.before)
    if sums.once:
        # Of the residual only its norm is left, which together with Xᵀr is enough for a step.
        return (
            TaskData(
                start,
                Rows.of_gram(sums.gram, sums.rows_read),
                np.sqrt(sums.squares)[None, :],
                *counts,
            ),
            state,
        )

    def again() -> Iterator[Any]:
        for block in blocks() if callable(blocks) else blocks:
            X, _, weight, _ = check(state, *triple(block))
            yield plain(X, weight, state.fit_intercept, start.dtype)

    rows = Rows(again, (sums.rows_read, d), sums.stored)
    return TaskData(start, rows, np.concatenate(sums.residuals), *counts), state


def triple(block: Any) -> tuple[Any, Any, Any]:
    """Return X, y and weights of a block."""
    if not isinstance(block, tuple | list) or len(block) not in (2, 3):
        raise TypeError(
            "blocks must yield (X, y) or (X, y, sample_weight); wrap each block in a tuple"
        )
    return block[0], block[1], block[2] if len(block) == 3 else None


def gram_fits(d: int) -> bool:
    """Return whether XᵀX of d weights, with copies, is within the memory limit."""
    return 24 * d * d <= validate.FACTORIZATION_LIMIT
