"""Optimal ridge coefficients λ_1..λ_k for fresh random tasks: in closed form, or by descent.

The objective is a mean of E_k[i] over the teachers i that count, but for a factor and a constant.
Its derivative along the ensemble equation is a backward recursion: with V = ∂objective/∂E_t, A =
Σ_i V[i], v the number of the teacher of step t and E = E_{t−1},

    ∂/∂a = Σ_i V[i](D_vi − E[i]) − A E[v],   ∂/∂a₂ = A E[v],   ∂/∂ν = σ²A,

and V for step t − 1 is (1 − a)V, less (a − a₂)A at v. Descent is on the logarithms of λ_t, which
cover decades: from 1e-15 R², which is as good as none, to 1e9 k R², with which nothing is learned.
"""

import math

import numpy as np

from forgetless._progress import track
from forgetless._validate import Floats
from forgetless.advice.optimal import OptimalSchedule
from forgetless.ensembles._law import Law, StepMoments, second_moments
from forgetless.ensembles.teachers import Exchangeable, Walk
from forgetless.filters import Filter, Projection, Ridge
from forgetless.schedules import Named, steady

_EQUAL = 1e-12
"""Relative difference of losses that is rounding."""


class Objective:
    """The objective of k steps, with its gradient for ridge coefficients."""

    def __init__(self, law: Law, k: int, name: str) -> None:
        self.law = law
        self.k = k
        self.measured = law.measured(name, k, k)
        square = law.radius**2 or 1.0
        self.low = math.log(1e-15 * square)
        self.high = math.log(1e9 * k * square)

    def of(self, filter_: Filter) -> float:
        """Return the objective of a filter."""
        return self._computed(filter_)[0]

    def _computed(self, filter_: Filter) -> tuple[float, Floats, StepMoments]:
        """Return the objective, E_0..E_k and the moments of the steps."""
        moments = self.law.moments(filter_)
        errors = second_moments(self.law, moments, self.k + 1, self.k)
        counted, factor, floor = self.measured
        return factor * float(errors[-1, counted].mean()) + floor, errors, moments

    def __call__(self, logarithms: Floats) -> tuple[float, Floats]:
        """Return ln(objective) and its derivative with respect to every ln λ_t."""
        law = self.law
        filter_ = Ridge(np.exp(logarithms))
        loss, errors, moments = self._computed(filter_)
        xi = law.spectrum.singular_values**2
        factors = filter_.table(xi)
        slopes = factors * (factors - 1.0)  # ∂φ/∂ln λ
        by_a = law.spectrum.sum(slopes) / law.n_features
        by_a2 = law.spectrum.sum(2.0 * factors * slopes) / law.n_features
        by_noise = law.noise**2 * law.spectrum.sum(2.0 * factors * slopes / xi)
        gradient = np.empty(self.k)
        order = law.teachers.order(self.k)
        distances = law.teachers.distances(self.k + 1)
        counted = self.measured.teachers
        V = np.bincount(counted, minlength=len(distances)) / len(counted)
        for t in range(self.k - 1, -1, -1):
            v = order[t]
            error = errors[t, v]
            total = V.sum()
            along_a = V @ (distances[v] - errors[t]) - total * error
            gradient[t] = by_a[t] * along_a + (by_a2[t] * error + by_noise[t]) * total
            V *= 1.0 - moments.learned[t]
            V[v] -= (moments.learned[t] - moments.squared[t]) * total
        loss = max(loss, 1e-290)  # a loss of 0 has no logarithm
        return math.log(loss), gradient * (self.measured.factor / loss)


def optimal(law: Law, k: int, name: str) -> OptimalSchedule:
    """Return the schedule of least objective, never worse than the best constant."""
    objective = Objective(law, k, name)
    constant = _best_constant(objective)
    closed = closed_form(law, name)
    if closed is None:
        found = _descended(objective, constant)
    else:
        # The nodes of square tasks resolve no weaker strength.
        strengths = closed(k, law.radius).strength()
        found = Ridge(np.where(strengths > 0, np.maximum(strengths, law.spectrum.weakest), 0.0))
    loss, least = objective.of(found), objective.of(constant)
    coefficients = np.broadcast_to(found.strength(), (k,))
    if loss > (1 + _EQUAL) * least:
        coefficients = np.full(k, constant.strength())
    # The projected gradient vanishes at a minimum.
    x = np.log(np.clip(coefficients, math.exp(objective.low), math.exp(objective.high)))
    moved = np.clip(x - objective(x)[1], objective.low, objective.high)
    return OptimalSchedule(
        tuple(coefficients.tolist()),
        name,
        min(loss, least),
        constant,
        least,
        float(np.max(np.abs(moved - x))),
        start="constant" if closed is None else "closed form",
        tracking=None if closed is None else limit(law, closed.arguments["walk"]),
    )


def _best_constant(objective: Objective) -> Filter:
    """Return the best fixed filter."""
    from scipy.optimize import minimize_scalar

    def loss(logarithm: float) -> float:
        return objective.of(Ridge(math.exp(logarithm)))

    # Near the best point of a grid the loss has one minimum.
    grid = np.arange(objective.low, objective.high, 2.0)
    best = grid[np.argmin([loss(each) for each in grid])]
    bounds = (max(best - 2.0, objective.low), best + 2.0)
    found = minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 1e-7})
    if objective.of(Projection()) <= (1 + _EQUAL) * found.fun:
        return Projection()
    return Ridge(math.exp(found.x))


def _descended(objective: Objective, constant: Filter) -> Filter:
    """Return the best end of descents: from constants, a rise and a fall."""
    from scipy.optimize import minimize

    # From λ = 0 nothing descends: its logarithm has no slope.
    weak = 1e-2 * (objective.law.radius**2 or 1.0)
    level = float(constant.strength()) or weak
    ramp = np.geomspace(0.2, 5.0, objective.k)
    starts = [level * ramp**0, weak * ramp**0, level * ramp, level / ramp]
    bounds = (objective.low, objective.high)
    options = {"maxiter": 500, "maxfun": 1000, "maxcor": 30, "ftol": 1e-14, "gtol": 1e-9}
    ends = [
        minimize(
            objective,
            np.clip(np.log(start), *bounds),
            jac=True,
            method="L-BFGS-B",
            bounds=[bounds] * objective.k,
            options=options,
        )
        for start in track(starts, "starts")
    ]
    return Ridge(np.exp(min(ends, key=lambda end: float(end.fun)).x))


def closed_form(law: Law, name: str) -> Named | None:
    """Return the schedule that is optimal among all spectral filters: for one teacher, or for one
    that walks where only its last position counts.
    """
    teachers = law.teachers
    walk = 0.0
    if isinstance(teachers, Walk):
        walk = teachers.step
        known = name != "average_loss" or walk == 0
    elif isinstance(teachers, Exchangeable):
        known = teachers.n_teachers == 1 or teachers.similarity == 1
    else:
        return None
    if not known or teachers.norm == 0:
        return None
    return steady(law, law.noise, walk, teachers.norm)


def limit(law: Law, walk: float) -> float:
    """Return the λ that ``steady`` tends to, where a(λ)/λ = q²/(dσ²): infinite without a walk."""
    from scipy.optimize import brentq

    if not law.noise or not walk:
        return math.inf if law.noise else 0.0
    xi = law.spectrum.singular_values**2
    target = 2.0 * math.log(walk / law.noise)

    def excess(logarithm: float) -> float:
        # d a(λ)/λ = E Σ ξ/(λ(ξ + λ))
        factors = law.spectrum.sum(1.0 / (1.0 + math.exp(logarithm) / xi))
        return math.log(factors) - logarithm - target

    if excess(-600.0) < 0:
        return 0.0
    return math.exp(brentq(excess, -600.0, 600.0, xtol=1e-13))
