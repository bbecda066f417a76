"""The interface of ensembles: laws of fresh random tasks, and the moments of their steps that
expectations need.

Task t is drawn anew: X_t with n rows, y_t = X_t v_t + σε with a teacher v_t. A step is w ← w −
Φ_t(w − X_t⁺y_t), Φ_t = φ_t(X_tᵀX_t). In coordinates in which flipping the sign of any one does not
change the law of X, the second moments E_t[i] = E (w_t − v_i)², taken along each coordinate, obey
**the ensemble equation**

    E_t[i] = (I − A) E_{t−1}[i] + A D_ti − (A − S) E_{t−1}[t] + σ²ν,

with A = diag(E Φ), S_jl = E Φ_jl², ν the diagonal of E Φ X⁺X⁺ᵀ Φ, and D_ti the second moments of
v_t − v_i. Proof: along coordinate j, w_t − v_i = Σ_l (I − Φ)_jl z_l + Φ_jl u_l plus noise, z =
w_{t−1} − v_i, u = v_t − v_i; products of two different columns vanish by the flips, and 2 z_l u_l =
z_l² + u_l² − (w_{t−1} − v_t)_l². If no rotation changes the law of X, the sum over the coordinates
obeys the same equation with a = E tr Φ/d, a₂ = E tr Φ²/d and ν = E Σφ²/ξ.
"""

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np

from forgetless._core import validate
from forgetless._core.arrays import Floats
from forgetless.ensembles.teachers import Teachers
from forgetless.filters import Filter

NOISE_HINT = "it is the standard deviation of the labels' noise; use 0 for none"


class StepMoments(NamedTuple):
    """Moments of T steps, T being 1 for a fixed filter, in c coordinates."""

    learned: Floats  # A: (T, c)
    squared: Floats  # S: (T, c, c)
    noise: Floats  # ν: (T, c)
    remaining: Floats  # I − 2A + S, of sums of squares, which do not cancel: (T, c, c)


class Ensemble(ABC):
    """Base of all ensembles, which are dataclasses."""

    n_features: int
    n_rows: int
    noise: float
    teachers: Teachers

    def _check(self, **values: Any) -> None:
        """Set validated fields, and validate what all ensembles have."""
        for name, value in {
            **values,
            "noise": validate.number("noise", self.noise, NOISE_HINT),
        }.items():
            object.__setattr__(self, name, value)
        for name in ("n_features", "n_rows"):
            object.__setattr__(
                self, name, validate.integer(name, getattr(self, name), 1, "a task is not empty")
            )
        if not isinstance(self.teachers, Teachers):
            raise TypeError(
                "teachers must be one of fl.ensembles.teachers, such as teachers.one(), got"
                f" {self.teachers!r}"
            )
        self.teachers.check(self.n_features)

    @property
    def span_dimension(self) -> int:
        """Number of dimensions in which tasks have rows."""
        return self.n_features

    @abstractmethod
    def mean_factor(self, coefficient: float) -> float:
        """Return a(λ) = E tr[XᵀX(XᵀX + λ)⁻¹]/d of a task."""

    @property
    @abstractmethod
    def radius(self) -> float:
        """The norm of X that schedules are scaled by."""

    @property
    @abstractmethod
    def row_weights(self) -> Floats:
        """The mean of ‖X z‖² for a z with second moments 1 along one coordinate and 0 along others,
        of shape (c,).
        """

    @abstractmethod
    def mean_outputs(self, z: Floats) -> Floats:
        """Return the mean of ‖X z‖² for given vectors z of shape (..., d)."""

    @abstractmethod
    def moments(self, filter_: Filter) -> StepMoments:
        """Return the moments of the steps of a filter."""

    def sample(self, n_trials: int, rng: np.random.Generator) -> Floats:
        """Return independent draws of X, of shape (n_trials, n, d)."""
        X = np.empty((n_trials, self.n_rows, self.n_features))
        self.fill(X, rng)
        return X

    @abstractmethod
    def fill(self, X: Floats, rng: np.random.Generator) -> None:
        """Write independent draws into an array of shape (n_trials, n, d)."""

    @abstractmethod
    def distances(self, k: int) -> Floats:
        """Return the second moments of differences of the start and the teachers, of shape (P + 1,
        P + 1, c).
        """

    @property
    @abstractmethod
    def method(self) -> str:
        """The name of the computation of the moments."""

    @property
    @abstractmethod
    def error(self) -> float:
        """An estimate of the relative error of the moments."""


def checked_factors(filter_: Filter, singular_values: Floats) -> tuple[Floats, Floats]:
    """Return φ and 1 − φ of shape (T, q)."""
    factors = np.atleast_2d(
        np.asarray(filter_.factors_of_singular(singular_values), dtype=np.float64)
    )
    residuals = np.atleast_2d(
        np.asarray(filter_.residual_factors(singular_values), dtype=np.float64)
    )
    if not (np.isfinite(factors).all() and np.isfinite(residuals).all()):
        raise ValueError(f"{filter_!r} has factors that are not finite on this ensemble")
    return factors, residuals


def is_unregularized(filter_: Filter) -> Any:
    """Return whether each step solves its task exactly, of shape (T, 1)."""
    return np.atleast_1d(np.asarray(filter_.strength()))[:, None] == 0.0
