"""Tasks whose squares leave the range of a float are scaled by powers of two, so that nothing is rounded."""

import math
from typing import Any

from forgetless._core.arrays import Array, eps_of, namespace_of
from forgetless.filters import Filter, GradientDescent, Ridge
from forgetless.solvers.inputs import OneTask
from forgetless.solvers.rows import Rows


def exponents(task: OneTask, filter: Filter) -> tuple[int, int]:
    """Return the powers of two by which X and r are scaled down, from Xᵀr; 0 where their squares are floats anyway."""
    rows, residual, right, _ = task
    if not rows.readable:
        return 0, 0
    size, product = largest(residual), largest(right)
    b = exponent(size, residual)
    # The quotient is at most √n‖X‖: without it X and r may be far apart while neither r nor Xᵀr is unusual.
    if rows.single is None or not (b or exponent(product, right) or exponent(product / size, right)):
        return 0, b
    if not isinstance(filter, Ridge | GradientDescent):
        return 0, b  # served by the spectrum, which scales X itself
    # All of X is looked at only now; an entry that hides from Xᵀr shows as an infinite Gram matrix later on.
    return exponent(largest_entry(rows), residual), b


def exponent(size: float, like: Array) -> int:
    """Return the exponent of a size that is too large or small to be squared and summed in the dtype of ``like``."""
    limit = 1e100 if eps_of(like) < 1e-10 else 1e12
    if not math.isfinite(size):
        return 1  # only an entry of Xᵀr can be infinite, and that is not what is scaled
    return 0 if size == 0 or 1 / limit < size < limit else math.frexp(size)[1]


def largest_entry(rows: Rows) -> float:
    """Return the largest absolute entry of X, which must be one matrix."""
    return largest(rows.single.data if rows.sparse else rows.single) if rows.stored else 0.0


def largest(array: Array) -> float:
    """Return the largest absolute value; NaN stays NaN."""
    xp = namespace_of(array)
    return max(float(xp.max(array)), -float(xp.min(array)))


def times_power(array: Any, exponent: int) -> Any:
    """Return array · 2^exponent, in two factors since the power alone may leave the range of a float."""
    half = exponent // 2
    return array * math.ldexp(1.0, half) * math.ldexp(1.0, exponent - half)


def rescaled(filter: Filter, exponent: int) -> Filter:
    """Return the filter that does to X what ``filter`` does to 2^exponent X."""
    root = math.ldexp(1.0, -exponent)  # twice, since its square may leave the range of a float
    return filter.scaled(root).scaled(root)
