"""Weights of an average of iterates that minimise its upper bound, by L-BFGS with the exact
gradient.
"""

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

import forgetless as fl
from forgetless import _validate as validate
from forgetless._threads import one_blas_thread
from forgetless.schedules import ScheduleLike
from forgetless.theory.majorants import INFLATION, PER_DECADE, Mesh, averaged
from forgetless.theory.steps import steps_of
from forgetless.theory.upper import check_alike
from research.arrays import Floats

_ROUNDS = 400
"""Most iterations of a descent; a few hundred are enough up to k = 1000."""


class OptimalAverage(NamedTuple):
    """An average Σ ω_t w_t over t = 0..k, and the bound of its expected average loss over R²D²."""

    value: float
    weights: Floats

    @property
    def constant(self) -> float:
        """The value times k."""
        return (len(self.weights) - 1) * self.value


@one_blas_thread()
def optimal_average(
    schedule: ScheduleLike, k: int, *, per_decade: int = PER_DECADE
) -> OptimalAverage:
    """Return the weights of w_0..w_k whose average has the smallest upper bound (Theorem 7 of
    docs/upper-bounds.md).

    For one fixed filter, or one gradient step a task; for tasks drawn with replacement.

    Parameters
    ----------
    schedule : schedule, filter, name or number
    k : int
    per_decade : int, default 90
        Nodes per factor ten of the mesh of the bound; finer meshes lower it in the fourth digit.

    Examples
    --------
    >>> import forgetless as fl
    >>> import research
    >>> best = research.optimal_average(fl.Projection(), k=16)
    >>> round(best.constant, 4), round(fl.upper_bound(fl.Projection(), 16, average=2).constant, 4)
    (0.2459, 0.2493)
    """
    k = validate.integer("k", k, 1, "ask for at least one step")
    nodes = Mesh.of(k).r
    validate.check_memory(2.0 * k * len(nodes), f"the gradient of {k:,} weights", "ask for fewer")
    steps = steps_of(fl.schedules.resolve(schedule, k, 1.0), k)
    check_alike(steps)
    weights = optimal_weights(steps.kappa, nodes)
    # Rounded weights may sum to a little less than 1.
    rounded = weights * (1 + INFLATION + k * 2.0**-52)
    bound = averaged(steps, Mesh.of(k, per_decade), rounded).sup / 2
    return OptimalAverage(min(bound, 0.5), weights)


def optimal_weights(kappa: Floats, nodes: Floats) -> Floats:
    """Return the weights ω_0..ω_k of w_0..w_k, which sum to 1, for steps that are κ_t times one
    base.
    """
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
    k = len(kappa)
    spread = r * (1 - r)
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
