"""The upper bounds of the paper, in its order, and those of others in its Table 1 and since.

One paragraph is one result; what is said above it is what a reader of the paper would ask.
"""

import math

from forgetless.theory import hypotheses as h
from forgetless.theory.bound import Bound
from forgetless.theory.hypotheses import steps
from forgetless.theory.last_iterate import last_iterate_weights

RANDOM = (h.REALIZABLE, h.UNIFORM)
SHUFFLED = (h.REALIZABLE, h.EXCHANGEABLE)
FREE = (*RANDOM, h.UNREGULARIZED)


def last_iterate_rate(k: int, kappa: float) -> float:
    """Return e/(2κ(2−κ)) · k^{−1+κ(1−κ/4)}: Theorem 5.1 of Evron et al. (2025) on the surrogates.

    Examples
    --------
    >>> from forgetless.theory.published import last_iterate_rate
    >>> round(100 / math.log(100) * last_iterate_rate(100, 1 / math.log(100)), 3)
    1.963
    """
    if not 0 < kappa < 2:
        raise ValueError(f"kappa must lie in (0, 2), got {kappa}; it is φ(R²)")
    return float(math.e / (2 * kappa * (2 - kappa)) * k ** (-1 + kappa * (1 - kappa / 4)))


# ---- elementary: steps do not increase ‖w − w⋆‖, and every loss is at most ½R²‖w − w⋆‖² ----

TRIVIAL = [
    Bound(
        name=name,
        rate="1/2",
        hypotheses=needs,
        value=lambda _: 0.5,
        quantity=quantity,
        citation="elementary",
        place="no step expands the error, and a loss is at most ½R²‖w − w⋆‖²",
        status="elementary",
    )
    for name, quantity, needs in (
        ("trivial", "average_loss", (h.REALIZABLE,)),
        ("trivial, seen tasks", "seen_loss", (h.REALIZABLE,)),
        ("trivial, next task", "next_loss", SHUFFLED),
    )
]

# ---- fixed strength (Section 4.1, Appendix D) ----

_LEMMA = (
    "Lemma “Rates for fixed regularization strength” {}, Section 4.1, lem:general_fixed_parameters"
)
_COROLLARY = (
    "Corollary “Near-optimal rates via fixed regularization strength”, Section 4.1, "
    "cor:near_optimal_fixed_parameters"
)

FIXED_STRENGTH = [
    # (i) Ridge with one λ > 0: κ = R²/(R² + λ).
    Bound(
        name="fixed coefficient",
        rate="e/(2κ(2−κ)) · k^{−1+κ(1−κ/4)}",
        hypotheses=(*RANDOM, h.EXPLICIT, h.FIXED, h.INSIDE),
        value=lambda s: last_iterate_rate(s.k, s.kappa),
        place=_LEMMA.format("(i)"),
    ),
    # (ii) N gradient steps of size γ < 1/R²: κ = 1 − (1 − γR²)^N.
    Bound(
        name="fixed budget",
        rate="e/(2κ(2−κ)) · k^{−1+κ(1−κ/4)}",
        hypotheses=(*RANDOM, h.BUDGET, h.FIXED, h.INSIDE),
        value=lambda s: last_iterate_rate(s.k, s.kappa),
        place=_LEMMA.format("(ii)"),
    ),
    # The same proof for any filter: it uses the smoothness κ/η and the upper half of the sandwich.
    Bound(
        name="fixed, any filter",
        rate="e/(2κ(2−κ)) · k^{−1+κ(1−κ/4)}",
        hypotheses=(*RANDOM, h.FIXED, h.BETWEEN, h.INSIDE),
        value=lambda s: last_iterate_rate(s.k, s.kappa),
        place=_LEMMA.format("through Appendix C, lem:general_reduction_properties"),
        status="paper, tight",
    ),
    # Beyond the lemma: no regularization (κ = 1), or a step of more than 1/R².
    Bound(
        name="fixed, beyond the lemma",
        rate="e/(2κ(2−κ)) · k^{−1+κ(1−κ/4)}",
        hypotheses=(*RANDOM, h.FIXED, h.BETWEEN, h.BEYOND),
        value=lambda s: last_iterate_rate(s.k, s.kappa),
        citation="Evron et al. (2025), arXiv 2504.04579",
        place="Theorem 5.1 at step size κ/β, through the reduction of the paper",
        status="literature",
    ),
    # Without replacement the paper states the rate only; the constant is in Evron et al. (2025).
    Bound(
        name="fixed, without replacement",
        rate="k^{−1+κ(1−κ/4)}",
        hypotheses=(h.REALIZABLE, h.WITHOUT, h.FIXED, h.BETWEEN),
        place="Remark “Extension to without replacement orderings”, Section 4.1, rem:ext_to_wor",
    ),
    # λ = R²(ln k − 1), or the budget with κ = 1/ln k. Printed for k ≥ 2, where λ < 0.
    Bound(
        name="fixed, near-optimal",
        rate="5 ln k / k",
        hypotheses=(*RANDOM, h.FIXED, h.BETWEEN, h.INVERSE_LOG, steps(3)),
        value=lambda s: 5 * math.log(s.k) / s.k,
        place=_COROLLARY,
    ),
    # e^{2−1/(4 ln k)}/(2(2 − 1/ln k)): 2.70 at k = 3, 2.12 at 10, 1.85 as k → ∞.
    Bound(
        name="fixed, near-optimal, tight",
        rate="C(k) ln k / k → (e²/4) ln k / k",
        hypotheses=(*RANDOM, h.FIXED, h.BETWEEN, h.INVERSE_LOG, steps(3)),
        value=lambda s: last_iterate_rate(s.k, 1 / math.log(s.k)),
        place=_COROLLARY,
        status="paper, tight",
    ),
]

# ---- increasing strength (Section 4.2, Appendix E) ----

_THEOREM = (
    "Theorem “Optimal rates for increasing regularization”, Section 4.2, "
    "thm:optimal_scheduled_parameters"
)
_SGD = "Lemma “SGD bound for time-varying distributions”, Section 4.2, thm:relaxed_sgd"
_SEEN = f"{_SGD}, restated in Appendix E, thm:relaxed_sgd_indexing, seen-task bound"

INCREASING_STRENGTH = [
    # (i) λ_t = (13/3)R²(k+1)/(k−t+2); (ii) N_t steps of γ_t < 1/R² with 1/(N_tγ_t) = that λ_t.
    Bound(
        name="increasing",
        rate="20/(k+1)",
        hypotheses=(*RANDOM, h.THEOREM, steps(2)),
        value=lambda s: 20 / (s.k + 1),
        place=_THEOREM,
    ),
    # What the proof has before it rounds: 8.25 at k = 2, 18.9 at 100.
    Bound(
        name="increasing, finite k",
        rate="v₀²/(2c_{k+1}) → 19.5/(k+1)",
        hypotheses=(*RANDOM, h.THEOREM, steps(2)),
        value=lambda s: float(last_iterate_weights(s.k, 3 / 13, 1.0).bound),
        place=f"{_THEOREM}, proof",
        status="paper, tight",
    ),
    # The lemma behind it, with η = 1/(cR²): 9/(2η(k+1)).
    Bound(
        name="increasing, larger scale",
        rate="4.5c/(k+1)",
        hypotheses=(*RANDOM, h.AT_LEAST, steps(2)),
        value=lambda s: 4.5 * s.scale / (s.k + 1),
        place=_SGD,
    ),
    # λ₁ → 0: the first step does not move w₁ away from w⋆; k − 1 steps of a larger scale follow.
    Bound(
        name="increasing, first task free",
        rate="19.5(k+1)/k²",
        hypotheses=(*RANDOM, h.FIRST_FREE, steps(3)),
        value=lambda s: 19.5 * (s.k + 1) / s.k**2,
        place="Remark “Unregularized first task”, Section 2; the constant is derived",
        status="derived",
    ),
    Bound(
        name="increasing, seen tasks",
        rate="87/(k+1)",
        hypotheses=(*RANDOM, h.THEOREM, steps(2)),
        value=lambda s: 87 / (s.k + 1),
        quantity="seen_loss",
        place=_SEEN,
    ),
    # 20/(η(k+1)) with η = 1/(cR²).
    Bound(
        name="increasing, larger scale, seen tasks",
        rate="20c/(k+1)",
        hypotheses=(*RANDOM, h.AT_LEAST, steps(2)),
        value=lambda s: 20 * s.scale / (s.k + 1),
        quantity="seen_loss",
        place=_SEEN,
    ),
    # Its proof without the slips: 2·19.5 from the loss and 8·3/13 from stability, lem:wr_stability.
    Bound(
        name="increasing, seen tasks, tight",
        rate="(39 + 24/13)/(k+1)",
        hypotheses=(*RANDOM, h.THEOREM, steps(2)),
        value=lambda s: (39 + 24 / 13) / (s.k + 1),
        quantity="seen_loss",
        place=_SEEN,
        status="derived",
    ),
    # The proof compares w_t with w⋆ and earlier iterates only, so exchangeability is enough.
    Bound(
        name="increasing, next task",
        rate="20/(k+1)",
        hypotheses=(*SHUFFLED, h.THEOREM, steps(2)),
        value=lambda s: 20 / (s.k + 1),
        quantity="next_loss",
        place=f"{_THEOREM}, whose proof holds for exchangeable orders",
        status="derived",
    ),
]

# ---- Table 1, and results since: no regularization, and cycles ----

TABLE = "as given in Table 1 of the paper, tab:comparison"

OTHERS = [
    Bound(
        name="unregularized, dimension-free",
        rate="(e/2) k^{−1/4}",
        hypotheses=FREE,
        value=lambda s: math.e / 2 * s.k**-0.25,
        citation="Evron et al. (2025), arXiv 2504.04579",
        place=f"Theorem 5.1 at step size 1/β, {TABLE}",
        status="literature",
    ),
    Bound(
        name="unregularized, by rank",
        rate="√(d − r̄)/k",
        hypotheses=FREE,
        citation="Evron et al. (2025), arXiv 2504.04579",
        place=TABLE,
        status="literature",
    ),
    Bound(
        name="unregularized, by total rank",
        rate="√(M r̄)/k",
        hypotheses=FREE,
        citation="Evron et al. (2025), arXiv 2504.04579",
        place=TABLE,
        status="literature",
    ),
    Bound(
        name="unregularized, by dimension",
        rate="(d − r̄)/k",
        hypotheses=FREE,
        citation="Evron et al. (2022)",
        place=TABLE,
        status="literature",
    ),
    # 13/√k for losses without ½.
    Bound(
        name="unregularized, half",
        rate="6.5/√k",
        hypotheses=FREE,
        value=lambda s: 6.5 / math.sqrt(s.k),
        citation="Attia et al. (NeurIPS 2025), arXiv 2507.11274",
        place="main theorem, quoted by Tsipory et al. (NeurIPS 2025), Section 5",
        status="literature",
    ),
    Bound(
        name="unregularized, three quarters",
        rate="k^{−3/4}",
        hypotheses=FREE,
        citation="Dereziński & Dong (COLT 2026), arXiv 2604.09909",
        place="main theorem, of which the abstract was read",
        status="literature",
    ),
    Bound(
        name="cyclic, unregularized, 2022",
        rate="M²/√k ∧ M²(d − r_max)/k",
        hypotheses=(h.REALIZABLE, h.CYCLIC, h.UNREGULARIZED),
        citation="Evron et al. (2022)",
        place=TABLE,
        status="literature",
    ),
    Bound(
        name="cyclic, unregularized, 2023",
        rate="M³/k",
        hypotheses=(h.REALIZABLE, h.CYCLIC, h.UNREGULARIZED),
        citation="Swartworth et al. (2023)",
        place=TABLE,
        status="literature",
    ),
    Bound(
        name="cyclic, fixed",
        rate="M√ln(k/M)/k",
        hypotheses=(h.REALIZABLE, h.CYCLIC, h.EXPLICIT, h.CAI),
        citation="Cai & Diakonikolas (2025)",
        place=f"Section 6 of the paper, {TABLE}",
        status="literature",
    ),
]

PUBLISHED = [*TRIVIAL, *FIXED_STRENGTH, *INCREASING_STRENGTH, *OTHERS]
