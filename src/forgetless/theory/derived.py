"""The bounds that were derived in this project, and are not published.

One paragraph is one result, with the page of its proof. What is computed from a schedule, and has
no formula in k, is in ``bounds``.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import partial

from forgetless.theory import hypotheses as h
from forgetless.theory.bound import Bound
from forgetless.theory.constructions import (
    seen_task_loss,
    seen_task_probability,
    unseen_task_loss,
)
from forgetless.theory.hypotheses import of_scale, steps
from forgetless.theory.one_filter import every_k
from forgetless.theory.published import ANY_ALGORITHM, FREE, RANDOM, SEEN_TASKS, SHUFFLED

PROOFS = "docs/proofs.md"

_unregularized = partial(Bound, status="derived", citation="docs/unregularized.md")
_proved = partial(Bound, status="derived", citation=PROOFS)
_lower = partial(Bound, status="derived", kind="lower")

# ---- no regularization, and one filter at every step ----

ONE_FILTER = [
    # Learning every task to convergence has the optimal rate: the open question of Section 6.
    _unregularized(
        "unregularized, by hand",
        "1/(2k)",
        FREE,
        "Theorem U, c = 1, without a computer",
        value=lambda s: 1 / (2 * s.k),
    ),
    _unregularized(
        "unregularized, one third",
        "1/(3k)",
        FREE,
        "Theorem U, c = 2/3, with 6 polynomials checked in integers",
        value=lambda s: 1 / (3 * s.k),
    ),
    _unregularized(
        "unregularized, every k",
        "0.315/k",
        FREE,
        "Theorem U, c = 0.63, with 160 polynomials checked in integers",
        value=lambda s: 0.315 / s.k,
    ),
    # Leave one step out and pay for it: 2·R²D²/(3(k−1)) + 2·R²D²/(2k), halved.
    _unregularized(
        "unregularized, seen tasks",
        "2/(3(k−1)) + 1/k",
        (*FREE, steps(2)),
        "Corollary S",
        value=lambda s: 2 / (3 * (s.k - 1)) + 1 / s.k,
        quantity="seen_loss",
    ),
    # A fixed λ that does not depend on k has O(1/k), too.
    _unregularized(
        "one filter, every k",
        "C(κ)/(2κk)",
        (*RANDOM, h.FIXED, h.BETWEEN, h.BELOW_TWO),
        "Theorem F",
        value=lambda s: every_k(s.kappa) / s.k,
    ),
    _proved(
        "mean of unregularized iterates, next task",
        "1/(2(k+1))",
        (*SHUFFLED, h.UNREGULARIZED, h.MEAN_ITERATE),
        "Theorem A",
        value=lambda s: 1 / (2 * (s.k + 1)),
        quantity="next_loss",
    ),
    _proved(
        "unregularized, isotropic teachers",
        "k^k/(2(k+1)^{k+1})",
        (*RANDOM, h.UNREGULARIZED, h.ISOTROPIC),
        "Theorem I",
        value=lambda s: (1 - 1 / (s.k + 1)) ** s.k / (2 * (s.k + 1)),
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
    return _proved(
        name=constant.name,
        rate=f"{value:g}/(k+1)",
        hypotheses=(*RANDOM, form, of_scale(float(constant.scale), str(constant.scale))),
        value=lambda s: value / (s.k + 1),
        place="Theorem 6, by computer; extends a lemma of Dereziński & Dong (COLT 2026)",
    )


# ---- the minimax schedule κ_t = η(k+1−t)/(k+1): λ_t = R²t/(k+1−t) at η = 1 ----

MINIMAX = [
    _proved(
        name,
        "1/(2η(k+1))",
        (*order, h.MINIMAX),
        "Theorem X",
        value=lambda s: 1 / (2 * s.eta * (s.k + 1)),
        quantity=quantity,
    )
    for name, quantity, order in (
        ("minimax", "average_loss", RANDOM),
        ("minimax, next task", "next_loss", SHUFFLED),
    )
]

# ---- lower bounds: some collection has at least this loss ----

LOWER = [
    # The same tasks from w₀ = 0: filters never guess, and the probability is (1 − 1/k)^k.
    _lower(
        "any filter",
        "(1 − 1/k)^k/(2k) ≥ 1/(8k)",
        (h.UNIFORM, steps(2)),
        f"{ANY_ALGORITHM}, on its construction",
        value=lambda s: unseen_task_loss(s.k, s.k),
    ),
    # k + 1 tasks and a random sign.
    _lower(
        "any algorithm, one task more",
        "k^k/(2(k+1)^{k+1}) ≥ 1/(2e(k+1))",
        (h.UNIFORM,),
        f"{ANY_ALGORITHM}, with k + 1 tasks and the exact probability",
        value=lambda s: unseen_task_loss(s.k, s.k + 1),
    ),
    # k + 1 orthonormal rows, each once: the last was never seen. “minimax, next task” attains it.
    _lower(
        "any algorithm, next task",
        "1/(2(k+1))",
        (h.WITHOUT, h.EXCHANGEABLE),
        "Theorem X, lower bound",
        value=lambda s: 1 / (2 * (s.k + 1)),
        quantity="next_loss",
        citation=PROOFS,
    ),
    # 2k orthonormal rows, of which half are not seen.
    _lower(
        "any algorithm, without replacement",
        "1/(8k)",
        (h.WITHOUT,),
        "Theorem S, lower bound",
        value=lambda s: 1 / (8 * s.k),
        citation=PROOFS,
    ),
    # The exact probability, and the least loss over the case split of the proof.
    _lower(
        "seen tasks, explicit, tight",
        "(1 − 1/k)^{k−1}·(1/16k)·2(k−1)/(2k−1)",
        (h.UNIFORM, h.EXPLICIT, steps(2)),
        SEEN_TASKS,
        value=lambda s: seen_task_probability(s.k) * seen_task_loss(s.k),
        quantity="seen_loss",
    ),
    # Rank-one tasks in a chain of levels: ``constructions.jump_chain_limit()`` computes the number,
    # and whole dimensions reach .20 to .21 at practical k.
    _lower(
        "unregularized, jump chains",
        "0.2257/k as k → ∞",
        (h.UNIFORM, h.UNREGULARIZED),
        "Proposition J, with one evaluated 8 × 8 exponential",
        citation="docs/unregularized.md",
    ),
]

DERIVED = [*ONE_FILTER, *map(_every_k, constants), *MINIMAX, *LOWER]
