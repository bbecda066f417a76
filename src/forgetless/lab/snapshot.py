"""What metrics are made of in exact expectations; ``trials.Trials`` is the same for runs.

With the moments S = E[U Uᵀ; state] of ``chain`` every quantity is a sum over states of forms
F S Fᵀ. The error along the singular vectors is R U, so that

    E L(w; m) = ½ Σ_j s_j² R_j S R_jᵀ + floor,         over the singular vectors j of the task,
    E w = w_ref + B E[z·1],                            a column of S,
    E‖A w − b‖² = ‖F U‖²,   F = [A B, A w_ref − b].

The loss on the next task is a sum over the moves s → d of its law: p times the loss in state s.
"""

from functools import cached_property
from typing import Any

import numpy as np

from forgetless._validate import Array, Floats
from forgetless.lab.chain import Run
from forgetless.tasks.outputs import columns


class Snapshot:
    """The expectations that metrics are made of, at the present step of a run: arrays (B, ...).

    Attributes
    ----------
    moments : array of shape (states, Q, B, Q)
        Of what is measured: the last iterate, or the average of all.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.tasks = run.tasks
        self.coordinates = run.coordinates
        self.n_steps = run.done
        self.low = run.size - run.Q
        self.moments = run.S[:, self.low :, :, self.low :]

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
        A = np.eye(self.tasks.n_features) if A is None else np.asarray(A, dtype=np.float64)
        rows = c.rows(A, columns(b, self.tasks))
        total = forms(rows, self.moments).sum(axis=(0, -1))
        square = np.maximum(total, 0.0)
        # The walk outside the span is not followed, but its variance is known.
        walked = self.run.walk * max(0, self.n_steps - 1)
        if not walked:
            return square
        outside = A - A @ c.basis @ c.basis.T
        return square + walked * np.sum(outside**2)

    @cached_property
    def _sums(self) -> Array:
        """Visits, sums of losses, of their changes and of squared changes: (4, B, M)."""
        return np.stack([self._of_visits(m) for m in range(self.tasks.n_tasks)], axis=-1)

    # Of the visits of each task: their expected number, and the sums over them of the losses, of
    # their changes since then and of the squared changes of outputs.
    visits = property(lambda self: self._sums[0])
    seen = property(lambda self: self._sums[1])
    forgotten = property(lambda self: self._sums[2])
    moved = property(lambda self: self._sums[3])

    def _of_visits(self, m: int) -> Floats:
        """Return the visits of a task and the three sums over them, of shape (4, B).

        X is the sum over visits of E[(U, δ)(U, δ)ᵀ], δ being the change of the outputs since then.
        """
        rows = slice(*self.tasks.offsets[m : m + 2])
        size = self.run.size
        X = self.run.marked[m].sum(0)
        R = self.coordinates.maps.right[rows]
        squares = self.tasks.singular_values[rows] ** 2
        now = slice(self.low, size)
        one = self.low + self.coordinates.maps.one
        # E e², E δ² and E δe, summed over the visits of the task.
        errors = forms(R, X[None, now, :, now])[0]
        change = np.einsum("jbj->bj", X[size:, :, size:])
        both = np.einsum("jbx,jx->bj", X[size:, :, now], R)
        visits = X[one, :, one]
        seen = 0.5 * errors @ squares + visits * self.tasks.floors[m]
        # Equation (4) of ``chain``: e_t² − e_r² = 2 δ e_t − δ².
        forgotten = 0.5 * (2.0 * both - change) @ squares
        return np.stack([visits, seen, forgotten, np.maximum(change @ squares, 0.0)])


def forms(rows: Floats, S: Floats) -> Array:
    """Return F_j S F_jᵀ for every row of F, of shape (states, B, n)."""
    n, Q = rows.shape
    states, _, B, _ = S.shape
    flat = S.reshape(states, Q, B * Q)
    T = (rows @ flat).reshape(states, n, B, Q)
    return np.einsum("sjby,jy->sbj", T, rows)
