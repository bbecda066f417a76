"""Second moments of the weights, carried along a chain of tasks.

In q coordinates of the joint span the weights are w = w_ref + B z. The state of a learner is
U = (z, I), the identity of size c for c targets making its steps linear: on task m

    U ← M U,   M = I − Lᵀ diag(φ) R,   L = [D 0],   R = [D −e],

with a row of L and R for every singular vector of the task, D = V B, and e = V X⁺y − V w_ref, which
w_ref misses. If w_ref = w⋆ fits all tasks then e = 0, and I is left out. A loss is ½‖s ∘ R U‖² plus
its floor: all metrics are quadratic in U. The law of the tasks is a Markov chain, so that

    S_s(t) = E[U Uᵀ; the chain is in state s at time t]   obeys
    S_d(t+1) = Σ over moves s → d of p M S_s(t) Mᵀ,

which ``_kernels.push`` computes.

*Averages* of the iterates are more coordinates, (U, Ū) with Ū ← Ū + g (U − Ū) after every step.

*Label noise* of variance σ² in every row is one of σ²/s² along every singular vector: an entry on
the diagonal of R S Rᵀ. A *walking teacher* moves all labels by X_m δ. In coordinates that move with
it, z ← z − Bᵀδ, which adds E δδᵀ to S, times the probability of the state.

*Paths.* Forgetting and drift compare the present with every earlier visit r of a task m. Choose
such a visit and remember it: with δ = D_m (z_t − z_r), the change of outputs since then, (U, δ) is
again a state with linear steps, since a step on any task adds −D_m Lᵀ φ R U to δ. The sum over
visits of its moments, one for every m, starts at zero, receives the moments of U with δ = 0 at
every visit, and is carried by the same moves. With the error e_t of a singular vector now and e_r
then,

    e_t² − e_r² = 2 δ e_t − δ²,

so that all metrics of the path are quadratic in (U, δ), and vanish with δ rather than by
cancellation.
"""

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr

from forgetless import _kernels
from forgetless._core.arrays import Floats
from forgetless._core.validate import check_memory
from forgetless.lab.problem import Problem
from forgetless.orderings import Moves
from forgetless.tasks import TaskCollection

_CANCELLED = 1e4
"""Ratio of squares of terms to that of the labels from which on a reference loses digits."""


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
        Whether 1 is needed among the coordinates; then ``one`` is its position.
    labels : bool
        Without them, they are X w⋆ for any w⋆, and only changes matter: for worst cases.
    """

    def __init__(
        self,
        tasks: TaskCollection,
        affine: bool = False,
        labels: bool = True,
    ) -> None:
        self.tasks = tasks
        self.labels = labels
        c = tasks.n_targets if labels else 1
        shape = (tasks.n_features, c)
        # Without labels the weights are those of a unit teacher.
        self.basis = tasks.span
        self.reference = np.reshape(tasks.teacher(), shape) if labels else np.zeros(shape)
        missing = self._missing()
        # D = V B: what a coordinate does to the error along a singular vector.
        D = tasks.singular_vectors @ self.basis
        start = -self.basis.T @ self.reference
        if labels and self._cancels(D, start, missing):
            # Columns in order of their strength: a pivoted QR puts the strong directions first.
            strength = np.maximum(tasks.singular_values, 1e-10 * tasks.radius)
            rows = strength[:, None] * tasks.singular_vectors
            basis = qr(rows.T, mode="economic", pivoting=True)[0]
            self.basis = basis[:, : self.basis.shape[1]]
            self.reference = np.zeros(shape)
            # Around the start nothing has been learned: e is all of the targets.
            missing = tasks.targets
            D = tasks.singular_vectors @ self.basis
            start = np.zeros_like(start)
        self.q = self.basis.shape[1]
        self.affine = affine or bool(tasks.noise or tasks.walk or missing.any())
        left = np.ascontiguousarray(D)
        right = left
        self.start = start
        if self.affine:
            # L does not change the coordinate of 1, and R reads e from it.
            left = np.hstack([D, np.zeros_like(missing)])
            right = np.hstack([D, -missing])
            self.start = np.vstack([start, np.eye(c)])
        # A row has noise of variance σ²; along a singular vector it is σ²/s², for c targets.
        variances = c * (tasks.noise / tasks.singular_values) ** 2
        self.maps = Maps(left, right, tasks.offsets, variances, self.q if self.affine else 0)

    def _missing(self) -> Floats:
        """Return e of the reference w⋆: exactly zero if one model fits all tasks up to rounding."""
        tasks = self.tasks
        if not self.labels:
            return np.zeros((len(tasks.singular_values), 1))
        missing: Floats = tasks.targets - tasks.singular_vectors @ self.reference
        size = np.abs(tasks.targets) + np.linalg.norm(self.reference, axis=0)
        rounding = (tasks.radii[:, None] * size + tasks.sizes) * 2e-13
        rounding /= tasks.singular_values[:, None]
        fits = np.all(np.abs(missing) <= rounding)
        self.dropped = np.abs(missing) if fits else np.zeros_like(missing)
        return np.zeros_like(missing) if fits else missing

    def _cancels(self, D: Floats, start: Floats, missing: Floats) -> bool:
        """Return whether terms around w⋆ are so large that losses lose digits."""
        tasks = self.tasks
        weights = tasks.singular_values[:, None]
        # The sizes of the summands of s ∘ (D z − e) at the start, without signs.
        terms = (np.abs(D) @ np.abs(start) + np.abs(missing)) * weights
        labels = weights * tasks.targets
        return bool(np.sum(terms**2) > _CANCELLED * np.sum(labels**2))

    def rows(self, A: Floats, b: Floats) -> Floats:
        """Return rows F with ‖A w − b‖² = ‖F U‖²; needs ``affine``."""
        return np.hstack([A @ self.basis, A @ self.reference - b])

    @cached_property
    def average_form(self) -> Floats:
        """H with average loss ½⟨H, S⟩ plus the mean floor."""
        scaled = self.tasks.singular_values[:, None] * self.maps.right
        return np.asarray(scaled.T @ scaled / self.tasks.n_tasks)


def carry(S: Floats, moves: Moves, maps: Maps, phi: Floats) -> Floats:
    """Return Σ over moves of p M S Mᵀ for every target state, with the factors φ (Σr, B)."""
    S = np.ascontiguousarray(S)
    phi = np.ascontiguousarray(phi)
    new = np.empty((moves.n_targets, *S.shape[1:]))
    table = (*moves.table, maps.offsets)

    def work(low: int, high: int) -> None:
        _kernels.push(low, high, S, new, table, maps.left, maps.right, phi, maps.noise, maps.one)

    _kernels.in_threads(work, moves.n_targets, float(len(moves.task)) * S[0].size)
    return new


def carry_often(
    S: Floats, moves: Moves, maps: Maps, phi: Floats, gains: Floats, walk: Floats
) -> Floats:
    """Return S after the steps of φ (T, Σr, B) with the same moves of one state, in one call."""
    S = np.array(S)
    table = (*moves.table, maps.offsets)
    found: Floats = _kernels.push_often(
        S,
        np.empty_like(S),
        table,
        maps.left,
        maps.right,
        np.ascontiguousarray(phi),
        maps.noise,
        maps.one,
        gains,
        walk,
    )
    return found


def conjugate(G: Floats, S: Floats) -> Floats:
    """Return G S Gᵀ for S (states, Q, B, Q)."""
    return np.asarray(np.einsum("xu,subv,yv->sxby", G, S, G, optimize=True))


def averaging(n: int, gain: float, outputs: Floats | None = None) -> Floats:
    """Return the map Ū ← Ū + g (U − Ū) of (U, Ū), each of n coordinates; δ = N Ū follows it.

    N is ``outputs``, the map from changes of U to changes of the outputs of a task.
    """
    # δ of an average is N Ū − N Ū_r: it moves with Ū.
    rows = np.eye(n) if outputs is None else np.vstack([np.eye(n), outputs])
    G = np.eye(n + len(rows))
    G[n:, :n] += gain * rows
    G[n:, n : 2 * n] -= gain * rows
    return G


def check_states(problem: Problem, size: int, path: bool = False) -> None:
    """Raise MemoryError for moments of ``size`` coordinates that do not fit into memory."""
    tasks = problem.tasks
    states = problem.ordering.n_states(tasks.n_tasks, problem.k)
    squares = float(size) ** 2
    if path:
        squares += float(np.sum((size + tasks.ranks) ** 2))
    # The moments before and after a step, the products R S, and the moves
    moments = 2.0 * states * squares + len(tasks.singular_values) * size
    n_schedules = len(problem.filters)
    check_memory(
        n_schedules * moments + 3.0 * states * tasks.n_tasks,
        f"a chain of {states:,} states with {size} coordinates and {n_schedules} schedules",
        "use simulate, or fewer tasks, schedules and metrics of the path",
    )


class Run:
    """The moments of B schedules along one chain, with those of the path if asked for.

    Attributes
    ----------
    S : array of shape (states, Q, B, Q)
    marked : list of M arrays of shape (states, Q + r, B, Q + r), or None
        The moments of (U, δ), summed over the visits of each task.
    """

    def __init__(self, coordinates: Coordinates, problem: Problem, path: bool = False) -> None:
        self.coordinates = coordinates
        self.problem = problem
        self.tasks = problem.tasks
        self.done = 0
        self.gains = np.zeros(0) if problem.average is None else problem.gains
        n_schedules = len(problem.filters)
        parts = [coordinates.start] * (2 if len(self.gains) else 1)
        # The average of no steps is the start.
        U = np.vstack(parts)
        self.Q = len(coordinates.start)
        self.size = len(U)
        check_states(problem, self.size, path)
        self.S = np.repeat((U @ U.T)[None, :, None, :], n_schedules, axis=2)
        self.marked: list[Floats] | None = None
        if path:
            # (U, δ) has a coordinate more for every singular vector of the task.
            sizes = [self.size + rank for rank in self.tasks.ranks]
            self.marked = [np.zeros((1, n, n_schedules, n)) for n in sizes]
        # What one step of the teacher adds to the variance of every coordinate
        self.walk = self.tasks.walk**2 / self.tasks.n_features

    def moves(self) -> Moves:
        """Return the moves of the next step, checked."""
        moves = self.problem.ordering.moves(self.tasks.n_tasks, self.done)
        moves.check(len(self.S), self.tasks.n_tasks)
        return moves

    def advance(self, factors: Floats) -> None:
        """Make the steps of φ (T, Σr, B)."""
        n_steps = len(factors)
        averaged = len(self.gains) > 0
        if self.problem.ordering.stationary and not self.marked and not (averaged and self.walk):
            # One state and the same moves: all steps are one call of the compiled loop.
            gains = self.gains[self.done : self.done + n_steps]
            walk = np.where(np.arange(self.done, self.done + n_steps) > 0, self.walk, 0.0)
            maps = self.coordinates.maps
            self.S = carry_often(self.S, self.moves(), maps, factors, gains, walk)
            self.done += n_steps
            return
        for phi in factors:
            self.move_teacher()
            self.S = self._step(self.moves(), phi)
            self.done += 1

    def move_teacher(self) -> None:
        """Add the moments of the teacher's step before the next task: z, its average and δ move."""
        if not (self.done and self.walk):
            return
        q = self.coordinates.q
        # G maps a step of the teacher to all coordinates that it moves.
        G = np.zeros((self.size, q))
        for low in range(0, self.size, self.Q):
            G[low : low + q] = np.eye(q)
        one = self.coordinates.maps.one
        self.S += self._walked(self.S[:, one, :, one], G)
        for m, X in enumerate(self.marked or []):
            extended = np.vstack([G, self._outputs(m)[:, :q]])
            X += self._walked(X[:, one, :, one], extended)

    def _walked(self, mass: Floats, G: Floats) -> Floats:
        return np.asarray(self.walk * np.einsum("sb,xy->sxby", mass, G @ G.T))

    def _step(self, moves: Moves, phi: Floats) -> Floats:
        """Return the moments of U after a step; those of the path are replaced."""
        if self.marked is None:
            return self._averaged(carry(self.S, moves, self.coordinates.maps, phi))
        # S is the sum over the tasks of the step, which are followed one by one.
        total = np.zeros((moves.n_targets, *self.S.shape[1:]))
        for m in range(self.tasks.n_tasks):
            X = carry(self.marked[m], moves, self._extended(m), phi)
            X = self._averaged(X, self._outputs(m))
            own = moves.by_task.get(m)
            if own is not None:
                # A visit: the change of outputs since then is zero.
                visited = self._averaged(carry(self.S, own, self.coordinates.maps, phi))
                X[:, : self.size, :, : self.size] += visited
                total += visited
            self.marked[m] = X
        return total

    def _averaged(self, S: Floats, outputs: Floats | None = None) -> Floats:
        """Return S after the update of the average, if there is one."""
        if not len(self.gains):
            return S
        return conjugate(averaging(self.Q, float(self.gains[self.done]), outputs), S)

    def _outputs(self, m: int) -> Floats:
        """Return D_m, the map from changes of U to changes of the outputs of task m."""
        return self.coordinates.maps.left[slice(*self.tasks.offsets[m : m + 2])]

    def _extended(self, m: int) -> Maps:
        """Return the maps of (U, δ) for the visits of task m; averages follow their own map."""
        maps = self.coordinates.maps
        if len(self.gains):
            return maps
        return maps._replace(left=np.hstack([maps.left, maps.left @ self._outputs(m).T]))


class Snapshot:
    """The expectations that metrics are made of, at the present step of a run: arrays (B, ...)."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.tasks = run.tasks
        self.n_steps = run.done
        self.low = run.size - run.Q  # averages are measured instead of the last iterates

    @cached_property
    def moments(self) -> Floats:
        """The moments of what is measured, of shape (states, Q, B, Q)."""
        return self.run.S[:, self.low :, :, self.low :]

    @cached_property
    def _excess(self) -> Floats:
        """E[L(w; m) − floor; state], of shape (states, B, M)."""
        squares = self.tasks.singular_values**2
        errors = _forms(self.run.coordinates.maps.right, self.moments)
        return 0.5 * self.tasks.by_task(squares * errors)

    @property
    def losses(self) -> Floats:
        """E L(w; m), of shape (B, M)."""
        return np.asarray(np.maximum(self._excess.sum(0), 0.0) + self.tasks.floors)

    @property
    def next_loss(self) -> Floats:
        """E L(w; next task): the sum over the moves of the next step."""
        moves = self.run.moves()
        one = self.run.coordinates.maps.one
        mass = self.moments[:, one, :, one]
        floors = mass[moves.source] * self.tasks.floors[moves.task][:, None]
        # E[L; state] holds the loss without its floor; the floor counts by probability.
        losses = self._excess[moves.source, :, moves.task] + floors
        return np.asarray(np.maximum(moves.probability @ losses, 0.0))

    @property
    def distance(self) -> Floats:
        """E‖w − w⋆‖²; outside the span only the teacher moves."""
        basis = self.run.coordinates.basis
        solution = np.reshape(self.tasks.teacher(), (len(basis), -1))
        inside = self._square(basis.T, basis.T @ solution)
        return np.asarray(inside + self._walked * (self.tasks.n_features - basis.shape[1]))

    @property
    def weights(self) -> Floats:
        """The mean weights, of shape (B, d, c)."""
        c = self.run.coordinates
        one = c.maps.one
        mean = self.moments[:, : c.q, :, one:].sum(0)  # E z·1ᵀ
        return np.asarray(c.reference + np.einsum("dx,xbc->bdc", c.basis, mean))

    @property
    def _walked(self) -> float:
        return self.run.walk * max(0, self.n_steps - 1)

    def square(self, A: Any, b: Any) -> Floats:
        """E‖A w − b‖², of shape (B,)."""
        A = np.asarray(A, dtype=np.float64)
        b = np.broadcast_to(np.asarray(b, dtype=np.float64), (len(A), self.tasks.n_targets))
        basis = self.run.coordinates.basis
        # The walk outside the span is not followed, but its variance is known.
        outside = np.sum((A - (A @ basis) @ basis.T) ** 2) if self._walked else 0.0
        return self._square(A, b) + self._walked * outside

    def _square(self, A: Floats, b: Floats) -> Floats:
        rows = self.run.coordinates.rows(A, b)
        return np.asarray(np.maximum(_forms(rows, self.moments).sum((0, -1)), 0.0))

    @cached_property
    def _visits(self) -> Floats:
        """Visits, sums of losses, of their changes and of squared changes: (4, B, M)."""
        return np.stack([self._of_visits(m) for m in range(self.tasks.n_tasks)], axis=-1)

    def _of_visits(self, m: int) -> Floats:
        assert self.run.marked is not None
        rows = slice(*self.tasks.offsets[m : m + 2])
        size = self.run.size
        X = self.run.marked[m].sum(0)
        R = self.run.coordinates.maps.right[rows]
        squares = self.tasks.singular_values[rows] ** 2
        now = slice(self.low, size)
        one = self.low + self.run.coordinates.maps.one
        # E e², E δ² and E δe, summed over the visits of the task.
        errors = _forms(R, X[None, now, :, now])[0]
        change = np.einsum("jbj->bj", X[size:, :, size:])  # E[δ²]
        both = np.einsum("jbx,jx->bj", X[size:, :, now], R)  # E[δ e], e being the error now
        visits = X[one, :, one]
        seen = 0.5 * errors @ squares + visits * self.tasks.floors[m]
        # e_t² − e_r² = 2 δ e_t − δ², with e_t and δ from the same state.
        forgotten = 0.5 * (2.0 * both - change) @ squares
        return np.stack([visits, seen, forgotten, np.maximum(change @ squares, 0.0)])

    @property
    def visits(self) -> Floats:
        """Expected visits of each task."""
        return np.asarray(self._visits[0])

    @property
    def seen(self) -> Floats:
        """Sums of losses over the visits of each task."""
        return np.asarray(self._visits[1])

    @property
    def forgotten(self) -> Floats:
        """Sums of changes of losses since the visits of each task."""
        return np.asarray(self._visits[2])

    @property
    def moved(self) -> Floats:
        """Sums of squared changes of outputs since the visits of each task."""
        return np.asarray(self._visits[3])


def _forms(rows: Floats, S: Floats) -> Floats:
    """Return F_j S F_jᵀ for every row of F, of shape (states, B, n)."""
    n, Q = rows.shape
    states, _, B, _ = S.shape
    T = np.matmul(rows, S.reshape(states, Q, B * Q)).reshape(states, n, B, Q)
    return np.asarray(np.einsum("sjby,jy->sbj", T, rows))
