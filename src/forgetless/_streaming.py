"""What every streaming estimator shares: checks, one task per ``partial_fit``, monitoring, prediction.

A subclass says how one task changes the weights (``_change``). The state is ``coef_`` and ``intercept_`` plus whatever
the subclass keeps; an error of any kind leaves all of it exactly as it was.
"""

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from forgetless import _checks
from forgetless._arrays import Array, from_numpy, namespace_of, same_library, to_numpy, zeros
from forgetless._history import History, Holdout
from forgetless._rows import BLOCK_BYTES, Rows, is_sparse, plain, rows_of, sum_of_grams


class Change(NamedTuple):
    """What a subclass makes of one task: new weights minus old (d, c), and what the history records."""

    weights: Array
    after: Any
    strength: float = math.nan
    radius: float = math.nan
    error: float = 0.0
    keep: dict[str, Any] | None = None


class StreamingModel(BaseEstimator):  # type: ignore[misc]
    """Base of the estimators here."""

    # Set by subclasses in their constructors, which only store.
    fit_intercept: bool
    history_size: int
    holdout: float
    holdout_size: int
    random_state: Any
    memory: int

    @abstractmethod
    def _change(self, rows: Rows, residual: Array, weight: float, right: Array | None, start: Array) -> Change:
        """Return what one task does; ``weight`` is the number of its rows, or the sum of their weights."""

    def _check_parameters(self) -> None:
        """Refuse parameters that make no sense; called before the first task and by ``fit``."""
        _checks.integer("history_size", self.history_size, 0, "use 0 to keep no history")
        _checks.integer("holdout_size", self.holdout_size, 1, "say how many held-out rows may be kept")
        _checks.integer("memory", self.memory, 1, "give the number of bytes a factorisation may take")
        if not 0.0 <= _checks.number("holdout", self.holdout, "use 0 to train on all rows") < 1.0:
            raise ValueError(f"holdout must be a share of the rows in [0, 1), got {self.holdout!r}; use e.g. 0.1")

    # --- fitting -----------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, groups: Any = None, sample_weight: Any = None) -> Self:
        """Forget everything, then learn one task per group of rows.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, d)
        y : array of shape (n,) or (n, c)
        groups : array of shape (n,), optional
            The task each row belongs to. Tasks are learned in the order in which their labels first appear; all rows
            are one task if omitted.
        sample_weight : float or array of shape (n,), optional
            Nonnegative weight of each row in the loss of its task.

        Returns
        -------
        self
        """
        with self._all_or_nothing():
            self._reset()
            X, y, weight = self._validated(X, y, sample_weight, reset=True)
            codes, count = _group_codes(groups, X.shape[0])
            self._n_groups = count if groups is not None else None
            for code in range(count):
                at = None if count == 1 else np.flatnonzero(codes == code)
                self._learn_task(*_take(X, y, weight, at))
        return self

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn one task, starting from the current weights.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, d)
        y : array of shape (n,) or (n, c)
        sample_weight : float or array of shape (n,), optional
            Nonnegative weight of each row in the loss of this task.

        Returns
        -------
        self
        """
        if sample_weight is None and type(X) is np.ndarray and type(y) is np.ndarray and self._learn_row(X, y):
            return self
        with self._all_or_nothing():
            fresh = not hasattr(self, "coef_")
            if fresh:
                self._reset()
            if fresh or sample_weight is not None or not self._is_plain(X, y):
                X, y, weight = self._validated(X, y, sample_weight, reset=fresh)
            else:
                weight = None
            self._learn_task(X, y, weight)
        return self

    def partial_fit_blocks(self, blocks: Any) -> Self:
        """Learn one task that is given as row blocks, which are never held together.

        Parameters
        ----------
        blocks : iterable of (X, y) or (X, y, sample_weight), or a callable that returns one
            A list or a callable can be read several times, which any number of features allows. A generator can be
            read once: then XᵀX is added up, of shape (d, d), which must fit into ``memory``.

        Returns
        -------
        self
        """
        with self._all_or_nothing():
            if not hasattr(self, "coef_"):
                self._reset()
            read: Callable[[], Iterator[Any]] = blocks if callable(blocks) else lambda: iter(blocks)
            once = not callable(blocks) and iter(blocks) is blocks
            self._learn_blocks(read, once)
        return self

    def _learn_row(self, X: Array, y: Array) -> bool:
        """Learn a task of one plain row on a short path and return True; return False to take the usual one."""
        return False

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        before = self.__dict__.copy()
        try:
            yield
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def _reset(self) -> None:
        self._check_parameters()
        for name in [name for name in self.__dict__ if name.endswith("_") and not name.startswith("__")]:
            del self.__dict__[name]
        self.__dict__.pop("_n_groups", None)
        self.n_tasks_seen_ = 0
        self._history = History(self.history_size)
        self._holdout = Holdout(self.holdout, self.holdout_size, self.random_state) if self.holdout > 0 else None

    # --- checks ------------------------------------------------------------------------------------------------

    def _is_plain(self, X: Any, y: Any) -> bool:
        """Return whether X and y are finite float arrays that need no conversion: the light but complete check."""
        coef = self.coef_
        with np.errstate(all="ignore"):  # a sum of two infinities is NaN, which is all that is asked here
            return self._is_plain_and_finite(X, y, coef)

    def _is_plain_and_finite(self, X: Any, y: Any, coef: Any) -> bool:
        return bool(
            type(X) is np.ndarray
            and type(y) is np.ndarray
            and type(coef) is np.ndarray
            and X.dtype == coef.dtype
            and y.dtype == coef.dtype
            and X.ndim == 2
            and X.shape[0] > 0
            and X.shape[1] == self.n_features_in_
            and y.shape == (X.shape[0], *coef.shape[:-1])
            and math.isfinite(X.sum())
            and math.isfinite(y.sum())
            and not _is_zero(X)
            and not hasattr(self, "feature_names_in_")
        )

    def _validated(self, X: Any, y: Any, sample_weight: Any, *, reset: bool) -> tuple[Any, Any, Any]:
        """Return X, y and weights after scikit-learn's own checks, in the library of X."""
        floats = [np.float64, np.float32]
        if _dispatched(X):
            xp = namespace_of(X)
            floats = [xp.float64, xp.float32]
            y = None if y is None else same_library(y if hasattr(y, "__array_namespace__") else np.asarray(y), like=X)
        with np.errstate(invalid="ignore"):  # the check for infinities adds them up
            X, y = validate_data(
                self, X, y, reset=reset, accept_sparse="csr", dtype=floats, multi_output=True, y_numeric=True
            )
        weight = self._validated_weight(sample_weight, X)
        y = self._validated_target(y, X)
        if _is_zero(X):
            raise ValueError(
                f"X of shape {tuple(X.shape)} holds only zeros, so there is nothing to learn; leave this task out"
            )
        return X, y, weight

    def _validated_target(self, y: Any, X: Any) -> Any:
        xp = namespace_of(y)
        y = xp.astype(y, X.dtype, copy=False)
        known = self.__dict__.get("coef_")
        if known is not None:
            expected = tuple(known.shape[:-1])
            if tuple(y.shape[1:]) != expected:
                raise ValueError(
                    f"y must have shape {(X.shape[0], *expected)} like that of the first task, got {tuple(y.shape)}"
                )
            if _dispatched(known) or _dispatched(X):
                _same_namespace(self, X, "partial_fit")
        return y

    def _validated_weight(self, sample_weight: Any, X: Any) -> Any:
        if sample_weight is None:
            return None
        n = X.shape[0]
        foreign = hasattr(sample_weight, "__array_namespace__")
        weight = np.asarray(to_numpy(sample_weight) if foreign else sample_weight)
        if weight.ndim == 0:
            weight = np.full(n, weight)
        weight = check_array(weight, ensure_2d=False, dtype=np.float64, input_name="sample_weight")
        if weight.shape != (n,):
            raise ValueError(f"sample_weight must have one value per row, shape ({n},), got {weight.shape}")
        if weight.min() < 0:
            raise ValueError(f"sample_weight must be nonnegative, got {weight.min()}; drop the row or use 0")
        if weight.max() == 0:
            raise ValueError("sample_weight is zero for every row, so there is nothing to learn; leave this task out")
        return weight if is_sparse(X) else from_numpy(weight, like=X)

    # --- one task ----------------------------------------------------------------------------------------------

    def _learn_task(self, X: Any, y: Any, weight: Any) -> None:
        held = None
        if self._holdout is not None:
            X, y, weight, held = self._holdout.split(X, y, weight, self.n_tasks_seen_)
        intercept = bool(self.fit_intercept)
        if weight is not None:
            kept = to_numpy(weight) > 0  # rows of weight zero are as good as absent
            if not kept.all():
                X, y, weight = _take(X, y, weight, np.flatnonzero(kept))
        weights = self._weights(X, y)
        first = "coef_" not in self.__dict__  # from zero weights there is nothing to subtract
        residual = _columns(y) if first else _columns(y) - self._raw_predict(X, weights)
        dtype = residual.dtype
        total = float(X.shape[0]) if weight is None else float(to_numpy(weight).sum())
        if weight is not None:
            xp = namespace_of(residual)
            root = weight if isinstance(weight, np.ndarray) else to_numpy(weight)
            residual = residual * xp.astype(from_numpy(np.sqrt(root), like=residual), dtype, copy=False)[:, None]
        self._finish(self._rows(X, weight, intercept, dtype), residual, total, int(X.shape[0]), weights, None, held)

    def _rows(self, X: Any, weight: Any, intercept: bool, dtype: Any) -> Rows:
        ready = weight is None and not intercept and X.dtype == dtype
        if ready and not is_sparse(X):
            return Rows.of(X)
        n, d = int(X.shape[0]), int(X.shape[1]) + intercept
        if is_sparse(X) or not isinstance(X, np.ndarray) or 16 * n * d <= self.memory:
            return Rows.of(plain(X, weight, intercept, dtype))
        step = max(1, BLOCK_BYTES // (8 * d))

        def blocks() -> Iterator[Any]:
            for first in range(0, n, step):
                part = slice(first, first + step)
                yield plain(X[part], None if weight is None else weight[part], intercept, dtype)

        return Rows(blocks, (n, d), n * d)

    def _learn_blocks(self, read: Callable[[], Iterator[Any]], once: bool) -> None:
        intercept = bool(self.fit_intercept)
        weights: Any = None
        residuals: list[Any] = []
        gram: Any = None
        right: Any = None
        n, stored, total, before = 0, 0, 0.0, 0.0

        def checked(block: Any) -> tuple[Any, Any, Any]:
            if not isinstance(block, tuple | list) or len(block) not in (2, 3):
                raise TypeError("blocks must yield (X, y) or (X, y, sample_weight); wrap each block in a tuple")
            X, y, weight = (*block, None)[:3]
            return self._validated(X, y, weight, reset=not hasattr(self, "n_features_in_"))

        for block in read():
            X, y, weight = checked(block)
            weights = self._weights(X, y) if weights is None else weights
            part = plain(X, weight, intercept, weights.dtype)
            r = _columns(y) - self._raw_predict(X, weights)
            r = r if weight is None else r * np.sqrt(weight).astype(r.dtype)[:, None]
            d = part.shape[1]
            n, stored = n + part.shape[0], stored + (part.nnz if is_sparse(part) else part.shape[0] * d)
            total += float(part.shape[0]) if weight is None else float(weight.sum())
            if not once:
                residuals.append(r)
                continue
            if 24 * d * d > self.memory:
                raise MemoryError(
                    f"a generator can be read once, which takes XᵀX of shape ({d}, {d}); give a list of blocks or a "
                    "function that returns an iterator, or allow more with memory="
                )
            more = sum_of_grams([part], d)
            gram = more if gram is None else gram + more
            right = part.T @ r + (0.0 if right is None else right)
            before = before + np.einsum("ij,ij->j", r, r, dtype=np.float64)
        if n == 0:
            raise ValueError("blocks must yield at least one block, got none; leave this task out")
        if once:
            rows, residual = Rows.of_gram(gram, n), np.sqrt(before)[None, :]
        else:

            def again() -> Iterator[Any]:
                for X, y, *rest in read():
                    X, _, weight = self._validated(X, y, rest[0] if rest else None, reset=False)
                    yield plain(X, weight, intercept, weights.dtype)

            rows, residual = Rows(again, (n, d), stored), np.concatenate(residuals)
        self._finish(rows, residual, total, n, weights, right, None)

    def _finish(self, rows: Rows, residual: Array, total: float, n: int, weights: Array, right: Any, held: Any) -> None:
        """Make the step and store the result; nothing of the model has changed before this succeeds."""
        change = self._change(rows, residual, total, right, weights)
        xp = namespace_of(weights)
        learned = weights + xp.astype(change.weights, weights.dtype, copy=False)
        if not bool(xp.all(xp.isfinite(learned))):
            raise OverflowError("the new weights are not finite; rescale X and y towards 1")
        targets = self.__dict__["_target_shape"]
        columns = learned[:-1, :] if self.fit_intercept else learned
        self.coef_ = columns[:, 0] if targets == () else columns.T
        if self.fit_intercept:
            self.intercept_ = learned[-1, 0] if targets == () else learned[-1, :]
        else:
            self.intercept_ = 0.0 if targets == () else zeros(targets, learned)
        for name, value in (change.keep or {}).items():
            setattr(self, name, value)
        self.n_tasks_seen_ += 1
        scale = total * residual.shape[1]
        squares = residual.astype(np.float64) ** 2 if isinstance(residual, np.ndarray) else to_numpy(residual) ** 2
        seen = math.nan
        if self._holdout is not None:
            self._holdout.add(held, self.n_tasks_seen_)
            seen = self._holdout.error(self)
        self._history.add(
            self.n_tasks_seen_, n, total, change.strength, change.radius,
            float(squares.sum()) / scale, float(np.sum(change.after)) / scale, change.error, seen,
        )  # fmt: skip

    # --- weights and prediction --------------------------------------------------------------------------------

    def _weights(self, X: Any, y: Any) -> Array:
        """Return the current weights (d, c), the last row being the intercept; zeros before the first task."""
        known = self.__dict__.get("coef_")
        targets = tuple(y.shape[1:])
        if known is None:
            self._target_shape = targets
            shape = (int(X.shape[1]) + bool(self.fit_intercept), targets[0] if targets else 1)
            like = np.zeros(0, dtype=X.dtype) if is_sparse(X) else X
            return zeros(shape, like)
        xp = namespace_of(known)
        columns = xp.reshape(known, (-1, 1)) if known.ndim == 1 else known.T
        if not self.fit_intercept:
            return columns
        last = xp.reshape(xp.asarray(self.intercept_, dtype=known.dtype), (1, -1))
        return xp.concat([columns, last], axis=0)

    def _raw_predict(self, X: Any, weights: Array) -> Array:
        if not self.fit_intercept:
            return X @ weights
        return X @ weights[:-1, :] + weights[-1, :]

    def _linear(self, X: Any, method: str) -> Array:
        check_is_fitted(self)
        _same_namespace(self, X, method)
        xp = namespace_of(self.coef_)
        X = validate_data(self, X, reset=False, accept_sparse="csr", dtype=[xp.float64, xp.float32])
        coef = self.coef_ if X.dtype == self.coef_.dtype or is_sparse(X) else xp.astype(self.coef_, X.dtype)
        return X @ coef.T + self.intercept_ if coef.ndim > 1 else X @ coef + self.intercept_

    # --- monitoring --------------------------------------------------------------------------------------------

    @property
    def history_(self) -> dict[str, Any]:
        """The last ``history_size`` tasks as a dictionary of arrays: see :class:`forgetless.ContinualRidge`."""
        check_is_fitted(self)
        return self._history.to_arrays()

    @property
    def prequential_mse_(self) -> float:
        """Mean squared error of predicting every row of every task before learning it (weighted as in training)."""
        check_is_fitted(self)
        return self._history.prequential_mse

    @property
    def seen_mse_(self) -> float:
        """Mean over the tasks seen of the mean squared error on their held-out rows; NaN without ``holdout``."""
        check_is_fitted(self)
        return math.nan if self._holdout is None else self._holdout.error(self)

    def __sklearn_is_fitted__(self) -> bool:
        return "coef_" in self.__dict__

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags


def _dispatched(X: Any) -> bool:
    """Return whether scikit-learn was told to keep arrays of other libraries, and X is one."""
    from sklearn import get_config

    return bool(get_config()["array_api_dispatch"]) and not is_sparse(X) and hasattr(X, "dtype") and not (
        isinstance(X, np.ndarray | np.generic) or hasattr(X, "iloc")
    )  # fmt: skip


def _same_namespace(model: Any, X: Any, method: str) -> None:
    if not (_dispatched(X) or _dispatched(model.coef_)):
        return
    ours, theirs = namespace_of(model.coef_), namespace_of(X) if hasattr(X, "shape") and not is_sparse(X) else np
    if ours is theirs or ours.__name__ == theirs.__name__:
        return
    raise ValueError(
        f"Inputs passed to {type(model).__name__}.{method}() must use the same namespace and the same device as those "
        f"passed to fit(); the model holds {ours.__name__} arrays and X is of {theirs.__name__}. Convert X."
    )


def _columns(y: Array) -> Array:
    return y[:, None] if y.ndim == 1 else y


def _is_zero(X: Any) -> bool:
    if is_sparse(X):
        return not bool(np.any(X.data))
    xp = namespace_of(X)
    # The first row nearly always answers; all of a large X is only compared when it does not.
    return not bool(xp.any(X[:1, :] != 0)) and not bool(xp.any(X != 0))


def _group_codes(groups: Any, n: int) -> tuple[Any, int]:
    """Return a number per row, counting groups in the order in which they first appear."""
    if groups is None:
        return np.zeros(n, dtype=np.int64), 1
    labels = np.asarray(to_numpy(groups) if hasattr(groups, "__array_namespace__") else groups)
    if labels.shape != (n,):
        raise ValueError(f"groups must have one label per row, shape ({n},), got {labels.shape}")
    missing = labels != labels
    if np.any(missing):
        raise ValueError(f"groups must have a label for every row, got NaN in {int(np.sum(missing))} rows; name them")
    _, first, codes = np.unique(labels, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[codes], len(first)


def _take(X: Any, y: Any, weight: Any, at: Any) -> tuple[Any, Any, Any]:
    if at is None:
        return X, y, weight
    return rows_of(X, at), rows_of(y, at), None if weight is None else rows_of(weight, at)
