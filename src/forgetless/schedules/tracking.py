"""The schedule that needs no number of tasks: it balances label noise against the distance that is
left and drift.
"""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from forgetless._core import validate
from forgetless.filters import Filter, Ridge
from forgetless.schedules.base import Preset


class MeanFactor(Protocol):
    """Tasks or an ensemble, by the mean filter factor of a ridge step."""

    @property
    def span_dimension(self) -> int:
        """Number of dimensions d in which tasks have rows."""

    def mean_factor(self, coefficient: float) -> float:
        """Return a(λ) = E tr[XᵀX(XᵀX + λ)⁻¹]/d of a task."""


@dataclass(frozen=True)
class Steady(Preset):
    """1/λ_{t+1} = (1 − a(λ_t))/λ_t + q²/(dσ²), from λ_1 = dσ²/D²: the best strength for noise,
    drift and distance.

    a(λ) = E tr[XᵀX(XᵀX + λ)⁻¹]/d is the mean filter factor on the tasks at hand, in whose d
    dimensions the schedule is computed. For fresh tasks with rotation-invariant rows it is optimal
    among all spectral filters and for every number of steps (a scalar Kalman filter; derived here,
    not published: docs/ensembles.md). Without drift λ_t increases, for standard Gaussian rows by
    about nλ/(λ + n + d) a task, which tends to n. With drift it tends to the λ with a(λ)/λ =
    q²/(dσ²), about (σ/q)√(nd) for these rows, from below or from above.

    Parameters
    ----------
    noise : float
        σ, the standard deviation of the labels' noise; 0 gives λ = 0.
    drift : float, default 0
        q, the root mean square distance that the solution moves from task to task.
    distance : float, default 1
        D, the root mean square distance of the start from the solution of the first task.

    Examples
    --------
    >>> import forgetless as fl
    >>> tasks = fl.ensembles.Gaussian(n_features=60, n_rows=12, noise=0.2**0.5)
    >>> filters = fl.schedules.resolve(fl.schedules.steady(0.2**0.5), k=4, radius=tasks.radius,
    ...     spectrum=tasks)
    >>> filters.coefficient.round(2).tolist()
    [12.0, 14.3, 16.94, 19.92]
    """

    noise: float
    drift: float = 0.0
    distance: float = 1.0

    def __post_init__(self) -> None:
        hints = {
            "noise": "0 is for labels without noise",
            "drift": "0 is for a solution that stays",
        }
        for name, hint in hints.items():
            object.__setattr__(self, name, validate.number(name, getattr(self, name), hint))
        distance = validate.number(
            "distance", self.distance, "it is that of the start from the solution", positive=True
        )
        object.__setattr__(self, "distance", distance)

    def build(self, k: int, square: float) -> Filter:
        raise ValueError(
            "schedules.steady needs the singular values of tasks, which are not at hand here; use"
            " it with expect, simulate or ContinualRidge, or take λ_1..λ_k from"
            " schedules.resolve(schedule, k, radius, spectrum=tasks)"
        )

    def for_spectrum(self, k: int, spectrum: MeanFactor) -> Ridge:
        """Return the filter of k steps on tasks or an ensemble."""
        coefficients = np.zeros(k)
        if self.noise > 0:
            unit, inverse = self._start(spectrum)
            for t in range(k):
                coefficients[t] = 1.0 / inverse
                inverse = (
                    1.0 - spectrum.mean_factor(coefficients[t])
                ) * inverse + self.drift**2 / unit
        return Ridge(coefficients)

    def _start(self, spectrum: MeanFactor) -> tuple[float, float]:
        """Return dσ² and 1/λ_1; ValueError where they are no floats."""
        with np.errstate(all="ignore"):
            unit = float(max(1, spectrum.span_dimension) * np.square(self.noise))
            inverse = float(np.square(np.float64(self.distance)) / unit)
            drift = float(np.square(np.float64(self.drift)) / unit)
        if not (
            0 < unit < math.inf
            and 0 < inverse < math.inf
            and drift < math.inf
            and (drift > 0 or not self.drift)
        ):
            raise ValueError(
                "noise, drift and distance must have ratios of squares that are floats, got"
                f" {self!r}"
            )
        return unit, inverse

    def limit(self, spectrum: MeanFactor) -> float:
        """Return the λ that the coefficients tend to: infinite without drift, 0 without noise."""
        if self.noise == 0 or self.drift == 0:
            return math.inf if self.noise > 0 else 0.0
        from scipy.optimize import brentq

        target = math.log(self.drift**2 / self._start(spectrum)[0])

        def excess(logarithm: float) -> float:
            factor = max(spectrum.mean_factor(math.exp(logarithm)), 1e-300)
            return math.log(factor) - logarithm - target

        low, high = -1.0, 1.0
        while excess(low) < 0 and low > -600:
            low *= 2.0
        while excess(high) > 0 and high < 600:
            high *= 2.0
        return math.exp(brentq(excess, low, high, xtol=1e-13)) if excess(low) >= 0 else 0.0


steady = Steady
