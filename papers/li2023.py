"""Li, Wu and Braverman (CoLLAs 2023): two fixed designs with commuting covariances, least squares,
then ridge.

The risk over label noise is the textbook sum of variances; in forgetless it is exact by one more
target a noisy row.
"""

import numpy as np

import forgetless as fl
from papers.statement import DERIVED, Statement, in_order

PAPER = "Li, Wu & Braverman 2023"


def statements() -> list[Statement]:
    """Return the excess risk of both tasks after the second."""
    rng = np.random.default_rng(0)
    d, n, noise, strength = 6, 12, 0.7, 3.0
    # eigenvalues of XᵀX
    first = np.geomspace(10, 0.1, d)
    second = np.geomspace(0.1, 10, d)
    rows = np.linalg.qr(rng.standard_normal((n, n)))[0]
    X = [rows[:, :d] * np.sqrt(first), rows[:, d:] * np.sqrt(second)]
    w = rng.standard_normal(d)
    none = np.zeros((n, n))
    noisy = [
        np.column_stack([X[0] @ w, noise * np.eye(n), none]),
        np.column_stack([X[1] @ w, none, noise * np.eye(n)]),
    ]
    clean = [np.column_stack([each @ w, none, none]) for each in X]
    pairs = [*zip(X, noisy, strict=True), *zip(X, clean, strict=True)]
    losses = in_order(pairs, fl.Ridge(np.array([0.0, strength])), "task_losses")
    computed = 2.0 * losses[-1, 2:]
    factors = second / (second + strength)
    variances = (1 - factors) ** 2 * noise**2 / first + factors**2 * noise**2 / second
    risks = (first @ variances, second @ variances)
    texts = [f"excess risk of task {m}, λ = {strength:g}" for m in (1, 2)]
    numbers = zip(texts, risks, computed, strict=True)
    return [Statement(text, float(risk), float(each), DERIVED) for text, risk, each in numbers]
