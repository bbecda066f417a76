"""What advice says about its choice: label noise, flatness, a wrong horizon, the theorem's guarantee, in words."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from forgetless._base.arrays import Floats, from_numpy
from forgetless.advice.answer import Option, vanishing
from forgetless.certificates.certificate import check_bound, setting_of
from forgetless.engines.problem import Problem
from forgetless.metrics import QUANTITIES
from forgetless.orderings import Ordering
from forgetless.schedules import Increasing, IncreasingBudget
from forgetless.tasks import TaskCollection
from forgetless.theory.bounds import catalogue


def label_noise(tasks: TaskCollection) -> tuple[float | None, str]:
    """Return the standard deviation of the label noise and where it was read from.

    Tasks with more rows than their rank have residuals that no weights remove: their squares over the degrees of
    freedom estimate σ². Without such tasks the residuals of the joint solution are used, which takes for granted that
    one model generated all tasks. None where neither leaves a degree of freedom.

    Examples
    --------
    >>> import forgetless as fl
    >>> from forgetless.advice._words import label_noise
    >>> sigma, source = label_noise(fl.TaskCollection([([[1.0], [1.0]], [0.0, 2.0])]))
    >>> round(sigma**2, 6), source  # residuals ±1, one degree of freedom
    (2.0, 'within tasks')
    """
    rows = [int(task.X.shape[0]) for task in tasks]
    inside = sum(n - r for n, r in zip(rows, tasks.ranks, strict=True)) * tasks.n_targets
    if inside > 0:
        return math.sqrt(2 * float(tasks.floors.sum()) / inside), "within tasks"
    across = (sum(rows) - tasks.span_dimension) * tasks.n_targets
    if across <= 0:
        return None, "not identified"
    xp, w = tasks.xp, tasks.teacher()
    if tasks.is_realizable():
        return 0.0, "between tasks"
    square = sum(float(xp.sum((task.X @ w - task.y) ** 2)) for task in tasks)
    return math.sqrt(square / across), "between tasks"


def guarantee(tasks: TaskCollection, schedule: Any, k: int, ordering: Ordering, start: Any, objective: str) -> str:
    """Return the smallest published bound on the loss of a schedule, in words, or why there is none."""
    if objective == "validation":
        return "No theorem covers held-out rows."
    quantity = "seen_loss" if objective == "seen_loss" else "average_loss"
    if objective == "worst_case":  # a unit teacher, learned from the origin, fits all tasks
        w = np.zeros(tasks.n_features)
        w[0] = 1.0
        tasks = TaskCollection([(task.X, task.X @ from_numpy(w, like=task.X)) for task in tasks])
        start = None
    setting = setting_of(Problem.of(tasks, schedule, k, ordering, "last"), start)
    if objective == "worst_case":
        setting = dataclasses.replace(setting, distance=1.0)
    upper = [bound for bound in catalogue if bound.kind == "upper" and bound.quantity == quantity]
    checks = [check_bound(bound, setting, None) for bound in upper]
    trivial = 0.5 * setting.radius**2 * setting.distance**2
    useful = [check for check in checks if check.value is not None and check.value < trivial * (1 - 1e-12)]
    if useful:
        least = min(useful, key=lambda check: check.value or 0.0)
        words = "a seen-task" if quantity == "seen_loss" else "an average"
        return f"A theorem guarantees it {words} loss of at most {least.value:.3g} ({least.name}; {least.status})."
    if not tasks.is_realizable():
        return "No theorem covers it: they are for tasks that one model fits."
    return f"No theorem guarantees it more than what every schedule satisfies, ½R²D² = {trivial:.3g}."


def reasoning(tasks: TaskCollection, options: Sequence[Option], tried: Floats, objective: str, least: float) -> str:
    """Return why the first option is the best, with numbers; ``tried`` are the scales its shape was evaluated at."""
    best = options[0]
    floor = least if objective == "average_loss" else 0.0
    first = f"It has the smallest {QUANTITIES[objective]}, {best.loss:.4g}"
    if floor > 0:
        first += f", of which no weights avoid {floor:.4g}"
    compared = _compared(options, floor)
    if compared:
        first += (": the rest is " if floor > 0 else ": ") + ", ".join(compared)
    about = "" if objective == "worst_case" else _data(tasks, best)  # the worst teacher's labels have no noise
    return " ".join(part for part in (f"{first}.", about, _flatness(best, tried)) if part)


def _compared(options: Sequence[Option], floor: float) -> list[str]:
    """Return by how much the best is below the schedules people know, of what is above ``floor``."""
    excess = {option.shape: option.loss - floor for option in options}
    own = options[0].loss - floor
    words = {
        "no regularization": "no regularization",
        "constant": "the best constant",
        "increasing, theorem": "the theorem's schedule",
    }
    if excess.get("constant", 0.0) >= excess["no regularization"]:
        del words["constant"]  # the best constant is none
    if vanishing(options):
        return []
    names = [name for name in words if name in excess and name != options[0].shape and own > 0]
    return [f"{_times(excess[name], own)} {words[name]}" for name in names if excess[name] > 0]


def _times(loss: float, best: float) -> str:
    ratio = loss / best
    if ratio < 2:
        return f"{100 * (1 - best / loss):.2g} % below"
    return f"{ratio:.3g}× below" if ratio < 100 else f"{ratio:,.0f}× below" if ratio < 1e6 else f"{ratio:.0e}× below"


def _data(tasks: TaskCollection, best: Option) -> str:
    free = best.shape == "no regularization"
    if tasks.is_realizable():
        return "One model fits all tasks: there is no label noise to average out" + (
            ", and regularization only slows learning down." if free else ", only conflict between tasks to damp."
        )
    noise, source = label_noise(tasks)
    size = "" if noise is None else f" (σ ≈ {noise:.3g} from residuals {source})"
    return f"The labels are noisy or the tasks disagree{size}" + (
        ", yet not enough for regularization to pay in so many steps."
        if free
        else ", which regularization averages out."
    )


def _flatness(best: Option, tried: Floats) -> str:
    if best.flat is None:
        return ""
    if best.shape == "no regularization":
        return f"Constants up to {best.flat[1]:.2g} times R² stay within 10 % of it."
    low, high = best.flat
    verdict = "flat" if high > 10 * low else "sharp" if high < 2 * low else "moderately flat"
    ends = " (as far as tried)" if high >= 0.999 * tried[-1] or low <= 1.001 * tried[0] else ""
    unit = "" if isinstance(best.schedule, Increasing | IncreasingBudget) else " times R²"  # there a pure factor
    return f"The optimum is {verdict}: scales from {low:.2g} to {high:.2g}{unit}{ends} stay within 10 % of it."


def horizon_sentence(horizon: dict[str, float]) -> str:
    """Return what a horizon wrong by a factor of 2 costs, in words."""
    if not horizon:
        return ""
    changes = {name: 100 * (ratio - 1) for name, ratio in horizon.items()}
    if all(abs(change) < 1 for change in changes.values()):
        return "Planned for half or twice the steps that come, it loses less than 1 %."
    parts = [f"{_change(horizon[name])} planned for {name} the steps that come" for name in changes]
    return f"The horizon matters: its loss is {' and '.join(parts)}."


def _change(ratio: float) -> str:
    if abs(ratio - 1) < 0.01:
        return "the same within 1 %"
    if ratio >= 1.1:
        return f"{ratio:.3g} times as large"
    return f"{100 * abs(ratio - 1):.2g} % {'larger' if ratio > 1 else 'smaller'}"
