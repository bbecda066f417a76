"""A task of row blocks in standardised units, which must be known before its rows can be used."""

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

import numpy as np

from forgetless.solvers.rows import Rows
from forgetless.streams._input import Check, in_blocks, triple
from forgetless.streams._units import Move, Units, mean_of
from forgetless.streams.state import Gathered, State

NOTHING = "blocks must hold at least one row that is not zero, got none; leave this task out"


def in_standard_units(
    state: State,
    blocks: Any,
    check: Check,
    memory: int,
    begin: Callable[[State, Any], Units],
    restate: Callable[[State, Units], State],
) -> tuple[Gathered, State]:
    """Return what ``in_blocks`` returns, in units that know all rows of the task.

    ``begin`` gives the units of a state before it, ``restate`` a state in other units. Blocks that can be read again
    are read once more.
    """
    if not callable(blocks) and iter(blocks) is iter(blocks):
        return _read_once(state, iter(blocks), check, memory, begin, restate)
    units: Units | None = None
    mean, before = np.zeros(()), 0.0
    for block in blocks() if callable(blocks) else blocks:
        X, y, weight, checked = check(state, *triple(block))
        known = begin(state, X) if units is None else units
        before = known.total if units is None else before
        units = known.with_rows(X, weight)
        mean = _mean(mean, units.total - before, units.total - known.total, y, weight)
    if units is None or units.total == before:
        raise ValueError(NOTHING)
    state = restate(state._replace(origin=checked.origin), units).starting(X, y, mean)
    used = units

    def inward(state: State, X: Any, y: Any, weight: Any) -> tuple[Any, Any, Any, State]:
        X, y, weight, state = check(state, X, y, weight)
        return used.inward(X), y, weight, state

    return in_blocks(state, blocks, inward, memory)


def _read_once(
    state: State,
    blocks: Iterator[Any],
    check: Check,
    memory: int,
    begin: Callable[[State, Any], Units],
    restate: Callable[[State, Units], State],
) -> tuple[Gathered, State]:
    """Return the same where a block is gone once it was read: XᵀX in units that know the first block, then moved."""
    first = next(blocks, None)
    if first is None:
        raise ValueError(NOTHING)
    X, y, weight, checked = check(state, *triple(first))
    found = begin(state, X)
    before, used, mean = found.total, found.with_rows(X, weight), np.zeros(())
    state = restate(state._replace(origin=checked.origin), used).starting(X, y, mean_of(y, weight))

    def inward(state: State, X: Any, y: Any, weight: Any) -> tuple[Any, Any, Any, State]:
        nonlocal found, mean
        X, y, weight, state = check(state, X, y, weight)
        known, found = found, used if found.total == before else found.with_rows(X, weight)
        mean = _mean(mean, found.total - before, found.total - known.total, y, weight)
        return used.inward(X), y, weight, state

    task, state = in_blocks(state, chain([first], blocks), inward, memory)
    assert task.right is not None
    move, state = Move.between(used, found), restate(state, found)
    rows = Rows.of_gram(move.both(task.rows.gram), task.rows.shape[0])
    task = task._replace(start=move.weights(task.start), rows=rows, right=move.rows(task.right.T).T)
    if state.n_tasks == 0 and state.fit_intercept:  # only now is the mean of the first targets known
        state = state._replace(coef=None).starting(X, y, mean)
        task = task.seen_from(state.weights)
    return task, state


def _mean(mean: Any, total: float, more: float, y: Any, weight: Any) -> Any:
    """Return a running mean of targets after a block of weight ``more``, ``total`` with it."""
    return mean if more == 0 else mean + (mean_of(y, weight) - mean) * (more / total)
