"""Random orders of tasks, drawn in blocks of steps for groups of trials.

``BLOCK`` and ``TRIALS`` are part of the meaning of a seed: changing one changes the sequences that
a seed gives.
"""

import functools
import math
from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.unsignedinteger[Any]]

BLOCK = 4096
"""Steps drawn at once."""

TRIALS = 8
"""Trials that share one generator, which always draws for all of them."""

_NUMBERS = 2048
"""Largest number whose digits are tasks: its table stays in the cache."""


class Sampler(Protocol):
    """What draws need of an ordering: see ``orderings.Ordering.blocks``."""

    def blocks(
        self, n_tasks: int, k: int, n_trials: int, rng: np.random.Generator
    ) -> Iterator[Indices]:
        """Yield the tasks of consecutive blocks of steps."""


def index_dtype(n_tasks: int) -> type[np.unsignedinteger[Any]]:
    """Return the smallest unsigned type for task indices (compiled loops are several times faster
    on unsigned).
    """
    if n_tasks <= 2**8:
        return np.uint8
    return np.uint16 if n_tasks <= 2**16 else np.uint32


def block_sizes(k: int) -> Iterator[int]:
    """Yield the numbers of steps of consecutive blocks."""
    for first in range(0, k, BLOCK):
        yield min(BLOCK, k - first)


def draws(ordering: Sampler, n_tasks: int, k: int, n_trials: int, seed: Any) -> Iterator[Indices]:
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
        rng = np.random.Generator(np.random.PCG64(child))
        streams.append(ordering.blocks(n_tasks, k, TRIALS, rng))
    buffer = np.empty(len(streams) * TRIALS * min(BLOCK, k), index_dtype(n_tasks))
    for size in block_sizes(k):
        block = buffer[: len(streams) * TRIALS * size].reshape(-1, size)
        for group, stream in enumerate(streams):
            part = np.asarray(next(stream, ()))
            # Other types would be cut off when they are copied: −1 to 255.
            safe = part.dtype == block.dtype or _lies_below(part, n_tasks)
            if part.shape != (TRIALS, size) or not safe:
                raise _not_indices(ordering, part, n_tasks, size)
            block[group * TRIALS : (group + 1) * TRIALS] = part
        if not _lies_below(block, n_tasks):
            raise _not_indices(ordering, block, n_tasks, size)
        yield block[:n_trials]


def _lies_below(part: NDArray[Any], n_tasks: int) -> bool:
    """Return whether all entries are integers in 0..n_tasks − 1."""
    whole = part.dtype.kind in "iu" and part.size > 0
    return bool(whole and part.min() >= 0 and part.max() < n_tasks)


def _not_indices(ordering: Any, part: NDArray[Any], n_tasks: int, size: int) -> ValueError:
    return ValueError(
        f"{ordering!r}.blocks must yield integers in 0..{n_tasks - 1} of shape {(TRIALS, size)},"
        f" got dtype {part.dtype} and shape {part.shape} with values up to {part.max(initial=0)}"
    )


def uniform(n_tasks: int, n_trials: int, size: int, rng: np.random.Generator) -> Indices:
    """Return uniform indices of shape (n_trials, size).

    One random number below M^p gives p of them at once, as its digits in base M: exactly uniform,
    and several times faster for few tasks.
    """
    digits = _digits(n_tasks)
    if digits is None:
        return rng.integers(n_tasks, size=(n_trials, size), dtype=index_dtype(n_tasks))
    count, p = digits.shape
    numbers = rng.integers(count, size=(n_trials, -(-size // p)), dtype=np.uint16)
    return np.take(digits, numbers, axis=0).reshape(n_trials, -1)[:, :size]


@functools.cache
def _digits(n_tasks: int) -> Indices | None:
    """Return the p digits of 0..M^p − 1 in base M, for the largest p with M^p ≤ 2048; None if that
    is 1.
    """
    p = 12 if n_tasks == 1 else int(math.log(_NUMBERS + 0.5, n_tasks))
    if p < 2:
        return None
    return np.indices((n_tasks,) * p, dtype=index_dtype(n_tasks)).reshape(p, -1).T.copy()


def shuffled(n_tasks: int, n_rows: int, rng: np.random.Generator) -> Indices:
    """Return ``n_rows`` random permutations of the tasks."""
    tasks = np.arange(n_tasks, dtype=index_dtype(n_tasks))
    return rng.permuted(np.tile(tasks, (n_rows, 1)), axis=1)


def shared_seed(seed: Any) -> Any:
    """Return a seed that gives every schedule the same orders."""
    if isinstance(seed, np.random.Generator):
        return int(seed.integers(2**63))
    return np.random.SeedSequence() if seed is None else seed
