"""Filters of a stream under one schedule: horizons, epochs of doubling length, and the running
radius.
"""

import math
import warnings
from copy import deepcopy
from typing import Any

from forgetless._core import validate
from forgetless._core.arrays import nbytes
from forgetless.filters import Filter, GradientDescent
from forgetless.schedules import resolve
from forgetless.schedules.base import FIRST_EPOCH, epoch, own_horizon
from forgetless.schedules.names import PROPORTIONAL
from forgetless.schedules.presets import Constant

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
        self.schedule = schedule.filter if isinstance(schedule, Constant) else schedule
        self.listed = own_horizon(self.schedule)
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
        if self.constant:
            return self.schedule
        if isinstance(self.schedule, HalfStep):
            return self.schedule(1, radius)
        self._check_horizon(task)
        k, t = epoch(task, FIRST_EPOCH if self.n_tasks is None else self.n_tasks)
        proportional = (
            type(self.schedule) in PROPORTIONAL.values() and 0.0 < radius * radius < math.inf
        )
        at = 1.0 if proportional else radius
        first = (t - 1) // CHUNK * CHUNK
        if self._resolved[0] != (k, at, first):
            self._resolved = (k, at, first), self._filters(k, at, first)
        assert self._resolved[1] is not None
        filter_ = self._resolved[1].at(t - 1 - first)
        return filter_.scaled(radius * radius) if proportional else filter_

    def _filters(self, k: int, radius: float, first: int) -> Filter:
        """Return the filters of ``CHUNK`` tasks of an epoch from ``first`` on."""
        filters = resolve(self.schedule, k, radius)
        if filters.horizon is not None and k > CHUNK:
            # a slice alone would keep all in memory
            filters = deepcopy(filters.at(slice(first, first + CHUNK)))
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
