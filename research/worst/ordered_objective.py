"""Objective of the adversary in a cycle and in random epochs, where every task counts once.

Epochs are walks over sets: after t steps of an epoch the tasks seen are a set A of t tasks, and a
step to A ∪ {m} has the probability 1/(M − t) for every m not in A; a cycle is a walk over one
state. With V_k = H, the form before a step is the mean of Λ_m V Λ_m over the steps that follow, V
being the form of the state they lead to, and the adjoint S of every state obeys the same recursion
forwards.
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from forgetless.orderings import Moves, Ordering, RandomReshuffling
from research.arrays import Floats
from research.worst.objective import Adversary, form_of, through_steps, with_step


@dataclass(frozen=True, eq=False)
class OrderedAdversary(Adversary):
    """The objective for one order, or for random epochs; probabilities of tasks are equal and
    fixed.
    """

    free: bool = False
    ordering: Ordering = field(default_factory=RandomReshuffling)

    @cached_property
    def moves(self) -> list[Moves]:
        """The steps at every time."""
        return [self.ordering.moves(self.n_tasks, t) for t in range(self.k)]

    def unpack(self, x: Floats) -> tuple[Floats, Floats, Floats]:
        """Return orthonormal directions, eigenvalues and equal probabilities, whatever those of the
        point are.
        """
        units, eigenvalues, p = super().unpack(x)
        return units, eigenvalues, np.full_like(p, 1 / self.n_tasks)

    def loss(self, units: Floats, eigenvalues: Floats, p: Floats) -> Floats:
        """Return the worst loss over unit teachers, of shape (B,); ``p`` must be uniform."""
        forms = self._forms(units, eigenvalues, p, self.factors(eigenvalues))
        return np.asarray(0.5 * np.linalg.eigvalsh(forms[0][0])[:, -1])

    def gradient(
        self, units: Floats, eigenvalues: Floats, p: Floats
    ) -> tuple[Floats, Floats, Floats, Floats]:
        """Return the loss (B,) and its derivatives by u (B, M, r, d) and ξ (B, M, r), and zeros for
        p.
        """
        phi = self.factors(eigenvalues)
        slopes = np.broadcast_to(self.slopes(eigenvalues), phi.shape)
        forms = self._forms(units, eigenvalues, p, phi)
        values, vectors = np.linalg.eigh(forms[0][0])
        moments = vectors[None, :, :, -1, None] * vectors[None, :, None, :, -1]
        # Derivatives are summed over the steps.
        to_units = np.zeros_like(units)
        to_eigenvalues = np.zeros_like(eigenvalues)
        for t, moves in enumerate(self.moves):
            of_tasks = units[:, moves.task].swapaxes(0, 1)  # (E, B, r, d)
            flat = _flat(of_tasks)[:, None]
            factors = _flat(phi[t][:, moves.task].swapaxes(0, 1))[:, None]
            # The form after the step and the moments before it, at the ends of every move
            V = _flat(forms[t + 1][moves.target])
            S = _flat(moments[moves.source])
            # Every problem of the batch has the same probabilities.
            weight = np.repeat(moves.probability, len(p))[:, None]
            by_units, by_phi, _ = through_steps(flat, weight, factors[None], V[None], S[None])
            np.add.at(to_units.swapaxes(0, 1), moves.task, by_units.reshape(of_tasks.shape))
            by_phi = by_phi.reshape(of_tasks.shape[:3]) * slopes[t][:, moves.task].swapaxes(0, 1)
            np.add.at(to_eigenvalues.swapaxes(0, 1), moves.task, by_phi)
            moments = self._step(moments, units, phi[t], moves.reversed)
        # The last form H depends on everything directly.
        last = units @ moments.sum(axis=0)[:, None]
        to_units += (p[..., None] * eigenvalues)[..., None] * last
        to_eigenvalues += 0.5 * p[..., None] * (last * units).sum(axis=3)
        return 0.5 * values[:, -1], to_units, to_eigenvalues, np.zeros_like(p)

    def _forms(self, units: Floats, eigenvalues: Floats, p: Floats, phi: Floats) -> list[Floats]:
        """Return the forms of the states before every step, and after the last, each (n_states, B,
        d, d).
        """
        last = form_of(units, p[..., None] * eigenvalues)
        forms = [np.broadcast_to(last, (int(self.moves[-1].target.max()) + 1, *last.shape))]
        for t in range(self.k - 1, -1, -1):
            forms.append(self._step(forms[-1], units, phi[t], self.moves[t]))
        return forms[::-1]

    @staticmethod
    def _step(V: Floats, units: Floats, phi: Floats, moves: Moves) -> Floats:
        """Return at every source the sum of Λ V Λ over the moves to targets, times their
        probability.
        """
        rows = _flat(units[:, moves.task].swapaxes(0, 1))[:, None]
        factors = _flat(phi[:, moves.task].swapaxes(0, 1))[:, None]
        after = with_step(_flat(V[moves.target]), rows, np.ones((len(rows), 1)), factors)
        result = np.zeros((int(moves.source.max()) + 1, *V.shape[1:]))
        moved = after.reshape(len(moves.task), *V.shape[1:])
        np.add.at(result, moves.source, moves.probability[:, None, None, None] * moved)
        return result


def _flat(values: Floats) -> Floats:
    """Return an array without the distinction of its first two axes."""
    return np.ascontiguousarray(values).reshape(-1, *values.shape[2:])
