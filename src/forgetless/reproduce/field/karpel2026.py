"""Karpel, Moroshko, Levinstein, Meir, Soudry and Evron (ALT 2026): the best constant λ with label
noise, of k/ln k.
"""

import numpy as np

from forgetless.ensembles import Gaussian
from forgetless.filters import Ridge
from forgetless.reporting.table import Table
from forgetless.reproduce.field._statement import DERIVED, Statement
from forgetless.schedules.tracking import Steady
from forgetless.theory.fresh_tasks import best_constant

PAPER = "Karpel et al. 2026"
D, N, NOISE = 100, 20, 0.5


def distance_of_constant(coefficient: float, k: int) -> float:
    """Return E‖w_k − v‖² of a constant λ in closed form: e_k = b^k + σ²ν(1 − b^k)/(1 − b), b = 1 −
    2a + a₂.
    """
    learned, squared, noise = (
        float(each.ravel()[0]) for each in Gaussian(D, N).moments(Ridge(coefficient))[:3]
    )
    gain = 2.0 * learned - squared
    left = np.exp(k * np.log1p(-gain))
    return float(left + NOISE**2 * noise * (1.0 - left) / gain)


def exact_best(k: int) -> float:
    """Return the best constant λ by exact search."""
    from scipy.optimize import minimize_scalar

    limit = np.log(best_constant(D, N, NOISE, k))
    return float(
        np.exp(
            minimize_scalar(
                lambda u: distance_of_constant(np.exp(u), k),
                bounds=(limit - 2, limit + 2),
                method="bounded",
                options={"xatol": 1e-11},
            ).x
        )
    )


def statements() -> list[Statement]:
    """Return the best constant over its limit 2nk/ln(4nk/(dσ²)) for more and more tasks."""
    result = []
    for k, tolerance in ((1000, 0.03), (10_000, 0.004), (1_000_000, 2e-4)):
        text, ratio = (
            f"best constant λ over its limit, k = {k:,}",
            exact_best(k) / best_constant(D, N, NOISE, k),
        )
        result.append(Statement(text, 1.0, ratio, DERIVED, "≈", tolerance=tolerance))
    return result


def curves() -> Table:
    """Return the best constant and its limit against the number of tasks, with the distances of
    both shapes of λ.
    """
    rows = []
    for k in (10, 30, 100, 300, 1000, 3000, 10_000):
        best, ensemble = exact_best(k), Gaussian(D, N, NOISE)
        rising = Steady(NOISE).for_spectrum(k, ensemble).coefficient
        left = 1.0
        for coefficient in np.asarray(rising):
            left *= 1.0 - ensemble.mean_factor(float(coefficient))
        row = {"tasks": k, "best constant": best, "limit": best_constant(D, N, NOISE, k)}
        rows.append({**row, "constant over optimal": distance_of_constant(best, k) / left})
    return Table.of_rows("Best constant λ with label noise", rows)
