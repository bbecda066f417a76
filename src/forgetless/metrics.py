"""Metrics: what is measured after k steps, each defined once for exact expectations and for runs.

===================  ===============================================================================
``average_loss``     mean over all M tasks of L(w_k; m) = ½‖X_m w_k − y_m‖²
``seen_loss``        (1/k) Σ_t L(w_k; τ_t), τ_t being the task of step t: as often as it was seen
``forgetting``       (1/k) Σ_t [L(w_k; τ_t) − L(w_t; τ_t)], negative where later tasks helped
``drift``            (1/k) Σ_t ‖X_τt (w_k − w_t)‖², the change of outputs, without a factor ½
``next_loss``        mean of L(w_k; τ_{k+1}) over the next task, given the tasks so far
``distance``         ‖w_k − w⋆‖², w⋆ being the joint least-squares solution nearest to the start
``task_losses``      L(w_k; m) of every task
``task_forgetting``  the mean over the visits of each task instead of over all steps
``task_drift``       likewise
``"weights"``        w_k itself, or its mean over orders, measured from the start
===================  ===============================================================================

The others are quadratic forms, of the weights w_k, or of w_k and the weights w_t after a visit.
A metric is a function of a *snapshot*: of moments in ``expect``, of weights in ``simulate``.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from forgetless._text import closest
from forgetless._validate import Array, Floats, as_float
from forgetless.orderings import FixedOrder
from forgetless.tasks import TaskCollection
from forgetless.tasks.task import Outputs

__all__ = [
    "Metric",
    "average_loss",
    "distance",
    "drift",
    "forgetting",
    "loss_on",
    "next_loss",
    "seen_loss",
    "task_drift",
    "task_forgetting",
    "task_losses",
]

# The objectives of ``fl.advise`` in words.
QUANTITIES = {
    "average_loss": "expected loss over all tasks",
    "seen_loss": "expected loss over the tasks seen",
    "worst_case": "expected loss for the worst unit teacher",
    "validation": "expected loss on the held-out tasks",
}


def quantity(
    argument: str,
    name: Any,
    allowed: Sequence[str],
) -> str:
    """Return the name of a quantity, which may be written with hyphens, as on the command line."""
    canonical = str(name).replace("-", "_")
    if canonical not in allowed:
        raise ValueError(
            f"{argument} must be one of {', '.join(allowed)}; {closest(name, allowed)}got {name!r}"
        )
    return canonical


@dataclass(frozen=True)
class Metric:
    """A number, or an array, of the state of a learner.

    Parameters
    ----------
    name : str
    evaluate : function of a snapshot
        A snapshot has ``n_steps``, ``tasks``, ``weights`` (d, c), ``losses`` (M,), ``next_loss``,
        the sums over the visits of each task ``visits``, ``seen``, ``forgotten`` and ``moved``
        (M,), and ``square(A, b)`` = ‖A w − b‖², A being None for the identity. All have leading
        axes for schedules or trials. Expectations pass through, so use these linearly.
    path : bool, default False
        Whether it reads the sums over visits. In ``expect`` they cost M times as much.
    affine : bool, default True
        False for a metric that reads nothing but ``losses``, which are cheaper alone where one
        model fits all tasks.
    axes : tuple of str, default ()
        Names of the axes of one value: ("task",) for one value per task.

    Examples
    --------
    The size of the weights, and a metric of given weights:

    >>> import numpy as np
    >>> import forgetless as fl
    >>> size = fl.metrics.Metric("size", lambda now: now.square(None, 0.0))
    >>> tasks = fl.TaskCollection([([[1.0, 0.0]], [1.0]), ([[0.0, 2.0]], [0.0])])
    >>> float(fl.expect(tasks, fl.Projection(), k=1, metrics=size).values["size"][0])
    0.5
    >>> fl.metrics.task_losses(tasks, [0.0, 1.0]).tolist()
    [0.5, 2.0]
    >>> float(fl.metrics.drift(tasks, [[1.0, 0.0], [0.0, 0.0]], [0, 1]))
    0.5
    """

    name: str
    evaluate: Callable[[Any], Any]
    path: bool = False
    affine: bool = True
    axes: tuple[str, ...] = ()

    def __call__(
        self,
        tasks: TaskCollection,
        weights: Any,
        indices: Any = None,
    ) -> Floats:
        """Return the metric of given weights; there is no ``next_loss`` without a law of orders.

        Parameters
        ----------
        tasks : TaskCollection
        weights : array of shape (..., d) or (..., d, c)
            For ``forgetting`` and ``drift`` those after each step, w_1..w_k, along the first axis.
        indices : array of shape (k,), for metrics of the path
            τ_1..τ_k, the task of each step.
        """
        return np.asarray(self.evaluate(Given(tasks, weights, indices)))


class Given(Outputs):
    """The snapshot of given weights, and of the order of tasks where a metric needs one."""

    def __init__(
        self,
        tasks: TaskCollection,
        weights: Any,
        indices: Any,
    ) -> None:
        self.tasks = tasks
        # Weights of any leading shape; one axis for targets at the end.
        w = as_float("w", weights)
        tail = tasks.weights_shape
        n_leading = w.ndim - len(tail)
        if w.shape[n_leading:] != tail:
            raise ValueError(f"w must have shape (..., {', '.join(map(str, tail))}), got {w.shape}")
        self.weights = w if tasks.target_shape else w[..., None]
        # Targets before features, as outputs are (…, c, Σr).
        self.rows = np.swapaxes(self.weights, -1, -2)
        if indices is not None:
            order = FixedOrder(indices)
            self.order = np.array(order.indices)
            self.n_steps = len(self.order)
            order.check(tasks.n_tasks, self.n_steps)
            self.visits = np.bincount(self.order, minlength=tasks.n_tasks).astype(np.float64)

    # The present is the last step; its own visit has change zero.
    @property
    def forgotten(self) -> Array:
        return super().forgotten[-1]

    @property
    def moved(self) -> Array:
        return super().moved[-1]

    @cached_property
    def _at_visits(self) -> Array:
        """Whether a step is a visit of the task of each singular vector, of shape (k, 1, Σr)."""
        if self.outputs.ndim != 3 or len(self.outputs) != self.n_steps:
            raise ValueError(
                "weights must hold those after each step along the first axis, such as"
                f" trace.weights[i], and indices one task index per step; got {self.n_steps}"
                f" indices and weights of shape {self.weights.shape}"
            )
        return self.order[:, None, None] == self.tasks.owners

    @cached_property
    def means(self) -> Array:  # type: ignore[override]
        # The mean over the steps that visited the task of each singular vector.
        visits = self._at_visits
        sums = np.sum(self.outputs * visits, axis=0)
        return sums / np.maximum(1, visits.sum(axis=0))

    @cached_property
    def spreads(self) -> Array:  # type: ignore[override]
        squares = (self.outputs - self.means) ** 2 * self._at_visits
        return self.tasks.by_task(squares.sum(axis=(0, 1)))


def loss_on(tasks: TaskCollection, name: str = "loss_on") -> Metric:
    """Return the metric of the average loss on other tasks, which are not learned: held-out ones.

    Parameters
    ----------
    tasks : TaskCollection
        With the same features and targets as those learned.
    name : str, default "loss_on"
        The name among the values of a result.
    """
    A, b = tasks.mean_rows
    # What no weights avoid is added.
    floor = tasks.floors.mean()

    def evaluate(now: Any) -> Array:
        learned = now.tasks.weights_shape
        if tasks.weights_shape != learned:
            raise ValueError(
                f"loss_on must hold tasks with weights of shape {learned}, as those learned, got"
                f" {tasks.weights_shape}; use the same features and targets"
            )
        return 0.5 * now.square(A, b) + floor

    return Metric(name, evaluate)


def _mean(sums: Floats, now: Any) -> Array:
    """Return the mean over all steps; NaN before the first."""
    return sums.sum(-1) / (now.n_steps or np.nan)


def _per_visit(sums: Floats, visits: Floats) -> Floats:
    """Return means over the visits of each task; NaN before the first."""
    # Before the first visit there is nothing to compare with: 0/0.
    with np.errstate(invalid="ignore"):
        return sums / visits


# The lambdas are linear in the snapshot, so that expectations pass through.
average_loss = Metric("average_loss", lambda now: now.losses.mean(-1), affine=False)
seen_loss = Metric("seen_loss", lambda now: np.maximum(_mean(now.seen, now), 0.0), path=True)
forgetting = Metric("forgetting", lambda now: _mean(now.forgotten, now), path=True)
drift = Metric("drift", lambda now: _mean(now.moved, now), path=True)
# A sum over the moves of the next step.
next_loss = Metric("next_loss", lambda now: now.next_loss)
distance = Metric("distance", lambda now: now.square(None, now.tasks.teacher()))
task_losses = Metric("task_losses", lambda now: now.losses, affine=False, axes=("task",))
task_forgetting = Metric(
    "task_forgetting",
    lambda now: _per_visit(now.forgotten, now.visits),
    path=True,
    axes=("task",),
)
task_drift = Metric(
    "task_drift", lambda now: _per_visit(now.moved, now.visits), path=True, axes=("task",)
)
# By name only: of given weights it says nothing.
weights = Metric(
    "weights",
    lambda now: now.weights.reshape(*now.weights.shape[:-1], *now.tasks.target_shape),
    axes=("feature", "target"),
)

METRICS = ("average_loss", "seen_loss", "forgetting", "drift")
"""The metrics that ``simulate`` records by default."""

_TOTALS = (average_loss, seen_loss, forgetting, drift, next_loss, distance)
_ARRAYS = (weights, task_losses, task_forgetting, task_drift)
NAMED = {each.name: each for each in _TOTALS + _ARRAYS}
"""All metrics that can be asked for by name."""


def check_metrics(
    metrics: Any,
    allowed: Iterable[str],
    more: str = "",
) -> tuple[Any, ...]:
    """Return ``metrics``, one or several, as a tuple of distinct names that are allowed, or of
    objects where there may be ``more``.
    """
    # One metric stands for a list of one.
    several = metrics if isinstance(metrics, list | tuple) else [metrics]
    kinds = Metric if more else ()
    unknown = [each for each in several if each not in allowed and not isinstance(each, kinds)]
    if unknown or not several:
        hint = closest(unknown[0], allowed) if unknown else ""
        raise ValueError(
            f"metrics must be some of {', '.join(allowed)}{more}; {hint}got {metrics!r}"
        )
    return tuple(dict.fromkeys(several))


def resolve(metrics: Any) -> list[Metric]:
    """Return distinct metrics from one or several, given as objects or by name."""
    found = check_metrics(metrics, NAMED, ", or Metric objects of fl.metrics")
    objects = {NAMED.get(each, each): None for each in found}
    if len({each.name for each in objects}) < len(objects):
        raise ValueError(
            f"metrics must have different names, got {[each.name for each in objects]}; give each"
            " its own, as in loss_on(tasks, name)"
        )
    return list(objects)
