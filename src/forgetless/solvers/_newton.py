"""Newton's method for the proximal step of a smooth loss, by factorisations or by conjugate
gradients, and its error.

The unknown is the change z of the weights, in the coordinates of the smaller side of X, so that a
tiny change is as accurate as a large one. f(z) = Σ_i ℓ(o_i + (Bz)_i) + (λ/2)‖z‖² with the outputs o
before the step.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from forgetless._core.arrays import Floats
from forgetless.losses import Loss

LIMIT = 100  # Newton iterations; some 5 to 30 are needed
PASSES = 20_000  # of conjugate gradients
# radii, relative to the change, of balls in which curvatures are bounded from below
BALLS = (1e-10, 1e-11, 1e-12)


class Objective(NamedTuple):
    """A loss of rows plus a proximal term."""

    B: Floats  # (n, r)
    outputs: Floats  # before the step, (n,) or (n, c)
    y: Any  # 1.0 for rows multiplied by their labels
    coefficient: float
    loss: Loss

    def gradient(self, z: Floats, outputs: Floats) -> Floats:
        return centred(self.coefficient * z + self.B.T @ self.loss.slope(outputs, self.y))

    def value(self, z: Floats, outputs: Floats) -> float:
        return float(
            np.sum(self.loss.value(outputs, self.y)) + 0.5 * self.coefficient * np.sum(z * z)
        )

    def hessian(self, curvatures: Floats) -> Floats:
        """Return the matrix λI + Σ_i h_i b_i b_iᵀ, of side r, or rc for c outputs."""
        if curvatures.ndim == 1:
            H = (self.B * curvatures[:, None]).T @ self.B
        else:
            r, c = self.B.shape[1], curvatures.shape[1]
            H = np.zeros((r, c, r, c))
            for i in range(c):
                for j in range(c):
                    H[:, i, :, j] = (self.B * curvatures[:, i, j, None]).T @ self.B
            H = H.reshape(r * c, r * c)
        H[np.diag_indices_from(H)] += self.coefficient
        return H

    def curvature_product(self, curvatures: Floats, change: Floats) -> Floats:
        """Return h_i·(Bz)_i of every row, from ``change`` = Bz."""
        return np.asarray(
            curvatures * change
            if curvatures.ndim == 1
            else np.einsum("nij,nj->ni", curvatures, change)
        )


def centred(z: Floats) -> Floats:
    """Return z less its mean over the classes, which is rounding: slopes of softmax sum to 0, and
    so does the change.

    Along the mean f is as flat as λ allows, so that rounding errors would be largest there.
    """
    return z if z.ndim == 1 else z - z.mean(axis=1, keepdims=True)


class Minimum(NamedTuple):
    """The result of an iteration."""

    z: Floats
    passes: int  # products with B or Bᵀ, or factorisations
    error: float  # bound on the relative error of z


def by_factorization(f: Objective, tol: float) -> Minimum:
    """Return the minimum by Newton steps with Cholesky factorisations."""
    z = np.zeros((f.B.shape[1], *f.outputs.shape[1:]))
    outputs, iteration = f.outputs, 0
    while iteration < LIMIT:
        iteration += 1
        g = f.gradient(z, outputs)
        if _small(g, tol * f.coefficient, z):
            break
        step = -_solve(f.hessian(f.loss.curvature(outputs, f.y)), g.reshape(-1)).reshape(z.shape)
        last = _small(step, 0.01 * tol, z)
        length = 1.0 if last else _line_search(f, (z, outputs), (step, f.B @ step), g)
        z = centred(z + length * step)
        outputs = f.outputs + f.B @ z  # not updated, since rounding errors of updates would add up
        if last or length == 0.0:
            break
    return Minimum(z, iteration, relative_error(f, z, outputs))


def by_conjugate_gradients(f: Objective, tol: float, limit: int = PASSES) -> Minimum:
    """Return the minimum by Newton steps that are solved by conjugate gradients: products with B
    and Bᵀ only.

    It ends after about ``limit`` of them; ``error`` says whether that was enough.
    """
    z = np.zeros((f.B.shape[1], *f.outputs.shape[1:]))
    outputs, passes = f.outputs, 1  # the outputs before the step
    for _ in range(LIMIT):
        g = f.gradient(z, outputs)
        passes += 1
        size, move = float(np.linalg.norm(g)), f.coefficient * float(np.linalg.norm(z))
        if size <= tol * move or size == 0.0 or passes > limit:
            break
        # Far from the minimum a rough direction is enough; near it, what remains is to be below the
        # tolerance.
        stop = max(min(0.1, size / (move + size)) * 0.1 * size, 0.5 * tol * move)
        step, change, used = _conjugate_gradients(
            f, f.loss.curvature(outputs, f.y), -g, stop, limit - passes
        )
        length = _line_search(f, (z, outputs), (step, change), g)
        if length == 0.0:
            break
        z, outputs = centred(z + length * step), outputs + length * change
        passes += used
    error = 0.0 if size == 0.0 else size / move if move else math.inf
    return Minimum(z, passes, error)


def _conjugate_gradients(
    f: Objective, curvatures: Floats, right: Floats, stop: float, limit: int
) -> tuple[Floats, Floats, int]:
    """Return d with ‖Hd − right‖ ≤ ``stop``, Bd, and the number of products with B and Bᵀ."""
    d, change, passes = np.zeros_like(right), np.zeros_like(f.outputs), 0
    residual, q = right.copy(), right.copy()
    square = float(np.sum(residual * residual))
    while square > stop * stop and passes < limit:
        Bq = f.B @ q
        Hq = f.B.T @ f.curvature_product(curvatures, Bq) + f.coefficient * q
        passes += 2
        a = square / float(np.sum(q * Hq))
        d, change, residual = d + a * q, change + a * Bq, residual - a * Hq
        before, square = square, float(np.sum(residual * residual))
        q = residual + (square / before) * q
    return d, change, passes


def _line_search(
    f: Objective, point: tuple[Floats, Floats], step: tuple[Floats, Floats], g: Floats
) -> float:
    """Return a length in [0, 1] at which f is not larger, and its slope is small or still
    negative.
    """
    (z, outputs), (d, change) = point, step
    downhill = float(np.sum(g * d))
    if not downhill < 0.0:
        return 0.0

    def slope(t: float) -> float:
        slopes = f.loss.slope(outputs + t * change, f.y)
        return float(np.sum(slopes * change) + f.coefficient * np.sum((z + t * d) * d))

    if slope(1.0) <= -0.1 * downhill:
        before = f.value(z, outputs)
        if f.value(z + d, outputs + change) <= before + 1e-14 * abs(before):
            return 1.0
    low, high = 0.0, 1.0
    for _ in range(60):  # the slope increases, and at its zero f is smallest
        middle = 0.5 * (low + high)
        at = slope(middle)
        low, high = (middle, high) if at <= 0.0 else (low, middle)
        if 0.5 * downhill <= at <= 0.0:
            break
    return low


def relative_error(f: Objective, z: Floats, outputs: Floats) -> float:
    """Return a bound on ‖z − z⋆‖/‖z‖, proved by the gradient g at z.

    By strong convexity ‖z − z⋆‖ ≤ ‖g‖/λ. For λ ≪ β rounding errors of the outputs alone make this
    large, though they are harmless: they lie where f is steep. With H ≤ ∇²f in a ball around z also
    ‖z − z⋆‖² ≤ gᵀH⁻¹g/λ_min(H), if that is less than the radius of the ball: along the segment to
    z⋆ the slope decreases at least as fast as H says.
    """
    g, size = f.gradient(z, outputs), float(np.linalg.norm(z))
    first = float(np.linalg.norm(g)) / f.coefficient
    if first == 0.0:
        return 0.0
    if size == 0.0:
        return math.inf
    if first <= 1e-11 * size:  # the second bound would cost more than it is worth
        return first / size
    right = g.reshape(-1)
    bounds = [first]
    for ball in BALLS:
        H = f.hessian(_least_curvatures(f, outputs, ball * size))
        eigenvalues = np.linalg.eigvalsh(H)
        smallest = max(f.coefficient, float(eigenvalues[0] - 1e-14 * eigenvalues[-1]))
        second = math.sqrt(max(float(right @ _solve(H, right)), 0.0) / smallest)
        if second < ball * size:
            bounds.append(second)
    return min(bounds) / size


def _least_curvatures(f: Objective, outputs: Floats, radius: float) -> Floats:
    """Return lower bounds of the curvatures of all rows in a ball: third derivatives of these
    losses are bounded.
    """
    reach = np.linalg.norm(f.B, axis=1) * radius
    curvatures = f.loss.curvature(outputs, f.y)
    if f.loss.name == "squared_hinge":
        return np.asarray(np.where(1.0 - outputs * f.y > reach, curvatures, 0.0))
    # |ℓ‴| ≤ ℓ″ for logistic; for softmax the change of ℓ″ is at most ℓ″ times the range of the
    # change of outputs.
    if curvatures.ndim == 1:
        return np.asarray(curvatures * np.exp(-reach))
    return np.asarray(curvatures * np.exp(-math.sqrt(2.0) * reach)[:, None, None])


def _small(vector: Floats, factor: float, z: Floats) -> bool:
    return float(np.linalg.norm(vector)) <= factor * float(np.linalg.norm(z))


def _solve(H: Floats, right: Floats) -> Floats:
    from scipy.linalg import LinAlgError, cho_factor, cho_solve

    try:
        return np.asarray(
            cho_solve(cho_factor(H, lower=True, check_finite=False), right, check_finite=False)
        )
    except LinAlgError:  # λ is below the rounding errors of H
        return np.asarray(np.linalg.lstsq(H, right, rcond=None)[0])
