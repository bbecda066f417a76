"""Worst cases over all teachers, against brute force."""

import numpy as np
import pytest

import forgetless as fl
from support import literal
from support.agreement import LAWS, orders_of
from support.collections import random_pairs


def brute_force(pairs, filter_, orders, average):
    """½λ_max of E[Πᵀ H Π] with the product Π of the literal d × d maps of every order, or an average of products."""
    d = pairs[0][0].shape[1]
    H = sum(X.T @ X for X, _ in pairs) / len(pairs)
    V = np.zeros((d, d))
    for order, probability in orders:
        products = [np.eye(d)]
        for t, m in enumerate(order):
            products.append(products[-1] - literal.applied(filter_[t], pairs[m][0].T @ pairs[m][0]) @ products[-1])
        product = products[-1]
        if average is not None:
            product = np.average(products[1:], axis=0, weights=np.arange(1.0, len(order) + 1) ** average)
        V += probability * product.T @ H @ product
    return 0.5 * np.linalg.eigvalsh(V)[-1]


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("kind", ["plain", "rank-deficient", "wide", "unregularized"])
@pytest.mark.parametrize("average", [None, 0, 2])
def test_worst_case_equals_brute_force_and_is_attained(law, kind, average, rng):
    shapes = {"rank-deficient": {"rows": (3, 5), "rank": 2}, "wide": {"d": 25}}
    pairs, (ordering, k) = random_pairs(rng, M=3, realizable=False, **shapes.get(kind, {})), LAWS[law]
    filter_ = fl.Projection() if kind == "unregularized" else fl.Ridge(rng.uniform(0.05, 2.0, k))
    options = {"ordering": ordering, "average": average}
    found = fl.worst_case(fl.TaskCollection(pairs), filter_, k, **options)
    truth = brute_force(pairs, filter_, orders_of(ordering, 3, k), average)
    assert found.worst_case[0] == pytest.approx(truth, rel=1e-10)
    assert np.linalg.norm(found.teacher[0]) == pytest.approx(1.0, rel=1e-13)
    assert 0 < found.errors["worst_case"] < 1e-8
    taught = fl.TaskCollection([(X, X @ found.teacher[0]) for X, _ in pairs])
    attained = fl.expect(taught, filter_, k, **options)
    assert attained.average_loss[0] == pytest.approx(found.worst_case[0], rel=1e-10)


@pytest.mark.parametrize("k", [5, 3000])
def test_the_whole_curve_of_a_fixed_filter(k, rng):
    """Its form is symmetric to the last bit: after 3000 steps 1e-61 is left, and rounding does not stall near 1e-17."""
    tasks = fl.TaskCollection(random_pairs(rng, M=5, d=6, rows=(1, 2)))
    curve = fl.worst_case(tasks, fl.Ridge(0.4), k, record=[0, 1, 2, 4, k])
    assert curve.teacher.shape == (5, 6)
    for step, value in zip(curve.steps[1:], curve.worst_case[1:], strict=True):
        single = fl.worst_case(tasks, fl.Ridge(np.full(step, 0.4)), step)
        assert value == pytest.approx(single.worst_case[0], rel=1e-9)
    assert curve.worst_case[0] == pytest.approx(0.5 * np.linalg.eigvalsh(sum(t.X.T @ t.X for t in tasks) / 5)[-1])


def test_cycles_are_their_orders(rng):
    tasks = fl.TaskCollection(random_pairs(rng, M=3, d=4, rows=(1, 2)))
    steps = [0, 1, 2, 3, 14, 15, 50, 52]
    fast = fl.worst_case(tasks, fl.Ridge(0.4), 52, ordering=fl.Cyclic(), record=steps)
    order = fl.Cyclic().sample(3, 52).tolist()
    slow = fl.worst_case(tasks, fl.Ridge(0.4), 52, ordering=fl.FixedOrder(order), record=steps)
    np.testing.assert_allclose(fast.worst_case, slow.worst_case, rtol=1e-10)
    far = fl.worst_case(tasks, fl.Ridge(1e4), 10**6, ordering=fl.Cyclic())
    assert 0 < far.worst_case[0] < fast.worst_case[0]
