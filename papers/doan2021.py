"""Doan, Abbana Bennani, Mazoure, Rabusseau and Alquier (AISTATS 2021): drift of the first task by
the overlap of two.

‖X(w₂ − w₁)‖² = ‖S O (T/(T² + λ)) Uᵀ(z − Z w₁)‖² with the singular values S, T of both tasks, their
overlap O = VᵀV′ and the left singular vectors U of the second.
"""

import numpy as np

import forgetless as fl
from papers.statement import MEMORY, Statement, in_order

PAPER = "Doan et al. 2021"


def statements() -> list[Statement]:
    """Return the drift of the outputs of the first task, by the overlap and by ``simulate``."""
    rng = np.random.default_rng(0)
    d, n, strength = 50, 20, 0.3
    X, Z = rng.standard_normal((2, n, d))
    y, z = rng.standard_normal((2, n))
    drift = in_order([(X, y), (Z, z)], fl.Ridge(strength), "task_drift")
    w = fl.step(np.zeros(d), (X, y), fl.Ridge(strength))
    _, S, V = np.linalg.svd(X, full_matrices=False)
    U, T, W = np.linalg.svd(Z, full_matrices=False)
    published = np.sum((S * (V @ W.T @ (T / (T**2 + strength) * (U.T @ (z - Z @ w))))) ** 2)
    return [Statement("drift of the first task", float(published), float(drift[-1, 0]), MEMORY)]
