"""The closed form of two tasks, against many digits and the published table."""

import mpmath
import numpy as np
import pytest

import forgetless as fl


def diagonal(theta, coefficient, k):
    """The closed form's own 2 × 2 matrix, raised to the power k in 700 digits: enough for 1 − φ at λ = 1e308."""
    with mpmath.workdps(700):
        angle, phi = mpmath.mpf(float(theta)) / 2, 1 / (1 + mpmath.mpf(float(coefficient)))
        c, s = mpmath.cos(angle) ** 2, mpmath.sin(angle) ** 2
        B = mpmath.matrix([[(1 - phi * c) ** 2, phi**2 * c * s], [phi**2 * c * s, (1 - phi * s) ** 2]])
        return float(max(B**k * mpmath.matrix([c, s])) / 2)


@pytest.mark.parametrize("theta", [0.01, np.pi / 16, np.pi / 4, 1.5, 2.5])
@pytest.mark.parametrize("coefficient", [0.0, 0.3, 20.0, 1e4])
@pytest.mark.parametrize("k", [1, 7, 10**6])
def test_two_tasks_to_eight_digits_at_a_million_steps(theta, coefficient, k):
    """The engines, which know nothing of the angle, and the teacher that they find."""
    expected, tasks = diagonal(theta, coefficient, k), fl.theory.constructions.two_tasks(theta)
    found = fl.worst_case(tasks, fl.Ridge(coefficient), k)
    assert found.worst_case[0] == pytest.approx(expected, rel=1e-8, abs=1e-290)
    filter_ = fl.Projection() if coefficient == 0 else fl.Ridge(coefficient)
    taught = fl.TaskCollection([(task.X, task.X @ found.teacher[0]) for task in tasks])
    assert fl.expect(taught, filter_, k).average_loss[0] == pytest.approx(expected, rel=1e-8, abs=1e-290)


@pytest.mark.parametrize("theta", [1e-6, 0.1, np.pi / 4, np.pi / 2, 2.5, 3.14159])
@pytest.mark.parametrize("coefficient", [0.0, 1e-20, 1e-3, 1.0, 1e8, 1e15, 1e16, 1e17, 1e60, 1e200, 1e308])
def test_two_tasks_at_coefficients_of_any_size(theta, coefficient):
    k = np.array([0, 1, 2, 100, 10**6])
    expected = [diagonal(theta, coefficient, int(each)) for each in k]
    np.testing.assert_allclose(fl.theory.two_task_loss(theta, coefficient, k), expected, rtol=1e-12, atol=1e-290)


TABLE = {
    np.pi / 16: {2: 0.510, 4: 1.328, 8: 3.006, 16: 6.384, 32: 1.650, 64: 0, 512: 0},
    np.pi / 8: {2: 0.815, 4: 1.946, 8: 1.794, 16: 0, 64: 0},
    np.pi / 4: {2: 1.299, 4: 0, 8: 0, 512: 0},
    3 * np.pi / 8: {2: 0, 4: 0, 64: 0},
    np.pi / 2: {2: 0, 8: 0},
}


@pytest.mark.parametrize("theta", TABLE)
def test_best_coefficients_of_the_two_task_problem(theta):
    found, _ = fl.theory.two_task_optimum(theta, np.array(list(TABLE[theta])))
    np.testing.assert_allclose(found, list(TABLE[theta].values()), atol=6e-4)


def test_the_best_coefficient_is_the_global_one():
    """Against a fine grid, also where there are two local minima, as at θ = π/16 and k = 28."""
    theta, k = np.meshgrid(np.array([0.03, np.pi / 16, 0.5, 1.2, 2.9, 2.93375]), np.arange(1, 60))
    coefficient, loss = fl.theory.two_task_optimum(theta, k)
    fine = np.concatenate([[0.0], np.geomspace(1e-4, 1e4, 20_000)])
    np.testing.assert_allclose(fl.theory.two_task_loss(theta, coefficient, k), loss, rtol=1e-12)
    for where in np.ndindex(theta.shape):
        assert loss[where] <= fl.theory.two_task_loss(theta[where], fine, k[where]).min() * (1 + 1e-9)


def test_optima_near_the_drop_and_near_zero():
    coefficient, _ = fl.theory.two_task_optimum(2.93375, 25)
    assert coefficient == pytest.approx(10.434, abs=2e-3)
    coefficient, _ = fl.theory.two_task_optimum(0.0014566789790271784, 936633)
    assert coefficient == pytest.approx(0.00636, abs=2e-5)
    assert fl.theory.two_task_loss(1e-9, 7.45e-9, 1) == pytest.approx(diagonal(1e-9, 7.45e-9, 1), rel=1e-9)
