"""The recursion of second moments for tasks drawn independently, step by step, with statistics of
the path.

For tasks drawn with probabilities p one step is S ← Σ_m p_m M_m S M_mᵀ = S − A − Aᵀ with A = Lᵀ Y
and

    Y_m = p_m φ (R_m S − ½ (R_m S R_mᵀ) φ L_m):

two large products and some small ones. A + Aᵀ is exactly symmetric, so S stays so: an antisymmetric
rounding error would not be contracted but grow.

All functions work on B problems at once, with S of shape (Q, Q, B) and factors φ of shape (Σr, B):
problems last, so that everything but the products runs over long contiguous rows.
"""

import itertools
from collections.abc import Callable

import numpy as np

from forgetless._core.arrays import Array, Floats
from forgetless._core.compiled import compiled, worth_loading
from forgetless.engines.disturbance import Disturbance
from forgetless.engines.moments import OF_MOMENTS, Moments, of_moments
from forgetless.engines.problem import Problem
from forgetless.engines.rounding import diagonal_roots
from forgetless.metrics import by_task, mean_of

_ONE_SIZE = 64  # most coordinates of compiled steps: beyond, products take all the time
# L, R, offsets, and the probability of every singular vector
OperatorArrays = tuple[Array, Array, Array, Array]
# makes the steps of factors (Σr, T, B) on S in place
Steps = Callable[[Array, OperatorArrays, Floats], None]


def compiled_steps(problem: Problem, moments: Moments) -> Steps | None:
    """Return compiled steps where they are faster: in few coordinates, and for enough work."""
    n_problems, size, rows = len(problem.filters), moments.size, float(problem.tasks.offsets[-1])
    # Seconds without them, roughly: some calls per step, and products at a few GFLOP/s.
    seconds = float(problem.steps[-1]) * (3e-5 + n_problems * 3e-10 * rows * size * size)
    if size > _ONE_SIZE or not worth_loading("engines._moments_numba", seconds):
        return None
    module = compiled("engines._moments_numba")
    steps: Steps | None = None if module is None else module.advance
    return steps


class Operator:
    """One step of the moment recursion for tasks drawn with probabilities of shape (M,)."""

    def __init__(self, moments: Moments, probabilities: Floats) -> None:
        self.left, self.right, self.tasks = moments.left, moments.right, moments.tasks
        weights = np.repeat(probabilities, np.diff(moments.tasks.offsets))
        self.weights = weights[:, None]
        self.blocks = _Blocks(moments)

    @property
    def arrays(self) -> OperatorArrays:
        """L, R, the tasks' offsets and the probability of every singular vector, for compiled
        steps.
        """
        return self.left, self.right, self.tasks.offsets, self.weights[:, 0]

    def products(self, S: Array, factors: Array) -> tuple[Array, Array]:
        """Return R S and (R_m S R_mᵀ) φ L_m of every task, both of shape (Σr, Q, B)."""
        T = applied(self.right, S)
        return T, self.blocks.sandwich(T, self.right, self.left, factors)

    def decrease(self, S: Array, factors: Array) -> Array:
        """Return S − Σ_m p_m M_m S M_mᵀ, of the shape (Q, Q, B) of S, for factors (Σr, B)."""
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
        T, W = self.products(S, factors)
        Y = (T - 0.5 * W) * factors[:, None, :]
        results = []
        for low, high in itertools.pairwise(self.tasks.offsets.tolist()):
            results.append(
                S - mirrored(applied(self.left[low:high, :].T, Y[low:high, ...]))
                if high > low
                else S
            )
        return np.stack(results, axis=2)

    def outputs(self, S: Array) -> Array:
        """Return R_j S R_jᵀ, the mean square error along singular vector j, of shape (Σr, B)."""
        return np.sum(applied(self.right, S) * self.right[:, :, None], axis=1)


def applied(matrix: Array, S: Array) -> Array:
    """Return matrix @ S along the first axis of S (Q, Q, B)."""
    n, q, b = S.shape
    return np.reshape(matrix @ np.reshape(S, (n, q * b)), (matrix.shape[0], q, b))


def mirrored(A: Array) -> Array:
    """Return A + Aᵀ of matrices (Q, Q, B)."""
    return A + np.permute_dims(A, (1, 0, 2))


class _Blocks:
    """Products within tasks, batched over tasks of equal rank."""

    def __init__(self, moments: Moments) -> None:
        offsets, ranks = moments.tasks.offsets, np.diff(moments.tasks.offsets)
        self.groups: list[tuple[int, int, Array | slice]] = []
        for rank in np.unique(ranks[ranks > 0]).tolist():
            members = np.flatnonzero(ranks == rank)
            rows = (offsets[members][:, None] + np.arange(rank)).ravel()
            index = slice(None) if len(rows) == offsets[-1] else rows
            self.groups.append((len(members), rank, index))

    def sandwich(self, T: Array, inner: Array, outer: Array, factors: Array) -> Array:
        """Return (T_m inner_mᵀ) φ_m outer_m for every task m, of shape (Σr, Q, B)."""
        parts = []
        for count, rank, rows in self.groups:
            arrays = [_rows(x, rows) for x in (T, inner, outer, factors)]
            parts.append((rows, self._one(count, rank, *arrays)))
        return self._assemble(parts, T)

    def _one(
        self, count: int, rank: int, T: Array, inner: Array, outer: Array, factors: Array
    ) -> Array:
        q, b = T.shape[1:]
        if rank == 1:
            K = np.sum(T * inner[:, :, None], axis=1) * factors
            return K[:, None, :] * outer[:, :, None]
        if b == 1:  # one product per task instead of one per singular vector
            K = np.reshape(T, (count, rank, q)) @ np.matrix_transpose(
                np.reshape(inner, (count, rank, q))
            )
            K *= np.reshape(factors, (count, 1, rank))
            return np.reshape(K @ np.reshape(outer, (count, rank, q)), (count * rank, q, 1))
        K = np.reshape(inner, (count, 1, rank, q)) @ np.reshape(T, (count, rank, q, b))
        K *= np.reshape(factors, (count, 1, rank, b))
        W = np.matrix_transpose(np.reshape(outer, (count, 1, rank, q))) @ K
        return np.reshape(W, (count * rank, q, b))

    def _assemble(self, parts: list[tuple[Array | slice, Array]], like: Array) -> Array:
        if not parts:
            return like  # all tasks are zero
        if len(parts) == 1 and isinstance(parts[0][0], slice):
            return parts[0][1]
        rows = np.concatenate([index for index, _ in parts])
        return np.concatenate([part for _, part in parts])[np.argsort(rows)]


def _rows(array: Array, rows: Array | slice) -> Array:
    return array if isinstance(rows, slice) else np.take(array, rows, axis=0)


class IndependentRun:
    """The moments of B schedules on the same tasks.

    For the metrics of the path every task m has two matrices: P, the sum over its visits of E[U_s
    U_sᵀ], and D, the sum of E[U_t U_tᵀ − U_s U_sᵀ] over the same visits s ≤ t. D is built up from
    differences, so that forgetting is accurate when it is small. For the drift, ν is E Σ_s [N_j
    (U_t − U_s)] U_tᵀ of every singular vector j, N being the ``moves`` of the moments. ``steps``
    are compiled steps of S alone. Label noise and the walk of a teacher (``disturbance``) add N to
    S after a step and Q before it, and as often to D of a task as it was visited.
    """

    def __init__(
        self,
        moments: Moments,
        probabilities: Floats,
        n_problems: int,
        *,
        path: bool = False,
        drift: bool = False,
        steps: Steps | None = None,
    ) -> None:
        self.operator, self.probabilities, self.tasks = (
            Operator(moments, probabilities),
            probabilities,
            moments.tasks,
        )
        self.moments = moments
        self.size, self.n_problems, self.S = moments.size, n_problems, moments.initial(n_problems)
        self.path, self.follows_drift, self.steps = path, drift, steps
        n_tasks, Q = self.tasks.n_tasks, self.size
        self.drift: Floats = np.zeros((moments.left.shape[0], n_problems))
        self.disturbance: Disturbance | None = None
        self.walk = self.variances = np.zeros((0, 0, 0))  # of a disturbance
        self.done = 0
        self.bounds = list(itertools.pairwise(self.tasks.offsets.tolist()))
        if path:
            count = n_tasks * n_problems
            self.D = np.zeros((Q, Q, count))
            self.P = np.zeros((Q, Q, count))
        if drift:
            self.nu = np.zeros((moments.left.shape[0], Q, n_problems))
            self.moves = moments.moves
            self.gram = self.moves @ moments.left.T

    @classmethod
    def of(
        cls, problem: Problem, moments: Moments, *, path: bool = False, drift: bool = False
    ) -> "IndependentRun":
        """Return the run of all schedules of a problem, compiled where that is faster."""
        steps = None if path or problem.disturbance else compiled_steps(problem, moments)
        run = cls(
            moments,
            problem.probabilities,
            len(problem.filters),
            path=path,
            drift=drift,
            steps=steps,
        )
        if problem.disturbance is not None:
            run.disturbance = problem.disturbance
            run.walk, run.variances = (
                problem.disturbance.walk_moment(moments),
                problem.disturbance.variances(moments),
            )
        return run

    def advance(self, factors: Floats) -> None:
        """Make the steps of factors (Σr, T, B)."""
        if self.steps is not None and not self.path:
            self.steps(self.S, self.operator.arrays, factors)
            return
        for t in range(factors.shape[1]):
            phi = np.ascontiguousarray(factors[:, t, :])
            if self.disturbance is not None and self.done:
                self._add(self.walk)
            if self.path:
                self._follow(phi)
            self.S -= self.operator.decrease(self.S, phi)
            if self.disturbance is not None:
                self._add_noise(phi)
            self.done += 1

    def _add(self, moment: Array) -> None:
        """Add a moment (Q, Q, 1 or B) to S, and to D of every task as often as it was visited so
        far.
        """
        self.S += moment
        if self.path:
            visits = self.done * self.probabilities[:, None]
            self.D += np.reshape(
                visits * moment[:, :, None, :] + np.zeros((1, 1, 1, self.n_problems)),
                self.D.shape,
            )

    def _add_noise(self, phi: Array) -> None:
        """Add the moments of the noise of one step, N = Σ_m p_m N_m with N_m = L_mᵀ diag(φ²cσ²/s²)
        L_m.
        """
        left = self.operator.left
        weighted = self.operator.weights * phi**2 * self.variances
        rows = weighted[:, None, :] * left[:, :, None]
        noise = applied(left.T, rows)
        self._add(noise)
        if self.path:  # right after a visit of m its own noise is in the weights
            own = [applied(left[low:high, :].T, rows[low:high, ...]) for low, high in self.bounds]
            self.P += np.reshape(np.stack(own, axis=2), self.P.shape)
        if self.follows_drift:
            visits = self.done * np.repeat(self.probabilities, self.tasks.ranks)[:, None]
            moved = visits[:, None, :] * applied(self.moves, noise)
            self.nu = self.nu + moved
            squares = self.tasks.singular_values[:, None] ** 2
            self.drift = self.drift + (squares * np.sum(moved * self.moves[:, :, None], axis=1))

    def _follow(self, phi: Array) -> None:
        n_tasks = self.tasks.n_tasks
        wide = np.tile(phi, (1, n_tasks))
        T, W = self.operator.products(self.D + self.P, wide)
        if self.follows_drift:
            self._follow_drift(T, W, phi)
        self.D -= self.operator.collect(T, W, wide)
        p = self.probabilities[:, None]
        self.P += np.reshape(p * self.operator.each(self.S, phi), self.P.shape)

    def _follow_drift(self, T: Array, W: Array, phi: Array) -> None:
        """Advance ν and add this step's drift, from the products with C = D + P of all tasks.

        With δ = −A U the move of one step, E Σ_s of H(z_t − z_s + δ)(U_t + δ)ᵀ and of ‖X(z_t − z_s
        + δ)‖².
        """
        operator = self.operator
        weighted = operator.weights * phi
        scale = self.tasks.singular_values[:, None] ** 2
        # ν Āᵀ = (ν Rᵀ) diag(pφ) L, and its product with N_j for the cross term.
        back = operator.right @ self.nu * weighted[None, :, :]
        cross = np.sum(back * self.gram[:, :, None], axis=1)
        source, quad = self._matched(T, W, weighted)
        self.drift = self.drift + (scale * (quad - 2.0 * cross))
        self.nu = self.nu - operator.left.T @ back + source

    def _matched(self, T: Array, W: Array, weighted: Array) -> tuple[Array, Array]:
        """Return N_j(−Ā C + Σ p A C Aᵀ) and N_j Σ p A C Aᵀ N_jᵀ with the C of the task of j."""
        rows, b, q = T.shape[0], self.n_problems, self.size
        sources, quads = [np.zeros((0, q, b))], [np.zeros((0, b))]
        for m, (low, high) in enumerate(self.bounds):
            if low == high:
                continue
            parts = []
            for X in (T, W):
                column = np.reshape(
                    X[:, :, m * b : (m + 1) * b] * weighted[:, None, :], (rows, q * b)
                )
                parts.append(np.reshape(self.gram[low:high, :] @ column, (high - low, q, b)))
            sources.append(parts[1] - parts[0])
            quads.append(np.sum(parts[1] * self.moves[low:high, :][:, :, None], axis=1))
        return np.concatenate(sources, axis=0), np.concatenate(quads, axis=0)

    def roots(self) -> Floats:
        """Return the roots of the diagonal of S, of shape (Q, B)."""
        return diagonal_roots(self.S)

    def evaluate(self, name: str, t: int) -> Floats:
        """Return one metric after t steps, of shape (B,), or (B, M) if it is per task."""
        squares, floors = self.tasks.singular_values**2, self.tasks.floors
        if name in OF_MOMENTS:
            outside = (
                0.0 if self.disturbance is None else self.disturbance.outside(name, t, self.moments)
            )
            return of_moments(name, self.moments, self.S) + outside
        if name == "average_loss":
            excess = squares @ self.operator.outputs(self.S)
            return mean_of(name, 0.5 * excess, self.tasks.n_tasks, float(floors.mean()))
        if name == "next_loss":
            weights = np.repeat(self.probabilities, self.tasks.ranks) * squares
            excess = weights @ self.operator.outputs(self.S)
            return mean_of(name, 0.5 * excess, 1, float(self.probabilities @ floors))
        if name.startswith("task"):
            # The expected sum over the visits of a task over their expected number.
            sums = (
                self.drift
                if name == "task_drift"
                else 0.5 * squares[:, None] * self._own_task(self.D)
            )
            return mean_of(name, by_task(sums.T[:, None, :], self.tasks), t * self.probabilities)
        if name == "drift":
            return mean_of(name, self.drift.sum(axis=0), t)
        if name == "forgetting":
            return mean_of(name, 0.5 * squares @ self._own_task(self.D), t)
        return mean_of(
            name,
            0.5 * squares @ self._own_task(self.D + self.P),
            t,
            float(self.probabilities @ floors),
        )

    def _own_task(self, C: Array) -> Floats:
        """Return R_j C R_jᵀ with the C of the task of j, of shape (Σr, B)."""
        b = self.n_problems
        values = [np.zeros((0, b))]
        for m, (low, high) in enumerate(self.bounds):
            right = self.operator.right[low:high, :]
            columns = np.reshape(C[:, :, m * b : (m + 1) * b], (self.size, self.size * b))
            product = np.reshape(right @ columns, (high - low, self.size, b))
            values.append(np.sum(product * right[:, :, None], axis=1))
        return np.concatenate(values, axis=0)
