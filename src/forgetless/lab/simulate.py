"""Simulation of many random runs of a continual learner."""

import math
from typing import Any

from forgetless import _validate as validate
from forgetless._validate import check_memory
from forgetless.lab.problem import Problem
from forgetless.lab.results import Curves
from forgetless.lab.trials import followed
from forgetless.metrics import METRICS, Metric
from forgetless.orderings import OrderingLike
from forgetless.orderings.sampling import shared_seed
from forgetless.schedules.named import Schedules
from forgetless.tasks import TaskCollection


def simulate(  # noqa: PLR0913
    tasks: TaskCollection,
    schedule: Schedules,
    k: int,
    *,
    ordering: OrderingLike | None = None,
    n_trials: int = 1,
    seed: Any = None,
    metrics: Any = None,
    record: Any = "log",
    average: float | None = None,
) -> Curves:
    """Return metrics of ``n_trials`` independent runs of k steps.

    Use it for what has no closed form, such as medians and single paths, or where there are too
    many features or tasks for ``expect``. Each step t draws a task by ``ordering`` and applies w ←
    w − φ_t(XᵀX)(w − X⁺y) with the filter φ_t of ``schedule``.

    Parameters
    ----------
    tasks : TaskCollection
        As in ``expect``; for fresh random tasks in every trial see ``fl.ensembles``.
    schedule : schedule, filter, name or number; or a list or a dict of these
        As in ``expect``. Several are run on the same orders.
    k : int
        Number of steps.
    ordering : Ordering or its name, default ``WithReplacement()``
    n_trials : int, default 1
        Independent runs. Trial i gives the same numbers whatever ``n_trials`` is.
    seed : int, SeedSequence, Generator or None
        Source of randomness; the same integer gives the same numbers, up to rounding. A Generator
        is advanced by one draw.
    metrics : Metric or name, or several, default the first four
        See ``fl.metrics``. ``average_loss``, ``distance`` and ``task_losses`` alone are faster:
        they do not depend on the path. ``weights`` records the weights themselves, and
        ``fl.metrics.loss_on(tasks)`` is the loss of other tasks.
    record : "log", "last", "all" or steps in 0..k, default "log"
        Steps at which metrics are recorded. Memory grows with these, not with k.
    average : float, optional
        Record the average Σ_t ω_t w_t of the iterates so far with weights ω_t ∝ t^average (2 is
        recommended, 0 for equal weights) instead of the last one, from which the iteration
        continues.

    Returns
    -------
    Curves
        Arrays of shape (n_trials, n_steps), with an axis for several schedules before them;
        ``.means(metric)`` and ``.standard_errors(metric)`` are over the trials.

    Examples
    --------
    >>> import forgetless as fl
    >>> tasks = fl.TaskCollection([([[1.0, 0.0]], [1.0]), ([[0.8, 0.6]], [1.4])])
    >>> trace = fl.simulate(tasks, fl.schedules.increasing(), k=100, n_trials=50, seed=0)
    >>> means = trace.means("average_loss")
    >>> trace.average_loss.shape, bool(means[-1] < means[0])
    ((50, 30), True)
    """
    n_trials = validate.integer("n_trials", n_trials, 1, "ask for at least one run")
    problem = Problem.of(tasks, schedule, k, ordering, record, average)
    # A walking teacher has no drift: the labels themselves move.
    default = [name for name in METRICS if name != "drift" or not tasks.walk]
    wanted = problem.resolved(default if metrics is None else metrics)
    _check_size(problem, n_trials, wanted)
    values = followed(problem, wanted, n_trials, shared_seed(seed))
    return Curves.of(values, problem.steps, problem.labels, n_trials)


def _check_size(problem: Problem, n_trials: int, metrics: list[Metric]) -> None:
    """Raise MemoryError for results that do not fit into memory."""
    tasks = problem.tasks
    sizes = {"task": tasks.n_tasks, "feature": tasks.n_features, "target": tasks.n_targets}
    numbers = sum(math.prod(sizes.get(axis, 1) for axis in each.axes) for each in metrics)
    recorded = float(n_trials) * len(problem.steps) * len(problem.filters)
    what = f"a record of {n_trials:,} runs at {len(problem.steps):,} steps"
    check_memory(recorded * numbers, what, "record fewer steps or metrics")
