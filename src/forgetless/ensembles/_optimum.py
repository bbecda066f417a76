"""Optimal ridge coefficients λ_1..λ_k for fresh random tasks, in closed form.

For one teacher let e = E‖w_{t−1} − v‖². Along a direction with eigenvalue ξ the error after the
step, (1 − φ)²e/d + φ²σ²/ξ, is least at φ = ξ/(ξ + dσ²/e): no spectral filter is better than a
ridge step with λ_t = dσ²/e. The least error grows with e, so that nothing is gained by a larger
error before, and this is optimal for every number of tasks at once. It is the recursion of
``schedules.steady``, also for a teacher that walks by q, where e + q² takes the place of e.
"""

import math

import numpy as np
from scipy.optimize import minimize_scalar

from forgetless.advice.optimal import OptimalSchedule
from forgetless.ensembles._law import Law, second_moments
from forgetless.ensembles.teachers import Exchangeable, Walk
from forgetless.filters import Filter, Projection, Ridge
from forgetless.schedules import steady

_EQUAL = 1e-12
"""Relative difference of losses that is rounding."""


def optimal(law: Law, k: int, name: str) -> OptimalSchedule:
    """Return the schedule of least objective; ValueError where it has no closed form."""

    def loss(filter_: Filter) -> float:
        errors = second_moments(law, law.moments(filter_), k + 1, k)
        return float(law.evaluate(name, k, k, errors[-1].__getitem__))

    def of_constant(logarithm: float) -> float:
        return loss(Ridge(math.exp(logarithm)))

    steps = _steps(law, name)
    square = law.radius**2 or 1.0
    # From as good as no regularization to as good as no learning; the loss has one minimum.
    low = math.log(1e-15 * square)
    grid = np.arange(low, math.log(1e9 * k * square), 2.0)
    near = min(grid, key=of_constant)
    bounds = (max(near - 2.0, low), near + 2.0)
    found = minimize_scalar(of_constant, bounds=bounds, options={"xatol": 1e-7})
    constant: Filter = Ridge(math.exp(found.x))
    if loss(Projection()) <= (1.0 + _EQUAL) * found.fun:
        constant = Projection()
    strengths = steady(law, law.noise, *steps)(k, law.radius).strength()
    best_of_all = Ridge(np.array(np.broadcast_to(strengths, (k,))))
    least = loss(constant)
    return OptimalSchedule(
        coefficients=tuple(np.ravel(best_of_all.coefficient).tolist()),
        objective=name,
        loss=min(loss(best_of_all), least),  # rounding may make the constant better
        best_constant=constant,
        best_constant_loss=least,
        stationarity=0.0,
        start="closed form",
    )


def _steps(law: Law, name: str) -> tuple[float, float]:
    """Return the walk and the norm of a single teacher that the objective is about."""
    teachers = law.teachers
    if isinstance(teachers, Walk) and (name != "average_loss" or not teachers.step):
        return teachers.step, teachers.norm
    if isinstance(teachers, Exchangeable) and (teachers.similarity == 1 or teachers.turns == (1,)):
        return 0.0, teachers.norm
    raise ValueError(
        f"the optimal schedule for {name} has a closed form for one teacher, or for one that walks"
        f" and objective='distance', not for {teachers!r}; minimise expect(…) over schedules"
    )
