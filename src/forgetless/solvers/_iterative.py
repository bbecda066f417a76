"""Steps on tasks too large for a factorization, and norms, from products with X and Xᵀ alone.

Ridge steps are those of SciPy's LSQR with damping √λ, or of conjugate gradients on XᵀX + λ where
the rows are on a cluster: only vectors with an entry per weight travel then. A budget of gradient
steps is the literal loop.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from forgetless._core.arrays import Array
from forgetless.solvers._direct import EPS, Solved, eps_of, squares
from forgetless.solvers.rows import Limits, OneTask, Rows


def ridge(task: OneTask, coefficient: float, limits: Limits) -> Solved | None:
    """Return (XᵀX + λ)⁻¹Xᵀr, or the shortest least-squares solution for λ = 0; None where the
    passes do not suffice.

    As XᵀX + λ ⪰ λ, the relative error is at most ‖Xᵀ(r − Xδ) − λδ‖/(λ‖δ‖). Without regularization
    there is no such bound, and the error is unknown (NaN).
    """
    tol = max(limits.tol, 30 * eps_of(task.residual))
    for accuracy in (1e-3 * tol, 0.0):
        solve = _by_conjugate_gradients if task.rows.remote else _by_lsqr
        change = solve(task, coefficient, accuracy, limits.passes)
        if change is None:
            return None
        gradient = task.right - task.rows.normal(change)
        after = _after(task, change, gradient)
        if coefficient == 0:
            return Solved(change, math.nan, after)
        gap = np.sqrt(squares(gradient - coefficient * change))
        size = coefficient * np.sqrt(squares(change))
        # A target without anything to learn has the solution 0, exactly.
        errors = np.divide(gap, size, out=np.zeros_like(gap), where=size > 0)
        error = float(errors.max()) + 4 * EPS
        if error <= tol:
            break
    return Solved(change, error, after)


def _by_lsqr(task: OneTask, coefficient: float, accuracy: float, passes: int) -> Array | None:
    from scipy.sparse.linalg import lsqr

    rows = task.rows
    X = _operator(rows.shape, rows.forward, rows.adjoint, task.residual.dtype)
    columns = []
    for r in task.residual.T:
        result = lsqr(X, r, math.sqrt(coefficient), accuracy, accuracy, conlim=0, iter_lim=passes)
        if result[1] == 7:  # the limit of passes was reached
            return None
        columns.append(result[0])
    return np.stack(columns, axis=1).astype(task.residual.dtype, copy=False)


def _by_conjugate_gradients(
    task: OneTask, coefficient: float, accuracy: float, passes: int
) -> Array | None:
    from scipy.sparse.linalg import cg

    d = task.rows.shape[1]

    def system(v: Array) -> Array:
        return task.rows.normal(v) + coefficient * v

    A = _operator((d, d), system, system, task.residual.dtype)
    columns = []
    for b in task.right.T:
        x, stopped = cg(A, b, rtol=max(accuracy, EPS), maxiter=passes)
        if stopped:
            return None
        columns.append(x)
    return np.stack(columns, axis=1).astype(task.residual.dtype, copy=False)


def gradient_steps(task: OneTask, n_steps: int, step_size: float) -> Solved:
    """Return the change made by N literal gradient steps of size γ."""
    change = step_size * task.right
    gradient = task.right - task.rows.normal(change)
    for _ in range(n_steps - 1):
        change = change + step_size * gradient
        gradient = gradient - step_size * task.rows.normal(gradient)
    return Solved(change, 4 * n_steps * eps_of(change), _after(task, change, gradient))


def norm(rows: Rows) -> float:
    """Return ‖X‖₂ to six digits, from Lanczos' method with a fixed start."""
    from scipy.sparse.linalg import eigsh

    d = rows.shape[1]
    start = np.random.default_rng(0).standard_normal(d)
    A = _operator((d, d), rows.normal, rows.normal, np.float64)
    largest = eigsh(A, k=1, which="LA", v0=start, tol=1e-6, return_eigenvectors=False)[0]
    return math.sqrt(max(float(largest), 0.0))


def _after(task: OneTask, change: Array, gradient: Array) -> Any:
    """Return ‖r − Xδ‖² per column; ``gradient`` is Xᵀ(r − Xδ)."""
    if task.rows.readable:
        return squares(task.residual - task.rows.forward(change))
    return np.maximum(
        squares(task.residual) - np.sum(change * (task.right + gradient), axis=0), 0.0
    )


def _operator(
    shape: tuple[int, int],
    forward: Callable[[Array], Array],
    adjoint: Callable[[Array], Array],
    dtype: Any,
) -> Any:
    """Return SciPy's operator of two products with matrices of one column, in the dtype of the
    task.
    """
    from scipy.sparse.linalg import LinearOperator

    def column(product: Callable[[Array], Array]) -> Callable[[Array], Array]:
        return lambda v: product(v.reshape(-1, 1).astype(dtype, copy=False))[:, 0]

    return LinearOperator(shape, matvec=column(forward), rmatvec=column(adjoint), dtype=dtype)
