"""The minimax schedule: the smallest possible worst case of the loss on the next task, for
exchangeable orders.
"""

import math
from dataclasses import dataclass
from typing import Any

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


def best_eta(eta: float, noise: float, k: int) -> float:
    """Return η/(1 + σ√(k+1))."""
    return eta / (1 + noise * math.sqrt(k + 1))


def linear_decay_to_zero(k: int) -> Floats:
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
        eta, t = best_eta(self.eta, self.noise, k), np.arange(1, k + 1)
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
        sizes = best_eta(self.eta, self.noise, k) * linear_decay_to_zero(k)
        if self.n_steps > 1:
            sizes = -np.expm1(np.log1p(-sizes) / self.n_steps)
        return GradientDescent(self.n_steps, sizes / (square if square > 0 else 1.0))


minimax = Minimax
minimax_budget = MinimaxBudget
