"""Banayeeanzade, Soltanolkotabi and Rostami (TMLR 2025): replay of some rows of every old task,
fitted from the origin.

In forgetless a task with rows of several teachers, solved exactly from the start.
"""

import numpy as np

import forgetless as fl
from papers.statement import CODE, Floats, Statement

PAPER = "Banayeeanzade et al. 2025"
DRAWS = 150


def published(rows: list[int], d: int, noise: float, W: Floats) -> float:
    """Return the mean of E‖w − w_i‖² over teachers, with ``rows`` of each of them, N in all:
    ``predict_loss_mem``.
    """
    N = sum(rows)
    n = np.array(rows)
    D = ((W[:, None] - W) ** 2).sum(-1)  # squared distances between teachers
    shared = N * noise**2 / (d - N - 1) + (np.outer(n, n) * D).sum() / (2 * d * (d - N - 1))
    return float(np.mean((n / d) @ D + shared + (1 - N / d) * (W**2).sum(axis=1)))


def statements() -> list[Statement]:
    """Return the mean distance from all teachers after the last task."""
    rng = np.random.default_rng(0)
    result = []
    for n, stored, d, k, noise in ((50, 5, 120, 5, 0.3), (20, 0, 40, 5, 0.3)):
        W = (rng.standard_normal((k, d)) + 0.5) / np.sqrt(d)
        rows = [stored] * (k - 1) + [n]
        owners = np.repeat(np.arange(k), rows)
        values = []
        for _ in range(DRAWS):
            X = rng.standard_normal((len(owners), d))
            y = np.einsum("ij,ij->i", X, W[owners]) + noise * rng.standard_normal(len(owners))
            w = fl.step(np.zeros(d), (X, y), fl.Projection())
            values.append(float(((w - W) ** 2).sum(-1).mean()))
        text = f"distance from teachers, {stored} of {n} rows stored, d = {d}, k = {k}"
        error = float(np.std(values, ddof=1) / np.sqrt(DRAWS))
        number = published(rows, d, noise, W)
        result.append(Statement(text, number, float(np.mean(values)), CODE, error=error))
    return result
