import itertools
import re
from pathlib import Path

import numpy as np
import pytest

import forgetless as fl
from forgetless.orderings import BLOCK, Moves
from support.agreement import METRICS, agree, expected
from support.checks import check_frozen, check_ordering
from support.collections import random_pairs
from support.registry import ORDERINGS


@pytest.mark.parametrize("ordering", ORDERINGS, ids=repr)
def test_same_seed_same_order_and_a_prefix_for_a_smaller_k(ordering):
    check_frozen(ordering)
    order = ordering.sample(4, 4, seed=3)
    assert order.shape == (4,)
    assert order.max() < 4
    np.testing.assert_array_equal(order, ordering.sample(4, 4, seed=3))
    np.testing.assert_array_equal(order[:2], ordering.sample(4, 2, seed=3))


@pytest.mark.parametrize("n_tasks", [1, 2, 3, 7, 40, 300, 70_000])
def test_uniform_draws_are_uniform(n_tasks):
    draws = fl.WithReplacement().sample(n_tasks, 200_000, seed=n_tasks)
    bins = min(n_tasks, 20)
    counts = np.bincount(draws.astype(np.int64) * bins // n_tasks, minlength=bins)
    expected = np.bincount(np.arange(n_tasks) * bins // n_tasks) / n_tasks * len(draws)
    assert np.sum((counts - expected) ** 2 / expected) < bins + 6 * np.sqrt(2 * bins)
    # Successive draws are independent: the digits of one random number must not be correlated.
    if n_tasks > 1:
        centred = draws - draws.mean()
        for lag in (1, 2, 3, 11):
            assert abs(np.mean(centred[lag:] * centred[:-lag])) / centred.var() < 5 / np.sqrt(len(draws))


@pytest.mark.parametrize(("n_tasks", "digits"), [(2, 11), (45, 2)])
def test_a_uniform_draw_is_a_digit_of_a_random_number_below_2048(n_tasks, digits):
    rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence(5, spawn_key=(0,))))
    numbers = rng.integers(n_tasks**digits, size=(8, 2), dtype=np.uint16)[0].tolist()
    expected = [number // n_tasks**p % n_tasks for number in numbers for p in reversed(range(digits))]
    assert fl.WithReplacement().sample(n_tasks, 2 * digits, seed=5).tolist() == expected


def test_given_probabilities_are_followed():
    assert fl.WithReplacement([1.0]).sample(1, 2).tolist() == fl.FixedOrder([0]).sample(1, 1).tolist() * 2 == [0, 0]
    p = np.array([0.5, 0.0, 0.2, 0.3])
    assert sum(fl.WithReplacement(p.astype(np.float32)).probabilities) == pytest.approx(1.0, abs=1e-15)
    draws = fl.WithReplacement(p).sample(4, 100_000, seed=0)
    counts = np.bincount(draws, minlength=4)
    assert counts[1] == 0
    np.testing.assert_allclose(counts / 100_000, p, atol=5 * 0.5 / np.sqrt(100_000))


def test_without_replacement_is_a_uniform_permutation():
    orders = [tuple(fl.WithoutReplacement().sample(3, 3, seed=i).tolist()) for i in range(3000)]
    kinds, counts = np.unique(orders, axis=0, return_counts=True)
    assert len(kinds) == 6
    assert np.abs(counts - 500).max() < 5 * np.sqrt(500)


def test_epochs_and_cycles_cross_block_borders_intact():
    order = fl.RandomReshuffling().sample(7, 3 * BLOCK, seed=1)
    epochs = order[: 7 * (len(order) // 7)].reshape(-1, 7)
    np.testing.assert_array_equal(np.sort(epochs, axis=1), np.broadcast_to(np.arange(7), epochs.shape))
    assert len(np.unique(epochs, axis=0)) > 1000
    order = fl.Cyclic().sample(5, 2 * BLOCK + 3)
    np.testing.assert_array_equal(order, np.arange(2 * BLOCK + 3) % 5)


def test_orderings_say_when_they_repeat():
    assert [each.period(4) for each in ORDERINGS] == [1, 1, None, 4, 4, None]
    assert [each.deterministic for each in ORDERINGS] == [False] * 4 + [True] * 2


def test_sample_gives_the_orders_that_simulate_follows():
    tasks = fl.TaskCollection([(np.eye(3)[:1], [float(m)]) for m in range(5)])
    trace = fl.simulate(tasks, fl.Projection(), 20, n_trials=11, seed=3, record="all", metrics="weights")
    orders = fl.WithReplacement().sample(5, 20, seed=3, n_trials=11)
    np.testing.assert_array_equal(np.rint(trace.weights[:, :, 0]), orders)
    np.testing.assert_array_equal(fl.WithReplacement().sample(5, 20, seed=3), orders[0])
    assert fl.WithReplacement().sample(3, 5, 0, n_trials=1).shape == (1, 5)
    with pytest.raises(ValueError, match="n_trials must be at least 1"):
        fl.WithReplacement().sample(3, 5, 0, n_trials=0)


class Sampled(fl.orderings.Ordering):
    """A user's ordering that only samples."""

    def blocks(self, n_tasks, k, n_trials, rng):
        return fl.RandomReshuffling().blocks(n_tasks, k, n_trials, rng)


class Moved(Sampled):
    """A user's ordering with moves of its own."""

    def __init__(self, own):
        self.own = own

    def moves(self, n_tasks, t):
        return self.own


@pytest.mark.parametrize(
    ("moves", "said"),
    [
        (Moves([0, 0], [0, 0], [0, 4], [0.5, 0.5]), "tasks in 0..3"),
        (Moves([0, 0], [0, 0], [0, 1], [0.5, 0.4]), "sum to 1 from each of the 1 states"),
        (Moves([1], [0], [0], [1.0]), "sum to 1 from each of the 1 states"),
    ],
)
def test_moves_that_do_not_fit_are_refused(moves, said, rng):
    tasks = fl.TaskCollection(random_pairs(rng, M=4, d=5))
    with pytest.raises(ValueError, match=said):
        fl.expect(tasks, fl.Ridge(1.0), 7, ordering=Moved(moves))
    with pytest.raises(fl.errors.NoExactLawError, match=r"it has no moves\(\); use simulate"):
        fl.expect(tasks, fl.Ridge(1.0), 7, ordering=Sampled())


def test_moves_are_sorted_and_complete(rng):
    assert Moves([0, 0], [1, 0], [0, 1], [0.5, 0.5]).task.tolist() == [1, 0]
    tasks, without = fl.TaskCollection(random_pairs(rng, M=3)), Moves([0, 0], [0, 0], [0, 2], [0.5, 0.5])
    found = [fl.expect(tasks, 1.0, 2, ordering=each) for each in (Moved(without), fl.WithReplacement([0.5, 0, 0.5]))]
    assert found[0].average_loss == pytest.approx(found[1].average_loss, rel=1e-12)
    with pytest.raises(ValueError, match=r"got lengths \[1, 2\]"):
        Moves([0], [0, 0], [0, 1], [0.5, 0.5])


def test_the_ordering_of_the_documentation_is_exact_at_once(rng):
    """It remembers its last task. All 81 orders; a derivative by a small change; samples with the same law."""
    page = (Path(__file__).parents[1] / "docs" / "extending.md").read_text()
    block = next(each for each in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "class Sticky" in each)
    names, k = {"fl": fl, "np": np}, 4
    exec(block[: block.index("print(")], names)
    ordering = names["Sticky"]()
    pairs = random_pairs(rng, M=3, d=4, realizable=False)
    tasks, strengths = fl.TaskCollection(pairs), rng.uniform(0.1, 2.0, k)
    orders = list(itertools.product(range(3), repeat=k))
    chances = np.prod(np.where(np.diff(orders) == 0, 0.7, 0.15), axis=1) / 3
    exact = fl.expect(tasks, fl.Ridge(strengths), k, ordering=ordering, metrics=METRICS)
    orders = zip(orders, chances, strict=True)
    agree(exact, expected(pairs, fl.Ridge(strengths), orders, np.zeros(4)), METRICS)
    slopes = fl.loss_gradient(tasks, fl.Ridge(strengths), k, ordering=ordering).coefficient
    moved = [fl.expect(tasks, fl.Ridge(strengths + h), k, ordering=ordering).average_loss[0] for h in (-1e-5, 1e-5)]
    assert slopes.sum() == pytest.approx((moved[1] - moved[0]) / 2e-5, rel=1e-6)
    check_ordering(ordering)
    with pytest.raises(fl.errors.NoExactLawError, match=r"next_loss of runs needs .* no following\(\); use expect"):
        fl.simulate(tasks, 1.0, k, ordering=ordering, metrics="next_loss")
