"""High powers of the moment operator Q for a fixed filter.

The operator is a matrix on symmetric matrices (n = Q(Q+1)/2 coordinates). For realizable tasks it
is symmetric and one eigendecomposition serves every k; otherwise it is squared repeatedly. Both
work with I − Q, which is formed without cancellation: the eigenvalues that decide at large k
are those near 1.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from forgetless._core.arrays import Array, Floats
from forgetless.engines.independent import Operator

EPS = float(np.finfo(np.float64).eps)
# largest n for which the operator is formed: 31 MiB, one second for an eigendecomposition
DENSE_LIMIT = 2000


def _powers(rates: Floats, steps: Any) -> Floats:
    """Return (1 − rate)^k for rates in [0, 2], accurately for rates near 0 and 2 and any k."""
    steps = np.asarray(steps)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = (
            np.where(
                rates < 1, np.log1p(-np.minimum(rates, 1.0)), np.log(np.maximum(rates, 1.0) - 1.0)
            )
            * steps
        )
    magnitude = np.exp(np.where(steps == 0, 0.0, logs))
    return np.asarray(np.where((rates > 1) & (steps % 2 == 1), -magnitude, magnitude))


class _SymmetricBasis:
    """Coordinates of symmetric Q × Q matrices in which the Frobenius product is the dot product."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.rows, self.columns = np.tril_indices(size)
        self.scale = np.where(self.rows == self.columns, 1.0, np.sqrt(2.0))
        self.n = len(self.rows)

    def matrices(self) -> Floats:
        """Return the basis as matrices, of shape (Q, Q, n)."""
        basis = np.zeros((self.size, self.size, self.n))
        number = np.arange(self.n)
        basis[self.rows, self.columns, number] = 1 / self.scale
        basis[self.columns, self.rows, number] = 1 / self.scale
        return basis

    def pack(self, S: Array) -> Array:
        """Return coordinates (n, B) of symmetric matrices (Q, Q, B)."""
        flat = np.reshape(S, (self.size * self.size, S.shape[2]))
        index = self.rows * self.size + self.columns
        return flat[index] * self.scale[:, None]

    def unpack(self, x: Array) -> Array:
        """Return symmetric matrices (Q, Q, B) from coordinates (n, B)."""
        position = np.zeros((self.size, self.size), np.int64)
        position[self.rows, self.columns] = position[self.columns, self.rows] = np.arange(self.n)
        return (x / self.scale[:, None])[position]


def _dense_decrease(
    operator: Operator, basis: _SymmetricBasis, factors: Array, *, adjoint: bool = False
) -> Array:
    """Return I − Q as matrices of shape (B, n, n), one for each column of factors (Σr, B)."""
    n, b = basis.n, factors.shape[1]
    decrease = operator.decrease_adjoint if adjoint else operator.decrease
    tests = basis.matrices()
    result = []
    for problem in range(b):  # one at a time: each has n matrices of Q × Q
        phi = np.broadcast_to(factors[:, problem : problem + 1], (factors.shape[0], n))
        result.append(basis.pack(decrease(tests, phi)))
    return np.stack(result)


def _size(basis: _SymmetricBasis, S: Array, units: Any = 1.0) -> float:
    """Return the norm of a symmetric matrix in the given units."""
    return float(np.linalg.norm(basis.pack(S[:, :, None]) * units))


class Spectral:
    """Every power of a self-adjoint operator at once, from its eigendecomposition."""

    def __init__(self, operator: Operator, size: int, factors: Array) -> None:
        self.basis = _SymmetricBasis(size)
        rates, self.vectors = np.linalg.eigh(_dense_decrease(operator, self.basis, factors))
        # No step expands, so Q is within ±I (negative only where gradient steps overshoot); the
        # rest is rounding.
        self.rates = np.clip(rates, 0.0, 2.0)

    def decays(self, steps: NDArray[np.int64]) -> Floats:
        """Return μ^k of shape (B, n, n_steps), μ being the eigenvalues of Q."""
        return _powers(self.rates[:, :, None], steps)

    def coordinates(self, S: Array) -> Array:
        """Return the eigen-coordinates (B, n) of one symmetric matrix (Q, Q)."""
        packed = self.basis.pack(S[:, :, None])
        return (np.matrix_transpose(self.vectors) @ packed)[:, :, 0]

    def form(self, A: Array, H: Array, steps: NDArray[np.int64]) -> Floats:
        """Return ⟨H, Q^k[A]⟩ of shape (B, n_steps)."""
        weights = self.coordinates(A) * self.coordinates(H)
        return np.asarray(np.einsum("bn,bnk->bk", weights, self.decays(steps)))

    def uncertainty(self, A: Array, H: Array, steps: NDArray[np.int64]) -> Floats:
        """Return the effect of errors of eps in the operator, raised to k, on ⟨H, Q^k[A]⟩, of shape
        (B, n_steps).
        """
        largest = np.max(np.abs(1.0 - self.rates), axis=1, initial=0.0)[:, None]
        left = (1.0 + steps) * largest ** np.maximum(steps - 1.0, 0.0)
        return EPS * np.asarray(left) * _size(self.basis, A) * _size(self.basis, H)

    def powers(self, A: Array, step: int) -> Array:
        """Return Q^k[A] of shape (Q, Q, B)."""
        decayed = self.decays(np.array([step]))[:, :, 0] * self.coordinates(A)
        return self.basis.unpack(np.matrix_transpose((self.vectors @ decayed[:, :, None])[:, :, 0]))


class Squaring:
    """Powers of an operator that is not self-adjoint, or of its adjoint, by repeated squaring.

    ``units`` are those of the coordinates: all entries of a matrix are rounded relative to the
    largest, so coordinates of very different sizes would lose digits unless they are scaled to the
    size of the result.
    """

    def __init__(
        self,
        operator: Operator,
        size: int,
        factors: Array,
        *,
        adjoint: bool = False,
        units: Floats | None = None,
    ) -> None:
        self.basis = _SymmetricBasis(size)
        units = np.ones(size) if units is None else units
        self.units = (units[self.basis.rows] * units[self.basis.columns])[:, None]
        decrease = _dense_decrease(operator, self.basis, factors, adjoint=adjoint)
        eye = np.eye(self.basis.n)
        self.squares = [self.units * (eye - decrease) / self.units[:, 0]]
        self.growth = np.ones(len(decrease))

    def form(self, A: Array, H: Array, steps: NDArray[np.int64]) -> Floats:
        """Return ⟨H, Q^k[A]⟩ of shape (B, n_steps), for increasing steps."""
        target = self.basis.pack(H[:, :, None]) / self.units
        x = np.broadcast_to(
            self.basis.pack(A[:, :, None]) * self.units, (self.squares[0].shape[0], self.basis.n, 1)
        )
        values, done = [], 0
        for step in steps.tolist():
            x, done = self._advanced(x, step - done), step
            values.append(np.sum(x * target, axis=(1, 2)))
        return np.stack(values, axis=1)

    def powers(self, A: Array, step: int) -> Array:
        """Return Q^k[A] of shape (Q, Q, B)."""
        x = np.broadcast_to(
            self.basis.pack(A[:, :, None]) * self.units, (self.squares[0].shape[0], self.basis.n, 1)
        )
        return self.basis.unpack(
            np.matrix_transpose((self._advanced(x, step) / self.units)[:, :, 0])
        )

    def uncertainty(self, A: Array, H: Array, steps: NDArray[np.int64]) -> Floats:
        """Return the effect of errors of eps in the operator, squared repeatedly, on ⟨H, Q^k[A]⟩
        (B, n_steps).
        """
        for square in self.squares:
            sums = [np.abs(square).sum(axis=axis).max(axis=1) for axis in (1, 2)]
            # a bound of the spectral norm
            self.growth = np.maximum(self.growth, np.sqrt(sums[0] * sums[1]))
        sizes = _size(self.basis, A, self.units) * _size(self.basis, H, 1.0 / self.units)
        return np.asarray(EPS * self.growth[:, None] * (1.0 + steps) * sizes)

    def _advanced(self, x: Array, n_steps: int) -> Array:
        bit = 0
        while n_steps >> bit:
            if len(self.squares) <= bit:
                self.squares.append(self.squares[-1] @ self.squares[-1])
            if n_steps >> bit & 1:
                x = self.squares[bit] @ x
            bit += 1
        return x
