"""Schedules that minimise their own upper bound: all k strengths at once, by the exact gradient."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from scipy.optimize import minimize

import forgetless as fl
from forgetless import _validate as validate
from forgetless._running import one_blas_thread, track
from forgetless.theory.majorants import Mesh, half_supremum, rising
from forgetless.theory.steps import ridge_price, steps_of
from forgetless.theory.upper import UpperBound
from research.arrays import Floats

_ROUNDS = 400
"""Most iterations of a descent; a few hundred are enough up to k = 1000."""

_FINE = 320
"""Nodes per decade of the bound that is returned: it is made once, and the last digits are
what was asked for."""

_SHARPEST = 1e-4
"""The least γ_tR² and 1 − γ_tR² that descent looks at, and the least λ_t/R²: q grows like 1/λ."""


@dataclass(frozen=True, repr=False)
class MinimaxSchedule:
    """Strengths of a schedule for exactly k steps, with their upper bound.

    Attributes
    ----------
    scheme : "budget" or "ridge"
    strengths : tuple of float
        γ_tR², one gradient step a task, or λ_t/R².
    upper_bound : UpperBound
        For R = D = 1.
    """

    scheme: str
    strengths: tuple[float, ...]
    upper_bound: UpperBound

    @property
    def value(self) -> float:
        """The bound of the expected average loss over R²D²."""
        return self.upper_bound.value

    @property
    def constant(self) -> float:
        """The value times k."""
        return self.upper_bound.constant

    def __call__(self, k: int, radius: float) -> fl.Filter:
        """Return the filter for tasks of radius R."""
        filter_ = _filter(self.scheme, np.array(self.strengths), radius**2 or 1.0)
        return fl.schedules.resolve(filter_, k, radius)

    def __repr__(self) -> str:
        symbol = "γR²" if self.scheme == "budget" else "λ/R²"
        ends = f"{symbol} = {self.strengths[0]:.3g} … {self.strengths[-1]:.3g}"
        return (
            f"MinimaxSchedule(k={len(self.strengths)}, {ends}, upper bound {self.constant:.4f}"
            " R²D²/k)"
        )


@one_blas_thread()
def minimax_schedule(k: int, *, scheme: Literal["budget", "ridge"] = "budget") -> MinimaxSchedule:
    """Return the k strengths that minimise the upper bound of the average loss, as far as descent
    finds them.

    ``fl.upper_bound`` bounds the expected loss on every collection that one model fits, so this is
    the schedule with the smallest constant proved in this way, up to local minima. By L-BFGS with
    the exact gradient: at every supremum on the way the maximiser may be held fixed (envelope
    theorem).

    Parameters
    ----------
    k : int
        Number of steps. A gradient costs two passes over them, and descent some hundred gradients.
    scheme : "budget" or "ridge"
        One gradient step of size γ_t ≤ 1/R² a task, or explicit L2 with λ_t > 0.

    Returns
    -------
    MinimaxSchedule
        A schedule for these k steps, with ``.strengths`` in units of R² and ``.upper_bound``.

    Examples
    --------
    >>> import research
    >>> best = research.minimax_schedule(16)
    >>> round(best.constant, 3)
    0.272
    """
    k = validate.integer("k", k, 1, "ask for at least one step")
    if scheme not in ("budget", "ridge"):
        raise ValueError(f'scheme must be "budget" or "ridge", got {scheme!r}')
    mesh = Mesh.of(k)
    validate.check_memory(
        float(k + 1) * len(mesh.r), f"the gradient of {k:,} strengths", "ask for fewer steps"
    )
    start = 0.75 * (np.arange(k, 0, -1) / k) ** 0.3  # κ_t; other powers lead to the same end
    strengths = _Descent(k, scheme, mesh.r).run(start)
    coarse = fl.upper_bound(_filter(scheme, strengths, 1.0), k)
    steps = steps_of(_filter(scheme, strengths, 1.0), k)
    unit = half_supremum(steps, k, "average_loss", per_decade=_FINE)
    fine = replace(coarse, value=unit.per_unit, constant=k * unit.per_unit)
    return MinimaxSchedule(scheme, tuple(strengths.tolist()), fine)


def _filter(scheme: str, strengths: Floats, square: float) -> fl.Filter:
    if scheme == "budget":
        return fl.GradientDescent(1, strengths / square)
    return fl.Ridge(strengths * square)


def _strengths(scheme: str, kappa: Floats) -> Floats:
    return kappa if scheme == "budget" else np.maximum(1 / kappa - 1, _SHARPEST)


class _Descent:
    """The logarithm of the upper bound on the nodes alone, as a function of ln(κ/(1 − κ)) of all
    steps.
    """

    def __init__(self, k: int, scheme: str, nodes: Floats) -> None:
        self.k = k
        self.scheme = scheme
        self.nodes = nodes
        self.m = rising(k)
        # One item for every gradient, so that a long descent shows its progress.
        self.gradients: Any = track(range(2 * _ROUNDS), "gradients")

    def run(self, start: Floats) -> Floats:
        """Return the strengths at a local minimum, from a start κ."""
        limit = float(np.log(1 / _SHARPEST))
        start = np.clip(np.log(start / (1 - start)), -limit - np.log(self.k), limit)
        options = {
            "maxiter": _ROUNDS,
            "maxfun": 2 * _ROUNDS,
            "maxcor": 30,
            "ftol": 1e-12,
            "gtol": 1e-7,
        }
        bounds = [(-limit - np.log(self.k), limit)] * self.k
        result = minimize(
            self._value, start, method="L-BFGS-B", jac=True, bounds=bounds, options=options
        )
        self.gradients.close()
        return _strengths(self.scheme, 1 / (1 + np.exp(-result.x)))

    def _value(self, x: Floats) -> tuple[float, Floats]:
        kappa = 1 / (1 + np.exp(-x))
        if self.scheme == "budget":
            top, by_kappa, _ = sup_and_slopes(kappa, np.zeros(self.k), self.m, self.nodes)
        else:
            q, by_coefficient = _price_and_chain_rule(1 / kappa - 1, self.m)
            top, by_kappa, by_q = sup_and_slopes(kappa, q, self.m, self.nodes)
            by_kappa = by_kappa - by_coefficient(by_q) / kappa**2  # dλ/dκ = −1/κ²
        next(self.gradients, None)
        return float(np.log(top)), by_kappa / top * kappa * (1 - kappa)


def _price_and_chain_rule(lam: Floats, m: Floats) -> tuple[Floats, Callable[[Floats], Floats]]:
    """Return q of ridge steps in the base of the largest λ, and the map from derivatives by q to
    those by λ.
    """
    last = int(lam.argmax())
    mu = float(lam.max())
    beta = (mu - lam) / (1 + mu)
    eta = 1 / lam
    rest = 1 + 2 * m * beta * (1 + eta)
    by_beta = beta * eta**2 * (rest + 1) / rest**2
    by_eta = beta**2 * eta * (2 * rest - 2 * m * beta * eta) / rest**2

    def by_coefficient(by_q: Floats) -> Floats:
        by_lam = by_q * (-by_beta / (1 + mu) - by_eta * eta**2)
        by_lam[last] += float(by_q @ (by_beta * (1 + lam))) / (1 + mu) ** 2
        return by_lam

    return np.asarray(ridge_price(beta, eta, m)), by_coefficient


def sup_and_slopes(kappa: Floats, q: Floats, m: Floats, r: Floats) -> tuple[float, Floats, Floats]:
    """Return sup f_0 over the nodes and its derivatives by κ and by q of all steps, given in the
    order t = 1..k.

    Forwards the steps of the bound, last one first; backwards the adjoint p of f, which starts
    as a point mass at the maximiser of f_0 and gains one at the maximiser of every f_t, through α_t
    = sup f_t.
    """
    k = len(kappa)
    f, at, spread = np.empty((k + 1, len(r))), np.empty(k + 1, np.int64), r * (1 - r)
    f[k] = r
    for t in range(k, 0, -1):
        at[t] = f[t].argmax()
        alpha, w = f[t, at[t]], 1 - kappa[t - 1] * r
        f[t - 1] = w * w * f[t] + alpha * kappa[t - 1] ** 2 * spread
        if q[t - 1] > 0:
            f[t - 1] += q[t - 1] * alpha * r * (1 - m[t - 1] - (1 - f[t] / alpha) * w) ** 2
    at[0] = f[0].argmax()
    p, by_kappa, by_q = np.zeros(len(r)), np.empty(k), np.zeros(k)
    p[at[0]] = 1.0
    for t in range(1, k + 1):
        now, alpha, w = f[t], f[t, at[t]], 1 - kappa[t - 1] * r
        by_alpha = kappa[t - 1] ** 2 * float(p @ spread)
        slope = 2 * alpha * kappa[t - 1] * spread - 2 * r * w * now
        through = w * w
        if q[t - 1] > 0:
            e = 1 - m[t - 1] - (1 - now / alpha) * w
            by_q[t - 1] = alpha * float(p @ (r * e * e))
            slope += 2 * q[t - 1] * (alpha - now) * r * r * e
            by_alpha += q[t - 1] * float(p @ (r * e * (e - 2 * w * now / alpha)))
            through = through + 2 * q[t - 1] * r * e * w
        by_kappa[t - 1] = float(p @ slope)
        p = p * through
        p[at[t]] += by_alpha
    return float(f[0, at[0]]), by_kappa, by_q
