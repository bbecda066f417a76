"""Optimal schedules for ensembles of fresh random tasks."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from forgetless._core.arrays import Floats
from forgetless.advice._search import Coordinates, Losses, Shape, search, shapes
from forgetless.advice.results import OptimalSchedule
from forgetless.ensembles import Ensemble
from forgetless.ensembles.invariant import Rotated
from forgetless.ensembles.teachers import Exchangeable, Walk
from forgetless.filters import Ridge
from forgetless.lab.exact import expect
from forgetless.lab.fresh import second_moments
from forgetless.schedules import Named, steady

OBJECTIVES = ("average_loss", "next_loss", "distance")

_ITERATIONS = 500

_SHAPES = (
    "no regularization",
    "constant",
    "fixed, near-optimal",
    "increasing, theorem",
    "minimax",
    "increasing",
    "end ramp",
)
"""Shapes that are compared: rows of an ensemble may have any norm, which step sizes would need."""


class Objective:
    """The objective of ridge coefficients λ_1..λ_k on a rotation-invariant ensemble, with its
    gradient.
    """

    def __init__(self, ensemble: Ensemble, k: int, name: str) -> None:
        self.ensemble, self.k, self.name = ensemble, k, name
        order = ensemble.teachers.order(k + 1)
        self.order, self.distances = order[:-1], ensemble.teachers.distances(k + 1)
        goals = {"average_loss": self.order, "next_loss": order[-1:], "distance": self.order[-1:]}[
            name
        ]
        # The objective is a weighted sum of E‖w_k − v_i‖², but for a constant.
        self.weights = np.bincount(goals, minlength=len(self.distances)) / len(goals)
        floor = ensemble.n_rows * ensemble.noise**2
        # of the teachers around their mean
        spread = float(self.weights @ self.distances @ self.weights) / 2.0
        self.factor, self.floor = (
            (1.0, 0.0) if name == "distance" else (ensemble.mean_square / 2.0, floor / 2.0)
        )
        self.least = self.factor * spread + self.floor

    def __call__(self, coefficients: Floats) -> tuple[float, Floats]:
        """Return the objective and its derivative with respect to every coefficient."""
        spectrum, d, variance = (
            self.ensemble.spectrum,
            self.ensemble.n_features,
            self.ensemble.noise**2,
        )
        s = spectrum.singular_values
        factors = Ridge(coefficients).table(s**2)
        # ∂φ/∂λ = −(φ/s)²
        moments = self.ensemble.moments(Ridge(coefficients))
        a = moments.learned
        a2 = moments.squared
        by_a, by_a2 = (
            -spectrum.sum((factors / s) ** 2) / d,
            -2.0 * spectrum.sum(factors**3 / s**2) / d,
        )
        by_nu = -2.0 * spectrum.sum((factors / s) ** 3 / s) if variance else np.zeros(self.k)
        errors = second_moments(self.ensemble, moments, self.k + 1, self.k)
        slopes, adjoint = np.empty(self.k), self.weights.copy()
        for t in range(self.k - 1, -1, -1):
            teacher, before, total = self.order[t], errors[t], adjoint.sum()
            along_a = adjoint @ (self.distances[teacher] - before) - total * before[teacher]
            along_a2 = total * before[teacher]
            slopes[t] = by_a[t] * along_a + by_a2[t] * along_a2 + variance * by_nu[t] * total
            adjoint = (1.0 - a[t]) * adjoint
            adjoint[teacher] -= (a[t] - a2[t]) * total
        return self.factor * float(self.weights @ errors[-1]) + self.floor, self.factor * slopes


def _closed_form(ensemble: Ensemble, name: str) -> Named | None:
    """Return the schedule that is optimal among all spectral filters where it has a closed form;
    else None.
    """
    teachers = ensemble.teachers
    if not isinstance(teachers, Walk | Exchangeable) or teachers.norm == 0:
        return None
    if isinstance(teachers, Walk):
        tracks = name != "average_loss" or teachers.step == 0
        return steady(ensemble, ensemble.noise, teachers.step, teachers.norm) if tracks else None
    single = teachers.n_teachers == 1 or teachers.similarity == 1
    return steady(ensemble, ensemble.noise, 0.0, teachers.norm) if single else None


def _limit(ensemble: Ensemble, walk: float) -> float:
    """Return the λ with a(λ)/λ = q²/(dσ²): infinite without a walk, 0 without noise."""
    if ensemble.noise == 0 or walk == 0:
        return math.inf if ensemble.noise > 0 else 0.0
    from scipy.optimize import brentq

    target = 2.0 * math.log(walk / ensemble.noise) - math.log(ensemble.n_features)

    def excess(logarithm: float) -> float:
        factor = max(ensemble.mean_factor(math.exp(logarithm)), 1e-300)
        return math.log(factor) - logarithm - target

    low, high = -1.0, 1.0
    while excess(low) < 0 and low > -600:
        low *= 2.0
    while excess(high) > 0 and high < 600:
        high *= 2.0
    return math.exp(brentq(excess, low, high, xtol=1e-13)) if excess(low) >= 0 else 0.0


def _weakest(ensemble: Ensemble) -> float:
    """Return the smallest scale to try, in units of R²: below every eigenvalue and the first
    optimal strength.
    """
    square = ensemble.radius**2 or 1.0
    first = float(ensemble.teachers.distances(1)[0, 1])
    scales = [1e-6]
    if ensemble.noise > 0 and first > 0:
        scales.append(1e-2 * ensemble.n_features * ensemble.noise**2 / first / square)
    if isinstance(ensemble, Rotated) and ensemble.spectrum.rank:
        scales.append(1e-3 * float(ensemble.spectrum.singular_values.min()) ** 2 / square)
    return max(1e-14, min(scales))


def optimal(ensemble: Ensemble, k: int, name: str) -> OptimalSchedule:
    """Return the optimal schedule: in closed form, or at a local minimum by descent."""
    objective = Objective(ensemble, k, name)
    losses = losses_on(ensemble, k, name)
    curves = search(standard_shapes(ensemble, k)[:2], losses)
    best = min(curves, key=lambda curve: curve.least)
    constant = best.shape.make(best.best)
    strength = float(constant.strength())
    coordinates = _coordinates(ensemble, k, strength)
    value = _logarithm(objective, coordinates)
    closed = _closed_form(ensemble, name)
    if closed is not None:
        start = "closed form"
        coefficients = np.asarray(closed(k, ensemble.radius).strength())
    else:
        start = "constant"
        first = [coordinates.inverse(each) for each in _starts(objective, coordinates, strength)]
        ends = [coordinates.descend(value, x, _ITERATIONS) for x in first]
        coefficients = coordinates.coefficients(min(ends, key=lambda end: end[1])[0])
    loss = float(losses([Ridge(coefficients)])[0])
    if loss > best.least:
        loss = best.least
        coefficients = np.full(k, strength)
    return OptimalSchedule(
        tuple(coefficients.tolist()),
        name,
        loss,
        constant,
        best.least,
        coordinates.stationarity(value, coordinates.inverse(coefficients)),
        start,
        tracking=None if closed is None else _limit(ensemble, closed.arguments["walk"]),
    )


def losses_on(ensemble: Ensemble, k: int, name: str) -> Losses:
    """Return the function from schedules to their exact objectives."""

    def losses(schedules: Sequence[Any]) -> Floats:
        values = expect(ensemble, list(schedules), k, metrics=name).values[name]
        return np.asarray(values)[:, 0]

    return losses


def standard_shapes(ensemble: Ensemble, k: int) -> list[Shape]:
    """Return the shapes to compare; the first two are constants."""
    found = shapes(k, ensemble.radius**2 or 1.0, _weakest(ensemble))
    ramps = [shape for shape in found if shape.title == "end ramp"]
    quarter = [shape for shape in ramps if shape.make(1.0).arguments["length"] == 0.25]
    return [shape for shape in found if shape.title in _SHAPES and shape not in ramps] + quarter


def _coordinates(ensemble: Ensemble, k: int, strength: float) -> Coordinates:
    square = ensemble.radius**2 or 1.0
    # Noisy labels of square tasks have no finite error at λ = 0.
    infinite = ensemble.noise > 0 and not np.isfinite(ensemble.spectrum.mean_inverse)
    return Coordinates(
        max(_weakest(ensemble), 1e-12) * square,
        max(1e4 * k * square, 10.0 * strength),
        1e-3 if infinite else 0.0,
    )


def _logarithm(objective: Objective, coordinates: Coordinates) -> Any:
    """Return the function from coordinates to ln(objective) and its derivative."""

    def value(x: Floats) -> tuple[float, Floats]:
        coefficients = coordinates.coefficients(x)
        loss, slopes = objective(coefficients)
        loss = max(loss, np.finfo(float).tiny)
        return float(np.log(loss)), coordinates.pulled_back(coefficients, slopes / loss)

    return value


def _starts(objective: Objective, coordinates: Coordinates, constant: float) -> list[Floats]:
    """Return a constant, an increasing, a decreasing and a steady start."""
    ensemble = objective.ensemble
    middle = np.log1p(constant / coordinates.unit)
    ramp = np.linspace(-1.5, 1.5, objective.k)
    logs = [middle + slope * ramp for slope in (0.0, 1.0, -1.0)]
    starts = [coordinates.unit * np.expm1(each) for each in logs]
    first = float(objective.distances[0, objective.order[0]])
    if ensemble.noise > 0 and first > 0:
        closed = steady(ensemble, ensemble.noise, distance=first**0.5)
        starts.append(np.asarray(closed(objective.k, ensemble.radius).strength()))
    return starts
