"""Tasks in standardized units, which must be known before rows can be used: row blocks, and encoded
tables.
"""

from collections.abc import Iterator
from itertools import chain
from typing import Any

import numpy as np

from forgetless.estimators._input import Check, in_blocks, reads_once, triple
from forgetless.estimators._units import UnitChange, Units, far_from_zero, mean_of
from forgetless.estimators.counted import Encoded
from forgetless.estimators.state import State, TaskData, sum_of_squares
from forgetless.solvers.rows import Rows, columns_of, is_sparse

_NOTHING = "blocks must hold at least one row that is not zero, got none; leave this task out"


def standardized_blocks(state: State, blocks: Any, check: Check) -> tuple[TaskData, State]:
    """Return the result of ``in_blocks`` in units that include all rows of the task.

    Blocks that can be read again are read once more.
    """
    if reads_once(blocks):
        return _read_once(state, iter(blocks), check)
    units: Units | None = None
    mean = np.zeros(())
    before = 0.0
    for block in blocks() if callable(blocks) else blocks:
        X, y, weight, checked = check(state, *triple(block))
        previous = Units.of(state, X) if units is None else units
        before = previous.total if units is None else before
        units = previous.with_rows(X, weight)
        mean = _mean(mean, units.total - before, units.total - previous.total, y, weight)
    if units is None or units.total == before:
        raise ValueError(_NOTHING)
    state = state._replace(origin=checked.origin).in_units(units).starting(X, y, mean)
    used = units

    def inward(state: State, X: Any, y: Any, weight: Any) -> tuple[Any, Any, Any, State]:
        X, y, weight, state = check(state, X, y, weight)
        return used.inward(X), y, weight, state

    return in_blocks(state, blocks, inward)


def _read_once(state: State, blocks: Iterator[Any], check: Check) -> tuple[TaskData, State]:
    """Return the same where a block can be read once: XᵀX in units of the first block, then
    converted.
    """
    first = next(blocks, None)
    if first is None:
        raise ValueError(_NOTHING)
    X, y, weight, checked = check(state, *triple(first))
    previous = Units.of(state, X)
    final = previous.with_rows(X, weight)
    used = _about(final, X, weight)
    total = 0.0
    mean = np.zeros(())
    dense = True
    before = state
    # Only the weights are converted: the memory, perhaps in float32, is converted once, to the
    # final units.
    state = state._replace(origin=checked.origin, memory=None).in_units(used)
    state = state.starting(X, y, mean_of(y, weight))

    def inward(state: State, X: Any, y: Any, weight: Any) -> tuple[Any, Any, Any, State]:
        nonlocal final, mean, total, dense
        X, y, weight, state = check(state, X, y, weight)
        dense = dense and not is_sparse(X)
        more = float(X.shape[0]) if weight is None else float(weight.sum())
        if not used.centred and total > 0:
            final = final.with_rows(X, weight)
        total += more
        mean = _mean(mean, total, more, y, weight)
        return used.inward(X), y, weight, state

    task, state = in_blocks(state, chain([first], blocks), inward)
    if used.centred:
        final = previous.with_moments(*_moments_of(task.rows.gram, used), dense=dense)
    state = before._replace(origin=state.origin, class_counts=state.class_counts).in_units(final)
    return _converted(task, used, state, X, y, mean)


def encoded_task(state: State, X: Encoded, y: Any, check: Check) -> tuple[TaskData, State] | None:
    """Return the same of an encoded table that is never written down; None where that is not
    possible.
    """
    if (
        y.dtype != np.float64
        or y.ndim not in (1, 2)
        or len(y) != X.shape[0]
        or not np.all(np.isfinite(y))
    ):
        return None
    # its shape and type, by a row of it
    one, _, _, checked = check(state, X.block(0, 1), y[:1], None)
    previous = Units.of(state, one)
    if not previous.centred or one.dtype != np.float64:
        return None
    rows = X.summed()
    n = X.shape[0]
    gram = rows.gram()
    if not np.any(gram[:-1, :-1]):
        return None
    used = previous._replace(mean=rows.center, scale=np.ones(X.shape[1]))
    final = previous.with_moments(*_moments_of(gram, used), dense=True)
    before = state._replace(origin=checked.origin)
    mean = mean_of(y, None)
    state = before._replace(memory=None).in_units(used).starting(one, y, mean)
    start = state.start(one, y)

    def residual(weights: Any) -> Any:
        return columns_of(y) - (rows.forward(weights[:-1]) + weights[-1])

    r = residual(start)
    error = None
    if state.predicts_otherwise:
        error = sum_of_squares(residual(state.weights) if state.n_tasks else columns_of(y))
    left = np.sqrt(np.einsum("ij,ij->j", r, r))[None, :]
    targets = tuple(y.shape[1:])
    task = TaskData(
        start, Rows.of_gram(gram, n), left, float(n), n, targets, rows.adjoint(r), error
    )
    return _converted(task, used, before.in_units(final), one, y, mean)


def _converted(
    task: TaskData, used: Units, state: State, X: Any, y: Any, mean: Any
) -> tuple[TaskData, State]:
    """Return a task of which XᵀX is left, in ``used`` units, in those of the state."""
    units = state.units
    assert units is not None
    assert task.right is not None
    constant = np.flatnonzero(units.scale == 0)  # counts as zero until it varies
    change = UnitChange.between(
        used, units._replace(scale=np.where(units.scale > 0, units.scale, 1.0))
    )
    gram = change.gram(task.rows.gram)
    right = change.rows(task.right.T).T
    gram[constant, :], gram[:, constant], right[constant, :] = 0.0, 0.0, 0.0
    task = task._replace(
        start=change.weights(task.start), rows=Rows.of_gram(gram, task.rows.shape[0]), right=right
    )
    # only now is the mean of the first targets known
    if state.n_tasks == 0 and state.fit_intercept:
        state = state.starting(X, y, mean)
        task = task.relative_to(state.weights)
    return task, state


def _about(units: Units, X: Any, weight: Any) -> Units:
    """Return units in which XᵀX of a task, whose first block is X, loses no digits: columns far
    from zero are centred.

    As the first block is part of the task, the mean of the task lies at most √(1/p) of its
    deviations away from that of the first block, which has a share p of the rows; so XᵀX around the
    one gives that around the other. Scales lose nothing: numbers of any size have as many digits.
    So they are left as they are, also for columns that did not vary yet and may do so in the blocks
    to come.
    """
    first = Units.none(len(units.mean), centred=units.centred).with_rows(X, weight)
    far = far_from_zero(first.mean, first.scale)
    return units._replace(mean=np.where(far, first.mean, 0.0), scale=np.ones_like(units.scale))


def _moments_of(gram: Any, units: Units) -> tuple[float, Any, Any]:
    """Return weight, mean and sum of squares around it of rows from their XᵀX in some units,
    intercept included.
    """
    n = float(gram[-1, -1])
    sums = gram[:-1, -1]
    with np.errstate(over="ignore", invalid="ignore"):
        spread = np.maximum(np.diag(gram)[:-1] - sums**2 / n, 0.0) * units.scale**2
        return n, units.mean + units.scale * sums / n, spread


def _mean(mean: Any, total: float, more: float, y: Any, weight: Any) -> Any:
    """Return a running mean of targets after a block of weight ``more``, ``total`` with it."""
    return mean if more == 0 else mean + (mean_of(y, weight) - mean) * (more / total)
