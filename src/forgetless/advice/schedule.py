"""The result of an optimisation over all coefficients: a schedule with its loss."""

from dataclasses import dataclass
from typing import Any

from forgetless.filters import Filter, Ridge
from forgetless.schedules import Preset
from forgetless.schedules.presets import Coefficients


@dataclass(frozen=True, repr=False)
class OptimalSchedule(Preset):
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
        infinite without drift.
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

    def build(self, k: int, square: float) -> Ridge:
        return Coefficients(self.coefficients).build(k, square)

    def plot(self, ax: Any = None) -> Any:
        """Draw the coefficients over the steps beside the best constant; returns the axes."""
        from forgetless.plots.results import plot_schedule

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
