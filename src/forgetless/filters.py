"""Filters: how much of each spectral direction of a task is learned in one step.

A filter is a function φ of an eigenvalue ξ of XᵀX with φ(0) = 0: 1 learns the direction completely, 0 leaves it
alone, and values between are shares (only gradient steps above 1/R² overshoot beyond 1). Its parameters are numbers,
or vectors with one value per step.

=====================  ==================================  ========================================
``Ridge``              φ(ξ) = ξ / (ξ + λ)                  L2 pull towards the previous solution
``GradientDescent``    φ(ξ) = 1 − (1 − γξ)^N               N gradient steps of size γ
``Projection``         φ(ξ) = 1 if ξ > 0 else 0            no regularization: λ → 0 or N → ∞
=====================  ==================================  ========================================
"""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from array_api_compat import device
from numpy.typing import NDArray

from forgetless._base import checks
from forgetless._base.arrays import Array, namespace_of

_COEFFICIENT_CURE = "use 0 for no regularization, or fl.schedules.increasing() for a schedule"


_STEP_SIZE_CURE = "use a step size in (0, 1/R²), R being tasks.radius"


_N_STEPS_CURE = "round the budget to a whole number of gradient steps"


class Filter(ABC):
    """Base of all filters; to add one, write a frozen dataclass with a ``share`` method.

    Every dataclass field may be a number or a vector with one value per step; broadcasting is done here.

    Examples
    --------
    Gradient flow for a time s learns the share 1 − exp(−ξs) of a direction:

    >>> import numpy as np
    >>> from dataclasses import dataclass
    >>> import forgetless as fl
    >>> @dataclass(frozen=True, eq=False)
    ... class GradientFlow(fl.Filter):
    ...     time: float
    ...     def share(self, eigenvalues):
    ...         return -np.expm1(-self.time * eigenvalues)
    ...     def slope(self):
    ...         return self.time
    >>> GradientFlow(2.0)(np.array([0.0, 1.0])).round(4).tolist()
    [0.0, 0.8647]
    >>> GradientFlow(np.array([1.0, 2.0]))(np.array([0.0, 1.0])).shape
    (2, 2)
    """

    @abstractmethod
    def share(self, eigenvalues: Array) -> Array:
        """Return φ(ξ) elementwise; parameters and ``eigenvalues`` broadcast against each other."""

    def slope(self) -> float | NDArray[np.float64]:
        """Return φ'(0), the share learned per unit of eigenvalue near zero (infinite for a projection)."""
        raise TypeError(
            f"{type(self).__name__} does not say its slope at 0; add a method slope() that returns φ'(0), "
            "which the reduction to gradient descent needs"
        )

    def share_of_singular(self, singular_values: Array) -> Array:
        """Return φ(s²) from singular values s of X; override it where squaring loses range or accuracy."""
        return self.share(singular_values * singular_values)

    def kept_of_singular(self, singular_values: Array) -> Array:
        """Return 1 − φ(s²), the share of the error that survives; override it where φ rounds to 1."""
        return 1.0 - self.share_of_singular(singular_values)

    def __call__(self, eigenvalues: Array) -> Array:
        """Return φ(ξ), of shape ``eigenvalues.shape``, or (horizon,) + that shape with per-step parameters."""
        xi = _as_array(eigenvalues)
        return self._for(xi).share(xi)

    def learned(self, singular_values: Array) -> Array:
        """Return φ(s²) like ``__call__``, from singular values."""
        s = _as_array(singular_values)
        return self._for(s).share_of_singular(s)

    def kept(self, singular_values: Array) -> Array:
        """Return 1 − φ(s²) like ``learned``."""
        s = _as_array(singular_values)
        return self._for(s).kept_of_singular(s)

    def value_at_radius(self, radius: float) -> float | NDArray[np.float64]:
        """Return φ(R²), which is ηβ, the only number the fixed-strength bounds need."""
        value = np.asarray(self.learned(np.asarray(radius, dtype=np.float64)))
        return float(value) if value.ndim == 0 else value

    @property
    def horizon(self) -> int | None:
        """Number of steps the parameters are given for; None if they are the same at every step."""
        lengths = {name: len(value) for name, value in self._parameters() if np.ndim(value) == 1}
        if len(set(lengths.values())) > 1:
            raise ValueError(
                f"the parameters of {type(self).__name__} have lengths {lengths}; give each one value per step"
            )
        return next(iter(lengths.values()), None)

    def at(self, steps: int | slice) -> Self:
        """Return the filter of one step (an index from 0), or of a range of steps."""
        if self.horizon is None:
            return self
        return self._with({name: value[steps] for name, value in self._parameters() if np.ndim(value) == 1})

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        pairs = zip(self._parameters(), other._parameters(), strict=True)
        return all(np.array_equal(mine, theirs) for (_, mine), (_, theirs) in pairs)

    def __hash__(self) -> int:
        return hash((type(self), *(np.asarray(value).tobytes() for _, value in self._parameters())))

    def _parameters(self) -> list[tuple[str, Any]]:
        if not dataclasses.is_dataclass(self):
            raise TypeError(f"{type(self).__name__} must be a dataclass so that its parameters can vary per step")
        return [(field.name, getattr(self, field.name)) for field in dataclasses.fields(self)]

    def _with(self, values: dict[str, Any]) -> Self:
        # The values come from a checked filter, so the checks of __init__ are not run again.
        other = object.__new__(type(self))
        for name, value in [*self._parameters(), *values.items()]:
            object.__setattr__(other, name, value)
        return other

    def _for(self, operand: Array) -> Self:
        """Return a copy whose per-step parameters broadcast against ``operand``, in its array library."""
        if self.horizon is None:
            return self
        xp = namespace_of(operand)
        shape = (-1,) + (1,) * operand.ndim
        columns = {}
        for name, value in self._parameters():
            if np.ndim(value) == 1:
                columns[name] = xp.reshape(xp.asarray(np.array(value), device=device(operand)), shape)
        return self._with(columns)


def _as_array(values: Any) -> Array:
    return values if hasattr(values, "__array_namespace__") or hasattr(values, "dtype") else np.asarray(values, float)


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
    >>> fl.Ridge(3.0)(1.0).item()
    0.25

    References
    ----------
    Levinstein et al. (2025), Algorithm 1 (regularized continual linear regression).
    """

    coefficient: float | NDArray[np.float64]

    def __post_init__(self) -> None:
        checked = checks.numbers_per_step("coefficient", self.coefficient, _COEFFICIENT_CURE)
        object.__setattr__(self, "coefficient", checked)

    def share(self, eigenvalues: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
            return _inverse_of_one_plus(self.coefficient / eigenvalues, eigenvalues == 0, 0.0)

    def share_of_singular(self, singular_values: Array) -> Array:
        # λ/s/s: s² leaves the range of a float from ‖X‖ ≈ 1e154 on, the quotients go to their limits instead.
        with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
            ratio = self.coefficient / singular_values
            ratio /= singular_values
        return _inverse_of_one_plus(ratio, singular_values == 0, 0.0)

    def kept_of_singular(self, singular_values: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
            # Not s / λ: a Python float λ = 0 would raise where an array gives infinity.
            ratio = singular_values / (self.coefficient + 0.0 * singular_values)
            ratio *= singular_values
        return _inverse_of_one_plus(ratio, singular_values == 0, 1.0)

    def slope(self) -> float | NDArray[np.float64]:
        with np.errstate(divide="ignore"):
            slope = 1.0 / np.asarray(self.coefficient)
        return float(slope) if slope.ndim == 0 else slope


def _inverse_of_one_plus(ratio: Array, zero: Array, at_zero: float) -> Array:
    """Return 1/(1 + ratio), and ``at_zero`` where the eigenvalue is zero; overwrites ``ratio``."""
    xp = namespace_of(ratio)
    ratio += 1.0
    share = 1.0 / ratio
    return xp.where(zero, at_zero, share) if bool(xp.any(zero)) else share


@dataclass(frozen=True, eq=False)
class GradientDescent(Filter):
    """A budget of N gradient steps of size γ: φ(ξ) = 1 − (1 − γξ)^N.

    Parameters
    ----------
    n_steps : int or array of shape (k,)
        N ≥ 1. Fractional budgets are refused: below 1 the filter is not concave and no theorem holds.
    step_size : float or array of shape (k,)
        γ > 0. The theorems need γ < 1/R². Above that the inner iteration overshoots (shares above 1 for odd N), and
        above 2/R² it diverges, which the engines refuse.

    Examples
    --------
    >>> import forgetless as fl
    >>> fl.GradientDescent(n_steps=2, step_size=0.5)(1.0).item()
    0.75

    References
    ----------
    Levinstein et al. (2025), Algorithm 2 (continual linear regression with finite step budgets).
    """

    n_steps: int | NDArray[np.int64]
    step_size: float | NDArray[np.float64]

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_steps", checks.integers_per_step("n_steps", self.n_steps, _N_STEPS_CURE))
        checked = checks.numbers_per_step("step_size", self.step_size, _STEP_SIZE_CURE, positive=True)
        object.__setattr__(self, "step_size", checked)
        _ = self.horizon  # refuses vectors of different lengths now rather than at the first step

    def share(self, eigenvalues: Array) -> Array:
        return -self._kept(self.step_size * eigenvalues, expm1=True)

    def share_of_singular(self, singular_values: Array) -> Array:
        return -self._kept(self._product(singular_values), expm1=True)

    def kept_of_singular(self, singular_values: Array) -> Array:
        return self._kept(self._product(singular_values), expm1=False)

    def slope(self) -> float | NDArray[np.float64]:
        slope = np.asarray(self.n_steps) * np.asarray(self.step_size)
        return float(slope) if slope.ndim == 0 else slope

    def _product(self, s: Array) -> Array:
        # γs² as (√γ·s)²: γ and s² may each leave the range of a float while their product does not.
        return (s * self.step_size**0.5) ** 2

    def _kept(self, u: Array, *, expm1: bool) -> Array:
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
    """No regularization: the task is solved exactly, by the solution nearest to the previous one.

    φ(ξ) = 1 for ξ > 0 and φ(0) = 0, the limit of ``Ridge`` for λ → 0 and of ``GradientDescent`` for N → ∞.

    Examples
    --------
    >>> import forgetless as fl
    >>> fl.Projection()([0.0, 1e-12, 5.0]).tolist()
    [0.0, 1.0, 1.0]
    """

    def share(self, eigenvalues: Array) -> Array:
        xp = namespace_of(eigenvalues)
        return xp.astype(eigenvalues > 0, xp.float64)

    def share_of_singular(self, singular_values: Array) -> Array:
        return self.share(singular_values)

    def slope(self) -> float:
        return float("inf")


@dataclass(frozen=True, eq=False)
class Stages(Filter):
    """Different filters one after the other, each for a number of steps.

    Parameters
    ----------
    lengths : sequence of int
        How many steps each stage lasts.
    parts : sequence of Filter
        The filter of each stage: constant, or with as many per-step values as the stage has steps.

    Examples
    --------
    >>> import forgetless as fl
    >>> fl.Stages((1, 2), (fl.Projection(), fl.Ridge(1.0)))(1.0).tolist()
    [1.0, 0.5, 0.5]
    """

    lengths: Sequence[int]
    parts: Sequence[Filter]

    def __post_init__(self) -> None:
        lengths, parts = tuple(self.lengths), tuple(self.parts)
        if len(lengths) != len(parts) or not parts:
            raise ValueError(f"lengths and parts must pair up, got {len(lengths)} lengths for {len(parts)} parts")
        for length, part in zip(lengths, parts, strict=True):
            checks.integer("lengths", length, 0, "say how many steps the stage lasts")
            if not isinstance(part, Filter):
                raise TypeError(f"parts must be filters, got {part!r}; wrap a coefficient as fl.Ridge(coefficient)")
            if part.horizon not in (None, length):
                raise ValueError(
                    f"parts must be constant or have one value per step of their stage: "
                    f"{part!r} has {part.horizon} values for a stage of {length} steps"
                )
        object.__setattr__(self, "lengths", lengths)
        object.__setattr__(self, "parts", parts)

    @property
    def horizon(self) -> int:
        return sum(self.lengths)

    def at(self, steps: int | slice) -> Any:
        chosen = range(self.horizon)[steps]
        if isinstance(chosen, int):
            for length, part in zip(self.lengths, self.parts, strict=True):
                if chosen < length:
                    return part.at(chosen)
                chosen -= length
        if not isinstance(chosen, range) or chosen.step != 1:
            raise ValueError(f"steps must be an index or a contiguous range of the {self.horizon} steps, got {steps!r}")
        lengths, parts, first = [], [], 0
        for length, part in zip(self.lengths, self.parts, strict=True):
            low, high = max(chosen.start - first, 0), min(chosen.stop - first, length)
            if low < high:
                lengths.append(high - low)
                parts.append(part.at(slice(low, high)))
            first += length
        return Stages(tuple(lengths), tuple(parts))

    def share(self, eigenvalues: Array) -> Array:
        return self(eigenvalues)

    def __call__(self, eigenvalues: Array) -> Array:
        return self._stack(_as_array(eigenvalues), lambda part, xi: part(xi))

    def learned(self, singular_values: Array) -> Array:
        return self._stack(_as_array(singular_values), lambda part, s: part.learned(s))

    def kept(self, singular_values: Array) -> Array:
        return self._stack(_as_array(singular_values), lambda part, s: part.kept(s))

    def slope(self) -> NDArray[np.float64]:
        slopes = zip(self.lengths, self.parts, strict=True)
        return np.concatenate([np.broadcast_to(part.slope(), (length,)) for length, part in slopes])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Stages):
            return NotImplemented
        return self.lengths == other.lengths and self.parts == other.parts

    def __hash__(self) -> int:
        return hash((self.lengths, self.parts))

    def _stack(self, operand: Array, evaluate: Any) -> Array:
        xp = namespace_of(operand)
        blocks = [
            xp.broadcast_to(evaluate(part, operand), (length, *operand.shape))
            for length, part in zip(self.lengths, self.parts, strict=True)
        ]
        return xp.concat(blocks, axis=0)
