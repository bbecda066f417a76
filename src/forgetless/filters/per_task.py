"""Filters of a task divided by its own norm, for streams whose largest norm is not known."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from forgetless._core.arrays import Array
from forgetless.filters.base import Filter
from forgetless.filters.schemes import Projection, Stages


@dataclass(frozen=True, eq=False)
class PerTask(Filter):
    """The filter ``inner`` of X/‖X‖ at every task X, ‖X‖ being its spectral norm: φ(ξ/‖X‖²).

    With ``inner=Ridge(c)`` a task has the coefficient c‖X‖². Engines and estimators evaluate it at
    the singular values of X/‖X‖; evaluated by hand, ``factors`` takes eigenvalues of a task of norm
    1, and ``for_norm`` returns the filter of a task of another norm.

    Parameters
    ----------
    inner : Filter
        For tasks of norm 1.

    Examples
    --------
    >>> import forgetless as fl
    >>> fl.filters.PerTask(fl.Ridge(0.5)).for_norm(3.0)
    Ridge(coefficient=4.5)
    """

    inner: Filter

    def spectrum(self, singular_values: NDArray[np.float64], norms: Any) -> NDArray[np.float64]:
        return np.asarray(singular_values / norms)

    @property
    def horizon(self) -> int | None:
        return self.inner.horizon

    @property
    def explicit(self) -> bool:  # type: ignore[override]
        return self.inner.explicit

    @property
    def is_projection(self) -> bool:
        return self.inner.is_projection

    def at(self, steps: int | slice) -> "PerTask":
        return PerTask(self.inner.at(steps))

    def scaled(self, factor: float) -> "PerTask":
        return PerTask(self.inner.scaled(factor))

    def for_norm(self, norm: float) -> Filter:
        """Return the filter of a task of a norm; that of norm 1 for a task of zeros, which learns
        nothing.
        """
        return self.inner.scaled(norm * norm) if norm > 0 else self.inner

    def _for(self, operand: Array) -> Self:
        return self

    def formula(self, eigenvalues: Array) -> Array:
        return self.inner.factors(eigenvalues)

    def formula_of_singular(self, singular_values: Array) -> Array:
        return self.inner.factors_of_singular(singular_values)

    def residual_formula(self, singular_values: Array) -> Array:
        return self.inner.residual_factors(singular_values)

    def formula_derivative(self, eigenvalues: Array) -> Array:
        return self.inner.derivative(eigenvalues)

    def formula_gradients(self, singular_values: Array) -> dict[str, Array]:
        return self.inner.parameter_derivatives(singular_values)

    def slope(self) -> float | NDArray[np.float64]:
        return self.inner.slope()

    def factor_at_radius(self, radius: float) -> float | NDArray[np.float64]:
        return self.inner.factor_at_radius(1.0)  # of every task at its own norm


def staged(lengths: Sequence[int], parts: Sequence[Filter]) -> Filter:
    """Return a sequence of filters, by each task's own norm where one of them is (a projection is
    so anyway).
    """
    if not any(isinstance(part, PerTask) for part in parts):
        return Stages(lengths, parts)
    inner = [part.inner if isinstance(part, PerTask) else part for part in parts]
    if not all(isinstance(part, PerTask | Projection) for part in parts):
        raise ValueError(
            "stages must all use R or all use each task's own norm, got both; use one of them"
        )
    return PerTask(Stages(lengths, inner))
