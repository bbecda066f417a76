"""Goldfarb, Evron, Weinberger, Soudry and Hand (ICLR 2024): the second task is the first one,
rotated in part.

The rotation acts on a random subspace of a part α of the d features; β = 1 − r/d is the
overparameterization of r rows. Statement (abstract): with high overparameterization intermediate
similarities are worst, near the interpolation threshold forgetting decreases with similarity. The
formula for large d is derived here (free compression).
"""

import numpy as np

import forgetless as fl
from forgetless._table import Table
from papers.statement import DERIVED, Floats, Statement, in_order

PAPER = "Goldfarb et al. 2024"
FEATURES, DRAWS = 160, 8


def limit(alpha: float | Floats, beta: float) -> Floats:
    """Return forgetting of the first task per row for many features: 2α at β = 0, α²(1 − α)² at β =
    1.
    """
    c, d = 1.0 - np.asarray(alpha), 1.0 - beta
    k2, k3 = 1.0 - c**2, -c * (1.0 - c) * (1.0 + 2.0 * c)
    k4 = 1.0 - 4.0 * c * k3 - 2.0 * k2**2 - 4.0 * c**2 * k2 - 2.0 * c**2 * (c - c**2) - c**4
    m2 = d * k2 + c**2
    m3 = d**2 * k3 + 2.0 * d * k2 * c + d * (c - c**2) * c + c**3
    m4 = (
        d**3 * k4
        + 4.0 * c * d**2 * k3
        + 2.0 * d**2 * k2**2
        + 4.0 * c**2 * d * k2
        + 2.0 * c**2 * d * (c - c**2)
        + c**4
    )
    return np.asarray(m2 - 2.0 * m3 + m4)


def statements() -> list[Statement]:
    """Return the limit beside sampled rotations of 160 features, and where the peak is inside."""
    rng = np.random.default_rng(0)
    result = []
    for rank, alpha in ((40, 0.25), (40, 0.5), (120, 0.5), (120, 1.0)):
        mean, error = _sampled(rank, alpha, rng)
        text = f"forgetting per row, α = {alpha:g}, β = {1 - rank / FEATURES:g}"
        published = float(limit(alpha, 1 - rank / FEATURES))
        result.append(Statement(text, published, mean, DERIVED, "≈", error, tolerance=0.03))
    grid = np.linspace(0.0, 1.0, 1001)
    for beta, relation in ((0.99, "≤"), (0.5, "≥")):
        peak = float(grid[np.argmax(limit(grid, beta))])
        result.append(
            Statement(f"worst α, β = {beta:g}, against 0.999", 0.999, peak, DERIVED, relation)
        )
    return result


def _rotation(size: int, rng: np.random.Generator) -> Floats:
    Q, R = np.linalg.qr(rng.standard_normal((size, size)))
    return np.asarray(Q * np.sign(np.diagonal(R)))


def _sampled(rank: int, alpha: float, rng: np.random.Generator) -> tuple[float, float]:
    """Return the mean forgetting per row over random rotations and unit teachers, and its standard
    error.
    """
    d = FEATURES
    size = round(alpha * d)
    X = np.eye(d)[:rank]
    values = []
    for _ in range(DRAWS):
        V = _rotation(d, rng)[:, :size]
        rotated = X @ (np.eye(d) + V @ (_rotation(size, rng) - np.eye(size)) @ V.T)
        pairs = [(X, np.eye(rank)), (rotated, np.eye(rank))]
        values.append(float(in_order(pairs, fl.Projection(), "task_drift")[-1, 0]) / rank)
    return float(np.mean(values)), float(np.std(values, ddof=1) / np.sqrt(DRAWS))


def curves() -> Table:
    """Return the limit over all similarities for several overparameterizations."""
    grid = np.linspace(0.0, 1.0, 101)
    rows = [
        {"overparameterization": beta, "dissimilarity": float(alpha), "forgetting": float(value)}
        for beta in (0.5, 0.75, 0.9, 0.95, 0.99)
        for alpha, value in zip(grid, limit(grid, beta), strict=True)
    ]
    return Table.of_rows("Forgetting against dissimilarity of two tasks", rows)
