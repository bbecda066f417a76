"""Rules of the streaming estimators: what one task does to the state of a stream."""

import math
from abc import ABC, abstractmethod
from copy import copy
from typing import Any, NamedTuple, Self

import numpy as np

from forgetless._core import validate
from forgetless._core.arrays import Array
from forgetless.estimators.low_rank import LowRankMemory, Subspace, squared_norm
from forgetless.estimators.state import Change, State, TaskData
from forgetless.estimators.strength import Strength
from forgetless.filters import Filter, GradientDescent, Ridge
from forgetless.solvers.one_task import SMALL_SIDE, Solution, learn, task_norm
from forgetless.solvers.rows import Limits, OneTask
from forgetless.solvers.stacked import Stacked, columns_divided

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

    towards_previous = False
    """Whether a penalty holds weights near those before the task."""

    starts_at_mean = True
    """Whether a standardized stream starts from the mean of its first targets."""

    def detached(self) -> "Rule":
        """Return a rule that shares no mutable part with this one."""
        return self

    @property
    def nbytes(self) -> int:
        """Size in bytes of the numbers that the rule stores."""
        return 0


class Options(NamedTuple):
    """Options of a step: see :class:`forgetless.ContinualRidge`."""

    radius: float | None
    tol: float

    @classmethod
    def of(cls, model: Any) -> "Options":
        """Return the checked options of a model."""
        validate.number("tol", model.tol, "the default is 1e-10", positive=True)
        if model.radius is not None:
            validate.number(
                "radius", model.radius, "leave it out for the running maximum", positive=True
            )
        return cls(model.radius, model.tol)

    def solve(self, task: OneTask, filter: Filter) -> Solution:
        """Return the step on a task with a filter."""
        return learn(task, filter, Limits(self.tol, validate.FACTORIZATION_LIMIT))


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

    def step(self, state: State, task: TaskData) -> Change:
        """Return the change of a state by a task."""
        needed = self.measure or (self.strength.needs_radius and self.options.radius is None)
        norm, largest = _measured(state, task, always=needed)
        radius = largest if self.options.radius is None else self.options.radius
        filter_ = self.strength.at(state.n_tasks + 1, radius)
        if isinstance(filter_, GradientDescent):
            norm = task_norm(task.rows) if norm is None else norm
            _check_contraction(filter_, norm)
        if self.memory is None:
            solution = self.options.solve(
                OneTask(task.rows, task.residual, task.right, norm), filter_
            )
            change = Change(
                solution.change, solution.after, float(filter_.strength()), error=solution.error
            )
        else:
            change = self._step_with_memory(self.memory, state, task, filter_)
        parts = {**change.parts, "radius": largest}
        return change._replace(radius=math.nan if norm is None else radius, parts=parts)

    def _step_with_memory(
        self, memory: LowRankMemory, state: State, task: TaskData, filter_: Filter
    ) -> Change:
        subspace, stack, size = _recalled(memory, state, task)
        strength = positive_coefficient(filter_, "memory")
        # The memory is about the weights of the state, from which the step starts unless they are
        # discounted.
        origin = task.start if state.coef is None else state.start(None, None)
        if memory.diagonal:
            root = subspace.penalty_root(strength)
            solution = _solve_stacked(self.options, task, stack, origin, 1.0, root)
        else:
            solution = _solve_stacked(self.options, task, stack, origin, strength)
        after = subspace.with_task(stack, min(memory.rank, task.rows.shape[1]), size)
        squares = task.error_after(solution.change)
        return Change(
            solution.change, squares, strength, error=solution.error, parts={"memory": after}
        )


def _measured(state: State, task: TaskData, *, always: bool) -> tuple[float | None, float]:
    """Return ‖X‖₂ where it is cheap or needed, and the largest norm so far."""
    if not always and task.rows.small_side > SMALL_SIDE:
        return None, state.radius
    norm = task_norm(task.rows)
    return norm, max(state.radius, norm)


def _recalled(
    memory: LowRankMemory, state: State, task: TaskData
) -> tuple[Subspace, Stacked, float]:
    """Return the memory B before a task, B above the rows of the task, and ‖X‖² (Frobenius)."""
    size = squared_norm(task.rows)
    if not size < LARGEST:
        raise OverflowError(
            "the rows of this task are too large to be remembered; rescale X towards 1"
        )
    subspace = state.memory
    if subspace is None:
        subspace = Subspace.empty(task.start, memory)
    subspace = subspace.decayed(memory.decay)
    return subspace, Stacked(subspace.rows(task.start.dtype), task.rows), size


def _solve_stacked(
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
    residual = np.concatenate([above, _cast(task.residual, above)], axis=0)
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
    return array.astype(like.dtype, copy=False)


def _over(B: Array, root: Array) -> Array:
    """Return B·diag(root)⁻¹."""
    return B / _cast(root, B)[None, :]
