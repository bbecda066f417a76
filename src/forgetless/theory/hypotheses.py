"""The hypotheses of theorems: each a condition, and a sentence where it fails.

A hypothesis asks what the proof uses, on the tasks at hand. So filters are compared at the
eigenvalues ξ of the given tasks, where the answer is exact, and not on a grid of [0, R²].
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from forgetless.filters import GradientDescent, Projection, Ridge
from forgetless.orderings import Cyclic
from forgetless.theory.setting import CLOSE, Setting, covered, same

_UNNOTICED = 1e-3
"""Contradictions that move the weights by less than this part of D/√k change a loss of R²D²/k by
under a percent."""

_ONE = 1 - 1e-12
"""From here on φ(R²) counts as 1: a step size of 1/R² is rounded, and both bounds agree there."""


class Failure(NamedTuple):
    """A hypothesis that a setting does not have, by its text, and the sentence that says why."""

    hypothesis: str
    reason: str


@dataclass(frozen=True)
class Hypothesis:
    """One condition of a theorem.

    Attributes
    ----------
    text : str
        What it asks for.
    holds : function of a Setting
    otherwise : str or function of a Setting
        The sentence where it does not hold.
    least : int
        The smallest k that it allows.
    """

    text: str
    holds: Callable[[Setting], bool] = field(repr=False)
    otherwise: str | Callable[[Setting], str] = field(repr=False)
    least: int = 1

    def failure(self, setting: Setting) -> Failure | None:
        """Return None where it holds."""
        if self.holds(setting):
            return None
        if isinstance(self.otherwise, str):
            return Failure(self.text, self.otherwise)
        return Failure(self.text, self.otherwise(setting))


# ---- tasks and their order ----


def _contradicts(s: Setting) -> str:
    if s.tasks.is_realizable():
        return (
            f"the tasks contradict each other by a part of the distance D = {s.distance:.3g} to"
            " their joint solution"
        )
    return "no model fits all tasks (see tasks.residual)"


REALIZABLE = Hypothesis(
    "one model fits all tasks, as seen from the start",
    lambda s: s.contradiction <= _UNNOTICED / math.sqrt(s.k),
    _contradicts,
)
UNIFORM = Hypothesis(
    "tasks are drawn uniformly with replacement",
    lambda s: s.probabilities is not None and same(s.probabilities),
    "tasks are not drawn uniformly with replacement",
)
INDEPENDENT = Hypothesis(
    "tasks are drawn independently, with replacement",
    lambda s: s.ordering.stationary,
    "tasks are not drawn independently, with replacement",
)
WITHOUT = Hypothesis(
    "tasks are drawn uniformly without replacement",
    lambda s: s.shuffled and s.k <= s.tasks.n_tasks,  # within one epoch
    "tasks are not drawn without replacement",
)
EXCHANGEABLE = Hypothesis(
    "tasks come in exchangeable order, and there is a next one",
    lambda s: s.ordering.stationary or (s.shuffled and s.k < s.tasks.n_tasks),
    "tasks do not come in exchangeable order with one more to come: with replacement, or k < M"
    " without",
)
CYCLIC = Hypothesis(
    "tasks come in a cycle",
    lambda s: isinstance(s.ordering, Cyclic),
    "tasks do not come in a cycle",
)


def steps(least: int) -> Hypothesis:
    """Return the hypothesis that k is at least so large."""
    return Hypothesis(
        f"k ≥ {least}", lambda s: s.k >= least, lambda s: f"k is {s.k}, below {least}", least
    )


# ---- a filter that is the same at every step ----


def _fixed(s: Setting) -> bool:
    low, high = s.extremes
    return bool(np.all(high - low <= CLOSE * np.maximum(np.abs(low), np.abs(high))))


def _unregularized(s: Setting) -> bool:
    low, high = s.extremes
    return bool(np.all(np.abs(low - 1) <= 1e-14) and np.all(np.abs(high - 1) <= 1e-14))


def _between(s: Setting) -> bool:
    for factors, kappas in s.steps():
        low = kappas * s.eigenvalues * (1 - CLOSE)
        if np.any(factors < low) or np.any(factors > kappas * (1 + CLOSE)):
            return False
    return True


FIXED = Hypothesis(
    "the filter is the same at every step", _fixed, "the strength varies over the steps"
)
UNREGULARIZED = Hypothesis("no regularization", _unregularized, "the steps are regularized")
EXPLICIT = Hypothesis(
    "explicit L2",
    lambda s: isinstance(s.filter, Ridge | Projection),
    "the scheme is not explicit L2",
)
BUDGET = Hypothesis(
    "gradient steps of size below 1/R²",
    lambda s: isinstance(s.filter, GradientDescent) and covered(s.filter, s.radius),
    "the scheme is not gradient steps of size below 1/R²",
)
BETWEEN = Hypothesis(
    "κξ/R² ≤ φ(ξ) ≤ κ = φ(R²), as of every concave increasing filter",
    _between,
    "φ(ξ) leaves the range from κξ/R² to κ = φ(R²) on these tasks",
)
INSIDE = Hypothesis(
    "φ(R²) lies in (0, 1): λ > 0, or a step size below 1/R²",
    lambda s: 0 < s.kappa < _ONE,
    "φ(R²) is not fixed in (0, 1)",
)
BEYOND = Hypothesis(
    "φ(R²) lies in [1, 2): no regularization, or a step size of 1/R² and more",
    lambda s: _ONE <= s.kappa < 2,
    "φ(R²) is not fixed in [1, 2)",
)
BELOW_TWO = Hypothesis(
    "φ(R²) lies in (0, 2)", lambda s: 0 < s.kappa < 2, "φ(R²) is not fixed in (0, 2)"
)


def _not_inverse_log(s: Setting) -> str:
    value = "not fixed" if math.isnan(s.kappa) else f"{s.kappa:.6g}"
    expected = 1 / math.log(s.k) if s.k > 1 else math.inf
    return f"φ(R²) is {value}, not 1/ln k = {expected:.6g}"


INVERSE_LOG = Hypothesis(
    "φ(R²) = 1/ln k, as both fixed presets make it",
    lambda s: s.k >= 3 and abs(s.kappa * math.log(s.k) - 1) <= CLOSE,
    _not_inverse_log,
)


def _cai(s: Setting) -> float:
    """Return 2M√ln(k/M), NaN up to one cycle."""
    M = s.tasks.n_tasks
    return 2 * M * math.sqrt(math.log(s.k / M)) if s.k > M else math.nan


CAI = Hypothesis(
    "λ = 2MR²√ln(k/M) and k > M",
    lambda s: bool(np.all(np.abs(s.strengths / _cai(s) - 1) <= CLOSE)),
    lambda s: (
        f"the coefficient is not 2MR²√ln(k/M) = {_cai(s) * s.radius**2:.6g}"
        if s.k > s.tasks.n_tasks
        else f"k is {s.k}, not above the number of tasks, {s.tasks.n_tasks}"
    ),
)


# ---- schedules ----


def _not_of_scale(s: Setting, expected: str) -> str:
    if math.isnan(s.scale):
        return "the strengths do not increase as (k+1)/(k−t+2)"
    return f"the scale of the schedule is {s.scale:.6g}, {expected}"


def of_scale(c: float, name: str) -> Hypothesis:
    """Return the hypothesis that the strengths are those of the increasing schedule of scale c."""
    return Hypothesis(
        f"the strengths are 1/η_t = ({name})R²(k+1)/(k−t+2)",
        lambda s: abs(s.scale / c - 1) <= CLOSE,
        lambda s: _not_of_scale(s, f"not {name}"),
    )


def _falling(s: Setting) -> bool:
    """Return whether ψ_t = φ_t/φ_t(R²) falls in t within [ξ/R², 1] at the eigenvalues."""
    before = np.full((1, len(s.eigenvalues)), 1 + CLOSE)
    for factors, kappas in s.steps():
        rows = np.concatenate([before, factors / kappas])
        rises = np.any(np.diff(rows, axis=0) > CLOSE * rows[:-1])
        if rises or np.any(rows < s.eigenvalues * (1 - CLOSE)):
            return False
        before = rows[-1:]
    return True


THEOREM = of_scale(13 / 3, "13/3")
AT_LEAST = Hypothesis(
    "the strengths are 1/η_t = c·R²(k+1)/(k−t+2) with c ≥ 13/3",
    lambda s: s.scale >= 13 / 3 * (1 - CLOSE),
    lambda s: _not_of_scale(s, "below 13/3"),
)
FIRST_FREE = Hypothesis(
    "the first task is solved exactly, the others as in the theorem",
    lambda s: s.strengths[0] == 0 and abs(s.scale_from(1) * 3 / 13 - 1) <= CLOSE,
    "the first step is regularized, or the later ones are not those of the theorem",
)
ONE_STEP = Hypothesis(
    "one gradient step a task",
    lambda s: (
        isinstance(s.filter, GradientDescent) and bool(np.all(np.asarray(s.filter.n_steps) == 1))
    ),
    "tasks do not take one gradient step each",
)
MINIMAX = Hypothesis(
    "φ_t(R²) = η(k+1−t)/(k+1) with η in (0, 1], strengths rising",
    lambda s: not math.isnan(s.eta) and _falling(s),
    lambda s: (
        "φ_t(R²) is not η(k+1−t)/(k+1)"
        if math.isnan(s.eta)
        else "the strengths fall at some step, or a filter is not concave"
    ),
)

# ---- what a setting never has ----

ISOTROPIC = Hypothesis(
    "the teacher is random with covariance (D²/d)I",
    lambda _: False,
    "it is a mean over random teachers, and these tasks have one",
)
MEAN_ITERATE = Hypothesis(
    "the iterate is the mean of w_0..w_k",
    lambda _: False,
    "it is about the mean of all iterates, and this is the last one",
)
