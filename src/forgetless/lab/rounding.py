"""Estimates of the rounding errors of expected losses.

The loss after k steps is ½⟨V_t, S_t⟩ for the form V_t of any earlier time (``exact``), so that
errors N_t made in the steps change it by Σ_t ½⟨V_t, N_t⟩. No backward pass is needed for that
number: it is ½⟨H, E_k⟩ for the sum of all errors, carried forwards by the same recursion,

    E ← Σ p M E Mᵀ + N_t,   |N_t| ≤ eps·diag(g²),   g = r + |L|ᵀ φ |R| r,   r = √diag S,

g being the sizes of the terms that are summed. It decays as errors do. The data are rounded, too:
what a singular vector says of the weights is uncertain by

    u = eps (‖X‖ (|target| + ‖w‖) + ‖y‖) / s,

since vectors are computed to eps relative to the whole task. That is label noise, the same at every
step: with its moments F a loss ℓ is uncertain by 2√(ℓ ½⟨H, F⟩ k). Both sums are schedules of the
same kernel. ``tests/lab/test_digits.py`` compares the result with 60 digits.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from forgetless._core.arrays import Floats
from forgetless.lab.moments import Coordinates, Maps, Run, carry
from forgetless.lab.powers import Powers
from forgetless.lab.problem import Problem
from forgetless.orderings import Moves

EPS = float(np.finfo(np.float64).eps)
SAFETY = 8.0
"""Roundings per step beyond the sizes counted: the smallest power of 2 without a failure."""

_FOLLOWED = 5_000
"""Steps of fixed filters whose errors are followed one by one; sizes hardly change afterwards."""

_OTHERS = ("seen_loss", "next_loss", "forgetting", "drift", "task_losses")
"""Metrics of the size of the loss of some task."""


def relative_errors(problem: Problem, values: Mapping[str, Floats]) -> dict[str, float]:
    """Return the largest relative errors, at most 1, of losses and their differences by name.

    Those of the average loss are its own; the others are uncertain by that of all tasks together at
    any recorded time. Values are of shape (B, n_steps, …), or (n_steps, …) for one schedule.
    """
    # Absolute errors of the average loss, the last one being that at the start.
    own = _Errors(problem).curves()
    if not problem.grid:
        own = own[0]
    found = {"average_loss": own[..., :-1]}
    found |= dict.fromkeys(_OTHERS, problem.tasks.n_tasks * own.max(-1, keepdims=True))
    errors = {}
    for name in [each for each in values if each in found]:
        value = np.abs(values[name])
        error = found[name][..., None] if name == "task_losses" else found[name]
        with np.errstate(divide="ignore", invalid="ignore"):
            # An error of zero is exact, also of a loss of zero.
            shares = np.where(error > 0, error / value, 0.0)
        errors[name] = float(min(1.0, np.nanmax(shares, initial=0.0)))
    return errors


class _Errors:
    """The sums E and F of B schedules beside their moments S."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.c = Coordinates(problem.tasks, affine=True)
        self.run = Run(self.c, problem)
        maps = self.c.maps
        q = self.c.q
        self.B = len(problem.filters)
        # Errors do not depend on the labels: the maps of E and F have none.
        right = np.hstack([maps.right[:, :q], np.zeros_like(maps.right[:, q:])])
        self.linear = maps._replace(right=right)
        self.sums = np.zeros((1, self.run.Q, 2 * self.B, self.run.Q))  # E, then F
        self.sums[0, maps.one, self.B :, maps.one] = 1.0
        self.largest = np.zeros((2, self.B))  # losses of E and F at any step, for averages
        # The size of what floors are computed from
        self.floor = 0.5 * float(np.mean([np.sum(task.sizes**2) for task in problem.tasks]))

    def curves(self) -> Floats:
        """Return absolute errors of the average loss at recorded steps and at the start, (B, n)."""
        with np.errstate(over="ignore", invalid="ignore"):  # tasks of size 1e150
            return self._curves()

    def _curves(self) -> Floats:
        errors = [self._error()]
        powers = None
        if self.problem.steps[-1] > _FOLLOWED:
            both = replace(self.problem, filters=2 * self.problem.filters)
            powers = Powers.if_faster(both, self._noisy(), int(self.problem.steps[-1]))
        for first, last, recorded in self.problem.windows():
            near = last if powers is None else min(max(first, _FOLLOWED), last)
            for phi in self.problem.factors(first, near) if near > first else ():
                self._step(phi)
            if powers is not None and near < last:
                self._jump(powers, last - near)
            if recorded:
                errors.append(self._error())
        return np.stack(errors[1:] + errors[:1], axis=1)

    def _step(self, phi: Floats) -> None:
        """Make one step of E and F, then of S."""
        moves = self.run.moves()
        made = EPS * self._sizes(phi, moves)[moves.source] ** 2
        self.sums = carry(self.sums, moves, self._noisy(), np.hstack([phi, phi]))
        for x in range(self.run.Q):
            # N_t is diagonal, and is made in the state where a move ends.
            share = moves.probability[:, None] * made[:, :, x]
            np.add.at(self.sums[:, x, : self.B, x], moves.target, share)
        self.run.advance(phi[None])
        if self.problem.average is not None:
            # An average is a convex combination of iterates: their largest errors bound its own.
            self.largest = np.maximum(self.largest, self._losses_of_sums())

    def _losses_of_sums(self) -> Floats:
        """Return |½⟨H, E⟩| and |½⟨H, F⟩|, of shape (2, B)."""
        one = self.c.maps.one
        E = self.sums[:, :, : self.B].sum(0)
        F = self.sums[:, :, self.B :].sum(0)
        F[one:, :, one:] = 0.0  # that is the probability of a state
        return np.stack([self._loss(E), self._loss(F)])

    def _noisy(self) -> Maps:
        """Return the maps of E and F, with the uncertainty of the data as label noise."""
        return self.linear._replace(noise=self._unsure() ** 2)

    def _jump(self, powers: Powers, n_steps: int) -> None:
        """Make many equal steps, the errors made in each being those of the first."""
        phi = self.problem.factors(0, 1)[0]
        moves = self.run.moves()
        # Sizes hardly change any more, so that N_t is the same at all of these steps.
        made = EPS * self._sizes(phi, moves)[0] ** 2
        new = np.zeros_like(self.sums)
        for x in range(self.run.Q):
            new[0, x, : self.B, x] = made[:, x]
        self.sums = powers.advanced(self.sums, n_steps) + powers.summed(new, n_steps)
        self.run.done += n_steps

    def _sizes(self, phi: Floats, moves: Moves) -> Floats:
        """Return g of shape (states, B, Q): the terms of a step, in the mean over its tasks."""
        maps = self.c.maps
        Q = self.run.Q
        squares = np.einsum("sxbx->sbx", self.run.S[:, :Q, :, :Q])
        r = np.sqrt(np.maximum(squares, 0.0))
        law = np.bincount(moves.task, moves.probability, self.c.tasks.n_tasks) / len(r)
        shares = law[self.c.tasks.owners][:, None] * phi
        along = np.einsum("jx,sbx->sbj", np.abs(maps.right), r) * shares.T
        return np.asarray(r + along @ np.abs(maps.left))

    def _unsure(self) -> Floats:
        """Return u of shape (Σr,), with what w⋆ misses of targets that count as met."""
        tasks = self.c.tasks
        q = self.c.q
        squares = np.einsum("sxbx->b", self.run.S[:, :q, :, :q])
        # ‖w‖ is at most that of the reference and of the coordinates around it.
        size = np.sqrt(squares.max(initial=0.0)) + np.linalg.norm(self.c.reference)
        ratios = (tasks.radii / tasks.singular_values)[:, None]
        unsure = EPS * ratios * (np.abs(tasks.targets) + size) + self.c.dropped
        rows = EPS * np.linalg.norm(tasks.sizes, axis=1) / tasks.singular_values
        return np.asarray(np.linalg.norm(unsure, axis=1) + rows)

    def _error(self) -> Floats:
        """Return the absolute error (B,) now; filter factors, too, are known to eps at any step."""
        run = self.run
        tasks = self.c.tasks
        k = max(1, run.done)
        low = run.size - run.Q
        S = run.S[:, low:, :, low:].sum(0)
        of_steps, of_data = np.maximum(self.largest, self._losses_of_sums())
        losses = self._loss(S)
        terms = np.abs(self.c.maps.right) @ np.sqrt(np.maximum(np.einsum("xbx->xb", S), 0.0))
        weights = tasks.singular_values**2 / (2 * tasks.n_tasks)
        # Errors of the steps, of the last product, and of the factors φ.
        rounded = of_steps + EPS * (weights @ terms**2 + k * losses + self.floor)
        # Errors of the data are the same at every visit: they add up before they are squared.
        shifted = of_data * k + weights @ self._unsure() ** 2
        total: Floats = SAFETY * (rounded + 2 * np.sqrt(losses * shifted) + shifted)
        return total

    def _loss(self, S: Floats) -> Floats:
        """Return |½⟨H, S⟩| of shape (B,)."""
        return np.asarray(np.abs(0.5 * np.einsum("xy,xby->b", self.c.average_form, S)))
