"""The upper bounds that were derived in this project, and are not published."""

from dataclasses import dataclass
from fractions import Fraction

from forgetless.theory import hypotheses as h
from forgetless.theory.bound import Bound
from forgetless.theory.hypotheses import of_scale, steps
from forgetless.theory.one_filter import every_k
from forgetless.theory.published import FREE, RANDOM, SHUFFLED

PAGE = "docs/unregularized.md"
UPPER = "docs/upper-bounds.md"
OPTIMAL = "docs/optimal-schedule.md"

# ---- no regularization, and one filter at every step ----

ONE_FILTER = [
    # Learning every task to convergence has the optimal rate: the open question of Section 6.
    Bound(
        name="unregularized, by hand",
        rate="1/(2k)",
        hypotheses=FREE,
        value=lambda s: 1 / (2 * s.k),
        citation=PAGE,
        place="Theorem U, c = 1, without a computer",
        status="derived",
    ),
    Bound(
        name="unregularized, one third",
        rate="1/(3k)",
        hypotheses=FREE,
        value=lambda s: 1 / (3 * s.k),
        citation=PAGE,
        place="Theorem U, c = 2/3, with 6 polynomials checked in integers",
        status="derived",
    ),
    Bound(
        name="unregularized, every k",
        rate="0.315/k",
        hypotheses=FREE,
        value=lambda s: 0.315 / s.k,
        citation=PAGE,
        place="Theorem U, c = 0.63, with 160 polynomials checked in integers",
        status="derived",
    ),
    # Leave one step out and pay for it: 2·R²D²/(3(k−1)) + 2·R²D²/(2k), halved.
    Bound(
        name="unregularized, seen tasks",
        rate="2/(3(k−1)) + 1/k",
        hypotheses=(*FREE, steps(2)),
        value=lambda s: 2 / (3 * (s.k - 1)) + 1 / s.k,
        quantity="seen_loss",
        citation=PAGE,
        place="Corollary S",
        status="derived",
    ),
    # A fixed λ that does not depend on k has O(1/k), too.
    Bound(
        name="one filter, every k",
        rate="C(κ)/(2κk)",
        hypotheses=(*RANDOM, h.FIXED, h.BETWEEN, h.BELOW_TWO),
        value=lambda s: every_k(s.kappa) / s.k,
        citation=PAGE,
        place="Theorem F",
        status="derived",
    ),
    Bound(
        name="mean of unregularized iterates, next task",
        rate="1/(2(k+1))",
        hypotheses=(*SHUFFLED, h.UNREGULARIZED, h.MEAN_ITERATE),
        value=lambda s: 1 / (2 * (s.k + 1)),
        quantity="next_loss",
        citation=OPTIMAL,
        place="Theorem A",
        status="derived",
    ),
    Bound(
        name="unregularized, isotropic teachers",
        rate="k^k/(2(k+1)^{k+1})",
        hypotheses=(*RANDOM, h.UNREGULARIZED, h.ISOTROPIC),
        value=lambda s: (1 - 1 / (s.k + 1)) ** s.k / (2 * (s.k + 1)),
        citation=OPTIMAL,
        place="Theorem I",
        status="derived",
    ),
]

# ---- increasing schedules: constants for every k, proved by computer ----


@dataclass(frozen=True)
class Constant:
    """One constant and its schedule: λ_t = c·R²(k+1)/(k−t+2), or single gradient steps of size
    1/λ_t.
    """

    name: str  # that of its entry in the catalogue
    scheme: str  # "explicit" or "one step"
    scale: Fraction  # c
    value: Fraction  # C


constants = (
    Constant("increasing, every k", "explicit", Fraction(13, 3), Fraction("1.04")),
    Constant(
        "increasing, one gradient step, every k", "one step", Fraction(13, 3), Fraction("0.91")
    ),
    Constant("increasing, scale 1, every k", "explicit", Fraction(1), Fraction("0.45")),
    Constant("increasing, scale 1/2, every k", "explicit", Fraction(1, 2), Fraction("0.39")),
    Constant(
        "increasing, scale 1, one gradient step, every k", "one step", Fraction(1), Fraction("0.39")
    ),
)
"""E L ≤ C·R²D²/(k+1) for every realizable collection; see ``python -m research.proofs``."""


def _every_k(constant: Constant) -> Bound:
    form = h.EXPLICIT if constant.scheme == "explicit" else h.ONE_STEP
    value = float(constant.value)
    return Bound(
        name=constant.name,
        rate=f"{value:g}/(k+1)",
        hypotheses=(*RANDOM, form, of_scale(float(constant.scale), str(constant.scale))),
        value=lambda s: value / (s.k + 1),
        citation=UPPER,
        place="Theorem 6, by computer; extends a lemma of Dereziński & Dong (COLT 2026)",
        status="derived",
    )


# ---- the minimax schedule κ_t = η(k+1−t)/(k+1): λ_t = R²t/(k+1−t) at η = 1 ----

MINIMAX = [
    Bound(
        name=name,
        rate="1/(2η(k+1))",
        hypotheses=(*order, h.MINIMAX),
        value=lambda s: 1 / (2 * s.eta * (s.k + 1)),
        quantity=quantity,
        citation=OPTIMAL,
        place="Theorem X",
        status="derived",
    )
    for name, quantity, order in (
        ("minimax", "average_loss", RANDOM),
        ("minimax, next task", "next_loss", SHUFFLED),
    )
]

DERIVED = [*ONE_FILTER, *map(_every_k, constants), *MINIMAX]
