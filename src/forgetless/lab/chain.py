"""Second moments of the state of a learner, carried along a chain of tasks.

``coordinates`` makes a step the matrix M of equation (1). The law of the tasks is a Markov chain,
so that

    S_s(t) = E[U Uᵀ; the chain is in state s at time t]   obeys
    S_d(t+1) = Σ over moves s → d of p M S_s(t) Mᵀ,                                  (2)

which ``_kernels.push`` computes.

*Averages* of the iterates are more coordinates, (U, Ū) with Ū ← Ū + g (U − Ū) after every step.

*Label noise* of variance σ² in every row is one of σ²/s² along every singular vector: an entry on
the diagonal of R S Rᵀ. A *walking teacher* moves all labels by X_m δ. In coordinates that move with
it, z ← z − Bᵀδ, which adds E δδᵀ to S, times the probability of the state.

*Paths.* Forgetting and drift compare the present with every earlier visit r of a task m. Choose
such a visit and remember it: with δ = D_m (z_t − z_r), the change of outputs since then, (U, δ) is
again a state with linear steps, since a step on any task adds −D_m Lᵀ φ R U to δ:

    L becomes [L  L D_mᵀ], R becomes [R  0].                                         (3)

The sum over visits of the moments of (U, δ), one for every m, starts at zero, receives the moments
of U with δ = 0 at every visit, and is carried by the same moves. With the error e_t of a singular
vector now and e_r then,

    e_t² − e_r² = 2 δ e_t − δ²,                                                      (4)

so that all metrics of the path are quadratic in (U, δ), and vanish with δ rather than by
cancellation.
"""

import warnings

import numpy as np

from forgetless import _kernels
from forgetless._validate import Array, Floats, check_memory
from forgetless.lab.coordinates import Coordinates, Maps
from forgetless.lab.problem import Problem
from forgetless.orderings import Moves

_SPEED = 5e9
"""Multiplications of moments in a second on two cores, roughly."""

_CALL = 2e5
"""Multiplications in the time of one call of a kernel, some 40 µs."""

_PATIENCE = 30.0
"""Seconds from which on a call says beforehand what it costs."""


def carry(
    S: Floats,
    moves: Moves,
    maps: Maps,
    phi: Floats,
) -> Floats:
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
    S: Floats,
    moves: Moves,
    maps: Maps,
    phi: Floats,
    gains: Floats,
) -> Array:
    """Return S after the steps of φ (T, Σr, B) with the same moves of one state, in one call.

    ``gains`` are those of an average, of shape (T,); none for the last iterate.
    """
    S = np.array(S)
    table = (*moves.table, maps.offsets)
    phi = np.ascontiguousarray(phi)
    others = (maps.left, maps.right, phi, maps.noise, maps.one, gains)
    return _kernels.push_often(S, np.empty_like(S), table, *others)


def conjugate(G: Floats, S: Floats) -> Array:
    """Return G S Gᵀ for S (states, Q, B, Q)."""
    return np.einsum("xu,subv,yv->sxby", G, S, G, optimize=True)


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
    # The moments before and after a step, the products R S, and the moves.
    moments = 2.0 * states * squares + len(tasks.singular_values) * size
    n_schedules = len(problem.filters)
    check_memory(
        n_schedules * moments + 3.0 * states * tasks.n_tasks,
        f"a chain of {states:,} states with {size} coordinates and {n_schedules} schedules",
        "use simulate, or fewer tasks, schedules and metrics of the path",
    )


def work_of(problem: Problem, size: int, path: bool = False) -> float:
    """Return the multiplications of a step of moments in ``size`` coordinates, a call of a kernel
    being counted as its time.
    """
    tasks = problem.tasks
    n_moves = len(problem.ordering.moves(tasks.n_tasks, 0).task)
    rows = len(tasks.singular_values) * n_moves / tasks.n_tasks
    matrices = 1 + tasks.n_tasks if path else 1
    return matrices * (4.0 * rows * len(problem.filters) * size**2 + _CALL)


def announce(problem: Problem, size: int, path: bool = False) -> None:
    """Warn of the time that the steps will take, where it is long."""
    n_steps = int(problem.steps[-1])
    seconds = work_of(problem, size, path) * n_steps / _SPEED
    if seconds < _PATIENCE:
        return
    followed = f" for each of {problem.tasks.n_tasks:,} tasks" if path else ""
    hint = "average_loss alone is faster" if path else "use simulate"
    warnings.warn(
        f"{n_steps:,} steps of moments in {size:,} coordinates{followed} will take some"
        f" {readable_seconds(seconds)} here; {hint}",
        stacklevel=4,
    )


class Run:
    """The moments of B schedules along one chain, with those of the path if asked for.

    Attributes
    ----------
    first, S : arrays of shape (states, Q, B, Q)
        The moments before the first step, and now.
    marked : list of M arrays of shape (states, Q + r, B, Q + r), or of none
        The moments of (U, δ), summed over the visits of each task.
    extended : list of Maps
        Those of a step on (U, δ), for each of ``marked``.
    Q, size : int
        Coordinates of U, and of (U, Ū).
    """

    def __init__(
        self,
        coordinates: Coordinates,
        problem: Problem,
        path: bool = False,
    ) -> None:
        self.coordinates = coordinates
        self.problem = problem
        self.tasks = problem.tasks
        self.done = 0
        self.Q = len(coordinates.start)
        # The average of no steps is the start.
        U = np.vstack([coordinates.start] * (2 if self.averaged else 1))
        self.size = len(U)
        check_states(problem, self.size, path)
        n_schedules = len(problem.filters)
        moments = U @ U.T
        self.first = np.repeat(moments[None, :, None, :], n_schedules, axis=2)
        self.S = self.first
        followed = range(self.tasks.n_tasks if path else 0)
        # (U, δ) has a coordinate more for every singular vector of the task.
        sizes = [self.size + self.tasks.ranks[m] for m in followed]
        self.marked = [np.zeros((1, n, n_schedules, n)) for n in sizes]
        self.extended = [self._extended(m) for m in followed]
        # What one step of the teacher adds to the variance of every coordinate.
        self.walk = self.tasks.walk**2 / self.tasks.n_features

    @property
    def averaged(self) -> bool:
        """Whether the average of the iterates is among the coordinates."""
        return len(self.problem.gains) > 0

    def moves(self) -> Moves:
        """Return the moves of the next step, checked."""
        moves = self.problem.ordering.moves(self.tasks.n_tasks, self.done)
        moves.check(len(self.S), self.tasks.n_tasks)
        return moves

    def advance(self, factors: Floats) -> None:
        """Make the steps of φ (T, Σr, B)."""
        end = self.done + len(factors)
        if self.problem.ordering.stationary and not self.marked and not self.walk:
            # One state and the same moves: all steps are one call of the compiled loop.
            gains = self.problem.gains[self.done : end]
            self.S = carry_often(self.S, self.moves(), self.coordinates.maps, factors, gains)
            self.done = end
            return
        for phi in factors:
            self.move_teacher()
            self.S = self._step(self.moves(), phi)
            self.done += 1

    def move_teacher(self) -> None:
        """Add the moments of the teacher's step before the next task: z, its average and δ move."""
        if not (self.done and self.walk):
            return
        # G maps a step of the teacher to the coordinates that it moves: z, its average, and δ.
        q = self.coordinates.q
        G = np.zeros((self.size, q))
        for low in range(0, self.size, self.Q):
            G[low : low + q] = np.eye(q)
        self.S = self._walked(self.S, G)
        for m, X in enumerate(self.marked):
            extended = np.vstack([G, self._outputs(m)[:, :q]])
            X[:] = self._walked(X, extended)

    def _walked(self, S: Floats, G: Floats) -> Array:
        """Return S + E[G δ δᵀ Gᵀ; state]: δ is isotropic, and S[one, one] the probability."""
        one = self.coordinates.maps.one
        probability = S[:, one, :, one]
        return S + self.walk * np.einsum("sb,xy->sxby", probability, G @ G.T)

    def _step(self, moves: Moves, phi: Floats) -> Array:
        """Return the moments of U after a step; those of the path are replaced."""
        maps = self.coordinates.maps
        for m, extended in enumerate(self.extended):
            X = carry(self.marked[m], moves, extended, phi)
            X = self._averaged(X, self._outputs(m))
            own = moves.by_task.get(m)
            if own is not None:
                # At a visit the change of outputs since then is zero.
                visited = self._averaged(carry(self.S, own, maps, phi))
                X[:, : self.size, :, : self.size] += visited
            self.marked[m] = X
        return self._averaged(carry(self.S, moves, maps, phi))

    def _averaged(self, S: Floats, outputs: Floats | None = None) -> Array:
        """Return S after the update of the average, if there is one."""
        if not self.averaged:
            return S
        gain = float(self.problem.gains[self.done])
        return conjugate(averaging(self.Q, gain, outputs), S)

    def _outputs(self, m: int) -> Floats:
        """Return D_m, the map from changes of U to changes of the outputs of task m."""
        return self.coordinates.maps.left[slice(*self.tasks.offsets[m : m + 2])]

    def _extended(self, m: int) -> Maps:
        """Return the maps of (U, δ) for the visits of task m: equation (3)."""
        maps = self.coordinates.maps
        if self.averaged:
            return maps  # δ follows the average, by its own map
        changes = maps.left @ self._outputs(m).T
        return maps._replace(left=np.hstack([maps.left, changes]))


def readable_seconds(seconds: float) -> str:
    """Return a time as text."""
    return f"{seconds:.0f} seconds" if seconds < 120 else f"{seconds / 60:,.0f} minutes"
