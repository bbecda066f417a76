"""Metrics of weights and of paths of weights, each defined once for every engine.

All are functions of the outputs x = s ∘ (V w − V X⁺y) along a task's singular vectors, with which
the task's loss is ½‖x‖² + floor, and of statistics of the path: how often each task occurred, and
the mean and spread of its outputs right after its own steps. In that form no two large numbers are
subtracted.

=================  =================================================================================
``average_loss``   mean over all M tasks of L(w_k; m) = ½‖X_m w_k − y_m‖²
``seen_loss``      (1/k) Σ_t L(w_k; τ_t): a task counts as often as it was seen
``forgetting``     (1/k) Σ_t [L(w_k; τ_t) − L(w_t; τ_t)], negative where later tasks helped
``drift``          (1/k) Σ_t ‖X_τt (w_k − w_t)‖², without a factor ½
``next_loss``      mean of L(w_k; τ_{k+1}) over the next task, given the tasks so far
``distance``       ‖w_k − w⋆‖², w⋆ being the joint least-squares solution nearest to the start (a
                   solution of all tasks where they have one); for random tasks w⋆ is the teacher
                   of the last task learned
=================  =================================================================================
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from forgetless._core.arrays import Array, Floats, as_float
from forgetless.tasks import TaskCollection

__all__ = ["METRICS", "average_loss", "drift", "forgetting", "seen_loss", "task_losses"]

# Every quantity has one name in Python, tables, JSON and on the command line; the text is that of
# reports.
QUANTITIES = {
    "average_loss": "expected loss over all tasks",
    "seen_loss": "expected loss over the tasks seen",
    "forgetting": "expected loss degradation since each task was learned",
    "drift": "expected squared change of outputs since each task was learned",
    "next_loss": "expected loss on the next task",
    "distance": "expected squared distance of the weights from the teacher",
    "worst_case": "expected loss for the worst unit teacher",
    "validation": "expected loss on the held-out tasks",
}


def quantity(argument: str, name: Any, allowed: tuple[str, ...]) -> str:
    """Return the name of a quantity, which may be written with hyphens, as on the command line."""
    canonical = name.replace("-", "_") if isinstance(name, str) else name
    if canonical not in allowed:
        raise ValueError(f"{argument} must be one of {', '.join(allowed)}, got {name!r}")
    return str(canonical)


_PATH_METRICS = ("seen_loss", "forgetting", "drift")
METRICS = ("average_loss", *_PATH_METRICS)
TASK_METRICS = ("task_losses", "task_forgetting", "task_drift")
# the last is not among the defaults: an order may have no next task
_ENGINE_METRICS = (*METRICS, "next_loss")
OTHER_LOSS = "other_loss"  # in engines: the average loss of other tasks than those learned
WEIGHT_METRICS = ("distance", OTHER_LOSS)  # of the weights themselves, not of outputs
ALL_METRICS = (*_ENGINE_METRICS, "distance", *TASK_METRICS)
ENSEMBLE_METRICS = (*ALL_METRICS, "task_distances")


def follows_path(names: tuple[str, ...]) -> bool:
    """Return whether any of the metrics depends on the path, not only on the last weights."""
    return any(name not in _OF_LAST_WEIGHTS for name in names)


def follows_drift(names: tuple[str, ...]) -> bool:
    """Return whether any of the metrics is the change of outputs along the path."""
    return any(name.endswith("drift") for name in names)


_OF_LAST_WEIGHTS = ("average_loss", "next_loss", "task_losses", *WEIGHT_METRICS)


def check_metrics(metrics: Any, allowed: tuple[str, ...]) -> tuple[str, ...]:
    """Return ``metrics``, one name or several, as a tuple of distinct allowed names."""
    names = tuple(dict.fromkeys((metrics,) if isinstance(metrics, str) else metrics))
    if not names or any(name not in allowed for name in names):
        raise ValueError(f"metrics must be some of {', '.join(allowed)}; got {metrics!r}")
    return names


@dataclass(frozen=True)
class Visits:
    """Statistics of the steps so far, for any leading shape of trials and times."""

    n_steps: NDArray[np.int64]  # (...,)
    counts: Floats  # (..., M): steps on each task
    means: Floats  # (..., c, Σr): mean outputs of a task right after its steps
    spread: Floats  # (..., M): sum of the squared distances of those outputs from their mean
    upcoming: Floats | None = None  # (..., M): probabilities of the next task


class TaskSums(NamedTuple):
    """Sums over the singular vectors and targets of each task, of shape (..., M); None where no
    metric needs them.

    ``squares`` of ‖x‖², x being the outputs now; ``changes`` of ‖x − x̄‖² and ``gains`` of ‖x‖² −
    ‖x̄‖², x̄ being the mean outputs right after the task's steps. The last is summed as a product,
    so that it vanishes with the change rather than by cancellation.
    """

    squares: Floats | None
    changes: Floats | None
    gains: Floats | None


def _sums_needed(names: tuple[str, ...]) -> tuple[bool, bool, bool]:
    """Return which of the sums the metrics need."""
    return (
        any(name.endswith(("loss", "losses")) for name in names),
        any(name.endswith("drift") for name in names),
        any(name.endswith("forgetting") for name in names),
    )


def task_sums(
    outputs: Floats, means: Floats, tasks: TaskCollection, names: tuple[str, ...]
) -> TaskSums:
    """Return the sums that the metrics need, from outputs and mean outputs of shape (..., c,
    Σr).
    """
    squares, changes, gains = _sums_needed(names)
    change = outputs - means if changes or gains else outputs
    return TaskSums(
        by_task(outputs * outputs, tasks) if squares else None,
        by_task(change * change, tasks) if changes else None,
        by_task(change * (outputs + means), tasks) if gains else None,
    )


def evaluate(name: str, sums: TaskSums, visits: Visits, tasks: TaskCollection) -> Floats:
    """Return one metric; NaN before the first step for metrics of the path, before the first visit
    for one task's.
    """
    if name.endswith(("loss", "losses")):
        assert sums.squares is not None
        losses = 0.5 * sums.squares + tasks.floors
        if name == "task_losses":
            return losses
        if name == "average_loss":
            return mean_of(name, np.sum(losses, axis=-1), tasks.n_tasks)
        if name == "next_loss":
            assert visits.upcoming is not None
            return mean_of(name, np.sum(visits.upcoming * losses, axis=-1), 1)
        totals = visits.counts * losses
    elif name.endswith("drift"):
        assert sums.changes is not None
        totals = visits.counts * sums.changes + visits.spread
    else:
        assert sums.gains is not None
        totals = 0.5 * (visits.counts * sums.gains - visits.spread)
    if name.startswith("task"):
        return np.asarray(totals / np.where(visits.counts > 0, visits.counts, np.nan))
    return mean_of(name, np.sum(totals, axis=-1), visits.n_steps)


def mean_of(name: str, total: Any, count: Any, floor: float = 0.0) -> Floats:
    """Return a metric from its sum, for simulation and exact engines.

    ``total`` is the sum of ½‖x‖² over tasks (``average_loss``) or visits (``seen_loss``), of the
    gains (``forgetting``) or of the squared changes (``drift``) over visits; ``count`` that of
    tasks or visits, 0 giving NaN; ``floor`` the mean irreducible loss where ``total`` does not
    contain it.
    """
    count = np.asarray(count, dtype=np.float64)
    mean = np.asarray(total) / np.where(count > 0, count, np.nan)
    # Rounding may leave a sum of squares below zero; forgetting may be negative.
    return np.asarray((mean if name.endswith("forgetting") else np.maximum(mean, 0.0)) + floor)


def shape_of(name: str, tasks: TaskCollection) -> tuple[int, ...]:
    """Return the shape of one value of a metric: (M,) for those per task, else ()."""
    return (tasks.n_tasks,) if name in TASK_METRICS else ()


def by_task(values: Floats, tasks: TaskCollection) -> Floats:
    """Return sums of values (..., c, Σr) over targets and over the singular vectors of each task:
    (..., M).
    """
    flat = values[..., 0, :] if values.shape[-2] == 1 else values.sum(-2)
    return tasks.by_task(flat)


def _outputs(tasks: TaskCollection, weights: Any, name: str) -> Floats:
    """Return outputs of shape (..., c, Σr) of weights of shape (..., d) + target_shape."""
    w = as_float(name, weights)
    tail = (tasks.n_features, *tasks.target_shape)
    if w.shape[w.ndim - len(tail) :] != tail:
        raise ValueError(
            f"{name} must have shape (..., {', '.join(map(str, tail))}), got {w.shape}"
        )
    columns = w.reshape(*w.shape[: w.ndim - len(tail)], tasks.n_features, tasks.n_targets)
    errors = tasks.singular_vectors @ columns - tasks.targets
    return np.asarray(np.swapaxes(errors, -1, -2) * tasks.singular_values)


def _path(tasks: TaskCollection, weights: Any, indices: Any) -> tuple[Floats, Visits]:
    outputs = _outputs(tasks, weights, "weights")
    if outputs.ndim != 3:
        raise ValueError(
            "weights must hold those after each step along the first axis, such as trace.weights[i]"
        )
    order = _order(tasks, indices, len(outputs))
    counts = np.bincount(order, minlength=tasks.n_tasks).astype(np.float64)
    means, spread = np.zeros(outputs.shape[1:]), np.zeros(tasks.n_tasks)
    for m in np.unique(order):
        rows = slice(*tasks.offsets[m : m + 2])
        visits = outputs[order == m][..., rows]
        means[:, rows] = visits.mean(0)
        spread[m] = ((visits - visits.mean(0)) ** 2).sum()
    return outputs[-1], Visits(np.array(len(order)), counts, means, spread)


def _order(tasks: TaskCollection, indices: Any, length: int | None = None) -> NDArray[np.int64]:
    order = np.asarray(indices)
    if (
        order.ndim != 1
        or order.size == 0
        or order.dtype.kind not in "iu"
        or (length or len(order)) != len(order)
    ):
        raise ValueError(
            f"indices must be one task index per step, got shape {order.shape} of dtype"
            f" {order.dtype}"
        )
    if order.min() < 0 or order.max() >= tasks.n_tasks:
        raise ValueError(
            f"indices must lie in 0..{tasks.n_tasks - 1}, got {order.min()}..{order.max()}"
        )
    return order.astype(np.int64)


def task_losses(tasks: TaskCollection, w: Array) -> Floats:
    """Return the loss of each task, of shape (..., M), for weights of shape (..., d) or (..., d,
    c).

    Examples
    --------
    >>> import forgetless as fl
    >>> tasks = fl.TaskCollection([([[1.0]], [1.0]), ([[2.0]], [0.0])])
    >>> fl.metrics.task_losses(tasks, [0.0]).tolist()
    [0.5, 0.0]
    """
    return 0.5 * by_task(_outputs(tasks, w, "w") ** 2, tasks) + tasks.floors


def average_loss(tasks: TaskCollection, w: Array) -> Floats:
    """Return the mean loss over all tasks, for weights of shape (..., d) or (..., d, c)."""
    return np.asarray(np.mean(task_losses(tasks, w), axis=-1))


def seen_loss(tasks: TaskCollection, w: Array, indices: Any) -> Floats:
    """Return the mean loss over the tasks seen, each as often as it occurs in ``indices``, of shape
    (...).
    """
    order = _order(tasks, indices)
    return np.asarray(np.mean(task_losses(tasks, w)[..., order], axis=-1))


def forgetting(
    tasks: TaskCollection, weights: Array, indices: Any, *, per_task: bool = False
) -> Any:
    """Return the mean loss degradation since each task was learned.

    Parameters
    ----------
    tasks : TaskCollection
    weights : array of shape (k, d) or (k, d, c)
        w_1..w_k, those after each step.
    indices : array of shape (k,)
        τ_1..τ_k, the task of each step.
    per_task : bool, default False
        Return an array of shape (M,) with the mean over each task's own visits, NaN for tasks never
        seen.

    Examples
    --------
    >>> import forgetless as fl
    >>> tasks = fl.TaskCollection([([[1.0]], [1.0]), ([[1.0]], [0.0])])
    >>> fl.metrics.forgetting(tasks, [[1.0], [0.0]], [0, 1])
    0.25
    >>> fl.metrics.forgetting(tasks, [[1.0], [0.0]], [0, 1], per_task=True).tolist()
    [0.5, 0.0]
    """
    return _from_path("forgetting", tasks, weights, indices, per_task)


def drift(tasks: TaskCollection, weights: Array, indices: Any, *, per_task: bool = False) -> Any:
    """Return the mean squared change of outputs since each task was learned; arguments as in
    ``forgetting``.
    """
    return _from_path("drift", tasks, weights, indices, per_task)


def _from_path(
    name: str, tasks: TaskCollection, weights: Array, indices: Any, per_task: bool
) -> Any:
    outputs, visits = _path(tasks, weights, indices)
    sums = task_sums(outputs, visits.means, tasks, (name,))
    value = evaluate(f"task_{name}" if per_task else name, sums, visits, tasks)
    return value if per_task else float(value)
