"""Conversion of arguments: schedules as objects, names or numbers, one or several; orderings as
objects or names.
"""

import inspect
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np

from forgetless.filters import Filter, Ridge
from forgetless.orderings import NAMES, Ordering, WithReplacement
from forgetless.schedules import Schedule
from forgetless.schedules.names import PROPORTIONAL, from_name

# A schedule, a filter, a name such as "increasing:0.5", or a number, which is a fixed coefficient λ
ScheduleLike = Schedule | Filter | str | float
# One of these, a list of them, or a dict whose keys are their labels
Schedules = ScheduleLike | Sequence[ScheduleLike] | Mapping[str, ScheduleLike]
OrderingLike = Ordering | str  # An ordering, or its name such as "cyclic"
# Of several schedules: the keys of a dict, the positions in a list; empty for one alone
Labels = tuple[str | int, ...]


def as_schedule(value: Any, n_tasks: int | None = None) -> Any:
    """Return the schedule or filter for a schedule, filter, name or number; the name "cyclic" needs
    ``n_tasks``.
    """
    if isinstance(value, str):
        return from_name(value) if n_tasks is None else from_name(value, n_tasks=n_tasks)
    if isinstance(value, np.ndarray) and value.ndim == 1:
        raise TypeError(
            f"schedule is an array of {len(value)} numbers; give λ_1..λ_k as"
            " fl.schedules.from_coefficients(array), or a list of numbers for one schedule each"
        )
    if isinstance(value, Real | np.ndarray) and not isinstance(value, bool | np.bool_):
        return Ridge(float(value))
    if inspect.isclass(value):
        names = {kind: f"fl.schedules.{name}" for name, kind in PROPORTIONAL.items()}
        call = names.get(value, value.__name__).replace("-", "_")
        raise TypeError(f"schedule is {value.__name__} itself; make one by calling it: {call}(…)")
    if not isinstance(value, Filter) and not callable(value):
        raise TypeError(
            "schedule must be a schedule, a filter, a name such as 'increasing' or a number λ, got"
            f" {value!r}"
        )
    return value


def as_schedules(value: Any, n_tasks: int | None, k: int) -> tuple[list[Any], Labels]:
    """Return one or several schedules with their labels; TypeError for k numbers, which may be
    meant for k steps.
    """
    if isinstance(value, Mapping):
        wrong = [label for label in value if not isinstance(label, str) or not label.strip()]
        if wrong:
            raise TypeError(
                f"schedule must have strings for labels, got {wrong[0]!r}; name each by a string"
            )
        items, labels = list(value.values()), tuple(value)
    elif isinstance(value, list | tuple):
        items, labels = list(value), tuple(range(len(value)))
        if len(items) == k != 1 and all(
            isinstance(each, Real) and not isinstance(each, bool) for each in items
        ):
            raise TypeError(
                f"schedule is a list of {k} numbers, as many as steps: for λ_1..λ_k use"
                " fl.schedules.from_coefficients(numbers), and for several schedules of one λ each"
                " a list of fl.Ridge(number)"
            )
    else:
        return [as_schedule(value, n_tasks)], ()
    if not items:
        raise ValueError(
            f"schedule must hold at least one schedule, got an empty {type(value).__name__}"
        )
    return [as_schedule(each, n_tasks) for each in items], labels


def as_ordering(value: Any) -> Ordering:
    """Return the ordering for an ordering or name; draws with replacement for None."""
    if value is None:
        return WithReplacement()
    if isinstance(value, str):
        ordering = NAMES.get(value.replace("_", "-"))
        if ordering is None:
            raise ValueError(
                f"there is no ordering {value!r}; use one of {', '.join(NAMES)}, or an"
                " fl.orderings.Ordering"
            )
        return ordering
    if inspect.isclass(value) and issubclass(value, Ordering):
        home = "fl." if value.__module__.startswith("forgetless.") else ""
        raise TypeError(
            f"ordering is {value.__name__} itself; make one by calling it: {home}{value.__name__}()"
        )
    if not isinstance(value, Ordering):
        raise TypeError(
            "ordering must be an Ordering such as fl.Cyclic(), or one of the names"
            f" {', '.join(NAMES)}, got {value!r}"
        )
    return value
