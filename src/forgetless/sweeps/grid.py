"""A sweep as data: named axes, cells with a digest of their content, batches of cells that are
computed together.
"""

import functools
import inspect
import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from forgetless._core import averages, validate
from forgetless._core.environment import version
from forgetless._core.text import printable
from forgetless.engines.inputs import as_ordering, as_schedule
from forgetless.engines.problem import check_contraction, recorded_steps
from forgetless.filters import Filter, GradientDescent
from forgetless.metrics import ENGINE_METRICS, check_metrics
from forgetless.orderings import Cyclic, FixedOrder, WithReplacement, name_of
from forgetless.schedules import resolve
from forgetless.sweeps.code import text_digest
from forgetless.sweeps.identity import content, digest
from forgetless.tasks import TaskCollection

AXES = ("tasks", "schedule", "scale", "ordering", "k", "seed")
"""Names of the axes in tables, figures and the store."""

BATCH_SIZE = 32
"""Largest number of schedules in a batch: more gain nothing and cost memory."""

LARGEST = 2**63 - 1
"""Largest integer in a store."""


class Value(NamedTuple):
    """A value on an axis, with its label and the digest of its content."""

    label: str
    thing: Any
    digest: str


class Member(NamedTuple):
    """A cell of a batch: the label of its schedule, its scale, and its key in the store."""

    schedule: str
    scale: float | None
    key: str


class Batch(NamedTuple):
    """Cells that differ in the schedule only; the seed is None if nothing depends on it."""

    tasks: str
    seed: int | None
    ordering: str
    k: int
    members: tuple[Member, ...]


class Rescaled:
    """A schedule whose strengths are multiplied by a number: every λ by it, every step size by its
    inverse.
    """

    def __init__(self, schedule: Any, scale: float) -> None:
        self.schedule, self.scale = schedule, scale

    def __call__(self, k: int, radius: float) -> Filter:
        return resolve(self.schedule, k, radius).scaled(self.scale)


class Grid:
    """The axes and the settings of a sweep; see :class:`forgetless.sweeps.Sweep`."""

    def __init__(  # noqa: PLR0913
        self,
        tasks: Any,
        schedules: Any,
        k: Any,
        *,
        scales: Any = None,
        orderings: Any = WithReplacement(),  # noqa: B008 - immutable
        seeds: Any = (0,),
        metrics: Any = ("average_loss",),
        n_trials: int | None = None,
        average: float | None = None,
        record: Any = "last",
        bounds: bool = False,
    ) -> None:
        self.n_trials = (
            None if n_trials is None else validate.integer("n_trials", n_trials, 1, "None is exact")
        )
        self.metrics = check_metrics(
            metrics,
            ENGINE_METRICS if self.n_trials is not None else (*ENGINE_METRICS, "worst_case"),
        )
        self.average = averages.power(average)
        self.record = _recorded(record)
        self.bounds = _boolean("bounds", bounds)
        if self.bounds and self.average is not None:
            raise ValueError(
                f"bounds=True needs average=None, got average={average!r}: the bounds are proved"
                " for the last iterate; leave one of the two out"
            )
        self.k = _integers("k", k, 1)
        self.seeds = _integers("seeds", seeds, 0)
        self.scales = (None,) if scales is None else _scales(scales)
        self.axes: dict[str, dict[str, Value]] = {
            "tasks": _axis("tasks", tasks, _task_label, _validated_tasks),
            "schedule": _axis("schedules", schedules, _schedule_label, _validated(as_schedule)),
            "ordering": _axis("orderings", orderings, _ordering_label, _validated(as_ordering)),
        }
        self._takes = {label: _parameters(value) for label, value in self.axes["tasks"].items()}

    @classmethod
    def of(cls, other: "Grid") -> "Grid":
        """Return the data of a sweep alone."""
        grid = Grid.__new__(Grid)
        grid.__dict__.update(
            {name: each for name, each in other.__dict__.items() if name not in ("batches", "keys")}
        )
        return grid

    @property
    def settings(self) -> dict[str, Any]:
        """Settings that all cells share; a store holds sweeps of the same settings only."""
        return {
            "metrics": list(self.metrics),
            "n_trials": self.n_trials,
            "average": self.average,
            "record": self.record,
            "bounds": self.bounds,
        }

    def description(self) -> dict[str, Any]:
        """Return the whole sweep as plain data."""
        axes = {
            axis: {value.label: value.digest for value in values.values()}
            for axis, values in self.axes.items()
        }
        plain = {
            "k": list(self.k),
            "seed": list(self.seeds),
            "scale": [each for each in self.scales if each],
        }
        once = {
            "seed": [label for label in self.axes["tasks"] if not self.depends_on_seed(label)],
            "scale": [
                value.label
                for value in self.axes["schedule"].values()
                if self.scales == (None,) or not _has_strength(value.thing)
            ],
        }
        return {"settings": self.settings, "axes": axes | plain, "once": once, "version": version()}

    @functools.cached_property
    def batches(self) -> tuple[Batch, ...]:
        """All cells of the sweep in batches; those that share a collection are adjacent."""
        return tuple(self._enumerate())

    def _enumerate(self) -> Iterator[Batch]:
        common = digest([version(), self.settings])
        schedules = [
            (value.label, scale, f"{value.digest} {'' if scale is None else repr(scale)}")
            for value in self.axes["schedule"].values()
            for scale in (self.scales if _has_strength(value.thing) else (None,))
        ]
        for tasks in self.axes["tasks"].values():
            for seed in self.seeds if self.depends_on_seed(tasks.label) else (None,):
                for k in self.k:
                    for ordering in self.axes["ordering"].values():
                        shared = f"{common} {tasks.digest} {seed} {k} {ordering.digest} "
                        members = [
                            Member(label, scale, text_digest(shared + identity))
                            for label, scale, identity in schedules
                        ]
                        for first in range(0, len(members), BATCH_SIZE):
                            part = tuple(members[first : first + BATCH_SIZE])
                            yield Batch(tasks.label, seed, ordering.label, k, part)

    def __len__(self) -> int:
        return sum(len(batch.members) for batch in self.batches)

    @functools.cached_property
    def keys(self) -> frozenset[str]:
        """The keys of all cells."""
        return frozenset(member.key for batch in self.batches for member in batch.members)

    def depends_on_seed(self, label: str) -> bool:
        """Return whether results depend on the seed: these tasks are drawn from it, or runs are
        simulated.
        """
        return self.n_trials is not None or "seed" in self._takes[label]

    def arguments(self, value: Value, seed: int | None, k: int) -> dict[str, int]:
        """Return the arguments of a function that returns tasks: those of ``seed`` and ``k`` that
        it takes.
        """
        values = {"seed": seed, "k": k}
        return {
            name: each
            for name, each in values.items()
            if name in self._takes[value.label] and each is not None
        }

    def scaled(self, member: Member) -> Any:
        """Return the schedule of a cell."""
        schedule = self.axes["schedule"][member.schedule].thing
        return schedule if member.scale is None else Rescaled(schedule, member.scale)

    def check_cells(self) -> None:
        """Raise ValueError if some cells cannot be computed, as far as that is known without the
        user's functions.
        """
        orderings = [value for value in self.axes["ordering"].values() if _is_ours(value.thing)]
        collections = [
            value
            for value in self.axes["tasks"].values()
            if isinstance(value.thing, TaskCollection)
        ]
        for k in self.k:
            with _naming(f"record at k = {k}"):
                recorded_steps(self.record, k)
            for tasks, ordering in itertools.product(collections, orderings):
                with _naming(f"ordering {ordering.label!r} on tasks {tasks.label!r} at k = {k}"):
                    ordering.thing.check(tasks.thing.n_tasks, k)
            for schedule in self.axes["schedule"].values():
                if _is_ours(schedule.thing):
                    self._check_schedule(schedule, k, collections)
        if self.n_trials is None and self.average is not None:
            self._check_average(
                [value.label for value in orderings if not isinstance(value.thing, _PATHS)]
            )

    def _check_schedule(self, schedule: Value, k: int, collections: list[Value]) -> None:
        with _naming(f"schedule {schedule.label!r} at k = {k}"):
            is_descent = isinstance(resolve(schedule.thing, k, 1.0), GradientDescent)
        for tasks in collections if is_descent else ():  # of other filters every strength works
            with _naming(f"schedule {schedule.label!r} on tasks {tasks.label!r} at k = {k}"):
                scaled = [
                    Rescaled(schedule.thing, each) if each else schedule.thing
                    for each in self.scales
                ]
                for each in scaled:
                    check_contraction(resolve(each, k, tasks.thing.radius), tasks.thing)

    def _check_average(self, random: list[str]) -> None:
        others = [name for name in self.metrics if name not in ("average_loss", "worst_case")]
        if random and others:
            raise ValueError(
                f"this sweep cannot work: average={self.average:g} with ordering {random[0]!r} has"
                f" an exact average_loss only, got metrics={', '.join(others)}; leave them out, or"
                " simulate by n_trials="
            )

    def __repr__(self) -> str:
        counts = {axis: len(values) for axis, values in self.axes.items()}
        counts |= {
            "scale": len([each for each in self.scales if each]),
            "k": len(self.k),
            "seed": len(self.seeds),
        }
        sizes = ", ".join(f"{count} {axis}" for axis, count in counts.items() if count > 1)
        return f"Sweep({len(self)} cells{': ' if sizes else ''}{sizes})"


_PATHS = (Cyclic, FixedOrder)
"""Orderings of one path, on which an average of iterates has every metric."""


def _is_ours(thing: Any) -> bool:
    """Return whether a schedule or ordering is of this package, so that calling it is quick and has
    no side effects.
    """
    return type(thing).__module__.partition(".")[0] == "forgetless"


@contextmanager
def _naming(name: str) -> Iterator[None]:
    """Name the part of a sweep to which an error belongs."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise ValueError(f"this sweep cannot work: {name}: {error}") from None


def _axis(
    name: str, values: Any, label_of: Callable[[Any], str], validated: Callable[[str, Any], Any]
) -> dict[str, Value]:
    if isinstance(values, Mapping):
        pairs = [(str(label), thing) for label, thing in values.items()]
    else:
        several = isinstance(values, list | tuple) and not _is_pairs(name, values)
        pairs = [(label_of(thing), thing) for thing in (values if several else [values])]
    if not pairs:
        raise ValueError(f"{name} must hold at least one value, got none")
    axis: dict[str, Value] = {}
    for label, thing in pairs:
        if label in axis:
            raise ValueError(
                f"{name} has two values called {label!r}; give a dictionary with a name for each"
            )
        if printable(label) != label:
            raise ValueError(
                f"{name} has a value called {label!r}; give it a name that can be printed on a line"
            )
        thing = validated(f"{name} {label!r}", thing)
        try:
            value = Value(label, thing, digest(content(thing)))
        except (TypeError, ValueError, RecursionError) as error:
            raise TypeError(
                f"{name} {label!r} has no content that identifies it: {error}"
            ) from None
        same = next((other.label for other in axis.values() if other.digest == value.digest), None)
        if same is not None:
            raise ValueError(
                f"{name} {same!r} and {label!r} have the same content; leave one of them out"
            )
        axis[label] = value
    return axis


def _is_pairs(name: str, values: Any) -> bool:
    """Return whether a list is a single collection of pairs (X, y)."""
    return name == "tasks" and all(
        isinstance(each, tuple | list) and len(each) == 2 for each in values
    )


def _task_label(thing: Any) -> str:
    return getattr(thing, "__name__", "tasks") if callable(thing) else "tasks"


def _validated_tasks(name: str, thing: Any) -> Any:
    if callable(thing) or isinstance(thing, TaskCollection):
        return thing
    if isinstance(thing, list | tuple):
        return TaskCollection(thing)
    raise TypeError(
        f"{name} must be a TaskCollection or a function that returns one, got"
        f" {type(thing).__name__}"
    )


def _schedule_label(thing: Any) -> str:
    if isinstance(thing, str):
        return thing
    return str(thing.__name__) if inspect.isfunction(thing) else repr(thing)


def _validated(convert: Callable[[Any], Any]) -> Callable[[str, Any], Any]:
    """Return the function that converts a value, and names it where it raises."""

    def convert_named(name: str, thing: Any) -> Any:
        try:
            return convert(thing)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{name}: {error}") from None

    return convert_named


def _has_strength(schedule: Any) -> bool:
    """Return whether a scale changes the schedule; steps that solve each task exactly have no
    strength.
    """
    return not (isinstance(schedule, Filter) and schedule.is_projection)


def _ordering_label(thing: Any) -> str:
    return thing if isinstance(thing, str) else name_of(thing)


def _parameters(value: Value) -> frozenset[str]:
    """Return which of ``seed`` and ``k`` a function that returns tasks takes; TypeError if it needs
    more.
    """
    if isinstance(value.thing, TaskCollection):
        return frozenset()
    bound = [name for name in getattr(value.thing, "keywords", {}) if name in ("seed", "k")]
    if isinstance(value.thing, functools.partial) and bound:
        raise TypeError(
            f"tasks {value.label!r} have {bound[0]}={value.thing.keywords[bound[0]]!r} bound, and a"
            f" sweep gives {bound[0]} itself; leave it free, or wrap the function in one that does"
            " not take it"
        )
    hint = "wrap it in a function that takes them by name, such as def tasks(seed): ..."
    try:
        parameters = list(inspect.signature(value.thing).parameters.values())
    except (TypeError, ValueError):
        raise TypeError(
            f"tasks {value.label!r} have no signature with seed and k; {hint}"
        ) from None
    named = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    accepted = frozenset(p.name for p in named) & {"seed", "k"}
    required = [p for p in parameters if p.default is p.empty and p.name not in accepted]
    for p in required:
        if p in named:
            raise TypeError(
                f"tasks {value.label!r} need an argument {p.name}, and a sweep gives seed and k"
                f" only; bind it, e.g. functools.partial({value.label}, {p.name}=...)"
            )
        # *args and **kwargs stay empty beside seed or k
        if p.kind is p.POSITIONAL_ONLY or not accepted:
            raise TypeError(f"tasks {value.label!r} take {p}, not seed and k by name; {hint}")
    return accepted


def _integers(name: str, values: Any, minimum: int) -> tuple[int, ...]:
    values = [values] if np.ndim(values) == 0 else list(values)
    if not values:
        raise ValueError(f"{name} must hold at least one number, got none")
    integers = tuple(
        dict.fromkeys(
            validate.integer(name, value, minimum, "give whole numbers", math.inf)
            for value in values
        )
    )
    if max(integers) > LARGEST:
        raise ValueError(
            f"{name} must be below 2**63, got {max(integers)}; a store holds no larger numbers"
        )
    return integers


def _boolean(name: str, value: Any) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {value!r}")
    return bool(value)


def _scales(scales: Any) -> tuple[float | None, ...]:
    values = np.ravel(np.asarray(scales)).tolist()
    if not values:
        raise ValueError(
            "scales must hold at least one number, got none; leave it out for the schedules as"
            " they are"
        )
    return tuple(
        dict.fromkeys(
            validate.number("scales", each, "strengths are multiplied by them", positive=True)
            for each in values
        )
    )


def _recorded(record: Any) -> Any:
    if isinstance(record, str):
        if record not in ("last", "log", "all"):
            raise ValueError(
                f'record must be "last", "log", "all" or a list of steps, got {record!r}'
            )
        return record
    return list(_integers("record", record, 0))
