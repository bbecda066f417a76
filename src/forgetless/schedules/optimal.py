"""Schedules with a proof of optimality: minimax for exchangeable orders, and ``steady`` for label
noise and a walking teacher.
"""

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from forgetless._core import validate
from forgetless._core.arrays import Floats
from forgetless.filters import Filter, GradientDescent, Ridge
from forgetless.schedules.base import Preset

_NOISE_HINT = (
    "σ√(k+1) is the ratio of the two terms that η balances; 0 for labels that one model fits"
)


def _checked_eta(eta: Any) -> float:
    value = validate.number(
        "eta", eta, "1 is for labels that one model fits; noise needs less", positive=True
    )
    if value > 1:
        raise ValueError(
            f"eta must lie in (0, 1], got {value}; 1 is for labels that one model fits"
        )
    return value


def _best_eta(eta: float, noise: float, k: int) -> float:
    """Return η/(1 + σ√(k+1))."""
    return eta / (1 + noise * math.sqrt(k + 1))


def _linear_decay_to_zero(k: int) -> Floats:
    """Return (k+1−t)/(k+1) for t = 1..k."""
    return np.arange(k, 0, -1) / (k + 1)


@dataclass(frozen=True)
class Minimax(Preset):
    """λ_t = R²((k+1)/(η(k+1−t)) − 1), with η = 1 λ_t = R²t/(k+1−t): the exactly optimal worst case.

    For tasks in exchangeable order (with replacement, without, rows of a shuffled table) that one
    model fits, the expected loss on the next task is at most R²D²/(2(k+1)) at η = 1, and no
    algorithm has a smaller bound (derived here, not published: docs/optimal-schedule.md). With
    replacement that is the average loss. On easy collections other schedules have smaller losses:
    the guarantee is for the worst one.

    Parameters
    ----------
    eta : float, default 1
        η in (0, 1]: below 1 for noisy labels, where ``fl.oracle_bound`` gives the bound and the
        best η.
    noise : float, default 0
        σ = √E‖∇L(w⋆; τ)‖² / (R²‖w₀ − w⋆‖), the size of the gradients that remain at the joint
        solution w⋆. It divides η by 1 + σ√(k+1), which is the best η for this noise.

    Examples
    --------
    >>> import forgetless as fl
    >>> fl.schedules.minimax()(3, radius=1.0).coefficient.round(4).tolist()
    [0.3333, 1.0, 3.0]

    References
    ----------
    Derived here, Theorem X of docs/optimal-schedule.md, tight. Step sizes that decay linearly to
    zero have the optimal rate of last iterates for Lipschitz losses: Zamani & Glineur (2023),
    Defazio et al. (2023).
    """

    eta: float = 1.0
    noise: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "eta", _checked_eta(self.eta))
        object.__setattr__(self, "noise", validate.number("noise", self.noise, _NOISE_HINT))

    def build(self, k: int, square: float) -> Filter:
        eta, t = _best_eta(self.eta, self.noise, k), np.arange(1, k + 1)
        # 1/κ_t − 1 without its cancellation
        relative = ((1 - eta) * (k + 1) + eta * t) / (eta * (k + 1 - t))
        return Ridge(relative * square)


@dataclass(frozen=True)
class MinimaxBudget(Preset):
    """N gradient steps of size γ_t with 1 − (1 − γ_tR²)^N = η(k+1−t)/(k+1): the guarantee of
    ``Minimax``.

    One step has the size γ_t = η(k+1−t)/((k+1)R²).

    Parameters
    ----------
    n_steps : int, default 1
        N ≥ 1.
    eta, noise
        As in ``Minimax``.

    Examples
    --------
    >>> import forgetless as fl
    >>> fl.schedules.minimax_budget()(3, radius=1.0).step_size.tolist()
    [0.75, 0.5, 0.25]
    """

    n_steps: int = 1
    eta: float = 1.0
    noise: float = 0.0

    def __post_init__(self) -> None:
        hint = "give a whole number of gradient steps"
        object.__setattr__(self, "n_steps", validate.integer("n_steps", self.n_steps, 1, hint))
        object.__setattr__(self, "eta", _checked_eta(self.eta))
        object.__setattr__(self, "noise", validate.number("noise", self.noise, _NOISE_HINT))

    def build(self, k: int, square: float) -> Filter:
        sizes = _best_eta(self.eta, self.noise, k) * _linear_decay_to_zero(k)
        if self.n_steps > 1:
            sizes = -np.expm1(np.log1p(-sizes) / self.n_steps)
        return GradientDescent(self.n_steps, sizes / (square if square > 0 else 1.0))


minimax = Minimax
minimax_budget = MinimaxBudget


class _MeanFactor(Protocol):
    """Tasks or an ensemble, by the mean filter factor of a ridge step."""

    @property
    def span_dimension(self) -> int:
        """Number of dimensions d in which tasks have rows."""

    def mean_factor(self, coefficient: float) -> float:
        """Return a(λ) = E tr[XᵀX(XᵀX + λ)⁻¹]/d of a task."""


@dataclass(frozen=True)
class Steady(Preset):
    """1/λ_{t+1} = (1 − a(λ_t))/λ_t + q²/(dσ²), from λ_1 = dσ²/D²: the best strength for label
    noise, a walking solution and its distance.

    a(λ) = E tr[XᵀX(XᵀX + λ)⁻¹]/d is the mean filter factor on the tasks at hand, in whose d
    dimensions the schedule is computed. For fresh tasks with rotation-invariant rows it is optimal
    among all spectral filters and for every number of steps (a scalar Kalman filter; derived here,
    not published: docs/ensembles.md). Without a walk λ_t increases, for standard Gaussian rows by
    about nλ/(λ + n + d) a task, which tends to n. With a walk it tends to the λ with a(λ)/λ =
    q²/(dσ²), about (σ/q)√(nd) for these rows, from below or from above.

    Parameters
    ----------
    noise : float
        σ, the standard deviation of the labels' noise; 0 gives λ = 0.
    walk : float, default 0
        q, the root mean square distance that the solution moves from task to task.
    distance : float, default 1
        D, the root mean square distance of the start from the solution of the first task.

    Examples
    --------
    >>> import forgetless as fl
    >>> tasks = fl.ensembles.Gaussian(n_features=60, n_rows=12, noise=0.2**0.5)
    >>> filters = fl.schedules.resolve(fl.schedules.steady(0.2**0.5), k=4, radius=tasks.radius,
    ...     spectrum=tasks)
    >>> filters.coefficient.round(2).tolist()
    [12.0, 14.3, 16.94, 19.92]
    """

    noise: float
    walk: float = 0.0
    distance: float = 1.0

    def __post_init__(self) -> None:
        hints = {
            "noise": "0 is for labels without noise",
            "walk": "0 is for a solution that stays",
        }
        for name, hint in hints.items():
            object.__setattr__(self, name, validate.number(name, getattr(self, name), hint))
        distance = validate.number(
            "distance", self.distance, "it is that of the start from the solution", positive=True
        )
        object.__setattr__(self, "distance", distance)

    def build(self, k: int, square: float) -> Filter:
        raise ValueError(
            "schedules.steady needs the singular values of tasks, which are not at hand here; use"
            " it with expect, simulate or ContinualRidge, or take λ_1..λ_k from"
            " schedules.resolve(schedule, k, radius, spectrum=tasks)"
        )

    def for_spectrum(self, k: int, spectrum: _MeanFactor) -> Ridge:
        """Return the filter of k steps on tasks or an ensemble."""
        coefficients = np.zeros(k)
        if self.noise > 0:
            unit, inverse = self._start(spectrum)
            for t in range(k):
                coefficients[t] = 1.0 / inverse
                inverse = (
                    1.0 - spectrum.mean_factor(coefficients[t])
                ) * inverse + self.walk**2 / unit
        return Ridge(coefficients)

    def _start(self, spectrum: _MeanFactor) -> tuple[float, float]:
        """Return dσ² and 1/λ_1; ValueError where they are no floats."""
        with np.errstate(all="ignore"):
            unit = float(max(1, spectrum.span_dimension) * np.square(self.noise))
            inverse = float(np.square(np.float64(self.distance)) / unit)
            walk = float(np.square(np.float64(self.walk)) / unit)
        if not (
            0 < unit < math.inf
            and 0 < inverse < math.inf
            and walk < math.inf
            and (walk > 0 or not self.walk)
        ):
            raise ValueError(
                "noise, walk and distance must have ratios of squares that are floats, got"
                f" {self!r}"
            )
        return unit, inverse

    def limit(self, spectrum: _MeanFactor) -> float:
        """Return the λ that the coefficients tend to: infinite without a walk, 0 without noise."""
        if self.noise == 0 or self.walk == 0:
            return math.inf if self.noise > 0 else 0.0
        from scipy.optimize import brentq

        target = math.log(self.walk**2 / self._start(spectrum)[0])

        def excess(logarithm: float) -> float:
            factor = max(spectrum.mean_factor(math.exp(logarithm)), 1e-300)
            return math.log(factor) - logarithm - target

        low, high = -1.0, 1.0
        while excess(low) < 0 and low > -600:
            low *= 2.0
        while excess(high) > 0 and high < 600:
            high *= 2.0
        return math.exp(brentq(excess, low, high, xtol=1e-13)) if excess(low) >= 0 else 0.0


steady = Steady
