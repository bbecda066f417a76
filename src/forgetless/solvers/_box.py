"""The proximal step of the hinge, and the projection onto all margins of at least 1: quadratic
programs with a box.

With rows a_i = y_i x_i the change of the weights is Aᵀα, where α minimises ½‖Aᵀα‖² − Σ_i (1 −
a_iᵀw)α_i over 0 ≤ α ≤ 1/λ: without an upper limit for the projection. Sweeps over coordinates find
rows with a margin of 1, and a factorisation computes α on them. Measured beside it:
scipy.optimize.nnls (Lawson and Hanson's LDP) is equally fast for few rows and 16 to 20 times slower
for 300 rows of 5000 features, and it has no upper limit.
"""

import math
from typing import NamedTuple

import numpy as np

from forgetless._core.arrays import Floats

ROUNDS = 200
SWEEPS = 8
_SLACK = 1e-9  # distance of a margin from 1, or of α from its limits, that counts as none


class BoxMinimum(NamedTuple):
    """The result of the quadratic program."""

    change: Floats
    rounds: int
    error: float  # bound on the relative error of the change


def minimum(A: Floats, missing: Floats, upper: float) -> BoxMinimum:
    """Return the change Aᵀα, from ``missing`` = 1 − Aw."""
    Q, alpha, rounds = A @ A.T, np.zeros(len(A)), 0
    scale = float(np.abs(missing).max(initial=0.0))
    while rounds < ROUNDS:
        rounds += 1
        _sweep(Q, missing, alpha, upper)
        _solve_faces(Q, missing, alpha, upper)
        g = Q @ alpha - missing
        violation = np.where(
            alpha <= 0, np.minimum(g, 0), np.where(alpha >= upper, np.maximum(g, 0), g)
        )
        if np.abs(violation).max() <= 1e-12 * (scale + float(np.abs(Q @ np.abs(alpha)).max())):
            break
    return _polished(A, missing, alpha, upper, rounds)


def _sweep(Q: Floats, missing: Floats, alpha: Floats, upper: float) -> None:
    """Minimise over one coordinate after the other, several times."""
    g, diagonal = Q @ alpha - missing, np.diagonal(Q)
    for _ in range(SWEEPS):
        for i in np.flatnonzero(diagonal > 0):
            change = min(max(alpha[i] - g[i] / diagonal[i], 0.0), upper) - alpha[i]
            if change:
                alpha[i] += change
                g += Q[i] * change


def _solve_faces(Q: Floats, missing: Floats, alpha: Floats, upper: float) -> None:
    """Minimise over the coordinates that are inside the box, fixing those that reach its boundary,
    until none does.
    """
    ridge = 1e-15 * float(np.trace(Q)) / len(Q)
    for _ in range(len(Q)):
        free = np.flatnonzero((alpha > 0) & (alpha < upper))
        if not len(free):
            return
        fixed = np.flatnonzero(alpha >= upper)
        right = missing[free] - Q[np.ix_(free, fixed)] @ alpha[fixed]
        step = (
            np.linalg.solve(Q[np.ix_(free, free)] + ridge * np.eye(len(free)), right) - alpha[free]
        )
        with np.errstate(divide="ignore", invalid="ignore"):
            lengths = np.where(
                step < 0,
                -alpha[free] / step,
                np.where(step > 0, (upper - alpha[free]) / step, np.inf),
            )
        length = min(1.0, float(lengths.min()))
        alpha[free] = np.clip(alpha[free] + length * step, 0.0, upper)
        if length >= 1.0:
            return
        hit = lengths <= length * (1 + 1e-12)
        alpha[free[hit]] = np.where(step[hit] < 0, 0.0, upper)


def _polished(A: Floats, missing: Floats, alpha: Floats, upper: float, rounds: int) -> BoxMinimum:
    """Return the change by an orthogonal factorisation of the rows with a margin of 1, and its
    error.

    These rows F have an exact solution c with A_F c = missing_F; ours is nearer than ‖A_F c −
    missing_F‖/σ_min(A_F). It is the minimum if all other rows are on the right side of a margin of
    1 by more than this can change.
    """
    free = (alpha > 0) & (alpha < upper)
    base = A.T @ np.where(alpha >= upper, alpha, 0.0)
    Q, R = np.linalg.qr(A[free].T)
    smallest = (
        float(np.linalg.svd(R, compute_uv=False).min(initial=math.inf)) if free.any() else math.inf
    )
    if free.any() and smallest > 1e-13 * np.linalg.norm(R):
        from scipy.linalg import solve_triangular

        target = missing[free] - A[free] @ base
        change = base + Q @ solve_triangular(R, target, trans=1)
        change += Q @ solve_triangular(R, missing[free] - A[free] @ change, trans=1)
    else:
        change = A.T @ alpha
    return BoxMinimum(change, rounds, _error(A, missing, (alpha, upper), change))


def _error(A: Floats, missing: Floats, dual: tuple[Floats, float], change: Floats) -> float:
    """Return a bound on the relative error of the change; infinite if some row is on the wrong
    side.
    """
    (alpha, upper), size = dual, float(np.linalg.norm(change))
    short = missing - A @ change  # how far margins are below 1
    norms = np.linalg.norm(A, axis=1)
    slack = _SLACK * (1.0 + norms * size)
    near = (np.abs(short) <= slack) | ((alpha > 0) & (alpha < upper))
    wrong = ~near & np.where(alpha <= 0, short > 0, short < 0)
    if wrong.any():
        return math.inf
    if not near.any():
        return 0.0 if size == 0.0 else 1e-15
    values = np.linalg.svd(A[near], compute_uv=False)
    values = values[values > 1e-13 * values[0]]  # of equal rows one is enough
    inside = (alpha > 0) & (alpha < upper)
    # Rows at a margin of 1 without a multiplier need not be at it exactly; beyond it they are
    # harmless.
    residual = np.where(
        inside, short, np.where(alpha <= 0, np.maximum(short, 0.0), np.minimum(short, 0.0))
    )[near]
    bound = float(np.linalg.norm(residual)) / float(values[-1])
    if size == 0.0:
        return 0.0 if bound == 0.0 else math.inf
    return bound / size if bool(np.all(norms[~near] * bound < slack[~near])) else math.inf
