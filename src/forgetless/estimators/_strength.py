"""Which filter the next task of a stream is learned with: names, horizons, and the running radius."""

import math
from copy import deepcopy
from typing import Any

import numpy as np

from forgetless._core import validate
from forgetless.estimators.monitor import nbytes
from forgetless.filters import Filter, GradientDescent, Ridge
from forgetless.schedules import Preset, resolve
from forgetless.schedules.names import is_proportional
from forgetless.schedules.shapes import Constant

FIRST_EPOCH = 4
"""Length of the first epoch where the number of tasks is unknown; the presets are defined from 3 steps on."""


CHUNK = 2**14
"""Coefficients that are kept at a time: those of a longer epoch are computed again when these have been used."""


BEYOND = ("error", "anytime")


def epoch(task: int, first: int) -> tuple[int, int]:
    """Return (k, t): task number ``task`` ≥ 1 is step t of an epoch of k steps.

    The first epoch has ``first`` steps and every later one as many as all before it, so the number of steps doubles.

    Examples
    --------
    >>> [epoch(task, 2) for task in range(1, 8)]
    [(2, 1), (2, 2), (2, 1), (2, 2), (4, 1), (4, 2), (4, 3)]
    """
    length, before = first, 0
    while task > before + length:
        before += length
        length = before
    return length, task - before


class HalfStep:
    """N steps of half of 1/R², at every task: the default of ``ContinualGD``."""

    def __init__(self, n_steps: int) -> None:
        self.n_steps = n_steps

    def __call__(self, k: int, radius: float) -> GradientDescent:
        """Return the filter, whatever k is."""
        return GradientDescent(self.n_steps, 0.5 / radius / radius)


def own_horizon(schedule: Any) -> int | None:
    """Return for how many tasks a schedule is made, where it lists the coefficients itself."""
    if isinstance(schedule, Filter):
        return schedule.horizon
    listed = getattr(schedule, "coefficients", None) if isinstance(schedule, Preset) else None
    return None if listed is None else len(listed)


class Strength:
    """The filters of a stream under one schedule; resolved again only when the epoch or the radius changes.

    Parameters
    ----------
    schedule : schedule, filter or callable
    n_tasks : int or None
        The horizon the user declared.
    beyond : {"error", "anytime"}
    groups : int or None
        The number of tasks that ``fit`` counted.
    """

    def __init__(self, schedule: Any, n_tasks: int | None, beyond: str, groups: int | None = None) -> None:
        if beyond not in BEYOND:
            raise ValueError(f"beyond must be one of {', '.join(BEYOND)}, got {beyond!r}")
        if not isinstance(schedule, Filter) and not callable(schedule):
            raise TypeError(
                f"schedule must be a name, a filter or a callable (k, radius) → filter, got {schedule!r}; "
                "e.g. schedule='increasing', or alpha=1.0 for a constant coefficient"
            )
        schedule = schedule.filter if isinstance(schedule, Constant) else schedule
        listed = own_horizon(schedule)
        if beyond == "anytime" and listed is not None:
            raise ValueError(
                f"beyond='anytime' cannot go on after {listed} listed coefficients, which say nothing about longer "
                "epochs; use a schedule that takes k, such as schedules.increasing()"
            )
        self.schedule, self.beyond = schedule, beyond
        self.declared = groups if listed is None else listed
        if n_tasks is not None:
            self.declared = validate.integer("n_tasks", n_tasks, 1, "declare how many tasks will come")
        # What does not depend on k goes on after the groups of ``fit``, but not beyond what the user declared.
        self.ends = self.declared if n_tasks is not None or not self.timeless else None
        # The key that the filters were resolved for, and those of its next tasks.
        self._resolved: tuple[Any, Filter | None] = (None, None)
        # For the short path of rows: the radius (NaN if any), the first of these tasks, and their coefficients.
        self._ready: tuple[float, int, list[float]] = (math.nan, 0, [])

    @property
    def timeless(self) -> bool:
        """Whether the filter depends on neither k nor the number of the task."""
        chosen = self.schedule
        return isinstance(chosen, HalfStep) or (isinstance(chosen, Filter) and chosen.horizon is None)

    @property
    def needs_radius(self) -> bool:
        """Whether R must be known: all callables ask for it, except those known to ignore it."""
        return not isinstance(self.schedule, Filter) and own_horizon(self.schedule) is None

    def at(self, task: int, radius: float) -> Filter:
        """Return the filter of task number ``task`` ≥ 1."""
        if self._ended(task):
            raise ValueError(
                f"task {task} is beyond the declared horizon of {self.ends} tasks, for which the schedule was made; "
                "declare more with n_tasks, or set beyond='anytime' to go on in epochs of doubling length (a heuristic)"
            )
        if self.timeless:
            return resolve(self.schedule, 1, radius)
        k, t = epoch(task, FIRST_EPOCH if self.declared is None else self.declared)
        proportional = is_proportional(self.schedule) and 0.0 < radius * radius < math.inf
        at, chunk = (1.0 if proportional else radius), (t - 1) // CHUNK
        key, first = (k, at, chunk), chunk * CHUNK
        if self._resolved[0] != key:
            made = resolve(self.schedule, k, at)
            if made.horizon is not None and k > CHUNK:
                made = deepcopy(made.at(slice(first, first + CHUNK)))  # a slice alone would hold on to all of them
            count = min(CHUNK, k - first)
            values = np.broadcast_to(made.coefficient, (count,)).tolist() if isinstance(made, Ridge) else []
            begin = task - t + 1 + first
            self._resolved, self._ready = (key, made), (math.nan if proportional else radius, begin, values)
        assert self._resolved[1] is not None
        found = self._resolved[1].at(t - 1 - first)
        return found.scaled(radius * radius) if proportional else found

    def ready_coefficient(self, task: int, radius: float) -> float:
        """Return λ of a task where it is known from an earlier call of ``at``; else NaN."""
        if self._ended(task):
            return math.nan
        if isinstance(self.schedule, Ridge) and type(self.schedule.coefficient) is float:
            return self.schedule.coefficient
        for_radius, first, values = self._ready
        if not 0 <= task - first < len(values):
            return math.nan
        if for_radius != for_radius:
            return values[task - first] * (radius * radius)
        return values[task - first] if radius == for_radius else math.nan

    @property
    def nbytes(self) -> int:
        """Bytes of the coefficients kept, as filters and as the numbers of the short path, which Python keeps apart."""
        return nbytes(self._resolved[1]) + 32 * len(self._ready[2])

    def _ended(self, task: int) -> bool:
        return self.ends is not None and task > self.ends and self.beyond == "error"
