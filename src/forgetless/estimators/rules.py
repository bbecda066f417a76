"""Rules of the streaming estimators: what one task does to the state of a stream."""

import math
from abc import ABC, abstractmethod
from copy import copy
from typing import Any, NamedTuple, Self

import numpy as np

from forgetless._core import environment, validate
from forgetless._core.arrays import Array, namespace_of
from forgetless.estimators import _single_rows
from forgetless.estimators.low_rank import LowRankMemory, Subspace, squared_norm
from forgetless.estimators.state import Change, State, TaskData
from forgetless.estimators.strength import Strength
from forgetless.filters import Filter, GradientDescent, Ridge
from forgetless.solvers.one_task import SMALL_SIDE, SOLVERS, learn, task_norm
from forgetless.solvers.one_task import Learned as Solution
from forgetless.solvers.rows import Limits, OneTask
from forgetless.solvers.stacked import Stacked, columns_divided

LOSSES = ("sum", "mean")

LARGEST = 1e290
"""‖X‖² up to which a task can be remembered: sums over tasks must remain finite."""


class Rule(ABC):
    """What one task does to a state."""

    @abstractmethod
    def step(self, state: State, task: TaskData) -> Change:
        """Return the change of a state by a task."""

    clip: float | None = None
    """Widths of the range seen, on either side of it, beyond which features are clipped for
    predictions."""

    with_levels = False
    """Whether levels of tasks can be computed from its statistics."""

    towards_previous = False
    """Whether a penalty holds weights near those before the task."""

    starts_at_mean = True
    """Whether a standardized stream starts from the mean of its first targets."""

    def step_row(self, state: State, X: Any, y: Any) -> State | None:
        """Return the state after a task of one plain row where there is a short path for it; else
        None.
        """
        return None

    def detached(self) -> "Rule":
        """Return a rule that shares no mutable part with this one."""
        return self

    @property
    def nbytes(self) -> int:
        """Size in bytes of the numbers that the rule stores."""
        return 0


class Options(NamedTuple):
    """Options of a step: see :class:`forgetless.ContinualRidge`."""

    loss: str
    radius: float | None
    solver: str
    tol: float

    @classmethod
    def of(cls, model: Any) -> "Options":
        """Return the checked options of a model."""
        for name, value, allowed in (
            ("loss", model.loss, LOSSES),
            ("solver", model.solver, SOLVERS),
        ):
            if value not in allowed:
                raise ValueError(f"{name} must be one of {', '.join(allowed)}, got {value!r}")
        validate.number("tol", model.tol, "the default is 1e-10", positive=True)
        if model.radius is not None:
            validate.number(
                "radius", model.radius, "leave it out for the running maximum", positive=True
            )
        return cls(model.loss, model.radius, model.solver, model.tol)

    @property
    def limits(self) -> Limits:
        """Limits of the solvers."""
        return Limits(self.tol, environment.FACTORIZATION_LIMIT)

    def scale(self, task: TaskData) -> float:
        """Return the divisor of the loss of a task."""
        return task.total if self.loss == "mean" else 1.0

    def solve(self, task: OneTask, filter: Filter) -> Solution:
        """Return the step on a task with a filter."""
        return learn(task, filter, self.solver, self.limits)


class WithStrength(Rule):
    """Base of rules with the strengths of a schedule, which are prepared for the next tasks."""

    strength: Strength
    towards_previous = True

    def detached(self) -> Self:
        """Return a rule with prepared strengths of its own."""
        other = copy(self)
        other.strength = copy(self.strength)
        return other

    @property
    def nbytes(self) -> int:
        """Size in bytes of the prepared strengths."""
        return self.strength.nbytes


class Scheduled(WithStrength):
    """One step per task, with the filter of a schedule and perhaps a low-rank memory.

    ``measure``: ‖X‖₂ of every task is computed, whatever the schedule.
    """

    def __init__(
        self,
        strength: Strength,
        options: Options,
        memory: LowRankMemory | None = None,
        *,
        measure: bool = False,
    ) -> None:
        self.strength, self.options, self.memory, self.measure = strength, options, memory, measure

    def step_row(self, state: State, X: Any, y: Any) -> State | None:
        """Return the state after a task of one plain row, without the overhead of the general
        path.
        """
        return (
            _single_rows.step_row(self, state, X, y)
            if type(X) is np.ndarray and len(X) == 1
            else None
        )

    def step(self, state: State, task: TaskData) -> Change:
        """Return the change of a state by a task."""
        own = self.strength.per_task
        needed = self.measure or own or (self.strength.needs_radius and self.options.radius is None)
        scale, norm, largest = measured(state, task, self.options, always=needed)
        radius = largest if self.options.radius is None else self.options.radius
        radius = norm / math.sqrt(scale) if own and norm is not None else radius
        filter_ = self.strength.at(state.n_tasks + 1, radius)
        if isinstance(filter_, GradientDescent):
            norm = task_norm(task.rows, environment.FACTORIZATION_LIMIT) if norm is None else norm
            _check_contraction(filter_, norm / math.sqrt(scale))
        if self.memory is None:
            scaled = filter_ if scale == 1.0 else filter_.scaled(scale)
            solution = self.options.solve(
                OneTask(task.rows, task.residual, task.right, norm), scaled
            )
            change = Change(
                solution.change, solution.after, float(filter_.strength()), error=solution.error
            )
        else:
            change = self._step_with_memory(self.memory, state, task, filter_, scale)
        parts = {**change.parts, "radius": largest}
        return change._replace(radius=math.nan if norm is None else radius, parts=parts)

    def _step_with_memory(
        self, memory: LowRankMemory, state: State, task: TaskData, filter_: Filter, scale: float
    ) -> Change:
        options, recall = self.options, recalled(memory, state, task, scale)
        subspace, strength = recall.subspace, positive_coefficient(filter_, "memory")
        # The memory is about the weights of the state, from which the step starts unless they are
        # discounted.
        origin = task.start if state.coef is None else state.start(None, None)
        if memory.diagonal:
            solution = solve_stacked(
                options, task, recall.stack, origin, scale, subspace.penalty_root(strength)
            )
        else:
            solution = solve_stacked(options, task, recall.stack, origin, strength * scale)
        after = subspace.with_task(
            recall.stack, min(memory.rank, task.rows.shape[1]), scale, recall.size
        )
        squares = task.error_after(solution.change)
        return Change(
            solution.change, squares, strength, error=solution.error, parts={"memory": after}
        )


def measured(
    state: State, task: TaskData, options: Options, *, always: bool = False
) -> tuple[float, float | None, float]:
    """Return the divisor of the loss, ‖X‖₂ where it is cheap or needed, and the largest norm so
    far.
    """
    scale = options.scale(task)
    if not always and task.rows.small_side > SMALL_SIDE:
        return scale, None, state.radius
    norm = task_norm(task.rows, environment.FACTORIZATION_LIMIT)
    return scale, norm, max(state.radius, norm / math.sqrt(scale))


class Recall(NamedTuple):
    """The memory before a task, √scale·B above its rows, and ‖X‖² (Frobenius)."""

    subspace: Subspace
    stack: Stacked
    size: float


def recalled(memory: LowRankMemory, state: State, task: TaskData, scale: float) -> Recall:
    """Return the memory of a state with the rows of a task."""
    size = squared_norm(task.rows)
    if not size < LARGEST:
        raise OverflowError(
            "the rows of this task are too large to be remembered; rescale X towards 1"
        )
    subspace = state.memory
    if subspace is None:
        subspace = Subspace.empty(task.start, memory)
    subspace = subspace.decayed(memory.decay)
    return Recall(
        subspace, Stacked(subspace.rows(task.start.dtype, math.sqrt(scale)), task.rows), size
    )


def solve_stacked(
    options: Options,
    task: TaskData,
    stack: Stacked,
    origin: Array,
    coefficient: float,
    root: Array | None = None,
) -> Solution:
    """Return the step on a task below the rows of a memory about the weights ``origin``, with
    penalty λ·diag(root)².
    """
    right = task.rows.adjoint(task.residual) if task.right is None else task.right
    above = stack.above @ (origin - task.start)  # zero unless the step starts from other weights
    residual = namespace_of(above).concat([above, _cast(task.residual, above)], axis=0)
    right = right + _cast(stack.above.T @ above, right)
    if root is None:
        return options.solve(OneTask(stack, residual, right), Ridge(coefficient))
    stack = Stacked(_over(stack.above, root), columns_divided(task.rows, root))
    solution = options.solve(
        OneTask(stack, residual, right / _cast(root, right)[:, None]), Ridge(coefficient)
    )
    return solution._replace(change=_over(solution.change.T, root).T)


def positive_coefficient(filter_: Filter, needed_by: str) -> float:
    """Return λ of the next task; ValueError where it is not explicit L2 with a finite positive
    coefficient.
    """
    coefficient = filter_.coefficient if isinstance(filter_, Ridge) else math.nan
    if not (isinstance(coefficient, float) and 0 < coefficient < math.inf):
        hint = ", or memory=None" if needed_by == "memory" else ""
        raise ValueError(
            f"{needed_by} needs explicit L2 with a finite positive coefficient at every task, got "
            f"{filter_!r}; use alpha > 0 or another schedule{hint}"
        )
    return coefficient


def _check_contraction(filter_: GradientDescent, norm: float) -> None:
    if float(filter_.step_size) * norm * norm >= 2:
        raise ValueError(
            f"step_size={float(filter_.step_size):.3g} diverges on this task, whose squared norm is"
            f" {norm * norm:.3g}; it must be below 2/‖X‖² = {2 / norm / norm:.3g}, and the theorems"
            " need half of that"
        )


def _cast(array: Array, like: Array) -> Array:
    return namespace_of(array).astype(array, like.dtype, copy=False)


def _over(B: Array, root: Array) -> Array:
    """Return B·diag(root)⁻¹."""
    return B / _cast(root, B)[None, :]
