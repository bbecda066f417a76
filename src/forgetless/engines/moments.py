"""The maps of a collection on second moments of the error: the coordinates of every exact
expectation.

With z the error w − ref in coordinates of the joint span (q × c for c targets), the state is U =
(z, I), its moment S = E[U Uᵀ], and one step on task m is U ← (I − Lᵀ φ R) U with L = [D 0] and R =
[D −missing], D being the task's singular vectors there. Realizable tasks have missing = 0, and the
extra rows are omitted.

Around the joint solution w⋆ a loss is R S Rᵀ, and its rounding that of the largest terms in this
product, R²‖w₀ − w⋆‖². Weak tasks and near-duplicate columns put w⋆ far away, at targets over
singular values: then terms of 1e16 cancel to a loss of 1. The *output coordinates* avoid this.
Their state is the error e = V w − V X⁺y along q singular vectors of the tasks themselves, the
strongest ones first, from which all others follow as e = C e_J + missing with small coefficients
s_j C_ji / s_i: every loss is then a sum of terms of the size of losses. The maps are not
self-adjoint there, so that w⋆ remains the reference where no digits are lost.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from forgetless._core.arrays import Array, Floats
from forgetless.metrics import OTHER_LOSS, by_task
from forgetless.tasks import TaskCollection

# a missing target below this, relative to the terms of its computation, is a rounded zero
ROUNDING = 2e-13
# ratio of terms to loss around the joint solution, four digits of sixteen, that is accepted
CANCELS = 1e4


class OtherTasks(NamedTuple):
    """Tasks that are not learned, but whose mean loss is measured: ½ tr(rows S rowsᵀ) + floor."""

    rows: Floats  # (Σr', Q)
    floor: float
    outside: float  # the mean of ‖X'‖² outside the joint span of the tasks learned


@dataclass(frozen=True, eq=False)
class Moments:
    """The maps of a collection around a reference, in Q = q coordinates if realizable, else q +
    c.
    """

    tasks: TaskCollection
    left: Array  # L (Σr, Q)
    right: Array  # R (Σr, Q), the same array for realizable tasks
    start: Array  # S (Q, Q) before the first step
    # (q, q) in output coordinates: changes of the state from those in span coordinates
    frame: Array | None = None
    neglected: Floats | None = None  # (Σr,) missing targets that were treated as rounded zeros
    other: "OtherTasks | None" = None

    @property
    def dropped(self) -> Floats:
        """``neglected``, or zeros."""
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
        """Rows (Σr, Q) of the map from changes of the state to changes of V w: R without its
        constant columns.
        """
        if self.frame is None:
            return self.left
        q = self.frame.shape[0]
        constant = np.zeros((self.right.shape[0], self.size - q))
        return np.concatenate([self.right[:, :q], constant], axis=1)

    def initial(self, n_problems: int) -> Array:
        """Return S before the first step for every problem, of shape (Q, Q, B)."""
        return repeated(self.start, n_problems)


def symmetrized(S: Array) -> Array:
    """Return ½(S + Sᵀ): rounding makes products asymmetric, and the asymmetry would not decay."""
    return 0.5 * (S + S.T)


def repeated(S: Array, n_problems: int) -> Array:
    """Return copies of one matrix (Q, Q) for every problem, of shape (Q, Q, B)."""
    return np.asarray(np.broadcast_to(S[:, :, None], (*S.shape, n_problems)), copy=True)


def moments_around_teacher(tasks: TaskCollection, start: Array, *, affine: bool = False) -> Moments:
    """Return the maps around the joint solution nearest to ``start``, where losses are smallest and
    most accurate.

    With ``affine`` realizable tasks have the extra coordinates too, so that S also contains the
    mean error.
    """
    D, shape = tasks.span_vectors, (tasks.n_features, tasks.n_targets)
    teacher = np.reshape(tasks.teacher(start), shape)
    z = np.reshape(start, shape) - teacher
    missing = tasks.targets - tasks.singular_vectors @ teacher
    z = tasks.span.T @ z
    realizable = not _is_missing(missing, tasks, teacher)
    neglected = np.linalg.norm(missing, axis=1) if realizable else None
    if realizable and not affine:
        return Moments(tasks, D, D, symmetrized(z @ z.T), neglected=neglected)
    missing = np.zeros(missing.shape) if realizable else missing
    extra = np.zeros((D.shape[0], tasks.n_targets))
    eye = np.eye(tasks.n_targets)
    state = np.concatenate([z, eye], axis=0)
    left, right = np.concatenate([D, extra], axis=1), np.concatenate([D, -missing], axis=1)
    return Moments(tasks, left, right, symmetrized(state @ state.T), neglected=neglected)


def linear_moments(tasks: TaskCollection) -> Moments:
    """Return the maps of realizable tasks with the same data matrices, independent of the
    targets.
    """
    D = tasks.span_vectors
    return Moments(tasks, D, D, np.zeros((D.shape[1], D.shape[1])))


def _is_missing(missing: Array, tasks: TaskCollection, teacher: Array) -> bool:
    """Whether the teacher misses any target by more than the rounding along that singular vector.

    A false positive costs only an extra coordinate; a false negative would lose a conflict between
    tasks.
    """
    rounding = (tasks.radii / tasks.singular_values)[:, None]
    # The teacher itself is rounded relative to its norm.
    size = np.abs(tasks.targets) + np.linalg.vector_norm(teacher)
    return bool(np.any(np.abs(missing) > ROUNDING * rounding * size))


def average_form(moments: Moments) -> Array:
    """Return (1/M) Σ_j s_j² R_jᵀ R_j, the quadratic form of twice the average excess loss, of shape
    (Q, Q).
    """
    tasks = moments.tasks
    scale = tasks.singular_values[:, None] ** 2 / tasks.n_tasks
    return symmetrized(moments.right.T @ (scale * moments.right))


# metrics that follow from S alone, beside the average loss
OF_MOMENTS = ("task_losses", "distance", OTHER_LOSS)


def of_moments(name: str, moments: Moments, S: Array) -> Floats:
    """Return a metric of ``OF_MOMENTS`` of B schedules from S (Q, Q, B): of shape (B,), or (B, M)
    if it is per task.
    """
    tasks, S = moments.tasks, S
    if name == "distance":
        return np.asarray(
            np.maximum(np.trace(S[: tasks.span_dimension, : tasks.span_dimension]), 0.0)
        )
    if name == OTHER_LOSS:
        assert moments.other is not None
        rows, floor, _ = moments.other
        return np.asarray(
            np.maximum(0.5 * np.einsum("jx,xyb,jy->b", rows, S, rows, optimize=True), 0.0) + floor
        )
    rows = moments.right
    squares = tasks.singular_values[:, None] ** 2 * np.einsum(
        "jx,xyb,jy->jb", rows, S, rows, optimize=True
    )
    return np.maximum(0.5 * by_task(squares.T[:, None, :], tasks), 0.0) + tasks.floors


def moments_for(
    tasks: TaskCollection, start: Array, names: tuple[str, ...], other: TaskCollection | None
) -> Moments:
    """Return the maps in the most accurate coordinates that the metrics allow.

    The distance from the joint solution is measured around it; the loss of other tasks needs the
    mean error, too.
    """
    if OTHER_LOSS in names and other is not None:
        around = moments_around_teacher(tasks, start, affine=True)
        return replace(around, other=_other_tasks(tasks, tasks.teacher(start), other))
    return moments_around_teacher(tasks, start) if "distance" in names else measured(tasks, start)


def _other_tasks(tasks: TaskCollection, teacher: Array, other: TaskCollection) -> OtherTasks:
    """Return other tasks in coordinates of the state (z, I) around the teacher."""
    vectors = other.singular_values[:, None] / np.sqrt(other.n_tasks) * other.singular_vectors
    basis = tasks.span
    inside = vectors @ basis
    missing = other.singular_values[:, None] / np.sqrt(other.n_tasks) * other.missing(teacher)
    rows = np.concatenate([inside, -missing], axis=1)
    return OtherTasks(
        rows, float(other.floors.mean()), float(np.sum((vectors - inside @ basis.T) ** 2))
    )


def measured(tasks: TaskCollection, start: Array) -> Moments:
    """Return the maps in the more accurate coordinates: around the joint solution unless terms
    cancel there.
    """
    around = moments_around_teacher(tasks, start)
    before = float(np.sum((tasks.singular_values[:, None] * tasks.missing(start)) ** 2))
    size = _terms(around)
    if size <= CANCELS * before:
        return around
    outputs = _output_moments(tasks, start)
    return outputs if _terms(outputs) < 0.1 * size else around


def _terms(moments: Moments) -> float:
    """Return Σ_j s_j² times the terms of R_j S R_jᵀ at the start, without their signs."""
    roots = np.sqrt(np.maximum(np.diagonal(moments.start), 0.0))
    return float(np.sum((moments.tasks.singular_values * (np.abs(moments.right) @ roots)) ** 2))


def _output_moments(tasks: TaskCollection, start: Array) -> Moments:
    """Return the maps in output coordinates."""
    D, errors = tasks.span_vectors, -tasks.missing(start)
    rows = D
    pivots, C = spanning_rows(rows, tasks.singular_values)
    missing = errors - C @ errors[pivots]
    left, right, state = rows @ rows[pivots].T, C, errors[pivots]
    rounding, neglected = ROUNDING * _sizes(tasks, start), np.linalg.norm(missing, axis=1)
    if np.any(np.abs(missing) > rounding + np.abs(C) @ rounding[pivots]):
        neglected = np.zeros(len(rows))
        left = np.concatenate([left, np.zeros(missing.shape)], axis=1)
        right = np.concatenate([right, missing], axis=1)
        state = np.concatenate([state, np.eye(tasks.n_targets)])
    left, right, frame = (np.ascontiguousarray(each) for each in (left, right, rows[pivots]))
    return Moments(tasks, left, right, symmetrized(state @ state.T), frame, neglected)


def _sizes(tasks: TaskCollection, start: Array) -> Floats:
    """Return the sizes of the terms of every error e = V w − V X⁺y, of shape (Σr, c)."""
    columns = start.reshape(tasks.n_features, tasks.n_targets)
    sizes = np.abs(tasks.targets) + np.linalg.norm(columns, axis=0)
    return np.asarray((tasks.radii / tasks.singular_values)[:, None] * sizes)


def spanning_rows(rows: Floats, weights: Floats) -> tuple[list[int], Floats]:
    """Return indices of rows that span all unit rows (n, q), and C with rows = C @ rows[indices].

    Pivots are the largest remainders times ``weights`` (n,), which keeps C_ji·weight_j/weight_i
    small. A remainder below the rounding of its own row counts as none, whatever its weight.
    """
    from scipy.linalg import solve_triangular

    n, q = rows.shape
    rest, basis = rows.copy(), np.zeros((0, q))
    pivots: list[int] = []
    tolerance = 4 * np.sqrt(q) * np.finfo(np.float64).eps
    for _ in range(min(n, q)):
        norms = np.linalg.norm(rest, axis=1)
        norms[pivots] = 0.0
        pivot = int(np.argmax(np.where(norms > tolerance, weights * norms, 0.0)))
        if norms[pivot] <= tolerance:
            break
        new = rest[pivot] / norms[pivot]
        new -= (basis @ new) @ basis  # remainders near rounding are not quite orthogonal
        new /= np.linalg.norm(new)
        basis, pivots = np.concatenate([basis, new[None]]), [*pivots, pivot]
        rest -= np.outer(rest @ new, new)
    if not pivots:
        return [], np.zeros((n, 0))
    parts = rows @ basis.T
    C = solve_triangular(parts[pivots], parts.T, trans="T", lower=True).T
    C[pivots] = np.eye(len(pivots))
    return pivots, np.asarray(C)
