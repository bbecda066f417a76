"""Optimal schedules: optima against grids, constraints, and stationarity."""

import pickle

import numpy as np
import pytest

import forgetless as fl
from support.checks import check_frozen
from support.collections import FAMILIES, collection, random_pairs

TRIVIAL = [([(np.eye(2), [1.0, 2.0])], "average_loss"), ([(np.zeros((1, 2)), [0.0])], "worst_case")]


@pytest.mark.parametrize(("pairs", "objective"), TRIVIAL)
def test_nothing_is_left_of_trivial_collections(pairs, objective):
    found = fl.optimal_schedule(fl.TaskCollection(pairs), 4, objective=objective)
    assert (found.loss, found.gap) == (0, 0)


@pytest.mark.parametrize("objective", ["average_loss", "worst_case"])
@pytest.mark.parametrize("family", list(FAMILIES))
def test_never_worse_than_the_best_constant(family, objective, rng):
    tasks, k = collection(rng, family), 8
    found = fl.optimal_schedule(tasks, k, objective=objective)
    grid = np.concatenate([[0.0], np.geomspace(1e-7, 1e3, 400)]) * tasks.radius**2
    schedules = [fl.Ridge(c) for c in grid]
    verb = fl.expect if objective == "average_loss" else fl.worst_case
    own, constants = verb(tasks, found, k).values[objective][0], verb(tasks, schedules, k).values[objective][:, 0]
    assert found.loss == pytest.approx(own, rel=1e-9, abs=1e-15)
    assert found.loss <= constants.min() * (1 + 1e-6) + 1e-15
    assert found.loss <= found.best_constant_loss
    assert found.gap == pytest.approx(1 - found.loss / found.best_constant_loss)


@pytest.mark.parametrize("objective", ["average_loss", "worst_case"])
def test_stationarity_by_differences(objective, rng):
    """Where a coefficient is positive the loss does not change to first order; where it is 0 it does not fall."""
    tasks, k = collection(rng, M=5), 10
    found = fl.optimal_schedule(tasks, k, objective=objective)
    assert found.stationarity < 1e-4
    coefficients = np.array(found.coefficients)
    unit = tasks.singular_values.min() ** 2

    def loss(values):
        verb = fl.expect if objective == "average_loss" else fl.worst_case
        return verb(tasks, fl.Ridge(values), k).values[objective][0]

    for t in range(k):
        change = 1e-4 * (coefficients[t] + unit) * np.eye(k)[t]
        up = loss(coefficients + change) / found.loss - 1
        assert up > -1e-7
        if coefficients[t] > change[t]:
            assert loss(coefficients - change) / found.loss - 1 > -1e-7


def test_monotone_schedules_do_not_decrease(rng):
    tasks = collection(rng, M=10, d=10, rows=(2, 2))
    free, rising = (fl.optimal_schedule(tasks, 30, monotone=monotone) for monotone in (False, True))
    assert (np.diff(free.coefficients) < 0).any()
    assert (np.diff(rising.coefficients) >= 0).all()
    assert free.loss < rising.loss < rising.best_constant_loss
    assert rising.stationarity < 1e-4


def test_a_ramp_at_the_end_of_two_tasks():
    """k·loss of the best constant is 0.105 there."""
    k = 128
    found = fl.optimal_schedule(fl.theory.constructions.two_tasks(np.pi / 16), k, objective="worst_case")
    assert k * found.loss <= 0.0660
    assert max(found.coefficients[:110]) < 1e-6
    assert (np.diff(found.coefficients[-7:]) > 0).all()
    assert k * found.best_constant_loss == pytest.approx(0.105, abs=5e-4)


def test_it_is_a_schedule_like_any_other(rng):
    tasks = collection(rng)
    found = fl.optimal_schedule(tasks, 12, objective=fl.TaskCollection(random_pairs(rng, M=1, d=6)))
    assert pickle.loads(pickle.dumps(found)) == found
    check_frozen(found)
    assert fl.simulate(tasks, found, 12, seed=0).average_loss.shape[0] == 1
    assert fl.compare_bounds(tasks, found, 12).k == 12
    assert found(12, tasks.radius) == fl.Ridge(np.array(found.coefficients))
    assert "stationarity=" in repr(found)
    with pytest.raises(ValueError, match="schedule gives 12 steps but k is 13"):
        fl.expect(tasks, found, 13)
