"""Constructions against what they claim, computed exactly."""

import itertools

import numpy as np
import pytest

import forgetless as fl

s = fl.schedules

SCHEDULES = [fl.Ridge(0.4), fl.Projection(), s.fixed(), s.increasing(), s.increasing_budget(2), s.fixed_budget(3)]


@pytest.mark.parametrize("schedule", SCHEDULES, ids=repr)
def test_claims_equal_exact_values(schedule):
    for theta in (0.05, 0.7, 1.5, 2.8):
        two = fl.theory.constructions.two_tasks(theta)
        assert two.claim(schedule, 9) == pytest.approx(fl.worst_case(two, schedule, 9).worst_case[0], rel=1e-12)
    for k, sign in itertools.product((2, 3, 10, 40), (1, -1)):
        unseen = fl.theory.constructions.unseen_task(k, sign)
        np.testing.assert_array_equal(unseen.radii, np.ones(k))  # the theorem's R, of every task
        steps = max(k, 3)
        exact = fl.expect(unseen, schedule, steps).average_loss[0]
        assert unseen.claim(schedule, steps) == pytest.approx(exact, rel=1e-12)
        assert unseen.claim(schedule, steps) * k >= 1 / 8 * (steps == k)
    for n, weight, cosine in [(1, 3.0, 0.8), (2, 7.0, 0.3), (4, 2.0, 0.8), (2, 15.0, 0.8)]:
        rare = fl.theory.constructions.rare_tasks(30, n, weight, cosine)
        assert (rare.radius, np.linalg.norm(rare.teacher())) == pytest.approx((1.0, 1.0))
        for k in (3, 30):
            assert rare.claim(schedule, k) == pytest.approx(fl.worst_case(rare, schedule, k).worst_case[0], rel=1e-10)
    assert fl.theory.constructions.rare_tasks(2, 4).n_tasks == 5
    assert fl.theory.constructions.orthonormal_rows(1).claim(fl.Projection(), 1) == 0
    rows = fl.theory.constructions.orthonormal_rows(5)
    assert (rows.radius, np.linalg.norm(rows.teacher())) == pytest.approx((1.0, 1.0))
    assert rows.claim(schedule, 9) == pytest.approx(fl.expect(rows, schedule, 9).average_loss[0], rel=1e-12)


@pytest.mark.parametrize("k", [2, 9, 25])
@pytest.mark.parametrize("schedule", [fl.Ridge(0.0), fl.Ridge(1.0), s.increasing(), "random coefficients"], ids=repr)
def test_the_seen_task_construction_attains_its_bound_with_its_probability(k, schedule, rng):
    """Of all orders only the place of the odd task matters, so the probability is computed, not sampled."""
    if schedule == "random coefficients":
        schedule = s.from_coefficients(rng.uniform(0, 30, k))
    tasks = fl.theory.constructions.seen_task(k)
    assert tasks.radius == pytest.approx(1.0)
    assert np.linalg.norm(tasks.teacher()) == pytest.approx(1.0)
    for order in (k - 1) * np.eye(k, dtype=int):
        found = fl.expect(tasks, schedule, k, ordering=fl.FixedOrder(order), metrics="seen_loss").seen_loss[0]
        assert found >= fl.theory.constructions.seen_task_loss(k) * (1 - 1e-9)
    each = 1 / k * (1 - 1 / k) ** (k - 1)  # of one given place for the odd task and none elsewhere
    assert k * each == pytest.approx(fl.theory.constructions.seen_task_probability(k), rel=1e-12)


@pytest.mark.parametrize("k", [2, 5, 9])
@pytest.mark.parametrize("n", [1, 2, 4, 9, 30, 100])
@pytest.mark.parametrize(
    "filter_", [fl.Ridge(1e-3), fl.Ridge(1.0), fl.Ridge(1e3), fl.Projection(), fl.GradientDescent(1, 1.9)], ids=repr
)
def test_the_seen_task_claim_is_below_the_exact_loss_for_any_number_of_steps(k, n, filter_):
    tasks = fl.theory.constructions.seen_task(k)
    exact = fl.expect(tasks, filter_, n, metrics="seen_loss").seen_loss[0]
    claim = tasks.claim(filter_, n)
    assert 0 <= claim <= exact * (1 + 1e-12)
    assert claim > 0 or n == 1
