"""Base of the streaming estimators: one task per ``partial_fit``, all or nothing, and predictions.

A model *has* a rule, made from its parameters, that says what one task does to the state. Learning
changes only the reference of a model to its immutable :class:`State`, in one assignment at the end.
The learned attributes are views of that state: ``predict`` reads one state, and
``copy.copy(model)`` gives a model that no longer changes.
"""

from abc import ABC, abstractmethod
from functools import cache
from operator import attrgetter
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from forgetless._core import averages, validate
from forgetless._core.arrays import Array
from forgetless._core.dask_arrays import is_remote
from forgetless._core.threads import few_threads, gram_work
from forgetless.errors import ConvergenceError
from forgetless.estimators import _input as inputs
from forgetless.estimators import files
from forgetless.estimators._uncertainty import coefficient_std, prediction_std
from forgetless.estimators._units import Units, mean_of
from forgetless.estimators.counted import Encoded
from forgetless.estimators.evidence import Experts
from forgetless.estimators.history import History, TaskHistory
from forgetless.estimators.low_rank import LowRankMemory, Subspace
from forgetless.estimators.rules import Rule
from forgetless.estimators.standard_blocks import encoded_task, standardized_blocks
from forgetless.estimators.state import Learned, Origin, Plan, Settable, State, ranges_of
from forgetless.io import Fields
from forgetless.solvers.rows import is_sparse, is_zero

TALL = 50
"""Rows for each feature from which on a pipeline learns a task from its XᵀX."""

BLOCK = 2**20
"""Bytes of the rows that are written down at a time then: the size of a processor's cache."""


class StreamingRegressor(BaseEstimator, ABC):  # type: ignore[misc]
    """Base of the estimators here."""

    # Set by subclasses in their constructors, which only store.
    fit_intercept: bool
    standardize: bool = False

    _gram_suffices = True
    """Whether a task can be learned from XᵀX and Xᵀy alone."""

    _has_classes = False

    _fixed_names: tuple[str, ...] = (
        "fit_intercept",
        "standardize",
        "average",
        "memory",
    )
    """Parameters that cannot change within a stream."""

    _state: State | None = None

    coef_ = Learned(
        lambda state: state.in_user_units.coef, "Coefficients, of shape (d,) or (c, d)."
    )
    intercept_ = Learned(
        lambda state: state.in_user_units.intercept, "Intercept, a float or of shape (c,)."
    )
    n_tasks_seen_ = Learned(lambda state: state.n_tasks, "Number of tasks learned.")
    n_features_in_ = Settable("n_features", "Number of features.")
    feature_names_in_ = Settable("feature_names", "Names of the features, where X had them.")

    @abstractmethod
    def _make_rule(self, n_groups: int | None) -> Rule:
        """Return the rule of the parameters, which are checked; ``n_groups`` is the number of tasks
        ``fit`` counted.
        """

    def _read_memory(self, fields: Fields, d: int, c: int) -> Any:
        """Return the memory of d weights and c targets in the arrays of a file; ValueError where
        one is not valid.
        """
        fixed = self._fixed()
        memory = fixed.get("memory")
        if "shares" in fields:
            return Experts.from_fields(fields, memory, d, c, intercept=fixed["fit_intercept"])
        return None if memory is None else Subspace.from_fields(fields, memory, d)

    # --- fitting ---

    def fit(self, X: Any, y: Any, groups: Any = None, sample_weight: Any = None) -> Self:
        """Discard everything learned, then learn one task per group of rows.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, d)
        y : array of shape (n,) or (n, c)
        groups : array of shape (n,), optional
            The task of each row. Tasks are learned in the order in which their labels first appear;
            all rows are one task if omitted.
        sample_weight : float or array of shape (n,), optional
            Nonnegative weight of each row in the loss of its task.
        """
        if is_remote(X):
            if groups is not None:
                raise ValueError(
                    "groups need arrays in memory; call partial_fit with the dask arrays of each"
                    " task"
                )
            self._state = self._after_cluster(self._beginning(), X, y, sample_weight)
            return self
        X, y, weight, state = self._validated(self._beginning(), X, y, sample_weight)
        codes, count = inputs.group_codes(groups, X.shape[0])
        if groups is not None:
            state = self._planned(
                state._replace(origin=state.origin._replace(n_groups=count), plan=None)
            )
        for code in range(count):
            mask = codes == code
            rows = (X, y, weight) if count == 1 else inputs.take(X, y, weight, np.flatnonzero(mask))
            state = self._after(state, *rows)
        self._state = state
        return self

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn one task, starting from the current weights.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, d)
            A dask array, with dense or sparse blocks of rows, is never loaded: its blocks are used
            where they are.
        y : array of shape (n,) or (n, c)
        sample_weight : float or array of shape (n,), optional
            Nonnegative weight of each row in the loss of this task.
        """
        state = self._current()
        if sample_weight is None and inputs.is_plain(state, X, y):
            self._state = self._after(state, X, y, None)
        elif is_remote(X):
            self._state = self._after_cluster(state, X, y, sample_weight)
        else:
            X, y, weight, state = self._validated(state, X, y, sample_weight)
            self._state = self._after(state, X, y, weight)
        return self

    def partial_fit_blocks(self, blocks: Any) -> Self:
        """Learn one task that is given as row blocks, which are never held together.

        Parameters
        ----------
        blocks : iterable of (X, y) or (X, y, sample_weight), or a callable that returns one
            A list or a callable can be read several times, which any number of features allows. A
            generator can be read once: then XᵀX is added up, of shape (d, d), which must fit into
            memory.
        """
        self._state = self._after_blocks(self._current(), blocks)
        return self

    def widen(self, count: int, names: Any = None) -> Self:
        """Add features behind the present ones, as if they had been there from the start, zero in
        every row.

        Parameters
        ----------
        count : int
        names : sequence of str, optional
            Their names, where features have names.
        """
        validate.integer("count", count, 1, "pass the number of new features")
        self._state = self._fitted().widened(count, names)
        return self

    # --- from one state to the next ---

    def _current(self) -> State:
        """Return the state that the next task starts from, with parameters checked."""
        state = self._state
        if state is None:
            return self._beginning()
        if state.origin.frozen:
            raise ValueError(
                "this model holds its weights only, as it was saved with state='predict': it cannot"
                " continue learning; load a file saved with state='learn', or start again with fit"
            )
        if state.plan is not None and state.plan.parameters == _parameters(type(self))(self):
            return state
        return self._planned(state)

    def _beginning(self) -> State:
        """Return the state of a stream without any task, with parameters checked."""
        return self._planned(State(Origin(self._fixed()), History([])))

    def _planned(self, state: State) -> State:
        """Return a state with the rule of the present parameters, which are checked."""
        averages.power(getattr(self, "average", None))
        rule, fixed = self._make_rule(state.origin.n_groups), self._fixed()
        for name in ("fit_intercept", "standardize"):
            if not isinstance(fixed[name], bool | np.bool_):
                raise TypeError(f"{name} must be True or False, got {fixed[name]!r}")
        for name, value in state.origin.fixed.items():
            if fixed[name] != value:
                raise ValueError(
                    f"{name} was {value!r} for the first task and cannot become {fixed[name]!r}"
                    " within a stream; set it back, or start again with fit or sklearn.base.clone"
                )
        return state._replace(plan=Plan(_parameters(type(self))(self), rule))

    def _fixed(self) -> dict[str, Any]:
        """Return the parameters that cannot change within a stream."""
        fixed = {name: self._value(name) for name in self._fixed_names if hasattr(self, name)}
        return fixed | ({"memory": LowRankMemory.of(fixed["memory"])} if "memory" in fixed else {})

    def _value(self, name: str) -> Any:
        """Return the value of a parameter; of one left to the model, the value that it has then."""
        return getattr(self, name)

    def _validated(
        self, state: State, X: Any, y: Any, sample_weight: Any
    ) -> tuple[Any, Any, Any, State]:
        """Return X, y and weights, checked, and the state with the features of the first rows."""
        # scikit-learn writes the features onto the estimator; the model itself changes at the end
        # only.
        draft = self._holding(state)
        X, y, weight = inputs.validated(draft, state, X, y, sample_weight)
        return X, y, weight, draft._state

    def _validated_block(
        self, state: State, X: Any, y: Any, sample_weight: Any
    ) -> tuple[Any, Any, Any, State]:
        """Return the same of a row block, which is one of several of a task."""
        if sample_weight is None and inputs.is_plain(state, X, y):
            return X, y, None, state
        return self._validated(state, X, y, sample_weight)

    @few_threads(lambda *task: gram_work(task[2].shape))
    def _after(self, state: State, X: Any, y: Any, weight: Any) -> State:
        """Return the state after a task given as arrays."""
        if weight is not None:
            positive = weight > 0  # rows of weight zero count as absent
            if not positive.any():
                raise ValueError(
                    "sample_weight is zero for every row of a task: nothing to learn; leave it out"
                )
            if not positive.all():
                X, y, weight = inputs.take(X, y, weight, np.flatnonzero(positive))
        if not state.fit_intercept and is_zero(X):
            raise ValueError(
                f"X of task {state.n_tasks + 1}, of shape {tuple(X.shape)}, holds only zeros:"
                " nothing to learn; leave it out"
            )
        ranges, before = None if state.rule.clip is None else ranges_of(X), state.units
        if state.standardize:
            units = Units.of(state, X).with_rows(X, weight)
            state = state.in_units(units).starting(X, y, mean_of(y, weight))
            X = units.inward(X)
        task = state.discounted(inputs.whole(state, X, y, weight), before)
        return state.after(task, state.rule.step(state, task)).with_ranges(ranges)

    def _after_blocks(self, state: State, blocks: Any) -> State:
        """Return the state after a task given as row blocks."""
        read = standardized_blocks if state.standardize else inputs.in_blocks
        check, ranges = self._validated_block, []

        def with_ranges(state: State, X: Any, y: Any, weight: Any) -> tuple[Any, Any, Any, State]:
            result = check(state, X, y, weight)
            ranges.append(ranges_of(result[0]))
            return result

        before = state.units
        task, state = read(state, blocks, check if state.rule.clip is None else with_ranges)
        task = state.discounted(task, before)
        state = state.after(task, state.rule.step(state, task))
        for block in ranges:
            state = state.with_ranges(block)
        return state

    def _after_cluster(self, state: State, X: Any, y: Any, weight: Any) -> State:
        """Return the state after a task given as dask arrays."""
        if state.standardize:
            raise ValueError(
                "standardize needs tasks in memory or in blocks; set it to False and scale the dask"
                " arrays"
            )
        task, state = inputs.on_cluster(state, X, y, weight, self._validated)
        return state.after(task, state.rule.step(state, task))

    def _learn_tall(self, X: Any, y: Any) -> bool:
        """Learn a task of very many rows from its XᵀX, added up in one pass, and return whether
        that was possible.

        Only with standardized columns: without common units XᵀX may lose too many digits.
        """
        n, d = X.shape
        dense = not X.sparse if isinstance(X, Encoded) else isinstance(X, np.ndarray)
        tall = dense and n >= max(TALL * d, 10_000) and inputs.gram_fits(d)
        if not tall or not self._value("standardize") or not self._gram_suffices:
            return False
        y = np.asarray(y)
        # many rows for each of the d² numbers that a block adds to
        step = max(BLOCK // (8 * d), 4 * d)
        try:
            return self._learn_parts(X, y, step)
        except ConvergenceError:
            return False

    @few_threads(lambda *parts: gram_work((parts[3], parts[1].shape[1])))
    def _learn_parts(self, X: Any, y: Any, step: int) -> bool:
        """Learn a task from parts of ``step`` rows, and return whether that was possible."""
        if not isinstance(X, Encoded):
            parts = ((X[low : low + step], y[low : low + step]) for low in range(0, len(X), step))
            self.partial_fit_blocks(parts)
            return True
        before = self._current()
        data = encoded_task(before, X, y, self._validated_block)
        if data is None:
            return False
        task, state = data
        task = state.discounted(task, before.units)
        ranges = None if state.rule.clip is None else X.ranges()
        self._state = state.after(task, state.rule.step(state, task)).with_ranges(ranges)
        return True

    # --- predictions ---

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return X·coef_ + intercept_.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, d)
        return_std : bool, default False
            Also return the standard deviation of every target around its prediction, for a single
            target: from the errors of rows before they were learned, and, where the model has a
            memory beside its weights, from the distance of a row to the rows learned.

        Returns
        -------
        array of shape (n,) or (n, c), and with ``return_std`` another of shape (n,)
        """
        state = self._fitted()
        predictions = self._linear(state, X)
        if not return_std:
            return predictions
        if state.coef.ndim > 1 or state.origin.frozen:
            needed = (
                "a single target" if state.coef.ndim > 1 else "a model saved with state='learn'"
            )
            raise ValueError(f"return_std needs {needed}; leave it out")
        rows = validate_data(
            self._holding(state),
            inputs.array_of(X),
            reset=False,
            accept_sparse="csr",
            dtype=np.float64,
        )
        rows = state.clipped(rows.toarray() if is_sparse(rows) else rows)
        rows = state.inward(rows)
        return predictions, prediction_std(state, rows)

    def _coef_std(self, groups: Any = ()) -> Any:
        """Return the standard deviation of every coefficient of a single target; None where it is
        not known.

        ``groups`` are features that add up to 1, such as categories.
        """
        state = self._fitted()
        if state.coef.ndim > 1 or state.origin.frozen:
            return None
        return coefficient_std(state, groups)

    def _linear(self, state: State, X: Any) -> Array:
        """Return X·coef_ + intercept_ of one state."""
        X = validate_data(
            self._holding(state),
            inputs.array_of(X),
            reset=False,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
        )
        return self._predicted(state, X)

    def _predicted(self, state: State, X: Any) -> Array:
        """Return the predictions of one state for rows that have been validated."""
        X = state.clipped(X)
        if state.units is not None and not is_sparse(X):
            return state.units.product(X, state.coef) + state.intercept
        state = state.in_user_units
        return X @ state.coef.T + state.intercept

    def _fitted(self) -> State:
        check_is_fitted(self)
        assert self._state is not None
        return self._state

    @property
    def history_(self) -> TaskHistory:
        """The last 1000 tasks as a dictionary of arrays: see :class:`forgetless.ContinualRidge`."""
        return TaskHistory(self._fitted().history.columns())

    @property
    def prequential_mse_(self) -> float:
        """Mean squared error of predicting every row of every task before learning it (weighted as
        in training).
        """
        return self._fitted().history.prequential_mse

    @property
    def nbytes_(self) -> int:
        """Size in bytes of the state: weights, memory, history."""
        return self._fitted().nbytes

    # --- files and copies ---

    def save(self, path: Any, *, state: str = "learn") -> None:
        """Write the model to a file, atomically; :func:`forgetless.load` reads it.

        Rows that the model was trained on are not stored. The vectors of its memory are, as
        combinations of all rows seen (of a single row there is only one), and sums over all rows.
        A schedule that is a function of your own
        cannot be stored.

        Parameters
        ----------
        path : str or Path
        state : {"learn", "predict"}, default "learn"
            Everything needed to continue learning; or the weights alone, for a model that can only
            predict.

        Examples
        --------
        >>> import tempfile, pathlib, forgetless as fl
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.safetensors"
        >>> fl.ContinualRidge(alpha=1.0).partial_fit([[1.0]], [2.0]).save(path)
        >>> fl.load(path).coef_.tolist()
        [1.0]
        """
        files.save(self, path, state)

    def _holding(self, state: State | None) -> Any:
        """Return a model with the same parameters and another state."""
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._state = state
        return other

    def __copy__(self) -> Self:
        """Return an independent copy; it shares arrays, which are never changed in place."""
        state = self._state
        other: Self = self._holding(None if state is None else state.detached())
        return other

    def __sklearn_is_fitted__(self) -> bool:
        return self._state is not None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        return tags


@cache
def _parameters(cls: type[StreamingRegressor]) -> Any:
    """Return a function of a model of a class that gives the values of all its parameters."""
    names = cls._get_param_names()
    return attrgetter(*names)


def _retained_fraction(state: State) -> float | None:
    if state.coef is None or state.origin.frozen:
        return None
    return getattr(state.memory, "retained_fraction", 0.0)


RETAINED_FRACTION = Learned(
    _retained_fraction, "Fraction of the trace of Σ XᵀX in the memory; 0 without a memory."
)


def store(model: Any, arguments: dict[str, Any]) -> None:
    """Set the arguments of a constructor as attributes of the same names.

    Constructors list all their parameters, as scikit-learn reads them from there, and do nothing
    but this.
    """
    for name, value in arguments.items():
        if name != "self":
            setattr(model, name, value)
