"""The result of advice: ranked schedules with their losses, claims about the best as numbers and
text, and its code.
"""

import math
import textwrap
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from forgetless.io import records
from forgetless.io.document import Document, write
from forgetless.io.provenance import RecordedOrigin, provenance_of
from forgetless.metrics import QUANTITIES
from forgetless.reporting import html
from forgetless.reporting.table import Noted, Table
from forgetless.schedules import resolve
from forgetless.schedules.names import describe, from_plain


@dataclass(frozen=True)
class Claim:
    """One statement about the advised schedule.

    Attributes
    ----------
    about : str
        ``loss``: the objective of the advised schedule. ``lower``: bound on the fraction of that
        loss by which another schedule in the table may be below it. ``least``: the irreducible
        average loss. ``below``: the loss of ``schedule`` above that least loss, over that of the
        advised one. ``fits``: whether one model fits all tasks, 1 or 0. ``noise``: the estimated
        standard deviation of the labels. ``flat``: the scales, in the units of the table, within
        which the loss is at most 1.1 times that of the best. ``horizon``: the loss of ``schedule``,
        planned for another number of steps, over that of the advised one. ``guarantee``: a proved
        upper bound. ``average``: the loss of the average of unregularized steps over that of the
        advised schedule.
    text : str
        The phrase in the reasoning.
    low, high : float
        The interval of the number; of ``flat`` the two ends.
    schedule : schedule or filter, optional
        The schedule that the advised one is compared with.
    name : str
        The name of that schedule.
    """

    about: str
    text: str
    low: float
    high: float
    schedule: Any = field(default=None, repr=False)
    name: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values."""
        return {
            "about": self.about,
            "text": self.text,
            "low": self.low,
            "high": self.high,
            "name": self.name,
        }


def down(value: float, digits: int = 2) -> float:
    """Return a nonnegative number rounded to that many digits towards zero."""
    return _rounded(value, digits, math.floor)


def up(value: float, digits: int = 2) -> float:
    """Return a nonnegative number rounded to that many digits away from zero."""
    return _rounded(value, digits, math.ceil)


def _rounded(value: float, digits: int, towards: Any) -> float:
    if not 0 < value < math.inf:
        return value
    unit = 10.0 ** (math.floor(math.log10(value)) - digits + 1)
    # For a number with so few digits the quotient is an integer up to rounding.
    integer = towards(float(f"{value / unit:.10g}"))
    return float(f"{integer * unit:.{digits}g}")


def value_text(low: float, high: float) -> str:
    """Return a loss as text: to four digits where these are certain, else as a range or an upper
    bound.
    """
    if high - low <= 1e-4 * high:
        return f"{(low + high) / 2:.4g}"
    if low <= 0:
        return f"at most {up(high, 1):.1g}"
    return f"between {down(low, 3):.3g} and {up(high, 3):.3g}"


def below_text(low: float, high: float) -> str | None:
    """Return the text for a loss below another that is ``low`` to ``high`` times as large; None if
    not certain.
    """
    if not low > 1:
        return None
    if high - low <= 0.01 * min(low - 1, low):
        middle = (low + high) / 2
        return f"{_percent(middle):.2g} % below" if middle < 2 else f"{_times(middle)}× below"
    if high > 10 * low:
        return f"at least {_percent_down(low)} below"
    if high < 2:
        return f"between {down(_percent(low)):.2g} % and {up(_percent(high)):.2g} % below"
    return f"between {_times(down(low))} and {_times(up(high))}× below"


def _percent(ratio: float) -> float:
    return 100 * (1 - 1 / ratio)


def _percent_down(low: float) -> str:
    return f"{down(_percent(low)):.2g} %" if low < 2 else f"{_times(down(low))}×"


def _times(ratio: float) -> str:
    """Return a ratio to three digits, without an exponent below a million."""
    return f"{float(f'{ratio:.3g}'):,.0f}" if 100 <= ratio < 1e6 else f"{ratio:.3g}"


def change_text(low: float, high: float) -> str:
    """Return the text for a loss that is ``low`` to ``high`` times another."""
    if max(abs(low - 1), abs(high - 1)) < 0.01:
        return "the same within 1 %"
    if high - low > 0.01 * low:
        return f"between {down(low, 3):.3g} and {up(high, 3):.3g} times as large"
    ratio = (low + high) / 2
    if ratio >= 1.1:
        return f"{ratio:.3g} times as large"
    return f"{100 * abs(ratio - 1):.2g} % {'larger' if ratio > 1 else 'smaller'}"


OBJECTIVES = ("average_loss", "seen_loss", "worst_case", "validation")


@dataclass(frozen=True)
class Option:
    """One shape of schedule at its best scale.

    Attributes
    ----------
    shape : str
    schedule : schedule or filter
        Usable wherever a schedule is.
    scale : float or None
        In units of R²: λ of a constant, the factor of an increasing schedule, the slope of a ramp;
        None for schedules without one.
    loss : float
        The objective.
    average_loss, seen_loss, worst_case, validation : float or None
        Losses after k steps; None where not computed, with the reason in the notes.
    error : float
        Standard error of ``loss`` where it was sampled on a large collection, else a bound of its
        rounding.
    flat : pair of float or None
        Scales between which the objective stays within 10 % of ``loss``.
    average : float or None
        The loss is that of the average of the iterates with weights t^average; None for the last
        iterate.
    """

    shape: str
    schedule: Any
    scale: float | None
    loss: float
    average_loss: float | None = None
    seen_loss: float | None = None
    worst_case: float | None = None
    validation: float | None = None
    error: float = 0.0
    flat: tuple[float, float] | None = None
    average: float | None = None

    @property
    def title(self) -> str:
        """A short description of the schedule, with strengths in units of R²."""
        if self.average is not None:
            return f"{self.schedule!r}, t^{self.average:g}-average".replace("t^2-", "t²-")
        if self.shape == "constant" and self.scale is not None:
            return f"constant, λ = {self.scale:.3g} R²"
        return self.shape

    @property
    def code(self) -> str:
        """A Python expression for the schedule; ``also[name]`` for one of the argument ``also`` of
        ``advise``.
        """
        return repr(self.schedule)

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values; the schedule as code."""
        values = {**asdict(self), "schedule": self.code, "title": self.title}
        values["flat"] = None if self.flat is None else list(self.flat)
        return values


@dataclass(frozen=True)
class ScaleCurve:
    """The objective of one shape over the scales at which it was computed."""

    title: str
    scales: tuple[float, ...]
    losses: tuple[float, ...]


@dataclass(frozen=True)
class Advice:
    """Which schedule to use; prints as a ranked table with the reasoning.

    Attributes
    ----------
    best : schedule or filter
        The first of the ranking, usable wherever a schedule is.
    options : tuple of Option
        One for every shape, best first.
    objective : str
    k, n_tasks : int
    n_compared : int
        Schedules whose loss was computed in the search.
    radius : float
        R.
    least : float
        The average loss at the joint solution: no schedule goes below it. 0 when one model fits all
        tasks.
    noise : float or None
        Estimated standard deviation of the label noise; None where the data do not determine it.
    horizon : dict
        Losses of the same shape planned for half, and for twice, the k steps, over that of
        ``best``. Empty where not computed.
    guarantee : str
        The smallest published bound for ``best``.
    why : str
        The reasoning as text.
    claims : tuple of Claim
        The statements of ``why`` as numbers with intervals: see ``Claim``.
    n_runs : int
        Number of random runs where losses were sampled; 0 where they are exact.
    notes : tuple of str
        Sampled or omitted parts, and warnings about the data.
    curves : tuple of ScaleCurve
        The lines of ``plot``.
    average : Option or None
        The average of unregularized steps with weights t², which needs neither k nor R; its loss is
        that of ``expect(…, fl.Projection(), k, average=2)``. It is no schedule, and not ranked.
        None where its loss is only sampled: for held-out tasks and, under random orders, for seen
        tasks.
    """

    best: Any
    options: tuple[Option, ...] = field(repr=False)
    objective: str
    k: int
    n_tasks: int
    n_compared: int
    radius: float
    least: float
    noise: float | None
    horizon: dict[str, float]
    guarantee: str
    why: str
    claims: tuple[Claim, ...] = field(default=(), repr=False)
    n_runs: int = 0
    notes: tuple[str, ...] = ()
    curves: tuple[ScaleCurve, ...] = field(default=(), repr=False)
    average: Option | None = field(default=None, repr=False)
    origin: Any = field(default=None, repr=False, compare=False)

    @property
    def provenance(self) -> dict[str, Any]:
        """The call that computed it with a digest of its tasks, versions, system and time; stored
        in files.
        """
        return provenance_of(self.origin)

    def save(self, path: str | Path, note: str = "") -> None:
        """Write it to a file with its provenance and a note; ``fl.load`` reads it.

        A schedule of your own is stored as the filter that it gives for these k steps and this
        radius.
        """

        def encode(schedule: Any) -> Any:
            try:
                return describe(schedule)
            except TypeError:
                return describe(resolve(schedule, self.k, self.radius))

        write(
            path,
            Document(
                "advice", records.to_plain(self, encode, ("origin",)), {}, self.provenance, note
            ),
        )

    @property
    def table(self) -> list[dict[str, Any]]:
        """The ranking as plain rows, best first."""
        return [option.to_dict() for option in self.options]

    def model_code(self, **settings: Any) -> str:
        """Return Python code for an estimator, with its path, that learns as advised.

        Parameters
        ----------
        **settings
            Other parameters of the estimator. They must agree with the tasks of ``advise``: sums of
            squares unless rows were divided by √n (``loss="mean"``), and no intercept unless the
            tasks had a column of ones for it (``fit_intercept=True``).
        """
        kind = "ContinualGD" if "budget" in self.options[0].shape else "ContinualRidge"
        parameters = {"n_tasks": self.k, "radius": float(self.radius), **settings}
        arguments = "".join(f", {name}={value!r}" for name, value in parameters.items())
        return f"fl.{kind}(schedule={self.options[0].code}{arguments})"

    def to_frame(self) -> Any:
        """Return the ranking as a pandas data frame, one row for every shape."""
        return Table.of_rows("Ranking", self.table).to_frame()

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values, for JSON."""
        names = (
            "objective",
            "k",
            "n_tasks",
            "n_compared",
            "n_runs",
            "radius",
            "least",
            "noise",
            "horizon",
        )
        return {
            "best": self.options[0].code,
            "loss": self.options[0].loss,
            **{name: getattr(self, name) for name in (*names, "guarantee", "why")},
            "claims": [claim.to_dict() for claim in self.claims],
            "notes": list(self.notes),
            "table": self.table,
            "average": None if self.average is None else self.average.to_dict(),
        }

    def plot(self, ax: Any = None) -> Any:
        """Draw the objective against the scale for every shape, on given axes or new ones; returns
        the axes.
        """
        from forgetless.plots import plot_advice

        return plot_advice(self, ax)

    def __repr__(self) -> str:
        tasks = "1 task" if self.n_tasks == 1 else f"{self.n_tasks} tasks"
        head = f"Which λ? {self.k} steps over {tasks}, R² = {self.radius**2:.4g}; ranked by the"
        lines = [f"{head} {QUANTITIES[self.objective]}", "", self._ranking().text(), ""]
        lines += textwrap.wrap(
            f"Use {self.options[0].code}. {self.why}", 98, break_long_words=False
        )
        for note in self.notes:
            lines += textwrap.wrap(f"Note: {note}", 98, subsequent_indent="  ")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        head = (
            f"Which λ? {self.k} steps, R² = {self.radius**2:.4g}; ranked by the"
            f" {QUANTITIES[self.objective]}"
        )
        why = [f"Use {self.options[0].code}. {self.why}", *(f"Note: {note}" for note in self.notes)]
        return (
            html.paragraph([head])
            + html.table(self._ranking())
            + "".join(html.paragraph([each]) for each in why)
        )

    def _ranking(self) -> Table:
        """Return the printed table: the objective and its ratio to the best, then the other
        losses.
        """
        options, objective = self.options, self.objective
        ranks: list[Any] = list(range(1, len(options) + 1))
        if self.average is not None:
            options, ranks = (*options, self.average), [*ranks, "–"]
        columns: dict[str, list[Any]] = {
            "": ranks,
            "schedule": [option.title for option in options],
            objective: [_printed(option, max(each.loss for each in options)) for option in options],
        }
        if not self.n_runs and options[0].loss > 1e4 * options[0].error:
            columns["× best"] = [_short(option.loss / options[0].loss) for option in options]
        return Table("Ranking", {**columns, **_other_losses(options, objective)})


def _other_losses(options: Sequence[Option], objective: str) -> dict[str, list[Any]]:
    """Return the columns of the losses that were computed besides the objective."""
    others = (name for name in OBJECTIVES if name != objective)
    columns = {
        name: [_without_underflow(getattr(option, name)) for option in options] for name in others
    }
    return {
        name: column for name, column in columns.items() if any(loss is not None for loss in column)
    }


def from_document(document: Document) -> Advice:
    """Return the advice in a document; ValueError if it could not be printed or drawn."""
    advice: Advice = records.from_plain(Advice, document.header, from_plain, ("origin",))
    if (
        advice.k < 1
        or advice.n_tasks < 1
        or not 0 <= advice.radius < math.inf
        or not advice.least >= 0
    ):
        raise ValueError("k, n_tasks, radius and least are not those of tasks")
    if advice.objective not in QUANTITIES or not advice.options or advice.best is None:
        raise ValueError("it advises nothing, or ranks by nothing known")
    if any(option.schedule is None or not option.loss >= 0 for option in advice.options):
        raise ValueError("an option has no schedule or no loss")
    if any(not curve.scales or len(curve.scales) != len(curve.losses) for curve in advice.curves):
        raise ValueError("a curve has not one loss for every scale")
    return replace(advice, origin=RecordedOrigin(document.provenance))


def _printed(option: Option, largest: float) -> Any:
    """Return the printed form of a loss: with its error where that is visible in four digits.

    It is 0 where the loss is below its error, and that is rounding relative to the ``largest`` of
    all losses.
    """
    if option.loss <= option.error and option.loss + option.error < 1e-9 * largest:
        return 0.0
    return Noted(
        _without_underflow(option.loss),
        f" ± {option.error:.1g}" if option.error > 5e-5 * option.loss else "",
    )


def _without_underflow(loss: float | None) -> float | None:
    """Return a loss with zero for values that underflowed."""
    return 0.0 if loss is not None and loss <= 1e-99 else loss


def _short(ratio: float) -> float:
    """Return a ratio with one digit if it is large."""
    return ratio if ratio < 1e4 else float(f"{ratio:.0e}")
