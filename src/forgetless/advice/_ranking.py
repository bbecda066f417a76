"""The comparison behind advice: every shape of schedule at its best scale, with all its losses, ranked."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from forgetless._core.arrays import Floats
from forgetless.advice import _sampled
from forgetless.advice._claims import up
from forgetless.advice._data import fits
from forgetless.advice._losses import Losses
from forgetless.advice._shapes import Curve, Shape, scan, shapes, significant
from forgetless.advice.results import Option
from forgetless.filters import Filter
from forgetless.schedules import noise_aware, planned_for

_EQUAL = 1e-4
"""Losses this close, relatively, count as equal, and the simpler schedule is advised."""

_TRUSTED = 0.03
"""A reduced model that is off by less, relatively, at the schedules it chose is trusted to have chosen them."""

EXACT, SEARCHED, CHOSEN = 1e12, 220, 24
"""Operations, about half a minute, that exact evaluations may take, and how many there are about: of a search without
a reduced model, and of the pilots, the chosen schedules and what is said of them with one."""

_FLAT = 1.1
"""How many times the smallest loss still counts as flat."""

_APART = 3.0
"""A scale found by anything but exact losses is compared with those so many times smaller and larger."""

_ROUNDED = 1e-14
"""Part of the first loss below which a loss is rounding."""

_SEEN_BUDGET = 4e9
"""Operations, about a tenth of a second, from which on the seen-task column is sampled when it is not the objective."""


def compare(
    problem: Losses, objective: str, seed: int, next_stage: Callable[[], None], own: Sequence[Shape] = ()
) -> tuple[list[Curve], list[Option], list[str]]:
    """Return the losses of every shape over its scale, the shapes at their best ranked by exact losses, and notes."""
    found = [*shapes(problem.tasks, problem.k, problem.ordering), *own]

    def exact(schedules: Sequence[Any]) -> Floats:
        next_stage()
        return problem(schedules, [objective])[objective]

    pilots: list[Any] = []
    for attempt in range(2):
        model = problem.model(objective, pilots)
        if model is None:
            break
        curves = scan(found, model)
        next_stage()
        options, notes = _options(problem, curves, objective, seed)
        off = _deviation(problem, curves, options, objective)
        last = attempt == 1 and problem.operations(objective) * SEARCHED > EXACT and objective == "worst_case"
        if off < _TRUSTED or last:
            return _by_model(problem, curves, options, notes, off, objective, seed)
        pilots = [option.schedule for option in options]  # the space that is missing is where these went
    if not problem.random or problem.operations(objective) * SEARCHED <= EXACT or objective == "worst_case":
        curves = scan(found, exact)
        options, notes = _options(problem, curves, objective, seed)
        return curves, ranked(_confirmed(problem, curves, options, objective), problem, objective), notes
    curves = scan(found, _sampled.searching(problem, objective, seed, None))
    next_stage()
    options, notes = _options(problem, curves, objective, seed)
    options = _bracketed(problem, curves, options, objective, seed)
    options = _confirmed(problem, curves, options, objective, only_best=True)
    notes = ["scales were searched by random runs on all tasks; the losses above are exact.", *notes]
    return curves, ranked(options, problem, objective), notes


def _by_model(
    problem: Losses, curves: list[Curve], options: list[Option], notes: list[str], off: float, objective: str, seed: int
) -> tuple[list[Curve], list[Option], list[str]]:
    note = f"scales were searched on a reduced model, off by at most {up(100 * off, 1):.1g} % at the schedules it chose"
    options = _bracketed(problem, curves, options, objective, seed)
    options = _confirmed(problem, curves, options, objective, only_best=True)
    return curves, ranked(options, problem, objective), [f"{note}; the losses above are exact.", *notes]


def _deviation(problem: Losses, curves: list[Curve], options: list[Option], objective: str) -> float:
    """Return by how much searched losses differ from exact ones at the best of each shape, at most, relatively."""
    exact = {option.shape: option.loss for option in options}
    pairs = [(curve.losses[curve.best], exact[curve.shape.name]) for curve in best_of_each(curves)]
    zero = _ROUNDED * problem.initial(objective)  # below, all are as good as zero
    return max(abs(max(searched, zero) / max(loss, zero) - 1) if loss > 0 else 0.0 for searched, loss in pairs)


def _bracketed(problem: Losses, curves: list[Curve], options: list[Option], objective: str, seed: int) -> list[Option]:
    """Return the options with the scales of the constant and of the best confirmed from both sides, by exact losses.

    Where a neighbour is better it is followed, at most four times.
    """
    searched = {curve.shape.name: curve.shape for curve in best_of_each(curves) if curve.shape.scales.size}
    leading = min(options, key=lambda option: option.loss).shape
    found = list(options)
    for i, option in enumerate(found):
        if option.shape not in searched or option.scale is None or option.shape not in ("constant", leading):
            continue
        shape, best = searched[option.shape], option
        for factor in (1 / _APART, _APART):
            for _ in range(4):
                assert best.scale is not None
                scale = significant(best.scale * factor)
                if not shape.scales[0] <= scale:
                    break
                schedule = shape.make(scale)
                loss = float(problem([schedule], [objective])[objective][0])
                if loss >= best.loss:
                    break
                best = Option(shape.name, schedule, scale, loss, error=option.error)
        if best is not option:
            columns, _ = _columns(problem, [best.schedule], objective, seed)
            values: dict[str, Any] = {name: float(column[0]) for name, column in columns.items()}
            best = replace(best, **values)
        found[i] = best
    return found


def _confirmed(
    problem: Losses, curves: list[Curve], options: list[Option], objective: str, *, only_best: bool = False
) -> list[Option]:
    """Return the options with flat ranges whose ends were evaluated; with ``only_best`` that of the best alone."""
    searched = {curve.shape.name: curve.shape for curve in best_of_each(curves)}
    leading = ranked(options, problem, objective)[0].shape
    found = []
    for option in options:
        flat = option.flat
        if flat is not None and (option.shape == leading or not only_best):
            shape = searched.get("constant" if option.shape == "no regularization" else option.shape)
            flat = _within(problem, shape, option, objective)
        elif only_best:
            flat = None
        found.append(replace(option, flat=flat))
    return found


def _within(problem: Losses, shape: Shape | None, option: Option, objective: str) -> tuple[float, float] | None:
    """Return the flat range of an option, each end drawn in until the loss there is within a tenth of the best."""
    if shape is None or option.flat is None:
        return None
    ends = []
    for end in option.flat:
        inner = option.scale or 0.0
        at = end
        for _ in range(3):
            if at == 0 or problem([shape.make(at)], [objective])[objective][0] <= _FLAT * option.loss:
                break
            at = inner + (at - inner) / 2 if inner == 0 else float(np.sqrt(at * inner))
        else:
            return None
        ends.append(at)
    return ends[0], ends[1]


def _options(problem: Losses, curves: list[Curve], objective: str, seed: int) -> tuple[list[Option], list[str]]:
    """Return every shape at its best scale with all its losses, simple shapes first."""
    tasks, k, best = problem.tasks, problem.k, best_of_each(curves)
    names = [curve.shape.name for curve in best]
    scales = [float(curve.scales[curve.best]) if curve.shape.scales.size else None for curve in best]
    schedules: list[Any] = [curve.shape.make(float(curve.scales[curve.best])) for curve in best]
    if not fits(tasks) and k >= 2 and tasks.radius > 0:
        constant = float(schedules[names.index("constant")].coefficient)
        per_unit = significant(constant / tasks.radius**2 * np.log(k) / k)
        schedules, names, scales = [*schedules, noise_aware(per_unit)], [*names, "noise-aware"], [*scales, per_unit]
    columns, notes = _columns(problem, schedules, objective, seed)
    options = []
    columns[objective], errors = problem.with_errors(schedules, objective, columns[objective])
    for i, schedule in enumerate(schedules):
        values = {name: float(column[i]) for name, column in columns.items()}
        flat = best[i].within(_FLAT) if i < len(best) and scales[i] is not None else None
        if names[i] == "no regularization":
            flat = _weak_constants(best[names.index("constant")], values[objective])
        options.append(
            Option(names[i], schedule, scales[i], values[objective], **values, error=float(errors[i]), flat=flat)
        )
    return options, notes


def _weak_constants(constant: Curve, loss: float) -> tuple[float, float] | None:
    """Return the constants, from 0 on, that stay within 10 % of no regularization; None if the smallest does not."""
    near = constant.losses <= _FLAT * loss
    last = len(near) if near.all() else int(np.argmin(near))
    return (0.0, float(constant.scales[last - 1])) if last else None


def best_of_each(curves: list[Curve]) -> list[Curve]:
    """Return the best curve of every name, in the order in which the names first come."""
    found: dict[str, Curve] = {}
    for curve in curves:
        rival = found.setdefault(curve.shape.name, curve)
        if curve.losses[curve.best] < rival.losses[rival.best]:
            found[curve.shape.name] = curve
    return list(found.values())


def _columns(problem: Losses, schedules: list[Any], objective: str, seed: int) -> tuple[dict[str, Floats], list[str]]:
    """Return every loss that can be had of the schedules, and notes on those that cannot or were sampled."""
    names = ["average_loss", "worst_case", *(["validation"] if problem.validation is not None else [])]
    columns = problem(schedules, [*names, *(["seen_loss"] if objective == "seen_loss" else [])])
    if "seen_loss" in columns:
        return columns, []
    cost = problem.operations("seen_loss") * len(schedules)
    if not problem.random or cost < _SEEN_BUDGET:
        return {**columns, **problem(schedules, ["seen_loss"])}, []
    values, errors = _sampled.seen_by_difference(problem, schedules, columns["average_loss"], seed)
    told = values > _ROUNDED * problem.initial("average_loss")
    worst = f", standard error at most {100 * float(np.max(errors[told] / values[told])):.2g} %" if told.any() else ""
    note = (
        f"seen-task losses are {_sampled.TRIALS} random runs of the difference from the exact average{worst}; "
        'objective="seen_loss" computes them exactly.'
    )
    return {**columns, "seen_loss": values}, [note]


def ranked(options: list[Option], problem: Losses, objective: str) -> list[Option]:
    """Return the options best first; the simplest of those that are as good as the best leads."""
    # Losses are rounded relative to what they start from: below that differences mean nothing.
    limit = (1 + _EQUAL) * min(option.loss for option in options) + _ROUNDED * problem.initial(objective)
    equal = np.log1p(_EQUAL)
    places = [np.floor(np.log(max(option.loss, limit, np.finfo(float).tiny)) / equal) for option in options]
    return [options[i] for i in np.argsort(places, kind="stable")]


def wrong_horizon(
    problem: Losses, best: Option, curves: list[Curve], objective: str
) -> dict[str, tuple[Filter, float, float]]:
    """Return what would have been advised for half and twice the steps, cut or held to k, with its loss and error.

    The scale is tuned again for the wrong horizon, within a factor 16 and among factors of 2, where an evaluation is
    quick; else only the shape is planned for it.
    """
    if best.loss <= 0 or best.scale is None:
        return {}
    k, radius = problem.k, problem.tasks.radius
    shape = next((curve.shape for curve in best_of_each(curves) if curve.shape.name == best.shape), None)
    filters = {}
    plans = {"half": k // 2, "twice": 2 * k}
    for name, plan in plans.items():
        if plan == 0:
            continue
        schedule = best.schedule
        if shape is not None and problem.quick:
            schedule = _tuned(problem, shape, best.scale, plan, objective) or schedule
        filters[name] = planned_for(schedule, plan, k, radius)
    made = {name: filter_ for name, filter_ in filters.items() if filter_ is not None}
    if not made:
        return {}
    schedules = list(made.values())
    losses, errors = problem.with_errors(schedules, objective, problem(schedules, [objective])[objective])
    return {name: (made[name], float(losses[i]), float(errors[i])) for i, name in enumerate(made)}


def _tuned(problem: Losses, shape: Shape, scale: float, plan: int, objective: str) -> Any:
    """Return the schedule of a shape that is best for ``plan`` steps; None where the ordering has not so many."""
    try:
        problem.ordering.check(problem.tasks.n_tasks, plan)
    except ValueError:
        return None
    other = Losses(problem.tasks, plan, problem.ordering, problem.start, problem.validation)
    schedules = [shape.make(scale * 2.0**power) for power in range(-4, 5) if _allowed(shape, scale * 2.0**power)]
    return schedules[int(np.argmin(other(schedules, [objective])[objective]))]


def _allowed(shape: Shape, scale: float) -> bool:
    return bool(shape.scales[0] <= scale)
