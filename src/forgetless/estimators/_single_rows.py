"""Tasks of one row with a memory: rows are gathered beside the directions, and cut when there is no room left.

A cut costs as much as dozens of rows. Between two of them a row costs two products with B and two triangular solves:
the Cholesky factor of B·Bᵀ + λ is kept from one row to the next, and rows are written behind those already there.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from forgetless._core import half
from forgetless._core.arrays import Array, Floats
from forgetless.estimators.directions import Directions, how_many, largest, normalised

SINGLE = 1e4
"""Up to this ratio of the largest eigenvalue to λ products in float32 give the step to three digits or more."""

EXACT = 1e8
"""Up to this ratio the factor gives the step to nine digits or more, as is promised for a memory in float64."""

SHIFTED = 1e4
"""Up to this ratio of λ to the largest eigenvalue B·Bᵀ + λ tells B·Bᵀ to twelve digits."""


class Row(NamedTuple):
    """What one row does: the change of the weights (d,), the share of the residual left, and the memory after it."""

    change: Array
    left: float
    directions: Directions


def learn_row(known: Directions, x: Array, square: float, residual: float, strength: float, rank: int) -> Row | None:
    """Return what learning a row x with ‖x‖² = ``square`` does; None where the usual path should do it."""
    q, room = len(known.sizes), min(rank, len(x))
    exact = known.units.dtype == np.float64
    if room < 4 or q > room or (exact and max(square, _top(known)) > EXACT * strength):
        return None
    prepared = _with_factor(_with_room(known, room), strength, room)
    if prepared is None:
        return None
    known = prepared
    units, sizes, factor = known.units[:q], known.sizes, known.factor
    assert factor is not None
    work = _dtype(known, strength, square)
    norm = math.sqrt(square)
    row = x.astype(work, copy=False)
    unit = _stored(x, norm, known.units.dtype)
    kept = row if exact else _as(unit, work) * work(norm)  # not quite the same in half precision
    products, stored = (each.astype(np.float64) * sizes for each in _products(units, row, kept))
    along = _solved(factor, products)
    pivot = square + strength - float(along @ along)
    if not pivot > 0.5 * strength:  # it is λ and more, but for rounding
        return None
    gain = residual / pivot
    back = _solved(factor, along, transposed=True)
    change = _combined((-gain * back * sizes).astype(work), units) + gain * x
    seen = known.seen + square
    if q < room:
        beside = _solved(factor, stored)
        corner = float(kept @ kept) + strength - float(beside @ beside)
        if not corner > 0.5 * strength:
            return None
        known.units[q] = unit
        factor[q, :q], factor[q, q] = beside, math.sqrt(corner)
        after = known._replace(sizes=np.append(sizes, norm), seen=seen)
    else:
        system = np.empty((q + 1, q + 1))
        system[:q, :q] = _gram(known, strength)
        system[q, :q] = system[:q, q] = products
        system[q, q] = square
        after = _cut(known._replace(seen=seen), system, row, rank)
    return Row(change, strength * gain, after)


def _with_room(known: Directions, count: int) -> Directions:
    """Return the memory with room for rows to come."""
    q = len(known.sizes)
    if len(known.units) >= count:
        return known
    units = np.empty((count, known.units.shape[1]), dtype=known.units.dtype)
    units[:q] = known.units[:q]
    return known._replace(units=units)


def _with_factor(known: Directions, strength: float, count: int) -> Directions | None:
    """Return the memory with the Cholesky factor of B·Bᵀ + λ; None where rounding leaves none."""
    q, factor = len(known.sizes), known.factor
    if factor is not None and known.shift == strength and len(factor) >= count:
        return known
    gram = _gram(known, strength)
    gram.flat[:: q + 1] += strength
    made = np.zeros((count, count), order="F")
    try:
        made[:q, :q] = np.linalg.cholesky(gram)
    except np.linalg.LinAlgError:
        return None
    return known._replace(factor=made, shift=strength)


def _gram(known: Directions, strength: float) -> Floats:
    """Return B·Bᵀ: from the factor where that tells it, or from the rows, as exactly as a step with λ needs it."""
    q = len(known.sizes)
    if known.factor is not None and known.shift <= SHIFTED * _top(known):
        lower = np.tril(known.factor[:q, :q])
        found: Floats = lower @ lower.T
        found.flat[:: q + 1] -= known.shift
        return found
    dtype = _dtype(known, strength)
    U = known.unit_rows(dtype).astype(dtype, copy=False)
    found = (U @ U.T).astype(np.float64)
    found *= known.sizes[:, None] * known.sizes
    return found


def _dtype(known: Directions, strength: float, square: float = 0.0) -> Any:
    """Return the dtype of products with the rows, and with one more of ‖x‖² = ``square``."""
    exact = known.units.dtype == np.float64 or max(square, _top(known)) > SINGLE * strength
    return np.float64 if exact else np.float32


def _top(known: Directions) -> float:
    """Return about the largest eigenvalue of B·Bᵀ."""
    return float(known.sizes.max(initial=0.0)) ** 2


def _solved(factor: Floats, right: Floats, *, transposed: bool = False) -> Floats:
    """Return L⁻¹ or L⁻ᵀ times a vector, L being the corner of the factor that the vector fits."""
    from scipy.linalg import blas

    q = len(right)
    return np.asarray(blas.dtrsv(factor[:q, :q], right, lower=1, trans=int(transposed))) if q else right


def _cut(known: Directions, system: Floats, x: Array, rank: int) -> Directions:
    values, vectors = largest(system)
    keep = how_many(values, rank, 1, known.units.dtype == np.float64)
    lost = float(values[keep]) if keep < len(values) else 0.0
    V = vectors[:, :keep].T
    # Sizes are put to the vectors, which are few, rather than to the rows.
    made = (V[:, :-1] * known.sizes).astype(x.dtype) @ known.unit_rows(x.dtype).astype(x.dtype, copy=False)
    made += V[:, -1:].astype(x.dtype) * x
    units, sizes = normalised(made, known.units.dtype)
    return known._replace(units=units, sizes=sizes, cut=known.cut + lost, factor=None)


def _stored(x: Array, norm: float, dtype: Any) -> Array:
    """Return a row divided by its norm as it is kept."""
    if dtype == np.float16:
        return half.to_half(np.divide(x, norm, dtype=np.float32, casting="same_kind"))
    return (x / norm).astype(dtype)


def _as(unit: Array, dtype: Any) -> Array:
    """Return a row that is kept in the dtype to compute with."""
    return half.to_single(unit).astype(dtype, copy=False) if unit.dtype == np.float16 else unit.astype(dtype)


def _products(units: Array, x: Array, kept: Array) -> tuple[Array, Array]:
    """Return the products of unit rows with a vector, and with the same as it is kept."""
    if units.dtype == x.dtype:
        found = units @ x
        return found, found
    if x.dtype == np.float32:
        return half.products(units, x, kept)
    wide = units.astype(x.dtype)
    return wide @ x, wide @ kept


def _combined(weights: Array, units: Array) -> Array:
    """Return a weighted sum of unit rows."""
    if units.dtype == np.float16 and weights.dtype == np.float32:
        return half.combined(weights, units)
    return weights @ units.astype(weights.dtype, copy=False)
