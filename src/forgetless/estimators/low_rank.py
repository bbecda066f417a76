"""Low-rank memory of all tasks beside the weights: at most r vectors, which penalize every later
step.

The rows B approximate the rows of all tasks so far, BᵀB ≈ Σ XᵀX. A task X is learned as [B; X] with
residuals [0; y − Xw], and B becomes the r leading right singular vectors of [B; X] times their
singular values: the best approximation of rank r. As long as r reaches the rank of all rows nothing
is lost: the weights are those of joint ridge regression. ``retained_fraction`` is the fraction of
the trace of Σ XᵀX that B holds.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from forgetless._core import validate
from forgetless._core.arrays import Array, Floats, with_zeros
from forgetless.estimators._units import UnitChange
from forgetless.io import Fields
from forgetless.solvers.rows import Rows, is_sparse
from forgetless.solvers.stacked import Stacked

NEGLIGIBLE = 1e-15
"""Eigenvalues below this fraction of the largest are rounding."""

SINGLE = 1e-8
"""Singular vectors with eigenvalues above this fraction of the largest are right to three digits in
float32."""

SINGLE_RANGE = 1e-25, 1e30
"""Eigenvalues between which squares of float32 neither underflow nor overflow."""

ORTHOGONAL = 5e-3
"""Largest cosine between rows that count as orthogonal: far above rounding in float32, below that
of most tasks."""

WHOLE = 1000
"""Side up to which the Gram matrix of a step is decomposed; the rows of larger tasks are merged
block by block."""

ROTATED = 200
"""Side up to which a memory of full rank is stored as singular vectors, at one decomposition per
task."""

MANY = 20
"""Rows of a task per vector from which on its XᵀX is decomposed."""

BLOCK = 256
"""Rows that are merged at a time, or as many as the memory has."""

DTYPES = ("float32", "float64")


@dataclass(frozen=True)
class LowRankMemory:
    """Low-rank memory of all tasks, for ``memory=`` of the estimators.

    Step t then minimizes ½‖X_t w − y_t‖² + ½‖B(w − w_{t−1})‖² + (λ_t/2)‖w − w_{t−1}‖², where the
    ``rank`` rows of B approximate those of all tasks so far. It takes rank·d numbers and needs λ_t
    > 0.

    Parameters
    ----------
    rank : int, default 30
        Number of vectors. Once it reaches the rank of all rows, the solution is that of joint ridge
        regression.
    diagonal : bool, default False
        Add to λ_t, feature by feature, the diagonal of Σ XᵀX as far as B does not hold it: for
        sparse, hashed or one-hot columns. Takes O(d) more memory; ``rank`` may then be 0.
    decay : float, default 0.0
        Fraction of the memory that every task removes, for streams that change.
    dtype : {"float32", "float64"}, default "float32"
        Of the vectors; "float64" where joint ridge regression must be reproduced to many digits.

    Examples
    --------
    >>> import forgetless as fl
    >>> fl.ContinualRidge(memory=fl.LowRankMemory(rank=50, dtype="float64")).memory.rank
    50
    """

    rank: int = 30
    diagonal: bool = False
    decay: float = 0.0
    dtype: str = "float32"

    def __post_init__(self) -> None:
        validate.integer("rank", self.rank, 0, "use memory=None to remember the weights alone")
        if not isinstance(self.diagonal, bool | np.bool_):
            raise TypeError(f"diagonal must be True or False, got {self.diagonal!r}")
        if self.dtype not in DTYPES:
            raise ValueError(f"dtype must be one of {', '.join(DTYPES)}, got {self.dtype!r}")
        if not 0.0 <= validate.number("decay", self.decay, "use 0 for tasks of equal weight") < 1.0:
            raise ValueError(f"decay must be in [0, 1), got {self.decay!r}; use e.g. 0.1")
        if self.decay > 0 and self.rank == 0 and not self.diagonal:
            raise ValueError(
                f"decay={self.decay!r} needs a memory, and rank=0 has none; use rank=30, or decay=0"
            )

    @classmethod
    def of(cls, value: Any) -> "LowRankMemory | None":
        """Return the memory that the parameter ``memory`` stands for; None for the weights
        alone.
        """
        if value is None:
            return None
        if not isinstance(value, cls):
            hint = "use None, a rank such as 30, or a LowRankMemory"
            value = cls(validate.integer("memory", value, 0, hint))
        return value if value.rank > 0 or value.diagonal else None


class Subspace(NamedTuple):
    """The memory after some tasks; learning creates another one.

    Attributes
    ----------
    vectors : array of shape (q, d)
        Rows of norm 1 in the dtype of the memory.
    norms : array of shape (q,)
        B = diag(norms)·vectors.
    trace : float
        Σ‖X‖² (Frobenius) of all tasks.
    diagonal : array of shape (d,) or None
        The diagonal of Σ XᵀX.
    """

    vectors: Array
    norms: Floats
    trace: float = 0.0
    diagonal: Array | None = None

    @classmethod
    def empty(cls, like: Array, memory: LowRankMemory) -> "Subspace":
        """Return the memory before the first task, for weights like ``like`` (d, c)."""
        vectors = like[:, :0].T.astype(memory.dtype)
        diagonal = (like[:, 0] * 0).astype(np.float64, copy=False) if memory.diagonal else None
        return cls(vectors, np.zeros(0), diagonal=diagonal)

    @property
    def retained_fraction(self) -> float:
        """Fraction of the trace of Σ XᵀX that B holds."""
        return min(1.0, float(np.sum(self.norms**2)) / self.trace) if self.trace > 0 else 1.0

    @property
    def lost_trace(self) -> float:
        """Trace of Σ XᵀX − BᵀB."""
        return max(self.trace - float(np.sum(self.norms**2)), 0.0)

    @property
    def is_double(self) -> bool:
        """Whether the vectors are float64."""
        return bool(self.vectors.dtype == np.float64)

    def rows(self, dtype: Any) -> Array:
        """Return B."""
        units = self.vectors.astype(dtype, copy=False)
        return np.multiply(units, self.norms.astype(dtype)[:, None], dtype=dtype)

    def decayed(self, decay: float) -> "Subspace":
        """Return the memory with the weight of all tasks so far multiplied by 1 − decay."""
        if decay == 0:
            return self
        left = 1.0 - decay
        return self._replace(
            norms=self.norms * math.sqrt(left),
            trace=left * self.trace,
            diagonal=None if self.diagonal is None else left * self.diagonal,
        )

    def in_units(self, change: UnitChange, total: float) -> "Subspace":
        """Return the same memory in other units of the columns; the retained fraction stays."""
        vectors, norms = normalized(change.rows(self.rows(np.float64)), self.vectors.dtype)
        old = float(np.sum(self.norms**2))
        ratio = float(np.sum(norms**2)) / old if old > 0 else 1.0
        return self._replace(
            vectors=vectors,
            norms=norms,
            trace=self.trace * ratio,
            diagonal=None if self.diagonal is None else change.squares(self.diagonal),
        )

    def widened(self, d: int, count: int) -> "Subspace":
        """Return the memory with ``count`` more features behind the first d, zero in every row."""
        return self._replace(
            vectors=with_zeros(self.vectors, d, count, 1),
            diagonal=None if self.diagonal is None else with_zeros(self.diagonal, d, count, 0),
        )

    def detached(self) -> "Subspace":
        """Return the memory, whose arrays are never changed in place."""
        return self

    def penalty_root(self, strength: float) -> Array:
        """Return √D of the diagonal penalty: λ and what B does not hold of the diagonal."""
        assert self.diagonal is not None
        rest = self.diagonal - np.sum(self.rows(np.float64) ** 2, axis=0)
        return np.sqrt(strength + np.where(rest > 0, rest, 0.0 * rest))

    def with_task(self, stack: Stacked, rank: int, size: float) -> "Subspace":
        """Return the memory after a task with ‖X‖² = ``size`` (Frobenius).

        ``stack`` is B above the rows of the task; its Gram matrix is used where it is known.
        """
        rows = stack.below
        memory = self._replace(
            trace=self.trace + size,
            diagonal=None if self.diagonal is None else self.diagonal + gram_diagonal(rows),
        )
        if rank == 0:
            return memory
        if rows.single is not None and stack.shape[0] <= rank:
            return memory._with_rows(rows)
        # Of large tasks XᵀX is cheaper than triangular factors, and accurate enough for vectors in
        # float32.
        squared = not self.is_double and not stack.dual and rows.shape[0] >= MANY * rank
        if rows.readable and rank >= rows.shape[1] and not squared:
            return memory._triangular(stack)
        if not rows.readable or not stack.dual or (stack.has_gram and stack.shape[0] <= WHOLE):
            return memory._truncated(stack, rank)
        for low, part in _parts(rows, max(rank, BLOCK)):
            above = stack.above if low == 0 else memory.rows(stack.above.dtype)
            memory = memory._truncated(Stacked(above, part), rank)
        return memory

    def _with_rows(self, rows: Rows) -> "Subspace":
        """Return the memory with the rows of a small task appended."""
        X = rows.single.toarray() if is_sparse(rows.single) else rows.single
        X = X.astype(np.float64, copy=False)
        norms = np.sqrt(np.sum(X * X, axis=1))
        nonzero = np.flatnonzero(norms > 0)
        units = X[nonzero, :] / norms[nonzero][:, None]
        vectors = np.concatenate([self.vectors, units.astype(self.vectors.dtype)], axis=0)
        return self._replace(vectors=vectors, norms=np.concatenate([self.norms, norms[nonzero]]))

    def _triangular(self, stack: Stacked) -> "Subspace":
        """Return the memory as the triangular factor of a stack, which holds all of it where r
        reaches d.

        Nothing is squared, so that no digits are lost over many tasks.
        """
        factor: Any = stack.above.astype(np.float64)
        for _, part in _parts(stack.below, max(stack.shape[1], BLOCK)):
            factor = np.linalg.qr(np.concatenate([factor, part.whole()]), mode="r")
        if len(factor) <= ROTATED:  # as in a file, so that a loaded stream continues bit for bit
            _, values, factor = np.linalg.svd(factor)
            factor = factor[: len(values)] * values[:, None]
            factor = factor[values > NEGLIGIBLE * values[:1]]
        units, norms = normalized(factor[np.any(factor != 0, axis=1)], np.float64)
        return self._replace(vectors=units.astype(self.vectors.dtype, copy=False), norms=norms)

    def _truncated(self, stack: Stacked, rank: int) -> "Subspace":
        """Return the memory as the leading singular vectors of a stack."""
        values, vectors = leading(stack.gram)
        count = truncation_rank(values, rank, stack.below.shape[0], self.is_double)
        V = np.ascontiguousarray(vectors[:, :count])
        if not stack.dual:
            rows = V.T * np.sqrt(values[:count])[:, None]
        else:
            # Rows that are stored in float32 need not be computed in float64.
            least = max(SINGLE * values[0], SINGLE_RANGE[0])
            single = (
                not self.is_double
                and count > 0
                and least < values[count - 1]
                and values[0] < SINGLE_RANGE[1]
            )
            rows = _combined(V.T, stack, np.float32 if single else stack.above.dtype)
        units, norms = normalized(rows, self.vectors.dtype)
        return self._replace(vectors=units, norms=norms)

    def orthogonalized(self) -> "Subspace":
        """Return the same memory as singular vectors, so that no row of the user leaves the process
        as it was.
        """
        B = self.rows(np.float64)
        if B.shape[0] < 2:
            return self
        gram = B @ B.T
        size = np.sqrt(np.maximum(gram.diagonal(), np.finfo(np.float64).tiny))
        cosines = np.abs(gram / size / size[:, None])
        np.fill_diagonal(cosines, 0.0)
        if cosines.max() < ORTHOGONAL:  # a truncation leaves them so, up to rounding
            return self
        _, vectors = leading(gram)
        rows = np.ascontiguousarray(vectors.T) @ B
        squares = np.sum(rows * rows, axis=1)
        # Linearly dependent rows give rows of zeros, which cannot be normalized.
        nonzero = np.flatnonzero(squares > NEGLIGIBLE**2 * squares.max())
        units, norms = normalized(rows[nonzero, :], self.vectors.dtype)
        return self._replace(vectors=units, norms=norms)

    def __reduce__(self) -> tuple[Any, ...]:
        return Subspace, tuple(self.orthogonalized())

    def arrays(self) -> dict[str, Any]:
        """Return the memory as arrays for a file."""
        memory = self.orthogonalized()
        arrays = {name: getattr(memory, name) for name in ("vectors", "norms", "trace")}
        if memory.diagonal is not None:
            arrays["diagonal"] = memory.diagonal
        return arrays

    @classmethod
    def from_fields(cls, fields: Fields, memory: LowRankMemory, d: int) -> "Subspace":
        """Return the memory in the arrays of a file; ValueError where one is not valid."""
        vectors = fields.array("vectors", "f", (None, d), low=-1.0, high=1.0)
        if vectors.dtype != memory.dtype or len(vectors) > memory.rank:
            raise ValueError(
                f"memory.vectors are {len(vectors)} rows of {vectors.dtype}, which {memory}"
                " contradicts"
            )
        norms = fields.array("norms", "f", (len(vectors),), low=0.0).astype(np.float64)
        trace = fields.number("trace")
        diagonal = fields.array("diagonal", "f", (d,), low=0.0) if memory.diagonal else None
        return cls(vectors, norms, trace, diagonal)


def _combined(V: Array, stack: Stacked, dtype: Any) -> Array:
    """Return V·[B; X] in a dtype."""
    q, X = stack.above.shape[0], stack.below.single
    V, above = (each.astype(dtype, copy=False) for each in (V, stack.above))
    if is_sparse(X):
        return V[:, :q] @ above + (X.T.astype(V.dtype) @ V[:, q:].T).T
    if above.dtype == X.dtype:
        return V[:, :q] @ above + V[:, q:] @ X
    # They must be copied anyway: one product is faster than two.
    return V @ np.concatenate([above, X.astype(dtype)], axis=0)


def truncation_rank(values: Floats, rank: int, n: int, is_double: bool) -> int:
    """Return the number of vectors to store, for eigenvalues in decreasing order, after a task of n
    rows.

    Where tasks are much smaller than the memory, room is left for the rows of the next ones: a
    truncation costs as much as dozens of them. A memory in float64 does so only if something must
    be lost anyway.
    """
    nonzero = int(np.sum(values > NEGLIGIBLE * values[0]))
    if 16 * n > rank or (is_double and nonzero <= rank):
        return min(nonzero, rank)
    return min(nonzero, rank - rank // 4)


def normalized(rows: Array, dtype: Any) -> tuple[Array, Floats]:
    """Return rows as unit rows of a dtype, and their norms."""
    # as from a file, so that a loaded stream continues bit for bit
    rows = np.ascontiguousarray(rows)
    norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    return (rows / norms[:, None]).astype(dtype, copy=False), norms.astype(np.float64)


def leading(gram: Floats) -> tuple[Floats, Floats]:
    """Return eigenvalues in decreasing order, none below zero, and their vectors."""
    values, vectors = np.linalg.eigh(gram)
    return np.maximum(values[::-1], 0.0), vectors[:, ::-1]


def _parts(rows: Rows, count: int) -> Any:
    """Yield the number of the first row and the rows of every part of at most ``count`` rows."""
    first = 0
    for block in rows.blocks():
        for low in range(0, int(block.shape[0]), count):
            part = block[low : low + count, :]
            yield first, Rows.of(part)
            first += int(part.shape[0])


def squared_norm(rows: Rows) -> float:
    """Return ‖X‖² (Frobenius)."""
    if rows.has_gram:
        return float(np.trace(rows.gram))
    return sum(_sum_of_squares(block) for block in rows.blocks())


def _sum_of_squares(block: Any) -> float:
    values = block.data if is_sparse(block) else block
    values = values.ravel(order="K")
    return float(np.einsum("i,i->", values, values, dtype=np.float64))


def gram_diagonal(rows: Rows) -> Array:
    """Return the diagonal of XᵀX."""
    if rows.has_gram and not rows.dual:
        return np.linalg.diagonal(rows.gram)
    total: Any = 0.0
    for block in rows.blocks():
        if is_sparse(block):
            total = total + np.bincount(
                block.indices, block.data.astype(np.float64) ** 2, minlength=rows.shape[1]
            )
        else:
            total = total + np.sum(block.astype(np.float64, copy=False) ** 2, axis=0)
    return total
