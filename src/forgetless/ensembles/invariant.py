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
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np

from forgetless._core import validate
from forgetless._core.arrays import Floats
from forgetless.ensembles._wishart import Wishart, wishart
from forgetless.ensembles.teachers import Teachers, one
from forgetless.filters import Filter

_NOISE_HINT = "it is the standard deviation of the labels' noise; use 0 for none"


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
        values["noise"] = validate.number("noise", self.noise, _NOISE_HINT)
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
        unregularized = np.atleast_1d(filter_.strength()) == 0.0
        return StepMoments(
            learned=spectrum.sum(factors) / d,
            squared=spectrum.sum(factors**2) / d,
            noise=np.where(unregularized, spectrum.mean_inverse, noise),
            remaining=(spectrum.sum(residuals**2) + (d - spectrum.rank)) / d,
        )

    def _factors(self, filter_: Filter) -> tuple[Floats, Floats]:
        """Return φ and 1 − φ at the nodes, each of shape (T, q)."""
        eigenvalues = self.spectrum.singular_values**2
        factors = filter_.table(eigenvalues)
        residuals = np.atleast_2d(filter_.broadcast(eigenvalues).remaining(eigenvalues))
        if not (np.isfinite(factors).all() and np.isfinite(residuals).all()):
            raise ValueError(f"{filter_!r} has factors that are not finite on this ensemble")
        return factors, residuals

    def sample(self, n_trials: int, rng: np.random.Generator) -> Floats:
        """Return independent draws of X, of shape (n_trials, n, d)."""
        X = np.empty((n_trials, self.n_rows, self.n_features))
        self.fill(X, rng)
        return X


# outermost nodes, and the fraction of a mean that they may contribute
_OUTER, _NEGLIGIBLE = 16, 1e-13
# smallest λ > 0 that the nodes near s = 0 resolve, where n and d differ by less than two
_WEAKEST = 1e-15


class _FixedSpectrum:
    """The singular values of one matrix."""

    def __init__(self, X: Floats) -> None:
        values = np.linalg.svd(X, compute_uv=False)
        self.singular_values = values[
            values > values.max(initial=0.0) * max(X.shape) * np.finfo(float).eps
        ]
        self.rank = len(self.singular_values)

    def sum(self, values: Floats) -> Floats:
        """Return Σ f(s_i)."""
        return np.asarray(np.sum(values, axis=-1))

    @property
    def mean_inverse(self) -> float:
        """Σ 1/s_i²."""
        return float(np.sum(self.singular_values**-2.0))


@dataclass(frozen=True, eq=False)
class Gaussian(Ensemble):
    """Fresh tasks with independent standard Gaussian entries.

    Parameters
    ----------
    n_features, n_rows : int
        d and n, the same for all tasks.
    noise : float, default 0
        Standard deviation σ of the noise of labels.
    teachers : Teachers, default one teacher of norm 1
        From ``fl.ensembles.teachers``.

    Examples
    --------
    Without regularization every task halves the squared distance to the teacher, if it has half as
    many rows as features (Lin et al., 2023):

    >>> import forgetless as fl
    >>> tasks = fl.ensembles.Gaussian(n_features=10, n_rows=5)
    >>> fl.expect(tasks, "none", k=3, metrics="distance", record="all").distance.tolist()
    [0.5, 0.25, 0.125]
    """

    n_features: int
    n_rows: int
    noise: float = 0.0
    teachers: Teachers = field(default_factory=one)

    def __post_init__(self) -> None:
        self._check()

    @property
    def radius(self) -> float:
        """√n + √d, which the mean norm of X does not exceed (Davidson and Szarek, 2001)."""
        return float(np.sqrt(self.n_rows) + np.sqrt(self.n_features))

    @property
    def mean_square(self) -> float:
        return float(self.n_rows)

    @property
    def spectrum(self) -> Wishart:
        return wishart(self.n_rows, self.n_features)

    @property
    def method(self) -> str:
        return "Wishart moments"

    @property
    def error(self) -> float:
        return self.spectrum.error

    def _factors(self, filter_: Filter) -> tuple[Floats, Floats]:
        factors, residuals = super()._factors(filter_)
        # What lies beyond the nodes is less than what the outermost ones contribute.
        outer = np.abs(residuals[:, -_OUTER:] ** 2 @ self.spectrum.weights[-_OUTER:])
        if (outer > _NEGLIGIBLE * np.abs(residuals**2 @ self.spectrum.weights)).any():
            raise ValueError(
                f"schedule multiplies errors by up to {np.abs(residuals).max():.2g} in rare tasks,"
                " which dominate the expectation; use step sizes of at most"
                f" {2 / self.spectrum.singular_values[-1] ** 2:.3g}"
            )
        strengths = np.atleast_1d(filter_.strength())
        weak = strengths[(strengths > 0) & (strengths < _WEAKEST)]
        if weak.size and abs(self.n_rows - self.n_features) < 2:
            raise ValueError(
                f"λ must be 0 or at least {_WEAKEST:g} for square tasks, got {weak[0]:.3g}"
            )
        return factors, residuals

    def fill(self, X: Floats, rng: np.random.Generator) -> None:
        rng.standard_normal(out=X)


@dataclass(frozen=True, eq=False)
class Rotated(Ensemble):
    """Fresh tasks that are one matrix rotated at random: any spectrum, such as that of real rows.

    Parameters
    ----------
    X : array of shape (n, d)
        Every task is X Qᵀ with an independent uniformly random orthogonal Q.
    noise, teachers
        As in ``Gaussian``.

    Examples
    --------
    >>> import forgetless as fl
    >>> tasks = fl.ensembles.Rotated([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    >>> fl.expect(tasks, fl.Ridge(1.0), k=1, metrics="distance").distance.round(12).tolist()
    [0.5]
    """

    X: Floats = field(repr=False)
    noise: float = 0.0
    teachers: Teachers = field(default_factory=one)
    n_rows: int = field(init=False)
    n_features: int = field(init=False)

    def __post_init__(self) -> None:
        try:
            X = np.array(self.X, dtype=np.float64)
        except (TypeError, ValueError):
            raise TypeError(f"X must be an array of numbers, got {type(self.X).__name__}") from None
        if X.ndim != 2 or X.size == 0 or not np.isfinite(X).all():
            raise ValueError(
                f"X must be a finite matrix with at least one row, got shape {X.shape}"
            )
        self._check(X=X, n_rows=X.shape[0], n_features=X.shape[1])

    @property
    def radius(self) -> float:
        return float(self.spectrum.singular_values.max(initial=0.0))

    @property
    def mean_square(self) -> float:
        return float(np.sum(self.spectrum.singular_values**2) / self.n_features)

    @cached_property
    def spectrum(self) -> _FixedSpectrum:
        return _FixedSpectrum(self.X)

    @property
    def method(self) -> str:
        return "one spectrum"

    @property
    def error(self) -> float:
        return 1e-14

    def fill(self, X: Floats, rng: np.random.Generator) -> None:
        Q, R = np.linalg.qr(rng.standard_normal((len(X), self.n_features, self.n_features)))
        X[:] = self.X @ (Q * np.sign(np.einsum("tii->ti", R))[:, None, :])
