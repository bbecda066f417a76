"""Averages of iterates: runs against the literal average; expectations are in test_enumeration.py."""

import numpy as np
import pytest

import forgetless as fl
from support.agreement import check_against_literal
from support.collections import random_pairs

SHAPES = [
    {"d": 2, "rows": (1, 1)},
    {"d": 7, "rows": (1, 1), "targets": 2},
    {"d": 5, "rows": (1, 4)},
    {"d": 60, "rows": (1, 3), "targets": 2},  # gram coordinates
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_runs_record_the_literal_average(shape, rng):
    pairs = random_pairs(rng, realizable=False, **shape)
    filter_ = fl.Ridge(rng.uniform(0.01, 2.0, 12))
    check_against_literal(pairs, filter_, fl.WithReplacement(), 12, rng, average=2)
    options = {"average": 2, "seed": 5, "metrics": ("average_loss", "weights")}
    curve, alone = (fl.simulate(fl.TaskCollection(pairs), filter_, 12, record=r, **options) for r in ("all", [0, 12]))
    np.testing.assert_allclose(alone.average_loss[:, 1], curve.average_loss[:, -1], rtol=1e-12)
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


def test_the_whole_curve_is_one_pass(rng):
    tasks = fl.TaskCollection(random_pairs(rng, realizable=False))
    curve = fl.expect(tasks, fl.schedules.increasing(), 30, average=2, record="all")
    schedules = [fl.Ridge(0.1), fl.schedules.increasing()]
    grid = fl.expect(tasks, schedules, 30, average=2, record=[3, 30])
    np.testing.assert_allclose(grid.average_loss[1], curve.average_loss[[2, 29]], rtol=1e-12)


@pytest.mark.parametrize("value", [-1, np.nan, np.inf, 33, "2", True])
def test_a_power_that_is_none_is_refused_by_name(value, rng):
    tasks = fl.TaskCollection(random_pairs(rng))
    for verb in (fl.expect, fl.simulate, fl.worst_case):
        with pytest.raises((TypeError, ValueError), match=r"average must be .*use 2 for weights"):
            verb(tasks, fl.Projection(), 3, average=value)
