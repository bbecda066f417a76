"""Bounds for tasks with classes, as objects with checkable hypotheses and values (proofs:
docs/classification.md).

β is the smoothness of the loss, β = ρR² with ρ = 1 for the squared hinge, ¼ for logistic and ½ for
softmax; G = R√n is the Lipschitz constant of the hinge on tasks of at most n rows; D = ‖w₀ − w⋆‖,
which is 1/γ for the joint max-margin solution w⋆ of margin γ and w₀ = 0. All are about the loss on
the next task, and about its wrong rows, in exchangeable orders; for uniform draws with replacement
that is the mean over all tasks.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np

from forgetless._core import validate
from forgetless._core.arrays import Floats
from forgetless.losses import REGISTRY, TWO_CLASSES, Loss
from forgetless.orderings import Draws
from forgetless.theory.bounds import Bound, Catalogue
from forgetless.theory.exchangeable_hypotheses import EXCHANGEABLE, ROWS_OF_ONE_MORE
from forgetless.theory.hypotheses import (
    UNIFORM,
    WITHOUT,
    Hypothesis,
    Setting,
    constant_eta,
    increasing_scale,
)

SMOOTH = ("squared_hinge", "logistic", "softmax")


@dataclass(frozen=True)
class LabelSetting(Setting):
    """The arguments of all hypotheses for tasks with classes.

    ``teacher`` is the nearest w to the start with all margins at least 1; ``distance`` is infinite
    where there is none.
    """

    loss: Loss
    n_rows: int  # the most rows of a task
    # of C and a: the smallest C·f̄(w) + a‖w − w₀‖² over all w, f̄ the mean loss
    least: Callable[[float, float], float]

    @cached_property
    def coefficients(self) -> Floats:
        """λ_1..λ_k."""
        return np.broadcast_to(np.asarray(self.filter.strength(), dtype=np.float64), (self.k,))

    @cached_property
    def eta(self) -> float | None:
        """η if β/(β + λ_t) = η(k+1−t)/(k+1) at every step, as of the minimax schedule; else
        None.
        """
        smoothness = self.loss.smoothness(self.radius)
        return (
            constant_eta(smoothness / (smoothness + self.coefficients), self.k)
            if smoothness < math.inf
            else None
        )

    @property
    def strength(self) -> float | None:
        """λ_t(k−t+2)/(k+1) if it is the same positive number at every step, as of increasing
        schedules; else None.
        """
        return increasing_scale(self.coefficients, self.k) or None


def _uniform(s: Setting) -> str | None:
    return (
        "tasks are drawn with unequal probabilities"
        if isinstance(s.law, Draws) and not s.law.uniform
        else None
    )


EQUAL = Hypothesis("all tasks have the same probability", _uniform)

SEPARABLE = Hypothesis(
    "one w has all margins at least 1",
    lambda s: None if s.distance < math.inf else "the rows are not separable (see fl.max_margin)",
)

COMMON_MINIMUM = Hypothesis(
    "one w minimizes the loss of every task",
    lambda _: (
        "this loss has no minimum on separable rows, and none in common on others; see its oracle"
        " bound"
    ),
)

RISING = Hypothesis(
    "β/(β + λ_t) = η(k+1−t)/(k+1), as of schedules.minimax(eta=η)",
    lambda s: (
        None
        if s.eta is not None
        else "β/(β + λ_t) is not η(k+1−t)/(k+1), as of schedules.minimax(eta=η)"
    ),
)

NOISY = Hypothesis(
    "η is below 1",
    lambda s: "η is 1; use schedules.minimax(eta=…) with η below 1" if s.eta == 1 else None,
)

INCREASING = Hypothesis(
    "λ_t = s(k+1)/(k−t+2) with s > 0",
    lambda s: (
        None
        if isinstance(s, LabelSetting) and s.strength is not None
        else "λ_t do not increase as (k+1)/(k−t+2), as of schedules.increasing()"
    ),
)


def _not_orthonormal(s: Setting) -> str | None:
    if s.distance < math.inf and ROWS_OF_ONE_MORE.failure(s) is None:
        return None
    return "the tasks are not k + 1 orthonormal rows, one each, seen from the origin"


ORTHONORMAL = Hypothesis(
    "the tasks are k + 1 orthonormal rows, one each, seen from the origin", _not_orthonormal
)


def noise_factor(k: int, eta: float) -> float:
    """Return C = (1 + Σ_t 1/(1 − κ_t))/((1 − η)(k+1)), κ_t = η(k+1−t)/(k+1): the factor of the loss
    in Theorem N.

    Examples
    --------
    >>> round(noise_factor(1000, 0.01), 3)
    1.015
    """
    kappa = eta * np.arange(k, 0, -1) / (k + 1)
    return float((1.0 + np.sum(1.0 / (1.0 - kappa))) / ((1.0 - eta) * (k + 1)))


Terms = tuple[float, float, float]


@dataclass(frozen=True)
class ComparatorBound(Bound):
    """A bound C·f̄(w) + a‖w − w₀‖² + b by the mean loss f̄ of any fixed weights w, whatever the
    labels are.

    ``terms`` gives C, a and b from k, R and the ``extras`` without ``mean_loss``, which is f̄(w).
    """

    terms: Callable[..., Terms] = field(kw_only=True, repr=False)

    @property
    def constant_known(self) -> bool:
        return True

    def evaluate(self, k: int, radius: float, distance: float, **extras: float) -> float:
        """Return the value for weights at a ``distance`` from the start with a ``mean_loss``."""
        if set(extras) != set(self.extras):
            raise TypeError(f"{self.name} needs the numbers {self.extras}, got {tuple(extras)}")
        k = validate.integer("k", k, self.min_k, f"{self.name} holds for k ≥ {self.min_k}")
        mean_loss = validate.number(
            "mean_loss", extras.pop("mean_loss"), "pass the mean loss of some weights"
        )
        factor, per_square, constant = self.terms(k, radius, **extras)
        return factor * mean_loss + per_square * distance**2 + constant

    def value(self, setting: Setting) -> float:
        """Return the value for the weights with the smallest one."""
        assert isinstance(setting, LabelSetting)
        extras = {name: getattr(setting, name) for name in self.extras if name != "mean_loss"}
        factor, per_square, constant = self.terms(setting.k, setting.radius, **extras)
        return setting.least(factor, per_square) + constant


def _smooth_terms(k: int, radius: float, eta: float, loss: Loss) -> Terms:
    if not 0 < eta < 1:
        raise ValueError(f"eta must lie in (0, 1), got {eta}")
    return noise_factor(k, eta), loss.smoothness(radius) / (2 * eta * (k + 1)), 0.0


def _hinge_terms(k: int, radius: float, strength: float, n_rows: float) -> Terms:
    """Return the terms of Theorem H for λ_t = strength·(k+1)/(k−t+2)."""
    square = REGISTRY["hinge"].lipschitz(radius, int(n_rows)) ** 2
    return 1.0, strength * (k + 1) / (2 * (k + 2) ** 2), square / strength * (k + 2) / (k + 1)


_EXPLICIT: dict[str, Any] = {
    "kind": "upper",
    "quantity": "next_loss",
    "ordering": "exchangeable: with or without replacement",
    "scheme": "proximal",
    "min_k": 1,
    "status": "derived",
}
_PAGE = "docs/classification.md, Theorem"
_MINIMAX = "λ_t = β((k+1)/(η(k+1−t)) − 1)"


def _minimax(loss: Loss) -> Bound:
    ratio = loss.smoothness(1.0)
    exists = SEPARABLE if loss.name == "squared_hinge" else COMMON_MINIMUM
    return Bound(
        f"minimax, {loss.name}",
        regularization=_MINIMAX,
        rate=f"{ratio / 2:g}/(η(k+1))",
        hypotheses=(exists, EXCHANGEABLE, EQUAL, RISING),
        citation=f"{_PAGE} X′",
        extras=("eta",),
        per_unit=lambda k, eta: ratio / (2 * eta * (k + 1)),
        **_EXPLICIT,
    )


def _oracle(loss: Loss) -> Bound:
    return ComparatorBound(
        f"oracle, {loss.name}",
        regularization=f"{_MINIMAX}, η < 1",
        rate=f"C·f̄(w) + {loss.smoothness(1.0) / 2:g}·R²‖w − w₀‖²/(η(k+1))",
        hypotheses=(EXCHANGEABLE, EQUAL, RISING, NOISY),
        citation=f"{_PAGE} N",
        extras=("eta", "mean_loss"),
        terms=partial(_smooth_terms, loss=loss),
        **_EXPLICIT,
    )


@dataclass(frozen=True)
class UnseenRows(Bound):
    """A lower bound for any algorithm, from the loss ℓ(0) of rows it knows nothing about."""

    def value(self, setting: Setting) -> float:
        assert self.per_unit is not None
        return self.per_unit(setting.k)

    def evaluate(self, k: int, radius: float, distance: float, **extras: float) -> float:
        """Return the value for k + 1 orthonormal rows, whatever ``radius`` and ``distance`` are."""
        assert self.per_unit is not None
        return self.per_unit(
            validate.integer("k", k, self.min_k, f"{self.name} holds for k ≥ {self.min_k}")
        )


def _lower(loss: Loss, *, once: bool, wrong: bool = False) -> Bound:
    """Return the bound on k + 1 orthonormal rows with random labels: ½(ℓ(m) + ℓ(−m)) ≥ ℓ(0), an
    error at least ½.
    """
    name = "any algorithm, wrong rows" if wrong else f"any algorithm, {loss.name}"
    at_zero = 0.5 if wrong else float(loss.value(0.0, 1.0))
    rest: dict[str, Any] = {
        "quantity": "wrong_rows" if wrong else "next_loss",
        "scheme": "any",
        "min_k": 1,
    }
    return UnseenRows(
        f"{name}, each row once" if once else name,
        "lower",
        hypotheses=(WITHOUT if once else UNIFORM, ORTHONORMAL),
        ordering="without replacement" if once else "uniform with replacement",
        regularization="any",
        rate=f"{at_zero:.4g}" if once else f"{at_zero:.4g}·(k/(k+1))^k",
        citation=f"{_PAGE} X′, lower bound",
        status="derived",
        per_unit=(lambda _: at_zero) if once else (lambda k: at_zero * (1 - 1 / (k + 1)) ** k),
        **rest,
    )


catalogue = Catalogue(
    [
        *(_minimax(REGISTRY[name]) for name in SMOOTH),
        Bound(
            "minimax, wrong rows",
            regularization=_MINIMAX,
            rate="(R/γ)²/(η(k+1)) from the origin",
            hypotheses=(SEPARABLE, EXCHANGEABLE, EQUAL, RISING),
            citation=f"{_PAGE} X′: [m ≤ 0] ≤ max(0, 1 − m)²",
            extras=("eta",),
            per_unit=lambda k, eta: 1 / (eta * (k + 1)),
            **{**_EXPLICIT, "quantity": "wrong_rows", "scheme": "proximal, squared hinge"},
        ),
        *(_oracle(REGISTRY[name]) for name in SMOOTH),
        ComparatorBound(
            "increasing, hinge",
            hypotheses=(EXCHANGEABLE, EQUAL, INCREASING),
            regularization="λ_t = c·G√(2(k+1))/D·(k+1)/(k−t+2)",
            citation=f"{_PAGE} H",
            rate="√2·GD/√(k+1) at c = 1 where D ≥ ‖w₀ − w⋆‖",
            terms=_hinge_terms,
            extras=("strength", "n_rows", "mean_loss"),
            **_EXPLICIT,
        ),
        *(_lower(REGISTRY[name], once=once) for name in TWO_CLASSES for once in (False, True)),
        *(_lower(REGISTRY["hinge"], once=once, wrong=True) for once in (False, True)),
    ]
)
