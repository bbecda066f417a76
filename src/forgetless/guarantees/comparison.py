"""Comparison of the exact loss of a schedule with every bound that applies, and the reasons why others do not."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, overload

import numpy as np

from forgetless._core.arrays import namespace_of
from forgetless.engines.expectation import expect, worst_case
from forgetless.engines.inputs import OrderingLike, ScheduleLike, Schedules, as_schedules
from forgetless.engines.problem import Problem, check_tasks, with_few_threads
from forgetless.errors import NoExactLawError
from forgetless.guarantees._steps import failure_at, in_units, steps_of
from forgetless.guarantees.results import BoundCheck, BoundComparison, BoundComparisons
from forgetless.guarantees.upper import half_supremum
from forgetless.orderings import Draws
from forgetless.reporting.progress import Progress, part_of_work, progress_callback
from forgetless.tasks import TaskCollection
from forgetless.theory.bounds import Bound, catalogue
from forgetless.theory.hypotheses import INDEPENDENT, REALIZABLE, Setting

_MAX_STEPS = 10_000
"""Larger k take more than some seconds, and ``certify`` leaves the certificate out."""


@dataclass(frozen=True)
class ScheduleBound(Bound):
    """A certificate, computed from the filters of a schedule instead of a formula in k."""

    @property
    def constant_known(self) -> bool:
        return True

    def evaluate(self, k: int, radius: float, distance: float, **extras: float) -> float:
        raise TypeError(f"the bound {self.name!r} depends on the schedule; use fl.upper_bound(schedule, k)")

    def failures(self, setting: Setting) -> list[str]:
        reasons = super().failures(setting)
        if setting.k > _MAX_STEPS:
            reasons.append(
                f"not computed here for more than {_MAX_STEPS:,} steps; ask fl.upper_bound(schedule, k) for it"
            )
        if not reasons and setting.radius > 0:
            filter_ = in_units(setting.filter, setting.radius)
            try:
                steps = steps_of(filter_, setting.k)
            except ValueError as error:
                return [str(error)]
            if steps.assumes:
                failure = failure_at(filter_, setting.k, (setting.tasks.singular_values / setting.radius) ** 2)
                reasons += [] if failure is None else [failure]
        return reasons

    def value(self, setting: Setting) -> float:
        R, D = setting.radius, setting.distance
        if R == 0:
            return 0.0
        unit = half_supremum(in_units(setting.filter, R), setting.k, self.quantity).per_unit
        if self.quantity == "average_loss":
            unit *= _importance(setting)
        # Tasks that contradict each other up to rounding change ‖Xw − y‖ by at most twice that part of RD (Minkowski).
        return 0.5 * (math.sqrt(2 * unit) + 2 * setting.contradiction) ** 2 * R**2 * D**2


def _importance(setting: Setting) -> float:
    """Return max 1/(M p_m): the average loss is a plain mean, and tasks are drawn with probabilities p."""
    assert isinstance(setting.law, Draws)
    with np.errstate(divide="ignore"):
        return float(np.max(1 / (len(setting.law.probabilities) * setting.law.probabilities)))


def _certificate(name: str, quantity: str, theorem: str) -> ScheduleBound:
    return ScheduleBound(
        name=name,
        kind="upper",
        quantity=quantity,
        ordering="with replacement, any probabilities",
        scheme="explicit, budget or any concave filter",
        regularization="any, λ > 0 where it varies",
        rate="computed",
        min_k=1,
        hypotheses=(REALIZABLE, INDEPENDENT),
        citation=f"docs/upper-bounds.md, {theorem}; computed by fl.upper_bound",
        status="derived",
    )


CERTIFICATES = (
    _certificate("computed", "average_loss", "Theorems 1 to 4"),
    _certificate("computed, seen tasks", "seen_loss", "Theorem 5"),
)
"""The bounds that ``certify`` checks in addition to the catalogue."""


BOUNDS: tuple[Bound, ...] = (*catalogue, *CERTIFICATES)
"""The catalogue and the certificates of the schedule."""


@overload
def compare_bounds(
    tasks: TaskCollection,
    schedule: ScheduleLike,
    k: int,
    *,
    ordering: OrderingLike | None = ...,
    start: Any = ...,
    bounds: Iterable[Bound] | None = ...,
    progress: Progress | bool | None = ...,
) -> BoundComparison: ...
@overload
def compare_bounds(
    tasks: TaskCollection,
    schedule: list[ScheduleLike] | tuple[ScheduleLike, ...] | Mapping[str, ScheduleLike],
    k: int,
    *,
    ordering: OrderingLike | None = ...,
    start: Any = ...,
    bounds: Iterable[Bound] | None = ...,
    progress: Progress | bool | None = ...,
) -> BoundComparisons: ...
@with_few_threads
def compare_bounds(
    tasks: TaskCollection,
    schedule: Schedules,
    k: int,
    *,
    ordering: OrderingLike | None = None,
    start: Any = None,
    bounds: Iterable[Bound] | None = None,
    progress: Progress | bool | None = None,
) -> BoundComparison | BoundComparisons:
    """Return the exact expected losses of a schedule, every bound that applies, and why the others do not.

    Parameters
    ----------
    tasks : TaskCollection
    schedule : schedule, filter, name or number; or a list or a dict of these
        A name is one such as "increasing:0.5", a number a fixed coefficient λ; the keys of a dict are labels.
    k : int
    ordering : Ordering or its name, default ``WithReplacement()``
    start : array of shape (d,) or (d, c), optional
        w₀; the origin if omitted.
    bounds : iterable of Bound, optional
        The bounds to try; add your own as ``[*fl.theory.bounds.catalogue, mine]``. By default the whole catalogue,
        and ``fl.upper_bound`` of the schedule for both losses.
    progress : bool or callable, optional
        True shows a bar; a callable is called as ``progress(stages_done, n_stages, label)``.

    Returns
    -------
    BoundComparison
        Or ``BoundComparisons``, one for every label, where several schedules were given.

    Examples
    --------
    >>> import forgetless as fl
    >>> c = fl.compare_bounds(fl.theory.constructions.unseen_task(100), fl.schedules.increasing(), k=100)
    >>> round(c.average_loss, 6), round(c.distance, 6)
    (0.00413, 1.0)
    >>> [b.name for b in c.bounds if b.applies and b.kind == "lower"]
    ['any algorithm', 'any filter']
    """
    check_tasks(tasks)
    schedules, labels = as_schedules(schedule, tasks.n_tasks, k)
    tried = BOUNDS if bounds is None else tuple(bounds)
    problems = [Problem.of(tasks, each, k, ordering, "last") for each in schedules]
    with progress_callback(progress) as callback:
        reports = [part_of_work(callback, i, len(problems)) for i in range(len(problems))]
        parts = [_comparison(each, start, tried, report) for each, report in zip(problems, reports, strict=True)]
    return BoundComparisons(dict(zip(labels, parts, strict=True))) if labels else parts[0]


def _comparison(problem: Problem, start: Any, tried: tuple[Bound, ...], report_progress: Progress) -> BoundComparison:
    """Return the comparison for the only schedule of a problem."""
    tasks, n_stages = problem.tasks, len(_EXACT) + len(tried)
    setting = setting_of(problem, start)
    average, seen_loss, worst, notes, errors = _exact(
        problem, setting, lambda done: report_progress(done, n_stages, f"exact {_EXACT[done]}")
    )
    exact = {"average_loss": average, "seen_loss": seen_loss}
    checks = []
    for done, bound in enumerate(tried, start=len(_EXACT)):
        report_progress(done, n_stages, f"bound: {bound.name}")
        checks.append(check_bound(bound, setting, exact[bound.quantity]))
    report_progress(n_stages, n_stages, "done")
    return BoundComparison(
        problem.k,
        tasks.radius,
        setting.distance,
        tasks.residual,
        average,
        seen_loss,
        worst,
        tuple(checks),
        tuple(notes),
        errors,
        problem.origin("certify", start=start),
    )


def setting_of(problem: Problem, start: Any) -> Setting:
    """Return the setting of the hypotheses, for the only schedule of a problem."""
    tasks, origin = problem.tasks, problem.tasks.start(start)
    teacher = tasks.teacher(start)
    distance = float(namespace_of(origin).linalg.vector_norm(origin - teacher))
    return Setting(tasks, problem.filters[0], problem.k, problem.ordering, origin, teacher, distance)


Maybe = float | None

_EXACT = ("average loss", "worst case", "seen-task loss")
"""The losses that are computed, in this order."""


def _exact(
    problem: Problem, setting: Setting, report_stage: Callable[[int], None]
) -> tuple[Maybe, Maybe, Maybe, list[str], dict[str, float]]:
    tasks, filter_, k, ordering = problem.tasks, problem.filters[0], problem.k, problem.ordering
    notes: list[str] = []
    errors: dict[str, float] = {}

    def attempt(compute: Callable[[], float]) -> Maybe:
        try:
            return float(compute())
        except (MemoryError, NoExactLawError) as error:
            notes.append(f"not computed: {error}")
            return None

    def loss(name: str) -> float:
        expectation = expect(tasks, filter_, k, ordering=ordering, start=setting.start, metrics=name)
        errors[name] = expectation.errors[name]
        return float(expectation.values[name][0])

    report_stage(0)
    average = attempt(lambda: loss("average_loss"))
    report_stage(1)
    worst = attempt(lambda: setting.distance**2 * worst_case(tasks, filter_, k, ordering=ordering).loss)
    if isinstance(ordering.law(tasks.n_tasks, k), Draws) and (seconds := _seen_seconds(tasks, k)) > _PATIENCE:
        notes.append(
            f"not computed: the seen-task loss follows {k:,} steps one by one, some {seconds / 60:.0f} minutes here; "
            'ask expect(…, metrics="seen_loss") for it'
        )
        return average, None, worst, list(dict.fromkeys(notes)), errors
    report_stage(2)
    seen_loss = attempt(lambda: loss("seen_loss"))
    return average, seen_loss, worst, list(dict.fromkeys(notes)), errors


_PATIENCE = 30.0
"""Seconds for which a certificate follows the seen-task loss."""


def _seen_seconds(tasks: TaskCollection, k: int) -> float:
    """Return the estimated seconds of the seen-task loss: some calls a step, and products with M matrices."""
    return k * (1.2e-4 + 6e-10 * tasks.n_tasks * float(tasks.offsets[-1]) * (tasks.span_dimension + 1.0) ** 2)


def check_bound(bound: Bound, setting: Setting, exact: float | None) -> BoundCheck:
    """Return whether a bound applies in a setting, its value there, and its ratio to the exact loss."""
    reasons = bound.failures(setting)
    facts = (bound.name, bound.kind, bound.quantity)
    if not reasons and not bound.constant_known:
        reasons = [f"its hypotheses hold, but of the rate {bound.rate} no constant is known to us"]
    if reasons:
        return BoundCheck(*facts, False, None, None, None, "; ".join(reasons), bound.citation, bound.status)
    published = bound.value(setting)
    trivial = 0.5 * setting.radius**2 * setting.distance**2
    capped = bound.kind == "upper" and trivial < published
    value = trivial if capped else published
    ratio = None
    if exact is not None and exact > 0 and value > 0:
        ratio = value / exact if bound.kind == "upper" else exact / value
    reason = f"the trivial bound ½R²D² is smaller than {published:.6g}" if capped else ""
    return BoundCheck(*facts, True, value, published, ratio, reason, bound.citation, bound.status)
