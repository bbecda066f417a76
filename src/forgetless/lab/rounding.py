"""Estimates of the rounding errors of exact expectations.

The loss after k steps is ½⟨V_t, S_t⟩ for the form V_t of any earlier time (equation (5) of
``worst``), so that errors N_t made in the steps change it by Σ_t ½⟨V_t, N_t⟩. No backward pass is
needed for that number: it is ½⟨H, E_k⟩ for the sum of all errors, carried forwards by the same
recursion,

    E ← Σ p M E Mᵀ + N_t,   |N_t| ≤ eps·diag(g²),   g = r + |L|ᵀ φ |R| r,   r = √diag S,   (7)

g being the sizes of the terms that are summed. It decays as errors do. The data are rounded, too:
what a singular vector says of the weights is uncertain by

    u = eps (‖X‖ (|target| + ‖w‖) + ‖y‖) / s,                                         (8)

since vectors are computed to eps relative to the whole task. That is label noise, the same at every
step: with its moments F a loss ℓ is uncertain by 2√(ℓ ½⟨H, F⟩ k). Both sums are schedules of the
same kernel. Other losses, and their differences, are of the size of the loss of some task:
uncertain by that of all tasks at any time. ``tests/lab/test_digits.py`` compares the result with 60
digits.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from forgetless._running import track
from forgetless._validate import Array, Floats
from forgetless.lab import Problem
from forgetless.lab.chain import Powers, Run, carry
from forgetless.lab.coordinates import Coordinates, Maps
from forgetless.metrics import Metric
from forgetless.orderings import Moves

EPS = np.finfo(np.float64).eps
SAFETY = 8.0
"""Roundings per step beyond the sizes counted: the smallest power of 2 without a failure."""

# no mutant: errors follow the same law from there on
_FOLLOWED = 5_000
"""Steps of fixed filters whose errors are followed one by one; sizes hardly change afterwards."""

_LOSSES = ("average_loss", "seen_loss", "next_loss", "forgetting", "drift", "task_losses")
"""The metrics that have errors."""


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def relative_errors(
    problem: Problem,
    metrics: Sequence[Metric],
    values: Mapping[str, Floats],
) -> dict[str, float]:
    """Return the largest relative errors, at most 1, of losses and their differences.

    The error of the average loss is that of ``_Errors.recorded``, at every recorded step. That of
    any other metric is at most M times the largest of these, at any step, the start among them: the
    loss of one task is at most M times the average.

    Values are of shape (B, n_steps, …).
    """
    # Squares overflow for tasks of size 1e150, and quotients for losses of 1e-323.
    *recorded, first = _Errors(problem).recorded()
    of_average = np.stack(recorded, axis=1)
    largest = np.maximum(of_average.max(axis=1), first)
    of_any = problem.tasks.n_tasks * largest[:, None]
    errors = {}
    for each in metrics:
        if each.name not in _LOSSES:
            continue
        error = of_average if each.name == "average_loss" else of_any
        # Transposed, as tasks are the last axis of the values of some metrics.
        shares = error.T / np.abs(values[each.name].T)
        # No error of a loss of zero, and no loss before the first step, are 0/0 and NaN: left out.
        errors[each.name] = float(min(1.0, np.nanmax(shares, initial=0.0)))
    return errors


class _Errors:
    """The sums E and F of B schedules beside their moments S.

    E holds the errors that the steps made, F those that uncertain data make in every step; both are
    lanes of the same recursion, of which the second has the uncertainty (8) as label noise and
    probability 1. Labels do not matter to either, so that their maps have none.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.tasks = problem.tasks
        self.c = Coordinates(problem.tasks, affine=True)
        self.run = Run(self.c, problem)
        self.B = len(problem.filters)
        # Errors do not depend on the labels: the maps of E and F have none.
        maps = self.c.maps
        right = maps.right.copy()
        right[:, self.c.q :] = 0.0
        self.linear = maps._replace(right=right)
        Q = self.run.Q
        self.sums = np.zeros((1, Q, 2 * self.B, Q))  # E, then F
        self.sums[0, maps.one, self.B :, maps.one] = 1.0
        # The largest losses of E and F at any step, for averages.
        self.largest = np.zeros((2, self.B))

    def recorded(self) -> list[Floats]:
        """Return the absolute errors (B,) of the average loss at the recorded steps, and at the
        start.
        """
        # At the start only the data are uncertain.
        first = self._error()
        steps = self.problem.steps.tolist()
        found = [first] if 0 in steps else []
        powers = None
        if steps[-1] > _FOLLOWED:
            both = replace(self.problem, filters=2 * self.problem.filters)
            powers = Powers.if_faster(both, self._noisy(), steps[-1])
        stops = self.problem.stops(0, steps[-1], *self.run.sizes)
        for low, high in pairwise(track(stops, "errors")):
            done = low
            if powers is not None:
                # Whole periods at once, after the first steps.
                least = -(-max(low, _FOLLOWED) // powers.period)
                near = min(high, least * powers.period)
                self._follow(low, near)
                done = near + (high - near) // powers.period * powers.period
                if done > near:
                    self._jump(powers, done - near)
            self._follow(done, high)
            if high in steps:
                found.append(self._error())
        return [*found, first]

    def _follow(self, low: int, high: int) -> None:
        """Make the steps low..high − 1 one by one: E and F, then S, by equation (7)."""
        for phi in self.problem.factors(low, high):
            moves = self.run.moves()
            made = self._made(phi, moves)
            # The lanes of E and those of F.
            both = np.hstack([phi, phi])
            self.sums = carry(self.sums, moves, self._noisy(), both)
            # N_t is diagonal, and is made in the state where a move ends.
            shares = moves.probability[:, None, None] * made[moves.source]
            np.add.at(self._diagonal(self.sums), moves.target, shares)
            self.run.advance(phi[None])
            if self.run.averaged:
                # An average is a convex combination of iterates: their errors bound its own.
                self.largest = np.maximum(self.largest, self._of_sums())

    def _jump(self, powers: Powers, n_steps: int) -> None:
        """Make many equal steps, the errors made in each period being those of its first step."""
        phi = self.problem.factors(0, 1)[0]
        # Sizes hardly change any more, so that N_t is the same at all of these steps.
        new = np.zeros_like(self.sums)
        self._diagonal(new)[:] = powers.period * self._made(phi, self.run.moves())
        carried = powers.advanced(self.sums, n_steps)
        self.sums = carried + powers.summed(new, n_steps)
        self.run.done += n_steps

    def _diagonal(self, sums: Floats) -> Array:
        """Return a view of the diagonals (states, B, Q) of E, the first of both sums."""
        return np.einsum("sxbx->sbx", sums[:, :, : self.B])

    def _made(self, phi: Floats, moves: Moves) -> Array:
        """Return N_t = eps g² of shape (states, B, Q), g being the terms of a step, in the mean
        over its tasks.
        """
        maps = self.c.maps
        Q = self.run.Q
        squares = np.einsum("sxbx->sbx", self.run.S[:, :Q, :, :Q])
        r = np.sqrt(np.maximum(squares, 0.0))
        totals = np.bincount(moves.task, moves.probability, self.tasks.n_tasks)
        law = totals / len(r)
        # φ of every singular vector, times the probability of its task.
        shares = law[self.tasks.owners][:, None] * phi
        errors = r @ np.abs(maps.right).T
        g = r + (errors * shares.T) @ np.abs(maps.left)
        return EPS * g**2

    def _noisy(self) -> Maps:
        """Return the maps of E and F, with the uncertainty of the data as label noise."""
        return self.linear._replace(noise=self._unsure() ** 2)

    def _unsure(self) -> Array:
        """Return u of shape (Σr,), equation (8), with what w⋆ misses of targets that count as
        met.
        """
        tasks = self.tasks
        q = self.c.q
        squares = np.einsum("sxbx->b", self.run.S[:, :q, :, :q])
        # ‖w‖ is at most that of the reference and of the coordinates around it.
        around = np.sqrt(squares.max(initial=0.0))
        size = around + np.linalg.norm(self.c.reference)
        ratios = (tasks.radii / tasks.singular_values)[:, None]
        unsure = EPS * ratios * (np.abs(tasks.targets) + size) + self.c.dropped
        rows = EPS * np.linalg.norm(tasks.sizes, axis=1) / tasks.singular_values
        return np.linalg.norm(unsure, axis=1) + rows

    def _error(self) -> Array:
        """Return the absolute error (B,) now; filter factors, too, are known to eps only."""
        k = max(1, self.run.done)
        Q = self.run.Q
        S = self.run.S[:, -Q:, :, -Q:]
        loss = self._losses(S)
        of_steps, of_data = np.maximum(self.largest, self._of_sums())
        # Errors of the steps, of the last product, and of the factors φ.
        products = 0.5 * Q * np.einsum("xx,sxbx->b", self.c.average_form, S)
        squares = [np.sum(task.sizes**2) for task in self.tasks]
        rounded = of_steps + EPS * (products + k * loss + 0.5 * np.mean(squares))
        # Errors of the data are the same at every visit: they add up before they are squared.
        unsure = self.tasks.singular_values * self._unsure()
        of_rows = np.sum(unsure**2)
        shifted = of_data * k + of_rows / (2 * self.tasks.n_tasks)
        return SAFETY * (rounded + 2 * np.sqrt(loss * shifted) + shifted)

    def _of_sums(self) -> Floats:
        """Return the losses of E and of F, of shape (2, B)."""
        E = self.sums[:, :, : self.B]
        q = self.c.q  # the rest of F are probabilities
        F = self.sums[:, :q, self.B :, :q]
        return np.stack([self._losses(E), self._losses(F)])

    def _losses(self, S: Floats) -> Array:
        """Return |½⟨H, S⟩| of moments, or of those of the leading coordinates, of shape (B,)."""
        n = S.shape[1]
        form = self.c.average_form[:n, :n]
        return np.abs(0.5 * np.einsum("xy,sxby->b", form, S))
