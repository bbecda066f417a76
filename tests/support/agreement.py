"""Comparisons of the engines with the literal algorithm, run or enumerated."""

import numpy as np
import pytest

import forgetless as fl
from forgetless.schedules import resolve
from support import literal

METRICS = ("average_loss", "seen_loss", "forgetting", "drift")


def enumerate_all(pairs, filter_, orders, start):
    """Expected metrics over weighted orders, by running every one of them."""
    totals = dict.fromkeys(METRICS, 0.0)
    for order, probability in orders:
        path = literal.run(pairs, order, literal.step_of(filter_), start)
        for metric, value in literal.metrics(pairs, order, path).items():
            totals[metric] += probability * value
    return totals


def agree(found, expected, rel=1e-11, slack=0.0):
    """Compare all metrics; a cancelling one to the same digits as the losses it is made of."""
    slack = slack + 1e-14 * (expected["seen_loss"] + expected["average_loss"])
    for metric in METRICS:
        assert found[metric] == pytest.approx(expected[metric], rel=rel, abs=slack), metric


def last(expectation):
    return {metric: float(getattr(expectation, metric)[..., -1]) for metric in METRICS}


def drawn_order(ordering, n_tasks, k, trial, seed):
    return ordering.sample(n_tasks, k, seed=seed, n_trials=trial + 1)[trial].astype(int)


def literal_path(pairs, filter_, order, start):
    return literal.run(pairs, order, literal.step_of(filter_), start)


def check_against_literal(pairs, schedule, ordering, k, rng, trials=3):
    tasks = fl.TaskCollection(pairs)
    start = rng.standard_normal(tasks.teacher().shape)
    options = {"record": "all", "metrics": (*METRICS, "weights")}
    trace = fl.simulate(tasks.shifted(start), schedule, k, ordering=ordering, n_trials=trials, seed=5, **options)
    filter_ = resolve(schedule, k, tasks.radius)
    for trial in range(trials):
        order = drawn_order(ordering, len(pairs), k, trial, 5)
        path = literal_path(pairs, filter_, order, start)
        scale = np.abs(path).max()
        np.testing.assert_allclose(start + trace.weights[trial], path, atol=1e-9 * scale)
        for t in range(1, k + 1):
            expected = literal.metrics(pairs, order[:t], path[:t])
            size = 1e-9 * max(abs(value) for value in expected.values()) + 1e-12
            for metric in METRICS:
                assert getattr(trace, metric)[trial, t - 1] == pytest.approx(expected[metric], rel=1e-9, abs=size), (
                    metric
                )
