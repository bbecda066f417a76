"""Exact expectations: what a random ordering does on average, computed rather than sampled."""

from collections.abc import Callable, Sequence
from typing import Any

from forgetless._base.progress import Progress, forewarned
from forgetless.engines import draws, epochs, one_order
from forgetless.engines.draws import Method, method_of
from forgetless.engines.problem import Computed, Problem
from forgetless.engines.results import Expectation
from forgetless.filters import Filter
from forgetless.metrics import METRICS, check_metrics
from forgetless.orderings import Draws, Epochs, OneOrder, Ordering
from forgetless.schedules import Schedule
from forgetless.tasks import TaskCollection


def expect(
    tasks: TaskCollection,
    schedule: Schedule | Filter | Sequence[Schedule | Filter],
    k: int,
    *,
    ordering: Ordering | None = None,
    metrics: Any = ("average_loss",),
    record: Any = "last",
    start: Any = None,
    average: float | None = None,
    method: Method = "auto",
    progress: Progress | None = None,
) -> Expectation:
    """Return expected metrics over all orderings, exact up to rounding.

    Parameters
    ----------
    tasks : TaskCollection
        Realizable or not, with one or several targets.
    schedule : schedule, filter, or a list of these
        A list is evaluated in one batch: far faster than one call each.
    k : int
        Number of steps.
    ordering : Ordering, default ``WithReplacement()``
        With replacement (any probabilities), without, reshuffled, cyclic, an explicit sequence, or any other that has a
        ``law``.
    metrics : names, default ``("average_loss",)``
        Some of ``average_loss``, ``seen_loss``, ``forgetting``, ``drift``. The last three follow M matrices instead of
        one, so that with replacement they cost about M times as much.
    record : "last", "log", "all" or steps in 0..k, default "last"
    start : array of shape (d,) or (d, c), optional
        w₀; the origin if omitted.
    average : float, optional
        Measure the average Σ_t ω_t w_t of the iterates w_1..w_k with weights ω_t ∝ t^average (2 is recommended, 0
        weighs all alike) instead of the last one. At recorded step t it is the average so far; at step 0 it is w₀. For
        random orders of the average loss only, and step by step.
    method : "auto", "steps", "dense" or "lanczos"
        How the average loss of a fixed filter under draws with replacement is taken to large k: one step after the
        other, by the operator as a matrix, or by a Krylov space (realizable tasks only). "auto" takes the cheapest.
    progress : callable, optional
        Called as ``progress(steps_done, k, "steps")`` now and then.

    Returns
    -------
    Expectation
        Arrays of shape (n_steps,), or (n_schedules, n_steps) for a list of schedules.

    Examples
    --------
    Two unit tasks at 60 degrees, both solved exactly each time: the loss falls by 5/8 per step.

    >>> import numpy as np
    >>> import forgetless as fl
    >>> tasks = fl.TaskCollection([([[1.0, 0.0]], [1.0]), ([[0.5, np.sqrt(0.75)]], [0.5])])
    >>> e = fl.expect(tasks, fl.Projection(), k=3, record="all")
    >>> (e.average_loss[1:] / e.average_loss[:-1]).round(12).tolist()
    [0.625, 0.625]

    An average needs no schedule, and no k, to reach the rate 1/k on every collection:

    >>> e = fl.expect(tasks, fl.Projection(), k=3, record="all", average=2)
    >>> e.average_loss.round(6).tolist()
    [0.070312, 0.042187, 0.026821]

    References
    ----------
    The operator on second moments is that of Levinstein et al. (2025), Appendix A, there for the average loss of
    realizable tasks and a fixed coefficient.
    """
    problem = Problem.of(tasks, schedule, k, ordering, record, average)
    names = check_metrics(metrics, METRICS)
    options = method_of(problem, method)
    engine = ENGINES[type(problem.law)]
    told = forewarned(progress, "use fewer steps, or a fixed filter with metrics='average_loss', which takes no steps")
    return problem.expectation(engine(problem, tasks.start(start), names, told, **options))


ENGINES: dict[type, Callable[..., Computed]] = {
    Draws: draws.expectations,
    Epochs: epochs.expectations,
    OneOrder: one_order.expectations,
}
"""The exact engine of every law, forwards."""
