"""Many equal steps at once, by powers of S ↦ Σ p M S Mᵀ as a matrix on symmetric matrices.

If the filter and the moves repeat after p steps, and the chain then has a single state, those p
steps are one linear map P of the n = Q(Q+1)/2 entries of a symmetric matrix. Its columns are the
images of a basis, pushed through the steps as if each were a schedule. P^(2^i) by squaring then
gives any number of periods. The rate of the slowest decay is known to eps, so that after k steps a
relative error of some k·eps is unavoidable: 1e-9 at a million steps.
"""

import numpy as np

from forgetless._validate import Array, Floats
from forgetless.lab.chain import carry
from forgetless.lab.coordinates import Maps
from forgetless.lab.problem import Problem
from forgetless.orderings import Moves

_REPEATED = 6
"""Squares that are not made: a product of matrices takes as long as some 60 with a vector."""


class Powers:
    """P^(2^i) of the matrices P of B schedules, each of shape (B, n, n).

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
        # The basis matrices e_x e_yᵀ + e_y e_xᵀ, one in every lane: column j of P is the image of
        # the one in lane j.
        entries = np.eye(n)[:, :, None]
        basis = self._matrices(entries, np.zeros((1, Q, n, Q)))
        images = []
        for factors in phi.T:
            S = basis
            for each in moves:
                lanes = np.repeat(factors[:, None], n, axis=1)
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
        changing = not problem.constant or problem.average is not None or bool(tasks.walk)
        if period is None or changing or not Q:
            return None
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
                total = first + self._square(0) @ total
                done += 1
        return self._matrices(total, N)

    def _power(self, x: Floats, n: int) -> Floats:
        """Return Pⁿ x: the last squares would cost more than so many products with x."""
        top = max(0, n.bit_length() - _REPEATED)
        for bit in range(top):
            if n >> bit & 1:
                x = self._square(bit) @ x
        for _ in range(n >> top):
            x = self._square(top) @ x
        return x

    def _square(self, bit: int) -> Floats:
        """Return P^(2^bit)."""
        while bit >= len(self.squares):
            self.squares.append(self.squares[-1] @ self.squares[-1])
        return self.squares[bit]

    def _entries(self, S: Floats) -> Array:
        """Return the entries (B, n, 1) of symmetric matrices (1, Q, B, Q)."""
        return np.moveaxis(S[0], 1, 0)[:, self.rows, self.columns, None]

    def _matrices(self, x: Floats, like: Floats) -> Floats:
        """Return the symmetric matrices with entries x (B, n, 1)."""
        new = np.empty_like(like)
        new[0, self.rows, :, self.columns] = x[:, :, 0].T
        new[0, self.columns, :, self.rows] = x[:, :, 0].T
        return new
