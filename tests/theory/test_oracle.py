"""Oracle bounds: attained on orthonormal rows, never exceeded by noisy tasks, and by convex losses of other kinds."""

import numpy as np
import pytest

import forgetless as fl
from support.collections import random_pairs

s = fl.schedules


def right_side(tasks, k, w, eta):
    """The bound of comparator weights w, written out."""
    losses = [0.5 * np.sum((X @ w - y) ** 2) for X, y in tasks]
    gradients = [np.sum((X.T @ (X @ w - y)) ** 2) for X, y in tasks]
    cost = tasks.radius**2 * (w @ w) / (2 * eta * (k + 1))
    return np.mean(losses) + cost + eta / (2 * tasks.radius**2 * (1 - eta)) * np.mean(gradients)


@pytest.mark.parametrize("eta", [0.1, 0.5, 0.9, 0.99])
def test_orthonormal_rows_attain_it_for_every_eta(eta, rng):
    """Each row once, labels whatever: the bound of one step is the exact loss, which no algorithm can lower."""
    y = rng.standard_normal(5)
    tasks = fl.TaskCollection(list(zip(np.eye(5)[:, None], y[:, None], strict=True)))
    schedule = s.minimax_budget(eta=eta)
    bound = fl.oracle_bound(tasks, 4, eta=eta, ordering="without-replacement")
    assert bound.value == pytest.approx(np.mean(y**2) / 2, rel=1e-10)
    loss = fl.expect(tasks, schedule, 4, ordering="without-replacement", metrics="next_loss").next_loss[0]
    assert loss == pytest.approx(np.mean(y**2) / 2, rel=1e-10)
    assert bound.schedule == schedule


@pytest.mark.parametrize("n", [40, pytest.param(500, marks=pytest.mark.long)])
def test_noisy_collections_stay_below(n):
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


def test_the_best_eta_and_comparator(rng):
    """No other η, and no other weights at random, have a smaller right side, written out by hand."""
    tasks = fl.TaskCollection(random_pairs(rng, M=6, d=3, rows=(1, 1), realizable=False))
    k, R = 9, tasks.radius
    best = fl.oracle_bound(tasks, k)
    assert right_side(tasks, k, best.weights, best.eta) == pytest.approx(best.value, rel=1e-9)
    for eta in np.linspace(0.01, 0.99, 50):
        assert fl.oracle_bound(tasks, k, eta=eta).value >= best.value * (1 - 1e-9)
        w = best.weights + 0.1 * rng.standard_normal(3)
        assert right_side(tasks, k, w, eta) >= best.value * (1 - 1e-9)
    L, D = np.mean([0.5 * np.sum((X @ best.weights - y) ** 2) for X, y in tasks]), best.distance
    assert best.value <= (np.sqrt(L) + R * D / np.sqrt(2 * (k + 1))) ** 2 * (1 + 1e-9)  # the form with roots
    assert "for these tasks in exchangeable order, with these probabilities" in " ".join(repr(best).split())


def test_realizable_tasks_get_the_smallest_bound_of_all_eta():
    """Contradictory at sight: the solution (0, 100) is far away, and η = 1 compares with it alone."""
    tasks = fl.TaskCollection([([[1.0, 0.0]], [0.0]), ([[1.0, 0.01]], [1.0])])
    best = fl.oracle_bound(tasks, 10)
    assert best.value < 0.21 < fl.oracle_bound(tasks, 10, eta=1.0).value
    assert fl.expect(tasks, best.schedule, 10, metrics="next_loss").next_loss[0] <= best.value


class Draws(fl.orderings.Ordering):
    """Independent draws whose moves name tasks in any order; a task without a move is never drawn."""

    stationary = True

    def __init__(self, tasks, probabilities):
        self.law = fl.orderings.Moves([0] * len(tasks), [0] * len(tasks), tasks, probabilities)

    def moves(self, n_tasks, t):
        return self.law

    def blocks(self, n_tasks, k, n_trials, rng):
        raise NotImplementedError


def test_orderings_of_users_have_the_probabilities_of_their_tasks():
    tasks = fl.TaskCollection([([[1.0]], [0.0]), ([[0.3]], [3.0])])
    mine, same = Draws([1, 0], [0.9, 0.1]), fl.WithReplacement([0.1, 0.9])
    assert fl.oracle_bound(tasks, 5, ordering=mine).value == fl.oracle_bound(tasks, 5, ordering=same).value
    rows = fl.TaskCollection([(row[None], [1.0]) for row in np.eye(3)])
    compared = fl.compare_bounds(rows, "none", 600, ordering=Draws([0, 2], [0.5, 0.5]))
    assert compared.average_loss == pytest.approx(1 / 6)
    assert compared.sharpest("upper").value >= 1 / 6


def test_tasks_that_one_model_fits_get_the_minimax_bound(rng):
    tasks = fl.TaskCollection(random_pairs(rng, M=4, d=3, rows=(1, 1)))
    D = np.linalg.norm(tasks.teacher())
    for scheme, schedule in (("budget", s.minimax_budget()), ("ridge", s.minimax())):
        bound = fl.oracle_bound(tasks, 9, scheme=scheme, eta=1.0)
        assert bound.schedule == schedule
        assert fl.oracle_bound(tasks, 9, scheme=scheme).value <= bound.value
        assert bound.value == pytest.approx(tasks.radius**2 * D**2 / 20, rel=1e-9)


def test_noise_sets_the_best_eta(rng):
    """``minimax_budget(noise=σ)`` has the η that is best for the joint solution, σ = G/(R²D)."""
    tasks = fl.TaskCollection(random_pairs(rng, M=6, d=2, rows=(1, 1), realizable=False))
    w, R, k = tasks.teacher(), tasks.radius, 24
    G, D = np.sqrt(np.mean([np.sum((X.T @ (X @ w - y)) ** 2) for X, y in tasks])), np.linalg.norm(w)
    noise = G / (R**2 * D)
    filter_ = s.minimax_budget(noise=noise)(k, 1.0)
    eta = float(filter_.step_size[0] * (k + 1) / k)
    found = right_side(tasks, k, w, eta)
    assert found <= min(right_side(tasks, k, w, x) for x in np.linspace(0.001, 0.999, 999)) * (1 + 1e-9)
    losses = fl.metrics.average_loss(tasks, w)
    assert found == pytest.approx(losses + R**2 * D**2 / (2 * (k + 1)) + D * G / np.sqrt(k + 1), rel=1e-9)


def test_it_is_compared_where_labels_are_noisy(rng):
    tasks = fl.TaskCollection(random_pairs(rng, M=6, d=3, rows=(1, 1), realizable=False))
    comparison = fl.compare_bounds(tasks, s.minimax_budget(eta=0.4), 20)
    checks = {check.name: check for check in comparison.bounds if check.applies and check.kind == "upper"}
    assert set(checks) == {"oracle", "oracle, next task"}
    assert checks["oracle"].value == pytest.approx(fl.oracle_bound(tasks, 20, eta=0.4).value, rel=1e-12)
    assert checks["oracle"].ratio >= 1
    plain = fl.compare_bounds(tasks, s.minimax_budget(), 20)
    assert "fl.oracle_bound" in repr(plain)
