"""Which filter the next task of a stream is learned with: names, horizons, and the running radius."""

import math
from typing import Any

import numpy as np

from forgetless import _checks
from forgetless.filters import Filter, GradientDescent, Ridge
from forgetless.schedules import Constant, Preset, resolve

FIRST_EPOCH = 4
"""Length of the first epoch where the number of tasks is unknown; the presets are defined from 3 steps on."""

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


def needs_radius(schedule: Any) -> bool:
    """Return whether a schedule asks for R: all callables do, except those known to ignore it."""
    return not isinstance(schedule, Filter | Constant) and own_horizon(schedule) is None


def own_horizon(schedule: Any) -> int | None:
    """Return for how many tasks a schedule is made, where it lists the coefficients itself."""
    if isinstance(schedule, Filter):
        return schedule.horizon
    listed = getattr(schedule, "coefficients", None) if isinstance(schedule, Preset) else None
    return None if listed is None else len(listed)


class Strength:
    """The filters of a stream under one schedule; resolved again only when the epoch or the radius changes."""

    def __init__(self, schedule: Any, n_tasks: int | None, beyond: str, groups: int | None = None) -> None:
        if beyond not in BEYOND:
            raise ValueError(f"beyond must be one of {', '.join(BEYOND)}, got {beyond!r}")
        if not isinstance(schedule, Filter) and not callable(schedule):
            raise TypeError(
                f"schedule must be a name, a filter or a callable (k, radius) → filter, got {schedule!r}; "
                "e.g. schedule='increasing', or alpha=1.0 for a constant coefficient"
            )
        self.schedule, self.beyond, self.declared = schedule, beyond, groups
        if n_tasks is not None:
            self.declared = _checks.integer("n_tasks", n_tasks, 1, "declare how many tasks will come")
        elif own_horizon(schedule) is not None:
            self.declared = own_horizon(schedule)
        # What is the same at every task goes on after the groups of ``fit``, but not beyond what the user declared.
        self.ends = self.declared if n_tasks is not None or not self.constant else None
        self._resolved: tuple[Any, Filter | None] = (None, None)
        # The coefficients of the current epoch, its first task and the radius they are for: the short path of rows.
        self._ready: tuple[float, int, list[float]] = (math.nan, 0, [])

    @property
    def constant(self) -> bool:
        """Whether every task has the same filter."""
        schedule = self.schedule.filter if isinstance(self.schedule, Constant) else self.schedule
        return isinstance(schedule, Filter) and schedule.horizon is None

    @property
    def needs_radius(self) -> bool:
        """Whether R must be known."""
        return needs_radius(self.schedule)

    def at(self, task: int, radius: float) -> Filter:
        """Return the filter of task number ``task`` ≥ 1."""
        if self.ends is not None and task > self.ends and self.beyond == "error":
            raise ValueError(
                f"task {task} is beyond the declared horizon of {self.ends} tasks, for which the schedule was "
                "made; declare more with n_tasks, or set beyond='anytime' to go on in epochs of doubling "
                "length (a heuristic)"
            )
        if self.constant:
            return self.schedule.filter if isinstance(self.schedule, Constant) else self.schedule
        k, t = epoch(task, FIRST_EPOCH if self.declared is None else self.declared)
        key = (k, radius)
        if self._resolved[0] != key:
            made = resolve(self.schedule, k, radius)
            values = np.broadcast_to(made.coefficient, (k,)).tolist() if isinstance(made, Ridge) else []
            self._resolved, self._ready = (key, made), (radius, task - t + 1, values)
        found = self._resolved[1]
        assert found is not None
        return found.at(t - 1)

    def ready_coefficient(self, task: int, radius: float) -> float:
        """Return λ of a task where it is known from an earlier call of ``at``; else NaN."""
        if self.ends is not None and task > self.ends and self.beyond == "error":
            return math.nan
        if isinstance(self.schedule, Ridge) and type(self.schedule.coefficient) is float:
            return self.schedule.coefficient
        for_radius, first, values = self._ready
        return values[task - first] if radius == for_radius and 0 <= task - first < len(values) else math.nan


def equivalent_coefficient(filter: Filter) -> float:
    """Return λ of a ridge step, or that of the ridge step which learns weak directions as fast: 1/φ'(0)."""
    if isinstance(filter, Ridge):
        return float(filter.coefficient)
    if isinstance(filter, GradientDescent):
        return 1.0 / (float(filter.n_steps) * float(filter.step_size))
    try:
        slope = float(filter.slope())
    except TypeError:
        return float("nan")
    return 1.0 / slope if slope > 0 else float("inf")


def per_row(filter: Filter, weight: float) -> Filter:
    """Return the filter that does to X what ``filter`` does to X/√weight: the mean loss instead of the sum."""
    if weight == 1.0 or (isinstance(filter, Ridge) and float(filter.coefficient) == 0):
        return filter
    if isinstance(filter, Ridge):
        return Ridge(float(filter.coefficient) * weight)
    if isinstance(filter, GradientDescent):
        return GradientDescent(int(filter.n_steps), float(filter.step_size) / weight)
    return PerRow(filter, weight)


class PerRow(Filter):
    """Any other filter, seen through X/√weight."""

    def __init__(self, inner: Filter, weight: float) -> None:
        self.inner, self.weight = inner, weight

    @property
    def horizon(self) -> int | None:
        return None

    def share(self, eigenvalues: Any) -> Any:
        return self.inner.share(eigenvalues / self.weight)

    def share_of_singular(self, singular_values: Any) -> Any:
        return self.inner.share_of_singular(singular_values / np.sqrt(self.weight))

    def slope(self) -> Any:
        return self.inner.slope() / self.weight
