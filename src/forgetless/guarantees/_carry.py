"""Majorants carried backwards from the last step to the first: of the last iterate, of the tasks seen, of averages."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from forgetless._core.arrays import Floats
from forgetless.guarantees._majorant import INFLATION, Mesh
from forgetless.guarantees._steps import Steps, least_m
from forgetless.reporting.progress import Progress, silent

_HOPELESS = 1e6
"""sup f beyond which no step brings it back below the trivial bound, sup f = 1."""

_TELL = 256


@dataclass(frozen=True, eq=False)
class Carried:
    """What came out: twice the loss over R²D² is at most ``sup``, with the m of every step that gave it."""

    sup: float
    m: Floats


def last_iterate(steps: Steps, mesh: Mesh, report_progress: Progress = silent) -> Carried:
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
    """Return m = ½ + ½(n − t + 1)/n for t = 1..n: about how u at a maximiser moves."""
    return np.asarray(0.5 + 0.5 * np.arange(n, 0, -1) / max(n, 1))


def _backwards(
    steps: Steps, mesh: Mesh, line: Floats, rho: float | None, report_steps: Callable[[int], None]
) -> tuple[Carried, float]:
    """Carry f = ρ backwards; every sup on the way is a bound too, since no step expands."""
    g, m = np.ones_like(mesh.r), line.copy()
    least, at = math.inf, 1.0
    for t in range(len(m) - 1, -1, -1):
        alpha, at = mesh.sup(g)
        least = min(least, alpha)
        if alpha > _HOPELESS:
            return Carried(least, m), at
        kappa = float(steps.kappa[t])
        if rho is not None:
            u = rho * float(np.interp(rho, mesh.r, g)) / alpha
            m[t] = max(1 - (1 - u) * (1 - kappa * rho), least_m(kappa))
        g = mesh.step(g, alpha, kappa, steps.price(t, m[t]), m[t])
        if t % _TELL == 0:
            report_steps(len(m) - t)
    alpha, at = mesh.sup(g)
    return Carried(min(least, alpha), m), at


def seen_tasks(steps: Steps, mesh: Mesh, k: int, report_progress: Progress = silent) -> Carried:
    """Return the bound for the loss of the tasks seen: one more function, h, carried along with f.

    h ← T h + ((1 + s)f + (1 + 1/s)νρ)/k with s = 1.5κ, a split of (I − M)Φ(H)(I − M) between Φ and M; T is the step.
    The steps that are not used see k⁻¹ each, which is what a task can lose at most.
    """
    n = len(steps.kappa)
    f, h, m = np.ones_like(mesh.r), np.zeros_like(mesh.r), rising(n)
    for t in range(n - 1, -1, -1):
        kappa = float(steps.kappa[t])
        split, q = seen_split(kappa), steps.price(t, m[t])
        alpha, top = mesh.sup(f)[0], mesh.sup(h)[0]
        if max(alpha, top) > _HOPELESS:
            return Carried(math.inf, m)
        h = mesh.step(h, top, kappa, q, m[t])
        h += (((1 + split) / k) * f + (1 + 1 / split) * float(steps.nu[t]) / k) * (1 + INFLATION)
        f = mesh.step(f, alpha, kappa, q, m[t])
        if t % _TELL == 0:
            report_progress(n - t, n, "steps")
    return Carried((mesh.sup(h)[0] + steps.unused / k) * (1 + INFLATION), m)


def seen_split(kappa: float) -> float:
    """Return s > 0; 1.5κ is near the best of several shapes."""
    return max(1.5 * kappa, 1e-12)


def averaged(steps: Steps, mesh: Mesh, power: float, report_progress: Progress = silent) -> Carried:
    """Return the bound for the average loss of Σ ω_t w_t, ω_t ∝ t^r for t = 1..k; steps that are κ_t times their base.

    f ← T f + ρ(ω² + 2ω·tail) where tail = Σ_{r>t} ω_r Π(1 − κρ): the mean of what comes is known, M̄ = κB.
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
        if t % _TELL == 1:
            report_progress(k - t + 1, k, "steps")
    return Carried(mesh.sup(g)[0], np.empty(0))


def average_weights(k: int, power: float) -> Floats:
    """Return upper bounds of t^r/Σt^r, t = 1..k."""
    weights = (np.arange(1, k + 1) / k) ** power
    return np.asarray(weights / math.fsum(weights) * (1 + INFLATION))
