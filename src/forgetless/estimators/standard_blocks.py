"""A task in standardised units, which must be known before its rows can be used: of row blocks, or an encoded table."""

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

import numpy as np

from forgetless.estimators._input import Check, answers_otherwise, in_blocks, triple
from forgetless.estimators._units import Move, Units, far_from_zero, mean_of
from forgetless.estimators.counted import Encoded
from forgetless.estimators.state import Gathered, State, squares
from forgetless.solvers.rows import Rows, columns_of, is_sparse

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
    """Return the same where a block is gone once it was read: XᵀX in units of the first block, then moved."""
    first = next(blocks, None)
    if first is None:
        raise ValueError(NOTHING)
    X, y, weight, checked = check(state, *triple(first))
    known = begin(state, X)
    found = known.with_rows(X, weight)
    used = _about(found, X, weight)
    total, mean, dense = 0.0, np.zeros(()), True
    before = state
    # Only the weights are moved there: what is remembered, in single precision perhaps, is moved once, to the end.
    state = state._replace(origin=checked.origin, advisor=None, directions=None).in_units(used)
    state = state.starting(X, y, mean_of(y, weight))

    def inward(state: State, X: Any, y: Any, weight: Any) -> tuple[Any, Any, Any, State]:
        nonlocal found, mean, total, dense
        X, y, weight, state = check(state, X, y, weight)
        dense = dense and not is_sparse(X)
        more = float(X.shape[0]) if weight is None else float(weight.sum())
        if not used.centred and total > 0:
            found = found.with_rows(X, weight)
        total += more
        mean = _mean(mean, total, more, y, weight)
        return used.inward(X), y, weight, state

    task, state = in_blocks(state, chain([first], blocks), inward, memory)
    if used.centred:
        found = known.with_moments(*_moments_of(task.rows.gram, used), dense=dense)
    state = restate(before._replace(origin=state.origin, memory=state.memory), found)
    return _moved(task, used, found, state, X, y, mean)


def from_encoded(
    state: State,
    X: Encoded,
    y: Any,
    check: Check,
    begin: Callable[[State, Any], Units],
    restate: Callable[[State, Units], State],
) -> tuple[Gathered, State] | None:
    """Return the same of an encoded table that is never written down; None where that cannot be."""
    one, _, _, checked = check(state, X.block(0, 1), y[:1], None)  # its shape and type, by a row of it
    known = begin(state, one)
    if not known.centred or one.dtype != np.float64:
        return None
    rows, n = X.summed(), X.shape[0]
    gram = rows.gram()
    if not np.any(gram[:-1, :-1]):
        return None
    used = known._replace(mean=rows.center, scale=np.ones(X.shape[1]))
    found = known.with_moments(*_moments_of(gram, used), dense=True)
    before = state._replace(origin=checked.origin)
    mean = mean_of(y, None)
    state = before._replace(advisor=None, directions=None).in_units(used).starting(one, y, mean)
    start = state.start(one, y)

    def residual(weights: Any) -> Any:
        return columns_of(y) - (rows.forward(weights[:-1]) + weights[-1])

    r = residual(start)
    shown = None
    if answers_otherwise(state):
        shown = squares(residual(state.weights) if state.n_tasks else columns_of(y))
    left = np.sqrt(np.einsum("ij,ij->j", r, r))[None, :]
    targets = tuple(y.shape[1:])
    task = Gathered(start, Rows.of_gram(gram, n), left, float(n), n, targets, rows.adjoint(r), shown)
    return _moved(task, used, found, restate(before, found), one, y, mean)


def _moved(
    task: Gathered, used: Units, found: Units, state: State, X: Any, y: Any, mean: Any
) -> tuple[Gathered, State]:
    """Return a task of which XᵀX is left, in ``used`` units, in those that were ``found``, which are the state's."""
    assert task.right is not None
    constant = np.flatnonzero(found.scale == 0)  # counts as zero until it varies
    move = Move.between(used, found._replace(scale=np.where(found.scale > 0, found.scale, 1.0)))
    gram, right = move.both(task.rows.gram), move.rows(task.right.T).T
    gram[constant, :], gram[:, constant], right[constant, :] = 0.0, 0.0, 0.0
    task = task._replace(start=move.weights(task.start), rows=Rows.of_gram(gram, task.rows.shape[0]), right=right)
    if state.n_tasks == 0 and state.fit_intercept:  # only now is the mean of the first targets known
        state = state.starting(X, y, mean)
        task = task.seen_from(state.weights)
    return task, state


def _about(found: Units, X: Any, weight: Any) -> Units:
    """Return units in which XᵀX of a task, whose first block is X, loses no digits: columns far from zero are centred.

    As the first block is part of the task, the mean of the task lies at most √(1/p) of its deviations away from that of
    the first block, which has a share p of the rows; so XᵀX around the one gives that around the other. Scales lose
    nothing: numbers of any size have as many digits. So they are left as they are, also for columns that did not vary
    yet and may do so in the blocks to come.
    """
    first = Units.none(len(found.mean), centred=found.centred).with_rows(X, weight)
    far = far_from_zero(first.mean, first.scale)
    return found._replace(mean=np.where(far, first.mean, 0.0), scale=np.ones_like(found.scale))


def _moments_of(gram: Any, units: Units) -> tuple[float, Any, Any]:
    """Return weight, mean and sum of squares around it of rows from their XᵀX in some units, intercept included."""
    n, sums = float(gram[-1, -1]), gram[:-1, -1]
    with np.errstate(over="ignore", invalid="ignore"):
        spread = np.maximum(np.diag(gram)[:-1] - sums**2 / n, 0.0) * units.scale**2
        return n, units.mean + units.scale * sums / n, spread


def _mean(mean: Any, total: float, more: float, y: Any, weight: Any) -> Any:
    """Return a running mean of targets after a block of weight ``more``, ``total`` with it."""
    return mean if more == 0 else mean + (mean_of(y, weight) - mean) * (more / total)
