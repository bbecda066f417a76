"""Optimal schedules and advice for ensembles of fresh random tasks."""

from typing import Any

import numpy as np

from forgetless._core import validate
from forgetless._core.arrays import Floats
from forgetless.advice._losses import Evaluate
from forgetless.advice._ranking import best_of_each
from forgetless.advice._shapes import Curve, Shape, grid, own_shapes, scan, significant
from forgetless.advice.results import Advice, Claim, Option, ScaleCurve, change_text
from forgetless.advice.schedule import OptimalSchedule
from forgetless.engines.expectation import expect
from forgetless.engines.fresh import second_moments
from forgetless.ensembles import Ensemble
from forgetless.ensembles.invariant import Rotated
from forgetless.ensembles.teachers import Exchangeable, Walk
from forgetless.filters import Projection, Ridge
from forgetless.io.provenance import Origin
from forgetless.metrics import QUANTITIES, quantity
from forgetless.schedules import end_ramp, fixed, increasing, minimax, resolve
from forgetless.schedules.tracking import Steady

OBJECTIVES = ("average_loss", "next_loss", "distance")
_ITERATIONS = 500


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
        factors = np.atleast_2d(Ridge(coefficients).factors_of_singular(s))
        # ∂φ/∂λ = −(φ/s)²
        moments = self.ensemble.moments(Ridge(coefficients))
        a, a2 = moments.learned, moments.squared
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


def closed_form(ensemble: Ensemble, name: str) -> Steady | None:
    """Return the schedule that is optimal among all spectral filters where it has a closed form;
    else None.
    """
    teachers = ensemble.teachers
    if not isinstance(teachers, Walk | Exchangeable) or teachers.norm == 0:
        return None
    if isinstance(teachers, Walk):
        tracks = name != "average_loss" or teachers.drift == 0
        return Steady(ensemble.noise, teachers.drift, teachers.norm) if tracks else None
    single = teachers.n_teachers == 1 or teachers.similarity == 1
    return Steady(ensemble.noise, 0.0, teachers.norm) if single else None


def _weakest(ensemble: Ensemble) -> float:
    """Return the smallest scale to try, in units of R²: below every eigenvalue and the first
    optimal strength.
    """
    square, first = ensemble.radius**2 or 1.0, float(ensemble.teachers.distances(1)[0, 1])
    scales = [1e-6]
    if ensemble.noise > 0 and first > 0:
        scales.append(1e-2 * ensemble.n_features * ensemble.noise**2 / first / square)
    if isinstance(ensemble, Rotated) and ensemble.spectrum.rank:
        scales.append(1e-3 * float(ensemble.spectrum.singular_values.min()) ** 2 / square)
    return max(1e-14, min(scales))


def optimal(ensemble: Ensemble, k: int, name: str) -> OptimalSchedule:
    """Return the optimal schedule: in closed form, or at a local minimum by descent."""
    k = validate.integer("k", k, 1, "ask for at least one step")
    name = quantity("objective", name, OBJECTIVES)
    objective, steady = Objective(ensemble, k, name), closed_form(ensemble, name)
    curves = best_of_each(scan(shapes(ensemble, k)[:2], _losses(ensemble, k, name)))
    constant, constant_loss = min(
        (curve.best_schedule for curve in curves), key=lambda pair: pair[1]
    )
    strength = float(np.asarray(constant.strength()))
    coordinates = _Coordinates(ensemble, k, strength)
    if steady is not None:
        coefficients, start = (
            np.asarray(steady.for_spectrum(k, ensemble).coefficient),
            "closed form",
        )
    else:
        coefficients, start = _descended(objective, coordinates, strength), "constant"
    loss = float(_losses(ensemble, k, name)([Ridge(coefficients)])[0])
    if loss > constant_loss:
        loss, coefficients = constant_loss, np.full(k, strength)
    return OptimalSchedule(
        tuple(coefficients.tolist()),
        name,
        loss,
        constant,
        constant_loss,
        coordinates.stationarity(objective, coefficients),
        start,
        tracking=None if steady is None else steady.limit(ensemble),
    )


def _losses(ensemble: Ensemble, k: int, name: str) -> Evaluate:
    """Return a function from schedules to their objectives."""
    return lambda schedules: np.asarray(
        expect(ensemble, list(schedules), k, metrics=name).values[name]
    )[:, 0]


def shapes(ensemble: Ensemble, k: int) -> list[Shape]:
    """Return the shapes to compare, with a first grid of scales in units of R²; the first two are
    constants.
    """
    square, low = ensemble.radius**2 or 1.0, _weakest(ensemble)
    candidates = [
        Shape("no regularization", lambda _: Projection()),
        Shape("constant", lambda c: Ridge(significant(c * square)), grid(low, 10.0 * k)),
        Shape("increasing, theorem", lambda _: increasing()),
        Shape("minimax", lambda _: minimax()),
        Shape("increasing", lambda c: increasing(scale=significant(c)), grid(low, 30.0)),
        Shape(
            "end ramp",
            lambda c: end_ramp(length=0.25, scale=significant(c)),
            grid(low, 30.0, per_decade=2),
        ),
    ]
    return (
        [*candidates[:2], Shape("fixed, near-optimal", lambda _: fixed()), *candidates[2:]]
        if k >= 3
        else candidates
    )


class _Coordinates:
    """x_t = ln(1 + λ_t/λ₀) ≥ 0: decades of λ, and λ = 0 with a finite slope."""

    def __init__(self, ensemble: Ensemble, k: int, strength: float) -> None:
        square = ensemble.radius**2 or 1.0
        self.unit = max(_weakest(ensemble), 1e-12) * square
        self.largest = float(np.log1p(max(1e4 * k * square, 10.0 * strength) / self.unit))
        # Noisy labels of square tasks have no finite error at λ = 0.
        infinite = ensemble.noise > 0 and not np.isfinite(ensemble.spectrum.mean_inverse)
        self.smallest = 1e-3 if infinite else 0.0

    def value(self, x: Floats, objective: Objective) -> tuple[float, Floats]:
        """Return ln(objective) and its derivative with respect to x."""
        coefficients = self.unit * np.expm1(x)
        loss, slopes = objective(coefficients)
        loss = max(loss, np.finfo(float).tiny)
        return float(np.log(loss)), slopes * (self.unit + coefficients) / loss

    def stationarity(self, objective: Objective, coefficients: Floats) -> float:
        """Return the largest entry of the projected gradient."""
        x = np.maximum(np.log1p(coefficients / self.unit), self.smallest)
        _, slopes = self.value(x, objective)
        return float(
            np.max(np.abs(np.clip(x - slopes, self.smallest, max(self.largest, x.max())) - x))
        )


def _descended(objective: Objective, coordinates: _Coordinates, constant: float) -> Floats:
    """Return coefficients at the best minimum from a constant, an increasing, a decreasing and a
    steady start.
    """
    from scipy.optimize import minimize

    middle, ramp = np.log1p(constant / coordinates.unit), np.linspace(-1.5, 1.5, objective.k)
    ensemble = objective.ensemble
    starts = [middle + slope * ramp for slope in (0.0, 1.0, -1.0)]
    first = float(objective.distances[0, objective.order[0]])
    if ensemble.noise > 0 and first > 0:
        steady = (
            Steady(ensemble.noise, 0.0, first**0.5).for_spectrum(objective.k, ensemble).coefficient
        )
        starts.append(np.log1p(np.asarray(steady) / coordinates.unit))
    bounds = [(coordinates.smallest, coordinates.largest)] * objective.k
    options = {
        "maxiter": _ITERATIONS,
        "maxfun": 2 * _ITERATIONS,
        "maxcor": 30,
        "ftol": 1e-15,
        "gtol": 1e-9,
    }
    ends = [
        minimize(
            coordinates.value,
            np.clip(start, coordinates.smallest, coordinates.largest),
            (objective,),
            "L-BFGS-B",
            jac=True,
            bounds=bounds,
            options=options,
        )
        for start in starts
    ]
    best = min(ends, key=lambda end: float(end.fun))
    return np.asarray(coordinates.unit * np.expm1(best.x))


def advise(ensemble: Ensemble, k: int, name: str, also: Any = None) -> Advice:
    """Return schedules ranked by their exact objective over the ensemble, with the optimal one, and
    why.
    """
    k = validate.integer("k", k, 1, "ask for at least one step")
    name = quantity("objective", name, OBJECTIVES)
    standard = shapes(ensemble, k)
    others = own_shapes(also, [*standard, Shape("optimal", lambda _: Projection())])
    curves = best_of_each(scan([*standard, *others], _losses(ensemble, k, name)))
    options = [_option(curve) for curve in curves]
    notes = [f"means over fresh random tasks are computed, not sampled ({ensemble.method})."]
    least = Objective(ensemble, k, name).least
    steady, best = closed_form(ensemble, name), optimal(ensemble, k, name)
    options.append(Option("optimal", best if steady is None else steady, None, best.loss))
    options.sort(key=lambda option: option.loss)
    claims = _claims(ensemble, k, options, least, name)
    lines = (
        ScaleCurve(curve.shape.name, tuple(curve.scales.tolist()), tuple(curve.losses.tolist()))
        for curve in curves
        if curve.shape.scales.size or curve.shape.name == "no regularization"
    )
    return Advice(
        best=options[0].schedule,
        options=tuple(options),
        objective=name,
        k=k,
        n_tasks=k,
        n_compared=sum(len(curve.scales) for curve in curves),
        radius=ensemble.radius,
        least=least,
        noise=ensemble.noise,
        horizon={},
        guarantee="",
        why=" ".join(claim.text for claim in claims),
        claims=tuple(claims),
        notes=tuple(notes),
        curves=tuple(lines),
        origin=Origin("advise", lambda: {"ensemble": repr(ensemble), "k": k, "objective": name}),
    )


def _option(curve: Curve) -> Option:
    schedule, loss = curve.best_schedule
    return Option(
        curve.shape.name,
        schedule,
        float(curve.scales[curve.best]) if curve.shape.scales.size else None,
        loss,
    )


def _claims(
    ensemble: Ensemble, k: int, options: list[Option], least: float, name: str
) -> list[Claim]:
    """Return the reasons, with their numbers."""
    best, floor = options[0], f", of which no schedule avoids {least:.4g}" if least > 0 else ""
    claims = [
        Claim("loss", f"Its {QUANTITIES[name]} is {best.loss:.4g}{floor}.", best.loss, best.loss)
    ]
    if best.shape == "optimal":
        claims.append(_shape_claim(ensemble, k, best.schedule))
    excess = best.loss - least
    if excess <= 1e-9 * best.loss:
        return claims
    others = [option for option in options[1:] if option.shape in _WITH]
    for position, option in enumerate(others):
        ratio = (option.loss - least) / excess
        start = (
            f"{'The excess over that' if least > 0 else 'The objective'} is "
            if position == 0
            else ""
        )
        change = change_text(ratio, ratio) if np.isfinite(ratio) else "infinite"
        text = f"{start}{change} {_WITH[option.shape]}{'.' if option is others[-1] else ','}"
        claims.append(Claim("below", text, ratio, ratio, option.schedule, option.shape))
    return claims


_WITH = {
    "constant": "with the best constant λ",
    "no regularization": "without regularization",
    "increasing, theorem": "with the increasing schedule of the paper",
}


def _shape_claim(ensemble: Ensemble, k: int, schedule: Any) -> Claim:
    """Return the sentence on the course of the optimal λ_t and its reason."""
    values = np.asarray(resolve(schedule, k, ensemble.radius, ensemble).strength())
    first, last = float(values.ravel()[0]), float(values.ravel()[-1])
    steps = np.diff(values)
    text = f"λ_t varies between {values.min():.4g} and {values.max():.4g}"
    if last > 1.01 * first and (steps >= -1e-9 * values.max()).all():
        text = f"λ_t rises from {first:.4g} to {last:.4g}"
    elif last < 0.99 * first and (steps <= 1e-9 * values.max()).all():
        text = f"λ_t falls from {first:.4g} to {last:.4g}"
    elif np.ptp(values) <= 0.01 * values.max():
        text = f"λ_t is about {first:.4g}"
    if isinstance(schedule, Steady):
        limit = schedule.limit(ensemble)
        reason = "labels have no noise, and nothing has to be averaged"
        if schedule.noise > 0 and schedule.drift == 0:
            reason = "the teacher stays, and label noise is averaged over all tasks"
        elif schedule.noise > 0:
            reason = f"the teacher moves, and λ tends to {limit:.4g}"
        text += (
            f": {reason}. It is optimal among all spectral filters, and needs no number of tasks."
        )
    else:
        minimum = (
            "a local minimum over all coefficients"
            if schedule.stationarity < 1e-5
            else "the best of four descents"
        )
        text += f": {minimum}."
    return Claim("shape", text, first, last)
