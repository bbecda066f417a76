"""Exact expectations: powers and steps, tiny and large numbers, tasks without information."""

import numpy as np
import pytest

import forgetless as fl
from support import literal
from support.agreement import METRICS, agree, expected
from support.collections import random_pairs

BY_STEPS = ("average_loss", "task_losses")  # whose second metric needs steps

TURN = np.array([[np.cos(0.7), np.sin(0.7)], [-np.sin(0.7), np.cos(0.7)]])
OVERSHOT = [np.diag([1, 0.2]), np.diag([1, 0.2]) @ TURN, np.diag([1, 0.5]) @ TURN @ TURN]
"""Gradient steps between 1/R² and 2/R² overshoot on them, and the moment operator has negative eigenvalues."""


@pytest.mark.parametrize("realizable", [True, False])
@pytest.mark.parametrize(
    "filter_", [fl.Ridge(0.7), fl.Projection(), fl.GradientDescent(4, 0.1), fl.GradientDescent(1, 1.95)], ids=repr
)
def test_powers_equal_steps(realizable, filter_, rng):
    pairs = random_pairs(rng, M=7, d=9, rows=(1, 3), realizable=realizable)
    if filter_ == fl.GradientDescent(1, 1.95):
        pairs = [(X, X @ [1.0, 2.0] + (not realizable) * rng.standard_normal(2)) for X in OVERSHOT]
    options = {"record": [0, 1, 5, 60, 500], "ordering": fl.WithReplacement(rng.dirichlet(np.ones(len(pairs))))}
    found = fl.expect(fl.TaskCollection(pairs), filter_, 500, **options)
    steps = fl.expect(fl.TaskCollection(pairs), filter_, 500, metrics=BY_STEPS, **options)
    np.testing.assert_allclose(found.average_loss, steps.average_loss, rtol=1e-9)


@pytest.mark.parametrize("strength", [1.0, np.ones(500)], ids=["powers", "steps"])
def test_probabilities_are_exact(strength):
    """Ten times 0.1 is 1 − 1e-16, and must not be a decay of 1 in every step."""
    one = fl.metrics.Metric("one", lambda now: now.square([[0.0]], 1.0))
    tasks = fl.TaskCollection(10 * [([[1.0]], [1.0])])
    assert fl.expect(tasks, fl.Ridge(strength), 500, metrics=one).values["one"].tolist() == [1.0]


@pytest.mark.parametrize(("verb", "strength"), [(fl.expect, 1e12), (fl.simulate, 1e8)])
@pytest.mark.parametrize("ordering", ["with-replacement", "without-replacement"])
def test_small_drift_and_forgetting_keep_their_digits(verb, strength, ordering, rng):
    """Under strong regularization both are tiny against the losses, and powers of the strength."""
    tasks, grid = fl.TaskCollection(random_pairs(rng, M=3, d=4)), [fl.Ridge(strength), fl.Ridge(10 * strength)]
    seed = {"seed": 0} if verb is fl.simulate else {}
    found = verb(tasks, grid, 3, ordering=ordering, metrics=("drift", "forgetting"), record="last", **seed)
    for name, ratio in (("drift", 100), ("forgetting", 10)):
        one, other = np.ravel(found.values[name])
        assert one / other == pytest.approx(ratio, rel=1e-6)


def test_step_sizes_beyond_the_limit_are_refused_and_at_it_all_methods_agree():
    """From 2/R² on errors grow, which some methods would follow and others cut off."""
    tasks = fl.TaskCollection([([[1.0, 0.2]], [1.0]), ([[0.3, 0.7]], [2.0])])
    limit = 2 / tasks.radius**2
    for excess in (1e-9, 1e-11):
        with pytest.raises(ValueError, match="step_size must be at most 2/R²"):
            fl.expect(tasks, fl.GradientDescent(1, limit * (1 + excess)), 10)
    for n_steps in (1, 7):
        filter_, k = fl.GradientDescent(n_steps, limit * (1 + 1e-15)), 10**5
        found = [fl.expect(tasks, filter_, k, metrics=names) for names in ("average_loss", BY_STEPS)]
        assert found[0].average_loss[0] == pytest.approx(found[1].average_loss[0], rel=1e-8)
        slope = fl.loss_gradient(tasks, fl.GradientDescent(n_steps, np.full(50, limit * (1 + 1e-15))), 50)
        assert slope.loss == pytest.approx(fl.expect(tasks, filter_, 50).average_loss[0], rel=1e-10)
    one = fl.TaskCollection([([[1.0]], [1.0])])
    assert fl.simulate(one, fl.GradientDescent(1, 2 + 5e-13), 1000, record="last").average_loss.tolist() == [[0.5]]


def test_a_small_conflict_beside_a_large_target_is_not_lost():
    tasks = fl.TaskCollection([([[1.0, 0]], [1.0]), ([[1.0, 0]], [-1.0]), ([[0, 1e-4]], [1e6])])
    assert fl.expect(tasks, fl.Projection(), 3000).average_loss[0] == pytest.approx(2 / 3, rel=1e-9)
    rng = np.random.default_rng(0)
    X = [rng.standard_normal((2, 2)), 1e-5 * rng.standard_normal((2, 2))]
    noisy = fl.TaskCollection([(A, A @ [1.0, 1.0] + 1e-9 * rng.standard_normal(2)) for A in X])
    exact = fl.expect(noisy, fl.Projection(), 400).average_loss[0]
    sampled = fl.simulate(noisy, fl.Projection(), 400, n_trials=400, seed=0, record="last").average_loss
    assert exact == pytest.approx(sampled.mean(), rel=0.2)


def test_degenerate_collections():
    """Tasks without rows, or with rows of zeros: nothing is learned from them, and their labels are still lost."""
    zero = fl.TaskCollection([(np.zeros((2, 3)), [1.0, 1.0]), (np.zeros((0, 3)), [])])
    for ordering in (fl.WithReplacement(), fl.WithoutReplacement(), fl.Cyclic()):
        for verb in (fl.expect, fl.simulate):
            found = verb(zero, "increasing", 2, ordering=ordering, metrics=METRICS, record="last")
            assert (found.average_loss == 0.5).all()
            assert (found.drift == 0.0).all()
        worst = fl.worst_case(zero, fl.Ridge(1.0), 2, ordering=ordering)
        assert (worst.worst_case.tolist(), worst.teacher.tolist()) == ([0.0], [[1.0, 0.0, 0.0]])
    slope = fl.loss_gradient(zero, fl.Ridge(1.0), 2, objective="worst_case")
    assert (slope.loss, slope.teacher.tolist(), slope.coefficient.tolist()) == (0.0, [1.0, 0.0, 0.0], [0.0, 0.0])
    empty = fl.TaskCollection([(np.zeros((0, 4)), np.zeros((0, 2)))])
    assert fl.expect(empty, fl.Ridge(1.0), 5, ordering=fl.Cyclic(), metrics=("average_loss", "drift")).drift[0] == 0.0
    mixed = fl.TaskCollection([(np.zeros((0, 2)), []), ([[1.0, 1.0]], [2.0])])
    found = fl.expect(mixed, fl.Ridge(1.0), 3, metrics=METRICS)
    pairs = [(np.zeros((1, 2)), np.zeros(1)), (np.ones((1, 2)), np.array([2.0]))]
    agree(found, expected(pairs, fl.Ridge(1.0), literal.all_orderings(2, 3), np.zeros(2)), METRICS)
    trace = fl.simulate(mixed, fl.Projection(), 30, seed=0, record="last", metrics="weights")
    np.testing.assert_allclose(trace.weights[0, 0], [1.0, 1.0])
