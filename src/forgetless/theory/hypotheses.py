"""Hypotheses of theorems as predicates that return the reason why they fail."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from forgetless._core.arrays import Floats
from forgetless.filters import Filter, GradientDescent, Projection, Ridge
from forgetless.orderings import Cyclic, Ordering, WithoutReplacement
from forgetless.tasks import TaskCollection
from forgetless.theory.surrogates import check_concave

_CLOSE = 1e-9  # Relative tolerance within which a schedule counts as the one of a theorem
# Contradictions that move the weights by less than this part of D/√k change a loss of R²D²/k by
# under a percent
_UNNOTICED = 1e-3
# From here on φ(R²) counts as 1: a step size of 1/R² is rounded, and the bounds on both sides agree
# there
_ONE = 1 - 1e-12
_AT_ONCE = 2**20


@dataclass(frozen=True)
class Setting:
    """The arguments of all hypotheses."""

    tasks: TaskCollection
    filter: Filter  # the schedule resolved for k steps
    k: int
    ordering: Ordering
    teacher: Any  # w⋆, the joint solution nearest to the origin, where learning begins
    distance: float  # D = ‖w⋆‖

    @property
    def probabilities(self) -> Any:
        """The probabilities of the tasks, for independent draws; else None."""
        if not self.ordering.stationary:
            return None
        return self.ordering.moves(self.tasks.n_tasks, 0).probability

    @property
    def in_epochs(self) -> bool:
        """Whether tasks come in uniformly random orders of all of them."""
        return isinstance(self.ordering, WithoutReplacement)

    @property
    def radius(self) -> float:
        """R."""
        return self.tasks.radius

    @property
    def factor(self) -> float | None:
        """φ(R²) if it is the same at every step, else None."""
        values = self.filter.table(self.radius**2)
        return float(values[0]) if np.ptp(values) <= _CLOSE * values[0] else None

    @property
    def fixed(self) -> bool:
        """Whether the filter is the same at every step."""
        low, high = self.factors
        return bool(np.all(high - low <= _CLOSE * np.maximum(np.abs(low), np.abs(high))))

    @cached_property
    def factors(self) -> tuple[Floats, Floats]:
        """The smallest and the largest φ over all steps, along every singular vector, each of shape
        (Σr,).
        """
        different, place = np.unique(self.tasks.singular_values, return_inverse=True)
        n_steps = 1 if self.filter.horizon is None else self.k
        low, high = np.full((2, len(different)), [[np.inf], [-np.inf]])
        for first in range(0, n_steps, length := max(1, _AT_ONCE // max(1, len(different)))):
            part = self.filter[first : first + length].table(different**2)
            low, high = np.minimum(low, part.min(axis=0)), np.maximum(high, part.max(axis=0))
        return low[place], high[place]

    @property
    def contradiction(self) -> float:
        """Bound on the distance, relative to D, that contradictory tasks move the weights in k
        steps, or are missed.
        """
        tasks, s, R = self.tasks, self.tasks.singular_values, self.radius or 1.0
        missing = np.linalg.norm(tasks.missing(self.teacher), axis=1)
        moves = tasks.by_task((np.abs(self.factors[1]) * missing) ** 2)
        missed = tasks.by_task((s / R * missing) ** 2) + 2 * tasks.floors / R / R
        worst = max(self.k * math.sqrt(moves.max()), math.sqrt(missed.max()))
        return worst / self.distance if self.distance > 0 else (math.inf if worst > 0 else 0.0)

    @property
    def strengths(self) -> Any:
        """The strengths 1/η_t of the steps, λ_t or 1/(N_tγ_t), of shape (k,); None where no theorem
        covers them.
        """
        return (
            np.broadcast_to(self.filter.strength(), (self.k,))
            if _covered(self.filter, self.radius)
            else None
        )

    @cached_property
    def eta(self) -> float | None:
        """η if φ_t(R²) = η(k+1−t)/(k+1) at every step, as of the minimax schedule; else None."""
        return _constant_eta(np.broadcast_to(self.filter.table(self.radius**2), (self.k,)), self.k)

    @property
    def scale(self) -> float | None:
        """The factor c if the schedule is the theorem's with η = 1/(cR²), explicit or budget; else
        None.
        """
        return None if self.strengths is None else self.scale_of(self.strengths, 0)

    @property
    def single_step_scale(self) -> float | None:
        """The factor c if every task takes one gradient step, of size (k−t+2)/((k+1)·cR²) ≤ 1/R²;
        else None.
        """
        # A step size of 1/R² may be rounded upwards.
        if not _covered(self.filter, self.radius * (1 - _CLOSE)):
            return None
        strengths = np.broadcast_to(self.filter.strength(), (self.k,))
        products = self.filter.table(self.radius**2) * strengths
        linear = np.allclose(products, self.radius**2, rtol=_CLOSE, atol=0)
        return self.scale_of(strengths, 0) if linear else None

    def scale_of(self, strengths: Any, first: int) -> float | None:
        """Return c if the strengths from step first + 1 on are c·R²(k+1)/(k−t+2), else None."""
        if self.radius == 0:
            return None
        return _increasing_scale(strengths / self.radius**2, self.k, first)


def _covered(filter_: Filter, radius: float) -> bool:
    """Return whether the paper's theorems are about this filter: not about those of users."""
    if isinstance(filter_, GradientDescent):
        return bool(np.max(filter_.step_size) * radius**2 < 1)
    return isinstance(filter_, Ridge | Projection)


def _constant_eta(factors: Any, k: int) -> float | None:
    """Return η if factors κ_1..κ_k are η(k+1−t)/(k+1) with 0 < η ≤ 1, else None."""
    etas = factors * (k + 1) / np.arange(k, 0, -1)
    eta = float(etas[0])
    if not 0 < eta <= 1 + _CLOSE or np.ptp(etas) > _CLOSE * eta:
        return None
    return eta if eta < 1 - _CLOSE else 1.0


def _increasing_scale(strengths: Any, k: int, first: int = 0) -> float | None:
    """Return c if strengths from step first + 1 on are c(k+1)/(k−t+2), else None."""
    if len(strengths) <= first:
        return None
    scales = (strengths * np.arange(k + 1, 1, -1) / (k + 1))[first:]
    return float(scales[0]) if np.ptp(scales) <= _CLOSE * max(scales[0], 1e-300) else None


@dataclass(frozen=True)
class Hypothesis:
    """One condition of a theorem: a description, and a function that returns None or the reason of
    failure.
    """

    text: str
    failure: Callable[[Setting], str | None] = field(repr=False)


def _needs(text: str, holds: Callable[[Setting], bool], otherwise: str) -> Hypothesis:
    return Hypothesis(text, lambda s: None if holds(s) else otherwise)


def _uniform(s: Setting) -> bool:
    p = s.probabilities
    return p is not None and bool(np.ptp(p) <= _CLOSE / len(p))


def _unregularized(s: Setting) -> bool:
    low, high = s.factors
    return bool(np.all(np.abs(low - 1) <= 1e-14) and np.all(np.abs(high - 1) <= 1e-14))


def _not_concave(s: Setting) -> str | None:
    try:
        check_concave(s.filter[0], s.radius)
    except ValueError as error:
        return str(error)
    return None


def _contradicts(s: Setting) -> str | None:
    if s.contradiction <= _UNNOTICED / math.sqrt(s.k):
        return None
    if s.tasks.is_realizable():
        return (
            f"the tasks contradict each other by a part of the distance D = {s.distance:.3g} to"
            " their joint solution"
        )
    return "no model fits all tasks (see tasks.residual)"


REALIZABLE = Hypothesis("one model fits all tasks, as seen from the start", _contradicts)

UNIFORM = _needs(
    "tasks are drawn uniformly with replacement",
    _uniform,
    "tasks are not drawn uniformly with replacement",
)

INDEPENDENT = _needs(
    "tasks are drawn independently, with replacement",
    lambda s: s.ordering.stationary,
    "tasks are not drawn independently, with replacement",
)

WITHOUT = _needs(
    "tasks are drawn uniformly without replacement",
    lambda s: s.in_epochs and s.k <= s.tasks.n_tasks,  # within one epoch
    "tasks are not drawn without replacement",
)

CYCLIC = _needs(
    "tasks come in a cycle",
    lambda s: isinstance(s.ordering, Cyclic),
    "tasks do not come in a cycle",
)

FIXED = _needs(
    "the strength is the same at every step",
    lambda s: s.fixed,
    "the strength varies over the steps",
)
CONCAVE = Hypothesis("the filter is concave and non-decreasing on [0, R²]", _not_concave)
UNREGULARIZED = _needs("no regularization", _unregularized, "the steps are regularized")
EXPLICIT = _needs(
    "explicit L2",
    lambda s: isinstance(s.filter, Ridge | Projection),
    "the scheme is not explicit L2",
)

IN_RANGE = _needs(
    "φ(R²) lies in (0, 1): λ > 0, or a step size below 1/R²",
    lambda s: s.factor is not None and 0 < s.factor < _ONE,
    "φ(R²) is not fixed in (0, 1)",
)

BEYOND = _needs(
    "φ(R²) lies in [1, 2): no regularization, or a step size of 1/R² and more",
    lambda s: s.factor is not None and _ONE <= s.factor < 2,
    "φ(R²) is not fixed in [1, 2)",
)

BELOW_TWO = _needs(
    "φ(R²) lies in (0, 2), the same at every step",
    lambda s: s.factor is not None and 0 < s.factor < 2,
    "φ(R²) is not fixed in (0, 2)",
)

FACTOR = Hypothesis(
    "φ(R²) = 1/ln k, as both fixed presets make it",
    lambda s: (
        None
        if s.factor is not None and s.k >= 3 and abs(s.factor * math.log(s.k) - 1) <= _CLOSE
        else (
            f"φ(R²) is {'not fixed' if s.factor is None else f'{s.factor:.6g}'}, not 1/ln k = "
            f"{1 / math.log(s.k) if s.k > 1 else math.inf:.6g}"
        )
    ),
)


def of_scale(scale: Fraction) -> Hypothesis:
    """Return the hypothesis that the strengths are those of the increasing schedule with a
    scale.
    """
    return Hypothesis(
        f"the strengths are 1/η_t = ({scale})R²(k+1)/(k−t+2)",
        lambda s: _scale_failure(s.scale, scale, "strengths"),
    )


def single_steps(scale: Fraction) -> Hypothesis:
    """Return the hypothesis that every task takes one gradient step, of the increasing schedule
    with a scale.
    """
    return Hypothesis(
        f"one gradient step per task, of size (k−t+2)/((k+1)·({scale})R²)",
        lambda s: _scale_failure(
            s.single_step_scale, scale, "inverse sizes of single gradient steps"
        ),
    )


def _scale_failure(actual: float | None, scale: Fraction, what: str) -> str | None:
    if actual is None:
        return f"the {what} do not increase as (k+1)/(k−t+2)"
    return (
        None
        if abs(actual / float(scale) - 1) <= _CLOSE
        else f"the scale of the schedule is {actual:.6g}, not {scale}"
    )


THEOREM = Fraction(13, 3)
INCREASING = of_scale(THEOREM)

AT_LEAST = Hypothesis(
    "the strengths are 1/η_t = c·R²(k+1)/(k−t+2) with c ≥ 13/3",
    lambda s: (
        None
        if (s.scale or 0.0) >= THEOREM * (1 - _CLOSE)
        else _scale_failure(s.scale, THEOREM, "strengths")
    ),
)


def _first_free(s: Setting) -> str | None:
    strengths = s.strengths
    if strengths is None or strengths[0] != 0:
        return "the first step is regularized"
    scale = s.scale_of(strengths, 1)
    if scale is None or abs(scale * 3 / 13 - 1) > _CLOSE:
        return "the later steps are not those of the theorem"
    return None


def _not_cai(s: Setting) -> str | None:
    M = s.tasks.n_tasks
    if s.k <= M:
        return f"k is {s.k}, not above the number of tasks, {M}"
    expected = 2 * M * s.radius**2 * math.sqrt(math.log(s.k / M))
    if s.strengths is None or not np.allclose(s.strengths, expected, rtol=_CLOSE, atol=0):
        return f"the coefficient is not 2MR²√ln(k/M) = {expected:.6g}"
    return None


CAI = Hypothesis("λ = 2MR²√ln(k/M) and k > M", _not_cai)
FIRST_FREE = Hypothesis(
    "the first task is solved exactly, the others as in the theorem", _first_free
)


def _odd_one(s: Setting, cosine: float, n_tasks: int) -> tuple[int, Any] | None:
    """Return the one of n_tasks rank-one tasks at an angle to all others, which agree, and ‖v_m (w₀
    − w⋆)‖/D.

    v_m is the singular vector of task m. None if the tasks are not of that kind.
    """
    singular = s.tasks.singular_values
    if s.tasks.n_tasks != n_tasks or set(s.tasks.ranks) != {1} or n_tasks < 2 or s.distance == 0:
        return None
    if np.ptp(singular) > _CLOSE * singular[0]:
        return None
    rows = s.tasks.singular_vectors
    # Two of any three tasks agree with the common singular vector; comparing all pairs would take
    # n² numbers.
    three = np.abs(rows[:3] @ rows[:3].T) if n_tasks > 2 else np.eye(2)
    seen = np.linalg.norm(rows @ s.teacher.reshape(s.tasks.n_features, -1), axis=1)
    # Of two tasks either may be the odd one: it is the one with the larger error.
    common = int(np.argmax(three.sum(axis=0))) if n_tasks > 2 else int(np.argmin(seen))
    cosines = np.abs(rows @ rows[common])
    odd = int(np.argmin(cosines))
    same = np.all(np.delete(cosines, odd) >= 1 - _CLOSE)
    return (odd, seen / s.distance) if same and abs(cosines[odd] - cosine) <= _CLOSE else None


def _unseen(more: int, argument: str) -> Hypothesis:
    def failure(s: Setting) -> str | None:
        odd = _odd_one(s, 0.0, s.k + more)
        if odd is None or odd[1][odd[0]] < 1 - _CLOSE:
            return (
                f"the tasks are not those of constructions.unseen_task({argument}) from its start"
            )
        return None

    return Hypothesis(
        f"the tasks are constructions.unseen_task({argument}), from its start", failure
    )


def _is_seen(s: Setting) -> str | None:
    result = _odd_one(s, math.sqrt(0.5), s.k)
    if result is not None:
        odd, seen = result
        if abs(seen[odd] - math.sqrt(0.5)) <= _CLOSE and np.all(np.delete(seen, odd) <= _CLOSE):
            return None
    return "the tasks are not those of constructions.seen_task(k) from its start"


UNSEEN = _unseen(0, "k")
UNSEEN_OF_MORE = _unseen(1, "k + 1")
SEEN = Hypothesis("the tasks are constructions.seen_task(k), from its start", _is_seen)
