"""Factorisations of one task: Cholesky of the smaller Gram matrix, its eigenvectors, or the
spectrum of X.

A Gram matrix squares the condition of a task. LAPACK's estimate of it decides: up to ``_SAFE`` the
loss of digits does not matter; beyond, the solution is refined with residuals computed from X
itself, and from exact sums where even these are not accurate enough.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from forgetless._core import linalg
from forgetless._core.arrays import Array
from forgetless.errors import ConvergenceError
from forgetless.filters import Filter
from forgetless.solvers.rows import OneTask, Rows

EPS = float(np.finfo(np.float64).eps)
_SAFE = 1e5  # condition of the Gram matrix up to which its Cholesky factor alone gives ten digits
_HOPELESS = 1e13  # condition beyond which refinement with a Cholesky factor does not converge
# entries up to which tasks are refined with exact sums, about 0.1 µs an entry
_EXACT_ENTRIES = 10**7
ACCURACY = 1e-8  # largest relative error of a step that is accepted


class Solved(NamedTuple):
    """The change of the weights, its relative error (estimated), and ‖r − Xδ‖² per column."""

    change: Array
    error: float
    after: NDArray[np.float64]


class _Factor(NamedTuple):
    """A solver of XᵀX + λ, its 1-norm, and its reciprocal condition."""

    solve: Callable[[Array], Array]
    norm1: float
    rcond: float


def cholesky(task: OneTask, coefficient: float, memory: int) -> Solved | None:
    """Return (XᵀX + λ)⁻¹Xᵀr from a Cholesky factor; None if the Gram matrix is too close to
    singular for one.
    """
    from scipy.linalg import lapack

    rows, residual, right, _ = task
    system = np.array(rows.gram)
    gram_norm1 = float(np.abs(system).sum(axis=0).max())
    norm1 = gram_norm1 + coefficient
    if not math.isfinite(norm1):
        return None
    system.flat[:: system.shape[0] + 1] += coefficient
    factor, info = lapack.dpotrf(system.T, lower=1, overwrite_a=1, clean=0)
    if info != 0:
        return None
    rcond, _ = lapack.dpocon(factor, norm1, uplo="L")
    if rcond * _HOPELESS < 1:
        return None

    def gram_solve(b: Array) -> Array:
        # A single row or feature is one division; the square of a square root would be off by a
        # rounding.
        return (
            b / (rows.gram[0, 0] + coefficient)
            if len(factor) == 1
            else lapack.dpotrs(factor, b, lower=1)[0]
        )

    if not rows.dual:
        right = _in_float64(rows, residual, right)
        change = gram_solve(right)
        solve = gram_solve
    else:
        weights = gram_solve(residual.astype(np.float64, copy=False))
        change = rows.adjoint(weights)

        def solve(b: Array) -> Array:  # Woodbury
            return (b - rows.adjoint(gram_solve(rows.forward(b)))) / coefficient

    if rcond * _SAFE >= 1 or not rows.readable:
        if rcond * ACCURACY < 10 * EPS:
            raise ConvergenceError(
                f"the rows were read once and their XᵀX + {coefficient:.3g} is too ill-conditioned"
                f" to solve to {ACCURACY:g}; give blocks that can be read again (a list, or a"
                " function that returns an iterator)"
            )
        if rows.dual:
            after = squares(coefficient * weights)
            cancelled = _cancelled(gram_norm1, weights, change)
        else:
            after = (
                squares(residual) - np.sum(right * change, axis=0) - coefficient * squares(change)
            )
            cancelled = _cancelled(gram_norm1, residual, right)
        return Solved(
            change,
            10 * EPS * cancelled / rcond + _data_error(residual, 1 / rcond),
            np.maximum(after, 0.0),
        )
    return _refine(task, coefficient, change, _Factor(solve, norm1, rcond), memory)


def _in_float64(rows: Rows, residual: Array, right: Array) -> Array:
    """Return Xᵀr with the accuracy of a Gram matrix in float64: not from float32 products, where
    avoidable.
    """
    if isinstance(right, np.ndarray) and right.dtype != np.float64 and rows.readable:
        return rows.adjoint_in_float64(residual)
    return _float64(right)


def _cancelled(gram_norm: float, vectors: Array, products: Array) -> float:
    """Return ‖X‖‖v‖ / ‖Xᵀv‖, the cancellation in the products: their rounding is relative to
    ‖X‖‖v‖.
    """
    before, after = (math.sqrt(float(np.sum(squares(part)))) for part in (vectors, products))
    return max(1.0, math.sqrt(gram_norm) * before / after) if after > 0 else 1.0


def _data_error(residual: Array, condition: float) -> float:
    """Return the effect of the rounding of a float32 residual on the step; 0 for float64."""
    eps = eps_of(residual)
    return 0.0 if eps < 1e-10 else eps * math.sqrt(condition)


def _refine(
    task: OneTask, coefficient: float, change: Array, factor: _Factor, memory: int
) -> Solved:
    rows, residual, _, _ = task
    solve, norm1, rcond = factor
    exact = False
    for _ in range(12):
        left = residual - rows.forward(change)
        size = math.sqrt(float(np.sum(squares(change))))
        # The first-order effect on δ of the rounding of the residual Xᵀ(r − Xδ) − λδ.
        grain = math.sqrt(norm1) * math.sqrt(float(np.sum(squares(left)))) + coefficient * size
        floor = 4 * EPS * grain / (rcond * norm1 * size) if size > 0 else 0.0
        if not exact and floor > 0.1 * ACCURACY:
            entries = rows.shape[0] * rows.shape[1]
            exact = not rows.in_parts and entries <= _EXACT_ENTRIES and 32 * entries <= memory
        if exact:
            correction = solve(_exact_residual(rows.whole(), residual, change, coefficient))
        else:
            correction = solve(rows.adjoint(left) - coefficient * change)
        change = change + correction
        change_size = math.sqrt(float(np.sum(squares(correction)))) / size if size > 0 else 0.0
        if change_size <= 1e-11:
            break
    error = change_size + (EPS if exact else floor)
    if error > ACCURACY:
        raise ConvergenceError(
            f"this task is too ill-conditioned: with the coefficient {coefficient:.3g},"
            f" {coefficient / norm1:.1g} of the task's squared norm, the step is known to a"
            f" relative {error:.1g} only; use a larger coefficient, or drop features that repeat"
            " others"
        )
    return Solved(
        change, error + _data_error(residual, 1 / rcond), squares(residual - rows.forward(change))
    )


def _exact_residual(X: Any, residual: Array, change: Array, coefficient: float) -> Array:
    """Return Xᵀ(r − Xδ) − λδ from products and sums without rounding error, rounded once at the
    end.
    """
    X = np.asarray(X, dtype=np.float64)
    columns = []
    for r, x in zip(residual.T, change.T, strict=True):
        high, low = _exact_product(-X, x, r)
        right, error = _exact_product(X.T, high, np.zeros(len(x)))
        extra = _two_product(np.full_like(x, coefficient), -x)
        # The two large parts nearly cancel, so that their sum is exact; anything added before would
        # round them.
        columns.append((right + extra[0]) + (error + X.T @ low + extra[1]))
    return np.stack(columns, axis=1)


def _exact_product(A: Array, x: Array, b: Array) -> tuple[Array, Array]:
    """Return b + A x as the sum of two vectors, correct to twice the working precision."""
    high = np.empty(len(b))
    low = np.empty(len(b))
    for i, row in enumerate(A):
        products, errors = _two_product(row, x)
        terms = [float(b[i]), *products.tolist(), *errors.tolist()]
        high[i] = math.fsum(terms)
        terms.append(-high[i])
        low[i] = math.fsum(terms)
    return high, low


def _two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """Return a∘b and its rounding error (Dekker 1971)."""
    product = a * b
    a1, a2 = _split(a)
    b1, b2 = _split(b)
    return product, a2 * b2 - (((product - a1 * b1) - a2 * b1) - a1 * b2)


def _split(a: Array) -> tuple[Array, Array]:
    c = 134217729.0 * a  # 2²⁷ + 1
    high = c - (c - a)
    return high, a - high


def eigen(task: OneTask, filter: Filter) -> Solved:
    """Return the step of a filter with a finite slope at 0 from the eigenvectors of the Gram
    matrix.
    """
    rows, original, right, _ = task
    theta, W = np.linalg.eigh(rows.gram)
    residual = original.astype(np.float64, copy=False)
    theta = np.maximum(theta, 0.0)
    factors = filter.table(theta)[0]
    slope = 1.0 / float(filter.strength())
    gain = np.full_like(factors, slope)
    np.divide(factors, theta, out=gain, where=theta > 0)
    right = W.T @ (residual if rows.dual else _in_float64(rows, original, right))
    change = W @ (right * gain[:, None])
    if rows.dual:
        weights = change
        change = rows.adjoint(change)
        cancelled = _cancelled(float(theta[-1]), weights, change)
        after = np.sum(((1.0 - factors)[:, None] * right) ** 2, axis=0)
    else:
        cancelled = _cancelled(float(theta[-1]), residual, right)
        after = squares(residual) - np.sum((gain * (2 - factors))[:, None] * right**2, axis=0)
    condition = 1.0 + slope * float(theta[-1])
    error = 10 * EPS * condition * cancelled + _data_error(original, condition)
    return Solved(change, error, np.maximum(after, 0.0))


def spectral(task: OneTask, filter: Filter) -> tuple[Solved, float]:
    """Return the step of any filter from the singular value decomposition of X, and a conditional
    error.

    The latter is relative to the largest step for residuals of this size: relative to the step
    itself, errors are also large where the residual is almost orthogonal to the range of X.
    """
    X = task.rows.whole()
    U, s, V = linalg.spectrum(X.astype(np.float64, copy=False))
    residual = task.residual.astype(np.float64, copy=False)
    coordinates = U.T @ residual
    factors = filter.table(s**2)[0]
    change = V.T @ (coordinates * factors[:, None] / s[:, None])
    outside = squares(residual - U @ coordinates)
    after = outside + np.sum(((1.0 - factors)[:, None] * coordinates) ** 2, axis=0)
    error = _spectral_error(s, factors, change, after)
    if len(s) < min(X.shape) and filter.strength() > 0:
        error += _dropped_error(
            float(s[0]) * linalg.rank_tolerance(X.shape), filter, change, outside
        )
    size, residual_size = (math.sqrt(float(np.sum(squares(each)))) for each in (change, residual))
    return Solved(change, error, after), (
        error * size / (float(np.max(factors / s)) * residual_size) if size > 0 else 0.0
    )


def _dropped_error(
    largest: float, filter: Filter, change: Array, outside: NDArray[np.float64]
) -> float:
    """Return the relative size of δ along dropped singular vectors, those with s up to ``largest``.

    It is at most φ(s²)/s ≤ φ'(0)·s of the residual outside the others. Only a projection drops them
    by definition.
    """
    size, left = (math.sqrt(float(np.sum(part))) for part in (squares(change), outside))
    return largest * left / size / float(filter.strength()) if size > 0 else 0.0


def _spectral_error(
    s: NDArray[np.float64], factors: NDArray[np.float64], change: Array, after: NDArray[np.float64]
) -> float:
    """Return the first-order effect on δ of an error of eps‖X‖ in X, from the factors φ(s²), and of
    some roundings.
    """
    size = math.sqrt(float(np.sum(squares(change))))
    if not len(s) or size == 0:
        return 0.0
    along = float(np.max(factors * (s[0] / s)))
    across = float(np.max(factors * (s[0] / s) ** 2))
    return 8 * EPS * (2.0 + along + across * math.sqrt(float(np.sum(after))) / float(s[0]) / size)


def _float64(array: Array) -> Array:
    return array.astype(np.float64, copy=False)


def squares(columns: Array) -> NDArray[np.float64]:
    """Return the sum of squares of every column, in float64."""
    return np.asarray(np.einsum("ij,ij->j", columns, columns, dtype=np.float64))


def eps_of(array: Array) -> float:
    """Return the relative rounding error of the dtype of an array."""
    return float(np.finfo(array.dtype).eps)
