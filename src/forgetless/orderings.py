"""Orderings: laws over the sequence of tasks a learner meets."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from forgetless import _checks

Indices = NDArray[np.unsignedinteger[Any]]

BLOCK = 4096
"""Steps drawn at once. Part of the meaning of a seed: changing it changes the sequences a seed gives."""


def index_dtype(n_tasks: int) -> type[np.unsignedinteger[Any]]:
    """Return the smallest unsigned type for task indices (compiled loops are several times faster on unsigned)."""
    return np.uint8 if n_tasks <= 2**8 else np.uint16 if n_tasks <= 2**16 else np.uint32


class Ordering(ABC):
    """Base of all orderings; to add one, write ``blocks`` and, where k is limited, ``check``."""

    @abstractmethod
    def blocks(self, n_tasks: int, k: int, rng: np.random.Generator) -> Iterator[Indices]:
        """Yield the task indices (from 0) of steps 1..k in consecutive blocks of at most ``BLOCK`` steps."""

    def check(self, n_tasks: int, k: int) -> None:
        """Raise ValueError where ``k`` steps over ``n_tasks`` tasks are not defined."""

    def sample(self, n_tasks: int, k: int, seed: Any = None) -> Indices:
        """Return the task indices of one run of k steps.

        Parameters
        ----------
        n_tasks, k : int
            M, the number of tasks, and the number of steps.
        seed : int, SeedSequence, Generator or None
            Source of randomness, private to this call.

        Returns
        -------
        array of shape (k,)
            Indices in 0..M−1.
        """
        n_tasks = _checks.integer("n_tasks", n_tasks, 1, "an ordering needs at least one task")
        k = _checks.integer("k", k, 1, "ask for at least one step")
        self.check(n_tasks, k)
        return np.concatenate(list(self.blocks(n_tasks, k, np.random.default_rng(seed))))


def _block_sizes(k: int) -> Iterator[int]:
    for first in range(0, k, BLOCK):
        yield min(BLOCK, k - first)


@dataclass(frozen=True)
class WithReplacement(Ordering):
    """Each step draws a task independently, uniformly or with given probabilities.

    Parameters
    ----------
    probabilities : sequence of M floats, optional
        Nonnegative, summing to 1; uniform if omitted.

    Examples
    --------
    >>> import forgetless as fl
    >>> fl.WithReplacement().sample(n_tasks=3, k=6, seed=0).tolist()
    [2, 1, 1, 0, 0, 0]
    """

    probabilities: tuple[float, ...] | None = None

    def __init__(self, probabilities: ArrayLike | None = None) -> None:
        checked = None if probabilities is None else _probabilities(probabilities)
        object.__setattr__(self, "probabilities", checked)

    def check(self, n_tasks: int, k: int) -> None:
        if self.probabilities is not None and len(self.probabilities) != n_tasks:
            raise ValueError(
                f"probabilities has {len(self.probabilities)} entries but there are {n_tasks} tasks; give one per task"
            )

    def weights(self, n_tasks: int) -> NDArray[np.float64]:
        """Return the probability of each task."""
        if self.probabilities is None:
            return np.full(n_tasks, 1 / n_tasks)
        return np.array(self.probabilities)

    def blocks(self, n_tasks: int, k: int, rng: np.random.Generator) -> Iterator[Indices]:
        dtype = index_dtype(n_tasks)
        if self.probabilities is None:
            for size in _block_sizes(k):
                yield rng.integers(n_tasks, size=size, dtype=dtype)
            return
        cumulative = np.cumsum(self.probabilities)
        # Rounding may leave the last value below 1; dividing keeps a draw near 1 inside the last likely task.
        cumulative /= cumulative[-1]
        for size in _block_sizes(k):
            yield np.searchsorted(cumulative, rng.random(size), side="right").astype(dtype)


def _probabilities(probabilities: ArrayLike) -> tuple[float, ...]:
    values = np.asarray(probabilities, dtype=np.float64)
    if values.ndim != 1 or values.size == 0:
        raise ValueError(f"probabilities must be a vector with one entry per task, got shape {values.shape}")
    if not np.isfinite(values).all() or (values < 0).any():
        raise ValueError(f"probabilities must be nonnegative and finite, got {values.tolist()}")
    if abs(values.sum() - 1) > 1e-9:
        raise ValueError(f"probabilities must sum to 1, got a sum of {values.sum()!r}; divide them by their sum")
    return tuple(values.tolist())


@dataclass(frozen=True)
class WithoutReplacement(Ordering):
    """A uniformly random order in which no task comes twice, so k ≤ M.

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
                "use fl.Reshuffled() to go on with a new order every epoch"
            )

    def blocks(self, n_tasks: int, k: int, rng: np.random.Generator) -> Iterator[Indices]:
        return _split(rng.permutation(n_tasks).astype(index_dtype(n_tasks))[:k])


@dataclass(frozen=True)
class Reshuffled(Ordering):
    """Epochs: every M steps each task comes once, in a fresh random order each time.

    Examples
    --------
    >>> import forgetless as fl
    >>> order = fl.Reshuffled().sample(n_tasks=3, k=6, seed=0).tolist()
    >>> sorted(order[:3]), sorted(order[3:])
    ([0, 1, 2], [0, 1, 2])
    """

    def blocks(self, n_tasks: int, k: int, rng: np.random.Generator) -> Iterator[Indices]:
        dtype = index_dtype(n_tasks)
        epochs = max(1, BLOCK // n_tasks)
        pending = np.empty(0, dtype)
        while k > 0:
            if len(pending) < min(k, BLOCK):
                fresh = rng.permuted(np.tile(np.arange(n_tasks, dtype=dtype), (epochs, 1)), axis=1)
                pending = np.concatenate([pending, fresh.ravel()])
                continue
            size = min(k, BLOCK)
            yield pending[:size]
            pending, k = pending[size:], k - size


@dataclass(frozen=True)
class Cyclic(Ordering):
    """Tasks 0, 1, …, M−1, 0, 1, … in turn.

    Examples
    --------
    >>> import forgetless as fl
    >>> fl.Cyclic().sample(n_tasks=3, k=5).tolist()
    [0, 1, 2, 0, 1]
    """

    def blocks(self, n_tasks: int, k: int, rng: np.random.Generator) -> Iterator[Indices]:
        for first in range(0, k, BLOCK):
            steps = np.arange(first, min(first + BLOCK, k))
            yield (steps % n_tasks).astype(index_dtype(n_tasks))


@dataclass(frozen=True)
class Sequence(Ordering):
    """A given list of task indices; the first k of them are used.

    Parameters
    ----------
    indices : sequence of int
        Task indices, counted from 0.

    Examples
    --------
    >>> import forgetless as fl
    >>> fl.Sequence([1, 0, 1]).sample(n_tasks=2, k=3).tolist()
    [1, 0, 1]
    """

    indices: tuple[int, ...]

    def __init__(self, indices: ArrayLike) -> None:
        values = np.asarray(indices)
        if values.ndim != 1 or values.size == 0:
            raise ValueError(f"indices must be a non-empty vector of task indices, got shape {values.shape}")
        if values.dtype.kind not in "iu":
            raise TypeError(f"indices must be integers, got dtype {values.dtype}; count tasks from 0")
        object.__setattr__(self, "indices", tuple(values.tolist()))

    def check(self, n_tasks: int, k: int) -> None:
        if len(self.indices) < k:
            raise ValueError(f"indices has {len(self.indices)} entries but k is {k}; give at least k indices")
        low, high = min(self.indices), max(self.indices)
        if low < 0 or high >= n_tasks:
            bad = low if low < 0 else high
            raise ValueError(f"indices must lie in 0..{n_tasks - 1}, got {bad}; tasks are counted from 0")

    def blocks(self, n_tasks: int, k: int, rng: np.random.Generator) -> Iterator[Indices]:
        return _split(np.array(self.indices[:k], dtype=index_dtype(n_tasks)))


def _split(indices: Indices) -> Iterator[Indices]:
    for first in range(0, len(indices), BLOCK):
        yield indices[first : first + BLOCK]
