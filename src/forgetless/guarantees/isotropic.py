"""Upper bounds on average over isotropic teachers, w₀ − w⋆ of covariance (D²/d)I, for one fixed
filter.

With κ = φ(R²) and q^k(1 − q) ≤ k^k/(k+1)^{k+1} for q in [0, 1] (docs/optimal-schedule.md, Theorem
I). Without regularization, κ = 1, the bound for independent draws is the smallest of any algorithm.
"""

from forgetless.filters import Filter
from forgetless.guarantees._steps import ROUNDED, steps_of


def isotropic(
    filter_: Filter, k: int, quantity: str, n_tasks: int | None, *, independent: bool
) -> float:
    """Return a bound over R²D² of a filter for tasks of radius 1; of ``n_tasks`` tasks without
    replacement if given.
    """
    steps = steps_of(filter_, k)
    if not steps.proportional or not (steps.kappa == steps.kappa[0]).all() or steps.unused:
        raise ValueError(
            'teacher="isotropic" has a bound for one fixed filter only, got a schedule that varies;'
            " use e.g. fl.Projection(), which is optimal for such teachers"
        )
    kappa = float(steps.kappa[0]) * (1 - ROUNDED)
    seen = 1 / (2 * k)
    following = 0.5 * (k / (k + 1)) ** k / (k + 1) if independent else 1 / (2 * (k + 1))
    unit = {"seen_loss": seen, "next_loss": following, "average_loss": following}[quantity]
    if quantity == "average_loss" and n_tasks is not None:
        unit = (1 - k / n_tasks) * following + k / n_tasks * seen
    return unit / (kappa * (2 - kappa)) * (1 + ROUNDED)
