"""Bounds that are computed from the filters of a schedule, or from the labels, instead of a formula
in k.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from forgetless.guarantees import exchangeable
from forgetless.guarantees._steps import failure_at, in_units, overshooting, steps_of
from forgetless.guarantees.oracle import RightSide, next_probabilities
from forgetless.guarantees.upper import independent_draws
from forgetless.theory.bounds import Bound, with_contradiction
from forgetless.theory.exchangeable_hypotheses import EXCHANGEABLE, MINIMAX
from forgetless.theory.hypotheses import INDEPENDENT, REALIZABLE, UNIFORM, WITHOUT, Setting

_MAX_STEPS = 10_000
"""Larger k take more than some seconds, and ``compare_bounds`` leaves the bound out."""


@dataclass(frozen=True)
class _ScheduleBound(Bound):
    """An upper bound that is computed from the filters of a schedule instead of a formula in k."""

    max_steps: int = _MAX_STEPS

    @property
    def constant_known(self) -> bool:
        return True

    def evaluate(self, k: int, radius: float, distance: float, **extras: float) -> float:
        raise TypeError(
            f"the bound {self.name!r} depends on the schedule; use fl.upper_bound(schedule, k)"
        )

    def failures(self, setting: Setting) -> list[str]:
        reasons = super().failures(setting)
        if setting.k > self.max_steps:
            reasons.append(
                f"not computed here for more than {self.max_steps:,} steps; ask"
                " fl.upper_bound(schedule, k) for it"
            )
        if not reasons and setting.radius > 0:
            failure = self._failure_of_filter(setting)
            reasons += [] if failure is None else [failure]
        return reasons

    def _failure_of_filter(self, setting: Setting) -> str | None:
        """Return why the bound does not hold for the filter; None if it does."""
        filter_ = in_units(setting.filter, setting.radius)
        if overshooting(filter_, setting.k) is not None:
            return None
        try:
            steps = steps_of(filter_, setting.k)
        except ValueError as error:
            return str(error)
        if not steps.assumes:
            return None
        eigenvalues = (setting.tasks.singular_values / setting.radius) ** 2
        return failure_at(filter_, setting.k, eigenvalues)

    def value(self, setting: Setting) -> float:
        R = setting.radius
        if R == 0:
            return 0.0
        unit = independent_draws(in_units(setting.filter, R), setting.k, self.quantity)[0]
        if self.quantity == "average_loss":
            unit *= _importance(setting)
        return with_contradiction(unit, setting)


def _importance(setting: Setting) -> float:
    """Return max 1/(M p_m): the average loss is a plain mean, and tasks are drawn with
    probabilities p.
    """
    p = setting.probabilities
    assert p is not None
    with np.errstate(divide="ignore"):
        return float(np.max(1 / (len(p) * p)))


@dataclass(frozen=True)
class _ExchangeableBound(_ScheduleBound):
    """A computed upper bound for tasks in exchangeable order."""

    def _failure_of_filter(self, setting: Setting) -> str | None:
        try:
            exchangeable.factors_at_radius(in_units(setting.filter, setting.radius), setting.k)
        except ValueError as error:
            return str(error)
        return None

    def value(self, setting: Setting) -> float:
        R = setting.radius
        if R == 0:
            return 0.0
        filter_ = in_units(setting.filter, R)
        unit = exchangeable.bound(filter_, setting.k, self.quantity, setting.tasks.n_tasks)
        return with_contradiction(unit, setting)


@dataclass(frozen=True)
class _OracleEntry(_ScheduleBound):
    """The bound of Theorem N, computed from the tasks and their labels."""

    def failures(self, setting: Setting) -> list[str]:
        reasons = Bound.failures(self, setting)
        if not reasons and setting.eta == 1:
            reasons.append(
                "η is 1, for tasks that one model fits; use schedules.minimax(eta=…) with η below 1"
            )
        return reasons

    def value(self, setting: Setting) -> float:
        assert setting.eta is not None
        p = next_probabilities(setting.tasks, setting.ordering, setting.k)
        return RightSide(setting.tasks, setting.filter, setting.k, setting.eta, p).value


_OPTIMAL = "docs/optimal-schedule.md, Theorem"
_SHARED: dict[str, Any] = {"kind": "upper", "rate": "computed", "min_k": 1, "status": "derived"}
_ANY: dict[str, Any] = {
    "ordering": "with replacement, any probabilities",
    "scheme": "explicit, budget or any concave filter",
    "regularization": "any, λ > 0 where it varies",
    "hypotheses": (REALIZABLE, INDEPENDENT),
}
_RISING: dict[str, Any] = {"scheme": "explicit or budget", "regularization": "any that never falls"}
_WITHOUT: dict[str, Any] = {
    "ordering": "without replacement",
    "hypotheses": (REALIZABLE, WITHOUT),
    "max_steps": 1000,
}
_NOISY: dict[str, Any] = {
    "scheme": "explicit or budget",
    "regularization": "φ_t(R²) = η(k+1−t)/(k+1), η < 1 for noisy labels",
}
_UPPER = "docs/upper-bounds.md, {}; computed by fl.upper_bound"

COMPUTED = (
    _ScheduleBound(
        "computed",
        quantity="average_loss",
        citation=_UPPER.format("Theorems 1 to 4, or docs/unregularized.md, Theorem F"),
        **_SHARED,
        **_ANY,
    ),
    _ScheduleBound(
        "computed, seen tasks",
        quantity="seen_loss",
        citation=_UPPER.format("Theorem 5, or docs/unregularized.md, Theorem F"),
        **_SHARED,
        **_ANY,
    ),
    _ExchangeableBound(
        "computed, next task",
        quantity="next_loss",
        citation=f"{_OPTIMAL} R; by fl.upper_bound",
        ordering="exchangeable: with or without replacement",
        hypotheses=(REALIZABLE, EXCHANGEABLE),
        **_SHARED,
        **_RISING,
    ),
    _ExchangeableBound(
        "computed, without replacement",
        quantity="average_loss",
        citation=f"{_OPTIMAL} S; by fl.upper_bound",
        **_SHARED,
        **_RISING,
        **_WITHOUT,
    ),
    _ExchangeableBound(
        "computed, seen tasks, without replacement",
        quantity="seen_loss",
        citation=f"{_OPTIMAL} S; by fl.upper_bound",
        **_SHARED,
        **_RISING,
        **_WITHOUT,
    ),
    _OracleEntry(
        "oracle, next task",
        quantity="next_loss",
        citation=f"{_OPTIMAL} N; by fl.oracle_bound",
        ordering="exchangeable: with or without replacement",
        hypotheses=(EXCHANGEABLE, MINIMAX),
        **_SHARED,
        **_NOISY,
    ),
    _OracleEntry(
        "oracle",
        quantity="average_loss",
        citation=f"{_OPTIMAL} N; by fl.oracle_bound",
        ordering="uniform with replacement",
        hypotheses=(UNIFORM, MINIMAX),
        **_SHARED,
        **_NOISY,
    ),
)
"""The bounds that ``compare_bounds`` checks in addition to the catalogue."""
