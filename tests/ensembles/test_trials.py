"""Simulated steps on fresh tasks against the literal step, and the meaning of a seed."""

import numpy as np
import pytest

import forgetless as fl
from forgetless.ensembles import Gaussian, Rotated, teachers
from forgetless.ensembles._trials import stepped, trials_of_generator

FILTERS = {
    "ridge": fl.Ridge(0.7),
    "projection": fl.Projection(),
    "few gradient steps": fl.GradientDescent(2, 0.01),
    "many gradient steps": fl.GradientDescent(50, 0.01),
}
EVERY = ("average_loss", "next_loss", "distance", "task_losses", "task_distances", "weights")
ENSEMBLES = {
    "wide": Gaussian(7, 3),
    "tall": Gaussian(3, 8),
    "rank-deficient": Rotated(np.outer([1.0, 2.0, 0.5], [1.0, 0.0, 2.0, 1.0])),
}


def normal(rng, n_trials):
    """The draws of so many trials."""
    return lambda *shape: rng.standard_normal((n_trials, *shape))


@pytest.mark.parametrize("ensemble", ENSEMBLES)
@pytest.mark.parametrize("name", FILTERS)
def test_one_step_is_that_of_the_equation(ensemble, name):
    rng, law = np.random.default_rng(0), ENSEMBLES[ensemble]
    X, w = law.sample(normal(rng, 4)), rng.standard_normal((4, law.n_features))
    y = rng.standard_normal((4, law.n_rows))
    if ensemble == "rank-deficient":
        y = (X @ rng.standard_normal((4, law.n_features, 1)))[:, :, 0]
    for i, result in enumerate(stepped(w, X, y, FILTERS[name], full_rank=ensemble != "rank-deficient")):
        assert result == pytest.approx(fl.step(w[i], (X[i], y[i]), FILTERS[name]), rel=1e-9, abs=1e-9)


def test_a_trial_does_not_depend_on_the_number_of_trials():
    ensemble = Gaussian(6, 3, 0.2, teachers.walk(1.0, 0.3))
    few, many = (ensemble.simulate(1.0, 5, n_trials=n, seed=3, metrics=EVERY) for n in (5, 100))
    for name, values in few.values.items():
        assert np.array_equal(values, many.values[name][:5])
    assert np.array_equal(few.weights, many.weights[:5])


def test_schedules_share_their_tasks():
    ensemble = Gaussian(6, 3, 0.2)
    both = ensemble.simulate([1.0, "none"], 5, n_trials=40, seed=3, record="all")
    alone = ensemble.simulate("none", 5, n_trials=40, seed=3, record="all")
    for name, values in alone.values.items():
        assert np.array_equal(values, both.sel(schedule=1).values[name])


def test_weights_of_a_trial_are_those_of_its_tasks():
    """Against the finite collection of the same tasks in their order."""
    ensemble, k = Gaussian(6, 3, 0.2, teachers.walk(1.0, 0.3)), 5
    trace = ensemble.simulate(1.0, k, n_trials=1, seed=3, metrics="weights", record="all")
    sequence = np.random.SeedSequence(3)
    rng = np.random.Generator(np.random.SFC64(np.random.SeedSequence(sequence.entropy, spawn_key=(0,))))
    group = trials_of_generator(3 * 6)
    points = ensemble.teachers.sample(k + 1, 6, normal(rng, group))[0]
    pairs = []
    for t in range(k):
        X = ensemble.sample(normal(rng, group))[0]
        noise = 0.2 * rng.standard_normal((group, 3))[0]
        pairs.append((X, X @ points[t + 1] + noise))
    tasks = fl.TaskCollection(pairs)
    literal = fl.simulate(tasks, 1.0, k, ordering=fl.FixedOrder(range(k)), record="all", metrics="weights")
    assert trace.weights == pytest.approx(literal.weights, rel=1e-9)


def test_draws_of_teachers_have_their_distances():
    rng = np.random.default_rng(0)
    for law in (teachers.exchangeable(2.0, 0.3), teachers.walk(1.0, 0.5), teachers.change(2, 1.5, 0.2)):
        points = law.sample(4, 9, normal(rng, 20_000))
        mean = np.mean(np.sum((points[:, :, None] - points[:, None]) ** 2, axis=-1), axis=0)
        assert mean == pytest.approx(law.distances(4), rel=0.03, abs=1e-12)


def test_rows_are_rotated():
    rng = np.random.default_rng(0)
    given = np.array([[1.0, 2.0, 0.0], [0.0, 1.0, 1.0]])
    rotated = Rotated(given).sample(normal(rng, 20_000))
    assert rotated @ np.swapaxes(rotated, 1, 2) == pytest.approx(np.broadcast_to(given @ given.T, (20_000, 2, 2)))
    assert np.mean(np.swapaxes(rotated, 1, 2) @ rotated, axis=0) == pytest.approx(np.eye(3) * 7 / 3, abs=0.06)
