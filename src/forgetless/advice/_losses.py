"""Exact losses of many schedules on the same tasks: what choosing between schedules needs, each by its cheapest pass.

================  =========================================================================================
``average_loss``  the mean loss over all tasks, averaged over orderings
``worst_case``    the same for the worst teacher of unit norm, learned from the origin
``seen_loss``     the loss over the tasks met on the way
``validation``    the mean loss over held-out tasks
================  =========================================================================================

For random draws the first two come from one pass: the loss is carried backwards as a quadratic form of the start.
"""

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from array_api_compat import is_numpy_namespace

from forgetless._core.arrays import Array, Floats, from_numpy, to_numpy
from forgetless.advice._data import fits
from forgetless.advice._reduced import ReducedModel, assembly
from forgetless.engines import draws
from forgetless.engines.expectation import expect
from forgetless.engines.independent import IndependentRun
from forgetless.engines.moments import Moments, average_form, linear_moments, measured, moments_around_teacher
from forgetless.engines.problem import Problem
from forgetless.engines.simulation import simulate
from forgetless.engines.worst_teacher import worst_case
from forgetless.errors import NoExactLawError
from forgetless.filters import Filter
from forgetless.metrics import average_loss
from forgetless.orderings import Draws, OneOrder, Ordering
from forgetless.schedules import Schedule
from forgetless.tasks import TaskCollection

Evaluate = Callable[[Sequence[Any]], Floats]  # Schedules to their losses, in one batch
# Operations of one evaluation, some milliseconds, and of one step, and steps, from which on a reduced model pays
_QUICK, _STEP, _SHORT = 1e8, 5e4, 32
_NUMBERS = 2.0**25  # Numbers held at once, 256 MiB: longer lists of schedules are evaluated in parts
_PRECISE = 1e-6  # Losses whose rounding may be a larger part of them are computed with a bound of their error
# Rounding, as a part of the first loss, from which on already the search takes the engine with an error bound
_FRAGILE = 1e-7


class Losses:
    """Evaluates lists of schedules for k steps; every call is exact.

    Parameters
    ----------
    tasks : TaskCollection
    k : int
    ordering : Ordering
    start : array of shape (d,) or (d, c), or None
    validation : TaskCollection or None
    """

    def __init__(
        self, tasks: TaskCollection, k: int, ordering: Ordering, start: Any, validation: TaskCollection | None
    ) -> None:
        self.tasks, self.k, self.ordering, self.start, self.validation = tasks, k, ordering, start, validation
        self.origin = tasks.start(start)
        self.moments = measured(tasks, self.origin)
        self.law = ordering.law(tasks.n_tasks, k)
        if self.law is None:
            raise NoExactLawError(f"ordering {ordering!r} has no exact expectation; compare schedules with simulate")
        self.random = isinstance(self.law, Draws)
        self.least = 0.0 if fits(tasks) else float(average_loss(tasks, tasks.teacher(start)))

    def operations(self, objective: str = "average_loss") -> float:
        """Return the operations of one exact evaluation under independent draws."""
        passes = self.tasks.n_tasks if objective == "seen_loss" else 1
        return 4.0 * self.k * float(self.tasks.offsets[-1]) * self.moments.size**2 * passes

    def rounding(self, objective: str) -> float:
        """Return how far losses may be off by rounding, which is relative to the moments before the first step."""
        distance = 1.0 if objective == "worst_case" else self._squared_distance
        return 4.0 * (1.0 + math.sqrt(self.k)) * float(np.finfo(float).eps) * self.tasks.radius**2 * distance

    def with_errors(self, schedules: Sequence[Any], objective: str, losses: Floats) -> tuple[Floats, Floats]:
        """Return losses of schedules with bounds of their errors, computed anew where rounding may matter."""
        error = self.rounding(objective)
        errors, losses = np.full(len(schedules), error), np.array(losses)
        if objective != "average_loss" or np.all(error <= _PRECISE * np.maximum(losses - self.least, 0.0)):
            return losses, errors
        for b, schedule in enumerate(schedules):
            result = expect(self.tasks, schedule, self.k, ordering=self.ordering, start=self.start)
            losses[b] = float(to_numpy(result.average_loss)[0])
            errors[b] = float(np.max(result.error)) * abs(losses[b]) if result.error else error
        # Nothing is below the least possible: what lies there shows how large errors are.
        errors = np.maximum(errors, max(0.0, float(np.max(self.least - losses))))
        return losses, errors

    @cached_property
    def _squared_distance(self) -> float:
        """Squared distance from the start to the joint solution, around which moments are taken."""
        return float(np.sum(to_numpy(self.origin - self.tasks.teacher(self.start)) ** 2))

    @property
    def _fragile(self) -> bool:
        return self.rounding("average_loss") > _FRAGILE * self.initial("average_loss")

    @property
    def quick(self) -> bool:
        """Whether some more exact evaluations cost next to nothing."""
        return self.operations() < _QUICK

    def initial(self, objective: str) -> float:
        """Return the loss before the first step, which is what rounding is relative to."""
        if objective == "worst_case":
            return 0.5 * float(np.sum(self.tasks.singular_values**2)) / self.tasks.n_tasks
        held_out = self.validation if objective == "validation" else None
        return float(average_loss(self.tasks if held_out is None else held_out, self.origin))

    def __call__(self, schedules: Sequence[Schedule | Filter], names: Sequence[str]) -> dict[str, Floats]:
        """Return the named losses of every schedule, each of shape (B,)."""
        losses: dict[str, list[Floats]] = {name: [] for name in names}
        for part in self._parts(schedules, "seen_loss" in names):
            for name, values in self._part(part, names).items():
                losses[name].append(values)
        return {name: np.concatenate(values) for name, values in losses.items()}

    def _parts(self, schedules: Sequence[Any], path: bool) -> list[list[Any]]:
        each = 1.0 + 5.0 * self.moments.size**2 + 3.0 * float(self.tasks.offsets[-1]) * self.moments.size
        size = max(1, int(_NUMBERS / (each * (self.tasks.n_tasks if path else 1.0))))
        return [list(schedules[i : i + size]) for i in range(0, len(schedules), size)]

    def _part(self, schedules: list[Any], names: Sequence[str]) -> dict[str, Floats]:
        losses = {}
        if self.random and {"average_loss", "worst_case"} & set(names):
            losses = self._by_forms(schedules, "worst_case" in names)
            if self._fragile:
                losses.pop("average_loss")
        for name in names:
            if name not in losses:
                losses[name] = getattr(self, f"_{name}")(schedules)
        return {name: losses[name] for name in names}

    def has_model(self, objective: str) -> bool:
        """Whether searching exactly would take long, and a reduced model can be made."""
        plain = self.random and objective != "seen_loss" and is_numpy_namespace(self.tasks.xp)
        # Some 500 small maps are assembled, each from all pairs of directions of a task, against 200 evaluations; and a
        # step of the model is not free either, so that in few coordinates a batch of exact ones is faster.
        least = max(_QUICK, _STEP * self.k, 2.5 * assembly(self.tasks))
        return plain and not self._fragile and self.k >= _SHORT and self.operations() >= least

    def model(self, objective: str, pilots: Sequence[Any] = ()) -> Evaluate | None:
        """Return an approximate evaluation of the objective where searching exactly would take long; else None.

        It is best near ``pilots``, schedules that are followed exactly to make it.
        """
        if not self.has_model(objective):
            return None
        assert isinstance(self.law, Draws)
        moments, form, floor = self.final_form(objective)
        reduced = ReducedModel(moments, self.law, self.k, form, pilots)

        def evaluate(schedules: Sequence[Any]) -> Floats:
            forms = reduced.forms(schedules)
            if objective == "worst_case":
                return np.array([_worst(moments, V) for V in forms])
            return np.array([0.5 * max(0.0, float(np.sum(V * moments.start))) + floor for V in forms])

        return evaluate

    def final_form(self, objective: str) -> tuple[Moments, Array, float]:
        """Return moments, twice the loss after the last step as a form of them, and what is added to it."""
        if objective == "validation":
            assert self.validation is not None
            moments = moments_around_teacher(self.tasks, self.origin, affine=True)
            return moments, from_numpy(self._held_out_form(), like=moments.left), float(self.validation.floors.mean())
        if objective == "worst_case":
            moments = linear_moments(self.tasks)
            return moments, average_form(moments), 0.0
        return self.moments, average_form(self.moments), float(self.tasks.floors.mean())

    def _by_forms(self, schedules: list[Any], worst: bool) -> dict[str, Floats]:
        """Return expected and, if asked, worst-case losses, fixed filters apart because their powers are cheaper."""
        problem = Problem.of(self.tasks, schedules, self.k, self.ordering, "last")
        fixed = np.array([filter_.horizon is None for filter_ in problem.filters])
        losses = {
            "average_loss": np.empty(len(schedules)),
            **({"worst_case": np.empty(len(schedules))} if worst else {}),
        }
        start = to_numpy(self.moments.start)
        for group in (np.flatnonzero(fixed), np.flatnonzero(~fixed)):
            if not group.size:
                continue
            part = Problem.of(self.tasks, [problem.filters[b] for b in group], self.k, self.ordering, "last")
            for b, row in zip(group, draws.forms(part, self.moments).forms, strict=True):
                V = to_numpy(row[0])
                losses["average_loss"][b] = 0.5 * max(0.0, float(np.sum(V * start))) + self.tasks.floors.mean()
                if worst:
                    losses["worst_case"][b] = _worst(self.moments, V)
        return losses

    def _average_loss(self, schedules: list[Any]) -> Floats:
        result = expect(self.tasks, schedules, self.k, ordering=self.ordering, start=self.start)
        return np.asarray(to_numpy(result.average_loss)[:, 0])

    def _worst_case(self, schedules: list[Any]) -> Floats:
        result = worst_case(self.tasks, schedules, self.k, ordering=self.ordering)
        return np.asarray(to_numpy(result.loss))

    def _seen_loss(self, schedules: list[Any]) -> Floats:
        result = expect(self.tasks, schedules, self.k, ordering=self.ordering, start=self.start, metrics="seen_loss")
        return np.asarray(to_numpy(result.seen_loss)[:, 0])

    def _validation(self, schedules: list[Any]) -> Floats:
        assert self.validation is not None
        if isinstance(self.law, OneOrder):
            return np.array([self._after_one_order(schedule) for schedule in schedules])
        if not self.random:
            raise TypeError(
                f'objective="validation" needs draws with replacement, a cycle or a sequence, got {self.ordering!r}; '
                "use simulate and fl.metrics.average_loss on the held-out tasks"
            )
        problem = Problem.of(self.tasks, schedules, self.k, self.ordering, "last")
        moments = moments_around_teacher(self.tasks, self.origin, affine=True)
        run = IndependentRun.of(problem, moments)
        for first in range(0, self.k, problem.steps_at_once):
            run.advance(problem.factors(first, min(self.k, first + problem.steps_at_once)))
        excess = np.maximum(np.einsum("ij,ijb->b", self._held_out_form(), to_numpy(run.S)), 0.0)
        return np.asarray(0.5 * excess + self.validation.floors.mean())

    def _after_one_order(self, schedule: Any) -> float:
        assert self.validation is not None
        trace = simulate(
            self.tasks,
            schedule,
            self.k,
            ordering=self.ordering,
            start=self.start,
            record="last",
            metrics="average_loss",
        )
        assert trace.weights is not None
        return float(average_loss(self.validation, trace.weights[0, -1]))

    def _held_out_form(self) -> Floats:
        """Return F with ½⟨F, S⟩ the mean held-out loss over its floors, S being affine moments.

        Every held-out direction v with target b and singular value s has the row s [v·basis, v·w⋆ − b] of coordinates.
        """
        tasks, validation = self.tasks, self.validation
        assert validation is not None
        columns = to_numpy(tasks.teacher(self.start)).reshape(tasks.n_features, tasks.n_targets)
        D = to_numpy(validation.singular_vectors)
        inside = D if tasks.span is None else D @ to_numpy(tasks.span)
        rows = np.concatenate([inside, D @ columns - to_numpy(validation.targets)], axis=1)
        rows *= validation.singular_values[:, None]
        return np.asarray(rows.T @ rows / validation.n_tasks)


def _worst(moments: Moments, V: Floats) -> float:
    """Return the largest loss over unit teachers: the form of the linear maps is a part of V."""
    form = to_numpy(moments.linear_form(from_numpy(V, like=moments.left)))
    return 0.5 * max(0.0, float(np.linalg.eigvalsh(form)[-1])) if len(form) else 0.0


def check_held_out(validation: Any, tasks: TaskCollection, *, needed: bool) -> TaskCollection | None:
    """Return held-out rows, given in any of the ways ``advise`` takes them, as tasks with the features of ``tasks``."""
    if needed and validation is None:
        raise ValueError('objective="validation" needs held-out rows; give validation=(X, y) or a TaskCollection')
    if validation is None or isinstance(validation, TaskCollection):
        held_out = validation
    else:
        pair = isinstance(validation, tuple) and len(validation) == 2 and _is_matrix(validation[0])
        held_out = TaskCollection([validation] if pair else validation)
    if held_out is not None and (held_out.n_features, held_out.target_shape) != (tasks.n_features, tasks.target_shape):
        raise ValueError(
            f"validation has {held_out.n_features} features and targets of shape {held_out.target_shape}, the tasks "
            f"have {tasks.n_features} and {tasks.target_shape}; hold out rows of the same tasks"
        )
    return held_out


def _is_matrix(value: Any) -> bool:
    """Whether a value is X rather than a pair (X, y): an array, or rows of numbers."""
    if hasattr(value, "ndim"):
        return bool(value.ndim == 2)
    try:
        return np.ndim(value[0][0]) == 0
    except (TypeError, IndexError, KeyError):
        return False
