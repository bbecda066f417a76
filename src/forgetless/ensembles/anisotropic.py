"""Gaussian rows with any covariance: exact for one gradient step, deterministic equivalents for
ridge steps.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from forgetless._core import validate
from forgetless._core.arrays import Floats
from forgetless.ensembles.base import Ensemble, StepMoments
from forgetless.ensembles.teachers import Teachers, one
from forgetless.errors import NoExactLawError
from forgetless.filters import Filter, GradientDescent


@dataclass(frozen=True, eq=False)
class Anisotropic(Ensemble):
    """Fresh tasks whose rows are independent Gaussian vectors with a covariance.

    Expectations are exact for budgets of one gradient step. For ridge steps and projections the
    moments of a step are replaced by their limits for many rows and features (deterministic
    equivalents), with ``approximate=True``. The relative error of the loss after ten tasks with
    eigenvalues 1/i was 5.5 % at 5 rows, 2.5 % at 20 and 0.9 % at 60 with weak regularization (λ =
    0.05), and below 1 % at λ = 1. It is larger where about as many rows as features are weakly
    regularized; a projection of at least as many rows as features is exact.

    Parameters
    ----------
    covariance : array of shape (d, d), or (d,) for the eigenvalues of a diagonal one
    n_rows : int
    noise, teachers
        As in ``Gaussian``.
    approximate : bool, default False
        Whether deterministic equivalents may be used.

    Examples
    --------
    One stochastic gradient step on a single row per task:

    >>> import forgetless as fl
    >>> tasks = fl.ensembles.Anisotropic([1.0, 0.25], n_rows=1)
    >>> fl.expect(tasks, fl.GradientDescent(1, 0.1), k=1,
    ...     metrics="distance").distance.round(4).tolist()
    [0.8934]
    """

    covariance: Floats = field(repr=False)
    n_rows: int
    noise: float = 0.0
    teachers: Teachers = field(default_factory=one)
    approximate: bool = False
    n_features: int = field(init=False)

    def __post_init__(self) -> None:
        matrix = _covariance(self.covariance)
        self._check(covariance=matrix, n_features=len(matrix))

    @cached_property
    def _eigen(self) -> tuple[Floats, Floats]:
        values, vectors = np.linalg.eigh(self.covariance)
        # Eigenvalues of the size of rounding are those of a singular covariance.
        return (
            np.where(values > len(values) * np.finfo(float).eps * values[-1], values, 0.0),
            vectors,
        )

    @property
    def radius(self) -> float:
        """√(n‖Σ‖) + √tr Σ, which the mean norm of X does not exceed (Gordon, 1985)."""
        variances = self._eigen[0]
        return float(np.sqrt(self.n_rows * variances.max()) + np.sqrt(variances.sum()))

    @property
    def row_weights(self) -> Floats:
        return self.n_rows * self._eigen[0]

    def mean_outputs(self, z: Floats) -> Floats:
        return np.asarray(self.n_rows * np.sum((z @ self.covariance) * z, axis=-1))

    def mean_factor(self, coefficient: float) -> float:
        raise NoExactLawError(
            "schedules of the mean filter factor are for rows without a preferred direction; use"
            " Gaussian or Rotated"
        )

    def distances(self, k: int) -> Floats:
        n_points = int(self.teachers.order(k).max()) + 1
        validate.check_memory(
            3.0 * n_points**2 * self.n_features,
            f"{n_points} teachers",
            "use fewer steps or simulate",
        )
        return self.teachers.coordinate_distances(k, self._eigen[1])

    @property
    def method(self) -> str:
        return "deterministic equivalents, approximate" if self.approximate else "Gaussian moments"

    @property
    def error(self) -> float:
        """1e-14; with deterministic equivalents 1/n, an order of magnitude and not a bound."""
        return 1.0 / self.n_rows if self.approximate else 1e-14

    def moments(self, filter_: Filter) -> StepMoments:
        n_steps = filter_.horizon or 1
        validate.check_memory(
            3.0 * n_steps * self.n_features**2, f"{n_steps} steps", "use fewer steps or simulate"
        )
        if isinstance(filter_, GradientDescent) and np.all(np.asarray(filter_.n_steps) == 1):
            return self._gradient_step(np.atleast_1d(filter_.step_size))
        if not (filter_.explicit or filter_.is_projection):
            raise NoExactLawError(
                f"{type(filter_).__name__} has no expectation over anisotropic tasks but for one"
                " gradient step; use a ridge filter with approximate=True, or simulate"
            )
        if not self.approximate:
            raise NoExactLawError(
                "ridge steps have no exact expectation over anisotropic tasks; allow deterministic"
                " equivalents by Anisotropic(..., approximate=True), or use simulate"
            )
        strengths = np.broadcast_to(np.atleast_1d(filter_.strength()), (n_steps,))
        parts = [self._equivalent(float(strength)) for strength in strengths]
        return StepMoments(*(np.stack(each) for each in zip(*parts, strict=True)))

    def _gradient_step(self, step_sizes: Floats) -> StepMoments:
        """Return the moments of Φ = γXᵀX: E Φ_jl² = γ²n s_j s_l, on the diagonal γ²n(n + 2)s_j²."""
        n, s = self.n_rows, self._eigen[0]
        step = step_sizes[:, None]
        square = n * (np.outer(s, s) + (n + 1.0) * np.diag(s * s))
        squared = step[:, :, None] ** 2 * square
        learned = step * n * s
        identity = np.eye(len(s))
        return StepMoments(
            learned,
            squared,
            step**2 * n * s,
            identity - 2.0 * identity * learned[:, None] + squared,
        )

    def _equivalent(self, strength: float) -> tuple[Floats, Floats, Floats, Floats]:
        """Return A, S, ν and I − 2A + S of a ridge step for many rows: κ solves λ = κ(n − Σ s/(s +
        κ)).
        """
        n, s = self.n_rows, self._eigen[0]
        rank = int(np.count_nonzero(s))
        if strength == 0 and n >= rank:  # least squares, whose moments are exact
            seen = (s > 0).astype(np.float64)
            with np.errstate(divide="ignore"):
                noise = np.where(s > 0, 1.0 / s / (n - rank - 1) if n - rank >= 2 else np.inf, 0.0)
            return seen, np.diag(seen), noise, np.diag(1.0 - seen)
        kappa = _effective_strength(strength, n, s)
        # without variance and regularization nothing is learned
        total = np.where(s + kappa > 0, s + kappa, 1.0)
        left, c = np.where(s > 0, kappa / total, 1.0), s / total**2
        degrees = n - np.sum(s * c)
        residual = np.diag(left**2) + kappa**2 * np.outer(c, c) / degrees  # E (I − Φ)_jl²
        learned = 1.0 - left
        return learned, residual - np.eye(len(s)) + 2.0 * np.diag(learned), c / degrees, residual

    def fill(self, X: Floats, rng: np.random.Generator) -> None:
        values, vectors = self._eigen
        X[:] = (rng.standard_normal(X.shape) * np.sqrt(values)) @ vectors.T


def _effective_strength(strength: float, n: int, s: Floats) -> float:
    """Return κ with κ(n − Σ s/(s + κ)) = λ; for λ = 0 and n < d the positive one."""
    from scipy.optimize import brentq

    high = float(strength / n + s.sum() / n + s.max())  # there κn − Σ κs/(s + κ) ≥ κn − Σ s ≥ λ

    def excess(logarithm: float) -> float:
        kappa = np.exp(logarithm)
        return float(kappa * (n - np.sum(s / (s + kappa))) - strength)

    low = np.log(high)
    # the excess is negative below the root, and increases from there on
    while excess(low) > 0 and low > -600.0:
        low -= 1.0
    return float(np.exp(brentq(excess, low, np.log(high), xtol=1e-14)))


def _covariance(covariance: Any) -> Floats:
    matrix = np.array(covariance, dtype=np.float64)
    matrix = np.diag(matrix) if matrix.ndim == 1 else matrix
    if (
        matrix.ndim != 2
        or matrix.shape[0] != matrix.shape[1]
        or matrix.size == 0
        or not np.isfinite(matrix).all()
    ):
        raise ValueError(
            "covariance must be a finite square matrix or its eigenvalues, got shape"
            f" {matrix.shape}"
        )
    values = np.linalg.eigvalsh((matrix + matrix.T) / 2.0)
    if (
        not np.allclose(matrix, matrix.T)
        or values.min() < -1e-10 * max(values.max(), 0.0)
        or values.max() <= 0
    ):
        raise ValueError(
            "covariance must be symmetric and positive semidefinite, with eigenvalues from"
            f" {values.min():.3g} to {values.max():.3g}"
        )
    return matrix
