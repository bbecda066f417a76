"""Comparison of the exact loss of a schedule with every bound that applies, and the reasons why others do not."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, overload

import numpy as np

from forgetless._core.arrays import namespace_of
from forgetless.engines.expectation import expect, worst_case
from forgetless.engines.inputs import OrderingLike, ScheduleLike, Schedules, as_schedules
from forgetless.engines.problem import Problem, check_tasks, with_few_threads
from forgetless.engines.upcoming import is_defined
from forgetless.errors import NoExactLawError
from forgetless.filters import PerTask
from forgetless.guarantees import exchangeable
from forgetless.guarantees._steps import failure_at, in_units, steps_of
from forgetless.guarantees.oracle import RightSide, next_probabilities
from forgetless.guarantees.results import BoundCheck, BoundComparison, BoundComparisons
from forgetless.guarantees.upper import half_supremum
from forgetless.orderings import Draws
from forgetless.reporting.progress import Progress, part_of_work, progress_callback
from forgetless.tasks import TaskCollection
from forgetless.theory.bounds import Bound, catalogue, with_contradiction
from forgetless.theory.hypotheses import EXCHANGEABLE, INDEPENDENT, MINIMAX, REALIZABLE, UNIFORM, WITHOUT, Setting

_MAX_STEPS = 10_000
"""Larger k take more than some seconds, and ``certify`` leaves the certificate out."""


@dataclass(frozen=True)
class ScheduleBound(Bound):
    """A certificate, computed from the filters of a schedule instead of a formula in k."""

    max_steps: int = _MAX_STEPS

    @property
    def constant_known(self) -> bool:
        return True

    def evaluate(self, k: int, radius: float, distance: float, **extras: float) -> float:
        raise TypeError(f"the bound {self.name!r} depends on the schedule; use fl.upper_bound(schedule, k)")

    def failures(self, setting: Setting) -> list[str]:
        reasons = super().failures(setting)
        if setting.k > self.max_steps:
            reasons.append(
                f"not computed here for more than {self.max_steps:,} steps; ask fl.upper_bound(schedule, k) for it"
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
        R = setting.radius
        if R == 0:
            return 0.0
        unit = half_supremum(in_units(setting.filter, R), setting.k, self.quantity).per_unit
        if self.quantity == "average_loss":
            unit *= _importance(setting)
        return with_contradiction(unit, setting)


def _importance(setting: Setting) -> float:
    """Return max 1/(M p_m): the average loss is a plain mean, and tasks are drawn with probabilities p."""
    assert isinstance(setting.law, Draws)
    with np.errstate(divide="ignore"):
        return float(np.max(1 / (len(setting.law.probabilities) * setting.law.probabilities)))


@dataclass(frozen=True)
class ExchangeableBound(ScheduleBound):
    """A certificate for tasks in exchangeable order."""

    def failures(self, setting: Setting) -> list[str]:
        reasons = Bound.failures(self, setting)
        if setting.k > self.max_steps:
            reasons.append(f"not computed here for more than {self.max_steps:,} steps; ask fl.upper_bound for it")
        if not reasons and setting.radius > 0:
            try:
                exchangeable.factors_at_radius(in_units(setting.filter, setting.radius), setting.k)
            except ValueError as error:
                return [str(error)]
        return reasons

    def value(self, setting: Setting) -> float:
        R = setting.radius
        if R == 0:
            return 0.0
        kappa = exchangeable.factors_at_radius(in_units(setting.filter, R), setting.k)
        if self.quantity == "average_loss":
            unit = exchangeable.average_without_replacement(kappa, setting.tasks.n_tasks)
        else:
            unit = (exchangeable.next_task if self.quantity == "next_loss" else exchangeable.seen_tasks)(kappa)
        return with_contradiction(unit, setting)


@dataclass(frozen=True)
class OracleEntry(ScheduleBound):
    """The bound of Theorem N, computed from the tasks and their labels."""

    def failures(self, setting: Setting) -> list[str]:
        reasons = Bound.failures(self, setting)
        if isinstance(setting.filter, PerTask):
            reasons.append("it is for strengths in units of R², not of each task's own norm")
        if not reasons and setting.eta == 1:
            reasons.append("η is 1, for tasks that one model fits; use schedules.minimax(eta=…) with η below 1")
        return reasons

    def value(self, setting: Setting) -> float:
        assert setting.eta is not None
        p = next_probabilities(setting.tasks, setting.ordering, setting.k)
        return RightSide(setting.tasks, setting.filter, setting.k, setting.eta, p, setting.start).value


_OPTIMAL = "docs/optimal-schedule.md, Theorem"
_SHARED: dict[str, Any] = {"kind": "upper", "rate": "computed", "min_k": 1, "status": "derived"}
_ANY: dict[str, Any] = {
    "ordering": "with replacement, any probabilities",
    "scheme": "explicit, budget or any concave filter",
    "regularization": "any, λ > 0 where it varies",
    "hypotheses": (REALIZABLE, INDEPENDENT),
}
_RISING: dict[str, Any] = {"scheme": "explicit or budget", "regularization": "any that never falls"}
_WITHOUT: dict[str, Any] = {"ordering": "without replacement", "hypotheses": (REALIZABLE, WITHOUT), "max_steps": 1000}
_NOISY: dict[str, Any] = {
    "scheme": "explicit or budget",
    "regularization": "φ_t(R²) = η(k+1−t)/(k+1), η < 1 for noisy labels",
}
_UPPER = "docs/upper-bounds.md, {}; computed by fl.upper_bound"

CERTIFICATES = (
    ScheduleBound("computed", quantity="average_loss", citation=_UPPER.format("Theorems 1 to 4"), **_SHARED, **_ANY),
    ScheduleBound("computed, seen tasks", quantity="seen_loss", citation=_UPPER.format("Theorem 5"), **_SHARED, **_ANY),
    ExchangeableBound("computed, next task", quantity="next_loss", citation=f"{_OPTIMAL} R; by fl.upper_bound",
                      ordering="exchangeable: with or without replacement", hypotheses=(REALIZABLE, EXCHANGEABLE),
                      **_SHARED, **_RISING),
    ExchangeableBound("computed, without replacement", quantity="average_loss", citation=f"{_OPTIMAL} S; by "
                      "fl.upper_bound", **_SHARED, **_RISING, **_WITHOUT),
    ExchangeableBound("computed, seen tasks, without replacement", quantity="seen_loss", citation=f"{_OPTIMAL} S; by "
                      "fl.upper_bound", **_SHARED, **_RISING, **_WITHOUT),
    OracleEntry("oracle, next task", quantity="next_loss", citation=f"{_OPTIMAL} N; by fl.oracle_bound",
                ordering="exchangeable: with or without replacement", hypotheses=(EXCHANGEABLE, MINIMAX), **_SHARED,
                **_NOISY),
    OracleEntry("oracle", quantity="average_loss", citation=f"{_OPTIMAL} N; by fl.oracle_bound",
                ordering="uniform with replacement", hypotheses=(UNIFORM, MINIMAX), **_SHARED, **_NOISY),
)  # fmt: skip
"""The bounds that ``compare_bounds`` checks in addition to the catalogue."""


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
    exact, worst, notes, errors = _exact(
        problem, setting, lambda done: report_progress(done, n_stages, f"exact {_EXACT[done]}")
    )
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
        exact["average_loss"],
        exact["seen_loss"],
        worst,
        tuple(checks),
        tuple(notes),
        errors,
        exact["next_loss"],
        origin=problem.origin("certify", start=start),
    )


def setting_of(problem: Problem, start: Any) -> Setting:
    """Return the setting of the hypotheses, for the only schedule of a problem."""
    tasks, origin = problem.tasks, problem.tasks.start(start)
    teacher = tasks.teacher(start)
    distance = float(namespace_of(origin).linalg.vector_norm(origin - teacher))
    return Setting(tasks, problem.filters[0], problem.k, problem.ordering, origin, teacher, distance)


Maybe = float | None

_EXACT = ("average loss", "worst case", "next-task loss", "seen-task loss")
"""The losses that are computed, in this order."""


def _exact(
    problem: Problem, setting: Setting, report_stage: Callable[[int], None]
) -> tuple[dict[str, Maybe], Maybe, list[str], dict[str, float]]:
    """Return exact losses by name, the worst case, notes on what was not computed, and errors of the losses."""
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

    losses: dict[str, Maybe] = {"next_loss": None, "seen_loss": None}
    report_stage(0)
    losses["average_loss"] = attempt(lambda: loss("average_loss"))
    report_stage(1)
    worst = attempt(lambda: setting.distance**2 * worst_case(tasks, filter_, k, ordering=ordering).loss)
    report_stage(2)
    if losses["average_loss"] is not None and is_defined(ordering, tasks.n_tasks, k):
        losses["next_loss"] = attempt(lambda: loss("next_loss"))
    if isinstance(ordering.law(tasks.n_tasks, k), Draws) and (seconds := _seen_seconds(tasks, k)) > _PATIENCE:
        notes.append(
            f"not computed: the seen-task loss follows {k:,} steps one by one, some {seconds / 60:.0f} minutes here; "
            'ask expect(…, metrics="seen_loss") for it'
        )
    else:
        report_stage(3)
        losses["seen_loss"] = attempt(lambda: loss("seen_loss"))
    return losses, worst, list(dict.fromkeys(notes)), errors


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
    # Where labels are noisy ½R²D² is no bound.
    capped = bound.kind == "upper" and trivial < published and REALIZABLE in bound.hypotheses
    value = trivial if capped else published
    ratio = None
    if exact is not None and exact > 0 and value > 0:
        ratio = value / exact if bound.kind == "upper" else exact / value
    reason = f"the trivial bound ½R²D² is smaller than {published:.6g}" if capped else ""
    return BoundCheck(*facts, True, value, published, ratio, reason, bound.citation, bound.status)
