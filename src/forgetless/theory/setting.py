"""What every hypothesis, and every value of a bound, is a function of."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from forgetless._core.arrays import Floats
from forgetless.filters import Filter, GradientDescent, Projection, Ridge
from forgetless.orderings import Ordering, WithoutReplacement
from forgetless.tasks import TaskCollection

CLOSE = 1e-9
"""Relative difference within which a schedule counts as that of a theorem."""

_AT_ONCE = 2**20
"""Filter factors in memory at once."""


@dataclass(frozen=True, eq=False)
class Setting:
    """What every hypothesis, and every value of a bound, is a function of."""

    tasks: TaskCollection
    filter: Filter  # the schedule for k steps
    k: int
    ordering: Ordering
    teacher: Any  # w⋆, the joint solution nearest to the origin, where learning begins
    distance: float  # D = ‖w⋆‖

    @property
    def radius(self) -> float:
        """R."""
        return self.tasks.radius

    @property
    def probabilities(self) -> Any:
        """The probabilities of the tasks, for independent draws; else None."""
        if not self.ordering.stationary:
            return None
        return self.ordering.moves(self.tasks.n_tasks, 0).probability

    @property
    def shuffled(self) -> bool:
        """Whether tasks come in uniformly random orders of all of them."""
        return isinstance(self.ordering, WithoutReplacement)

    @cached_property
    def eigenvalues(self) -> Floats:
        """The different nonzero eigenvalues ξ of all XᵀX, over R²."""
        return np.asarray(np.unique(self.tasks.singular_values / (self.radius or 1.0)) ** 2)

    def steps(self) -> Iterator[tuple[Floats, Floats]]:
        """Yield φ_t(ξ) at the eigenvalues, of shape (steps, n), and κ_t, of shape (steps, 1)."""
        n_steps = 1 if self.filter.horizon is None else self.k
        length = max(1, _AT_ONCE // max(1, len(self.eigenvalues)))
        for first in range(0, n_steps, length):
            part = slice(first, min(first + length, n_steps))
            factors = self.filter[part].table(self.eigenvalues * self.radius**2)
            yield factors, self.kappas[part, None]

    @cached_property
    def extremes(self) -> tuple[Floats, Floats]:
        """The smallest and the largest φ over all steps, at every eigenvalue."""
        ends = [(factors.min(axis=0), factors.max(axis=0)) for factors, _ in self.steps()]
        low, high = zip(*ends, strict=True)
        return np.min(low, axis=0), np.max(high, axis=0)

    @cached_property
    def kappas(self) -> Floats:
        """κ_t = φ_t(R²), of shape (k,)."""
        return np.broadcast_to(self.filter.table(self.radius**2), (self.k,))

    @property
    def kappa(self) -> float:
        """φ(R²) if it is the same at every step, else NaN."""
        return float(self.kappas[0]) if same(self.kappas) else math.nan

    @cached_property
    def strengths(self) -> Floats:
        """1/(η_tR²), that is λ_t/R² or 1/(N_tγ_tR²), of shape (k,); NaN where no theorem covers
        them.
        """
        values: Any = math.nan
        if self.radius > 0 and covered(self.filter, self.radius):
            values = self.filter.strength() / self.radius**2
        return np.broadcast_to(values, (self.k,))

    def scale_from(self, first: int) -> float:
        """Return c if the strengths from step first + 1 on are c(k+1)/(k−t+2), else NaN."""
        decay = np.arange(self.k + 1, 1, -1) / (self.k + 1)
        scales = (self.strengths * decay)[first:]
        return float(scales[0]) if len(scales) and same(scales) else math.nan

    @property
    def scale(self) -> float:
        """The factor c if the schedule is the theorem's with η = 1/(cR²), else NaN."""
        return self.scale_from(0)

    @cached_property
    def eta(self) -> float:
        """η if κ_t = η(k+1−t)/(k+1) at every step, as of ``schedules.minimax``, else NaN."""
        etas = self.kappas * (self.k + 1) / np.arange(self.k, 0, -1)
        if not 0 < etas[0] <= 1 + CLOSE or not same(etas):
            return math.nan
        return float(etas[0]) if etas[0] < 1 - CLOSE else 1.0

    @cached_property
    def contradiction(self) -> float:
        """Bound on the distance, relative to D, that contradictory tasks move the weights in k
        steps, or are missed.
        """
        tasks = self.tasks
        R = self.radius or 1.0
        missing = np.linalg.norm(tasks.missing(self.teacher), axis=1)
        largest = self.extremes[1][np.unique(tasks.singular_values, return_inverse=True)[1]]
        moves = tasks.by_task((np.abs(largest) * missing) ** 2)
        missed = tasks.by_task((tasks.singular_values / R * missing) ** 2)
        missed = missed + 2 * tasks.floors / R / R
        worst = max(self.k * math.sqrt(moves.max()), math.sqrt(missed.max()))
        if self.distance > 0:
            return worst / self.distance
        return math.inf if worst > 0 else 0.0


def same(values: Any) -> bool:
    """Return whether values agree up to rounding; False with a NaN among them."""
    return bool(np.ptp(values) <= CLOSE * np.max(np.abs(values)))


def covered(filter_: Filter, radius: float) -> bool:
    """Return whether the paper's theorems are about this filter: not about those of users.

    A single gradient step of size 1/R² may have been rounded upwards.
    """
    if not isinstance(filter_, GradientDescent):
        return isinstance(filter_, Ridge | Projection)
    relative = np.asarray(filter_.step_size) * radius**2
    once = np.asarray(filter_.n_steps) == 1
    return bool(np.all((relative < 1) | (once & (relative <= 1 + CLOSE))))
