"""What every ordering is: a law of task sequences that can be sampled, and perhaps a chain."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.random import Generator

from forgetless import _validate as validate
from forgetless.errors import NoExactLawError
from forgetless.orderings.moves import Moves
from forgetless.orderings.sampling import Indices, draws


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
        """Return the moves of step t, counted from 0; all sources of step 0 are state 0."""
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
        if n_trials is None:
            return np.ravel(self.sample(n_tasks, k, seed, 1))
        n_trials = validate.integer("n_trials", n_trials, 1, "ask for at least one run")
        self.check(n_tasks, k)
        return np.concatenate(list(draws(self, n_tasks, k, n_trials, seed)), axis=1)
