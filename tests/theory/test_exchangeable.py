"""Bounds for tasks in any exchangeable order: the exact minimax value, and no order above them."""

import numpy as np
import pytest

import forgetless as fl
from support.exchangeable import matrices, mean_forms, worst

s = fl.schedules
KINDS = {"ridge": s.minimax(), "one step": s.minimax_budget(), "five steps": s.minimax_budget(5)}


def next_bound(schedule, k, **options):
    return fl.upper_bound(schedule, k, quantity="next_loss", **options)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("k", [1, 2, 5, 8])
def test_orthonormal_rows_attain_the_bound(kind, k):
    """k + 1 orthonormal rows, each once: 2(k+1)·next_loss = 1 for every algorithm; the library agrees to 1e-12."""
    tasks = fl.theory.constructions.orthonormal_rows(k + 1)
    exact = fl.expect(tasks, KINDS[kind], k, ordering="without-replacement", metrics="next_loss").next_loss[0]
    assert 2 * (k + 1) * exact == pytest.approx(1, abs=1e-12)
    assert next_bound(KINDS[kind], k).value == pytest.approx(1 / (2 * (k + 1)), rel=2e-6)
    assert exact <= next_bound(KINDS[kind], k).value


def test_bounds_hold_on_random_collections(rng):
    """Next task, tasks seen and all M tasks, for schedules of every kind, against enumeration of all orders."""
    schedules = [*KINDS.values(), s.increasing(0.25), s.increasing(), s.minimax(0.6), fl.Projection(), fl.Ridge(0.5)]
    for k, M, d, r in ((1, 2, 2, 1), (1, 4, 3, 2), (2, 3, 3, 1), (3, 4, 2, 1), (3, 4, 4, 2), (3, 3, 3, 1)):
        H = matrices(rng, 200, M, d, r)
        for schedule in schedules:
            filter_ = s.resolve(schedule, k, 1.0)
            following, seen = mean_forms(H, filter_, k)
            options = {"ordering": "without-replacement"}
            assert worst(seen).max() <= fl.upper_bound(filter_, k, quantity="seen_loss", **options).value
            assert worst(H.mean(axis=1)).max() <= 0.5 + 1e-12
            average = (1 - k / M) * following + k / M * seen
            assert worst(average).max() <= fl.upper_bound(filter_, k, n_tasks=M, **options).value
            if k < M:
                assert worst(following).max() <= next_bound(filter_, k, n_tasks=M, **options).value * (1 + 1e-12)


def test_seen_tasks_and_all_tasks_without_replacement():
    """As derived: k = 256, seen tasks 1.537 at 13/3 and 1.150 at scale 1; M = k is the seen loss; the next task."""
    options = {"ordering": "without-replacement"}
    for schedule, value in ((s.increasing(), 1.537), (s.increasing(1.0), 1.150), (s.increasing(0.25), 1.575)):
        seen = fl.upper_bound(schedule, 256, quantity="seen_loss", **options)
        assert seen.constant == pytest.approx(value, abs=1e-3)
        assert fl.upper_bound(schedule, 256, n_tasks=256, **options).value == pytest.approx(seen.value, rel=1e-12)
    for schedule, value in ((s.increasing(1.0), 0.5621), (s.increasing(0.25), 0.5713), (s.minimax(), 0.4995)):
        assert next_bound(schedule, 1024).constant == pytest.approx(value, abs=2e-4)
    far = fl.upper_bound(s.increasing(), 256, n_tasks=10**9, **options)
    assert far.constant == pytest.approx(1.1441, abs=2e-4)
    assert fl.upper_bound(s.minimax(), 1, quantity="seen_loss", **options).value == 0.5


def test_closed_forms():
    """κ_t = η(n−t)/(n + (1−η)t) has the bound 1/(2η(2−η)(k+1)), and κ_t = η(n−t)/n at most 1/(2η(k+1))."""
    k, t = 16, np.arange(1, 17)
    for eta in (0.3, 0.6, 0.9):
        shares = eta * (17 - t) / (17 + (1 - eta) * t)
        value = next_bound(fl.Ridge(1 / shares - 1), k).value
        assert value == pytest.approx(1 / (2 * eta * (2 - eta) * 17), rel=1e-5)
        assert next_bound(s.minimax(eta), k).value <= 1 / (2 * eta * 17)
