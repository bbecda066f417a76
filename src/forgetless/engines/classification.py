"""Simulation of proximal steps of losses for two classes, and the exact metrics of a single order.

These steps are not affine, so that nothing is exact over random orders. A single order is
deterministic, and since proximal steps do not increase distances, the errors of all steps add up to
a bound on that of the weights.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from forgetless._core.arrays import Floats, from_numpy, to_numpy
from forgetless._core.compiled import compiled, worth_loading
from forgetless._core.environment import needs
from forgetless.engines._margin_trials import ArrayRun, MarginRun
from forgetless.engines.labels import SignedRows
from forgetless.engines.problem import Computed, Problem
from forgetless.engines.results import Trace
from forgetless.errors import NoExactLawError
from forgetless.filters import Filter
from forgetless.losses import TWO_CLASSES, Loss, Squared, named
from forgetless.metrics import follows_path
from forgetless.orderings import OneOrder, draws
from forgetless.reporting.progress import Progress, silent
from forgetless.schedules import resolve
from forgetless.solvers.margins import check_coefficient


def check_affine(loss: Any, verb: str) -> None:
    """Raise NoExactLawError for a loss other than the squared one, whose steps are not affine."""
    chosen = named(loss)
    if not isinstance(chosen, Squared):
        raise NoExactLawError(
            f"{verb} needs affine steps, which those of the loss {chosen.name} are not; use"
            f" simulate(..., loss={chosen.name!r})"
        )


@dataclass(frozen=True, eq=False)
class MarginProblem:
    """A problem with a loss of two classes: schedules are scaled by its smoothness and give
    strengths λ_t.
    """

    problem: Problem
    rows: SignedRows
    loss: Loss

    @classmethod
    def of(cls, problem: Problem, loss: Loss) -> "MarginProblem":
        """Return the problem with validated labels and strengths."""
        if loss.name not in TWO_CLASSES:
            raise ValueError(
                f"loss must be one of squared, {', '.join(TWO_CLASSES)} here, got {loss.name!r};"
                " for more than two classes use fl.step"
            )
        rows = SignedRows.of(problem.tasks)
        result = cls(replace(problem, filters=_rescaled(problem, rows, loss)), rows, loss)
        positive = np.concatenate(result.strengths)
        positive = positive[positive > 0]
        if len(positive) < sum(map(len, result.strengths)):
            rows.check_margins()
        if len(positive):
            for m in range(rows.n_tasks):
                check_coefficient(rows.of_task(m), float(positive.min()), loss)
        return result

    @cached_property
    def strengths(self) -> list[Floats]:
        """λ_1..λ_k of every schedule; 0 is the projection onto all margins of at least 1."""
        k = self.problem.k
        return [
            np.array(np.broadcast_to(each.strength(), (k,)), dtype=np.float64)
            for each in self.problem.filters
        ]


def _rescaled(problem: Problem, rows: SignedRows, loss: Loss) -> list[Filter]:
    """Return the filters of schedules for the scale of a loss, β in place of R²."""
    filters = []
    for schedule, filter_ in zip(problem.schedules, problem.filters, strict=True):
        if not isinstance(schedule, Filter):
            scale = loss.schedule_scale(problem.tasks.radius, int(rows.counts.max()), problem.k)
            filter_ = resolve(schedule, problem.k, scale**0.5)
        if not filter_.explicit:
            raise ValueError(
                "schedule must give explicit regularization, fl.Ridge or fl.Projection, for the"
                f" loss {loss.name}, got {filter_!r}"
            )
        filters.append(filter_)
    return filters


def simulated(
    labelled: MarginProblem, b: int, sampling: Any, report_progress: Progress = silent
) -> Trace:
    """Return the runs of schedule number ``b``; ``sampling`` is that of ``engines.simulation``."""
    problem, names = labelled.problem, sampling.names
    run = _start(labelled, sampling)
    shape = (sampling.n_trials, len(problem.steps))
    tasks = problem.tasks
    values = {
        name: np.empty((*shape, *((tasks.n_tasks,) if name.startswith("task") else ())))
        for name in names
    }
    weights = np.empty((*shape, tasks.n_features)) if sampling.keep_weights else None
    done = 0

    def record(step: int) -> None:
        place = int(np.searchsorted(problem.steps, step))
        for name, value in evaluate(run, names, step).items():
            values[name][:, place] = value
        if weights is not None:
            weights[:, place] = run.recorded

    if problem.steps[0] == 0:
        record(0)
    for indices in draws(
        problem.ordering, tasks.n_tasks, problem.k, sampling.n_trials, sampling.seed
    ):
        size = indices.shape[1]
        marks = problem.steps[(problem.steps > done) & (problem.steps <= done + size)] - done
        low = 0
        for high in sorted({*marks.tolist(), size}):
            part = slice(done + low, done + high)
            gains = None if problem.average is None else problem.gains[part]
            run.advance(indices[:, low:high], labelled.strengths[b][part], gains)
            if done + high in problem.steps:
                record(done + high)
            low = high
        done += size
        report_progress(done, problem.k, "steps")
    like = tasks[0].X
    converted = {name: from_numpy(value, like=like) for name, value in values.items()}
    return Trace(
        problem.steps, converted, None if weights is None else from_numpy(weights, like=like)
    )


def _start(labelled: MarginProblem, sampling: Any) -> MarginRun:
    """Return the runs before the first step, compiled where that pays."""
    problem, backend = labelled.problem, sampling.backend
    if backend not in ("auto", "array", "numba"):
        raise ValueError(f'backend must be "auto", "array" or "numba", got {backend!r}')
    first = np.tile(to_numpy(sampling.origin), (sampling.n_trials, 1))
    arguments = (
        labelled.rows,
        labelled.loss,
        first,
        problem.average is not None,
        follows_path(sampling.names),
    )
    if backend == "numba":
        with needs('backend="numba"', "numba", "fast"):
            from forgetless.engines._margins_numba import CompiledRun
        return CompiledRun(*arguments)
    seconds = 2e-4 * problem.k * sampling.n_trials
    pays = backend == "auto" and worth_loading("engines._margins_numba", seconds)
    module = compiled("engines._margins_numba") if pays else None
    return (module.CompiledRun if module else ArrayRun)(*arguments)


def evaluate(run: MarginRun, names: tuple[str, ...], step: int) -> dict[str, Floats]:
    """Return metrics of all trials; NaN before the first step for those of the path."""
    rows, margins = run.rows, run.recorded @ run.rows.A.T
    losses = rows.by_task(run.loss.value(margins, 1.0))
    wrong = rows.by_task((margins <= 0.0).astype(np.float64)) / np.maximum(rows.counts, 1)
    values = {
        "average_loss": losses.mean(axis=-1),
        "task_losses": losses,
        "error": wrong.mean(axis=-1),
        "max_violation": np.maximum(1.0 - margins, 0.0).max(axis=-1, initial=0.0),
    }
    if follows_path(names):
        visited = np.where(run.counts > 0, run.counts, np.nan)
        gains = run.counts * losses - run.after
        changes = run.counts * rows.by_task((margins - run.means) ** 2) + run.spread
        count = step if step else np.nan
        values["seen_loss"] = np.sum(run.counts * losses, axis=-1) / count
        values["forgetting"], values["task_forgetting"] = (
            gains.sum(axis=-1) / count,
            gains / visited,
        )
        values["drift"], values["task_drift"] = changes.sum(axis=-1) / count, changes / visited
    return {name: np.asarray(values[name]) for name in names}


def exact(problem: Problem, loss: Loss, origin: Any, names: tuple[str, ...]) -> Computed:
    """Return the metrics of a single order with bounds on their errors; NoExactLawError for random
    orders.
    """
    law = problem.ordering.law(problem.tasks.n_tasks, problem.k)
    if not isinstance(law, OneOrder):
        check_affine(loss, f"expect over {problem.ordering!r}")
    labelled = MarginProblem.of(problem, loss)
    curves, errors = [], []
    for b in range(len(problem.filters)):
        run = ArrayRun(
            labelled.rows, loss, to_numpy(origin)[None], problem.average is not None, track=True
        )
        values, bounds = _followed(labelled, run, b, names)
        curves.append(values)
        errors.append(bounds)
    stacked, bound = (
        {name: np.stack([each[name] for each in many]) for name in names}
        for many in (curves, errors)
    )
    return Computed.of(stacked, "one order", bound)


def _followed(
    labelled: MarginProblem, run: ArrayRun, b: int, names: tuple[str, ...]
) -> tuple[Any, Any]:
    """Return curves and bounds on their absolute errors, of shape (n_steps,) each."""
    problem = labelled.problem
    law = problem.law
    assert isinstance(law, OneOrder)
    values: dict[str, list[float]] = {name: [] for name in names}
    bounds: dict[str, list[float]] = {name: [] for name in names}
    first = 0
    for step in problem.steps.tolist():
        if step > first:
            order = np.array([[law.at(t) for t in range(first, step)]])
            gains = None if problem.average is None else problem.gains[first:step]
            run.advance(order, labelled.strengths[b][first:step], gains)
            first = step
        now = evaluate(run, names, step)
        limits = run.error_bounds(step, now)
        for name in names:
            values[name].append(float(now[name][0]))
            bounds[name].append(limits[name])
    return {name: np.array(each) for name, each in values.items()}, {
        n: np.array(each) for n, each in bounds.items()
    }
