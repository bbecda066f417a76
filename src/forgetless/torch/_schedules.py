"""Strengths and budgets per task from a number, a list, a function or a schedule."""

import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np

from forgetless._core import validate
from forgetless.filters import Filter
from forgetless.schedules import resolve
from forgetless.schedules.names import entry_of


def strengths(schedule: Any, n_tasks: int) -> tuple[float, ...]:
    """Return λ_1..λ_k of a number, k numbers, a callable t → λ, or a schedule or filter of forgetless at radius 1."""
    filter_ = _filter_of(schedule, n_tasks)
    if filter_ is None:
        return _per_task(schedule, n_tasks, "use 0 for a task without regularization", positive=False)
    if not filter_.explicit:
        raise ValueError(
            f"schedule gives {type(filter_).__name__}, a budget of gradient steps and not a strength; use flt.Budget, "
            "or a schedule of coefficients such as fl.schedules.increasing()"
        )
    return tuple(np.broadcast_to(filter_.strength(), (n_tasks,)).tolist())


def budgets(schedule: Any, n_tasks: int) -> tuple[float, ...]:
    """Return the budget of every task: numbers as they are, or 1/λ_t of a schedule with the largest scaled to 1."""
    filter_ = _filter_of(schedule, n_tasks)
    if filter_ is None:
        return _per_task(schedule, n_tasks, "a budget is a positive multiple of n_steps", positive=True)
    strength = np.broadcast_to(filter_.strength(), (n_tasks,))
    if not np.all((strength > 0) & np.isfinite(strength)):
        at = int(np.argmin((strength > 0) & np.isfinite(strength)))
        raise ValueError(
            f"schedule has strength {strength[at]} at task {at + 1}, which no number of steps has; use one that "
            "is positive throughout, such as fl.schedules.increasing()"
        )
    return tuple((strength.min() / strength).tolist())


def _filter_of(schedule: Any, n_tasks: int) -> Filter | None:
    """Return the filter of a schedule; None for numbers and for functions of the task."""
    if isinstance(schedule, Filter) or entry_of(schedule) is not None:
        return resolve(schedule, n_tasks, 1.0)
    if not callable(schedule):
        return None
    try:
        inspect.signature(schedule).bind(1)
    except TypeError:  # (k, radius) → filter
        return resolve(schedule, n_tasks, 1.0)
    return None


def _per_task(schedule: Any, n_tasks: int, hint: str, *, positive: bool) -> tuple[float, ...]:
    if callable(schedule):
        schedule = [float(schedule(t)) for t in range(1, n_tasks + 1)]
    if isinstance(schedule, str) or not (np.ndim(schedule) or np.isscalar(schedule)):
        raise TypeError(
            f"schedule must be a number, {n_tasks} numbers, a function of the task, or a schedule of forgetless such "
            f"as fl.schedules.increasing(), got {schedule!r}"
        )
    values = validate.numbers_per_step("schedule", schedule, hint, positive=positive)
    if np.ndim(values) and len(np.atleast_1d(values)) != n_tasks:
        raise ValueError(f"schedule has {np.size(values)} numbers but n_tasks is {n_tasks}; give one for every task")
    return tuple(np.broadcast_to(values, (n_tasks,)).tolist())


def at_task(values: Sequence[float], task: int, beyond: str) -> float:
    """Return the value of a task, counted from 1; past the last one an error, or the last value held."""
    if task > len(values) and beyond == "error":
        raise ValueError(
            f"task {task} is beyond the horizon of {len(values)} tasks, for which the schedule was made; "
            "declare more with n_tasks, or set beyond='hold' to continue with the last value"
        )
    return values[min(task, len(values)) - 1]


def check_choice(name: str, value: Any, allowed: tuple[str, ...]) -> str:
    """Return ``value`` if it is one of the allowed values."""
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}")
    return str(value)
