"""Orders that see the weights, against a literal loop, and the comparison of orders in their paper."""

import numpy as np
import pytest

import forgetless as fl
from forgetless.schedules import resolve
from support import literal
from support.collections import FAMILIES, random_pairs
from support.registry import GREEDY, SCHEDULES, name

Greedy = fl.orderings.Greedy


def literal_order(pairs, ordering, filter_, k, start):
    """The greedy order and the weights after each step, with pseudoinverses instead of spectra."""
    w, order, path = start, [], []
    step = literal.step_of(filter_)
    for t in range(1, k + 1):
        scores = []
        for m, (X, y) in enumerate(pairs):
            residual = X @ w - y
            if ordering.rule == "distance":
                residual = np.linalg.pinv(X, rcond=1e-12) @ residual
            scores.append(-1.0 if m in order and not ordering.repeat else np.linalg.norm(residual))
        order.append(next(m for m in range(len(pairs)) if scores[m] >= (1 - 5e-10) * max(scores)))
        w = step(w, *pairs[order[-1]], t)
        path.append(w)
    return order, np.array(path)


@pytest.mark.parametrize("ordering", GREEDY, ids=repr)
@pytest.mark.parametrize("family", FAMILIES)
def test_equal_to_the_literal_loop(ordering, family, rng):
    """The orders, weights and metrics of every family of tasks, in runs and exactly."""
    pairs = random_pairs(rng, **{**FAMILIES[family], "M": 5})
    tasks = fl.TaskCollection(pairs)
    k = 9 if ordering.repeat else 5
    start, filter_ = rng.standard_normal(tasks.start().shape), fl.Ridge(rng.uniform(0.05, 0.5, k))
    order, path = literal_order(pairs, ordering, filter_, k, start)
    expected = literal.metrics(pairs, order, path)
    options = {"ordering": ordering, "start": start}
    exact = fl.expect(tasks, filter_, k, metrics=(*fl.metrics.METRICS, "task_drift"), **options)
    trace = fl.simulate(tasks, filter_, k, n_trials=3, record="all", **options)
    for metric, value in expected.items():
        assert exact.values[metric][0] == pytest.approx(value, rel=1e-9, abs=1e-13), metric
        np.testing.assert_allclose(trace.values[metric][:, -1], value, rtol=1e-9, atol=1e-13)
    np.testing.assert_allclose(trace.weights, np.stack([path] * 3), rtol=1e-7, atol=1e-10)
    assert np.array_equal(np.isfinite(exact.task_drift[0]), np.isin(np.arange(5), order))
    assert exact.errors["average_loss"] < 1e-3


@pytest.mark.parametrize("schedule", SCHEDULES, ids=name)
def test_every_schedule(schedule, rng):
    pairs = random_pairs(rng, rows=(2, 7), realizable=False)
    tasks, ordering = fl.TaskCollection(pairs), Greedy("distance", repeat=True)
    filter_ = resolve(schedule, 12, tasks.radius)
    order, path = literal_order(pairs, ordering, filter_, 12, np.zeros(6))
    exact = fl.expect(tasks, schedule, 12, ordering=ordering)
    assert exact.average_loss[0] == pytest.approx(literal.metrics(pairs, order, path)["average_loss"], rel=1e-8)


def test_every_schedule_of_a_grid_has_its_own_order(rng):
    pairs = random_pairs(rng, M=6)
    tasks, grid = fl.TaskCollection(pairs), {"weak": 0.01, "strong": 5.0, "rising": "increasing"}
    options = {"ordering": Greedy("residual", repeat=True), "record": [1, 8]}
    exact = fl.expect(tasks, grid, 8, metrics=("average_loss", "next_loss", "distance"), **options)
    trace = fl.simulate(tasks, grid, 8, metrics=("average_loss", "next_loss"), **options)
    for label, schedule in grid.items():
        alone = fl.expect(tasks, schedule, 8, metrics=("average_loss", "next_loss", "distance"), **options)
        for metric, values in alone.values.items():
            assert np.array_equal(exact[label].values[metric], values)
        np.testing.assert_allclose(trace[label].next_loss[0], alone.next_loss, rtol=1e-9)
        # The next task is the one with the largest loss.
        losses = fl.metrics.task_losses(tasks, trace[label].weights[0, -1])
        assert alone.next_loss[-1] == pytest.approx(losses.max(), rel=1e-9)
    assert exact.labels == trace.labels == tuple(grid)


def test_the_start_changes_the_order(rng):
    tasks = fl.TaskCollection(random_pairs(rng, M=8, rows=(1, 1)))
    options = {"ordering": "greedy-residual", "metrics": "task_losses"}
    losses = [fl.expect(tasks, "none", 1, start=w, **options).task_losses[0] for w in 3 * rng.standard_normal((20, 6))]
    assert len({int(np.argmin(each)) for each in losses}) > 2


def test_orders_of_random_tasks():
    """Tsipory et al. (2025), Figure 3a: 50 Gaussian tasks of rank 10 in 100 dimensions, one pass, unregularized."""
    losses = {"greedy": [], "random": []}
    for seed in range(3):
        rng = np.random.default_rng(seed)
        w = rng.standard_normal(100)
        tasks = fl.TaskCollection([(X := rng.standard_normal((10, 100)), X @ w) for _ in range(50)])
        options = {"record": [10, 25, 50], "normalize": True}
        losses["greedy"].append(fl.expect(tasks, "none", 50, ordering="greedy-distance", **options).average_loss)
        runs = fl.simulate(tasks, "none", 50, ordering="without-replacement", n_trials=20, seed=1, **options)
        losses["random"].append(runs.average_loss.mean(axis=0))
    greedy, random = (np.mean(losses[each], axis=0) for each in ("greedy", "random"))
    assert (greedy[1:] < 0.9 * random[1:]).all()
    assert (np.diff(greedy) < 0).all()


def test_a_single_pass_has_a_next_task_until_its_end(rng):
    tasks = fl.TaskCollection(random_pairs(rng, M=4))
    exact = fl.expect(tasks, 0.5, 3, ordering=Greedy(), metrics=("next_loss", "task_losses"))
    assert np.isclose(exact.task_losses[0], exact.next_loss[0], rtol=1e-12).any()
    with pytest.raises(ValueError, match="next_loss after step 4"):
        fl.expect(tasks, 0.5, 4, ordering=Greedy(), metrics="next_loss")


PLAIN = fl.TaskCollection([([[1.0, 0.0]], [1.0]), ([[0.6, 0.8]], [-1.0])])
BAD = [
    (lambda: Greedy("slope"), ValueError, 'rule must be "residual" or "distance"'),
    (lambda: Greedy(repeat=2), TypeError, "repeat must be True or False"),
    (lambda: fl.expect(PLAIN, 1.0, 3, ordering=Greedy()), ValueError, r"at most the number of tasks.*repeat=True"),
    (lambda: Greedy().sample(3, 2), ValueError, "depends on the weights"),
    (lambda: fl.simulate(PLAIN, 1.0, 2, ordering=Greedy(), noise=0.1), ValueError, "depends on the weights"),
    (lambda: fl.expect(PLAIN, 1.0, 2, ordering=Greedy(), drift=0.1), fl.errors.NoExactLawError, "independent draws"),
    (lambda: fl.worst_case(PLAIN, 1.0, 2, ordering=Greedy()), fl.errors.NoExactLawError, "no exact expectation"),
    (lambda: fl.loss_gradient(PLAIN, 1.0, 2, ordering=Greedy()), fl.errors.NoExactLawError, "no exact expectation"),
    (lambda: fl.expect(PLAIN, 1.0, 2, ordering=Greedy(), method="dense"), ValueError, "needs draws"),
]


@pytest.mark.parametrize(("call", "error", "message"), BAD)
def test_bad_arguments(call, error, message):
    with pytest.raises(error, match=message):
        call()
