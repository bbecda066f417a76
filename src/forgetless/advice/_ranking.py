"""The comparison behind advice: every shape of schedule at its best scale, with all its losses, ranked."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from forgetless._base.arrays import Floats
from forgetless.advice import _sketch
from forgetless.advice._losses import Losses
from forgetless.advice._shapes import Curve, Shape, scan, shapes, significant
from forgetless.advice.answer import Option
from forgetless.schedules import noise_aware, planned_for

_EQUAL = 1e-4
"""Losses this close, relatively, count as equal, and the simpler schedule is advised."""

_TRUSTED = 0.03
"""A reduced model that is off by less, relatively, at the schedules it chose is trusted to have chosen them."""

_SEEN_BUDGET = 4e9
"""Operations, about a tenth of a second, from which on the seen-task column is sampled when it is not the objective."""


def compare(
    problem: Losses, objective: str, seed: int, tell: Callable[[], None], own: Sequence[Shape] = ()
) -> tuple[list[Curve], list[Option], list[str]]:
    """Return the losses of every shape over its scale, the shapes at their best ranked by exact losses, and notes."""
    found = [*shapes(problem.tasks, problem.k, problem.ordering), *own]

    def exact(schedules: Sequence[Any]) -> Floats:
        tell()
        return problem(schedules, [objective])[objective]

    pilots: list[Any] = []
    for _ in range(2):
        model = problem.model(objective, pilots)
        if model is None:
            break
        curves = scan(found, model)
        tell()
        options, notes = _options(problem, curves, objective, seed)
        off = _deviation(curves, options)
        if off < _TRUSTED:
            note = f"scales were searched on a reduced model, off by at most {100 * off:.1g} % at the schedules above"
            return curves, ranked(options, problem, objective), [f"{note}; their losses are exact.", *notes]
        pilots = [option.schedule for option in options]  # the space that is missing is where these went
    curves = scan(found, exact)
    options, notes = _options(problem, curves, objective, seed)
    return curves, ranked(options, problem, objective), notes


def _deviation(curves: list[Curve], options: list[Option]) -> float:
    """Return by how much searched losses differ from exact ones at the best of each shape, at most, relatively."""
    exact = {option.shape: option.loss for option in options}
    pairs = [(curve.losses[curve.best], exact[curve.shape.name]) for curve in best_of_each(curves)]
    return max(abs(searched / loss - 1) if loss > 0 else 0.0 for searched, loss in pairs)


def _options(problem: Losses, curves: list[Curve], objective: str, seed: int) -> tuple[list[Option], list[str]]:
    """Return every shape at its best scale with all its losses, simple shapes first."""
    tasks, k, best = problem.tasks, problem.k, best_of_each(curves)
    names = [curve.shape.name for curve in best]
    scales = [float(curve.scales[curve.best]) if curve.shape.scales.size else None for curve in best]
    schedules: list[Any] = [curve.shape.make(float(curve.scales[curve.best])) for curve in best]
    if not tasks.is_realizable() and k >= 2 and tasks.radius > 0:
        constant = float(schedules[names.index("constant")].coefficient)
        per_unit = significant(constant / tasks.radius**2 * np.log(k) / k)
        schedules, names, scales = [*schedules, noise_aware(per_unit)], [*names, "noise-aware"], [*scales, per_unit]
    columns, notes = _columns(problem, schedules, objective, seed)
    options = []
    for i, schedule in enumerate(schedules):
        values = {name: float(column[i]) for name, column in columns.items()}
        flat = best[i].within(1.1) if i < len(best) and scales[i] is not None else None
        if names[i] == "no regularization":
            flat = _weak_constants(best[names.index("constant")], values[objective])
        options.append(Option(names[i], schedule, scales[i], values[objective], **values, flat=flat))
    return options, notes


def _weak_constants(constant: Curve, loss: float) -> tuple[float, float] | None:
    """Return the constants, from 0 on, that stay within 10 % of no regularization; None if the smallest does not."""
    near = constant.losses <= 1.1 * loss
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
    cost = _sketch.operations(problem.tasks, problem.k, "seen_loss") * len(schedules)
    if not problem.random or cost < _SEEN_BUDGET:
        return {**columns, **problem(schedules, ["seen_loss"])}, []
    values, errors = _sketch.seen_by_difference(problem, schedules, columns["average_loss"], seed)
    worst = float(np.max(errors / np.maximum(values, np.finfo(float).tiny)))
    note = (
        f"seen-task losses are {_sketch.TRIALS} random runs of the difference from the exact average, standard error "
        f'at most {100 * worst:.2g} %; objective="seen_loss" computes them exactly.'
    )
    return {**columns, "seen_loss": values}, [note]


def ranked(options: list[Option], problem: Losses, objective: str) -> list[Option]:
    """Return the options best first; the simplest of those that are as good as the best leads."""
    # Losses are rounded relative to what they start from: below that differences mean nothing.
    limit = (1 + _EQUAL) * min(option.loss for option in options) + 1e-14 * problem.initial(objective)
    equal = np.log1p(_EQUAL)
    places = [np.floor(np.log(max(option.loss, limit, np.finfo(float).tiny)) / equal) for option in options]
    return [options[i] for i in np.argsort(places, kind="stable")]


def wrong_horizon(problem: Losses, best: Option, curves: list[Curve], objective: str) -> dict[str, float]:
    """Return the loss of what would have been advised for half and for twice the steps, over that of the best.

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
    losses = problem(list(made.values()), [objective])[objective]
    return {name: float(loss / best.loss) for name, loss in zip(made, losses, strict=True)}


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
