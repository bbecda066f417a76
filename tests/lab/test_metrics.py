"""Metrics of exact expectations and of runs: of every task, of the next task, of other tasks, and of given weights."""

import numpy as np
import pytest

import forgetless as fl
from support import literal
from support.collections import random_pairs


@pytest.mark.parametrize("average", [None, 2])
@pytest.mark.parametrize("family", [{"d": 30, "rows": (1, 1)}, {"d": 5}, {"targets": 2, "realizable": False}], ids=str)
def test_runs_in_all_coordinates(family, average, rng):
    """Few singular vectors in many features, a span, and averages of the iterates: distances, losses of other tasks."""
    tasks, other = (fl.TaskCollection(random_pairs(rng, M=M, **family)) for M in (4, 2))
    tasks = tasks.shifted(rng.standard_normal(tasks.teacher().shape))
    options = {"n_trials": 3, "seed": 1, "average": average}
    names = ("distance", fl.metrics.loss_on(other), "weights")
    trace = fl.simulate(tasks, "increasing", 30, metrics=(*names, "drift"), **options)
    np.testing.assert_allclose(trace.distance, fl.metrics.distance(tasks, trace.weights), rtol=1e-12)
    np.testing.assert_allclose(trace.loss_on, fl.metrics.average_loss(other, trace.weights), rtol=1e-12)
    for name in names[:2]:
        alone = fl.simulate(tasks, "increasing", 30, metrics=name, **options)
        (key,) = alone.values
        np.testing.assert_allclose(alone.values[key], trace.values[key], rtol=1e-9)


def test_other_tasks_with_noise_and_a_walking_teacher(rng):
    """The labels of the other tasks move too, also in features that no task learned has."""
    tasks, other = (fl.TaskCollection(random_pairs(rng, M=3, d=9, rows=(1, 2), realizable=False)) for _ in range(2))
    tasks, options = fl.TaskCollection(tasks, noise=0.3, walk=0.4), {"metrics": (fl.metrics.loss_on(other), "distance")}
    exact = fl.expect(tasks, 0.8, 15, record=[0, 1, 15], **options)
    trace = fl.simulate(tasks, 0.8, 15, n_trials=4000, seed=5, record=[0, 1, 15], **options)
    for name in ("loss_on", "distance"):
        apart = np.abs(trace.means(name) - exact.values[name])
        assert np.all(apart < 4 * trace.standard_errors(name) + 1e-9), name


def test_other_tasks_have_features_and_targets_of_those_learned():
    plain = fl.TaskCollection([([[1.0, 0.0]], [1.0]), ([[0.6, 0.8]], [0.0])])
    for X, y in (([[1.0]], [1.0]), ([[1.0, 0.0]], [[1.0, 2.0]])):
        for verb in (fl.expect, fl.simulate):
            with pytest.raises(ValueError, match=r"loss_on must hold .*\(2,\).*got \("):
                verb(plain, 1.0, 3, metrics=fl.metrics.loss_on(fl.TaskCollection([(X, y)])))


@pytest.mark.parametrize("ordering", [fl.WithReplacement(), fl.WithoutReplacement(), fl.RandomReshuffling()])
def test_the_next_task_of_runs(ordering, rng):
    tasks = fl.TaskCollection(random_pairs(rng, M=5, d=3, rows=(1, 1), realizable=False))
    options = {"ordering": ordering, "metrics": ("next_loss", "seen_loss"), "record": [0, 1, 3]}
    exact = fl.expect(tasks, "minimax", 3, **options)
    trace = fl.simulate(tasks, "minimax", 3, n_trials=4000, seed=1, **options)
    apart = np.abs(trace.means("next_loss") - exact.next_loss)
    assert np.all(apart <= 5 * trace.standard_errors("next_loss") + 1e-12)
    alone = fl.simulate(tasks, "minimax", 3, n_trials=3, seed=1, **{**options, "metrics": "next_loss"})
    np.testing.assert_allclose(alone.next_loss, trace.next_loss[:3], rtol=1e-12)


@pytest.mark.parametrize("probabilities", [None, [0.1, 0.2, 0.3, 0.4]])
def test_the_next_draw(probabilities, rng):
    """Uniform draws: the average loss. Otherwise tasks count by their probabilities; by powers and by steps."""
    tasks = fl.TaskCollection(random_pairs(rng, d=5, rows=(2, 2), realizable=False))
    options = {"ordering": fl.WithReplacement(probabilities)}
    exact = fl.expect(tasks, 1.0, 50, metrics=("next_loss", "average_loss", "task_losses"), **options)
    assert (exact.next_loss[0] == exact.average_loss[0]) == (probabilities is None)
    alone = fl.expect(tasks, 1.0, 50, metrics="next_loss", **options)
    assert alone.next_loss[0] == pytest.approx(exact.next_loss[0], rel=1e-9)


def test_no_next_task_is_an_error():
    tasks = fl.theory.constructions.two_tasks(1.0)
    cases = {"without-replacement": "at most the number of tasks, 2", fl.FixedOrder([0, 1]): "give at least k indices"}
    for call in (fl.expect, fl.simulate):
        for ordering, hint in cases.items():
            with pytest.raises(ValueError, match=f"next_loss after step 2 needs one task more.*{hint}"):
                call(tasks, fl.Ridge(1.0), 2, ordering=ordering, metrics="next_loss")
    earlier = fl.expect(tasks, fl.Ridge(1.0), 2, ordering="without-replacement", metrics="next_loss", record=[1])
    assert earlier.next_loss[0] > 0


@pytest.mark.parametrize("targets", [None, 2])
def test_metrics_of_given_weights(targets, rng):
    """Of weights of any leading shape, and of every task after every step."""
    pairs = random_pairs(rng, targets=targets, realizable=False)
    tasks, order = fl.TaskCollection(pairs), np.array([0, 2, 2, 1, 0])
    path = rng.standard_normal((5, *tasks.teacher().shape))
    expected = literal.metrics(pairs, order, path)
    found = {name: getattr(fl.metrics, name)(tasks, path, order) for name in ("seen_loss", "forgetting", "drift")}
    assert found["seen_loss"].shape == (5,)
    found |= {"average_loss": fl.metrics.average_loss(tasks, path[-1]), "seen_loss": found["seen_loss"][-1]}
    assert found == pytest.approx(expected)
    losses = [[literal.loss(w, *pair) for pair in pairs] for w in path]
    np.testing.assert_allclose(fl.metrics.task_losses(tasks, path), losses, rtol=1e-12)
    others = [literal.metrics(pairs[1:], [0], [w])["average_loss"] for w in path]
    np.testing.assert_allclose(fl.metrics.loss_on(tasks[1:])(tasks, path), others, rtol=1e-12)
    distances = [np.sum((w - tasks.teacher()) ** 2) for w in path]
    np.testing.assert_allclose(fl.metrics.distance(tasks, path), distances, rtol=1e-12)
