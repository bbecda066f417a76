"""Rounding of probabilities to copies: a collection of equally likely tasks near a point of the search."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from forgetless._core.arrays import Floats
from forgetless.guarantees._minimize import Evaluations, minimize_starts
from forgetless.guarantees._objective import Adversary

_ROUNDING = 1e-4
"""Relative loss of value up to which fewer copies are preferred."""

SIZES = 24
"""Number of numbers of copies, evenly spaced in the logarithm."""


def as_copies(adversary: Adversary, x: Floats) -> tuple[Floats, NDArray[np.int64], float]:
    """Return tasks, copies and k·loss/R² near a point: probabilities are rounded, then the rest is optimised again.

    Tasks are (m, r, d), their rows orthogonal. Of several numbers of copies the smallest is taken that costs little,
    because exact losses of collections with many tasks are expensive.
    """
    units, eigenvalues, p = (array[0] for array in adversary.unpack(x[None]))
    counts = _candidates(p, max(256, 8 * adversary.k))
    shares = counts / counts.sum(axis=1, keepdims=True)
    fixed = replace(adversary, free=False)
    points = fixed.pack(np.stack([units] * len(counts)), np.stack([eigenvalues] * len(counts)), shares)
    points, values = minimize_starts(fixed, Evaluations(points), 80)
    best = min(float(values.min()), float(fixed(x[None])[0][0]))
    good = np.flatnonzero(values <= best + _ROUNDING)
    chosen = int(good[0]) if good.size else int(np.argmin(values))
    points, _ = minimize_starts(fixed, Evaluations(points[chosen : chosen + 1]), 200)
    units, eigenvalues, _ = (array[0] for array in fixed.unpack(points))
    used = counts[chosen] > 0
    rows, copies = _tidy(np.sqrt(eigenvalues[used])[..., None] * units[used], counts[chosen][used])
    return rows, copies, _value(adversary, rows, copies)


def _value(adversary: Adversary, rows: Floats, copies: NDArray[np.int64]) -> float:
    squares = (rows**2).sum(axis=2)
    units = rows / np.sqrt(np.maximum(squares, 1e-300))[..., None]  # a row of zeros has no direction, and needs none
    loss = adversary.loss(units[None], squares[None], (copies / copies.sum())[None])[0]
    return float(adversary.k * loss / squares.max())


def _candidates(p: Floats, limit: int) -> NDArray[np.int64]:
    """Return whole copies near N·p for about ``SIZES`` numbers N up to ``limit``, each the best of its neighbours.

    By largest remainders; task 0, which has norm 1, keeps at least one copy.
    """
    totals = np.arange(len(p), limit + 1)
    exact = totals[:, None] * p
    counts = np.floor(exact).astype(np.int64)
    missing = totals - counts.sum(axis=1)
    rank = np.argsort(np.argsort(counts - exact, axis=1, kind="stable"), axis=1, kind="stable")
    counts += rank < missing[:, None]
    counts[:, 0] = np.maximum(1, counts[:, 0])
    error = ((counts / counts.sum(axis=1, keepdims=True) - p) ** 2 / np.maximum(p, 1e-12)).sum(axis=1)
    bucket = (SIZES * np.log(totals / totals[0]) / np.log((limit + 1) / totals[0])).astype(np.int64)
    return np.stack(
        [counts[at[np.argmin(error[at])]] for b in np.unique(bucket) for at in [np.flatnonzero(bucket == b)]]
    )


def _tidy(tasks: Floats, counts: NDArray[np.int64]) -> tuple[Floats, NDArray[np.int64]]:
    """Merge tasks that agree, sort them from rare to frequent and rows from long to short, and make a triangle of all.

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
    rows = tasks[order].reshape(-1, tasks.shape[2])
    triangle = np.linalg.qr(rows.T)[1].T
    rotated = np.zeros_like(rows)
    rotated[:, : triangle.shape[1]] = triangle
    diagonal = np.sign(np.diag(triangle))
    rotated[:, : len(diagonal)] *= np.where(diagonal == 0, 1.0, diagonal)
    return rotated.reshape(-1, *tasks.shape[1:]) + 0.0, merged[order]  # no negative zeros
