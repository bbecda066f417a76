"""The loss on the next task, against enumeration of all orders, simulation, and the errors it raises."""

import itertools

import numpy as np
import pytest

import forgetless as fl
from support import literal
from support.collections import random_pairs

s = fl.schedules


@pytest.fixture(params=[True, False], ids=["fitted", "noisy"])
def tasks(request, rng):
    return fl.TaskCollection(random_pairs(rng, d=5, rows=(2, 2), realizable=request.param))


def after(tasks, schedule, order):
    """Return the weights after an order of tasks, step by step."""
    w, filter_ = np.zeros(tasks.n_features), schedule(len(order), tasks.radius)
    for t, m in enumerate(order):
        w = fl.step(w, tasks[m], filter_[t])
    return w


@pytest.mark.parametrize("k", [1, 2, 3])
def test_without_replacement_it_is_the_mean_over_tasks_not_seen(tasks, k):
    schedule = s.minimax()
    losses = [
        literal.loss(after(tasks, schedule, order[:k]), *tasks[order[k]])
        for order in itertools.permutations(range(4), k + 1)
    ]
    exact = fl.expect(tasks, schedule, k, ordering=fl.WithoutReplacement(), metrics="next_loss")
    assert exact.next_loss[0] == pytest.approx(np.mean(losses), rel=1e-12)
    assert exact.errors["next_loss"] < 1e-10


@pytest.mark.parametrize("probabilities", [None, [0.1, 0.2, 0.3, 0.4]])
def test_with_replacement_it_is_the_mean_over_the_next_draw(tasks, probabilities):
    """Uniform draws: the average loss. Otherwise tasks count by their probabilities."""
    p, schedule, total = np.array(probabilities or [0.25] * 4), s.increasing(0.5), 0.0
    for order in itertools.product(range(4), repeat=3):
        w = after(tasks, schedule, order)
        total += np.prod(p[list(order)]) * sum(p[m] * literal.loss(w, *tasks[m]) for m in range(4))
    ordering = fl.WithReplacement(probabilities)
    exact = fl.expect(tasks, schedule, 3, ordering=ordering, metrics=("next_loss", "average_loss"))
    assert exact.next_loss[0] == pytest.approx(total, rel=1e-12)
    assert (exact.next_loss[0] == exact.average_loss[0]) == (probabilities is None)
    fixed = fl.expect(tasks, fl.Ridge(1.0), 50, ordering=ordering, metrics="next_loss")
    steps = fl.expect(tasks, fl.Ridge(1.0), 50, ordering=ordering, metrics=("next_loss", "task_losses"))
    assert fixed.next_loss[0] == pytest.approx(steps.next_loss[0], rel=1e-9)


def test_epochs_and_single_orders(tasks):
    """In a reshuffled epoch the next task is one of those still missing; in a single order it is known."""
    schedule = fl.Ridge(0.7)
    curve = fl.expect(
        tasks, schedule, 6, ordering=fl.RandomReshuffling(), metrics=("next_loss", "average_loss"), record=range(7)
    )
    np.testing.assert_allclose(curve.next_loss[[0, 4]], curve.average_loss[[0, 4]], rtol=1e-12)
    means = []
    for first in itertools.permutations(range(4)):
        for second in itertools.permutations(range(4), 2):
            w = after(tasks, lambda k, radius: schedule, (*first, second[0]))
            means.append(literal.loss(w, *tasks[second[1]]))
    assert curve.next_loss[5] == pytest.approx(np.mean(means), rel=1e-12)
    order = [3, 0, 0, 1, 2]
    one = fl.expect(tasks, schedule, 4, ordering=fl.FixedOrder(order), metrics="next_loss", record=[2, 4])
    expected = [literal.loss(after(tasks, lambda k, radius: schedule, order[:k]), *tasks[order[k]]) for k in (2, 4)]
    np.testing.assert_allclose(one.next_loss, expected, rtol=1e-12)


@pytest.mark.parametrize("ordering", [fl.WithReplacement(), fl.WithoutReplacement(), fl.RandomReshuffling()])
def test_simulation_has_the_exact_mean(ordering, rng):
    tasks = fl.TaskCollection(random_pairs(rng, M=5, d=3, rows=(1, 1), realizable=False))
    options = {"ordering": ordering, "metrics": ("next_loss", "seen_loss"), "record": [0, 1, 3]}
    exact = fl.expect(tasks, s.minimax(), 3, **options)
    trace = fl.simulate(tasks, s.minimax(), 3, n_trials=4000, seed=1, **options)
    values = np.asarray(trace.next_loss)
    error = 5 * values.std(axis=0) / np.sqrt(len(values)) + 1e-12
    assert (np.abs(values.mean(axis=0) - exact.next_loss) <= error).all()
    alone = fl.simulate(tasks, s.minimax(), 3, n_trials=3, seed=1, **{**options, "metrics": "next_loss"})
    np.testing.assert_allclose(alone.next_loss, values[:3], rtol=1e-12)


def test_no_next_task_is_an_error():
    tasks = fl.theory.constructions.two_tasks(1.0)
    cases = {"without-replacement": "at most the number of tasks, 2", fl.FixedOrder([0, 1]): "give at least k indices"}
    for call in (fl.expect, fl.simulate):
        for ordering, hint in cases.items():
            with pytest.raises(ValueError, match=f"next_loss after step 2 needs one task more.*{hint}"):
                call(tasks, fl.Ridge(1.0), 2, ordering=ordering, metrics="next_loss")
    earlier = fl.expect(tasks, fl.Ridge(1.0), 2, ordering="without-replacement", metrics="next_loss", record=[1])
    assert earlier.next_loss[0] > 0
