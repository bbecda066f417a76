"""What is remembered of all tasks beside the weights: at most r directions, of which every later step takes account.

The rows B stand for the rows of all tasks so far, BᵀB ≈ Σ XᵀX. A task X is learned as [B; X] with residuals
[0; y − Xw], and B becomes the r largest singular directions of [B; X]: the best that r rows can do. With r = 0 nothing
is remembered, and as long as r reaches the rank of all rows nothing is lost: the weights are those of joint ridge
regression. What a cut leaves out is counted: ``cut`` adds up the largest eigenvalue of each, ``kept`` is the share of
the trace that is left.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from forgetless._core.arrays import Array, Floats, from_numpy, namespace_of, to_numpy
from forgetless._core.half import to_half, to_single
from forgetless.estimators._lost import Lost
from forgetless.estimators._units import Move
from forgetless.solvers.rows import Rows, is_sparse
from forgetless.solvers.stacked import Stacked

NEGLIGIBLE = 1e-15
"""Eigenvalues below this share of the largest are rounding."""

SINGLE = 1e-8
"""Directions whose eigenvalues are above this share of the largest come out of single precision to three digits."""

SINGLE_RANGE = 1e-25, 1e30
"""Eigenvalues between which squares of single precision have room for the directions."""

ORTHOGONAL = 5e-3
"""Cosines between rows that are directions: half precision makes them so small, and tasks hardly ever."""

WHOLE = 1000
"""Side up to which the Gram matrix of a step is decomposed; the rows of larger tasks are merged block by block."""

ROTATED = 200
"""Side up to which a memory that holds everything is kept as singular directions, a decomposition a task."""

MANY = 20
"""Rows of a task for each direction from which on its XᵀX is decomposed."""

BLOCK = 256
"""Rows that are merged at a time, or as many as are remembered."""


class Directions(NamedTuple):
    """The memory of a stream; learning makes another one.

    Attributes
    ----------
    units : array of shape (≥ q, d)
        Rows of norm 1 in the precision of the memory; behind the first q is room for more (``_single_rows``).
    sizes : array of shape (q,)
        Their norms: B = diag(sizes)·units.
    cut, seen : float
        Sum of the largest eigenvalue left out by each cut; Σ‖X‖² (Frobenius) of all tasks.
    unit : float
        s, the mean squared norm of a row of the first task.
    diagonal : array of shape (d,) or None
        The diagonal of Σ XᵀX, for the diagonal metric.
    factor : array of shape (≥ q, ≥ q) or None
        The Cholesky factor of B·Bᵀ + shift·I, where tasks of one row are gathered.
    shift : float
    lost : Lost or None
        What cuts have left out, where the strength follows it.
    """

    units: Array
    sizes: Floats
    cut: float = 0.0
    seen: float = 0.0
    unit: float = math.nan
    diagonal: Array | None = None
    factor: Floats | None = None
    shift: float = math.nan
    lost: Lost | None = None

    @classmethod
    def none(cls, like: Array, precision: str, metric: str) -> "Directions":
        """Return the memory before the first task, in the library of the weights ``like`` (d, c)."""
        xp = namespace_of(like)
        # Half precision is no part of the array API: libraries may lack it.
        units = xp.astype(like[:, :0].T, getattr(xp, precision, xp.float32))
        diagonal = xp.astype(like[:, 0] * 0, xp.float64, copy=False) if metric == "diagonal" else None
        return cls(units, np.zeros(0), diagonal=diagonal)

    @property
    def kept(self) -> float:
        """Share of the trace of Σ XᵀX that is remembered."""
        return min(1.0, float(np.sum(self.sizes**2)) / self.seen) if self.seen > 0 else 1.0

    @property
    def missing(self) -> float:
        """Trace of what cuts have left out."""
        return max(self.seen - float(np.sum(self.sizes**2)), 0.0)

    def rows(self, dtype: Any, factor: float = 1.0) -> Array:
        """Return factor·B."""
        xp, units = namespace_of(self.units), self.unit_rows(dtype)
        if type(units) is np.ndarray:
            return np.multiply(units, (factor * self.sizes).astype(dtype)[:, None], dtype=dtype)
        return units * xp.astype(from_numpy(factor * self.sizes, like=units), dtype, copy=False)[:, None]

    def unit_rows(self, dtype: Any) -> Array:
        """Return the rows of B divided by their norms; those kept in half precision in single at least."""
        units = self.units[: len(self.sizes), :]
        if type(units) is np.ndarray and units.dtype == np.float16:
            return to_single(units)
        return namespace_of(units).astype(units, dtype, copy=False)

    def faded(self, forget: float) -> "Directions":
        """Return the memory in which all that was seen counts for less."""
        if forget == 0:
            return self
        left = 1.0 - forget
        return self._replace(
            sizes=self.sizes * math.sqrt(left),
            cut=left * self.cut,
            seen=left * self.seen,
            diagonal=None if self.diagonal is None else left * self.diagonal,
            factor=None if self.factor is None else math.sqrt(left) * self.factor,
            shift=left * self.shift,
            lost=None if self.lost is None else self.lost.faded(left),
        )

    def moved(self, move: Move) -> "Directions":
        """Return the same memory in other units of the columns; the share that is remembered stays."""
        xp = namespace_of(self.units)
        units, sizes = normalised(move.rows(self.rows(xp.float64)), self.units.dtype)
        held = float(np.sum(self.sizes**2))
        factor = float(np.sum(sizes**2)) / held if held > 0 else 1.0
        return self._replace(
            units=units,
            sizes=sizes,
            seen=self.seen * factor,
            diagonal=None if self.diagonal is None else move.squares(self.diagonal),
            factor=None,
            lost=None if self.lost is None else self.lost.faded(factor),
        )

    def root(self, coefficient: float) -> Array:
        """Return √D of the diagonal metric: λ and what the directions do not explain of the diagonal."""
        xp = namespace_of(self.units)
        assert self.diagonal is not None
        unexplained = self.diagonal - xp.sum(self.rows(xp.float64) ** 2, axis=0)
        return xp.sqrt(coefficient + xp.where(unexplained > 0, unexplained, 0.0 * unexplained))

    def with_task(self, stack: Stacked, rank: int, scale: float, size: float) -> "Directions":
        """Return the memory after a task.

        Parameters
        ----------
        stack : Stacked
            √scale·B above the rows of the task; its Gram matrix is used where it is known.
        rank : int
        scale, size : float
            What its loss is divided by, and ‖X‖² (Frobenius).
        """
        rows = stack.below
        found = self._replace(
            seen=self.seen + size / scale,
            diagonal=None if self.diagonal is None else self.diagonal + diagonal(rows) / scale,
            factor=None,
        )
        if rank == 0:
            return found
        if rows.single is not None and stack.shape[0] <= rank:
            return found._with_rows(rows, scale)
        exact = self.units.dtype == namespace_of(self.units).float64
        # Of large tasks XᵀX is cheaper than triangles, and as good as what is stored in half or single precision.
        if rows.readable and rank >= rows.shape[1] and (exact or stack.dual or rows.shape[0] < MANY * rank):
            return found._triangular(stack, scale)
        if not rows.readable or not stack.dual or (stack.has_gram and stack.shape[0] <= WHOLE):
            return found._cut_to(stack, rank, scale)
        for low, part in _parts(rows, max(rank, BLOCK)):
            above = stack.above if low == 0 else found.rows(stack.above.dtype, math.sqrt(scale))
            found = found._cut_to(Stacked(above, part), rank, scale)
        return found

    def _with_rows(self, rows: Rows, scale: float) -> "Directions":
        """Return the memory with the rows of a small task as they are."""
        X = rows.single.toarray() if is_sparse(rows.single) else rows.single
        xp = namespace_of(X)
        X = xp.astype(X, xp.float64, copy=False)
        norms = xp.sqrt(xp.sum(X * X, axis=1))
        there = np.flatnonzero(to_numpy(norms) > 0)
        units = X[from_numpy(there, like=X), :] / norms[from_numpy(there, like=X)][:, None]
        sizes = to_numpy(norms)[there] / math.sqrt(scale)
        old = self.units[: len(self.sizes), :]
        new = xp.concat([old, xp.astype(units, old.dtype, copy=False)], axis=0)
        return self._replace(units=new, sizes=np.concatenate([self.sizes, sizes]))

    def apart(self) -> "Directions":
        """Return a memory that goes its own way: rows of two streams must not be written to the same place."""
        return self._replace(units=self.units[: len(self.sizes), :], factor=None)

    def mixed(self) -> "Directions":
        """Return the same memory as singular directions, so that no row of the user's leaves the process as it was."""
        B = self.rows(namespace_of(self.units).float64)
        if B.shape[0] < 2:
            return self.apart()
        gram = to_numpy(B @ B.T)
        size = np.sqrt(np.maximum(gram.diagonal(), np.finfo(np.float64).tiny))
        cosines = np.abs(gram / size / size[:, None])
        np.fill_diagonal(cosines, 0.0)
        if cosines.max() < ORTHOGONAL:  # as a cut leaves them, up to rounding: a second time changes nothing
            return self.apart()
        _, vectors = largest(gram)
        mixed = from_numpy(np.ascontiguousarray(vectors.T), like=B) @ B
        squares = to_numpy(namespace_of(mixed).sum(mixed * mixed, axis=1))
        # Of rows that depend on each other some become zero, which have no direction.
        there = np.flatnonzero(squares > NEGLIGIBLE**2 * squares.max())
        units, sizes = normalised(mixed[from_numpy(there, like=B), :], self.units.dtype)
        return self._replace(units=units, sizes=sizes, factor=None)

    def __reduce__(self) -> tuple[Any, ...]:
        return Directions, tuple(self.mixed())

    def _triangular(self, stack: Stacked, scale: float) -> "Directions":
        """Return the memory as the triangular factor of a stack, which holds all of it where r reaches d.

        Nothing is squared, so that nothing is lost over many tasks either.
        """
        factor: Any = to_numpy(stack.above).astype(np.float64)
        for _, part in _parts(stack.below, max(stack.shape[1], BLOCK)):
            factor = np.linalg.qr(np.concatenate([factor, to_numpy(part.whole())]), mode="r")
        if len(factor) <= ROTATED:  # as a file has them, so that a stream goes on from one bit for bit
            _, values, factor = np.linalg.svd(factor)
            factor = factor[: len(values)] * values[:, None]
            factor = factor[values > NEGLIGIBLE * values[:1]]
        units, sizes = normalised(factor[np.any(factor != 0, axis=1)], np.float64)
        made = from_numpy(units, like=stack.above)
        xp = namespace_of(made)
        return self._replace(units=xp.astype(made, self.units.dtype, copy=False), sizes=sizes / math.sqrt(scale))

    def _cut_to(self, stack: Stacked, rank: int, scale: float) -> "Directions":
        """Return the memory whose directions are the largest of a stack."""
        values, vectors = largest(to_numpy(stack.gram))
        exact = self.units.dtype == namespace_of(self.units).float64
        keep = how_many(values, rank, stack.below.shape[0], exact)
        lost = float(values[keep]) if keep < len(values) else 0.0
        V = from_numpy(np.ascontiguousarray(vectors[:, :keep]), like=stack.above)
        xp = namespace_of(V)
        if not stack.dual:
            new = V.T * from_numpy(np.sqrt(values[:keep]), like=V)[:, None]
        else:
            # Rows that are kept in half or single precision need not be made in double.
            least = max(SINGLE * values[0], SINGLE_RANGE[0])
            single = not exact and keep > 0 and least < values[keep - 1] and values[0] < SINGLE_RANGE[1]
            new = _mixed(V.T, stack, xp.float32 if single else stack.above.dtype)
        units, sizes = normalised(new, self.units.dtype)
        return self._replace(units=units, sizes=sizes / math.sqrt(scale), cut=self.cut + lost / scale)


def _mixed(V: Array, stack: Stacked, dtype: Any) -> Array:
    """Return V·[B; X] in a dtype."""
    xp, q, X = namespace_of(V), stack.above.shape[0], stack.below.single
    V, above = (xp.astype(each, dtype, copy=False) for each in (V, stack.above))
    if is_sparse(X):
        return V[:, :q] @ above + (X.T.astype(V.dtype) @ V[:, q:].T).T
    if above.dtype == X.dtype:
        return V[:, :q] @ above + V[:, q:] @ X
    # They must be copied anyway: one product is faster than two.
    return V @ xp.concat([above, xp.astype(X, dtype)], axis=0)


def how_many(values: Floats, rank: int, n: int, exact: bool) -> int:
    """Return how many directions to keep, given eigenvalues from the largest down, after a task of n rows.

    Where tasks are much smaller than the memory, room is made for the rows of the next ones: a cut costs as much as
    dozens of them. A memory in float64 (``exact``) does so only if something must be lost anyway.
    """
    real = int(np.sum(values > NEGLIGIBLE * values[0]))
    if 16 * n > rank or (exact and real <= rank):
        return min(real, rank)
    return min(real, rank - rank // 4)


def normalised(rows: Array, dtype: Any) -> tuple[Array, Floats]:
    """Return rows as unit rows of a dtype, and their norms."""
    xp = namespace_of(rows)
    if type(rows) is np.ndarray:
        rows = np.ascontiguousarray(rows)  # as from a file, so that a stream goes on from one bit for bit
        norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))
        if dtype == np.float16:
            # Rounded after the division: rows in double may be out of the range of single precision.
            single = np.divide(rows, norms[:, None], out=np.empty(rows.shape, np.float32), casting="same_kind")
            return to_half(single), norms.astype(np.float64)
    else:
        norms = xp.sqrt(xp.sum(rows * rows, axis=1))
    return xp.astype(rows / norms[:, None], dtype, copy=False), to_numpy(norms).astype(np.float64)


def largest(gram: Floats) -> tuple[Floats, Floats]:
    """Return eigenvalues from the largest down, none below zero, and their vectors."""
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
        return float(np.trace(to_numpy(rows.gram)))
    return sum(_sum_of_squares(block) for block in rows.blocks())


def _sum_of_squares(block: Any) -> float:
    values = block.data if is_sparse(block) else block
    if isinstance(values, np.ndarray):
        values = values.ravel(order="K")
        return float(np.einsum("i,i->", values, values, dtype=np.float64))
    xp = namespace_of(values)
    return float(xp.sum(xp.astype(values, xp.float64, copy=False) ** 2))


def diagonal(rows: Rows) -> Array:
    """Return the diagonal of XᵀX."""
    if rows.has_gram and not rows.dual:
        return namespace_of(rows.gram).linalg.diagonal(rows.gram)
    total: Any = 0.0
    for block in rows.blocks():
        if is_sparse(block):
            total = total + np.bincount(block.indices, block.data.astype(np.float64) ** 2, minlength=rows.shape[1])
        else:
            xp = namespace_of(block)
            total = total + xp.sum(xp.astype(block, xp.float64, copy=False) ** 2, axis=0)
    return total
