"""Solutions of ridge systems (M + λ)x = c with one symmetric matrix M ≥ 0 and many λ, and the λ of
the largest evidence (MacKay 1992).

With w ~ N(0, σ²/λ) in standardized units, and the level b and log σ flat, the density of the
targets of n rows is

    −2 log p(y | λ) = (n − 1) Σ_targets log(min_w ‖y − Xw‖² + λ‖w‖²) + c log det(I + XᵀX/λ)

up to a constant; without a level, n takes the place of n − 1. All of it follows from the second
moments M = XᵀX of centred rows, from XᵀY and from Σ y².
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack

from forgetless._validate import Array, Floats

STRENGTHS = 10.0 ** np.arange(-2.0, 5.01, 0.5)
"""Values of λ among which the evidence chooses, for columns of variance 1."""

TIED = 1e-6
"""Difference of −2 log p below which two λ explain the targets equally well."""


def dots(A: Floats, B: Floats) -> Array:
    """Return aᵀb of every pair of columns a of A and b of B."""
    return np.einsum("ij,ij->j", A, B)


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

    def solve(self, c: Floats, strength: float) -> Array:
        """Return (M + λ)⁻¹c, of shape (d, targets)."""
        # (M + λ)⁻¹ = V diag(1/(e + λ)) Vᵀ on the span of V.
        shifted = self.e + strength
        along = (self.V.T @ c) / shifted[:, None]
        return self.V @ along

    def evidence(self, c: Floats, strengths: Floats) -> tuple[Array, Array]:
        """Return cᵀ(M + λ)⁻¹c, of shape (λ, targets), and log det(I + M/λ), of shape (λ,)."""
        squares = (self.V.T @ c) ** 2
        grid = strengths[:, None]
        # cᵀ(M + λ)⁻¹c = Σ (vᵀc)²/(e + λ), and det(I + M/λ) = Π (1 + e/λ)
        inverses = 1.0 / (self.e + grid)
        energies = inverses @ squares
        determinants = np.log1p(self.e / grid).sum(axis=1)
        return energies, determinants

    def freedom(self, strength: float) -> float:
        """Return tr M(M + λ)⁻¹, the degrees of freedom."""
        return float(np.sum(self.e / (self.e + strength)))

    def leverages(self, Z: Floats, strength: float) -> Array:
        """Return zᵀ(M + λ)⁻¹z of rows z of Z (n, d)."""
        along = (Z @ self.V) ** 2
        inside = along @ (1.0 / (self.e + strength))
        if len(self.e) == Z.shape[1]:
            return inside
        # What lies outside of the span of V meets λ alone.
        lengths = dots(Z.T, Z.T)
        outside = np.maximum(lengths - along.sum(axis=1), 0.0)
        return inside + outside / strength


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

    def _inner(self, strength: float) -> tuple[Floats, Array]:
        """Return D, and the Cholesky factor L of I + BD⁻¹Bᵀ."""
        D = self.rest + strength
        scaled = self.B / D
        inner = scaled @ self.B.T
        inner.flat[:: len(inner) + 1] += 1.0
        return D, np.linalg.cholesky(inner)

    def solve(self, c: Floats, strength: float) -> Array:
        """Return (M + λ)⁻¹c, of shape (d, targets)."""
        D, L = self._inner(strength)
        x = c / D[:, None]
        # D⁻¹c − D⁻¹Bᵀ (LLᵀ)⁻¹ BD⁻¹c
        inner, _ = lapack.dpotrs(L, self.B @ x, lower=1)
        correction = self.B.T @ inner
        return x - correction / D[:, None]

    def evidence(self, c: Floats, strengths: Floats) -> tuple[Array, Array]:
        """Return cᵀ(M + λ)⁻¹c, of shape (λ, targets), and log det(I + M/λ), of shape (λ,)."""
        energies = []
        determinants = []
        for strength in strengths.tolist():
            D, L = self._inner(strength)
            x = c / D[:, None]
            # cᵀ(M + λ)⁻¹c = cᵀD⁻¹c − ‖L⁻¹BD⁻¹c‖²
            half, _ = lapack.dtrtrs(L, self.B @ x, lower=1)
            energies.append(dots(c, x) - dots(half, half))
            # det(D + BᵀB) = det D · det(I + BD⁻¹Bᵀ), and the latter is det(L)²
            outer = np.log(D / strength).sum()
            inner = 2.0 * np.log(L.diagonal()).sum()
            determinants.append(outer + inner)
        return np.array(energies), np.array(determinants)

    def freedom(self, strength: float) -> float:
        """Return tr M(M + λ)⁻¹ = d − λ tr(M + λ)⁻¹, the degrees of freedom."""
        D, L = self._inner(strength)
        half, _ = lapack.dtrtrs(L, self.B / D, lower=1)
        # tr(M + λ)⁻¹ = Σ 1/D − ‖L⁻¹BD⁻¹‖²
        trace = np.sum(1.0 / D) - np.sum(half**2)
        return float(len(D) - strength * trace)

    def leverages(self, Z: Floats, strength: float) -> Array:
        """Return zᵀ(M + λ)⁻¹z of rows z of Z (n, d)."""
        columns = np.ascontiguousarray(Z.T)
        solved = self.solve(columns, strength)
        return np.maximum(dots(columns, solved), 0.0)


System = Eigen | Woodbury


class Evidence(NamedTuple):
    """What rows say of λ.

    Attributes
    ----------
    system : System
        Of the second moments M.
    c : array of shape (d, targets)
        Σ x yᵀ.
    squares : array of shape (targets,)
        Σ y².
    n : float
        Degrees of freedom of a target: the number of rows, less one where there is a level.
    """

    system: System
    c: Floats
    squares: Floats
    n: float

    def costs(self, grid: Floats) -> tuple[Array, Array]:
        """Return −2 log p of every λ, and the minima min_w ‖y − Xw‖² + λ‖w‖², (λ, targets)."""
        energies, determinants = self.system.evidence(self.c, grid)
        # The minimum is y² − cᵀ(M + λ)⁻¹c. Rounding may leave a negative one where the rows are
        # explained completely.
        rounding = 1e-12 * self.squares + 1e-300
        minima = np.maximum(self.squares - energies, rounding)
        varies = self.squares > 0
        # A target that does not vary says nothing of λ.
        logarithms = np.log(minima[:, varies]).sum(axis=1)
        fit = max(self.n, 1e-9) * logarithms
        complexity = np.count_nonzero(varies) * determinants
        return fit + complexity, minima

    def best(self, grid: Floats) -> tuple[float, Array]:
        """Return the λ of the smallest cost, and the variance of the noise of every target.

        Where several λ explain the targets equally well, as with two rows, the largest is taken:
        the simplest explanation, and not a matter of rounding.
        """
        costs, minima = self.costs(grid)
        if not np.isfinite(costs).all():
            raise OverflowError("sums of squares of rows overflow; rescale X and y towards 1")
        above = costs - costs.min()
        tied = np.flatnonzero(above <= TIED)
        # Few rows cannot tell λ, and a small one would promise too small errors: the variance of
        # the noise is averaged over the posterior of λ.
        posterior = np.exp(-0.5 * above)
        posterior /= posterior.sum()
        noise = posterior @ minima / max(self.n - 2.0, 1.0)
        return float(grid[tied[-1]]), noise

    def downhill(self, grid: Floats, near: float) -> float:
        """Return the λ at the end of a walk down the costs from ``near``: upwards freely, downwards
        by one step at most.

        After a truncation a much smaller λ would fit the directions that were lost.
        """

        def cost(at: int) -> float:
            costs, _ = self.costs(grid[[at]])
            return float(costs[0])

        distances = np.abs(np.log(grid / near))
        start = int(np.argmin(distances))
        at = start
        lowest = cost(at)
        while at + 1 < len(grid) and (above := cost(at + 1)) < lowest:
            at += 1
            lowest = above
        if at == start > 0 and cost(at - 1) < lowest:
            at -= 1
        return float(grid[at])
