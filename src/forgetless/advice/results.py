"""Results of advice: schedules ranked by their losses, and a schedule that was optimised."""

import math
import textwrap
from dataclasses import dataclass, field
from typing import Any

from forgetless._table import Table, titled
from forgetless.filters import Filter, Ridge
from forgetless.metrics import QUANTITIES
from forgetless.schedules import from_coefficients

_COMPARED = {
    "no regularization": "without regularization",
    "constant": "with the best constant λ",
    "increasing, theorem": "with the theorem's schedule",
}
"""Shapes that the sentence compares with the best, in its words."""

_ROUNDED = 1e-13
"""Part of the loss of the worst option below which a loss is rounding, and has no ratios."""


@dataclass(frozen=True)
class Option:
    """One shape of schedule at its best scale.

    Attributes
    ----------
    shape : str
    code : str
        A Python expression for the schedule; ``also[name]`` for one of your own.
    schedule : schedule or filter
        Usable wherever a schedule is.
    scale : float or None
        The number that was searched: λ of a constant in units of R², the factor of an increasing
        schedule, the slope of a ramp in R² a step; None where there is none.
    strengths : pair of float
        λ of the first and of the last step, in units of R²; for gradient steps that of the ridge
        step with the same effect at small eigenvalues.
    loss : float
        The objective.
    scales, losses : tuples of float
        The line of this shape in ``Advice.plot``.
    """

    shape: str
    code: str
    schedule: Any = field(repr=False)
    scale: float | None
    strengths: tuple[float, float]
    loss: float
    scales: tuple[float, ...] = field(default=(), repr=False)
    losses: tuple[float, ...] = field(default=(), repr=False)


@dataclass(frozen=True)
class Advice:
    """Schedules in the order of their losses; prints as a table and a sentence.

    Attributes
    ----------
    options : tuple of Option
        One for every shape, best first.
    objective : str
    k : int
    radius : float
        R.
    averaged : float or None
        The loss of the average of unregularized iterates with weights t², which needs neither k
        nor R: ``fl.expect(…, fl.Projection(), k, average=2)``. None where it is not exact.
    """

    options: tuple[Option, ...]
    objective: str
    k: int
    radius: float
    averaged: float | None = None

    @property
    def best(self) -> Any:
        """The schedule to use."""
        return self.options[0].schedule

    @property
    def table(self) -> list[dict[str, Any]]:
        """The ranking as plain rows, best first."""
        return [
            {
                "shape": option.shape,
                "schedule": option.code,
                "λ/R²": _range(option.strengths),
                "loss": option.loss,
                "× best": self._ratio(option.loss),
            }
            for option in self.options
        ]

    @property
    def why(self) -> str:
        """What to use, its loss, and the losses of well-known schedules over it."""
        first = self.options[0]
        text = f"Use {first.code}: {QUANTITIES[self.objective]} {first.loss:.4g}"
        text += f" after {self.k} {'step' if self.k == 1 else 'steps'}"
        losses = {option.shape: option.loss for option in self.options[1:]}
        ratios = [
            f"{self._ratio(losses[shape]):.3g} times as much {words}"
            for shape, words in _COMPARED.items()
            if shape in losses and self._ratio(losses[shape]) is not None
        ]
        text += f"; {', '.join(ratios)}." if ratios else "."
        ratio = None if self.averaged is None else self._ratio(self.averaged)
        if ratio is None:
            return text
        average = "The t²-average of unregularized steps, which needs no k, has"
        return f"{text} {average} {ratio:.3g} times as much."

    def to_frame(self) -> Any:
        """Return the ranking as a pandas data frame, one row for every shape."""
        return self._printed().to_frame()

    def plot(self, ax: Any = None) -> Any:
        """Draw the objective against the scale for every shape; returns the axes."""
        from forgetless.plots import plot_advice

        return plot_advice(self, ax)

    def _ratio(self, loss: float) -> float | None:
        least = self.options[0].loss
        if least <= _ROUNDED * self.options[-1].loss or not math.isfinite(loss):
            return None
        return loss / least

    def _printed(self) -> Table:
        return Table.of_rows(f"Which λ? {self.k} steps", self.table, (self.why,))

    def __repr__(self) -> str:
        return f"{self._printed().text()}\n\n{textwrap.fill(self.why, 98)}"

    def _repr_html_(self) -> str:
        return titled(self._printed())


def _range(strengths: tuple[float, float]) -> str:
    first, last = (f"{each:.3g}" for each in strengths)
    return first if first == last else f"{first} … {last}"


@dataclass(frozen=True, repr=False)
class OptimalSchedule:
    """Optimised coefficients with their loss; a schedule for exactly as many steps.

    Attributes
    ----------
    coefficients : tuple of float
        λ_1..λ_k, for the tasks of the optimisation.
    objective : str
    loss : float
        The exact objective.
    best_constant : filter
        The best fixed coefficient, or ``Projection()``.
    best_constant_loss : float
    stationarity : float
        Largest relative change of the loss per unit change of ln(λ_t + λ₀) that no constraint
        forbids: 0 at a stationary point. λ₀ is the smallest squared singular value of a task. In
        the worst case it is that of the largest eigenvalue softened by 1e-4.
    start : str
        The shape from which the descent started.
    monotone : bool
    tracking : float or None
        For ensembles whose optimum has a closed form: the λ that it tends to for many tasks,
        infinite without a walk.
    """

    coefficients: tuple[float, ...]
    objective: str
    loss: float
    best_constant: Filter
    best_constant_loss: float
    stationarity: float
    start: str
    monotone: bool = False
    tracking: float | None = None

    @property
    def gap(self) -> float:
        """The relative reduction of the loss from that of the best constant, in [0, 1]."""
        return 1 - self.loss / self.best_constant_loss if self.best_constant_loss > 0 else 0.0

    @property
    def horizon(self) -> int:
        """k, the number of steps that it is for."""
        return len(self.coefficients)

    def __call__(self, k: int, radius: float) -> Filter:
        """Return the filter of the coefficients."""
        return from_coefficients(self.coefficients)(k, radius)

    def plot(self, ax: Any = None) -> Any:
        """Draw the coefficients over the steps beside the best constant; returns the axes."""
        from forgetless.plots import plot_schedule

        constant = (
            float(self.best_constant.coefficient) if isinstance(self.best_constant, Ridge) else None
        )
        return plot_schedule(self.coefficients, constant, f"{self.objective} {self.loss:.4g}", ax)

    def __repr__(self) -> str:
        ends = f"{self.coefficients[0]:.3g} … {self.coefficients[-1]:.3g}"
        return (
            f"OptimalSchedule(k={len(self.coefficients)}, λ = {ends}, {self.objective}"
            f" {self.loss:.6g}, {100 * self.gap:.2g} % below {self.best_constant!r}, stationarity"
            f" {self.stationarity:.1g})"
        )
