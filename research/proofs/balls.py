"""The same upper bounds in ball arithmetic (python-flint): every number is enclosed, so that the
last digit is proved.

Nothing is shared with the floating-point code but the nodes, the m of every step and the formulas
of ridge steps. Values at the nodes are replaced by the upper ends of their balls at every step.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flint import arb, ctx

from forgetless import Filter
from forgetless._running import track
from forgetless.schedules import resolve
from forgetless.theory.majorants import half_supremum, seen_split
from forgetless.theory.steps import (
    EIGENVALUES,
    Steps,
    budgets_of,
    coefficients_of,
    in_units,
    ridge_price,
    ridge_share,
    steps_of,
)

_BITS = 120

Ball = Any
"""A flint.arb; the package has no types."""


def upper_bound_in_balls(
    schedule: Any,
    k: int,
    *,
    quantity: str = "average_loss",
    radius: float = 1.0,
) -> float:
    """Return the constant of ``fl.upper_bound`` in ball arithmetic."""
    filter_ = resolve(schedule, k, radius)
    floats = half_supremum(steps_of(in_units(filter_, radius), k), k, quantity)
    unit = in_balls(filter_, k, radius, quantity, floats)
    return k * min(0.5, unit * (1 + 2.0**-50))  # the product rounds


def in_balls(
    filter_: Filter,
    k: int,
    radius: float,
    quantity: str,
    found: Any,
) -> float:
    """Return the bound over R²D² anew, for the mesh and the m with which floats found theirs,
    rounded upwards.
    """
    before = ctx.prec
    ctx.prec = _BITS
    try:
        steps = _steps(filter_, k, arb(radius) ** 2, found.steps, arb)
        r = [arb(float(rho)) for rho in found.mesh.r]
        m = [arb(float(each)) for each in found.m]
        if quantity == "seen_loss":
            top = _seen(steps, r, m, k, found.steps.unused, arb)
        else:
            top = _last(steps, r, m, arb)
        return math.nextafter(
            float((top / 2).upper()), math.inf
        )  # float() may round to either side
    finally:
        ctx.prec = before


# --- steps
# ------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Step:
    kappa: Ball
    nu: Ball
    price: Callable[[Ball], Ball]


def _steps(filter_: Filter, k: int, square: Ball, floats: Steps, arb: Any) -> list[_Step]:
    """Return the steps that have a bound, from the numbers of the filter as they are."""
    coefficients, budgets = coefficients_of(filter_, k), budgets_of(filter_, k)
    if coefficients is not None:
        lam = [float(each) for each in coefficients[floats.unused :]]
        mu = max(lam, default=0.0)
        return [
            _ridge(arb(each) / square, arb(mu) / square, each == mu or floats.proportional)
            for each in lam
        ]
    if budgets is None:
        raise ValueError(
            f"schedule has filters of type {type(filter_).__name__}; ball arithmetic needs a filter"
            " whose formula is known, Ridge, GradientDescent or Projection"
        )
    pairs = [(int(n), float(gamma)) for n, gamma in zip(*budgets, strict=True)][floats.unused :]
    if not pairs:
        return []
    base = min(n for n, _ in pairs), min(gamma for _, gamma in pairs)
    if not arb(max(gamma for _, gamma in pairs)) * square <= 1:
        raise ValueError(
            "step_size must be at most 1/R² to the last digit in ball arithmetic; use radius=1"
        )
    return [
        _budget(n, arb(gamma) * square, base[0], arb(base[1]) * square, (n, gamma) == base, arb)
        for n, gamma in pairs
    ]


def _free(m: Ball) -> Ball:
    return 0 * m


def _ridge(lam: Ball, mu: Ball, own: bool) -> _Step:
    kappa = ridge_share(lam)
    if own:
        return _Step(kappa, kappa**2, _free)
    nu, w = kappa**2, (mu - 2 * lam) / (2 * lam * (mu - lam))
    if not w < kappa:  # the parabola's top, whether or not it surely lies inside
        nu = nu.max((1 - lam * w) * (1 + (mu - lam) * w) / (1 + mu))
    beta = (mu - lam) / (1 + mu)
    return _Step(kappa, nu, lambda m: ridge_price(beta, 1 / lam, m))


def _budget(n: int, gamma: Ball, base_n: int, base_gamma: Ball, own: bool, arb: Any) -> _Step:
    kappa = 1 - (1 - gamma) ** n
    if own or n == base_n == 1:
        return _Step(kappa, kappa**2, _free)
    top = 1 - (1 - base_gamma) ** base_n
    xi = [arb(float(each)) for each in EIGENVALUES[1:]]
    phi = [1 - (1 - gamma * x) ** n for x in xi]
    psi = [n * gamma * top / (base_n * base_gamma)]
    psi += [
        f * top / (1 - (1 - base_gamma * x) ** base_n)
        for f, x in zip(phi[:-1], xi[:-1], strict=True)
    ]
    cells = [((each - kappa).nonnegative_part(), f) for each, f in zip(psi, phi, strict=True)]

    def price(m: Ball) -> Ball:
        q = arb(0)
        for theta, f in cells:
            rest = theta * (2 * m - f) + kappa * (kappa - f).nonnegative_part()
            if rest > 0:
                q = q.max(theta * theta / rest)
            elif not theta <= 0:  # too close to zero to tell: the quotient is at most θ/(2m − φ)
                q = q.max(theta.upper() / (2 * m - f))
        return q

    nu = arb(0)
    for each, f in zip(psi, phi, strict=True):
        nu = nu.max(each * f)
    return _Step(kappa, nu, price)


# --- majorants
# ------------------------------------------------------------------------------------------


def _sup(r: list[Ball], g: list[Ball], arb: Any) -> Ball:
    """Return sup ρg(ρ): the tops of the parabolas, whether or not they surely lie in their
    cells.
    """
    best = arb(0)
    for a, b, left, right in zip(r[:-1], r[1:], g[:-1], g[1:], strict=True):
        best = best.max((b * right).upper())
        drop = (left - right) / (b - a)
        if drop > 0:
            whole = left + drop * a
            at = whole / (2 * drop)
            if not (at < a or at > b):
                best = best.max((whole * whole / (4 * drop)).upper())
    return best.upper()


def _step(r: list[Ball], g: list[Ball], step: _Step, m: Ball, arb: Any) -> tuple[list[Ball], Ball]:
    """Return the majorant one step earlier, and sup f."""
    alpha = _sup(r, g, arb)
    if not alpha > 0:
        return g, alpha
    kappa, q = step.kappa, step.price(m)
    new, e = [], []
    for rho, value in zip(r, g, strict=True):
        w = 1 - kappa * rho
        e.append(1 - m - (1 - rho * value / alpha) * w)
        new.append(w * w * value + alpha * kappa * kappa * (1 - rho) + q * alpha * e[-1] ** 2)
    bends = [arb(0)]
    for i in range(len(r) - 1):
        h = r[i + 1] - r[i]
        slope = (g[i + 1] - g[i]) / h
        curve = h * h * (2 * abs(slope) + 2 * kappa * (g[i].max(g[i + 1]) + abs(slope) * r[i + 1]))
        far = abs(e[i]).max(abs(e[i + 1])) + curve / (8 * alpha)
        bends.append(h * h * kappa * slope.nonnegative_part() / 2 + q * far * curve / 4)
    bends.append(arb(0))
    return [
        (value + left.max(right)).upper()
        for value, left, right in zip(new, bends, bends[1:], strict=False)
    ], alpha


def _last(steps: list[_Step], r: list[Ball], m: list[Ball], arb: Any) -> Ball:
    g = [arb(1)] * len(r)
    least = arb(1)
    for t in track(range(len(steps) - 1, -1, -1), "steps in balls"):
        g, alpha = _step(r, g, steps[t], m[t], arb)
        least = least.min(alpha)
    return least.min(_sup(r, g, arb))


def _seen(steps: list[_Step], r: list[Ball], m: list[Ball], k: int, unused: int, arb: Any) -> Ball:
    f, h = [arb(1)] * len(r), [arb(0)] * len(r)
    for t in track(range(len(steps) - 1, -1, -1), "steps in balls"):
        s = arb(seen_split(float(steps[t].kappa)))  # any s > 0 will do
        h, _ = _step(r, h, steps[t], m[t], arb)
        more = (1 + 1 / s) * steps[t].nu / k
        h = [(a + (1 + s) / k * b + more).upper() for a, b in zip(h, f, strict=True)]
        f, _ = _step(r, f, steps[t], m[t], arb)
    return _sup(r, h, arb) + arb(unused) / k
