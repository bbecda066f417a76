"""Hiratani (NeurIPS 2024): two tasks with correlated latent factors, x = A s and y = B s; transfer
and retention.
"""

import numpy as np

import forgetless as fl
from papers.statement import CODE, Floats, Statement, in_order

PAPER = "Hiratani 2024"
FEATURES, FACTORS, OUTPUTS, DRAWS = 3000, 30, 20, 12


def statements() -> list[Statement]:
    """Return transfer ρ_A(2ρ_B − ρ_A) and retention 1 − ρ_A²(ρ_A² − 2ρ_Aρ_B + 1), which hold for
    many features.
    """
    rng = np.random.default_rng(0)
    result = []
    for a, b in ((0.3, 0.9), (0.6, 0.6), (0.9, 0.3)):
        values = np.array([_draw(a, b, rng) for _ in range(DRAWS)])
        published = {"transfer": a * (2 * b - a), "retention": 1 - a**2 * (a**2 - 2 * a * b + 1)}
        for i, (name, value) in enumerate(published.items()):
            error = float(values[:, i].std(ddof=1) / np.sqrt(DRAWS))
            text = f"{name}, ρ_A = {a}, ρ_B = {b}"
            result.append(
                Statement(text, value, float(values[:, i].mean()), CODE, "≈", error, tolerance=0.05)
            )
    return result


def _draw(a: float, b: float, rng: np.random.Generator) -> tuple[float, float]:
    """Return transfer and retention of one draw: rows are the latent factors, so that losses are
    population losses.
    """

    def pair(size: int, correlation: float) -> list[Floats]:
        first, other = rng.standard_normal((2, FACTORS, size)) / np.sqrt(size)
        return [first, correlation * first + np.sqrt(1 - correlation**2) * other]

    X = pair(FEATURES, a)
    Y = pair(OUTPUTS, b)
    losses = 2.0 * in_order(list(zip(X, Y, strict=True)), fl.Projection(), "task_losses")
    return 1 - losses[0, 1] / (Y[1] ** 2).sum(), 1 - losses[1, 0] / (Y[0] ** 2).sum()
