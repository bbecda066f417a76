"""High powers of the moment operator for a fixed filter.

* *dense*: the operator as a matrix on symmetric matrices (n = Q(Q+1)/2 coordinates). For realizable
  tasks it is symmetric and one eigendecomposition serves every k; otherwise it is squared
  repeatedly.
* *lanczos*: for realizable tasks, Q^k[V] from a Krylov space of some √k vectors, fully
  reorthogonalised.

Both work with I − Q, which is formed without cancellation: the eigenvalues that decide at large k
are those near 1.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from forgetless._core.arrays import Array, Floats, from_numpy, namespace_of, to_numpy
from forgetless._core.validate import check_memory
from forgetless.engines.independent import Operator

EPS = float(np.finfo(np.float64).eps)
# largest n for which method="auto" forms the operator: 31 MiB, one second for an eigendecomposition
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


class SymmetricBasis:
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
        xp = namespace_of(S)
        flat = xp.reshape(S, (self.size * self.size, S.shape[2]))
        index = from_numpy(self.rows * self.size + self.columns, like=S)
        return xp.take(flat, index, axis=0) * from_numpy(self.scale[:, None], like=S)

    def unpack(self, x: Array) -> Array:
        """Return symmetric matrices (Q, Q, B) from coordinates (n, B)."""
        xp = namespace_of(x)
        position = np.zeros((self.size, self.size), np.int64)
        position[self.rows, self.columns] = position[self.columns, self.rows] = np.arange(self.n)
        scaled = xp.take(
            x / from_numpy(self.scale[:, None], like=x),
            from_numpy(position.ravel(), like=x),
            axis=0,
        )
        return xp.reshape(scaled, (self.size, self.size, x.shape[1]))


def dense_decrease(
    operator: Operator, basis: SymmetricBasis, factors: Array, *, adjoint: bool = False
) -> Array:
    """Return I − Q as matrices of shape (B, n, n), one for each column of factors (Σr, B)."""
    xp, n, b = namespace_of(factors), basis.n, factors.shape[1]
    decrease = operator.decrease_adjoint if adjoint else operator.decrease
    tests = from_numpy(basis.matrices(), like=factors)
    result = []
    for problem in range(b):  # one at a time: each has n matrices of Q × Q
        phi = xp.broadcast_to(factors[:, problem : problem + 1], (factors.shape[0], n))
        result.append(basis.pack(decrease(tests, phi)))
    return xp.stack(result)


_STEPS = "ask for fewer schedules at once, or use method='steps'"


def _matrices(factors: Array, n: int) -> str:
    return f"the dense operator of {factors.shape[1]} schedules in {n} coordinates"


def _size(basis: SymmetricBasis, S: Array, units: Any = 1.0) -> float:
    """Return the norm of a symmetric matrix in the given units."""
    return float(np.linalg.norm(to_numpy(basis.pack(S[:, :, None]) * units)))


class Spectral:
    """Every power of a self-adjoint operator at once, from its eigendecomposition."""

    def __init__(self, operator: Operator, size: int, factors: Array) -> None:
        xp = namespace_of(factors)
        self.basis = SymmetricBasis(size)
        check_memory(
            3.0 * factors.shape[1] * self.basis.n**2, _matrices(factors, self.basis.n), _STEPS
        )
        rates, self.vectors = xp.linalg.eigh(dense_decrease(operator, self.basis, factors))
        # No step expands, so Q is within ±I (negative only where gradient steps overshoot); the
        # rest is rounding.
        self.rates = np.clip(to_numpy(rates), 0.0, 2.0)

    def decays(self, steps: NDArray[np.int64]) -> Floats:
        """Return μ^k of shape (B, n, n_steps), μ being the eigenvalues of Q."""
        return _powers(self.rates[:, :, None], steps)

    def coordinates(self, S: Array) -> Array:
        """Return the eigen-coordinates (B, n) of one symmetric matrix (Q, Q)."""
        packed = self.basis.pack(S[:, :, None])
        return (namespace_of(S).matrix_transpose(self.vectors) @ packed)[:, :, 0]

    def form(self, A: Array, H: Array, steps: NDArray[np.int64]) -> Floats:
        """Return ⟨H, Q^k[A]⟩ of shape (B, n_steps)."""
        weights = to_numpy(self.coordinates(A) * self.coordinates(H))
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
        xp = namespace_of(A)
        decayed = from_numpy(self.decays(np.array([step]))[:, :, 0], like=A) * self.coordinates(A)
        return self.basis.unpack(xp.matrix_transpose((self.vectors @ decayed[:, :, None])[:, :, 0]))


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
        xp = namespace_of(factors)
        self.basis = SymmetricBasis(size)
        units = np.ones(size) if units is None else units
        self.units = from_numpy(
            (units[self.basis.rows] * units[self.basis.columns])[:, None], like=factors
        )
        check_memory(
            24.0 * factors.shape[1] * self.basis.n**2, _matrices(factors, self.basis.n), _STEPS
        )
        decrease = dense_decrease(operator, self.basis, factors, adjoint=adjoint)
        eye = xp.eye(self.basis.n, dtype=decrease.dtype, device=decrease.device)
        self.squares = [self.units * (eye - decrease) / self.units[:, 0]]
        self.growth = np.ones(len(decrease))

    def form(self, A: Array, H: Array, steps: NDArray[np.int64]) -> Floats:
        """Return ⟨H, Q^k[A]⟩ of shape (B, n_steps), for increasing steps."""
        xp = namespace_of(A)
        target = self.basis.pack(H[:, :, None]) / self.units
        x = xp.broadcast_to(
            self.basis.pack(A[:, :, None]) * self.units, (self.squares[0].shape[0], self.basis.n, 1)
        )
        values, done = [], 0
        for step in steps.tolist():
            x, done = self._advanced(x, step - done), step
            values.append(to_numpy(xp.sum(x * target, axis=(1, 2))))
        return np.stack(values, axis=1)

    def powers(self, A: Array, step: int) -> Array:
        """Return Q^k[A] of shape (Q, Q, B)."""
        xp = namespace_of(A)
        x = xp.broadcast_to(
            self.basis.pack(A[:, :, None]) * self.units, (self.squares[0].shape[0], self.basis.n, 1)
        )
        return self.basis.unpack(
            xp.matrix_transpose((self._advanced(x, step) / self.units)[:, :, 0])
        )

    def uncertainty(self, A: Array, H: Array, steps: NDArray[np.int64]) -> Floats:
        """Return the effect of errors of eps in the operator, squared repeatedly, on ⟨H, Q^k[A]⟩
        (B, n_steps).
        """
        for square in map(to_numpy, self.squares):
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


def lanczos_power(
    operator: Operator, V: Array, factors: Array, k: int, tolerance: float
) -> tuple[Array, float]:
    """Return Q^k[V] (Q, Q, 1) for one schedule with factors (Σr, 1), and an estimate of its
    relative error.

    The tasks are realizable, so that Q is self-adjoint. The iteration stops when a tenth more
    vectors changed the result by less than ``tolerance``, relative to its norm.
    """
    xp, basis = namespace_of(V), SymmetricBasis(V.shape[0])
    start = basis.pack(V)[:, 0]
    norm = float(xp.linalg.vector_norm(start))
    if norm == 0.0:
        return V, 0.0
    limit = min(basis.n, k + 1, 20 + int(12 * np.sqrt(k)))  # Q^k is a polynomial of degree k
    check_memory(2.0 * limit * basis.n, f"a Krylov space of {limit} vectors", 'use method="steps"')
    vectors = [start / norm]
    diagonal: list[float] = []
    offdiagonal: list[float] = []
    weights, slowest, error, checked = np.ones(1), 1.0, 1.0, 0
    for j in range(limit):
        w = basis.pack(operator.decrease(basis.unpack(vectors[-1][:, None]), factors))[:, 0]
        diagonal.append(float(xp.sum(w * vectors[-1])))
        basis_vectors = xp.stack(vectors)
        # against all earlier vectors, twice: three-term recursions lose orthogonality
        for _ in range(2):
            w = w - basis_vectors.T @ (basis_vectors @ w)
        size = float(xp.linalg.vector_norm(w))
        exhausted = size <= 1e-14 * max(diagonal) or j + 1 == limit
        if exhausted or j + 1 >= 1.1 * checked + 4:
            fresh, rate = _decayed(diagonal, offdiagonal, k)
            error = float(np.linalg.norm(fresh - np.pad(weights, (0, len(fresh) - len(weights)))))
            error /= max(float(np.linalg.norm(fresh)), np.finfo(float).tiny)
            # Before the slowest rate converges, everything may seem to have decayed to zero.
            change = abs(rate - slowest)
            error += k * change if k * rate < 800 or change > 1e-10 * rate else 0.0
            weights, slowest, checked = fresh, rate, j + 1
            if exhausted or error < tolerance:
                break
        offdiagonal.append(size)
        vectors.append(w / size)
    combined = from_numpy(norm * weights, like=V)
    basis_vectors = xp.stack(vectors[: len(weights)])
    # With all vectors only the rounding of the rates remains, raised to k; it is relative to the
    # slowest decay, and the result may have decayed much more.
    amplified = (1.0 - slowest) ** max(k - 1, 0) / max(
        float(np.linalg.norm(weights)), np.finfo(float).tiny
    )
    error = (0.0 if len(weights) == basis.n else error) + (1e-14 + 1e-15 * k) * max(1.0, amplified)
    return basis.unpack((basis_vectors.T @ combined)[:, None]), error


def _decayed(diagonal: list[float], offdiagonal: list[float], k: int) -> tuple[Floats, float]:
    """Return (I − T)^k e_1 for the tridiagonal T of I − Q, and its slowest rate of decay."""
    T = np.diag(diagonal) + np.diag(offdiagonal, 1) + np.diag(offdiagonal, -1)
    rates, vectors = np.linalg.eigh(T)
    rates = np.clip(rates, 0.0, 2.0)
    return np.asarray(vectors @ (_powers(rates, k) * vectors[0])), float(
        np.min(np.minimum(rates, 2.0 - rates))
    )
