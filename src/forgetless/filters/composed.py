"""Sequences of filters, each for a number of steps."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from forgetless._core import validate
from forgetless._core.arrays import Array, namespace_of
from forgetless.filters.base import Filter


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
            raise ValueError(f"lengths and parts must pair up, got {len(lengths)} lengths for {len(parts)} parts")
        for length, part in zip(lengths, parts, strict=True):
            validate.integer("lengths", length, 0, "give the number of steps of each stage")
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
        selected = range(self.horizon)[steps]
        if isinstance(selected, int):
            for length, part in zip(self.lengths, self.parts, strict=True):
                if selected < length:
                    return part.at(selected)
                selected -= length
        if not isinstance(selected, range) or selected.step != 1:
            raise ValueError(f"steps must be an index or a contiguous range of the {self.horizon} steps, got {steps!r}")
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
        return {name: self._stack(s, lambda part, name=name: slopes[part].get(name, zero)) for name in names}

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

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Stages):
            return NotImplemented
        return self.lengths == other.lengths and self.parts == other.parts

    def __hash__(self) -> int:
        return hash((self.lengths, self.parts))

    def _stack(self, operand: Array, evaluate: Callable[..., Any]) -> Array:
        """Return the values of all parts, of shape (horizon,) + that of ``operand``."""
        xp, stages = namespace_of(operand), zip(self.lengths, self.parts, strict=True)
        return xp.concat([xp.broadcast_to(evaluate(part), (n, *operand.shape)) for n, part in stages], axis=0)
