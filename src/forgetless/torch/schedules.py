"""Schedules: functions of the task t = 1, 2, 3 and so on.

``Proximal`` takes one for λ_t, ``StepSize`` one for the factor of the learning rates. A list with
one number per task is a schedule, too; past its end a training step raises an error before it
changes the weights.
"""

import math
from collections.abc import Callable
from typing import Any

Schedule = Callable[[int], float]


def increasing(c: float, n_tasks: int) -> Schedule:
    """Return λ_t = c (k + 1)/(k − t + 2), t = 1..k: from c to c(k + 1)/2.

    For ``Proximal`` where the number of tasks k is known. It has the optimal rates for linear
    models in a random order (Levinstein et al. 2025, Theorem "Optimal rates for increasing
    regularization"); for networks it is a heuristic, on the whole no better than a number c.

    Examples
    --------
    >>> import forgetless.torch as flt
    >>> [flt.increasing(1.0, n_tasks=3)(t) for t in (1, 2, 3)]
    [1.0, 1.3333333333333333, 2.0]
    """
    values = _planned(n_tasks, lambda t, k: c * (k + 1) / (k - t + 2))
    return _named(f"increasing({c:g}, {n_tasks})", values)


def cosine(n_tasks: int) -> Schedule:
    """Return the factors ½(1 + cos π(t − 1)/k), t = 1..k, for ``StepSize``.

    It needs the right number of tasks k: announcing half of them cost up to 12 points of accuracy,
    twice as many up to 36 (docs/benchmarks.md).

    Examples
    --------
    >>> import forgetless.torch as flt
    >>> [round(flt.cosine(n_tasks=4)(t), 3) for t in (1, 2, 3, 4)]
    [1.0, 0.854, 0.5, 0.146]
    """
    values = _planned(n_tasks, lambda t, k: 0.5 * (1 + math.cos(math.pi * (t - 1) / k)))
    return _named(f"cosine({n_tasks})", values)


def inverse(c: float = 1.0) -> Schedule:
    """Return the factors min(1, c/t), for any number of tasks; the first task keeps its rate.

    Examples
    --------
    >>> import forgetless.torch as flt
    >>> [flt.inverse(2.0)(t) for t in (1, 2, 3, 4)]
    [1.0, 1.0, 0.6666666666666666, 0.5]
    """
    return _named(f"inverse({c:g})", lambda t: min(1.0, c / t) if t > 1 else 1.0)


def per_task(name: str, schedule: Any) -> Schedule:
    """Return a schedule that checks its values: finite and nonnegative numbers.

    ``schedule`` is a function of the task, or a list of numbers; ``name`` is for errors.
    """
    if callable(schedule):
        function = schedule
    elif hasattr(schedule, "__len__") and not isinstance(schedule, str):
        function = _planned(len(schedule), lambda t, _: schedule[t - 1])
    else:
        raise TypeError(
            f"{name} must be a function of the task t = 1, 2, …, or a list with one number per"
            f" task, got {schedule!r}; one number for all tasks is lambda t: 0.1"
        )

    def checked(t: int) -> float:
        value = float(function(t))
        if not 0 <= value < math.inf:
            raise ValueError(
                f"{name} is {value} at task {t}; it must be finite and nonnegative at every task"
            )
        return value

    checked(1)  # what is wrong from the start is said at the start
    return checked


def _named(name: str, schedule: Schedule) -> Schedule:
    """Return a schedule that is printed as the code that made it."""
    schedule.__name__ = name
    return schedule


def _planned(n_tasks: int, function: Callable[[int, int], float]) -> Schedule:
    def schedule(t: int) -> float:
        if t > n_tasks:
            raise ValueError(
                f"task {t} is beyond the {n_tasks} tasks of the schedule; plan more tasks, or hold"
                f" the last value by lambda t: schedule(min(t, {n_tasks}))"
            )
        return function(t, n_tasks)

    return schedule
