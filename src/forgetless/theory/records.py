"""Bounds as data: a result about the loss after k tasks, and what a comparison with it returns.

Values are over R²D²: R is the largest spectral norm of a task, D the distance from the start to the
nearest solution of all tasks, and the loss is ½‖Xw − y‖². κ = φ(R²) is the part of an error that a
step removes along the largest singular vector: R²/(R² + λ), 1 − (1 − γR²)^N, or 1 without
regularization.

An *upper* bound holds for the expected loss on the tasks at hand, if its hypotheses do. A *lower*
bound says that some collection has at least this loss: no guarantee for all collections is below
it.

PAPER is Levinstein et al. (2025), arXiv 2506.06501. Its statements are named by title, section and
label, since its source does not determine the printed numbers (docs/paper.md).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from forgetless import _validate as validate
from forgetless._table import Noted, Printed, Table, frame
from forgetless._text import closest
from forgetless.metrics import quantity
from forgetless.theory.hypotheses import Failure, Hypothesis, Setting

PAPER = "Levinstein et al. (2025)"
QUANTITIES = ("average_loss", "seen_loss", "next_loss")
KINDS = ("upper", "lower")


@dataclass(frozen=True)
class Bound:
    """One result.

    Attributes
    ----------
    name : str
    rate : str
        The value in words, over R²D².
    hypotheses : tuple of Hypothesis
    place : str
        Where it is: title, part, section, label.
    citation : str
        The publication, by default the paper, or the page of these docs.
    status : str
        "paper"; "paper, tight" (the constant that its proof ends with); "derived" (proved in this
        project, not published); "literature"; or "elementary".
    value : function of a Setting, or None
        The same as a function; None where only a rate is known.
    kind : "upper" or "lower"
    quantity : "average_loss", "seen_loss" or "next_loss"
    absolute : bool
        Whether the value is a loss, and not over R²D².
    """

    name: str
    rate: str
    hypotheses: tuple[Hypothesis, ...]
    place: str
    citation: str = PAPER
    status: str = "paper"
    value: Callable[[Setting], float] | None = field(default=None, repr=False)
    kind: str = "upper"
    quantity: str = "average_loss"
    absolute: bool = False

    def __post_init__(self) -> None:
        # A misspelled kind would never be found by ``sharpest``.
        quantity("kind", self.kind, KINDS)
        object.__setattr__(self, "quantity", quantity("quantity", self.quantity, QUANTITIES))

    def failures(self, setting: Setting) -> tuple[Failure, ...]:
        """Return the hypotheses that fail in a setting; none where the bound applies."""
        found = [each.failure(setting) for each in self.hypotheses]
        return tuple(filter(None, found))

    @property
    def least_k(self) -> int:
        """The smallest k that its hypotheses allow."""
        return max((each.least for each in self.hypotheses), default=1)

    def at(self, k: int, **numbers: float) -> float:
        """Return the value over R²D² after k steps, without a setting.

        Parameters
        ----------
        k : int
        **numbers : float
            ``kappa`` is κ, ``scale`` c and ``eta`` η, where the rate has them.

        Examples
        --------
        >>> import forgetless as fl
        >>> round(fl.theory.catalogue["increasing"].at(99), 6)
        0.2
        >>> round(fl.theory.catalogue["minimax"].at(99, eta=0.5), 6)
        0.01
        """
        k = validate.integer("k", k, self.least_k, f"{self.name} holds for k ≥ {self.least_k}")
        if self.value is None:
            raise ValueError(f"{self.name}: only the rate {self.rate} is known, not a value")
        if not 0 < numbers.get("kappa", 1) < 2:
            raise ValueError(f"kappa must lie in (0, 2), got {numbers['kappa']}; it is φ(R²)")
        # Formulas ask for k, κ, c or η alone: these numbers are all of a setting that they need.
        setting: Any = SimpleNamespace(k=k, **numbers)
        try:
            return float(self.value(setting))
        except AttributeError as error:
            raise TypeError(
                f"{self.name} needs more than k and {[*numbers]}: its rate is {self.rate}; give"
                " kappa, scale or eta, or ask fl.compare_bounds for it"
            ) from error


class Catalogue(Printed, tuple[Bound, ...]):
    """All bounds in order; ``catalogue["increasing"]`` is one by name. Prints as a table."""

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, str):
            return super().__getitem__(key)
        names = [bound.name for bound in self]
        if key not in names:
            raise KeyError(f"no bound is called {key!r}; {closest(key, names)}there are {names}")
        return self[names.index(key)]

    def table(self) -> Table:
        """Return all bounds; every bound has its citation, its place and its hypotheses besides."""
        keys = ("name", "kind", "quantity", "rate", "status")
        return Table("Bounds", {key: [getattr(bound, key) for bound in self] for key in keys})


# ---- what a comparison returns ----


_FITTED = 1e-9
"""Residual up to which one model fits all tasks."""

_NOISY = (
    "no upper bound applies: no model fits all tasks, and bounds of other schedules than"
    " schedules.minimax(eta=…), for which see fl.oracle_bound, are proved for tasks that one model"
    " fits; the exact losses above hold all the same"
)


@dataclass(frozen=True)
class BoundCheck:
    """One bound on the tasks at hand.

    Attributes
    ----------
    name, kind, quantity, citation, status : str
        Of the bound.
    value : float or None
        min(bound, trivial bound ½R²D²) for an upper bound that applies, the bound for a lower one,
        else None.
    published : float or None
        The bound itself.
    ratio : float or None
        Of an upper bound, over the exact loss: at least 1, and 1 where it is attained. Of a lower
        one, the smallest upper bound over it: how far theory is from closed.
    failures : tuple of Failure
        The hypotheses that do not hold, each with its reason; empty where it applies.
    """

    name: str
    kind: str
    quantity: str
    value: float | None
    published: float | None
    ratio: float | None
    failures: tuple[Failure, ...]
    citation: str
    status: str

    @property
    def applies(self) -> bool:
        """Whether all hypotheses hold and the value is known."""
        return not self.failures

    @property
    def capped(self) -> bool:
        """Whether the trivial bound ½R²D² is smaller."""
        return self.value is not None and self.published is not None and self.value < self.published

    @property
    def reason(self) -> str:
        """Why it does not apply, or that the trivial bound is smaller; empty otherwise."""
        if self.capped:
            return f"the trivial bound ½R²D² is smaller than {self.published:.6g}"
        return "; ".join(each.reason for each in self.failures)


@dataclass(frozen=True, repr=False)
class BoundComparison(Printed):
    """Exact losses and bounds of a schedule on a task collection; prints as a table.

    Attributes
    ----------
    k : int
    radius, distance, residual : float
        R, D = ‖w₀ − w⋆‖ and how far the tasks are from realizable.
    average_loss, seen_loss : float or None
        Exact expectations after k steps; None where they are out of reach, with the reason in
        ``notes``.
    next_loss : float or None
        Exact expected loss on the task after the last one; None where the order has none.
    worst_case : float or None
        D² times the worst expected average loss over unit teachers, for labels X_m w⋆: whatever the
        labels here are.
    bounds : tuple of BoundCheck
    notes : tuple of str
    errors : dict from str to float
        Bounds of the relative errors of exact losses; 1 where no digit is known.
    """

    k: int
    radius: float
    distance: float
    residual: float
    average_loss: float | None
    seen_loss: float | None
    next_loss: float | None
    worst_case: float | None
    bounds: tuple[BoundCheck, ...] = field(repr=False)
    notes: tuple[str, ...] = ()
    errors: dict[str, float] = field(default_factory=dict)

    def to_frame(self) -> Any:
        """Return the bounds as a pandas data frame, one row each."""
        columns = {name: [getattr(check, name) for check in self.bounds] for name in _SHOWN}
        return frame(columns)

    def plot(self, ax: Any = None) -> Any:
        """Draw the exact losses and every bound that applies on one axis; returns the axes."""
        from forgetless.plots import plot_bounds

        return plot_bounds(self, ax)

    def sharpest(self, kind: str, quantity: str = "average_loss") -> BoundCheck | None:
        """Return the smallest "upper" or the largest "lower" bound of a loss; None if none
        applies.
        """
        wanted = (True, kind, quantity)
        found = [each for each in self.bounds if (each.applies, each.kind, each.quantity) == wanted]
        # The value of a bound that applies is a number.
        found.sort(key=lambda check: check.value or 0.0, reverse=kind == "lower")
        return found[0] if found else None

    def table(self) -> Table:
        """Return the bounds that apply; exact losses are its title, the other bounds its facts."""
        checks = [check for check in self.bounds if check.applies]
        columns: dict[str, list[Any]] = {
            "bound that applies": [check.name for check in checks],
            "kind": [check.kind for check in checks],
            "loss": [check.quantity for check in checks],
            "value": [Noted(check.value, "*" if check.capped else "") for check in checks],
            "ratio": [Noted(check.ratio, "×") for check in checks],
            "status": [check.status for check in checks],
        }
        facts = []
        if any(check.capped for check in checks):
            facts.append("* the trivial bound ½R²D², which is smaller")
        # One sentence, where each of fifty bounds would say that no model fits.
        if self._noisy:
            facts.append(_NOISY)
        else:
            others = [check for check in self.bounds if not check.applies]
            facts += ["does not apply:", *(f"  {each.name}: {each.reason}" for each in others)]
        formats = {"value": ".6g", "ratio": ".3g"}
        return Table("\n".join([*self._losses(), ""]), columns, tuple(facts), formats=formats)

    @property
    def _noisy(self) -> bool:
        """Whether no upper bound applies, because no model fits all tasks."""
        applies = any(check.applies for check in self.bounds if check.kind == "upper")
        return not applies and self.residual > _FITTED

    def _losses(self) -> list[str]:
        """Return what was computed, one sentence a line."""
        lines = [
            f"after k = {self.k} steps: R = {self.radius:.6g}, D = {self.distance:.6g},"
            f" residual {self.residual:.2g}",
            f"exact expected average loss     {self._loss('average_loss')}",
            f"exact expected seen-task loss   {self._loss('seen_loss')}",
        ]
        if self.next_loss is not None:
            lines.append(f"exact expected next-task loss   {self._loss('next_loss')}")
        return [*lines, f"worst teacher, labels noiseless {_number(self.worst_case)}", *self.notes]

    def _loss(self, name: str) -> str:
        """Return a loss as text, with its error unless that is far below the printed digits."""
        value = getattr(self, name)
        error = self.errors.get(name, 0.0)
        if value is None or error <= 1e-6:
            return _number(value)
        if error < 1.0:
            return f"{_number(value)}, to a relative {error:.1g}"
        return f"not known to any digit: what was computed, {_number(value)}, may be all rounding"


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.6g}"


_SHOWN = (
    "name",
    "kind",
    "quantity",
    "value",
    "published",
    "ratio",
    "citation",
    "status",
    "applies",
    "reason",
)
"""The columns of a data frame."""


class BoundComparisons(Printed, dict[str | int, BoundComparison]):
    """Comparisons for several schedules on the same tasks, by label; prints as a table."""

    def table(self) -> Table:
        """Return exact losses and the smallest bound of the average loss, one row for every
        schedule.
        """
        parts = list(self.values())
        upper = [part.sharpest("upper") for part in parts]
        columns: dict[str, list[Any]] = {
            "schedule": list(self),
            "average loss": [part.average_loss for part in parts],
            "seen-task loss": [part.seen_loss for part in parts],
            "worst teacher": [part.worst_case for part in parts],
            "at most": [check and check.value for check in upper],
            "by": [check and check.name for check in upper],
        }
        first = parts[0]
        # k, R and D are those of the tasks, the same for all schedules.
        title = f"after k = {first.k} steps: R = {first.radius:.6g}, D = {first.distance:.6g}"
        return Table(title, columns, number=".5g")
