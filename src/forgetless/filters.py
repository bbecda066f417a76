"""Spectral filters: the fraction of the error along each singular vector that one step removes.

A step on a task with rows X is w ← w − φ(XᵀX)(w − X⁺y). A filter is the function φ of an
eigenvalue ξ = s² of XᵀX, with φ(0) = 0. Its values are Hansen's filter factors: 1 removes the error
along a singular vector, 0 leaves it unchanged.

=====================  ==================================  ========================================
``Ridge``              φ(ξ) = ξ / (ξ + λ)                  L2 towards the previous weights
``GradientDescent``    φ(ξ) = 1 − (1 − γξ)^N               N gradient steps of size γ
``Projection``         φ(ξ) = 1 if ξ > 0 else 0            no regularization: λ → 0 or N → ∞
=====================  ==================================  ========================================

A field of a filter is a number, or an array of length k with one value per step. Formulas are
written as if all fields were numbers: ``broadcast`` turns arrays of length k into columns.

Derivatives are complex steps. For an analytic f, f(x + iε) = f(x) + iεf'(x) + O(ε²), so that
Im f(x + iε)/ε is f'(x) without cancellation, exact to rounding for ε = 1e-100.
"""

import copy
import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from forgetless import _validate as validate
from forgetless._validate import Array, Floats

__all__ = ["Filter", "GradientDescent", "Projection", "Ridge"]

_EPSILON = 1e-100
"""Length of a complex step: its square vanishes beside any number of ordinary size."""

_JUMP = 1e-8
"""If |φ| is at least this large next to ξ = 0, φ is taken to jump there, as that of a projection
does; rounding errors of φ(0) = 0 are far smaller."""


class Filter(ABC):
    """Base of all filters; to add one, write a frozen dataclass with a method ``factors``.

    The other methods follow from it. Override them where a closed form exists, or where the
    formula is not analytic or does not accept complex numbers.

    Examples
    --------
    Gradient flow for a time s has the filter factors 1 − exp(−ξs):

    >>> import numpy as np
    >>> from dataclasses import dataclass
    >>> import forgetless as fl
    >>> @dataclass(frozen=True, eq=False)
    ... class GradientFlow(fl.Filter):
    ...     time: float
    ...     def factors(self, eigenvalues):
    ...         return -np.expm1(-self.time * eigenvalues)
    >>> GradientFlow(np.array([1.0, 2.0])).table([0.0, 1.0]).round(4).tolist()
    [[0.0, 0.6321], [0.0, 0.8647]]
    >>> GradientFlow(2.0).strength()
    0.5
    """

    @abstractmethod
    def factors(self, eigenvalues: Array) -> Array:
        """Return φ(ξ) elementwise, for fields that are numbers."""

    def remaining(self, eigenvalues: Array) -> Array:
        """Return 1 − φ(ξ) elementwise, the fraction of the error that remains."""
        return 1.0 - self.factors(eigenvalues)

    def derivatives(self, eigenvalues: Array) -> dict[str, Array]:
        """Return ∂φ(ξ)/∂θ elementwise, by the name of each field θ that is a number."""
        slopes = {}
        for name, value in self.parameters.items():
            numbers = np.asarray(value)
            if numbers.dtype.kind in "iuf":
                # f(θ + iε) has the derivative in its imaginary part.
                moved = self.replaced(**{name: numbers + 1j * _EPSILON})
                slopes[name] = self._imaginary(moved.factors(eigenvalues))
        return slopes

    def strength(self) -> float | Floats:
        """Return 1/φ'(0): λ of the ridge step with the same factors at small eigenvalues.

        One number, or one per step; 0 for a projection, whose slope is infinite.
        """
        # φ(iε) = iε φ'(0) up to ε²: the slope at zero is the imaginary part over ε.
        near_zero = self.table(np.asarray(1j * _EPSILON))
        strengths = np.zeros(len(near_zero))
        smooth = np.abs(near_zero.real) < _JUMP
        if smooth.any():
            with np.errstate(divide="ignore"):
                strengths[smooth] = 1.0 / self._imaginary(near_zero)[smooth]
        return float(strengths[0]) if self.horizon is None else strengths

    def scaled(self, factor: float) -> "Filter":
        """Return the filter φ(ξ/factor), whose step on √factor·X is the step of this one on X."""
        return self if factor == 1.0 else _Scaled(self, factor)

    def table(self, eigenvalues: Any) -> Array:
        """Return φ of shape (k, n) for n eigenvalues, (1, n) if all steps have the same filter.

        Eigenvalues may have any shape in place of (n,).
        """
        xi = np.asarray(eigenvalues)
        # Fields with a value per step become columns, beside the row of eigenvalues.
        values = np.asarray(self.broadcast(xi).factors(xi))
        shape = (self.horizon or 1, *xi.shape)
        if values.shape not in (shape, shape[1:]):
            raise ValueError(
                f"{type(self).__name__}.factors must return one finite factor per eigenvalue, an"
                f" array of shape {shape}, got shape {values.shape}; write it elementwise"
            )
        return values.reshape(shape)

    def broadcast(self, eigenvalues: Array) -> Self:
        """Return the filter whose methods take ``eigenvalues`` to one row of values per step."""
        # The axis of steps is before all axes of eigenvalues.
        shape = (-1,) + (1,) * np.ndim(eigenvalues)
        return self._changed(lambda value: np.reshape(value, shape))

    @property
    def parameters(self) -> dict[str, Any]:
        """The fields by name."""
        if not dataclasses.is_dataclass(self):
            raise TypeError(
                f"{type(self).__name__} must be a dataclass, so that its fields can vary per step;"
                " use @dataclass(frozen=True, eq=False)"
            )
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    @property
    def horizon(self) -> int | None:
        """k, the number of values per field; None if all steps have the same filter."""
        # Numbers hold for any number of steps; vectors must agree on it.
        lengths = {name: len(value) for name, value in self._per_step().items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(
                f"the parameters of {type(self).__name__} have lengths {lengths}; give each one"
                " value per step"
            )
        return next(iter(lengths.values()), None)

    def __getitem__(self, steps: int | slice) -> Self:
        """Return the filter of one step, counted from 0, or of a range of steps."""
        return self._changed(lambda value: value[steps])

    def _changed(self, change: Callable[[Any], Any]) -> Self:
        """Return the filter with a change of every field that has a value per step."""
        changed = {name: change(value) for name, value in self._per_step().items()}
        return self.replaced(**changed)

    def replaced(self, **values: Any) -> Self:
        """Return the filter with other values of some fields, which are not checked."""
        # A frozen dataclass refuses assignments; a copy is not yet known to anybody.
        other = copy.copy(self)
        for name, value in values.items():
            object.__setattr__(other, name, value)
        return other

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        theirs = other.parameters
        mine = self.parameters
        return all(np.array_equal(value, theirs[name]) for name, value in mine.items())

    def __hash__(self) -> int:
        return hash(type(self))

    def _per_step(self) -> dict[str, Any]:
        return {name: value for name, value in self.parameters.items() if np.ndim(value) == 1}

    def _imaginary(self, values: Array) -> Array:
        """Return the derivative from values after a complex step."""
        if not np.iscomplexobj(values):
            raise TypeError(
                f"{type(self).__name__}.factors must accept complex numbers, by which it is"
                " differentiated; override strength, derivatives and scaled for another one"
            )
        return values.imag / _EPSILON


@dataclass(frozen=True, eq=False)
class _Scaled(Filter):
    """φ(ξ/factor) of another filter, whose parameters it has."""

    inner: Filter
    factor: float

    @property
    def parameters(self) -> dict[str, Any]:
        return self.inner.parameters

    def replaced(self, **values: Any) -> "_Scaled":
        return _Scaled(self.inner.replaced(**values), self.factor)

    def factors(self, eigenvalues: Array) -> Array:
        return self.inner.factors(eigenvalues / self.factor)


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

    coefficient: float | Floats

    def __post_init__(self) -> None:
        hint = "use 0 for no regularization, or fl.schedules.increasing() for a schedule"
        checked = validate.numbers_per_step("coefficient", self.coefficient, hint)
        object.__setattr__(self, "coefficient", checked)

    def factors(self, eigenvalues: Array) -> Array:
        xi = np.asarray(eigenvalues)
        with np.errstate(invalid="ignore"):
            # 0/0 at ξ = λ = 0: what is not seen is not learned.
            return np.where(xi == 0, 0.0, xi / (xi + self.coefficient))

    def remaining(self, eigenvalues: Array) -> Array:
        xi = np.asarray(eigenvalues)
        with np.errstate(invalid="ignore"):
            # λ/(ξ + λ) itself: 1 − φ would cancel for small λ.
            return np.where(xi == 0, 1.0, self.coefficient / (xi + self.coefficient))

    def strength(self) -> float | Floats:
        return self.coefficient

    def scaled(self, factor: float) -> "Ridge":
        return self.replaced(coefficient=self.coefficient * factor)


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
    step_size: float | Floats

    def __post_init__(self) -> None:
        hint = "round the budget to a whole number of gradient steps"
        n_steps = validate.integers_per_step("n_steps", self.n_steps, hint)
        hint = "use a step size in (0, 1/R²), R being tasks.radius"
        step_size = validate.numbers_per_step("step_size", self.step_size, hint, positive=True)
        object.__setattr__(self, "n_steps", n_steps)
        object.__setattr__(self, "step_size", step_size)
        # raises for arrays of different lengths, now rather than at the first step
        _ = self.horizon

    def factors(self, eigenvalues: Array) -> Array:
        u = np.asarray(self.step_size * np.asarray(eigenvalues))
        with np.errstate(all="ignore"):
            # without cancellation for small u; from u = 1 on a gradient step overshoots
            contracting = -np.expm1(self.n_steps * np.log1p(-u))
            return np.where(u < 1, contracting, 1.0 - (1.0 - u) ** self.n_steps)

    def remaining(self, eigenvalues: Array) -> Array:
        u = np.asarray(self.step_size * np.asarray(eigenvalues))
        with np.errstate(all="ignore"):
            # (1 − u)^N by its logarithm, which is exact for small u.
            contracting = np.exp(self.n_steps * np.log1p(-u))
            return np.where(u < 1, contracting, (1.0 - u) ** self.n_steps)

    def derivatives(self, eigenvalues: Array) -> dict[str, Array]:
        # Not by N, which is a whole number: ∂φ/∂γ = Nξ(1 − γξ)^{N−1}
        kept = (1.0 - self.step_size * eigenvalues) ** (self.n_steps - 1)
        return {"step_size": self.n_steps * eigenvalues * kept}

    def scaled(self, factor: float) -> "GradientDescent":
        return self.replaced(step_size=self.step_size / factor)


@dataclass(frozen=True, eq=False)
class Projection(Filter):
    """No regularization: the solution of the task that is nearest to the previous weights.

    φ(ξ) = 1 for ξ > 0 and φ(0) = 0, the limit of ``Ridge`` for λ → 0 and of ``GradientDescent`` for
    N → ∞. With one row this is Kaczmarz's method.

    Examples
    --------
    >>> import forgetless as fl
    >>> fl.Projection().factors([0.0, 1e-12, 5.0]).tolist()
    [0.0, 1.0, 1.0]
    """

    def factors(self, eigenvalues: Array) -> Array:
        return np.where(np.asarray(eigenvalues) == 0, 0.0, 1.0)
