"""From probabilities to copies: a collection of equally likely tasks near a point of the adversary's search."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from forgetless._adversary import Adversary
from forgetless._ascent import Descent

Floats = NDArray[np.float64]

_ROUNDING = 1e-4
"""Relative loss of value for which fewer copies are preferred: the last digit anybody reads."""


def as_copies(adversary: Adversary, x: Floats) -> tuple[Floats, NDArray[np.int64], float]:
    """Return rows, copies and k·loss/R² of the best point, its probabilities rounded and the rest optimised again."""
    units, eigenvalues, p = (array[0] for array in adversary.unpack(x[None]))
    counts = _rounded(adversary, units, eigenvalues, p)
    kept = counts > 0
    units, eigenvalues, counts = units[kept], eigenvalues[kept], counts[kept]
    fixed = replace(adversary, n_tasks=len(counts), free=False)
    descent = Descent.begin(fixed, fixed.pack(units[None], eigenvalues[None], (counts / counts.sum())[None]))
    while descent.rounds < 200 and descent.active.any():
        descent.advance(fixed)
    units, eigenvalues, _ = (array[0] for array in fixed.unpack(descent.x))
    rows, counts = _tidy(np.sqrt(eigenvalues)[:, None] * units, counts)
    squares = (rows**2).sum(axis=1)
    found = replace(adversary, n_tasks=len(counts))
    norms = np.sqrt(np.maximum(squares, 1e-300))
    loss = found.loss((rows / norms[:, None])[None], squares[None], (counts / counts.sum())[None])[0]
    return rows, counts, float(adversary.k * loss / squares.max())


def _rounded(adversary: Adversary, units: Floats, eigenvalues: Floats, p: Floats) -> NDArray[np.int64]:
    """Return the fewest copies whose probabilities cost little, or the best up to 8k of them."""
    totals = np.arange(len(p), max(256, 8 * adversary.k) + 1)
    candidates = np.stack([_apportioned(p, int(total)) for total in totals])
    losses = np.empty(len(totals))
    for first in range(0, len(totals), 256):
        counts = candidates[first : first + 256]
        shape = (len(counts), 1)
        share = counts / counts.sum(axis=1, keepdims=True)
        losses[first : first + 256] = adversary.loss(np.tile(units, (*shape, 1)), np.tile(eigenvalues, shape), share)
    exact = adversary.loss(units[None], eigenvalues[None], p[None])[0]
    good = np.flatnonzero(losses >= (1 - _ROUNDING) * exact)
    return np.asarray(candidates[good[0] if good.size else int(np.argmax(losses))])


def _apportioned(p: Floats, total: int) -> NDArray[np.int64]:
    """Return whole copies near ``total``·p by largest remainders; task 0, which has norm 1, keeps at least one."""
    counts = np.floor(total * p).astype(np.int64)
    order = np.argsort(counts - total * p, kind="stable")
    counts[order[: total - int(counts.sum())]] += 1
    counts[0] = max(1, int(counts[0]))
    return counts


def _tidy(rows: Floats, counts: NDArray[np.int64]) -> tuple[Floats, NDArray[np.int64]]:
    """Merge rows that agree up to sign, sort them from rare to frequent, and turn them into triangular form.

    A rotation changes no loss.
    """
    kept: list[int] = []
    merged = counts.copy()
    for m in range(len(rows)):
        same = [j for j in kept if min(np.abs(rows[m] - rows[j]).max(), np.abs(rows[m] + rows[j]).max()) < 1e-9]
        if same:
            merged[same[0]] += counts[m]
        else:
            kept.append(m)
    order = sorted(kept, key=lambda m: (merged[m], m))
    triangle = np.linalg.qr(rows[order].T)[1].T
    turned = np.zeros((len(order), rows.shape[1]))
    turned[:, : triangle.shape[1]] = triangle
    diagonal = np.sign(np.diag(triangle))
    turned[:, : len(diagonal)] *= np.where(diagonal == 0, 1.0, diagonal)
    return turned + 0.0, merged[order]  # no negative zeros
