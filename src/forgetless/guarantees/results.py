"""Results of ``compare_bounds``: exact losses, the bounds that apply, and why others do not."""

import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from forgetless.io import Document, write
from forgetless.reporting import html
from forgetless.reporting.table import Noted, Printed, Table
from forgetless.theory.bounds import Bound
from forgetless.theory.hypotheses import REALIZABLE, Setting


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
        min(bound, trivial bound ½R²D²) for an upper bound that applies, the bound for a lower one,
        else None.
    published : float or None
        The bound itself.
    ratio : float or None
        Value over the exact loss (exact over value for lower bounds): at least 1, and 1 where it is
        tight.
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
class BoundComparison:
    """Exact losses and bounds of a schedule on a task collection; prints as a table.

    Attributes
    ----------
    k : int
    radius, distance, residual : float
        R, D = ‖w₀ − w⋆‖ and how far the tasks are from realizable.
    average_loss, seen_loss : float or None
        Exact expectations after k steps; None where they are out of reach, with the reason in
        ``notes``.
    worst_case : float or None
        D² times the worst expected average loss over unit teachers, for labels X_m w⋆: whatever the
        labels here are.
    bounds : tuple of BoundCheck
    notes : tuple of str
    errors : dict from str to float
        Bounds of the relative errors of exact losses; 1 where no digit is known.
    next_loss : float or None
        Exact expected loss on the task after the last one; None where the order has none.
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
    next_loss: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values, with ``bounds`` as a list of dicts."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {
            **values,
            "bounds": [asdict(check) for check in self.bounds],
            "notes": list(self.notes),
        }

    def save(self, path: str | Path) -> None:
        """Write it to a file; ``fl.load`` reads it, and proves nothing again."""
        write(path, "bound-comparison", self.to_dict(), {})

    def to_frame(self) -> Any:
        """Return the bounds as a pandas data frame, one row each."""
        return Table("Bounds", _columns(self.bounds)).to_frame()

    def plot(self, ax: Any = None) -> Any:
        """Draw the exact losses and every bound that applies on one axis; returns the axes."""
        from forgetless.plots.results import plot_bounds

        return plot_bounds(self, ax)

    def sharpest(self, kind: str, quantity: str = "average_loss") -> BoundCheck | None:
        """Return the bound of a kind, "upper" or "lower", that is closest to a loss; None if none
        applies.
        """
        checks = [
            check
            for check in self.bounds
            if check.applies and (check.kind, check.quantity) == (kind, quantity)
        ]
        best = min if kind == "upper" else max
        return best(checks, key=lambda check: check.value or 0.0) if checks else None

    def __repr__(self) -> str:
        applying = self._applying()
        if self._noisy:
            message = (
                f"no bound applies: no model fits all tasks (residual {self.residual:.2g}), and"
                " bounds of other schedules than schedules.minimax(eta=…), for which see"
                " fl.oracle_bound, are proved for tasks that one model fits; the exact losses"
                " above hold all the same"
            )
            return "\n".join([*self._wrapped_facts(), "", *textwrap.wrap(message, 98)])
        table = ["no bound applies"] if applying is None else [applying.text(), *applying.facts]
        lines = [*self._wrapped_facts(), "", *table, "", "does not apply:"]
        for other in self._others():
            lines += textwrap.wrap(other, 98, initial_indent="  ", subsequent_indent="    ")
        return "\n".join(lines)

    @property
    def _noisy(self) -> bool:
        """Whether all bounds fail, all but oracle bounds because no model fits all tasks."""
        oracle = ("oracle", "oracle, next task")
        others = [check for check in self.bounds if check.name not in oracle]
        applies = any(check.applies for check in self.bounds)
        return not applies and all("no model fits all tasks" in check.reason for check in others)

    def _wrapped_facts(self) -> list[str]:
        return [
            line
            for fact in self._facts()
            for line in textwrap.wrap(fact, 98, subsequent_indent="  ")
        ]

    def _facts(self) -> list[str]:
        facts = [
            (
                f"after k = {self.k} steps: R = {self.radius:.6g}, D = {self.distance:.6g},"
                f" residual {self.residual:.2g}"
            ),
            f"exact expected average loss     {self._loss('average_loss')}",
            f"exact expected seen-task loss   {self._loss('seen_loss')}",
            f"worst teacher, labels noiseless {_number(self.worst_case)}",
        ]
        if self.next_loss is not None:
            facts.insert(3, f"exact expected next-task loss   {self._loss('next_loss')}")
        return [*facts, *self.notes]

    def _loss(self, name: str) -> str:
        """Return a loss as text, with its error unless that is far below the printed digits."""
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
        checks = [check for check in self.bounds if check.applies]
        columns: dict[str, list[Any]] = {
            "bound that applies": [check.name for check in checks],
            "kind": [check.kind for check in checks],
            "loss": [check.quantity for check in checks],
            "value": [Noted(check.value, "*" if check.reason else "") for check in checks],
            "ratio": [Noted(check.ratio, "×") for check in checks],
            "status": [check.status for check in checks],
        }
        facts = (
            ("* the trivial bound ½R²D², which is smaller",)
            if any(check.reason for check in checks)
            else ()
        )
        return (
            Table("", columns, facts, formats={"value": ".6g", "ratio": ".3g"}) if checks else None
        )

    def _repr_html_(self) -> str:
        applying = self._applying()
        shown = (
            "<p>no bound applies</p>"
            if applying is None
            else html.table(applying) + html.paragraph(applying.facts)
        )
        return (
            f"{html.paragraph(self._facts())}{shown}<details><summary>Bounds that do not"
            f" apply</summary>{html.bullets(self._others())}</details>"
        )


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.6g}"


def from_document(document: Document) -> BoundComparison:
    """Return the comparison in a document; ValueError if it could not have been computed."""
    header = document.header
    parts = {
        "bounds": tuple(BoundCheck(**check) for check in header["bounds"]),
        "notes": tuple(header["notes"]),
    }
    comparison = BoundComparison(**{**header, **parts})
    repr(comparison)  # raises where a value is not of its type
    return comparison


def _columns(bounds: tuple[BoundCheck, ...]) -> dict[str, list[Any]]:
    return {
        each.name: [getattr(check, each.name) for check in bounds] for each in fields(BoundCheck)
    }


@dataclass(frozen=True, repr=False)
class BoundComparisons(Printed, Mapping[str | int, BoundComparison]):
    """Comparisons for several schedules on the same tasks, by label; prints as a table.

    Attributes
    ----------
    parts : dict from label to BoundComparison
    """

    parts: dict[str | int, BoundComparison]

    def __getitem__(self, label: str | int) -> BoundComparison:
        return self.parts[label]

    def __iter__(self) -> Iterator[str | int]:
        return iter(self.parts)

    def __len__(self) -> int:
        return len(self.parts)

    def table(self) -> Table:
        """Return exact losses and the sharpest bounds of the average loss, one row for every
        schedule.
        """
        each = list(self.parts.values())
        upper, lower = ([part.sharpest(kind) for part in each] for kind in ("upper", "lower"))
        columns: dict[str, list[Any]] = {
            "schedule": list(self.parts),
            "average loss": [part.average_loss for part in each],
            "seen-task loss": [part.seen_loss for part in each],
            "worst teacher": [part.worst_case for part in each],
            "at most": [None if check is None else check.value for check in upper],
            "by": ["–" if check is None else check.name for check in upper],
            "at least": [None if check is None else check.value for check in lower],
        }
        first = each[0]
        title = f"after k = {first.k} steps: R = {first.radius:.6g}, D = {first.distance:.6g}"
        return Table(title, columns, number=".5g")

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values, for every label."""
        return {str(label): part.to_dict() for label, part in self.parts.items()}

    def to_frame(self) -> Any:
        """Return the bounds of all schedules as a pandas data frame, with their labels in the first
        column.
        """
        labels = [label for label, part in self.parts.items() for _ in part.bounds]
        bounds = tuple(check for part in self.parts.values() for check in part.bounds)
        return Table("Bounds", {"schedule": labels, **_columns(bounds)}).to_frame()

    def plot(self, ax: Any = None) -> Any:
        """Draw the exact average loss of every schedule between its sharpest bounds; returns the
        axes.
        """
        from forgetless.plots.results import plot_comparisons

        return plot_comparisons(self, ax)


def check_bound(bound: Bound, setting: Setting, exact: float | None) -> BoundCheck:
    """Return whether a bound applies in a setting, its value there, and its ratio to the exact
    loss.
    """
    reasons = bound.failures(setting)
    facts = (bound.name, bound.kind, bound.quantity)
    if not reasons and not bound.constant_known:
        reasons = [
            f"its hypotheses hold, but of the rate {bound.rate} no value is known for this k"
        ]
    if reasons:
        return BoundCheck(
            *facts, False, None, None, None, "; ".join(reasons), bound.citation, bound.status
        )
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
