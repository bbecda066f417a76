"""What every ordering is: a law of task sequences that can be sampled, and perhaps a chain.

Random orders are drawn in blocks of steps for groups of trials. ``BLOCK`` and ``TRIALS`` are part
of the meaning of a seed: changing one changes the sequences that a seed gives.
"""

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.random import PCG64, Generator, SeedSequence
from numpy.typing import NDArray

from forgetless import _validate as validate
from forgetless.errors import NoExactLawError
from forgetless.orderings.moves import Moves

Indices = NDArray[Any]
"""Of integers; of the smallest unsigned type in the blocks that ``draws`` yields."""

BLOCK = 4096
"""Steps drawn at once."""

TRIALS = 8
"""Trials that share one generator, which always draws for all of them."""

# no mutant: 2049 is no square or other power
_NUMBERS = 2048
"""Largest number whose digits are tasks: its table stays in the cache."""


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
        self,
        n_tasks: int,
        k: int,
        n_trials: int,
        rng: Generator,
    ) -> Iterator[Indices]:
        """Yield the task indices (from 0) of independent trials in consecutive blocks of ``BLOCK``
        steps each, and in the end of those that are left.

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

    def period(self, n_tasks: int) -> int | None:
        """Return the steps after which the chain has one state and its moves repeat; None if never.

        Fixed filters then need no more time for a million steps than for some thousand.
        """
        return 1 if self.stationary else None

    @property
    def has_moves(self) -> bool:
        """Whether there are exact expectations."""
        return type(self).moves is not Ordering.moves

    def n_states(self, n_tasks: int, k: int) -> int:
        """Return the largest number of states in k steps, which tells the memory they take."""
        return 1

    def moves(self, n_tasks: int, t: int) -> Moves:
        """Return the moves of step t, counted from 0; all sources of step 0 are state 0.

        Several moves may name one task, in any order. A task that is never drawn needs none.
        """
        raise NoExactLawError(
            f"ordering {self!r} has no exact expectation, since it has no moves(); use simulate, or"
            " one of WithReplacement, WithoutReplacement, RandomReshuffling, Cyclic and FixedOrder"
        )

    def following(
        self,
        n_tasks: int,
        t: int,
        visits: Any,
    ) -> Any:
        """Return the probabilities of the tasks of step t, of shape (n, M), from the visits (n, M).

        The default is for chains with one state.
        """
        # With one state the law of the next task depends on nothing.
        moves = self.moves(n_tasks, t)
        if np.any(moves.source != 0):
            raise NoExactLawError(
                f"next_loss of runs needs the probabilities of the next task after given visits,"
                f" and {self!r} has no following(); use expect"
            )
        law = np.bincount(moves.task, moves.probability, n_tasks)
        return np.broadcast_to(law, visits.shape)

    def sample(
        self,
        n_tasks: int,
        k: int,
        seed: Any = None,
        n_trials: int | None = None,
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
        if n_trials is None:
            return np.ravel(self.sample(n_tasks, k, seed, 1))
        n_trials = validate.integer("n_trials", n_trials, 1, "ask for at least one run")
        self.check(n_tasks, k)
        blocks = list(draws(self, n_tasks, k, n_trials, seed))
        return np.concatenate(blocks, axis=1)


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
    # One generator for each group of trials, whose blocks are drawn in turn.
    own = generators(shared_seed(seed), n_trials)
    streams = [ordering.blocks(n_tasks, k, TRIALS, rng) for rng in own]
    for size in block_sizes(k):
        block = np.stack([next(stream, ()) for stream in streams])
        # What a user's ordering yields indexes arrays in compiled loops, which do not check.
        whole = block.dtype.kind in "iu" and block.shape[1:] == (TRIALS, size)
        if not whole or block.min() < 0 or block.max() >= n_tasks:
            raise ValueError(
                f"{ordering!r}.blocks must yield integers in 0..{n_tasks - 1} of shape"
                f" {(TRIALS, size)}, got dtype {block.dtype} and shape {block.shape[1:]} with"
                f" values in {block.min(initial=0)}..{block.max(initial=0)}"
            )
        yield np.concatenate(block)[:n_trials].astype(index_dtype(n_tasks), copy=False)


def shared_seed(seed: Any) -> SeedSequence:
    """Return the seed of all orders and all noise of a call; a Generator is advanced by a draw."""
    if isinstance(seed, SeedSequence):
        return seed
    # A generator of the user is advanced by one draw, whatever is drawn from the result.
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
    # M^p numbers, of p digits each.
    count, p = digits.shape
    numbers = rng.integers(count, size=(n_trials, -(-size // p)), dtype=np.uint16)
    return np.take(digits, numbers, axis=0).reshape(n_trials, -1)[:, :size]


@functools.cache
def _digits(n_tasks: int) -> Indices | None:
    """Return the p digits of 0..M^p − 1 in base M, for the largest p with M^p ≤ 2048; None if that
    is 1.
    """
    # M^p ≤ 2048 for p = log_M 2048; the half guards against a logarithm that is rounded down.
    p = 12 if n_tasks == 1 else int(math.log(_NUMBERS + 0.5, n_tasks))
    if p < 2:
        return None
    digits = np.indices((n_tasks,) * p, dtype=index_dtype(n_tasks))
    return digits.reshape(p, -1).T.copy()
