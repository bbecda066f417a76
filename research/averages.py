"""Upper bounds for averages Σ ω_t w_t of the iterates, and the weights with the smallest bound.

The steps are κ_t times their base (one fixed filter, or one gradient step a task), tasks are drawn
with replacement, and the loss is the average loss (Theorem 7 of docs/proofs.md). The weights are
found by L-BFGS with the exact gradient.
"""

import math
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

import forgetless as fl
from forgetless import _validate as validate
from forgetless._running import one_blas_thread
from forgetless.schedules import ScheduleLike
from forgetless.theory.majorants import INFLATION, PER_DECADE, Mesh
from forgetless.theory.steps import Steps, steps_of
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


def average_bound(schedule: ScheduleLike, k: int, power: float) -> float:
    """Return a bound over R²D² of the average with weights in proportion to t^power.

    Examples
    --------
    >>> import forgetless as fl
    >>> from research.averages import average_bound
    >>> round(256 * average_bound(fl.Projection(), k=256, power=2), 3)
    0.259
    """
    steps = _alike_steps(schedule, k)
    weights = (np.arange(1, k + 1) / k) ** power
    weights = weights / math.fsum(weights) * (1 + INFLATION)
    return min(0.5, _averaged(steps, Mesh.of(k), np.append(0.0, weights)))


@one_blas_thread()
def optimal_average(
    schedule: ScheduleLike, k: int, *, per_decade: int = PER_DECADE
) -> OptimalAverage:
    """Return the weights of w_0..w_k whose average has the smallest upper bound (Theorem 7 of
    docs/proofs.md).

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
    >>> round(best.constant, 4)
    0.2459
    """
    k = validate.integer("k", k, 1, "ask for at least one step")
    nodes = Mesh.of(k).r
    validate.check_memory(2.0 * k * len(nodes), f"the gradient of {k:,} weights", "ask for fewer")
    steps = _alike_steps(schedule, k)
    weights = optimal_weights(steps.kappa, nodes)
    # Rounded weights may sum to a little less than 1.
    rounded = weights * (1 + INFLATION + k * 2.0**-52)
    bound = _averaged(steps, Mesh.of(k, per_decade), rounded)
    return OptimalAverage(min(bound, 0.5), weights)


def _alike_steps(schedule: ScheduleLike, k: int) -> Steps:
    """Return the steps of a schedule; ValueError if averages of them have no bound."""
    steps = steps_of(fl.schedules.resolve(schedule, k, 1.0), k)
    if not steps.proportional or steps.unused or steps.kappa.max() > 1:
        raise ValueError(
            "averages have a bound for one fixed filter, or for one gradient step of at most 1/R² a"
            " task, such as fl.Projection()"
        )
    return steps


def _averaged(steps: Steps, mesh: Mesh, omega: Floats) -> float:
    """Return the bound of Σ ω_t w_t, t = 0..k.

    f ← T f + ρ(ω² + 2ω·tail) where tail = Σ_{r>t} ω_r Π(1 − κρ): the mean of later steps is M̄ =
    κB.
    """
    k = len(steps.kappa)
    g = np.full_like(mesh.r, omega[k] ** 2)
    tail = np.zeros_like(mesh.r)
    for t in range(k, 0, -1):
        kappa = float(steps.kappa[t - 1])
        # 1 − κρ has no relative accuracy near κρ = 1
        tail = (1 - kappa * mesh.r + INFLATION) * (tail + omega[t])
        g = mesh.step(g, mesh.sup(g)[0], kappa)
        g += (omega[t - 1] ** 2 + 2 * omega[t - 1] * tail) * (1 + INFLATION)
    return mesh.sup(g)[0] / 2


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
