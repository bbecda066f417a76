"""Exact expectations over all orders of the tasks.

A step is affine in the weights and every metric is quadratic, so that expectations follow from
second moments, which obey the linear recursion (2) of ``chain``.
"""

from itertools import repeat
from typing import Any

import numpy as np

from forgetless._running import track
from forgetless._validate import Floats
from forgetless.lab import Problem, with_few_threads
from forgetless.lab.chain import Powers, Run
from forgetless.lab.coordinates import Coordinates, Snapshot
from forgetless.lab.results import Curves
from forgetless.lab.rounding import relative_errors
from forgetless.lab.simulate import followed
from forgetless.metrics import Metric
from forgetless.orderings import OrderingLike
from forgetless.schedules.named import Schedules
from forgetless.tasks import TaskCollection


@with_few_threads
def expect(
    tasks: TaskCollection,
    schedule: Schedules,
    k: int,
    *,
    ordering: OrderingLike | None = None,
    metrics: Any = ("average_loss",),
    record: Any = "last",
    average: float | None = None,
) -> Curves:
    """Return expected metrics over all orderings, exact up to rounding.

    Parameters
    ----------
    tasks : TaskCollection
        Realizable or not, with one or several targets; with label noise and a walking teacher if
        they have them. Learning begins at the origin; for another start w₀ pass
        ``tasks.shifted(w0)``. For fresh
        random tasks see ``fl.ensembles``.
    schedule : schedule, filter, name or number; or a list or a dict of these
        A name is one such as "increasing", a number a fixed coefficient λ. Several are evaluated in
        one batch, far faster than one call each; the keys of a dict are their labels in frames and
        plots.
    k : int
        Number of steps.
    ordering : Ordering or its name, default ``WithReplacement()``
        Any ordering with ``moves``: with or without replacement, reshuffled, cyclic, an explicit
        sequence, your own chain.
    metrics : Metric or name, or several, default ``("average_loss",)``
        See ``fl.metrics``. Those of the path (``seen_loss``, ``forgetting``, ``drift``) follow M
        matrices more, so that they cost about M times as much. ``task_forgetting`` and
        ``task_drift`` are the expected sum over the visits of a task, over the expected number of
        visits; NaN if that is 0. ``fl.metrics.loss_on(tasks)`` is the loss of other tasks.
    record : "last", "log", "all" or steps in 0..k, default "last"
    average : float, optional
        Measure the average Σ_t ω_t w_t of the iterates so far with weights ω_t ∝ t^average (2 is
        recommended, 0 for equal weights) instead of the last one.

    Returns
    -------
    Curves
        Arrays of shape (n_steps,), or (n_schedules, n_steps) for several schedules; those per task
        have one axis more. ``.errors`` estimates the rounding errors.

    Examples
    --------
    Two unit tasks at 60 degrees. Each step solves the task that is drawn: the loss falls to 5/8.

    >>> import numpy as np
    >>> import forgetless as fl
    >>> tasks = fl.TaskCollection([([[1.0, 0.0]], [1.0]), ([[0.5, np.sqrt(0.75)]], [0.5])])
    >>> e = fl.expect(tasks, fl.Projection(), k=3, record="all")
    >>> (e.average_loss[1:] / e.average_loss[:-1]).round(12).tolist()
    [0.625, 0.625]

    Fresh label noise keeps the loss away from zero, the more so the less regularization there is:

    >>> noisy = fl.TaskCollection(tasks, noise=0.1)
    >>> e = fl.expect(noisy, {"none": "none", "λ = 1": 1.0}, k=50)
    >>> e.average_loss[:, 0].round(5).tolist()
    [0.005, 0.00167]

    Several schedules by name:

    >>> e = fl.expect(tasks, {"none": "none", "λ = 1": 1.0, "rising": "increasing"}, k=16)
    >>> e.labels, e.average_loss[:, 0].round(6).tolist()
    (('none', 'λ = 1', 'rising'), [6.1e-05, 0.000907, 0.031164])

    References
    ----------
    Levinstein et al. (2025), Appendix A, for the average loss of realizable tasks and a fixed
    coefficient.
    """
    problem = Problem.of(tasks, schedule, k, ordering, record, average)
    # Metrics are resolved once: errors are estimated for the same ones.
    wanted = problem.resolved(metrics)
    values = expected(problem, wanted)
    return Curves.of(
        values,
        problem.steps,
        problem.labels,
        estimate=lambda: relative_errors(problem, wanted, values),
    )


def expected(problem: Problem, metrics: list[Metric]) -> dict[str, Floats]:
    """Return the curves (B, n_steps, …) of metrics."""
    tasks = problem.tasks
    if problem.ordering.deterministic and not tasks.noise and not tasks.walk:
        # One order without noise is one run, which is faster and keeps relative accuracy.
        curves = followed(problem, metrics, n_trials=1, seed=0)
        return {name: value[:, 0] for name, value in curves.items()}
    # Many schedules in parts that stay in the cache. A comprehension would be one more frame in
    # Python 3.11, where warnings name the line of the caller.
    parts = list(map(_along_the_chain, problem.parts, repeat(metrics)))
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _along_the_chain(problem: Problem, metrics: list[Metric]) -> dict[str, Floats]:
    """Return curves by the recursion of moments."""
    # The coordinate of 1 is left out only for plain losses of tasks that one solution fits.
    path = any(each.path for each in metrics)
    affine = path or any(each.affine for each in metrics)
    coordinates = Coordinates(problem.tasks, affine)
    run = Run(coordinates, problem, path)
    # Powers begin at the start again for every recorded step.
    start = run.S
    last = int(problem.steps[-1])
    powers = None if path else Powers.if_faster(problem, coordinates.maps, last)
    recorded = problem.steps.tolist()
    stops = recorded
    if powers is None:
        problem.announce(last, *run.sizes)
        stops = problem.stops(0, last, *run.sizes)
    curves: dict[str, list[Floats]] = {each.name: [] for each in metrics}
    for stop in track(stops, "steps"):
        if powers is not None:
            # Whole periods from the start at once.
            run.done = stop // powers.period * powers.period
            run.S = powers.advanced(start, run.done)
        if stop > run.done:
            run.advance(problem.factors(run.done, stop))
        if stop in recorded:
            now = Snapshot(run)
            for each in metrics:
                curves[each.name].append(each.evaluate(now))
    return {name: np.stack(values, axis=1) for name, values in curves.items()}
