"""Backward recursions of majorants, from the last step to the first: last iterate, tasks seen, averages."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from forgetless._core.arrays import Floats
from forgetless.guarantees._majorant import INFLATION, Mesh
from forgetless.guarantees._steps import Steps, least_m
from forgetless.reporting.progress import Progress, silent

_DIVERGED = 1e6
"""sup f above which no further step returns below the trivial bound, sup f = 1."""

_REPORT_EVERY = 256


@dataclass(frozen=True, eq=False)
class MajorantBound:
    """An upper bound ``sup`` of twice the loss over R²D², and the m of every step that it was computed with."""

    sup: float
    m: Floats


def last_iterate(steps: Steps, mesh: Mesh, report_progress: Progress = silent) -> MajorantBound:
    """Return the bound for the average loss of the last iterate: the better of two choices of m.

    The first rises along a line from ½; the second follows u at the maximiser that the first ends with, where the last
    term of a step then vanishes.
    """
    n = len(steps.kappa)
    passes = 1 if steps.proportional else 2
    line = rising(n)
    first, at = _backwards(steps, mesh, line, None, lambda done: report_progress(done, passes * n, "steps"))
    if steps.proportional:
        return first
    second, _ = _backwards(steps, mesh, line, at, lambda done: report_progress(n + done, passes * n, "steps"))
    return min(first, second, key=lambda each: each.sup)


def rising(n: int) -> Floats:
    """Return m = ½ + ½(n − t + 1)/n for t = 1..n: roughly the path of u at a maximiser."""
    return np.asarray(0.5 + 0.5 * np.arange(n, 0, -1) / max(n, 1))


def _backwards(
    steps: Steps, mesh: Mesh, line: Floats, rho: float | None, report_steps: Callable[[int], None]
) -> tuple[MajorantBound, float]:
    """Return the bound from f = ρ after the last step, and its maximiser; every intermediate sup is a bound, too."""
    g, m = np.ones_like(mesh.r), line.copy()
    least, at = math.inf, 1.0
    for t in range(len(m) - 1, -1, -1):
        alpha, at = mesh.sup(g)
        least = min(least, alpha)
        if alpha > _DIVERGED:
            return MajorantBound(least, m), at
        kappa = float(steps.kappa[t])
        if rho is not None:
            u = rho * float(np.interp(rho, mesh.r, g)) / alpha
            m[t] = max(1 - (1 - u) * (1 - kappa * rho), least_m(kappa))
        g = mesh.step(g, alpha, kappa, steps.price(t, m[t]), m[t])
        if t % _REPORT_EVERY == 0:
            report_steps(len(m) - t)
    alpha, at = mesh.sup(g)
    return MajorantBound(min(least, alpha), m), at


def seen_tasks(steps: Steps, mesh: Mesh, k: int, report_progress: Progress = silent) -> MajorantBound:
    """Return the bound for the loss of the tasks seen: a second function, h, beside f.

    h ← T h + ((1 + s)f + (1 + 1/s)νρ)/k with s = 1.5κ, a split of (I − M)Φ(H)(I − M) between Φ and M; T is the step.
    Each unused step adds k⁻¹, the largest loss of a task.
    """
    n = len(steps.kappa)
    f, h, m = np.ones_like(mesh.r), np.zeros_like(mesh.r), rising(n)
    for t in range(n - 1, -1, -1):
        kappa = float(steps.kappa[t])
        split, q = seen_split(kappa), steps.price(t, m[t])
        alpha, top = mesh.sup(f)[0], mesh.sup(h)[0]
        if max(alpha, top) > _DIVERGED:
            return MajorantBound(math.inf, m)
        h = mesh.step(h, top, kappa, q, m[t])
        h += (((1 + split) / k) * f + (1 + 1 / split) * float(steps.nu[t]) / k) * (1 + INFLATION)
        f = mesh.step(f, alpha, kappa, q, m[t])
        if t % _REPORT_EVERY == 0:
            report_progress(n - t, n, "steps")
    return MajorantBound((mesh.sup(h)[0] + steps.unused / k) * (1 + INFLATION), m)


def seen_split(kappa: float) -> float:
    """Return s > 0; 1.5κ is near the best of several shapes."""
    return max(1.5 * kappa, 1e-12)


def averaged(steps: Steps, mesh: Mesh, power: float, report_progress: Progress = silent) -> MajorantBound:
    """Return the bound for the average loss of Σ ω_t w_t, ω_t ∝ t^r for t = 1..k; steps that are κ_t times their base.

    f ← T f + ρ(ω² + 2ω·tail) where tail = Σ_{r>t} ω_r Π(1 − κρ): the mean of later steps is M̄ = κB.
    """
    k = len(steps.kappa)
    omega = np.append(0.0, average_weights(k, power))
    g, tail = np.full_like(mesh.r, omega[k] ** 2), np.zeros_like(mesh.r)
    for t in range(k, 0, -1):
        kappa = float(steps.kappa[t - 1])
        tail += omega[t]
        tail = (1 - kappa * mesh.r + INFLATION) * tail  # 1 − κρ has no relative accuracy near κρ = 1
        g = mesh.step(g, mesh.sup(g)[0], kappa)
        if omega[t - 1] > 0:
            g += (omega[t - 1] ** 2 + 2 * omega[t - 1] * tail) * (1 + INFLATION)
        if t % _REPORT_EVERY == 1:
            report_progress(k - t + 1, k, "steps")
    return MajorantBound(mesh.sup(g)[0], np.empty(0))


def average_weights(k: int, power: float) -> Floats:
    """Return upper bounds of t^r/Σt^r, t = 1..k."""
    weights = (np.arange(1, k + 1) / k) ** power
    return np.asarray(weights / math.fsum(weights) * (1 + INFLATION))
