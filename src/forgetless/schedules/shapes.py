"""Schedules without a theorem: explicit coefficients, and shapes with a scale that is fitted to the tasks."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from forgetless._core import validate
from forgetless.filters import Filter, Ridge
from forgetless.schedules.base import Preset, check_horizon, check_length


@dataclass(frozen=True)
class Constant(Preset):
    """The same filter at every step, for every k and radius.

    Examples
    --------
    >>> import forgetless as fl
    >>> fl.schedules.constant(fl.Ridge(0.5))(10, radius=3.0)
    Ridge(coefficient=0.5)
    """

    filter: Filter

    def __post_init__(self) -> None:
        if not isinstance(self.filter, Filter):
            raise TypeError(
                f"filter must be a filter, got {self.filter!r}; wrap a coefficient as fl.Ridge(coefficient)"
            )

    def build(self, k: int, square: float) -> Filter:
        return self.filter


@dataclass(frozen=True)
class Coefficients(Preset):
    """Explicit ridge coefficients λ_1..λ_k, for exactly as many steps.

    Examples
    --------
    >>> import forgetless as fl
    >>> fl.schedules.from_coefficients([0.0, 1.0, 4.0])(3, radius=1.0).coefficient.tolist()
    [0.0, 1.0, 4.0]
    """

    coefficients: tuple[float, ...]

    def __init__(self, coefficients: ArrayLike) -> None:
        values = np.atleast_1d(
            validate.numbers_per_step("coefficients", coefficients, "use 0 for an unregularized step")
        )
        object.__setattr__(self, "coefficients", tuple(values.tolist()))

    def build(self, k: int, square: float) -> Ridge:
        if k != len(self.coefficients):
            raise ValueError(
                f"k must be {len(self.coefficients)}, the number of coefficients given, got {k}; "
                "give one coefficient per step"
            )
        return Ridge(np.array(self.coefficients))


@dataclass(frozen=True)
class EndRamp(Preset):
    """No regularization first, then λ_t = scale · R² · j at the j-th of the last steps: an average over the tail.

    With scale 1 the filter factor at the radius is 1/(1 + j), as if the iterates of the ramp were averaged. This is the
    shape that exact optimisation finds on most collections (``fl.optimal_schedule``); no theorem covers it.

    Parameters
    ----------
    length : float, default 1/8
        The fraction of the k steps in the ramp, in (0, 1]; at least one step.
    scale : float, default 1
        Nonnegative slope of the ramp, in R² per step.

    Examples
    --------
    >>> import forgetless as fl
    >>> fl.schedules.end_ramp(length=0.5, scale=2.0)(6, radius=1.0).coefficient.tolist()
    [0.0, 0.0, 0.0, 2.0, 4.0, 6.0]
    """

    length: float = 1 / 8
    scale: float = 1.0

    def __post_init__(self) -> None:
        length = validate.number("length", self.length, "give a part of the horizon, such as 1/8", positive=True)
        if length > 1:
            raise ValueError(f"length must lie in (0, 1], got {length}; give a part of the horizon, such as 1/8")
        object.__setattr__(self, "length", length)
        object.__setattr__(self, "scale", validate.number("scale", self.scale, "1 averages the tail; 0 has no ramp"))

    def build(self, k: int, square: float) -> Ridge:
        check_length(k)
        n_steps = max(1, round(self.length * k))
        return Ridge(self.scale * square * np.maximum(0.0, np.arange(1, k + 1) - (k - n_steps)))


@dataclass(frozen=True)
class NoiseAware(Preset):
    """λ = scale · R² k / ln k at every step: the growth of the best fixed strength under label noise.

    Parameters
    ----------
    scale : float, default 1
        Nonnegative factor, which depends on the noise; ``fl.advise`` searches it.

    Examples
    --------
    >>> import forgetless as fl
    >>> round(fl.schedules.noise_aware(scale=0.1)(100, radius=1.0).coefficient, 4)
    2.1715

    References
    ----------
    Karpel et al. (ALT 2026), arXiv 2601.13844: the order of the optimal fixed coefficient, without a constant.
    """

    scale: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", validate.number("scale", self.scale, "fl.advise finds it"))

    def build(self, k: int, square: float) -> Ridge:
        check_horizon(k, 2, "noise_aware", "ln k must be positive; use schedules.constant(fl.Ridge(...))")
        return Ridge(self.scale * square * k / math.log(k))


constant = Constant
from_coefficients = Coefficients
end_ramp = EndRamp
noise_aware = NoiseAware
