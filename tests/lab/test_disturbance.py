"""Fresh label noise and a walking teacher: runs, digits and limits; enumeration is in test_enumeration.py."""

import numpy as np
import pytest

import forgetless as fl
from support import literal, many_digits
from support.collections import SMALL, random_pairs


@pytest.mark.parametrize("number", range(30))
def test_stated_errors_bound_the_true_ones(number):
    """Losses after draws of two weak rows, from their second moments in 60 digits."""
    rng = np.random.default_rng([9, number])
    rows = rng.standard_normal((2, 2)) * 10.0 ** rng.uniform(-6, 0, (2, 1))
    teacher, filter_ = rng.standard_normal(2), [fl.Projection(), fl.Ridge(1e-3)][number % 2]
    pairs = [(row[None], np.array([row @ teacher])) for row in rows]
    exact = fl.expect(fl.TaskCollection(pairs, noise=0.3, walk=0.2), filter_, 6)
    truth = many_digits.loss_of_draws(pairs, filter_, [0.5, 0.5], np.zeros(2), 6, noise=0.3, walk=0.2)
    assert abs(exact.average_loss[0] - truth) <= exact.errors["average_loss"] * truth
    assert exact.errors["average_loss"] < 1e-7


@pytest.mark.parametrize("family", SMALL[:-1])
@pytest.mark.parametrize("average", [None, 2])
def test_runs_follow_their_definition(family, average, rng):
    """With the noise of a run recovered from its weights nothing is left to explain: metrics of given weights."""
    tasks = fl.TaskCollection(random_pairs(rng, M=3, **family), noise=0.4)
    options = {"n_trials": 11, "seed": 3, "record": "all", "average": average}
    options["metrics"] = (*fl.metrics.METRICS, "distance", "weights")
    trace = fl.simulate(tasks, 0.7, 6, **options)
    np.testing.assert_allclose(trace.average_loss, fl.metrics.average_loss(tasks, trace.weights), rtol=1e-9)
    orders = fl.WithReplacement().sample(3, 6, seed=3, n_trials=11)
    for i in range(11):
        for name in ("forgetting", "drift"):
            expected = getattr(fl.metrics, name)(tasks, trace.weights[i], orders[i].astype(int))
            assert trace.values[name][i, -1] == pytest.approx(expected, rel=1e-8)
    few = fl.simulate(tasks, 0.7, 6, **{**options, "n_trials": 2})
    assert np.array_equal(few.weights, trace.weights[:2])
    tasks, options["metrics"] = fl.TaskCollection(tasks, noise=0.4, walk=0.1), "weights"
    again = fl.simulate(tasks, {"a": 0.7, "b": 0.7}, 6, **options)
    assert np.array_equal(again.sel(schedule="a").weights, again.sel(schedule="b").weights)


@pytest.mark.parametrize("family", [SMALL[0], SMALL[2], SMALL[3]])
def test_means_of_runs_are_the_exact_ones(family, rng):
    tasks = fl.TaskCollection(random_pairs(rng, M=4, **family), noise=0.3, walk=0.2)
    names = ("average_loss", "next_loss", "distance", "seen_loss", "forgetting")
    exact = fl.expect(tasks, "increasing", 12, metrics=names, record=[2, 12])
    trace = fl.simulate(tasks, "increasing", 12, metrics=names, n_trials=3000, seed=11, record=[2, 12])
    for name in names:
        assert np.all(np.abs(trace.means(name) - exact.values[name]) < 4 * trace.standard_errors(name)), name


def test_weights_of_runs_follow_the_walk(rng):
    """One feature, each task solved exactly and no noise: the weights are the teacher, and the loss is 0."""
    tasks = fl.TaskCollection([([[1.0]], [3.0])], walk=0.5)
    options = {"n_trials": 500, "seed": 0, "record": "all", "metrics": ("average_loss", "weights")}
    trace = fl.simulate(tasks, "none", 40, **options)
    assert np.abs(trace.average_loss).max() < 1e-25
    np.testing.assert_allclose(trace.weights[:, 0, 0], 3.0, rtol=1e-12)  # the first task has the labels given
    steps = np.diff(trace.weights[:, :, 0], axis=1)
    assert np.mean(steps**2) == pytest.approx(0.25, rel=0.05)


@pytest.mark.parametrize("average", [None, 1])
def test_expected_weights_are_the_means_of_all_orders(average, rng):
    for family in SMALL:
        tasks = fl.TaskCollection(random_pairs(rng, M=3, **family), noise=0.4, walk=0.1)
        exact = fl.expect(tasks, 0.7, 3, metrics="weights", average=average, record=[1, 3])
        expected, quiet = 0.0, fl.TaskCollection(tasks)
        for order, p in literal.all_orderings(3, 3):
            options = {"ordering": fl.FixedOrder(order), "average": average, "record": [1, 3]}
            expected = expected + p * fl.simulate(quiet, 0.7, 3, metrics="weights", **options).weights[0]
        np.testing.assert_allclose(exact.weights, expected, rtol=1e-10, atol=1e-12)
