"""Numerical building blocks: spectra, spans, joint solutions, and running averages of iterates.

The rank of a matrix is a decision about rounding, and it is made here alone: ``rank_tolerance`` for
tasks and joint systems, ``span`` for the coordinates in which the laboratory computes.

A running average is w̄_k = Σ_t ω_t w_t with ω_t ∝ t^r over t = 1..k. With the sums
T_k = Σ_{t≤k} t^r it obeys T_k w̄_k = T_{k−1} w̄_{k−1} + k^r w_k, that is

    w̄_k = w̄_{k−1} + g_k (w_k − w̄_{k−1}),     g_k = k^r / T_k.

The gain g_k depends on k and r alone, so that an average can be read at every step. w₀ has no
weight: the average of no steps is w₀ itself.
"""

import math
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from forgetless import _validate as validate
from forgetless._running import few_threads, one_blas_thread
from forgetless._validate import Array, Floats

# no mutant: above it there is no shortcut, and only the time differs
_GRAM_RATIO = 0.1
"""The Gram shortcut is taken only when s_min/s_max is above this: its error eps/ratio² is then
below 3e-14."""


def rank_tolerance(shape: tuple[int, ...]) -> float:
    """Return the relative size below which a singular value counts as zero.

    max(n, d)·eps, the backward error of an SVD of an n × d matrix (as in LAPACK-based rank
    functions): anything smaller may be rounding of an exact zero. The rank of a task and of the
    joint system are decided by it; the span of the engines has a tolerance of its own.
    """
    return max(shape) * float(np.finfo(np.float64).eps)


def spectrum(X: Array) -> tuple[Array, Array, Array]:
    """Return U (n × r), s (r) and V (r × d) with X = U·diag(s)·V, r being the numerical rank.

    Rows of V are orthonormal. Works for ‖X‖ from 1e-150 to 1e150 and for X without rows.
    """
    n, d = X.shape
    scale = float(np.max(np.abs(X), initial=0.0))
    if scale == 0.0:
        return np.zeros((n, 0)), np.zeros((0,)), np.zeros((0, d))
    # no mutant: other sizes may be scaled, too
    if 1e-100 < scale < 1e100:
        scale = 1.0
    else:
        # Keeps squares inside the range of a float.
        X = X / scale
    U, s, V = _gram_spectrum(X) or np.linalg.svd(X, full_matrices=False)
    r = int(np.sum(s > rank_tolerance((n, d)) * s[0]))
    return U[:, :r], scale * s[:r], V[:r, :]


def _gram_spectrum(X: Array) -> tuple[Array, Array, Array] | None:
    """Return the SVD of a wide, well-conditioned X from its n × n Gram matrix, or None where that
    would lose digits.

    About 8 times faster than an SVD at n = 50, d = 2000.
    """
    n, d = X.shape
    # no mutant: the shortcut computes the same, and only the time differs
    if n < 8 or d < 4 * n:
        return None
    # X Xᵀ = U diag(s²) Uᵀ, in increasing order, and V = diag(1/s) Uᵀ X.
    squares, U = np.linalg.eigh(X @ X.T)
    if float(squares[0]) <= _GRAM_RATIO**2 * float(squares[-1]):
        return None
    s = np.flip(squares) ** 0.5
    U = np.flip(U, axis=1)
    return U, s, (U / s).T @ X


@few_threads(lambda directions: directions.size * min(directions.shape))
def span(directions: Floats) -> Floats:
    """Return an orthonormal basis (d × q) of the row space of unit vectors; the identity if q = d.

    Parameters
    ----------
    directions : array of shape (m, d)
        Of any rank; rows may be parallel, or nearly so.

    Returns
    -------
    array of shape (d, q)
        q is the number of singular values above rounding. It is too large rather than too small:
        an extra coordinate costs little, and a lost one would change results.
    """
    total, d = directions.shape
    if total >= d:
        squares = np.linalg.eigvalsh(directions.T @ directions)
        # Squares are accurate to 1e-16 of the largest: 1e-10 certifies full rank, and anything
        # smaller takes the careful way.
        if squares[0] > 1e-10 * squares[-1]:
            return np.eye(d)
    # no mutant: only memory and time differ
    _, s, basis = np.linalg.svd(directions, full_matrices=False)
    # The rounding error of m unit vectors is about eps·‖directions‖. A direction whose distance
    # from the span of the others exceeds it counts as one more dimension.
    eps = float(np.finfo(np.float64).eps)
    tolerance = 4 * math.sqrt(d) * eps * np.max(s, initial=0.0)
    q = int(np.sum(s > tolerance))
    # Coordinates of the features themselves are without rounding.
    if q == d:
        return np.eye(d)
    return basis[:q].T


@few_threads(lambda A, *_: A.size * min(A.shape))
def joint_solution(A: Floats, b: Floats, singular_values: Floats, radii: Floats) -> Floats:
    """Return the shortest z that minimises Σ_j s_j²(A_j z − b_j)², summed over the columns of b.

    Parameters
    ----------
    A : array of shape (Σr, q)
        Directions of all tasks, orthonormal within each.
    b : array of shape (Σr, c)
    singular_values, radii : arrays of shape (Σr,)
        Singular value of each direction, and the largest one of its task.

    Returns
    -------
    array of shape (q, c)
    """
    if A.shape[0] == 0 or A.shape[1] == 0:
        return np.zeros((A.shape[1], b.shape[1]))
    from scipy.linalg import qr, solve_triangular

    # First the rank, from rows weighted by s/radius, which are known to eps whatever the scales of
    # the tasks are.
    relative = (singular_values / radii)[:, None]
    U, s, V = np.linalg.svd(relative * A, full_matrices=False)
    r = int(np.sum(s > rank_tolerance(A.shape) * s[0]))
    # The shortest solution of the r directions that are determined.
    V = V[:r]
    fit = U[:, :r].T @ (relative * b)
    z = V.T @ (fit / s[:r, None])
    missed = np.max(np.abs(relative * (A @ z - b)))
    # A solution that meets all targets minimises every weighted sum of squares.
    if missed <= 1e-9 * np.max(np.abs(relative * b)):
        return np.asarray(z)
    # Otherwise weigh as the losses do, in the r coordinates that are determined. Rows sorted by
    # weight and pivoted columns keep Householder's method accurate for weights of any size (Cox &
    # Higham 1998).
    weights = singular_values / radii.max()
    order = np.argsort(-weights)
    weighted = weights[:, None] * A @ V.T
    right = weights[:, None] * b
    Q, R, pivots = qr(weighted[order], mode="economic", pivoting=True)
    y = np.zeros((r, b.shape[1]))
    y[pivots] = solve_triangular(R, Q.T @ right[order])
    return np.asarray(V.T @ y)


def norms(columns: Floats) -> Array:
    """Return the norm of every column, also where squares leave the range of a float; a vector is
    one column.
    """
    columns = np.atleast_2d(columns.T).T
    # Infinite columns have infinite norms, and zeros the norm 0: neither needs a scale.
    largest = np.max(np.abs(columns), axis=0, initial=0.0)
    scale = np.where((largest > 0) & np.isfinite(largest), largest, 1.0)
    return scale * np.linalg.norm(columns / scale, axis=0)


def quiet_products(n_entries: int) -> AbstractContextManager[None]:
    """Return a context with one thread of BLAS for a matrix of 2¹² to 2¹⁸ entries, one of many."""
    # OpenBLAS wakes threads for products of matrices from 64 × 64 on, which gain nothing there.
    # no mutant: only the time differs
    return one_blas_thread() if 2**12 <= n_entries <= 2**18 else nullcontext()


# ---- averages of iterates ----

_LARGEST = 32.0
"""Largest power r. Such an average is almost the last iterate, and sums of t^r, about k³³/33, are
floats up to k = 2³¹."""


def average_power(value: Any) -> float | None:
    """Return ``average``, the power r of the weights t^r, checked; None for the last iterate."""
    if value is None:
        return None
    hint = "use 2 for weights t², 0 for equal weights, None for the last iterate"
    result = validate.number("average", value, hint)
    if result > _LARGEST:
        raise ValueError(f"average must be at most {_LARGEST:g}, got {result!r}; {hint}")
    return result


def next_total(total: float, r: float, t: int) -> float:
    """Return Σ_{i≤t} (i/t)^r, which is 1/g_t, from that of t − 1 (0 before the first step)."""
    return 1.0 + total * math.pow((t - 1) / t, r)


def gains(r: float, k: int) -> Floats:
    """Return g_1..g_k.

    Examples
    --------
    >>> from forgetless._linalg import gains
    >>> gains(0, 4).tolist(), gains(2, 3).tolist()
    ([1.0, 0.5, 0.3333333333333333, 0.25], [1.0, 0.8, 0.6428571428571429])
    """
    # In long doubles: a million roundings of a sum would be seen in the last four digits.
    weights = np.arange(1, k + 1, dtype=np.longdouble) ** r
    return np.asarray(weights / np.cumsum(weights), dtype=np.float64)
