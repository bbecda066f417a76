"""``Mesh.sup`` and ``Mesh.step`` compiled: the same operations in the same order of magnitude, node
by node.
"""

import numpy as np

from forgetless._core.arrays import Floats
from forgetless._core.compiled import jit


@jit(nogil=True)
def sup(r: Floats, g: Floats, inflation: float) -> tuple[float, float]:
    best, where = r[0] * g[0], r[0]
    for i in range(len(r) - 1):
        h, drop = r[i + 1] - r[i], g[i] - g[i + 1]
        if r[i + 1] * g[i + 1] > best:
            best, where = r[i + 1] * g[i + 1], r[i + 1]
        if drop > 0.0 and max(r[i] * g[i], r[i + 1] * g[i + 1]) + 0.25 * h * drop > best:
            tau = min(max(0.5 * (g[i] / drop - r[i] / h), 0.0), 1.0)
            top = (r[i] + tau * h) * (g[i] - tau * drop)
            if top > best:
                best, where = top, r[i] + tau * h
    return best + abs(best) * inflation, where


@jit(nogil=True)
def step(
    r: Floats, g: Floats, alpha: float, kappa: float, q: float, m: float, inflation: float
) -> Floats:
    new = np.empty_like(g)
    far_before, bend_before = 0.0, 0.0
    for i in range(len(r)):
        w = 1.0 - kappa * r[i]
        value = w * w * g[i] + alpha * kappa * kappa * (1.0 - r[i])
        e = 1.0 - m - (1.0 - r[i] * g[i] / alpha) * w
        value += q * alpha * (e * e)
        new[i] = value + inflation * g[i] + inflation * alpha * (kappa + q)
        if i > 0:
            h, rise = r[i] - r[i - 1], g[i] - g[i - 1]
            bend = 0.5 * kappa * h * max(rise, 0.0)
            if q > 0.0:
                steep = abs(rise)
                curve = 2.0 * h * (steep + kappa * (max(g[i - 1], g[i]) * h + steep * r[i]))
                bend += 0.25 * q * (max(far_before, abs(e)) + curve / (8.0 * alpha)) * curve
            bend *= 1.0 + 2.0**-40
            new[i - 1] += max(bend_before, bend)
            bend_before = bend
        far_before = abs(e)
    new[-1] += bend_before
    return new
