"""Rules of the streaming estimators: what one task does to the state of a stream.

``Strength`` gives the filters of a stream under one schedule: horizons, epochs of doubling length,
and the running radius.
"""

import math
import warnings
from abc import ABC, abstractmethod
from copy import copy, deepcopy
from typing import Any, NamedTuple, Self

import numpy as np

from forgetless._core import validate
from forgetless._core.arrays import Array, nbytes
from forgetless._schedule import NAMES
from forgetless.estimators.epochs import FIRST_EPOCH, epoch
from forgetless.estimators.low_rank import LowRankMemory, Subspace, squared_norm
from forgetless.estimators.state import Change, State, TaskData
from forgetless.filters import Filter, GradientDescent, Ridge
from forgetless.schedules import Named, resolve
from forgetless.solvers.one_task import SMALL_SIDE, Solution, learn, task_norm
from forgetless.solvers.rows import Limits, OneTask
from forgetless.solvers.stacked import Stacked, columns_divided

CHUNK = 2**14
"""Coefficients that are stored at a time: those of a longer epoch are computed again when these
have been used."""


class HalfStep:
    """N steps of half of 1/R², at every task: the default of ``ContinualGD``."""

    def __init__(self, n_steps: int) -> None:
        self.n_steps = n_steps

    def __call__(self, k: int, radius: float) -> GradientDescent:
        """Return the filter, whatever k is."""
        return GradientDescent(self.n_steps, 0.5 / radius / radius)


class Strength:
    """The filters of a stream under one schedule; resolved again only when the epoch or the radius
    changes.

    Parameters
    ----------
    schedule : schedule, filter or callable
    n_tasks : int, optional
        The horizon k that the user declared. Later tasks come in epochs of doubling length, with a
        warning.
    groups : int, optional
        The number of tasks that ``fit`` counted.
    """

    def __init__(
        self, schedule: Any, n_tasks: int | None = None, groups: int | None = None
    ) -> None:
        if not isinstance(schedule, Filter) and not callable(schedule):
            raise TypeError(
                "schedule must be a name, a filter or a callable (k, radius) → filter, got"
                f" {schedule!r}; e.g. schedule='increasing', or alpha=1.0 for a constant"
                " coefficient"
            )
        self.name = schedule.name if isinstance(schedule, Named) else ""
        self.schedule = schedule.arguments["filter"] if self.name == "constant" else schedule
        self.listed = getattr(self.schedule, "horizon", None)
        self.n_tasks = groups if self.listed is None else self.listed
        if n_tasks is not None:
            self.n_tasks = validate.integer(
                "n_tasks", n_tasks, 1, "declare how many tasks will come"
            )
        # One filter for all tasks, whatever k is.
        self.constant = isinstance(self.schedule, Filter) and self.listed is None
        # The key that the filters were resolved for, and those of its next tasks.
        self._resolved: tuple[Any, Filter | None] = (None, None)

    @property
    def needs_radius(self) -> bool:
        """Whether the schedule depends on R, as all callables may, except those that list
        coefficients.
        """
        return not isinstance(self.schedule, Filter) and self.listed is None

    def at(self, task: int, radius: float) -> Filter:
        """Return the filter of task number ``task`` ≥ 1."""
        if isinstance(self.schedule, Filter) and self.listed is None:
            return self.schedule
        if isinstance(self.schedule, HalfStep):
            return self.schedule(1, radius)
        self._check_horizon(task)
        k, t = epoch(task, FIRST_EPOCH if self.n_tasks is None else self.n_tasks)
        proportional = self.name in NAMES and 0.0 < radius * radius < math.inf
        at = 1.0 if proportional else radius
        first = (t - 1) // CHUNK * CHUNK
        if self._resolved[0] != (k, at, first):
            self._resolved = (k, at, first), self._filters(k, at, first)
        assert self._resolved[1] is not None
        filter_ = self._resolved[1][t - 1 - first]
        return filter_.scaled(radius * radius) if proportional else filter_

    def _filters(self, k: int, radius: float, first: int) -> Filter:
        """Return the filters of ``CHUNK`` tasks of an epoch from ``first`` on."""
        filters = resolve(self.schedule, k, radius)
        if filters.horizon is not None and k > CHUNK:
            # a slice alone would keep all in memory
            filters = deepcopy(filters[first : first + CHUNK])
        return filters

    def _check_horizon(self, task: int) -> None:
        """Raise ValueError after the last listed coefficient; warn at the first task after the
        declared horizon.
        """
        if self.n_tasks is None or task <= self.n_tasks:
            return
        if self.listed is not None:
            raise ValueError(
                f"task {task} is beyond the {self.n_tasks} coefficients that the schedule lists;"
                " list more, or use a schedule that takes k, such as schedules.increasing()"
            )
        if task == self.n_tasks + 1:
            warnings.warn(
                f"task {task} is beyond the horizon of {self.n_tasks} tasks, for which the schedule"
                " was made; it continues in epochs of doubling length, a heuristic without a"
                " theorem; declare more with n_tasks",
                UserWarning,
                stacklevel=2,
            )

    @property
    def nbytes(self) -> int:
        """Size in bytes of the stored coefficients."""
        return nbytes(self._resolved[1])


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
        self.strength = strength
        self.options = options
        self.memory = memory
        self.measure = measure

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
        remembered = task.start if state.coef is None else state.start(None, None)
        if memory.diagonal:
            root = subspace.penalty_root(strength)
            solution = _solve_stacked(self.options, task, stack, remembered, 1.0, root)
        else:
            solution = _solve_stacked(self.options, task, stack, remembered, strength)
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
    remembered: Array,
    coefficient: float,
    root: Array | None = None,
) -> Solution:
    """Return the step on a task below the rows of a memory about the weights ``remembered``, with
    penalty λ·diag(root)².
    """
    right = task.rows.adjoint(task.residual) if task.right is None else task.right
    above = stack.above @ (
        remembered - task.start
    )  # zero unless the step starts from other weights
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
