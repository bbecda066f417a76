"""Inputs of a streaming estimator: arrays, groups, row blocks and dask arrays, checked and relative
to its weights.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from array_api_compat import is_array_api_obj
from sklearn import get_config
from sklearn.utils.validation import check_array, validate_data

from forgetless._core import environment
from forgetless._core.arrays import (
    Array,
    check_unmasked,
    from_numpy,
    group_labels,
    namespace_of,
    same_library,
    to_numpy,
)
from forgetless._core.dask_arrays import blocks_of
from forgetless.estimators.state import State, TaskData, sum_of_squares
from forgetless.solvers.remote import RemoteRows, View
from forgetless.solvers.rows import (
    BLOCK_BYTES,
    Rows,
    check_sparse,
    columns_of,
    is_operator,
    is_sparse,
    is_zero,
    normal_equations,
    plain,
    rows_of,
    weighted,
)


def dispatched(X: Any) -> bool:
    """Return whether X is an array of another library, and scikit-learn is configured to keep
    these.
    """
    if (
        not get_config()["array_api_dispatch"]
        or is_sparse(X)
        or isinstance(X, np.ndarray | np.generic)
    ):
        return False
    return hasattr(X, "dtype") and not hasattr(X, "iloc")


def check_dispatch(coef: Array) -> None:
    """Raise ValueError for a model of tensors where scikit-learn is not configured to keep them."""
    if (
        coef is not None
        and not isinstance(coef, np.ndarray)
        and not get_config()["array_api_dispatch"]
    ):
        raise ValueError(
            f"the model holds {type(coef).__module__.split('.')[0]} arrays; use it inside "
            "sklearn.config_context(array_api_dispatch=True), as when it was fitted"
        )


def check_namespace(coef: Array, X: Any, method: str) -> None:
    """Raise ValueError for an X of another array library than that of the fitted model."""
    if not (dispatched(X) or dispatched(coef)):
        return
    ours, theirs = (
        namespace_of(coef),
        (namespace_of(X) if hasattr(X, "shape") and not is_sparse(X) else np),
    )
    if ours is not theirs and ours.__name__ != theirs.__name__:
        raise ValueError(
            f"Inputs passed to {method}() must use the same namespace and the same device as those"
            f" passed to fit(); the model holds {ours.__name__} arrays and X is of"
            f" {theirs.__name__}. Convert X."
        )


def checked_indices(X: Any) -> Any:
    """Return X; raises an error for a mask, or indices outside a sparse X, before anything
    multiplies with it.
    """
    check_unmasked("X", X)
    return check_sparse(X) if is_sparse(X) and hasattr(X, "format") and X.ndim == 2 else X


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
    """Return X, y and weights after scikit-learn's checks, in the library of X and the dtype of the
    weights so far.

    scikit-learn takes names and tags from ``model``, and writes the features of the first rows to
    it.
    """
    coef, reset = state.coef, state.origin.n_features is None
    if is_operator(X):
        return _operator(model, state, X, y, sample_weight)
    check_unmasked("y", y)
    check_dispatch(coef)
    X, y, xp = _in_one_library(X, y, generic=model._generic_arrays)
    if coef is not None:
        check_namespace(coef, X, f"{type(model).__name__}.partial_fit")
    floats = [xp.float64, xp.float32] if coef is None else [coef.dtype]
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
    y = namespace_of(y).astype(y, X.dtype, copy=False)
    _check_targets(coef, y, X.shape[0])
    return X, y, _weight(sample_weight, X)


def _in_one_library(X: Any, y: Any, *, generic: bool) -> tuple[Any, Any, Any]:
    """Return X and y as arrays of one library, that of X or NumPy, and its namespace."""
    # A graph through a fit is never wanted, and would pin every task in memory.
    X, y = (
        value.detach() if dispatched(value) and hasattr(value, "detach") else value
        for value in (X, y)
    )
    if dispatched(X) and not generic:
        X = to_numpy(X)
    if (
        y is not None
        and not dispatched(X)
        and is_array_api_obj(y)
        and not isinstance(y, np.ndarray)
    ):
        y = to_numpy(y)
    X = checked_indices(X)
    if not dispatched(X):
        return X, y, np
    y = None if y is None else same_library(y if is_array_api_obj(y) else np.asarray(y), like=X)
    return X, y, namespace_of(X)


def _check_targets(coef: Array, y: Any, n: int) -> None:
    if coef is not None and tuple(y.shape[1:]) != tuple(coef.shape[:-1]):
        expected = (n, *coef.shape[:-1])
        raise ValueError(
            f"y must have shape {expected} like that of the first task, got {tuple(y.shape)}"
        )


def _operator(model: Any, state: State, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any]:
    """Return X, of which there are products only, and y; raises ValueError for options that need
    single rows.
    """
    if not model._generic_arrays:
        raise TypeError(
            f"{type(model).__name__} reads rows, and X is an operator, which gives products only;"
            " use ContinualRidge or ContinualGD, or give X as an array"
        )
    options = {
        "schedule='auto'": hasattr(state.rule, "prior"),
        "memory": getattr(state.rule, "memory", None) is not None,
        "fit_intercept": state.fit_intercept,
        "sample_weight": sample_weight is not None,
        "standardize": state.standardize,
    }
    for name, is_used in options.items():
        if is_used:
            raise ValueError(
                f"{name} needs the rows of X, which an operator does not give; leave {name} out"
            )
    check_operator(model, state, X)
    y = check_array(y, ensure_2d=False, allow_nd=False, dtype=np.float64, input_name="y")
    if len(y) != X.shape[0]:
        raise ValueError(f"y must have one target per row of X, {X.shape[0]}, got shape {y.shape}")
    _check_targets(state.coef, y, X.shape[0])
    return X, y, None


def check_operator(model: Any, state: State, X: Any) -> None:
    """Raise ValueError for an operator with another number of features than that of the first
    task.
    """
    if state.origin.n_features is None:
        model.n_features_in_ = int(X.shape[1])
    elif X.shape[1] != state.origin.n_features:
        name, expected = type(model).__name__, state.origin.n_features
        raise ValueError(
            f"X has {X.shape[1]} features, but {name} is expecting {expected} features"
        )


def _weight(sample_weight: Any, X: Any) -> Any:
    if sample_weight is None:
        return None
    check_unmasked("sample_weight", sample_weight)
    n = X.shape[0]
    foreign = is_array_api_obj(sample_weight)
    weight = np.asarray(to_numpy(sample_weight) if foreign else sample_weight)
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
    return weight if is_sparse(X) else from_numpy(weight, like=X)


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
    return rows_of(X, at), rows_of(y, at), None if weight is None else rows_of(weight, at)


def whole(state: State, X: Any, y: Any, weight: Any) -> TaskData:
    """Return a task given as arrays, relative to the weights of a state."""
    start = state.start(X, y)
    residual, n, total = state.residual(X, y, start), int(X.shape[0]), float(X.shape[0])
    if weight is not None:
        total = float(to_numpy(weight).sum())
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
    if is_operator(X) or (
        weight is None and not intercept and X.dtype == dtype and not is_sparse(X)
    ):
        return Rows.of(X)
    n, d = int(X.shape[0]), int(X.shape[1]) + intercept
    if (
        is_sparse(X)
        or not isinstance(X, np.ndarray)
        or 16 * n * d <= environment.FACTORIZATION_LIMIT
    ):
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
                " blocks or a function that returns an iterator, or allow more with"
                " FORGETLESS_MEMORY_LIMIT"
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
    if dispatched(block[0]):
        raise TypeError(
            "blocks must be NumPy arrays or SciPy matrices; convert them, or give the task whole"
        )
    return block[0], block[1], block[2] if len(block) == 3 else None


def gram_fits(d: int) -> bool:
    """Return whether XᵀX of d weights, with copies, is within the memory limit."""
    return 24 * d * d <= environment.FACTORIZATION_LIMIT
