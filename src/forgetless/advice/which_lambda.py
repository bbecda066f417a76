"""Advice on λ: schedules of several shapes, each at its best scale, compared by their exact losses
on tasks.
"""

import math
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from forgetless._core import validate
from forgetless.advice import _sampled, _text, ensembles
from forgetless.advice._losses import Losses, check_held_out
from forgetless.advice._ranking import CHOSEN, EXACT, SEARCHED, best_of_each, compare, wrong_horizon
from forgetless.advice._shapes import Curve, Shape, own_shapes, scan, shapes
from forgetless.advice.results import OBJECTIVES, Advice, Option, ScaleCurve
from forgetless.engines.expectation import expect, worst_case
from forgetless.engines.fresh import check_unused
from forgetless.engines.inputs import OrderingLike, ScheduleLike
from forgetless.engines.problem import check_tasks, checked_ordering, with_few_threads
from forgetless.ensembles import Ensemble
from forgetless.errors import NoExactLawError
from forgetless.filters import Filter, Projection
from forgetless.io.provenance import Origin
from forgetless.metrics import quantity
from forgetless.reporting.progress import PATIENCE, Progress, duration, progress_callback
from forgetless.schedules import increasing
from forgetless.tasks import TaskCollection

Objective = Literal[
    "average_loss", "seen_loss", "worst_case", "validation", "next_loss", "distance"
]


@with_few_threads
def advise(  # noqa: PLR0913
    tasks: TaskCollection | Ensemble,
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
    """Return schedules ranked by their exact loss on these tasks, the best scale of each shape, and
    why.

    Compared are: no regularization; a constant; the paper's fixed and increasing schedules and
    their step-budget versions; the increasing ones also at their best scale; the minimax schedule,
    whose worst case is the smallest possible, and the capped budget; ramps over the last part of
    the steps; for a cyclic order Cai & Diakonikolas' constant; with noisy labels a constant that
    grows as k/ln k, and the minimax schedule for an amount of noise. The scale of each is searched
    on a logarithmic grid with two finer ones around its minima. The average of unregularized steps
    with weights t², which does not depend on k, is listed below them.

    Parameters
    ----------
    tasks : TaskCollection or Ensemble
        Realizable or not. For an ensemble of fresh tasks (``fl.ensembles``) the optimal schedule is
        compared as well; its objectives are "average_loss", "next_loss" and "distance", and of the
        other arguments it has ``also``.
    k : int
        Number of steps that are planned.
    objective : "average_loss", "seen_loss", "worst_case" or "validation"
        The average loss over all tasks, over the tasks seen so far, over all tasks for the worst
        unit teacher (for any labels), or over ``validation``; always averaged over orderings.
    ordering : Ordering or its name, default ``WithReplacement()``
    start : array of shape (d,) or (d, c), optional
        w₀; the origin if omitted.
    validation : TaskCollection, pair (X, y) or list of pairs, optional
        Held-out rows. Their mean loss is a column of the table, minimised with
        ``objective="validation"``.
    also : dict of schedules, filters, names or numbers by label, optional
        Further candidates, without a search for scales.
    n_trials : int, optional
        Compare by this many random runs on all tasks, with standard errors, instead of by exact
        losses. If omitted, runs are used where exact losses would take more than half a minute, as
        many as a small error needs.
    seed : int, default 0
        Of random runs; exact results do not depend on it.
    progress : bool or callable, optional
        True shows a bar; a callable is called as ``progress(stages_done, n_stages, "stages")`` now
        and then.

    Returns
    -------
    Advice
        ``.best`` is a schedule, ``.table`` the ranking as rows, ``.why`` the reasoning; it prints
        as all three.

    Examples
    --------
    Two tasks at a small angle, 128 steps, the worst teacher: a short ramp at the end beats every
    constant.

    >>> import numpy as np
    >>> import forgetless as fl
    >>> a = fl.advise(fl.theory.constructions.two_tasks(np.pi / 16), k=128, objective="worst_case")
    >>> type(a.best).__name__, a.best.length
    ('EndRamp', 0.0625)
    >>> losses = {row["shape"]: row["loss"] for row in a.table}
    >>> round(128 * losses["end ramp"], 4), round(128 * losses["no regularization"], 4)
    (0.0657, 0.1051)
    """
    if isinstance(tasks, Ensemble):
        others = {
            "ordering": (ordering, None),
            "start": (start, None),
            "validation": (validation, None),
        }
        check_unused(**others, n_trials=(n_trials, None), seed=(seed, 0))
        return ensembles.advise(tasks, k, objective, also)
    check_tasks(tasks)
    k = validate.integer("k", k, 1, "ask for at least one step")
    law = checked_ordering(ordering, tasks, k)
    goal = quantity("objective", objective, OBJECTIVES)
    held_out = check_held_out(validation, tasks, needed=goal == "validation")
    seed = validate.integer("seed", seed, 0, "use 0", math.inf)
    problem = Losses(tasks, k, law, start, held_out, goal, seed)
    extra = own_shapes(also, shapes(tasks, k, law), tasks.n_tasks)
    arguments = {
        "k": k,
        "objective": goal,
        "ordering": repr(law),
        "start": start,
        "n_trials": n_trials,
        "seed": seed,
    }
    named = {shape.name: repr(shape.make(0.0)) for shape in extra}
    origin = Origin("advise", lambda: {**arguments, "also": named}, tasks)
    with progress_callback(progress) as report_progress:
        return replace(_advice(problem, extra, n_trials, _stages(report_progress)), origin=origin)


def _advice(
    problem: Losses, extra: list[Shape], n_trials: int | None, next_stage: Callable[[], None]
) -> Advice:
    """Return the comparison by exact losses or by random runs."""
    _warn_of_duration(problem)
    horizon: dict[str, tuple[Filter, float, float]] = {}
    runs: _sampled.Runs | None = None
    before: list[str] = []
    if _is_sampled(problem, n_trials):
        curves, options, runs, notes = _by_runs(problem, extra, n_trials, next_stage)
        if runs.heavy(0) and problem.random and _exact_cost(problem) <= EXACT:
            before = [
                f"{runs.n_runs} random runs were too far apart to compare by; losses are exact"
                " instead."
            ]
            runs = None
    if runs is None:
        curves, options, notes = compare(problem, next_stage, extra)
        horizon, notes = wrong_horizon(problem, options[0], curves), [*before, *notes]
    next_stage()
    average = _exact_average(problem) if runs is None else _sampled_average(problem, n_trials)
    leading = next(
        (curve for curve in best_of_each(curves) if curve.shape.name == options[0].shape), curves[0]
    )
    facts = _text.Facts(problem, options, leading.scales, runs)
    return _summarized(facts, curves, horizon, [*notes, *_text.uncentred(problem.tasks)], average)


def _warn_of_duration(problem: Losses) -> None:
    """Warn where the comparison will take very long, from the time of a few steps; MemoryError for
    too many steps.
    """
    k = problem.k
    validate.check_memory(6.0 * k, f"a schedule of {k:,} strengths", "ask for fewer steps")
    if (
        k <= 10 * _PROBE_STEPS
        or not problem.random
        or problem.operations("average_loss") * _PROBE_STEPS / k > 1e7
    ):
        return  # large tasks are sampled instead
    probe = [increasing(scale) for scale in np.geomspace(0.01, 10.0, 64)]
    begun = time.monotonic()
    expect(problem.tasks, probe, _PROBE_STEPS, start=problem.start, ordering=problem.ordering)
    seconds = _PROBES * k / _PROBE_STEPS * (time.monotonic() - begun)
    if seconds > PATIENCE:
        text = (
            f"advice on {k:,} steps will take about {duration(seconds)}, give or take a factor of"
            " three; ask for fewer"
        )
        warnings.warn(text, RuntimeWarning, stacklevel=3)


_PROBE_STEPS = 500  # steps whose time is measured
# time of the comparison over that of following 64 schedules: 4 to 19 where it was measured
_PROBES = 10.0
_LONGEST = 40 * EXACT  # operations, some twenty minutes, from which on the worst case is rejected
# of t in the weights of averages: of 0, 1.5 and 2 that with the smallest constant (0.26; 0.31 for
# 0)
POWER = 2.0


def _is_sampled(problem: Losses, n_trials: int | None) -> bool:
    """Return whether losses are sampled: with ``n_trials``, or where exact ones would take long."""
    cost, worst = _exact_cost(problem), problem.objective == "worst_case"
    if n_trials is not None:
        validate.integer(
            "n_trials", n_trials, 2, "make at least two runs, some hundred for small errors"
        )
        if worst:
            raise ValueError(
                "n_trials cannot be used with objective='worst_case', which no runs sample; leave"
                " it out"
            )
    elif worst and problem.random and cost > _LONGEST:
        raise ValueError(
            f"objective='worst_case' would take about {cost / EXACT / 2:.0f} minutes on these"
            f" {problem.tasks.n_tasks} tasks, and cannot be sampled; ask for fewer steps, for a"
            " part of the tasks, or for another objective"
        )
    return n_trials is not None or (problem.random and not worst and cost > EXACT)


def _exact_cost(problem: Losses) -> float:
    """Return about the operations of exact losses under independent draws."""
    return problem.operations() * (CHOSEN if problem.has_model() else SEARCHED)


def _by_runs(
    problem: Losses, extra: list[Shape], n_trials: int | None, next_stage: Callable[[], None]
) -> tuple[list[Curve], list[Option], _sampled.Runs, list[str]]:
    """Return a search by a few random runs on all tasks, ranked by many runs on other orders."""
    candidates = [*shapes(problem.tasks, problem.k, problem.ordering), *extra]
    curves = scan(candidates, _sampled.searching(problem, n_trials))
    next_stage()
    best = best_of_each(curves)
    schedules = [curve.shape.make(float(curve.scales[curve.best])) for curve in best]
    runs = _sampled.decided(problem, schedules, n_trials)
    order = np.argsort(runs.means, kind="stable")
    runs = replace(runs, losses=runs.losses[order])
    options = []
    for place, i in enumerate(order.tolist()):
        scale = float(best[i].scales[best[i].best]) if best[i].shape.scales.size else None
        loss, error = float(runs.means[place]), float(runs.errors[place])
        values: dict[str, Any] = {problem.objective: loss, "error": error}
        options.append(Option(best[i].shape.name, schedules[i], scale, loss, **values))
    about = (
        f"losses are means of {runs.n_runs} random runs on all tasks, the same orders for every"
        " schedule, ± one"
    )
    about += (
        f" standard error (seed {problem.seed}); what is claimed above holds within"
        f" {_text.SURE:.0f} of them."
    )
    return (
        curves,
        options,
        runs,
        [f"{about} Neither how flat the optimum is nor a wrong horizon's price was computed."],
    )


def _exact_average(problem: Losses) -> Option | None:
    """Return the average of unregularized steps with its exact loss; None where that is not
    available.
    """
    options: dict[str, Any] = {"ordering": problem.ordering, "average": POWER}
    try:
        if problem.objective == "worst_case":
            worst = worst_case(problem.tasks, Projection(), problem.k, **options)
            return _average_option(problem, worst.loss, worst.error)
        if problem.objective == "validation":
            return None
        options |= {"start": problem.start, "metrics": problem.objective}
        result = expect(problem.tasks, Projection(), problem.k, **options)
    except (MemoryError, NoExactLawError):
        return None
    loss = float(result.values[problem.objective][0])
    return _average_option(problem, loss, result.errors[problem.objective])


def _sampled_average(problem: Losses, n_trials: int | None) -> Option | None:
    """Return the average of unregularized steps with its loss in random runs; None where these are
    too far apart.
    """
    runs = _sampled.decided(problem, [Projection()], n_trials, POWER)
    loss = float(runs.means[0])
    return (
        None
        if runs.heavy(0)
        else _average_option(problem, loss, float(runs.errors[0]) / loss if loss > 0 else 0.0)
    )


def _average_option(problem: Losses, loss: float, relative: float) -> Option:
    values: dict[str, Any] = {problem.objective: loss}
    return Option(
        "no regularization",
        Projection(),
        None,
        loss,
        **values,
        error=relative * loss,
        average=POWER,
    )


def _summarized(
    facts: _text.Facts,
    curves: list[Curve],
    horizon: dict[str, tuple[Filter, float, float]],
    notes: list[str],
    average: Option | None,
) -> Advice:
    problem, best = facts.problem, facts.options[0]
    tasks, objective = problem.tasks, problem.objective
    bound = _text.guarantee(
        tasks, best.schedule, problem.k, problem.ordering, problem.start, objective
    )
    sentences = [
        *_text.reasoning(facts),
        _text.horizon_claims(facts, horizon),
        [bound],
        _text.average_claims(facts, average),
    ]
    scale_curves = tuple(
        ScaleCurve(curve.shape.name, tuple(curve.scales.tolist()), tuple(curve.losses.tolist()))
        for curve in best_of_each(curves)
        if curve.shape.scales.size or curve.shape.name == "no regularization"
    )
    return Advice(
        best=best.schedule,
        options=tuple(facts.options),
        objective=objective,
        k=problem.k,
        n_tasks=tasks.n_tasks,
        n_compared=sum(len(curve.scales) for curve in curves),
        radius=tasks.radius,
        least=problem.least,
        noise=_text.label_noise(tasks)[0],
        horizon={name: loss / best.loss for name, (_, loss, _) in horizon.items()},
        guarantee=bound.text,
        why=_text.written([claims for claims in sentences if claims]),
        claims=tuple(claim for claims in sentences for claim in claims),
        n_runs=0 if facts.runs is None else facts.runs.n_runs,
        notes=tuple(notes),
        curves=scale_curves,
        average=average,
    )


def _stages(report_progress: Progress) -> Callable[[], None]:
    """Return a callback for the end of every stage, of about seven."""
    done = 0

    def next_stage() -> None:
        nonlocal done
        done += 1
        report_progress(min(done, 7), 7, "stages")

    return next_stage
