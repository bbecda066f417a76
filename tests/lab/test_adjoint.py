"""Exact gradients of the loss in every strength."""

import numpy as np
import pytest

import forgetless as fl
from support.collections import random_pairs


@pytest.mark.parametrize("objective", ["average_loss", "worst_case"])
@pytest.mark.parametrize("options", [{}, {"noise": 0.3, "walk": 0.2}], ids=["fixed labels", "noise and walk"])
@pytest.mark.parametrize(
    "ordering",
    [fl.WithReplacement(), fl.WithReplacement([0.6, 0.3, 0.1]), fl.RandomReshuffling(), fl.Cyclic()],
    ids=repr,
)
def test_gradients_equal_differences(objective, options, ordering, rng):
    """Of labels that no weights fit, in two targets."""
    pairs = random_pairs(rng, M=3, d=4, rows=(1, 6), realizable=False, targets=2)
    tasks = fl.TaskCollection(pairs, **options).shifted(rng.standard_normal((4, 2)))
    coefficients = rng.uniform(0.2, 3.0, 5)

    def loss(values):
        verb = fl.worst_case if objective == "worst_case" else fl.expect
        return verb(tasks, fl.Ridge(values), 5, ordering=ordering).values[objective][0]

    found = fl.loss_gradient(tasks, fl.Ridge(coefficients), 5, ordering=ordering, objective=objective)
    assert found.loss == pytest.approx(loss(coefficients), rel=1e-11)
    for t in range(5):
        change = 1e-5 * coefficients[t] * np.eye(5)[t]
        difference = (loss(coefficients + change) - loss(coefficients - change)) / (2 * change[t])
        assert found.coefficient[t] == pytest.approx(difference, rel=1e-6, abs=1e-9 * found.loss)


@pytest.mark.parametrize("ordering", [fl.WithReplacement(), fl.RandomReshuffling(), fl.Cyclic()], ids=repr)
def test_the_worst_teacher_under_noise_and_walks(ordering, rng):
    pairs, options = random_pairs(rng, M=3, d=4, rows=(1, 2)), {"noise": 0.3, "walk": 0.2}
    worst = fl.worst_case(fl.TaskCollection(pairs, **options), 0.7, 5, ordering=ordering)
    taught = fl.TaskCollection([(X, X @ worst.teacher[0]) for X, _ in pairs], **options)
    exact = fl.expect(taught, 0.7, 5, ordering=ordering).average_loss[0]
    assert worst.worst_case[0] == pytest.approx(exact, rel=1e-11)


def test_gradients_of_step_sizes_equal_differences(rng):
    tasks = fl.TaskCollection(random_pairs(rng, M=4, d=5, realizable=False))
    sizes = np.linspace(0.2, 0.6, 8) / tasks.radius**2

    def loss(values):
        return fl.expect(tasks, fl.GradientDescent(3, values), 8).average_loss[0]

    found, h = fl.loss_gradient(tasks, fl.GradientDescent(3, sizes), 8), 1e-6 * sizes
    expected = [(loss(sizes + h * e) - loss(sizes - h * e)) / (2 * h @ e) for e in np.eye(8)]
    assert found.loss == pytest.approx(loss(sizes), rel=1e-12)
    np.testing.assert_allclose(found.parameters["step_size"], expected, rtol=1e-6)


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
    assert found.teacher.tolist() == [1.0]
    assert "teacher" not in repr(found)
    np.testing.assert_allclose(found.coefficient, [3 / 64])
