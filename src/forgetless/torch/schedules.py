"""Strengths and budgets of training steps per task, from a number, a list, a function or a
schedule.
"""

import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np

from forgetless._core import validate
from forgetless._core.epochs import FIRST_EPOCH, epoch
from forgetless.filters import Filter, Projection, Ridge
from forgetless.schedules import resolve


def strengths(schedule: Any, n_tasks: int) -> tuple[float, ...]:
    """Return λ_1..λ_k of a number, k numbers, a callable t → λ, or a schedule or filter of
    forgetless at radius 1.
    """
    filter_ = filter_of(schedule, n_tasks)
    if filter_ is None:
        return _per_task(
            schedule, n_tasks, "use 0 for a task without regularization", positive=False
        )
    if not isinstance(filter_, Ridge | Projection):
        raise ValueError(
            f"schedule gives {type(filter_).__name__}, a budget of gradient steps and not a"
            " strength; use flt.step_budgets, or a schedule of coefficients such as"
            " fl.schedules.increasing()"
        )
    return tuple(np.broadcast_to(filter_.strength(), (n_tasks,)).tolist())


class Strengths:
    """λ of every task: of ``n_tasks`` tasks, or of any number of them in epochs of doubling length.

    Without ``n_tasks`` a list is its own horizon, and a number, a function of t or a constant
    filter has none.

    Examples
    --------
    >>> from forgetless import schedules
    >>> any_number = Strengths(schedules.increasing(scale=3.0), None)
    >>> [any_number.at(task) for task in (1, 4, 5, 8, 9, 16)]
    [3.0, 7.5, 3.0, 7.5, 3.0, 13.5]
    """

    def __init__(self, schedule: Any, n_tasks: int | None) -> None:
        self.schedule = schedule
        if n_tasks is not None:
            n_tasks = validate.integer(
                "n_tasks", n_tasks, 1, "leave it out where the number of tasks is unknown"
            )
        elif np.ndim(schedule) and not isinstance(schedule, str):
            n_tasks = len(schedule)
        else:
            n_tasks = getattr(schedule, "horizon", None)
        self.n_tasks = n_tasks
        self._epoch = strengths(schedule, FIRST_EPOCH if n_tasks is None else n_tasks)

    def at(self, task: int, beyond: str = "error") -> float:
        """Return λ of a task, counted from 1; past the last of ``n_tasks`` an error, or the last
        value held.
        """
        if self.n_tasks is not None:
            if task > self.n_tasks and beyond == "error":
                raise ValueError(
                    f"task {task} is beyond the horizon of {self.n_tasks} tasks, for which the"
                    " schedule was made; declare more with n_tasks, or set beyond='hold' to"
                    " continue with the last value"
                )
            return self._epoch[min(task, self.n_tasks) - 1]
        k, t = epoch(task, FIRST_EPOCH)
        # a function of the task knows no epochs
        if callable(self.schedule) and filter_of(self.schedule, k) is None:
            k, t = task, task
        if len(self._epoch) != k:
            self._epoch = strengths(self.schedule, k)
        return self._epoch[t - 1]

    def first(self, task: int) -> tuple[float, ...]:
        """Return λ of all tasks, up to ``task`` where their number is unknown."""
        return (
            self._epoch
            if self.n_tasks is not None
            else tuple(self.at(t) for t in range(1, task + 1))
        )


def step_budgets(schedule: Any, n_tasks: int, n_steps: int) -> tuple[int, ...]:
    """Return the numbers of training steps N_1..N_k of the tasks: the paper's second scheme,
    without a proximal term.

    N_t = max(1, round(fraction · n_steps)), halves to even; for ``fl.schedules.increasing()`` the
    fraction of task t is (k − t + 2)/(k + 1). ``Continual(step_size=schedule)`` scales learning
    rates by the same fractions, unrounded.

    Parameters
    ----------
    schedule : schedule or filter, number, sequence or callable
        A schedule of forgetless gives task t the fraction min(λ)/λ_t, λ_t = 1/(N_t γ_t) for a
        budget schedule; numbers (one, ``n_tasks`` of them, or t ↦ fraction, t from 1) are the
        fractions themselves.
    n_tasks : int
        k, the horizon.
    n_steps : int
        Steps at a fraction of 1: the largest budget of a schedule of forgetless.

    Examples
    --------
    >>> import forgetless as fl, forgetless.torch as flt
    >>> flt.step_budgets(fl.schedules.increasing(), n_tasks=4, n_steps=10)
    (10, 8, 6, 4)

    References
    ----------
    Levinstein et al. (2025), Algorithm 2 and Theorem "Optimal rates for increasing regularization"
    (ii).
    """
    n_tasks = validate.integer(
        "n_tasks", n_tasks, 1, "give the number of tasks of the whole sequence"
    )
    most = validate.integer(
        "n_steps", n_steps, 1, "give the number of training steps at a fraction of 1"
    )
    return tuple(max(1, round(fraction * most)) for fraction in budgets(schedule, n_tasks))


def budgets(schedule: Any, n_tasks: int) -> tuple[float, ...]:
    """Return the budget of every task: numbers as they are, or 1/λ_t of a schedule with the largest
    scaled to 1.
    """
    filter_ = filter_of(schedule, n_tasks)
    if filter_ is None:
        return _per_task(
            schedule, n_tasks, "a budget is a positive multiple of n_steps", positive=True
        )
    strength = np.broadcast_to(filter_.strength(), (n_tasks,))
    if not np.all((strength > 0) & np.isfinite(strength)):
        at = int(np.argmin((strength > 0) & np.isfinite(strength)))
        raise ValueError(
            f"schedule has strength {strength[at]} at task {at + 1}, which no number of steps has;"
            " use one that is positive throughout, such as fl.schedules.increasing()"
        )
    return tuple((strength.min() / strength).tolist())


def filter_of(schedule: Any, n_tasks: int) -> Filter | None:
    """Return the filter of a schedule; None for numbers and for functions of the task."""
    if isinstance(schedule, Filter):
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
            f"schedule must be a number, {n_tasks} numbers, a function of the task, or a schedule"
            f" of forgetless such as fl.schedules.increasing(), got {schedule!r}"
        )
    values = validate.numbers_per_step("schedule", schedule, hint, positive=positive)
    if np.ndim(values) and len(np.atleast_1d(values)) != n_tasks:
        raise ValueError(
            f"schedule has {np.size(values)} numbers but n_tasks is {n_tasks}; give one for every"
            " task"
        )
    return tuple(np.broadcast_to(values, (n_tasks,)).tolist())


def check_schedule(saved: Sequence[float], own: Strengths, task: int) -> None:
    """Raise ValueError if the λ of a saved state, up to its task, are not those of a schedule."""
    expected = own.first(len(saved))
    learned = min(task, len(saved))
    if list(saved[:learned]) != list(expected[:learned]):
        ends = [
            f"{len(each)} strengths from {each[0]:.6g} to {each[-1]:.6g}"
            for each in (saved, expected)
            if each
        ]
        raise ValueError(
            f"state['schedule'] has {ends[0]}, this anchor {ends[-1]}; make it with the schedule it"
            " was saved with"
        )


def check_choice(name: str, value: Any, allowed: tuple[str, ...]) -> str:
    """Return ``value`` if it is one of the allowed values."""
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}")
    return str(value)
