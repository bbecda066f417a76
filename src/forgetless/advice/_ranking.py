"""The comparison behind advice: every shape of schedule at its best scale, with all its losses,
ranked.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from forgetless._core.arrays import Floats
from forgetless.advice import _sampled
from forgetless.advice._losses import Losses
from forgetless.advice._shapes import Curve, Shape, scan, shapes, significant
from forgetless.advice.results import Option, up
from forgetless.filters import Filter
from forgetless.schedules import resolve

# relative difference up to which losses count as equal, and the simpler schedule is advised
_EQUAL = 1e-4
# relative deviation of a reduced model at the schedules it chose up to which its choice is accepted
_TRUSTED = 0.03
EXACT = 1e12  # operations of exact evaluations, about half a minute, up to which they are used
# Number of exact evaluations: of a search without a reduced model; of pilots, chosen schedules and
# claims with one
SEARCHED, CHOSEN = 220, 24
_FLAT = 1.1  # ratio to the smallest loss up to which the optimum counts as flat
# factor between a scale that was searched approximately and the neighbours that it is compared with
_APART = 3.0
_ROUNDED = 1e-14  # fraction of the initial loss below which a loss is rounding
# operations, about 0.15 s, from which on seen-task losses are sampled if they are not the objective
_SEEN_BUDGET = 6e9

# losses over scales, ranked options, notes
Comparison = tuple[list[Curve], list[Option], list[str]]


def compare(
    problem: Losses, next_stage: Callable[[], None], extra: Sequence[Shape] = ()
) -> Comparison:
    """Return the losses of every shape over its scale, the shapes at their best ranked by exact
    losses, and notes.
    """
    candidates = [*shapes(problem.tasks, problem.k, problem.ordering), *extra]
    worst, affordable = problem.objective == "worst_case", problem.operations() * SEARCHED <= EXACT

    def exact(schedules: Sequence[Any]) -> Floats:
        next_stage()
        return problem.losses(schedules)

    pilots: list[Any] = []
    for attempt in range(2):
        model = problem.model(pilots)
        if model is None:
            break
        curves = scan(candidates, model)
        next_stage()
        options, notes = _options(problem, curves)
        deviation = _deviation(problem, curves, options)
        if deviation < _TRUSTED or (attempt == 1 and worst and not affordable):
            error = f"{up(100 * deviation, 1):.1g} %"
            note = (
                f"scales were searched on a reduced model, off by at most {error} at the schedules"
                " it chose"
            )
            return _with_exact_losses(
                problem, curves, options, [f"{note}; the losses above are exact.", *notes]
            )
        # their runs span the missing part of the model
        pilots = [option.schedule for option in options]
    if not problem.random or affordable or worst:
        curves = scan(candidates, exact)
        options, notes = _options(problem, curves)
        return curves, ranked(_confirmed(problem, curves, options), problem), notes
    curves = scan(candidates, _sampled.searching(problem, None))
    next_stage()
    options, notes = _options(problem, curves)
    note = "scales were searched by random runs on all tasks; the losses above are exact."
    return _with_exact_losses(problem, curves, options, [note, *notes])


def _with_exact_losses(
    problem: Losses, curves: list[Curve], options: list[Option], notes: list[str]
) -> Comparison:
    """Return the comparison after an approximate search, the most important scales confirmed by
    exact losses.
    """
    options = _confirmed(problem, curves, _bracketed(problem, curves, options), only_best=True)
    return curves, ranked(options, problem), notes


def _deviation(problem: Losses, curves: list[Curve], options: list[Option]) -> float:
    """Return the largest relative difference of searched and exact losses at the best of each
    shape.
    """
    exact = {option.shape: option.loss for option in options}
    pairs = [(curve.losses[curve.best], exact[curve.shape.name]) for curve in best_of_each(curves)]
    zero = _ROUNDED * problem.initial()  # smaller losses are rounding
    return max(
        abs(max(searched, zero) / max(loss, zero) - 1) if loss > 0 else 0.0
        for searched, loss in pairs
    )


def _bracketed(problem: Losses, curves: list[Curve], options: list[Option]) -> list[Option]:
    """Return the options with the scales of the constant and of the best compared with neighbours
    by exact losses.

    A better neighbour replaces the scale, at most four times on either side.
    """
    searched = {
        curve.shape.name: curve.shape for curve in best_of_each(curves) if curve.shape.scales.size
    }
    leading = min(options, key=lambda option: option.loss).shape
    confirmed = list(options)
    for i, option in enumerate(confirmed):
        if (
            option.shape not in searched
            or option.scale is None
            or option.shape not in ("constant", leading)
        ):
            continue
        best = option
        for factor in (1 / _APART, _APART):
            best = _followed(problem, searched[option.shape], best, factor)
        if best is not option:
            columns, _ = _columns(problem, [best.schedule])
            values: dict[str, Any] = {name: float(column[0]) for name, column in columns.items()}
            confirmed[i] = replace(best, **values)
    return confirmed


def _followed(problem: Losses, shape: Shape, best: Option, factor: float) -> Option:
    """Return the option after at most four steps of a factor in its scale, as long as the exact
    loss decreases.
    """
    for _ in range(4):
        assert best.scale is not None
        scale = significant(best.scale * factor)
        if not shape.scales[0] <= scale:
            break
        schedule = shape.make(scale)
        loss = float(problem.losses([schedule])[0])
        if loss >= best.loss:
            break
        best = Option(shape.name, schedule, scale, loss, error=best.error)
    return best


def _confirmed(
    problem: Losses, curves: list[Curve], options: list[Option], *, only_best: bool = False
) -> list[Option]:
    """Return the options with flat ranges whose ends were evaluated; with ``only_best`` that of the
    best alone.
    """
    searched = {curve.shape.name: curve.shape for curve in best_of_each(curves)}
    leading = ranked(options, problem)[0].shape
    confirmed = []
    for option in options:
        shape = searched.get("constant" if option.shape == "no regularization" else option.shape)
        skipped = only_best and option.shape != leading
        confirmed.append(replace(option, flat=None if skipped else _within(problem, shape, option)))
    return confirmed


def _within(problem: Losses, shape: Shape | None, option: Option) -> tuple[float, float] | None:
    """Return the flat range of an option, each end moved inwards until its loss is within a tenth
    of the best.
    """
    if shape is None or option.flat is None:
        return None
    ends, inner = [], option.scale or 0.0
    for end in option.flat:
        for _ in range(3):
            if end == 0 or problem.losses([shape.make(end)])[0] <= _FLAT * option.loss:
                break
            end = inner + (end - inner) / 2 if inner == 0 else float(np.sqrt(end * inner))
        else:
            return None
        ends.append(end)
    return ends[0], ends[1]


def _options(problem: Losses, curves: list[Curve]) -> tuple[list[Option], list[str]]:
    """Return every shape at its best scale with all its losses, simple shapes first, and notes."""
    best = best_of_each(curves)
    names = [curve.shape.name for curve in best]
    scales = [
        float(curve.scales[curve.best]) if curve.shape.scales.size else None for curve in best
    ]
    schedules: list[Any] = [curve.shape.make(float(curve.scales[curve.best])) for curve in best]
    columns, notes = _columns(problem, schedules)
    columns[problem.objective], errors = problem.with_errors(schedules, columns[problem.objective])
    options = []
    for i, schedule in enumerate(schedules):
        values = {name: float(column[i]) for name, column in columns.items()}
        loss, error = values[problem.objective], float(errors[i])
        flat = _flat_range(best, i, loss) if i < len(best) else None
        options.append(
            Option(names[i], schedule, scales[i], loss, **values, error=error, flat=flat)
        )
    return options, notes


def _flat_range(best: list[Curve], position: int, loss: float) -> tuple[float, float] | None:
    """Return the scales within 10 % of the best, for no regularization the constants from 0 on;
    None without any.
    """
    curve = best[position]
    if curve.shape.name != "no regularization":
        return curve.within(_FLAT) if curve.shape.scales.size else None
    constant = next(each for each in best if each.shape.name == "constant")
    near = constant.losses <= _FLAT * loss
    last = len(near) if near.all() else int(np.argmin(near))
    return (0.0, float(constant.scales[last - 1])) if last else None


def best_of_each(curves: list[Curve]) -> list[Curve]:
    """Return the best curve of every name, in the order of the first occurrence of the names."""
    best: dict[str, Curve] = {}
    for curve in curves:
        rival = best.setdefault(curve.shape.name, curve)
        if curve.losses[curve.best] < rival.losses[rival.best]:
            best[curve.shape.name] = curve
    return list(best.values())


def _columns(problem: Losses, schedules: list[Any]) -> tuple[dict[str, Floats], list[str]]:
    """Return every available loss of the schedules, and notes on those that were sampled."""
    names = [
        "average_loss",
        "worst_case",
        *(["validation"] if problem.validation is not None else []),
    ]
    columns = problem(
        schedules, [*names, *(["seen_loss"] if problem.objective == "seen_loss" else [])]
    )
    if "seen_loss" in columns:
        return columns, []
    cost = problem.operations("seen_loss") * len(schedules)
    if not problem.random or cost < _SEEN_BUDGET:
        return {**columns, **problem(schedules, ["seen_loss"])}, []
    values, errors = _sampled.seen_by_difference(problem, schedules, columns["average_loss"])
    positive = values > _ROUNDED * problem.initial("average_loss")
    worst = 100 * float(np.max(errors[positive] / values[positive])) if positive.any() else None
    note = (
        f"seen-task losses are {_sampled.TRIALS} random runs of the difference from the exact"
        f" average{'' if worst is None else f', standard error at most {worst:.2g} %'};"
        ' objective="seen_loss" computes them exactly.'
    )
    return {**columns, "seen_loss": values}, [note]


def ranked(options: list[Option], problem: Losses) -> list[Option]:
    """Return the options best first; of those equal to the best the simplest leads."""
    # Losses are rounded relative to the initial loss: smaller differences are meaningless.
    limit = (1 + _EQUAL) * min(option.loss for option in options) + _ROUNDED * problem.initial()
    equal = np.log1p(_EQUAL)
    places = [
        np.floor(np.log(max(option.loss, limit, np.finfo(float).tiny)) / equal)
        for option in options
    ]
    return [options[i] for i in np.argsort(places, kind="stable")]


def wrong_horizon(
    problem: Losses, best: Option, curves: list[Curve]
) -> dict[str, tuple[Filter, float, float]]:
    """Return the advice for half and twice the steps, truncated or extended to k, with its loss and
    error.

    The scale is tuned again for the wrong horizon, within a factor 16 and among factors of 2, where
    an evaluation is quick; else only the shape is planned for it.
    """
    if best.loss <= 0 or best.scale is None:
        return {}
    k, shape = (
        problem.k,
        next(
            (curve.shape for curve in best_of_each(curves) if curve.shape.name == best.shape), None
        ),
    )
    planned = {}
    for name, plan in {"half": k // 2, "twice": 2 * k}.items():
        if plan == 0:
            continue
        schedule = (
            _tuned(problem, shape, best.scale, plan)
            if shape is not None and problem.quick
            else None
        )
        filter_ = resolve(schedule or best.schedule, k, problem.tasks.radius)
        if filter_ is not None:
            planned[name] = filter_
    if not planned:
        return {}
    schedules = list(planned.values())
    losses, errors = problem.with_errors(schedules, problem.losses(schedules))
    return {
        name: (planned[name], float(losses[i]), float(errors[i])) for i, name in enumerate(planned)
    }


def _tuned(problem: Losses, shape: Shape, scale: float, plan: int) -> Any:
    """Return the best schedule of a shape for ``plan`` steps; None where the ordering does not have
    so many.
    """
    try:
        problem.ordering.check(problem.tasks.n_tasks, plan)
    except ValueError:
        return None
    other = problem.with_steps(plan)
    scales = [scale * 2.0**power for power in range(-4, 5)]
    schedules = [shape.make(each) for each in scales if shape.scales[0] <= each]
    return schedules[int(np.argmin(other.losses(schedules)))]
