"""Oracle bounds: attained on orthonormal rows, never exceeded by noisy tasks, and by convex losses of other kinds."""

import itertools

import numpy as np
import pytest

import forgetless as fl
from support.collections import random_pairs

s = fl.schedules


def rows_with_any_labels(n, rng):
    y = rng.standard_normal(n)
    return fl.TaskCollection([(e[None], [a]) for e, a in zip(np.eye(n), y, strict=True)]), 0.5 * np.mean(y**2)


@pytest.mark.parametrize("eta", [0.1, 0.5, 0.9, 0.99])
def test_orthonormal_rows_attain_it_for_every_eta(eta, rng):
    """Each row once, labels whatever: the bound of one step is the exact loss, which no algorithm can lower."""
    tasks, exact = rows_with_any_labels(5, rng)
    schedule = s.minimax_budget(eta=eta)
    bound = fl.oracle_bound(tasks, 4, eta=eta, ordering="without-replacement")
    assert bound.value == pytest.approx(exact, rel=1e-10)
    loss = fl.expect(tasks, schedule, 4, ordering="without-replacement", metrics="next_loss").next_loss[0]
    assert loss == pytest.approx(exact, rel=1e-10)
    assert bound.schedule == schedule


def check_noisy_collections(n):
    """The exact loss on the next task is below the bound, for both schemes, with and without replacement."""
    largest = {}
    for number in range(n):
        rng = np.random.default_rng([77, number])
        M, d = int(rng.integers(2, 6)), int(rng.integers(1, 4))
        pairs = random_pairs(rng, M=M, d=d, rows=(1, 2), realizable=False, scales=tuple(10.0 ** rng.uniform(-1, 0, 3)))
        noise = 10.0 ** rng.uniform(-3, 0)
        teacher = rng.standard_normal(d)
        pairs = [(X, X @ teacher + noise * (y - X @ teacher)) for X, y in pairs]
        tasks, eta = fl.TaskCollection(pairs), float(rng.choice([0.2, 0.5, 0.8, 0.95]))
        for ordering, k in (("with-replacement", int(rng.integers(1, 12))), ("without-replacement", M - 1)):
            for scheme, schedule in (("budget", s.minimax_budget(eta=eta)), ("ridge", s.minimax(eta=eta))):
                bound = fl.oracle_bound(tasks, k, scheme=scheme, eta=eta, ordering=ordering)
                loss = fl.expect(tasks, schedule, k, ordering=ordering, metrics="next_loss").next_loss[0]
                assert loss <= bound.value * (1 + 1e-9), (number, ordering, scheme)
                assert bound.loss <= bound.value
                largest[ordering, scheme] = max(largest.get((ordering, scheme), 0.0), loss / bound.value)
    assert min(largest.values()) > 0.6, largest


def test_noisy_collections_stay_below():
    check_noisy_collections(40)


@pytest.mark.long
def test_500_noisy_collections_stay_below():
    check_noisy_collections(500)


def test_the_best_eta_and_comparator(rng):
    """No other η, and no other weights at random, have a smaller right side, written out by hand."""
    tasks = fl.TaskCollection(random_pairs(rng, M=6, d=3, rows=(1, 1), realizable=False))
    k, R = 9, tasks.radius
    best = fl.oracle_bound(tasks, k)

    def right(w, eta):
        losses = [0.5 * np.sum((X @ w - y) ** 2) for X, y in tasks]
        gradients = [np.sum((X.T @ (X @ w - y)) ** 2) for X, y in tasks]
        cost = R**2 * (w @ w) / (2 * eta * (k + 1))
        return np.mean(losses) + cost + eta / (2 * R**2 * (1 - eta)) * np.mean(gradients)

    assert right(best.weights, best.eta) == pytest.approx(best.value, rel=1e-9)
    for eta in np.linspace(0.01, 0.99, 50):
        assert fl.oracle_bound(tasks, k, eta=eta).value >= best.value * (1 - 1e-9)
        w = best.weights + 0.1 * rng.standard_normal(3)
        assert right(w, eta) >= best.value * (1 - 1e-9)
    L, D = np.mean([0.5 * np.sum((X @ best.weights - y) ** 2) for X, y in tasks]), best.distance
    assert best.value <= (np.sqrt(L) + R * D / np.sqrt(2 * (k + 1))) ** 2 * (1 + 1e-9)  # the form with roots
    assert "any exchangeable order, whatever the labels" in " ".join(repr(best).split())
    assert best.to_dict()["eta"] == best.eta


def test_tasks_that_one_model_fits_get_the_minimax_bound(rng):
    tasks = fl.TaskCollection(random_pairs(rng, M=4, d=3, rows=(1, 1)))
    D = np.linalg.norm(tasks.teacher())
    for scheme, schedule in (("budget", s.minimax_budget()), ("ridge", s.minimax())):
        bound = fl.oracle_bound(tasks, 9, scheme=scheme)
        assert (bound.eta, bound.schedule) == (1.0, schedule)
        assert bound.value == pytest.approx(tasks.radius**2 * D**2 / 20, rel=1e-9)


def test_noise_sets_the_best_eta(rng):
    """``minimax_budget(noise=σ)`` has the η that is best for the joint solution, σ = G/(R²D)."""
    tasks = fl.TaskCollection(random_pairs(rng, M=6, d=2, rows=(1, 1), realizable=False))
    w, R, k = tasks.teacher(), tasks.radius, 24
    G, D = np.sqrt(np.mean([np.sum((X.T @ (X @ w - y)) ** 2) for X, y in tasks])), np.linalg.norm(w)
    noise = G / (R**2 * D)
    filter_ = s.minimax_budget(noise=noise)(k, 1.0)
    eta = float(filter_.step_size[0] * (k + 1) / k)
    losses = np.mean([0.5 * np.sum((X @ w - y) ** 2) for X, y in tasks])

    def right(eta):
        return losses + R**2 * D**2 / (2 * eta * (k + 1)) + eta / (2 * R**2 * (1 - eta)) * G**2

    assert right(eta) <= min(right(x) for x in np.linspace(0.001, 0.999, 999)) * (1 + 1e-9)
    assert right(eta) == pytest.approx(losses + R**2 * D**2 / (2 * (k + 1)) + D * G / np.sqrt(k + 1), rel=1e-9)


def test_it_is_compared_where_labels_are_noisy(rng):
    tasks = fl.TaskCollection(random_pairs(rng, M=6, d=3, rows=(1, 1), realizable=False))
    comparison = fl.compare_bounds(tasks, s.minimax_budget(eta=0.4), 20)
    checks = {check.name: check for check in comparison.bounds if check.applies}
    assert set(checks) == {"oracle", "oracle, next task"}
    assert checks["oracle"].value == pytest.approx(fl.oracle_bound(tasks, 20, eta=0.4).value, rel=1e-12)
    assert checks["oracle"].ratio >= 1
    plain = fl.compare_bounds(tasks, s.minimax_budget(), 20)
    assert "fl.oracle_bound" in repr(plain)


def test_bad_arguments(rng):
    noisy = fl.TaskCollection([([[1.0]], [1.0]), ([[1.0]], [-1.0])])
    with pytest.raises(ValueError, match="eta must be below 1 where no model fits all tasks"):
        fl.oracle_bound(noisy, 3, eta=1.0)
    with pytest.raises(ValueError, match=r"eta must lie in \(0, 1\]"):
        fl.oracle_bound(noisy, 3, eta=1.5)
    with pytest.raises(ValueError, match="with replacement, or without and k below the number of tasks, 2"):
        fl.oracle_bound(noisy, 2, ordering="without-replacement")
    with pytest.raises(ValueError, match="ordering must be exchangeable"):
        fl.oracle_bound(noisy, 3, ordering="cyclic")
    with pytest.raises(ValueError, match='scheme must be "budget" or "ridge"'):
        fl.oracle_bound(noisy, 3, scheme="both")
    with pytest.raises(TypeError, match="tasks must be a TaskCollection"):
        fl.oracle_bound([1], 3)


# --- Theorems N and X′ for convex losses of other kinds, all 1-smooth functions of the output -----------------------

LOSSES = {
    "squared": (lambda z: 0.5 * z**2, lambda z: z),
    "huber": (
        lambda z: np.where(np.abs(z) < 0.5, 0.5 * z**2, 0.5 * np.abs(z) - 0.125),
        lambda z: np.clip(z, -0.5, 0.5),
    ),
    "logistic": (lambda z: 4 * np.logaddexp(0, -z), lambda z: -4 / (1 + np.exp(z))),
    "squared hinge": (lambda z: 0.5 * np.maximum(0, 1 - z) ** 2, lambda z: -np.maximum(0, 1 - z)),
}


@pytest.mark.parametrize("name", LOSSES)
def test_other_convex_losses(name, rng):
    """500 small collections: E f(w_k; next) ≤ f̄(w) + ‖w‖²/(2ηn) + η/(2(1−η))·E‖∇f(w)‖² for random w.

    f(w; m) = l(u_m·w − b_m) for squared and Huber losses, l(b_m·u_m·w) with labels ±1 otherwise, ‖u_m‖ ≤ 1.
    """
    value, slope = LOSSES[name]
    margin = name in ("logistic", "squared hinge")
    for _ in range(125):
        M, d, eta = 4, int(rng.integers(1, 4)), float(rng.choice([0.3, 0.6, 0.9]))
        k = int(rng.integers(1, M))
        u = rng.standard_normal((M, d))
        u /= np.maximum(1.0, np.linalg.norm(u, axis=1, keepdims=True))
        b = rng.choice([-1.0, 1.0], M) if margin else 2 * rng.standard_normal(M)
        u, b = (u * b[:, None], np.zeros(M)) if margin else (u, b)
        left = []
        for order in itertools.permutations(range(M), k + 1):
            w = np.zeros(d)
            for t, m in enumerate(order[:k], start=1):
                w = w - eta * (k + 1 - t) / (k + 1) * slope(u[m] @ w - b[m]) * u[m]
            left.append(value(u[order[k]] @ w - b[order[k]]))
        for w in (np.zeros(d), *rng.standard_normal((8, d))):
            z = u @ w - b
            gradients = slope(z) ** 2 * np.sum(u**2, axis=1)
            right = value(z).mean() + w @ w / (2 * eta * (k + 1)) + eta / (2 * (1 - eta)) * gradients.mean()
            assert np.mean(left) <= right * (1 + 1e-12)


def test_squared_hinge_with_a_margin_makes_few_errors(rng):
    """Theorem X′: separable labels, η = 1: E f(w_k; next) ≤ D²/(2(k+1)), and errors are at most twice that."""
    for _ in range(60):
        M, d = 5, 2
        k = int(rng.integers(1, M))
        w_star = rng.standard_normal(d)
        u = rng.standard_normal((M, d))
        u /= np.linalg.norm(u, axis=1, keepdims=True)
        u *= np.sign(u @ w_star)[:, None]
        D = np.linalg.norm(w_star) / np.min(u @ w_star)  # of the solution with margin 1 along w_star
        losses, errors = [], []
        for order in itertools.permutations(range(M), k + 1):
            w = np.zeros(d)
            for t, m in enumerate(order[:k], start=1):
                w = w + (k + 1 - t) / (k + 1) * max(0.0, 1 - u[m] @ w) * u[m]
            losses.append(0.5 * max(0.0, 1 - u[order[k]] @ w) ** 2)
            errors.append(u[order[k]] @ w <= 0)
        assert np.mean(losses) <= D**2 / (2 * (k + 1)) * (1 + 1e-12)
        assert np.mean(errors) <= 2 * np.mean(losses) + 1e-12
