"""Exact losses of many schedules on the same tasks, each by its cheapest method.

================  ==================================================================================
``average_loss``  the mean loss over all tasks, averaged over orderings
``worst_case``    the same for the worst teacher of unit norm, learned from the origin
``seen_loss``     the mean loss over the tasks that have occurred
``validation``    the mean loss over held-out tasks
================  ==================================================================================

For random draws the first two come from one pass: the loss is carried backwards as a quadratic form
of the start.
"""

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from forgetless._core.arrays import Array, Floats
from forgetless.advice._reduced import ReducedModel, assembly
from forgetless.engines import draws
from forgetless.engines.expectation import expect, worst_case
from forgetless.engines.independent import IndependentRun
from forgetless.engines.moments import (
    Moments,
    average_form,
    linear_moments,
    measured,
    moments_around_teacher,
)
from forgetless.engines.problem import Problem
from forgetless.engines.simulation import simulate
from forgetless.errors import NoExactLawError
from forgetless.filters import Filter
from forgetless.metrics import average_loss
from forgetless.orderings import Draws, OneOrder, Ordering
from forgetless.schedules import Schedule
from forgetless.tasks import TaskCollection

Evaluate = Callable[[Sequence[Any]], Floats]  # schedules to their losses, in one batch

# A reduced model is used from so many operations of one evaluation, some milliseconds, and of one
# step, and steps on
_QUICK, _STEP, _SHORT = 1e8, 5e4, 32
# numbers in memory at once, 256 MiB: longer lists of schedules are evaluated in parts
_NUMBERS = 2.0**25
_PRECISE = 1e-6  # relative rounding of a loss above which it is computed with a bound of its error
# rounding relative to the initial loss above which the search uses the engine with an error bound
_FRAGILE = 1e-7


class Losses:
    """Exact losses of schedules for k steps, of which one, the ``objective``, is to be minimised.

    ``validation`` are held-out tasks or None; ``seed`` is that of everything that is sampled.
    """

    def __init__(
        self,
        tasks: TaskCollection,
        k: int,
        ordering: Ordering,
        start: Any,
        validation: TaskCollection | None,
        objective: str = "average_loss",
        seed: int = 0,
    ) -> None:
        self.tasks, self.k, self.ordering, self.start, self.validation = (
            tasks,
            k,
            ordering,
            start,
            validation,
        )
        self.objective, self.seed = objective, seed
        self.origin = tasks.start(start)
        self.moments = measured(tasks, self.origin)
        self.law = ordering.law(tasks.n_tasks, k)
        if self.law is None:
            raise NoExactLawError(
                f"ordering {ordering!r} has no exact expectation; compare schedules with simulate"
            )
        self.random = isinstance(self.law, Draws)
        self.least = 0.0 if fits(tasks) else float(average_loss(tasks, tasks.teacher(start)))

    def with_steps(self, k: int) -> "Losses":
        """Return the same for another number of steps."""
        return Losses(
            self.tasks, k, self.ordering, self.start, self.validation, self.objective, self.seed
        )

    def operations(self, name: str | None = None) -> float:
        """Return the operations of one exact evaluation of a loss under independent draws."""
        passes = self.tasks.n_tasks if (name or self.objective) == "seen_loss" else 1
        return 4.0 * self.k * float(self.tasks.offsets[-1]) * self.moments.size**2 * passes

    def rounding(self, name: str | None = None) -> float:
        """Return the rounding error of losses, which is relative to the moments before the first
        step.
        """
        distance = 1.0 if (name or self.objective) == "worst_case" else self._squared_distance
        return (
            4.0
            * (1.0 + math.sqrt(self.k))
            * float(np.finfo(float).eps)
            * self.tasks.radius**2
            * distance
        )

    def with_errors(self, schedules: Sequence[Any], losses: Floats) -> tuple[Floats, Floats]:
        """Return losses of schedules with bounds of their errors, computed again where rounding may
        matter.
        """
        error = self.rounding()
        errors, losses = np.full(len(schedules), error), np.array(losses)
        if self.objective != "average_loss" or np.all(
            error <= _PRECISE * np.maximum(losses - self.least, 0.0)
        ):
            return losses, errors
        for b, schedule in enumerate(schedules):
            result = expect(self.tasks, schedule, self.k, ordering=self.ordering, start=self.start)
            losses[b] = float(result.average_loss[0])
            errors[b] = float(np.max(result.error)) * abs(losses[b]) if result.error else error
        # A loss below the least possible one reveals a larger error.
        errors = np.maximum(errors, max(0.0, float(np.max(self.least - losses))))
        return losses, errors

    @cached_property
    def _squared_distance(self) -> float:
        """Squared distance from the start to the joint solution, around which moments are taken."""
        return float(np.sum((self.origin - self.tasks.teacher(self.start)) ** 2))

    @property
    def _fragile(self) -> bool:
        return self.rounding("average_loss") > _FRAGILE * self.initial("average_loss")

    @property
    def quick(self) -> bool:
        """Whether some more exact evaluations cost next to nothing."""
        return self.operations("average_loss") < _QUICK

    def initial(self, name: str | None = None) -> float:
        """Return a loss before the first step, to which rounding is relative."""
        name = name or self.objective
        if name == "worst_case":
            return 0.5 * float(np.sum(self.tasks.singular_values**2)) / self.tasks.n_tasks
        held_out = self.validation if name == "validation" else None
        return float(average_loss(self.tasks if held_out is None else held_out, self.origin))

    def losses(self, schedules: Sequence[Schedule | Filter]) -> Floats:
        """Return the objective of every schedule, of shape (B,)."""
        return self(schedules, [self.objective])[self.objective]

    def __call__(
        self, schedules: Sequence[Schedule | Filter], names: Sequence[str]
    ) -> dict[str, Floats]:
        """Return the named losses of every schedule, each of shape (B,)."""
        parts = [self._part(part, names) for part in self._parts(schedules, "seen_loss" in names)]
        return {name: np.concatenate([part[name] for part in parts]) for name in names}

    def _parts(self, schedules: Sequence[Any], path: bool) -> list[list[Any]]:
        each = (
            1.0
            + 5.0 * self.moments.size**2
            + 3.0 * float(self.tasks.offsets[-1]) * self.moments.size
        )
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
                losses[name] = self._evaluate(schedules, name)
        return {name: losses[name] for name in names}

    def has_model(self) -> bool:
        """Whether an exact search would take long, and a reduced model can be computed."""
        plain = self.random and self.objective != "seen_loss"
        # Some 500 small maps are assembled, each from all pairs of singular vectors of a task,
        # against 200 evaluations. A step of the model is not free either, so that in few
        # coordinates a batch of exact evaluations is faster.
        least = max(_QUICK, _STEP * self.k, 2.5 * assembly(self.tasks))
        return (
            plain
            and not self._fragile
            and self.k >= _SHORT
            and self.operations("average_loss") >= least
        )

    def model(self, pilots: Sequence[Any] = ()) -> Evaluate | None:
        """Return an approximation of ``losses`` where an exact search would take long; else None.

        It is most accurate near ``pilots``, schedules whose exact runs it is computed from.
        """
        if not self.has_model():
            return None
        assert isinstance(self.law, Draws)
        moments, form, floor = self.final_form()
        reduced = ReducedModel(moments, self.law, self.k, form, pilots)

        def evaluate(schedules: Sequence[Any]) -> Floats:
            forms = reduced.forms(schedules)
            if self.objective == "worst_case":
                return np.array([_worst(moments, V) for V in forms])
            return np.array(
                [0.5 * max(0.0, float(np.sum(V * moments.start))) + floor for V in forms]
            )

        return evaluate

    def final_form(self) -> tuple[Moments, Array, float]:
        """Return moments, twice the objective after the last step as a form of them, and its
        constant term.
        """
        if self.objective == "validation":
            assert self.validation is not None
            moments = moments_around_teacher(self.tasks, self.origin, affine=True)
            return (
                moments,
                self._held_out_form(),
                float(self.validation.floors.mean()),
            )
        if self.objective == "worst_case":
            moments = linear_moments(self.tasks)
            return moments, average_form(moments), 0.0
        return self.moments, average_form(self.moments), float(self.tasks.floors.mean())

    def _by_forms(self, schedules: list[Any], worst: bool) -> dict[str, Floats]:
        """Return average and, if ``worst``, worst-case losses; fixed filters separately, since
        powers are cheaper.
        """
        problem = Problem.of(self.tasks, schedules, self.k, self.ordering, "last")
        fixed = np.array([filter_.horizon is None for filter_ in problem.filters])
        names = ("average_loss", "worst_case") if worst else ("average_loss",)
        losses = {name: np.empty(len(schedules)) for name in names}
        start = self.moments.start
        for group in (np.flatnonzero(fixed), np.flatnonzero(~fixed)):
            if not group.size:
                continue
            part = Problem.of(
                self.tasks, [problem.filters[b] for b in group], self.k, self.ordering, "last"
            )
            for b, row in zip(group, draws.forms(part, self.moments).forms, strict=True):
                V = row[0]
                losses["average_loss"][b] = (
                    0.5 * max(0.0, float(np.sum(V * start))) + self.tasks.floors.mean()
                )
                if worst:
                    losses["worst_case"][b] = _worst(self.moments, V)
        return losses

    def _evaluate(self, schedules: list[Any], name: str) -> Floats:
        if name == "validation":
            return self._validation(schedules)
        if name == "worst_case":
            return np.asarray(
                worst_case(self.tasks, schedules, self.k, ordering=self.ordering).loss
            )
        result = expect(
            self.tasks, schedules, self.k, ordering=self.ordering, start=self.start, metrics=name
        )
        return np.asarray(result.values[name][:, 0])

    def _validation(self, schedules: list[Any]) -> Floats:
        assert self.validation is not None
        if isinstance(self.law, OneOrder):
            return np.array([self._after_one_order(schedule) for schedule in schedules])
        if not self.random:
            raise TypeError(
                'objective="validation" needs draws with replacement, a cycle or a sequence, got'
                f" {self.ordering!r}; use simulate and fl.metrics.average_loss on the held-out"
                " tasks"
            )
        problem = Problem.of(self.tasks, schedules, self.k, self.ordering, "last")
        moments = moments_around_teacher(self.tasks, self.origin, affine=True)
        run = IndependentRun.of(problem, moments)
        for first in range(0, self.k, problem.steps_at_once):
            run.advance(problem.factors(first, min(self.k, first + problem.steps_at_once)))
        excess = np.maximum(np.einsum("ij,ijb->b", self._held_out_form(), run.S), 0.0)
        return np.asarray(0.5 * excess + self.validation.floors.mean())

    def _after_one_order(self, schedule: Any) -> float:
        assert self.validation is not None
        options: dict[str, Any] = {"ordering": self.ordering, "start": self.start}
        trace = simulate(
            self.tasks, schedule, self.k, record="last", metrics="average_loss", **options
        )
        assert trace.weights is not None
        return float(average_loss(self.validation, trace.weights[0, -1]))

    def _held_out_form(self) -> Floats:
        """Return F with ½⟨F, S⟩ the mean held-out loss above its floors, S being affine moments.

        Every held-out singular vector v with target b and singular value s has the row s [v·basis,
        v·w⋆ − b].
        """
        tasks, validation = self.tasks, self.validation
        assert validation is not None
        columns = tasks.teacher(self.start).reshape(tasks.n_features, tasks.n_targets)
        D = validation.singular_vectors
        inside = D if tasks.span is None else D @ tasks.span
        rows = np.concatenate([inside, D @ columns - validation.targets], axis=1)
        rows *= validation.singular_values[:, None]
        return np.asarray(rows.T @ rows / validation.n_tasks)


def _worst(moments: Moments, V: Floats) -> float:
    """Return the largest loss over unit teachers, from the linear part of the form V."""
    form = moments.linear_form(V)
    return 0.5 * max(0.0, float(np.linalg.eigvalsh(form)[-1])) if len(form) else 0.0


def check_held_out(
    validation: Any, tasks: TaskCollection, *, needed: bool
) -> TaskCollection | None:
    """Return the argument ``validation`` of ``advise`` as tasks, which must have the features of
    ``tasks``.
    """
    if needed and validation is None:
        raise ValueError(
            'objective="validation" needs held-out rows; give validation=(X, y) or a TaskCollection'
        )
    if validation is None or isinstance(validation, TaskCollection):
        held_out = validation
    else:
        pair = isinstance(validation, tuple) and len(validation) == 2 and _is_matrix(validation[0])
        held_out = TaskCollection([validation] if pair else validation)
    if held_out is not None and (held_out.n_features, held_out.target_shape) != (
        tasks.n_features,
        tasks.target_shape,
    ):
        raise ValueError(
            f"validation has {held_out.n_features} features and targets of shape"
            f" {held_out.target_shape}, the tasks have {tasks.n_features} and {tasks.target_shape};"
            " hold out rows of the same tasks"
        )
    return held_out


def _is_matrix(value: Any) -> bool:
    """Whether a value is X, an array or rows of numbers, not a pair (X, y)."""
    if hasattr(value, "ndim"):
        return bool(value.ndim == 2)
    try:
        return np.ndim(value[0][0]) == 0
    except (TypeError, IndexError, KeyError):
        return False


def fits(tasks: TaskCollection) -> bool:
    """Return whether one model fits all tasks up to rounding of the losses.

    Stricter than ``is_realizable``, which is relative to ‖w⋆‖: near-duplicate features put w⋆ so
    far away that any noise is small against it.
    """
    if not tasks.is_realizable():
        return False
    w = tasks.teacher()
    rounded = 1e3 * float(np.finfo(float).eps) * tasks.radius * float(np.linalg.norm(w))
    return float(average_loss(tasks, w)) <= max(
        1e-12 * float(average_loss(tasks, 0.0 * w)), rounded**2
    )
