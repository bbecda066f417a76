"""Upper certificates in the form of bounds, for comparison with the published ones."""

import math
from dataclasses import dataclass

import numpy as np

from forgetless.guarantees._steps import failure_at, in_units, steps_of
from forgetless.guarantees.upper import half_supremum
from forgetless.orderings import Draws
from forgetless.theory.bounds import Bound
from forgetless.theory.hypotheses import INDEPENDENT, REALIZABLE, Setting

_MAX_STEPS = 10_000
"""Larger k take more than some seconds, and ``certify`` leaves the certificate out."""


@dataclass(frozen=True)
class ScheduleBound(Bound):
    """A certificate, computed from the filters of a schedule instead of a formula in k."""

    @property
    def constant_known(self) -> bool:
        return True

    def evaluate(self, k: int, radius: float, distance: float, **extras: float) -> float:
        raise TypeError(f"the bound {self.name!r} depends on the schedule; use fl.upper_bound(schedule, k)")

    def failures(self, setting: Setting) -> list[str]:
        reasons = super().failures(setting)
        if setting.k > _MAX_STEPS:
            reasons.append(
                f"not computed here for more than {_MAX_STEPS:,} steps; ask fl.upper_bound(schedule, k) for it"
            )
        if not reasons and setting.radius > 0:
            filter_ = in_units(setting.filter, setting.radius)
            try:
                steps = steps_of(filter_, setting.k)
            except ValueError as error:
                return [str(error)]
            if steps.assumes:
                failure = failure_at(filter_, setting.k, (setting.tasks.singular_values / setting.radius) ** 2)
                reasons += [] if failure is None else [failure]
        return reasons

    def value(self, setting: Setting) -> float:
        R, D = setting.radius, setting.distance
        if R == 0:
            return 0.0
        unit = half_supremum(in_units(setting.filter, R), setting.k, self.quantity).per_unit
        if self.quantity == "average_loss":
            unit *= _importance(setting)
        # Tasks that contradict each other up to rounding change ‖Xw − y‖ by at most twice that part of RD (Minkowski).
        return 0.5 * (math.sqrt(2 * unit) + 2 * setting.contradiction) ** 2 * R**2 * D**2


def _importance(setting: Setting) -> float:
    """Return max 1/(M p_m): the average loss is a plain mean, and tasks are drawn with probabilities p."""
    assert isinstance(setting.law, Draws)
    with np.errstate(divide="ignore"):
        return float(np.max(1 / (len(setting.law.probabilities) * setting.law.probabilities)))


def _certificate(name: str, quantity: str, theorem: str) -> ScheduleBound:
    return ScheduleBound(
        name=name,
        kind="upper",
        quantity=quantity,
        ordering="with replacement, any probabilities",
        scheme="explicit, budget or any concave filter",
        regularization="any, λ > 0 where it varies",
        rate="computed",
        min_k=1,
        hypotheses=(REALIZABLE, INDEPENDENT),
        citation=f"docs/upper-bounds.md, {theorem}; computed by fl.upper_bound",
        status="derived",
    )


CERTIFICATES = (
    _certificate("computed", "average_loss", "Theorems 1 to 4"),
    _certificate("computed, seen tasks", "seen_loss", "Theorem 5"),
)
"""The bounds that ``certify`` checks in addition to the catalogue."""
