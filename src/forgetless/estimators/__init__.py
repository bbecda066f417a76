"""Streaming estimators: ridge regression on mergeable statistics of rows, and the paper's schemes.

``inputs`` checks tasks and holds rows to predict in their range. ``rows``, ``moments`` and
``systems`` are the algebra, ``memory`` decides when to solve. The estimators are in ``ridge``,
``classifier``, ``logistic`` (for data) and ``schemes`` (for the paper), and ``files`` stores them.

Here is what they share. Everything learned is one immutable ``_state``. ``partial_fit`` writes on a
draft, a shallow copy, and ``_commit`` gives the attributes of the draft to the model in one
assignment: the only place where a model changes. An error or an interruption therefore leaves it as
it was, and threads that read meanwhile see the old state or the new one.
"""

import copy
import math
from abc import ABC, abstractmethod
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from forgetless import _validate as validate
from forgetless import io
from forgetless._table import Table
from forgetless._validate import Array, Floats
from forgetless.estimators import files, inputs
from forgetless.estimators.inputs import Linear

_SEEN = ("n_features_in_", "feature_names_in_")
"""What scikit-learn stores of the first task."""


class Before(NamedTuple):
    """Errors of predicting rows before they were learned, from the second task on.

    Attributes
    ----------
    error, rows : float
        Sums of the errors and of the weights of the rows.
    recent, recent_rows : float
        The same with weights (n_i/n)² for n_i rows at their time, so that late tasks count more.
    """

    error: float = 0.0
    rows: float = 0.0
    recent: float = 0.0
    recent_rows: float = 0.0

    def plus(self, error: float, rows: float, learned: float) -> "Before":
        """Return the sums with a task of ``rows`` rows after ``learned`` rows."""
        # n grows from ``learned`` to ``learned + rows``, and with it every earlier weight shrinks.
        left = (learned / (learned + rows)) ** 2
        return Before(
            self.error + error,
            self.rows + rows,
            left * self.recent + error,
            left * self.recent_rows + rows,
        )

    @property
    def mean(self) -> float:
        """The mean error; NaN before the second task."""
        if not self.rows:
            return float("nan")
        return self.error / self.rows


class Streaming(BaseEstimator, ABC):  # type: ignore[misc]
    """Base of the estimators. Two threads must not learn at the same time."""

    # What was learned, what is computed from it when it is read, and the number of tasks.
    _state: Any = None
    _cache: Any
    _n_seen: int = 0
    # The shape of the target of one row, and the number of groups of ``fit``, where it was called.
    _y_shape: tuple[int, ...] = ()
    _n_groups: int | None = None
    # Parameters that cannot change within a stream, and their values at the first task.
    _fixed: tuple[str, ...] = ()
    _start: Any

    def fit(self, X: Any, y: Any, groups: Any = None, sample_weight: Any = None) -> Self:
        """Discard everything learned, then learn one task per group of rows.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, d)
        y : array of shape (n,) or (n, c)
        groups : array of shape (n,), optional
            The task of every row; tasks are learned in the order in which their labels first
            appear. All rows are one task if omitted.
        sample_weight : array of shape (n,), optional
            Nonnegative weight of every row.
        """
        # On a copy: a task that cannot be learned leaves the old model.
        blank = copy.copy(self)
        for name in ("_state", "_cache", "_n_seen", "_start", "_n_groups", "_y_shape", *_SEEN):
            blank.__dict__.pop(name, None)
        parts = inputs.of_groups(X, y, sample_weight, groups)
        blank._n_groups = len(parts)
        for X, y, weight in parts:
            blank.partial_fit(X, y, sample_weight=weight)
        self.__dict__ = blank.__dict__
        return self

    @abstractmethod
    def partial_fit(self, X: Any, y: Any, *, sample_weight: Any = None) -> Self:
        """Learn one task."""

    def _draft(self) -> Self:
        """Return a copy on which scikit-learn's checks may write; errors for parameters that are
        not valid, or that have changed and cannot change within a stream.
        """
        if self._state is None:
            self._check_parameters()
            return copy.copy(self)
        # They decide what is stored: a new value would need all earlier rows.
        for name, value in self._start.items():
            if getattr(self, name) != value:
                raise ValueError(
                    f"{name} was {value!r} for the first task and cannot become"
                    f" {getattr(self, name)!r} within a stream; set it back, or start again with"
                    " fit or sklearn.base.clone"
                )
        return copy.copy(self)

    def _commit(self, draft: Any, state: Any, n_tasks: int = 1) -> Self:
        """Adopt a draft with its new state."""
        learned = {
            "_state": state,
            "_cache": [],  # of what is computed when it is read
            "_n_seen": self._n_seen + n_tasks,
            "_start": {name: getattr(self, name) for name in self._fixed},
        }
        self.__dict__ = {**draft.__dict__, **learned}
        return self

    def _check_parameters(self) -> None:
        """Raise TypeError or ValueError where a parameter is not what its annotation says."""
        hint = "the default is a good start"
        for name, kind in type(self).__init__.__annotations__.items():
            value = getattr(self, name, None)
            if kind is bool and not isinstance(value, bool | np.bool_):
                raise TypeError(f"{name} must be True or False, got {value!r}")
            # None stands for a default that is chosen later.
            if value is not None and kind == int | None:
                validate.integer(name, value, 1, hint)
            if value is not None and kind in (float, float | None):
                validate.number(name, value, hint)

    def _fitted(self) -> Any:
        check_is_fitted(self)
        return self._state

    @abstractmethod
    def _linear(self) -> Linear:
        """Return the model that predicts now."""

    def _values(self, X: Any) -> Any:
        """Return the values (n, c) of the linear model."""
        return self._linear().predict(inputs.rows(self, X))

    def _shaped(self, values: Floats) -> Array:
        """Return values (n, c) in the shape of the targets."""
        if self._y_shape == ():
            return values[:, 0]
        return values

    @property
    def coef_(self) -> Any:
        """Coefficients in the units of the data, (d,) or (c, d)."""
        return self._shaped(self._linear().coef).T

    @property
    def intercept_(self) -> Any:
        """Intercept, a number or (c,)."""
        return self._shaped(self._linear().intercept[None])[0]

    def widen(self, count: int, names: Any = None) -> Self:
        """Add features behind the present ones, as if they had been there from the start, zero in
        every row.

        Parameters
        ----------
        count : int
        names : sequence of str, optional
            Their names, where features have names.
        """
        # Statistics and weights of a column of zeros are zeros.
        state = self._fitted()
        validate.integer("count", count, 1, "pass the number of new features")
        draft = copy.copy(self)
        draft.n_features_in_ = self.n_features_in_ + count
        if hasattr(self, "feature_names_in_"):
            if names is None or len(names) != count:
                raise ValueError(
                    f"names must be {count} names, since features have names, got {names!r}"
                )
            every = [*self.feature_names_in_, *names]
            draft.feature_names_in_ = np.array(every, dtype=object)
        wide = files.widened(state, self.n_features_in_, count)
        return self._commit(draft, wide, 0)

    def save(self, path: Any) -> None:
        """Write the model to a file, atomically; :func:`forgetless.load` reads it.

        Rows are not stored, but their statistics are: of a single row these are the row itself.
        """
        io.write(path, *files.to_document(self)[:3])

    def coefficients(self) -> Table:
        """Return a table of the coefficients by feature, one column for every target or class.

        ``±`` is the standard error, where there is one, and ``scale`` the standard deviation of the
        feature over all rows, where the model knows it: their product with a coefficient says how
        much a feature moves predictions.
        """
        coef = np.atleast_2d(self.coef_)
        names = getattr(self, "feature_names_in_", range(coef.shape[1]))
        labels = getattr(self, "classes_", [f"target {i}" for i in range(len(coef))])
        # Of two classes there may be one row, of the second against the first.
        heads = ["coefficient"] if len(coef) == 1 else map(str, labels)
        columns: dict[str, list[Any]] = {"feature": [*map(str, names)]}
        columns |= zip(heads, coef.tolist(), strict=True)
        for name, values in self._beside_coefficients().items():
            columns[name] = values.tolist()
        return Table("Coefficients", columns)

    def _beside_coefficients(self) -> dict[str, Floats]:
        """Return what else is known about every feature; weights alone have no standard errors."""
        return {}

    def to_sklearn(self) -> Any:
        """Return a fitted linear model of scikit-learn with the present coefficients:
        ``LinearRegression``, or ``LogisticRegression`` of the same classes.

        It predicts without forgetless, and without the guard. Of more than two classes of
        ``StreamingLogistic`` the predicted class is the same, and probabilities are not.
        """
        from sklearn.linear_model import LinearRegression, LogisticRegression

        check_is_fitted(self)
        # What it learns is in its attributes; parameters of its training do not matter.
        other = LinearRegression() if isinstance(self, RegressorMixin) else LogisticRegression()
        for name in ("coef_", "intercept_", "classes_", *_SEEN):
            if hasattr(self, name):
                setattr(other, name, copy.copy(getattr(self, name)))
        return other

    @property
    def n_tasks_seen_(self) -> int:
        """Number of tasks learned."""
        check_is_fitted(self)
        return self._n_seen

    def __copy__(self) -> Self:
        """Return an independent copy; it shares arrays, which are never changed in place."""
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__)
        # Readers write into the cache, which therefore is not shared.
        other._cache = []
        return other

    def __sklearn_is_fitted__(self) -> bool:
        return self._state is not None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.multi_output = isinstance(self, RegressorMixin)
        return tags

    def __getstate__(self) -> Any:
        state = dict(super().__getstate__())
        if self._state is not None:  # with the rows that wait, and without what can be computed
            state |= {"_cache": [], "_state": self._fitted()}
        return state

    n_features_in_: int
    feature_names_in_: Array


class StreamingRegressor(RegressorMixin, Streaming):  # type: ignore[misc]
    """Base of the regressors."""

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn one task.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, d)
        y : array of shape (n,) or (n, c)
        sample_weight : array of shape (n,), optional
            Nonnegative weights; a weight of 2 is the same as the row twice.
        """
        draft = self._draft()
        checked = inputs.task(draft, X, y, sample_weight)
        return self._commit(draft, self._learned(*checked))

    @abstractmethod
    def _learned(self, X: Any, y: Floats, weight: Any) -> Any:
        """Return the state after a task."""

    def predict(self, X: Any) -> Any:
        """Return predictions, (n,) or (n, c)."""
        return self._shaped(self._values(X))

    @property
    def prequential_mse_(self) -> float:
        """Mean squared error of rows before they were learned, over all targets."""
        # Errors of a row are summed over targets.
        n_targets = math.prod(self._y_shape)
        return float(self._fitted().before.mean) / n_targets
