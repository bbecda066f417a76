"""The hypotheses of theorems, each a condition on a setting.

A hypothesis asks what the proof uses, on the tasks at hand. So filters are compared at the
eigenvalues ξ of the given tasks, where the answer is exact, and not on a grid of [0, R²].

Schedules are recognized by their numbers, whatever made them. The theorem's strengths are
λ_t = cR²(k+1)/(k−t+2), so λ_t/R² times (k−t+2)/(k+1) is the same c at every step. The minimax ones
have φ_t(R²) = η(k+1−t)/(k+1), so φ_t(R²)(k+1)/(k+1−t) is the same η. Such a number is NaN where the
schedule has another form, and every comparison with NaN is false.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from forgetless._validate import Floats
from forgetless.filters import Filter, GradientDescent, Projection, Ridge
from forgetless.orderings import Cyclic, Ordering, WithoutReplacement
from forgetless.tasks import TaskCollection
from forgetless.theory.steps import in_units

CLOSE = 1e-9
"""Relative difference within which a schedule counts as that of a theorem."""

_UNNOTICED = 1e-3
"""Contradictions that move the weights by less than this part of D/√k change a loss of R²D²/k by
under a percent."""

_ONE = 1 - 1e-12
"""From here on φ(R²) counts as 1: a step size of 1/R² is rounded, and both bounds agree there."""

_AT_ONCE = 2**20  # no mutant: only the memory differs
"""Filter factors in memory at once."""


@dataclass(frozen=True, eq=False)
class Setting:
    """What every hypothesis, and every value of a bound, is a function of: tasks, the filter of a
    schedule for k steps, and an order of the tasks.
    """

    tasks: TaskCollection
    filter: Filter  # the schedule for k steps
    k: int
    ordering: Ordering
    teacher: Any  # w⋆, the joint solution nearest to the origin, where learning begins
    distance: float  # D = ‖w⋆‖

    @property
    def radius(self) -> float:
        """R."""
        return self.tasks.radius

    @property
    def probabilities(self) -> Any:
        """The probabilities of the tasks, for independent draws; else None."""
        if not self.ordering.stationary:
            return None
        # Of a stationary law every step has the same probabilities, whatever was seen before.
        return self.ordering.following(self.tasks.n_tasks, 0, np.empty(self.tasks.n_tasks))

    @property
    def shuffled(self) -> bool:
        """Whether tasks come in uniformly random orders of all of them."""
        return isinstance(self.ordering, WithoutReplacement)

    @cached_property
    def eigenvalues(self) -> Floats:
        """The different nonzero eigenvalues ξ of all XᵀX, over R²."""
        return np.asarray(np.unique(self.tasks.singular_values / (self.radius or 1.0)) ** 2)

    def steps(self) -> Iterator[tuple[Floats, Floats]]:
        """Yield φ_t(ξ) at the eigenvalues, of shape (steps, n), and κ_t, of shape (steps, 1)."""
        n_steps = 1 if self.filter.horizon is None else self.k
        return factors_of(self.filter, n_steps, self.eigenvalues * self.radius**2, self.radius)

    @cached_property
    def extremes(self) -> tuple[Floats, Floats]:
        """The smallest and the largest φ over all steps, at every eigenvalue."""
        ends = [(factors.min(axis=0), factors.max(axis=0)) for factors, _ in self.steps()]
        low, high = zip(*ends, strict=True)
        return np.min(low, axis=0), np.max(high, axis=0)

    @cached_property
    def kappas(self) -> Floats:
        """κ_t = φ_t(R²), of shape (k,)."""
        return np.broadcast_to(self.filter.table(self.radius**2), (self.k,))

    @property
    def kappa(self) -> float:
        """φ(R²) if it is the same at every step, else NaN."""
        return common(self.kappas)

    @cached_property
    def strengths(self) -> Floats:
        """1/(η_tR²): λ_t/R² or 1/(N_tγ_tR²), of shape (k,); NaN where no theorem covers them."""
        values: Any = math.nan
        if self.radius > 0 and covered(self.filter, self.radius):
            # First in units of R², where no step size is too small for a derivative.
            values = in_units(self.filter, self.radius).strength()
        return np.broadcast_to(values, (self.k,))

    def scale_from(self, first: int) -> float:
        """Return c if the strengths from step first + 1 on are c(k+1)/(k−t+2), else NaN."""
        # (k−t+2)/(k+1) for t = 1..k: times it, the theorem's strengths are c at every step.
        decay = np.arange(self.k + 1, 1, -1) / (self.k + 1)
        return common((self.strengths * decay)[first:])

    @property
    def scale(self) -> float:
        """The factor c if the schedule is the theorem's with η = 1/(cR²), else NaN."""
        return self.scale_from(0)

    @cached_property
    def eta(self) -> float:
        """η if κ_t = η(k+1−t)/(k+1) at every step, as of ``schedules.minimax``, else NaN."""
        eta = common(self.kappas * (self.k + 1) / np.arange(self.k, 0, -1))
        # Bounds are singular at η = 1, which rounding must not miss.
        if close(eta, 1):
            return 1.0
        return eta if 0 < eta < 1 else math.nan

    @cached_property
    def contradiction(self) -> float:
        """Bound on the distance, relative to D, that contradictory tasks move the weights in k
        steps, or are missed.
        """
        tasks = self.tasks
        R = self.radius or 1.0
        # What the teacher misses along each singular vector of each task.
        missing = np.linalg.norm(tasks.missing(self.teacher), axis=1)
        # A step moves the weights by φ of it, and k steps by k times as much at most.
        largest = self.extremes[1][np.unique(tasks.singular_values, return_inverse=True)[1]]
        moves = tasks.by_task((np.abs(largest) * missing) ** 2)
        # The root of twice the loss of the teacher, over R.
        missed = tasks.by_task((tasks.singular_values / R * missing) ** 2)
        missed = missed + 2 * tasks.floors / R / R
        worst = max(self.k * math.sqrt(moves.max()), math.sqrt(missed.max()))
        if worst == 0:
            return 0.0
        return worst / self.distance if self.distance > 0 else math.inf


def factors_of(
    filter_: Filter, k: int, squares: Floats, radius: float
) -> Iterator[tuple[Floats, Floats]]:
    """Yield φ_t(s²) of some steps, of shape (steps, n), and κ_t = φ_t(R²), of shape (steps, 1)."""
    # no mutant: only the memory differs
    length = max(1, _AT_ONCE // max(1, len(squares)))
    for first in range(0, k, length):
        part = filter_[first : min(first + length, k)]
        yield part.table(squares), part.table(radius**2)[:, None]


def close(values: Any, wanted: Any) -> bool:
    """Return whether numbers agree up to rounding; False with a NaN among them."""
    return np.allclose(values, wanted, rtol=CLOSE, atol=0)


def common(values: Floats) -> float:
    """Return the number that all values are up to rounding; NaN if there is none."""
    return float(values[0]) if len(values) and close(values, values[:1]) else math.nan


def covered(filter_: Filter, radius: float) -> bool:
    """Return whether the paper's theorems are about this filter: not about those of users.

    A step size of 1/R², which may have been rounded upwards, is covered: where a theorem needs less
    than that, the filter has no κ or no strength of the theorem.
    """
    if not isinstance(filter_, GradientDescent):
        return isinstance(filter_, Ridge | Projection)
    return bool(np.all(np.asarray(filter_.step_size) * radius**2 <= 1 + CLOSE))


class Failure(NamedTuple):
    """A hypothesis that a setting does not have, by its text, and a sentence about it."""

    hypothesis: str
    reason: str


@dataclass(frozen=True)
class Hypothesis:
    """One condition of a theorem.

    Attributes
    ----------
    text : str
        What it asks for, as a clause.
    holds : function of a Setting
    otherwise : function of a Setting, optional
        The sentence where it does not hold; by default that the bound holds only if it does.
    least : int
        The smallest k that it allows.
    """

    text: str
    holds: Callable[[Setting], bool] = field(repr=False)
    otherwise: Callable[[Setting], str] | None = field(default=None, repr=False)
    least: int = 1

    def failure(self, setting: Setting) -> Failure | None:
        """Return None where it holds."""
        if self.holds(setting):
            return None
        reason = f"holds only if {self.text}"
        if self.otherwise is not None:
            reason = self.otherwise(setting)
        return Failure(self.text, reason)


# ---- tasks and their order ----


REALIZABLE = Hypothesis(
    "one model fits all tasks, as seen from the start",
    lambda s: s.contradiction <= _UNNOTICED / math.sqrt(s.k),
    lambda s: (
        f"no model fits all tasks: they contradict each other by a part of the distance"
        f" D = {s.distance:.3g} to their solution that counts after k steps (see tasks.residual)"
    ),
)
UNIFORM = Hypothesis(
    "tasks are drawn uniformly with replacement",
    lambda s: s.probabilities is not None and close(s.probabilities, s.probabilities[0]),
)
INDEPENDENT = Hypothesis(
    "tasks are drawn independently, with replacement", lambda s: s.ordering.stationary
)
WITHOUT = Hypothesis(
    "tasks are drawn uniformly without replacement, none of them twice",
    lambda s: s.shuffled and s.k <= s.tasks.n_tasks,
)
EXCHANGEABLE = Hypothesis(
    "tasks come in exchangeable order with one more to come: with replacement, or without and"
    " k < M",
    lambda s: s.ordering.stationary or (s.shuffled and s.k < s.tasks.n_tasks),
)
CYCLIC = Hypothesis("tasks come in a cycle", lambda s: isinstance(s.ordering, Cyclic))


def steps(least: int) -> Hypothesis:
    """Return the hypothesis that k is at least so large."""
    return Hypothesis(f"k ≥ {least}", lambda s: s.k >= least, least=least)


# ---- a filter that is the same at every step ----


def _fixed(s: Setting) -> bool:
    # No step differs at any eigenvalue: the least and the largest φ agree up to rounding.
    low, high = s.extremes
    return close(low, high)


def _between(s: Setting) -> bool:
    # A concave φ with φ(0) = 0 lies above its chord, κξ/R², and an increasing one below κ.
    for factors, kappas in s.steps():
        low = kappas * s.eigenvalues * (1 - CLOSE)
        if np.any(factors < low) or np.any(factors > kappas * (1 + CLOSE)):
            return False
    return True


FIXED = Hypothesis("the filter is the same at every step", _fixed)
UNREGULARIZED = Hypothesis(
    "there is no regularization", lambda s: bool(np.all(np.abs(np.stack(s.extremes) - 1) <= 1e-14))
)
EXPLICIT = Hypothesis(
    "the scheme is explicit L2", lambda s: isinstance(s.filter, Ridge | Projection)
)
BUDGET = Hypothesis(
    "the scheme is gradient steps of size at most 1/R²",
    lambda s: isinstance(s.filter, GradientDescent) and covered(s.filter, s.radius),
)
BETWEEN = Hypothesis(
    "κξ/R² ≤ φ(ξ) ≤ κ = φ(R²) on these tasks, as of every concave increasing filter", _between
)
INSIDE = Hypothesis(
    "φ(R²) is fixed in (0, 1): λ > 0, or a step size below 1/R²", lambda s: 0 < s.kappa < _ONE
)
BEYOND = Hypothesis(
    "φ(R²) is fixed in [1, 2): no regularization, or a step size of 1/R² and more",
    lambda s: _ONE <= s.kappa < 2,
)
BELOW_TWO = Hypothesis("φ(R²) is fixed in (0, 2)", lambda s: 0 < s.kappa < 2)
INVERSE_LOG = Hypothesis(
    "φ(R²) = 1/ln k, as both fixed presets make it",
    lambda s: close(s.kappa * math.log(s.k), 1),
)


def _cai(s: Setting) -> bool:
    # The logarithm is positive from k = M + 1 on.
    M = s.tasks.n_tasks
    if s.k <= M:
        return False
    theirs = 2 * M * math.sqrt(math.log(s.k / M))
    return close(s.strengths, theirs)


CAI = Hypothesis("λ = 2MR²√ln(k/M) and k > M", _cai)


# ---- schedules ----


def of_scale(c: float, name: str) -> Hypothesis:
    """Return the hypothesis that the strengths are those of the increasing schedule of scale c."""
    return Hypothesis(
        f"the strengths are 1/η_t = ({name})R²(k+1)/(k−t+2)",
        lambda s: close(s.scale, c),
    )


def _falling(s: Setting) -> bool:
    """Return whether ψ_t = φ_t/φ_t(R²) falls in t within [ξ/R², 1] at the eigenvalues."""
    before = np.full_like(s.eigenvalues, 1 + CLOSE)[None]
    for factors, kappas in s.steps():
        # The last row of the block before joins those of this one, of which none may rise.
        rows = np.concatenate([before, factors / kappas])
        rises = np.any(np.diff(rows, axis=0) > CLOSE * rows[:-1])
        if rises or np.any(rows < s.eigenvalues * (1 - CLOSE)):
            return False
        before = rows[-1:]  # no mutant: rows before the last one change nothing
    return True


THEOREM = of_scale(13 / 3, "13/3")
AT_LEAST = Hypothesis(
    "the strengths are 1/η_t = c·R²(k+1)/(k−t+2) with c ≥ 13/3",
    lambda s: s.scale >= 13 / 3 * (1 - CLOSE),
)
FIRST_FREE = Hypothesis(
    "the first task is solved exactly, the others as in the theorem",
    lambda s: s.strengths[0] == 0 and close(s.scale_from(1), 13 / 3),
)
ONE_STEP = Hypothesis(
    "tasks take one gradient step each",
    lambda s: (
        isinstance(s.filter, GradientDescent) and bool(np.all(np.asarray(s.filter.n_steps) == 1))
    ),
)
MINIMAX = Hypothesis(
    "φ_t(R²) = η(k+1−t)/(k+1) with η in (0, 1], and strengths never fall",
    lambda s: not math.isnan(s.eta) and _falling(s),
)

# ---- what a setting never has ----

ISOTROPIC = Hypothesis("the teacher is random with covariance (D²/d)I", lambda _: False)
MEAN_ITERATE = Hypothesis("the iterate is the mean of w_0..w_k", lambda _: False)
