"""Objective of the adversary in a cycle and in random epochs, where every task counts once.

Epochs are walks over sets: after t steps of an epoch the tasks seen are a set A of t tasks, and a
step to A ∪ {m} has the probability 1/(M − t) for every m not in A; a cycle is a walk over one
state. With V_k = H, the form before a step is the mean of Λ_m V Λ_m over the steps that follow, V
being the form of the state they lead to, and the adjoint S of every state obeys the same recursion
forwards.
"""

import itertools
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from forgetless.orderings import Epochs, OneOrder
from research.arrays import Floats
from research.worst.objective import Adversary, form_of, through_steps, with_step


class _Moves(NamedTuple):
    """The possible steps at one time: from state to state, with a task, all of the same probability
    from a state.
    """

    sources: NDArray[np.int64]  # (E,)
    targets: NDArray[np.int64]  # (E,)
    tasks: NDArray[np.int64]  # (E,)
    probability: float


@dataclass(frozen=True, eq=False)
class OrderedAdversary(Adversary):
    """The objective for one order, or for random epochs; probabilities of tasks are equal and
    fixed.
    """

    free: bool = False
    law: Epochs | OneOrder = field(default_factory=Epochs)

    @cached_property
    def moves(self) -> list[_Moves]:
        """The steps at every time."""
        if isinstance(self.law, OneOrder):
            one = np.zeros(1, np.int64)
            return [_Moves(one, one, np.array([self.law.at(t)]), 1.0) for t in range(self.k)]
        epoch = [_set_moves(self.n_tasks, t) for t in range(min(self.k, self.n_tasks))]
        return [epoch[t % self.n_tasks] for t in range(self.k)]

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
        to_units, to_eigenvalues = np.zeros_like(units), np.zeros_like(eigenvalues)
        for t, moves in enumerate(self.moves):
            of_tasks = units[:, moves.tasks].swapaxes(0, 1)  # (E, B, r, d)
            flat, factors = (
                _flat(of_tasks)[:, None],
                _flat(phi[t][:, moves.tasks].swapaxes(0, 1))[:, None],
            )
            V, S = _flat(forms[t + 1][moves.targets]), _flat(moments[moves.sources])
            weight = np.full((len(flat), 1), moves.probability)
            by_units, by_phi, _ = through_steps(flat, weight, factors[None], V[None], S[None])
            np.add.at(to_units.swapaxes(0, 1), moves.tasks, by_units.reshape(of_tasks.shape))
            by_phi = by_phi.reshape(of_tasks.shape[:3]) * slopes[t][:, moves.tasks].swapaxes(0, 1)
            np.add.at(to_eigenvalues.swapaxes(0, 1), moves.tasks, by_phi)
            moments = self._step(
                moments, units, phi[t], moves._replace(sources=moves.targets, targets=moves.sources)
            )
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
        forms = [np.broadcast_to(last, (int(self.moves[-1].targets.max()) + 1, *last.shape))]
        for t in range(self.k - 1, -1, -1):
            forms.append(self._step(forms[-1], units, phi[t], self.moves[t]))
        return forms[::-1]

    @staticmethod
    def _step(V: Floats, units: Floats, phi: Floats, moves: _Moves) -> Floats:
        """Return at every source the sum of Λ V Λ over the moves to targets, times their
        probability.
        """
        rows = _flat(units[:, moves.tasks].swapaxes(0, 1))[:, None]
        factors = _flat(phi[:, moves.tasks].swapaxes(0, 1))[:, None]
        after = with_step(_flat(V[moves.targets]), rows, np.ones((len(rows), 1)), factors)
        result = np.zeros((int(moves.sources.max()) + 1, *V.shape[1:]))
        np.add.at(
            result, moves.sources, moves.probability * after.reshape(len(moves.tasks), *V.shape[1:])
        )
        return result


def _flat(values: Floats) -> Floats:
    """Return an array without the distinction of its first two axes."""
    return np.ascontiguousarray(values).reshape(-1, *values.shape[2:])


def _set_moves(n_tasks: int, t: int) -> _Moves:
    """Return the steps from sets of t tasks to sets of t + 1."""
    before, after = (
        {each: i for i, each in enumerate(itertools.combinations(range(n_tasks), size))}
        for size in (t, t + 1)
    )
    moves = [
        (i, after[tuple(sorted((*each, m)))], m)
        for each, i in before.items()
        for m in range(n_tasks)
        if m not in each
    ]
    sources, targets, tasks = np.array(moves, dtype=np.int64).T
    return _Moves(sources, targets, tasks, 1 / (n_tasks - t))
