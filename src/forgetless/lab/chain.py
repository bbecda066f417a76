"""Second moments of the state of a learner, carried along a chain of tasks.

``coordinates`` makes a step the matrix M of equation (1). The law of the tasks is a Markov chain,
so that

    S_s(t) = E[U Uᵀ; the chain is in state s at time t]   obeys
    S_d(t+1) = Σ over moves s → d of p M S_s(t) Mᵀ,                                  (2)

which ``_kernels.push`` computes.

*Averages* of the iterates are more coordinates, (U, Ū) with Ū ← Ū + g (U − Ū) after every step.

*Label noise* of variance σ² in every row is one of σ²/s² along every singular vector: it is added
to the diagonal of R S Rᵀ, times the probability of the state. A *walking teacher* moves all labels
by X_m δ. In coordinates that move with it, z ← z − Bᵀδ, which adds E δδᵀ to S, times the
probability of the state.

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

*Equal steps.* If the filter and the moves repeat after p steps, and the chain then has a single
state, those p steps are one linear map P of the n = Q(Q+1)/2 entries of a symmetric matrix. Its
columns are the images of a basis, pushed through the steps as if each were a schedule. P^(2^i) by
squaring then gives any number of periods. The rate of the slowest decay is known to eps, so that
after k steps a relative error of some k·eps is unavoidable: 1e-9 at a million steps.
"""

import numpy as np

from forgetless import _kernels
from forgetless._validate import Array, Floats
from forgetless.lab import Problem
from forgetless.lab.coordinates import Coordinates, Maps
from forgetless.orderings import Moves

# no mutant: only the time differs
_REPEATED = 6
"""The last squares are not made: Pⁿx takes up to 2⁶ products with x instead, and a product of
matrices takes as long as some 60 of them."""


def carry(
    S: Floats,
    moves: Moves,
    maps: Maps,
    phi: Floats,
    gains: Floats | None = None,
) -> Array:
    """Return Σ over moves of p M S Mᵀ for every target state, with the factors φ (Σr, B).

    With factors (T, Σr, B) T steps are made with the same moves of one state, in one call. Then
    ``gains`` are those of an average, of shape (T,), or empty for the last iterate.
    """
    S = np.ascontiguousarray(S)
    phi = np.ascontiguousarray(phi)
    if phi.ndim == 3:
        return _kernels.push_often(S, moves.table, tuple(maps), phi, gains)
    new = np.empty((moves.n_targets, *S.shape[1:]))
    # Equation (2), target states in several threads where there are many.
    _kernels.in_threads(
        lambda low, high: _kernels.push(low, high, S, new, moves.table, tuple(maps), phi),
        moves.n_targets,
        len(moves.task) * S[0].size,
    )
    return new


def averaged(
    S: Floats,
    gain: float,
    outputs: Floats,
    *,
    back: bool = False,
) -> Array:
    """Return G S Gᵀ for moments S (states, width, B, width) of (U, Ū, δ), or Gᵀ S G for forms.

    G is the map Ū ← Ū + g (U − Ū), which δ = N Ū follows. N (r, n) is ``outputs``, the map from
    changes of n coordinates to changes of r outputs.
    """
    n = outputs.shape[1]
    # δ of an average is N Ū − N Ū_r: it moves with Ū.
    rows = gain * np.vstack([np.eye(n), outputs])
    G = np.eye(n + len(rows))
    G[n:, :n] += rows
    G[n:, n : 2 * n] -= rows
    if back:
        G = G.T
    return np.einsum("xu,subv,yv->sxby", G, S, G, optimize=True)


class Run:
    """The moments of B schedules along one chain, with those of the path if asked for.

    Attributes
    ----------
    S : array of shape (states, width, B, width)
        The moments of (U, Ū, 0) now.
    marked : list of M arrays of shape (states, width, B, width), or of none
        The moments of (U, Ū, δ), summed over the visits of each task.
    outputs : array of shape (M, r, Q), or (0, 0, Q)
        D_m for the tasks that are followed, below it zeros if other tasks have a larger rank.
    extended : list of Maps
        Those of a step on (U, Ū, δ), for each of ``marked``.
    Q, size : int
        Coordinates of U, and of (U, Ū).
    sizes : tuple
        The width of the moments, and how many matrices of it there are for every state.
    """

    def __init__(
        self,
        coordinates: Coordinates,
        problem: Problem,
        path: bool = False,
    ) -> None:
        tasks = problem.tasks
        self.coordinates = coordinates
        self.problem = problem
        self.tasks = tasks
        self.done = 0
        self.averaged = len(problem.gains) > 0
        self.Q = len(coordinates.start)
        # The average of no steps is the start.
        U = np.vstack([coordinates.start] * (1 + self.averaged))
        self.size = len(U)
        n_outputs = np.max(tasks.ranks) if path else 0
        # All tasks have as many outputs, so that moments of all have one shape.
        self.outputs = np.zeros((tasks.n_tasks if path else 0, n_outputs, self.Q))
        for m, outputs in enumerate(self.outputs):
            rows = slice(*tasks.offsets[m : m + 2])
            outputs[: tasks.ranks[m]] = coordinates.maps.left[rows]
        # Of U alone no outputs are followed: its δ is zero.
        self.nothing = np.zeros((n_outputs, self.Q))
        width = self.size + n_outputs
        self.sizes = (width, 1 + len(self.outputs))
        problem.check_states(*self.sizes)
        shape = (1, width, len(problem.filters), width)
        self.S = np.zeros(shape)
        self.S[0, : self.size, :, : self.size] = (U @ U.T)[:, None, :]
        self.marked = [np.zeros(shape) for _ in self.outputs]
        # Equation (3), except for averages: δ follows them by its own map.
        self.extended = [coordinates.maps] * len(self.outputs)
        if not self.averaged:
            L = coordinates.maps.left
            wider = [np.hstack([L, L @ D.T]) for D in self.outputs]
            self.extended = [coordinates.maps._replace(left=left) for left in wider]
        # What one step of the teacher adds to the variance of every coordinate.
        self.walk = tasks.walk**2 / tasks.n_features

    def moves(self) -> Moves:
        """Return the moves of the next step, checked."""
        moves = self.problem.ordering.moves(self.tasks.n_tasks, self.done)
        moves.check(len(self.S), self.tasks.n_tasks)
        return moves

    def advance(self, factors: Floats) -> None:
        """Make the steps of φ (T, Σr, B)."""
        if self.problem.ordering.stationary and not self.marked and not self.walk:
            # One state and the same moves: all steps are one call of the compiled loop.
            gains = self.problem.gains[self.done : self.done + len(factors)]
            maps = self.coordinates.maps
            self.S = carry(self.S, self.moves(), maps, factors, gains)
            self.done += len(factors)
            return
        # A step of the chain: the teacher walks, then the learner learns.
        for phi in factors:
            self.move_teacher()
            self._step(self.moves(), phi)
            self.done += 1

    def move_teacher(self) -> None:
        """Add the moments of the teacher's step before the next task: z, its average and δ move."""
        if self.done and self.walk:
            self.S = self._walked(self.S, self.nothing)
            for m, outputs in enumerate(self.outputs):
                self.marked[m] = self._walked(self.marked[m], outputs)

    def _walked(self, S: Floats, outputs: Floats) -> Array:
        """Return S + E[G δ δᵀ Gᵀ; state]: δ is isotropic, and S[one, one] the probability."""
        # G maps a step of the teacher to the coordinates that it moves: z, its average, outputs.
        q = self.coordinates.q
        iterates = [np.eye(self.Q, q)] * (1 + self.averaged)
        G = np.vstack([*iterates, outputs[:, :q]])
        one = self.coordinates.maps.one
        probability = S[:, one, :, one]
        return S + self.walk * np.einsum("sb,xy->sxby", probability, G @ G.T)

    def _step(self, moves: Moves, phi: Floats) -> None:
        """Carry the moments of the path, and then those of U, through one step."""
        maps = self.coordinates.maps
        for m, outputs in enumerate(self.outputs):
            carried = carry(self.marked[m], moves, self.extended[m], phi)
            self.marked[m] = self._averaged(carried, outputs)
        if self.marked:
            # At a visit the change of outputs since then is zero. All tasks in one call: the
            # visits of task m are the states of part m, those of the last tasks may be missing.
            visited = carry(self.S, moves.apart, maps, phi)
            visited = self._averaged(visited, self.nothing)
            parts = visited.reshape(-1, moves.n_targets, *visited.shape[1:])
            for X, part in zip(self.marked, parts, strict=False):
                X += part
        carried = carry(self.S, moves, maps, phi)
        self.S = self._averaged(carried, self.nothing)

    def _averaged(self, S: Floats, outputs: Floats) -> Array:
        """Return S after the update of the average, if there is one."""
        if not self.averaged:
            return S
        return averaged(S, self.problem.gains[self.done], outputs)


class Powers:
    """P^(2^i) of the matrices P of B schedules, each of shape (B, n, n), for many equal steps.

    Parameters
    ----------
    moves : list of Moves
        Those of one period, in the order in which they are made.
    maps : Maps
    phi : array of shape (Σr, B)
    """

    def __init__(
        self,
        moves: list[Moves],
        maps: Maps,
        phi: Floats,
    ) -> None:
        Q = maps.left.shape[1]
        self.period = len(moves)
        self.rows, self.columns = np.tril_indices(Q)
        n = len(self.rows)
        # The basis: symmetric matrices with one entry 1 and its mirror image, one in every lane.
        # Column j of P is the image of the one in lane j.
        entries = np.eye(n)[:, :, None]
        basis = self._matrices(entries, np.zeros((1, Q, n, Q)))
        images = []
        for factors in phi.T:
            S = basis
            lanes = np.repeat(factors[:, None], n, axis=1)
            for each in moves:
                S = carry(S, each, maps, lanes)
            images.append(S[0, self.rows, :, self.columns])
        self.squares = [np.stack(images)]

    @classmethod
    def if_faster(
        cls,
        problem: Problem,
        maps: Maps,
        k: int,
        *,
        back: bool = False,
    ) -> "Powers | None":
        """Return the powers of fixed filters where they take less time than k steps; else None.

        ``back`` is for forms, which meet the steps of a period in reverse order.
        """
        tasks = problem.tasks
        ordering = problem.ordering
        period = ordering.period(tasks.n_tasks)
        Q = maps.left.shape[1]
        changing = any(filter_.horizon for filter_ in problem.filters)
        if period is None or changing or problem.average is not None or tasks.walk or not Q:
            return None
        # Entries of the lower triangle of a symmetric matrix.
        n = Q * (Q + 1) // 2
        # Multiplications of the squarings and of the first period, against those of all steps.
        states = ordering.n_states(tasks.n_tasks, k)
        step = 3.0 * states * (len(maps.left) * Q * Q / period + 1000)
        squarings = n**3 * np.log2(k / period + 2)
        if squarings + n * period * step > k * step:
            return None
        moves = [ordering.moves(tasks.n_tasks, t) for t in range(period)]
        if back:
            moves = [each.reversed for each in reversed(moves)]
        return cls(moves, maps, problem.factors(0, 1)[0])

    def advanced(self, S: Floats, n_steps: int) -> Floats:
        """Return the moments S (1, Q, B, Q) after some periods of ``n_steps`` in all."""
        n_periods = n_steps // self.period
        return self._matrices(self._power(self._entries(S), n_periods), S)

    def summed(self, N: Floats, n_steps: int) -> Floats:
        """Return (I + P + … + P^(n − 1)) N for n periods, for errors that are made in each.

        With G_n the sum of n powers, G_2n = G_n + P^n G_n and G_{n+1} = N + P G_n; the binary
        digits of n tell which.
        """
        first = self._entries(N)
        total = np.zeros_like(first)
        done = 0
        for digit in bin(n_steps // self.period)[2:]:
            total = total + self._power(total, done)
            done *= 2
            if digit == "1":
                total = first + self.squares[0] @ total
                done += 1
        return self._matrices(total, N)

    def _power(self, x: Floats, n: int) -> Floats:
        """Return Pⁿ x: the last squares would cost more than so many products with x."""
        # no mutant: only the time differs
        top = max(0, n.bit_length() - _REPEATED)
        while len(self.squares) <= top:
            self.squares.append(self.squares[-1] @ self.squares[-1])
        # The binary digits of n below ``top`` by squares, the rest by repetition.
        for bit in range(top):
            if n >> bit & 1:
                x = self.squares[bit] @ x
        for _ in range(n >> top):
            x = self.squares[top] @ x
        return x

    def _entries(self, S: Floats) -> Array:
        """Return the entries (B, n, 1) of symmetric matrices (1, Q, B, Q)."""
        return np.moveaxis(S[0], 1, 0)[:, self.rows, self.columns, None]

    def _matrices(self, x: Floats, like: Floats) -> Floats:
        """Return the symmetric matrices with entries x (B, n, 1)."""
        new = np.empty_like(like)
        new[0, self.rows, :, self.columns] = x[:, :, 0].T
        new[0, self.columns, :, self.rows] = x[:, :, 0].T
        return new
