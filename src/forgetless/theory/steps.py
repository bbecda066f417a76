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
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forgetless._validate import Floats
from forgetless.filters import Filter, GradientDescent, Projection, Ridge

ROUNDED = 2.0**-46
"""Relative inflation of numbers of a step: 128 roundings, where it has fewer than 32, and 64 at its
end.
"""

TRUSTED = 1e-8
"""Relative error that a filter of another class may have."""

EIGENVALUES = np.concatenate([[0.0], np.logspace(-6.0, 0.0, 193)])
"""Ends of the cells on which suprema are bounded."""

_STEEPEST = 1e12  # no mutant: near it the bound is the trivial one either way
"""φ′(0) from which on a step of a varying schedule has no bound: q is of that size."""

LINEAR = "χ(ξ) = ξ"


Price = Callable[[int, float], float]
"""A function from a step, an index from 0, and m to q."""


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
        (t, m) → q of step t; m is above κ_t/2.
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
    price: Price
    proportional: bool
    base: str
    unused: int = 0
    assumes: str = ""

    @property
    def one_filter(self) -> bool:
        """Whether all steps have the same filter, and learn something."""
        first = self.kappa[:1]
        return self.proportional and bool(np.all((self.kappa == first) & (first > 0)))


def upwards(value: Any) -> Any:
    """Return nonnegative numbers, inflated by more than they may have been rounded down."""
    return value * (1 + ROUNDED)


def downwards(value: Any) -> Any:
    """Return nonnegative numbers, deflated by more than they may have been rounded up."""
    return value * (1 - ROUNDED)


def least_m(kappa: float) -> float:
    """Return the least m that is used: above κ/2, where the denominator of q is positive."""
    return 0.55 * kappa


def in_units(filter_: Filter, radius: float) -> Filter:
    """Return the filter for tasks of radius 1 that is equivalent to this one for tasks of another
    radius.
    """
    # With R = 0 all losses are 0, and a projection knows no units.
    if radius == 0 or type(filter_) is Projection:
        return filter_
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
    return _own(filter_, k)


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


def factors_at_radius(filter_: Filter, k: int) -> Floats:
    """Return κ_1..κ_k of a filter for tasks of radius 1; ValueError where ψ_t is not known to be
    nonincreasing.
    """
    coefficients = coefficients_of(filter_, k)
    if coefficients is not None:
        _check_order("coefficient never falls", coefficients)
        return np.asarray(ridge_share(coefficients))
    budgets = budgets_of(filter_, k)
    if budgets is None:
        # One fixed filter: ψ is the same at every step.
        return steps_of(filter_, k).kappa
    n_steps, sizes = budgets
    # d ln φ/d ln ξ falls in N and in γ ≤ 1/R², as for ``_budget``; single steps have the same ψ.
    _check_order("number of gradient steps never rises", -n_steps)
    if np.any(n_steps > 1):
        _check_order("step size never rises", -sizes)
    if float(sizes.max()) > 1 + ROUNDED:
        raise ValueError(
            f"the step size reaches {sizes.max():.6g}/R², and the bound needs at most 1/R²"
        )
    with np.errstate(divide="ignore"):
        return np.asarray(-np.expm1(n_steps * np.log1p(-np.minimum(sizes, 1.0))))


def _check_order(rule: str, values: Any) -> None:
    """Raise ValueError naming the first pair of steps at which values, or −values, fall."""
    wrong = np.diff(values) < 0
    if wrong.any():
        t = int(np.argmax(wrong))
        raise ValueError(
            f"the bound for exchangeable orders needs a schedule whose {rule}, got"
            f" {abs(values[t]):.6g} at step {t + 1} and {abs(values[t + 1]):.6g} at step {t + 2}"
            " (in units of R²); use e.g. fl.schedules.minimax()"
        )


# --- explicit L2 ---


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
    first = coefficients[0]
    if np.all(coefficients == first):
        base = f"Ridge({first:.6g} R²)/κ" if first else "Projection()"
        return _proportional(ridge_share(coefficients), f"its own, {base}")
    # Steps up to the last one whose φ′(0) = 1/λ is so large that it has no bound.
    without = np.flatnonzero(coefficients * _STEEPEST < 1.0)
    unused = int(np.max(without + 1, initial=0))
    lam = coefficients[unused:]
    mu = float(lam.max(initial=0.0))
    # The bounds include the cancellation in μ − λ.
    beta = (upwards(mu) - downwards(lam)) / (1 + mu)
    eta = upwards(1 / lam)
    kappa = ridge_share(lam)

    def price(t: int, m: float) -> float:
        return float(upwards(ridge_price(beta[t], eta[t], m)))

    # φ²/χ = (1 − λw)(1 + (μ − λ)w)/(1 + μ), a concave parabola in w = 1/(ξ + λ), between w = κ at
    # ξ = 1 and w = η at ξ = 0.
    with np.errstate(divide="ignore", invalid="ignore"):
        top = (mu - 2 * lam) / (2 * lam * (mu - lam))
    w = np.clip(np.where(lam < mu, top, kappa), kappa, eta)
    highest = (1 - lam * w) * (1 + (mu - lam) * w) / (1 + mu)
    nu = upwards(np.maximum(kappa**2, highest))
    base = f"that of the largest coefficient, Ridge({mu:.6g} R²)/κ"
    return Steps(kappa, nu, price, False, base, unused)


# --- budgets of gradient steps ---


def _budget(n_steps: NDArray[np.int64], step_sizes: Floats) -> Steps:
    """Return the steps of budgets.

    φ_t/χ is nonincreasing where the base has neither more nor larger gradient steps, since
    d ln φ/d ln ξ = N/Σ_{i<N} x^{−i}, x = 1 − γξ, decreases in N and in γ as long as γ ≤ 1. Single
    steps of one size may exceed 1/R²: then κ > 1, and only ``one_filter`` has a bound.
    """
    largest = float(step_sizes.max())
    single = bool(np.all(n_steps == 1))
    if single and 1 + ROUNDED < largest < 2 - TRUSTED and np.all(step_sizes == largest):
        return _proportional(step_sizes, LINEAR)
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
    # A single gradient step is φ(ξ) = γξ, so that φ/κ is the same for all step sizes.
    if np.all((n == n[0]) & ((gamma == least) | (n == 1))):
        own = f"its own, GradientDescent({least_n}, {least:.6g}/R²)/κ"
        return _proportional(kappa, LINEAR if least_n == 1 else own)
    smallest = GradientDescent(least_n, least)
    base = EIGENVALUES
    slope = 1.0
    name = LINEAR
    if least_n > 1:
        share = float(smallest.factors(1.0))
        base = np.asarray(smallest.factors(EIGENVALUES) / share)
        slope = least_n * least / share
        name = f"that of the fewest and smallest steps, {smallest!r}/κ"
    # ψ_t(0) = φ_t′(0)/χ′(0), with φ′(0) = Nγ.
    nu, price = _cells(GradientDescent(n, gamma), upwards(n * gamma / slope), base)
    return Steps(kappa, nu, price, False, name)


# --- any filter ---


def _own(filter_: Filter, k: int) -> Steps:
    """Return k equal steps of a filter of another class, in their own base."""
    name = type(filter_).__name__
    if filter_.horizon is not None:
        raise ValueError(
            "the bound needs explicit L2, gradient steps or one fixed filter, got steps of"
            f" {name} that vary"
        )
    # A constant filter has one row of factors; the last is that of ξ = 1.
    factors = filter_.table(EIGENVALUES)[0]
    kappa = factors[-1]
    if kappa > 1 + TRUSTED:
        raise ValueError(f"the bound needs κ = φ(R²) ≤ 1, got {kappa:.6g} of {name}")
    if np.any(factors < kappa * EIGENVALUES * (1 - TRUSTED)) or factors.max() > kappa + TRUSTED:
        raise ValueError(
            f"the bound needs ξφ(R²)/R² ≤ φ(ξ) ≤ φ(R²) on [0, R²], which {name} does not have"
        )
    assumes = f"the shape of the filter, checked at {len(EIGENVALUES)} eigenvalues"
    return _proportional(np.full(k, min(kappa, 1.0)), f"its own, {name}/κ", assumes)


def _cells(filter_: GradientDescent, steepest: Floats, base: Floats) -> tuple[Floats, Price]:
    """Return upper bounds of sup φ_t²/χ, and the price of every step, both cell by cell.

    Within a cell θ and ψ are largest at the left end, φ at the right. ``steepest`` is ψ_t at 0, of
    shape (n,); ``base`` holds χ at the ends of the cells.
    """
    factors = filter_.table(EIGENVALUES)[:, 1:]
    # ψ at the left ends and φ at the right ends, each of shape (steps, cells)
    psi = upwards(factors[:, :-1] / base[1:-1])
    psi = np.concatenate([steepest[:, None], psi], axis=1)
    phi = np.minimum(upwards(factors), factors[:, -1:])

    def price(t: int, m: float) -> float:
        kappa = phi[t, -1]
        # θ²/(θ(2m − φ) + κ(κ − φ)), each θ with the largest φ of its cell; 0 where θ is.
        theta = np.maximum(psi[t] - downwards(kappa), 0.0)
        rest = 2 * m * theta + kappa * downwards(kappa - phi[t]) - theta * phi[t]
        quotients = theta**2 / np.where(theta > 0.0, rest, 1.0)
        return float(upwards(quotients.max()))

    return upwards((psi * phi).max(axis=1)), price


def _proportional(kappa: Floats, base: str, assumes: str = "") -> Steps:
    """Return steps that are proportional to their base."""
    # φ²/χ = κφ ≤ κ², and θ = ψ − κ is 0: nothing is paid, whatever m is.
    nu = upwards(kappa**2)
    return Steps(kappa, nu, lambda *_: 0.0, True, base, assumes=assumes)
