"""The best scale for the linearized network, and how reliable it is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from forgetless.equation import step
from forgetless.filters import Ridge
from forgetless.torch.linear import linearize

Pairs = Sequence[tuple[Any, Any]]
"""Tasks as inputs and targets."""

RELIABLE = 0.2
"""Largest departure after the first task at which the linearization is used."""


@dataclass(frozen=True)
class Linear:
    """Prediction of the linearization at the initial weights.

    Attributes
    ----------
    scale : float
        Where its mean squared error over all tasks after the last is smallest.
    losses : dict from scale to float
        That error.
    departure : float
        How far the network is from it after the first task: see ``Linearized.departure``.
    """

    scale: float
    losses: dict[float, float]
    departure: float

    @property
    def reliable(self) -> bool:
        """Whether the search began around its scale."""
        return self.departure <= RELIABLE

    def __str__(self) -> str:
        verdict = "so the search began there" if self.reliable else "so it was not used"
        return (
            f"the linearized network would take {self.scale:.3g}; after the first task the network departs from it by "
            f"{100 * self.departure:.0f} percent, {verdict}"
        )


def predicted(
    start: Any,
    trained: Any,
    pairs: Pairs,
    strengths: Callable[[float], tuple[float, ...]],
    scales: Sequence[float],
    curvature: float | None,
) -> Linear:
    """Return the losses of the linearization at ``start`` for all scales; ``trained`` is the network after task 1."""
    linear = linearize(start)
    X, residuals = zip(*((linear.operator(x), linear.residual(x, y)) for x, y in pairs), strict=True)
    rows = [len(x) for x, _ in pairs]
    per_row = [
        n * (2 * n / len(r) if curvature is None else curvature) ** -1 for n, r in zip(rows, residuals, strict=True)
    ]
    losses = {}
    for scale in scales:
        u = np.zeros(linear.n_parameters)
        coefficients = strengths(scale)
        for t, (A, r, n) in enumerate(zip(X, residuals, per_row, strict=True)):
            # The first task is not regularized; a tiny λ keeps its step well defined.
            u = step(u, (A, r), Ridge((coefficients[t] if t else min(scales) / 100) * n))
        losses[scale] = float(np.mean([np.mean((r - A @ u) ** 2) for A, r in zip(X, residuals, strict=True)]))
    best = min(losses, key=lambda scale: losses[scale])
    return Linear(best, losses, linear.departure(trained, pairs[0][0]))
