"""Descent over all k coefficients: L-BFGS-B on a_t = ln(1 + λ_t/λ₀).

The logarithm covers decades, and 1 + makes it reach λ = 0 with a finite slope.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from forgetless._core.arrays import Floats

Objective = Callable[[Floats], tuple[float, Floats]]
"""A function from coordinates x to ln(loss) and its derivative."""


@dataclass(frozen=True)
class Coordinates:
    """The coordinates x of coefficients: a_t, or with ``monotone`` its increments.

    Attributes
    ----------
    unit : float
        λ₀: below it a coefficient hardly changes any filter factor.
    largest : float
        The largest coefficient.
    smallest : float
        Lower end of every a_t, 0 unless the loss is infinite at λ = 0.
    """

    unit: float
    largest: float
    smallest: float = 0.0
    monotone: bool = False

    @property
    def highest(self) -> float:
        """The largest a_t."""
        return float(np.log1p(self.largest / self.unit))

    def logs(self, x: Floats) -> Floats:
        """Return a."""
        return np.minimum(np.cumsum(x), self.highest) if self.monotone else x

    def coefficients(self, x: Floats) -> Floats:
        """Return λ."""
        return np.asarray(self.unit * np.expm1(self.logs(x)))

    def inverse(self, coefficients: Floats) -> Floats:
        """Return the coordinates of coefficients, or of the nearest ones within the bounds."""
        logs = np.clip(np.log1p(coefficients / self.unit), self.smallest, self.highest)
        return np.maximum(np.diff(logs, prepend=0.0), 0.0) if self.monotone else logs

    def pulled_back(self, coefficients: Floats, slopes: Floats) -> Floats:
        """Return the derivative with respect to x from that with respect to λ."""
        by_logs = slopes * (self.unit + coefficients)
        return np.cumsum(by_logs[::-1])[::-1] if self.monotone else by_logs

    def descend(self, objective: Objective, x: Floats, iterations: int) -> tuple[Floats, float]:
        """Return a local minimum near x and its value."""
        from scipy.optimize import minimize

        options = {
            "maxiter": iterations,
            "maxfun": 2 * iterations,
            "maxcor": 30,
            "ftol": 1e-14,
            "gtol": 1e-9,
        }
        bounds = [(self.smallest, self.highest)] * len(x)
        found = minimize(objective, x, method="L-BFGS-B", jac=True, bounds=bounds, options=options)
        return np.asarray(found.x), float(found.fun)

    def stationarity(self, objective: Objective, x: Floats) -> float:
        """Return the largest entry of the projected gradient: 0 at a stationary point."""
        _, slopes = objective(x)
        moved = np.clip(x - slopes, self.smallest, max(self.highest, float(x.max())))
        return float(np.max(np.abs(moved - x)))
