"""Worst cases over all teachers, against brute force."""

import itertools

import numpy as np
import pytest

import forgetless as fl
from support import literal
from support.collections import random_pairs


def brute_force(pairs, filter_, orders):
    """½λ_max of E[Πᵀ H Π] with the product Π of the literal d × d maps of every order."""
    d = pairs[0][0].shape[1]
    H = sum(X.T @ X for X, _ in pairs) / len(pairs)
    V = np.zeros((d, d))
    for order, probability in orders:
        product = np.eye(d)
        for t, m in enumerate(order):
            xi, vectors = np.linalg.eigh(pairs[m][0].T @ pairs[m][0])
            share = filter_[t].factors(np.where(xi > 1e-12, xi, 0))
            product = (np.eye(d) - (vectors * share) @ vectors.T) @ product
        V += probability * product.T @ H @ product
    return 0.5 * np.linalg.eigvalsh(V)[-1]


LAWS = {
    "uniform": (fl.WithReplacement(), 4, lambda: literal.all_orderings(3, 4)),
    "given": (fl.WithReplacement([0.5, 0.1, 0.4]), 4, lambda: literal.all_orderings(3, 4, [0.5, 0.1, 0.4])),
    "part of an epoch": (fl.WithoutReplacement(), 2, lambda: literal.all_orderings(3, 2, replacement=False)),
    "an epoch": (fl.WithoutReplacement(), 3, lambda: literal.all_orderings(3, 3, replacement=False)),
    "epochs": (
        fl.RandomReshuffling(),
        5,
        lambda: [((*a, *b)[:5], 1 / 36) for a, b in itertools.product(itertools.permutations(range(3)), repeat=2)],
    ),
    "cyclic": (fl.Cyclic(), 5, lambda: [((0, 1, 2, 0, 1), 1.0)]),
    "sequence": (fl.FixedOrder([2, 2, 0, 1]), 4, lambda: [((2, 2, 0, 1), 1.0)]),
}


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("kind", ["plain", "rank-deficient", "wide"])
def test_worst_case_equals_brute_force_and_is_attained(law, kind, rng):
    shapes = {"plain": {}, "rank-deficient": {"rows": (3, 5), "rank": 2}, "wide": {"d": 25}}
    pairs = random_pairs(rng, M=3, realizable=False, **shapes[kind])
    ordering, k, orders = LAWS[law]
    filter_ = fl.Ridge(rng.uniform(0.05, 2.0, k))
    found = fl.worst_case(fl.TaskCollection(pairs), filter_, k, ordering=ordering)
    assert found.worst_case[0] == pytest.approx(brute_force(pairs, filter_, orders()), rel=1e-11)
    assert np.linalg.norm(found.teacher[0]) == pytest.approx(1.0, rel=1e-13)
    taught = fl.TaskCollection([(X, X @ found.teacher[0]) for X, _ in pairs])
    attained = fl.expect(taught, filter_, k, ordering=ordering)
    assert attained.average_loss[0] == pytest.approx(found.worst_case[0], rel=1e-11)


@pytest.mark.parametrize("k", [5, 3000])
def test_the_whole_curve_of_a_fixed_filter(k, rng):
    tasks = fl.TaskCollection(random_pairs(rng, M=5, d=6, rows=(1, 2)))
    steps = [0, 1, 2, 4, k]
    curve = fl.worst_case(tasks, fl.Ridge(0.4), k, record=steps)
    assert curve.worst_case.shape == (5,)
    assert curve.teacher.shape == (5, 6)
    for i, step in enumerate(steps[1:], start=1):
        single = fl.worst_case(tasks, fl.Ridge(np.full(step, 0.4)), step)
        assert curve.worst_case[i] == pytest.approx(single.worst_case[0], rel=1e-9)
    assert curve.worst_case[0] == pytest.approx(0.5 * np.linalg.eigvalsh(sum(t.X.T @ t.X for t in tasks) / 5)[-1])


def test_small_worst_cases_keep_their_digits():
    """The form is symmetric to the last bit; otherwise rounding would stall near 1e-17."""
    rng = np.random.default_rng(0)
    tasks = fl.TaskCollection([(rng.standard_normal((2, 4)), [0.0, 0]) for _ in range(3)])
    found = fl.worst_case(tasks, fl.Ridge(np.full(1000, 0.5)), 1000)
    assert found.worst_case[0] == pytest.approx(fl.worst_case(tasks, fl.Ridge(0.5), 1000).worst_case[0], rel=1e-9)


def test_cycles_are_their_orders(rng):
    tasks = fl.TaskCollection(random_pairs(rng, M=3, d=4, rows=(1, 2)))
    steps = [0, 1, 2, 3, 14, 15, 50, 52]
    fast = fl.worst_case(tasks, fl.Ridge(0.4), 52, ordering=fl.Cyclic(), record=steps)
    order = fl.Cyclic().sample(3, 52).tolist()
    slow = fl.worst_case(tasks, fl.Ridge(0.4), 52, ordering=fl.FixedOrder(order), record=steps)
    np.testing.assert_allclose(fast.worst_case, slow.worst_case, rtol=1e-10)
    far = fl.worst_case(tasks, fl.Ridge(1e4), 10**6, ordering=fl.Cyclic())
    assert 0 < far.worst_case[0] < fast.worst_case[0]
