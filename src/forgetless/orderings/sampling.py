"""Random orders of tasks, drawn in blocks of steps for groups of trials.

``BLOCK`` and ``TRIALS`` are part of the meaning of a seed: changing one changes the sequences that
a seed gives.
"""

import functools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.random import PCG64, Generator, SeedSequence
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


def index_dtype(n_tasks: int) -> np.dtype[Any]:
    """Return the smallest unsigned type for task indices (compiled loops are several times faster
    on unsigned).
    """
    return np.min_scalar_type(n_tasks - 1)


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
        block = np.stack([next(stream, ()) for stream in streams])
        whole = block.dtype.kind in "iu" and block.shape[1:] == (TRIALS, size)
        if not whole or block.min() < 0 or block.max() >= n_tasks:
            raise ValueError(
                f"{ordering!r}.blocks must yield integers in 0..{n_tasks - 1} of shape"
                f" {(TRIALS, size)}, got dtype {block.dtype} and shape {block.shape[1:]} with"
                f" values up to {block.max(initial=0)}"
            )
        yield block.reshape(-1, size)[:n_trials].astype(index_dtype(n_tasks), copy=False)


def shared_seed(seed: Any) -> SeedSequence:
    """Return the seed of all orders and all noise of a call; a Generator is advanced by a draw."""
    if isinstance(seed, SeedSequence):
        return seed
    if isinstance(seed, Generator):
        seed = int(seed.integers(2**63))
    if seed is not None:
        seed = validate.integer("seed", seed, 0, "use None for another one in every call", math.inf)
    return SeedSequence(seed)


def generators(seed: SeedSequence, n_trials: int, *stream: int) -> list[Generator]:
    """Return one generator for every ``TRIALS`` trials; other streams are independent of these.

    A generator always draws for all of its trials, so that trial i is the same whatever
    ``n_trials`` is; those of orders have the key (group,), those of noise one number more.
    """
    # Children are built by number: spawn() would change the caller's SeedSequence.
    keys = [(*seed.spawn_key, group, *stream) for group in range(-(-n_trials // TRIALS))]
    children = [SeedSequence(seed.entropy, spawn_key=key) for key in keys]
    return [Generator(PCG64(child)) for child in children]


def uniform(
    n_tasks: int,
    n_trials: int,
    size: int,
    rng: Generator,
) -> Indices:
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
    digits = np.indices((n_tasks,) * p, dtype=index_dtype(n_tasks))
    return digits.reshape(p, -1).T.copy()
