"""Weights of an average of iterates that minimise its upper bound, by L-BFGS with the exact
gradient.
"""

import numpy as np

from forgetless._core.arrays import Floats

_ROUNDS = 400
"""Most iterations of a descent; a few hundred are enough up to k = 1000."""


def optimal_weights(kappa: Floats, nodes: Floats) -> Floats:
    """Return the weights ω_0..ω_k of w_0..w_k, which sum to 1, for steps that are κ_t times one
    base.
    """
    from scipy.optimize import minimize

    k = len(kappa)

    def value(y: Floats) -> tuple[float, Floats]:
        omega = np.exp(y - y.max())
        omega /= omega.sum()
        top, slopes = sup_and_slopes(kappa, omega, nodes)
        return float(np.log(top)), omega * (slopes - float(slopes @ omega)) / top

    start = 2 * np.log(np.maximum(np.arange(k + 1) / k, 1e-3))  # weights t²
    options = {"maxiter": _ROUNDS, "maxfun": 2 * _ROUNDS, "maxcor": 30, "ftol": 1e-13}
    best = minimize(value, start, jac=True, method="L-BFGS-B", options=options).x
    omega = np.exp(best - best.max())
    return np.asarray(omega / omega.sum())


def sup_and_slopes(kappa: Floats, omega: Floats, r: Floats) -> tuple[float, Floats]:
    """Return sup f_0 over the nodes r for an average of iterates, and its derivatives by the
    weights ω_0..ω_k.

    Forwards f ← (1 − κρ)²f + ακ²ρ(1 − ρ) + ρ(ω² + 2ω·tail), last step first, tail being the sum of
    later weights times products of 1 − κρ; backwards the adjoints p of f and q of the tail, with
    all maximisers held fixed.
    """
    k, spread = len(kappa), r * (1 - r)
    f, tail, at = np.empty((k + 1, len(r))), np.zeros((k + 2, len(r))), np.zeros(k + 1, np.int64)
    f[k] = omega[k] ** 2 * r
    for t in range(k, 0, -1):
        w = 1 - kappa[t - 1] * r
        tail[t] = w * (omega[t] + tail[t + 1])
        at[t] = f[t].argmax()
        alpha = f[t, at[t]]
        f[t - 1] = w * w * f[t] + alpha * kappa[t - 1] ** 2 * spread
        f[t - 1] += r * (omega[t - 1] ** 2 + 2 * omega[t - 1] * tail[t])
    at[0] = f[0].argmax()
    p, q, slopes = np.zeros(len(r)), np.zeros(len(r)), np.zeros(k + 1)
    p[at[0]] = 1.0
    for t in range(1, k + 1):
        w = 1 - kappa[t - 1] * r
        slopes[t - 1] += float(p @ (r * 2 * (omega[t - 1] + tail[t])))
        q = q + p * r * 2 * omega[t - 1]
        slopes[t] += float(q @ w)
        by_alpha = kappa[t - 1] ** 2 * float(p @ spread)
        p = p * w * w
        p[at[t]] += by_alpha
        q = q * w
    slopes[k] += float(p @ (2 * omega[k] * r))
    return float(f[0, at[0]]), slopes
