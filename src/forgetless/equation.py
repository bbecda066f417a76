"""The equation: the affine map of the weights that one task and one filter define.

    w  ←  w − φ(XᵀX) (w − X⁺y)

With the singular value decomposition X = U·diag(s)·V this is w ← w − Vᵀ φ(s²) ∘ (V w − V X⁺y). The
engines apply this map many times to the same tasks, in the coordinates of ``engines._trials``.
A one-shot task needs no decomposition: with g(ξ) = φ(ξ)/ξ the same step is w ← w + g(XᵀX) Xᵀ(y −
Xw), for which ``solvers.one_task`` chooses a solver.
"""

from typing import Any

import numpy as np

from forgetless._core.arrays import Array, Floats, as_float
from forgetless.filters import Filter
from forgetless.solvers.one_task import learn
from forgetless.solvers.rows import OneTask, Rows, check_sparse, is_sparse, plain
from forgetless.tasks import Task


def step(w: Any, task: Task | tuple[Any, Any], filter: Filter) -> Array:
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
    if isinstance(task, tuple) and len(task) == 2:
        check_filter(filter)
        return _step_once(as_float("w", w), *task, filter)
    check_single(task, filter)
    w = as_float("w", w)
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


def _step_once(w: Floats, X: Any, y: Any, filter: Filter) -> Array:
    if is_sparse(X):
        X = plain(check_sparse(X), None, False, np.float64)
        as_float("X", X.data)
    else:
        X = as_float("X", X)
    y = as_float("y", y)
    if X.ndim != 2 or y.shape != (X.shape[0], *w.shape[1:]) or w.shape[:1] != X.shape[1:]:
        raise ValueError(
            "X (n, d), y (n,) or (n, c) and w (d,) or (d, c) must fit together, got shapes"
            f" {tuple(X.shape)}, {y.shape} and {w.shape}"
        )
    with np.errstate(over="ignore", invalid="ignore"):
        residual = y - X @ w
    columns = 1 if w.ndim == 1 else w.shape[1]
    solution = learn(OneTask(Rows.of(X), np.reshape(residual, (X.shape[0], columns))), filter)
    return w + np.reshape(solution.change, w.shape)
