"""Orderings: probability laws of the sequence of tasks."""

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from forgetless._core import validate

__all__ = [
    "Cyclic",
    "Draws",
    "Epochs",
    "FixedOrder",
    "OneOrder",
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


@dataclass(frozen=True, eq=False)
class Draws:
    """The law of independent draws, with the ``probabilities`` of the M tasks."""

    probabilities: NDArray[np.float64]

    def __post_init__(self) -> None:
        object.__setattr__(self, "probabilities", np.array(_probabilities(self.probabilities)))

    @property
    def uniform(self) -> bool:
        """Whether all tasks are equally likely."""
        return bool(np.ptp(self.probabilities) <= 1e-9 / len(self.probabilities))


@dataclass(frozen=True)
class Epochs:
    """The law of random epochs: every M steps each task occurs once, in independent uniformly
    random orders.
    """


@dataclass(frozen=True, eq=False)
class OneOrder:
    """The law of one deterministic order."""

    # the task of each step, counted from 0; of all k steps, or of one period
    indices: NDArray[np.int64]
    repeated: bool = False  # whether ``indices`` is one period

    def at(self, step: int) -> int:
        """Return the task of a step, counted from 0."""
        return int(self.indices[step % len(self.indices) if self.repeated else step])

    def is_cycle(self, n_tasks: int) -> bool:
        """Whether the order is a repeated permutation of all tasks."""
        return self.repeated and np.array_equal(np.sort(self.indices), np.arange(n_tasks))


Law = Draws | Epochs | OneOrder  # the exact engines are organised by it


class Ordering(ABC):
    """Base of all orderings; to add one, write ``blocks``, ``law`` for exact expectations,
    ``check`` to limit k.

    Examples
    --------
    Tasks in turn, forth and back, with an exact expectation like every single order:

    >>> import numpy as np
    >>> import forgetless as fl
    >>> class ForthAndBack(fl.orderings.Ordering):
    ...     def law(self, n_tasks, k):
    ...         turn = np.arange(2 * n_tasks)
    ...         return fl.orderings.OneOrder(np.minimum(turn, turn[::-1]), repeated=True)
    ...     def blocks(self, n_tasks, k, n_trials, rng):
    ...         return fl.FixedOrder(np.resize(self.law(n_tasks, k).indices, k)).blocks(n_tasks,
    ...             k, n_trials, rng)
    >>> ForthAndBack().sample(n_tasks=3, k=8).tolist()
    [0, 1, 2, 2, 1, 0, 0, 1]
    >>> tasks = fl.TaskCollection([([[1.0]], [1.0]), ([[2.0]], [2.0])])
    >>> round(float(fl.expect(tasks, fl.Ridge(1.0), k=3,
    ...     ordering=ForthAndBack()).average_loss[0]), 6)
    0.0005
    """

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

    def law(self, n_tasks: int, k: int) -> Law | None:
        """Return the law of k steps over ``n_tasks`` tasks; None where it can only be sampled."""
        return None

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

    def law(self, n_tasks: int, k: int) -> Draws:
        return Draws(self.weights(n_tasks))

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

    def law(self, n_tasks: int, k: int) -> Epochs:
        return Epochs()

    def blocks(
        self, n_tasks: int, k: int, n_trials: int, rng: np.random.Generator
    ) -> Iterator[Indices]:
        indices = _shuffled(n_tasks, n_trials, rng)[:, :k]
        for first in range(0, k, BLOCK):
            yield indices[:, first : first + BLOCK]


@dataclass(frozen=True)
class RandomReshuffling(Ordering):
    """Random epochs: every M steps each task occurs once, in a new random order.

    Examples
    --------
    >>> import forgetless as fl
    >>> order = fl.RandomReshuffling().sample(n_tasks=3, k=6, seed=0).tolist()
    >>> sorted(order[:3]), sorted(order[3:])
    ([0, 1, 2], [0, 1, 2])
    """

    def law(self, n_tasks: int, k: int) -> Epochs:
        return Epochs()

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

    def law(self, n_tasks: int, k: int) -> OneOrder:
        return OneOrder(np.arange(n_tasks), repeated=True)

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

    def law(self, n_tasks: int, k: int) -> OneOrder:
        return OneOrder(np.array(self.indices[:k], dtype=np.int64))

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
