"""The interface of schedules: callables from a number of steps and a radius to a filter."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from forgetless._core import validate
from forgetless.filters import Filter

Schedule = Callable[[int, float], Filter]


def resolve(schedule: Schedule | Filter, k: int, radius: float, spectrum: Any = None) -> Filter:
    """Return the filter of ``schedule`` for ``k`` steps on tasks of a radius; ValueError if its
    length is not k.

    ``spectrum`` are the tasks themselves, or an ensemble, for schedules that depend on more than
    their radius.
    """
    if spectrum is not None and hasattr(schedule, "for_spectrum"):
        filter_: Filter = schedule.for_spectrum(k, spectrum)
        return filter_
    result = schedule if isinstance(schedule, Filter) else _call(schedule, k, radius)
    if result.horizon not in (None, k):
        raise ValueError(
            f"schedule gives {result.horizon} steps but k is {k}; use one value per step, or set"
            f" k={result.horizon}"
        )
    return result


def _call(schedule: Any, k: int, radius: float) -> Filter:
    if not callable(schedule):
        raise TypeError(
            f"schedule must be a filter or a callable (k, radius) → filter, got {schedule!r}; "
            "wrap a coefficient as fl.Ridge(coefficient)"
        )
    if isinstance(schedule, type):
        name = schedule.__name__
        raise TypeError(
            f"schedule is {name} itself; make one by calling it, e.g. fl.schedules.increasing()"
        )
    result = schedule(k, radius)
    if callable(result) and not isinstance(result, Filter):
        raise TypeError(
            f"schedule returned a schedule, {result!r}, not a filter; call it with its own"
            " parameters first"
        )
    if not isinstance(result, Filter):
        raise TypeError(
            f"schedule must return a filter, got {result!r}; return e.g. fl.Ridge(coefficients)"
            " with one value per step"
        )
    return result


class Preset(ABC):
    """Base of the schedules of this package: validates k and the radius, then calls ``build``."""

    def __call__(self, k: int, radius: float) -> Filter:
        """Return the filter for k steps on tasks of radius R."""
        k = validate.integer("k", k, 1, "ask for at least one step")
        # A damaged model file can ask for 2³¹ steps, and Linux ends a process that tries that.
        validate.check_memory(k, f"a schedule of {k:,} strengths", "use fewer steps", 2**31)
        radius = validate.number("radius", radius, "use tasks.radius")
        square = radius * radius
        if not 0.0 < square < math.inf and radius > 0:
            raise ValueError(
                f"radius² must be a float, got radius {radius!r}; rescale the data towards 1"
            )
        return self.build(k, square)

    @abstractmethod
    def build(self, k: int, square: float) -> Filter:
        """Return the filter for k ≥ 1 steps and R² = ``square`` ≥ 0."""


FIRST_EPOCH = 4
"""Length of the first epoch where the number of tasks is unknown; the presets are defined from 3
steps on."""


def epoch(task: int, first: int) -> tuple[int, int]:
    """Return (k, t): task number ``task`` ≥ 1 is step t of an epoch of k steps.

    The first epoch has ``first`` steps and every later one as many as all before it, so the number
    of steps doubles.

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


def own_horizon(schedule: Any) -> int | None:
    """Return the number of tasks of a schedule that lists its coefficients; None for any other."""
    if isinstance(schedule, Filter):
        return schedule.horizon
    listed = getattr(schedule, "coefficients", None) if isinstance(schedule, Preset) else None
    return None if listed is None else len(listed)


def check_horizon(k: int, minimum: int, name: str, reason: str) -> None:
    """Raise ValueError for fewer steps than a schedule is defined for."""
    if k < minimum:
        raise ValueError(f"k must be at least {minimum} for schedules.{name}, got {k}; {reason}")


OBJECTIVES = ("seen", "next")


@dataclass(frozen=True)
class Auto:
    """The strength chosen by a streaming estimator from its data: see :func:`auto`."""

    objective: str = "seen"
    clip: float | None = 1.0

    def __post_init__(self) -> None:
        if self.objective not in OBJECTIVES:
            raise ValueError(
                f"objective must be one of {', '.join(OBJECTIVES)}, got {self.objective!r}"
            )
        if self.clip is not None:
            validate.number("clip", self.clip, "use None to clip nothing")


def auto(objective: str = "seen", clip: float | None = 1.0) -> Auto:
    """Return the schedule by which an estimator chooses the strength itself: the default of the
    estimators.

    For :class:`forgetless.ContinualRidge` and :class:`forgetless.ContinualRidgeClassifier`, also by
    the name "auto". The estimator stores statistics of all rows, as far as its memory allows, and
    solves ridge regression on all of them with the strength of largest evidence
    (``docs/estimators.md``). It needs neither a horizon nor scaled features.

    Parameters
    ----------
    objective : {"seen", "next"}, default "seen"
        Small errors on all tasks seen; or on the next task, by a mixture with weights that follow a
        drifting solution and with the solution on recent tasks, for streams that change.
    clip : float or None, default 1.0
        Features are clipped for predictions to the range seen so far, extended on either side by
        ``clip`` times its width. None clips nothing: predictions are then linear everywhere.

    Examples
    --------
    >>> from forgetless import schedules
    >>> schedules.auto(objective="next")
    Auto(objective='next', clip=1.0)
    """
    return Auto(objective, clip)
