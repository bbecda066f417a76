"""All metrics, those of every task and the distance from the joint solution, against enumeration of all orders."""

import itertools

import numpy as np
import pytest

import forgetless as fl
from support import literal
from support.agreement import METRICS, agree, enumerate_all, last
from support.collections import FAMILIES, random_pairs

NAMES = ("distance", "task_losses", "task_forgetting", "task_drift")
EPOCHS = list(itertools.permutations(range(3)))
LAWS = {
    "uniform": (fl.WithReplacement(), 4, lambda: literal.all_orderings(3, 4)),
    "draws": (fl.WithReplacement([0.2, 0.3, 0.5]), 4, lambda: literal.all_orderings(3, 4, [0.2, 0.3, 0.5])),
    "without replacement": (fl.WithoutReplacement(), 2, lambda: literal.all_orderings(3, 2, replacement=False)),
    "an epoch": (fl.WithoutReplacement(), 3, lambda: literal.all_orderings(3, 3, replacement=False)),
    "reshuffled": (fl.RandomReshuffling(), 4, lambda: [((*one, m), 1 / 18) for one in EPOCHS for m in range(3)]),
    "cyclic": (fl.Cyclic(), 5, lambda: [([0, 1, 2, 0, 1], 1.0)]),
    "one order": (fl.FixedOrder([2, 0, 2]), 3, lambda: [([2, 0, 2], 1.0)]),
}


def enumerated(pairs, filter_, orders, start, solution):
    """The metrics of every task: sums over its visits, each over the expected number of visits."""
    M = len(pairs)
    losses, degradation, moved, visits = np.zeros((4, M))
    distance = 0.0
    for order, p in orders:
        path = literal.run(pairs, order, literal.step_of(filter_), start)
        distance += p * np.sum((path[-1] - solution) ** 2)
        losses += [p * literal.loss(path[-1], *pair) for pair in pairs]
        for w, m in zip(path, order, strict=True):
            visits[m] += p
            degradation[m] += p * (literal.loss(path[-1], *pairs[m]) - literal.loss(w, *pairs[m]))
            moved[m] += p * np.sum((pairs[m][0] @ (path[-1] - w)) ** 2)
    with np.errstate(invalid="ignore"):
        return distance, losses, degradation / visits, moved / visits


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("law", LAWS)
def test_every_law_equals_enumeration(family, law, rng):
    pairs = random_pairs(rng, **{**FAMILIES[family], "M": 3})
    ordering, k, orders = LAWS[law]
    tasks, filter_ = fl.TaskCollection(pairs), fl.Ridge(rng.uniform(0.05, 2.0, k))
    start = rng.standard_normal(tasks.teacher().shape)
    tasks = tasks.shifted(start)
    exact = fl.expect(tasks, filter_, k, ordering=ordering, metrics=(*METRICS, *NAMES))
    agree(last(exact), enumerate_all(pairs, filter_, orders(), start))
    expected = enumerated(pairs, filter_, orders(), start, start + tasks.teacher())
    for name, value in zip(NAMES, expected, strict=True):
        np.testing.assert_allclose(exact.values[name][0], value, rtol=1e-10, atol=1e-13, err_msg=name)


@pytest.mark.parametrize("law", LAWS)
def test_metrics_of_tasks_add_up(law, rng):
    """The losses to the average loss, the others, weighted by visits, to the metric over all tasks; NaN if unseen."""
    tasks = fl.TaskCollection(random_pairs(rng, M=3))
    ordering, k, orders = LAWS[law]
    grid = {"weak": 0.1, "strong": 2.0}
    exact = fl.expect(tasks, grid, k, ordering=ordering, metrics=(*fl.metrics.METRICS, *NAMES), record=[0, k])
    np.testing.assert_allclose(exact.task_losses.mean(axis=-1), exact.average_loss, rtol=1e-12)
    visits = np.zeros(3)
    for order, p in orders():
        np.add.at(visits, list(order), p)
    for name in ("forgetting", "drift"):
        total = np.nansum(exact.values[f"task_{name}"][:, 1] * visits, axis=-1) / k
        np.testing.assert_allclose(total, exact.values[name][:, 1], rtol=1e-10)
        assert np.isnan(exact.values[f"task_{name}"][:, 0]).all()
    assert np.array_equal(np.isnan(exact.sel(schedule="weak").task_drift[1]), visits == 0)
    np.testing.assert_allclose(exact.distance[:, 0], np.sum(tasks.teacher() ** 2), rtol=1e-12)


def test_distance_in_any_coordinates_of_simulations(rng):
    """Few singular vectors in many features, a span, and averages of the iterates."""
    for arguments in ({"d": 30, "rows": (1, 1)}, {"d": 5}, {"targets": 2, "realizable": False}):
        tasks = fl.TaskCollection(random_pairs(rng, **arguments))
        tasks = tasks.shifted(rng.standard_normal(tasks.teacher().shape))
        for average in (None, 2):
            options = {"n_trials": 3, "seed": 1, "average": average}
            trace = fl.simulate(tasks, 0.4, 30, metrics=("distance", "drift", "weights"), **options)
            axes = tuple(range(2, trace.weights.ndim))
            expected = np.sum((trace.weights - tasks.teacher()) ** 2, axis=axes)
            np.testing.assert_allclose(trace.distance, expected, rtol=1e-12)
            alone = fl.simulate(tasks, 0.4, 30, metrics="distance", **options)
            np.testing.assert_allclose(alone.distance, expected, rtol=1e-9)
