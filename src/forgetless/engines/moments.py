"""Second moments of the error under random tasks: the linear operator behind every exact expectation.

With z the error w − ref in coordinates of the joint span (q × c for c targets), the state is U = (z, I), its moment
S = E[U Uᵀ], and one step on task m is U ← (I − Lᵀ φ R) U with L = [D 0] and R = [D −missing], D being the task's
directions there. Tasks that one model fits have missing = 0, and the extra rows are left out. Where such errors would
lose digits, the state is made of outputs instead, with other L and R (``engines.reference``).

For a task drawn with probabilities p this is S ← Σ_m p_m M_m S M_mᵀ = S − A − Aᵀ with A = Lᵀ Y and

    Y_m = p_m φ (R_m S − ½ (R_m S R_mᵀ) φ L_m):

two large products and some small ones. A + Aᵀ is exactly symmetric, so S stays so: an antisymmetric rounding error
would not be contracted but grow.

All functions work on B problems at once, with S of shape (Q, Q, B) and shares φ of shape (Σr, B): problems last, so
that what is not a product runs over long contiguous rows.
"""

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from forgetless._core.arrays import Array, Floats, from_numpy, namespace_of, to_numpy, zeros
from forgetless.tasks import TaskCollection

# A direction's missing target below this, relative to what it was computed from, counts as rounding of zero
REALIZABLE = 2e-13


@dataclass(frozen=True, eq=False)
class Moments:
    """The maps of a collection in span coordinates around a reference.

    Attributes
    ----------
    left, right : array of shape (Σr, Q)
        L and R above; the same array for realizable tasks, where Q = q. Otherwise Q = q + c.
    start : array of shape (Q, Q)
        S before the first step.
    frame : array of shape (q, d') or None
        Where the state is not the error in span coordinates: the first q coordinates change by ``frame`` times the
        change of the weights in span coordinates.
    neglected : array of shape (Σr,) or None
        What was taken for rounding of zero in the targets of every direction.
    """

    tasks: TaskCollection
    left: Array
    right: Array
    start: Array
    frame: Array | None = None
    neglected: Floats | None = None

    @property
    def dropped(self) -> Floats:
        """``neglected``, and zeros where nothing was."""
        return np.zeros(self.left.shape[0]) if self.neglected is None else self.neglected

    @property
    def size(self) -> int:
        """Q, the number of coordinates."""
        return int(self.left.shape[1])

    @property
    def realizable(self) -> bool:
        """Whether the maps are linear: no extra coordinates, and L = R."""
        return self.left is self.right

    @property
    def moves(self) -> Array:
        """Rows of shape (Σr, Q) that give the change of V w from that of the state: R without what is constant."""
        if self.frame is None:
            return self.left
        xp, q = namespace_of(self.right), self.frame.shape[0]
        constant = zeros((self.right.shape[0], self.size - q), self.right)
        return xp.concat([self.right[:, :q], constant], axis=1)

    def linear_form(self, V: Array) -> Array:
        """Return what a form V (Q, Q) of the state is of an error in span coordinates, without what is constant."""
        if self.frame is None:
            q = self.tasks.span_dimension
            return V[:q, :q]
        q = self.frame.shape[0]
        return self.frame.T @ V[:q, :q] @ self.frame

    def initial(self, n_problems: int) -> Array:
        """Return S before the first step for every problem, of shape (Q, Q, B)."""
        return repeated(self.start, n_problems)


def symmetrized(S: Array) -> Array:
    """Return ½(S + Sᵀ): a product that should be symmetric is so only up to rounding, which would not decay."""
    return 0.5 * (S + S.T)


def repeated(S: Array, n_problems: int) -> Array:
    """Return one matrix (Q, Q) as a fresh array for every problem, of shape (Q, Q, B)."""
    xp = namespace_of(S)
    return xp.asarray(xp.broadcast_to(S[:, :, None], (*S.shape, n_problems)), copy=True)


def moments_around_teacher(tasks: TaskCollection, start: Array, *, affine: bool = False) -> Moments:
    """Return the maps around the joint solution nearest to ``start``, where losses are smallest and most accurate.

    With ``affine`` the extra coordinates are kept where every task is met, so that S also holds the mean error.
    """
    xp, basis = tasks.xp, tasks.span
    shape = (tasks.n_features, tasks.n_targets)
    teacher = xp.reshape(tasks.teacher(start), shape)
    z = xp.reshape(start, shape) - teacher
    missing = tasks.targets - tasks.singular_vectors @ teacher
    D = tasks.singular_vectors if basis is None else tasks.singular_vectors @ basis
    z = z if basis is None else basis.T @ z
    realizable = not _is_missing(missing, tasks, teacher)
    neglected = np.linalg.norm(to_numpy(missing), axis=1) if realizable else None
    if realizable and not affine:
        return Moments(tasks, D, D, symmetrized(z @ z.T), neglected=neglected)
    missing = zeros(missing.shape, missing) if realizable else missing
    extra = zeros((D.shape[0], tasks.n_targets), D)
    eye = xp.eye(tasks.n_targets, dtype=D.dtype, device=D.device)
    state = xp.concat([z, eye], axis=0)
    left, right = xp.concat([D, extra], axis=1), xp.concat([D, -missing], axis=1)
    return Moments(tasks, left, right, symmetrized(state @ state.T), neglected=neglected)


def linear_moments(tasks: TaskCollection) -> Moments:
    """Return the maps of realizable tasks with the same data matrices, whatever the targets are."""
    D = tasks.singular_vectors if tasks.span is None else tasks.singular_vectors @ tasks.span
    return Moments(tasks, D, D, zeros((D.shape[1], D.shape[1]), D))


def _is_missing(missing: Array, tasks: TaskCollection, teacher: Array) -> bool:
    """Whether any target is missed by the teacher by more than the rounding of that very direction.

    Deciding so where a task is met costs only an extra coordinate; the other way round a conflict would be lost.
    """
    xp = namespace_of(missing)
    rounding = from_numpy((tasks.radii / tasks.singular_values)[:, None], like=missing)
    # The teacher itself is rounded relative to its norm, whatever the direction.
    size = xp.abs(tasks.targets) + xp.linalg.vector_norm(teacher)
    return bool(xp.any(xp.abs(missing) > REALIZABLE * rounding * size))


class Operator:
    """One step of the moment recursion for tasks drawn with given probabilities.

    Parameters
    ----------
    moments : Moments
    probabilities : array of shape (M,)
    """

    def __init__(self, moments: Moments, probabilities: NDArray[np.float64]) -> None:
        self.left, self.right = moments.left, moments.right
        self.tasks = moments.tasks
        weights = np.repeat(probabilities, np.diff(moments.tasks.offsets))
        self.weights = from_numpy(weights[:, None], like=self.left)
        self.blocks = _Blocks(moments)

    def products(self, S: Array, factors: Array) -> tuple[Array, Array]:
        """Return R S and (R_m S R_mᵀ) φ L_m of every task, both of shape (Σr, Q, B)."""
        T = applied(self.right, S)
        return T, self.blocks.sandwich(T, self.right, self.left, factors)

    def decrease(self, S: Array, factors: Array) -> Array:
        """Return S − Σ_m p_m M_m S M_mᵀ, of the shape (Q, Q, B) of S, with φ in ``shares`` of shape (Σr, B)."""
        T = applied(self.right, S)
        Y = self.blocks.sandwich(T, self.right, self.left, -0.5 * factors)
        return self._collected(T, Y, factors)

    def collect(self, T: Array, W: Array, factors: Array) -> Array:
        """Return the decrease from the result of ``products``."""
        return self._collected(T, -0.5 * W, factors)

    def _collected(self, T: Array, Y: Array, factors: Array) -> Array:
        Y += T  # in place: for many problems these are the largest arrays
        Y *= (self.weights * factors)[:, None, :]
        return mirrored(applied(self.left.T, Y))

    def decrease_adjoint(self, V: Array, factors: Array) -> Array:
        """Return V − Σ_m p_m M_mᵀ V M_m."""
        T = applied(self.left, V)
        W = self.blocks.sandwich(T, self.left, self.right, factors)
        return mirrored(applied(self.right.T, (T - 0.5 * W) * (self.weights * factors)[:, None, :]))

    def each(self, S: Array, factors: Array) -> Array:
        """Return M_m S M_mᵀ for every task m, of shape (Q, Q, M, B)."""
        xp = namespace_of(S)
        T, W = self.products(S, factors)
        Y = (T - 0.5 * W) * factors[:, None, :]
        offsets = self.tasks.offsets.tolist()
        results = []
        for low, high in itertools.pairwise(offsets):
            results.append(S - mirrored(applied(self.left[low:high, :].T, Y[low:high, ...])) if high > low else S)
        return xp.stack(results, axis=2)

    def outputs(self, S: Array) -> Array:
        """Return R_j S R_jᵀ, the mean square error of direction j, of shape (Σr, B)."""
        return namespace_of(S).sum(applied(self.right, S) * self.right[:, :, None], axis=1)


def applied(matrix: Array, S: Array) -> Array:
    """Return matrix @ S along the first axis of S (Q, Q, B)."""
    xp = namespace_of(S)
    n, q, b = S.shape
    return xp.reshape(matrix @ xp.reshape(S, (n, q * b)), (matrix.shape[0], q, b))


def mirrored(A: Array) -> Array:
    """Return A + Aᵀ of matrices (Q, Q, B)."""
    return A + namespace_of(A).permute_dims(A, (1, 0, 2))


class _Blocks:
    """Products within tasks, for tasks of any ranks: batched over tasks of equal rank."""

    def __init__(self, moments: Moments) -> None:
        offsets, ranks = moments.tasks.offsets, np.diff(moments.tasks.offsets)
        like = moments.left
        self.groups: list[tuple[int, int, Array | slice]] = []
        for rank in np.unique(ranks[ranks > 0]).tolist():
            members = np.flatnonzero(ranks == rank)
            rows = (offsets[members][:, None] + np.arange(rank)).ravel()
            whole = len(rows) == offsets[-1]
            index = slice(None) if whole else from_numpy(rows, like=like)
            self.groups.append((len(members), rank, index))

    def sandwich(self, T: Array, inner: Array, outer: Array, factors: Array) -> Array:
        """Return (T_m inner_mᵀ) φ_m outer_m for every task m, of shape (Σr, Q, B)."""
        parts = []
        for count, rank, rows in self.groups:
            own = [_rows(x, rows) for x in (T, inner, outer, factors)]
            parts.append((rows, self._one(count, rank, *own)))
        return self._assemble(parts, T)

    def _one(self, count: int, rank: int, T: Array, inner: Array, outer: Array, factors: Array) -> Array:
        xp = namespace_of(T)
        q, b = T.shape[1:]
        if rank == 1:
            K = xp.sum(T * inner[:, :, None], axis=1) * factors
            return K[:, None, :] * outer[:, :, None]
        if b == 1:  # one product per task instead of one per direction
            K = xp.reshape(T, (count, rank, q)) @ xp.matrix_transpose(xp.reshape(inner, (count, rank, q)))
            K *= xp.reshape(factors, (count, 1, rank))
            return xp.reshape(K @ xp.reshape(outer, (count, rank, q)), (count * rank, q, 1))
        K = xp.reshape(inner, (count, 1, rank, q)) @ xp.reshape(T, (count, rank, q, b))
        K *= xp.reshape(factors, (count, 1, rank, b))
        W = xp.matrix_transpose(xp.reshape(outer, (count, 1, rank, q))) @ K
        return xp.reshape(W, (count * rank, q, b))

    def _assemble(self, parts: list[tuple[Array | slice, Array]], like: Array) -> Array:
        if not parts:
            return like  # no task has a direction
        if len(parts) == 1 and isinstance(parts[0][0], slice):
            return parts[0][1]
        xp = namespace_of(like)
        rows = xp.concat([index for index, _ in parts])
        return xp.take(xp.concat([part for _, part in parts], axis=0), xp.argsort(rows), axis=0)


def _rows(array: Array, rows: Array | slice) -> Array:
    return array if isinstance(rows, slice) else namespace_of(array).take(array, rows, axis=0)


def average_form(moments: Moments) -> Array:
    """Return (1/M) Σ_j s_j² R_jᵀ R_j, the quadratic form of twice the average excess loss, of shape (Q, Q)."""
    tasks = moments.tasks
    scale = from_numpy(tasks.singular_values[:, None] ** 2 / tasks.n_tasks, like=moments.right)
    return symmetrized(moments.right.T @ (scale * moments.right))
