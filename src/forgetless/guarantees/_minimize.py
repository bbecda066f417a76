"""Minimisation from many starts: SciPy's L-BFGS-B for each, with all starts evaluated in one batch.

A batch of 32 points costs little more than one. Every start therefore runs in a thread of its own, which waits until
all others have asked for a value, too; one start after the other takes 6 to 11 times as long.
"""

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forgetless._core.arrays import Floats
from forgetless.io.fields import Fields

Objective = Callable[[Floats], tuple[Floats, Floats]]
"""Points (B, n) → values (B,) to be minimised and gradients (B, n)."""

# Values are logarithms of order one, so that these are relative changes.
_OPTIONS = {"ftol": 1e-12, "gtol": 1e-8, "maxcor": 10, "maxfun": 10**9, "maxiter": 10**9}

_PENALTY = 1e3
"""Value of points without one, above all others: a line search turns back from it."""


@dataclass(eq=False)
class Evaluations:
    """Starting points (B, n), and of each round the values (B,) and gradients (B, n); NaN where there are none.

    With them an interrupted minimisation is repeated without computing anything, and continued.
    """

    points: Floats
    rounds: list[tuple[Floats, Floats]] = field(default_factory=list)

    def to_arrays(self) -> dict[str, NDArray[np.generic]]:
        """Return named arrays; ``from_fields`` is the inverse."""
        values, gradients = zip(*self.rounds, strict=True) if self.rounds else ((), ())
        B, n = self.points.shape
        return {
            "points": self.points,
            "values": np.reshape(values, (-1, B)),
            "gradients": np.reshape(gradients, (-1, B, n)),
        }

    @classmethod
    def from_fields(cls, stored: Fields, B: int, n: int) -> "Evaluations":
        """Return the evaluations of B starts in n variables from arrays of a file; ValueError if they do not fit."""
        points = stored.array("points", "f", (B, n))
        values = stored.array("values", "f", (None, B), finite=False)
        gradients = stored.array("gradients", "f", (len(values), B, n), finite=False)
        stored.end()
        return cls(points, list(zip(values, gradients, strict=True)))


def minimize_starts(
    objective: Objective,
    record: Evaluations,
    n_rounds: int,
    after_round: Callable[[float], None] = lambda _: None,
) -> tuple[Floats, Floats]:
    """Return the best points (B, n) and their values (B,), infinite for starts without one.

    ``after_round`` is called with the least value so far, after every round that is not yet in ``record``.
    """
    best_points, best = record.points.copy(), np.full(len(record.points), np.inf)
    active = {b: _Start(x) for b, x in enumerate(record.points)}
    try:
        for t in range(n_rounds + 1):
            points = {b: x for b, start in active.items() if (x := start.requests.get()) is not None}
            active = {b: active[b] for b in points}
            if not points:
                break
            is_new = t == len(record.rounds)
            if is_new:
                record.rounds.append(_evaluate(objective, points, record.points.shape))
            values, gradients = record.rounds[t]
            for b, x in points.items():
                if values[b] < best[b]:
                    best[b], best_points[b] = values[b], x
                active[b].answer(values[b], gradients[b], first=t == 0)
            if is_new:
                after_round(float(best.min()))
    finally:
        for start in active.values():
            start.results.put(None)
    return best_points, best


def _evaluate(objective: Objective, points: dict[int, Floats], shape: tuple[int, ...]) -> tuple[Floats, Floats]:
    values, gradients = np.full(shape[0], np.nan), np.full(shape, np.nan)
    at = list(points)
    values[at], gradients[at] = objective(np.stack(list(points.values())))
    return values, gradients


class _Stopped(Exception):  # noqa: N818 - not an error
    """Ends SciPy's loop."""


class _Start(threading.Thread):
    """One minimisation: puts points into ``requests``, None at its end, and waits for ``results``."""

    def __init__(self, x: Floats) -> None:
        super().__init__(daemon=True)
        self.requests: SimpleQueue[Floats | None] = SimpleQueue()
        self.results: SimpleQueue[tuple[float, Floats] | None] = SimpleQueue()
        self._x = x
        self.start()

    def run(self) -> None:
        from scipy.optimize import minimize

        with suppress(_Stopped):
            minimize(self._evaluate, self._x, jac=True, method="L-BFGS-B", options=_OPTIONS)
        self.requests.put(None)

    def _evaluate(self, x: Floats) -> Any:
        self.requests.put(x.copy())
        if (result := self.results.get()) is None:
            raise _Stopped
        return result

    def answer(self, value: float, gradient: Floats, first: bool) -> None:
        """Send a value; a start whose first point has none ends."""
        if np.isfinite(value):
            self.results.put((float(value), gradient))
        else:
            self.results.put(None if first else (_PENALTY, np.zeros_like(gradient)))
