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
same kernel, and as metrics are linear in moments, any metric of E and F tells its own errors.
``tests/lab/test_digits.py`` compares the result with 60 digits.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from forgetless._progress import track
from forgetless._validate import Floats
from forgetless.lab.chain import Run, carry
from forgetless.lab.coordinates import Coordinates, Maps
from forgetless.lab.powers import Powers
from forgetless.lab.problem import Problem
from forgetless.lab.snapshot import Snapshot
from forgetless.metrics import Metric, average_loss
from forgetless.orderings import Moves

EPS = float(np.finfo(np.float64).eps)
SAFETY = 8.0
"""Roundings per step beyond the sizes counted: the smallest power of 2 without a failure."""

_FOLLOWED = 5_000
"""Steps of fixed filters whose errors are followed one by one; sizes hardly change afterwards."""

_OF_ALL = ("seen_loss", "next_loss", "forgetting", "drift", "task_losses")
"""Metrics of the size of the loss of some task: uncertain by that of all tasks at any time."""


def relative_errors(
    problem: Problem, metrics: Sequence[Metric], values: Mapping[str, Floats]
) -> dict[str, float]:
    """Return the largest relative errors, at most 1, of losses, distances and your own metrics.

    Values are of shape (B, n_steps, …), or (n_steps, …) for one schedule.
    """
    own = [each for each in metrics if not (each.name in _OF_ALL or each.path or each.axes)]
    # Absolute errors at the recorded steps, the last ones being those at the start.
    found = _Errors(problem, [average_loss, *own]).curves()
    errors = {}
    for each in metrics:
        if each in own:
            error = found[each.name][:, :-1]
        elif each.name in _OF_ALL:
            error = problem.tasks.n_tasks * found["average_loss"].max(-1, keepdims=True)
        else:
            continue
        value = np.abs(values[each.name])
        value = value if problem.labels else value[None]
        if each.name == "task_losses":
            error = error[..., None]
        with np.errstate(divide="ignore", invalid="ignore"):
            # An error of zero is exact, also of a loss of zero.
            shares = np.where(error > 0, error / value, 0.0)
        errors[each.name] = float(min(1.0, np.nanmax(shares, initial=0.0)))
    return errors


class _Errors:
    """The sums E and F of B schedules beside their moments S."""

    def __init__(self, problem: Problem, metrics: Sequence[Metric]) -> None:
        self.problem = problem
        self.tasks = problem.tasks
        self.metrics = {each.name: each for each in metrics}
        self.c = Coordinates(problem.tasks, affine=True)
        self.run = Run(self.c, problem)
        q = self.c.q
        one = self.c.maps.one
        self.B = len(problem.filters)
        # Errors do not depend on the labels: the maps of E and F have none.
        right = self.c.maps.right.copy()
        right[:, q:] = 0.0
        self.linear = self.c.maps._replace(right=right)
        self.sums = np.zeros((1, self.run.Q, 2 * self.B, self.run.Q))  # E, then F
        self.sums[0, one, self.B :, one] = 1.0
        self.starts = {name: self._of(name, self.run.S) for name in self.metrics}
        # The largest metrics of E and F at any step, for averages.
        self.largest = {name: np.zeros((2, self.B)) for name in self.metrics}
        self.floor = 0.5 * float(np.mean([np.sum(task.sizes**2) for task in self.tasks]))

    def curves(self) -> dict[str, Floats]:
        """Return absolute errors at recorded steps and at the start, (B, n + 1), by metric."""
        with np.errstate(over="ignore", invalid="ignore"):  # tasks of size 1e150
            found = list(self._recorded())
        return {name: np.stack([each[name] for each in found], axis=1) for name in self.metrics}

    def _recorded(self) -> Iterator[dict[str, Floats]]:
        first = self._errors()
        last = int(self.problem.steps[-1])
        recorded = self.problem.steps.tolist()
        if 0 in recorded:
            yield first
        powers = None
        if last > _FOLLOWED:
            both = replace(self.problem, filters=2 * self.problem.filters)
            powers = Powers.if_faster(both, self._noisy(), last)
        for low, high in pairwise(track(self.problem.stops(last, self.run.work), "errors")):
            self._advance(powers, low, high)
            if high in recorded:
                yield self._errors()
        yield first

    def _advance(self, powers: Powers | None, low: int, high: int) -> None:
        """Make the steps low..high − 1: those of whole periods at once, after the first ones."""
        if powers is None:
            self._follow(low, high)
            return
        period = powers.period
        near = min(high, -(-max(low, _FOLLOWED) // period) * period)
        far = near + (high - near) // period * period
        self._follow(low, near)
        if far > near:
            self._jump(powers, far - near)
        self._follow(far, high)

    def _follow(self, low: int, high: int) -> None:
        """Make the steps low..high − 1 one by one."""
        for phi in self.problem.factors(low, high) if high > low else ():
            self._step(phi)

    def _step(self, phi: Floats) -> None:
        """Make one step of E and F, then of S: equation (7)."""
        moves = self.run.moves()
        made = EPS * self._sizes(phi, moves)[moves.source] ** 2
        self.sums = carry(self.sums, moves, self._noisy(), np.hstack([phi, phi]))
        for x in range(self.run.Q):
            # N_t is diagonal, and is made in the state where a move ends.
            share = moves.probability[:, None] * made[:, :, x]
            np.add.at(self.sums[:, x, : self.B, x], moves.target, share)
        self.run.advance(phi[None])
        if self.run.averaged:
            # An average is a convex combination of iterates: their largest errors bound its own.
            for name, found in self._of_sums().items():
                self.largest[name] = np.maximum(self.largest[name], found)

    def _jump(self, powers: Powers, n_steps: int) -> None:
        """Make many equal steps, the errors made in each period being those of its first step."""
        phi = self.problem.factors(0, 1)[0]
        # Sizes hardly change any more, so that N_t is the same at all of these steps.
        made = EPS * self._sizes(phi, self.run.moves())[0] ** 2
        new = np.zeros_like(self.sums)
        for x in range(self.run.Q):
            new[0, x, : self.B, x] = powers.period * made[:, x]
        self.sums = powers.advanced(self.sums, n_steps) + powers.summed(new, n_steps)
        self.run.done += n_steps

    def _sizes(self, phi: Floats, moves: Moves) -> Floats:
        """Return g of shape (states, B, Q): the terms of a step, in the mean over its tasks."""
        maps = self.c.maps
        Q = self.run.Q
        squares = np.einsum("sxbx->sbx", self.run.S[:, :Q, :, :Q])
        r = np.sqrt(np.maximum(squares, 0.0))
        law = np.bincount(moves.task, moves.probability, self.tasks.n_tasks) / len(r)
        shares = law[self.tasks.owners][:, None] * phi
        along = np.einsum("jx,sbx->sbj", np.abs(maps.right), r) * shares.T
        return np.asarray(r + along @ np.abs(maps.left))

    def _noisy(self) -> Maps:
        """Return the maps of E and F, with the uncertainty of the data as label noise."""
        return self.linear._replace(noise=self._unsure() ** 2)

    def _unsure(self) -> Floats:
        """Return u of shape (Σr,), equation (8), with what w⋆ misses of targets that count as
        met.
        """
        tasks = self.tasks
        q = self.c.q
        squares = np.einsum("sxbx->b", self.run.S[:, :q, :, :q])
        # ‖w‖ is at most that of the reference and of the coordinates around it.
        size = np.sqrt(squares.max(initial=0.0)) + np.linalg.norm(self.c.reference)
        ratios = (tasks.radii / tasks.singular_values)[:, None]
        unsure = EPS * ratios * (np.abs(tasks.targets) + size) + self.c.dropped
        rows = EPS * np.linalg.norm(tasks.sizes, axis=1) / tasks.singular_values
        return np.asarray(np.linalg.norm(unsure, axis=1) + rows)

    def _errors(self) -> dict[str, Floats]:
        """Return the absolute errors (B,) now; filter factors, too, are known to eps only."""
        k = max(1, self.run.done)
        S = self.run.S[:, -self.run.Q :, :, -self.run.Q :]
        diagonal = np.einsum("sxbx->sbx", S)
        terms = np.zeros_like(S)
        np.einsum("sxbx->sbx", terms)[:] = self.run.Q * diagonal
        sums = self._of_sums()
        errors = {}
        for name in self.metrics:
            value = self._of(name, S)
            of_steps, of_data = np.maximum(self.largest[name], sums[name])
            products = self._of(name, terms)
            floor = self.floor if name == "average_loss" else 0.0
            # Errors of the steps, of the last product, and of the factors φ.
            rounded = of_steps + EPS * (products + k * value + floor)
            # Errors of the data are the same at every visit: they add up before they are squared.
            shifted = of_data * k + self._of_rows(name, products)
            errors[name] = SAFETY * (rounded + 2 * np.sqrt(value * shifted) + shifted)
        return errors

    def _of_rows(self, name: str, products: Floats) -> Floats:
        """Return the square of what is uncertain of the rows that a metric measures."""
        unsure = self._unsure()
        if name == "average_loss":
            return np.asarray(self.tasks.singular_values**2 @ unsure**2 / (2 * self.tasks.n_tasks))
        if name == "distance":
            # w⋆ solves R V w = R t, with the rows relative to their own tasks: it moves by the
            # pseudoinverse times the uncertainty of t.
            relative = self.tasks.singular_values / self.tasks.radii
            inverse = np.linalg.pinv(relative[:, None] * self.tasks.span_vectors)
            return np.asarray(np.sum((np.abs(inverse) @ (relative * unsure)) ** 2))
        return np.asarray(EPS**2 * (products + self.starts[name]))

    def _of_sums(self) -> dict[str, Floats]:
        """Return metrics of E and of F, of shape (2, B), by name."""
        one = self.c.maps.one
        E = self.sums[:, :, : self.B]
        F = self.sums[:, :, self.B :].copy()
        F[:, one:, :, one:] = 0.0  # that is the probability of a state
        return {name: np.stack([self._of(name, E), self._of(name, F)]) for name in self.metrics}

    def _of(self, name: str, S: Floats) -> Floats:
        """Return a metric of other moments than those of the run, less what it adds to any."""
        Q = self.run.Q
        metric = self.metrics[name]
        now = Snapshot(self.run)
        now.moments = S[:, -Q:, :, -Q:]
        nothing = Snapshot(self.run)
        nothing.moments = np.zeros_like(now.moments)
        return np.asarray(np.abs(metric.evaluate(now) - metric.evaluate(nothing)))
