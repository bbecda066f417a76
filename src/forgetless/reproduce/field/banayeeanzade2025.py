"""Banayeeanzade, Soltanolkotabi and Rostami (TMLR 2025): replay of some rows of every old task,
fitted from the origin.

In forgetless a task with rows of several teachers, solved exactly from the start.
"""

import numpy as np

from forgetless._core.arrays import Floats
from forgetless.equation import step
from forgetless.filters import Projection
from forgetless.reproduce.field._statement import CODE, Statement

PAPER = "Banayeeanzade et al. 2025"
DRAWS = 150


def published(rows: list[int], d: int, noise: float, W: Floats) -> float:
    """Return the mean of E‖w − w_i‖² over teachers, with ``rows`` of each of them, N in all:
    ``predict_loss_mem``.
    """
    N, n, D = sum(rows), np.array(rows), ((W[:, None] - W) ** 2).sum(-1)
    shared = N * noise**2 / (d - N - 1) + (np.outer(n, n) * D).sum() / (2 * d * (d - N - 1))
    return float(
        np.mean(
            [(n / d) @ D[:, i] + shared + (1 - N / d) * (W[i] ** 2).sum() for i in range(len(W))]
        )
    )


def statements() -> list[Statement]:
    """Return the mean distance from all teachers after the last task."""
    rng, result = np.random.default_rng(0), []
    for n, stored, d, k, noise in ((50, 5, 120, 5, 0.3), (20, 0, 40, 5, 0.3)):
        W = (rng.standard_normal((k, d)) + 0.5) / np.sqrt(d)
        rows = [stored] * (k - 1) + [n]
        owners, values = np.repeat(np.arange(k), rows), []
        for _ in range(DRAWS):
            X = rng.standard_normal((len(owners), d))
            y = np.einsum("ij,ij->i", X, W[owners]) + noise * rng.standard_normal(len(owners))
            values.append(
                float(((step(np.zeros(d), (X, y), Projection()) - W) ** 2).sum(-1).mean())
            )
        text = f"distance from teachers, {stored} of {n} rows stored, d = {d}, k = {k}"
        error = float(np.std(values, ddof=1) / np.sqrt(DRAWS))
        result.append(
            Statement(text, published(rows, d, noise, W), float(np.mean(values)), CODE, error=error)
        )
    return result
