"""Everything a stream has learned, as one immutable value: what a task is to it, and what it is after the task.

A model holds a single reference to its state and learns by replacing it. So an interruption, an error or a reader in
another thread finds the state before a task or the one after it, and never a mixture.
"""

import math
from collections.abc import Callable, Mapping
from copy import copy
from typing import Any, NamedTuple

import numpy as np

from forgetless._core.arrays import Array, namespace_of, to_numpy, zeros
from forgetless._core.averages import next_total
from forgetless.estimators._candidates import Candidates
from forgetless.estimators._strength import Strength
from forgetless.estimators._units import Move, Units
from forgetless.estimators.directions import Directions
from forgetless.estimators.monitor import History, Holdout, nbytes
from forgetless.solvers.rows import Rows, columns_of, is_operator, is_sparse, product


class Gathered(NamedTuple):
    """A task as a step needs it, seen from the weights it starts from.

    Attributes
    ----------
    start : array of shape (d, c)
        The weights w, the last row being the intercept.
    rows : Rows
        X, scaled by the square roots of the row weights.
    residual : array of shape (n, c)
        r = y − Xw, scaled likewise.
    total : float
        The number of rows, or the sum of their weights.
    n : int
        The number of rows that count.
    targets : tuple of int
        The shape of the targets of one row, () or (c,).
    right : array of shape (d, c), optional
        Xᵀr where it is known.
    shown : float, optional
        ‖y − Xw̄‖², weighted likewise, for a model that answers with the average w̄ of its iterates.
    """

    start: Array
    rows: Rows
    residual: Array
    total: float
    n: int
    targets: tuple[int, ...]
    right: Array | None = None
    shown: float | None = None

    def seen_from(self, weights: Array) -> "Gathered":
        """Return the task as it is seen from other weights (d, c)."""
        back = self.start - weights
        if self.rows.readable:
            return self._replace(start=weights, residual=self.residual + self.rows.forward(back), right=None)
        assert self.right is not None
        moved = self.rows.gram @ back
        inner = np.sum((2 * self.right + moved) * back, axis=0)
        size = np.maximum(np.sum(self.residual**2, axis=0) + inner, 0.0)
        return self._replace(start=weights, residual=np.sqrt(size)[None, :], right=self.right + moved)

    def error_after(self, change: Array) -> float:
        """Return ‖r − Xδ‖² after a change δ of the weights."""
        xp = namespace_of(change)
        return squares(self.seen_from(self.start + xp.astype(change, self.start.dtype, copy=False)).residual)


class Change(NamedTuple):
    """What a step makes of a task: new weights minus old (d, c), what the history records, and parts of the state."""

    weights: Array
    after: Any
    strength: float = math.nan
    radius: float = math.nan
    error: float = math.nan
    parts: Mapping[str, Any] = {}


class Plan(NamedTuple):
    """The strength of a stream, and the parameters that it was made for."""

    key: tuple[Any, ...]
    strength: Strength


class Iterate(NamedTuple):
    """The last iterate of a model that answers with an average: its weights (d, c), and 1/g_t (``_core.averages``)."""

    weights: Array
    total: float


class Origin(NamedTuple):
    """What the beginning of a stream decided for all its tasks.

    Attributes
    ----------
    fixed : dict
        Parameters that cannot change within a stream.
    n_groups : int or None
        The number of tasks that ``fit`` counted.
    n_features : int or None
    feature_names, classes : arrays or None
    frozen : bool
        Whether only the weights are left, as in a file that was saved for prediction: no task can follow.
    """

    fixed: dict[str, Any]
    n_groups: int | None = None
    n_features: int | None = None
    feature_names: Any = None
    classes: Any = None
    frozen: bool = False


class State(NamedTuple):
    """All that is kept from one task to the next.

    Attributes
    ----------
    origin : Origin
    history : History
    holdout : Holdout or None
    coef : array of shape (d,) or (c, d), or None before the first task
        What the model answers with.
    intercept : float or array of shape (c,)
    n_tasks : int
    radius : float
        The running maximum of ‖X_t‖₂, where the model asks for it.
    advisor : Candidates or None
        The weights among which ``schedule="auto"`` chooses.
    memory : dict
        What a baseline knows of all tasks, e.g. the sum of XᵀX, under the names of its attributes.
    plan : Plan or None
        The schedule as it was resolved; made again where it is missing.
    iterate : Iterate or None
        What learning goes on from where that is not what the model answers with.
    directions : Directions or None
        What is remembered of all tasks beside the weights, where the model was asked to.
    units : Units or None
        Those of the columns in which everything here is expressed, but for held-out rows; None for the user's own.
    """

    origin: Origin
    history: History
    holdout: Holdout | None = None
    coef: Any = None
    intercept: Any = 0.0
    n_tasks: int = 0
    radius: float = 0.0
    advisor: Candidates | None = None
    memory: Mapping[str, Any] = {}
    plan: Plan | None = None
    iterate: Iterate | None = None
    directions: Directions | None = None
    units: Units | None = None

    @property
    def fit_intercept(self) -> bool:
        """Whether the last of the weights is an intercept."""
        return bool(self.origin.fixed["fit_intercept"])

    @property
    def weights(self) -> Array:
        """The weights (d, c), the last row being the intercept."""
        coef, xp = self.coef, namespace_of(self.coef)
        columns = xp.reshape(coef, (-1, 1)) if coef.ndim == 1 else coef.T
        if not self.fit_intercept:
            return columns
        last = xp.reshape(xp.asarray(self.intercept, dtype=coef.dtype), (1, -1))
        return xp.concat([columns, last], axis=0)

    def start(self, X: Any, y: Any) -> Array:
        """Return the weights that a task starts from: zeros for the first one."""
        if self.iterate is not None:
            return self.iterate.weights
        if self.coef is not None:
            return self.weights
        shape = (int(X.shape[1]) + self.fit_intercept, y.shape[1] if y.ndim > 1 else 1)
        return zeros(shape, y if is_operator(X) else np.zeros(0, dtype=X.dtype) if is_sparse(X) else X)

    def residual(self, X: Any, y: Any, start: Array) -> Array:
        """Return y − Xw, of shape (n, c)."""
        # From zero weights there is nothing to subtract.
        return columns_of(y) if self.coef is None else columns_of(y) - self._predicted(X, start)

    def _predicted(self, X: Any, weights: Array) -> Array:
        return product(X, weights[:-1, :]) + weights[-1, :] if self.fit_intercept else product(X, weights)

    @property
    def shown(self) -> "State":
        """The state whose coefficients and intercept are in the user's units."""
        if self.units is None:
            return self
        return self._replace(units=None, **self._split(self.units.outward(self.weights), self.coef.shape[:-1]))

    def in_units(self, units: Units) -> "State":
        """Return the state in other units of the columns: the same function, and the same memory."""
        if self.units is None or self.coef is None:
            return self._replace(units=units)
        move = Move.between(self.units, units)
        return self._replace(
            units=units,
            iterate=None if self.iterate is None else self.iterate._replace(weights=move.weights(self.iterate.weights)),
            advisor=None if self.advisor is None else self.advisor.moved(move),
            directions=None if self.directions is None else self.directions.moved(move),
            **self._split(move.weights(self.weights), self.coef.shape[:-1]),
        )

    def starting(self, X: Any, y: Any, mean: Array) -> "State":
        """Return the state before the first task, which predicts the mean of its targets."""
        if self.coef is not None or not self.fit_intercept:
            return self
        weights, targets = self.start(X, y), tuple(y.shape[1:])
        xp = namespace_of(weights)
        last = xp.reshape(xp.astype(mean, weights.dtype, copy=False), (1, -1))
        return self._replace(**self._split(xp.concat([weights[:-1, :], last], axis=0), targets))

    def seen_error(self) -> float:
        """Return the mean over tasks of the mean squared error on their held-out rows; NaN where there are none."""
        if self.holdout is None:
            return math.nan
        return self.held_error(self.weights)

    def held_error(self, weights: Array) -> float:
        """Return the same of other weights (d, c), for a state with held-out rows."""
        assert self.holdout is not None
        weights = weights if self.units is None else self.units.outward(weights)
        return self.holdout.error(lambda X: self._predicted(X, weights))

    def after(self, task: Gathered, change: Change, held: Any = None) -> "State":
        """Return the state after a task, of whose rows ``held`` were not trained on."""
        xp = namespace_of(task.start)
        weights = task.start + xp.astype(change.weights, task.start.dtype, copy=False)
        iterate, weights = self._averaged(weights)
        if not bool(xp.all(xp.isfinite(weights))):
            raise OverflowError("the new weights are not finite; rescale X and y towards 1")
        learned = self._split(weights, task.targets)
        new = self._replace(n_tasks=self.n_tasks + 1, iterate=iterate, **change.parts, **learned)
        seen = math.nan
        if self.holdout is not None:
            new = new._replace(holdout=self.holdout.with_part(held, new.n_tasks))
            seen = new.seen_error()
        scale = task.total * task.residual.shape[1]
        with np.errstate(over="ignore"):
            before = (squares(task.residual) if task.shown is None else task.shown) / scale
        after = float(np.sum(change.after)) / scale
        # What is infinite once would be so for good in the means over all tasks.
        if not math.isfinite(before) or not math.isfinite(self.history.total + task.total) or math.isinf(seen):
            raise OverflowError("the squared error of this task is too large for a number; rescale X and y towards 1")
        row = (new.n_tasks, task.n, change.strength, change.radius, before, after, change.error, seen)
        return new._replace(history=self.history.with_row(row, task.total))

    def _averaged(self, weights: Array) -> tuple[Iterate | None, Array]:
        """Return the iterate to go on from, and what the model answers with after the new ``weights``."""
        r = self.origin.fixed.get("average")
        if r is None:
            return None, weights
        total = next_total(0.0 if self.iterate is None else self.iterate.total, r, self.n_tasks + 1)
        # A weight that is not finite makes the average so too.
        shown = weights if self.coef is None else self.weights + (weights - self.weights) / total
        return Iterate(weights, total), shown

    def _split(self, weights: Array, targets: tuple[int, ...]) -> dict[str, Any]:
        """Return coefficients and intercept in the shape of the targets."""
        columns, last = (weights[:-1, :], weights[-1, :]) if self.fit_intercept else (weights, None)
        if targets == ():
            return {"coef": columns[:, 0], "intercept": 0.0 if last is None else last[0]}
        return {"coef": columns.T, "intercept": zeros(targets, weights) if last is None else last}

    def apart(self) -> "State":
        """Return a state that goes its own way: what is changed in place is its own."""
        plan = None if self.plan is None else self.plan._replace(strength=copy(self.plan.strength))
        directions = None if self.directions is None else self.directions.apart()
        return self._replace(history=self.history.apart(), plan=plan, directions=directions)

    @property
    def nbytes(self) -> int:
        """Bytes of the numbers kept."""
        origin = self.origin
        learned = (
            self.coef,
            self.intercept,
            self.radius,
            self.memory,
            origin.feature_names,
            origin.classes,
            self.iterate,
            self.directions,
            self.units,
        )
        return nbytes((*learned, self.history, self.holdout, self.advisor, None if self.plan is None else self.plan[1]))


def squares(residual: Array) -> float:
    """Return the sum of squares of a residual."""
    with np.errstate(over="ignore"):  # what is infinite is refused with the task
        return float(np.sum(np.square(to_numpy(residual), dtype=np.float64)))


class Learned:
    """An attribute of a model that shows a part of its state, and is absent as long as that is not known."""

    def __init__(self, read: Callable[[State], Any], doc: str) -> None:
        self.read, self.__doc__ = read, doc

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, model: Any, owner: Any = None) -> Any:
        if model is None:
            return self
        state = model._state
        found = None if state is None else self.read(state)
        if found is None:
            raise AttributeError(f"this {type(model).__name__} has no {self.name}: it comes with the first task")
        return found

    def __set__(self, model: Any, value: Any) -> None:
        raise AttributeError(f"{self.name} is what fit and partial_fit learn; it cannot be set")


class Settable(Learned):
    """A part of the origin that can also be set: by scikit-learn where it finds features, and by users for names."""

    def __init__(self, part: str, doc: str) -> None:
        super().__init__(lambda state: getattr(state.origin, part), doc)
        self.part = part

    def __set__(self, model: Any, value: Any) -> None:
        state = model._state
        if state is None:
            super().__set__(model, value)
        model._state = state._replace(origin=state.origin._replace(**{self.part: value}))
