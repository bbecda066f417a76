"""The proximal step argmin_u Σ_i ℓ(a_iᵀu) + (λ/2)‖u − w‖² on rows a_i = y_i x_i.

The change u − w is Aᵀα. For both hinges and for λ → 0 the multipliers α minimise

    ½ αᵀKα − Σ_i (1 − a_iᵀw) α_i   over   0 ≤ α_i ≤ c,

=================  ===========  =====
step               K            c
=================  ===========  =====
squared hinge      AAᵀ + λI     ∞
hinge              AAᵀ          1/λ
λ → 0, any loss    AAᵀ          ∞
=================  ===========  =====

The last one is the projection of w onto {u : a_iᵀu ≥ 1 for all i}; for the logistic loss it is the
limit in direction only. On one row these are PA-II, PA-I and PA of Crammer et al. (2006). The
logistic loss is minimised by Newton's method.

SciPy has no solver of quadratic programs with a box: ``nnls`` has no upper limit, ``lsq_linear``
needs a linear term in the range of A.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls
from scipy.special import expit

from forgetless.errors import ConvergenceError
from research.two_class.losses import Loss

Floats = NDArray[np.float64]

ROUNDS = 200
"""Rounds of the quadratic program, of which 1 to 10 are needed."""

SWEEPS = 8
"""Sweeps over all coordinates in one round."""

TOLERANCE = 1e-10
"""Distance of a margin from where it must be that counts as rounding, beside 1 + ‖a_i‖‖change‖."""

SEPARABLE = 1e-9
"""Least margin of rows of unit norm that is not taken for rounding."""


def proximal_change(A: Floats, w: Floats, coefficient: float, loss: Loss) -> Floats:
    """Return the change of the weights w in one step with λ = ``coefficient``, 0 for its limit."""
    margins = A @ w
    if loss.name == "logistic" and coefficient > 0:
        return _logistic_change(A, margins, coefficient)
    if np.all(margins >= 1.0):
        return np.zeros_like(w)
    if coefficient == 0:
        rows = contradiction(A)
        if rows:
            raise ValueError(
                f"the task has no margin: rows {rows} contradict each other, or are zero; use a"
                " coefficient λ > 0"
            )
    filled = A.any(axis=1)  # the loss of a row of zeros is constant
    if loss.name == "squared_hinge":
        return _active_change(A[filled], 1.0 - margins[filled], math.inf, coefficient)
    upper = 1.0 / coefficient if coefficient > 0 else math.inf
    return _active_change(A[filled], 1.0 - margins[filled], upper, 0.0)


def _active_change(A: Floats, missing: Floats, upper: float, ridge: float) -> Floats:
    """Return the change Aᵀα for K = AAᵀ + ``ridge``·I, from ``missing`` = 1 − Aw.

    Sweeps over coordinates and linear systems find which α_i are at 0, at the upper limit or
    between. This decides the change, which then follows from least squares: for small λ the
    multipliers are large numbers that nearly cancel in Aᵀα.
    """
    K = A @ A.T
    K[np.diag_indices_from(K)] += ridge
    alpha = np.zeros(len(K))
    norms = np.linalg.norm(A, axis=1)
    for _ in range(ROUNDS):
        _sweep(K, missing, alpha, upper)
        _solve_inside(K, missing, alpha, upper)
        inside = (alpha > 0) & (alpha < upper)
        change = A.T @ np.where(alpha >= upper, alpha, 0.0)
        change += _least_change(A[inside], missing[inside] - A[inside] @ change, ridge)
        if ridge == 0:  # once more, for the rounding errors of the first term
            change += _least_change(A[inside], missing[inside] - A[inside] @ change, 0.0)
        # Rows at 0 must have margins of at least 1, those at the upper limit of at most 1. Rows
        # between have 1, and less than that for the squared hinge.
        short = missing - A @ change
        wrong = np.where(alpha <= 0, short, -short)
        if ridge == 0:
            wrong = np.where(inside, np.abs(short), wrong)
        if np.all(wrong <= TOLERANCE * (1.0 + norms * np.linalg.norm(change))):
            return change
    raise ConvergenceError(
        f"the proximal step on {len(K)} rows was not found in {ROUNDS} rounds; use a larger λ, or"
        " rescale the features"
    )


def _least_change(A: Floats, missing: Floats, ridge: float) -> Floats:
    """Return argmin ½‖Ac − missing‖² + (ridge/2)‖c‖², the shortest one without a ridge."""
    if ridge == 0:
        return np.asarray(np.linalg.lstsq(A, missing, rcond=None)[0])
    d = A.shape[1]
    extended = np.vstack([A, math.sqrt(ridge) * np.eye(d)])
    return np.asarray(np.linalg.lstsq(extended, np.append(missing, np.zeros(d)), rcond=None)[0])


def _sweep(K: Floats, missing: Floats, alpha: Floats, upper: float) -> None:
    """Minimise over one coordinate after the other, several times."""
    gradient = K @ alpha - missing
    for _ in range(SWEEPS):
        for i in range(len(K)):
            best = min(max(alpha[i] - gradient[i] / K[i, i], 0.0), upper)
            if best != alpha[i]:
                gradient += K[i] * (best - alpha[i])
                alpha[i] = best


def _solve_inside(K: Floats, missing: Floats, alpha: Floats, upper: float) -> None:
    """Minimise over the coordinates inside the box; one that reaches its boundary stays there."""
    ridge = 1e-15 * np.trace(K) / len(K)  # equal rows leave K singular
    for _ in range(len(K)):
        free = np.flatnonzero((alpha > 0) & (alpha < upper))
        if len(free) == 0:
            return
        inside = K[np.ix_(free, free)] + ridge * np.eye(len(free))
        step = np.linalg.solve(inside, missing[free] - K[free] @ alpha)
        # The largest part of the step that stays in the box.
        room = np.where(step < 0, alpha[free], upper - alpha[free])
        lengths = np.full(len(free), math.inf)
        np.divide(room, np.abs(step), out=lengths, where=step != 0)
        length = min(1.0, lengths.min())
        alpha[free] = np.clip(alpha[free] + length * step, 0.0, upper)
        if length == 1.0:
            return
        hit = lengths <= length * (1 + 1e-12)
        alpha[free[hit]] = np.where(step[hit] < 0, 0.0, upper)


def _logistic_change(A: Floats, margins: Floats, coefficient: float) -> Floats:
    """Return the change of the logistic loss by Newton steps, halved while the loss increases."""
    n, d = A.shape
    if n < d:  # the change lies in the span of the rows
        basis, R = np.linalg.qr(A.T)
        return np.asarray(basis @ _logistic_change(R.T, margins, coefficient))
    z = np.zeros(d)
    value = _logistic_value(z, A, margins, coefficient)
    for _ in range(ROUNDS):
        outputs = margins + A @ z
        curvatures = expit(outputs) * expit(-outputs)
        gradient = coefficient * z - A.T @ expit(-outputs)
        H = (A * curvatures[:, None]).T @ A + coefficient * np.eye(d)
        step = -np.linalg.solve(H, gradient)
        if np.linalg.norm(step) <= 1e-10 * np.linalg.norm(z):  # the next one is below rounding
            return z + step
        before = value
        value = _logistic_value(z + step, A, margins, coefficient)
        while value > before * (1 + 1e-14):
            step = step / 2
            value = _logistic_value(z + step, A, margins, coefficient)
        z = z + step
    raise ConvergenceError(f"no proximal step was found for λ = {coefficient:.3g}; use a larger λ")


def _logistic_value(z: Floats, A: Floats, margins: Floats, coefficient: float) -> float:
    losses = np.logaddexp(0.0, -(margins + A @ z))
    return float(losses.sum() + 0.5 * coefficient * z @ z)


def contradiction(A: Floats) -> list[int]:
    """Return rows that no w has on the right side, aᵀw > 0 for all of them; none if there are none.

    Either some w separates the rows or some convex combination of them is 0 (Gordan). The nearest
    point to the origin in their convex hull decides it; at most d + 1 rows take part in it.
    """
    norms = np.linalg.norm(A, axis=1)
    if np.any(norms == 0):
        return [int(np.argmin(norms))]
    unit = A / norms[:, None]
    target = np.zeros(A.shape[1] + 1)
    target[-1] = 1.0
    multipliers, residual = nnls(np.vstack([unit.T, np.ones(len(A))]), target, maxiter=30 * len(A))
    # With margin γ of the unit rows the residual is γ/√(1 + γ²).
    if residual > SEPARABLE:
        return []
    return [int(row) for row in np.flatnonzero(multipliers > 1e-12)]


def nearest_separator(A: Floats, w: Floats) -> Floats:
    """Return the point of {u : Au ≥ 1} nearest to w, for separable rows."""
    return w + _active_change(A, 1.0 - A @ w, math.inf, 0.0)


def labels_of(y: Any) -> Floats:
    """Return labels −1 and +1 as a vector; ValueError for others."""
    labels = np.asarray(y, dtype=np.float64)
    if labels.ndim != 1 or not np.isin(labels, (-1.0, 1.0)).all():
        raise ValueError(
            f"y must be a vector of labels −1 and +1, got shape {labels.shape} with values"
            f" {np.unique(labels)[:6]}; use 2*y − 1 for labels 0 and 1"
        )
    return labels
