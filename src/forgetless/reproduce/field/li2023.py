"""Li, Wu and Braverman (CoLLAs 2023): two fixed designs with commuting covariances, least squares,
then ridge.

The risk over label noise is the textbook sum of variances; in forgetless it is exact by one more
target a noisy row.
"""

from typing import Any

import numpy as np

from forgetless.engines.simulation import simulate
from forgetless.filters import Ridge
from forgetless.orderings import FixedOrder
from forgetless.reproduce.field._statement import DERIVED, Statement
from forgetless.tasks import TaskCollection

PAPER = "Li, Wu & Braverman 2023"


def statements() -> list[Statement]:
    """Return the excess risk of both tasks after the second."""
    rng = np.random.default_rng(0)
    d, n, noise, strength = 6, 12, 0.7, 3.0
    first, second = np.geomspace(10, 0.1, d), np.geomspace(0.1, 10, d)  # eigenvalues of XᵀX
    rows = np.linalg.qr(rng.standard_normal((n, n)))[0]
    X = [rows[:, :d] * np.sqrt(first), rows[:, d:] * np.sqrt(second)]
    w, none = rng.standard_normal(d), np.zeros((n, n))
    noisy = [
        np.column_stack([X[0] @ w, noise * np.eye(n), none]),
        np.column_stack([X[1] @ w, none, noise * np.eye(n)]),
    ]
    clean = [np.column_stack([each @ w, none, none]) for each in X]
    tasks = TaskCollection([*zip(X, noisy, strict=True), *zip(X, clean, strict=True)])
    options: dict[str, Any] = {
        "ordering": FixedOrder([0, 1]),
        "record": "last",
        "metrics": "task_losses",
    }
    computed = (
        2.0 * simulate(tasks, Ridge(np.array([0.0, strength])), 2, **options).task_losses[0, 0, 2:]
    )
    factors = second / (second + strength)
    variances = (1 - factors) ** 2 * noise**2 / first + factors**2 * noise**2 / second
    risks = (first @ variances, second @ variances)
    return [
        Statement(
            f"excess risk of task {m + 1}, λ = {strength:g}",
            float(risks[m]),
            float(computed[m]),
            DERIVED,
        )
        for m in (0, 1)
    ]
