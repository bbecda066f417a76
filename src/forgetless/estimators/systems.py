"""Solutions of ridge systems (M + λ)x = c with one symmetric matrix M ≥ 0 and many λ."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import lapack

from forgetless._validate import Floats


@dataclass(frozen=True, eq=False)
class Eigen:
    """M = V diag(e) Vᵀ; right-hand sides lie in the span of V.

    Attributes
    ----------
    e : array of shape (q,)
    V : array of shape (d, q) with orthonormal columns
    """

    e: Floats
    V: Floats

    def solve(self, c: Floats, strength: float) -> Floats:
        """Return (M + λ)⁻¹c, of shape (d, targets)."""
        along = (self.V.T @ c) / (self.e + strength)[:, None]
        return np.asarray(self.V @ along)

    def evidence(self, c: Floats, strengths: Floats) -> tuple[Any, Any]:
        """Return cᵀ(M + λ)⁻¹c, of shape (λ, targets), and log det(I + M/λ), of shape (λ,)."""
        squares = (self.V.T @ c) ** 2
        grid = strengths[:, None]
        # cᵀ(M + λ)⁻¹c = Σ (vᵀc)²/(e + λ), and det(I + M/λ) = Π (1 + e/λ)
        energies = (1.0 / (self.e + grid)) @ squares
        determinants = np.log1p(self.e / grid).sum(axis=1)
        return energies, determinants

    def freedom(self, strength: float) -> float:
        """Return tr M(M + λ)⁻¹, the degrees of freedom."""
        return float(np.sum(self.e / (self.e + strength)))

    def leverages(self, Z: Floats, strength: float) -> Floats:
        """Return zᵀ(M + λ)⁻¹z of rows z of Z (n, d)."""
        along = (Z @ self.V) ** 2
        inside = along @ (1.0 / (self.e + strength))
        if len(self.e) == Z.shape[1]:
            return inside
        # What lies outside of the span of V meets λ alone.
        outside = np.einsum("ij,ij->i", Z, Z) - along.sum(axis=1)
        return np.asarray(inside + np.maximum(outside, 0.0) / strength)


@dataclass(frozen=True, eq=False)
class Woodbury:
    """M = BᵀB + diag(rest), by (D + BᵀB)⁻¹ = D⁻¹ − D⁻¹Bᵀ(I + BD⁻¹Bᵀ)⁻¹BD⁻¹ with D = rest + λ.

    Attributes
    ----------
    B : array of shape (q, d), q < d
    rest : array of shape (d,)
    """

    B: Floats
    rest: Floats

    def _inner(self, strength: float) -> tuple[Floats, Any]:
        """Return D, and the Cholesky factor L of I + BD⁻¹Bᵀ."""
        D = self.rest + strength
        inner = (self.B / D) @ self.B.T
        diagonal = slice(None, None, len(inner) + 1)
        inner.flat[diagonal] += 1.0
        return D, np.linalg.cholesky(inner)

    def _solved(self, c: Floats, D: Floats, L: Floats) -> Floats:
        x = c / D[:, None]
        inner = lapack.dpotrs(L, self.B @ x, lower=1)[0]
        return np.asarray(x - (self.B.T @ inner) / D[:, None])

    def solve(self, c: Floats, strength: float) -> Floats:
        """Return (M + λ)⁻¹c, of shape (d, targets)."""
        return self._solved(c, *self._inner(strength))

    def evidence(self, c: Floats, strengths: Floats) -> tuple[Any, Any]:
        """Return cᵀ(M + λ)⁻¹c, of shape (λ, targets), and log det(I + M/λ), of shape (λ,)."""
        energies = []
        determinants = []
        for strength in strengths.tolist():
            D, L = self._inner(strength)
            solved = self._solved(c, D, L)
            energies.append(np.einsum("ij,ij->j", c, solved))
            # det(D + BᵀB) = det D · det(I + BD⁻¹Bᵀ), and the latter is det(L)²
            outer = np.log(D / strength).sum()
            inner = 2.0 * np.log(L.diagonal()).sum()
            determinants.append(outer + inner)
        return np.array(energies), np.array(determinants)

    def freedom(self, strength: float) -> float:
        """Return tr M(M + λ)⁻¹ = d − λ tr(M + λ)⁻¹, the degrees of freedom."""
        D, L = self._inner(strength)
        half = lapack.dtrtrs(L, self.B / D, lower=1)[0]
        # tr(M + λ)⁻¹ = Σ 1/D − ‖L⁻¹BD⁻¹‖²
        return float(len(D) - strength * (np.sum(1.0 / D) - np.sum(half**2)))

    def leverages(self, Z: Floats, strength: float) -> Floats:
        """Return zᵀ(M + λ)⁻¹z of rows z of Z (n, d)."""
        solved = self.solve(np.ascontiguousarray(Z.T), strength)
        return np.asarray(np.maximum(np.einsum("ij,ji->i", Z, solved), 0.0))


System = Eigen | Woodbury
