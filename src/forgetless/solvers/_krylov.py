"""Golub–Kahan bidiagonalisation of one task: steps of both schemes and the norm, from products with
X and Xᵀ.

From the residual r, X V = U B with orthonormal U and V and a small lower bidiagonal B. The step of
any filter is then V φ(BᵀB) (BᵀB)⁻¹ Bᵀ (‖r‖ e₁), up to an error that the next off-diagonal entry
bounds. All columns of r are processed together, each with its own B.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from forgetless._core.arrays import Array, Floats, eps_of, from_numpy, namespace_of, to_numpy, zeros
from forgetless.solvers.remote import RemoteRows
from forgetless.solvers.rows import Limits, OneTask, Rows

OVERSHOOTS = 1000  # inner steps whose defects are summed one by one where γR² exceeds 1


class Iterated(NamedTuple):
    """The change of the weights, the number of passes over X, a relative error bound, and ‖r − Xδ‖²
    per column.
    """

    change: Array
    passes: int
    error: float
    after: Floats


class _Link(NamedTuple):
    v: Array
    alpha: Floats
    beta: Floats
    next_alpha: Floats
    start: Floats


def bidiagonalise(task: OneTask) -> Iterator[_Link]:
    """Yield column j of V with α_j, β_{j+1} and α_{j+1}, from r and Xᵀr; an exhausted column
    continues with zeros.
    """
    u, start = _normalised(task.residual)
    v, alpha = _normalised(task.right * _as(_ratio(1.0, start), task.right))
    while True:
        u, beta, back = _turn(task.rows, v, u, alpha)
        following, next_alpha = _normalised(back - v * _as(beta, v))
        yield _Link(v, alpha, beta, next_alpha, start)
        v, alpha = following, next_alpha


def _turn(rows: Rows, v: Array, u: Any, alpha: Floats) -> tuple[Any, Floats, Array]:
    """Return the next u, its size before it was normalised, and Xᵀu: one pass over X."""
    if isinstance(rows, RemoteRows):
        return rows.turn(v, u, alpha)
    u, beta = _normalised(rows.forward(v) - u * _as(alpha, u))
    return u, beta, rows.adjoint(u)


def ridge(
    task: OneTask, coefficient: float, limits: Limits, promise: float = math.inf
) -> Iterated | None:
    """Return (XᵀX + λ)⁻¹Xᵀr by LSQR with damping √λ in O(n + d) memory; None if the passes do not
    suffice.

    Also None as soon as, from the third pass on, the extrapolated number of passes exceeds
    ``promise``.

    Stops when ‖Xᵀ(r − Xδ) − λδ‖ ≤ tol·λ‖δ‖, which bounds the relative error of δ by tol; an
    estimate of the rounding is added. Without regularization there is no such bound: it stops when
    Xδ = r or Xᵀ(r − Xδ) = 0 up to tol, and the error is unknown (NaN).

    References
    ----------
    Paige & Saunders (1982), LSQR, with damping.
    """
    damp, tol = math.sqrt(coefficient), limits.tol
    links = bidiagonalise(task)
    first = next(links)
    x, w = zeros((task.rows.shape[1], task.n_targets), first.v), first.v
    phibar, rhobar, damped = first.start.copy(), first.alpha.copy(), np.zeros_like(first.start)
    norm2, largest = np.zeros_like(first.start), 0.0
    worst: list[float] = []
    link = first
    for count in range(1, limits.passes + 1):
        rho1 = np.hypot(rhobar, damp)
        damped = np.hypot(damped, _ratio(damp, rho1) * phibar)
        phibar = _ratio(rhobar, rho1) * phibar
        rho = np.hypot(rho1, link.beta)
        cosine, sine = _ratio(rho1, rho), _ratio(link.beta, rho)
        theta, rhobar = sine * link.next_alpha, -cosine * link.next_alpha
        phi, phibar = cosine * phibar, sine * phibar
        x = x + w * _as(_ratio(phi, rho), w)
        norm2 += link.alpha**2 + link.beta**2 + damp**2
        largest = max(largest, float(np.hypot(link.alpha, link.beta).max()))
        normal = link.next_alpha * np.abs(sine * phi)
        if coefficient > 0:
            errors = _relative(normal, coefficient * _norms(x))
        else:
            residual_size = np.hypot(phibar, damped)
            errors = np.minimum(
                _relative(normal, np.sqrt(norm2) * residual_size),
                _relative(residual_size, first.start),
            )
        worst.append(float(errors.max()))
        if promise < math.inf and _passes_promised(worst, tol) > promise:
            return None
        if errors.max() <= tol:
            # ‖r − Xδ‖² is the damped residual less λ‖δ‖².
            after = np.maximum(phibar**2 + damped**2 - coefficient * _norms(x) ** 2, 0.0)
            if coefficient == 0:
                return Iterated(x, count, math.nan, after)
            left = _relative(largest * np.sqrt(after), coefficient * _norms(x)).max()
            rounding = 4 * eps_of(x) * (1.0 + largest / damp + float(left))
            return Iterated(x, count, float(errors.max()) + rounding, after)
        link = next(links)
        w = link.v - w * _as(_ratio(theta, rho), w)
    return None


def _passes_promised(errors: list[float], tol: float) -> float:
    """Return the number of passes, extrapolated from the decay of the last two errors; 0 before the
    third.
    """
    if len(errors) < 3 or not tol < errors[-1] < math.inf or errors[-3] == math.inf:
        return 0.0
    decay = 0.5 * math.log(errors[-3] / errors[-1])
    return len(errors) + math.log(errors[-1] / tol) / decay if decay > 0 else math.inf


def budget(task: OneTask, n_steps: int, step_size: float, limits: Limits) -> Iterated | None:
    """Return the change made by N gradient steps of size γ from far fewer passes; None if the
    passes do not suffice.

    In the Krylov space the inner iterate y_i leaves a defect γ·t·|e_jᵀy_i| per step, t =
    α_{j+1}β_{j+1}, and inner steps with γR² ≤ 2 do not magnify it. So the error is at most γt Σ_i
    |e_jᵀy_i|; up to γR² = 1 all terms have one sign (they are divided differences of powers) and
    the sum is e_jᵀ h(T) e₁ in closed form. The basis is stored while it fits into memory and
    generated a second time otherwise.
    """
    shape = (task.rows.shape[1], task.n_targets)
    alphas: list[Floats] = []
    betas: list[Floats] = []
    basis: list[Array] | None = []
    itemsize = 8 * shape[0] * shape[1]
    for count, link in enumerate(bidiagonalise(task), start=1):
        alphas.append(link.alpha)
        betas.append(link.beta)
        if basis is not None:
            basis.append(link.v)
            basis = None if (count + 1) * itemsize > limits.memory else basis
        last = count >= min(n_steps, limits.passes) or not np.any(link.next_alpha * link.beta)
        if count <= 12 or count % 4 == 0 or last:
            y, bound, rounding, after = _budget_in_basis(alphas, betas, link, n_steps, step_size)
            if bound <= limits.tol or count >= n_steps:
                vectors = (
                    iter(basis) if basis is not None else (again.v for again in bidiagonalise(task))
                )
                change = zeros(shape, link.v)
                for coefficients, v in zip(y.T, vectors, strict=False):
                    change = change + v * _as(coefficients, v)
                return Iterated(
                    change, count if basis is not None else 2 * count, bound + rounding, after
                )
        if count >= limits.passes:
            return None
    raise AssertionError("the bidiagonalisation never ends")


def _budget_in_basis(
    alphas: list[Floats], betas: list[Floats], link: _Link, n_steps: int, step_size: float
) -> tuple[Floats, float, float, Floats]:
    """Return the coefficients (c, j) of the change in the basis, its relative error bound,
    rounding, and ‖r − Xδ‖².
    """
    alpha, beta = np.array(alphas).T, np.array(betas).T
    j = alpha.shape[1]
    B = np.zeros((alpha.shape[0], j + 1, j))
    at = np.arange(j)
    B[:, at, at], B[:, at + 1, at] = alpha, beta
    theta, W = np.linalg.eigh(np.swapaxes(B, 1, 2) @ B)
    theta = np.maximum(theta, 0.0)
    size = alpha[:, 0] * link.start
    gain, excess = _gains(theta, n_steps, step_size)
    weights = W[:, 0, :] * size[:, None]
    y = np.einsum("cij,cj->ci", W, gain * weights)
    if step_size * theta.max() <= 1.0:
        summed = np.abs(np.einsum("cj,cj->c", W[:, -1, :], excess * weights))
    else:
        # The factors 1 − γθ below zero change sign at every step: their terms are added one by one
        # while they last.
        summed, summed_steps = np.zeros(len(size)), min(n_steps, OVERSHOOTS)
        for i in range(1, summed_steps):
            last = np.abs(
                np.einsum("cj,cj->c", W[:, -1, :], _gains(theta, i, step_size)[0] * weights)
            )
            summed += last
        end = np.abs(np.einsum("cj,cj->c", W[:, -1, :], gain * weights))
        summed += (n_steps - summed_steps) * np.maximum(end, last if summed_steps > 1 else end)
    defect = step_size * link.next_alpha * link.beta * summed
    rounding = 4 * eps_of(link.v) * (1.0 + n_steps * step_size * float(theta.max()))
    bound = float(_relative(defect, np.linalg.norm(y, axis=1)).max())
    head = np.zeros((len(size), j + 1))
    head[:, 0] = link.start
    after = np.sum((head - np.einsum("cij,cj->ci", B, y)) ** 2, axis=1)
    return y, bound, rounding, after


def _gains(theta: Floats, n_steps: int, step_size: float) -> tuple[Floats, Floats]:
    """Return g = (1 − (1−γθ)^N)/θ and h = Σ_{i<N} (1 − (1−γθ)^i)/θ = (N − g/γ)/θ, also at θ = 0."""
    u = step_size * theta
    safe = np.where(u > 0, u, 1.0)
    with np.errstate(over="ignore", invalid="ignore"):
        inside = -np.expm1(n_steps * np.log1p(-np.minimum(safe, 0.5)))
        factors = np.where(safe <= 0.5, inside, 1.0 - (1.0 - safe) ** n_steps)
    g = np.where(u > 0, factors / safe, n_steps) * step_size
    # For N·γθ ≪ 1 the difference cancels; its limit there is γN(N−1)/2.
    tiny = n_steps * u < 1e-6
    h = (
        np.where(tiny, 0.5 * n_steps * (n_steps - 1.0), (n_steps - g / step_size) / safe)
        * step_size
    )
    return g, h


def gradient_steps(task: OneTask, n_steps: int, step_size: float) -> Iterated:
    """Return the change made by N literal gradient steps of size γ."""
    rows, residual, right, _ = task
    change = step_size * right
    left = residual - rows.forward(change)
    for _ in range(n_steps - 1):
        change = change + step_size * rows.adjoint(left)
        left = residual - rows.forward(change)
    return Iterated(change, n_steps, 4 * n_steps * eps_of(change), _norms(left) ** 2)


def norm(rows: Rows, tol: float = 1e-2, passes: int = 60) -> float:
    """Return ‖X‖₂, in practice to three digits or more, from a random start with a fixed seed.

    Stops when the residual of the largest Ritz pair is below ``tol`` relative to its value, and
    adds the residual: of second order, so that the result is exact for tasks with a spectral gap
    and otherwise at most ``tol``²/2 too high.
    """
    n = rows.shape[0]
    like = rows.single if rows.single is not None and not rows.sparse else np.zeros(0)
    start = from_numpy(np.random.default_rng(0).standard_normal((n, 1)), like=like)
    xp = namespace_of(start)
    if rows.single is not None and not rows.sparse:
        start = xp.astype(start, rows.single.dtype, copy=False)
    alphas: list[float] = []
    betas: list[float] = []
    value, right = 0.0, rows.adjoint(start)
    if isinstance(rows, RemoteRows):
        rows, start = rows.starting_at(start)
    for count, link in enumerate(bidiagonalise(OneTask(rows, start, right)), start=1):
        alphas.append(float(link.alpha[0]))
        betas.append(float(link.beta[0]))
        B = np.zeros((count + 1, count))
        B[np.arange(count), np.arange(count)] = alphas
        B[np.arange(count) + 1, np.arange(count)] = betas
        P, s, _ = np.linalg.svd(B, full_matrices=False)
        value, rest = float(s[0]), float(link.next_alpha[0]) * abs(float(P[-1, 0]))
        if rest <= tol * value or count >= min(passes, *rows.shape):
            return math.hypot(value, rest)
    raise AssertionError("the bidiagonalisation never ends")


def _norms(V: Array) -> Floats:
    xp = namespace_of(V)
    V = xp.astype(V, xp.float64, copy=False)  # squares of float32 underflow from 1e-19 down
    return np.asarray(to_numpy(xp.sqrt(xp.sum(V * V, axis=0))))


def _normalised(V: Array) -> tuple[Array, Floats]:
    size = _norms(V)
    return V * _as(_ratio(1.0, size), V), size


def _as(values: Floats, like: Array) -> Any:
    """Return one number per column in the library and dtype of ``like``."""
    if isinstance(like, np.ndarray):
        return values if like.dtype == np.float64 else values.astype(like.dtype)
    return namespace_of(like).astype(from_numpy(values, like=like), like.dtype)


def _relative(a: Any, b: Any) -> Floats:
    """Return a/b as an error: none where both are 0, infinite where only b is."""
    a, b = np.broadcast_arrays(np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64))
    quotient: Floats = np.divide(a, b, out=np.where(a > 0, np.inf, 0.0), where=b != 0)
    return quotient


def _ratio(a: Any, b: Any) -> Floats:
    """Return a/b, and 0 where b is 0: a column with nothing left to learn."""
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    quotient: Floats = np.divide(a, b, out=np.zeros(np.broadcast(a, b).shape), where=b != 0)
    return quotient
