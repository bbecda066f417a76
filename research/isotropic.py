"""Upper bounds on average over isotropic teachers, w₀ − w⋆ of covariance (D²/d)I, for one fixed
filter.

With κ = φ(R²) and q^k(1 − q) ≤ k^k/(k+1)^{k+1} for q in [0, 1] (docs/proofs.md, Theorem
I). Without regularization, κ = 1, the bound for independent draws is the smallest of any algorithm.
"""

import forgetless as fl
from forgetless.schedules import ScheduleLike
from forgetless.theory.steps import ROUNDED, steps_of


def isotropic_bound(
    schedule: ScheduleLike,
    k: int,
    quantity: str = "average_loss",
    *,
    independent: bool = True,
    n_tasks: int | None = None,
) -> float:
    """Return a bound over R²D² of a schedule for tasks of radius 1.

    Parameters
    ----------
    schedule : schedule, filter, name or number
        One that is the same at every step.
    k : int
    quantity : "average_loss", "seen_loss" or "next_loss"
    independent : bool, default True
        Whether tasks are drawn with replacement; else in any exchangeable order.
    n_tasks : int, optional
        M, for the average loss over all M tasks without replacement.

    Examples
    --------
    >>> import forgetless as fl
    >>> from research.isotropic import isotropic_bound
    >>> round(isotropic_bound(fl.Projection(), k=7), 6)
    0.024543
    """
    steps = steps_of(fl.schedules.resolve(schedule, k, 1.0), k)
    if not steps.proportional or not (steps.kappa == steps.kappa[0]).all() or steps.unused:
        raise ValueError(
            "isotropic teachers have a bound for one fixed filter only, got a schedule that varies;"
            " use e.g. fl.Projection(), which is optimal for such teachers"
        )
    kappa = float(steps.kappa[0]) * (1 - ROUNDED)
    seen = 1 / (2 * k)
    following = 1 / (2 * (k + 1))
    if independent:
        following *= (k / (k + 1)) ** k
    unit = seen if quantity == "seen_loss" else following
    if quantity == "average_loss" and n_tasks is not None:
        unit = (1 - k / n_tasks) * following + k / n_tasks * seen
    return min(0.5, unit / (kappa * (2 - kappa)) * (1 + ROUNDED))
