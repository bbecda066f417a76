"""The proximal step of a loss on one task: argmin Σ_i ℓ(x_iᵀw, y_i) + (λ/2)‖w − w_prev‖².

One row has a closed form: PA-II for the squared hinge, PA-I for the hinge, PA for λ = 0 (Crammer et
al. 2006). Else smooth losses are minimised by Newton's method and the hinge as a quadratic program.
In the limit λ → 0 a step is the projection of w_prev onto {w : y_i x_iᵀw ≥ 1 for all i}, in
direction also for the logistic loss, whose weights grow as ln(1/λ).
"""

import math
from typing import Any, NamedTuple

import numpy as np

from forgetless._core.arrays import Floats
from forgetless.errors import ConvergenceError
from forgetless.losses import TWO_CLASSES, Loss
from forgetless.solvers import _box, _newton
from forgetless.solvers.separation import contradiction, no_margin

ACCURACY = 1e-10  # relative error of the change that is guaranteed
# of the weights: margins that are 1 up to rounding leave a change that is nothing else
ROUNDING = 1e-14
SMALLEST = 1e-16  # of λ/β: below, λ is lost in the rounding errors of the loss


Objective = _newton.Objective


class ProximalStep(NamedTuple):
    """The result of one proximal step."""

    change: Floats  # w − w_prev, of the shape of the weights
    solver: str  # "none", "row", "newton", "newton-cg" or "box"
    passes: int  # products with X (newton-cg), factorisations (newton) or rounds (box)
    error: float  # bound on the relative error of the change


def proximal_step(
    X: Floats, y: Any, w: Floats, coefficient: float, loss: Loss, solver: str = "auto"
) -> ProximalStep:
    """Return the change of the weights in one step with λ = ``coefficient``, accurate to a relative
    ``ACCURACY``.

    For the losses of two classes y holds −1 and +1 and w has shape (d,); for softmax y holds 0..c −
    1 and w has shape (d, c). The caller has validated all of them.
    """
    check_coefficient(X, coefficient, loss)
    if len(X) == 0:
        return ProximalStep(np.zeros_like(w), "none", 0, 0.0)
    if loss.name not in TWO_CLASSES:
        return _smooth(Objective(X, X @ w, y, coefficient, loss), solver)
    A = X * np.asarray(y)[:, None]
    margins = A @ w
    if coefficient > 0 and loss.name == "logistic":
        return _smooth(Objective(A, margins, 1.0, coefficient, loss), solver)
    if np.all(margins >= 1.0):
        return ProximalStep(np.zeros_like(w), "none", 0, 0.0)
    if len(A) == 1 and solver == "auto" and A.any():
        return ProximalStep(
            A[0] * _of_one_row(A[0], 1.0 - margins[0], coefficient, loss), "row", 1, 1e-15
        )
    if coefficient > 0 and loss.name == "squared_hinge":
        try:
            return _smooth(Objective(A, margins, 1.0, coefficient, loss), solver)
        except ConvergenceError:  # λ ≪ β: 1 − margins are small differences, multipliers are not
            return _with_slacks(A, margins, coefficient, float(np.linalg.norm(w)))
    upper = 1.0 / coefficient if coefficient > 0 else math.inf
    if coefficient == 0 and (rows := contradiction(A)):
        raise no_margin("the task", rows)
    filled = A.any(axis=1)  # the loss of a row of zeros is constant
    result = _box.minimum(A[filled], 1.0 - margins[filled], upper)
    step = ProximalStep(result.change, "box", result.rounds, result.error)
    return _checked(step, X, coefficient, float(np.linalg.norm(w)))


def _with_slacks(A: Floats, margins: Floats, coefficient: float, size: float) -> ProximalStep:
    """Return the step of the squared hinge as a projection, with a slack √λ s_i in the margin of
    every row.
    """
    rows = np.hstack([A, math.sqrt(coefficient) * np.eye(len(A))])
    result = _box.minimum(rows, 1.0 - margins, math.inf)
    change = result.change[: A.shape[1]]
    error = result.error * float(np.linalg.norm(result.change) / np.linalg.norm(change))
    return _checked(ProximalStep(change, "box", result.rounds, error), A, coefficient, size)


def check_coefficient(X: Floats, coefficient: float, loss: Loss) -> None:
    """Raise ValueError for λ that is not resolved beside the loss of these rows, or 0 without a
    limit.
    """
    if coefficient == 0:
        if loss.name not in TWO_CLASSES:
            raise ValueError(
                f"the coefficient λ must be positive for the loss {loss.name}, got 0; use"
                " fl.Ridge(λ)"
            )
        return
    # ‖X‖₂ ≤ ‖X‖_F ≤ √min(n, d)‖X‖₂: the cheaper norm, for a limit that is rough in any case.
    square = float(np.sum(X * X)) / max(1, min(X.shape))
    if coefficient < SMALLEST * square:
        raise ValueError(
            f"the coefficient λ must be 0 or at least {SMALLEST:g} β, β ≥ {square:.3g} for these"
            f" rows, got {coefficient:.3g}; use fl.Projection() for the limit λ → 0"
        )


def _of_one_row(a: Floats, missing: float, coefficient: float, loss: Loss) -> float:
    """Return α of the change αa: PA for λ = 0, PA-II for the squared hinge, PA-I for the hinge."""
    square = float(a @ a)
    if loss.name == "squared_hinge" or coefficient == 0:
        return missing / (square + coefficient)
    return min(missing / square, 1.0 / coefficient)


def _smooth(f: Objective, solver: str) -> ProximalStep:
    return _checked(minimized(f, solver), f.B, f.coefficient)


def minimized(f: Objective, solver: str = "auto", passes: int = _newton.PASSES) -> ProximalStep:
    """Return the minimum of a smooth loss with a proximal term; ``error`` says how accurate it is.

    Conjugate gradients end after about ``passes`` products with X or Xᵀ.
    """
    chosen = _choose(f) if solver == "auto" else solver
    if chosen == "newton-cg":
        result = _newton.by_conjugate_gradients(f, 0.9 * ACCURACY, passes)
        change = result.z
    elif f.B.shape[0] < f.B.shape[1]:
        # X = RᵀQᵀ: the change lies in the span of the rows, in whose coordinates the task is
        # square.
        Q, R = np.linalg.qr(f.B.T)
        result = _newton.by_factorization(f._replace(B=np.ascontiguousarray(R.T)), 0.1 * ACCURACY)
        change = Q @ result.z
    else:
        result = _newton.by_factorization(f, 0.1 * ACCURACY)
        change = result.z
    return ProximalStep(change, chosen, result.passes, result.error)


_ITERATIONS = 8  # typical number of Newton steps
# numbers in X up to which calls from Python cost more than the arithmetic of either solver
SMALL = 50_000


def _choose(f: Objective) -> str:
    """Return the cheaper of "newton" and "newton-cg", in units of one dense pass over one entry."""
    n, d = f.B.shape
    c = f.outputs.shape[1] if f.outputs.ndim == 2 else 1
    side = min(n, d)
    if n * d * c <= SMALL:
        return "newton"
    # A multiplication in a product of matrices takes 1/40 of one in a pass, 1/20 for wide ones.
    direct = _ITERATIONS * (n * (side * c) ** 2 / 40 + (side * c) ** 3 / 42)
    if n < d:
        direct += 3.0 * n * d * n / 20  # the orthogonal factorisation
    # Conjugate gradients take three quarters (measured) of the passes of the worst case, and two
    # or three systems are solved, all but the last roughly.
    smoothness = f.loss.smoothness(float(np.linalg.norm(f.B)))
    root = math.sqrt(1.0 + smoothness / f.coefficient)
    passes = 1.0 + 1.2 * math.log(2 / ACCURACY) / math.log((root + 1) / (root - 1))
    return "newton-cg" if passes * (n * d * (1 + c / 40) + 10 * (n + d) * c) < direct else "newton"


def _checked(step: ProximalStep, X: Floats, coefficient: float, size: float = 0.0) -> ProximalStep:
    """Return the step if it is accurate, relative to the change or to the rounding of weights of a
    ``size``.
    """
    if not (step.error <= ACCURACY or step.error * np.linalg.norm(step.change) <= ROUNDING * size):
        raise ConvergenceError(
            f"the proximal step with λ = {coefficient:.3g} on a task of shape {X.shape} has a"
            f" relative error of {step.error:.1g}, more than {ACCURACY:g}; use a larger λ, or"
            " rescale the features"
        )
    return step
