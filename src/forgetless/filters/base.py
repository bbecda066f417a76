"""The base class of filters: a function of an eigenvalue, its parameters per step, and quantities
derived from both.
"""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from forgetless._core.arrays import Array


class Filter(ABC):
    """Base of all filters; to add one, write a frozen dataclass with a ``formula`` method.

    Every dataclass field may be a number or a vector with one value per step; broadcasting is done
    here. Everything else follows from ``formula``: derivatives by differences, the slope at zero by
    extrapolation, the filter of rescaled data. Override these where a closed form exists.

    Attributes
    ----------
    explicit : bool
        Whether a step is that of explicit L2 regularization, λ = 0 included.

    Examples
    --------
    Gradient flow for a time s has the filter factors 1 − exp(−ξs):

    >>> import numpy as np
    >>> from dataclasses import dataclass
    >>> import forgetless as fl
    >>> @dataclass(frozen=True, eq=False)
    ... class GradientFlow(fl.Filter):
    ...     time: float
    ...     def formula(self, eigenvalues):
    ...         return -np.expm1(-self.time * eigenvalues)
    >>> GradientFlow(2.0).factors(np.array([0.0, 1.0])).round(4).tolist()
    [0.0, 0.8647]
    >>> GradientFlow(np.array([1.0, 2.0])).factors(np.array([0.0, 1.0])).shape
    (2, 2)
    >>> round(GradientFlow(2.0).strength(), 9)
    0.5
    """

    explicit = False

    @abstractmethod
    def formula(self, eigenvalues: Array) -> Array:
        """Return φ(ξ) elementwise; parameters and ``eigenvalues`` broadcast against each other."""

    def formula_of_singular(self, singular_values: Array) -> Array:
        """Return φ(s²) from singular values s of X; override it where squaring loses range or
        accuracy.
        """
        return self.formula(singular_values * singular_values)

    def residual_formula(self, singular_values: Array) -> Array:
        """Return 1 − φ(s²), the fraction of the error that remains; override it where φ rounds to
        1.
        """
        return 1.0 - self.formula_of_singular(singular_values)

    def formula_derivative(self, eigenvalues: Array) -> Array:
        """Return φ'(ξ) elementwise at ξ > 0, broadcasting like ``formula``.

        By central differences: steps of 1e-5 balance truncation (h²) and rounding (1e-16/h) at
        about 1e-10.
        """
        h = 1e-5 * eigenvalues
        return (self.formula(eigenvalues + h) - self.formula(eigenvalues - h)) / (2.0 * h)

    def formula_gradients(self, singular_values: Array) -> dict[str, Array]:
        """Return ∂φ(s²)/∂θ for every parameter θ by name, broadcasting like
        ``formula_of_singular``.

        Differences as in ``formula_derivative``, of all real parameters; forward differences at θ =
        0, since negative values may not be allowed. The error is about 1e-16/(1e-5 θ). Override it
        for more digits, or to leave out integers, which have no derivative.
        """
        real = [(name, value) for name, value in self._parameters() if _is_real(value)]
        return {name: self._by_differences(name, value, singular_values) for name, value in real}

    def slope(self) -> float | NDArray[np.float64]:
        """Return φ'(0), infinite for a projection; by extrapolation, about ten digits for a smooth
        φ.
        """
        return _slope_at_zero(self)

    def strength(self) -> float | NDArray[np.float64]:
        """Return 1/φ'(0): λ of the ridge step with the same factors at small eigenvalues."""
        with np.errstate(divide="ignore"):
            strength = 1.0 / np.asarray(self.slope(), dtype=np.float64)
        return float(strength) if strength.ndim == 0 else strength

    def scaled(self, factor: float) -> "Filter":
        """Return the filter φ(ξ/factor), whose step on √factor·X is the step of this one on X."""
        return self if factor == 1.0 else _Scaled(self, factor)

    def within_theory(self, radius: float) -> bool:
        """Whether the published theorems cover this filter on tasks of a radius."""
        return False

    @property
    def is_projection(self) -> bool:
        """Whether every step solves its task exactly."""
        return False

    def factors(self, eigenvalues: Array) -> Array:
        """Return φ(ξ), of shape ``eigenvalues.shape``, or (horizon,) + that shape with per-step
        parameters.
        """
        xi = np.asarray(eigenvalues, dtype=np.float64)
        return self._for(xi).formula(xi)

    def factors_of_singular(self, singular_values: Array) -> Array:
        """Return φ(s²), of shapes as in ``factors``, from singular values."""
        s = np.asarray(singular_values, dtype=np.float64)
        return self._for(s).formula_of_singular(s)

    def residual_factors(self, singular_values: Array) -> Array:
        """Return 1 − φ(s²), of shapes as in ``factors``."""
        s = np.asarray(singular_values, dtype=np.float64)
        return self._for(s).residual_formula(s)

    def derivative(self, eigenvalues: Array) -> Array:
        """Return φ'(ξ) at ξ > 0, of shapes as in ``factors``."""
        xi = np.asarray(eigenvalues, dtype=np.float64)
        return self._for(xi).formula_derivative(xi)

    def parameter_derivatives(self, singular_values: Array) -> dict[str, Array]:
        """Return ∂φ(s²)/∂θ of every parameter θ by name, of shapes as in ``factors``."""
        s = np.asarray(singular_values, dtype=np.float64)
        return self._for(s).formula_gradients(s)

    def factor_at_radius(self, radius: float) -> float | NDArray[np.float64]:
        """Return φ(R²), which is ηβ in the bounds for fixed strengths."""
        value = np.asarray(self.factors_of_singular(np.asarray(radius, dtype=np.float64)))
        return float(value) if value.ndim == 0 else value

    @property
    def horizon(self) -> int | None:
        """Number of steps of per-step parameters; None if they are the same at every step."""
        lengths = {name: len(value) for name, value in self._parameters() if np.ndim(value) == 1}
        if len(set(lengths.values())) > 1:
            raise ValueError(
                f"the parameters of {type(self).__name__} have lengths {lengths}; give each one"
                " value per step"
            )
        return next(iter(lengths.values()), None)

    def at(self, steps: int | slice) -> Self:
        """Return the filter of one step (an index from 0), or of a range of steps."""
        if self.horizon is None:
            return self
        return self._with(
            {name: value[steps] for name, value in self._parameters() if np.ndim(value) == 1}
        )

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        pairs = zip(self._parameters(), other._parameters(), strict=True)
        return all(np.array_equal(mine, theirs) for (_, mine), (_, theirs) in pairs)

    def __hash__(self) -> int:
        # Equal values have equal hashes: 1 and 1.0, 0.0 and −0.0.
        values = (value for _, value in self._parameters())
        return hash(
            (
                type(self),
                *((np.asarray(v, float) + 0.0).tobytes() if _is_real(v) else v for v in values),
            )
        )

    def _parameters(self) -> list[tuple[str, Any]]:
        if not dataclasses.is_dataclass(self):
            raise TypeError(
                f"{type(self).__name__} must be a dataclass so that its parameters can vary per"
                " step"
            )
        return [(field.name, getattr(self, field.name)) for field in dataclasses.fields(self)]

    def _with(self, values: dict[str, Any]) -> Self:
        # The values are those of a validated filter, so __init__ is not run again.
        other = object.__new__(type(self))
        for name, value in [*self._parameters(), *values.items()]:
            object.__setattr__(other, name, value)
        return other

    def _by_differences(self, name: str, value: Any, singular_values: Array) -> Array:
        theta = np.asarray(value, dtype=np.float64)

        def at(shifted: Array) -> Array:
            return self._with({name: shifted}).formula_of_singular(singular_values)

        h = 1e-5 * np.abs(theta)
        if np.any(theta == 0):
            h = np.where(theta == 0, _first_step(at, theta, singular_values), h)
            forward = (4.0 * at(theta + h) - 3.0 * at(theta) - at(theta + 2.0 * h)) / (2.0 * h)
            central = (at(theta + h) - at(np.where(theta == 0, theta, theta - h))) / (2.0 * h)
            return np.where(theta == 0, forward, central)
        return (at(theta + h) - at(theta - h)) / (2.0 * h)

    def _for(self, operand: Array) -> Self:
        """Return a copy whose per-step parameters broadcast against ``operand``."""
        if self.horizon is None:
            return self
        shape = (-1,) + (1,) * operand.ndim
        vectors = [(name, value) for name, value in self._parameters() if np.ndim(value) == 1]
        return self._with({name: np.reshape(value, shape) for name, value in vectors})


def _is_real(value: Any) -> bool:
    return not isinstance(value, bool) and np.asarray(value).dtype.kind in "iuf"


def _first_step(at: Callable[[Array], Array], theta: Array, like: Array) -> Array:
    """Return a step from θ = 0 for every eigenvalue that changes φ by about 1e-5, whatever the
    units.
    """
    h = 1e-8 + np.zeros_like(theta * like)
    before = at(theta)
    for _ in range(60):
        change = np.abs(at(theta + h) - before)
        h = np.where(change > 1e-4, h / 10.0, np.where(change < 1e-6, h * 10.0, h))
    return h


def _slope_at_zero(filter: Filter) -> float | NDArray[np.float64]:
    """Return φ'(0) from φ alone: φ(ξ)/ξ extrapolated to ξ = 0 by a polynomial (Neville's scheme).

    The points start where φ is about 0.01: curvature is small there, and so is cancellation in φ.
    """
    decades = np.concatenate([[0.0], np.logspace(-40, 40, 321)])
    with np.errstate(all="ignore"):  # φ may overflow far beyond the radius
        factors = np.atleast_2d(np.asarray(filter.factors(decades), dtype=np.float64))
    first = np.argmax(factors > 1e-2, axis=1)
    first[~np.any(factors > 1e-2, axis=1)] = len(decades)
    tops = decades[first - 1]
    steps = np.arange(len(tops)) if filter.horizon is not None else np.zeros(1, dtype=np.int64)
    slopes = np.full(len(tops), np.inf)
    for t, top in zip(steps, tops, strict=True):
        if top > 0:
            slopes[t] = _extrapolated(filter.at(int(t)), float(top))
    return slopes if filter.horizon is not None else float(slopes[0])


def _extrapolated(filter: Filter, top: float) -> float:
    points = top * 0.5 ** np.arange(7)
    table = np.asarray(filter.factors(points), dtype=np.float64) / points
    for order in range(1, len(points)):
        table = table[1:] + (table[1:] - table[:-1]) / (2.0**order - 1.0)
    return float(table[0])


@dataclasses.dataclass(frozen=True, eq=False)
class _Scaled(Filter):
    """A user's filter for rescaled data: φ(ξ/factor)."""

    inner: Filter
    factor: float

    @property
    def horizon(self) -> int | None:
        return self.inner.horizon

    @property
    def is_projection(self) -> bool:
        return self.inner.is_projection

    @property
    def explicit(self) -> bool:  # type: ignore[override]
        return self.inner.explicit

    def within_theory(self, radius: float) -> bool:
        return self.inner.within_theory(radius / self.factor**0.5)

    def at(self, steps: int | slice) -> "_Scaled":
        return _Scaled(self.inner.at(steps), self.factor)

    def _for(self, operand: Array) -> Self:
        return self

    def formula(self, eigenvalues: Array) -> Array:
        return self.inner.factors(eigenvalues / self.factor)

    def formula_of_singular(self, singular_values: Array) -> Array:
        return self.inner.factors_of_singular(singular_values / self.factor**0.5)

    def residual_formula(self, singular_values: Array) -> Array:
        return self.inner.residual_factors(singular_values / self.factor**0.5)

    def formula_derivative(self, eigenvalues: Array) -> Array:
        return self.inner.derivative(eigenvalues / self.factor) / self.factor

    def formula_gradients(self, singular_values: Array) -> dict[str, Array]:
        return self.inner.parameter_derivatives(singular_values / self.factor**0.5)

    def slope(self) -> float | NDArray[np.float64]:
        return self.inner.slope() / self.factor

    def scaled(self, factor: float) -> Filter:
        return _Scaled(self.inner, self.factor * factor)
