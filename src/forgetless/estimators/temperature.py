"""Probabilities from scores: softmax(scores/T) with a T that is fitted on the stream."""

from typing import NamedTuple

import numpy as np
from scipy.special import log_softmax

from forgetless._validate import Floats

INVERSES = 2.0 ** np.arange(-2.0, 9.01, 0.5)
"""Values of 1/T at which the log-loss is known; in between it is interpolated."""

MOST = 1000
"""Rows of a task that are used, spread evenly over it."""

DECAY = 0.95
LEAST = 100.0
"""Earlier rows lose 5 % of their weight per task while there are more than 100: scores get better
while a stream is learned."""


class Temperature(NamedTuple):
    """Sums of the log-loss at every value of ``INVERSES``, and the weight of their rows.

    T is fitted to rows of a task before it is learned, which tell how scores generalize to the next
    task, and to the same rows afterwards, with residuals enlarged as if they had been left out,
    which exist for new classes too.
    """

    losses: Floats = np.zeros(len(INVERSES))
    rows: float = 0.0

    @property
    def value(self) -> float:
        """T of the smallest log-loss, by a parabola through the three values around it; 1 without
        any row.
        """
        if not self.rows > 0:
            return 1.0
        best = int(np.argmin(self.losses))
        place = float(best)
        if 0 < best < len(INVERSES) - 1:
            before, at, after = self.losses[best - 1 : best + 2].tolist()
            # The vertex of the parabola through three points at −1, 0 and 1.
            curvature = max(before - 2.0 * at + after, 1e-300)
            place += 0.5 * (before - after) / curvature
        # 1/T is 2^(−2 + place/2).
        return float(2.0 ** (2.0 - 0.5 * place))

    def decayed(self) -> "Temperature":
        """Return the sums with less weight for the rows so far."""
        if DECAY * self.rows < LEAST:
            return self
        return Temperature(DECAY * self.losses, DECAY * self.rows)

    def plus(self, scores: Floats, targets: Floats, weights: Floats) -> "Temperature":
        """Return the sums with scores and one-hot targets (n, c) of rows of weights (n,)."""
        # −log softmax of the true class, for every 1/T and row.
        scaled = INVERSES[:, None, None] * scores
        losses = -np.sum(log_softmax(scaled, axis=2) * targets, axis=2)
        return Temperature(self.losses + losses @ weights, self.rows + weights.sum())
