"""Statements of Evron et al. (2023) and Jung et al. (2025) on continual classification, measured at small sizes."""

import numpy as np
import pytest

import forgetless as fl
from forgetless import losses


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
    return max(np.linalg.norm(X, axis=1).max() for X, _ in tasks)


def angle(v, w):
    return np.degrees(np.arccos(min(1.0, v @ w / np.linalg.norm(v) / np.linalg.norm(w))))


def last(tasks, schedule, k, loss, **arguments):
    return fl.simulate(tasks, schedule, k, record="last", loss=loss, **arguments).weights[:, 0]


def weak_regularization():
    """Angles to the sequential max-margin iterate and norms relative to ln(1/λ) times its norm, for smaller λ."""
    tasks = separable(3, 4, 6, 3)
    limit = last(tasks, fl.Projection(), 6, "logistic", ordering="cyclic")[0]
    for lam in (1e-2, 1e-4, 1e-8, 1e-15):
        w = last(tasks, fl.Ridge(lam), 6, "logistic", ordering="cyclic")[0]
        yield lam, angle(w, limit), np.linalg.norm(w) / np.log(1 / lam) / np.linalg.norm(limit)


def test_weak_regularization_tends_to_sequential_max_margin():
    _, angles, ratios = zip(*weak_regularization(), strict=True)
    assert all(np.diff(angles) < 0)
    assert angles[-1] < 0.5 * angles[0]
    assert 0.8 < ratios[0] < 1.0
    assert ratios[-1] > ratios[1]


def linear_rate(M, n, d, seed):
    """E d²(w_k, W⋆)/‖w⋆‖² and its bound (1 − 1/(M R²‖w⋆‖²))^k at k = M, 4M, 16M."""
    tasks = separable(M, n, d, seed, margin=0.15)
    norm, steps = 1 / fl.max_margin(tasks).margin, [M, 4 * M, 16 * M]
    trace = fl.simulate(tasks, fl.Projection(), steps[-1], n_trials=30, seed=0, record=steps, loss="squared_hinge")
    rate = 1 - 1 / (M * row_radius(tasks) ** 2 * norm**2)
    for i, k in enumerate(steps):
        squares = [np.sum((fl.max_margin(tasks, w).weights - w) ** 2) for w in trace.weights[:, i]]
        yield k, np.mean(squares) / norm**2, rate**k


@pytest.mark.parametrize("shape", [(5, 1, 2), (5, 3, 10), (10, 2, 5), (20, 1, 10)])
def test_random_orders_converge_linearly(shape):
    for _, measured, bound in linear_rate(*shape, seed=10):
        assert measured <= bound


def two_tasks(n_pairs, k):
    """The largest (k + 1) F_k/(R²‖w⋆‖²) over random pairs of halfspaces, learned in turn."""
    rng, largest = np.random.default_rng(5), 0.0
    for _ in range(n_pairs):
        a = 10 ** rng.uniform(-2.5, 0)
        X = np.array([[np.cos(a), np.sin(a)], [-np.cos(a), np.sin(a)]]) * rng.uniform(0.3, 1, (2, 1))
        tasks = fl.TaskCollection([(X[:1], [1]), (-X[1:], [-1])])
        w = last(tasks, fl.Projection(), k, "squared_hinge", ordering="cyclic")[0]
        F = np.mean(np.maximum(1 - X @ w, 0) ** 2)
        largest = max(largest, (k + 1) * F * fl.max_margin(tasks).margin ** 2 / row_radius(tasks) ** 2)
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
        both = len({float(label) for _, y in tasks for label in y}) == 2
        if both and (best := fl.max_margin(tasks)).margin > 0.02:
            w = last(tasks, fl.Projection(), 600, "squared_hinge", ordering="cyclic")[0]
            yield np.linalg.norm(w) * best.margin


def test_limits_of_max_margin_steps_are_at_most_twice_as_long():
    ratios = list(limit_norms(40))
    assert len(ratios) >= 20
    assert min(ratios) >= 1 - 1e-3  # 600 steps are near the limit, not at it
    assert max(ratios) <= 2


def budgets(n_steps, cycles, record):
    """Cycles, angle to the joint max-margin, loss and cycle-averaged forgetting of GD with a budget, logistic."""
    tasks, loss = separable(3, 2, 3, 21, margin=0.1), losses.Logistic()
    best = fl.max_margin(tasks).weights
    rows = [X * y[:, None] for X, y in tasks]
    size = 0.5 / loss.smoothness(tasks.radius) / n_steps
    w = np.zeros(3)
    for cycle in range(1, cycles + 1):
        after = []
        for A in rows:
            for _ in range(n_steps):
                w = w - size * A.T @ loss.slope(A @ w, 1.0)
            after.append(loss.value(A @ w, 1.0).sum())
        if cycle in record:
            now = [loss.value(A @ w, 1.0).sum() for A in rows]
            yield cycle, angle(w, best), np.mean(now), np.mean(np.subtract(now, after))


@pytest.mark.parametrize("n_steps", [1, 10])
def test_gradient_descent_with_a_budget_tends_to_the_joint_max_margin(n_steps):
    record = (10, 100, 1000)
    J, angles, loss, forgetting = map(np.array, zip(*budgets(n_steps, record[-1], record), strict=True))
    assert all(np.diff(angles) < 0)
    assert all(np.diff(loss * J / np.log(J) ** 2) < 0)  # loss O(ln²J/J)
    assert all(np.diff(np.abs(forgetting) * J**2 / np.log(J) ** 4) < 0)  # forgetting O(ln⁴J/J²)


if __name__ == "__main__":
    for line in weak_regularization():
        print("λ {:.0e}: angle {:.2f}°, norm/(ln(1/λ)‖w_SMM‖) {:.3f}".format(*line))
    for shape in [(5, 1, 2), (5, 3, 10), (10, 2, 5), (20, 1, 10)]:
        print("M, n, d", shape, "; ".join("k {}: {:.1e} ≤ {:.2f}".format(*line) for line in linear_rate(*shape, 10)))
    print("two tasks", {k: round(float(two_tasks(300, k)), 3) for k in (4, 16, 64)})
    norms = list(limit_norms(200))
    print("limits", len(norms), round(min(norms), 4), round(max(norms), 4))
    for budget in (1, 10):
        for J, degrees, value, forgotten in budgets(budget, 10_000, (10, 100, 1000, 10_000)):
            scaled = value * J / np.log(J) ** 2, abs(forgotten) * J**2 / np.log(J) ** 4
            print(f"N {budget} J {J}: {degrees:.1f}°, loss·J/ln²J {scaled[0]:.3f}, forgetting·J²/ln⁴J {scaled[1]:.4f}")
