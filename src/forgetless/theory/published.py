"""The bounds of the paper, in its order, and those of others in its Table 1 and since.

One paragraph is one result; what is said above it is what a reader of the paper would ask.
"""

import math
from functools import partial

from forgetless.theory import hypotheses as h
from forgetless.theory.hypotheses import Setting, steps
from forgetless.theory.records import Bound
from forgetless.theory.reduction import last_iterate_weights

RANDOM = (h.REALIZABLE, h.UNIFORM)
SHUFFLED = (h.REALIZABLE, h.EXCHANGEABLE)
FREE = (*RANDOM, h.UNREGULARIZED)

_tight = partial(Bound, status="paper, tight")
_literature = partial(Bound, status="literature")
_lower = partial(Bound, kind="lower")


def last_iterate_rate(k: int, kappa: float) -> float:
    """Return e/(2κ(2−κ)) · k^{−1+κ(1−κ/4)}: Theorem 5.1 of Evron et al. (2025) on the surrogates.

    Examples
    --------
    >>> from forgetless.theory.published import last_iterate_rate
    >>> round(100 / math.log(100) * last_iterate_rate(100, 1 / math.log(100)), 3)
    1.963
    """
    return math.e / (2 * kappa * (2 - kappa)) * math.pow(k, -1 + kappa * (1 - kappa / 4))


def _rate(s: Setting) -> float:
    return last_iterate_rate(s.k, s.kappa)


# ---- elementary: steps do not increase ‖w − w⋆‖, and every loss is at most ½R²‖w − w⋆‖² ----

TRIVIAL = [
    Bound(
        name,
        "1/2",
        needs,
        "no step expands the error, and a loss is at most ½R²‖w − w⋆‖²",
        value=lambda _: 0.5,
        quantity=quantity,
        citation="elementary",
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

_NEAR_OPTIMAL = (*RANDOM, h.FIXED, h.BETWEEN, h.INVERSE_LOG, steps(3))

FIXED_STRENGTH = [
    # (i) Ridge with one λ > 0: κ = R²/(R² + λ).
    Bound(
        "fixed coefficient",
        "e/(2κ(2−κ)) · k^{−1+κ(1−κ/4)}",
        (*RANDOM, h.EXPLICIT, h.FIXED, h.INSIDE),
        _LEMMA.format("(i)"),
        value=_rate,
    ),
    # (ii) N gradient steps of size γ < 1/R²: κ = 1 − (1 − γR²)^N.
    Bound(
        "fixed budget",
        "e/(2κ(2−κ)) · k^{−1+κ(1−κ/4)}",
        (*RANDOM, h.BUDGET, h.FIXED, h.INSIDE),
        _LEMMA.format("(ii)"),
        value=_rate,
    ),
    # The same proof for any filter: it uses the smoothness κ/η and the upper half of the sandwich.
    _tight(
        "fixed, any filter",
        "e/(2κ(2−κ)) · k^{−1+κ(1−κ/4)}",
        (*RANDOM, h.FIXED, h.BETWEEN, h.INSIDE),
        _LEMMA.format("through Appendix C, lem:general_reduction_properties"),
        value=_rate,
    ),
    # Beyond the lemma: no regularization (κ = 1), or a step of more than 1/R².
    _literature(
        "fixed, beyond the lemma",
        "e/(2κ(2−κ)) · k^{−1+κ(1−κ/4)}",
        (*RANDOM, h.FIXED, h.BETWEEN, h.BEYOND),
        "Theorem 5.1 at step size κ/β, through the reduction of the paper",
        value=_rate,
        citation="Evron et al. (2025), arXiv 2504.04579",
    ),
    # Without replacement the paper states the rate only; the constant is in Evron et al. (2025).
    Bound(
        "fixed, without replacement",
        "k^{−1+κ(1−κ/4)}",
        (h.REALIZABLE, h.WITHOUT, h.FIXED, h.BETWEEN),
        "Remark “Extension to without replacement orderings”, Section 4.1, rem:ext_to_wor",
    ),
    # λ = R²(ln k − 1), or the budget with κ = 1/ln k. Printed for k ≥ 2, where λ < 0.
    Bound(
        "fixed, near-optimal",
        "5 ln k / k",
        _NEAR_OPTIMAL,
        _COROLLARY,
        value=lambda s: 5 * math.log(s.k) / s.k,
    ),
    # e^{2−1/(4 ln k)}/(2(2 − 1/ln k)): 2.70 at k = 3, 2.12 at 10, 1.85 as k → ∞.
    _tight(
        "fixed, near-optimal, tight",
        "C(k) ln k / k → (e²/4) ln k / k",
        _NEAR_OPTIMAL,
        _COROLLARY,
        value=lambda s: last_iterate_rate(s.k, 1 / math.log(s.k)),
    ),
]

# ---- increasing strength (Section 4.2, Appendix E) ----

_THEOREM = (
    "Theorem “Optimal rates for increasing regularization”, Section 4.2, "
    "thm:optimal_scheduled_parameters"
)
_SGD = "Lemma “SGD bound for time-varying distributions”, Section 4.2, thm:relaxed_sgd"
_SEEN = f"{_SGD}, restated in Appendix E, thm:relaxed_sgd_indexing, seen-task bound"

_INCREASING = (*RANDOM, h.THEOREM, steps(2))

INCREASING_STRENGTH = [
    # (i) λ_t = (13/3)R²(k+1)/(k−t+2); (ii) N_t steps of γ_t < 1/R² with 1/(N_tγ_t) = that λ_t.
    Bound(
        "increasing",
        "20/(k+1)",
        _INCREASING,
        _THEOREM,
        value=lambda s: 20 / (s.k + 1),
    ),
    # What the proof has before it rounds: 8.25 at k = 2, 18.9 at 100.
    _tight(
        "increasing, finite k",
        "v₀²/(2c_{k+1}) → 19.5/(k+1)",
        _INCREASING,
        f"{_THEOREM}, proof",
        value=lambda s: float(last_iterate_weights(s.k, 3 / 13, 1.0).bound),
    ),
    # The lemma behind it, with η = 1/(cR²): 9/(2η(k+1)).
    Bound(
        "increasing, larger scale",
        "4.5c/(k+1)",
        (*RANDOM, h.AT_LEAST, steps(2)),
        _SGD,
        value=lambda s: 4.5 * s.scale / (s.k + 1),
    ),
    # λ₁ → 0: the first step does not move w₁ away from w⋆; k − 1 steps of a larger scale follow.
    Bound(
        "increasing, first task free",
        "19.5(k+1)/k²",
        (*RANDOM, h.FIRST_FREE, steps(3)),
        "Remark “Unregularized first task”, Section 2; the constant is derived",
        value=lambda s: 19.5 * (s.k + 1) / s.k**2,
        status="derived",
    ),
    Bound(
        "increasing, seen tasks",
        "87/(k+1)",
        _INCREASING,
        _SEEN,
        value=lambda s: 87 / (s.k + 1),
        quantity="seen_loss",
    ),
    # 20/(η(k+1)) with η = 1/(cR²).
    Bound(
        "increasing, larger scale, seen tasks",
        "20c/(k+1)",
        (*RANDOM, h.AT_LEAST, steps(2)),
        _SEEN,
        value=lambda s: 20 * s.scale / (s.k + 1),
        quantity="seen_loss",
    ),
    # Its proof without the slips: 2·19.5 from the loss and 8·3/13 from stability, lem:wr_stability.
    Bound(
        "increasing, seen tasks, tight",
        "(39 + 24/13)/(k+1)",
        _INCREASING,
        _SEEN,
        value=lambda s: (39 + 24 / 13) / (s.k + 1),
        quantity="seen_loss",
        status="derived",
    ),
    # The proof compares w_t with w⋆ and earlier iterates only, so exchangeability is enough.
    Bound(
        "increasing, next task",
        "20/(k+1)",
        (*SHUFFLED, h.THEOREM, steps(2)),
        f"{_THEOREM}, whose proof holds for exchangeable orders",
        value=lambda s: 20 / (s.k + 1),
        quantity="next_loss",
        status="derived",
    ),
]

# ---- Table 1, and results since: no regularization, and cycles ----

TABLE = "as given in Table 1 of the paper, tab:comparison"

OTHERS = [
    _literature(
        "unregularized, dimension-free",
        "(e/2) k^{−1/4}",
        FREE,
        f"Theorem 5.1 at step size 1/β, {TABLE}",
        value=lambda s: math.e / 2 * s.k**-0.25,
        citation="Evron et al. (2025), arXiv 2504.04579",
    ),
    _literature(
        "unregularized, by rank",
        "√(d − r̄)/k",
        FREE,
        TABLE,
        citation="Evron et al. (2025), arXiv 2504.04579",
    ),
    _literature(
        "unregularized, by total rank",
        "√(M r̄)/k",
        FREE,
        TABLE,
        citation="Evron et al. (2025), arXiv 2504.04579",
    ),
    _literature(
        "unregularized, by dimension",
        "(d − r̄)/k",
        FREE,
        TABLE,
        citation="Evron et al. (2022)",
    ),
    # 13/√k for losses without ½.
    _literature(
        "unregularized, half",
        "6.5/√k",
        FREE,
        "main theorem, quoted by Tsipory et al. (NeurIPS 2025), Section 5",
        value=lambda s: 6.5 / math.sqrt(s.k),
        citation="Attia et al. (NeurIPS 2025), arXiv 2507.11274",
    ),
    _literature(
        "unregularized, three quarters",
        "k^{−3/4}",
        FREE,
        "main theorem, of which the abstract was read",
        citation="Dereziński & Dong (COLT 2026), arXiv 2604.09909",
    ),
    _literature(
        "cyclic, unregularized, 2022",
        "M²/√k ∧ M²(d − r_max)/k",
        (h.REALIZABLE, h.CYCLIC, h.UNREGULARIZED),
        TABLE,
        citation="Evron et al. (2022)",
    ),
    _literature(
        "cyclic, unregularized, 2023",
        "M³/k",
        (h.REALIZABLE, h.CYCLIC, h.UNREGULARIZED),
        TABLE,
        citation="Swartworth et al. (2023)",
    ),
    _literature(
        "cyclic, fixed",
        "M√ln(k/M)/k",
        (h.REALIZABLE, h.CYCLIC, h.EXPLICIT, h.CAI),
        f"Section 6 of the paper, {TABLE}",
        citation="Cai & Diakonikolas (2025)",
    ),
]

# ---- lower bounds: some collection has at least this loss (Section 4.3, Appendix B) ----

ANY_ALGORITHM = "Theorem in Appendix B (any algorithm), thm:any_algorithm_lower_bound"
SEEN_TASKS = (
    "Lemma “Lower bound for seen-task loss in regularized continual linear regression”, Section"
    " 4.3, lem:regularized_scheme_seen_lb"
)

LOWER = [
    # One of k tasks is not drawn with probability ≥ ¼, and then its sign is unknown.
    _lower(
        "any algorithm",
        "1/(16k)",
        (h.UNIFORM, steps(2)),
        ANY_ALGORITHM,
        value=lambda s: 1 / (16 * s.k),
    ),
    # 1/(144k) with probability ≥ ¼.
    _lower(
        "seen tasks, explicit",
        "(1/4)·1/(144k)",
        (h.UNIFORM, h.EXPLICIT, steps(9)),
        SEEN_TASKS,
        value=lambda s: 1 / (576 * s.k),
        quantity="seen_loss",
    ),
    _lower(
        "unregularized, lower",
        "1/k",
        (h.UNIFORM, h.UNREGULARIZED),
        f"proof of Theorem 10, two tasks repeated, {TABLE}",
        citation="Evron et al. (2022)",
        status="literature",
    ),
    _lower(
        "cyclic, unregularized, lower",
        "M²/k",
        (h.CYCLIC, h.UNREGULARIZED),
        TABLE,
        citation="Evron et al. (2022)",
        status="literature",
    ),
]

PUBLISHED = [*TRIVIAL, *FIXED_STRENGTH, *INCREASING_STRENGTH, *OTHERS, *LOWER]
