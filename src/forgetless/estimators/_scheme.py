"""The two schemes of the paper as streaming estimators: a schedule, the running radius, and the step itself."""

import math
from abc import abstractmethod
from typing import Any

from forgetless._core import averages, validate
from forgetless.estimators._strength import Strength
from forgetless.estimators.model import StreamingModel
from forgetless.estimators.state import Change, Gathered, Learned, Plan, State
from forgetless.filters import Filter, GradientDescent, Ridge
from forgetless.schedules.names import named
from forgetless.solvers.inputs import Limits, OneTask
from forgetless.solvers.one_task import SMALL_SIDE, SOLVERS, learn, task_norm

LOSSES = ("sum", "mean")


class Continual(StreamingModel):
    """What both schemes share: everything but the schedules that names and parameters stand for."""

    schedule: Any
    n_tasks: int | None
    radius: float | None
    beyond: str
    loss: str
    solver: str
    tol: float
    average: float | None

    _array_api = True
    _operators = True

    _fixed_names = (*StreamingModel._fixed_names, "average")

    _norm_always = False
    """Whether ‖X‖₂ of every task must be known, whatever the schedule."""

    radius_ = Learned(lambda state: state.radius, "The largest ‖X_t‖₂ of the tasks for which it is known.")

    @abstractmethod
    def _own_schedule(self) -> Any:
        """Return the schedule that the parameters stand for."""

    @abstractmethod
    def _named(self, text: str) -> Any:
        """Return the schedule that a name stands for."""

    @abstractmethod
    def _key(self) -> tuple[Any, ...]:
        """Return the parameters behind the strength and the short path: when one changes, all is checked again."""

    def _plan(self, state: State | None) -> Plan:
        """Return the strength of the stream, made again whenever a parameter behind it was changed."""
        key = self._key()
        if state is not None and state.plan is not None and state.plan.key == key:
            return state.plan
        chosen = self._own_schedule() if self.schedule is None else self.schedule
        if isinstance(chosen, str):
            chosen = self._named(chosen)
        groups = None if state is None else state.origin.n_groups
        return Plan(key, Strength(chosen, self.n_tasks, self.beyond, groups))

    def _check_parameters(self, state: State | None) -> None:
        super()._check_parameters(state)
        for name, value, allowed in (("loss", self.loss, LOSSES), ("solver", self.solver, SOLVERS)):
            if value not in allowed:
                raise ValueError(f"{name} must be one of {', '.join(allowed)}, got {value!r}")
        averages.power(self.average)
        validate.number("tol", self.tol, "the default is 1e-10", positive=True)
        if self.radius is not None:
            validate.number("radius", self.radius, "leave it out for the running maximum", positive=True)
        self._plan(state)

    def _resumed(self, state: State) -> State:
        return state._replace(plan=self._plan(state))

    def _step(self, state: State, task: Gathered) -> Change:
        plan, number = self._plan(state), state.n_tasks + 1
        scale = task.total if self.loss == "mean" else 1.0
        norm: float | None = None
        asked = plan.strength.needs_radius and self.radius is None
        if asked or self._norm_always or task.rows.small_side <= SMALL_SIDE:
            norm = task_norm(task.rows, self.memory)
        largest = state.radius if norm is None else max(state.radius, norm / math.sqrt(scale))
        radius = largest if self.radius is None else self.radius

        filter = plan.strength.at(number, radius)
        if isinstance(filter, GradientDescent):
            norm = task_norm(task.rows, self.memory) if norm is None else norm
            _check_contraction(filter, norm / math.sqrt(scale))
        made = self._learned(state, task, filter, norm, scale)
        parts = {"advisor": None, **made.parts, "radius": largest, "plan": plan}
        return Change(made.weights, made.after, made.strength, math.nan if norm is None else radius, made.error, parts)

    def _learned(self, state: State, task: Gathered, filter: Filter, norm: float | None, scale: float) -> Change:
        """Return what a task does to the weights, and to what is remembered beside them.

        ``norm`` is ‖X‖₂ where it is known, ``scale`` what the loss of the task is divided by.
        """
        met = OneTask(task.rows, task.residual, task.right, norm)
        made = learn(met, filter.scaled(scale), self.solver, Limits(self.tol, self.memory))
        return Change(made.change, made.after, float(filter.strength()), error=made.error)


def _check_contraction(filter: GradientDescent, norm: float) -> None:
    if float(filter.step_size) * norm * norm >= 2:
        raise ValueError(
            f"step_size={float(filter.step_size):.3g} diverges on this task, whose squared norm is {norm * norm:.3g}; "
            f"it must be below 2/‖X‖² = {2 / norm / norm:.3g}, and the theorems need half of that"
        )


def alpha_filter(alpha: float) -> Filter:
    """Return the filter of explicit L2 with the same coefficient at every task."""
    return Ridge(validate.number("alpha", alpha, "use 0 for no regularization"))


def ridge_named(text: str) -> Any:
    """Return what a schedule name stands for in scheme 1."""
    # "auto" overrides the filter of every task; what stands here only says that it needs no horizon.
    return Ridge(0.0) if text == "auto" else named(text, "auto")
