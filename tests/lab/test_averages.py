"""Averages of iterates: exact against enumeration and simulation, simulated against the literal average."""

import itertools

import numpy as np
import pytest

import forgetless as fl
from support import literal
from support.agreement import METRICS, drawn_order, literal_path
from support.collections import random_pairs

POWERS = [0, 1, 1.5, 2]


def enumerated(pairs, filter_, orders, start, r):
    """Expected metrics of the averages, by running every order."""
    totals = dict.fromkeys(METRICS, 0.0)
    for order, probability in orders:
        path = literal.averages(literal_path(pairs, filter_, order, start), r)
        for metric, value in literal.metrics(pairs, order, path).items():
            totals[metric] += probability * value
    return totals


def problem(rng, k, **options):
    options = {"M": 3, "rows": (1, 3), **options}
    pairs = random_pairs(rng, **options)
    shape = (pairs[0][0].shape[1], *pairs[0][1].shape[1:])
    start = rng.standard_normal(shape)
    return pairs, fl.TaskCollection(pairs).shifted(start), fl.Ridge(rng.uniform(0.01, 2.0, k)), start


@pytest.mark.parametrize("targets", [None, 2])
@pytest.mark.parametrize("realizable", [True, False])
@pytest.mark.parametrize("r", POWERS)
def test_draws_equal_enumeration(r, realizable, targets, rng):
    pairs, tasks, filter_, start = problem(rng, 4, realizable=realizable, targets=targets)
    for probabilities in (None, [0.5, 0.2, 0.3]):
        law = fl.WithReplacement(probabilities)
        found = fl.expect(tasks, filter_, 4, ordering=law, average=r, record=[0, 1, 4])
        truth = enumerated(pairs, filter_, literal.all_orderings(3, 4, probabilities), start, r)
        assert found.average_loss[2] == pytest.approx(truth["average_loss"], rel=1e-11)
        plain = fl.expect(tasks, filter_, 4, ordering=law, record=[0, 1])
        np.testing.assert_allclose(found.average_loss[:2], plain.average_loss, rtol=1e-12)


@pytest.mark.parametrize("realizable", [True, False])
@pytest.mark.parametrize("r", POWERS)
def test_random_orders_of_all_tasks_equal_enumeration(r, realizable, rng):
    pairs, tasks, filter_, start = problem(rng, 5, realizable=realizable, targets=2)
    epochs = list(itertools.permutations(range(3)))
    orders = [((*one, *two)[:5], 1 / len(epochs) ** 2) for one in epochs for two in epochs]
    truth = enumerated(pairs, filter_, orders, start, r)["average_loss"]
    found = fl.expect(tasks, filter_, 5, ordering=fl.RandomReshuffling(), average=r)
    assert found.average_loss[0] == pytest.approx(truth, rel=1e-11)
    short = fl.Ridge(0.3)
    truth = enumerated(pairs, short, literal.all_orderings(3, 3, replacement=False), start, r)["average_loss"]
    found = fl.expect(tasks, short, 3, ordering=fl.WithoutReplacement(), average=r)
    assert found.average_loss[0] == pytest.approx(truth, rel=1e-11)


@pytest.mark.parametrize("ordering", [fl.Cyclic(), fl.FixedOrder([2, 0, 0, 1, 2])], ids=repr)
@pytest.mark.parametrize("r", POWERS)
def test_one_order_equals_its_literal_run(r, ordering, rng):
    pairs, tasks, filter_, start = problem(rng, 5, realizable=False, targets=2)
    found = fl.expect(tasks, filter_, 5, ordering=ordering, average=r, metrics=METRICS)
    truth = enumerated(pairs, filter_, [(ordering.sample(3, 5).tolist(), 1.0)], start, r)
    for metric in METRICS:
        assert getattr(found, metric)[0] == pytest.approx(truth[metric], rel=1e-10), metric


@pytest.mark.parametrize(
    "shape",
    [
        {"d": 2, "rows": (1, 1)},
        {"d": 7, "rows": (1, 1), "targets": 2},
        {"d": 5, "rows": (1, 4)},
        {"d": 60, "rows": (1, 3), "targets": 2},  # gram coordinates
    ],
    ids=str,
)
def test_simulation_records_the_literal_average(shape, rng):
    pairs, tasks, filter_, start = problem(rng, 12, M=4, realizable=False, **shape)
    options = {"n_trials": 3, "seed": 5, "record": "all", "average": 2, "metrics": (*METRICS, "weights")}
    trace = fl.simulate(tasks, filter_, 12, **options)
    for trial in range(3):
        order = drawn_order(fl.WithReplacement(), 4, 12, trial, 5)
        path = literal.averages(literal_path(pairs, filter_, order, start), 2)
        np.testing.assert_allclose(start + trace.weights[trial], path, rtol=1e-10, atol=1e-10)
        for t in (1, 2, 7, 12):
            expected = literal.metrics(pairs, order[:t], path[:t])
            for metric in METRICS:
                found = getattr(trace, metric)[trial, t - 1]
                assert found == pytest.approx(expected[metric], rel=1e-9, abs=1e-12), metric
    alone = fl.simulate(tasks, filter_, 12, **{**options, "record": [0, 12], "metrics": ("average_loss", "weights")})
    np.testing.assert_allclose(alone.average_loss[:, 1], trace.average_loss[:, -1], rtol=1e-12)
    np.testing.assert_array_equal(alone.weights[:, 0], 0.0)


def test_long_averages_cross_block_borders(rng):
    """More steps than one block of draws: after it, gram coordinates start anew from other weights."""
    pairs = random_pairs(rng, M=3, d=40, rows=(2, 3), realizable=False)
    tasks, k = fl.TaskCollection(pairs), 4200
    options = {"n_trials": 2, "seed": 1, "metrics": ("average_loss", "weights")}
    trace = fl.simulate(tasks, fl.Ridge(0.5), k, average=1, record=[4096, 4097, k], **options)
    path = fl.simulate(tasks, fl.Ridge(0.5), k, record="all", **options).weights[1]
    for j, t in enumerate(trace.steps):
        average = np.average(path[:t], axis=0, weights=np.arange(1.0, t + 1))
        np.testing.assert_allclose(trace.weights[1, j], average, atol=1e-10)
        np.testing.assert_allclose(trace.average_loss[1, j], fl.metrics.average_loss(tasks, average), rtol=1e-9)


LAWS = [
    fl.WithReplacement(),
    fl.WithReplacement([0.6, 0.1, 0.3]),
    fl.RandomReshuffling(),
    fl.Cyclic(),
    fl.WithoutReplacement(),
]


@pytest.mark.parametrize("ordering", LAWS, ids=repr)
@pytest.mark.parametrize("r", [0, 2])
def test_the_worst_teacher_of_an_average(r, ordering, rng):
    """Its loss is what ``expect`` gives for it, and no other teacher does worse."""
    pairs, tasks, filter_, _ = problem(rng, 3)
    for schedule in (filter_, fl.Projection(), [fl.Ridge(0.2), filter_]):
        found = fl.worst_case(tasks, schedule, 3, ordering=ordering, average=r, record=[0, 2, 3])
        first = schedule[1] if isinstance(schedule, list) else schedule
        losses, teachers = (
            each[1] if isinstance(schedule, list) else each for each in (found.worst_case, found.teacher)
        )

        def loss(teacher, step, first=first):
            taught = fl.TaskCollection([(X, X @ teacher) for X, _ in pairs])
            exact = fl.expect(taught, first, 3, ordering=ordering, average=r, record=[step])
            return float(exact.average_loss[0])

        for i, step in enumerate(found.steps.tolist()):
            assert losses[i] == pytest.approx(loss(teachers[i], step), rel=1e-10)
            others = rng.standard_normal((5, 6))
            assert all(loss(w / np.linalg.norm(w), step) <= losses[i] * (1 + 1e-10) for w in others)


def test_the_whole_curve_is_one_pass(rng):
    _, tasks, _, _ = problem(rng, 4, realizable=False)
    curve = fl.expect(tasks, fl.schedules.increasing(), 30, average=2, record="all")
    schedules = [fl.Ridge(0.1), fl.schedules.increasing()]
    grid = fl.expect(tasks, schedules, 30, average=2, record=[3, 30])
    np.testing.assert_allclose(grid.average_loss[1], curve.average_loss[[2, 29]], rtol=1e-12)


@pytest.mark.parametrize("value", [-1, np.nan, np.inf, 33, "2", True])
def test_a_power_that_is_none_is_refused_by_name(value, rng):
    _, tasks, _, _ = problem(rng, 4)
    for verb in (fl.expect, fl.simulate, fl.worst_case):
        with pytest.raises((TypeError, ValueError), match=r"average must be .*use 2 for weights"):
            verb(tasks, fl.Projection(), 3, average=value)
