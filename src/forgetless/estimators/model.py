"""What every streaming estimator shares: one task per ``partial_fit``, all or nothing, monitoring, prediction.

A subclass says what one task does to the weights (``_step``). What was learned is one immutable :class:`State`, and the
only thing that learning changes in a model is the reference to it, in one assignment at the end. The learned attributes
are views of that state, so what must belong together is read from one of them: ``predict`` does, and
``copy.copy(model)`` gives a model that no longer moves.
"""

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils import check_random_state

from forgetless._core import validate
from forgetless._core.arrays import to_numpy
from forgetless._core.dask_arrays import is_remote
from forgetless._core.products import for_task
from forgetless.estimators import files
from forgetless.estimators._answering import Answering
from forgetless.estimators._input import group_codes, in_blocks, is_plain, on_cluster, take, validated, whole
from forgetless.estimators._units import Units, mean_of
from forgetless.estimators._wider import widened
from forgetless.estimators.monitor import History, Holdout
from forgetless.estimators.standard_blocks import in_standard_units
from forgetless.estimators.state import Change, Gathered, Learned, Origin, Settable, State
from forgetless.io.archive import refusing
from forgetless.solvers.rows import is_sparse, is_zero


class StreamingModel(Answering, ABC):
    """Base of the estimators here."""

    # Set by subclasses in their constructors, which only store.
    fit_intercept: bool
    history_size: int
    holdout: float
    holdout_size: int
    random_state: Any
    memory: int
    standardize: bool = False  # one that does not take it does without

    _array_api = False

    _operators = False
    """Whether X may be an operator: products only, no rows."""

    _fixed_names: tuple[str, ...] = ("fit_intercept", "standardize", "history_size", "holdout", "holdout_size")
    """Parameters that cannot change within a stream."""

    _remembered: ClassVar[Mapping[str, str]] = {}
    """What is kept beside the weights, and its shape: see ``_stored.from_arrays``."""

    _has_classes = False

    _state: State | None = None
    """What was learned; None before the first task."""

    coef_ = Learned(lambda state: state.shown.coef, "Coefficients, of shape (d,) or (c, d).")
    intercept_ = Learned(lambda state: state.shown.intercept, "Intercept, a float or of shape (c,).")
    n_tasks_seen_ = Learned(lambda state: state.n_tasks, "Number of tasks learned.")
    n_features_in_ = Settable("n_features", "Number of features.")
    feature_names_in_ = Settable("feature_names", "Names of the features, where X had them.")

    @abstractmethod
    def _step(self, state: State, task: Gathered) -> Change:
        """Return what one task does to a state."""

    def _check_parameters(self, state: State | None) -> None:
        """Refuse parameters that make no sense, by themselves or after the tasks of a state."""
        if not isinstance(self.standardize, bool | np.bool_):
            raise TypeError(f"standardize must be True or False, got {self.standardize!r}")
        validate.integer("history_size", self.history_size, 0, "use 0 to keep no history")
        validate.integer("holdout_size", self.holdout_size, 1, "say how many held-out rows may be kept")
        validate.integer("memory", self.memory, 1, "give the number of bytes a factorisation may take")
        if not 0.0 <= validate.number("holdout", self.holdout, "use 0 to train on all rows") < 1.0:
            raise ValueError(f"holdout must be a share of the rows in [0, 1), got {self.holdout!r}; use e.g. 0.1")
        for name, value in ({} if state is None else state.origin.fixed).items():
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
        if is_remote(X):
            if groups is not None:
                raise ValueError("groups need arrays in memory; call partial_fit with the dask arrays of each task")
            self._state = self._after_cluster(self._beginning(), X, y, sample_weight)
            return self
        X, y, weight, state = self._validated(self._beginning(), X, y, sample_weight)
        codes, count = group_codes(groups, X.shape[0])
        if groups is not None:
            state = state._replace(origin=state.origin._replace(n_groups=count))
        for code in range(count):
            rows = (X, y, weight) if count == 1 else take(X, y, weight, np.flatnonzero(codes == code))
            state = self._after(state, *rows)
        self._state = state
        return self

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn one task, starting from the current weights.

        Parameters
        ----------
        X : array, sparse matrix or ``LinearOperator`` of shape (n, d)
            Of an operator, for ``ContinualRidge`` and ``ContinualGD``, only products are used, and no rows: without
            intercept, held-out rows and weights. A dask array, with dense or sparse blocks of rows, is never loaded:
            its blocks are used where they are.
        y : array of shape (n,) or (n, c)
        sample_weight : float or array of shape (n,), optional
            Nonnegative weight of each row in the loss of this task.

        Returns
        -------
        self
        """
        state = self._after_row(X, y) if sample_weight is None else None
        if state is None:
            state, weight = self._current(), None
            if is_remote(X):
                self._state = self._after_cluster(state, X, y, sample_weight)
                return self
            if sample_weight is not None or not is_plain(state, X, y):
                X, y, weight, state = self._validated(state, X, y, sample_weight)
            state = self._after(state, X, y, weight)
        self._state = state
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
        self._state = self._after_blocks(self._current(), blocks)
        return self

    def widen(self, count: int, names: Any = None) -> Self:
        """Add features behind those that are known, as if they had been there all along, zero in every row.

        Parameters
        ----------
        count : int
        names : sequence of str, optional
            Their names, where features have names.

        Returns
        -------
        self
        """
        validate.integer("count", count, 1, "say how many features come")
        self._state = self._widened(self._fitted(), count, names)
        return self

    # --- from one state to the next ---

    def _current(self) -> State:
        """Return the state that the coming task starts from, with parameters checked."""
        state = self._state
        if state is None:
            return self._beginning()
        if state.origin.frozen:
            raise ValueError(
                "this model holds its weights only, as it was saved with state='predict': it cannot go on learning; "
                "load a file saved with state='learn', or begin anew with fit"
            )
        self._check_parameters(state)
        return state

    def _beginning(self) -> State:
        """Return the state of a stream without any task, with parameters checked."""
        self._check_parameters(None)
        origin = Origin({name: getattr(self, name) for name in self._fixed_names})
        holdout = None
        if self.holdout > 0:
            given = self.random_state
            seed = given if isinstance(given, int) else int(check_random_state(given).randint(2**31 - 1))
            holdout = Holdout(self.holdout, self.holdout_size, seed)
        return State(origin, History(self.history_size, []), holdout)

    def _validated(self, state: State, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any, State]:
        """Return X, y and weights, checked, and the state, which learns of features from the first rows."""
        # scikit-learn writes the features it finds onto the estimator; the model itself changes at the end only.
        draft = self._holding(state)
        X, y, weight = validated(draft, state, X, y, sample_weight, array_api=self._array_api)
        return X, y, weight, draft._state

    def _validated_block(self, state: State, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any, State]:
        """Return the same of a row block, which is one of several of a task."""
        if sample_weight is None and is_plain(state, X, y):
            return X, y, None, state
        return self._validated(state, X, y, sample_weight)

    def _after(self, state: State, X: Any, y: Any, weight: Any) -> State:
        """Return the state after a task given as arrays."""
        if weight is not None:
            kept = to_numpy(weight) > 0  # rows of weight zero are as good as absent
            if not kept.any():
                raise ValueError("sample_weight is zero for every row of a task: nothing to learn; leave it out")
            if not kept.all():
                X, y, weight = take(X, y, weight, np.flatnonzero(kept))
        if not state.fit_intercept and is_zero(X):
            raise ValueError(
                f"X of task {state.n_tasks + 1}, of shape {tuple(X.shape)}, holds only zeros: nothing to learn; "
                "leave it out"
            )
        held = None
        if state.holdout is not None:
            X, y, weight, held = state.holdout.split(X, y, weight, state.n_tasks)
        if self.standardize:
            units = self._units(state, X).with_rows(X, weight)
            state = self._restated(state, units).starting(X, y, mean_of(y, weight))
            X = units.inward(X)
        task = whole(state, X, y, weight, self.memory)
        with for_task(X.shape):
            return state.after(task, self._step(state, task), held)

    def _units(self, state: State, X: Any) -> Units:
        """Return the units of a state, before it has learned of some rows."""
        if state.units is not None:
            return state.units
        return Units.none(int(X.shape[1]), centred=state.fit_intercept and not is_sparse(X))

    def _restated(self, state: State, units: Units) -> State:
        """Return a state in other units of the columns; the function does not change."""
        return state.in_units(units)

    def _widened(self, state: State, count: int, names: Any) -> State:
        """Return a state with more features."""
        return widened(state, count, names)

    def _after_blocks(self, state: State, blocks: Any) -> State:
        """Return the state after a task given as row blocks."""
        if state.holdout is not None:
            raise ValueError("holdout needs tasks as arrays; set holdout=0 to learn from blocks")
        if self.standardize:
            task, state = in_standard_units(
                state, blocks, self._validated_block, self.memory, self._units, self._restated
            )
        else:
            task, state = in_blocks(state, blocks, self._validated_block, self.memory)
        return state.after(task, self._step(state, task))

    def _after_cluster(self, state: State, X: Any, y: Any, weight: Any) -> State:
        """Return the state after a task given as dask arrays."""
        if state.holdout is not None:
            raise ValueError("holdout needs tasks in memory; set holdout=0 to learn from dask arrays")
        if self.standardize:
            raise ValueError(
                "standardize needs tasks in memory or in blocks; set it to False and scale the dask arrays"
            )
        task, state = on_cluster(state, X, y, weight, self._validated)
        return state.after(task, self._step(state, task))

    def _after_row(self, X: Any, y: Any) -> State | None:
        """Return the state after a task of one plain row, where there is a short path for it; else None."""
        return None

    # --- files ---

    def save(self, path: Any, *, state: str = "learn") -> None:
        """Write the model to a file: see :func:`forgetless.estimators.files.save`.

        Parameters
        ----------
        path : str or Path
        state : {"learn", "predict"}, default "learn"
            All that is needed to go on learning; or the weights alone, of which a model can only predict.
        """
        files.save(self._fitted(), type(self).__name__, self.get_params(deep=False), path, state)

    @classmethod
    def load(cls, path: Any, **parameters: Any) -> Self:
        """Return the model in a file; ``parameters`` replace stored ones, e.g. a schedule that could not be stored."""
        return cls._loaded(path, parameters)

    @classmethod
    def _loaded(cls, path: Any, parameters: Mapping[str, Any], *, encoded: bool = False) -> Self:
        """Return the model in a file; with ``encoded`` also one that was saved with an encoder, without it."""
        stored, state = files.load(cls, path, parameters, encoded=encoded)
        # What is wrong with the parameters is the fault of the file, unless some were given.
        with contextlib.nullcontext() if parameters else refusing(Path(path), "model"):
            model = cls(**stored)
            if set(state.origin.fixed) != set(cls._fixed_names):
                raise ValueError("its fixed parameters are not those of the model")
            model._check_parameters(state)
            model._state = state if state.origin.frozen else model._resumed(state)
        return model

    def _resumed(self, state: State) -> State:
        """Return a state that was loaded with what follows from the parameters."""
        return state

    def __copy__(self) -> Self:
        """Return a copy that goes its own way; it shares arrays, which are never changed in place."""
        state = self._state
        copied: Self = self._holding(None if state is None else state.apart())
        return copied

    def __sklearn_is_fitted__(self) -> bool:
        return self._state is not None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        tags.array_api_support = self._array_api
        return tags


def store(model: Any, arguments: dict[str, Any]) -> None:
    """Keep the arguments of a constructor as they are, each under its name.

    Constructors list all their parameters, as scikit-learn reads them from there, and do nothing but this.
    """
    for name, value in arguments.items():
        if name != "self":
            setattr(model, name, value)
