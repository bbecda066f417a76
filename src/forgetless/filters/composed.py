"""Filters made of others, one after the other."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forgetless._core import validate
from forgetless._core.arrays import Array, namespace_of
from forgetless.filters.base import Filter, as_array


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
            validate.integer("lengths", length, 0, "say how many steps the stage lasts")
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

    def formula(self, eigenvalues: Array) -> Array:
        return self.factors(eigenvalues)

    def factors(self, eigenvalues: Array) -> Array:
        return self._stack(as_array(eigenvalues), lambda part, xi: part.factors(xi))

    def factors_of_singular(self, singular_values: Array) -> Array:
        return self._stack(as_array(singular_values), lambda part, s: part.factors_of_singular(s))

    def residual_factors(self, singular_values: Array) -> Array:
        return self._stack(as_array(singular_values), lambda part, s: part.residual_factors(s))

    def derivative(self, eigenvalues: Array) -> Array:
        return self._stack(as_array(eigenvalues), lambda part, xi: part.derivative(xi))

    def parameter_derivatives(self, singular_values: Array) -> dict[str, Array]:
        s = as_array(singular_values)
        zero = namespace_of(s).zeros_like(s)
        slopes = {part: part.parameter_derivatives(s) for part in self.parts}
        names = dict.fromkeys(name for each in slopes.values() for name in each)
        return {name: self._stack(s, lambda part, _, name=name: slopes[part].get(name, zero)) for name in names}

    def slope(self) -> NDArray[np.float64]:
        return self._values(lambda part: part.slope())

    def strength(self) -> NDArray[np.float64]:
        return self._values(lambda part: part.strength())

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

    def _values(self, value: Callable[[Filter], Any]) -> NDArray[np.float64]:
        stages = zip(self.lengths, self.parts, strict=True)
        return np.concatenate([np.broadcast_to(value(part), (length,)) for length, part in stages])

    def _stack(self, operand: Array, evaluate: Callable[..., Array]) -> Array:
        xp = namespace_of(operand)
        blocks = [
            xp.broadcast_to(evaluate(part, operand), (length, *operand.shape))
            for length, part in zip(self.lengths, self.parts, strict=True)
        ]
        return xp.concat(blocks, axis=0)
