"""Orderings: the law of the sequence of tasks, to be sampled, and as a chain for expectations.

A chain has a few states at every time. A step moves from a source state to a target state with a
probability, and every move names the task that is learned on the way. Independent draws need one
state, random epochs one for every set of tasks seen in the epoch, a fixed order one state with one
move. Whatever can be written like this has exact expectations, worst cases and gradients: a new
ordering is ``blocks`` to sample it, and ``moves``.
"""

import inspect
import math
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from forgetless._text import closest
from forgetless.orderings.base import (
    BLOCK,
    Indices,
    Ordering,
    block_sizes,
    index_dtype,
    uniform,
)
from forgetless.orderings.moves import Moves, drawn, epoch, single

__all__ = [
    "Cyclic",
    "FixedOrder",
    "Moves",
    "Ordering",
    "RandomReshuffling",
    "WithReplacement",
    "WithoutReplacement",
]


@dataclass(frozen=True)
class WithReplacement(Ordering):
    """Independent draws, uniform or with given probabilities.

    Parameters
    ----------
    probabilities : sequence of M floats, optional
        Nonnegative, summing to 1; uniform if omitted.

    Examples
    --------
    >>> import forgetless as fl
    >>> fl.WithReplacement().sample(n_tasks=3, k=6, seed=0).tolist()
    [1, 1, 0, 1, 1, 2]
    """

    probabilities: tuple[float, ...] | None = None
    stationary = True

    def __init__(self, probabilities: ArrayLike | None = None) -> None:
        # A tuple, so that equal orderings are equal and can be hashed.
        checked = None if probabilities is None else _probabilities(probabilities)
        object.__setattr__(self, "probabilities", checked)

    def check(self, n_tasks: int, k: int) -> None:
        if self.probabilities is not None and len(self.probabilities) != n_tasks:
            raise ValueError(
                f"probabilities has {len(self.probabilities)} entries but there are {n_tasks}"
                " tasks; give one per task"
            )

    def moves(self, n_tasks: int, t: int) -> Moves:
        return drawn(self.probabilities or (1 / n_tasks,) * n_tasks)

    def blocks(
        self,
        n_tasks: int,
        k: int,
        n_trials: int,
        rng: Generator,
    ) -> Iterator[Indices]:
        # A uniform number falls into the interval of its task among the cumulative sums.
        cumulative = np.cumsum(self.probabilities or 1.0)
        # Rounding may leave the last value below 1; after division a draw near 1 falls into the
        # last task.
        cumulative /= cumulative[-1]
        for size in block_sizes(k):
            if self.probabilities is None:
                yield uniform(n_tasks, n_trials, size, rng)
            else:
                yield np.searchsorted(cumulative, rng.random((n_trials, size)), side="right")


def _probabilities(probabilities: ArrayLike) -> tuple[float, ...]:
    values = np.asarray(probabilities, dtype=np.float64)
    if values.ndim != 1 or values.size == 0:
        raise ValueError(
            f"probabilities must be a vector with one entry per task, got shape {values.shape}"
        )
    # Single-precision probabilities do not sum to 1 more closely; NaN is not near 1 either.
    if not abs(values.sum() - 1) <= 1e-5 or (values < 0).any():
        raise ValueError(
            f"probabilities must be nonnegative and sum to 1, got {values.tolist()} with the sum"
            f" {values.sum():.9g}; divide them by their sum"
        )
    return tuple((values / values.sum()).tolist())


@dataclass(frozen=True)
class WithoutReplacement(Ordering):
    """A uniformly random order in which no task occurs twice: the first epoch, so k ≤ M.

    Examples
    --------
    >>> import forgetless as fl
    >>> sorted(fl.WithoutReplacement().sample(n_tasks=4, k=4, seed=0).tolist())
    [0, 1, 2, 3]
    """

    def check(self, n_tasks: int, k: int) -> None:
        if k > n_tasks:
            raise ValueError(
                f"k must be at most the number of tasks, {n_tasks}, without replacement, got {k}; "
                "use fl.RandomReshuffling() for a new order every epoch"
            )

    def n_states(self, n_tasks: int, k: int) -> int:
        # The most sets of one size have half of the tasks.
        return math.comb(n_tasks, min(k, n_tasks // 2))

    def moves(self, n_tasks: int, t: int) -> Moves:
        # The state is the set of tasks seen in this epoch.
        return epoch(n_tasks, t % n_tasks)

    def following(
        self,
        n_tasks: int,
        t: int,
        visits: Any,
    ) -> Any:
        # A task seen in this epoch has one visit more than the others.
        visits_of_seen = t // n_tasks + 1.0
        return (visits_of_seen - visits) / (visits_of_seen * n_tasks - t)

    def blocks(
        self,
        n_tasks: int,
        k: int,
        n_trials: int,
        rng: Generator,
    ) -> Iterator[Indices]:
        tasks = np.arange(n_tasks, dtype=index_dtype(n_tasks))
        pending = np.empty((n_trials, 0), tasks.dtype)
        for size in block_sizes(k):
            # Whole epochs are drawn; what a block does not need is left for the next one.
            missing = -(-(size - pending.shape[1]) // n_tasks)
            epochs = rng.permuted(np.tile(tasks, (n_trials * missing, 1)), axis=1)
            pending = np.hstack([pending, epochs.reshape(n_trials, -1)])
            yield pending[:, :size]
            pending = pending[:, size:]


@dataclass(frozen=True)
class RandomReshuffling(WithoutReplacement):
    """Random epochs: every M steps each task occurs once, in a new random order.

    Examples
    --------
    >>> import forgetless as fl
    >>> order = fl.RandomReshuffling().sample(n_tasks=3, k=6, seed=0).tolist()
    >>> sorted(order[:3]), sorted(order[3:])
    ([0, 1, 2], [0, 1, 2])
    """

    def check(self, n_tasks: int, k: int) -> None:
        """Allow any number of steps."""

    def period(self, n_tasks: int) -> int | None:
        # The chain begins every epoch with the empty set.
        return n_tasks


class _OneOrder(Ordering):
    """What both orders without randomness share: one state with one move."""

    deterministic = True

    @abstractmethod
    def task(self, n_tasks: int, t: Any) -> Any:
        """Return the task of step t, or the tasks of several steps."""

    def moves(self, n_tasks: int, t: int) -> Moves:
        return single(int(self.task(n_tasks, t)))

    def blocks(
        self,
        n_tasks: int,
        k: int,
        n_trials: int,
        rng: Generator,
    ) -> Iterator[Indices]:
        # All trials see the same order.
        for first in range(0, k, BLOCK):
            steps = np.arange(first, min(first + BLOCK, k))
            yield np.tile(self.task(n_tasks, steps), (n_trials, 1))


@dataclass(frozen=True)
class Cyclic(_OneOrder):
    """Tasks 0, 1, …, M−1, 0, 1, … in turn.

    Examples
    --------
    >>> import forgetless as fl
    >>> fl.Cyclic().sample(n_tasks=3, k=5).tolist()
    [0, 1, 2, 0, 1]
    """

    def period(self, n_tasks: int) -> int | None:
        return n_tasks

    def task(self, n_tasks: int, t: Any) -> Any:
        return t % n_tasks


@dataclass(frozen=True)
class FixedOrder(_OneOrder):
    """A list of task indices, of which the first k are used.

    Parameters
    ----------
    indices : sequence of int
        Task indices, counted from 0.

    Examples
    --------
    >>> import forgetless as fl
    >>> fl.FixedOrder([1, 0, 1]).sample(n_tasks=2, k=3).tolist()
    [1, 0, 1]
    """

    indices: tuple[int, ...]

    def __init__(self, indices: ArrayLike) -> None:
        values = np.asarray(indices)
        if values.ndim != 1 or values.size == 0:
            raise ValueError(
                "indices must be a non-empty vector with one task index per step, got shape"
                f" {values.shape}"
            )
        if values.dtype.kind not in "iu":
            raise TypeError(
                f"indices must be integers, got dtype {values.dtype}; count tasks from 0"
            )
        object.__setattr__(self, "indices", tuple(values.tolist()))

    def check(self, n_tasks: int, k: int) -> None:
        if len(self.indices) < k:
            raise ValueError(
                f"indices has {len(self.indices)} entries but k is {k}; give at least k indices"
            )
        # Also of tasks after step k: a wrong index is a mistake anyway.
        bad = [each for each in self.indices if not 0 <= each < n_tasks]
        if bad:
            raise ValueError(
                f"indices must lie in 0..{n_tasks - 1}, got {bad[0]}; tasks are counted from 0"
            )

    def task(self, n_tasks: int, t: Any) -> Any:
        # A step is looked up in the tuple: an array of all would be made for each.
        return self.indices[t] if isinstance(t, int) else np.take(self.indices, t)


NAMES: dict[str, Ordering] = {
    "with-replacement": WithReplacement(),
    "without-replacement": WithoutReplacement(),
    "random-reshuffling": RandomReshuffling(),
    "cyclic": Cyclic(),
}


OrderingLike = Ordering | str
"""An ordering, or its name such as "cyclic"."""


def as_ordering(value: Any) -> Ordering:
    """Return the ordering for an ordering or name; draws with replacement for None."""
    if value is None:
        return WithReplacement()
    # Names may be written as in Python.
    known = NAMES.get(str(value).replace("_", "-"), value)
    if isinstance(known, Ordering):
        return known
    if inspect.isclass(value) and issubclass(value, Ordering):
        raise TypeError(
            f"ordering is {value.__name__} itself; make one by calling it: {value.__name__}()"
        )
    kind = ValueError if isinstance(value, str) else TypeError
    raise kind(
        f"ordering must be one of {', '.join(NAMES)}, or an Ordering such as fl.Cyclic();"
        f" {closest(value, NAMES)}got {value!r}"
    )
