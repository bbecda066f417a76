"""Many equal steps at once: powers of S ↦ Σ_m p_m M_m S M_mᵀ, as a matrix on symmetric matrices."""

import numpy as np

from forgetless._core.arrays import Floats
from forgetless.lab.moments import Maps, carry
from forgetless.lab.problem import Problem


class Powers:
    """P^(2^i) of the matrices P of B schedules, in n = Q(Q+1)/2 coordinates of symmetric matrices.

    Squaring needs no symmetry of P, which tasks that no model fits do not have. The rate of the
    slowest decay is known to eps, so that after k steps a relative error of some k·eps is
    unavoidable: 1e-9 at a million steps.
    """

    def __init__(self, matrices: Floats, size: int) -> None:
        self.squares = [matrices]
        self.rows, self.columns = np.tril_indices(size)

    @classmethod
    def if_faster(cls, problem: Problem, maps: Maps, k: int) -> "Powers | None":
        """Return the powers of fixed filters where they take less time than k steps; else None.

        The matrix is made by pushing a basis of the symmetric matrices, each as a schedule.
        """
        left = maps.left
        Q = left.shape[1]
        n = Q * (Q + 1) // 2
        # Multiplications of the squarings against those of the steps, with their overhead.
        squaring = float(n) ** 3 * np.log2(k + 1)
        stepping = 3.0 * k * (len(left) * Q * Q + 1000)
        plain = problem.constant and problem.ordering.stationary
        if not plain or problem.average is not None or problem.tasks.walk or not Q:
            return None
        if squaring > stepping:
            return None
        rows, columns = np.tril_indices(Q)
        lanes = np.arange(n)
        basis = np.zeros((1, Q, n, Q))
        # The basis matrices e_x e_yᵀ + e_y e_xᵀ, one in every lane.
        basis[0, rows, lanes, columns] = 1.0
        basis[0, columns, lanes, rows] = 1.0
        moves = problem.ordering.moves(problem.tasks.n_tasks, 0)
        factors = problem.factors(0, 1)[0]
        matrices = []
        for b in range(len(problem.filters)):
            phi = np.repeat(factors[:, b : b + 1], n, axis=1)
            # Column j of P is the image of basis matrix j.
            matrices.append(carry(basis, moves, maps, phi)[0, rows, :, columns])
        return cls(np.stack(matrices), Q)

    def advanced(self, S: Floats, n_steps: int) -> Floats:
        """Return the moments S (1, Q, B, Q) after some more steps."""
        x = np.moveaxis(S[0], 1, 0)[:, self.rows, self.columns, None]
        return self._matrices(self._power(x, n_steps), S)

    def summed(self, N: Floats, n_steps: int) -> Floats:
        """Return (I + P + … + P^(n_steps − 1)) N, for errors that are made at every step.

        With G_n the sum of n powers, G_2n = G_n + P^n G_n and G_{n+1} = N + P G_n; the binary
        digits of n_steps tell which.
        """
        first = np.moveaxis(N[0], 1, 0)[:, self.rows, self.columns, None]
        total = np.zeros_like(first)
        done = 0
        for digit in bin(n_steps)[2:]:
            total = total + self._power(total, done)
            done *= 2
            if digit == "1":
                total = first + self._square(0) @ total
                done += 1
        return self._matrices(total, N)

    def _power(self, x: Floats, n_steps: int) -> Floats:
        """Return P^n_steps x."""
        for bit in range(int(n_steps).bit_length()):
            if n_steps >> bit & 1:
                x = self._square(bit) @ x
        return x

    def _square(self, bit: int) -> Floats:
        """Return P^(2^bit)."""
        while bit >= len(self.squares):
            self.squares.append(self.squares[-1] @ self.squares[-1])
        return self.squares[bit]

    def _matrices(self, x: Floats, like: Floats) -> Floats:
        new = np.empty_like(like)
        new[0, self.rows, :, self.columns] = x[:, :, 0].T
        new[0, self.columns, :, self.rows] = x[:, :, 0].T
        return new
