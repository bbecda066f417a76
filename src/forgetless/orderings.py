"""Orderings: the law of the sequence of tasks, to be sampled, and as a chain for expectations.

A chain has a few states at every time. A step moves from a source state to a target state with a
probability, and every move names the task that is learned on the way. Independent draws need one
state, random epochs one for every set of tasks seen in the epoch, a fixed order one state with one
move. Whatever can be written like this has exact expectations, worst cases and gradients: a new
ordering is ``blocks`` to sample it, and ``moves``.
"""

import functools
import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from forgetless._core import validate
from forgetless._moves import Moves, drawn, epoch, single, unseen
from forgetless.errors import NoExactLawError

__all__ = [
    "Cyclic",
    "FixedOrder",
    "Moves",
    "Ordering",
    "RandomReshuffling",
    "WithReplacement",
    "WithoutReplacement",
]

Indices = NDArray[np.unsignedinteger[Any]]
# Both constants are part of the meaning of a seed: changing one changes the sequences that a seed
# gives.
BLOCK = 4096  # steps drawn at once
TRIALS = 8  # trials that share one generator, which always draws for all of them


def _index_dtype(n_tasks: int) -> type[np.unsignedinteger[Any]]:
    """Return the smallest unsigned type for task indices (compiled loops are several times faster
    on unsigned).
    """
    return np.uint8 if n_tasks <= 2**8 else np.uint16 if n_tasks <= 2**16 else np.uint32


class Ordering(ABC):
    """Base of all orderings; to add one, write ``blocks``, and ``moves`` for exact expectations.

    Attributes
    ----------
    stationary : bool
        Whether the moves are the same at every step, between a single state: independent draws.
    deterministic : bool
        Whether there is only one order.

    Examples
    --------
    Every task is repeated with probability 0.9. The chain's state is the last task:

    >>> import numpy as np
    >>> import forgetless as fl
    >>> class Sticky(fl.orderings.Ordering):
    ...     def n_states(self, n_tasks, k):
    ...         return n_tasks
    ...     def moves(self, n_tasks, t):
    ...         m = np.arange(n_tasks)
    ...         if t == 0:
    ...             return fl.orderings.Moves(0 * m, m, m, np.full(n_tasks, 1 / n_tasks))
    ...         target, source = np.divmod(np.arange(n_tasks**2), n_tasks)
    ...         other = 0.1 / (n_tasks - 1)
    ...         return fl.orderings.Moves(source, target, target,
    ...             np.where(source == target, 0.9, other))
    ...     def blocks(self, n_tasks, k, n_trials, rng):
    ...         order = rng.integers(n_tasks, size=(n_trials, k))
    ...         keep = rng.random((n_trials, k)) < 0.9 - 0.1 / (n_tasks - 1)
    ...         for t in range(1, k):
    ...             order[:, t] = np.where(keep[:, t], order[:, t - 1], order[:, t])
    ...         yield from np.split(order, range(4096, k, 4096), axis=1)
    >>> tasks = fl.TaskCollection([([[1.0]], [1.0]), ([[2.0]], [2.0])])
    >>> round(float(fl.expect(tasks, fl.Ridge(1.0), k=3, ordering=Sticky()).average_loss[0]), 6)
    0.008287
    """

    stationary = False
    deterministic = False

    @abstractmethod
    def blocks(
        self, n_tasks: int, k: int, n_trials: int, rng: np.random.Generator
    ) -> Iterator[Indices]:
        """Yield the task indices (from 0) of independent trials in consecutive blocks of at most
        ``BLOCK`` steps.

        Parameters
        ----------
        n_tasks, k, n_trials : int
        rng : numpy Generator
            The only source of randomness.

        Yields
        ------
        integer array of shape (n_trials, min(BLOCK, steps left))
        """

    def check(self, n_tasks: int, k: int) -> None:  # noqa: B027
        """Raise ValueError where ``k`` steps over ``n_tasks`` tasks are not defined."""

    def n_states(self, n_tasks: int, k: int) -> int:
        """Return the largest number of states in k steps, which tells the memory they take."""
        return 1

    def moves(self, n_tasks: int, t: int) -> Moves:
        """Return the moves of step t, counted from 0; all sources of step 0 are state 0."""
        raise NoExactLawError(
            f"ordering {self!r} has no exact expectation, since it has no moves(); use simulate, or"
            " one of WithReplacement, WithoutReplacement, RandomReshuffling, Cyclic and FixedOrder"
        )

    def following(self, n_tasks: int, t: int, visits: Any) -> Any:
        """Return the probabilities of the tasks of step t, of shape (n, M), from the visits (n, M).

        The default is for chains with one state.
        """
        moves = self.moves(n_tasks, t)
        if np.any(moves.source != 0):
            raise NoExactLawError(
                f"next_loss of runs needs the probabilities of the next task after given visits,"
                f" and {self!r} has no following(); use expect"
            )
        return np.broadcast_to(np.bincount(moves.task, moves.probability, n_tasks), visits.shape)

    def sample(
        self, n_tasks: int, k: int, seed: Any = None, n_trials: int | None = None
    ) -> Indices:
        """Return the task indices of one run of k steps, or of several.

        Parameters
        ----------
        n_tasks, k : int
            M, the number of tasks, and the number of steps.
        seed : int, SeedSequence, Generator or None
            Source of randomness, private to this call.
        n_trials : int, optional
            Number of independent runs.

        Returns
        -------
        array of shape (k,), or (n_trials, k) if ``n_trials`` is given
            Indices in 0..M−1: those that ``simulate`` follows with the same seed.
        """
        n_tasks = validate.integer("n_tasks", n_tasks, 1, "an ordering needs at least one task")
        k = validate.integer("k", k, 1, "ask for at least one step")
        count = (
            1
            if n_trials is None
            else validate.integer("n_trials", n_trials, 1, "ask for at least one run")
        )
        self.check(n_tasks, k)
        orders = np.concatenate(
            [block.copy() for block in draws(self, n_tasks, k, count, seed)], axis=1
        )
        return orders[0] if n_trials is None else orders


def draws(ordering: Ordering, n_tasks: int, k: int, n_trials: int, seed: Any) -> Iterator[Indices]:
    """Yield task indices in blocks of shape (n_trials, T), each in the same buffer; see
    ``Ordering.sample``.

    Trial i is the same whatever ``n_trials`` is.
    """
    if isinstance(seed, np.random.Generator):
        seed = int(seed.integers(2**63))
    sequence = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
    streams = []
    for group in range(-(-n_trials // TRIALS)):
        # Children are built by number instead of spawn(), which would change the caller's
        # SeedSequence.
        child = np.random.SeedSequence(sequence.entropy, spawn_key=(*sequence.spawn_key, group))
        streams.append(
            ordering.blocks(n_tasks, k, TRIALS, np.random.Generator(np.random.PCG64(child)))
        )
    buffer = np.empty(len(streams) * TRIALS * min(BLOCK, k), _index_dtype(n_tasks))
    for size in _block_sizes(k):
        block = buffer[: len(streams) * TRIALS * size].reshape(-1, size)
        for group, stream in enumerate(streams):
            part = np.asarray(next(stream, ()))
            valid = part.shape == (TRIALS, size) and part.dtype.kind in "iu"
            if not valid or part.min() < 0 or part.max() >= n_tasks:
                raise ValueError(
                    f"{ordering!r}.blocks must yield integers in 0..{n_tasks - 1} of shape"
                    f" {(TRIALS, size)}, got dtype {part.dtype} and shape {part.shape} with values"
                    f" up to {part.max(initial=0)}"
                )
            block[group * TRIALS : (group + 1) * TRIALS] = part
        yield block[:n_trials]


def _block_sizes(k: int) -> Iterator[int]:
    for first in range(0, k, BLOCK):
        yield min(BLOCK, k - first)


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
        checked = None if probabilities is None else _probabilities(probabilities)
        object.__setattr__(self, "probabilities", checked)

    def check(self, n_tasks: int, k: int) -> None:
        if self.probabilities is not None and len(self.probabilities) != n_tasks:
            raise ValueError(
                f"probabilities has {len(self.probabilities)} entries but there are {n_tasks}"
                " tasks; give one per task"
            )

    def weights(self, n_tasks: int) -> NDArray[np.float64]:
        """Return the probability of each task."""
        if self.probabilities is None:
            return np.full(n_tasks, 1 / n_tasks)
        return np.array(self.probabilities)

    def moves(self, n_tasks: int, t: int) -> Moves:
        # One state, and a move for every task.
        return drawn(n_tasks, self.probabilities)

    def blocks(
        self, n_tasks: int, k: int, n_trials: int, rng: np.random.Generator
    ) -> Iterator[Indices]:
        if self.probabilities is None:
            for size in _block_sizes(k):
                yield _uniform(n_tasks, n_trials, size, rng)
            return
        cumulative = np.cumsum(self.probabilities)
        # Rounding may leave the last value below 1; after division a draw near 1 falls into the
        # last task.
        cumulative /= cumulative[-1]
        for size in _block_sizes(k):
            draws = np.searchsorted(cumulative, rng.random((n_trials, size)), side="right")
            yield draws.astype(_index_dtype(n_tasks))


def _uniform(n_tasks: int, n_trials: int, size: int, rng: np.random.Generator) -> Indices:
    """Return uniform indices of shape (n_trials, size).

    One random number below M^p gives p of them at once, as its digits in base M: exactly uniform,
    and several times faster for few tasks.
    """
    digits = _digits(n_tasks)
    if digits is None:
        return rng.integers(n_tasks, size=(n_trials, size), dtype=_index_dtype(n_tasks))
    count, p = digits.shape
    draws = rng.integers(count, size=(n_trials, -(-size // p)), dtype=np.uint16)
    return np.take(digits, draws, axis=0).reshape(n_trials, -1)[:, :size]


@functools.cache
def _digits(n_tasks: int) -> Indices | None:
    """Return the p digits of 0..M^p − 1 in base M, for the largest p with M^p ≤ 2048; None if that
    is 1.
    """
    p = 12 if n_tasks == 1 else int(math.log(2048.5, n_tasks))
    if p < 2:
        return None
    return np.indices((n_tasks,) * p, dtype=_index_dtype(n_tasks)).reshape(p, -1).T.copy()


def _probabilities(probabilities: ArrayLike) -> tuple[float, ...]:
    values = np.asarray(probabilities, dtype=np.float64)
    if values.ndim != 1 or values.size == 0:
        raise ValueError(
            f"probabilities must be a vector with one entry per task, got shape {values.shape}"
        )
    if not np.isfinite(values).all() or (values < 0).any():
        raise ValueError(f"probabilities must be nonnegative and finite, got {values.tolist()}")
    if abs(values.sum() - 1) > 1e-5:  # single-precision probabilities do not sum to 1 more closely
        raise ValueError(
            f"probabilities must sum to 1, got a sum of {values.sum():.9g}; divide them by"
            " their sum"
        )
    return tuple((values / values.sum()).tolist())


@dataclass(frozen=True)
class WithoutReplacement(Ordering):
    """A uniformly random order in which no task occurs twice, so k ≤ M.

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

    def following(self, n_tasks: int, t: int, visits: Any) -> Any:
        return unseen(n_tasks, t, visits)

    def blocks(
        self, n_tasks: int, k: int, n_trials: int, rng: np.random.Generator
    ) -> Iterator[Indices]:
        indices = _shuffled(n_tasks, n_trials, rng)[:, :k]
        for first in range(0, k, BLOCK):
            yield indices[:, first : first + BLOCK]


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

    def blocks(
        self, n_tasks: int, k: int, n_trials: int, rng: np.random.Generator
    ) -> Iterator[Indices]:
        pending = np.empty((n_trials, 0), _index_dtype(n_tasks))
        for size in _block_sizes(k):
            missing = max(0, -(-(size - pending.shape[1]) // n_tasks))
            epochs = _shuffled(n_tasks, n_trials * missing, rng).reshape(
                n_trials, missing * n_tasks
            )
            pending = np.concatenate([pending, epochs], axis=1)
            yield pending[:, :size]
            pending = pending[:, size:]


@dataclass(frozen=True)
class Cyclic(Ordering):
    """Tasks 0, 1, …, M−1, 0, 1, … in turn.

    Examples
    --------
    >>> import forgetless as fl
    >>> fl.Cyclic().sample(n_tasks=3, k=5).tolist()
    [0, 1, 2, 0, 1]
    """

    deterministic = True

    def moves(self, n_tasks: int, t: int) -> Moves:
        # One state with one move.
        return single(t % n_tasks)

    def blocks(
        self, n_tasks: int, k: int, n_trials: int, rng: np.random.Generator
    ) -> Iterator[Indices]:
        for first in range(0, k, BLOCK):
            steps = np.arange(first, min(first + BLOCK, k))
            yield np.tile((steps % n_tasks).astype(_index_dtype(n_tasks)), (n_trials, 1))


@dataclass(frozen=True)
class FixedOrder(Ordering):
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
    deterministic = True

    def __init__(self, indices: ArrayLike) -> None:
        values = np.asarray(indices)
        if values.ndim != 1 or values.size == 0:
            raise ValueError(
                f"indices must be a non-empty vector of task indices, got shape {values.shape}"
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
        low, high = min(self.indices), max(self.indices)
        if low < 0 or high >= n_tasks:
            bad = low if low < 0 else high
            raise ValueError(
                f"indices must lie in 0..{n_tasks - 1}, got {bad}; tasks are counted from 0"
            )

    def moves(self, n_tasks: int, t: int) -> Moves:
        return single(self.indices[t])

    def blocks(
        self, n_tasks: int, k: int, n_trials: int, rng: np.random.Generator
    ) -> Iterator[Indices]:
        for first in range(0, k, BLOCK):
            indices = self.indices[first : min(first + BLOCK, k)]
            yield np.tile(np.array(indices, dtype=_index_dtype(n_tasks)), (n_trials, 1))


def _shuffled(n_tasks: int, n_rows: int, rng: np.random.Generator) -> Indices:
    """Return ``n_rows`` random permutations of the tasks."""
    return rng.permuted(
        np.tile(np.arange(n_tasks, dtype=_index_dtype(n_tasks)), (n_rows, 1)), axis=1
    )


NAMES: dict[str, Ordering] = {
    "with-replacement": WithReplacement(),
    "without-replacement": WithoutReplacement(),
    "random-reshuffling": RandomReshuffling(),
    "cyclic": Cyclic(),
}


def name_of(ordering: Ordering) -> str:
    """Return the name of an ordering, or its code if it has none."""
    return next((name for name, each in NAMES.items() if each == ordering), repr(ordering))


OrderingLike = Ordering | str
"""An ordering, or its name such as "cyclic"."""


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
