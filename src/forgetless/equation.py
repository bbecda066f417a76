"""The equation: the affine map of the weights that one task and one filter define.

    w  ←  w − φ(XᵀX) (w − X⁺y)

With the singular value decomposition X = U·diag(s)·V this is w ← w − Vᵀ φ(s²) ∘ (V w − V X⁺y). The
engines apply this map many times to the same tasks, in the coordinates of ``lab``. A
one-shot task needs no decomposition: with g(ξ) = φ(ξ)/ξ the same step is

    w  ←  w + g(XᵀX) Xᵀ(y − Xw)  =  w + Xᵀ g(XXᵀ) (y − Xw)

on the smaller side of X, which ``change`` computes for ``step`` and for the estimators.
"""

import math
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import lapack
from scipy.sparse.linalg import lsqr, svds

from forgetless._linalg import spectrum
from forgetless._running import few_threads, gram_work
from forgetless._validate import Array, Floats, as_csr, as_float
from forgetless.errors import ConvergenceError
from forgetless.filters import Filter, GradientDescent, Projection, Ridge
from forgetless.tasks import Task

# no mutant: only memory and time differ
LARGE = 1500
"""Smaller side of a task from which on only products with X are used; a sixth of it for sparse
tasks."""

# no mutant: a spectrum is as accurate everywhere
SAFE = 1e-7
"""Strength relative to the trace of a Gram matrix from which on its rounding does not matter: it
squares the condition of X."""

FAR = (1e-50, 1e50)
"""Sizes of rows between which squares, and quotients of them, stay inside the range of a float."""

MOST_STEPS = 10**5
"""Gradient steps that are taken one by one on a large task."""


def step(
    w: Any,
    task: Task | tuple[Any, Any],
    filter: Filter,
) -> Array:
    """Return the weights after learning one task, of the shape of ``w``.

    Parameters
    ----------
    w : array of shape (d,) or (d, c)
        Weights before the step.
    task : Task or (X, y)
        An element of a ``TaskCollection``, whose spectrum is used; or a pair of X, dense or sparse,
        and y, for a one-shot task, which is solved by the cheapest method.
    filter : Filter
        Of one step: constant, or ``schedule(k, radius)[t - 1]`` for step t.

    Examples
    --------
    >>> import forgetless as fl
    >>> task = fl.TaskCollection([([[1.0, 0.0]], [2.0])])[0]
    >>> fl.step([0.0, 5.0], task, fl.Ridge(1.0)).tolist()
    [1.0, 5.0]
    >>> fl.step([0.0, 5.0], ([[1.0, 0.0]], [2.0]), fl.Ridge(1.0)).tolist()
    [1.0, 5.0]
    """
    w = as_float("w", w)
    if isinstance(task, tuple) and len(task) == 2:
        check_filter(filter)
        return _step_once(w, *task, filter)
    check_single(task, filter)
    # The shape of weights of this task: (d,) or (d, c).
    expected = (task.X.shape[1], *task.y.shape[1:])
    if w.shape != expected:
        raise ValueError(f"w must have shape {expected} for this task, got {w.shape}")
    V = task.singular_vectors
    factors = filter.table(task.singular_values**2)[0]
    # one row per singular vector and, with several targets, one column per target
    error = V @ w - task.targets
    return w - V.T @ (error.T * factors).T


def check_single(task: Any, filter: Any) -> None:
    """Raise TypeError or ValueError unless the arguments are one task and the filter of one
    step.
    """
    if not isinstance(task, Task):
        raise TypeError(f"task must be a Task, such as tasks[0], got {type(task).__name__}")
    check_filter(filter)


def check_filter(filter: Any) -> None:
    """Raise TypeError or ValueError unless the argument is the filter of one step."""
    if not isinstance(filter, Filter):
        raise TypeError(f"filter must be a filter, such as fl.Ridge(1.0), got {filter!r}")
    if filter.horizon is not None:
        raise ValueError(
            f"filter must be that of a single step, got {filter.horizon} steps; use filter[t - 1]"
        )


def _step_once(
    w: Floats,
    X: Any,
    y: Any,
    filter: Filter,
) -> Array:
    """Return the weights after a task (X, y) that is not an element of a collection."""
    if sparse.issparse(X):
        X = as_csr("X", X).astype(np.float64)
        as_float("X", X.data)
    else:
        X = as_float("X", X)
    y = as_float("y", y)
    if X.shape[1:] != w.shape[:1] or y.shape != X.shape[:1] + w.shape[1:]:
        raise ValueError(
            "X (n, d), y (n,) or (n, c) and w (d,) or (d, c) must fit together, got shapes"
            f" {tuple(X.shape)}, {y.shape} and {w.shape}"
        )
    with np.errstate(over="ignore", invalid="ignore"):
        residual = y - X @ w
    moved = change(X, residual.reshape(len(y), math.prod(w.shape[1:])), filter)
    return w + moved.reshape(w.shape)


@few_threads(lambda X, *_: gram_work(X.shape))
def change(
    X: Any,
    residual: Floats,
    filter: Filter,
) -> Array:
    """Return g(XᵀX) Xᵀ r, the change of the weights by one step on one task, of shape (d, c).

    The smaller Gram matrix is factorized where the filter is strong enough to hide its rounding,
    otherwise X itself; large tasks are solved by products with X alone.

    Parameters
    ----------
    X : array or sparse matrix of shape (n, d)
    residual : array of shape (n, c)
        r = y − Xw.
    filter : Filter
        Of one step.
    """
    n, d = X.shape
    if 0 in X.shape:
        return np.zeros((d, residual.shape[1]))
    size = float(abs(X).max())
    if size > 0 and not FAR[0] < size < FAR[1]:  # squares would leave the range of a float
        return change(X / size, residual, filter.scaled(size**-2.0)) / size
    strength = float(filter.strength())
    if _is_large(X) and isinstance(filter, Ridge | Projection | GradientDescent):
        return _by_products(X, residual, filter, strength)
    # From here on the smaller side is that of a matrix in memory.
    gram = _gram(X)
    is_dual = n <= d
    # A weak filter: the Gram matrix squares the condition of X, its spectrum does not.
    if not SAFE * float(gram.trace()) <= strength < np.inf:
        U, s, V = spectrum(X.toarray() if sparse.issparse(X) else X)
        # g(XᵀX) Xᵀ = Vᵀ (φ(s²)/s) Uᵀ.
        gains = filter.table(s**2)[0] / s
        return V.T @ (gains[:, None] * (U.T @ residual))
    # Dual: Xᵀ g(XXᵀ) r. Primal: g(XᵀX) (Xᵀ r).
    right = residual if is_dual else X.T @ residual
    if isinstance(filter, Ridge):
        # Ridge has g(ξ) = 1/(ξ + λ): one positive definite system.
        gram.flat[:: len(gram) + 1] += strength
        if len(gram) == 1:
            # One row or feature is one division, without the rounding of a square root.
            solved = right / gram
        else:
            solved = lapack.dposv(gram, right, lower=1)[1]
    else:
        # Any other filter by the eigenvalues of the Gram matrix, Q diag(g) Qᵀ.
        xi, Q = np.linalg.eigh(gram)
        xi = np.maximum(xi, 0.0)
        # φ(ξ)/ξ is φ'(0) = 1/λ near 0, where rounding leaves some small eigenvalues below 0: the
        # directions of these count after many steps.
        slope = np.full(len(xi), 1.0 / strength)
        np.divide(filter.table(xi)[0], xi, out=slope, where=xi > 0)
        solved = Q @ (slope[:, None] * (Q.T @ right))
    return X.T @ solved if is_dual else solved


@few_threads(lambda X: gram_work(X.shape))
def norm(X: Any) -> float:
    """Return ‖X‖₂, the largest singular value of one task."""
    # A few products with X, by Lanczos.
    if _is_large(X):
        return float(svds(X, k=1, return_singular_vectors=False)[0])
    largest = np.max(np.linalg.eigvalsh(_gram(X)), initial=0.0)
    return math.sqrt(largest)


def _is_large(X: Any) -> Any:
    """Return whether a factorization of the smaller Gram matrix is avoided."""
    limit = LARGE // 6 if sparse.issparse(X) else LARGE
    return min(X.shape) > limit


def _gram(X: Any) -> Array:
    """Return the smaller one of XXᵀ and XᵀX as an array."""
    with np.errstate(over="ignore", invalid="ignore"):
        product = X @ X.T if X.shape[0] <= X.shape[1] else X.T @ X
    return product.toarray() if sparse.issparse(product) else product


def _by_products(
    X: Any,
    residual: Floats,
    filter: Filter,
    strength: float,
) -> Floats:
    """Return the change by a step on a large task."""
    if isinstance(filter, GradientDescent):
        if filter.n_steps > MOST_STEPS:
            raise ValueError(
                f"filter takes {filter.n_steps:,} gradient steps on a task of shape {X.shape}, at"
                f" most {MOST_STEPS:,} are taken one by one; use fewer, or fl.Ridge"
            )
        moved = np.zeros((X.shape[1], residual.shape[1]))
        # One gradient step on ½‖X Δ − r‖², N times.
        for _ in range(int(filter.n_steps)):
            moved += filter.step_size * (X.T @ (residual - X @ moved))
        return moved
    columns = []
    # Ridge is a damped least squares problem: ‖X Δ − r‖² + λ‖Δ‖².
    most = 20 * min(X.shape)
    for column in residual.T:
        solution, reason, *_ = lsqr(
            X,
            column,
            damp=np.sqrt(strength),
            atol=1e-12,
            btol=1e-12,
            iter_lim=most,
        )
        if reason == 7:
            raise ConvergenceError(
                f"a task of shape {X.shape} was not solved in {most} iterations; use a larger"
                f" coefficient than {strength:g}, or scale the columns alike"
            )
        columns.append(solution)
    return np.column_stack(columns)
