"""The validated arguments of all engines: tasks, filters, ordering, recorded steps."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from forgetless._core import averages, validate
from forgetless._core.arrays import Array, Floats
from forgetless._core.threads import few_threads
from forgetless.engines.disturbance import Disturbance
from forgetless.engines.inputs import Labels, OrderingLike, as_ordering, as_schedules
from forgetless.engines.results import Expectation
from forgetless.engines.rounding import relative
from forgetless.errors import NoExactLawError
from forgetless.filters import Filter
from forgetless.metrics import OTHER_LOSS, check_metrics, shape_of
from forgetless.orderings import Draws, Epochs, Law, OneOrder, Ordering
from forgetless.schedules import resolve
from forgetless.tasks import TaskCollection


@dataclass(frozen=True)
class Problem:
    """The validated arguments of ``expect``, ``worst_case``, ``simulate`` and others."""

    tasks: TaskCollection
    filters: list[Filter]
    labels: Labels
    k: int
    ordering: Ordering
    steps: NDArray[np.int64]
    average: float | None = None
    disturbance: Disturbance | None = None
    # whose average loss is measured instead of that of the tasks
    other: TaskCollection | None = None

    def varied(self, evaluate: Any, noise: Any, walk: Any) -> "Problem":
        """Return the problem with validated options of ``expect`` and ``simulate``."""
        if evaluate is not None:
            check_tasks(evaluate)
            _check_alike(evaluate, self.tasks)
        return replace(self, disturbance=Disturbance.of(noise, walk), other=evaluate)

    def names(self, metrics: Any, allowed: tuple[str, ...]) -> tuple[str, ...]:
        """Return the validated metrics as engines name them."""
        names = check_metrics(metrics, allowed)
        if self.disturbance is not None:
            self.disturbance.check(names)
        if self.other is None:
            return names
        if "average_loss" not in names:
            raise ValueError(
                "evaluate= replaces the tasks of average_loss, which is not among"
                f" metrics={metrics!r}"
            )
        return tuple(OTHER_LOSS if name == "average_loss" else name for name in names)

    def public(self, values: Mapping[str, Array]) -> dict[str, Array]:
        """Return metrics of an engine by their public names."""
        return {
            "average_loss" if name == OTHER_LOSS else name: value for name, value in values.items()
        }

    @property
    def grid(self) -> bool:
        """Whether results have an axis for several schedules."""
        return bool(self.labels)

    @cached_property
    def gains(self) -> Floats:
        """The gains of the running average, of shape (k,); see ``_core.averages``."""
        assert self.average is not None
        return averages.gains(self.average, self.k)

    @cached_property
    def law(self) -> Law:
        """The law of the ordering; NoExactLawError where it has none."""
        law = self.ordering.law(self.tasks.n_tasks, self.k)
        if law is None:
            raise NoExactLawError(
                f"ordering {self.ordering!r} has no exact expectation, since its law() gives none;"
                " use simulate, or one of WithReplacement, WithoutReplacement, RandomReshuffling,"
                " Cyclic and FixedOrder"
            )
        check_law(law, self.ordering, self.tasks.n_tasks, self.k)
        return law

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
        schedules, labels = as_schedules(schedule, tasks.n_tasks, k)
        filters = [resolve(each, k, tasks.radius, tasks) for each in schedules]
        for each in filters:
            check_contraction(each, tasks)
        power = None if average is None else averages.power(average)
        return cls(tasks, filters, labels, k, ordering, recorded_steps(record, k), power)

    @property
    def constant(self) -> bool:
        """Whether every filter is the same at all steps."""
        return all(filter_.horizon is None for filter_ in self.filters)

    @property
    def probabilities(self) -> Floats:
        """The probabilities of the tasks, for draws with replacement."""
        assert isinstance(self.law, Draws)
        return self.law.probabilities

    def only_average_loss(self, names: tuple[str, ...]) -> None:
        """Raise NoExactLawError for metrics of the path of an average: random orders have the
        average loss only.
        """
        others = [
            "evaluate" if name == OTHER_LOSS else name for name in names if name != "average_loss"
        ]
        if others:
            raise NoExactLawError(
                f"average={self.average:g} with {self.ordering!r} has an exact average_loss only,"
                f" got metrics={', '.join(others)}; use simulate for it, or ask for"
                " metrics='average_loss'"
            )

    def factors(self, first: int, last: int) -> Floats:
        """Return φ of shape (Σr, last − first, B) of the steps numbered first..last − 1 from 0."""
        size = self.steps_at_once
        window = first // size
        if self.constant or last > (window + 1) * size:
            return self._factors(first, last)
        # Curves are recorded, and errors estimated, in many short intervals: filters are evaluated
        # once for all.
        if window not in self._windows:
            self._windows.clear()
            self._windows[window] = self._factors(window * size, min((window + 1) * size, self.k))
        return np.ascontiguousarray(
            self._windows[window][:, first - window * size : last - window * size]
        )

    @cached_property
    def _windows(self) -> dict[int, Floats]:
        """The factors of the most recent window, by its number."""
        return {}

    def _factors(self, first: int, last: int) -> Floats:
        columns = [self.factors_of(b, first, last) for b in range(len(self.filters))]
        return np.ascontiguousarray(np.moveaxis(np.stack(columns, axis=2), 0, 1))

    def factors_of(self, b: int, first: int, last: int) -> Floats:
        """Return φ of shape (last − first, Σr) of one schedule."""
        filter_ = self.filters[b][first:last]
        factors = checked_factors(filter_, self.tasks.singular_values)
        return np.broadcast_to(factors, (last - first, factors.shape[1]))

    @property
    def steps_at_once(self) -> int:
        """Number of steps in one window of factors; progress is reported after each."""
        return max(
            1,
            min(
                2**13, _FACTORS_AT_ONCE // (max(1, int(self.tasks.offsets[-1])) * len(self.filters))
            ),
        )

    def empty_curves(self, names: tuple[str, ...]) -> dict[str, Floats]:
        """Return uninitialized curves of exact metrics, of shape (B, n_steps), or (B, n_steps, M)
        per task.
        """
        shape = (len(self.filters), len(self.steps))
        return {name: np.empty((*shape, *shape_of(name, self.tasks))) for name in names}

    def expectation(self, computed: "Computed") -> Expectation:
        """Return the result of an engine."""
        values = self.public(computed.values)
        if not self.grid:
            values = {name: value[0] for name, value in values.items()}
        errors = dict(zip(values, computed.errors.values(), strict=True))
        return Expectation(self.steps, values, computed.method, errors, labels=self.labels)


_FACTORS_AT_ONCE = 2**20


class Computed(NamedTuple):
    """The result of an exact engine forwards."""

    values: dict[str, Floats]  # curves (B, n_steps), or (B, n_steps, M) per task, by metric
    method: str
    errors: dict[str, float]  # relative

    @classmethod
    def of(cls, values: dict[str, Floats], method: str, errors: dict[str, Floats]) -> "Computed":
        """Return curves with relative errors, from absolute ones."""
        return cls(values, method, {name: relative(errors[name], values[name]) for name in values})


class Forms(NamedTuple):
    """The result of an exact engine backwards."""

    forms: list[list[Array]]  # V (q, q) of each schedule and recorded step
    method: str
    error: float = 0.0

    @classmethod
    def of_curves(cls, curves: list[Array], method: str, error: float = 0.0) -> "Forms":
        """Return the forms from arrays (q, q, B), one for each recorded step."""
        return cls(
            [[curve[:, :, b] for curve in curves] for b in range(curves[0].shape[2])], method, error
        )


def checked_ordering(ordering: Any, tasks: TaskCollection, k: int) -> Ordering:
    """Return the ordering, draws with replacement if None; ValueError if it is not defined for k
    steps.
    """
    chosen = as_ordering(ordering)
    chosen.check(tasks.n_tasks, k)
    return chosen


def check_law(law: Any, ordering: Ordering, n_tasks: int, k: int) -> None:
    """Raise TypeError or ValueError for the law of a custom ordering that is not valid for the
    tasks.
    """
    prefix = f"{type(ordering).__name__}.law must give"
    if type(law) not in (Draws, Epochs, OneOrder):
        raise TypeError(f"{prefix} Draws, Epochs, OneOrder or None, got {law!r}")
    if isinstance(law, Draws) and law.probabilities.shape != (n_tasks,):
        raise ValueError(
            f"{prefix} one probability for each of the {n_tasks} tasks, got"
            f" {len(law.probabilities)}"
        )
    if isinstance(law, OneOrder):
        _check_indices(law, prefix, n_tasks, k)


def _check_indices(law: OneOrder, prefix: str, n_tasks: int, k: int) -> None:
    indices = np.asarray(law.indices)
    if indices.ndim != 1 or indices.size == 0 or indices.dtype.kind not in "iu":
        raise TypeError(
            f"{prefix} a vector of task indices, got dtype {indices.dtype} and shape"
            f" {indices.shape}"
        )
    if not law.repeated and len(indices) < k:
        raise ValueError(
            f"{prefix} the tasks of all {k} steps, got {len(indices)}; or set repeated=True"
        )
    if indices.min() < 0 or indices.max() >= n_tasks:
        raise ValueError(
            f"{prefix} indices in 0..{n_tasks - 1}, got {indices.min()}..{indices.max()}"
        )


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


def _check_alike(other: TaskCollection, tasks: TaskCollection) -> None:
    """Raise ValueError for tasks to be evaluated that have other features or targets than those
    learned.
    """
    shapes = [(each.n_features, *each.target_shape) for each in (other, tasks)]
    if shapes[0] != shapes[1]:
        raise ValueError(
            f"evaluate must hold tasks with weights of shape {shapes[1]}, as those learned, got"
            f" {shapes[0]}; use the same features and targets"
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
