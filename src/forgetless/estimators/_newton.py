"""Newton's method for the proximal step of the softmax loss, with a bound on its error.

The step minimises f(z) = Σ_i ω_i ℓ(o_i + (Bz)_i, y_i) + (λ/2)‖z‖² over the change z (r, c) of the
weights of c classes; ℓ is the cross-entropy, o_i are the outputs before the step. Small tasks are
solved by factorisations of the second derivative, large and sparse ones by conjugate gradients.

``scipy.optimize.minimize`` was compared on five tasks. It judges a step by the decrease of f, and
stops where that is below rounding: with products (Newton-CG, trust-krylov, trust-ncg, L-BFGS) the
relative errors of the change were 4e-11 to 1e-5, with second derivatives (trust-exact) up to 2e-9.
Here they were at most 4e-11.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from forgetless._core.arrays import Floats

ACCURACY = 1e-10
"""Relative error of the change that is aimed at."""

_ENOUGH = 1e-9
"""Relative error of conjugate gradients at which a dense task is not factorised."""

_ITERATIONS = 100
"""Newton steps; 5 to 30 are needed."""

_SMALL = 50_000
"""Numbers n·r·c up to which factorisations are fastest: calls from Python cost more."""

_PRODUCTS = 10_000
"""Largest number of products with the second derivative."""

FEW_PRODUCTS = 150
"""The same for tasks that are factorised quickly: second derivatives of a side up to ``_QUICK``."""

_QUICK = 400
"""At a side of 600 to 1500 conjugate gradients took 0.2 to 0.8 of the time of factorisations."""

_LARGEST_SIDE = 6000
"""Side of the second derivative up to which it is factorised: 0.3 GB."""

_BALL = 1e-7
"""Radius, relative to the change, of the ball in which second derivatives are bounded."""


class Step(NamedTuple):
    """The minimum of an objective."""

    change: Floats  # (r, c)
    error: float  # bound on its relative error


class Objective(NamedTuple):
    """The softmax loss of weighted rows plus a proximal term."""

    B: Any  # (n, r): dense, sparse or an operator
    outputs: Floats  # before the step (n, c)
    labels: Any  # 0..c − 1 (n,)
    weights: Floats  # (n,)
    coefficient: float  # λ

    def value(self, z: Floats, outputs: Floats) -> float:
        """Return f from z and its outputs."""
        from scipy.special import log_softmax

        losses = -log_softmax(outputs, axis=1)[np.arange(len(outputs)), self.labels]
        return float(self.weights @ losses + 0.5 * self.coefficient * np.sum(z * z))

    def gradient(self, z: Floats, outputs: Floats) -> Floats:
        """Return the gradient from z and its outputs."""
        slopes = probabilities(outputs)
        rows = np.arange(len(slopes))
        # p − 1 of the right class as −(sum of the others): it is tiny where the row is well
        # classified.
        slopes[rows, self.labels] = 0.0
        slopes[rows, self.labels] = -slopes.sum(axis=1)
        return _centred(self.coefficient * z + self.B.T @ (self.weights[:, None] * slopes))

    def hessian(self, p: Floats, weights: Floats) -> Floats:
        """Return λI + Σ_i ω_i (diag(p_i) − p_i p_iᵀ) ⊗ b_i b_iᵀ, of side rc."""
        r = self.B.shape[1]
        c = p.shape[1]
        H = np.zeros((r, c, r, c))
        for i in range(c):
            for j in range(c):
                curvatures = weights * p[:, i] * (float(i == j) - p[:, j])
                H[:, i, :, j] = (self.B * curvatures[:, None]).T @ self.B
        H = H.reshape(r * c, r * c)
        H[np.diag_indices_from(H)] += self.coefficient
        return H

    def hessian_product(self, p: Floats, v: Floats) -> Floats:
        """Return the product of the second derivative with v (r, c)."""
        change = p * (self.B @ v)
        change -= p * change.sum(axis=1, keepdims=True)
        return np.asarray(self.coefficient * v + self.B.T @ (self.weights[:, None] * change))


def probabilities(outputs: Floats) -> Floats:
    """Return the probabilities of the classes, of shape (n, c)."""
    from scipy.special import softmax

    return np.asarray(softmax(outputs, axis=1))


def _centred(z: Floats) -> Floats:
    """Return z less its mean over the classes, which is rounding: slopes of softmax sum to 0.

    Along the mean f is as flat as λ allows, so that rounding errors would be largest there.
    """
    return np.asarray(z - z.mean(axis=1, keepdims=True))


def minimum(f: Objective) -> Step:
    """Return the minimum for a dense B."""
    n, r = f.B.shape
    c = f.outputs.shape[1]
    side = min(n, r) * c
    if n * r * c > _SMALL:
        step = by_products(f, FEW_PRODUCTS if side <= _QUICK else _PRODUCTS)
        if step.error <= _ENOUGH or side > _LARGEST_SIDE:
            return step
    if n >= r:
        return _by_factorization(f)
    # B = RᵀQᵀ: the change lies in the span of the rows, in whose coordinates the task is square.
    Q, R = np.linalg.qr(f.B.T)
    step = _by_factorization(f._replace(B=np.ascontiguousarray(R.T)))
    return step._replace(change=Q @ step.change)


def _by_factorization(f: Objective) -> Step:
    """Return the minimum by Newton steps with Cholesky factorisations."""

    def direction(outputs: Floats, g: Floats, _: float) -> Floats:
        H = f.hessian(probabilities(outputs), f.weights)
        return -_solve(H, g.reshape(-1)).reshape(g.shape)

    z = _newton(f, direction, 0.1 * ACCURACY)
    return Step(z, min(gradient_error(f, z), _curvature_error(f, z)))


def by_products(f: Objective, limit: int = _PRODUCTS) -> Step:
    """Return the minimum by Newton steps that are solved by conjugate gradients.

    It ends after about ``limit`` products with the second derivative; ``error`` says whether that
    was enough.
    """
    from scipy.sparse.linalg import LinearOperator, cg

    left = limit

    def count(_: Floats) -> None:
        nonlocal left
        left -= 1

    def direction(outputs: Floats, g: Floats, move: float) -> Floats:
        if left <= 0:
            return np.zeros_like(g)
        p = probabilities(outputs)
        side = g.size
        H = LinearOperator(
            (side, side), lambda v: f.hessian_product(p, v.reshape(g.shape)).reshape(-1)
        )
        size = float(np.linalg.norm(g))
        # Far from the minimum a rough direction is enough; near it, what remains is to be below
        # the tolerance.
        stop = max(min(0.1, size / (move + size)) * 0.1 * size, 0.5 * ACCURACY * move)
        found, _ = cg(H, -g.reshape(-1), rtol=0.0, atol=stop, maxiter=left, callback=count)
        return np.asarray(found).reshape(g.shape)

    z = _newton(f, direction, 0.9 * ACCURACY)
    return Step(z, gradient_error(f, z))


def _newton(f: Objective, direction: Callable[[Floats, Floats, float], Floats], tol: float) -> Any:
    """Return z with ‖∇f‖ ≤ tol·λ‖z‖, or where no step decreases f.

    ``direction`` gives a step from the outputs, the gradient and λ‖z‖.
    """
    z = np.zeros((f.B.shape[1], f.outputs.shape[1]))
    for _ in range(_ITERATIONS):
        outputs = f.outputs + f.B @ z  # not updated: rounding errors of updates would add up
        g = f.gradient(z, outputs)
        move = f.coefficient * float(np.linalg.norm(z))
        if np.linalg.norm(g) <= tol * move:
            break
        step = _shortened(f, (z, outputs), direction(outputs, g, move), g)
        z = _centred(z + step)
        if np.linalg.norm(step) <= 0.01 * tol * np.linalg.norm(z):
            break
    return z


def _shortened(f: Objective, point: tuple[Floats, Floats], step: Floats, g: Floats) -> Floats:
    """Return the step, halved until f decreases by a part of what its slope promises."""
    z, outputs = point
    change = f.B @ step
    slope = float(np.sum(g * step))
    before = f.value(z, outputs)
    length = 1.0
    for _ in range(60):
        after = f.value(z + length * step, outputs + length * change)
        if after <= before + 1e-4 * length * slope + 1e-14 * abs(before):
            return length * step
        length /= 2
    return np.zeros_like(step)


def gradient_error(f: Objective, z: Floats) -> float:
    """Return ‖∇f(z)‖/(λ‖z‖), a bound on the relative error of z by strong convexity."""
    size = float(np.linalg.norm(f.gradient(z, f.outputs + f.B @ z)))
    if size == 0.0:
        return 0.0
    move = f.coefficient * float(np.linalg.norm(z))
    return size / move if move else math.inf


def _curvature_error(f: Objective, z: Floats) -> float:
    """Return another bound on the relative error of z; infinite where it proves nothing.

    For λ ≪ β rounding errors of the outputs alone make ‖g‖/λ large, though they are harmless: they
    lie where f is steep. With H ≤ ∇²f in a ball around z also ‖z − z⋆‖² ≤ gᵀH⁻¹g/λ_min(H), if that
    is less than the radius of the ball: along the segment to z⋆ the slope decreases at least as
    fast as H says.
    """
    outputs = f.outputs + f.B @ z
    right = f.gradient(z, outputs).reshape(-1)
    size = float(np.linalg.norm(z))
    if size == 0.0:
        return math.inf
    # The second derivative of a row changes by at most itself times the range of the change of
    # outputs.
    reach = np.linalg.norm(f.B, axis=1) * _BALL * size
    H = f.hessian(probabilities(outputs), f.weights * np.exp(-math.sqrt(2.0) * reach))
    eigenvalues = np.linalg.eigvalsh(H)
    smallest = max(f.coefficient, float(eigenvalues[0] - 1e-14 * eigenvalues[-1]))
    bound = math.sqrt(max(float(right @ _solve(H, right)), 0.0) / smallest) / size
    return bound if bound < _BALL else math.inf


def _solve(H: Floats, right: Floats) -> Floats:
    from scipy.linalg import LinAlgError, cho_factor, cho_solve

    try:
        factor = cho_factor(H, lower=True, check_finite=False)
        return np.asarray(cho_solve(factor, right, check_finite=False))
    except LinAlgError:  # λ is below the rounding errors of H
        return np.asarray(np.linalg.lstsq(H, right, rcond=None)[0])
