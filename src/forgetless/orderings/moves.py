"""The moves of one step of a chain of tasks, and those of draws, fixed orders and epochs."""

import functools
import math
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Moves:
    """The moves of one step: arrays of one length, which are sorted by ``target``.

    Parameters
    ----------
    source, target : arrays of int
        The states before and after the step, each counted from 0.
    task : array of int
        The task that is learned.
    probability : array of float
        Given the source.
    n_targets : int, default the largest target and one
        Number of states after the step.

    Examples
    --------
    Two tasks, each repeated with probability 0.9; the state is the last one:

    >>> from forgetless.orderings import Moves
    >>> moves = Moves([0, 1, 0, 1], [0, 0, 1, 1], [0, 0, 1, 1], [0.9, 0.1, 0.1, 0.9])
    >>> moves.n_targets
    2
    """

    def __init__(
        self,
        source: Any,
        target: Any,
        task: Any,
        probability: Any,
        n_targets: int = 0,
    ) -> None:
        lengths = {len(each) for each in (source, target, task, probability)}
        if len(lengths) > 1:
            raise ValueError(
                "moves must have one source, target, task and probability each, got lengths"
                f" {sorted(lengths)}"
            )
        # Moves to the same state lie together, as the compiled loops need them.
        order = np.argsort(target, kind="stable")
        indices = np.array([source, target, task], dtype=np.int64)
        self.source, self.target, self.task = np.take(indices, order, axis=1)
        self.probability = np.asarray(probability, dtype=np.float64)[order]
        self.n_targets = int(np.max(self.target + 1, initial=n_targets))

    def check(self, n_sources: int, n_tasks: int) -> None:
        """Raise ValueError unless every one of the states before leads somewhere, to some task."""
        if not np.all((self.task >= 0) & (self.task < n_tasks)):
            raise ValueError(f"moves must name tasks in 0..{n_tasks - 1}, got {self.task}")
        # The probabilities of all moves from a state; negative numbers of states have none.
        totals = np.bincount(np.maximum(self.source, 0), self.probability * (self.source >= 0))
        wrong = len(totals) != n_sources or np.any(self.probability < 0)
        if wrong or np.max(np.abs(totals - 1.0)) > 1e-9:
            raise ValueError(
                f"moves must have probabilities that sum to 1 from each of the {n_sources} states"
                f" before the step, got sums {totals}"
            )

    @cached_property
    def reversed(self) -> "Moves":
        """The moves from targets to sources, for forms that are carried backwards."""
        return Moves(
            self.target,
            self.source,
            self.task,
            self.probability,
        )

    @cached_property
    def apart(self) -> "Moves":
        """The moves with a target state for every task: those of task m follow m · n_targets
        others.
        """
        n = self.n_targets
        n_tasks = np.max(self.task, initial=0) + 1
        return Moves(
            self.source,
            self.task * n + self.target,
            self.task,
            self.probability,
            n_tasks * n,
        )

    @cached_property
    def table(self) -> tuple[NDArray[Any], ...]:
        """The arrays of ``_kernels.push``: first runs of targets, first moves of runs, the moves.

        Moves of consecutive tasks between the same two states are one run: their matrix products
        are made together.
        """
        # A run ends where a state changes, or where a task is left out.
        moved = (np.diff(self.source) != 0) | (np.diff(self.target) != 0)
        new = moved | (np.diff(self.task) != 1)
        starts = np.concatenate([[0], np.flatnonzero(new) + 1, [len(self.source)]])
        # Runs are sorted by target, as moves are: those of one target lie together.
        targets = self.target[starts[:-1]]
        first = np.searchsorted(targets, np.arange(self.n_targets + 1))
        return first, starts, self.source, self.task, self.probability


@functools.lru_cache
def drawn(probabilities: tuple[float, ...]) -> Moves:
    """Return the moves of independent draws: one state, and a move for every task."""
    tasks = np.arange(len(probabilities))
    return Moves(0 * tasks, 0 * tasks, tasks, probabilities)


@functools.lru_cache
def single(m: int) -> Moves:
    """Return the only move of a fixed order."""
    return Moves([0], [0], [m], [1.0])


# no mutant: only memory and time differ
_FEW = 12
"""Tasks up to which the moves between their sets are kept: 2^12 sets are a megabyte."""


def epoch(n_tasks: int, size: int) -> Moves:
    """Return the moves from sets of ``size`` tasks to sets of one more, of an epoch so far."""
    # Those of larger collections take more memory than time.
    return _kept(n_tasks, size) if n_tasks <= _FEW else _added(n_tasks, size)


def _added(n_tasks: int, size: int) -> Moves:
    """Return the moves that add a task to a set of ``size`` tasks, each with the same law."""
    sets, others = _sets(n_tasks, size + 1)
    target = np.repeat(np.arange(len(sets)), size + 1)
    law = np.full(sets.size, 1 / (n_tasks - size))
    return Moves(others.ravel(), target, sets.ravel(), law)


# no mutant: only memory and time differ
@functools.lru_cache(maxsize=2)
def _sets(n_tasks: int, size: int) -> tuple[NDArray[Any], ...]:
    """Return all sets of ``size`` tasks, a row each, and the number of the set that each of them is
    without each of its tasks.

    They are sorted by their largest task. Those with the largest task m are m beside each of the
    first C(m, size − 1) smaller sets, and follow C(m, size) others.
    """
    if size == 0:
        empty = np.zeros((1, 0), dtype=np.int64)
        return empty, empty
    smaller, without = _sets(n_tasks, size - 1)
    counts = [math.comb(m, size - 1) for m in range(n_tasks)]
    rests = np.concatenate([np.arange(count) for count in counts])
    largest = np.repeat(np.arange(n_tasks), counts)
    # Without a smaller task, the largest one follows C(m, size − 1) sets; without m the rest stays.
    others = without[rests] + np.repeat(counts, counts)[:, None]
    sets = np.column_stack([smaller[rests], largest])
    return sets, np.column_stack([others, rests])


# no mutant: only memory and time differ
_kept = functools.lru_cache(maxsize=256)(_added)
