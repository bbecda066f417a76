"""Karpel, Moroshko, Levinstein, Meir, Soudry and Evron (ALT 2026), arXiv 2601.13844: the best
constant λ with label noise, of order k/ln k.

The order is a theorem of the paper; the constant is derived here from the ensemble equation.
"""

import numpy as np
from scipy.optimize import minimize_scalar

import forgetless as fl
from forgetless._table import Table
from papers.statement import DERIVED, Statement

PAPER = "Karpel et al. 2026"
D, N, NOISE = 100, 20, 0.5


def limit(k: int, d: int = D, n: int = N, noise: float = NOISE) -> float:
    """Return 2nk/ln(4nk/(dσ²)), the best constant λ for one teacher at distance 1, as k grows."""
    return float(2.0 * n * k / np.log(4.0 * n * k / (d * noise**2)))


def distance_of_constant(coefficient: float, k: int) -> float:
    """Return E‖w_k − v‖² of a constant λ in closed form: e_k = b^k + σ²ν(1 − b^k)/(1 − b), b = 1 −
    2a + a₂.
    """
    moments = fl.ensembles.Gaussian(D, N).moments(fl.Ridge(coefficient))
    learned, squared, noise = (float(each.ravel()[0]) for each in moments[:3])
    gain = 2.0 * learned - squared
    left = np.exp(k * np.log1p(-gain))
    return float(left + NOISE**2 * noise * (1.0 - left) / gain)


def exact_best(k: int) -> float:
    """Return the best constant λ by exact search."""
    centre = np.log(limit(k))
    best = minimize_scalar(
        lambda u: distance_of_constant(np.exp(u), k),
        bounds=(centre - 2, centre + 2),
        method="bounded",
        options={"xatol": 1e-11},
    )
    return float(np.exp(best.x))


def statements() -> list[Statement]:
    """Return the best constant over its limit 2nk/ln(4nk/(dσ²)) for more and more tasks."""
    result = []
    for k, tolerance in ((1000, 0.03), (10_000, 0.004), (1_000_000, 2e-4)):
        text = f"best constant λ over its limit, k = {k:,}"
        ratio = exact_best(k) / limit(k)
        result.append(Statement(text, 1.0, ratio, DERIVED, "≈", tolerance=tolerance))
    return result


def curves() -> Table:
    """Return the best constant and its limit against the number of tasks."""
    steps = (10, 30, 100, 300, 1000, 3000, 10_000)
    rows = [{"tasks": k, "best constant": exact_best(k), "limit": limit(k)} for k in steps]
    return Table.of_rows("Best constant λ with label noise", rows)
