"""The equation: the affine map of the weights that one task and one filter define.

    w  ←  w − φ(XᵀX) (w − X⁺y)

With the singular value decomposition X = U·diag(s)·V this is w ← w − Vᵀ φ(s²) ∘ (V w − V X⁺y). The
engines apply this map many times to the same tasks, in the coordinates of ``engines.coordinates``.
A one-shot task needs no decomposition: with g(ξ) = φ(ξ)/ξ the same step is w ← w + g(XᵀX) Xᵀ(y −
Xw), for which ``solvers.one_task`` chooses a solver. The steps of other losses are proximal steps,
which are not affine: ``solvers.margins``.
"""

from typing import Any

import numpy as np

from forgetless._core.arrays import (
    Array,
    as_float,
    from_numpy,
    namespace_of,
    same_library,
    to_numpy,
)
from forgetless.filters import Filter
from forgetless.losses import Loss, Softmax, Squared, check_classes, check_labels, named
from forgetless.solvers.margins import proximal_step
from forgetless.solvers.one_task import learn
from forgetless.solvers.rows import OneTask, Rows, check_sparse, is_sparse, plain
from forgetless.tasks import Task


def check_single(task: Any, filter: Any) -> None:
    """Raise TypeError or ValueError unless the arguments are one task and the filter of one
    step.
    """
    if not isinstance(task, Task) or not isinstance(filter, Filter):
        raise TypeError(
            "this needs a Task, such as tasks[0], and a filter, such as fl.Ridge(1.0); got"
            f" {type(task).__name__} and {type(filter).__name__}"
        )
    if filter.horizon is not None:
        raise ValueError(
            f"filter must be that of a single step, got {filter.horizon} steps; use filter.at(t"
            " - 1)"
        )


def step(
    w: Any, task: Task | tuple[Any, Any], filter: Filter, loss: Loss | str = "squared"
) -> Array:
    """Return the weights after learning one task, of the shape of ``w``.

    Parameters
    ----------
    w : array of shape (d,) or (d, c)
        Weights before the step.
    task : Task or (X, y)
        An element of a ``TaskCollection``, whose spectrum is used; or a pair of X, dense or sparse
        or a SciPy ``LinearOperator``, and y, for a one-shot task, which is solved by the cheapest
        method.
    filter : Filter
        Of one step: constant, or ``schedule(k, radius).at(t - 1)`` for step t.
    loss : Loss or its name, default "squared"
        Another one of ``fl.losses`` needs ``fl.Ridge(λ)``, for argmin Σ_i ℓ(x_iᵀw, y_i) + (λ/2)‖w −
        w_prev‖², or ``fl.Projection()``, its limit λ → 0: the nearest weights with all margins y_i
        x_iᵀw ≥ 1. Labels are −1 and +1; for "softmax" they are 0..c − 1 and w has shape (d, c). The
        change has a relative error below 1e-10.

    Examples
    --------
    >>> import forgetless as fl
    >>> task = fl.TaskCollection([([[1.0, 0.0]], [2.0])])[0]
    >>> fl.step([0.0, 5.0], task, fl.Ridge(1.0)).tolist()
    [1.0, 5.0]
    >>> fl.step([0.0, 5.0], ([[1.0, 0.0]], [2.0]), fl.Ridge(1.0)).tolist()
    [1.0, 5.0]

    A row of the second class, with the squared hinge:

    >>> fl.step([0.0, 5.0], ([[1.0, 0.0]], [-1]), fl.Ridge(1.0), loss="squared_hinge").tolist()
    [-0.5, 5.0]
    """
    chosen = named(loss)
    if not isinstance(chosen, Squared):
        return _step_proximal(w, task, filter, chosen)
    if isinstance(task, tuple) and len(task) == 2:
        return _step_once(w, *task, filter)
    check_single(task, filter)
    w = same_library(as_float("w", w), like=task.X)
    expected = (task.X.shape[1], *task.y.shape[1:])
    if tuple(w.shape) != expected:
        raise ValueError(f"w must have shape {expected} for this task, got {tuple(w.shape)}")
    values = filter.spectrum(to_numpy(task.singular_values), task.radius)
    factors = from_numpy(np.asarray(filter.factors_of_singular(values)), like=task.X)
    error = task.singular_vectors @ w - task.targets
    return w - task.singular_vectors.T @ (error * (factors if w.ndim == 1 else factors[:, None]))


def _step_once(w: Any, X: Any, y: Any, filter: Filter) -> Array:
    if not isinstance(filter, Filter) or filter.horizon is not None:
        raise TypeError(
            f"filter must be that of a single step, such as fl.Ridge(1.0), got {filter!r}"
        )
    if is_sparse(X):
        X = plain(check_sparse(X), None, False, np.float64)
        if not np.all(np.isfinite(X.data)):
            raise ValueError(
                "X contains NaN or infinity; only finite values are allowed, so drop or impute them"
            )
    else:
        X = as_float("X", X)
    y = as_float("y", y)
    w = as_float("w", w) if is_sparse(X) else same_library(as_float("w", w), like=X)
    if X.ndim != 2 or tuple(y.shape) != (X.shape[0], *w.shape[1:]) or w.shape[0] != X.shape[1]:
        raise ValueError(
            "X (n, d), y (n,) or (n, c) and w (d,) or (d, c) must fit together, got shapes"
            f" {tuple(X.shape)}, {tuple(y.shape)} and {tuple(w.shape)}"
        )
    with np.errstate(over="ignore", invalid="ignore"):
        residual = y - X @ w
    xp, columns = namespace_of(residual), 1 if w.ndim == 1 else w.shape[1]
    solution = learn(OneTask(Rows.of(X), xp.reshape(residual, (X.shape[0], columns))), filter)
    return w + xp.reshape(solution.change, w.shape)


def _step_proximal(w: Any, task: Any, filter: Filter, loss: Loss) -> Array:
    """Return the weights after a proximal step of a loss that is not squared."""
    if not isinstance(filter, Filter) or filter.horizon is not None or not filter.explicit:
        raise TypeError(
            "filter must be fl.Ridge(λ) or fl.Projection() of a single step for the loss"
            f" {loss.name}, got {filter!r}"
        )
    if not isinstance(task, Task) and not (isinstance(task, tuple) and len(task) == 2):
        raise TypeError(f"task must be a Task or a pair (X, y), got {type(task).__name__}")
    like = as_float("X", task.X if isinstance(task, Task) else task[0])
    X, weights = to_numpy(like), to_numpy(as_float("w", w))
    y: Any = to_numpy(as_float("y", task.y if isinstance(task, Task) else task[1]))
    expected = 2 if isinstance(loss, Softmax) else 1
    if X.ndim != 2 or len(y) != len(X) or weights.ndim != expected or len(weights) != X.shape[1]:
        raise ValueError(
            f"X (n, d), y (n,) and w {'(d, c)' if expected == 2 else '(d,)'} must fit together for"
            f" the loss {loss.name}, got shapes {X.shape}, {y.shape} and {weights.shape}"
        )
    y = check_classes(y, weights.shape[1]) if isinstance(loss, Softmax) else check_labels(y, "y")
    coefficient = 0.0 if filter.is_projection else float(filter.strength())
    return from_numpy(weights + proximal_step(X, y, weights, coefficient, loss).change, like=like)
