"""Statements of Evron et al. (2023) and Jung et al. (2025), measured at small sizes.

``python research/tests/test_two_class_papers.py`` prints the table of research/two_class/README.md.
"""

import numpy as np
import pytest

import forgetless as fl
from research.two_class import max_margin, simulate


def separable(M, n, d, seed, margin=0.0):
    rng = np.random.default_rng(seed)
    teacher = rng.standard_normal(d)
    teacher /= np.linalg.norm(teacher)
    X = rng.standard_normal((M, n, d))
    X /= np.linalg.norm(X, axis=-1, keepdims=True)
    X += (np.sign(X @ teacher) * margin)[..., None] * teacher
    X /= np.linalg.norm(X, axis=-1, keepdims=True)
    return fl.TaskCollection([(rows, np.where(rows @ teacher > 0, 1, -1)) for rows in X])


def row_radius(tasks):
    return max(np.linalg.norm(task.X, axis=1).max() for task in tasks)


def angle(v, w):
    cosine = v @ w / np.linalg.norm(v) / np.linalg.norm(w)
    return np.degrees(np.arccos(min(1.0, cosine)))


def in_turn(tasks, schedule, k, loss):
    return simulate(tasks, schedule, k, loss=loss, ordering=fl.Cyclic()).weights[0, -1]


def weak_regularization():
    """Angles to sequential max-margin weights, norms relative to ln(1/λ) times their norm."""
    tasks = separable(3, 4, 6, 3)
    limit = in_turn(tasks, fl.Projection(), 6, "logistic")
    for lam in (1e-2, 1e-4, 1e-8, 1e-15):
        w = in_turn(tasks, fl.Ridge(lam), 6, "logistic")
        ratio = np.linalg.norm(w) / np.log(1 / lam) / np.linalg.norm(limit)
        yield lam, angle(w, limit), ratio


def test_weak_regularization_tends_to_sequential_max_margin():
    _, angles, ratios = zip(*weak_regularization(), strict=True)
    np.testing.assert_allclose(angles, [2.93, 1.96, 1.67, 1.06], atol=0.006)
    np.testing.assert_allclose(ratios, [0.865, 0.857, 0.888, 0.922], atol=6e-4)


def linear_rate(M, n, d, seed):
    """E d²(w_k, W⋆)/‖w⋆‖² and its bound (1 − 1/(M R²‖w⋆‖²))^k at k = M, 4M, 16M."""
    tasks = separable(M, n, d, seed, margin=0.15)
    norm = 1 / max_margin(tasks).margin
    runs = simulate(tasks, fl.Projection(), 16 * M, loss="squared_hinge", n_trials=30, seed=0)
    rate = 1 - 1 / (M * row_radius(tasks) ** 2 * norm**2)
    for k in (M, 4 * M, 16 * M):
        points = runs.weights[:, k]
        squares = [np.sum((max_margin(tasks, w).weights - w) ** 2) for w in points]
        yield k, np.mean(squares) / norm**2, rate**k


SIZES = [(5, 1, 2), (5, 3, 10), (10, 2, 5), (20, 1, 10)]


@pytest.mark.parametrize("shape", SIZES)
def test_random_orders_converge_linearly(shape):
    for _, measured, bound in linear_rate(*shape, seed=10):
        assert measured <= bound


def two_tasks(n_pairs, k):
    """The largest (k + 1) F_k/(R²‖w⋆‖²) over random pairs of halfspaces, learned in turn."""
    rng = np.random.default_rng(5)
    largest = 0.0
    for _ in range(n_pairs):
        a = 10 ** rng.uniform(-2.5, 0)
        X = np.array([[np.cos(a), np.sin(a)], [-np.cos(a), np.sin(a)]])
        X *= rng.uniform(0.3, 1, (2, 1))
        tasks = fl.TaskCollection([(X[:1], [1]), (-X[1:], [-1])])
        w = in_turn(tasks, fl.Projection(), k, "squared_hinge")
        F = np.mean(np.maximum(1 - X @ w, 0) ** 2)
        scale = (k + 1) * max_margin(tasks).margin ** 2 / row_radius(tasks) ** 2
        largest = max(largest, F * scale)
    return largest


@pytest.mark.parametrize("k", [4, 16])
def test_two_tasks_in_turn_have_a_violation_of_order_one_over_k(k):
    assert 0.1 < two_tasks(60, k) <= 1.0


def limit_norms(n_collections):
    """‖w_∞‖/‖w⋆‖ of sequential max-margin steps, for random collections."""
    for seed in range(n_collections):
        rng = np.random.default_rng(seed)
        M, n, d = rng.integers(2, 4), rng.integers(1, 3), rng.integers(2, 4)
        tasks = separable(M, n, d, 1000 + seed, margin=rng.uniform(0.02, 0.3))
        if len(np.unique(np.concatenate([task.y for task in tasks]))) < 2:
            continue
        margin = max_margin(tasks).margin
        if margin > 0.02:
            w = in_turn(tasks, fl.Projection(), 600, "squared_hinge")
            yield np.linalg.norm(w) * margin


def test_limits_of_max_margin_steps_are_at_most_twice_as_long():
    ratios = list(limit_norms(40))
    assert len(ratios) >= 20
    assert min(ratios) >= 1 - 1e-3  # 600 steps are near the limit, not at it
    assert max(ratios) <= 2


def budgets(n_steps, record):
    """Cycles, angle to the joint max-margin, loss and cycle-averaged forgetting of GD, logistic."""
    tasks = separable(3, 2, 3, 21, margin=0.1)
    best = max_margin(tasks).weights
    rows = [task.X * task.y[:, None] for task in tasks]
    size = 2.0 / tasks.radius**2 / n_steps  # half of 1/β
    w = np.zeros(3)
    for cycle in range(1, record[-1] + 1):
        after = []
        for A in rows:
            for _ in range(n_steps):
                w = w + size * A.T @ (1 / (1 + np.exp(A @ w)))
            after.append(np.logaddexp(0, -A @ w).sum())
        if cycle in record:
            now = [np.logaddexp(0, -A @ w).sum() for A in rows]
            yield cycle, angle(w, best), np.mean(now), np.mean(np.subtract(now, after))


@pytest.mark.parametrize("n_steps", [1, 10])
def test_gradient_descent_with_a_budget_tends_to_the_joint_max_margin(n_steps):
    measured = zip(*budgets(n_steps, (10, 100, 1000)), strict=True)
    J, angles, loss, forgetting = map(np.array, measured)
    assert all(np.diff(angles) < 0)
    assert all(np.diff(loss * J / np.log(J) ** 2) < 0)  # loss O(ln²J/J)
    assert all(np.diff(np.abs(forgetting) * J**2 / np.log(J) ** 4) < 0)  # forgetting O(ln⁴J/J²)


if __name__ == "__main__":
    for line in weak_regularization():
        print("λ {:.0e}: angle {:.2f}°, norm/(ln(1/λ)‖w_SMM‖) {:.3f}".format(*line))
    for shape in SIZES:
        lines = ["k {}: {:.1e} ≤ {:.2f}".format(*line) for line in linear_rate(*shape, 10)]
        print("M, n, d", shape, "; ".join(lines))
    print("two tasks", {k: round(float(two_tasks(300, k)), 3) for k in (4, 16, 64)})
    norms = list(limit_norms(200))
    print("limits", len(norms), round(min(norms), 4), round(max(norms), 4))
    for budget in (1, 10):
        for J, degrees, value, forgotten in budgets(budget, (10, 100, 1000, 10_000)):
            scaled = value * J / np.log(J) ** 2, abs(forgotten) * J**2 / np.log(J) ** 4
            print(f"N {budget} J {J}: {degrees:.1f}°, {scaled[0]:.3f}, {scaled[1]:.4f}")
