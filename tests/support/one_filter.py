"""Theorem F literally: its right side, and random collections to try it on."""

from fractions import Fraction

import numpy as np


def right_side(e, kappa, k, b):
    """Return F_k at 1 − e, for κ, by its definition."""
    y = (1 - e) ** 2
    past = sum((b[j] * y ** (k - 1 - j) for j in range(1, k)), Fraction(0))
    cubes = sum(((n + 1) * (n + 2) * y**n for n in range(k - 1)), Fraction(0))
    jumps = e * (kappa - e) * (k * y ** (k - 1) / (2 - kappa) + past)
    return e * k * y**k + jumps + e**3 * (kappa - e) * cubes / (2 - kappa)


def random_collection(rng):
    """Return probabilities and matrices H of norm at most 1: rows, nearly parallel ones, or any rank."""
    d = int(rng.integers(1, 8))
    M = int(rng.integers(1, 10))
    kind = rng.choice(["rows", "parallel", "projections", "any"])
    matrices = []
    for _ in range(M):
        U = np.linalg.qr(rng.standard_normal((d, d)))[0]
        xi = (rng.random(d) < 0.5).astype(float)
        if kind == "any":
            xi = rng.random(d) ** rng.choice([0.3, 1.0, 5.0])
        if kind in ("rows", "parallel"):
            U[:, 0] = rng.standard_normal(d) * rng.choice([1.0, 0.01], size=d)
            if kind == "parallel":
                U[:, 0] = np.eye(d)[0] + rng.standard_normal(d) * 10.0 ** rng.uniform(-3, 0)
            U[:, 0] /= np.linalg.norm(U[:, 0])
            xi = np.eye(d)[0]
        matrices.append((U * xi) @ U.T)
    return rng.dirichlet(np.full(M, rng.choice([0.1, 0.5, 3.0]))), np.array(matrices)
