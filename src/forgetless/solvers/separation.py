"""Separation of rows a_i = y_i x_i by a hyperplane: the largest margin, or rows that contradict
each other.
"""

import math
from collections.abc import Sequence

import numpy as np

from forgetless._core.arrays import Floats
from forgetless.solvers import _box

SEPARABLE = 1e-9  # least margin of rows of unit norm that is not taken for rounding


def contradiction(A: Floats) -> list[int]:
    """Return rows that no w has on the right side, aᵀw > 0 for all of them; none if the rows are
    separable.

    Either some w separates the rows or some convex combination of them is 0 (Gordan). The nearest
    point to the origin in their convex hull decides it; at most d + 1 rows take part in it.
    """
    from scipy.optimize import nnls

    norms = np.linalg.norm(A, axis=1)
    if np.any(norms == 0):
        return [int(np.argmin(norms))]
    unit = A / norms[:, None]
    if len(A) <= 2000:
        opposite = np.argwhere(np.triu(unit @ unit.T) <= -1.0 + 1e-15 * A.shape[1])
        if len(opposite):
            return [int(row) for row in opposite[0]]
    multipliers, distance = nnls(
        np.vstack([unit.T, np.ones(len(A))]), np.eye(A.shape[1] + 1)[-1], maxiter=30 * len(A)
    )
    # With margin γ of the unit rows the residual is γ/√(1 + γ²).
    return [] if distance > SEPARABLE else [int(row) for row in np.flatnonzero(multipliers > 1e-12)]


def no_margin(name: str, rows: Sequence[object]) -> ValueError:
    """Return the error for rows that contradict each other."""
    if len(rows) == 1:
        return ValueError(
            f"{name} has no margin: row {rows[0]} is zero; drop it, or use a coefficient λ > 0"
        )
    shown = f"{', '.join(map(str, rows[:-1]))} and {rows[-1]}"
    return ValueError(
        f"{name} has no margin: rows {shown} contradict each other; use a coefficient λ > 0"
    )


def nearest_separator(A: Floats, w: Floats) -> Floats:
    """Return the point of {w : Aw ≥ 1} nearest to ``w``, for separable rows."""
    missing = 1.0 - A @ w
    if np.all(missing <= 0.0):
        return w
    return np.asarray(w + _box.minimum(A, missing, math.inf).change)
