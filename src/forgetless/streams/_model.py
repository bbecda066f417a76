"""What every streaming estimator shares: one task per ``partial_fit``, all or nothing, monitoring, prediction.

A subclass says how one task changes the weights (``_change``). The state is ``coef_`` and ``intercept_`` plus whatever
the subclass keeps; an error of any kind leaves all of it exactly as it was.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from forgetless._base import checks
from forgetless._base.arrays import Array, namespace_of, to_numpy, zeros
from forgetless.solvers.rows import BLOCK_BYTES, Rows, columns_of, is_sparse, plain, weighted
from forgetless.streams._input import (
    check_dispatch,
    check_namespace,
    dispatched,
    gathered,
    group_codes,
    is_plain,
    is_zero,
    take,
    validated,
)
from forgetless.streams._monitor import History, Holdout, nbytes
from forgetless.streams.files import load, save


class Change(NamedTuple):
    """What a subclass makes of one task: new weights minus old (d, c), and what the history records."""

    weights: Array
    after: Any
    strength: float = math.nan
    radius: float = math.nan
    error: float = math.nan
    keep: dict[str, Any] | None = None


class StreamingModel(BaseEstimator, ABC):  # type: ignore[misc]
    """Base of the estimators here."""

    # Set by subclasses in their constructors, which only store.
    fit_intercept: bool
    history_size: int
    holdout: float
    holdout_size: int
    random_state: Any
    memory: int

    _array_api = False

    @abstractmethod
    def _change(self, rows: Rows, residual: Array, weight: float, right: Array | None, start: Array) -> Change:
        """Return what one task does; ``weight`` is the number of its rows, or the sum of their weights."""

    def _check_parameters(self) -> None:
        """Refuse parameters that make no sense, now or after the first task."""
        checks.integer("history_size", self.history_size, 0, "use 0 to keep no history")
        checks.integer("holdout_size", self.holdout_size, 1, "say how many held-out rows may be kept")
        checks.integer("memory", self.memory, 1, "give the number of bytes a factorisation may take")
        if not 0.0 <= checks.number("holdout", self.holdout, "use 0 to train on all rows") < 1.0:
            raise ValueError(f"holdout must be a share of the rows in [0, 1), got {self.holdout!r}; use e.g. 0.1")
        for name, value in self.__dict__.get("_fixed", {}).items():
            if getattr(self, name) != value:
                raise ValueError(
                    f"{name} was {value!r} for the first task and cannot become {getattr(self, name)!r} within a "
                    "stream; set it back, or begin anew with fit or sklearn.base.clone"
                )

    # --- fitting ---

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
            codes, count = group_codes(groups, X.shape[0])
            self._n_groups = count if groups is not None else None
            for code in range(count):
                self._learn_task(*((X, y, weight) if count == 1 else take(X, y, weight, np.flatnonzero(codes == code))))
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
            fresh = self._begin()
            weight = None
            if fresh or sample_weight is not None or not is_plain(self, X, y):
                X, y, weight = self._validated(X, y, sample_weight, reset=fresh)
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
            self._begin()
            if self._holdout is not None:
                raise ValueError("holdout needs tasks as arrays; set holdout=0 to learn from blocks")
            read: Callable[[], Iterator[Any]] = (lambda: iter(blocks())) if callable(blocks) else (lambda: iter(blocks))
            once = not callable(blocks) and iter(blocks) is iter(blocks)
            self._finish(*gathered(self, read, once=once), None)
        return self

    def _learn_row(self, X: Array, y: Array) -> bool:
        """Learn a task of one plain row on a short path and return True; return False to take the usual one."""
        return False

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Put everything back as it was if anything goes wrong: no object in ``__dict__`` is changed in place."""
        before = self.__dict__.copy()
        try:
            yield
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def _begin(self) -> bool:
        """Return whether the coming task is the first; check the parameters either way."""
        if "coef_" in self.__dict__:
            self._check_parameters()
            return False
        self._reset()
        return True

    def _reset(self) -> None:
        for name in [name for name in self.__dict__ if name.endswith("_") and not name.startswith("__")]:
            del self.__dict__[name]
        for name in ("_n_groups", "_fixed", "_history", "_holdout"):
            self.__dict__.pop(name, None)
        self._check_parameters()
        self._fixed = {name: getattr(self, name) for name in self._fixed_names()}
        self.n_tasks_seen_ = 0
        self._history = History(self.history_size)
        self._holdout = None
        if self.holdout > 0:
            given = self.random_state
            seed = given if isinstance(given, int) else int(check_random_state(given).randint(2**31 - 1))
            self._holdout = Holdout(self.holdout, self.holdout_size, seed)

    def _fixed_names(self) -> tuple[str, ...]:
        """Return the parameters that cannot change within a stream."""
        return ("fit_intercept", "history_size", "holdout", "holdout_size")

    def _validated(self, X: Any, y: Any, sample_weight: Any, *, reset: bool) -> tuple[Any, Any, Any]:
        return validated(self, X, y, sample_weight, reset=reset, array_api=self._array_api)

    # --- one task ---

    def _learn_task(self, X: Any, y: Any, weight: Any) -> None:
        if weight is not None:
            kept = to_numpy(weight) > 0  # rows of weight zero are as good as absent
            if not kept.any():
                raise ValueError("sample_weight is zero for every row of a task: nothing to learn; leave it out")
            if not kept.all():
                X, y, weight = take(X, y, weight, np.flatnonzero(kept))
        if is_zero(X):
            raise ValueError(
                f"X of task {self.n_tasks_seen_ + 1}, of shape {tuple(X.shape)}, holds only zeros: nothing to learn; "
                "leave it out"
            )
        held = None
        if self._holdout is not None:
            X, y, weight, held = self._holdout.split(X, y, weight, self.n_tasks_seen_)
        weights = self._weights(X, y)
        first = "coef_" not in self.__dict__  # from zero weights there is nothing to subtract
        residual = columns_of(y) if first else columns_of(y) - self._raw_predict(X, weights)
        total = float(X.shape[0])
        if weight is not None:
            total = float(to_numpy(weight).sum())
            residual = weighted(residual, weight)
        rows = self._rows(X, weight, bool(self.fit_intercept), residual.dtype)
        self._finish(rows, residual, total, int(X.shape[0]), weights, None, held)

    def _rows(self, X: Any, weight: Any, intercept: bool, dtype: Any) -> Rows:
        if weight is None and not intercept and X.dtype == dtype and not is_sparse(X):
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

    def _finish(self, rows: Rows, residual: Array, total: float, n: int, weights: Array, right: Any, held: Any) -> None:
        """Make the step and store the result, all of it new objects."""
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
        self.__dict__.update(change.keep or {})
        self.n_tasks_seen_ += 1
        seen = math.nan
        if self._holdout is not None:
            self._holdout = self._holdout.with_part(held, self.n_tasks_seen_)
            seen = self._holdout.error(self)
        scale = total * residual.shape[1]
        before = float(np.sum(np.square(to_numpy(residual), dtype=np.float64))) / scale
        after = float(np.sum(change.after)) / scale
        self._history = self._history.with_row(
            (self.n_tasks_seen_, n, change.strength, change.radius, before, after, change.error, seen), total
        )

    # --- weights and prediction ---

    def _weights(self, X: Any, y: Any) -> Array:
        """Return the current weights (d, c), the last row being the intercept; zeros before the first task."""
        known = self.__dict__.get("coef_")
        if known is None:
            self._target_shape = tuple(y.shape[1:])
            shape = (int(X.shape[1]) + bool(self.fit_intercept), y.shape[1] if y.ndim > 1 else 1)
            return zeros(shape, np.zeros(0, dtype=X.dtype) if is_sparse(X) else X)
        xp = namespace_of(known)
        columns = xp.reshape(known, (-1, 1)) if known.ndim == 1 else known.T
        if not self.fit_intercept:
            return columns
        last = xp.reshape(xp.asarray(self.intercept_, dtype=known.dtype), (1, -1))
        return xp.concat([columns, last], axis=0)

    def _raw_predict(self, X: Any, weights: Array) -> Array:
        return X @ weights[:-1, :] + weights[-1, :] if self.fit_intercept else X @ weights

    def _linear(self, X: Any, method: str) -> Array:
        check_is_fitted(self)
        check_dispatch(self)
        if self._array_api:
            check_namespace(self, X, method)
        elif dispatched(X):
            X = to_numpy(X)
        coef, xp = self.coef_, namespace_of(self.coef_)
        X = validate_data(self, X, reset=False, accept_sparse="csr", dtype=[xp.float64, xp.float32])
        if X.dtype != coef.dtype and not is_sparse(X):
            wide = xp.result_type(X.dtype, coef.dtype)
            X, coef = xp.astype(X, wide, copy=False), xp.astype(coef, wide, copy=False)
        return X @ coef.T + self.intercept_ if coef.ndim > 1 else X @ coef + self.intercept_

    # --- files and monitoring ---

    def save(self, path: Any) -> None:
        """Write the model to a file: see :func:`forgetless.persistence.save`."""
        save(self, path)

    @classmethod
    def load(cls, path: Any, **parameters: Any) -> Self:
        """Return the model in a file; ``parameters`` replace stored ones, e.g. a schedule that could not be stored."""
        model: Self = load(cls, path, parameters)
        return model

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
        """Mean over tasks of the mean squared error on their held-out rows, unweighted; NaN without ``holdout``."""
        check_is_fitted(self)
        return math.nan if self._holdout is None else self._holdout.error(self)

    @property
    def nbytes_(self) -> int:
        """Bytes of what is kept from one task to the next: weights, memories, history, held-out and replayed rows."""
        check_is_fitted(self)
        kept = [value for name, value in self.__dict__.items() if name.endswith("_")]
        return sum(map(nbytes, [*kept, self._history, self._holdout, self.__dict__.get("_advisor")]))

    def __copy__(self) -> Self:
        """Return a copy that shares arrays, which are never changed in place, but not the history, which is."""
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__)
        if "_history" in other.__dict__:
            other._history = other._history.copy()
        return other

    def __sklearn_is_fitted__(self) -> bool:
        return "coef_" in self.__dict__

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        tags.array_api_support = self._array_api
        return tags


def store(model: Any, arguments: dict[str, Any]) -> None:
    """Keep the arguments of a constructor as they are, each under its name.

    Constructors list all their parameters, as scikit-learn reads them from there, and do nothing but this.
    """
    for name, value in arguments.items():
        if name != "self":
            setattr(model, name, value)
