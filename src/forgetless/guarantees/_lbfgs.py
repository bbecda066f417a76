"""Limited-memory BFGS on many starts at once: every start follows its own path, all are evaluated in one batch."""

from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from forgetless._core.arrays import Floats
from forgetless.io.fields import Fields

Objective = Callable[[Floats], tuple[Floats, Floats]]
"""Points (B, n) → values (B,) to be minimised and gradients (B, n)."""

MEMORY = 10
"""Pairs of steps and gradient changes kept for the approximate Hessian."""

_PATIENCE = 25
"""Rounds without progress after which a start has arrived: two failed line searches take fewer."""

_PROGRESS = 1e-10
"""Decrease of the value in one round that counts; values are logarithms, so this is a relative change."""


@dataclass(eq=False)
class Descent:
    """The whole state of a minimisation of B starts in n variables; saved and restored, it goes on as if never stopped.

    Attributes
    ----------
    x, gradient, direction : arrays of shape (B, n)
    value, length, scale : arrays of shape (B,)
        The least value so far, the length of the step to try next along ``direction``, and the scale of the first
        approximation to the inverse Hessian.
    steps, changes : arrays of shape (MEMORY, B, n)
        Newest first.
    curvature : array of shape (MEMORY, B)
        1 / (step · change), 0 where there is no pair.
    idle : array of shape (B,)
        Rounds since the last progress.
    rounds : array of shape ()
    """

    x: Floats
    value: Floats
    gradient: Floats
    direction: Floats
    length: Floats
    scale: Floats
    steps: Floats
    changes: Floats
    curvature: Floats
    idle: NDArray[np.int64]
    rounds: NDArray[np.int64]

    @classmethod
    def begin(cls, objective: Objective, x: Floats) -> "Descent":
        """Return the state at the starting points, of shape (B, n)."""
        value, gradient = objective(x)
        memory = (MEMORY, *x.shape)
        # A first step of at most unit length: the variables are angles, logarithms and directions of order one.
        scale = 1 / np.maximum(1.0, _norm(gradient))
        # A start without a value stays where it is.
        idle = np.where(np.isfinite(value), 0, _PATIENCE)
        return cls(
            x,
            value,
            gradient,
            -scale[:, None] * gradient,
            np.ones(len(x)),
            scale,
            np.zeros(memory),
            np.zeros(memory),
            np.zeros(memory[:2]),
            idle,
            np.array(0),
        )

    @property
    def active(self) -> NDArray[np.bool_]:
        """Which starts have not arrived yet."""
        return self.idle < _PATIENCE

    def advance(self, objective: Objective) -> None:
        """Try one step on every active start: those that descend enough take it, the others shorten theirs."""
        at = np.flatnonzero(self.active)
        trial = self.x[at] + self.length[at, None] * self.direction[at]
        value, gradient = objective(trial)
        slope = _dot(self.direction[at], self.gradient[at])
        # Armijo's condition; a value that is not finite fails it.
        taken = value <= self.value[at] + 1e-4 * self.length[at] * slope
        progress = np.where(taken, self.value[at] - value, 0.0) > _PROGRESS
        self.idle[at] = np.where(progress, 0, self.idle[at] + 1)
        moved = at[taken]
        self._remember(moved, trial[taken] - self.x[moved], gradient[taken] - self.gradient[moved])
        self.x[moved], self.value[moved], self.gradient[moved] = trial[taken], value[taken], gradient[taken]
        self.length[at] = np.where(taken, 1.0, 0.3 * self.length[at])
        self.direction[moved] = self._newton(moved)
        self._restart(at)
        self.rounds = self.rounds + 1

    def _remember(self, at: NDArray[np.int64], step: Floats, change: Floats) -> None:
        product = _dot(step, change)
        convex = product > 1e-12 * _norm(step) * _norm(change)
        at, step, change, product = at[convex], step[convex], change[convex], product[convex]
        for memory, newest in ((self.steps, step), (self.changes, change), (self.curvature, 1 / product)):
            memory[1:, at] = memory[:-1, at]
            memory[0, at] = newest
        self.scale[at] = product / _dot(change, change)

    def _newton(self, at: NDArray[np.int64]) -> Floats:
        """Return minus the approximate inverse Hessian times the gradient, by the two-loop recursion."""
        q, shares = self.gradient[at].copy(), np.empty((MEMORY, len(at)))
        for i in range(MEMORY):
            shares[i] = self.curvature[i, at] * _dot(self.steps[i, at], q)
            q -= shares[i][:, None] * self.changes[i, at]
        q *= self.scale[at, None]
        for i in reversed(range(MEMORY)):
            other = self.curvature[i, at] * _dot(self.changes[i, at], q)
            q += (shares[i] - other)[:, None] * self.steps[i, at]
        return -q

    def _restart(self, at: NDArray[np.int64]) -> None:
        """Forget the memory of starts whose direction does not descend, or along which no step did."""
        bad = at[(self.length[at] < 1e-8) | (_dot(self.direction[at], self.gradient[at]) >= 0)]
        self.curvature[:, bad] = 0.0
        self.scale[bad] = 0.1 / np.maximum(1e-12, _norm(self.gradient[bad]))
        self.direction[bad] = -self.scale[bad, None] * self.gradient[bad]
        self.length[bad] = 1.0

    def to_arrays(self) -> dict[str, NDArray[np.generic]]:
        """Return the state as named arrays; ``from_fields`` restores it."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def from_fields(cls, stored: Fields, B: int, n: int) -> "Descent":
        """Return the state of B starts in n variables from arrays of a file; ValueError where they are of no such."""
        shapes: dict[str, tuple[int, ...]] = dict.fromkeys(("x", "gradient", "direction"), (B, n))
        shapes |= dict.fromkeys(("value", "length", "scale"), (B,))
        shapes |= {"steps": (MEMORY, B, n), "changes": (MEMORY, B, n), "curvature": (MEMORY, B)}
        # A start without a value is NaN wherever its value enters.
        arrays = {name: stored.array(name, "f", shape, finite=name == "x") for name, shape in shapes.items()}
        arrays |= {name: stored.array(name, "i", shape, low=0) for name, shape in (("idle", (B,)), ("rounds", ()))}
        stored.end()
        return cls(**arrays)


def _dot(a: Floats, b: Floats) -> Floats:
    return np.asarray((a * b).sum(axis=1))


def _norm(a: Floats) -> Floats:
    return np.sqrt(_dot(a, a))
