"""Tasks of one row with a memory: rows are gathered beside the directions, and cut when there is no room left.

A cut costs as much as dozens of rows. Between two of them a row costs two products with B and a small Cholesky factor;
B·Bᵀ is kept from one row to the next, and rows are written behind those that are already there.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from forgetless._base import half
from forgetless._base.arrays import Array, Floats
from forgetless.streams.directions import Directions, how_many, largest, normalised

SINGLE = 1e4
"""Up to this ratio of the largest eigenvalue to λ products in float32 give the step to three digits or more."""


class Row(NamedTuple):
    """What one row does: the change of the weights (d,), the share of the residual left, and the memory after it."""

    change: Array
    left: float
    directions: Directions


def learn_row(known: Directions, x: Array, square: float, residual: float, strength: float, rank: int) -> Row | None:
    """Return what learning a row x with ‖x‖² = ``square`` does; None where the usual path should do it."""
    from scipy.linalg import lapack

    q, room = len(known.sizes), min(rank, len(x))
    if room < 4 or q > room:
        return None
    known = _with_room(known, room + 1)
    units, gram, sizes = known.units[:q], known.gram, known.sizes
    assert gram is not None
    top = max(square, float(sizes[0]) ** 2 if q else 0.0, float(gram.diagonal()[:q].max(initial=0.0)))
    exact = known.units.dtype == np.float64
    work: Any = np.float64 if exact or top > SINGLE * strength else np.float32
    norm = math.sqrt(square)
    unit = (x / norm).astype(known.units.dtype)
    row, kept = x.astype(work, copy=False), unit.astype(work) * work(norm)  # not quite the same in half precision
    products, stored = (each.astype(np.float64) * sizes for each in _products(units, row, kept))
    system = np.empty((q + 1, q + 1))
    system[:q, :q] = gram[:q, :q]
    system[q, :q] = system[:q, q] = products
    system[q, q] = square
    shifted = system.copy()
    shifted.flat[:: q + 2] += strength
    factor, failed = lapack.dpotrf(shifted, lower=1, overwrite_a=1, clean=0)
    right = np.zeros(q + 1)
    right[q] = residual
    if failed:
        return None
    a, failed = lapack.dpotrs(factor, right, lower=1)
    if failed or not math.isfinite(a[q]):
        return None
    change = _combined((a[:q] * sizes).astype(work), units) + a[q] * x
    seen = known.seen + square
    if q < room:
        known.units[q] = unit
        gram[q, :q] = gram[:q, q] = stored
        gram[q, q] = square
        after = known._replace(sizes=np.append(sizes, norm), seen=seen)
    else:
        after = _cut(known._replace(seen=seen), system, row, rank)
    return Row(change, strength * float(a[q]), after)


def _with_room(known: Directions, count: int) -> Directions:
    """Return the memory with room for rows to come, and with its Gram matrix."""
    q = len(known.sizes)
    units, gram = known.units, known.gram
    if len(units) < count - 1:
        units = np.empty((count - 1, units.shape[1]), dtype=units.dtype)
        units[:q] = known.units[:q]
    if gram is None or len(gram) < count - 1:
        B = known.rows(np.float64 if units.dtype == np.float64 else np.float32)
        made = np.empty((count - 1, count - 1))
        made[:q, :q] = B @ B.T if gram is None else gram[:q, :q]
        gram = made
    return known._replace(units=units, gram=gram)


def _cut(known: Directions, system: Floats, x: Array, rank: int) -> Directions:
    values, vectors = largest(system)
    keep = how_many(values, rank, 1, known.units.dtype == np.float64)
    lost = float(values[keep]) if keep < len(values) else 0.0
    V = vectors[:, :keep].T.astype(x.dtype)
    made = V[:, :-1] @ known.rows(x.dtype)
    made += V[:, -1:] * x
    units, sizes = normalised(made, known.units.dtype)
    return known._replace(units=units, sizes=sizes, cut=known.cut + lost, gram=None)


def _products(units: Array, x: Array, kept: Array) -> tuple[Array, Array]:
    """Return the products of unit rows with a vector, and with the same as it is kept."""
    if units.dtype != np.float16:
        found = units.astype(x.dtype, copy=False) @ x
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
