"""The state of many runs of proximal steps, and the plain loop over them; the compiled one is
``_margins_numba``.
"""

import math
from abc import ABC, abstractmethod

import numpy as np

from forgetless._core.arrays import Floats
from forgetless.engines.labels import SignedRows
from forgetless.losses import Loss
from forgetless.orderings import Indices
from forgetless.solvers.margins import proximal_step

_EPS = 1e-15  # relative rounding error of weights and of sums of products, generously


class MarginRun(ABC):
    """Weights of all trials, and statistics of the margins of every task right after its own
    steps.
    """

    def __init__(
        self, rows: SignedRows, loss: Loss, weights: Floats, averaged: bool, track: bool
    ) -> None:
        n_trials = len(weights)
        self.rows, self.loss, self.weights, self.track, self.averaged = (
            rows,
            loss,
            weights,
            track,
            averaged,
        )
        self.average = weights.copy() if averaged else np.zeros((1, 1))
        self.counts = np.zeros((n_trials, rows.n_tasks if track else 0))
        self.after = np.zeros_like(self.counts)  # sum of the losses right after the steps on a task
        # of the margins right after these steps
        self.means = np.zeros((n_trials, len(rows.A) if track else 0))
        self.spread = np.zeros_like(self.counts)  # sum of squared distances from these means

    @property
    def recorded(self) -> Floats:
        """The weights that are measured: the last ones, or their averages."""
        return self.average if self.averaged else self.weights

    @abstractmethod
    def advance(self, indices: Indices, strengths: Floats, gains: Floats | None) -> None:
        """Learn tasks ``indices`` (n_trials, T) with strengths λ (T,); ``gains`` (T,) are those of
        the averages.
        """


class ArrayRun(MarginRun):
    """Runs by calls of the solver of a single step, with bounds on the errors of the weights."""

    def __init__(
        self, rows: SignedRows, loss: Loss, weights: Floats, averaged: bool, track: bool
    ) -> None:
        super().__init__(rows, loss, weights, averaged, track)
        # bound on the distance of the weights from the exact ones
        self.distance = np.zeros(len(weights))
        # sum of bounds on the errors of the losses right after steps
        self.loss_errors = np.zeros(len(weights))

    def advance(self, indices: Indices, strengths: Floats, gains: Floats | None) -> None:
        for trial in range(len(indices)):
            for t, m in enumerate(indices[trial].tolist()):
                self._step(trial, int(m), float(strengths[t]))
                if gains is not None:
                    self.average[trial] += gains[t] * (self.weights[trial] - self.average[trial])
                if self.track:
                    self._visit(trial, int(m))

    def _step(self, trial: int, m: int, strength: float) -> None:
        A, w = self.rows.of_task(m), self.weights[trial]
        step = proximal_step(A, np.ones(len(A)), w, strength, self.loss)
        self.weights[trial] = w + step.change
        # A proximal step does not increase the distance from the exact weights.
        self.distance[trial] += step.error * np.linalg.norm(step.change) + _EPS * np.linalg.norm(
            self.weights[trial]
        )

    def _visit(self, trial: int, m: int) -> None:
        """Update the statistics of a task by Welford's method."""
        rows = slice(self.rows.offsets[m], self.rows.offsets[m + 1])
        margins = self.rows.of_task(m) @ self.recorded[trial]
        self.counts[trial, m] += 1.0
        self.after[trial, m] += self.loss.value(margins, 1.0).sum()
        change = margins - self.means[trial, rows]
        self.means[trial, rows] += change / self.counts[trial, m]
        self.spread[trial, m] += change @ (margins - self.means[trial, rows])
        self.loss_errors[trial] += self._loss_error(trial, m)

    def _loss_error(self, trial: int, m: int) -> float:
        """Return a bound on the error of a task's loss, of first and second order in that of the
        weights.
        """
        A, E = self.rows.of_task(m), self.distance[trial]
        if len(A) == 0:
            return 0.0
        radius, margins = float(np.linalg.norm(A, 2)), A @ self.recorded[trial]
        # Margins are rounded, too: relative to the sizes of their terms.
        E += _EPS * float(np.linalg.norm(self.recorded[trial]))
        smoothness = self.loss.smoothness(radius)
        if math.isinf(smoothness):
            return float(self.loss.lipschitz(radius, len(A)) * E)
        slope = float(np.linalg.norm(A.T @ self.loss.slope(margins, 1.0)))
        rounding = _EPS * float(np.sum(self.loss.value(margins, 1.0)))
        return float(slope * E + 0.5 * smoothness * E * E) + rounding

    def error_bounds(self, step: int, values: dict[str, Floats]) -> dict[str, float]:
        """Return bounds on the absolute errors of metrics of the first trial."""
        errors = np.array([self._loss_error(0, m) for m in range(self.rows.n_tasks)])
        count = max(step, 1)
        seen = float(self.counts[0] @ errors) / count
        filled = np.flatnonzero(self.rows.counts)
        radius = max(float(np.linalg.norm(self.rows.of_task(int(m)), 2)) for m in filled)
        change = 2.0 * radius * (self.distance[0] + _EPS * float(np.linalg.norm(self.recorded[0])))
        drift = float(values["drift"][0]) if step and "drift" in values else 0.0
        later = float(step > 1)  # after one step nothing has changed since: both are 0 exactly
        bounds = {
            "average_loss": float(errors.mean()),
            "seen_loss": seen,
            "forgetting": later * (seen + float(self.loss_errors[0]) / count),
            "drift": later * (2.0 * math.sqrt(drift) * change + change * change),
        }
        return {name: bounds[name] for name in values}
