"""The temperature of class probabilities: softmax(scores/T), with T fitted while a stream is
learned.

T minimizes the log-loss of rows of every task before it is learned, and of the same rows
afterwards, with residuals enlarged by n/(n − f) for the f degrees of freedom that the rows learned
have used (generalized cross-validation). The first know how predictions generalize to the next
task, the second exist also for classes that have just come.
"""

import math
from typing import NamedTuple

import numpy as np

from forgetless._core.arrays import Floats

INVERSES = 2.0 ** np.arange(-2.0, 9.01, 0.5)
"""Values of 1/T at which the log-loss is known; in between it is interpolated."""

_DECAY = 0.95
"""Weight of the rows so far at the next task, as predictions get better while a stream is
learned."""

_LEAST_ROWS = 100
"""Rows that are not decayed further."""

MOST_ROWS = 1000
"""Rows of a task by which the temperature is fitted."""


class Calibration(NamedTuple):
    """Sums of the log-loss at every value of ``INVERSES``, and the weight of their rows."""

    losses: Floats
    rows: float = 0.0

    @classmethod
    def empty(cls) -> "Calibration":
        """Return the sums before the first row."""
        return cls(np.zeros(len(INVERSES)))

    @property
    def temperature(self) -> float:
        """T with the smallest log-loss: by a parabola through the three values around it; 1 without
        any row.

        Examples
        --------
        >>> scores, targets = np.array([[0.6, 0.4], [0.45, 0.55], [0.6, 0.4]]), np.array([[1, 0],
        ...     [1, 0], [1, 0]])
        >>> round(Calibration.empty().with_rows(scores, targets, np.ones(3)).temperature, 2)
        0.13
        """
        if not self.rows > 0:
            return 1.0
        best = int(np.argmin(self.losses))
        place = float(best)
        if 0 < best < len(INVERSES) - 1:
            before, at, after = self.losses[best - 1 : best + 2]
            place += 0.5 * (before - after) / max(before - 2.0 * at + after, 1e-300)
        return float(2.0 ** -(np.log2(INVERSES[0]) + 0.5 * place))

    def decayed(self) -> "Calibration":
        """Return the sums with less weight for the rows so far."""
        factor = _DECAY if _DECAY * self.rows >= _LEAST_ROWS else 1.0
        return Calibration(factor * self.losses, factor * self.rows)

    def with_rows(self, scores: Floats, targets: Floats, weights: Floats) -> "Calibration":
        """Return the sums with rows of predicted scores and one-hot targets, both (n, c), and of
        weights (n,).
        """
        scaled = INVERSES[:, None, None] * (scores - np.max(scores, axis=1, keepdims=True))
        losses = np.log(np.sum(np.exp(scaled), axis=2)) - np.sum(scaled * targets, axis=2)
        return Calibration(self.losses + losses @ weights, self.rows + float(weights.sum()))


def some_rows(n: int) -> slice:
    """Return at most ``MOST_ROWS`` evenly spaced ones of n rows."""
    return slice(None, None, max(1, math.ceil(n / MOST_ROWS)))
