"""The paper's figure and table from exact computations, as tables of numbers.

``optimum`` is Figure 2 (``fig:emp_fixed_schedule``): the best fixed coefficient of two tasks.
``rates`` and ``slopes`` are Table 1 (``tab:comparison``), measured: the exact worst-case loss of
seven families of tasks at k = 4..1024, and the slope of its logarithm. ``reduction`` is Figure 1
(``fig:reductions``) in numbers. ``unregularized`` answers the open question of Section 6 beside
them. ``figures`` draws the tables, ``page`` writes them into one report.

Everything is computed, nothing is sampled, so that a second run gives the same numbers.
"""

from collections.abc import Callable
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np

from forgetless import schedules
from forgetless._running import track
from forgetless._table import Table
from forgetless.filters import Projection, Ridge
from forgetless.lab.simulate import simulate
from forgetless.lab.worst import worst_case
from forgetless.orderings import FixedOrder
from forgetless.tasks import TaskCollection
from forgetless.theory import constructions
from forgetless.theory.bounds import catalogue
from forgetless.theory.closed_forms import two_task_optimum
from forgetless.theory.reduction import descend, linear_decay, surrogate
from forgetless.theory.upper import upper_bound

__all__ = ["optimum", "rates", "reduction", "slopes", "unregularized"]

_ANGLES = (64, 32, 16, 8, 4)
"""Divisors of π."""


def optimum(k_max: int = 1024) -> Table:
    """Return λ⋆(k; θ), the best fixed coefficient of the two-task problem by exact global
    search.

    The figure of the paper shows it growing in proportion to k. Further on it drops, and from then
    on no regularization is best.

    Parameters
    ----------
    k_max : int, default 1024
        Every k from 1 on, for five angles.

    Returns
    -------
    Table
        With the columns angle, theta, k, coefficient (λ⋆), loss (at λ⋆, of the worst unit teacher)
        and linear (k / ln cot(θ/2), which λ⋆ follows while kθ² ≲ 1). Its facts say where λ⋆ drops.
    """
    # All pairs, angle by angle.
    divisor = np.repeat(_ANGLES, k_max)
    k = np.tile(np.arange(1, k_max + 1), len(_ANGLES))
    theta = np.pi / divisor
    best, loss = two_task_optimum(theta, k)
    columns: dict[str, Any] = {
        "angle": [f"π/{each}" for each in divisor],
        "theta": theta.tolist(),
        "k": k.tolist(),
        "coefficient": best.tolist(),
        "loss": loss.tolist(),
        "linear": (k / np.log(1 / np.tan(theta / 2))).tolist(),
    }
    drops = []
    for each in _ANGLES:
        own = best[divisor == each]
        # Entry i is that of k = i + 1: λ⋆ drops after its largest value, and the first k from which
        # on it stays at 0 follows its last positive value.
        drop = np.argmax(own) + 2
        zero = np.flatnonzero(own)[-1] + 2
        if zero <= k_max:
            square = (np.pi / each) ** 2
            drops.append(
                f"θ = π/{each}: drops at kθ² = {drop * square:.2f}, exactly 0 from kθ² ="
                f" {zero * square:.2f} on"
            )
    return Table("Best fixed coefficient of two tasks", columns, tuple(drops))


SCHEDULES: dict[str, Any] = {
    "none": Projection(),
    "fixed": schedules.fixed(),
    "increasing": schedules.increasing(),
    "fixed budget": schedules.fixed_budget(4),
    "increasing budget": schedules.increasing_budget(4),
}
"""The schedules of Table 1; budgets have four gradient steps a task, at least."""

_PUBLISHED = {
    "none": "unregularized, dimension-free",
    "fixed": "fixed, near-optimal, tight",
    "increasing": "increasing, finite k",
    "fixed budget": "fixed, near-optimal, tight",
    "increasing budget": "increasing, finite k",
}
"""What the catalogue calls their published bounds."""


def _random(d: int, M: int, r: int, spread: float = 1.0) -> TaskCollection:
    """Return M random tasks of r rows and norm 1, the same in every run.

    Their labels do not matter: the teacher is the worst one. ``spread`` is the scale of the last
    feature over that of the first.
    """
    rng = np.random.default_rng([d, M, r])
    scales = np.geomspace(1.0, spread, d)
    rows = [rng.standard_normal((r, d)) * scales for _ in range(M)]
    return TaskCollection([(X / np.linalg.norm(X, 2), np.zeros(r)) for X in rows])


FAMILIES: dict[str, Callable[[int], TaskCollection]] = {
    "unseen task": constructions.unseen_task,
    "rare tasks": constructions.rare_tasks,
    "two tasks, π/64": lambda _: constructions.two_tasks(np.pi / 64),
    "two tasks, π/16": lambda _: constructions.two_tasks(np.pi / 16),
    "random, rank 1": lambda _: _random(10, 20, 1),
    "random, rank 3": lambda _: _random(20, 10, 3),
    "ill-conditioned": lambda _: _random(8, 12, 2, 1e-2),
}
"""Tasks for a number of steps, by name: two constructions whose frequencies depend on it, two tasks
at small angles, and random ones of low rank, or with features of very different scales."""


def rates(exponents: range = range(2, 11)) -> Table:
    """Return the exact worst-case loss over R² against k, for every family and schedule, beside the
    published bound.

    Bounds hold for every collection; a family is one, so that its loss is below them.

    Parameters
    ----------
    exponents : range, default 2..10
        k is two to these powers.

    Returns
    -------
    Table
        With the columns family, schedule, k, loss (½λ_max of the expected form) and bound (the
        smaller of the published bound and the trivial ½).
    """
    rows: list[dict[str, Any]] = []
    for family in track(FAMILIES, "families of tasks"):
        for exponent in exponents:
            k = 2**exponent
            tasks = FAMILIES[family](k)
            # In units of R²D², as the bounds are: all families have R = 1, the worst teacher D = 1.
            losses = worst_case(tasks, SCHEDULES, k).worst_case[:, 0]
            for name, loss in zip(SCHEDULES, losses.tolist(), strict=True):
                # The trivial bound, ½, is smaller for few steps.
                bound = min(0.5, catalogue[_PUBLISHED[name]].at(k))
                row = {"family": family, "schedule": name, "k": k, "loss": loss, "bound": bound}
                rows.append(row)
    return Table.of_rows("Worst case over unit teachers against the number of steps", rows)


def slopes(measured: Table, last: int = 4) -> Table:
    """Return fitted slopes of log loss against log k, over the last points, beside the published
    bounds and those computed here.

    Parameters
    ----------
    measured : Table
        As of ``rates``.
    last : int, default 4
        Number of points of every fit.

    Returns
    -------
    Table
        One row for every family and schedule. Its facts say which schedule had the smallest loss at
        which k.
    """
    # What is proved here has no formula in k, and is computed for the last k alone.
    end = int(max(measured.columns["k"]))
    proved = {name: upper_bound(schedule, end).constant for name, schedule in SCHEDULES.items()}
    rows = []
    for family in FAMILIES:
        for name in SCHEDULES:
            part = measured.where(family=family, schedule=name).columns
            k = np.array(part["k"][-last:])
            loss = np.array(part["loss"][-last:])
            # A loss of 0, of tasks that are solved exactly, has no logarithm.
            logarithms = np.log(np.maximum(loss, 1e-300))
            rows.append(
                {
                    "family": family,
                    "schedule": name,
                    "slope": float(np.polyfit(np.log(k), logarithms, 1)[0]),
                    "fitted on k": f"{k[0]}..{k[-1]}",
                    "k·loss at the end": float(k[-1] * loss[-1]),
                    "published": catalogue[_PUBLISHED[name]].rate,
                    "k·bound at the end": float(k[-1] * part["bound"][-1]),
                    "k·upper bound at the end": proved[name],
                }
            )
    # Where the curves of two schedules cross is a fact of its own.
    facts = tuple(
        f"{family}: smallest loss with {_winners(measured.where(family=family))}"
        for family in FAMILIES
    )
    return Table.of_rows("Table 1, measured", rows, facts)


def _winners(part: Table) -> str:
    """Return the schedules of smallest loss and their ranges of k, as text.

    A name occurs once for every range: "none (k = 4..16), increasing (k = 32..1024)".
    """
    pairs = []
    for k in dict.fromkeys(part.columns["k"]):
        at = part.where(k=k).columns
        pairs.append((at["schedule"][int(np.argmin(at["loss"]))], k))
    ranges = []
    for name, group in groupby(pairs, itemgetter(0)):
        steps = [str(k) for _, k in group]
        # Of a range with one k, its two ends are the same.
        ends = dict.fromkeys([steps[0], steps[-1]])
        ranges.append(f"{name} (k = {'..'.join(ends)})")
    return ", ".join(ranges)


def reduction(k: int = 12) -> Table:
    """Return iterates of both schemes, and of gradient descent on their surrogates, in 2-D.

    Three tasks of one row and one solution, (1, −0.6), in one random order of k steps. Scheme 1
    and Scheme 2 run through their filters, Scheme 3 with ``theory.descend`` on the surrogates of
    Reductions 1 and 2.

    Parameters
    ----------
    k : int, default 12
        Number of steps.

    Returns
    -------
    Table
        With the columns scheme, t, w1 and w2 (the learner), descent1 and descent2. Its facts are
        the largest deviations, which are rounding.
    """
    teacher = np.array([1.0, -0.6])
    unit_rows = [np.array([[np.cos(a), np.sin(a)]]) for a in (0.2, 1.1, 2.3)]
    tasks = TaskCollection([(X, X @ teacher) for X in unit_rows])
    order = np.random.default_rng(5).integers(3, size=k).tolist()
    # η_t = 1.5(k−t+2)/((k+1)R²) on surrogates of smoothness φ_t(R²)/η_t
    etas = linear_decay(k, 1.5 / tasks.radius**2)
    # 1/η_t = R²(k+1)/(1.5(k−t+2)): the increasing schedule of scale c = 1/1.5.
    schemes = {
        "explicit L2": schedules.increasing(1 / 1.5),
        "step budget": schedules.increasing_budget(5, scale=1 / 1.5),
    }
    # Two coordinates of the learner and of the descent, step by step.
    rows = []
    deviations = []
    for scheme, schedule in schemes.items():
        filter_ = schedule(k, tasks.radius)

        def gradient(w: Any, m: int, t: int, filter_: Any = filter_) -> Any:
            return surrogate(tasks[m], filter_[t - 1], etas[t - 1], tasks.radius).gradient(w)

        # The same steps twice: as gradient steps on surrogates, and as the learner takes them.
        descent = descend(gradient, order, etas, np.zeros(2))
        curves = simulate(
            tasks, schedule, k, ordering=FixedOrder(order), record="all", metrics="weights"
        )
        learned = curves.weights[0]
        gap = float(np.abs(learned - descent).max())
        deviations.append(f"{scheme}: largest deviation of the two computations {gap:.1e}")
        for t, values in enumerate(np.hstack([learned, descent]).tolist(), start=1):
            numbers = dict(zip(("w1", "w2", "descent1", "descent2"), values, strict=True))
            rows.append({"scheme": scheme, "t": t, **numbers})
    title = "The reduction: learning a task is one gradient step"
    return Table.of_rows(title, rows, tuple(deviations))


def unregularized(exponents: range = range(2, 11)) -> Table:
    """Return k·loss/(R²D²) for tasks drawn with replacement: what is proved for every collection,
    and what some collections have.

    Parameters
    ----------
    exponents : range, default 2..10
        k is two to these powers.

    Returns
    -------
    Table
        With k in the first column. Four columns are upper bounds: the published one of the paper's
        schedule, and those of ``upper_bound`` for an increasing strength of scale 1, for none and
        for λ = 3R²/7. Two are losses of explicit tasks: the worst jump chain of at most five
        levels, and a row that was never drawn.
    """
    free = Projection()
    # Functions from k to a loss over R²D², by the name of the column.
    lines: dict[str, Callable[[int], float]] = {
        "increasing, published": catalogue["increasing"].at,
        "increasing, scale 1": lambda k: upper_bound(schedules.increasing(1.0), k).value,
        "no regularization": lambda k: upper_bound(free, k).value,
        "fixed, λ = 3R²/7": lambda k: upper_bound(Ridge(3 / 7), k).value,
        "no regularization, some tasks": lambda k: max(
            constructions.jump_chain(levels, k).claim(free, k) for levels in range(1, 6)
        ),
        "any algorithm, some tasks": catalogue["any algorithm, one task more"].at,
    }
    # k·loss, which is flat where the loss is of order 1/k.
    columns: dict[str, list[Any]] = {"k": [2**n for n in exponents]}
    for name, loss in lines.items():
        columns[name] = [k * loss(k) for k in columns["k"]]
    fact = "without regularization at most 0.315 R²D²/k for every k: derived here, not published"
    return Table("Is regularization needed? k·loss/(R²D²), with replacement", columns, (fact,))
