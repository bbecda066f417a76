"""Strengths and budgets of training steps per task, from a number, a list, a function or a schedule."""

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from forgetless._core import validate
from forgetless.filters import Filter
from forgetless.schedules import resolve
from forgetless.schedules.base import FIRST_EPOCH, epoch, own_horizon
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


class Strengths:
    """λ of every task: of ``n_tasks`` tasks, or of any number of them in epochs of doubling length.

    Without ``n_tasks`` a list is its own horizon, and a number, a function of t or a constant filter has none.

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
            n_tasks = validate.integer("n_tasks", n_tasks, 1, "leave it out where the number of tasks is unknown")
        elif np.ndim(schedule) and not isinstance(schedule, str):
            n_tasks = len(schedule)
        else:
            n_tasks = own_horizon(schedule)
        self.n_tasks = n_tasks
        self._epoch = strengths(schedule, FIRST_EPOCH if n_tasks is None else n_tasks)

    def at(self, task: int, beyond: str = "error") -> float:
        """Return λ of a task, counted from 1; past the last of ``n_tasks`` an error, or the last value held."""
        if self.n_tasks is not None:
            return at_task(self._epoch, task, beyond)
        k, t = epoch(task, FIRST_EPOCH)
        if callable(self.schedule) and _filter_of(self.schedule, k) is None:  # a function of the task knows no epochs
            k, t = task, task
        if len(self._epoch) != k:
            self._epoch = strengths(self.schedule, k)
        return self._epoch[t - 1]

    def first(self, task: int) -> tuple[float, ...]:
        """Return λ of all tasks, up to ``task`` where their number is unknown."""
        return self._epoch if self.n_tasks is not None else tuple(self.at(t) for t in range(1, task + 1))


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


def check_schedule(saved: Sequence[float], own: Strengths, task: int) -> None:
    """Raise ValueError if the λ of a saved state, up to its task, are not those of a schedule."""
    expected = own.first(len(saved))
    learned = min(task, len(saved))
    if list(saved[:learned]) != list(expected[:learned]):
        ends = [f"{len(each)} strengths from {each[0]:.6g} to {each[-1]:.6g}" for each in (saved, expected) if each]
        raise ValueError(
            f"state['schedule'] has {ends[0]}, this anchor {ends[-1]}; make it with the schedule it was saved with"
        )


def check_choice(name: str, value: Any, allowed: tuple[str, ...]) -> str:
    """Return ``value`` if it is one of the allowed values."""
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}")
    return str(value)


class Budget:
    """N_t training steps at task t, or learning rates scaled by the same fraction at a fixed number of steps.

    For ``fl.schedules.increasing()`` the fraction of task t is (k − t + 2)/(k + 1). Steps are whole numbers, N_t =
    max(1, round(fraction · n_steps)), halves to even, so that a budget is exact within half a step; learning rates are
    not rounded. ``exact`` holds the unrounded numbers.

    Parameters
    ----------
    schedule : schedule or filter, number, sequence or callable
        A schedule of forgetless gives task t the fraction min(λ)/λ_t, λ_t = 1/(N_t γ_t) for a budget schedule; numbers
        (one, ``n_tasks`` of them, or t ↦ fraction, t from 1) are the fractions themselves.
    n_tasks : int
        k, the horizon.
    n_steps : int
        Steps at a fraction of 1: the largest budget of a schedule of forgetless.
    beyond : {"error", "hold"}, default "error"
        After ``n_tasks`` tasks: raise, or continue with the last fraction.

    Attributes
    ----------
    task : int
        The task that is being learned, from 1.
    fractions, exact : tuple of float
        Fraction and unrounded budget of every task.
    n_steps : tuple of int
        N_1..N_k.

    Examples
    --------
    >>> import forgetless as fl, forgetless.torch as flt
    >>> budget = flt.Budget(fl.schedules.increasing(), n_tasks=4, n_steps=10)
    >>> budget.n_steps, budget.fractions
    ((10, 8, 6, 4), (1.0, 0.8, 0.6, 0.4))
    >>> loader = ["batch 1", "batch 2", "batch 3"]
    >>> len(list(budget.steps(loader)))  # the loader is restarted as often as needed
    10

    As the factor of a learning rate, with one ``scheduler.step()`` after every task:

    >>> import torch
    >>> optimizer = torch.optim.SGD(torch.nn.Linear(2, 1).parameters(), lr=0.5)
    >>> scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, budget)
    >>> optimizer.step(); scheduler.step(); scheduler.get_last_lr()
    [0.4]

    References
    ----------
    Levinstein et al. (2025), Algorithm 2 and Theorem "Optimal rates for increasing regularization" (ii).
    """

    def __init__(self, schedule: Any, n_tasks: int, *, n_steps: int, beyond: str = "error") -> None:
        n_tasks = validate.integer("n_tasks", n_tasks, 1, "give the number of tasks of the whole sequence")
        most = validate.integer("n_steps", n_steps, 1, "give the number of training steps at a fraction of 1")
        self.beyond = check_choice("beyond", beyond, ("error", "hold"))
        self.fractions = budgets(schedule, n_tasks)
        self.exact = tuple(fraction * most for fraction in self.fractions)
        self.n_steps = tuple(max(1, round(exact)) for exact in self.exact)
        self.task = 1

    def steps(self, loader: Iterable[Any]) -> Iterator[Any]:
        """Yield N_t batches of the current task, restarting the loader as often as needed."""
        left = int(at_task(self.n_steps, self.task, self.beyond))
        while left:
            before = left
            for batch in loader:
                yield batch
                left -= 1
                if not left:
                    return
            if left == before:
                raise ValueError(
                    "loader gives no batch, or none a second time; give a loader or a list, which can be restarted, "
                    "and not an iterator"
                )

    def next_task(self) -> None:
        """Close a task."""
        self.task += 1

    def __call__(self, n_closed: int) -> float:
        """Return the fraction of the task after ``n_closed`` others, as ``LambdaLR`` calls it.

        A loop calls ``scheduler.step()`` once more after the last task; that call gets the last fraction, the next one
        follows ``beyond``.
        """
        if n_closed == len(self.fractions):
            return self.fractions[-1]
        return at_task(self.fractions, n_closed + 1, self.beyond)

    def state_dict(self) -> dict[str, Any]:
        """Return the task and the fractions."""
        return {"task": self.task, "n_steps": list(self.n_steps), "fractions": list(self.fractions)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume from ``state_dict``; ValueError if the budget differs."""
        if list(state["fractions"]) != list(self.fractions) or list(state["n_steps"]) != list(self.n_steps):
            raise ValueError("the saved budget is another one; make it with the schedule and n_steps it was saved with")
        self.task = validate.integer("state['task']", state["task"], 1, "tasks are counted from 1")
