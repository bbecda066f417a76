"""Laws of fresh random tasks, and the moments of their steps that expectations need.

Task t is drawn anew: X_t with n rows, y_t = X_t v_t + σε with a teacher v_t. A step is w ← w −
Φ_t(w − X_t⁺y_t), Φ_t = φ_t(X_tᵀX_t). No rotation of the features changes the law of X. The mean
squares E_t[i] = E‖w_t − v_i‖² then obey **the ensemble equation**

    E_t[i] = (1 − a) E_{t−1}[i] + a D_ti − (a − a₂) E_{t−1}[t] + σ²ν,

with a = E tr Φ/d, a₂ = E tr Φ²/d, ν = E Σφ²/ξ over the eigenvalues ξ of XᵀX, and D_ti = E‖v_t −
v_i‖². Proof: w_t − v_i = (I − Φ)z + Φu plus noise, with z = w_{t−1} − v_i and u = v_t − v_i. By the
invariance E Φ = aI and E Φ² = a₂I, so that E‖(I − Φ)z + Φu‖² = (1 − 2a + a₂)‖z‖² + a₂‖u‖² + 2(a −
a₂)⟨z, u⟩, and 2⟨z, u⟩ = ‖z‖² + ‖u‖² − ‖w_{t−1} − v_t‖².
"""

from abc import ABC, abstractmethod
from typing import Any, NamedTuple, Protocol

import numpy as np

from forgetless._core import validate
from forgetless._core.arrays import Floats
from forgetless.ensembles.teachers import Teachers
from forgetless.filters import Filter

NOISE_HINT = "it is the standard deviation of the labels' noise; use 0 for none"


class StepMoments(NamedTuple):
    """Moments of T steps, T being 1 for a fixed filter, each of shape (T,)."""

    learned: Floats  # a
    squared: Floats  # a₂
    noise: Floats  # ν
    remaining: Floats  # 1 − 2a + a₂, a sum of squares, which does not cancel


class Spectrum(Protocol):
    """The law of the singular values of X, by values of functions at nodes; see ``Wishart``."""

    singular_values: Floats
    rank: int

    def sum(self, values: Floats) -> Floats:
        """Return E Σ f(s_i)."""

    @property
    def mean_inverse(self) -> float:
        """E Σ 1/s_i²."""


class Ensemble(ABC):
    """Base of all ensembles, which are dataclasses."""

    n_features: int
    n_rows: int
    noise: float
    teachers: Teachers

    def _check(self, **values: Any) -> None:
        """Set validated fields, and validate what all ensembles have."""
        values["noise"] = validate.number("noise", self.noise, NOISE_HINT)
        for name, value in values.items():
            object.__setattr__(self, name, value)
        for name in ("n_features", "n_rows"):
            size = validate.integer(name, getattr(self, name), 1, "a task is not empty")
            object.__setattr__(self, name, size)
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

    @property
    @abstractmethod
    def radius(self) -> float:
        """The norm of X that schedules are scaled by."""

    @property
    @abstractmethod
    def mean_square(self) -> float:
        """E ‖X‖_F² / d, so that E‖Xz‖² is as many times ‖z‖²."""

    @property
    @abstractmethod
    def spectrum(self) -> Spectrum:
        """The law of the singular values of X."""

    @property
    @abstractmethod
    def method(self) -> str:
        """The name of the computation of the moments."""

    @property
    @abstractmethod
    def error(self) -> float:
        """An estimate of the relative error of the moments."""

    @abstractmethod
    def fill(self, X: Floats, rng: np.random.Generator) -> None:
        """Write independent draws of X into an array of shape (n_trials, n, d)."""

    def mean_factor(self, coefficient: float) -> float:
        """Return a(λ) = E tr[XᵀX(XᵀX + λ)⁻¹]/d of a task."""
        xi = self.spectrum.singular_values**2
        return float(self.spectrum.sum(1.0 / (1.0 + coefficient / xi))) / self.n_features

    def moments(self, filter_: Filter) -> StepMoments:
        """Return the moments of the steps of a filter."""
        spectrum = self.spectrum
        d = self.n_features
        factors, residuals = self._factors(filter_)
        noise = spectrum.sum((factors / spectrum.singular_values) ** 2)
        unregularized = np.atleast_1d(np.asarray(filter_.strength())) == 0.0
        return StepMoments(
            learned=spectrum.sum(factors) / d,
            squared=spectrum.sum(factors**2) / d,
            noise=np.where(unregularized, spectrum.mean_inverse, noise),
            remaining=(spectrum.sum(residuals**2) + (d - spectrum.rank)) / d,
        )

    def _factors(self, filter_: Filter) -> tuple[Floats, Floats]:
        """Return φ and 1 − φ at the nodes, each of shape (T, q)."""
        values = self.spectrum.singular_values
        factors = np.asarray(filter_.factors_of_singular(values), dtype=np.float64)
        residuals = np.asarray(filter_.residual_factors(values), dtype=np.float64)
        if not (np.isfinite(factors).all() and np.isfinite(residuals).all()):
            raise ValueError(f"{filter_!r} has factors that are not finite on this ensemble")
        return np.atleast_2d(factors), np.atleast_2d(residuals)

    def sample(self, n_trials: int, rng: np.random.Generator) -> Floats:
        """Return independent draws of X, of shape (n_trials, n, d)."""
        X = np.empty((n_trials, self.n_rows, self.n_features))
        self.fill(X, rng)
        return X
