"""Short path for tasks of one row: the state after the row without the overhead of the general
path.

With a memory, rows are appended to its vectors, and truncated when there is no room left. A
truncation costs as much as dozens of rows. Between two of them a row costs two products with B and
two triangular solves: the Cholesky factor of B·Bᵀ + λ is carried from one row to the next, and rows
are written behind those already there.
"""

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from forgetless._core.arrays import Array, Floats
from forgetless._core.averages import next_total
from forgetless.estimators.low_rank import Subspace, leading, normalized, truncation_rank
from forgetless.estimators.state import Iterate, State

if TYPE_CHECKING:
    from forgetless.estimators.rules import Scheduled

SINGLE = 1e4
"""Up to this ratio of the largest eigenvalue to λ products in float32 give the step to three digits
or more."""

EXACT = 1e8
"""Up to this ratio the factor gives the step to nine digits or more, as is promised for a memory in
float64."""

SHIFTED = 1e4
"""Up to this ratio of λ to the largest eigenvalue B·Bᵀ + λ determines B·Bᵀ to twelve digits."""


def step_row(rule: "Scheduled", state: State, X: Any, y: Any) -> State | None:  # noqa: C901, PLR0912
    """Return the state after a task of one row; None where the general path has to learn it or to
    raise an error.
    """
    (
        origin,
        history,
        coef,
        intercept,
        n_tasks,
        radius,
        _,
        memory,
        plan,
        iterate,
        _,
        counts,
        _,
        _,
        _,
        _,
    ) = state
    if not _is_plain(state, X, y) or (memory is None) != (rule.memory is None):
        return None
    x, dtype, fit_intercept = X[0], coef.dtype, state.fit_intercept
    square = float(x.dot(x))  # looking up a method is faster than an operator
    if not 1e-10 < square < 1e30:
        return None
    average, before = (coef, intercept), y.item() - float(x.dot(coef))
    # of the prediction; the same as ``before`` where that is the last iterate
    error = before - float(intercept)
    if iterate is not None:
        weights = iterate.weights[:, 0]
        coef, intercept = (weights[:-1], weights[-1]) if fit_intercept else (weights, 0.0)
        before = y.item() - float(x.dot(coef))
    if not (-1e20 < before < 1e20 and -1e20 < error < 1e20):
        return None
    if fit_intercept:
        before -= float(intercept)
        square += 1.0
    radius = max(radius, math.sqrt(square))
    used = radius if rule.options.radius is None else rule.options.radius
    used = math.sqrt(square) if rule.strength.per_task else used
    task = n_tasks + 1
    strength = rule.strength.ready_coefficient(task, used)
    if not 0.0 <= strength < 1e30:
        return None
    if memory is None:
        gain = before / (square + strength)
        # digits would be lost below the range of a float
        if -1e-290 < gain < 1e-290 and before != 0.0:
            return None
        after = before - gain * square
        change, last = x * gain, gain
    else:
        row = np.append(x, x.dtype.type(1.0)) if fit_intercept else x
        step = _learn_with_memory(rule.memory, memory, row, square, before, strength)
        if step is None:
            return None
        change, after, memory = step
        change, last = (change[:-1], change[-1]) if fit_intercept else (change, 0.0)
    coef = (coef + change).astype(dtype, copy=False)
    if fit_intercept:
        intercept = dtype.type(intercept + last)
    history = history.with_row((task, 1, strength, used, error * error, after * after, 0.0), 1.0)
    if iterate is not None:
        total = next_total(iterate.total, origin.fixed["average"], task)
        weights = np.append(coef, intercept) if fit_intercept else coef
        iterate = Iterate(weights[:, None], total)
        coef = average[0] + (coef - average[0]) / total
        intercept = (
            dtype.type(average[1] + (intercept - average[1]) / total) if fit_intercept else 0.0
        )
    parts = (
        origin,
        history,
        coef,
        intercept,
        task,
        radius,
        None,
        memory,
        plan,
        iterate,
        None,
        counts,
    )
    return tuple.__new__(State, (*parts, None, None, None, 0.0))


def _is_plain(state: State, X: Any, y: Any) -> bool:
    """Return whether X and y are one row of the type, dtype and shape that the general path has
    established.

    Finiteness shows in the two inner products.
    """
    coef, origin = state.coef, state.origin
    return (
        type(X) is np.ndarray
        and type(y) is np.ndarray
        and type(coef) is np.ndarray
        and coef.ndim == 1
        and X.shape == (1, origin.n_features)
        and y.shape == (1,)
        and X.dtype == y.dtype == coef.dtype
        and state.ranges is None
        and state.units is None
        and origin.feature_names is None
    )


def _learn_with_memory(
    options: Any, memory: Subspace, x: Array, square: float, residual: float, strength: float
) -> "Row | None":
    if options.diagonal or not strength > 0 or residual == 0.0:
        return None
    return learn_row(memory.decayed(options.decay), x, square, residual, strength, options.rank)


class Row(NamedTuple):
    """Result of a row: the change of the weights (d,), the residual after it, and the memory after
    it.
    """

    change: Array
    left: float
    memory: Subspace


def learn_row(
    memory: Subspace, x: Array, square: float, residual: float, strength: float, rank: int
) -> Row | None:
    """Return the result of learning a row x with ‖x‖² = ``square``; None where the general path has
    to do it.
    """
    q, room = len(memory.norms), min(rank, len(x))
    double = memory.vectors.dtype == np.float64
    if room < 4 or q > room or (double and max(square, _top(memory)) > EXACT * strength):
        return None
    prepared = _with_factor(_with_room(memory, room), strength, room)
    if prepared is None:
        return None
    memory = prepared
    vectors, norms, factor = memory.vectors[:q], memory.norms, memory.factor
    assert factor is not None
    work = _dtype(memory, strength, square)
    norm = math.sqrt(square)
    row = x.astype(work, copy=False)
    unit = (x / norm).astype(memory.vectors.dtype)
    stored = row if double else unit.astype(work) * work(norm)  # rounded to float32
    products = (vectors @ row).astype(np.float64) * norms
    along = _solved(factor, products)
    pivot = square + strength - float(along @ along)
    if not pivot > 0.5 * strength:  # it is λ and more, but for rounding
        return None
    gain = residual / pivot
    back = _solved(factor, along, transposed=True)
    change = (-gain * back * norms).astype(work) @ vectors.astype(work, copy=False) + gain * x
    trace = memory.trace + square
    if q < room:
        beside = (
            along
            if vectors.dtype == work
            else _solved(factor, (vectors.astype(work) @ stored) * norms)
        )
        corner = float(stored @ stored) + strength - float(beside @ beside)
        if not corner > 0.5 * strength:
            return None
        memory.vectors[q] = unit
        factor[q, :q], factor[q, q] = beside, math.sqrt(corner)
        after = memory._replace(norms=np.append(norms, norm), trace=trace)
    else:
        system = np.empty((q + 1, q + 1))
        system[:q, :q] = _gram(memory, strength)
        system[q, :q] = system[:q, q] = products
        system[q, q] = square
        after = _truncated(memory._replace(trace=trace), system, row, rank)
    return Row(change, strength * gain, after)


def _with_room(memory: Subspace, count: int) -> Subspace:
    """Return the memory with room for rows to come."""
    q = len(memory.norms)
    if len(memory.vectors) >= count:
        return memory
    vectors = np.empty((count, memory.vectors.shape[1]), dtype=memory.vectors.dtype)
    vectors[:q] = memory.vectors[:q]
    return memory._replace(vectors=vectors)


def _with_factor(memory: Subspace, strength: float, count: int) -> Subspace | None:
    """Return the memory with the Cholesky factor of B·Bᵀ + λ; None where rounding leaves none."""
    q, factor = len(memory.norms), memory.factor
    if factor is not None and memory.shift == strength and len(factor) >= count:
        return memory
    gram = _gram(memory, strength)
    gram.flat[:: q + 1] += strength
    factor = np.zeros((count, count), order="F")
    try:
        factor[:q, :q] = np.linalg.cholesky(gram)
    except np.linalg.LinAlgError:
        return None
    return memory._replace(factor=factor, shift=strength)


def _gram(memory: Subspace, strength: float) -> Floats:
    """Return B·Bᵀ: from the factor where that is accurate, else from the rows, as exactly as a step
    with λ needs it.
    """
    q = len(memory.norms)
    if memory.factor is not None and memory.shift <= SHIFTED * _top(memory):
        lower = np.tril(memory.factor[:q, :q])
        gram: Floats = lower @ lower.T
        gram.flat[:: q + 1] -= memory.shift
        return gram
    dtype = _dtype(memory, strength)
    U = memory.unit_rows(dtype)
    gram = (U @ U.T).astype(np.float64)
    gram *= memory.norms[:, None] * memory.norms
    return gram


def _dtype(memory: Subspace, strength: float, square: float = 0.0) -> Any:
    """Return the dtype of products with the rows, and with one more of ‖x‖² = ``square``."""
    exact = memory.vectors.dtype == np.float64 or max(square, _top(memory)) > SINGLE * strength
    return np.float64 if exact else np.float32


def _top(memory: Subspace) -> float:
    """Return about the largest eigenvalue of B·Bᵀ."""
    return float(memory.norms.max(initial=0.0)) ** 2


def _solved(factor: Floats, right: Floats, *, transposed: bool = False) -> Floats:
    """Return L⁻¹ or L⁻ᵀ times a vector, L being the corner of the factor that the vector fits."""
    from scipy.linalg import blas

    q = len(right)
    return (
        np.asarray(blas.dtrsv(factor[:q, :q], right, lower=1, trans=int(transposed)))
        if q
        else right
    )


def _truncated(memory: Subspace, system: Floats, x: Array, rank: int) -> Subspace:
    values, vectors = leading(system)
    V = vectors[:, : truncation_rank(values, rank, 1, memory.vectors.dtype == np.float64)].T
    # Norms are multiplied into the vectors, which are few, rather than into the rows.
    rows = (V[:, :-1] * memory.norms).astype(x.dtype) @ memory.unit_rows(x.dtype)
    rows += V[:, -1:].astype(x.dtype) * x
    units, norms = normalized(rows, memory.vectors.dtype)
    return memory._replace(vectors=units, norms=norms, factor=None)
