"""Doan, Abbana Bennani, Mazoure, Rabusseau and Alquier (AISTATS 2021): drift of the first task by
the overlap of two.

‖X(w₂ − w₁)‖² = ‖S O (T/(T² + λ)) Uᵀ(z − Z w₁)‖² with the singular values S, T of both tasks, their
overlap O = VᵀV′ and the left singular vectors U of the second.
"""

from typing import Any

import numpy as np

from forgetless.engines.simulation import simulate
from forgetless.equation import step
from forgetless.filters import Ridge
from forgetless.orderings import FixedOrder
from forgetless.reproduce.field._statement import MEMORY, Statement
from forgetless.tasks import TaskCollection

PAPER = "Doan et al. 2021"


def statements() -> list[Statement]:
    """Return the drift of the outputs of the first task, by the overlap and by ``simulate``."""
    rng = np.random.default_rng(0)
    d, n, strength = 50, 20, 0.3
    X, Z, y, z = *rng.standard_normal((2, n, d)), *rng.standard_normal((2, n))
    options: dict[str, Any] = {
        "ordering": FixedOrder([0, 1]),
        "record": "last",
        "metrics": "task_drift",
    }
    trace = simulate(TaskCollection([(X, y), (Z, z)]), Ridge(strength), 2, **options)
    w = step(np.zeros(d), (X, y), Ridge(strength))
    _, S, V = np.linalg.svd(X, full_matrices=False)
    U, T, W = np.linalg.svd(Z, full_matrices=False)
    published = np.sum((S * (V @ W.T @ (T / (T**2 + strength) * (U.T @ (z - Z @ w))))) ** 2)
    return [
        Statement(
            "drift of the first task", float(published), float(trace.task_drift[0, 0, 0]), MEMORY
        )
    ]
