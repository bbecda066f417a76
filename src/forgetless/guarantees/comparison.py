"""Comparison of the exact loss of a schedule with every bound that applies, and the reasons why
others do not.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import overload

import numpy as np

from forgetless._progress import track
from forgetless._schedule import Schedules, several
from forgetless.errors import NoExactLawError
from forgetless.guarantees.results import BoundComparison, BoundComparisons, check_bound
from forgetless.guarantees.schedule_bounds import COMPUTED
from forgetless.lab.exact import expect, worst_case
from forgetless.lab.problem import Problem, check_still, has_next, with_few_threads
from forgetless.orderings import OrderingLike
from forgetless.schedules import ScheduleLike
from forgetless.tasks import TaskCollection
from forgetless.theory.bounds import Bound, catalogue
from forgetless.theory.hypotheses import Setting

BOUNDS: tuple[Bound, ...] = (*catalogue, *COMPUTED)
"""The catalogue and the bounds that are computed from a schedule."""


@overload
def compare_bounds(
    tasks: TaskCollection,
    schedule: ScheduleLike,
    k: int,
    *,
    ordering: OrderingLike | None = ...,
    bounds: Iterable[Bound] | None = ...,
) -> BoundComparison: ...
@overload
def compare_bounds(
    tasks: TaskCollection,
    schedule: list[ScheduleLike] | tuple[ScheduleLike, ...] | Mapping[str, ScheduleLike],
    k: int,
    *,
    ordering: OrderingLike | None = ...,
    bounds: Iterable[Bound] | None = ...,
) -> BoundComparisons: ...
@with_few_threads
def compare_bounds(
    tasks: TaskCollection,
    schedule: Schedules,
    k: int,
    *,
    ordering: OrderingLike | None = None,
    bounds: Iterable[Bound] | None = None,
) -> BoundComparison | BoundComparisons:
    """Return the exact expected losses of a schedule, every bound that applies, and why the others
    do not.

    Parameters
    ----------
    tasks : TaskCollection
    schedule : schedule, filter, name or number; or a list or a dict of these
        A name is one such as "increasing", a number a fixed coefficient λ; the keys of a dict
        are labels.
    k : int
    ordering : Ordering or its name, default ``WithReplacement()``
    bounds : iterable of Bound, optional
        The bounds to try; add your own as ``[*fl.theory.bounds.catalogue, mine]``. By default the
        whole catalogue, and ``fl.upper_bound`` of the schedule for both losses.

    Returns
    -------
    BoundComparison
        Or ``BoundComparisons``, one for every label, where several schedules were given.

    Examples
    --------
    >>> import forgetless as fl
    >>> c = fl.compare_bounds(fl.theory.constructions.unseen_task(100), fl.schedules.increasing(),
    ...     k=100)
    >>> round(c.average_loss, 6), round(c.distance, 6)
    (0.00413, 1.0)
    >>> [b.name for b in c.bounds if b.applies and b.kind == "lower"]
    ['any algorithm', 'any filter']
    """
    check_still(tasks)
    schedules, labels = several(schedule, k)
    tried = BOUNDS if bounds is None else tuple(bounds)
    problems = [Problem.of(tasks, each, k, ordering, "last") for each in schedules]
    parts = [_comparison(each, tried) for each in problems]
    return BoundComparisons(dict(zip(labels, parts, strict=True))) if labels else parts[0]


def _comparison(problem: Problem, tried: tuple[Bound, ...]) -> BoundComparison:
    """Return the comparison for the only schedule of a problem."""
    tasks = problem.tasks
    setting = setting_of(problem)
    exact, worst, notes, errors = _exact(problem, setting)
    checks = [
        check_bound(bound, setting, exact[bound.quantity]) for bound in track(tried, "bounds")
    ]
    return BoundComparison(
        problem.k,
        tasks.radius,
        setting.distance,
        tasks.residual,
        exact["average_loss"],
        exact["seen_loss"],
        worst,
        tuple(checks),
        tuple(notes),
        errors,
        exact["next_loss"],
    )


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
    tasks, filter_, k, ordering = problem.tasks, problem.filters[0], problem.k, problem.ordering
    notes: list[str] = []
    errors: dict[str, float] = {}

    def attempt(compute: Callable[[], float]) -> _Maybe:
        try:
            return float(compute())
        except (MemoryError, NoExactLawError) as error:
            notes.append(f"not computed: {error}")
            return None

    def loss(name: str) -> float:
        expectation = expect(tasks, filter_, k, ordering=ordering, metrics=name)
        errors[name] = expectation.errors[name]
        return float(expectation.values[name][0])

    losses: dict[str, _Maybe] = {"next_loss": None, "seen_loss": None}
    losses["average_loss"] = attempt(lambda: loss("average_loss"))
    worst = attempt(
        lambda: setting.distance**2 * worst_case(tasks, filter_, k, ordering=ordering).loss
    )
    if losses["average_loss"] is not None and has_next(ordering, tasks.n_tasks, k):
        losses["next_loss"] = attempt(lambda: loss("next_loss"))
    if ordering.stationary and (seconds := _seen_seconds(tasks, k)) > _PATIENCE:
        notes.append(
            f"not computed: the seen-task loss follows {k:,} steps one by one, some"
            f' {seconds / 60:.0f} minutes here; ask expect(…, metrics="seen_loss") for it'
        )
    else:
        losses["seen_loss"] = attempt(lambda: loss("seen_loss"))
    return losses, worst, list(dict.fromkeys(notes)), errors


_PATIENCE = 30.0
"""Seconds for which a comparison follows the seen-task loss."""


def _seen_seconds(tasks: TaskCollection, k: int) -> float:
    """Return the estimated seconds of the seen-task loss: some calls a step, and products with M
    matrices.
    """
    return k * (
        1.2e-4
        + 6e-10 * tasks.n_tasks * float(tasks.offsets[-1]) * (tasks.span_dimension + 1.0) ** 2
    )
