"""Which λ? Schedules of several shapes compared on given tasks by their exact losses, each at its best scale."""

from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np

from forgetless._base import checks
from forgetless._base.progress import Progress
from forgetless.advice import _sketch, _words
from forgetless.advice._losses import Losses, check_held_out
from forgetless.advice._ranking import best_of_each, compare, ranked, wrong_horizon
from forgetless.advice._shapes import Curve, Shape, own_shapes, shapes, significant
from forgetless.advice.answer import OBJECTIVES, Advice, Option, ScaleCurve
from forgetless.engines.problem import check_tasks, checked_ordering
from forgetless.filters import Filter
from forgetless.metrics import average_loss, quantity
from forgetless.orderings import Draws, Ordering
from forgetless.schedules import Schedule
from forgetless.tasks import TaskCollection

Objective = Literal["average_loss", "seen_loss", "worst_case", "validation"]


def advise(
    tasks: TaskCollection,
    k: int,
    *,
    objective: Objective = "average_loss",
    ordering: Ordering | None = None,
    start: Any = None,
    validation: Any = None,
    also: Mapping[str, Schedule | Filter] | None = None,
    sketch: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Advice:
    """Return schedules ranked by their exact loss on these tasks, the best scale of each shape, and why.

    Compared are: no regularization; a constant; the paper's fixed and increasing schedules and their step-budget
    versions; the increasing ones also at their best scale; ramps over the last part of the steps; for a cyclic order
    Cai & Diakonikolas' constant; with noisy labels a constant that grows as k/ln k. The scale of each is searched on a
    logarithmic grid with two finer ones around its minima.

    Parameters
    ----------
    tasks : TaskCollection
        Realizable or not.
    k : int
        Number of steps that are planned.
    objective : "average_loss", "seen_loss", "worst_case" or "validation"
        The average loss over all tasks, over those seen on the way, over all tasks for the worst unit teacher (whatever
        the labels are), or over ``validation``; always averaged over orderings.
    ordering : Ordering, default ``WithReplacement()``
    start : array of shape (d,) or (d, c), optional
        w₀; the origin if omitted.
    validation : TaskCollection, pair (X, y) or list of pairs, optional
        Held-out rows. Their mean loss is a column of the table, and with ``objective="validation"`` what is minimised.
    also : dict of schedules or filters by name, optional
        Your own candidates, ranked beside the others as they are.
    sketch : int, optional
        Search on this many randomly chosen tasks, then decide on all of them: exactly where that takes less than about
        half a minute, else by random runs with standard errors. Chosen by itself where one exact evaluation would take
        more than about a second.
    seed : int, default 0
        For the sketch and for what is sampled; exact results do not depend on it.
    progress : callable, optional
        Called as ``progress(stages_done, n_stages, "stages")`` now and then.

    Returns
    -------
    Advice
        ``.best`` is a schedule, ``.table`` the ranking as rows, ``.why`` the reasoning; it prints as all three.

    Examples
    --------
    Two tasks at a small angle, 128 steps, the worst teacher: a short ramp at the end beats every constant.

    >>> import numpy as np
    >>> import forgetless as fl
    >>> a = fl.advise(fl.constructions.two_tasks(np.pi / 16), k=128, objective="worst_case")
    >>> type(a.best).__name__, a.best.length
    ('EndRamp', 0.0625)
    >>> losses = {row["shape"]: row["loss"] for row in a.table}
    >>> round(128 * losses["end ramp"], 4), round(128 * losses["no regularization"], 4)
    (0.0657, 0.1051)
    """
    check_tasks(tasks)
    k = checks.integer("k", k, 1, "ask for at least one step")
    ordering = checked_ordering(ordering, tasks, k)
    goal = quantity("objective", objective, OBJECTIVES)
    held_out = check_held_out(validation, tasks, needed=goal == "validation")
    seed = checks.integer("seed", seed, 0, "use 0")
    tell = _stages(progress)
    n_tasks = _sketch_tasks(tasks, k, ordering, goal, sketch)
    problem = Losses(tasks, k, ordering, start, held_out)
    own = own_shapes(also, shapes(tasks, k, ordering))
    if n_tasks < tasks.n_tasks:
        curves, options, notes = _from_sketch(problem, n_tasks, own, goal, seed, tell)
        horizon: dict[str, float] = {}
    else:
        curves, options, notes = compare(problem, goal, seed, tell, own)
        horizon = wrong_horizon(problem, options[0], curves, goal)
    tell()
    return _written(problem, goal, curves, options, horizon, notes)


def _from_sketch(
    problem: Losses, n_tasks: int, own: list[Shape], objective: str, seed: int, tell: Callable[[], None]
) -> tuple[list[Curve], list[Option], list[str]]:
    """Search on some of the tasks; then decide on all of them, exactly where affordable, else by random runs."""
    tasks, k, rng = problem.tasks, problem.k, np.random.default_rng(seed)
    part, law = _sketch.sketch(tasks, problem.law, n_tasks, rng)
    few = Losses(part, k, law, problem.start, problem.validation)
    curves, options, _ = compare(few, objective, seed, tell, own)
    about = f"scales were searched on {n_tasks} of {tasks.n_tasks} tasks (random sketch, seed {seed})"
    about += ", so that neither how flat the optimum is nor what a wrong horizon costs is known"
    if objective != "worst_case":
        options = _at_sampled_scales(problem, curves, options, objective, seed)
        tell()
    if _sketch.operations(tasks, k, objective) * len(options) <= _sketch.DECIDING:
        losses = problem([option.schedule for option in options], [objective])[objective]
        exact = [_with_loss(option, objective, float(loss)) for option, loss in zip(options, losses, strict=True)]
        simple = [curve.shape.name for curve in best_of_each(curves)]
        exact.sort(key=lambda option: simple.index(option.shape) if option.shape in simple else len(simple))
        return curves, ranked(exact, problem, objective), [f"{about}; losses are exact, on all tasks."]
    if objective == "worst_case":
        alone = [_with_loss(option, objective, option.loss) for option in options]
        warning = "all losses are those of the sketch: fewer tasks come back more often, which can change them a lot"
        return curves, alone, [f"{about}; {warning}."]
    options, skewed = _by_runs(problem, options, objective, seed)
    error = options[0].error / options[0].loss if options[0].loss > 0 else 0.0
    notes = [f"{about}; losses are random runs on all tasks, standard error of the best {100 * error:.2g} %."]
    if skewed > _SKEWED:
        notes.append(
            f"a single run makes up {100 * skewed:.2g} % of the best's mean: the losses of runs are far apart, and the "
            "standard error says too little; compare the ranks with another seed."
        )
    return curves, options, notes


_SKEWED = 0.1
"""A run with a larger share of a mean makes its standard error unreliable."""


def _with_loss(option: Option, objective: str, loss: float, error: float = 0.0) -> Option:
    """Return an option of which only the objective is known."""
    own: dict[str, Any] = {objective: loss, "error": error}
    return Option(option.shape, option.schedule, option.scale, loss, **own)


def _at_sampled_scales(
    problem: Losses, curves: list[Curve], options: list[Option], objective: str, seed: int
) -> list[Option]:
    """Return the options at the best of the found scale and ones up to 16 times off, by random runs on all tasks.

    Fewer tasks come back more often in as many steps, so that the best scale on a sketch is somewhat off.
    """
    searched = {curve.shape.name: curve.shape for curve in best_of_each(curves)}
    chosen = []
    for option in options:
        tried = [(option.schedule, option.scale)]
        if option.scale is not None and option.shape in searched:
            shape = searched[option.shape]
            scales = [significant(option.scale * factor) for factor in (1 / 16, 1 / 4, 4.0, 16.0)]
            tried += [(shape.make(scale), scale) for scale in scales if shape.scales[0] <= scale <= shape.scales[-1]]
        best = 0
        if tried[1:]:
            runs = _sketch.sampled(problem, [schedule for schedule, _ in tried], _metric(objective), [seed, 0])
            best = int(np.argmin(runs.mean(axis=1)))
        chosen.append(Option(option.shape, *tried[best], option.loss))
    return chosen


def _metric(objective: str) -> str | None:
    """Return what is simulated for an objective; None for held-out rows, whose loss is taken of the weights."""
    return None if objective == "validation" else objective


def _by_runs(problem: Losses, options: list[Option], objective: str, seed: int) -> tuple[list[Option], float]:
    """Return the options ranked by random runs, and the share of the largest run in the mean of the best.

    The runs that rank are not those that are reported: the smallest of several sampled means is too small.
    """
    metric = _metric(objective)
    ranked = []
    for option in options:
        runs = _sketch.enough_runs(problem, option.schedule, metric, [seed, 1])
        ranked.append((float(runs.mean()), option))
    ranked.sort(key=lambda pair: pair[0])
    reported, skewed = [], 0.0
    for rank, (_, option) in enumerate(ranked):
        runs = _sketch.enough_runs(problem, option.schedule, metric, [seed, 2])
        total = float(runs.sum())
        skewed = float(runs.max()) / total if rank == 0 and total > 0 else skewed
        error = float(runs.std(ddof=1) / np.sqrt(len(runs)))
        reported.append(_with_loss(option, objective, float(runs.mean()), error))
    return reported, skewed


def _written(
    problem: Losses,
    objective: str,
    curves: list[Curve],
    options: list[Option],
    horizon: dict[str, float],
    notes: list[str],
) -> Advice:
    tasks, best = problem.tasks, options[0]
    least = float(average_loss(tasks, tasks.teacher(problem.start))) if not tasks.is_realizable() else 0.0
    noise, _ = _words.label_noise(tasks)
    shown = best_of_each(curves)
    own = next((curve for curve in shown if curve.shape.name == best.shape), shown[0])
    said = _words.guarantee(tasks, best.schedule, problem.k, problem.ordering, problem.start, objective)
    reasons = _words.reasoning(tasks, options, own.scales, objective, least)
    why = " ".join(part for part in (reasons, _words.horizon_sentence(horizon), said) if part)
    drawn = tuple(
        ScaleCurve(curve.shape.name, tuple(curve.scales.tolist()), tuple(curve.losses.tolist()))
        for curve in shown
        if curve.shape.scales.size or curve.shape.name == "no regularization"
    )
    return Advice(
        best.schedule,
        tuple(options),
        objective,
        problem.k,
        tasks.n_tasks,
        sum(len(curve.scales) for curve in curves),
        tasks.radius,
        least,
        noise,
        horizon,
        said,
        why,
        tuple(notes),
        drawn,
    )


def _sketch_tasks(tasks: TaskCollection, k: int, ordering: Ordering, objective: str, sketch: int | None) -> int:
    """Return on how many tasks to search: all, those asked for, or those that an exact evaluation is quick on."""
    draws = isinstance(ordering.law(tasks.n_tasks, k), Draws)
    if sketch is not None:
        if not draws:
            raise ValueError(f"sketch needs draws with replacement, got {ordering!r}; leave it out")
        return min(checks.integer("sketch", sketch, 2, "search on at least two tasks"), tasks.n_tasks)
    if draws and _sketch.operations(tasks, k, objective) > _sketch.BUDGET:
        return _sketch.sketch_size(tasks, k, objective)
    return tasks.n_tasks


def _stages(progress: Progress | None) -> Callable[[], None]:
    """Return a function to call after every stage of about seven."""
    done = 0

    def tell() -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(min(done, 7), 7, "stages")

    return tell
