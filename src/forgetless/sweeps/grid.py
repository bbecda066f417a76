"""A sweep as data: named axes, cells with a digest of their content, batches of cells that are computed together."""

import functools
import hashlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from forgetless._core import averages, validate
from forgetless._core.version import version
from forgetless.engines.inputs import as_ordering, as_schedule
from forgetless.filters import Filter
from forgetless.metrics import METRICS, check_metrics
from forgetless.orderings import NAMES, Ordering, WithReplacement
from forgetless.reporting.text import printable
from forgetless.schedules import resolve
from forgetless.schedules.names import title_of
from forgetless.sweeps.identity import LENGTH, content, digest
from forgetless.tasks import TaskCollection

AXES = ("tasks", "schedule", "scale", "ordering", "k", "seed")
"""What distinguishes cells, by the names that tables, figures and the store use."""

TOGETHER = 32
"""Schedules of one batch, at most: more gain nothing and cost memory."""


LARGEST = 2**63 - 1
"""Of numbers in a store."""


class Value(NamedTuple):
    """A value on an axis: what people call it, what it is, and the digest of its content."""

    label: str
    thing: Any
    digest: str


class Member(NamedTuple):
    """A cell in its batch: the schedule by its label, the scale, and the key in the store."""

    schedule: str
    scale: float | None
    key: str


class Batch(NamedTuple):
    """Cells that differ in nothing but the schedule; the seed is None where nothing depends on it."""

    tasks: str
    seed: int | None
    ordering: str
    k: int
    members: tuple[Member, ...]


class Rescaled:
    """A schedule whose strengths are multiplied by a number: every λ by it, every step size by its inverse."""

    def __init__(self, schedule: Any, scale: float) -> None:
        self.schedule, self.scale = schedule, scale

    def __call__(self, k: int, radius: float) -> Filter:
        return resolve(self.schedule, k, radius).scaled(self.scale)


class Grid:
    """The axes and the settings of a sweep; see :class:`forgetless.sweeps.Sweep`."""

    def __init__(
        self,
        tasks: Any,
        schedules: Any,
        k: Any,
        *,
        scales: Any = None,
        orderings: Any = None,
        seeds: Any = (0,),
        metrics: Any = ("average_loss",),
        n_trials: int | None = None,
        average: float | None = None,
        record: Any = "last",
        bounds: bool = False,
        **others: Any,
    ) -> None:
        if others:
            known = "tasks, schedules, scales, k, orderings, seeds, metrics, n_trials, average, record and bounds"
            raise TypeError(f"a sweep has no axis or setting {next(iter(others))!r}; it has {known}")
        self.n_trials = None if n_trials is None else validate.integer("n_trials", n_trials, 1, "None is exact")
        self.metrics = check_metrics(metrics, METRICS if self.n_trials is not None else (*METRICS, "worst_case"))
        self.average = averages.power(average)
        self.record = _recorded(record)
        self.bounds = _switch("bounds", bounds)
        if self.bounds and self.average is not None:
            raise ValueError(
                f"bounds=True needs average=None, got average={average!r}: the bounds are proved for the last iterate; "
                "leave one of the two out"
            )
        self.k = _integers("k", k, 1)
        self.seeds = _integers("seeds", seeds, 0)
        self.scales = (None,) if scales is None else _scales(scales)
        self.axes: dict[str, dict[str, Value]] = {
            "tasks": _axis("tasks", tasks, _task_label, _checked_tasks),
            "schedule": _axis("schedules", schedules, _schedule_label, _checked_schedule),
            "ordering": _axis("orderings", WithReplacement() if orderings is None else orderings, _order, _ordering),
        }
        self._takes = {label: _parameters(value) for label, value in self.axes["tasks"].items()}

    @classmethod
    def of(cls, other: "Grid") -> "Grid":
        """Return the data of a sweep alone."""
        made = Grid.__new__(Grid)
        made.__dict__.update({name: each for name, each in other.__dict__.items() if name not in ("batches", "keys")})
        return made

    @property
    def settings(self) -> dict[str, Any]:
        """What all cells share; a store holds sweeps of the same settings only."""
        return {
            "metrics": list(self.metrics),
            "n_trials": self.n_trials,
            "average": self.average,
            "record": self.record,
            "bounds": self.bounds,
        }

    def description(self) -> dict[str, Any]:
        """Return the whole sweep as plain data."""
        axes = {axis: {value.label: value.digest for value in values.values()} for axis, values in self.axes.items()}
        plain = {"k": list(self.k), "seed": list(self.seeds), "scale": [each for each in self.scales if each]}
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
        """All cells of the sweep, in batches; those that can share a collection come one after the other."""
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
                        members = [Member(label, scale, _key(shared + own)) for label, scale, own in schedules]
                        for first in range(0, len(members), TOGETHER):
                            few = tuple(members[first : first + TOGETHER])
                            yield Batch(tasks.label, seed, ordering.label, k, few)

    def __len__(self) -> int:
        return sum(len(batch.members) for batch in self.batches)

    @functools.cached_property
    def keys(self) -> frozenset[str]:
        """The keys of all cells."""
        return frozenset(member.key for batch in self.batches for member in batch.members)

    def depends_on_seed(self, label: str) -> bool:
        """Return whether the results on these tasks depend on the seed: they are drawn from it, or simulated."""
        return self.n_trials is not None or "seed" in self._takes[label]

    def arguments(self, value: Value, seed: int | None, k: int) -> dict[str, int]:
        """Return what a function that makes tasks is called with: ``seed`` and ``k``, those that it takes."""
        given = {"seed": seed, "k": k}
        return {name: each for name, each in given.items() if name in self._takes[value.label] and each is not None}

    def scaled(self, member: Member) -> Any:
        """Return the schedule of a cell."""
        schedule = self.axes["schedule"][member.schedule].thing
        return schedule if member.scale is None else Rescaled(schedule, member.scale)

    def __repr__(self) -> str:
        counts = {axis: len(values) for axis, values in self.axes.items()}
        counts |= {"scale": len([each for each in self.scales if each]), "k": len(self.k), "seed": len(self.seeds)}
        shown = ", ".join(f"{count} {axis}" for axis, count in counts.items() if count > 1)
        return f"Sweep({len(self)} cells{': ' if shown else ''}{shown})"


def _key(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:LENGTH]


def _axis(
    name: str, given: Any, label_of: Callable[[Any], str], checked: Callable[[str, Any], Any]
) -> dict[str, Value]:
    if isinstance(given, Mapping):
        pairs = [(str(label), thing) for label, thing in given.items()]
    else:
        several = isinstance(given, list | tuple) and not _is_pairs(name, given)
        pairs = [(label_of(thing), thing) for thing in (given if several else [given])]
    if not pairs:
        raise ValueError(f"{name} must hold at least one value, got none")
    made: dict[str, Value] = {}
    for label, thing in pairs:
        if label in made:
            raise ValueError(f"{name} has two values called {label!r}; give a dictionary with a name for each")
        if printable(label) != label:
            raise ValueError(f"{name} has a value called {label!r}; give it a name that can be printed on a line")
        right = checked(f"{name} {label!r}", thing)
        try:
            value = Value(label, right, digest(content(right)))
        except (TypeError, ValueError, RecursionError) as error:
            raise TypeError(f"{name} {label!r} cannot be told from others by its content: {error}") from None
        same = next((other.label for other in made.values() if other.digest == value.digest), None)
        if same is not None:
            raise ValueError(f"{name} {same!r} and {label!r} have the same content; leave one of them out")
        made[label] = value
    return made


def _is_pairs(name: str, given: Any) -> bool:
    """Return whether a list is one collection, given as pairs (X, y)."""
    return name == "tasks" and all(isinstance(each, tuple | list) and len(each) == 2 for each in given)


def _task_label(thing: Any) -> str:
    return getattr(thing, "__name__", "tasks") if callable(thing) else "tasks"


def _checked_tasks(name: str, thing: Any) -> Any:
    if callable(thing) or isinstance(thing, TaskCollection):
        return thing
    if isinstance(thing, list | tuple):
        return TaskCollection(thing)
    raise TypeError(f"{name} must be a TaskCollection or a function that makes one, got {type(thing).__name__}")


def _schedule_label(thing: Any) -> str:
    if isinstance(thing, str):
        return thing
    return str(thing.__name__) if inspect.isfunction(thing) else title_of(thing)


def _checked_schedule(name: str, thing: Any) -> Any:
    try:
        return as_schedule(thing)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name}: {error}") from None


def _has_strength(schedule: Any) -> bool:
    """Return whether a scale changes the schedule: steps that solve each task exactly have none."""
    return not (isinstance(schedule, Filter) and schedule.is_projection)


def _order(thing: Any) -> str:
    return thing if isinstance(thing, str) else next((name for name, law in NAMES.items() if law == thing), repr(thing))


def _ordering(name: str, thing: Any) -> Ordering:
    try:
        return as_ordering(thing)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name}: {error}") from None


def _parameters(value: Value) -> frozenset[str]:
    """Return which of ``seed`` and ``k`` a function that makes tasks takes; refuse one that needs more."""
    if isinstance(value.thing, TaskCollection):
        return frozenset()
    bound = [name for name in getattr(value.thing, "keywords", {}) if name in ("seed", "k")]
    if isinstance(value.thing, functools.partial) and bound:
        raise TypeError(
            f"tasks {value.label!r} have {bound[0]}={value.thing.keywords[bound[0]]!r} bound, and a sweep gives "
            f"{bound[0]} itself; leave it free, or wrap the function in one that does not take it"
        )
    cure = "wrap it in a function that takes them by name, such as def made(seed): ..."
    try:
        parameters = inspect.signature(value.thing).parameters.values()
    except (TypeError, ValueError):
        raise TypeError(f"tasks {value.label!r} do not say whether they take seed and k; {cure}") from None
    unnamed = [p for p in parameters if p.kind is p.POSITIONAL_ONLY and p.default is p.empty]
    anything = [p for p in parameters if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    if unnamed or (anything and not any(p.name in ("seed", "k") for p in parameters)):
        raise TypeError(f"tasks {value.label!r} take {(unnamed or anything)[0]}, not seed and k by name; {cure}")
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    missing = [p.name for p in parameters if p.default is p.empty and p.name not in ("seed", "k") and p.kind in kinds]
    if missing:
        raise TypeError(
            f"tasks {value.label!r} need an argument {missing[0]}, and a sweep gives seed and k only; bind it, e.g. "
            f"functools.partial({value.label}, {missing[0]}=...)"
        )
    return frozenset(p.name for p in parameters if p.name in ("seed", "k") and p.kind in kinds)


def _integers(name: str, given: Any, minimum: int) -> tuple[int, ...]:
    values = [given] if np.ndim(given) == 0 else list(given)
    if not values:
        raise ValueError(f"{name} must hold at least one number, got none")
    made = tuple(dict.fromkeys(validate.integer(name, value, minimum, "give whole numbers") for value in values))
    if max(made) > LARGEST:
        raise ValueError(f"{name} must be below 2**63, got {max(made)}; a store keeps no larger numbers")
    return made


def _switch(name: str, given: Any) -> bool:
    if not isinstance(given, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {given!r}")
    return bool(given)


def _scales(given: Any) -> tuple[float | None, ...]:
    values = np.ravel(np.asarray(given)).tolist()
    if not values:
        raise ValueError("scales must hold at least one number, got none; leave it out for the schedules as they are")
    return tuple(
        dict.fromkeys(
            validate.number("scales", each, "strengths are multiplied by them", positive=True) for each in values
        )
    )


def _recorded(record: Any) -> Any:
    if isinstance(record, str):
        if record not in ("last", "log", "all"):
            raise ValueError(f'record must be "last", "log", "all" or a list of steps, got {record!r}')
        return record
    return list(_integers("record", record, 0))
