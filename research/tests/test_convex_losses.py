"""Theorems N and X′ for convex losses of other kinds, all 1-smooth functions of the output."""

import itertools

import numpy as np
import pytest

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
