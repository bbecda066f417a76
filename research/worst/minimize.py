"""Minimisation from many starts, and rounding of its result to a collection of equally likely
tasks.

SciPy's L-BFGS-B runs once for each start, with all starts evaluated in one batch: a batch of 32
points costs little more than one. Every start therefore has a thread of its own, which waits until
all others have asked for a value, too; one start after the other takes 6 to 11 times as long.
"""

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from queue import SimpleQueue
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from forgetless._running import one_blas_thread, track
from research.arrays import Floats
from research.worst.objective import Adversary

Objective = Callable[[Floats], tuple[Floats, Floats]]
"""Points (B, n) → values (B,) to be minimised and gradients (B, n)."""

# Values are logarithms of order one, so that these are relative changes.
_OPTIONS = {"ftol": 1e-12, "gtol": 1e-8, "maxcor": 10, "maxfun": 10**9, "maxiter": 10**9}

_PENALTY = 1e3
"""Value of points without one, above all others: a line search turns back from it."""


def minimize_starts(
    objective: Objective, starts: Floats, n_rounds: int, text: str = "rounds"
) -> tuple[Floats, Floats]:
    """Return the best points (B, n) from starts (B, n) and their values (B,), infinite for starts
    without one.
    """
    best_points = starts.copy()
    best = np.full(len(starts), np.inf)
    with one_blas_thread():
        active = {b: _Start(x) for b, x in enumerate(starts)}
        try:
            for t in track(range(n_rounds + 1), text):
                asked = {b: start.requests.get() for b, start in active.items()}
                points = {b: x for b, x in asked.items() if x is not None}
                active = {b: active[b] for b in points}
                if not points:
                    break
                values, gradients = objective(np.stack(list(points.values())))
                for value, gradient, (b, x) in zip(values, gradients, points.items(), strict=True):
                    if value < best[b]:
                        best[b] = value
                        best_points[b] = x
                    active[b].send(value, gradient, first=t == 0)
        finally:
            for start in active.values():
                start.results.put(None)
    return best_points, best


class _Stopped(Exception):  # noqa: N818 - not an error
    """Ends SciPy's loop."""


class _Start(threading.Thread):
    """One minimisation: puts points into ``requests``, None at its end, and waits for
    ``results``.
    """

    def __init__(self, x: Floats) -> None:
        super().__init__(daemon=True)
        self.requests: SimpleQueue[Floats | None] = SimpleQueue()
        self.results: SimpleQueue[tuple[float, Floats] | None] = SimpleQueue()
        self._x = x
        self.start()

    def run(self) -> None:
        with suppress(_Stopped):
            minimize(self._evaluate, self._x, jac=True, method="L-BFGS-B", options=_OPTIONS)
        self.requests.put(None)

    def _evaluate(self, x: Floats) -> Any:
        self.requests.put(x.copy())
        if (result := self.results.get()) is None:
            raise _Stopped
        return result

    def send(self, value: float, gradient: Floats, first: bool) -> None:
        """Send a value; a start whose first point has none ends."""
        if np.isfinite(value):
            self.results.put((float(value), gradient))
        else:
            self.results.put(None if first else (_PENALTY, np.zeros_like(gradient)))


_ROUNDING = 1e-4
"""Relative loss of value up to which fewer copies are preferred."""

SIZES = 24
"""Number of numbers of copies, evenly spaced in the logarithm."""


def as_copies(adversary: Adversary, x: Floats) -> tuple[Floats, NDArray[np.int64], float]:
    """Return tasks, copies and k·loss/R² near a point: probabilities are rounded, then the rest is
    optimised again.

    Tasks are (m, r, d), their rows orthogonal. Of several numbers of copies the smallest is taken
    that costs little, because exact losses of collections with many tasks are expensive.
    """
    units, eigenvalues, p = (array[0] for array in adversary.unpack(x[None]))
    counts = _candidates(p, max(256, 8 * adversary.k))
    probabilities = counts / counts.sum(axis=1, keepdims=True)
    fixed = replace(adversary, free=False)
    points = fixed.pack(
        np.stack([units] * len(counts)), np.stack([eigenvalues] * len(counts)), probabilities
    )
    points, values = minimize_starts(fixed, points, 80, "rounds with whole copies")
    best = min(float(values.min()), float(fixed(x[None])[0][0]))
    good = np.flatnonzero(values <= best + _ROUNDING)
    chosen = int(good[0]) if good.size else int(np.argmin(values))
    points, _ = minimize_starts(fixed, points[chosen : chosen + 1], 200)
    units, eigenvalues, _ = (array[0] for array in fixed.unpack(points))
    used = counts[chosen] > 0
    rows, copies = _tidy(np.sqrt(eigenvalues[used])[..., None] * units[used], counts[chosen][used])
    return rows, copies, _value(adversary, rows, copies)


def _value(adversary: Adversary, rows: Floats, copies: NDArray[np.int64]) -> float:
    squares = (rows**2).sum(axis=2)
    # a row of zeros has no direction, and needs none
    units = rows / np.sqrt(np.maximum(squares, 1e-300))[..., None]
    loss = adversary.loss(units[None], squares[None], (copies / copies.sum())[None])[0]
    return float(adversary.k * loss / squares.max())


def _candidates(p: Floats, limit: int) -> NDArray[np.int64]:
    """Return whole copies near N·p for about ``SIZES`` numbers N up to ``limit``, each the best of
    its neighbours.

    By largest remainders; task 0, which has norm 1, keeps at least one copy.
    """
    totals = np.arange(len(p), limit + 1)
    exact = totals[:, None] * p
    counts = np.floor(exact).astype(np.int64)
    missing = totals - counts.sum(axis=1)
    rank = np.argsort(np.argsort(counts - exact, axis=1, kind="stable"), axis=1, kind="stable")
    counts += rank < missing[:, None]
    counts[:, 0] = np.maximum(1, counts[:, 0])
    error = ((counts / counts.sum(axis=1, keepdims=True) - p) ** 2 / np.maximum(p, 1e-12)).sum(
        axis=1
    )
    bucket = (SIZES * np.log(totals / totals[0]) / np.log((limit + 1) / totals[0])).astype(np.int64)
    return np.stack(
        [
            counts[at[np.argmin(error[at])]]
            for b in np.unique(bucket)
            for at in [np.flatnonzero(bucket == b)]
        ]
    )


def _tidy(tasks: Floats, counts: NDArray[np.int64]) -> tuple[Floats, NDArray[np.int64]]:
    """Merge tasks that agree, sort them from rare to frequent and rows from long to short, and make
    a triangle of all.

    Tasks agree if XᵀX does. A rotation changes no loss.
    """
    distinct: list[int] = []
    merged = counts.copy()
    tasks = np.stack([X[np.argsort(-(X**2).sum(axis=1), kind="stable")] for X in tasks])
    grams = tasks.swapaxes(1, 2) @ tasks
    for m in range(len(tasks)):
        same = [j for j in distinct if np.abs(grams[m] - grams[j]).max() < 1e-9]
        if same:
            merged[same[0]] += counts[m]
        else:
            distinct.append(m)
    order = sorted(distinct, key=lambda m: (merged[m], m))
    return _triangular(tasks[order]), merged[order]


def in_order(adversary: Adversary, x: Floats) -> tuple[Floats, NDArray[np.int64], float]:
    """Return tasks (M, r, d), each once and in their order, and k·loss/R² at a point."""
    units, eigenvalues, _ = (array[0] for array in adversary.unpack(x[None]))
    rows, copies = (
        _triangular(np.sqrt(eigenvalues)[..., None] * units),
        np.ones(len(units), dtype=np.int64),
    )
    return rows, copies, _value(adversary, rows, copies)


def _triangular(tasks: Floats) -> Floats:
    """Return tasks rotated so that all rows together are a triangle, which changes no loss."""
    rows = tasks.reshape(-1, tasks.shape[2])
    triangle = np.linalg.qr(rows.T)[1].T
    rotated = np.zeros_like(rows)
    rotated[:, : triangle.shape[1]] = triangle
    diagonal = np.sign(np.diag(triangle))
    rotated[:, : len(diagonal)] *= np.where(diagonal == 0, 1.0, diagonal)
    return rotated.reshape(tasks.shape) + 0.0  # no negative zeros
