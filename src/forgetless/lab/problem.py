"""The validated arguments of all engines: tasks, filters, ordering, recorded steps."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forgetless._core import averages, validate
from forgetless._core.arrays import Floats
from forgetless._core.threads import few_threads
from forgetless._schedule import Labels, several
from forgetless.errors import NoExactLawError
from forgetless.filters import Filter
from forgetless.orderings import Ordering, OrderingLike, as_ordering
from forgetless.schedules import resolve
from forgetless.tasks import TaskCollection


@dataclass(frozen=True)
class Problem:
    """The validated arguments of ``expect``, ``worst_case``, ``simulate`` and others."""

    tasks: TaskCollection
    filters: list[Filter]  # one for every schedule
    labels: Labels
    k: int
    ordering: Ordering
    steps: NDArray[np.int64]
    average: float | None = None

    @classmethod
    def of(
        cls,
        tasks: TaskCollection,
        schedule: Any,
        k: int,
        ordering: OrderingLike | None,
        record: Any,
        average: Any = None,
    ) -> "Problem":
        """Return the problem of validated arguments, with every schedule resolved."""
        check_tasks(tasks)
        k = validate.integer("k", k, 1, "ask for at least one step")
        ordering = checked_ordering(ordering, tasks, k)
        schedules, labels = several(schedule, k)
        filters = [resolve(each, k, tasks.radius, tasks.n_tasks) for each in schedules]
        for each in filters:
            check_contraction(each, tasks)
        power = None if average is None else averages.power(average)
        steps = recorded_steps(record, k)
        return cls(tasks, filters, labels, k, ordering, steps, power)

    def parts(self, size: int) -> Iterator["Problem"]:
        """Yield the same problem with at most ``size`` schedules at a time."""
        for first in range(0, len(self.filters), size):
            yield replace(self, filters=self.filters[first : first + size])

    @property
    def grid(self) -> bool:
        """Whether results have an axis for several schedules."""
        return bool(self.labels)

    @cached_property
    def gains(self) -> Floats:
        """The gains of the running average, of shape (k,); see ``_core.averages``."""
        assert self.average is not None
        return averages.gains(self.average, self.k)

    @property
    def constant(self) -> bool:
        """Whether every filter is the same at all steps."""
        return all(filter_.horizon is None for filter_ in self.filters)

    def factors(self, first: int, last: int) -> Floats:
        """Return φ of shape (last − first, Σr, B) of the steps numbered first..last − 1 from 0."""
        columns = [self.factors_of(b, first, last) for b in range(len(self.filters))]
        return np.stack(columns, axis=2)

    def factors_of(self, b: int, first: int, last: int) -> Floats:
        """Return φ of shape (last − first, Σr) of one schedule."""
        filter_ = self.filters[b][first:last]
        factors = checked_factors(filter_, self.tasks.singular_values)
        return np.broadcast_to(factors, (last - first, factors.shape[1]))

    def windows(self) -> Iterator[tuple[int, int, bool]]:
        """Yield (first, last, whether ``last`` is recorded) of consecutive stretches of steps.

        They cover all steps up to the last recorded one, and are short enough for their factors to
        stay in memory.
        """
        directions = max(1, len(self.tasks.singular_values))
        size = max(1, _FACTORS_AT_ONCE // (directions * len(self.filters)))
        recorded = set(self.steps.tolist())
        stops = sorted({*range(0, int(self.steps[-1]), size), *recorded, 0})
        for first, last in zip([0, *stops], stops, strict=False):
            yield first, last, last in recorded

    def next_moves(self) -> None:
        """Raise an error unless there is a task after every recorded step."""
        step = int(self.steps[-1])
        try:
            self.ordering.check(self.tasks.n_tasks, step + 1)
        except ValueError as error:
            raise ValueError(
                f"next_loss after step {step} needs one task more, and there is none: {error}"
            ) from None


_FACTORS_AT_ONCE = 2**20


def has_next(ordering: Ordering, n_tasks: int, step: int) -> bool:
    """Return whether an ordering has a task after a step, and a law of it."""
    try:
        ordering.check(n_tasks, step + 1)
        ordering.moves(n_tasks, step)
    except (ValueError, NoExactLawError):
        return False
    return True


def checked_ordering(ordering: Any, tasks: TaskCollection, k: int) -> Ordering:
    """Return the ordering, draws with replacement if None; ValueError if it is not defined for k
    steps.
    """
    chosen = as_ordering(ordering)
    chosen.check(tasks.n_tasks, k)
    return chosen


def checked_factors(part: Filter, singular_values: Floats) -> Floats:
    """Return φ of shape (T or 1, Σr), validated: a custom filter may return anything."""
    factors = factor_rows(part, part.table(singular_values**2))
    low, high = (float(factors.min()), float(factors.max())) if factors.size else (0.0, 0.0)
    if low < -ROUNDED or high > 2 + ROUNDED:
        raise ValueError(
            f"{type(part).__name__}.factors must lie in [0, 2], so that errors do not grow, got"
            f" values in [{low:.6g}, {high:.6g}]"
        )
    # The rest is rounding, and is clipped for all engines: (1 + 1e-12)^k would grow in some of
    # them.
    return factors if low >= 0 and high <= 2 else np.clip(factors, 0.0, 2.0)


# distance of a factor from [0, 2] that is rounding, such as that of a step size of 2/R²
ROUNDED = 1e-12


def factor_rows(part: Filter, values: Any) -> Floats:
    """Return the values of a filter as rows; ValueError if one is not finite."""
    rows = np.atleast_2d(np.asarray(values, dtype=np.float64))
    if not np.isfinite(rows).all():
        raise ValueError(
            f"{type(part).__name__}.factors must return one finite factor per eigenvalue, got"
            " infinity or NaN"
        )
    return np.ascontiguousarray(rows)


def _work_of(tasks: Any = None, *_: Any, **__: Any) -> float:
    """Return the multiplications in the Gram matrix of all singular vectors of tasks."""
    if not isinstance(tasks, TaskCollection):
        return 0.0  # the engine raises TypeError
    rows = float(sum(tasks.ranks))
    return rows * tasks.n_features * min(rows, tasks.n_features)


# Engines make many small products.
with_few_threads = few_threads(_work_of)


def check_tasks(tasks: Any) -> None:
    """Raise TypeError for anything but a task collection, ValueError for one whose squares are no
    floats.
    """
    if not isinstance(tasks, TaskCollection):
        raise TypeError(
            f"tasks must be a TaskCollection, got {type(tasks).__name__}; wrap pairs as"
            " fl.TaskCollection(pairs)"
        )
    if tasks.radius > 0 and not 1e-153 <= tasks.radius <= 1e153:
        raise ValueError(
            f"tasks.radius must be 0 or between 1e-153 and 1e153, got {tasks.radius:.3g}; rescale X"
            " towards 1"
        )


def check_still(tasks: Any) -> None:
    """Raise TypeError for anything but tasks, ValueError for tasks with label noise or a walk."""
    check_tasks(tasks)
    if tasks.noise or tasks.walk:
        raise ValueError(
            f"tasks have noise={tasks.noise:g} and walk={tasks.walk:g}, for which there is no"
            " bound; leave both out: fl.TaskCollection(tasks)"
        )


def check_contraction(filter_: Filter, tasks: TaskCollection) -> None:
    """Raise ValueError for filters whose steps make errors grow on these tasks."""
    # Filters are monotone up to their overshoot, so the ends of the spectrum suffice.
    values = tasks.singular_values
    largest = float(values.max(initial=0.0)) or tasks.radius
    ends = np.array([largest, values.min(initial=largest)])
    with np.errstate(over="ignore"):
        worst = np.max(np.abs(1.0 - filter_.table(ends**2)))
    if not worst <= 1 + ROUNDED:
        raise ValueError(
            f"schedule makes the error grow by a factor {worst:.3g} per step; step_size must be at"
            f" most 2/R² = {2 / tasks.radius**2:.6g} for these tasks"
        )


def recorded_steps(record: Any, k: int) -> NDArray[np.int64]:
    """Return the increasing steps to record: "last", "log" (about 20 per decade), "all" (1..k) or a
    list of steps.
    """
    if isinstance(record, str):
        return _named_steps(record, k)
    steps = np.atleast_1d(np.asarray(record))
    if steps.ndim != 1 or steps.size == 0 or steps.dtype.kind not in "iu":
        raise TypeError(
            f'record must be "last", "log", "all" or integer steps in 0..{k}, got {record!r}'
        )
    if steps.min() < 0 or steps.max() > k:
        bad = steps.min() if steps.min() < 0 else steps.max()
        raise ValueError(f"record must hold steps in 0..{k}, got {bad}; raise k or drop the step")
    return np.unique(steps.astype(np.int64))


def _named_steps(record: str, k: int) -> NDArray[np.int64]:
    if record == "last":
        return np.array([k])
    if record == "all":
        return np.arange(1, k + 1)
    if record != "log":
        raise ValueError(f'record must be "last", "log", "all" or steps in 0..{k}, got {record!r}')
    return np.unique(np.rint(np.geomspace(1, k, 1 + int(20 * np.log10(k)))).astype(np.int64))
