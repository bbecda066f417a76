"""The three filters of the paper."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from forgetless._core import validate
from forgetless._core.arrays import Array
from forgetless.filters.base import Filter

_COEFFICIENT_HINT = "use 0 for no regularization, or fl.schedules.increasing() for a schedule"
_STEP_SIZE_HINT = "use a step size in (0, 1/R²), R being tasks.radius"
_N_STEPS_HINT = "round the budget to a whole number of gradient steps"


@dataclass(frozen=True, eq=False)
class Ridge(Filter):
    """Explicit L2 regularization: φ(ξ) = ξ / (ξ + λ).

    One step minimises ½‖Xw − y‖² + (λ/2)‖w − w_prev‖² over w.

    Parameters
    ----------
    coefficient : float or array of shape (k,)
        λ ≥ 0, one for all steps or one per step; 0 is no regularization.

    Examples
    --------
    >>> import forgetless as fl
    >>> fl.Ridge(3.0).factors(1.0).item()
    0.25

    References
    ----------
    Levinstein et al. (2025), Algorithm 1 (regularized continual linear regression).
    """

    coefficient: float | NDArray[np.float64]

    explicit = True

    def __post_init__(self) -> None:
        checked = validate.numbers_per_step("coefficient", self.coefficient, _COEFFICIENT_HINT)
        object.__setattr__(self, "coefficient", checked)

    def formula(self, eigenvalues: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
            return _inverse_of_one_plus(self.coefficient / eigenvalues, eigenvalues == 0, 0.0)

    def formula_of_singular(self, singular_values: Array) -> Array:
        # λ/s/s: s² overflows from ‖X‖ ≈ 1e154 on, the quotients tend to their limits instead.
        with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
            ratio = self.coefficient / singular_values
            ratio /= singular_values
        return _inverse_of_one_plus(ratio, singular_values == 0, 0.0)

    def residual_formula(self, singular_values: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
            # Not s / λ: a Python float λ = 0 would raise where an array gives infinity.
            ratio = singular_values / (self.coefficient + 0.0 * singular_values)
            ratio *= singular_values
        return _inverse_of_one_plus(ratio, singular_values == 0, 1.0)

    def formula_derivative(self, eigenvalues: Array) -> Array:
        return self.coefficient / (eigenvalues + self.coefficient) ** 2

    def formula_gradients(self, singular_values: Array) -> dict[str, Array]:
        # ∂φ/∂λ = −ξ/(ξ + λ)² = −(φ/s)²
        return {
            "coefficient": -((self.formula_of_singular(singular_values) / singular_values) ** 2)
        }

    def slope(self) -> float | NDArray[np.float64]:
        with np.errstate(divide="ignore"):
            slope = 1.0 / np.asarray(self.coefficient)
        return float(slope) if slope.ndim == 0 else slope

    def strength(self) -> float | NDArray[np.float64]:
        return self.coefficient

    def scaled(self, factor: float) -> "Ridge":
        return self if factor == 1.0 else self._with({"coefficient": self.coefficient * factor})

    def within_theory(self, radius: float) -> bool:
        return True

    @property
    def is_projection(self) -> bool:
        return not np.any(self.coefficient)


def _inverse_of_one_plus(ratio: Array, zero: Array, at_zero: float) -> Array:
    """Return 1/(1 + ratio), and ``at_zero`` where the eigenvalue is zero; overwrites ``ratio``."""
    ratio += 1.0
    inverse = 1.0 / ratio
    return np.where(zero, at_zero, inverse) if np.any(zero) else inverse


@dataclass(frozen=True, eq=False)
class GradientDescent(Filter):
    """A budget of N gradient steps of size γ: φ(ξ) = 1 − (1 − γξ)^N.

    Parameters
    ----------
    n_steps : int or array of shape (k,)
        N ≥ 1, whole numbers: below 1 the filter is not concave and no theorem holds.
    step_size : float or array of shape (k,)
        γ > 0. The theorems need γ < 1/R². Above that the inner iteration overshoots (factors above
        1 for odd N), and above 2/R² it diverges, which the engines reject.

    Examples
    --------
    >>> import forgetless as fl
    >>> fl.GradientDescent(n_steps=2, step_size=0.5).factors(1.0).item()
    0.75

    References
    ----------
    Levinstein et al. (2025), Algorithm 2 (continual linear regression with finite step budgets).
    """

    n_steps: int | NDArray[np.int64]
    step_size: float | NDArray[np.float64]

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "n_steps", validate.integers_per_step("n_steps", self.n_steps, _N_STEPS_HINT)
        )
        checked = validate.numbers_per_step(
            "step_size", self.step_size, _STEP_SIZE_HINT, positive=True
        )
        object.__setattr__(self, "step_size", checked)
        # raises for vectors of different lengths, now rather than at the first step
        _ = self.horizon

    def formula(self, eigenvalues: Array) -> Array:
        return -self._power(self.step_size * eigenvalues, expm1=True)

    def formula_of_singular(self, singular_values: Array) -> Array:
        return -self._power(self._product(singular_values), expm1=True)

    def residual_formula(self, singular_values: Array) -> Array:
        return self._power(self._product(singular_values), expm1=False)

    def slope(self) -> float | NDArray[np.float64]:
        slope = np.asarray(self.n_steps) * np.asarray(self.step_size)
        return float(slope) if slope.ndim == 0 else slope

    def formula_derivative(self, eigenvalues: Array) -> Array:
        return (
            self.n_steps
            * self.step_size
            * (1.0 - self.step_size * eigenvalues) ** (self.n_steps - 1)
        )

    def formula_gradients(self, singular_values: Array) -> dict[str, Array]:
        # Not by N, which is a whole number: ∂φ/∂γ = Nξ(1 − γξ)^{N−1}
        xi = singular_values * singular_values
        return {"step_size": self.n_steps * xi * (1.0 - self.step_size * xi) ** (self.n_steps - 1)}

    def scaled(self, factor: float) -> "GradientDescent":
        return self if factor == 1.0 else self._with({"step_size": self.step_size / factor})

    def within_theory(self, radius: float) -> bool:
        return bool(np.max(self.step_size) * radius**2 < 1)

    def _product(self, s: Array) -> Array:
        # γs² as (√γ·s)²: γ and s² may each overflow or underflow while their product does not.
        return (s * self.step_size**0.5) ** 2

    def _power(self, u: Array, *, expm1: bool) -> Array:
        """Return (1 − u)^N, or with ``expm1`` (1 − u)^N − 1 without cancellation for small u."""
        n = np.asarray(self.n_steps, dtype=np.float64)
        small = u < 1
        exponent = n * np.log1p(-np.where(small, u, 0.5))
        contracting = np.expm1(exponent) if expm1 else np.exp(exponent)
        # From γξ = 1 on the factor 1 − γξ is zero or negative: the inner iteration overshoots.
        overshoot = np.where(small, 0.0, u - 1.0) ** n * (1.0 - 2.0 * (n % 2))
        return np.where(small, contracting, overshoot - 1.0 if expm1 else overshoot)


@dataclass(frozen=True, eq=False)
class Projection(Filter):
    """No regularization: the task is solved exactly, by the solution nearest to the previous
    weights.

    φ(ξ) = 1 for ξ > 0 and φ(0) = 0, the limit of ``Ridge`` for λ → 0 and of ``GradientDescent`` for
    N → ∞.

    Examples
    --------
    >>> import forgetless as fl
    >>> fl.Projection().factors([0.0, 1e-12, 5.0]).tolist()
    [0.0, 1.0, 1.0]
    """

    explicit = True

    def formula(self, eigenvalues: Array) -> Array:
        return np.asarray(eigenvalues > 0, dtype=np.float64)

    def formula_of_singular(self, singular_values: Array) -> Array:
        return self.formula(singular_values)

    def formula_derivative(self, eigenvalues: Array) -> Array:
        return np.zeros_like(eigenvalues)

    def slope(self) -> float:
        return float("inf")

    def scaled(self, factor: float) -> "Projection":
        return self

    def within_theory(self, radius: float) -> bool:
        return True

    @property
    def is_projection(self) -> bool:
        return True
