"""The three filters of the paper, and sequences of filters."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from array_api_compat import device
from numpy.typing import NDArray

from forgetless._core import validate
from forgetless._core.arrays import Array, namespace_of
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
    xp = namespace_of(ratio)
    ratio += 1.0
    inverse = 1.0 / ratio
    return xp.where(zero, at_zero, inverse) if bool(xp.any(zero)) else inverse


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
        xp = namespace_of(u)
        n = xp.asarray(self.n_steps, dtype=u.dtype, device=device(u))
        small = u < 1
        exponent = n * xp.log1p(-xp.where(small, u, 0.5))
        contracting = xp.expm1(exponent) if expm1 else xp.exp(exponent)
        # From γξ = 1 on the factor 1 − γξ is zero or negative: the inner iteration overshoots.
        overshoot = xp.where(small, 0.0, u - 1.0) ** n * (1.0 - 2.0 * (n % 2))
        return xp.where(small, contracting, overshoot - 1.0 if expm1 else overshoot)


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
        xp = namespace_of(eigenvalues)
        return xp.astype(eigenvalues > 0, xp.float64)

    def formula_of_singular(self, singular_values: Array) -> Array:
        return self.formula(singular_values)

    def formula_derivative(self, eigenvalues: Array) -> Array:
        return namespace_of(eigenvalues).zeros_like(eigenvalues)

    def slope(self) -> float:
        return float("inf")

    def scaled(self, factor: float) -> "Projection":
        return self

    def within_theory(self, radius: float) -> bool:
        return True

    @property
    def is_projection(self) -> bool:
        return True


@dataclass(frozen=True, eq=False)
class Stages(Filter):
    """A sequence of different filters.

    Parameters
    ----------
    lengths : sequence of int
        Number of steps of each stage.
    parts : sequence of Filter
        The filter of each stage: constant, or with as many per-step values as the stage has steps.

    Examples
    --------
    >>> import forgetless as fl
    >>> fl.Stages((1, 2), (fl.Projection(), fl.Ridge(1.0))).factors(1.0).tolist()
    [1.0, 0.5, 0.5]
    """

    lengths: Sequence[int]
    parts: Sequence[Filter]

    def __post_init__(self) -> None:
        lengths, parts = tuple(self.lengths), tuple(self.parts)
        if len(lengths) != len(parts) or not parts:
            raise ValueError(
                f"lengths and parts must pair up, got {len(lengths)} lengths for {len(parts)} parts"
            )
        for length, part in zip(lengths, parts, strict=True):
            validate.integer("lengths", length, 0, "give the number of steps of each stage")
            if not isinstance(part, Filter):
                raise TypeError(
                    f"parts must be filters, got {part!r}; wrap a coefficient as"
                    " fl.Ridge(coefficient)"
                )
            if hasattr(part, "for_norm"):
                raise ValueError(
                    "parts must not use each task's own norm one by one; use"
                    " fl.filters.PerTask(fl.Stages(...))"
                )
            if part.horizon not in (None, length):
                raise ValueError(
                    "parts must be constant or have one value per step of their stage: "
                    f"{part!r} has {part.horizon} values for a stage of {length} steps"
                )
        object.__setattr__(self, "lengths", lengths)
        object.__setattr__(self, "parts", parts)

    @property
    def horizon(self) -> int:
        return sum(self.lengths)

    def at(self, steps: int | slice) -> Any:
        selected = range(self.horizon)[steps]
        if isinstance(selected, int):
            for length, part in zip(self.lengths, self.parts, strict=True):
                if selected < length:
                    return part.at(selected)
                selected -= length
        if not isinstance(selected, range) or selected.step != 1:
            raise ValueError(
                f"steps must be an index or a contiguous range of the {self.horizon} steps, got"
                f" {steps!r}"
            )
        lengths, parts, first = [], [], 0
        for length, part in zip(self.lengths, self.parts, strict=True):
            low, high = max(selected.start - first, 0), min(selected.stop - first, length)
            if low < high:
                lengths.append(high - low)
                parts.append(part.at(slice(low, high)))
            first += length
        return Stages(tuple(lengths), tuple(parts))

    def _for(self, operand: Array) -> Self:
        return self

    def formula(self, eigenvalues: Array) -> Array:
        return self._stack(eigenvalues, lambda part: part.factors(eigenvalues))

    def formula_of_singular(self, singular_values: Array) -> Array:
        return self._stack(singular_values, lambda part: part.factors_of_singular(singular_values))

    def residual_formula(self, singular_values: Array) -> Array:
        return self._stack(singular_values, lambda part: part.residual_factors(singular_values))

    def formula_derivative(self, eigenvalues: Array) -> Array:
        return self._stack(eigenvalues, lambda part: part.derivative(eigenvalues))

    def formula_gradients(self, singular_values: Array) -> dict[str, Array]:
        s, zero = singular_values, namespace_of(singular_values).zeros_like(singular_values)
        slopes = {part: part.parameter_derivatives(s) for part in self.parts}
        names = dict.fromkeys(name for part in slopes.values() for name in part)
        return {
            name: self._stack(s, lambda part, name=name: slopes[part].get(name, zero))
            for name in names
        }

    def slope(self) -> NDArray[np.float64]:
        return np.asarray(self._stack(np.zeros(()), lambda part: part.slope()))

    def strength(self) -> NDArray[np.float64]:
        return np.asarray(self._stack(np.zeros(()), lambda part: part.strength()))

    def scaled(self, factor: float) -> "Stages":
        return Stages(self.lengths, tuple(part.scaled(factor) for part in self.parts))

    def within_theory(self, radius: float) -> bool:
        return all(part.within_theory(radius) for part in self.parts)

    @property
    def explicit(self) -> bool:  # type: ignore[override]
        return all(part.explicit for part in self.parts)

    @property
    def is_projection(self) -> bool:
        return all(part.is_projection for part in self.parts)

    def _stack(self, operand: Array, evaluate: Callable[..., Any]) -> Array:
        """Return the values of all parts, of shape (horizon,) + that of ``operand``."""
        xp, stages = namespace_of(operand), zip(self.lengths, self.parts, strict=True)
        return xp.concat(
            [xp.broadcast_to(evaluate(part), (n, *operand.shape)) for n, part in stages], axis=0
        )
