"""What the estimators share: tasks of ``fit``, one assignment per task, views of the state."""

import copy
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_array, check_consistent_length, check_is_fitted

from forgetless import _validate as validate
from forgetless import io
from forgetless._table import Table
from forgetless._validate import Floats, group_labels
from forgetless.estimators import files, tasks
from forgetless.estimators.memory import Memory, Options
from forgetless.estimators.rows import Rows

_SEEN = ("n_features_in_", "feature_names_in_")
"""What scikit-learn stores of the first task."""


LATE = 20
"""Tasks whose errors before they were learned are stored one by one, for alarms."""


class Before(NamedTuple):
    """Errors of predicting rows before they were learned, from the second task on.

    Attributes
    ----------
    error, rows : float
        Sums of the errors and of the weights of the rows.
    recent, recent_rows : float
        The same with weights (n_i/n)² for n_i rows at their time, so that late tasks count more.
    late : tuple of float
        Mean errors of the last ``LATE`` tasks.
    """

    error: float = 0.0
    rows: float = 0.0
    recent: float = 0.0
    recent_rows: float = 0.0
    late: tuple[float, ...] = ()

    def plus(self, error: float, rows: float, learned: float) -> "Before":
        """Return the sums with a task of ``rows`` rows after ``learned`` rows."""
        left = (learned / (learned + rows)) ** 2
        return Before(
            self.error + error,
            self.rows + rows,
            left * self.recent + error,
            left * self.recent_rows + rows,
            (*self.late, error / rows)[-LATE:],
        )

    @property
    def mean(self) -> float:
        """The mean error."""
        return self.error / self.rows if self.rows else float("nan")


class Streaming(BaseEstimator):  # type: ignore[misc]
    """Base of the estimators: learned attributes are views of one immutable ``_state``, which is
    replaced by one assignment per task.

    An error or an interruption leaves the model as it was, and one thread may learn while others
    predict. Two threads must not learn at the same time.
    """

    _state: Any = None
    _cache: list[Any]
    _n_seen: int = 0
    _start: dict[str, Any]
    _y_shape: tuple[int, ...] = ()
    _states: type
    _fixed: tuple[str, ...] = ()
    """Parameters that cannot change within a stream."""

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
        blank = self._blank()
        parts = _parts(tasks.array_of(X), y, groups, sample_weight)
        blank._n_groups = len(parts)
        for X, y, weight in parts:
            blank.partial_fit(X, y, sample_weight=weight)
        self.__dict__ = blank.__dict__
        return self

    def partial_fit(self, X: Any, y: Any, *, sample_weight: Any = None) -> Self:
        """Learn one task."""
        raise TypeError(f"{type(self).__name__} is a base class; use one of its subclasses")

    def _blank(self) -> Any:
        """Return a copy that has learned nothing."""
        other = copy.copy(self)
        for name in ("_state", "_cache", "_n_seen", "_start", "_n_groups", "_y_shape", *_SEEN):
            other.__dict__.pop(name, None)
        return other

    def _commit(self, draft: Any, state: Any, n_tasks: int = 1) -> Self:
        """Adopt a draft with its new state: the only place where a model learns."""
        learned = {
            "_state": state,
            "_cache": [],
            "_n_seen": self._n_seen + n_tasks,
            "_start": {name: getattr(self, name) for name in self._fixed},
        }
        self.__dict__ = {**draft.__dict__, **learned}
        return self

    def _check_fixed(self) -> None:
        """Raise ValueError if a parameter has changed that a stream cannot change."""
        if self._state is None:
            self._check_parameters()
            return
        for name, value in self._start.items():
            if getattr(self, name) != value:
                raise ValueError(
                    f"{name} was {value!r} for the first task and cannot become"
                    f" {getattr(self, name)!r} within a stream; set it back, or start again with"
                    " fit or sklearn.base.clone"
                )

    def _check_parameters(self) -> None:
        """Raise TypeError or ValueError where a parameter is not valid."""
        for name, value in self.get_params(deep=False).items():
            if name in ("adaptive", "fit_intercept", "standardize"):
                if not isinstance(value, bool | np.bool_):
                    raise TypeError(f"{name} must be True or False, got {value!r}")
            elif value is None:
                continue
            elif name in ("rank", "n_tasks", "n_steps"):
                validate.integer(name, value, 1, "the default is a good start")
            elif name in ("alpha", "guard", "radius", "step_size"):
                validate.number(name, value, "the default is a good start")

    def _fitted(self) -> Any:
        check_is_fitted(self)
        return self._state

    def widen(self, count: int, names: Any = None) -> Self:
        """Add features behind the present ones, as if they had been there from the start, zero in
        every row.

        Parameters
        ----------
        count : int
        names : sequence of str, optional
            Their names, where features have names.
        """
        state = self._fitted()
        validate.integer("count", count, 1, "pass the number of new features")
        draft = copy.copy(self)
        draft.n_features_in_ = self.n_features_in_ + count
        if hasattr(self, "feature_names_in_"):
            if names is None or len(names) != count:
                raise ValueError(
                    f"names must be {count} names, since features have names, got {names!r}"
                )
            draft.feature_names_in_ = np.array([*self.feature_names_in_, *names], dtype=object)
        return self._commit(draft, state._replace(**self._widened(state, count)), 0)

    def _widened(self, state: Any, count: int) -> dict[str, Any]:
        """Return the parts of a state that change with ``count`` more features."""
        raise TypeError(f"{type(self).__name__} is a base class; use one of its subclasses")

    def _shaped(self, values: Floats) -> NDArray[Any]:
        """Return predictions (n, c) in the shape of the targets."""
        return values[:, 0] if self._y_shape == () else values

    def save(self, path: Any) -> None:
        """Write the model to a file, atomically; :func:`forgetless.load` reads it.

        Rows are not stored, but their statistics are: of a single row these are the row itself.
        """
        document = files.to_document(self)
        io.write(path, document.kind, document.header, document.arrays)

    def coefficients(self) -> Table:
        """Return a table of the coefficients by feature, one column for every target or class.

        ``±`` is the standard error, where there is one, and ``scale`` the standard deviation of the
        feature over all rows, where the model knows it: their product with a coefficient says how
        much a feature moves predictions.
        """
        coef = np.atleast_2d(self.coef_)
        names = getattr(self, "feature_names_in_", range(coef.shape[1]))
        labels = getattr(self, "classes_", [f"target {i}" for i in range(len(coef))])
        heads = ["coefficient"] if len(coef) == 1 else map(str, labels)
        columns: dict[str, list[Any]] = {"feature": [str(name) for name in names]}
        columns |= {head: row.tolist() for head, row in zip(heads, coef, strict=True)}
        columns |= {name: each.tolist() for name, each in self._beside_coefficients().items()}
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
        is_regressor = isinstance(self, RegressorMixin)
        other = LinearRegression() if is_regressor else LogisticRegression()
        for name, value in self._linear().items():
            setattr(other, name, value)
        for name in _SEEN:
            if hasattr(self, name):
                setattr(other, name, getattr(self, name))
        return other

    def _linear(self) -> dict[str, Any]:
        """Return the attributes of the linear model of scikit-learn."""
        return {"coef_": np.array(self.coef_), "intercept_": self.intercept_}

    @property
    def n_tasks_seen_(self) -> int:
        """Number of tasks learned."""
        check_is_fitted(self)
        return self._n_seen

    @property
    def late_errors_(self) -> Floats:
        """Mean errors of the last 20 tasks before they were learned, as of ``prequential_mse_`` or
        ``prequential_error_``.
        """
        state = self._fitted()
        n_targets = (
            max(1, *self._y_shape) if isinstance(self, RegressorMixin) and self._y_shape else 1
        )
        return np.array(state.before.late) / n_targets

    @property
    def nbytes_(self) -> int:
        """Size of the state in bytes."""
        return sum(array.nbytes for array in files.flatten(self._fitted())[0].values())

    def __copy__(self) -> Self:
        """Return an independent copy; it shares arrays, which are never changed in place."""
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._cache = []
        return other

    def __sklearn_is_fitted__(self) -> bool:
        return self._state is not None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        tags.target_tags.multi_output = isinstance(self, RegressorMixin)
        return tags

    def __getstate__(self) -> Any:
        state = dict(super().__getstate__())
        if self._state is not None:
            state |= {"_cache": [], "_state": self._fitted()}
        return state

    coef_: Any
    intercept_: Any
    n_features_in_: int
    feature_names_in_: NDArray[Any]


def _parts(X: Any, y: Any, groups: Any, weight: Any) -> list[tuple[Any, Any, Any]]:
    """Return the task (X, y, weight) of every group, in the order in which they first appear."""
    if groups is None:
        return [(X, y, weight)]
    if not hasattr(X, "iloc"):  # a data frame keeps the names of its features
        X = check_array(X, accept_sparse="csr", dtype=None, ensure_all_finite=False)
    y = np.asarray(y)
    labels = group_labels(groups)
    if labels.ndim != 1:
        raise ValueError(f"groups must be of shape (n,), got {labels.shape}; one label a row")
    check_consistent_length(X, y, labels)
    parts = []
    for label in dict.fromkeys(labels.tolist()):
        at = np.flatnonzero(labels == label)
        part = X.iloc[at] if hasattr(X, "iloc") else X[at]
        parts.append((part, y[at], None if weight is None else np.asarray(weight)[at]))
    return parts


class Remembering(Streaming):
    """Base of the estimators with a memory of all rows."""

    alpha: float | None

    def _options(self) -> Options:
        """Return how rows are kept and solved."""
        raise TypeError(f"{type(self).__name__} is a base class; use one of its subclasses")

    def _strength(self) -> float | None:
        """Return alpha as a number; None if it is chosen by evidence."""
        alpha = self.alpha
        if alpha is not None and not alpha > 0:
            raise ValueError(
                f"alpha must be positive, got {alpha!r}; use a small number, None for the evidence,"
                " or ContinualRidge(0)"
            )
        return None if alpha is None else float(alpha)

    def _solved(self) -> tuple[Any, Memory]:
        """Return the state, and its memory with the solution on all rows, computed when first
        read.
        """
        check_is_fitted(self)
        held = self.__dict__  # replaced as a whole by a thread that learns
        cache = held["_cache"]
        if not cache or cache[0][0] != held["alpha"]:
            reader = copy.copy(self)
            reader.__dict__ = dict(held)
            cache[:] = [(held["alpha"], *reader._solved_now())]  # the same in every thread
        _, state, memory = cache[0]
        return state, memory

    def _solved_now(self) -> tuple[Any, Memory]:
        """Return the state with waiting rows, and its memory with the solution on all rows."""
        raise TypeError(f"{type(self).__name__} is a base class; use one of its subclasses")

    @property
    def alpha_(self) -> float:
        """λ of the present solution."""
        return float(self._solved()[1].fit.strength)

    @property
    def rows_(self) -> Rows:
        """The statistics of all rows."""
        rows: Rows = self._fitted().memory.rows
        return rows

    def _beside_coefficients(self) -> dict[str, Floats]:
        return {"scale": self.rows_.scale}

    @property
    def retained_fraction_(self) -> float:
        """Fraction of the variance of the columns that the vectors hold."""
        return float(getattr(self.rows_.gram, "retained", 1.0))
