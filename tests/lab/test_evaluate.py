"""Losses of other tasks than those learned, and metrics relative to the size of the problem."""

import itertools

import numpy as np
import pytest

import forgetless as fl
from support import literal
from support.collections import random_pairs

EPOCHS = list(itertools.permutations(range(3)))
LAWS = {
    "draws": (fl.WithReplacement([0.2, 0.3, 0.5]), 3, lambda: literal.all_orderings(3, 3, [0.2, 0.3, 0.5])),
    "without replacement": (fl.WithoutReplacement(), 2, lambda: literal.all_orderings(3, 2, replacement=False)),
    "reshuffled": (fl.RandomReshuffling(), 4, lambda: [((*one, m), 1 / 18) for one in EPOCHS for m in range(3)]),
    "cyclic": (fl.Cyclic(), 5, lambda: [([0, 1, 2, 0, 1], 1.0)]),
}


@pytest.mark.parametrize("family", [{}, {"realizable": False}, {"targets": 2, "realizable": False}, {"d": 14}])
@pytest.mark.parametrize("law", LAWS)
def test_other_tasks_equal_enumeration(family, law, rng):
    """Other labels, other rows, in and outside the span of the rows learned, with an irreducible loss."""
    pairs = random_pairs(rng, M=3, **family)
    others = random_pairs(rng, M=5, **{**family, "rows": (2, 16), "realizable": False})
    ordering, k, orders = LAWS[law]
    tasks, other, filter_ = fl.TaskCollection(pairs), fl.TaskCollection(others), fl.Ridge(rng.uniform(0.1, 2, k))
    start = rng.standard_normal(tasks.teacher().shape)
    names = ("average_loss", "seen_loss", *([] if law == "without replacement" else ["next_loss"]))
    options, tasks = {"ordering": ordering}, tasks.shifted(start)
    plain = fl.expect(tasks, filter_, k, metrics=names, **options)
    exact = fl.expect(tasks, filter_, k, metrics=(fl.metrics.loss_on(other.shifted(start)), *names[1:]), **options)
    expected = 0.0
    for order, p in orders():
        last = literal.run(pairs, order, literal.step_of(filter_), start)[-1]
        expected += p * np.mean([literal.loss(last, *pair) for pair in others])
    assert exact.values["loss_on"][0] == pytest.approx(expected, rel=1e-11)
    for name in names[1:]:  # of the tasks learned
        assert exact.values[name][0] == pytest.approx(plain.values[name][0], rel=1e-10)


def test_runs_on_other_tasks(rng):
    for family in ({"d": 30, "rows": (1, 1)}, {}, {"targets": 2}):
        tasks, other = (fl.TaskCollection(random_pairs(rng, M=M, **family)) for M in (4, 2))
        options = {"n_trials": 5, "seed": 1, "metrics": (fl.metrics.loss_on(other, "average_loss"), "weights")}
        trace = fl.simulate(tasks, "increasing", 40, **options)
        np.testing.assert_allclose(trace.average_loss, fl.metrics.average_loss(other, trace.weights), rtol=1e-12)


def test_other_tasks_with_noise_and_a_walking_teacher(rng):
    """The labels of the other tasks move too, also in features that no task learned has."""
    tasks, other = (fl.TaskCollection(random_pairs(rng, M=3, d=9, rows=(1, 2), realizable=False)) for _ in range(2))
    metrics = (fl.metrics.loss_on(other), "distance")
    tasks, options = fl.TaskCollection(tasks, noise=0.3, walk=0.4), {"metrics": metrics}
    exact = fl.expect(tasks, 0.8, 15, **options)
    trace = fl.simulate(tasks, 0.8, 15, n_trials=4000, seed=5, record="last", **options)
    for name in ("loss_on", "distance"):
        assert abs(trace.means(name)[0] - exact.values[name][0]) < 4 * trace.standard_errors(name)[0], name


PLAIN = fl.TaskCollection([([[1.0, 0.0]], [1.0]), ([[0.6, 0.8]], [0.0])])
NARROW = fl.TaskCollection([([[1.0]], [1.0])])
WIDE = fl.TaskCollection([([[1.0, 0.0]], [[1.0, 2.0]])])
BAD = [
    (lambda: fl.expect(PLAIN, 1.0, 3, metrics=fl.metrics.loss_on(NARROW)), r"loss_on must hold .*\(2,\).*got \(1,\)"),
    (lambda: fl.simulate(PLAIN, 1.0, 3, metrics=fl.metrics.loss_on(WIDE)), r"loss_on must hold"),
]


@pytest.mark.parametrize(("call", "message"), BAD)
def test_bad_arguments(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_metrics_of_given_weights(rng):
    """Distances and losses on other tasks are defined for weights of any leading shape, too."""
    tasks = fl.TaskCollection(random_pairs(rng, M=3, d=4, targets=2))
    weights = rng.standard_normal((5, 4, 2))
    expected = np.sum((weights - tasks.teacher()) ** 2, axis=(1, 2))
    np.testing.assert_allclose(fl.metrics.distance(tasks, weights), expected, rtol=1e-12)
    held_out = fl.metrics.loss_on(tasks[1:])(tasks, weights)
    np.testing.assert_allclose(held_out, fl.metrics.average_loss(tasks[1:], weights), rtol=1e-12)
