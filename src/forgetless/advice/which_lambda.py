"""Which λ? Schedules of several shapes compared on given tasks by their exact losses, each at its best scale."""

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from forgetless._core import validate
from forgetless.advice import _data, _sampled, _text
from forgetless.advice._averages import exact_average, sampled_average
from forgetless.advice._losses import Losses, check_held_out
from forgetless.advice._ranking import CHOSEN, EXACT, SEARCHED, best_of_each, compare, wrong_horizon
from forgetless.advice._shapes import Curve, Shape, own_shapes, scan, shapes
from forgetless.advice.results import OBJECTIVES, Advice, Option, ScaleCurve
from forgetless.engines.expectation import expect
from forgetless.engines.inputs import OrderingLike, ScheduleLike
from forgetless.engines.problem import check_tasks, checked_ordering
from forgetless.filters import Filter
from forgetless.io.provenance import Origin
from forgetless.metrics import quantity
from forgetless.reporting.progress import PATIENCE, Progress, duration, progress_callback
from forgetless.schedules import increasing
from forgetless.tasks import TaskCollection

Objective = Literal["average_loss", "seen_loss", "worst_case", "validation"]


def advise(
    tasks: TaskCollection,
    k: int,
    *,
    objective: Objective = "average_loss",
    ordering: OrderingLike | None = None,
    start: Any = None,
    validation: Any = None,
    also: Mapping[str, ScheduleLike] | None = None,
    n_trials: int | None = None,
    seed: int = 0,
    progress: Progress | bool | None = None,
) -> Advice:
    """Return schedules ranked by their exact loss on these tasks, the best scale of each shape, and why.

    Compared are: no regularization; a constant; the paper's fixed and increasing schedules and their step-budget
    versions; the increasing ones also at their best scale; ramps over the last part of the steps; for a cyclic order
    Cai & Diakonikolas' constant; with noisy labels a constant that grows as k/ln k. The scale of each is searched on a
    logarithmic grid with two finer ones around its minima. Below them stands what needs no k: the average of
    unregularized steps with weights t².

    Parameters
    ----------
    tasks : TaskCollection
        Realizable or not.
    k : int
        Number of steps that are planned.
    objective : "average_loss", "seen_loss", "worst_case" or "validation"
        The average loss over all tasks, over those seen on the way, over all tasks for the worst unit teacher (whatever
        the labels are), or over ``validation``; always averaged over orderings.
    ordering : Ordering or its name, default ``WithReplacement()``
    start : array of shape (d,) or (d, c), optional
        w₀; the origin if omitted.
    validation : TaskCollection, pair (X, y) or list of pairs, optional
        Held-out rows. Their mean loss is a column of the table, and with ``objective="validation"`` what is minimised.
    also : dict of schedules, filters, names or numbers by label, optional
        Your own candidates, ranked beside the others as they are.
    n_trials : int, optional
        Compare by this many random runs on all tasks instead of by exact losses, with standard errors. Chosen by
        itself, and as many as a small error takes, where exact losses would take more than about half a minute.
    seed : int, default 0
        For what is sampled; exact results do not depend on it.
    progress : bool or callable, optional
        True shows a bar; a callable is called as ``progress(stages_done, n_stages, "stages")`` now and then.

    Returns
    -------
    Advice
        ``.best`` is a schedule, ``.table`` the ranking as rows, ``.why`` the reasoning; it prints as all three.

    Examples
    --------
    Two tasks at a small angle, 128 steps, the worst teacher: a short ramp at the end beats every constant.

    >>> import numpy as np
    >>> import forgetless as fl
    >>> a = fl.advise(fl.theory.constructions.two_tasks(np.pi / 16), k=128, objective="worst_case")
    >>> type(a.best).__name__, a.best.length
    ('EndRamp', 0.0625)
    >>> losses = {row["shape"]: row["loss"] for row in a.table}
    >>> round(128 * losses["end ramp"], 4), round(128 * losses["no regularization"], 4)
    (0.0657, 0.1051)
    """
    check_tasks(tasks)
    k = validate.integer("k", k, 1, "ask for at least one step")
    law = checked_ordering(ordering, tasks, k)
    goal = quantity("objective", objective, OBJECTIVES)
    held_out = check_held_out(validation, tasks, needed=goal == "validation")
    seed = validate.integer("seed", seed, 0, "use 0")
    problem = Losses(tasks, k, law, start, held_out)
    own = own_shapes(also, shapes(tasks, k, law), tasks.n_tasks)
    given = {"k": k, "objective": goal, "ordering": repr(law), "start": start, "n_trials": n_trials, "seed": seed}
    origin = Origin("advise", lambda: {**given, "also": {shape.name: repr(shape.make(0.0)) for shape in own}}, tasks)
    with progress_callback(progress) as report_progress:
        return replace(_advice(problem, goal, own, n_trials, seed, _stages(report_progress)), origin=origin)


def _advice(
    problem: Losses, goal: str, own: list[Shape], n_trials: int | None, seed: int, next_stage: Callable[[], None]
) -> Advice:
    """Return the comparison that was asked for."""
    tasks = problem.tasks
    _forewarn(problem)
    horizon: dict[str, tuple[Filter, float, float]] = {}
    runs: _sampled.Runs | None = None
    before: list[str] = []
    if _is_sampled(problem, goal, n_trials):
        curves, options, runs, notes = _by_runs(problem, own, goal, seed, n_trials, next_stage)
        if runs.heavy(0) and problem.random and _exact_cost(problem, goal) <= EXACT:
            before = [f"{runs.n_runs} random runs were too far apart to compare by; losses are exact instead."]
            runs = None
    if runs is None:
        curves, options, notes = compare(problem, goal, seed, next_stage, own)
        horizon, notes = wrong_horizon(problem, options[0], curves, goal), [*before, *notes]
    next_stage()
    notes = [*notes, *_data.uncentred(tasks)]
    average = exact_average(problem, goal) if runs is None else sampled_average(problem, goal, seed, n_trials)
    return _written(problem, goal, curves, options, runs, horizon, notes, average)


def _forewarn(problem: Losses) -> None:
    """Refuse more steps than fit into memory, and warn where they will take very long: from the time of a few."""
    k = problem.k
    validate.check_memory(6.0 * k, f"a schedule of {k:,} strengths", "ask for fewer steps")
    if k <= 10 * _LOOK or not problem.random or problem.operations() * _LOOK / k > 1e7:
        return  # large tasks are sampled instead
    probe = [increasing(scale) for scale in np.geomspace(0.01, 10.0, 64)]
    begun = time.monotonic()
    expect(problem.tasks, probe, _LOOK, start=problem.start, ordering=problem.ordering)
    seconds = _TIMES * k / _LOOK * (time.monotonic() - begun)
    if seconds > PATIENCE:
        text = (
            f"advice on {k:,} steps will take about {duration(seconds)}, give or take a factor of three; ask for fewer"
        )
        warnings.warn(text, RuntimeWarning, stacklevel=3)


_LOOK = 500
"""Steps whose time is measured where there are many more."""

_TIMES = 10.0
"""How many times as long comparing all schedules takes as following 64 of them: 4 to 19 where it was measured."""


def _is_sampled(problem: Losses, objective: str, n_trials: int | None) -> bool:
    """Return whether losses are sampled: where that is asked for, or exact ones would take long."""
    cost = _exact_cost(problem, objective)
    if n_trials is not None:
        validate.integer("n_trials", n_trials, 2, "make at least two runs, some hundred for small errors")
        if objective == "worst_case":
            raise ValueError("n_trials cannot be used with objective='worst_case', which no runs sample; leave it out")
    elif objective == "worst_case" and problem.random and cost > _LONGEST:
        raise ValueError(
            f"objective='worst_case' would take about {cost / EXACT / 2:.0f} minutes on these {problem.tasks.n_tasks} "
            "tasks, and cannot be sampled; ask for fewer steps, for a part of the tasks, or for another objective"
        )
    return n_trials is not None or (problem.random and objective != "worst_case" and cost > EXACT)


def _exact_cost(problem: Losses, objective: str) -> float:
    """Return the operations that exact losses take, about, under independent draws."""
    return problem.operations(objective) * (CHOSEN if problem.has_model(objective) else SEARCHED)


_LONGEST = 40 * EXACT
"""Operations, some twenty minutes, from which on the worst case is refused."""


def _by_runs(
    problem: Losses, own: list[Shape], objective: str, seed: int, n_trials: int | None, next_stage: Callable[[], None]
) -> tuple[list[Curve], list[Option], _sampled.Runs, list[str]]:
    """Search by a few random runs on all tasks, then rank by many on other orders."""
    found = [*shapes(problem.tasks, problem.k, problem.ordering), *own]
    curves = scan(found, _sampled.searching(problem, objective, seed, n_trials))
    next_stage()
    best = best_of_each(curves)
    schedules = [curve.shape.make(float(curve.scales[curve.best])) for curve in best]
    runs = _sampled.decided(problem, schedules, objective, seed, n_trials)
    order = np.argsort(runs.means, kind="stable")
    runs = replace(runs, losses=runs.losses[order])
    options = []
    for place, i in enumerate(order.tolist()):
        scale = float(best[i].scales[best[i].best]) if best[i].shape.scales.size else None
        loss, error = float(runs.means[place]), float(runs.errors[place])
        known: dict[str, Any] = {objective: loss, "error": error}
        options.append(Option(best[i].shape.name, schedules[i], scale, loss, **known))
    about = f"losses are means of {runs.n_runs} random runs on all tasks, the same orders for every schedule, ± one"
    about += f" standard error (seed {seed}); what is claimed above holds within {_text.SURE:.0f} of them."
    return curves, options, runs, [f"{about} Neither how flat the optimum is nor a wrong horizon's price was computed."]


def _written(
    problem: Losses,
    objective: str,
    curves: list[Curve],
    options: list[Option],
    runs: _sampled.Runs | None,
    horizon: dict[str, tuple[Filter, float, float]],
    notes: list[str],
    average: Option | None,
) -> Advice:
    tasks, best = problem.tasks, options[0]
    noise, _ = _data.label_noise(tasks)
    shown = best_of_each(curves)
    own = next((curve for curve in shown if curve.shape.name == best.shape), shown[0])
    first = problem.initial(objective)
    facts = _text.Facts(tasks, problem.k, objective, options, problem.least, own.scales, first, runs)
    said = _text.guarantee(tasks, best.schedule, problem.k, problem.ordering, problem.start, objective)
    sentences = [
        *_text.reasoning(facts),
        _text.horizon_claims(facts, horizon),
        [said],
        _text.average_claims(facts, average),
    ]
    drawn = tuple(
        ScaleCurve(curve.shape.name, tuple(curve.scales.tolist()), tuple(curve.losses.tolist()))
        for curve in shown
        if curve.shape.scales.size or curve.shape.name == "no regularization"
    )
    return Advice(
        best=best.schedule,
        options=tuple(options),
        objective=objective,
        k=problem.k,
        n_tasks=tasks.n_tasks,
        n_compared=sum(len(curve.scales) for curve in curves),
        radius=tasks.radius,
        least=problem.least,
        noise=noise,
        horizon={name: loss / best.loss for name, (_, loss, _) in horizon.items()},
        guarantee=said.text,
        why=_text.written([claims for claims in sentences if claims]),
        claims=tuple(claim for claims in sentences for claim in claims),
        n_runs=0 if runs is None else runs.n_runs,
        notes=tuple(notes),
        curves=drawn,
        average=average,
    )


def _stages(report_progress: Progress) -> Callable[[], None]:
    """Return a function to call after every stage of about seven."""
    done = 0

    def next_stage() -> None:
        nonlocal done
        done += 1
        report_progress(min(done, 7), 7, "stages")

    return next_stage
