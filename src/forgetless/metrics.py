"""Metrics: what is measured of the weights, each defined once for every engine.

All are functions of the outputs x = s ∘ (V w − V X⁺y) of a task's directions, in which the task's loss is
½‖x‖² + floor, and of what was seen on the way: how often each task came, and the mean and spread of its outputs
right after its own steps. In that form no two large numbers are subtracted.

================  =====================================================================================
``average_loss``  mean over all M tasks of L(w_k; m) = ½‖X_m w_k − y_m‖²
``seen_loss``     (1/k) Σ_t L(w_k; τ_t): a task counts as often as it was seen
``forgetting``    (1/k) Σ_t [L(w_k; τ_t) − L(w_t; τ_t)], negative where later tasks helped
``drift``         (1/k) Σ_t ‖X_τt (w_k − w_t)‖², without a factor ½
================  =====================================================================================
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forgetless._arrays import Array, as_float, to_numpy
from forgetless.tasks import TaskCollection

Floats = NDArray[np.float64]

PATH_METRICS = ("seen_loss", "forgetting", "drift")
METRICS = ("average_loss", *PATH_METRICS)
ALL_METRICS = (*METRICS, "task_losses")


def check_metrics(metrics: Any, allowed: tuple[str, ...] = ALL_METRICS) -> tuple[str, ...]:
    """Return ``metrics`` as a tuple of known names; a single name may stand alone."""
    names = (metrics,) if isinstance(metrics, str) else tuple(metrics)
    unknown = [name for name in names if name not in allowed]
    if unknown or not names:
        raise ValueError(f"metrics must be some of {', '.join(allowed)}; got {metrics!r}")
    return names


@dataclass(frozen=True)
class Visits:
    """What the steps so far left behind, for any leading shape of trials and times.

    Attributes
    ----------
    n_steps : int array of shape (...,)
        Steps made so far.
    counts : array of shape (..., M)
        How often each task was seen.
    means : array of shape (..., c, Σr)
        Mean outputs of a task's directions right after its steps.
    spread : array of shape (...,)
        Sum over all steps of the squared distance of those outputs from their mean.
    """

    n_steps: NDArray[np.int64]
    counts: Floats
    means: Floats
    spread: Floats


def evaluate(name: str, outputs: Floats, visits: Visits, tasks: TaskCollection) -> Floats:
    """Return one metric from outputs of shape (..., c, Σr); NaN before the first step for metrics of the path."""
    if name in ("average_loss", "task_losses"):
        losses = _losses(outputs, tasks)
        return losses if name == "task_losses" else np.mean(losses, axis=-1)
    with np.errstate(invalid="ignore"):  # 0/0 at step 0: nothing has been seen
        return _of_path(name, outputs, visits, tasks) / np.where(visits.n_steps > 0, visits.n_steps, np.nan)


def _of_path(name: str, outputs: Floats, visits: Visits, tasks: TaskCollection) -> Floats:
    if name == "seen_loss":
        return np.asarray(np.sum(visits.counts * _losses(outputs, tasks), axis=-1))
    change = outputs - visits.means
    if name == "drift":
        return np.asarray(np.sum(visits.counts * _by_task(change**2, tasks), axis=-1) + visits.spread)
    # forgetting: |x|² − |mean|² as a product, so that it vanishes with the change rather than by cancellation
    gained = _by_task(change * (outputs + visits.means), tasks)
    return np.asarray(0.5 * (np.sum(visits.counts * gained, axis=-1) - visits.spread))


def _losses(outputs: Floats, tasks: TaskCollection) -> Floats:
    return 0.5 * _by_task(outputs**2, tasks) + tasks.floors


def _by_task(values: Floats, tasks: TaskCollection) -> Floats:
    """Sum values of shape (..., c, Σr) over targets and over the directions of each task: shape (..., M)."""
    offsets = tasks.offsets
    filled = np.flatnonzero(np.diff(offsets))
    result = np.zeros((*values.shape[:-2], tasks.n_tasks))
    if filled.size:
        result[..., filled] = np.add.reduceat(values.sum(-2), offsets[filled], axis=-1)
    return result


def _outputs(tasks: TaskCollection, weights: Any, name: str) -> Floats:
    """Return outputs of shape (..., c, Σr) of weights of shape (..., d) + target_shape."""
    w = to_numpy(as_float(name, weights))
    tail = (tasks.n_features, *tasks.target_shape)
    if w.shape[w.ndim - len(tail) :] != tail:
        raise ValueError(f"{name} must have shape (..., {', '.join(map(str, tail))}), got {w.shape}")
    columns = w.reshape(*w.shape[: w.ndim - len(tail)], tasks.n_features, tasks.n_targets)
    errors = to_numpy(tasks.directions) @ columns - to_numpy(tasks.targets)
    return np.asarray(np.swapaxes(errors, -1, -2) * tasks.singular_values)


def _path(tasks: TaskCollection, weights: Any, indices: Any) -> tuple[Floats, Visits]:
    outputs = _outputs(tasks, weights, "weights")
    order = _order(tasks, indices, len(outputs))
    counts = np.bincount(order, minlength=tasks.n_tasks).astype(np.float64)
    means = np.zeros(outputs.shape[1:])
    spread = 0.0
    for m in np.unique(order):
        rows = slice(*tasks.offsets[m : m + 2])
        own = outputs[order == m][..., rows]
        means[:, rows] = own.mean(0)
        spread += float(((own - own.mean(0)) ** 2).sum())
    return outputs[-1], Visits(np.array(len(order)), counts, means, np.array(spread))


def _order(tasks: TaskCollection, indices: Any, length: int | None = None) -> NDArray[np.int64]:
    order = np.asarray(indices)
    if order.ndim != 1 or order.size == 0 or order.dtype.kind not in "iu" or (length or len(order)) != len(order):
        raise ValueError(f"indices must be one task index per step, got shape {order.shape} of dtype {order.dtype}")
    if order.min() < 0 or order.max() >= tasks.n_tasks:
        raise ValueError(f"indices must lie in 0..{tasks.n_tasks - 1}, got {order.min()}..{order.max()}")
    return order.astype(np.int64)


def task_losses(tasks: TaskCollection, w: Array) -> Floats:
    """Return the loss of each task, of shape (..., M), for weights of shape (..., d) or (..., d, c).

    Examples
    --------
    >>> import forgetless as fl
    >>> tasks = fl.TaskCollection([([[1.0]], [1.0]), ([[2.0]], [0.0])])
    >>> fl.metrics.task_losses(tasks, [0.0]).tolist()
    [0.5, 0.0]
    """
    return _losses(_outputs(tasks, w, "w"), tasks)


def average_loss(tasks: TaskCollection, w: Array) -> Floats:
    """Return the mean loss over all tasks, for weights of shape (..., d) or (..., d, c)."""
    return np.asarray(np.mean(task_losses(tasks, w), axis=-1))


def seen_loss(tasks: TaskCollection, w: Array, indices: Any) -> float:
    """Return the mean loss of w over the tasks seen, each as often as it occurs in ``indices``."""
    order = _order(tasks, indices)
    return float(task_losses(tasks, w)[order].mean())


def forgetting(tasks: TaskCollection, weights: Array, indices: Any) -> float:
    """Return the mean loss degradation, from the weights w_1..w_k after each step, of shape (k, d) or (k, d, c)."""
    outputs, visits = _path(tasks, weights, indices)
    return float(evaluate("forgetting", outputs, visits, tasks))


def drift(tasks: TaskCollection, weights: Array, indices: Any) -> float:
    """Return the mean squared output drift, from the weights w_1..w_k after each step."""
    outputs, visits = _path(tasks, weights, indices)
    return float(evaluate("drift", outputs, visits, tasks))
