"""Exact gradients of the loss in every strength."""

import numpy as np
import pytest

import forgetless as fl
from support.collections import random_pairs


@pytest.mark.parametrize("objective", ["average_loss", "worst_case"])
@pytest.mark.parametrize("realizable", [True, False])
@pytest.mark.parametrize("probabilities", [None, [0.6, 0.3, 0.1]])
def test_gradient_equals_finite_differences(objective, realizable, probabilities, rng):
    tasks = fl.TaskCollection(random_pairs(rng, M=3, d=4, rows=(1, 6), realizable=realizable, targets=2))
    ordering = fl.WithReplacement(probabilities)
    coefficients = rng.uniform(0.2, 3.0, 6)
    tasks = tasks.shifted(rng.standard_normal((4, 2)))

    def loss(values):
        if objective == "worst_case":
            return fl.worst_case(tasks, fl.Ridge(values), 6, ordering=ordering).worst_case[0]
        return fl.expect(tasks, fl.Ridge(values), 6, ordering=ordering).average_loss[0]

    found = fl.loss_gradient(tasks, fl.Ridge(coefficients), 6, ordering=ordering, objective=objective)
    assert found.loss == pytest.approx(loss(coefficients), rel=1e-12)
    for t in range(6):
        h = 1e-5 * coefficients[t]
        change = np.eye(6)[t] * h
        difference = (loss(coefficients + change) - loss(coefficients - change)) / (2 * h)
        assert found.coefficient[t] == pytest.approx(difference, rel=1e-6, abs=1e-9 * found.loss)


def test_gradient_of_an_unregularized_step(rng):
    """At λ = 0 the derivative is one-sided and finite."""
    tasks = fl.TaskCollection(random_pairs(rng, M=3, d=4))
    found = fl.loss_gradient(tasks, fl.Ridge([0.0, 0.5, 0.5, 0.5]), 4)
    h = 1e-7
    moved = fl.expect(tasks, fl.Ridge([h, 0.5, 0.5, 0.5]), 4).average_loss[0]
    assert found.coefficient[0] == pytest.approx((moved - found.loss) / h, rel=1e-5)


def test_the_worst_case_in_one_coordinate_by_hand():
    """A step on one row of 1 leaves (λ/(1 + λ))²/2, whose derivative is λ/(1 + λ)³."""
    one = fl.TaskCollection([([[1.0]], [0.0])])
    found = fl.loss_gradient(one, fl.Ridge([3.0]), 1, objective="worst_case")
    assert found.loss == pytest.approx(9 / 32)
    np.testing.assert_allclose(found.coefficient, [3 / 64])
