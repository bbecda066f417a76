"""The validated arguments of all verbs: tasks, filters, ordering, recorded steps.

Everything that a user gives is checked here, once: ``Problem.of`` resolves schedules to filters of
k steps, orderings and recorded steps by name, and refuses steps that make errors grow. The factors
φ_t(s²) of the steps are computed from the filters in stretches that fit into memory, since k steps
of Σr factors for B schedules may not. What a custom filter returns is checked there.
"""

import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forgetless import _validate as validate
from forgetless._linalg import average_power, gains
from forgetless._running import few_threads, gram_work
from forgetless._validate import Floats, check_memory
from forgetless.filters import Filter
from forgetless.metrics import Metric
from forgetless.metrics import resolve as metrics_of
from forgetless.orderings import Ordering, OrderingLike, as_ordering
from forgetless.schedules import resolve
from forgetless.schedules.named import Labels, several
from forgetless.tasks import TaskCollection

# no mutant: only the time differs
_LANES = 32
"""Schedules whose moments are carried together: they stay in the cache."""

# no mutant: only memory and time differ
_FACTORS_AT_ONCE = 2**20
"""Filter factors in memory at once: 8 MB."""

# no mutant: only how often a progress bar moves
_WORK_AT_ONCE = 1e9
"""Multiplications between two looks at the clock of a progress bar: less than a second."""

# no mutant: a rough estimate
_CALL = 2e5
"""Multiplications in the time of one call of a kernel, some 40 µs."""

# no mutant: a rough estimate
_SPEED = 5e9
"""Multiplications of moments in a second on two cores, roughly."""

# no mutant: a rough estimate is compared with it
_PATIENCE = 30.0
"""Seconds from which on a call says beforehand what it costs."""

_ROUNDED = 1e-12
"""Distance of a factor from [0, 2] that is rounding, such as that of a step size of 2/R²."""


@dataclass(frozen=True)
class Problem:
    """The validated arguments of ``expect``, ``worst_case``, ``simulate`` and others.

    Attributes
    ----------
    filters : list of Filter
        One for every schedule.
    labels : tuple
        Of several schedules; empty for one.
    steps : increasing array of int
        The recorded steps.
    average : float or None
        The power of the weights of an average of the iterates; None for the last iterate.
    """

    tasks: TaskCollection
    filters: list[Filter]
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
        order = checked_ordering(ordering, tasks, k)
        # Every schedule becomes a filter with one value per step, or a constant one.
        schedules, labels = several(schedule, k)
        filters = [resolve(each, k, tasks.radius, tasks.n_tasks) for each in schedules]
        for each in filters:
            check_contraction(each, tasks)
        steps = recorded_steps(record, k)
        return cls(
            tasks,
            filters,
            labels,
            k,
            order,
            steps,
            average_power(average),
        )

    @property
    def parts(self) -> list["Problem"]:
        """The same problem with at most ``_LANES`` schedules at a time."""
        starts = range(0, len(self.filters), _LANES)
        return [replace(self, filters=self.filters[first : first + _LANES]) for first in starts]

    @cached_property
    def gains(self) -> Floats:
        """The gains of the running average, of shape (k,), see ``_linalg``; empty without
        one.
        """
        return np.zeros(0) if self.average is None else gains(self.average, self.k)

    def factors(self, first: int, last: int) -> Floats:
        """Return φ of shape (last − first, Σr, B) of the steps numbered first..last − 1 from 0.

        The last axis is that of the schedules, as in ``_kernels.push``.
        """
        singular_values = self.tasks.singular_values
        # A constant filter has one row for all steps.
        shape = (last - first, len(singular_values))
        parts = [each[first:last] for each in self.filters]
        tables = [checked_factors(part, singular_values) for part in parts]
        return np.stack([np.broadcast_to(table, shape) for table in tables], axis=2)

    def check_states(self, width: int, n_matrices: int = 1) -> None:
        """Raise MemoryError for moments that do not fit: matrices of ``width`` for every state."""
        n_tasks = self.tasks.n_tasks
        # Of more than 1000 tasks there are more sets than a float holds.
        states = min(self.ordering.n_states(n_tasks, self.k), 1e30)
        # The moments before and after a step and at visits, the products R S, and the moves.
        matrices = 3.0 * n_matrices - 1.0
        moments = states * matrices * width**2 + len(self.tasks.singular_values) * width
        check_memory(
            len(self.filters) * moments + 3.0 * states * n_tasks,
            f"a chain of {states:,} states with {width} coordinates and {len(self.filters)}"
            " schedules",
            "use simulate, or fewer tasks, schedules and metrics of the path",
        )

    def stops(
        self,
        first: int,
        last: int,
        width: int,
        n_matrices: int = 1,
    ) -> list[int]:
        """Return ``first`` = t_0 < t_1 < … = ``last``, with the recorded steps among them.

        Stretches between them are short enough for their factors to stay in memory and, with
        matrices of ``width`` to be carried, for a progress bar to move.
        """
        # Filter factors of one step; tasks of zeros have none.
        numbers = max(1, len(self.tasks.singular_values) * len(self.filters))
        # no mutant: only how often a progress bar moves
        at_once = int(_WORK_AT_ONCE / self._work(width, n_matrices))
        return self.stretches(first, last, min(_FACTORS_AT_ONCE // numbers, at_once))

    def stretches(
        self,
        first: int,
        last: int,
        size: int,
    ) -> list[int]:
        """Return ``first`` = t_0 < t_1 < … = ``last``, at most ``size`` steps apart, with the
        recorded steps among them.
        """
        recorded = self.steps[(first < self.steps) & (self.steps < last)].tolist()
        return sorted({*range(first, last, max(1, size)), *recorded, last})

    def _work(self, width: int, n_matrices: int) -> float:
        """Return the multiplications of a step of ``n_matrices``, calls counted as their time."""
        n_tasks = self.tasks.n_tasks
        rows = len(self.tasks.singular_values) * len(self.ordering.moves(n_tasks, 0).task) / n_tasks
        # S takes 4 Q² multiplications for every singular vector of a move.
        return n_matrices * (4.0 * rows * len(self.filters) * width**2 + _CALL)

    def announce(self, n_steps: int, width: int, n_matrices: int = 1) -> None:
        """Warn of the time that the steps will take, where it is long."""
        seconds = n_steps * self._work(width, n_matrices) / _SPEED
        # no mutant: a rough estimate is compared
        if seconds > _PATIENCE:
            warnings.warn(
                f"{n_steps:,} steps of {n_matrices:,} matrices with {width:,} coordinates will take"
                f" about {seconds:,.0f} seconds here; simulate and average_loss alone are faster",
                # The line of the caller of a verb.
                stacklevel=6,
            )

    def resolved(self, metrics: Any) -> list[Metric]:
        """Return the metrics that a user asks for; ValueError for those that are not defined."""
        found = metrics_of(metrics)
        names = [each.name for each in found]
        # Drift compares outputs with earlier ones, which are those of other labels.
        wrong = [name for name in names if name in ("drift", "task_drift")]
        if self.tasks.walk and wrong:
            raise ValueError(
                f"metrics={', '.join(wrong)} compares outputs with earlier ones, and the walk of"
                f" {self.tasks.walk:g} moves the labels meanwhile; ask for forgetting, seen_loss,"
                " average_loss, next_loss, distance or task_losses"
            )
        step = int(self.steps[-1])
        try:
            # Without replacement there is no task after the last one.
            needed = step + 1 if "next_loss" in names else step
            self.ordering.check(self.tasks.n_tasks, needed)
        except ValueError as error:
            raise ValueError(
                f"next_loss after step {step} needs one task more, and there is none: {error}"
            ) from None
        return found


def checked_ordering(
    ordering: Any,
    tasks: TaskCollection,
    k: int,
) -> Ordering:
    """Return the ordering, draws with replacement if None; ValueError if it is not defined for k
    steps.
    """
    # An ordering may be a name; None stands for draws with replacement.
    chosen = as_ordering(ordering)
    chosen.check(tasks.n_tasks, k)
    return chosen


def checked_factors(part: Filter, singular_values: Floats) -> Floats:
    """Return φ of shape (T or 1, Σr), validated: a custom filter may return anything.

    Between 0 and 2 a step does not increase the error along any singular vector: |1 − φ| ≤ 1.
    """
    table = np.asarray(part.table(singular_values**2), dtype=np.float64)
    # NaN is not within the limits either.
    if not np.all(np.abs(table - 1.0) <= 1.0 + _ROUNDED):
        raise ValueError(
            f"{type(part).__name__}.factors must return one finite factor per eigenvalue, and these"
            " factors must lie in [0, 2], so that errors do not grow, got values in"
            f" [{table.min():.6g}, {table.max():.6g}]"
        )
    # The rest is rounding, and is clipped: (1 + 1e-12)^k would grow.
    return np.ascontiguousarray(np.clip(table, 0.0, 2.0))


def _work_of(tasks: Any = None, *_: Any, **__: Any) -> float:
    """Return the multiplications in the Gram matrix of all singular vectors of tasks."""
    # For anything else ``check_tasks`` raises TypeError.
    return gram_work(tasks.singular_vectors.shape) if isinstance(tasks, TaskCollection) else 0.0


with_few_threads = few_threads(_work_of)
"""Decorator of verbs, which make many small products."""


def check_tasks(tasks: Any) -> None:
    """Raise TypeError for anything but a task collection, ValueError for one whose squares are no
    floats.
    """
    if not isinstance(tasks, TaskCollection):
        raise TypeError(
            f"tasks must be a TaskCollection, got {type(tasks).__name__}; wrap pairs as"
            " fl.TaskCollection(pairs)"
        )
    # Squares of radii, and their inverses, are floats within these limits.
    if tasks.radius > 0 and not 1e-153 <= tasks.radius <= 1e153:
        raise ValueError(
            f"tasks.radius must be 0 or between 1e-153 and 1e153, got {tasks.radius:.3g}; rescale X"
            " towards 1"
        )


def check_contraction(filter_: Filter, tasks: TaskCollection) -> None:
    """Raise ValueError for filters whose steps make errors grow on these tasks."""
    # Filters are monotone up to their overshoot, so the ends of the spectrum suffice.
    values = tasks.singular_values
    ends = np.array([tasks.radius, values.min(initial=tasks.radius)])
    # A long budget of steps that are too large overflows, and is refused below.
    with np.errstate(over="ignore"):
        worst = np.max(np.abs(1.0 - filter_.table(ends**2)))
    if not worst <= 1 + _ROUNDED:
        raise ValueError(
            f"schedule makes the error grow by a factor {worst:.3g} per step; step_size must be at"
            f" most 2/R² = {2 / tasks.radius**2:.6g} for these tasks"
        )


def recorded_steps(record: Any, k: int) -> NDArray[np.int64]:
    """Return the increasing steps to record: "last", "log" (about 20 per decade), "all" (1..k) or a
    list of steps.
    """
    wrong = f'record must be "last", "log", "all" or integer steps in 0..{k}, got {record!r}'
    steps = np.atleast_1d(record)
    # The names stand for one step, for all, and for about 20 per decade.
    if isinstance(record, str):
        if record not in ("last", "log", "all"):
            raise ValueError(wrong)
        steps = np.arange(1 if record == "all" else k, k + 1)
        if record == "log":
            spread = np.geomspace(1, k, 1 + int(20 * np.log10(k)))
            steps = np.rint(spread).astype(np.int64)
    if steps.ndim != 1 or steps.size == 0 or steps.dtype.kind not in "iu":
        raise TypeError(wrong)
    # Step 0 is before the first task.
    outside = steps[(steps < 0) | (steps > k)]
    if outside.size:
        raise ValueError(
            f"record must hold steps in 0..{k}, got {outside[0]}; raise k or drop the step"
        )
    return np.unique(steps.astype(np.int64))
