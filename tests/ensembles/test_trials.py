"""Simulated steps on fresh tasks against the literal step, and the meaning of a seed."""

import numpy as np
import pytest

import forgetless as fl
from forgetless.ensembles import Gaussian, Rotated, teachers

FILTERS = {
    "ridge": fl.Ridge(0.7),
    "projection": fl.Projection(),
    "few gradient steps": fl.GradientDescent(2, 0.01),
    "many gradient steps": fl.GradientDescent(50, 0.01),
}
EVERY = ("average_loss", "next_loss", "distance", "task_losses", "task_distances", "weights")
ENSEMBLES = {
    "wide": Gaussian(7, 3, 0.2, teachers.walk(1.0, 0.3)),
    "tall": Gaussian(3, 8, 0.2, teachers.walk(1.0, 0.3)),
    "128 numbers": Gaussian(16, 8),
    "512 numbers": Gaussian(32, 16, 0.1),
    "rank-deficient": Rotated(np.outer([1.0, 2.0, 0.5], [1.0, 0.0, 2.0, 1.0])),
}


def normal(rng, n_trials):
    """The draws of so many trials."""
    return lambda *shape: rng.standard_normal((n_trials, *shape))


@pytest.mark.parametrize("ensemble", ENSEMBLES)
@pytest.mark.parametrize("name", FILTERS)
def test_weights_of_a_trial_are_those_of_its_tasks(ensemble, name):
    """Against steps of the equation on the same tasks, drawn again: so many trials share a generator."""
    law, k, group = ENSEMBLES[ensemble], 4, {"128 numbers": 64, "512 numbers": 16}.get(ensemble, 128)
    trace = law.simulate(FILTERS[name], k, n_trials=2, seed=3, metrics="weights", record="all")
    rng = np.random.Generator(np.random.SFC64(np.random.SeedSequence(3, spawn_key=(0,))))
    points = law.teachers.sample(k + 1, law.n_features, normal(rng, group))[:2]
    weights = np.zeros((2, law.n_features))
    order = law.teachers.order(k)
    for t in range(k):
        X = law.sample(normal(rng, group))[:2]
        noise = law.noise * rng.standard_normal((group, law.n_rows))[:2] if law.noise else np.zeros((2, law.n_rows))
        for i in range(2):
            y = X[i] @ points[i, order[t]] + noise[i]
            weights[i] = fl.step(weights[i], (X[i], y), FILTERS[name])
        assert trace.weights[:, t] == pytest.approx(weights, rel=1e-8, abs=1e-9)


def test_a_trial_does_not_depend_on_the_number_of_trials():
    ensemble = Gaussian(6, 3, 0.2, teachers.walk(1.0, 0.3))
    few, many = (ensemble.simulate(1.0, 5, n_trials=n, seed=3, metrics=EVERY) for n in (5, 100))
    for name, values in few.values.items():
        assert np.array_equal(values, many.values[name][:5])
    assert np.array_equal(few.weights, many.weights[:5])
    alone = ensemble.simulate(1.0, 5, seed=3)
    assert tuple(alone.values) == EVERY[:3]
    assert np.array_equal(alone.distance, few.distance[:1])


def test_schedules_share_their_tasks():
    ensemble = Gaussian(6, 3, 0.2)
    both = ensemble.simulate([1.0, "none"], 5, n_trials=40, seed=3, record="all")
    alone = ensemble.simulate("none", 5, n_trials=40, seed=3, record="all")
    for name, values in alone.values.items():
        assert np.array_equal(values, both.sel(schedule=1).values[name])


def test_draws_of_teachers_have_their_distances():
    rng = np.random.default_rng(0)
    recurring = teachers.exchangeable(1.5, 0.2, turns=[1, 1, 2, 2])
    for law in (teachers.exchangeable(2.0, 0.3), teachers.walk(1.0, 0.5), recurring):
        points = law.sample(4, 9, normal(rng, 20_000))
        mean = np.mean(np.sum((points[:, :, None] - points[:, None]) ** 2, axis=-1), axis=0)
        assert mean == pytest.approx(law.distances(4), rel=0.03, abs=1e-12)


def test_rows_are_rotated():
    rng = np.random.default_rng(0)
    given = np.array([[1.0, 2.0, 0.0], [0.0, 1.0, 1.0]])
    rotated = Rotated(given).sample(normal(rng, 20_000))
    assert rotated @ np.swapaxes(rotated, 1, 2) == pytest.approx(np.broadcast_to(given @ given.T, (20_000, 2, 2)))
    assert np.mean(np.swapaxes(rotated, 1, 2) @ rotated, axis=0) == pytest.approx(np.eye(3) * 7 / 3, abs=0.06)
