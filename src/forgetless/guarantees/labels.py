"""Comparison of a simulated loss of two classes with the bounds that apply, and the reasons why
others do not.
"""

import math
from typing import Any

import numpy as np

from forgetless._core import validate
from forgetless._core.arrays import Floats, to_numpy
from forgetless.engines.classification import MarginProblem
from forgetless.engines.labels import max_margin
from forgetless.engines.problem import Problem
from forgetless.engines.simulation import simulate
from forgetless.engines.upcoming import is_defined, law_of_next, probabilities
from forgetless.errors import ConvergenceError
from forgetless.guarantees.results import BoundComparison, check_bound
from forgetless.losses import Loss
from forgetless.orderings import OneOrder, draws
from forgetless.solvers.margins import proximal_step
from forgetless.theory.bounds import Bound
from forgetless.theory.label_bounds import LabelSetting, catalogue


def bounds_of(loss: Loss) -> tuple[Bound, ...]:
    """Return the bounds of the catalogue that are about a loss, or about the wrong rows of its
    weights.
    """
    about = (loss.name, "wrong rows") if loss.name == "squared_hinge" else (loss.name,)
    return tuple(bound for bound in catalogue if bound.name.split(", ")[1] in about)


def simulated_losses(
    labelled: MarginProblem, start: Any, n_trials: int, seed: int
) -> dict[str, Floats]:
    """Return the losses of every trial after k steps: over all tasks and, where there is one, on
    the next task.
    """
    problem, rows, loss = labelled.problem, labelled.rows, labelled.loss
    tasks, k, ordering = problem.tasks, problem.k, problem.ordering
    trace = simulate(
        tasks,
        problem.filters[0],
        k,
        ordering=ordering,
        n_trials=n_trials,
        seed=seed,
        start=start,
        record="last",
        metrics=("average_loss",),
        loss=loss,
    )
    margins = to_numpy(trace.weights)[:, -1] @ rows.A.T
    losses = rows.by_task(loss.value(margins, 1.0))
    samples = {"average_loss": losses.mean(axis=1)}
    if is_defined(ordering, tasks.n_tasks, k):
        counts = np.zeros((n_trials, tasks.n_tasks))
        for indices in draws(ordering, tasks.n_tasks, k, n_trials, seed):  # those of the simulation
            np.add.at(counts, (np.arange(n_trials)[:, None], indices), 1.0)
        p = probabilities(law_of_next(problem), counts, np.full(n_trials, k))
        wrong = rows.by_task((margins <= 0.0).astype(np.float64))
        samples |= {
            "next_loss": np.sum(p * losses, axis=1),
            "wrong_rows": np.sum(p * wrong, axis=1),
        }
    return samples


def label_setting(labelled: MarginProblem, start: Any) -> LabelSetting:
    """Return the setting of the hypotheses, for the only schedule of a problem."""
    problem, rows, loss = labelled.problem, labelled.rows, labelled.loss
    tasks, first = problem.tasks, to_numpy(problem.tasks.start(start)).astype(np.float64)
    teacher = max_margin(tasks, start).weights
    distance = math.inf if teacher is None else float(np.linalg.norm(first - to_numpy(teacher)))

    def least(factor: float, per_square: float) -> float:
        # C·f̄ + a‖w − w₀‖² is C/M times the loss of all rows with a proximal term; every w proves a
        # bound.
        coefficient = 2.0 * per_square * tasks.n_tasks / factor
        try:
            change = proximal_step(rows.A, np.ones(len(rows.A)), first, coefficient, loss).change
        except ConvergenceError:
            change = np.zeros_like(first)
        mean_loss = float(np.sum(loss.value(rows.A @ (first + change), 1.0))) / tasks.n_tasks
        return factor * mean_loss + per_square * float(change @ change)

    n_rows = int(rows.counts.max())
    filter_ = problem.filters[0]
    return LabelSetting(
        tasks, filter_, problem.k, problem.ordering, first, teacher, distance, loss, n_rows, least
    )


def standard_error(samples: Floats) -> float:
    """Return the relative standard error of a mean; 0 for a single order, which is no sample."""
    mean = float(samples.mean())
    if len(samples) < 2 or mean == 0.0:
        return 0.0
    return float(samples.std(ddof=1)) / math.sqrt(len(samples)) / mean


def compare_labels(
    problem: Problem,
    loss: Loss,
    start: Any,
    bounds: tuple[Bound, ...] | None,
    n_trials: int,
    seed: int,
) -> BoundComparison:
    """Return the simulated losses of the only schedule of a problem beside the bounds for its
    loss.
    """
    n_trials = validate.integer("n_trials", n_trials, 1, "ask for at least one run")
    n_trials = 1 if isinstance(problem.law, OneOrder) else n_trials
    labelled = MarginProblem.of(problem, loss)
    samples, setting = (
        simulated_losses(labelled, start, n_trials, seed),
        label_setting(labelled, start),
    )
    means = {name: float(values.mean()) for name, values in samples.items()}
    tried = bounds_of(loss) if bounds is None else bounds
    return BoundComparison(
        problem.k,
        problem.tasks.radius,
        setting.distance,
        0.0,
        means["average_loss"],
        None,
        None,
        tuple(check_bound(bound, setting, means.get(bound.quantity)) for bound in tried),
        errors={name: standard_error(values) for name, values in samples.items()},
        next_loss=means.get("next_loss"),
        loss=loss.name,
        n_trials=n_trials,
        wrong_rows=means.get("wrong_rows"),
    )
