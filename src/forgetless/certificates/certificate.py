"""Certificates: the exact loss of a schedule on given tasks, beside every bound that applies and why others do not."""

import textwrap
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from forgetless._base import html
from forgetless._base.arrays import namespace_of
from forgetless._base.tables import Noted, Table
from forgetless.certificates._as_bounds import CERTIFICATES
from forgetless.engines.expectation import expect
from forgetless.engines.problem import Problem
from forgetless.engines.worst_teacher import worst_case
from forgetless.errors import NoExactLawError
from forgetless.filters import Filter
from forgetless.orderings import Draws, Ordering
from forgetless.schedules import Schedule
from forgetless.tasks import TaskCollection
from forgetless.theory.bounds import Bound, catalogue
from forgetless.theory.hypotheses import Setting

BOUNDS: tuple[Bound, ...] = (*catalogue, *CERTIFICATES)
"""What is tried: the catalogue, and the certificates of the schedule at hand."""


@dataclass(frozen=True)
class BoundCheck:
    """One bound on the tasks at hand.

    Attributes
    ----------
    name, kind, quantity, citation, status : str
        Of the bound.
    applies : bool
        Whether all hypotheses hold and the constant is known.
    value : float or None
        min(bound, trivial bound ½R²D²) for an upper bound that applies, the bound for a lower one, else None.
    published : float or None
        The bound itself.
    ratio : float or None
        Value over the exact loss (exact over value for lower bounds): at least 1, and 1 where it is tight.
    reason : str
        Why it does not apply, or that the trivial bound is smaller; empty otherwise.
    """

    name: str
    kind: str
    quantity: str
    applies: bool
    value: float | None
    published: float | None
    ratio: float | None
    reason: str
    citation: str
    status: str


@dataclass(frozen=True)
class Certificate:
    """What is known of a schedule on given tasks; prints as a table.

    Attributes
    ----------
    k : int
    radius, distance, residual : float
        R, D = ‖w₀ − w⋆‖ and how far the tasks are from realizable.
    average_loss, seen_loss : float or None
        Exact expectations after k steps; None where they are out of reach, with the reason in ``notes``.
    worst_case : float or None
        D² times the worst expected average loss over unit teachers, for labels X_m w⋆: whatever the labels here are.
    bounds : tuple of BoundCheck
    notes : tuple of str
    errors : dict from str to float
        Bounds of the relative errors of ``average_loss`` and ``seen_loss``; 1 where no digit is known.
    """

    k: int
    radius: float
    distance: float
    residual: float
    average_loss: float | None
    seen_loss: float | None
    worst_case: float | None
    bounds: tuple[BoundCheck, ...] = field(repr=False)
    notes: tuple[str, ...] = ()
    errors: dict[str, float] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values, with ``bounds`` as a list of dicts."""
        return {**asdict(self), "bounds": [asdict(check) for check in self.bounds], "notes": list(self.notes)}

    def to_frame(self) -> Any:
        """Return the bounds as a pandas data frame, one row each."""
        columns = {each.name: [getattr(check, each.name) for check in self.bounds] for each in fields(BoundCheck)}
        return Table("Bounds", columns).to_frame()

    def __repr__(self) -> str:
        applying = self._applying()
        if self._noisy:
            said = (
                f"no bound applies: no model fits all tasks (residual {self.residual:.2g}), and every bound is "
                "proved for tasks that one model fits; the exact losses above hold all the same"
            )
            return "\n".join([*self._wrapped_facts(), "", *textwrap.wrap(said, 98)])
        table = ["no bound applies"] if applying is None else [applying.text(), *applying.facts]
        lines = [*self._wrapped_facts(), "", *table, "", "does not apply:"]
        for other in self._others():
            lines += textwrap.wrap(other, 98, initial_indent="  ", subsequent_indent="    ")
        return "\n".join(lines)

    @property
    def _noisy(self) -> bool:
        """Whether all bounds fail, each because no model fits all tasks."""
        return all(not check.applies and "no model fits all tasks" in check.reason for check in self.bounds)

    def _wrapped_facts(self) -> list[str]:
        return [line for fact in self._facts() for line in textwrap.wrap(fact, 98, subsequent_indent="  ")]

    def _facts(self) -> list[str]:
        facts = [
            f"after k = {self.k} steps: R = {self.radius:.6g}, D = {self.distance:.6g}, residual {self.residual:.2g}",
            f"exact expected average loss     {self._known('average_loss')}",
            f"exact expected seen-task loss   {self._known('seen_loss')}",
            f"worst teacher, labels noiseless {_number(self.worst_case)}",
        ]
        return [*facts, *self.notes]

    def _known(self, name: str) -> str:
        """Return a loss as it is printed: with its error where that is not far below the digits shown."""
        value, error = getattr(self, name), self.errors.get(name, 0.0)
        if value is None or error <= 1e-6:
            return _number(value)
        if error < 1.0:
            return f"{_number(value)}, to a relative {error:.1g}"
        return f"not known to any digit: what was computed, {_number(value)}, may be all rounding"

    def _others(self) -> list[str]:
        return [f"{check.name}: {check.reason}" for check in self.bounds if not check.applies]

    def _applying(self) -> Table | None:
        """Return the bounds that apply as they are printed; None if there are none."""
        found = [check for check in self.bounds if check.applies]
        columns: dict[str, list[Any]] = {
            "bound that applies": [check.name for check in found],
            "kind": [check.kind for check in found],
            "loss": [check.quantity for check in found],
            "value": [Noted(check.value, "*" if check.reason else "") for check in found],
            "ratio": [Noted(check.ratio, "×") for check in found],
            "status": [check.status for check in found],
        }
        facts = ("* the trivial bound ½R²D², which is smaller",) if any(check.reason for check in found) else ()
        return Table("", columns, facts, formats={"value": ".6g", "ratio": ".3g"}) if found else None

    def _repr_html_(self) -> str:
        applying = self._applying()
        found = "<p>no bound applies</p>" if applying is None else html.table(applying) + html.paragraph(applying.facts)
        return (
            f"{html.paragraph(self._facts())}{found}"
            f"<details><summary>Bounds that do not apply</summary>{html.bullets(self._others())}</details>"
        )


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.6g}"


def certify(
    tasks: TaskCollection,
    schedule: Schedule | Filter,
    k: int,
    ordering: Ordering | None = None,
    start: Any = None,
    *,
    bounds: Iterable[Bound] | None = None,
) -> Certificate:
    """Return the exact expected losses of a schedule, every bound that applies, and why the others do not.

    Parameters
    ----------
    tasks : TaskCollection
    schedule : schedule or filter
    k : int
    ordering : Ordering, default ``WithReplacement()``
    start : array of shape (d,) or (d, c), optional
        w₀; the origin if omitted.
    bounds : iterable of Bound, optional
        The bounds to try; add your own as ``[*fl.bounds.catalogue, mine]``. By default all of the catalogue, and the
        upper certificates of the schedule for both losses (``fl.certified``).

    Returns
    -------
    Certificate

    Examples
    --------
    >>> import forgetless as fl
    >>> c = fl.certify(fl.constructions.unseen_task(100), fl.schedules.increasing(), k=100)
    >>> round(c.average_loss, 6), round(c.distance, 6)
    (0.00413, 1.0)
    >>> [b.name for b in c.bounds if b.applies and b.kind == "lower"]
    ['any algorithm', 'any filter']
    """
    problem = Problem.of(tasks, schedule, k, ordering, "last")
    if problem.grid:
        raise TypeError("certify takes one schedule at a time; call it for each")
    setting = setting_of(problem, start)
    average, seen, worst, notes, errors = _exact(problem, setting.start, setting.distance)
    exact = {"average_loss": average, "seen_loss": seen}
    tried = BOUNDS if bounds is None else bounds
    checks = tuple(check_bound(bound, setting, exact[bound.quantity]) for bound in tried)
    return Certificate(
        problem.k, tasks.radius, setting.distance, tasks.residual, average, seen, worst, checks, tuple(notes), errors
    )


def setting_of(problem: Problem, start: Any) -> Setting:
    """Return what the hypotheses of theorems ask about, for the only schedule of a problem."""
    tasks, origin = problem.tasks, problem.tasks.start(start)
    teacher = tasks.teacher(start)
    distance = float(namespace_of(origin).linalg.vector_norm(origin - teacher))
    return Setting(tasks, problem.filters[0], problem.k, problem.ordering, origin, teacher, distance)


Maybe = float | None


def _exact(problem: Problem, origin: Any, distance: float) -> tuple[Maybe, Maybe, Maybe, list[str], dict[str, float]]:
    tasks, filter_, k, law = problem.tasks, problem.filters[0], problem.k, problem.ordering
    notes: list[str] = []
    errors: dict[str, float] = {}

    def attempt(compute: Callable[[], float]) -> Maybe:
        try:
            return float(compute())
        except (MemoryError, NoExactLawError) as error:
            notes.append(f"not computed: {error}")
            return None

    def loss(name: str) -> float:
        found = expect(tasks, filter_, k, ordering=law, start=origin, metrics=name)
        errors[name] = found.errors[name]
        return float(found.values[name][0])

    average = attempt(lambda: loss("average_loss"))
    worst = attempt(lambda: distance**2 * worst_case(tasks, filter_, k, ordering=law).loss)
    if isinstance(law.law(tasks.n_tasks, k), Draws) and (seconds := _seen_seconds(tasks, k)) > _PATIENCE:
        notes.append(
            f"not computed: the seen-task loss follows {k:,} steps one by one, some {seconds / 60:.0f} minutes here; "
            'ask expect(…, metrics="seen_loss") for it'
        )
        return average, None, worst, list(dict.fromkeys(notes)), errors
    seen = attempt(lambda: loss("seen_loss"))
    return average, seen, worst, list(dict.fromkeys(notes)), errors


_PATIENCE = 30.0
"""Seconds for which a certificate follows the seen-task loss."""


def _seen_seconds(tasks: TaskCollection, k: int) -> float:
    """Return about how long following the seen-task loss takes: some calls a step, and products with M matrices."""
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
