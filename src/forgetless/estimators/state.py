"""Everything a stream has learned, as one immutable value; a task as a rule sees it; and what the
task changes.

A model holds a single reference to its state and learns by replacing it. So an interruption, an
error or a reader in another thread sees the state before a task or the one after it, and never a
mixture.
"""

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from forgetless._core.arrays import Array, Floats, nbytes, with_zeros
from forgetless._core.averages import next_total
from forgetless.estimators._units import UnitChange, Units
from forgetless.estimators.history import Calibration, History
from forgetless.solvers.rows import Rows, columns_of, is_sparse, product

if TYPE_CHECKING:
    from forgetless.estimators.rules import Rule


class TaskData(NamedTuple):
    """A task relative to the weights that its step starts from.

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
        The number of rows with positive weight.
    targets : tuple of int
        The shape of the targets of one row, () or (c,).
    right : array of shape (d, c), optional
        Xᵀr where it is known.
    before : float, optional
        The weighted squared error of the model's predictions before the task, where these are not
        Xw.
    weight : array of shape (n,), optional
        The weights of the rows, where they have any and are in memory.
    """

    start: Array
    rows: Rows
    residual: Array
    total: float
    n: int
    targets: tuple[int, ...]
    right: Array | None = None
    before: float | None = None
    weight: Array | None = None

    def relative_to(self, weights: Array) -> "TaskData":
        """Return the same task relative to other weights (d, c)."""
        back = self.start - weights
        if self.rows.readable:
            return self._replace(
                start=weights, residual=self.residual + self.rows.forward(back), right=None
            )
        assert self.right is not None
        product = self.rows.gram @ back
        inner = np.sum((2 * self.right + product) * back, axis=0)
        size = np.maximum(np.sum(self.residual**2, axis=0) + inner, 0.0)
        return self._replace(
            start=weights, residual=np.sqrt(size)[None, :], right=self.right + product
        )

    def error_after(self, change: Array) -> float:
        """Return ‖r − Xδ‖² after a change δ of the weights."""
        return sum_of_squares(
            self.relative_to(self.start + change.astype(self.start.dtype, copy=False)).residual
        )


class Change(NamedTuple):
    """Result of a step: new weights minus old (d, c), the record for the history, and replaced
    parts of the state.

    ``before`` and ``after`` are squared errors; the first only where it is not that of the task.
    """

    weights: Array
    after: Any
    strength: float = math.nan
    radius: float = math.nan
    error: float = math.nan
    parts: Mapping[str, Any] = {}
    before: float | None = None


class Plan(NamedTuple):
    """The rule of a stream, and the parameters of the model that it was made from."""

    parameters: tuple[Any, ...]
    rule: "Rule"


class Iterate(NamedTuple):
    """The last iterate of a model that predicts with an average: weights (d, c), and 1/g_t
    (``_core.averages``).
    """

    weights: Array
    total: float


class Origin(NamedTuple):
    """Properties of a stream that its beginning decides for all tasks.

    Attributes
    ----------
    fixed : dict
        Parameters that cannot change within a stream.
    n_groups : int or None
        The number of tasks that ``fit`` counted.
    n_features : int or None
    feature_names, classes : arrays or None
    frozen : bool
        Whether only the weights are left, as in a file that was saved for prediction: no task can
        follow.
    """

    fixed: dict[str, Any]
    n_groups: int | None = None
    n_features: int | None = None
    feature_names: Any = None
    classes: Any = None
    frozen: bool = False


class State(NamedTuple):
    """Everything that passes from one task to the next.

    Attributes
    ----------
    origin : Origin
    history : History
    coef : array of shape (d,) or (c, d), or None before the first task
        Weights that the model predicts with.
    intercept : float or array of shape (c,)
    n_tasks : int
    radius : float
        The running maximum of ‖X_t‖₂, where the rule computes it.
    ranges : array of shape (2, d) or None
        The smallest and the largest value of every feature, in the user's units, where predictions
        are clipped.
    memory : Subspace, NormalEquations, InverseGram, Experts or None
        Second-order statistics of all tasks.
    plan : Plan or None
        The rule; it follows from the parameters and is made again where it is missing.
    iterate : Iterate or None
        Weights that learning continues from where these are not the ones to predict with.
    units : Units or None
        Units of the columns in which everything here is expressed; None for the user's own.
    class_counts : array of shape (c,) or None
        Rows learned of each class.
    calibration : Calibration or None
        The log-loss by which the temperature of class probabilities is chosen.
    inverse_strength : float
        1/λ of the next task, where it follows from the tasks learned (``schedules.steady``); 0
        where it does not.
    """

    origin: Origin
    history: History
    coef: Any = None
    intercept: Any = 0.0
    n_tasks: int = 0
    radius: float = 0.0
    ranges: Floats | None = None
    memory: Any = None
    plan: Plan | None = None
    iterate: Iterate | None = None
    units: Units | None = None
    class_counts: Any = None
    calibration: Calibration | None = None
    inverse_strength: float = 0.0

    @property
    def rule(self) -> "Rule":
        """The rule that learns the next task."""
        assert self.plan is not None
        return self.plan.rule

    @property
    def fit_intercept(self) -> bool:
        """Whether the last of the weights is an intercept."""
        return bool(self.origin.fixed["fit_intercept"])

    @property
    def standardize(self) -> bool:
        """Whether columns are standardized."""
        return bool(self.origin.fixed["standardize"])

    @property
    def weights(self) -> Array:
        """The weights (d, c), the last row being the intercept."""
        coef = self.coef
        columns = np.reshape(coef, (-1, 1)) if coef.ndim == 1 else coef.T
        if not self.fit_intercept:
            return columns
        last = np.reshape(np.asarray(self.intercept, dtype=coef.dtype), (1, -1))
        return np.concatenate([columns, last], axis=0)

    @property
    def in_user_units(self) -> "State":
        """The state whose coefficients and intercept are in the user's units."""
        if self.units is None:
            return self
        return self._replace(
            units=None, **self._split(self.units.outward(self.weights), self.coef.shape[:-1])
        )

    def start(self, X: Any, y: Any) -> Array:
        """Return the weights that a task starts from: zeros for the first one."""
        if self.iterate is not None:
            return self.iterate.weights
        if self.coef is not None:
            return self.weights
        shape = (int(X.shape[1]) + self.fit_intercept, y.shape[1] if y.ndim > 1 else 1)
        return np.zeros(shape, dtype=X.dtype)

    def residual(self, X: Any, y: Any, start: Array) -> Array:
        """Return y − Xw, of shape (n, c)."""
        if self.coef is None:  # zero weights predict zero
            return columns_of(y)
        predicted = (
            product(X, start[:-1, :]) + start[-1, :] if self.fit_intercept else product(X, start)
        )
        return columns_of(y) - predicted

    @property
    def predicts_otherwise(self) -> bool:
        """Whether predictions before the next task differ from X·w of the weights w that it starts
        from.
        """
        return (
            self.iterate is not None
            or self.ranges is not None
            or (self.n_tasks == 0 and self.coef is not None)
        )

    def clipped(self, X: Any, *, inward: bool = False) -> Any:
        """Return rows with features clipped to the range seen and ``clip`` widths beyond; X itself
        where there is none.

        ``inward`` if X is in the units of the state.
        """
        clip = None if self.plan is None else self.rule.clip
        if self.ranges is None or clip is None:
            return X
        low, high = self.ranges
        width = np.where(np.isfinite(high - low), high - low, 0.0) * clip
        limits = np.stack([low - width, high + width])
        if inward and self.units is not None:
            limits = self.units.inward(limits)
        if is_sparse(X):
            return _clipped_sparse(X, limits)
        low, high = (each.astype(X.dtype, copy=False) for each in limits)
        return np.clip(X, low, high)

    def with_ranges(self, ranges: Any) -> "State":
        """Return the state with the values of a task, ``ranges`` of shape (2, d), in the ranges
        seen.
        """
        if ranges is None:
            return self
        if self.ranges is not None:
            ranges = np.stack(
                [np.minimum(self.ranges[0], ranges[0]), np.maximum(self.ranges[1], ranges[1])]
            )
        return self._replace(ranges=ranges)

    def inward(self, X: Any) -> Any:
        """Return rows in the units of the state."""
        return X if self.units is None else self.units.inward(X)

    def in_units(self, units: Units) -> "State":
        """Return the state in other units of the columns: the same function, and the same
        memory.
        """
        if self.units is None or self.coef is None:
            return self._replace(units=units)
        change = UnitChange.between(self.units, units)
        iterate = self.iterate
        memory = self.memory
        return self._replace(
            units=units,
            iterate=(
                None
                if iterate is None
                else iterate._replace(weights=change.weights(iterate.weights))
            ),
            memory=None if memory is None else memory.in_units(change, self.units.total),
            **self._split(change.weights(self.weights), self.coef.shape[:-1]),
        )

    def discounted(self, task: TaskData, before: Units | None) -> TaskData:
        """Return a task whose step starts from smaller weights of the columns that vary more than
        ``before`` it.

        A penalty towards the previous weights w of a column counts λw²s² in units of its scale s.
        Where s has grown to s′, the same penalty about w would hold it (s′/s)² times as strongly,
        though no more is known of it: a column that hardly varied may have any weight. λs′²(w′ −
        w·s²/s′²)² has the old gradient at zero, as it must for constant λ and a full memory to be
        joint ridge regression.
        """
        if before is None or self.units is None or not self.rule.towards_previous:
            return task
        grown = (self.units.scale > before.scale) & (before.scale > 0)
        if not grown.any():
            return task
        factor = np.ones(task.start.shape[0])
        factor[: len(grown)][grown] = (before.scale[grown] / self.units.scale[grown]) ** 2
        factor = factor.astype(task.start.dtype, copy=False)
        error = sum_of_squares(task.residual) if task.before is None else task.before
        return task.relative_to(task.start * factor[:, None])._replace(before=error)

    def starting(self, X: Any, y: Any, mean: Array) -> "State":
        """Return the state before the first task, which predicts the mean of its targets."""
        if self.coef is not None or not self.fit_intercept or not self.rule.starts_at_mean:
            return self
        weights = self.start(X, y)
        targets = tuple(y.shape[1:])
        last = np.reshape(mean.astype(weights.dtype, copy=False), (1, -1))
        return self._replace(
            **self._split(np.concatenate([weights[:-1, :], last], axis=0), targets)
        )

    def after(self, task: TaskData, change: Change) -> "State":
        """Return the state after a task."""
        weights = task.start + change.weights.astype(task.start.dtype, copy=False)
        iterate, weights = self._averaged(weights)
        if not bool(np.all(np.isfinite(weights))):
            raise OverflowError("the new weights are not finite; rescale X and y towards 1")
        number = self.n_tasks + 1
        scale = task.total * task.residual.shape[1]
        with np.errstate(over="ignore"):
            squares = task.before if change.before is None else change.before
            before = (sum_of_squares(task.residual) if squares is None else squares) / scale
        # One infinite value would make the means over all tasks infinite for ever.
        if not math.isfinite(before) or not math.isfinite(self.history.total + task.total):
            raise OverflowError(
                "the squared error of this task is too large for a number; rescale X and y"
                " towards 1"
            )
        after = float(np.sum(change.after)) / scale
        row = (number, task.n, change.strength, change.radius, before, after, change.error)
        history = self.history.with_row(row, task.total)
        learned = self._split(weights, task.targets)
        return self._replace(
            n_tasks=number, iterate=iterate, history=history, **change.parts, **learned
        )

    def _averaged(self, weights: Array) -> tuple[Iterate | None, Array]:
        """Return the iterate to continue from, and the weights to predict with after the new
        ``weights``.
        """
        r = self.origin.fixed.get("average")
        if r is None:
            return None, weights
        total = next_total(0.0 if self.iterate is None else self.iterate.total, r, self.n_tasks + 1)
        # A weight that is not finite makes the average so too.
        average = weights if self.coef is None else self.weights + (weights - self.weights) / total
        return Iterate(weights, total), average

    def _split(self, weights: Array, targets: tuple[int, ...]) -> dict[str, Any]:
        """Return coefficients and intercept in the shape of the targets."""
        columns, last = (weights[:-1, :], weights[-1, :]) if self.fit_intercept else (weights, None)
        if targets == ():
            return {"coef": columns[:, 0], "intercept": 0.0 if last is None else last[0]}
        return {
            "coef": columns.T,
            "intercept": np.zeros(targets, dtype=weights.dtype) if last is None else last,
        }

    def widened(self, count: int, names: Any = None) -> "State":
        """Return the state with ``count`` more features, as if they had been zero in every row so
        far.
        """
        origin = self.origin
        if origin.n_features is None:
            return self
        d = int(origin.n_features)
        if origin.feature_names is not None:
            more = [f"x{d + i}" for i in range(count)] if names is None else list(names)
            origin = origin._replace(
                feature_names=np.array([*origin.feature_names, *more], dtype=object)
            )
        iterate = self.iterate
        memory = self.memory
        if iterate is not None:
            iterate = iterate._replace(weights=with_zeros(iterate.weights, d, count, 0))
        return self._replace(
            origin=origin._replace(n_features=d + count),
            coef=None if self.coef is None else with_zeros(self.coef, d, count, self.coef.ndim - 1),
            iterate=iterate,
            ranges=None if self.ranges is None else with_zeros(self.ranges, d, count, 1),
            memory=None if memory is None else memory.widened(d, count),
            units=None if self.units is None else self.units.widened(count),
        )

    def detached(self) -> "State":
        """Return a state whose mutable parts (log, prepared strengths, room for rows) are its
        own.
        """
        return self._replace(
            history=self.history.detached(),
            plan=None if self.plan is None else self.plan._replace(rule=self.plan.rule.detached()),
            memory=None if self.memory is None else self.memory.detached(),
        )

    @property
    def nbytes(self) -> int:
        """Size of the stored numbers in bytes."""
        labels = (self.origin.feature_names, self.origin.classes, self.class_counts)
        weights = (self.coef, self.intercept, self.radius, self.iterate, self.units)
        return nbytes((labels, weights, self.memory, self.history, self.ranges)) + (
            0 if self.plan is None else self.plan.rule.nbytes
        )


def ranges_of(X: Any) -> Floats:
    """Return the smallest and the largest value of every column, of shape (2, d)."""
    if is_sparse(X):
        return np.stack(
            [
                np.asarray(X.min(axis=0).toarray()).ravel(),
                np.asarray(X.max(axis=0).toarray()).ravel(),
            ]
        )
    return np.stack([np.min(X, axis=0), np.max(X, axis=0)]).astype(np.float64)


def _clipped_sparse(X: Any, limits: Floats) -> Any:
    """Return a sparse matrix with its stored values clipped; zeros stay."""
    X = X.tocsr(copy=True)
    low = np.minimum(limits[0], 0.0)
    high = np.maximum(limits[1], 0.0)
    np.clip(X.data, low[X.indices], high[X.indices], out=X.data)
    return X


def sum_of_squares(residual: Array) -> float:
    """Return the sum of squares of a residual."""
    with np.errstate(over="ignore"):  # ``State.after`` rejects an infinite error
        return float(np.sum(np.square(residual, dtype=np.float64)))


class Learned:
    """A read-only attribute of a model that shows a part of its state; absent while that part is
    None.
    """

    def __init__(self, read: Callable[[State], Any], doc: str) -> None:
        self.read = read
        self.__doc__ = doc

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, model: Any, owner: Any = None) -> Any:
        if model is None:
            return self
        value = None if model._state is None else self.read(model._state)
        if value is None:
            raise AttributeError(
                f"this {type(model).__name__} has no {self.name}: it comes with the first task"
            )
        return value

    def __set__(self, model: Any, value: Any) -> None:
        raise AttributeError(f"{self.name} is learned by fit and partial_fit; it cannot be set")


class Settable(Learned):
    """A part of the origin that can also be set: by scikit-learn, which writes the features, and by
    users for names.
    """

    def __init__(self, part: str, doc: str) -> None:
        super().__init__(lambda state: getattr(state.origin, part), doc)
        self.part = part

    def __set__(self, model: Any, value: Any) -> None:
        state = model._state
        if state is None:
            super().__set__(model, value)
        model._state = state._replace(origin=state.origin._replace(**{self.part: value}))
