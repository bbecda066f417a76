"""The upper bound of every small horizon, compiled: part (c) of the proofs."""

import math

import numpy as np
from numba import njit

_INFLATE = 2.0**-44
"""More than fifty roundings of 2^-53, relative to what they round: each step adds this part of g
and of α."""


@njit(cache=True)
def sup_over_two(n, eta, explicit, r):  # type: ignore[no-untyped-def]
    """Return an upper bound of E L after n − 1 steps at R = D = 1: ½ sup ρg, with g convex,
    falling, on nodes r.
    """
    g = np.ones(len(r))
    alpha = 1.0
    for i in range(2, n + 1):
        e = eta * i / n
        kappa = e / (1 + e) if explicit else e
        c, more = kappa * kappa, 0.0
        if explicit and n > 2:  # a single filter may be its own base: q = 0
            c = (e * (3 + 2 * e)) ** 2 / (8 * (1 + e) ** 3)
            more = e**3 / (2 * (1 + e) ** 2)
        for at in range(len(r)):
            keep = max(0.0, (1 - kappa * r[at]) ** 2 - more * r[at])
            g[at] = keep * g[at] + alpha * (c - kappa * kappa * r[at]) + _INFLATE * (g[at] + alpha)
        top = 0.0
        for at in range(len(r) - 1):
            left, right = r[at] * g[at], r[at + 1] * g[at + 1]
            slope = (g[at + 1] - g[at]) / (r[at + 1] - r[at])
            best = max(left, right)
            if slope < 0:
                x = (g[at] - slope * r[at]) / (-2 * slope)
                if r[at] < x < r[at + 1]:
                    best = max(best, x * (g[at] + slope * (x - r[at])))
            top = max(top, best)
        alpha = min(alpha, top * (1 + _INFLATE))
    return alpha / 2


@njit(cache=True)
def worst_horizon(stop, eta, explicit, per_decade):  # type: ignore[no-untyped-def]
    """Return the largest n·½ sup f over 2 ≤ n < stop, and its n."""
    worst, where = 0.0, 0
    for n in range(2, stop):
        low = math.log10(0.05 / n)
        count = int(-per_decade * low) + 1
        r = np.empty(count + 2)
        r[0] = 0.0
        for at in range(count):
            r[at + 1] = 10.0 ** (low * (count - at) / count)
        r[count + 1] = 1.0
        value = n * sup_over_two(n, eta, explicit, r) * (1 + _INFLATE)
        if value > worst:
            worst, where = value, n
    return worst, where
