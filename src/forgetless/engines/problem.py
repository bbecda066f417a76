"""The checked arguments that all engines share: tasks, filters, ordering, recorded steps."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forgetless._base import checks
from forgetless._base.arrays import Floats, from_numpy
from forgetless.engines.results import Expectation
from forgetless.filters import Filter
from forgetless.orderings import Ordering, WithReplacement
from forgetless.schedules import resolve
from forgetless.tasks import TaskCollection


@dataclass(frozen=True)
class Problem:
    """The checked arguments that ``expect`` and ``worst_case`` share."""

    tasks: TaskCollection
    filters: list[Filter]
    grid: bool
    k: int
    ordering: Ordering
    steps: NDArray[np.int64]

    @classmethod
    def of(cls, tasks: TaskCollection, schedule: Any, k: int, ordering: Ordering | None, record: Any) -> "Problem":
        """Check the arguments and resolve every schedule."""
        check_tasks(tasks)
        k = checks.integer("k", k, 1, "ask for at least one step")
        ordering = WithReplacement() if ordering is None else ordering
        if not isinstance(ordering, Ordering):
            raise TypeError(f"ordering must be an Ordering such as fl.Cyclic(), got {ordering!r}")
        ordering.check(tasks.n_tasks, k)
        grid = isinstance(schedule, list | tuple)
        if grid and not schedule:
            raise ValueError("schedule must hold at least one schedule, got an empty list")
        filters = [resolve(each, k, tasks.radius) for each in (schedule if grid else [schedule])]
        for each in filters:
            check_contraction(each, tasks)
        return cls(tasks, filters, grid, k, ordering, recorded_steps(record, k))

    @property
    def constant(self) -> bool:
        """Whether every filter is the same at all steps."""
        return all(filter_.horizon is None for filter_ in self.filters)

    @property
    def probabilities(self) -> Floats:
        """The probabilities of the tasks, for draws with replacement."""
        assert isinstance(self.ordering, WithReplacement)
        return self.ordering.weights(self.tasks.n_tasks)

    def shares(self, first: int, last: int) -> Floats:
        """Return φ of shape (Σr, last − first, B) of the steps numbered first..last − 1 from 0."""
        columns = [self.shares_of(b, first, last) for b in range(len(self.filters))]
        return np.ascontiguousarray(np.moveaxis(np.stack(columns, axis=2), 0, 1))

    def shares_of(self, b: int, first: int, last: int) -> Floats:
        """Return φ of shape (last − first, Σr) of one schedule."""
        share = checked_shares(self.filters[b].at(slice(first, last)), self.tasks.singular_values)
        return np.broadcast_to(share, (last - first, share.shape[1]))

    @property
    def steps_at_once(self) -> int:
        """For how many steps the shares of all schedules are computed and kept together."""
        return max(1, _SHARES_AT_ONCE // (max(1, int(self.tasks.offsets[-1])) * len(self.filters)))

    def expectation(self, values: dict[str, Floats], method: str, error: float) -> Expectation:
        """Return curves (B, n_steps) as a result, in the array library of the tasks."""
        like = self.tasks[0].X
        shaped = {name: from_numpy(value if self.grid else value[0], like=like) for name, value in values.items()}
        return Expectation(self.steps, shaped, method, error)


_SHARES_AT_ONCE = 2**20


Progress = Callable[[int, int], None]


def checked_shares(part: Filter, singular_values: Floats) -> Floats:
    """Return φ of shape (T or 1, Σr), checked: a filter of the user's own may return anything."""
    shares = _rows(part, part.learned(singular_values), len(singular_values))
    if shares.size and (shares.min() < -1e-9 or shares.max() > 2 + 1e-9):
        raise ValueError(
            f"{type(part).__name__}.share must lie in [0, 2], so that errors do not grow, got values in "
            f"[{shares.min():.6g}, {shares.max():.6g}]"
        )
    return shares


def _rows(part: Filter, values: Any, n_directions: int) -> Floats:
    rows = np.atleast_2d(np.asarray(values, dtype=np.float64))
    if rows.shape != (part.horizon or 1, n_directions) or not np.isfinite(rows).all():
        raise ValueError(
            f"{type(part).__name__}.share must return one finite share per eigenvalue, got shape {rows.shape} for "
            f"{n_directions} eigenvalues; return an array like its argument"
        )
    return np.ascontiguousarray(rows)


def check_tasks(tasks: Any) -> None:
    """Refuse anything but a task collection."""
    if not isinstance(tasks, TaskCollection):
        raise TypeError(
            f"tasks must be a TaskCollection, got {type(tasks).__name__}; wrap pairs as fl.TaskCollection(pairs)"
        )


def check_contraction(filter_: Filter, tasks: TaskCollection) -> None:
    """Refuse filters whose steps make errors grow on these tasks."""
    # Filters are monotone up to their overshoot, so the ends of the spectrum tell.
    ends = np.array([tasks.radius, tasks.singular_values.min(initial=tasks.radius)])
    with np.errstate(over="ignore"):
        worst = np.max(np.abs(filter_.kept(ends)))
    if not worst <= 1 + 1e-9:
        raise ValueError(
            f"schedule makes the error grow by a factor {worst:.3g} per step; step_size must be at most 2/R² = "
            f"{2 / tasks.radius**2:.6g} for these tasks"
        )


def recorded_steps(record: Any, k: int) -> NDArray[np.int64]:
    """Return the increasing steps to record: "last", "log" (about 20 per decade), "all" (1..k) or the given ones."""
    if isinstance(record, str):
        if record == "last":
            return np.array([k])
        if record == "all":
            return np.arange(1, k + 1)
        if record == "log":
            points = 1 + int(20 * np.log10(k)) if k > 1 else 1
            return np.unique(np.rint(np.geomspace(1, k, points)).astype(np.int64))
        raise ValueError(f'record must be "last", "log", "all" or steps in 0..{k}, got {record!r}')
    steps = np.atleast_1d(np.asarray(record))
    if steps.ndim != 1 or steps.size == 0 or steps.dtype.kind not in "iu":
        raise TypeError(f'record must be "last", "log", "all" or integer steps in 0..{k}, got {record!r}')
    if steps.min() < 0 or steps.max() > k:
        bad = steps.min() if steps.min() < 0 else steps.max()
        raise ValueError(f"record must hold steps in 0..{k}, got {bad}; raise k or drop the step")
    return np.unique(steps.astype(np.int64))
