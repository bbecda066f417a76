"""Exact expectations: what a random ordering does on average, computed rather than sampled."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from forgetless._base.arrays import Array, Floats, from_numpy, to_numpy
from forgetless._base.checks import check_memory
from forgetless.engines._subsets import program
from forgetless.engines.draws import IndependentRun, Method, cheapest, compiled_steps
from forgetless.engines.moments import Moments, Operator, average_form, moments_around_teacher
from forgetless.engines.powers import Spectral, Squaring, lanczos_power
from forgetless.engines.problem import Problem, Progress
from forgetless.engines.results import Expectation
from forgetless.engines.simulation import simulate
from forgetless.errors import NoExactLawError
from forgetless.filters import Filter
from forgetless.metrics import METRICS, PATH_METRICS, check_metrics
from forgetless.orderings import Cyclic, Ordering, Reshuffled, WithoutReplacement, WithReplacement
from forgetless.orderings import Sequence as SequenceOrdering
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
        With replacement (any probabilities), without, reshuffled, cyclic or an explicit sequence.
    metrics : names, default ``("average_loss",)``
        Some of ``average_loss``, ``seen_loss``, ``forgetting``, ``drift``. The last three follow M matrices instead of
        one, so that with replacement they cost about M times as much.
    record : "last", "log", "all" or steps in 0..k, default "last"
    start : array of shape (d,) or (d, c), optional
        w₀; the origin if omitted.
    method : "auto", "steps", "dense" or "lanczos"
        How the average loss of a fixed filter under draws with replacement is taken to large k: one step after the
        other, by the operator as a matrix, or by a Krylov space (realizable tasks only). "auto" takes the cheapest.
    progress : callable, optional
        Called as ``progress(steps_done, k)`` now and then.

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

    References
    ----------
    The operator on second moments is that of Levinstein et al. (2025), Appendix A, there for the average loss of
    realizable tasks and a fixed coefficient.
    """
    problem = Problem.of(tasks, schedule, k, ordering, record)
    names = check_metrics(metrics, METRICS)
    if method not in ("auto", "steps", "dense", "lanczos"):
        raise ValueError(f'method must be "auto", "steps", "dense" or "lanczos", got {method!r}')
    origin = tasks.start(start)
    law = problem.ordering
    if not isinstance(law, WithReplacement) and method in ("dense", "lanczos"):
        raise ValueError(f"method={method!r} needs draws with replacement; leave it at 'auto'")
    if isinstance(law, Cyclic | SequenceOrdering):
        values, used = _along_one_order(problem, names, start, progress), "one order"
        return problem.expectation(values, used, 0.0)
    moments = moments_around_teacher(tasks, origin)
    if isinstance(law, WithReplacement):
        values, used, error = _independent(problem, moments, names, method, progress)
        return problem.expectation(values, used, error)
    if isinstance(law, WithoutReplacement | Reshuffled):
        return problem.expectation(_over_subsets(problem, moments, names, progress), "subsets", 0.0)
    raise NoExactLawError(
        f"ordering {law!r} has no exact expectation here; use simulate, or one of WithReplacement, WithoutReplacement, "
        "Reshuffled, Cyclic and Sequence"
    )


def _independent(
    problem: Problem, moments: Moments, names: tuple[str, ...], method: Method, progress: Progress | None
) -> tuple[dict[str, Floats], str, float]:
    path = any(name in PATH_METRICS for name in names)
    powers = problem.constant and not path
    if not powers and method in ("dense", "lanczos"):
        raise ValueError(f"method={method!r} needs fixed filters and metrics='average_loss'; use method='steps'")
    if powers and method == "lanczos" and not moments.realizable:
        raise ValueError("method='lanczos' needs realizable tasks; use method='dense' or 'steps'")
    if method == "auto":
        method = cheapest(problem, moments.size, moments.realizable) if powers else "steps"
    if method == "steps":
        n_problems = len(problem.filters)
        check_memory(
            n_problems * (5.0 * moments.size**2 + 3.0 * moments.left.shape[0] * moments.size),
            f"{n_problems} schedules in {moments.size} coordinates",
            "ask for fewer schedules at once, or use simulate",
        )
        run = IndependentRun(
            moments,
            problem.probabilities,
            len(problem.filters),
            path=path,
            drift="drift" in names,
            lanes=compiled_steps(problem, moments),
        )
        curves = _step_by_step(problem, run, names, progress)
        return curves, "steps", _floor(curves.get("average_loss"), problem, moments)
    operator = Operator(moments, problem.probabilities)
    shares = from_numpy(problem.shares(0, 1)[:, 0, :], like=moments.left)
    form = average_form(moments)
    if method == "dense":
        dense = (Spectral if moments.realizable else Squaring)(operator, moments.size, shares)
        values, error = dense.form(moments.start, form, problem.steps), 1e-15 * problem.k
    else:
        values, error = _by_lanczos(problem, moments, operator, shares, form)
    average = 0.5 * np.maximum(values, 0.0) + problem.tasks.floors.mean()
    if progress is not None:
        progress(problem.k, problem.k)
    return {"average_loss": average}, method, error + _floor(average, problem, moments)


def _floor(average: Floats | None, problem: Problem, moments: Moments) -> float:
    """Return the relative error of the smallest loss: moments are rounded relative to those at the start."""
    if average is None or not average.size:
        return 0.0
    start = 0.5 * float(np.sum(to_numpy(average_form(moments)) * to_numpy(moments.start)))
    excess = float(np.min(average) - problem.tasks.floors.mean())
    smallest = max(excess, float(problem.tasks.floors.mean()), np.finfo(float).tiny)
    return min(1.0, 4 * float(np.finfo(float).eps) * start / smallest)


def _by_lanczos(
    problem: Problem, moments: Moments, operator: Operator, shares: Array, form: Array
) -> tuple[Floats, float]:
    values, worst = np.empty((len(problem.filters), len(problem.steps))), 0.0
    for b in range(len(problem.filters)):
        for i, step in enumerate(problem.steps.tolist()):
            V, error = form[:, :, None], 0.0
            if step:
                V, error = lanczos_power(operator, V, shares[:, b : b + 1], step, 1e-12)
            form_, start = to_numpy(V)[:, :, 0], to_numpy(moments.start)
            values[b, i] = float(np.sum(form_ * start))
            # The error is relative to the norm of the form; of the number it may be a larger part.
            size = float(np.linalg.norm(form_) * np.linalg.norm(start))
            worst = max(worst, float(error * size / values[b, i]) if values[b, i] > 0 else 1.0)
    return values, worst


def _step_by_step(
    problem: Problem, run: IndependentRun, names: tuple[str, ...], progress: Progress | None
) -> dict[str, Floats]:
    values: dict[str, Floats] = {name: np.empty((len(problem.filters), len(problem.steps))) for name in names}
    wanted = {int(step): i for i, step in enumerate(problem.steps)}

    def note(step: int) -> None:
        if step in wanted:
            for name in names:
                values[name][:, wanted[step]] = run.evaluate(name, step)

    note(0)
    last = int(problem.steps[-1])
    stops = sorted({*range(0, last, problem.steps_at_once), *(step for step in wanted if step < last), last})
    for first, stop in itertools.pairwise(stops):
        run.advance(problem.shares(first, stop))
        note(stop)
        if progress is not None:
            progress(stop, problem.k)
    return values


def _over_subsets(
    problem: Problem, moments: Moments, names: tuple[str, ...], progress: Progress | None
) -> dict[str, Floats]:
    tasks, last = problem.tasks, int(problem.steps[-1])
    path, drift = any(name in PATH_METRICS for name in names), "drift" in names
    subsets = program(tasks, moments, path=path, drift=drift)
    subsets.check_size(last)
    values = {name: np.empty((len(problem.filters), len(problem.steps))) for name in names}
    wanted = {int(step): i for i, step in enumerate(problem.steps)}
    for b in range(len(problem.filters)):
        level = subsets.empty_set(moments.start)
        for step in range(last + 1):
            epochs = max(0, step - 1) // tasks.n_tasks
            if step:
                if level.t == tasks.n_tasks:
                    level = subsets.next_epoch(level)
                level = subsets.raised(level, problem.shares_of(b, step - 1, step)[0], epochs)
            if step in wanted:
                for name in names:
                    values[name][b, wanted[step]] = subsets.evaluate(name, level, step, epochs)
            if progress is not None and step:
                progress(step, problem.k)
    return values


def _along_one_order(
    problem: Problem, names: tuple[str, ...], start: Any, progress: Progress | None
) -> dict[str, Floats]:
    """Follow the only order there is."""
    values: dict[str, list[Floats]] = {name: [] for name in names}
    for filter_ in problem.filters:
        trace = simulate(
            problem.tasks,
            filter_,
            problem.k,
            ordering=problem.ordering,
            record=problem.steps,
            start=start,
            metrics=names,
            keep_weights=False,
            progress=progress,
        )
        for name in names:
            values[name].append(to_numpy(trace.values[name])[0])
    return {name: np.stack(rows) for name, rows in values.items()}
