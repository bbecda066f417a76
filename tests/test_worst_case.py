"""Worst cases, gradients and the two-task problem against brute force and high precision."""

import itertools

import mpmath
import numpy as np
import pytest

import forgetless as fl
import literal
from collections_ import random_pairs


def brute_force(pairs, filter_, orders):
    """½λ_max of E[Πᵀ H Π] with the product Π of the literal d × d maps of every order."""
    d = pairs[0][0].shape[1]
    H = sum(X.T @ X for X, _ in pairs) / len(pairs)
    V = np.zeros((d, d))
    for order, probability in orders:
        product = np.eye(d)
        for t, m in enumerate(order):
            xi, vectors = np.linalg.eigh(pairs[m][0].T @ pairs[m][0])
            share = filter_.at(t)(np.where(xi > 1e-12, xi, 0))
            product = (np.eye(d) - (vectors * share) @ vectors.T) @ product
        V += probability * product.T @ H @ product
    return 0.5 * np.linalg.eigvalsh(V)[-1]


LAWS = {
    "uniform": (fl.WithReplacement(), 4, lambda: literal.all_orderings(3, 4)),
    "given": (fl.WithReplacement([0.5, 0.1, 0.4]), 4, lambda: literal.all_orderings(3, 4, [0.5, 0.1, 0.4])),
    "part of an epoch": (fl.WithoutReplacement(), 2, lambda: literal.all_orderings(3, 2, replacement=False)),
    "an epoch": (fl.WithoutReplacement(), 3, lambda: literal.all_orderings(3, 3, replacement=False)),
    "epochs": (
        fl.Reshuffled(),
        5,
        lambda: [((*a, *b)[:5], 1 / 36) for a, b in itertools.product(itertools.permutations(range(3)), repeat=2)],
    ),
    "cyclic": (fl.Cyclic(), 5, lambda: [((0, 1, 2, 0, 1), 1.0)]),
    "sequence": (fl.Sequence([2, 2, 0, 1]), 4, lambda: [((2, 2, 0, 1), 1.0)]),
}


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("kind", ["plain", "rank-deficient", "wide"])
def test_worst_case_equals_brute_force_and_is_attained(law, kind, rng):
    shapes = {"plain": {}, "rank-deficient": {"rows": (3, 5), "rank": 2}, "wide": {"d": 25}}
    pairs = random_pairs(rng, M=3, realizable=False, **shapes[kind])
    ordering, k, orders = LAWS[law]
    filter_ = fl.Ridge(rng.uniform(0.05, 2.0, k))
    found = fl.worst_case(fl.TaskCollection(pairs), filter_, k, ordering=ordering)
    assert found.loss == pytest.approx(brute_force(pairs, filter_, orders()), rel=1e-11)
    assert np.linalg.norm(found.teacher) == pytest.approx(1.0, rel=1e-13)
    taught = fl.TaskCollection([(X, X @ found.teacher) for X, _ in pairs])
    attained = fl.expect(taught, filter_, k, ordering=ordering)
    assert attained.average_loss[0] == pytest.approx(found.loss, rel=1e-11)


@pytest.mark.parametrize("method", ["steps", "dense", "lanczos"])
def test_the_whole_curve_of_a_fixed_filter(method, rng):
    tasks = fl.TaskCollection(random_pairs(rng, M=5, d=6, rows=(1, 2)))
    steps = [0, 1, 2, 30, 200]
    curve = fl.worst_case(tasks, fl.Ridge(0.4), 200, record=steps, method=method)
    assert curve.loss.shape == (5,)
    assert curve.teacher.shape == (5, 6)
    for i, step in enumerate(steps[1:], start=1):
        single = fl.worst_case(tasks, fl.Ridge(0.4), step, method="steps")
        assert curve.loss[i] == pytest.approx(single.loss, rel=1e-9)
    assert curve.loss[0] == pytest.approx(0.5 * np.linalg.eigvalsh(sum(t.X.T @ t.X for t in tasks) / 5)[-1])


@pytest.mark.parametrize("varying", [False, True])
def test_small_worst_cases_keep_their_digits(varying):
    """The form is symmetric to the last bit; otherwise rounding would stall near 1e-17."""
    rng = np.random.default_rng(0)
    tasks = fl.TaskCollection([(rng.standard_normal((2, 4)), [0.0, 0]) for _ in range(3)])
    filter_ = fl.Ridge(np.full(1000, 0.5)) if varying else fl.Ridge(0.5)
    found = fl.worst_case(tasks, filter_, 1000, method="steps")
    assert found.loss == pytest.approx(fl.worst_case(tasks, fl.Ridge(0.5), 1000, method="dense").loss, rel=1e-9)


def test_cycles_are_raised_to_powers(rng):
    tasks = fl.TaskCollection(random_pairs(rng, M=3, d=4, rows=(1, 2)))
    steps = [0, 1, 2, 3, 14, 15, 50, 52]
    fast = fl.worst_case(tasks, fl.Ridge(0.4), 52, ordering=fl.Cyclic(), record=steps)
    order = fl.Cyclic().sample(3, 52).tolist()
    slow = fl.worst_case(tasks, fl.Ridge(0.4), 52, ordering=fl.Sequence(order), record=steps)
    np.testing.assert_allclose(fast.loss, slow.loss, rtol=1e-10)
    far = fl.worst_case(tasks, fl.Ridge(1e4), 10**6, ordering=fl.Cyclic())
    assert 0 < far.loss < fast.loss[0]


def test_a_grid_of_schedules(rng):
    tasks = fl.TaskCollection(random_pairs(rng, M=4))
    schedules = [fl.Ridge(0.1), fl.schedules.increasing(), fl.Projection()]
    for ordering in (fl.WithReplacement(), fl.WithoutReplacement(), fl.Cyclic()):
        grid = fl.worst_case(tasks, schedules, 4, ordering=ordering)
        assert grid.loss.shape == (3,)
        assert grid.teacher.shape == (3, 6)
        for b, schedule in enumerate(schedules):
            single = fl.worst_case(tasks, schedule, 4, ordering=ordering)
            assert grid.loss[b] == pytest.approx(single.loss, rel=1e-11)


def test_no_teacher_is_worse_and_distance_scales_squared(rng):
    pairs = random_pairs(rng, M=4)
    worst = fl.worst_case(fl.TaskCollection(pairs), fl.schedules.increasing(), 10)
    for _ in range(20):
        w = rng.standard_normal(6)
        tasks = fl.TaskCollection([(X, X @ w) for X, _ in pairs])
        loss = fl.expect(tasks, fl.schedules.increasing(), 10).average_loss[0]
        assert loss <= worst.loss * (w @ w) * (1 + 1e-12)


@pytest.mark.parametrize("objective", ["average_loss", "worst_case"])
@pytest.mark.parametrize("realizable", [True, False])
@pytest.mark.parametrize("probabilities", [None, [0.6, 0.3, 0.1]])
def test_gradient_equals_finite_differences(objective, realizable, probabilities, rng):
    tasks = fl.TaskCollection(random_pairs(rng, M=3, d=4, rows=(1, 6), realizable=realizable, targets=2))
    ordering = fl.WithReplacement(probabilities)
    coefficients = rng.uniform(0.2, 3.0, 6)
    start = rng.standard_normal((4, 2)) if objective == "average_loss" else None

    def loss(values):
        if objective == "worst_case":
            return fl.worst_case(tasks, fl.Ridge(values), 6, ordering=ordering).loss
        return fl.expect(tasks, fl.Ridge(values), 6, ordering=ordering, start=start).average_loss[0]

    found = fl.gradient(tasks, fl.Ridge(coefficients), 6, ordering=ordering, objective=objective, start=start)
    assert found.loss == pytest.approx(loss(coefficients), rel=1e-12)
    for t in range(6):
        h = 1e-5 * coefficients[t]
        change = np.eye(6)[t] * h
        difference = (loss(coefficients + change) - loss(coefficients - change)) / (2 * h)
        assert found.coefficient[t] == pytest.approx(difference, rel=1e-6, abs=1e-9 * found.loss)


def test_gradient_of_an_unregularized_step(rng):
    """At λ = 0 the derivative is one-sided and finite."""
    tasks = fl.TaskCollection(random_pairs(rng, M=3, d=4))
    found = fl.gradient(tasks, fl.schedules.unregularized_first(fl.Ridge(0.5)), 4)
    h = 1e-7
    moved = fl.expect(tasks, fl.Ridge([h, 0.5, 0.5, 0.5]), 4).average_loss[0]
    assert found.coefficient[0] == pytest.approx((moved - found.loss) / h, rel=1e-5)


def two_tasks(theta):
    return fl.TaskCollection([([[1.0, 0.0]], [0.0]), ([[np.cos(theta), np.sin(theta)]], [0.0])])


def precise(theta, coefficient, k):
    """The same worst case in 60 digits, from the operator on symmetric 2 × 2 matrices."""
    with mpmath.workdps(60):
        # The angle of the float data, not the float angle: this is what the collection holds.
        x = [mpmath.matrix([1, 0]), mpmath.matrix([mpmath.mpf(np.cos(theta)), mpmath.mpf(np.sin(theta))])]
        maps = []
        for v in x:
            norm = v[0] ** 2 + v[1] ** 2
            phi = norm / (norm + mpmath.mpf(coefficient))
            A = mpmath.eye(2) - phi / norm * (v * v.T)
            a, b, d = A[0, 0], A[0, 1], A[1, 1]
            maps.append(
                mpmath.matrix([[a * a, 2 * a * b, b * b], [a * b, a * d + b * b, b * d], [b * b, 2 * b * d, d * d]])
            )
        H = sum((v * v.T for v in x), mpmath.zeros(2)) / 2
        V = ((maps[0] + maps[1]) / 2) ** k * mpmath.matrix([H[0, 0], H[0, 1], H[1, 1]])
        half, difference = (V[0] + V[2]) / 2, (V[0] - V[2]) / 2
        return float((half + mpmath.sqrt(difference**2 + V[1] ** 2)) / 2)


@pytest.mark.parametrize("theta", [0.01, np.pi / 16, np.pi / 4, 1.5, 2.5])
@pytest.mark.parametrize("coefficient", [0.0, 0.3, 20.0, 1e4])
@pytest.mark.parametrize("k", [1, 7, 10**6])
def test_two_tasks_to_eight_digits_at_a_million_steps(theta, coefficient, k):
    expected = precise(theta, coefficient, k)
    tasks = two_tasks(theta)
    assert fl.two_task_loss(theta, coefficient, k) == pytest.approx(expected, rel=1e-8, abs=1e-290)
    for method in ("dense", "lanczos"):
        found = fl.worst_case(tasks, fl.Ridge(coefficient), k, method=method)
        assert found.loss == pytest.approx(expected, rel=1e-8, abs=1e-290), method
    filter_ = fl.Projection() if coefficient == 0 else fl.Ridge(coefficient)
    taught = fl.TaskCollection([(task.X, task.X @ found.teacher) for task in tasks])
    assert fl.expect(taught, filter_, k).average_loss[0] == pytest.approx(expected, rel=1e-8, abs=1e-290)


TABLE = {
    np.pi / 16: {2: 0.510, 4: 1.328, 8: 3.006, 16: 6.384, 32: 1.650, 64: 0, 512: 0},
    np.pi / 8: {2: 0.815, 4: 1.946, 8: 1.794, 16: 0, 64: 0},
    np.pi / 4: {2: 1.299, 4: 0, 8: 0, 512: 0},
    3 * np.pi / 8: {2: 0, 4: 0, 64: 0},
    np.pi / 2: {2: 0, 8: 0},
}


@pytest.mark.parametrize("theta", TABLE)
def test_best_coefficients_of_the_two_task_problem(theta):
    found, _ = fl.two_task_optimum(theta, np.array(list(TABLE[theta])))
    np.testing.assert_allclose(found, list(TABLE[theta].values()), atol=6e-4)


def test_the_best_coefficient_is_the_global_one():
    """Against a fine grid, also where there are two local minima (θ = π/16, k = 28: 6.15 and 11.3)."""
    theta, k = np.meshgrid(np.array([0.03, np.pi / 16, 0.5, 1.2, 2.9, 2.93375]), np.arange(1, 60))
    coefficient, loss = fl.two_task_optimum(theta, k)
    fine = np.concatenate([[0.0], np.geomspace(1e-4, 1e4, 20_000)])
    for where in np.ndindex(theta.shape):
        assert loss[where] <= fl.two_task_loss(theta[where], fine, k[where]).min() * (1 + 1e-9)
        assert fl.two_task_loss(theta[where], coefficient[where], k[where]) == pytest.approx(loss[where], rel=1e-12)
    local = fl.two_task_loss(np.pi / 16, np.array([5.9, 6.15, 6.4, 8.0, 11.0, 11.3, 11.6]), 28)
    assert local[1] < min(local[0], local[2])
    assert local[5] < min(local[4], local[6])


def test_optima_near_the_drop_and_near_zero():
    coefficient, _ = fl.two_task_optimum(2.93375, 25)
    assert coefficient == pytest.approx(10.434, abs=2e-3)
    coefficient, _ = fl.two_task_optimum(0.0014566789790271784, 936633)
    assert coefficient == pytest.approx(0.00636, abs=2e-5)
    assert fl.two_task_loss(1e-9, 7.45e-9, 1) == pytest.approx(precise_small(1e-9, 7.45e-9), rel=1e-9)


def precise_small(theta, coefficient):
    """One step in 60 digits, from the 2 × 2 recursion with the exact angle."""
    with mpmath.workdps(60):
        half = mpmath.mpf(theta) / 2
        c, s, phi = mpmath.cos(half) ** 2, mpmath.sin(half) ** 2, 1 / (1 + mpmath.mpf(coefficient))
        a = (1 - phi * c) ** 2 * c + phi**2 * c * s * s
        b = phi**2 * c * s * c + (1 - phi * s) ** 2 * s
        return float(max(a, b) / 2)


def test_linear_regime():
    """λ⋆ ≈ k / ln cot(θ/2) while kθ² is small."""
    theta, k = 0.01, np.array([50, 500, 2000])
    found, _ = fl.two_task_optimum(theta, k)
    np.testing.assert_allclose(found, k / np.log(1 / np.tan(theta / 2)), rtol=0.05)
