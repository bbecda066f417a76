"""Comparison of the exact loss of a schedule with every bound that applies, and the reasons why
others do not.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from forgetless._progress import track
from forgetless.errors import NoExactLawError
from forgetless.lab.exact import expect
from forgetless.lab.problem import Problem, check_still, has_next, with_few_threads
from forgetless.lab.worst import worst_case
from forgetless.orderings import OrderingLike
from forgetless.schedules.named import Schedules, several
from forgetless.tasks import TaskCollection
from forgetless.theory.bound import Bound
from forgetless.theory.bounds import catalogue
from forgetless.theory.comparisons import BoundCheck, BoundComparison, BoundComparisons
from forgetless.theory.hypotheses import REALIZABLE, Failure
from forgetless.theory.setting import Setting


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
    tried = catalogue if bounds is None else tuple(bounds)
    problems = [Problem.of(tasks, each, k, ordering, "last") for each in schedules]
    parts = [_comparison(each, tried) for each in problems]
    return BoundComparisons(dict(zip(labels, parts, strict=True))) if labels else parts[0]


def _comparison(problem: Problem, tried: tuple[Bound, ...]) -> BoundComparison:
    """Return the comparison for the only schedule of a problem."""
    setting = setting_of(problem)
    exact, worst, notes, errors = _exact(problem, setting)
    applying = [(bound, bound.failures(setting)) for bound in track(tried, "bounds")]
    values = [None if failures else loss_of(bound, setting) for bound, failures in applying]
    checks = []
    for (bound, failures), value in zip(applying, values, strict=True):
        others = [
            each
            for (other, _), each in zip(applying, values, strict=True)
            if each is not None
            and (other.kind, other.quantity, other.absolute) == ("upper", bound.quantity, False)
        ]
        least = min(others, default=None)
        checks.append(_check(bound, failures, value, setting, (exact[bound.quantity], least)))
    return BoundComparison(
        problem.k,
        problem.tasks.radius,
        setting.distance,
        problem.tasks.residual,
        exact["average_loss"],
        exact["seen_loss"],
        worst,
        tuple(checks),
        tuple(notes),
        errors,
        exact["next_loss"],
    )


def loss_of(bound: Bound, setting: Setting) -> float | None:
    """Return the value of a bound that applies, as a loss; None where only a rate is known."""
    if bound.value is None:
        return None
    unit = bound.value(setting)
    if bound.absolute:
        return unit
    if bound.kind == "upper" and REALIZABLE in bound.hypotheses:
        # Contradictions of the size of rounding change ‖Xw − y‖ by at most twice that part of RD
        # (Minkowski).
        unit = 0.5 * (math.sqrt(2 * unit) + 2 * setting.contradiction) ** 2
    return unit * setting.radius**2 * setting.distance**2


def _check(
    bound: Bound,
    failures: tuple[Failure, ...],
    loss: float | None,
    setting: Setting,
    compared: tuple[float | None, float | None],
) -> BoundCheck:
    """Return one row: the bound, capped by the trivial one, and its ratio.

    ``compared`` are the exact loss and the smallest upper bound for all collections. An upper bound
    is compared with the first, a lower one with the second.
    """
    if not failures and loss is None:
        reason = f"its hypotheses hold, but of the rate {bound.rate} no value is known for this k"
        failures = (Failure("a value for this k", reason),)
    trivial = 0.5 * setting.radius**2 * setting.distance**2
    value = loss
    # Where labels are noisy ½R²D² is no bound.
    if loss is not None and bound.kind == "upper" and REALIZABLE in bound.hypotheses:
        value = min(loss, trivial)
    exact, least = compared
    above, below = (value, exact) if bound.kind == "upper" else (least, value)
    ratio = above / below if above and below and below > 0 else None
    facts = (bound.name, bound.kind, bound.quantity)
    citation = f"{bound.citation}: {bound.place}"
    return BoundCheck(*facts, value, loss, ratio, failures, citation, bound.status)


def setting_of(problem: Problem) -> Setting:
    """Return the setting of the hypotheses, for the only schedule of a problem."""
    tasks = problem.tasks
    teacher = tasks.teacher()
    distance = float(np.linalg.norm(teacher))
    return Setting(tasks, problem.filters[0], problem.k, problem.ordering, teacher, distance)


_Maybe = float | None


def _exact(
    problem: Problem, setting: Setting
) -> tuple[dict[str, _Maybe], _Maybe, list[str], dict[str, float]]:
    """Return exact losses by name, the worst case, notes on what was not computed, and errors of
    the losses.
    """
    tasks = problem.tasks
    notes: list[str] = []
    errors: dict[str, float] = {}
    common: dict[str, Any] = {"k": problem.k, "ordering": problem.ordering}

    def attempt(compute: Callable[[], float]) -> _Maybe:
        try:
            return float(compute())
        except (MemoryError, NoExactLawError) as error:
            notes.append(f"not computed: {error}")
            return None

    def loss(name: str) -> float:
        found = expect(tasks, setting.filter, **common, metrics=name)
        errors[name] = found.errors[name]
        return float(found.values[name][0])

    def worst() -> float:
        return float(
            setting.distance**2 * worst_case(tasks, setting.filter, **common).worst_case[0]
        )

    losses: dict[str, _Maybe] = {"next_loss": None, "seen_loss": None}
    losses["average_loss"] = attempt(lambda: loss("average_loss"))
    largest = attempt(worst)
    if losses["average_loss"] is not None and has_next(problem.ordering, tasks.n_tasks, problem.k):
        losses["next_loss"] = attempt(lambda: loss("next_loss"))
    seconds = _seen_seconds(tasks, problem.k)
    if problem.ordering.stationary and seconds > _PATIENCE:
        notes.append(
            f"not computed: the seen-task loss follows {problem.k:,} steps one by one, some"
            f' {seconds / 60:.0f} minutes here; ask expect(…, metrics="seen_loss") for it'
        )
    else:
        losses["seen_loss"] = attempt(lambda: loss("seen_loss"))
    return losses, largest, list(dict.fromkeys(notes)), errors


_PATIENCE = 30.0
"""Seconds for which a comparison follows the seen-task loss."""


def _seen_seconds(tasks: TaskCollection, k: int) -> float:
    """Return the estimated seconds of the seen-task loss: some calls a step, and products with M
    matrices.
    """
    product = tasks.n_tasks * float(tasks.offsets[-1]) * (tasks.span_dimension + 1.0) ** 2
    return k * (1.2e-4 + 6e-10 * product)
