"""The state of a learner, and one step of it as a matrix.

In q coordinates of the joint span, with the orthonormal basis B, the weights are w = w_ref + B z.
Learning begins at w = 0. If the teacher walks, z moves with it: then w stands for the weights minus
what the teacher has walked (see ``chain``). The state is U = (z, I); its last rows, the identity of
size c for c targets, make the affine steps linear: on task m

    U ← M U,   M = I − Lᵀ diag(φ) R,   L = [D 0],   R = [D −e],                      (1)

with a row of L and R for every singular vector of the task, D = V B, and e = V X⁺y − V w_ref, what
w_ref misses. For then R U = D z − e = V w − V X⁺y is the error along the singular vectors, of which
the step removes the fraction φ. If w_ref = w⋆ fits all tasks then e = 0, and I is left out. A loss
is ½‖s ∘ R U‖² plus its floor, with the singular values s of the task and the part of the loss that
no weights avoid, so that all metrics are quadratic in U.

A ``Snapshot`` is what metrics are made of in exact expectations, as ``simulate.Trials`` is for
runs. ``chain`` has the moments S = E[U Uᵀ; state], expectations over the event of a state. Every
quantity is a sum over states of forms F S Fᵀ. The error along the singular vectors is R U, so that

    E L(w; m) = ½ Σ_j s_j² R_j S R_jᵀ + floor,         over the singular vectors j of the task,
    E w = w_ref + B E[z·1],                            a column of S,
    E‖A w − b‖² = E‖F U‖²,   F = [A B, A w_ref − b].

The next task comes with a move of the chain of tasks from one state to another. The loss on it is a
sum over these moves: p of the move times E[L(w; its task); the state that it leaves].
"""

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr
from scipy.sparse import eye_array

from forgetless._validate import Array, Floats
from forgetless.tasks import TaskCollection
from forgetless.tasks.task import columns

# no mutant: both references give the same up to rounding
_CANCELLED = 1e4
"""The reference is moved to the start where the squared terms of losses are this many times those
of the labels: about four of sixteen digits would be lost."""

_FITS = 2e-13
"""A joint solution fits if it misses targets by less, relative to the numbers behind them."""


class Maps(NamedTuple):
    """The arrays of ``_kernels.push`` that do not change with the steps."""

    left: Floats
    right: Floats
    offsets: NDArray[np.int64]
    noise: Floats  # the variance along every singular vector
    one: int  # the coordinate of 1


class Coordinates:
    """The maps L and R of a collection, in as few coordinates as there are.

    The reference is the joint solution w⋆: errors decay there, and so does their rounding. But with
    weak tasks, or rows that almost repeat, w⋆ is at a distance of targets over singular values, and
    terms of 1e14 would cancel to a loss of 1. Then the reference is the start, and the basis begins
    with the strongest singular vectors, so that no large coordinate adds to a strong output.

    Parameters
    ----------
    tasks : TaskCollection
    affine : bool
        Whether 1 is needed among the coordinates for other reasons than labels, noise or a walk.
    labels : bool
        False for worst cases over the labels X w⋆ of an unknown w⋆. Then z is the error w − w⋆ of
        any start, of which only the linear map matters; ``reference`` and the z part of ``start``
        are zeros without a meaning. Forms of z are carried backwards (``worst``). An entry of a
        form is rounded by eps times the product of the sizes of its two coordinates, so strong
        directions must not be mixed into the coordinates of weak ones: the basis begins with the
        strongest singular vectors.

    Attributes
    ----------
    basis, reference : arrays of shape (d, q) and (d, c)
        B and w_ref.
    start : array of shape (q, c) or (q + c, c)
        U before the first step.
    maps : Maps
    q : int
        Number of coordinates in z.
    affine : bool
        Whether I is among the coordinates; if not, U = z.
    dropped : array of shape (Σr, c)
        |e| where it was taken for rounding, which stated errors count.
    """

    def __init__(
        self,
        tasks: TaskCollection,
        affine: bool = False,
        labels: bool = True,
    ) -> None:
        self.tasks = tasks
        self.basis = tasks.span
        c = tasks.n_targets if labels else 1
        self.reference = np.zeros((tasks.n_features, c))
        self.dropped = np.zeros((len(tasks.singular_values), c))
        missing = np.zeros_like(self.dropped)
        if labels:
            self.reference += tasks.teacher().reshape(self.reference.shape)
            missing = self._missing()
        D = tasks.span_vectors
        start = -self.basis.T @ self.reference
        if not labels or self._cancels(D, start, missing):
            # Columns in order of their strength: a pivoted QR puts the strong directions first.
            strength = np.maximum(tasks.singular_values, 1e-10 * tasks.radius)
            rows = strength[:, None] * tasks.singular_vectors
            directions = qr(rows.T, mode="economic", pivoting=True)[0]
            self.basis = directions[:, : len(start)]
            self.reference[:] = 0.0
            # Around the start nothing has been learned: e is all of the targets.
            if labels:
                missing = tasks.targets
            D = tasks.singular_vectors @ self.basis
            start[:] = 0.0
        self.q = len(start)
        self.affine = affine or bool(tasks.noise or tasks.walk or missing.any())
        left = right = np.ascontiguousarray(D)
        self.start = start
        if self.affine:
            # L does not change the coordinate of 1, and R reads e from it: equation (1).
            left = np.hstack([D, np.zeros_like(missing)])
            right = np.hstack([D, -missing])
            self.start = np.vstack([start, np.eye(c)])
        # A row has noise of variance σ²; along a singular vector it is σ²/s², for c targets.
        variances = c * (tasks.noise / tasks.singular_values) ** 2
        self.maps = Maps(
            left,
            right,
            tasks.offsets,
            variances,
            one=self.q if self.affine else 0,
        )

    def _missing(self) -> Array:
        """Return e of the reference w⋆: exactly zero if one model fits all tasks up to rounding."""
        tasks = self.tasks
        missing = tasks.missing(self.reference)
        size = np.abs(tasks.targets) + np.linalg.norm(self.reference, axis=0)
        rounding = _FITS * (tasks.radii[:, None] * size + tasks.sizes)
        if np.any(np.abs(missing) > rounding / tasks.singular_values[:, None]):
            return missing
        # Stated errors count what is taken for rounding here.
        self.dropped = np.abs(missing)
        return np.zeros_like(missing)

    def _cancels(
        self,
        D: Floats,
        start: Floats,
        missing: Floats,
    ) -> Any:
        """Return whether terms around w⋆ are so large that losses lose digits."""
        weights = self.tasks.singular_values[:, None]
        # The sizes of the summands of s ∘ (D z − e) at the start, without signs.
        terms = (np.abs(D) @ np.abs(start) + np.abs(missing)) * weights
        labels = self.tasks.targets * weights
        return np.sum(terms**2) > _CANCELLED * np.sum(labels**2)

    def rows(self, A: Floats, b: Floats) -> Floats:
        """Return rows F with ‖A w − b‖² = ‖F U‖²; needs ``affine``."""
        return np.hstack([A @ self.basis, A @ self.reference - b])

    @cached_property
    def average_form(self) -> Array:
        """H with average loss ½⟨H, E[U Uᵀ]⟩ plus the mean floor."""
        scaled = self.tasks.singular_values[:, None] * self.maps.right
        return scaled.T @ scaled / self.tasks.n_tasks


class Snapshot:
    """The expectations that metrics are made of, at the present step of a run.

    In shapes B is the number of schedules (not the basis), M of tasks (not a step), and Q of the
    coordinates of U: q, or q + c with I.

    Parameters
    ----------
    run : Run
        Of ``chain``.

    Attributes
    ----------
    moments : array of shape (states, Q, B, Q)
        Of what is measured: the last iterate, or the average of all.
    visits, seen, forgotten, moved : arrays of shape (B, M), where the path is followed
        Of the visits of each task: their expected number, and the sums over them of the losses, of
        their changes since then and of the squared changes of outputs.
    """

    def __init__(self, run: Any) -> None:
        self.run = run
        self.tasks = run.tasks
        self.coordinates = run.coordinates
        self.n_steps = run.done
        # The last Q coordinates of U, or of (U, Ū) with the average Ū of the states so far. What
        # comes after them is δ, the change of the outputs of a task since a visit.
        self.now = slice(run.size - run.Q, run.size)
        self.moments = run.S[:, self.now, :, self.now]
        if run.marked:
            sums = [self._of_visits(m) for m in range(run.tasks.n_tasks)]
            self.visits, self.seen, self.forgotten, self.moved = np.stack(sums, axis=-1)

    @cached_property
    def _excess(self) -> Array:
        """E[L(w; m) − floor; state], of shape (states, B, M)."""
        squares = self.tasks.singular_values**2
        errors = forms(self.coordinates.maps.right, self.moments)
        return 0.5 * self.tasks.by_task(squares * errors)

    @property
    def losses(self) -> Array:
        """E L(w; m), of shape (B, M)."""
        return np.maximum(self._excess.sum(0), 0.0) + self.tasks.floors

    @property
    def next_loss(self) -> Array:
        """E L(w; next task): the sum over the moves of the next step."""
        moves = self.run.moves()
        one = self.coordinates.maps.one
        # E[L; state] holds the loss without its floor; the floor counts by probability.
        mass = self.moments[moves.source, one, :, one]
        floors = mass * self.tasks.floors[moves.task][:, None]
        losses = self._excess[moves.source, :, moves.task] + floors
        return np.maximum(moves.probability @ losses, 0.0)

    @property
    def weights(self) -> Array:
        """The mean weights, of shape (B, d, c)."""
        c = self.coordinates
        mean = self.moments[:, : c.q, :, c.maps.one :].sum(0)  # E z·1ᵀ
        return c.reference + np.einsum("dx,xbc->bdc", c.basis, mean)

    def square(self, A: Any, b: Any) -> Array:
        """E‖A w − b‖², of shape (B,); E‖w − b‖² where A is None."""
        c = self.coordinates
        # As a sparse matrix the identity takes no memory.
        A = eye_array(self.tasks.n_features) if A is None else np.asarray(A)
        rows = c.rows(A, columns(b, self.tasks))
        total = forms(rows, self.moments).sum(axis=(0, -1))
        square = np.maximum(total, 0.0)
        # Inside the span z has the walk of the teacher. Outside weights never move, and the teacher
        # has gone walk² /d along every direction in each step but the first.
        walked = self.run.walk * max(0, self.n_steps - 1)
        if not walked:
            return square
        outside = A - A @ c.basis @ c.basis.T
        return square + walked * np.sum(outside**2)

    def _of_visits(self, m: int) -> Floats:
        """Return the visits of a task and the three sums over them, of shape (4, B).

        T is the sum over visits of E[(U, δ)(U, δ)ᵀ], δ being the change of the outputs since then.
        """
        tasks = self.tasks
        rows = slice(*tasks.offsets[m : m + 2])
        size = self.run.size
        delta = slice(size, size + tasks.ranks[m])
        T = self.run.marked[m].sum(0)
        R = self.coordinates.maps.right[rows]
        squares = tasks.singular_values[rows] ** 2
        one = self.now.start + self.coordinates.maps.one
        # E e², E δ² and E δe of the errors e = R U, summed over the visits of the task.
        present = T[None, self.now, :, self.now]
        errors = forms(R, present)[0]
        change = np.einsum("jbj->bj", T[delta, :, delta])
        both = np.einsum("jbx,jx->bj", T[delta, :, self.now], R)
        visits = T[one, :, one]
        seen = 0.5 * errors @ squares + visits * tasks.floors[m]
        # Equation (4) of ``chain``: e_t² − e_r² = 2 δ e_t − δ².
        forgotten = 0.5 * (2.0 * both - change) @ squares
        moved = np.maximum(change @ squares, 0.0)
        return np.stack([visits, seen, forgotten, moved])


def forms(rows: Floats, S: Floats) -> Array:
    """Return F_j S F_jᵀ for every row of F, of shape (states, B, n)."""
    # Row F_j times S, of shape (states, B, Q, n): S is symmetric.
    products = np.tensordot(S, rows, (1, 1))
    return np.einsum("sbyj,jy->sbj", products, rows)
