"""The catalogue of bounds: the published ones, and those that were derived in this project.

One paragraph is one result that is not published, with the page of its proof. Most have a formula
in k. The last ones are computed, from all strengths of a schedule or from the labels:
``fl.upper_bound`` and ``fl.oracle_bound`` have the same numbers without tasks, or with all options.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from forgetless.filters import Filter
from forgetless.theory import hypotheses as h
from forgetless.theory import recursions
from forgetless.theory.constructions import (
    seen_task_loss,
    seen_task_probability,
    unseen_task_loss,
)
from forgetless.theory.hypotheses import Hypothesis, Setting, of_scale, steps
from forgetless.theory.oracle import next_probabilities, right_side
from forgetless.theory.published import ANY_ALGORITHM, FREE, PUBLISHED, RANDOM, SEEN_TASKS, SHUFFLED
from forgetless.theory.records import Bound, Catalogue
from forgetless.theory.recursions import every_k
from forgetless.theory.steps import factors_at_radius, in_units, steps_of
from forgetless.theory.upper import independent_draws

__all__ = ["catalogue"]

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
    _proved(
        "unregularized, seen tasks",
        "2/(3(k−1)) + 1/k",
        (*FREE, steps(2)),
        "Corollary S",
        value=lambda s: 2 / (3 * (s.k - 1)) + 1 / s.k,
        quantity="seen_loss",
    ),
    # A fixed λ that does not depend on k has O(1/k), too.
    _proved(
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


constants = tuple(
    Constant(name, scheme, Fraction(scale), Fraction(value))
    for name, scheme, scale, value in (
        ("increasing, every k", "explicit", "13/3", "1.04"),
        ("increasing, one gradient step, every k", "one step", "13/3", "0.91"),
        ("increasing, scale 1, every k", "explicit", "1", "0.45"),
        ("increasing, scale 1/2, every k", "explicit", "1/2", "0.39"),
        ("increasing, scale 1, one gradient step, every k", "one step", "1", "0.39"),
    )
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
        citation=PROOFS,
    ),
]

DERIVED = [*ONE_FILTER, *map(_every_k, constants), *MINIMAX, *LOWER]


# ---- computed from all strengths of a schedule, or from the labels ----


_MOST = 10_000
_MOST_WITHOUT = 1000
"""Larger k take more than some seconds, and ``compare_bounds`` leaves the bound out."""


def _at_most(k: int) -> Hypothesis:
    return Hypothesis(f"k ≤ {k:,}; ask fl.upper_bound for more", lambda s: s.k <= k)


def _accepted(text: str, look: Callable[[Filter, int], Any]) -> Hypothesis:
    """Return the hypothesis that ``look``, which begins a theorem, does not refuse the schedule."""

    def refusal(s: Setting) -> str:
        if s.k > _MOST:
            return ""
        try:
            look(in_units(s.filter, s.radius), s.k)
        except ValueError as error:
            return str(error)
        return ""

    return Hypothesis(text, lambda s: not refusal(s), refusal)


CONCAVE_STEPS = _accepted(
    "concave filters with φ_t(R²) ≤ 1, or one gradient step below 2/R²", steps_of
)
RISING_STEPS = _accepted("filters with φ_t(R²) ≤ 1 whose strength never falls", factors_at_radius)
NOISE_ALLOWED = Hypothesis(
    "η is below 1, as of schedules.minimax(eta=…); 1 is for tasks that one model fits",
    lambda s: s.eta != 1,
)


def _independent(s: Setting, quantity: str) -> float:
    unit = independent_draws(in_units(s.filter, s.radius), s.k, quantity)[0]
    if quantity == "seen_loss":
        return unit
    # The average loss is a plain mean, while tasks are drawn by p.
    with np.errstate(divide="ignore"):
        return unit * float(np.max(1 / (s.tasks.n_tasks * s.probabilities)))


def _shuffled(s: Setting, quantity: str) -> float:
    return recursions.bound(in_units(s.filter, s.radius), s.k, quantity, s.tasks.n_tasks)


def _oracle(s: Setting) -> float:
    if math.isnan(s.eta):
        return math.nan
    p = next_probabilities(s.tasks, s.ordering, s.k)
    return right_side(s.tasks, s.filter, s.k, s.eta, p).value


_computed = partial(Bound, rate="computed", status="derived", citation=PROOFS)
_WITH = (h.REALIZABLE, h.INDEPENDENT, CONCAVE_STEPS, h.BETWEEN, _at_most(_MOST))
_SHUFFLED = (h.REALIZABLE, h.EXCHANGEABLE, RISING_STEPS, h.BETWEEN, _at_most(_MOST))
_WITHOUT = (h.REALIZABLE, h.WITHOUT, RISING_STEPS, h.BETWEEN, _at_most(_MOST_WITHOUT))

COMPUTED = [
    _computed(
        "computed",
        hypotheses=_WITH,
        value=lambda s: _independent(s, "average_loss"),
        place="Theorems 1 to 4, or Theorem F; by fl.upper_bound",
    ),
    _computed(
        "computed, seen tasks",
        hypotheses=_WITH,
        value=lambda s: _independent(s, "seen_loss"),
        quantity="seen_loss",
        place="Theorem 5, or Corollary S; by fl.upper_bound",
    ),
    _computed(
        "computed, next task",
        hypotheses=_SHUFFLED,
        value=lambda s: _shuffled(s, "next_loss"),
        quantity="next_loss",
        place="Theorem R; by fl.upper_bound",
    ),
    _computed(
        "computed, without replacement",
        hypotheses=_WITHOUT,
        value=lambda s: _shuffled(s, "average_loss"),
        place="Theorem S; by fl.upper_bound",
    ),
    _computed(
        "computed, seen tasks, without replacement",
        hypotheses=_WITHOUT,
        value=lambda s: _shuffled(s, "seen_loss"),
        quantity="seen_loss",
        place="Theorem S; by fl.upper_bound",
    ),
    # Noisy labels: the loss is compared with that of every fixed w.
    _computed(
        "oracle, next task",
        hypotheses=(h.EXCHANGEABLE, h.MINIMAX, NOISE_ALLOWED),
        value=_oracle,
        quantity="next_loss",
        absolute=True,
        place="Theorem N; by fl.oracle_bound",
    ),
    _computed(
        "oracle",
        hypotheses=(h.UNIFORM, h.MINIMAX, NOISE_ALLOWED),
        value=_oracle,
        absolute=True,
        place="Theorem N; by fl.oracle_bound",
    ),
]

catalogue = Catalogue((*PUBLISHED, *DERIVED, *COMPUTED))
"""All of them, in this order."""
