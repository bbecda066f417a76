"""Exact expectations step by step, for tasks drawn independently: the moments, and what the path left behind."""

import itertools
from collections.abc import Callable

import numpy as np
from array_api_compat import is_numpy_namespace

from forgetless._core.arrays import Array, Floats, from_numpy, namespace_of, to_numpy, zeros
from forgetless._core.compiled import compiled, worth_loading
from forgetless._core.validate import check_memory
from forgetless.engines.moments import Moments, Operator
from forgetless.engines.problem import Problem
from forgetless.metrics import mean_of

# From so many schedules on they are the lanes of SIMD, up to so many coordinates; fewer are stepped one by one
LANES_FROM, LANES_SIZE, ONE_SIZE = 16, 32, 64
# Makes steps on S in place, from L, R, the tasks' offsets, the probability of each direction, and φ (Σr, T, B)
Steps = Callable[[Array, Array, Array, Array, Array, Floats], None]


def compiled_steps(problem: Problem, moments: Moments) -> Steps | None:
    """Return compiled steps where they pay: in few coordinates, and for enough work."""
    n_problems, size, rows = len(problem.filters), moments.size, float(problem.tasks.offsets[-1])
    # Seconds without them, roughly: some calls per step, and products at a few GFLOP/s.
    seconds = float(problem.steps[-1]) * (3e-5 + n_problems * 3e-10 * rows * size * size)
    few = size <= (LANES_SIZE if n_problems >= LANES_FROM else ONE_SIZE)
    if not few or not is_numpy_namespace(problem.tasks.xp) or not worth_loading("engines._moments_numba", seconds):
        return None
    module = compiled("engines._moments_numba")
    steps: Steps | None = None if module is None else module.advance
    return steps


class IndependentRun:
    """B problems under way on the same tasks, with different shares.

    For the metrics of the path every task m has two matrices: P, the sum over its visits of E[U_s U_sᵀ], and
    D, the sum of E[U_t U_tᵀ − U_s U_sᵀ] over the same visits s ≤ t. D is built up from differences, so that forgetting
    is accurate when it is small. For the drift, ν holds E Σ_s [N_j (U_t − U_s)] U_tᵀ of every direction j, N being the
    ``moves`` of the moments. ``steps``
    makes the steps of S alone, compiled, where that pays.
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
        self.operator = Operator(moments, probabilities)
        self.probabilities = probabilities
        self.tasks = moments.tasks
        self.size, self.n_problems = moments.size, n_problems
        self.S = moments.initial(n_problems)
        self.path, self.drift_too, self.steps = path, drift, steps
        n_tasks, Q = self.tasks.n_tasks, self.size
        self.drifted: Floats = np.zeros(n_problems)
        if path:
            count = n_tasks * n_problems
            check_memory(
                count * (4.0 * Q * Q + 4.0 * moments.left.shape[0] * Q),
                f"seen-task metrics for {n_tasks} tasks, {n_problems} schedules and {Q} coordinates",
                "ask for fewer schedules at once, for metrics='average_loss' only, or use simulate",
            )
            self.D = zeros((Q, Q, count), self.S)
            self.P = zeros((Q, Q, count), self.S)
        if drift:
            self.nu = zeros((moments.left.shape[0], Q, n_problems), self.S)
            self.moves = moments.moves
            self.gram = self.moves @ moments.left.T

    @classmethod
    def of(cls, problem: Problem, moments: Moments, *, path: bool = False, drift: bool = False) -> "IndependentRun":
        """Return the run of all schedules of a problem, compiled where that pays."""
        steps = None if path else compiled_steps(problem, moments)
        return cls(moments, problem.probabilities, len(problem.filters), path=path, drift=drift, steps=steps)

    def advance(self, factors: Floats) -> None:
        """Make the steps of ``shares``, φ of shape (Σr, T, B)."""
        if self.steps is not None and not self.path:
            operator = self.operator
            maps, weights = (operator.left, operator.right), operator.weights[:, 0]
            self.steps(self.S, *maps, self.tasks.offsets, weights, factors)
            return
        for t in range(factors.shape[1]):
            phi = from_numpy(np.ascontiguousarray(factors[:, t, :]), like=self.S)
            if self.path:
                self._follow(phi)
            self.S -= self.operator.decrease(self.S, phi)

    def _follow(self, phi: Array) -> None:
        xp, n_tasks = namespace_of(self.S), self.tasks.n_tasks
        wide = xp.tile(phi, (1, n_tasks))
        T, W = self.operator.products(self.D + self.P, wide)
        if self.drift_too:
            self._follow_drift(T, W, phi)
        self.D -= self.operator.collect(T, W, wide)
        p = from_numpy(self.probabilities[:, None], like=self.S)
        self.P += xp.reshape(p * self.operator.each(self.S, phi), self.P.shape)

    def _follow_drift(self, T: Array, W: Array, phi: Array) -> None:
        """Advance ν and add this step's drift, from the products with C = D + P of all tasks.

        With δ = −A U the move of one step, E Σ_s of H(z_t − z_s + δ)(U_t + δ)ᵀ and of ‖X(z_t − z_s + δ)‖².
        """
        xp, operator = namespace_of(self.S), self.operator
        weighted = operator.weights * phi
        scale = from_numpy(self.tasks.singular_values[:, None] ** 2, like=self.S)
        # ν Āᵀ = (ν Rᵀ) diag(pφ) L, and its product with N_j for the cross term.
        back = operator.right @ self.nu * weighted[None, :, :]
        cross = xp.sum(back * self.gram[:, :, None], axis=1)
        source, quad = self._matched(T, W, weighted)
        self.drifted = self.drifted + to_numpy(xp.sum(scale * (quad - 2.0 * cross), axis=0))
        self.nu = self.nu - operator.left.T @ back + source

    def _matched(self, T: Array, W: Array, weighted: Array) -> tuple[Array, Array]:
        """Return N_j(−Ā C + Σ p A C Aᵀ) and N_j Σ p A C Aᵀ N_jᵀ with the C of direction j's own task."""
        xp = namespace_of(T)
        rows, b, q = T.shape[0], self.n_problems, self.size
        sources, quads = [zeros((0, q, b), T)], [zeros((0, b), T)]
        for m, (low, high) in enumerate(self._bounds()):
            if low == high:
                continue
            own, rows_of = slice(m * b, (m + 1) * b), self.moves[low:high, :]
            spread = self.gram[low:high, :]
            parts = []
            for X in (T, W):
                column = xp.reshape(X[:, :, own] * weighted[:, None, :], (rows, q * b))
                parts.append(xp.reshape(spread @ column, (high - low, q, b)))
            sources.append(parts[1] - parts[0])
            quads.append(xp.sum(parts[1] * rows_of[:, :, None], axis=1))
        return xp.concat(sources, axis=0), xp.concat(quads, axis=0)

    def _bounds(self) -> list[tuple[int, int]]:
        return list(itertools.pairwise(self.tasks.offsets.tolist()))

    def evaluate(self, name: str, t: int) -> Floats:
        """Return one metric after t steps, of shape (B,)."""
        squares, floors = self.tasks.singular_values**2, self.tasks.floors
        if name == "average_loss":
            excess = squares @ to_numpy(self.operator.outputs(self.S))
            return mean_of(name, 0.5 * excess, self.tasks.n_tasks, float(floors.mean()))
        if name == "drift":
            return mean_of(name, self.drifted, t)
        if name == "forgetting":
            return mean_of(name, 0.5 * squares @ self._own(self.D), t)
        return mean_of(name, 0.5 * squares @ self._own(self.D + self.P), t, float(self.probabilities @ floors))

    def _own(self, C: Array) -> Floats:
        """Return R_j C R_jᵀ with the C of direction j's own task, of shape (Σr, B)."""
        xp, b = namespace_of(C), self.n_problems
        values = [zeros((0, b), C)]
        for m, (low, high) in enumerate(self._bounds()):
            right = self.operator.right[low:high, :]
            own = xp.reshape(C[:, :, m * b : (m + 1) * b], (self.size, self.size * b))
            product = xp.reshape(right @ own, (high - low, self.size, b))
            values.append(xp.sum(product * right[:, :, None], axis=1))
        return to_numpy(xp.concat(values, axis=0))
