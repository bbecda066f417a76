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
import scipy

from forgetless._core.arrays import Floats
from forgetless._progress import track
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
        self.counted, self.factor, self.floor = law.counted(name, k, k)
        self.distances = law.teachers.distances(k + 1)

    def of(self, filter_: Filter) -> tuple[float, Floats, StepMoments]:
        """Return the objective of a filter, with E_0..E_k and the moments of its steps."""
        moments = self.law.moments(filter_)
        errors = second_moments(self.law, moments, self.k + 1, self.k)
        return self.factor * float(errors[-1, self.counted].mean()) + self.floor, errors, moments

    def __call__(self, logarithms: Floats) -> tuple[float, Floats]:
        """Return ln(objective) and its derivative with respect to every ln λ_t."""
        law = self.law
        filter_ = Ridge(np.exp(logarithms))
        loss, errors, moments = self.of(filter_)
        xi = law.spectrum.singular_values**2
        factors = filter_.table(xi)
        slopes = factors * (factors - 1.0)  # ∂φ/∂ln λ
        by_a = law.spectrum.sum(slopes) / law.n_features
        by_a2 = law.spectrum.sum(2.0 * factors * slopes) / law.n_features
        by_noise = law.noise**2 * law.spectrum.sum(2.0 * factors * slopes / xi)
        gradient = np.empty(self.k)
        order = law.teachers.order(self.k)
        V = np.bincount(self.counted, minlength=len(self.distances)) / len(self.counted)
        for t in range(self.k - 1, -1, -1):
            v = order[t]
            error = errors[t, v]
            total = V.sum()
            along_a = V @ (self.distances[v] - errors[t]) - total * error
            gradient[t] = by_a[t] * along_a + (by_a2[t] * error + by_noise[t]) * total
            V *= 1.0 - moments.learned[t]
            V[v] -= (moments.learned[t] - moments.squared[t]) * total
        loss = max(loss, 1e-290)  # a loss of 0 has no logarithm
        return math.log(loss), gradient * (self.factor / loss)


def optimal(law: Law, k: int, name: str) -> OptimalSchedule:
    """Return the schedule of least objective, never worse than the best constant."""
    objective = Objective(law, k, name)
    square = law.radius**2 or 1.0
    low, high = math.log(1e-15 * square), math.log(1e9 * k * square)
    constant, least = _best_constant(objective, low, high)
    closed = closed_form(law, name)
    if closed is None:
        # From λ = 0 nothing descends: its logarithm has no slope.
        first = float(constant.strength()) or 1e-2 * square
        found = np.exp(_descended(objective, low, high, [first, 1e-2 * square]))
    else:
        found = np.ravel(closed(k, law.radius).strength())
    loss = objective.of(Ridge(found))[0]
    if loss > (1 + _EQUAL) * least:
        found = np.full(k, constant.strength())
    loss = min(loss, least)
    # The projected gradient vanishes at a minimum.
    x = np.log(np.clip(found, math.exp(low), math.exp(high)))
    moved = np.clip(x - objective(x)[1], low, high)
    return OptimalSchedule(
        tuple(found.tolist()),
        name,
        loss,
        constant,
        least,
        float(np.max(np.abs(moved - x))),
        start="constant" if closed is None else "closed form",
        tracking=None if closed is None else limit(law, closed.arguments["walk"]),
    )


def _best_constant(objective: Objective, low: float, high: float) -> tuple[Filter, float]:
    """Return the best fixed filter and its objective."""

    def loss(logarithm: float) -> float:
        return objective.of(Ridge(math.exp(logarithm)))[0]

    unregularized = objective.of(Projection())[0]
    # Near the best point of a grid the loss has one minimum.
    grid = np.arange(low, high, 2.0)
    best = grid[np.argmin([loss(each) for each in grid])]
    bounds = (max(best - 2.0, low), best + 2.0)
    found = scipy.optimize.minimize_scalar(
        loss, bounds=bounds, method="bounded", options={"xatol": 1e-7}
    )
    if unregularized <= (1 + _EQUAL) * found.fun:
        return Projection(), unregularized
    return Ridge(math.exp(found.x)), float(found.fun)


def _descended(objective: Objective, low: float, high: float, constants: list[float]) -> Floats:
    """Return ln λ at the best end of descents: from constants, a rise, a fall and ``steady``."""
    law = objective.law
    k = objective.k
    ramp = np.linspace(-1.5, 1.5, k)
    starts = [np.full(k, math.log(each)) for each in constants]
    starts += [starts[0] + ramp, starts[0] - ramp]
    distance = math.sqrt(objective.distances[0, 1])
    if law.noise and distance:
        still = steady(law, law.noise, distance=distance)(k, law.radius)
        starts.append(np.log(still.strength()))
    options = {"maxiter": 500, "maxfun": 1000, "maxcor": 30, "ftol": 1e-14, "gtol": 1e-9}
    ends = [
        scipy.optimize.minimize(
            objective,
            np.clip(start, low, high),
            jac=True,
            method="L-BFGS-B",
            bounds=[(low, high)] * k,
            options=options,
        )
        for start in track(starts, "starts")
    ]
    return np.asarray(min(ends, key=lambda end: float(end.fun)).x)


def closed_form(law: Law, name: str) -> Named | None:
    """Return the schedule that is optimal among all spectral filters: for one teacher, or for one
    that walks where only its last position counts.
    """
    teachers = law.teachers
    if isinstance(teachers, Walk):
        walk = teachers.step
        known = name != "average_loss" or walk == 0
    elif isinstance(teachers, Exchangeable):
        walk = 0.0
        known = teachers.n_teachers == 1 or teachers.similarity == 1
    else:
        return None
    known = known and teachers.norm > 0
    return steady(law, law.noise, walk, teachers.norm) if known else None


def limit(law: Law, walk: float) -> float:
    """Return the λ that ``steady`` tends to, where a(λ)/λ = q²/(dσ²): infinite without a walk."""
    if not law.noise or not walk:
        return math.inf if law.noise else 0.0
    target = 2.0 * math.log(walk / law.noise) - math.log(law.n_features)

    def excess(logarithm: float) -> float:
        return math.log(law.mean_factor(math.exp(logarithm))) - logarithm - target

    if excess(-600.0) < 0:
        return 0.0
    return math.exp(scipy.optimize.brentq(excess, -600.0, 600.0, xtol=1e-13))
