"""Statements of docs/proofs.md that are false, each with its counterexample, and one of the paper that needs a sign."""

import itertools
import math

import numpy as np
import pytest

import forgetless as fl
from support.exchangeable import matrices, mean_forms, worst


def test_the_last_iterate_needs_regularization():
    """False: λ = 0 has the bound as well. Two rows with cosine 1/3 at k = 1: 32/27 > 1."""
    u = np.array([[1.0, 0.0], [1 / 3, math.sqrt(8) / 3]])
    rows = np.array([np.outer(a, a) for a in u])[None]
    following, _ = mean_forms(rows, fl.Projection(), 1)
    assert 4 * worst(following)[0] == pytest.approx(32 / 27, abs=1e-12)


def test_next_task_losses_are_not_ordered_as_those_with_replacement():
    """False: without replacement the loss on the next task is at most the worst one with replacement."""
    exact = 1 / (2 * 5)
    assert exact > fl.upper_bound(fl.schedules.minimax_budget(), 4).value


def test_seen_losses_may_exceed_average_losses():
    """False: the loss on the tasks seen is at most the average loss, collection by collection (worst teachers).

    Three rows drawn with replacement, five steps of κ = ½: 1.0086. No proof of the same for suprema is known.
    """
    u = np.array([[-5.748461, -7.191644], [-7.335643, 0.065260], [-2.356099, -2.947619]])
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    p = np.exp([3.0, -3.0, 3.0]) / np.exp([3.0, -3.0, 3.0]).sum()
    H, k = np.einsum("mi,mj->mij", u, u), 5
    maps = np.eye(2) - 0.5 * H
    seen, each = np.zeros((2, 2)), H.copy()  # E of the seen tasks' forms, and of every task's form after the steps
    for _ in range(k):
        seen = np.tensordot(p, maps @ seen @ maps + maps @ each @ maps / k, 1)
        each = np.stack([np.tensordot(p, maps @ form @ maps, 1) for form in each])
    average = np.tensordot(p, each, 1)
    assert worst(seen) / worst(average) == pytest.approx(1.0086, abs=1e-3)


def sides(rows, v, eta, sign):
    """Return both sides of thm:timevarying_frenchmen by enumeration of all orders; ridge with λ_t = 1/η_t, R = 1."""
    n, (M, d) = len(eta), rows.shape
    tails = [sum(eta[s] * v[s + 1] for s in range(t, n)) for t in range(n)]
    c = [eta[t] * v[t + 1] ** 2 - (1 + sign * eta[t]) * (v[t + 1] - v[t]) * tails[t] for t in range(n)]
    left, right = 0.0, 0.5 * v[0] ** 2
    for order in itertools.product(range(M), repeat=n):
        z = np.ones(d) / np.sqrt(d)
        for t, m in enumerate(order):
            forms = [np.outer(x, x) / (eta[t] * (x @ x + 1 / eta[t])) for x in rows]  # φ(H)/η of one row
            left += c[t] * 0.5 * np.mean([z @ A @ z for A in forms]) / M**n
            gradient = forms[m] @ z
            right += 0.5 * eta[t] ** 2 * v[t + 1] ** 2 * float(gradient @ gradient) / M**n
            z = z - eta[t] * gradient
    return left, right


def test_the_theorem_on_weighted_sums_by_enumeration():
    """With (1 + η_tβ) in c_t it holds; with the printed (1 − η_tβ) there are counterexamples."""
    rng = np.random.default_rng(3)
    false = 0
    for _ in range(300):
        d, M, n = int(rng.integers(1, 3)), int(rng.integers(1, 3)), int(rng.integers(2, 4))
        rows = rng.standard_normal((M, d))
        rows = rows / max(np.linalg.norm(row) for row in rows)
        v = np.cumsum(rng.exponential(size=n + 1) ** 3) + 1e-3
        eta = rng.uniform(0.05, 3.0, size=n)
        left, right = sides(rows, v, eta, 1)
        assert left <= right * (1 + 1e-12)
        left, right = sides(rows, v, eta, -1)
        false += left > right * (1 + 1e-9)
    assert false > 0


def test_a_uniform_average_of_projections_attains_the_bound(rng):
    """Mean of w_0..w_k without regularization: the same bound as the minimax schedule, without k and R."""
    largest = 0.0
    for k, M, d in ((1, 2, 2), (2, 3, 3), (3, 4, 3)):
        following, _ = mean_forms(matrices(rng, 60, M, d, 1), fl.Projection(), k, average=True)
        largest = max(largest, 2 * (k + 1) * float(worst(following).max()))
        rows = np.array([np.outer(e, e) for e in np.eye(k + 1)])[None]
        exact = 2 * (k + 1) * float(worst(mean_forms(rows, fl.Projection(), k, average=True)[0])[0])
        assert exact == pytest.approx(1, abs=1e-12)
    assert largest <= 1 + 1e-12
