"""One step on a one-shot task: g(XᵀX) Xᵀr of a filter g, by a solver that fits the task.

Ridge steps and budgets of gradient steps are solved by the smaller of XᵀX and XXᵀ (``_direct``).
Large tasks are solved from products with X alone (``_iterative``), and by the Gram matrix where
that is slow. Projections and filters of one's own need the spectrum of X.
"""

import functools
import math
import operator
import warnings
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from forgetless._core import validate
from forgetless._core.arrays import Array
from forgetless.errors import ConvergenceError
from forgetless.filters import Filter, GradientDescent, Projection, Ridge
from forgetless.solvers import _direct, _iterative
from forgetless.solvers.remote import RemoteRows
from forgetless.solvers.rows import DEFAULT, Limits, OneTask, Rows

SMALL_SIDE = 200
"""Side up to which a Gram matrix is always cheapest: a solve costs less than a few calls from
Python. The norm of a task is then a by-product of its solution."""

_FEW_ROWS = 50
"""Smaller side of a sparse task up to which its spectrum is cheaper than iterations."""

_GEMM = 40
"""Passes over a dense X that take as long as one column of its Gram matrix takes in a product of
matrices, divided by the side: a pass is bound by memory, a product by arithmetic."""

_REMOTE = 1e-11
"""Relative error up to which a Gram matrix from a cluster is accepted; beyond, the rows are
reduced."""


class Solution(NamedTuple):
    """The result of one step on a task."""

    change: Array  # (d, c)
    solver: str  # the one that was used
    error: float  # relative error of the change: a bound (iterative) or an estimate (direct)
    after: NDArray[np.float64]  # ‖r − X·change‖² per column


def learn(task: OneTask, filter: Filter, limits: Limits = DEFAULT) -> Solution:
    """Return the change g(XᵀX) Xᵀr of the weights in one step on a one-shot task."""
    rows, residual, right, norm = task
    size = _largest(residual) if rows.stored else 0.0
    if not math.isfinite(size):
        raise OverflowError("the residuals y − Xw exceed the largest float; rescale X or y")
    if size == 0.0:
        nothing = np.zeros((rows.shape[1], residual.shape[1]), dtype=residual.dtype)
        return Solution(nothing, "none", 0.0, _direct.squares(residual))
    if rows.used_columns is not None:
        few, columns = rows.used_columns
        solution = learn(OneTask(few, residual, norm=norm), filter, limits)
        change = np.zeros((rows.shape[1], residual.shape[1]), dtype=residual.dtype)
        change[columns] = solution.change
        return solution._replace(change=change)
    filter = Ridge(0.0) if filter == Projection() else filter
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        task = OneTask(rows, residual, rows.adjoint(residual) if right is None else right, norm)
        a, b, c = powers = _exponents(task, filter)
        if not any(powers):
            return _learn(task, filter, limits)
        # Powers of two, so that nothing is rounded: X = 2^a X', r = 2^b r', φ' = 2^c φ, δ =
        # 2^(b−a−c) δ'.
        scaled = Rows.of(_times_power(rows.single, -a)) if a else rows
        left = _times_power(residual, -b)
        right = scaled.adjoint(left) if rows.readable else _times_power(task.right, -b)
        part = _learn(OneTask(scaled, left, right), _rescaled(filter, -2 * a - c), limits)
        change = _scaled_back(part.change, b - a - c, exact=_largest(right) == 0.0)
        return part._replace(change=change, after=_times_power(part.after, 2 * b))


def _learn(task: OneTask, filter: Filter, limits: Limits) -> Solution:
    """Return the step of the first solver that serves, in the order iteration, Gram matrix,
    spectrum.
    """
    rows = task.rows
    if filter == Ridge(0.0):
        iterate = rows.sparse and rows.small_side > _FEW_ROWS
        iterate = iterate or (rows.in_parts and rows.readable) or not _spectrum_fits(rows, limits)
        patience = limits.passes if iterate and (rows.readable or rows.remote) else 0
    else:
        patience = _patience(rows, limits)
    if patience and isinstance(filter, Ridge | GradientDescent):
        solved = _by_iteration(task, filter, limits._replace(passes=patience))
        if solved is not None:
            return Solution(solved.change, "iterative", solved.error, solved.after)
        if not _gram_fits(rows, limits):
            raise _not_converged(rows, filter, limits)
    by_gram = _by_remote_gram if rows.remote else _by_gram
    direct = by_gram(task, filter, limits.memory)
    if direct is not None:
        return Solution(direct.change, "gram", direct.error, direct.after)
    if isinstance(rows, RemoteRows):
        return _reduced(task, rows, filter, limits)
    return _by_spectrum(task, filter, limits.memory)


def _patience(rows: Rows, limits: Limits) -> int:
    """Return the passes that an iteration may take before the Gram matrix replaces it; 0 for none.

    About the time that the Gram matrix takes. Blocks are read again at every pass: one pass for a
    Gram matrix is cheaper than many.
    """
    if not _gram_fits(rows, limits):
        return limits.passes if rows.readable or rows.remote else 0
    if rows.has_gram or rows.small_side <= SMALL_SIDE or (rows.in_parts and not rows.remote):
        return 0
    passes = rows.small_side if rows.sparse else rows.small_side // _GEMM
    return min(passes, limits.passes)


def _gram_fits(rows: Rows, limits: Limits) -> bool:
    """Return whether the Gram matrix and its factorization are within the memory limit."""
    return 24 * rows.small_side**2 <= limits.memory


def _spectrum_bytes(rows: Rows) -> int:
    return 24 * rows.shape[0] * rows.shape[1]


def _spectrum_fits(rows: Rows, limits: Limits) -> bool:
    return not rows.in_parts and _spectrum_bytes(rows) <= limits.memory


def _by_iteration(
    task: OneTask, filter: Ridge | GradientDescent, limits: Limits
) -> _direct.Solved | None:
    """Return the step of an iteration; None where a factorization is to replace it."""
    if isinstance(filter, GradientDescent):
        n_steps = int(filter.n_steps)
        if n_steps > limits.passes:
            return None
        return _iterative.gradient_steps(task, n_steps, float(filter.step_size))
    solved = _iterative.ridge(task, float(filter.coefficient), limits)
    if solved is None or solved.error > max(2 * limits.tol, _promised(task.residual)):
        return None
    return solved


def _by_remote_gram(task: OneTask, filter: Filter, memory: int) -> _direct.Solved | None:
    try:
        solved = _by_gram(task, filter, memory)
    except ConvergenceError:
        return None
    limit = max(_REMOTE, 30 * _direct.eps_of(task.residual))
    return solved if solved is not None and solved.error <= limit else None


def _reduced(task: OneTask, rows: RemoteRows, filter: Filter, limits: Limits) -> Solution:
    """Return the step on an equivalent task of few rows, in memory."""
    if not _gram_fits(rows, limits):
        raise _not_converged(rows, filter, limits)
    X, residual = rows.reduced()
    return learn(OneTask(Rows.of(X), residual, norm=task.norm), filter, limits)


def _promised(residual: Array) -> float:
    """Return the relative error up to which an iteration is accepted; larger for float32."""
    return _direct.ACCURACY if _direct.eps_of(residual) < 1e-10 else 1e-4


def _not_converged(rows: Rows, filter: Filter, limits: Limits) -> ConvergenceError:
    return ConvergenceError(
        f"{limits.passes} passes over a task of shape {rows.shape} with {filter!r} did not reach a"
        f" relative error of {limits.tol:g}, and a Gram matrix would take more than"
        f" memory={limits.memory:,} bytes; use a larger coefficient or fewer steps, or a larger"
        " tol"
    )


def _by_spectrum(task: OneTask, filter: Filter, memory: int) -> Solution:
    rows = task.rows
    if rows.in_parts:
        raise ConvergenceError(
            f"the filter {filter!r} needs a spectrum of all rows together, which blocks do not"
            " give; use a larger coefficient, or give the task as one array"
        )
    needed = _spectrum_bytes(rows)
    if needed > memory:
        raise ConvergenceError(
            f"{filter!r} on a task of shape {rows.shape} needs its spectrum, which takes {needed:,}"
            f" bytes, more than memory={memory:,}; use a larger coefficient"
        )
    direct, unknown = _direct.spectral(task, filter)
    if unknown > _direct.ACCURACY:
        from scipy.linalg import LinAlgWarning

        warnings.warn(
            f"the step is known to a relative {unknown:.1g} only: the task is ill-conditioned and"
            f" {filter!r} hardly regularizes it; use a larger coefficient, or drop features that"
            " repeat others",
            LinAlgWarning,
            stacklevel=4,
        )
    return Solution(direct.change, "svd", direct.error, direct.after)


def _by_gram(task: OneTask, filter: Filter, memory: int) -> _direct.Solved | None:
    if filter == Ridge(0.0) and task.rows.readable:
        return None
    if isinstance(filter, Ridge):
        return _direct.cholesky(task, float(filter.coefficient), memory)
    if isinstance(filter, GradientDescent):
        solved = _direct.eigen(task, filter)
        return solved if solved.error <= max(1e-9, _promised(task.residual)) else None
    return None


def task_norm(rows: Rows) -> float:
    """Return ‖X‖₂: exact to rounding where the smaller Gram matrix is small, else to six digits."""
    if rows.single is not None:
        largest = _largest_entry(rows)
        if largest == 0.0:
            return 0.0
        a = _exponent(largest, rows.single.data if rows.sparse else rows.single)
        if a:
            return float(_times_power(task_norm(Rows.of(_times_power(rows.single, -a))), a))
    if rows.used_columns is not None:
        return task_norm(rows.used_columns[0])
    # The rows on a cluster, and large sparse ones, are multiplied with vectors instead.
    fits = 24 * rows.small_side**2 <= validate.FACTORIZATION_LIMIT
    iterate = rows.small_side > SMALL_SIDE and (rows.sparse or rows.remote or not fits)
    if iterate and not rows.has_gram:
        return _iterative.norm(rows)
    if rows.small_side > SMALL_SIDE:
        return math.sqrt(_iterative.norm(Rows.of(rows.gram)))
    return math.sqrt(max(float(np.linalg.eigvalsh(rows.gram)[-1]), 0.0))


# Tasks whose squares overflow or underflow are scaled by powers of two, which is exact.


# steps with φ up to 2^−90 are as good as linear in φ, and still far from the smallest floats
_WEAK = 90


def _exponents(task: OneTask, filter: Filter) -> tuple[int, int, int]:
    """Return the powers of two by which X, r and 1/φ are scaled down; 0 where all squares are
    floats anyway.
    """
    rows, residual, right, _ = task
    if rows.remote:
        # the residuals are on the workers; ``reduced`` returns rows in memory, which are scaled
        return 0, 0, 0
    size = _largest(residual)
    product = _largest(right)
    b = _exponent(size, residual)
    if rows.single is None or not isinstance(filter, Ridge | GradientDescent):
        return 0, b, 0  # other filters are solved by the spectrum, which scales X itself
    # The quotient is at most √n‖X‖: without it X and r may be far apart while neither r nor Xᵀr is
    # unusual. φ'(0)·Xᵀr is the size of a weak step.
    strength = float(filter.strength())
    weak = 0 < product < 1e-100 * strength
    if not (b or weak or _exponent(product, right) or _exponent(product / size, right)):
        return 0, 0, 0
    # All of X is read only now; an entry without effect on Xᵀr would show as an infinite Gram
    # matrix later.
    largest = _largest_entry(rows)
    if not (largest and strength):
        return _exponent(largest, residual), b, 0
    # log₂ φ, roughly
    power = 2 * math.log2(largest) - math.log2(strength)
    return _exponent(largest, residual), b, max(0, -_WEAK - math.ceil(power)) if power < 0 else 0


def _exponent(size: float, like: Array) -> int:
    """Return the exponent of a size that is too large or small to be squared and summed in the
    dtype of ``like``.
    """
    # The step is of the size of r/X, and its square must be a float too: 1e30 leaves room for
    # strengths of any size.
    limit = 1e30 if _direct.eps_of(like) < 1e-10 else 1e12
    if not math.isfinite(size):
        return 1  # only Xᵀr can be infinite, and it is not scaled itself
    return 0 if size == 0 or 1 / limit < size < limit else math.frexp(size)[1]


def _largest_entry(rows: Rows) -> float:
    """Return the largest absolute entry of X, which must be one matrix."""
    return _largest(rows.single.data if rows.sparse else rows.single) if rows.stored else 0.0


def _largest(array: Array) -> float:
    """Return the largest absolute value; NaN stays NaN."""
    return max(float(np.max(array)), -float(np.min(array)))


def _times_power(array: Any, power: int) -> Any:
    """Return array · 2^power."""
    return functools.reduce(operator.mul, _powers_of_two(power), array)


def _rescaled(filter: Filter, power: int) -> Filter:
    """Return the filter with its strength times 2^power, which acts on 2^(power/2) X as ``filter``
    does on X.
    """
    return functools.reduce(
        lambda scaled, factor: scaled.scaled(factor), _powers_of_two(power), filter
    )


def _powers_of_two(power: int) -> list[float]:
    """Return factors of 2^power, which may itself overflow."""
    step = 1000 if power > 0 else -1000
    return [2.0**step] * (power // step) + [2.0 ** (power - power // step * step)]


def _scaled_back(change: Array, power: int, exact: bool) -> Array:
    """Return 2^power · change; raises an error where it left the range of a float, before or
    after.
    """
    smallest = 0.0 if exact else float(np.finfo(change.dtype).tiny)
    if not _largest(change) >= smallest:
        raise ConvergenceError(
            "X, y and the strength are of sizes too far apart for a step; rescale X or y"
        )
    result = _times_power(change, power)
    if not math.isfinite(_largest(result)):
        raise OverflowError("the weights after this step exceed the largest float; rescale X or y")
    return result
