"""Campaigns over many random problems, for ``make test-long``."""

import numpy as np
import pytest

import forgetless as fl
from support import literal
from support.agreement import METRICS, agree, check_against_literal, expected
from support.collections import random_pairs

pytestmark = pytest.mark.long


def problem(number):
    rng = np.random.default_rng([17, number])
    d = int(rng.integers(1, 30))
    return rng, {
        "M": int(rng.integers(1, 6)),
        "d": d,
        "rows": (1, int(rng.integers(1, 2 * d + 2))),
        "rank": int(rng.integers(1, d + 1)),
        "realizable": bool(rng.integers(2)),
        "targets": None if rng.integers(2) else int(rng.integers(1, 4)),
        "scales": tuple(10.0 ** rng.uniform(-2, 2, 3)),
    }


@pytest.mark.parametrize("number", range(300))
def test_simulation(number, monkeypatch):
    rng, shape = problem(number)
    pairs = random_pairs(rng, **shape)
    # Literal normal equations lose digits below this share of the largest eigenvalue.
    strength = 1e-3 * max(np.linalg.norm(X, 2) for X, _ in pairs) ** 2
    schedule = fl.Ridge(strength * 10.0 ** rng.uniform(0, 3, 9))
    for backend in ("never", "always"):
        monkeypatch.setenv("FORGETLESS_NUMBA", backend)
        check_against_literal(pairs, schedule, fl.WithReplacement(), 9, np.random.default_rng(number))


@pytest.mark.parametrize("number", range(300))
def test_expectation(number):
    rng, shape = problem(number)
    shape["M"] = min(shape["M"], 3)
    pairs = random_pairs(rng, **shape)
    tasks = fl.TaskCollection(pairs)
    start = rng.standard_normal(tasks.teacher().shape)
    filter_ = fl.Ridge(1e-3 * tasks.radius**2 * 10.0 ** rng.uniform(0, 3, 4))
    p = rng.dirichlet(np.ones(tasks.n_tasks))
    # Of losses that start at this size, sums over all tasks resolve differences down to rounding of it.
    slack = 1e-13 * float(fl.metrics.average_loss(tasks, start))
    tasks = tasks.shifted(start)
    found = fl.expect(tasks, filter_, 4, ordering=fl.WithReplacement(p), metrics=METRICS)
    truth = expected(pairs, filter_, literal.all_orderings(tasks.n_tasks, 4, p), start)
    agree(found, truth, METRICS, rel=1e-8, slack=slack)
    k = min(4, tasks.n_tasks)
    found = fl.expect(tasks, filter_[:k], k, ordering=fl.WithoutReplacement(), metrics=METRICS)
    orders = literal.all_orderings(tasks.n_tasks, k, replacement=False)
    agree(found, expected(pairs, filter_, orders, start), METRICS, rel=1e-8, slack=slack)
