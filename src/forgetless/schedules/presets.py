"""Presets: schedules with a theorem first, then explicit coefficients and shapes with a scale to be
fitted.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from forgetless._core import validate
from forgetless.filters import Filter, GradientDescent, Ridge
from forgetless.schedules.base import Preset, check_horizon

_SCALE_HINT = "the theorem uses 13/3; smaller values regularize less"


@dataclass(frozen=True)
class Fixed(Preset):
    """λ = R²(ln k − 1) at every step: expected loss at most 5 R²D² ln k / k in k ≥ 3 steps.

    Examples
    --------
    >>> import forgetless as fl
    >>> round(fl.schedules.fixed()(100, radius=2.0).coefficient, 4)
    14.4207

    References
    ----------
    Levinstein et al. (2025), Corollary "Near-optimal rates via fixed regularization strength" (i),
    Section 4.1, upper. The paper says k ≥ 2, where λ would be negative.
    """

    def build(self, k: int, square: float) -> Ridge:
        check_horizon(
            k, 3, "fixed", "ln k − 1 is negative below; use schedules.constant(fl.Ridge(...))"
        )
        return Ridge(square * (math.log(k) - 1))


@dataclass(frozen=True)
class Increasing(Preset):
    """λ_t = scale · R² (k+1)/(k−t+2): expected loss at most 20 R²D²/(k+1) at scale 13/3 in k ≥ 2
    steps.

    The growth is hyperbolic, from scale·R² at t = 1 to scale·R²(k+1)/2 at t = k, so k must be known
    beforehand. The guarantee is for the worst case; on benign tasks a smaller scale is often much
    better. At scale 1/4 ``fl.upper_bound`` proves 0.282, 0.305, 0.318 and 0.324 R²D²/k in k = 16,
    64, 256 and 1024 steps (derived, unpublished), where the paper's 13/3 has 0.869, 0.974, 1.008
    and 1.019.

    Parameters
    ----------
    scale : float, default 13/3
        Nonnegative factor; the theorem is for 13/3, and 0 is no regularization at all.

    Examples
    --------
    >>> import forgetless as fl
    >>> fl.schedules.increasing(scale=1.0)(3, radius=1.0).coefficient.round(4).tolist()
    [1.0, 1.3333, 2.0]

    References
    ----------
    Levinstein et al. (2025), Theorem "Optimal rates for increasing regularization" (i), Section
    4.2, upper.
    """

    scale: float = 13 / 3

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", validate.number("scale", self.scale, _SCALE_HINT))

    def build(self, k: int, square: float) -> Ridge:
        return Ridge(self.scale * square / _decay(k))


@dataclass(frozen=True)
class FixedBudget(Preset):
    """N gradient steps of size γ = (1 − (1 − 1/ln k)^{1/N})/R²: the same guarantee as ``Fixed``,
    for every N.

    The paper fixes γ and derives a real N; here N is a parameter and γ follows, so nothing is
    rounded.

    Parameters
    ----------
    n_steps : int, default 1
        N ≥ 1.

    Examples
    --------
    >>> import forgetless as fl
    >>> f = fl.schedules.fixed_budget(n_steps=4)(100, radius=1.0)
    >>> f.table(1.0).round(6).item()  # 1/ln 100
    0.217147

    References
    ----------
    Levinstein et al. (2025), Corollary "Near-optimal rates via fixed regularization strength" (ii),
    Section 4.1, upper, for k ≥ 3.
    """

    n_steps: int = 1

    def __post_init__(self) -> None:
        checked = validate.integer(
            "n_steps", self.n_steps, 1, "give a whole number of gradient steps"
        )
        object.__setattr__(self, "n_steps", checked)

    def build(self, k: int, square: float) -> GradientDescent:
        check_horizon(
            k,
            3,
            "fixed_budget",
            "1/ln k exceeds 1 below; use schedules.constant(fl.GradientDescent(...))",
        )
        return GradientDescent(
            self.n_steps,
            _per_square(-math.expm1(math.log1p(-1 / math.log(k)) / self.n_steps), square),
        )


@dataclass(frozen=True)
class IncreasingBudget(Preset):
    """N_t gradient steps of size γ_t = η_t/N_t, η_t = (k−t+2)/(scale·R²(k+1)): the guarantee of
    ``Increasing``.

    The paper's N_t = η_t/γ_t relates real numbers; choosing N_t and letting γ_t follow keeps the
    theorem exact.

    Parameters
    ----------
    n_steps : int or sequence of k ints, default 1
        N_t ≥ 1, one for all steps or one per step.
    scale : float, default 13/3
        Positive factor, as in ``Increasing``; γ_t R² < 1 needs N_t > 1/scale.

    Examples
    --------
    >>> import forgetless as fl
    >>> fl.schedules.increasing_budget(n_steps=2, scale=1.0)(3,
    ...     radius=1.0).step_size.round(4).tolist()
    [0.5, 0.375, 0.25]

    References
    ----------
    Levinstein et al. (2025), Theorem "Optimal rates for increasing regularization" (ii), Section
    4.2, upper.
    """

    n_steps: Any = 1
    scale: float = 13 / 3

    def __post_init__(self) -> None:
        checked = validate.integers_per_step(
            "n_steps", self.n_steps, "give whole numbers of gradient steps"
        )
        object.__setattr__(
            self, "n_steps", checked if isinstance(checked, int) else tuple(checked.tolist())
        )
        object.__setattr__(
            self, "scale", validate.number("scale", self.scale, _SCALE_HINT, positive=True)
        )

    def build(self, k: int, square: float) -> GradientDescent:
        n_steps = np.asarray(self.n_steps)
        if n_steps.ndim and len(n_steps) != k:
            raise ValueError(
                f"n_steps has {len(n_steps)} values but k is {k}; give one integer, or one per step"
            )
        n_steps = np.broadcast_to(n_steps, (k,))
        relative = _decay(k) / self.scale / n_steps
        if relative.max() >= 1:
            at = int(relative.argmax())
            raise ValueError(
                f"n_steps={n_steps[at]} with scale={self.scale} makes the step size at step"
                f" {at + 1} {relative[at]:.3g}/R², which must be below 1/R²; use n_steps of at"
                f" least {math.floor(relative[at] * n_steps[at]) + 1}"
            )
        return GradientDescent(n_steps, _per_square(relative, square))


@dataclass(frozen=True)
class Cyclic(Preset):
    """λ = 2MR²√ln(k/M) at every step, for tasks in a fixed cyclic order and k > M steps.

    Parameters
    ----------
    n_tasks : int
        M, the length of the cycle.

    Examples
    --------
    >>> import forgetless as fl
    >>> round(fl.schedules.cyclic(10)(100, radius=1.0).coefficient, 4)
    30.3485

    References
    ----------
    Cai & Diakonikolas (2025), last-iterate rate of the incremental proximal method, upper; as
    stated by Levinstein et al. (2025), Section 6.
    """

    n_tasks: int

    def __post_init__(self) -> None:
        checked = validate.integer(
            "n_tasks", self.n_tasks, 1, "give the number of tasks in one cycle"
        )
        object.__setattr__(self, "n_tasks", checked)

    def build(self, k: int, square: float) -> Ridge:
        reason = f"the coefficient is undefined until one cycle of {self.n_tasks} tasks has passed"
        check_horizon(k, self.n_tasks + 1, "cyclic", reason)
        return Ridge(2 * self.n_tasks * square * math.sqrt(math.log(k / self.n_tasks)))


def _decay(k: int) -> NDArray[np.float64]:
    """Return (k−t+2)/(k+1) for t = 1..k, the linear decay of the step sizes η_t."""
    return np.arange(k + 1, 1, -1) / (k + 1)


def _per_square(relative: Any, square: float) -> Any:
    # With R = 0 all tasks are zero, and any step size gives the same (trivial) step.
    return relative / (square if square > 0 else 1.0)


fixed = Fixed
increasing = Increasing
fixed_budget = FixedBudget
increasing_budget = IncreasingBudget
cyclic = Cyclic


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
                f"filter must be a filter, got {self.filter!r}; wrap a coefficient as"
                " fl.Ridge(coefficient)"
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
            validate.numbers_per_step(
                "coefficients", coefficients, "use 0 for an unregularized step"
            )
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
    """No regularization first, then λ_t = scale · R² · j at the j-th of the last steps: an average
    over the tail.

    With scale 1 the filter factor at the radius is 1/(1 + j), as if the iterates of the ramp were
    averaged. This is the shape that exact optimisation finds on most collections
    (``fl.optimal_schedule``); no theorem covers it.

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
        length = validate.number(
            "length", self.length, "give a part of the horizon, such as 1/8", positive=True
        )
        if length > 1:
            raise ValueError(
                f"length must lie in (0, 1], got {length}; give a part of the horizon, such as 1/8"
            )
        object.__setattr__(self, "length", length)
        object.__setattr__(
            self,
            "scale",
            validate.number("scale", self.scale, "1 averages the tail; 0 has no ramp"),
        )

    def build(self, k: int, square: float) -> Ridge:
        n_steps = max(1, round(self.length * k))
        return Ridge(self.scale * square * np.maximum(0.0, np.arange(1, k + 1) - (k - n_steps)))


constant = Constant
from_coefficients = Coefficients
end_ramp = EndRamp
