"""Optimal schedules of ensembles against numerical optima, and advice."""

import numpy as np
import pytest
from scipy.optimize import minimize, minimize_scalar

import forgetless as fl
from forgetless.ensembles import Gaussian, Rotated, teachers


def test_closed_form_is_the_optimum_over_all_coefficients():
    ensemble, k = Gaussian(60, 12, 0.2**0.5), 16
    schedule = ensemble.optimal_schedule(k)
    assert np.array(schedule.coefficients)[[0, 4, 8, 12]] == pytest.approx([12, 23.256, 40.276, 62.825], rel=1e-4)
    assert schedule.start == "closed form"

    def loss(logs):
        return ensemble.expect(fl.Ridge(np.exp(logs)), k).average_loss[0]

    options = {"maxfun": 20_000, "ftol": 1e-16, "gtol": 1e-12}
    searched = minimize(loss, np.full(k, 3.0), method="L-BFGS-B", options=options)
    assert schedule.loss <= searched.fun * (1 + 1e-12)
    for factor in (0.999, 1.001):
        near = factor * schedule.best_constant.coefficient
        assert schedule.best_constant_loss < ensemble.expect(near, k).average_loss[0]
    assert np.exp(searched.x) == pytest.approx(schedule.coefficients, rel=2e-3)


def test_no_filter_is_better_than_the_closed_form():
    """Of one step, among all filters with two values: those of two singular values."""
    X, noise = np.diag([3.0, 0.7])[:, :2], 0.4
    schedule = Rotated(X, noise).optimal_schedule(1)

    def distance(factors):
        left = np.sum((1 - factors) ** 2) / 2
        return left + noise**2 * np.sum(factors**2 / np.array([9.0, 0.49]))

    best = minimize(distance, [0.5, 0.5], tol=1e-14).fun
    exact = Rotated(X, noise).expect(fl.Ridge(schedule.coefficients[0]), 1, metrics="distance").distance[0]
    assert exact == pytest.approx(best, rel=1e-10)


TRACKING = [(1, 1.0, 1e-2), (1, 1.0, 0.1), (20, 1.0, 1e-3), (20, 1.0, 1e-2), (20, 1.0, 0.1), (20, 1.0, 1.0)]
TRACKING += [(20, 0.1, 0.1), (100, 1.0, 0.1), (200, 1.0, 1e-2), (200, 0.3, 0.1)]


@pytest.mark.parametrize(("n", "noise", "drift"), TRACKING)
def test_limit_is_the_best_constant_for_tracking(n, noise, drift):
    d = 100
    ensemble = Gaussian(d, n, noise, teachers.walk(1.0, drift))
    limit = fl.schedules.steady(ensemble, noise, drift)(20_000, 1.0).coefficient[-1]

    def stationary(logarithm):
        """The fixed point of e = (1 − 2a + a₂)(e + q²) + σ²ν."""
        learned, squared, made = np.ravel(ensemble.moments(fl.Ridge(np.exp(logarithm)))[:3])
        left = 1 - 2 * learned + squared
        return (left * drift**2 + noise**2 * made) / (1 - left)

    bounds = np.log(limit) - 2, np.log(limit) + 2
    best = minimize_scalar(stationary, bounds=bounds, method="bounded", options={"xatol": 1e-9})
    assert limit == pytest.approx(np.exp(best.x), rel=1e-4)


def test_steady_on_a_collection():
    """The rule with the mean filter factor of the tasks, written out; and by hand in one dimension."""
    by_hand = fl.schedules.steady(fl.TaskCollection([([[2.0]], [0.0])]), 0.5)(2, 2.0)
    assert by_hand.coefficient == pytest.approx([0.25, 4.25])
    rng = np.random.default_rng(0)
    tasks = fl.TaskCollection([(X := rng.standard_normal((3, 8)), X @ np.ones(8)) for _ in range(5)])
    steady = fl.schedules.steady(tasks, noise=0.5, walk=0.1, distance=2.0)
    coefficients = steady(6, tasks.radius).coefficient
    strength = 8 * 0.25 / 4.0
    for value in coefficients:
        assert value == pytest.approx(strength, rel=1e-12)
        factor = np.mean([np.trace(X.T @ X @ np.linalg.inv(X.T @ X + strength * np.eye(8))) / 8 for X, _ in tasks])
        strength = 1 / ((1 - factor) / strength + 0.01 / (8 * 0.25))
    losses = fl.expect(tasks, fl.Ridge(coefficients), 6).average_loss
    assert fl.expect(tasks, steady, 6).average_loss == pytest.approx(losses)


@pytest.mark.parametrize("noise", [0.0, 1e-12, 0.3])
@pytest.mark.parametrize("n", [4, 5, 6])
@pytest.mark.parametrize("law", [teachers.walk(1.0, 0.2), teachers.one()])
def test_square_tasks_have_an_optimum_too(n, noise, law):
    """Where n and d differ by less than two, no weak strength and no infinite error gets in the way."""
    ensemble = Gaussian(5, n, noise, law)
    for objective in ("next_loss", "distance"):
        best = ensemble.optimal_schedule(6, objective=objective)
        assert best.loss <= best.best_constant_loss
        others = [ensemble.expect(each, 6, metrics=objective).values[objective][0] for each in (0.1, 1.0)]
        assert best.best_constant_loss <= min(others) * (1 + 1e-9)
        exact = ensemble.expect(fl.Ridge(best.coefficients), 6, metrics=objective)
        assert best.loss == pytest.approx(float(exact.values[objective][0]), rel=1e-9, abs=1e-20)
