"""The catalogue of bounds: published ones, those derived here, and those that are computed.

What is computed depends on all strengths of a schedule, or on the labels: ``fl.upper_bound`` and
``fl.oracle_bound`` have the same numbers without tasks, or with all options.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from forgetless.filters import Filter
from forgetless.theory import exchangeable
from forgetless.theory import hypotheses as h
from forgetless.theory.bound import Bound, Catalogue
from forgetless.theory.derived import DERIVED, PROOFS
from forgetless.theory.hypotheses import Hypothesis, Setting
from forgetless.theory.oracle import next_probabilities, right_side
from forgetless.theory.published import PUBLISHED
from forgetless.theory.steps import in_units, steps_of
from forgetless.theory.upper import independent_draws

__all__ = ["catalogue"]

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
RISING_STEPS = _accepted(
    "filters with φ_t(R²) ≤ 1 whose strength never falls", exchangeable.factors_at_radius
)
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
    return exchangeable.bound(in_units(s.filter, s.radius), s.k, quantity, s.tasks.n_tasks)


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
        place="Theorems 1 to 4, or Theorem F of docs/unregularized.md; by fl.upper_bound",
    ),
    _computed(
        "computed, seen tasks",
        hypotheses=_WITH,
        value=lambda s: _independent(s, "seen_loss"),
        quantity="seen_loss",
        place="Theorem 5, or Corollary S of docs/unregularized.md; by fl.upper_bound",
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
