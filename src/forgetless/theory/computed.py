"""Bounds that are computed from a schedule, or from the labels, and have no formula in k."""

import math

import numpy as np

from forgetless._validate import Floats
from forgetless.filters import Filter
from forgetless.theory import exchangeable
from forgetless.theory import hypotheses as h
from forgetless.theory.bound import Bound
from forgetless.theory.derived import OPTIMAL, PAGE, UPPER
from forgetless.theory.hypotheses import Hypothesis
from forgetless.theory.oracle import RightSide, next_probabilities
from forgetless.theory.setting import Setting
from forgetless.theory.steps import EIGENVALUES, TRUSTED, in_units, overshooting, parts, steps_of
from forgetless.theory.upper import independent_draws

_MOST = 10_000
_MOST_WITHOUT = 1000
"""Larger k take more than some seconds, and ``compare_bounds`` leaves the bound out."""


def _at_most(k: int) -> Hypothesis:
    return Hypothesis(
        f"k ≤ {k:,}",
        lambda s: s.k <= k,
        f"not computed here for more than {k:,} steps; ask fl.upper_bound(schedule, k) for it",
    )


def _refusal(s: Setting) -> str:
    """Return why Theorems 1 to 5 and F have no bound for the schedule; nothing if they have."""
    if s.radius == 0 or s.k > _MOST:
        return ""
    filter_ = in_units(s.filter, s.radius)
    if overshooting(filter_, s.k) is not None:
        return ""
    try:
        steps = steps_of(filter_, s.k)
    except ValueError as error:
        return str(error)
    return _failure_at(filter_, s.k, s.eigenvalues) if steps.assumes else ""


def _failure_at(filter_: Filter, k: int, eigenvalues: Floats) -> str:
    """Return the hypothesis that a custom filter violates at eigenvalues of tasks, in units of R²;
    nothing if it holds.

    Only there the theorems need κξ ≤ φ ≤ κ, and the bounds of the cells if filters differ.
    """
    xi = np.unique(np.clip(eigenvalues, 0.0, 1.0))
    xi = xi[xi > 0.0]
    cell = np.searchsorted(EIGENVALUES, xi) - 1
    for part in parts(1 if filter_.horizon is None else k):
        phi = filter_[part].table(xi)
        ends = filter_[part].table(EIGENVALUES)
        kappa = ends[:, -1:]
        wrong = (phi > kappa * (1 + TRUSTED)) | (phi < kappa * xi * (1 - TRUSTED))
        if filter_.horizon is not None:
            steep = np.full_like(phi, np.inf)  # at zero it was estimated
            np.divide(ends[:, cell], EIGENVALUES[cell], out=steep, where=cell > 0)
            wrong |= (phi > ends[:, cell + 1] * (1 + TRUSTED)) | (phi / xi > steep * (1 + TRUSTED))
        if wrong.any():
            at = xi[np.argmax(wrong.any(axis=0))]
            return (
                f"the bound needs a concave filter, which {type(filter_).__name__} is not"
                f" near ξ = {at:.6g} R²"
            )
    return ""


def _exchangeable_refusal(s: Setting) -> str:
    """Return why Theorems R and S have no bound for the schedule; nothing if they have."""
    if s.radius == 0 or s.k > _MOST:
        return ""
    try:
        exchangeable.factors_at_radius(in_units(s.filter, s.radius), s.k)
    except ValueError as error:
        return str(error)
    return ""


CONCAVE_STEPS = Hypothesis(
    "concave filters with φ_t(R²) ≤ 1, or one gradient step below 2/R²",
    lambda s: not _refusal(s),
    _refusal,
)
RISING_STEPS = Hypothesis(
    "filters with φ_t(R²) ≤ 1 whose strength never falls",
    lambda s: not _exchangeable_refusal(s),
    _exchangeable_refusal,
)
NOISE_ALLOWED = Hypothesis(
    "η is below 1",
    lambda s: s.eta != 1,
    "η is 1, for tasks that one model fits; use schedules.minimax(eta=…) with η below 1",
)


def _importance(s: Setting) -> float:
    """Return max 1/(M p_m): the average loss is a plain mean, while tasks are drawn by p."""
    with np.errstate(divide="ignore"):
        return float(np.max(1 / (len(s.probabilities) * s.probabilities)))


def _independent(s: Setting, quantity: str) -> float:
    if s.radius == 0:
        return 0.0
    unit = independent_draws(in_units(s.filter, s.radius), s.k, quantity)[0]
    return unit * _importance(s) if quantity == "average_loss" else unit


def _exchangeable(s: Setting, quantity: str) -> float:
    if s.radius == 0:
        return 0.0
    return exchangeable.bound(in_units(s.filter, s.radius), s.k, quantity, s.tasks.n_tasks)


def _oracle(s: Setting) -> float:
    if math.isnan(s.eta):
        return math.nan
    p = next_probabilities(s.tasks, s.ordering, s.k)
    return RightSide(s.tasks, s.filter, s.k, s.eta, p).value


COMPUTED = [
    Bound(
        name="computed",
        rate="computed",
        hypotheses=(h.REALIZABLE, h.INDEPENDENT, CONCAVE_STEPS, _at_most(_MOST)),
        value=lambda s: _independent(s, "average_loss"),
        citation=f"{UPPER}, {PAGE}",
        place="Theorems 1 to 4, or Theorem F; by fl.upper_bound",
        status="derived",
    ),
    Bound(
        name="computed, seen tasks",
        rate="computed",
        hypotheses=(h.REALIZABLE, h.INDEPENDENT, CONCAVE_STEPS, _at_most(_MOST)),
        value=lambda s: _independent(s, "seen_loss"),
        quantity="seen_loss",
        citation=f"{UPPER}, {PAGE}",
        place="Theorem 5, or Corollary S; by fl.upper_bound",
        status="derived",
    ),
    Bound(
        name="computed, next task",
        rate="computed",
        hypotheses=(h.REALIZABLE, h.EXCHANGEABLE, RISING_STEPS, _at_most(_MOST)),
        value=lambda s: _exchangeable(s, "next_loss"),
        quantity="next_loss",
        citation=OPTIMAL,
        place="Theorem R; by fl.upper_bound",
        status="derived",
    ),
    Bound(
        name="computed, without replacement",
        rate="computed",
        hypotheses=(h.REALIZABLE, h.WITHOUT, RISING_STEPS, _at_most(_MOST_WITHOUT)),
        value=lambda s: _exchangeable(s, "average_loss"),
        citation=OPTIMAL,
        place="Theorem S; by fl.upper_bound",
        status="derived",
    ),
    Bound(
        name="computed, seen tasks, without replacement",
        rate="computed",
        hypotheses=(h.REALIZABLE, h.WITHOUT, RISING_STEPS, _at_most(_MOST_WITHOUT)),
        value=lambda s: _exchangeable(s, "seen_loss"),
        quantity="seen_loss",
        citation=OPTIMAL,
        place="Theorem S; by fl.upper_bound",
        status="derived",
    ),
    # Noisy labels: the loss is compared with that of every fixed w.
    Bound(
        name="oracle, next task",
        rate="computed",
        hypotheses=(h.EXCHANGEABLE, h.MINIMAX, NOISE_ALLOWED),
        value=_oracle,
        quantity="next_loss",
        absolute=True,
        citation=OPTIMAL,
        place="Theorem N; by fl.oracle_bound",
        status="derived",
    ),
    Bound(
        name="oracle",
        rate="computed",
        hypotheses=(h.UNIFORM, h.MINIMAX, NOISE_ALLOWED),
        value=_oracle,
        absolute=True,
        citation=OPTIMAL,
        place="Theorem N; by fl.oracle_bound",
        status="derived",
    ),
]
