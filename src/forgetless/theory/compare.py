"""Comparison of the exact loss of a schedule with every bound that applies, and the reasons why
others do not.

Each bound is asked for its hypotheses first, then for its value in units of R²D², which is scaled
to the tasks at hand. An upper bound is divided by the exact loss: the ratio, at least 1, says how
much of it is slack. A lower bound says that *some* collection has at least this loss, so it is no
bound of the loss here. The smallest upper bound for all collections is divided by it: that ratio
says how much is left to be proved.
"""

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from forgetless._running import track
from forgetless.errors import NoExactLawError
from forgetless.lab import Problem, with_few_threads
from forgetless.lab.exact import expect
from forgetless.lab.worst import worst_case
from forgetless.orderings import OrderingLike
from forgetless.schedules.named import Schedules, several
from forgetless.tasks import TaskCollection
from forgetless.theory.bounds import catalogue
from forgetless.theory.hypotheses import REALIZABLE, Failure, Setting
from forgetless.theory.oracle import check_still
from forgetless.theory.records import (
    QUANTITIES,
    Bound,
    BoundCheck,
    BoundComparison,
    BoundComparisons,
)


@with_few_threads
def compare_bounds(
    tasks: TaskCollection,
    schedule: Schedules,
    k: int,
    *,
    ordering: OrderingLike | None = None,
    bounds: Iterable[Bound] | None = None,
) -> Any:
    """Return the exact expected losses of a schedule, every bound that applies, and why the others
    do not.

    Use it to see what theory says about given tasks, and how far it is from the truth. Upper bounds
    hold for these tasks; lower bounds say that some tasks have at least this loss.

    Parameters
    ----------
    tasks : TaskCollection
    schedule : schedule, filter, name or number; or a list or a dict of these
        A number is a fixed coefficient λ; the keys of a dict are labels.
    k : int
    ordering : Ordering or its name, default ``WithReplacement()``
    bounds : iterable of Bound, optional
        The bounds to try, by default all; add your own as ``[*fl.theory.catalogue, mine]``.

    Returns
    -------
    BoundComparison
        Or ``BoundComparisons``, one for every label, where several schedules were given.

    Examples
    --------
    >>> import forgetless as fl
    >>> c = fl.compare_bounds(fl.theory.constructions.unseen_task(100), fl.Projection(), k=100)
    >>> round(c.average_loss, 6), round(c.distance, 6)
    (0.00183, 1.0)
    >>> best = c.sharpest("upper")
    >>> best.name, round(best.value, 6), round(best.ratio, 2)
    ('computed', 0.003094, 1.69)
    """
    check_still(tasks)
    schedules, labels = several(schedule, k)
    tried = tuple(catalogue if bounds is None else bounds)
    problems = [Problem.of(tasks, each, k, ordering, "last") for each in schedules]
    parts = [_comparison(each, tried) for each in problems]
    if not labels:
        return parts[0]
    return BoundComparisons(dict(zip(labels, parts, strict=True)))


_MANY = 200_000  # no mutant: one step of so many
"""Steps from which on a comparison does not follow the seen-task loss, which takes minutes."""


def _comparison(problem: Problem, tried: tuple[Bound, ...]) -> BoundComparison:
    """Return the comparison for the only schedule of a problem."""
    setting = setting_of(problem)
    exact, errors, notes = _exact(problem, setting)
    checks = [_check(bound, setting) for bound in track(tried, "bounds")]
    # The smallest upper bound for all collections: one that is absolute knows these labels.
    least: dict[str, float] = {}
    for bound, check in zip(tried, checks, strict=True):
        if bound.kind == "upper" and not bound.absolute and check.published is not None:
            other = least.get(bound.quantity, math.inf)
            least[bound.quantity] = min(other, check.published)
    for i, check in enumerate(checks):
        # An upper bound is compared with the exact loss; a lower one, which is about some
        # collection, with that smallest upper bound.
        above = check.value
        below = exact.get(check.quantity)
        if check.kind == "lower":
            below = above
            above = least.get(check.quantity)
        if above and below:
            checks[i] = replace(check, ratio=above / below)
    return BoundComparison(
        k=problem.k,
        radius=setting.radius,
        distance=setting.distance,
        residual=setting.tasks.residual,
        **{name: exact.get(name) for name in (*QUANTITIES, "worst_case")},
        bounds=tuple(checks),
        notes=tuple(dict.fromkeys(notes)),
        errors=errors,
    )


def _check(bound: Bound, setting: Setting) -> BoundCheck:
    """Return one row, without its ratio: the bound, capped by the trivial one ½R²D²."""
    failures = bound.failures(setting)
    if not failures and bound.value is None:
        reason = f"its hypotheses hold, but of the rate {bound.rate} no value is known for this k"
        failures = (Failure("a value for this k", reason),)
    loss = None
    value = None
    if bound.value is not None and not failures:
        square = 1.0
        if not bound.absolute:
            square = setting.radius**2 * setting.distance**2
        unit = bound.value(setting)
        # Where labels are noisy ½R²D² is no bound.
        capped = bound.kind == "upper" and REALIZABLE in bound.hypotheses
        if capped:
            # Contradictions of the size of rounding change ‖Xw − y‖ by at most twice that part of
            # RD (Minkowski).
            unit = 0.5 * (math.sqrt(2 * unit) + 2 * setting.contradiction) ** 2
        loss = unit * square
        value = loss
        if capped:
            value = min(loss, 0.5 * square)
    return BoundCheck(
        bound.name,
        bound.kind,
        bound.quantity,
        value,
        loss,
        None,
        failures,
        f"{bound.citation}: {bound.place}",
        bound.status,
    )


def setting_of(problem: Problem) -> Setting:
    """Return the setting of the hypotheses, for the only schedule of a problem."""
    tasks = problem.tasks
    teacher = tasks.teacher()
    distance = float(np.linalg.norm(teacher))
    return Setting(tasks, problem.filters[0], problem.k, problem.ordering, teacher, distance)


def _exact(
    problem: Problem, setting: Setting
) -> tuple[dict[str, float], dict[str, float], list[str]]:
    """Return exact losses by name, their errors, and notes on what was not computed."""
    tasks = problem.tasks
    losses: dict[str, float] = {}
    errors: dict[str, float] = {}
    notes: list[str] = []
    wanted = ["average_loss", "worst_case"]
    if _has_next(problem):
        wanted.append("next_loss")
    if problem.ordering.stationary and problem.k > _MANY:
        notes.append(
            f"not computed: the seen-task loss follows {problem.k:,} steps one by one, for some"
            ' minutes; ask expect(…, metrics="seen_loss") for it'
        )
    else:
        wanted.append("seen_loss")
    case: Any = (tasks, setting.filter, problem.k)
    order = problem.ordering
    for name in wanted:
        try:
            if name == "worst_case":
                found = worst_case(*case, ordering=order)
            else:
                found = expect(*case, ordering=order, metrics=name)
        except (MemoryError, NoExactLawError) as error:
            notes.append(f"not computed: {error}")
            continue
        # Curves record the last step by default: one number.
        losses[name] = float(found.values[name][0])
        errors[name] = found.errors[name]
    # ``worst_case`` is for teachers of norm 1.
    if "worst_case" in losses:
        losses["worst_case"] *= setting.distance**2
    return losses, errors, notes


def _has_next(problem: Problem) -> bool:
    """Return whether there is a task after the last step, and a law of it."""
    try:
        problem.resolved("next_loss")
    except ValueError:
        return False
    return problem.ordering.has_moves
