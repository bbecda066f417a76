"""Steps of a schedule for an upper bound: κ, the price q of unequal singular values, and the base
that all share.

Eigenvalues ξ are in units of R². A base is a function χ on [0, 1] with χ(0) = 0, χ(1) = 1 and χ(ξ)
≥ ξ. A filter φ with φ nondecreasing, κ = φ(1) ≤ 1, ψ = φ/χ nonincreasing and θ = ψ − κ costs, for m
> κ/2,

    q = sup θ² / (θ(2m − φ) + κ(κ − φ))  over (0, 1],

which is 0 where φ = κχ; the denominator is at least θ(2m − κ). The steeper χ is at zero, the
smaller is q, so a base is as steep as the schedule allows: of ridge steps that of the largest λ, of
budgets that of the fewest and smallest steps, and one fixed filter is its own.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forgetless._validate import Floats
from forgetless.filters import Filter, GradientDescent, Projection, Ridge

ROUNDED = 2.0**-48
"""Relative inflation of numbers of a step: 32 roundings."""

TRUSTED = 1e-8
"""Relative error that a custom filter may have, and the tolerance of the checks of its shape."""

EIGENVALUES = np.concatenate([[0.0], np.logspace(-6.0, 0.0, 193)])
"""Ends of the cells on which suprema are bounded."""

_STEEPEST = 1e12
"""φ′(0) from which on a step of a varying schedule has no bound: q is of that size."""

_TINY = np.logspace(-18.0, -6.0, 25)
"""Eigenvalues at which the slope of a filter at zero is estimated."""

LINEAR = "χ(ξ) = ξ"

_BLOCK = 1024
"""Steps whose cells are computed together."""


@dataclass(frozen=True, eq=False)
class Steps:
    """The steps of a schedule from the first on that has a bound, with a base for all of
    them.

    Attributes
    ----------
    kappa : array of shape (n,)
        φ_t(1).
    nu : array of shape (n,)
        At least sup φ_t²/χ.
    price : callable
        (t, m) → q of step t, an index from 0; m is at least ``least_m(κ_t)``.
    proportional : bool
        Whether φ_t = κ_tχ at all steps, so that q = 0.
    base : str
        χ as text.
    unused : int
        Number of earlier steps, of which only is used that they do not expand the error.
    assumes : str
        Hypotheses that were checked at some points only; empty if there are none.
    """

    kappa: Floats
    nu: Floats
    price: Callable[[int, float], float]
    proportional: bool
    base: str
    unused: int = 0
    assumes: str = ""

    @property
    def one_filter(self) -> bool:
        """Whether all steps have the same filter, and learn something."""
        first = self.kappa[:1]
        return self.proportional and bool(np.all((self.kappa == first) & (first > 0)))


def least_m(kappa: float) -> float:
    """Return the least m that is used: above κ/2, where the denominator of q is positive."""
    return 0.55 * kappa


def in_units(filter_: Filter, radius: float) -> Filter:
    """Return the filter for tasks of radius 1 that is equivalent to this one for tasks of another
    radius.
    """
    square = radius * radius
    if not 0.0 < square < np.inf or not 1.0 / square < np.inf:
        raise ValueError(
            f"radius² and its inverse must be floats, got radius {radius!r}; rescale the data"
            " towards 1"
        )
    with np.errstate(over="ignore"):
        return filter_.scaled(1 / square)


def steps_of(filter_: Filter, k: int) -> Steps:
    """Return the steps of a filter for tasks of radius 1; ValueError names the hypothesis that
    fails.
    """
    coefficients = coefficients_of(filter_, k)
    if coefficients is not None:
        if not np.all(coefficients < 1e150):
            raise ValueError("coefficients must be below 1e150 R²; those that large learn nothing")
        return _ridge(coefficients)
    budgets = budgets_of(filter_, k)
    if budgets is not None:
        return _budget(*budgets)
    return _any(filter_, k)


def coefficients_of(filter_: Filter, k: int) -> Floats | None:
    """Return λ_1..λ_k if all steps are explicit L2 or projections, else None."""
    if type(filter_) in (Ridge, Projection):  # not derived classes, which may compute anything
        return np.array(np.broadcast_to(filter_.strength(), (k,)))
    return None


def budgets_of(filter_: Filter, k: int) -> tuple[NDArray[np.int64], Floats] | None:
    """Return N_1..N_k and γ_1..γ_k if all steps are budgets of gradient steps, else None."""
    if type(filter_) is not GradientDescent:
        return None
    n_steps = np.array(np.broadcast_to(filter_.n_steps, (k,)))
    return n_steps, np.array(np.broadcast_to(filter_.step_size, (k,)))


def overshooting(filter_: Filter, k: int) -> float | None:
    """Return γR² if every task takes one gradient step of the same size above 1/R² and below 2/R²;
    else None.
    """
    budgets = budgets_of(filter_, k)
    if budgets is None:
        return None
    n_steps, sizes = budgets
    same = np.all(n_steps == 1) and np.all(sizes == sizes[0])
    return float(sizes[0]) if same and 1 + ROUNDED < sizes[0] < 2 - TRUSTED else None


# --- explicit L2
# ------------------------------------------------------------------------------------------


def ridge_share(coefficient: Any) -> Any:
    """Return κ = 1/(1 + λ); numbers, arrays and balls."""
    return 1 / (1 + coefficient)


def ridge_price(beta: Any, eta: Any, m: Any) -> Any:
    """Return q = β²η²/(1 + 2mβ(1 + η)), β = (μ − λ)/(1 + μ), η = 1/λ, for the base of μ ≥ λ and m ≥
    κ/2.

    With w = 1/(ξ + λ) = κ + s the quotient in the definition of q is β²s/(κ(λ − β) + 2mβ + βλs),
    which increases up to ξ = 0, where s = κη. It increases in β and in η.
    """
    return beta * beta * eta * eta / (1 + 2 * m * beta * (1 + eta))


def _ridge(coefficients: Floats) -> Steps:
    if np.all(coefficients == coefficients[0]):
        base = f"Ridge({coefficients[0]:.6g} R²)/κ" if coefficients[0] else "Projection()"
        return _proportional(ridge_share(coefficients), f"its own, {base}")
    unused = _after_last(coefficients * _STEEPEST < 1.0)
    lam = coefficients[unused:]
    mu = float(lam.max(initial=0.0))
    # λ = μ exactly makes β = 0; elsewhere the bounds include the cancellation in μ − λ.
    beta = np.where(lam == mu, 0.0, (mu * (1 + ROUNDED) - lam * (1 - ROUNDED)) / (1 + mu))
    eta = (1 + ROUNDED) / lam
    kappa = ridge_share(lam)

    def price(t: int, m: float) -> float:
        return float(ridge_price(beta[t], eta[t], m)) * (1 + ROUNDED)

    # φ²/χ = (1 − λw)(1 + (μ − λ)w)/(1 + μ), a concave parabola in w = 1/(ξ + λ), between ξ = 1 and
    # ξ = 0
    with np.errstate(divide="ignore", invalid="ignore"):
        top = (mu - 2 * lam) / (2 * lam * (mu - lam))
    w = np.clip(np.where(lam < mu, top, kappa), kappa, eta)
    nu = np.maximum(kappa**2, (1 - lam * w) * (1 + (mu - lam) * w) / (1 + mu)) * (1 + ROUNDED)
    return Steps(
        kappa, nu, price, False, f"that of the largest coefficient, Ridge({mu:.6g} R²)/κ", unused
    )


# --- budgets of gradient steps
# ----------------------------------------------------------------------------------------


def _budget(n_steps: NDArray[np.int64], step_sizes: Floats) -> Steps:
    """Return the steps of budgets: φ_t/χ is nonincreasing where the base has neither more nor
    larger gradient steps.

    Since d ln φ/d ln ξ = N/Σ_{i<N} x^{−i}, x = 1 − γξ, which decreases in N and in γ as long as γ ≤
    1.
    """
    largest = float(step_sizes.max())
    if largest > 1 + ROUNDED:
        raise ValueError(
            f"the step size reaches {largest:.6g}/R², and the bound needs κ = φ(R²) ≤ 1: use"
            " step sizes of at most 1/R², or one step of the same size below 2/R² on every task"
        )
    n = n_steps
    gamma = np.minimum(step_sizes, 1.0)
    with np.errstate(divide="ignore"):
        kappa = -np.expm1(n * np.log1p(-gamma))
    least_n = int(n.min())
    least = float(gamma.min())
    if np.all((n == n[0]) & ((gamma == least) | (n == 1))):
        name = LINEAR if least_n == 1 else f"its own, GradientDescent({least_n}, {least:.6g}/R²)/κ"
        return _proportional(kappa, name)
    base, name, slope = EIGENVALUES, LINEAR, 1.0
    if least_n > 1:
        filter_ = GradientDescent(least_n, least)
        base = np.asarray(filter_.factors(EIGENVALUES) / filter_.factors(1.0))
        name = (
            f"that of the fewest and smallest steps, GradientDescent({least_n}, {least:.6g}/R²)/κ"
        )
        slope = least_n * least / float(filter_.factors(1.0))
    cells = _Cells(
        GradientDescent(n, gamma), n * gamma / slope * (1 + ROUNDED), base, kappa, ROUNDED
    )
    same = (n == least_n) & ((gamma == least) | (n == 1))
    return Steps(kappa, cells.nu(), lambda t, m: 0.0 if same[t] else cells.price(t, m), False, name)


# --- any filter
# ------------------------------------------------------------------------------------------


def _any(filter_: Filter, k: int) -> Steps:
    """Return the steps of custom filters, in their own base or in χ(ξ) = ξ."""
    name, points = (
        type(filter_).__name__,
        f"the shape of the filter, checked at {len(EIGENVALUES)} eigenvalues",
    )
    if filter_.horizon is None:
        factors = _checked(filter_, filter_.table(EIGENVALUES))[0]
        if np.any(factors < factors[-1] * EIGENVALUES * (1 - TRUSTED)):
            raise ValueError(
                f"the bound needs φ(ξ) ≥ ξφ(R²)/R² on [0, R²], which {name} does not have"
            )
        return _proportional(np.full(k, factors[-1]), f"its own, {name}/κ", assumes=points)
    with np.errstate(divide="ignore"):
        slopes = 1.0 / np.asarray(filter_.strength())
    unused = _after_last(~(slopes < _STEEPEST))
    kappa = np.empty(k)
    for part in parts(k):
        factors = _checked(filter_, filter_[part].table(EIGENVALUES))
        kappa[part] = factors[:, -1]
        ratio = factors[max(0, unused - part.start) :, 1:] / EIGENVALUES[1:]
        if np.any(ratio[:, 1:] > np.minimum.accumulate(ratio, axis=1)[:, :-1] * (1 + TRUSTED)):
            raise ValueError(
                "the bound needs φ(ξ)/ξ nonincreasing on (0, R²], as it is for a concave φ;"
                f" {name} increases it"
            )
        used = slice(part.stop - len(ratio), part.stop)
        steep = filter_[used].table(_TINY) / _TINY
        slopes[used] = np.maximum(
            np.maximum(slopes[used], steep.max(axis=1)) * (1 + 1e-6), ratio[:, 0]
        )
    rest, slopes, kappa = filter_[unused:k], slopes[unused:], kappa[unused:]
    cells = _Cells(rest, slopes, EIGENVALUES, kappa, TRUSTED)
    assumes = f"{points}, and its slope at zero, estimated down to 1e-18 R²"
    return Steps(kappa, cells.nu(), cells.price, False, LINEAR, unused, assumes)


def _checked(filter_: Filter, factors: Floats) -> Floats:
    name = type(filter_).__name__
    if np.any(factors[:, -1] > 1 + TRUSTED):
        raise ValueError(f"the bound needs κ = φ(R²) ≤ 1, got {factors[:, -1].max():.6g} of {name}")
    if np.any(factors < -TRUSTED) or np.any(factors[:, 1:] < factors[:, :-1] - TRUSTED):
        raise ValueError(
            f"the bound needs φ nonnegative and nondecreasing on [0, R²], which {name} is not"
        )
    return np.clip(factors, 0.0, 1.0)


@dataclass(frozen=True, eq=False)
class _Cells:
    """Suprema over (0, 1], bounded cell by cell: θ and ψ are largest at the left end of a cell, φ
    at the right.

    ``steepest`` is ψ at 0, of shape (n,); ``base`` holds χ at the ends of the cells; ``error`` is
    that of the shares.
    """

    filter: Filter
    steepest: Floats
    base: Floats
    kappa: Floats
    error: float
    cache: dict[int, tuple[Floats, Floats, Floats]] = field(default_factory=dict)

    def price(self, t: int, m: float) -> float:
        """Return q = max θ²/(2mθ + κ(κ − φ) − θφ) over the cells."""
        block = t // _BLOCK
        if block not in self.cache:  # only the last block, since steps are asked for in order
            self.cache.clear()
            self.cache[block] = self._quotients(slice(block * _BLOCK, (block + 1) * _BLOCK))
        square, theta, rest = (each[t % _BLOCK] for each in self.cache[block])
        return float((square / (2 * m * theta + rest)).max()) * (1 + 8 * self.error)

    def _quotients(self, part: slice) -> tuple[Floats, Floats, Floats]:
        psi, phi = self._ends(part)
        kappa = self.kappa[part, None]
        theta = np.maximum(psi - kappa * (1 - self.error), 0.0)
        rest = kappa * (kappa - phi) * (1 - self.error) - theta * phi
        return theta**2, theta, np.where(theta > 0.0, rest, 1.0)

    def nu(self) -> Floats:
        """Return upper bounds of sup φ²/χ."""
        nu = np.empty(len(self.kappa))
        for part in parts(len(nu)):
            psi, phi = self._ends(part)
            nu[part] = (psi * phi).max(axis=1) * (1 + ROUNDED)
        return nu

    def _ends(self, part: slice) -> tuple[Floats, Floats]:
        """Return upper bounds of ψ at the left ends and of φ at the right ends, each of shape (n,
        cells).
        """
        phi = self.filter[part].table(EIGENVALUES)[:, 1:]
        psi = phi[:, :-1] / self.base[1:-1] * (1 + self.error)
        psi = np.concatenate([self.steepest[part, None], psi], axis=1)
        return psi, np.minimum(phi * (1 + self.error), self.kappa[part, None])


def parts(n: int) -> list[slice]:
    """Return slices of n steps whose cells are computed together."""
    return [slice(first, min(first + _BLOCK, n)) for first in range(0, n, _BLOCK)]


def _free(t: int, m: float) -> float:  # noqa: ARG001 - the signature of prices
    return 0.0


def _proportional(kappa: Floats, base: str, assumes: str = "") -> Steps:
    """Return steps that are proportional to their base."""
    return Steps(kappa, kappa**2 * (1 + ROUNDED), _free, True, base, assumes=assumes)


def _after_last(stop: NDArray[np.bool_]) -> int:
    """Return the number of steps up to the last one that has no bound."""
    return int(np.flatnonzero(stop)[-1]) + 1 if stop.any() else 0
