"""Ranges of columns, and second moments Σ aaᵀ of centred rows in two storages.

:class:`Dense` is the d × d matrix. :class:`LowRank` is BᵀB + diag(rest): some vectors, and the rest
of the *exact* diagonal, so that every column keeps its variance whatever was cut off. Sums of both
are exact. ``LowRank.truncated`` loses directions; ``LowRank.drifted`` is exact where there is no
rest.

Both solve in any units u: with G = Σ aaᵀ and U = diag(u) the system is U G U + λ. A walk of the
weights (see ``Rows.drifted``) is a function of the matrix, G′ = (I − (I + g(G + λ))⁻¹)/g − λ/(1 +
gλ), which keeps eigenvectors and takes an eigenvalue e to e/((1 + g(e + λ))(1 + gλ)).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import blas, eigh, lapack
from sklearn.utils import gen_batches

from forgetless._validate import Array, Floats
from forgetless.estimators.systems import Eigen, System, Woodbury, dots

EXACT = 1e-6
"""Fraction of the trace below which a truncation counts as none."""

TIE = 1e-7
"""Relative size of the perturbation that decides between equal singular values."""

LARGEST = 1e140  # no mutant: in double precision one more is the same number
"""Largest number in X or y, since all are squared."""

_GOLDEN = 0.5 * (5.0**0.5 - 1.0)
"""Its multiples modulo 1 are spread evenly, and no two of them are equal."""

_BLOCK = 2**18  # no mutant: the size of a block changes the time alone
"""Numbers of a block of rows to predict: 2 MB, about the second-level cache."""


def in_blocks(function: Callable[[Any], Array], X: Any) -> Array:
    """Return a function of rows, block by block.

    A block is still in the cache when it is multiplied: all rows at once take 1.5 times as long.
    """
    n, d = X.shape
    blocks = gen_batches(n, max(_BLOCK // d, 64))
    return np.concatenate([function(X[rows]) for rows in blocks])


def check_squares(low: Floats, high: Floats, y: Floats) -> None:
    """Raise OverflowError where features between ``low`` and ``high`` or targets y are too large to
    be squared.
    """
    largest = max(-low.min(), high.max(), np.abs(y).max())
    if not largest < LARGEST:
        raise OverflowError(
            f"X or y holds {largest:g}, too large to be squared; numbers must be below"
            f" {LARGEST:g}: rescale them towards 1"
        )


def column_range(X: Any) -> tuple[Array, Array]:
    """Return the smallest and the largest value of every column, of shape (d,)."""
    if sparse.issparse(X):
        low = X.min(axis=0)
        high = X.max(axis=0)
        return low.toarray().ravel(), high.toarray().ravel()
    n, d = X.shape
    # NumPy reduces short rows slowly: several of them are taken for one long row.
    # no mutant: their number changes the time alone
    together = max(1024 // d, 1) if X.flags.c_contiguous else 1
    whole = n // together * together
    long = X[:whole].reshape(-1, together * d)
    rest = X[whole:]

    def extreme(function: np.ufunc) -> Array:
        if not whole:
            return function.reduce(rest, axis=0)
        of_places = function.reduce(long, axis=0).reshape(together, d)
        parts = np.concatenate([rest, of_places])
        return function.reduce(parts, axis=0)

    return extreme(np.minimum), extreme(np.maximum)


def inverse_scale(scale: Floats) -> Floats:
    """Return u = 1/s, zero where s is."""
    zeros = np.zeros_like(scale)
    return np.divide(1.0, scale, out=zeros, where=scale > 0)


@dataclass(frozen=True, eq=False)
class Dense:
    """Σ aaᵀ as a matrix of shape (d, d)."""

    matrix: Floats

    @classmethod
    def of(cls, A: Floats) -> "Dense":
        """Return the second moments of rows A (n, d)."""
        return cls(A.T @ A)

    @property
    def diagonal(self) -> Floats:
        """Σ a², of shape (d,)."""
        return self.matrix.diagonal()

    def __add__(self, other: "Moments") -> "Dense":
        if isinstance(other, Dense):
            return Dense(self.matrix + other.matrix)
        total = self.matrix.copy()
        # Every d + 1st number of a d × d matrix is on its diagonal.
        total.flat[:: len(total) + 1] += other.rest
        # BᵀB is added in place: few vectors must not cost several copies of a d × d matrix.
        B = other.vectors.T
        if len(other.vectors):
            blas.dgemm(1.0, B, B, beta=1.0, c=total.T, trans_b=True, overwrite_c=True)
        return Dense(total)

    def dot(self, W: Floats) -> Array:
        """Return Σ aaᵀ W."""
        return self.matrix @ W

    def dense(self) -> "Dense":
        """Return the same moments as a matrix."""
        return self

    def low_rank(self) -> "LowRank":
        """Return the same moments as vectors: √e·v of every eigenvector v."""
        e, V = np.linalg.eigh(self.matrix)
        # Rounding may leave eigenvalues of zero below it.
        lengths = np.sqrt(np.maximum(e, 0.0))
        vectors = np.ascontiguousarray((lengths * V).T)
        return LowRank(vectors, np.zeros(len(e)))

    def system(self, u: Floats) -> System:
        """Return the system of U G U, for solutions with many λ."""
        A = self.matrix * np.outer(u, u)
        e, V = np.linalg.eigh(A)
        return Eigen(np.maximum(e, 0.0), V)

    def solve(self, u: Floats, strength: float, c: Floats) -> Array:
        """Return (UGU + λ)⁻¹c for one λ > 0, by Cholesky's method: ten times faster than a
        system.
        """
        A = self.matrix * np.outer(u, u)
        A.flat[:: len(A) + 1] += strength
        x, failed = lapack.dposv(A, c, lower=1, overwrite_a=1)[1:]
        if not failed:
            return x
        # A λ below rounding leaves the matrix indefinite; eigenvalues are cut off at 0.
        system = self.system(u)
        return system.solve(c, max(strength, 1e-300))

    def drifted(self, g: float, strength: float, scale: Floats) -> "Dense":
        """Return G′ with (G′ + λ′)⁻¹ = (G + λ)⁻¹ + g and λ′ = λ/(1 + gλ), in the units
        ``scale``.
        """
        u = inverse_scale(scale)
        without = 1.0 + g * strength
        # I + g(G + λ) in standardized units.
        A = (g * np.outer(u, u)) * self.matrix
        A.flat[:: len(A) + 1] += without
        inverse = np.linalg.inv(A)
        # G′ = (I − (I + g(G + λ))⁻¹)/g − λ′, and 1/g − λ′ = 1/(g(1 + gλ)).
        inverse.flat[:: len(A) + 1] -= 1.0 / without
        standardized = (-1.0 / g) * inverse
        return Dense(standardized * np.outer(scale, scale))


@dataclass(frozen=True, eq=False)
class LowRank:
    """Σ aaᵀ ≈ BᵀB + diag(rest), with ``vectors`` B of shape (q, d) and ``rest`` of shape (d,)."""

    vectors: Floats
    rest: Floats

    @classmethod
    def of(cls, A: Floats) -> "LowRank":
        """Return the second moments of rows A (n, d)."""
        n, d = A.shape
        # More than 2d vectors are replaced by the d rows of a triangle, AᵀA = RᵀR. With fewer of
        # them the factorization is left out: ``system`` makes the d × d matrix anyway.
        vectors = np.linalg.qr(A, mode="r") if n > 2 * d else A
        return cls(np.ascontiguousarray(vectors), np.zeros(d))

    @property
    def diagonal(self) -> Array:
        """Σ a², of shape (d,)."""
        return self.rest + dots(self.vectors, self.vectors)

    def __add__(self, other: "Moments") -> "Moments":
        if isinstance(other, Dense):
            return other + self
        stacked = np.concatenate([self.vectors, other.vectors])
        both = LowRank.of(stacked)
        return LowRank(both.vectors, self.rest + other.rest)

    def dot(self, W: Floats) -> Array:
        """Return Σ aaᵀ W."""
        along = self.vectors @ W
        return self.vectors.T @ along + self.rest[:, None] * W

    def dense(self) -> Dense:
        """Return the same moments as a matrix."""
        products = self.vectors.T @ self.vectors
        return Dense(products + np.diag(self.rest))

    def low_rank(self) -> "LowRank":
        """Return the same moments as vectors."""
        return self

    def system(self, u: Floats) -> System:
        """Return the system of U G U, for solutions with many λ: of the matrix where there are
        nearly as many vectors as features, by Woodbury's formula where a rest of the diagonal
        remains, and otherwise by the smaller Gram matrix.
        """
        B = self.vectors * u
        rest = self.rest * u**2
        q, d = B.shape
        if 2 * q > d:
            matrix = LowRank(B, rest).dense()
            return matrix.system(np.ones(d))
        if rest.any():
            return Woodbury(B, rest)
        # With BBᵀ = Q e Qᵀ the eigenvectors of BᵀB are BᵀQ/√e.
        e, Q = np.linalg.eigh(B @ B.T)
        # What is smaller is rounding.
        keep = e > 1e-12 * e.max(initial=0.0)
        e = e[keep]
        V = B.T @ Q[:, keep]
        return Eigen(e, V / np.sqrt(e))

    def solve(self, u: Floats, strength: float, c: Floats) -> Array:
        """Return (UGU + λ)⁻¹c for one λ."""
        return self.system(u).solve(c, strength)

    def truncated(self, rank: int, u: Floats) -> tuple["LowRank", bool]:
        """Return the ``rank`` leading directions in the units u with the same diagonal, and
        whether any was lost.

        The best approximation of UGU of this rank has its leading eigenvectors. What they leave of
        the diagonal is the rest, so that every column keeps its variance. A rest below ``EXACT`` of
        the trace is left out, and λ may be chosen again as if nothing were lost.
        """
        B = self.vectors * u
        # Equal singular values have no first direction: which one is kept would depend on the
        # memory layout of the rows. Weights that differ by 1e-7 from column to column decide it.
        columns = np.arange(1, len(u) + 1)
        golden = columns * _GOLDEN % 1.0
        tilted = B * (1.0 + TIE * golden)
        e, Q = _largest(tilted @ tilted.T, rank)
        kept = e > 1e-14 * e[-1]
        # An eigenvector q of BBᵀ gives the direction qᵀB, here in the units of the rows.
        directions = Q.T @ self.vectors
        leading = directions[kept]
        # What is cut off leaves its share of the diagonal.
        diagonal = self.diagonal
        rest = np.maximum(diagonal - dots(leading, leading), 0.0)
        total = diagonal @ u**2
        lost = bool(rest @ u**2 > EXACT * total)
        return LowRank(leading, lost * rest), lost

    def drifted(self, g: float, strength: float, scale: Floats) -> "LowRank":
        """Return what ``Dense.drifted`` returns, the rest of the diagonal apart.

        An eigenvector q of BBᵀ with the eigenvalue e gives the direction qᵀB of squared length e,
        which becomes e′.
        """
        u = inverse_scale(scale)
        B = self.vectors * u
        e, Q = np.linalg.eigh(B @ B.T)
        e = np.maximum(e, 1e-300)
        # Every direction keeps its place and loses length.
        shrunk = np.sqrt(_walked(e, g, strength) / e)
        vectors = (Q * shrunk).T @ self.vectors
        # The rest of the diagonal is a matrix with the unit vectors as eigenvectors.
        rest = _walked(self.rest * u**2, g, strength)
        return LowRank(vectors, rest * scale**2)


Moments = Dense | LowRank


def _largest(K: Floats, rank: int) -> tuple[Floats, Floats]:
    """Return the ``rank`` largest eigenvalues of a matrix, ascending, with their eigenvectors."""
    q = len(K)
    # All of them are found five times faster than most of them.
    if q <= 4 * rank:  # no mutant: both ways find the same ones
        e, Q = np.linalg.eigh(K)
        return e[-rank:], Q[:, -rank:]
    e, Q = eigh(K, subset_by_index=(q - rank, q - 1))
    return e, Q


def _walked(e: Floats, g: float, strength: float) -> Array:
    """Return the eigenvalues e′ = (e + λ)/(1 + g(e + λ)) − λ/(1 + gλ) after a walk of variance
    g.
    """
    # e′ + λ′ = 1/(1/(e + λ) + g) = (e + λ)/(1 + g(e + λ)), and the same for e = 0 is λ′. Over one
    # denominator the difference has (e + λ)(1 + gλ) − λ(1 + g(e + λ)) = e on top.
    with_data = 1.0 + g * (e + strength)
    without = 1.0 + g * strength
    return e / (with_data * without)
