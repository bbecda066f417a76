"""Random orders of tasks, drawn in blocks of steps for groups of trials.

``BLOCK`` and ``TRIALS`` are part of the meaning of a seed: changing one changes the sequences that
a seed gives.
"""

import functools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forgetless import _validate as validate

Indices = NDArray[Any]
"""Of integers; of the smallest unsigned type in the blocks that ``draws`` yields."""

BLOCK = 4096
"""Steps drawn at once."""

TRIALS = 8
"""Trials that share one generator, which always draws for all of them."""

_NUMBERS = 2048
"""Largest number whose digits are tasks: its table stays in the cache."""


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


def draws(
    ordering: Any,
    n_tasks: int,
    k: int,
    n_trials: int,
    seed: Any,
) -> Iterator[Indices]:
    """Yield task indices in blocks of shape (n_trials, T); see ``Ordering.sample``.

    Trial i is the same whatever ``n_trials`` is.
    """
    own = generators(shared_seed(seed), n_trials)
    streams = [ordering.blocks(n_tasks, k, TRIALS, rng) for rng in own]
    for size in block_sizes(k):
        block = np.empty((len(streams) * TRIALS, size), index_dtype(n_tasks))
        for rows, stream in zip(np.split(block, len(streams)), streams, strict=True):
            part = np.asarray(next(stream, ()))
            # Other types would be cut off when they are copied: −1 to 255.
            whole = part.dtype.kind in "iu" and part.shape == rows.shape
            if not whole or part.min() < 0 or part.max() >= n_tasks:
                raise ValueError(
                    f"{ordering!r}.blocks must yield integers in 0..{n_tasks - 1} of shape"
                    f" {rows.shape}, got dtype {part.dtype} and shape {part.shape} with values up"
                    f" to {part.max(initial=0)}"
                )
            rows[:] = part
        yield block[:n_trials]


def shared_seed(seed: Any) -> np.random.SeedSequence:
    """Return the seed of all orders and all noise of a call; a Generator is advanced by a draw."""
    if isinstance(seed, np.random.SeedSequence):
        return seed
    if isinstance(seed, np.random.Generator):
        seed = int(seed.integers(2**63))
    if seed is not None:
        seed = validate.integer("seed", seed, 0, "use None for another one in every call", math.inf)
    return np.random.SeedSequence(seed)


def generators(
    seed: np.random.SeedSequence, n_trials: int, *stream: int
) -> list[np.random.Generator]:
    """Return one generator for every ``TRIALS`` trials; other streams are independent of these.

    A generator always draws for all of its trials, so that trial i is the same whatever
    ``n_trials`` is; those of orders have the key (group,), those of noise one number more.
    """
    found = []
    for group in range(-(-n_trials // TRIALS)):
        # Children are built by number: spawn() would change the caller's SeedSequence.
        key = (*seed.spawn_key, group, *stream)
        child = np.random.SeedSequence(seed.entropy, spawn_key=key)
        found.append(np.random.Generator(np.random.PCG64(child)))
    return found


def uniform(
    n_tasks: int,
    n_trials: int,
    size: int,
    rng: np.random.Generator,
) -> Indices:
    """Return uniform indices of shape (n_trials, size).

    One random number below M^p gives p of them at once, as its digits in base M: exactly uniform,
    and several times faster for few tasks.
    """
    digits = _digits(n_tasks)
    if digits is None:
        return rng.integers(n_tasks, size=(n_trials, size), dtype=index_dtype(n_tasks))
    count, p = digits.shape
    shape = (n_trials, -(-size // p))
    numbers = rng.integers(count, size=shape, dtype=np.uint16)
    tasks = np.take(digits, numbers, axis=0)
    return tasks.reshape(n_trials, -1)[:, :size]


@functools.cache
def _digits(n_tasks: int) -> Indices | None:
    """Return the p digits of 0..M^p − 1 in base M, for the largest p with M^p ≤ 2048; None if that
    is 1.
    """
    p = 12 if n_tasks == 1 else int(math.log(_NUMBERS + 0.5, n_tasks))
    if p < 2:
        return None
    digits = np.indices((n_tasks,) * p, dtype=index_dtype(n_tasks))
    return digits.reshape(p, -1).T.copy()


def shuffled(n_tasks: int, n_rows: int, rng: np.random.Generator) -> Indices:
    """Return ``n_rows`` random permutations of the tasks."""
    tasks = np.arange(n_tasks, dtype=index_dtype(n_tasks))
    return rng.permuted(np.tile(tasks, (n_rows, 1)), axis=1)
