"""The moves of one step of a chain of tasks, and those of draws, fixed orders and epochs."""

import functools
import math
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Moves:
    """The moves of one step: arrays of one length, in increasing order of ``target``.

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
        self.source = np.asarray(source, dtype=np.int64)
        self.target = np.asarray(target, dtype=np.int64)
        self.task = np.asarray(task, dtype=np.int64)
        self.probability = np.asarray(probability, dtype=np.float64)
        lengths = {len(self.source), len(self.target), len(self.task), len(self.probability)}
        if len(lengths) > 1 or np.any(np.diff(self.target) < 0):
            raise ValueError(
                "moves must have one source, target, task and probability each, in increasing order"
                f" of their targets, got lengths {sorted(lengths)} and targets {self.target}"
            )
        self.n_targets = max(n_targets, int(np.max(self.target, initial=-1)) + 1)

    def check(self, n_sources: int, n_tasks: int) -> None:
        """Raise ValueError unless every one of the states before leads somewhere, to some task."""
        low = np.min(self.task, initial=0)
        high = np.max(self.task, initial=0)
        if low < 0 or high >= n_tasks:
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
        # Targets must be sorted: backwards they are the sources.
        order = np.argsort(self.source, kind="stable")
        task = self.task[order]
        probability = self.probability[order]
        return Moves(self.target[order], self.source[order], task, probability)

    @cached_property
    def by_task(self) -> dict[int, "Moves"]:
        """The moves that learn each task, to the same states; tasks without a move are left out."""
        parts = {}
        for m in np.unique(self.task).tolist():
            at = np.flatnonzero(self.task == m)
            source = self.source[at]
            target = self.target[at]
            law = self.probability[at]
            parts[m] = Moves(source, target, self.task[at], law, self.n_targets)
        return parts

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
        targets = self.target[starts[:-1]]
        first = np.searchsorted(targets, np.arange(self.n_targets + 1))
        return first, starts, self.source, self.task, self.probability


@functools.lru_cache
def drawn(n_tasks: int, probabilities: tuple[float, ...] | None) -> Moves:
    """Return the moves of independent draws."""
    # One state, and a move for every task.
    zeros = np.zeros(n_tasks, dtype=np.int64)
    law = np.full(n_tasks, 1 / n_tasks)
    if probabilities is not None:
        law = np.array(probabilities)
    return Moves(zeros, zeros, np.arange(n_tasks), law)


@functools.lru_cache
def single(m: int) -> Moves:
    """Return the only move of a fixed order."""
    return Moves([0], [0], [m], [1.0])


_FEW = 12
"""Tasks up to which the moves between their sets are kept: 2^12 sets are a megabyte."""


def epoch(n_tasks: int, size: int) -> Moves:
    """Return the moves from sets of ``size`` tasks to sets of one more, of an epoch so far."""
    # Those of larger collections take more memory than time.
    return _kept(n_tasks, size) if n_tasks <= _FEW else _added(n_tasks, size)


def _added(n_tasks: int, size: int) -> Moves:
    """Return the moves that add a task to a set of ``size`` tasks, each with the same law.

    In the combinatorial number system the set c_0 < c_1 < … has the number Σ_j C(c_j, j + 1).
    Without its i-th task those after it move down one place.
    """
    table = [[math.comb(task, j) for j in range(size + 2)] for task in range(n_tasks)]
    binomials = np.array(table, dtype=np.int64)
    sets = _sets(n_tasks, size + 1)
    place = np.arange(size + 1)
    here = binomials[sets, place + 1]
    lower = binomials[sets, place]
    before = np.cumsum(here, axis=1) - here
    after = lower.sum(axis=1, keepdims=True) - np.cumsum(lower, axis=1)
    target = np.repeat(np.arange(len(sets)), size + 1)
    law = np.full(sets.size, 1 / (n_tasks - size))
    return Moves((before + after).ravel(), target, sets.ravel(), law)


@functools.lru_cache(maxsize=2)
def _sets(n_tasks: int, size: int) -> NDArray[np.int64]:
    """Return all sets of ``size`` tasks in the order of their numbers, a row of each."""
    if size == 0:
        return np.zeros((1, 0), dtype=np.int64)
    # Sets with the largest task m are m beside the first C(m, size − 1) smaller sets.
    counts = [math.comb(m, size - 1) for m in range(n_tasks)]
    rests = np.concatenate([np.arange(count) for count in counts])
    largest = np.repeat(np.arange(n_tasks), counts)
    return np.column_stack([_sets(n_tasks, size - 1)[rests], largest])


_kept = functools.lru_cache(maxsize=256)(_added)
