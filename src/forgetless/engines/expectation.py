"""Exact expectations over random orderings, computed instead of sampled."""

from collections.abc import Callable
from typing import Any

from forgetless.engines import draws, epochs, one_order
from forgetless.engines.draws import Method, method_of
from forgetless.engines.inputs import OrderingLike, Schedules
from forgetless.engines.problem import Computed, Problem
from forgetless.engines.results import Expectation
from forgetless.metrics import METRICS, check_metrics
from forgetless.orderings import Draws, Epochs, OneOrder
from forgetless.reporting.progress import Progress, progress_callback, with_eta_warning
from forgetless.tasks import TaskCollection


def expect(
    tasks: TaskCollection,
    schedule: Schedules,
    k: int,
    *,
    ordering: OrderingLike | None = None,
    metrics: Any = ("average_loss",),
    record: Any = "last",
    start: Any = None,
    average: float | None = None,
    method: Method = "auto",
    progress: Progress | bool | None = None,
) -> Expectation:
    """Return expected metrics over all orderings, exact up to rounding.

    Parameters
    ----------
    tasks : TaskCollection
        Realizable or not, with one or several targets.
    schedule : schedule, filter, name or number; or a list or a dict of these
        A name is one such as "increasing:0.5", a number a fixed coefficient λ. Several are evaluated in one batch, far
        faster than one call each; the keys of a dict are their labels in frames and plots.
    k : int
        Number of steps.
    ordering : Ordering or its name, default ``WithReplacement()``
        Any ordering with a ``law``: with or without replacement, reshuffled, cyclic, an explicit sequence.
    metrics : names, default ``("average_loss",)``
        Some of ``average_loss``, ``seen_loss``, ``forgetting``, ``drift``. The last three follow M matrices instead of
        one, so that with replacement they cost about M times as much.
    record : "last", "log", "all" or steps in 0..k, default "last"
    start : array of shape (d,) or (d, c), optional
        w₀; the origin if omitted.
    average : float, optional
        Measure the average Σ_t ω_t w_t of the iterates w_1..w_k with weights ω_t ∝ t^average (2 is recommended, 0
        for equal weights) instead of the last one. At recorded step t it is the average so far; at step 0 it is w₀. For
        random orders only the average loss is available, and only step by step.
    method : "auto", "steps", "dense" or "lanczos"
        How the average loss of a fixed filter under draws with replacement is computed: step by step, by powers of the
        operator as a matrix, or by a Krylov space (realizable tasks only). "auto" selects the cheapest.
    progress : bool or callable, optional
        True shows a bar; a callable is called as ``progress(steps_done, k, "steps")`` now and then.

    Returns
    -------
    Expectation
        Arrays of shape (n_steps,), or (n_schedules, n_steps) for several schedules.

    Examples
    --------
    Two unit tasks at 60 degrees, both solved exactly each time: the loss falls by 5/8 per step.

    >>> import numpy as np
    >>> import forgetless as fl
    >>> tasks = fl.TaskCollection([([[1.0, 0.0]], [1.0]), ([[0.5, np.sqrt(0.75)]], [0.5])])
    >>> e = fl.expect(tasks, fl.Projection(), k=3, record="all")
    >>> (e.average_loss[1:] / e.average_loss[:-1]).round(12).tolist()
    [0.625, 0.625]

    Several schedules by name:

    >>> e = fl.expect(tasks, {"none": "none", "λ = 1": 1.0, "rising": "increasing"}, k=16)
    >>> e.labels, e.average_loss[:, 0].round(6).tolist()
    (('none', 'λ = 1', 'rising'), [6.1e-05, 0.000907, 0.031164])
    >>> e["λ = 1"].average_loss.round(6).tolist()
    [0.000907]

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
    origin = tasks.start(start)
    hint = "use fewer steps, or a fixed filter with metrics='average_loss', which takes no steps"
    with progress_callback(progress) as callback:
        return problem.expectation(engine(problem, origin, names, with_eta_warning(callback, hint), **options), start)


# The exact engine of every law, forwards
ENGINES: dict[type, Callable[..., Computed]] = {
    Draws: draws.expectations,
    Epochs: epochs.expectations,
    OneOrder: one_order.expectations,
}
