"""A mixture for the next task of a stream that changes: all rows, two memories that forget, and the
mean.

A memory forgets as the Kalman filter of weights that walk at random does: before a task the
covariance of the standardized weights grows by gσ². Directions that are known well forget much and
others little, where a decay of all rows would also forget what no new row tells. The shares follow
from the squared errors of the parts on every task before it was learned (exponential weights with a
fixed share, Herbster and Warmuth 1998). All parts are linear, and so is the mixture.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from forgetless._validate import Array, Floats
from forgetless.estimators.memory import Memory, Options
from forgetless.estimators.rows import Rows

DRIFTS = (0.01, 0.1)
"""g of the memories that forget: squared drift of a standardized weight per task over the variance
of the noise."""

PRIOR = np.array([8.0, 2.0, 2.0, 1.0]) / 13.0
"""Shares before the first task: all rows, the memories that forget, the mean."""

SHARED = 0.05
"""Fraction of the shares that returns to the prior before each task, so that a part can recover."""

LEAST = 0.01
"""Smallest λ of a memory that forgets."""

FEWEST = 3
STARTING = 1.0
"""Rows below which the evidence cannot tell λ, and the λ of a memory that forgets then: from the
largest one it would take hundreds of tasks to come down."""

Loss = Callable[[Floats, Floats], Array]
"""The squared errors (c,) on a task of coefficients (d, c) and an intercept (c,)."""


class Mixture(NamedTuple):
    """Memories that forget, and the shares of all parts; all rows are passed to every method."""

    memories: tuple[Memory, ...] = ()
    shares: Floats = PRIOR

    def parts(self, memory: Memory) -> list[tuple[Floats, Floats]]:
        """Return coefficients and intercept of every part."""
        fits = [each.fit[:2] for each in (memory, *self.memories)]
        return [*fits, (np.zeros_like(memory.fit.coef), memory.rows.target)]

    def weights(self, memory: Memory) -> tuple[Floats, Floats]:
        """Return the coefficients and the intercept of the mixture."""
        coefs, intercepts = zip(*self.parts(memory), strict=True)
        return np.tensordot(self.shares, coefs, 1), self.shares @ intercepts

    def judged(self, memory: Memory, loss: Loss) -> "Mixture":
        """Return the mixture with shares after the errors on a task that is not learned yet."""
        errors = np.array([loss(*part).sum() for part in self.parts(memory)])
        # A part without any share could never come back.
        shares = (1.0 - SHARED) * self.shares + SHARED * PRIOR
        return self._replace(shares=_updated(shares, errors, 0.5))

    def after(self, memory: Memory, blocks: list[Rows], options: Options) -> "Mixture":
        """Return the mixture after a task; ``memory`` has learned it already."""
        if self.memories:
            # In the units of all rows: those of few rows would let a constant column explode.
            scale = options.scale(memory.rows)
            pairs = zip(self.memories, DRIFTS, strict=True)
            memories = [_forgotten(each, g, blocks, scale, options) for each, g in pairs]
            return self._replace(memories=tuple(memories))
        # After the first task leave-one-out errors tell the solution from the mean.
        n = memory.rows.n
        error = memory.rows.error_left_out(memory.fit).sum()
        # The mean is left out of its own error as well: the leverage of a row is 1/n.
        left = max(1.0 - 1.0 / n, 0.05)
        mean = memory.rows.squares.sum() / n / left**2
        shares = _updated(PRIOR, np.array([error, error, error, mean]), 2.0)
        if n < FEWEST and options.strength is None:
            rows = memory.rows
            memory = Memory(rows, rows.solve(STARTING, options.scale(rows)))
        return Mixture((memory,) * len(DRIFTS), shares)


def _forgotten(
    memory: Memory, g: float, blocks: list[Rows], scale: Floats, options: Options
) -> Memory:
    """Return a memory after a walk of variance g and a task, solved in the units ``scale`` of all
    rows.
    """
    fit = memory.fit
    rows = memory.rows.drifted(g, fit)
    strength = options.strength
    if strength is None:
        strength = max(fit.strength / (1.0 + g * fit.strength), LEAST)
    for block in blocks:
        rows = (rows + block).stored(options.dense)
        fit = rows.solve(strength, scale)
        rows = rows.truncated(options.vectors, fit)
    return Memory(rows, fit)


def _updated(shares: Floats, errors: Floats, power: float) -> Array:
    """Return shares after squared errors of the parts, which count by their logarithms: no unit,
    and no rules for outliers.
    """
    errors = np.maximum(errors, 1e-300)
    shares = shares * (errors.min() / errors) ** power
    return shares / shares.sum()
