"""Published bounds as objects with checkable hypotheses and values.

All values are for squared loss ½‖Xw − y‖², radius R and distance D = ‖w₀ − w⋆‖, and scale with
R²D².
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from forgetless._core import validate
from forgetless.metrics import quantity
from forgetless.reporting import html
from forgetless.reporting.table import Table
from forgetless.theory.constructions import (
    jump_chain_limit,
    seen_task_loss,
    seen_task_probability,
)
from forgetless.theory.exchangeable_hypotheses import (
    EXCHANGEABLE,
    ISOTROPIC,
    MEAN_ITERATE,
    MINIMAX,
    ROWS_OF_ONE_MORE,
    ROWS_OF_TWICE,
)
from forgetless.theory.hypotheses import (
    AT_LEAST,
    BELOW_TWO,
    BEYOND,
    CAI,
    CONCAVE,
    CYCLIC,
    EXPLICIT,
    FACTOR,
    FIRST_FREE,
    FIXED,
    IN_RANGE,
    INCREASING,
    REALIZABLE,
    SEEN,
    UNIFORM,
    UNREGULARIZED,
    UNSEEN,
    UNSEEN_OF_MORE,
    WITHOUT,
    Hypothesis,
    Setting,
    of_scale,
    single_steps,
)
from forgetless.theory.last_iterate import last_iterate_weights
from forgetless.theory.one_filter import every_k


@dataclass(frozen=True)
class Constant:
    """One constant and its schedule: λ_t = c·R²(k+1)/(k−t+2), or single gradient steps of size
    1/λ_t.
    """

    name: str  # that of its entry in ``bounds.catalogue``
    scheme: str  # "explicit" or "one step"
    scale: Fraction  # c
    value: Fraction  # C


# Constants proved for every number of steps, E L ≤ C·R²D²/(k+1) for every realizable collection;
# see ``python -m research.proofs``
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


QUANTITIES = ("average_loss", "seen_loss", "next_loss")

_THIS = "Levinstein et al. (2025)"
TABLE = f"as given in Table 1 of {_THIS}"


def near_optimal_constant(k: int) -> float:
    """Return C(k) = e^{2 − 1/(4 ln k)} / (2(2 − 1/ln k)), the constant the proof of the corollary
    ends with.

    Examples
    --------
    >>> import forgetless as fl
    >>> [round(fl.theory.bounds.near_optimal_constant(k), 3) for k in (3, 10, 100)]
    [2.7, 2.117, 1.963]
    """
    log = math.log(validate.integer("k", k, 3, "the corollary holds from k = 3 on", math.inf))
    return math.exp(2 - 1 / (4 * log)) / (2 * (2 - 1 / log))


def general_constant(k: int, factor: float) -> float:
    """Return e / (2φ(2−φ) k^{1−φ(1−φ/4)}) for φ = φ(R²) in (0, 2): loss over R²D² at fixed
    strength.
    """
    if not 0 < factor < 2:
        raise ValueError(
            f"factor must lie in (0, 2), got {factor}; it is φ(R²), the filter factor at the radius"
        )
    return float(math.e / (2 * factor * (2 - factor) * k ** (1 - factor * (1 - factor / 4))))


def _finite_k(k: int) -> float:
    return float(last_iterate_weights(k, 3 / 13, 1.0).bound)


@dataclass(frozen=True)
class Bound:
    """One published result.

    Attributes
    ----------
    name : str
    kind : "upper" or "lower"
    quantity : "average_loss", "seen_loss" or "next_loss"
    ordering, scheme, regularization, rate : str
        Descriptions of the setting, and of the rate without R²D².
    min_k : int
        The smallest k it holds for.
    hypotheses : tuple of Hypothesis
        Conditions on a ``Setting``.
    citation : str
    status : "paper", "same proof, tight constant", "derived" (proved here, not published),
    "literature" or "elementary" per_unit : callable or None
        ``(k, **extras)`` → value over R²D²; None where only a rate is published.
    extras : tuple of str
        Further arguments of ``evaluate``.
    """

    name: str
    kind: str
    quantity: str
    ordering: str
    scheme: str
    regularization: str
    rate: str
    min_k: int
    hypotheses: tuple[Hypothesis, ...]
    citation: str
    status: str
    per_unit: Callable[..., float] | None = field(default=None, repr=False)
    extras: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in ("upper", "lower"):
            raise ValueError(f'kind must be "upper" or "lower", got {self.kind!r}')
        object.__setattr__(self, "quantity", quantity("quantity", self.quantity, QUANTITIES))

    @property
    def constant_known(self) -> bool:
        """Whether the bound has a value, not only a rate."""
        return self.per_unit is not None

    def evaluate(self, k: int, radius: float, distance: float, **extras: float) -> float:
        """Return the value of the bound.

        Parameters
        ----------
        k : int
            Number of steps, at least ``min_k``.
        radius, distance : float
            R and D = ‖w₀ − w⋆‖, both nonnegative.
        **extras : float
            Those named in ``extras``: ``factor`` is φ(R²), ``scale`` the factor c of an increasing
            schedule, ``eta`` the factor η of a minimax schedule.

        Examples
        --------
        >>> import forgetless as fl
        >>> round(fl.theory.bounds.catalogue["increasing"].evaluate(k=99, radius=1.0,
        ...     distance=1.0), 6)
        0.2
        """
        k = validate.integer("k", k, self.min_k, f"{self.name} holds for k ≥ {self.min_k}")
        radius = validate.number("radius", radius, "R is the largest spectral norm of a task")
        distance = validate.number(
            "distance", distance, "D is the distance from the start to the joint solution"
        )
        if self.per_unit is None:
            raise ValueError(f"{self.name}: only the rate {self.rate} is published, not a constant")
        if set(extras) != set(self.extras):
            raise TypeError(f"{self.name} needs the numbers {self.extras}, got {tuple(extras)}")
        return self.per_unit(k, **extras) * radius**2 * distance**2

    def failures(self, setting: Setting) -> list[str]:
        """Return the reason of every hypothesis that fails in a setting; empty where the bound
        applies.
        """
        reasons = [hypothesis.failure(setting) for hypothesis in self.hypotheses]
        if setting.k < self.min_k:
            reasons.append(f"k is {setting.k}, below {self.min_k}")
        return [reason for reason in reasons if reason]

    def value(self, setting: Setting) -> float:
        """Return the value of the bound in a setting in which it applies."""
        extras = {name: float(getattr(setting, name) or 0.0) for name in self.extras}
        return self.evaluate(setting.k, setting.radius, setting.distance, **extras)


def with_contradiction(unit: float, setting: Setting) -> float:
    """Return a bound over R²D² for tasks that contradict each other up to rounding.

    They change ‖Xw − y‖ by at most twice that part of RD (Minkowski).
    """
    return (
        0.5
        * (math.sqrt(2 * unit) + 2 * setting.contradiction) ** 2
        * setting.radius**2
        * setting.distance**2
    )


@dataclass(frozen=True)
class TightBound(Bound):
    """A bound that some tasks attain, so that contradictions of the size of rounding count."""

    def value(self, setting: Setting) -> float:
        if setting.radius == 0:
            return 0.0
        extras = {name: float(getattr(setting, name) or 0.0) for name in self.extras}
        return with_contradiction(self.evaluate(setting.k, 1.0, 1.0, **extras), setting)


def _entry(name: str, *hypotheses: Hypothesis, **rest: Any) -> Bound:
    kind: type[Bound] = TightBound if "eta" in rest.get("extras", ()) else Bound
    return kind(
        name=name,
        hypotheses=hypotheses,
        **{"min_k": 1, "kind": "upper", "quantity": "average_loss", **rest},
    )


_RANDOM = {"ordering": "uniform with replacement"}
_COROLLARY = (
    f'{_THIS}, Corollary "Near-optimal rates via fixed regularization strength", Section 4.1'
)
_LEMMA = f'{_THIS}, Lemma "Rates for fixed regularization strength", Section 4.1'
_THEOREM = f'{_THIS}, Theorem "Optimal rates for increasing regularization", Section 4.2'
_SEEN = (
    f'{_THIS}, Lemma "SGD bound for time-varying distributions", restated in Appendix E with a'
    " seen-task bound"
)

_OPTIMAL = "docs/optimal-schedule.md, Theorem"
_FREE = "docs/unregularized.md"
_UNREGULARIZED = {
    "ordering": "uniform with replacement",
    "scheme": "projection",
    "regularization": "none",
    "status": "derived",
}
_SHUFFLED = {"quantity": "next_loss", "ordering": "exchangeable: with or without replacement"}

_PROOF = (
    "theorem of docs/upper-bounds.md, proved by computer; extends a lemma of Dereziński & Dong"
    " (COLT 2026)"
)


def _every_k(constant: Constant) -> Bound:
    explicit, C = constant.scheme == "explicit", float(constant.value)
    schedule = (EXPLICIT, of_scale(constant.scale)) if explicit else (single_steps(constant.scale),)
    return _entry(
        constant.name,
        REALIZABLE,
        UNIFORM,
        *schedule,
        **_RANDOM,
        citation=_PROOF,
        scheme="explicit" if explicit else "one gradient step per task",
        regularization=f"increasing, scale {constant.scale}",
        rate=f"{C:g}/(k+1)",
        status="derived",
        per_unit=lambda k: C / (k + 1),
    )


_ENTRIES = [
    _entry(
        "trivial",
        REALIZABLE,
        ordering="any",
        scheme="any non-expansive step",
        regularization="any",
        rate="1/2",
        citation="elementary: ‖w_k − w⋆‖ ≤ D, and each loss is at most ½R²‖w_k − w⋆‖²",
        status="elementary",
        per_unit=lambda _: 0.5,
    ),
    _entry(
        "trivial, seen tasks",
        REALIZABLE,
        quantity="seen_loss",
        ordering="any",
        scheme="any non-expansive step",
        regularization="any",
        rate="1/2",
        status="elementary",
        per_unit=lambda _: 0.5,
        citation="elementary: ‖w_k − w⋆‖ ≤ D, and each loss is at most ½R²‖w_k − w⋆‖²",
    ),
    _entry(
        "fixed, general",
        REALIZABLE,
        UNIFORM,
        FIXED,
        CONCAVE,
        IN_RANGE,
        **_RANDOM,
        scheme="any concave filter",
        regularization="fixed",
        rate="k^{−1+φ(1−φ/4)} / (φ(2−φ))",
        citation=_LEMMA,
        status="paper",
        per_unit=general_constant,
        extras=("factor",),
    ),
    _entry(
        "fixed, beyond the lemma",
        REALIZABLE,
        UNIFORM,
        FIXED,
        CONCAVE,
        BEYOND,
        **_RANDOM,
        scheme="projection, or a budget that overshoots",
        regularization="fixed, φ(R²) in [1, 2)",
        rate="k^{−1+φ(1−φ/4)} / (φ(2−φ))",
        status="literature",
        per_unit=general_constant,
        extras=("factor",),
        citation=(
            "Evron et al. (2025), Theorem 5.1 at step size φ(R²)/β, through the reduction of"
            f" {_THIS}"
        ),
    ),
    _entry(
        "fixed, general, without replacement",
        REALIZABLE,
        WITHOUT,
        FIXED,
        CONCAVE,
        ordering="without replacement",
        scheme="any concave filter",
        regularization="fixed",
        rate="k^{−1+φ(1−φ/4)}",
        status="paper",
        citation=f'{_THIS}, Remark "Extension to without replacement orderings", Section 4.1',
    ),
    _entry(
        "fixed, near-optimal",
        REALIZABLE,
        UNIFORM,
        FIXED,
        CONCAVE,
        FACTOR,
        **_RANDOM,
        scheme="explicit or budget",
        regularization="fixed, φ(R²) = 1/ln k",
        rate="5 ln k / k",
        min_k=3,
        status="paper",
        citation=f"{_COROLLARY} (there for k ≥ 2, where it is false)",
        per_unit=lambda k: 5 * math.log(k) / k,
    ),
    _entry(
        "fixed, near-optimal, tight",
        REALIZABLE,
        UNIFORM,
        FIXED,
        CONCAVE,
        FACTOR,
        **_RANDOM,
        scheme="explicit or budget",
        regularization="fixed, φ(R²) = 1/ln k",
        rate="C(k) ln k / k → (e²/4) ln k / k",
        min_k=3,
        citation=_COROLLARY,
        status="same proof, tight constant",
        per_unit=lambda k: near_optimal_constant(k) * math.log(k) / k,
    ),
    _entry(
        "increasing",
        REALIZABLE,
        UNIFORM,
        INCREASING,
        **_RANDOM,
        scheme="explicit or budget",
        regularization="increasing",
        rate="20/(k+1)",
        min_k=2,
        citation=_THEOREM,
        status="paper",
        per_unit=lambda k: 20 / (k + 1),
    ),
    _entry(
        "increasing, finite k",
        REALIZABLE,
        UNIFORM,
        INCREASING,
        **_RANDOM,
        scheme="explicit or budget",
        regularization="increasing",
        rate="v₀²/(2c_{k+1}) → 19.5/(k+1)",
        min_k=2,
        citation=_THEOREM,
        status="same proof, tight constant",
        per_unit=_finite_k,
    ),
    _entry(
        "increasing, larger scale",
        REALIZABLE,
        UNIFORM,
        AT_LEAST,
        **_RANDOM,
        scheme="explicit or budget",
        regularization="increasing, scale c ≥ 13/3",
        rate="4.5c/(k+1)",
        min_k=2,
        status="paper",
        citation=(
            f'{_THIS}, Lemma "SGD bound for time-varying distributions", Section 4.2, with η ='
            " 1/(cR²)"
        ),
        per_unit=lambda k, scale: 4.5 * scale / (k + 1),
        extras=("scale",),
    ),
    _entry(
        "increasing, first task free",
        REALIZABLE,
        UNIFORM,
        FIRST_FREE,
        **_RANDOM,
        scheme="explicit or budget",
        regularization="increasing, λ₁ = 0",
        rate="19.5(k+1)/k²",
        min_k=3,
        status="derived",
        citation=f'{_THIS}, Remark "Unregularized first task", Section 2; the constant is derived',
        per_unit=lambda k: 19.5 * (k + 1) / k**2,
    ),
    _entry(
        "increasing, seen tasks",
        REALIZABLE,
        UNIFORM,
        INCREASING,
        quantity="seen_loss",
        **_RANDOM,
        scheme="explicit or budget",
        regularization="increasing",
        rate="87/(k+1)",
        min_k=2,
        citation=_SEEN,
        status="paper",
        per_unit=lambda k: 87 / (k + 1),
    ),
    _entry(
        "increasing, seen tasks, tight",
        REALIZABLE,
        UNIFORM,
        INCREASING,
        quantity="seen_loss",
        **_RANDOM,
        scheme="explicit or budget",
        regularization="increasing",
        rate="(39 + 24/13)/(k+1)",
        min_k=2,
        citation=_SEEN,
        status="derived",
        per_unit=lambda k: (39 + 24 / 13) / (k + 1),
    ),
    *map(_every_k, constants),
    _entry(
        "trivial, next task",
        REALIZABLE,
        EXCHANGEABLE,
        **_SHUFFLED,
        scheme="any non-expansive step",
        regularization="any",
        rate="1/2",
        status="elementary",
        per_unit=lambda _: 0.5,
        citation="elementary: ‖w_k − w⋆‖ ≤ D, and each loss is at most ½R²‖w_k − w⋆‖²",
    ),
    _entry(
        "minimax",
        REALIZABLE,
        UNIFORM,
        MINIMAX,
        **_RANDOM,
        scheme="explicit or budget",
        regularization="φ_t(R²) = η(k+1−t)/(k+1)",
        rate="1/(2η(k+1))",
        citation=f"{_OPTIMAL} X",
        status="derived",
        per_unit=lambda k, eta: 1 / (2 * eta * (k + 1)),
        extras=("eta",),
    ),
    _entry(
        "minimax, next task",
        REALIZABLE,
        EXCHANGEABLE,
        MINIMAX,
        **_SHUFFLED,
        scheme="explicit or budget",
        regularization="φ_t(R²) = η(k+1−t)/(k+1)",
        rate="1/(2η(k+1))",
        citation=f"{_OPTIMAL} X",
        status="derived",
        per_unit=lambda k, eta: 1 / (2 * eta * (k + 1)),
        extras=("eta",),
    ),
    _entry(
        "increasing, next task",
        REALIZABLE,
        EXCHANGEABLE,
        INCREASING,
        **_SHUFFLED,
        scheme="explicit or budget",
        regularization="increasing",
        rate="20/(k+1)",
        min_k=2,
        status="derived",
        per_unit=lambda k: 20 / (k + 1),
        citation=f"{_THEOREM}, whose proof holds for exchangeable orders",
    ),
    _entry(
        "mean of unregularized iterates, next task",
        REALIZABLE,
        EXCHANGEABLE,
        UNREGULARIZED,
        MEAN_ITERATE,
        **_SHUFFLED,
        scheme="projection, mean of w_0..w_k",
        regularization="none",
        rate="1/(2(k+1))",
        citation=f"{_OPTIMAL} A",
        status="derived",
        per_unit=lambda k: 1 / (2 * (k + 1)),
    ),
    _entry(
        "unregularized, isotropic teachers",
        REALIZABLE,
        UNIFORM,
        UNREGULARIZED,
        ISOTROPIC,
        **_RANDOM,
        scheme="projection",
        regularization="none",
        rate="k^k/(2(k+1)^{k+1})",
        citation=f"{_OPTIMAL} I",
        status="derived",
        per_unit=lambda k: (1 - 1 / (k + 1)) ** k / (2 * (k + 1)),
    ),
    _entry(
        "unregularized, by hand",
        REALIZABLE,
        UNIFORM,
        UNREGULARIZED,
        **_UNREGULARIZED,
        rate="1/(2k)",
        citation=f"{_FREE}, Theorem U, c = 1, without a computer",
        per_unit=lambda k: 1 / (2 * k),
    ),
    _entry(
        "unregularized, one third",
        REALIZABLE,
        UNIFORM,
        UNREGULARIZED,
        **_UNREGULARIZED,
        rate="1/(3k)",
        citation=f"{_FREE}, Theorem U, c = 2/3, with 6 polynomials checked in integers",
        per_unit=lambda k: 1 / (3 * k),
    ),
    _entry(
        "unregularized, every k",
        REALIZABLE,
        UNIFORM,
        UNREGULARIZED,
        **_UNREGULARIZED,
        rate="0.315/k",
        citation=f"{_FREE}, Theorem U, c = 0.63, with 160 polynomials checked in integers",
        per_unit=lambda k: 0.315 / k,
    ),
    _entry(
        "unregularized, seen tasks",
        REALIZABLE,
        UNIFORM,
        UNREGULARIZED,
        **_UNREGULARIZED,
        quantity="seen_loss",
        min_k=2,
        rate="2/(3(k−1)) + 1/k",
        citation=f"{_FREE}, Corollary S",
        per_unit=lambda k: 2 / (3 * (k - 1)) + 1 / k,
    ),
    _entry(
        "one filter, every k",
        REALIZABLE,
        UNIFORM,
        FIXED,
        CONCAVE,
        BELOW_TWO,
        **_RANDOM,
        scheme="explicit, budget or any concave filter",
        regularization="fixed, φ(R²) in (0, 2)",
        rate="C(φ)/(2φk), φ = φ(R²)",
        citation=f"{_FREE}, Theorem F",
        status="derived",
        per_unit=lambda k, factor: every_k(factor) / k,
        extras=("factor",),
    ),
    _entry(
        "unregularized, dimension-free",
        REALIZABLE,
        UNIFORM,
        UNREGULARIZED,
        **_RANDOM,
        scheme="projection",
        regularization="none",
        rate="(e/2) k^{−1/4}",
        status="literature",
        citation=f"Evron et al. (2025), Theorem 5.1 at step size 1/β, {TABLE}",
        per_unit=lambda k: math.e / 2 * k**-0.25,
    ),
    _entry(
        "unregularized, by rank",
        REALIZABLE,
        UNIFORM,
        UNREGULARIZED,
        **_RANDOM,
        scheme="projection",
        regularization="none",
        rate="√(d − r̄)/k",
        citation=f"Evron et al. (2025), {TABLE}",
        status="literature",
    ),
    _entry(
        "unregularized, by total rank",
        REALIZABLE,
        UNIFORM,
        UNREGULARIZED,
        **_RANDOM,
        scheme="projection",
        regularization="none",
        rate="√(M r̄)/k",
        citation=f"Evron et al. (2025), {TABLE}",
        status="literature",
    ),
    _entry(
        "unregularized, by dimension",
        REALIZABLE,
        UNIFORM,
        UNREGULARIZED,
        **_RANDOM,
        scheme="projection",
        regularization="none",
        rate="(d − r̄)/k",
        citation=f"Evron et al. (2022), {TABLE}",
        status="literature",
    ),
    _entry(
        "unregularized, half",
        REALIZABLE,
        UNIFORM,
        UNREGULARIZED,
        **_RANDOM,
        scheme="projection",
        regularization="none",
        rate="6.5/√k",
        status="literature",
        per_unit=lambda k: 6.5 / math.sqrt(k),
        citation=(
            "Attia et al. (NeurIPS 2025), arXiv 2507.11274, main theorem: 13/√k for losses without"
            " ½, quoted by Tsipory et al. (NeurIPS 2025), Section 5"
        ),
    ),
    _entry(
        "unregularized, three quarters",
        REALIZABLE,
        UNIFORM,
        UNREGULARIZED,
        **_RANDOM,
        scheme="projection",
        regularization="none",
        rate="k^{−3/4}",
        status="literature",
        citation="Dereziński & Dong (COLT 2026), arXiv 2604.09909, main theorem",
    ),
    _entry(
        "cyclic, unregularized, 2022",
        REALIZABLE,
        CYCLIC,
        UNREGULARIZED,
        ordering="cyclic",
        scheme="projection",
        regularization="none",
        rate="M²/√k ∧ M²(d − r_max)/k",
        citation=f"Evron et al. (2022), {TABLE}",
        status="literature",
    ),
    _entry(
        "cyclic, unregularized, 2023",
        REALIZABLE,
        CYCLIC,
        UNREGULARIZED,
        ordering="cyclic",
        scheme="projection",
        regularization="none",
        rate="M³/k",
        citation=f"Swartworth et al. (2023), {TABLE}",
        status="literature",
    ),
    _entry(
        "cyclic, fixed",
        REALIZABLE,
        CYCLIC,
        EXPLICIT,
        CAI,
        ordering="cyclic",
        scheme="explicit",
        regularization="fixed, λ = 2MR²√ln(k/M)",
        rate="M√ln(k/M)/k",
        status="literature",
        citation=f"Cai & Diakonikolas (2025), {TABLE}",
    ),
    _entry(
        "any algorithm",
        REALIZABLE,
        UNIFORM,
        UNSEEN,
        kind="lower",
        **_RANDOM,
        scheme="any",
        regularization="any",
        rate="1/(16k)",
        min_k=2,
        citation=f"{_THIS}, Theorem in Appendix B (any algorithm)",
        status="paper",
        per_unit=lambda k: 1 / (16 * k),
    ),
    _entry(
        "any filter",
        REALIZABLE,
        UNIFORM,
        UNSEEN,
        kind="lower",
        **_RANDOM,
        scheme="any filter",
        regularization="any",
        rate="(1 − 1/k)^k/(2k) ≥ 1/(8k)",
        min_k=2,
        status="derived",
        citation=f"{_THIS}, Theorem in Appendix B (any algorithm), on its construction",
        per_unit=lambda k: (1 - 1 / k) ** k / (2 * k),
    ),
    _entry(
        "any algorithm, one task more",
        REALIZABLE,
        UNIFORM,
        UNSEEN_OF_MORE,
        kind="lower",
        **_RANDOM,
        scheme="any",
        regularization="any",
        rate="k^k/(2(k+1)^{k+1}) ≥ 1/(2e(k+1))",
        status="derived",
        citation=(
            f"{_THIS}, Theorem in Appendix B (any algorithm), with k + 1 tasks and the exact"
            " probability"
        ),
        per_unit=lambda k: (1 - 1 / (k + 1)) ** k / (2 * (k + 1)),
    ),
    _entry(
        "any algorithm, next task",
        REALIZABLE,
        WITHOUT,
        ROWS_OF_ONE_MORE,
        kind="lower",
        quantity="next_loss",
        ordering="without replacement",
        scheme="any",
        regularization="any",
        rate="1/(2(k+1))",
        status="derived",
        citation=f"{_OPTIMAL} X, lower bound",
        per_unit=lambda k: 1 / (2 * (k + 1)),
    ),
    _entry(
        "any algorithm, without replacement",
        REALIZABLE,
        WITHOUT,
        ROWS_OF_TWICE,
        kind="lower",
        ordering="without replacement",
        scheme="any",
        regularization="any",
        rate="1/(8k)",
        status="derived",
        citation=f"{_OPTIMAL} S, lower bound",
        per_unit=lambda k: 1 / (8 * k),
    ),
    _entry(
        "seen tasks, explicit",
        REALIZABLE,
        UNIFORM,
        EXPLICIT,
        SEEN,
        kind="lower",
        quantity="seen_loss",
        **_RANDOM,
        scheme="explicit",
        regularization="any",
        rate="(1/4)·1/(144k)",
        min_k=9,
        status="paper",
        citation=(
            f'{_THIS}, Lemma "Lower bound for seen-task loss", Section 4.3: 1/(144k) with'
            " probability ≥ ¼"
        ),
        per_unit=lambda k: 1 / (576 * k),
    ),
    _entry(
        "seen tasks, explicit, tight",
        REALIZABLE,
        UNIFORM,
        EXPLICIT,
        SEEN,
        kind="lower",
        quantity="seen_loss",
        **_RANDOM,
        scheme="explicit",
        regularization="any",
        rate="(1 − 1/k)^{k−1}·(1/16k)·2(k−1)/(2k−1)",
        min_k=2,
        citation=(
            f'{_THIS}, Lemma "Lower bound for seen-task loss", Section 4.3, minimised over its case'
            " split"
        ),
        status="derived",
        per_unit=lambda k: seen_task_probability(k) * seen_task_loss(k),
    ),
    _entry(
        "unregularized, jump chains",
        REALIZABLE,
        UNIFORM,
        UNREGULARIZED,
        **_UNREGULARIZED,
        kind="lower",
        rate=f"{jump_chain_limit():.6f}/k as k → ∞",
        citation=f"{_FREE}, Proposition J, with one evaluated 8 × 8 exponential",
    ),
    _entry(
        "unregularized, lower",
        REALIZABLE,
        UNIFORM,
        UNREGULARIZED,
        kind="lower",
        **_RANDOM,
        scheme="projection",
        regularization="none",
        rate="1/k",
        status="literature",
        citation=f"Evron et al. (2022), proof of Theorem 10, two tasks repeated, {TABLE}",
    ),
    _entry(
        "cyclic, unregularized, lower",
        REALIZABLE,
        CYCLIC,
        UNREGULARIZED,
        kind="lower",
        ordering="cyclic",
        scheme="projection",
        regularization="none",
        rate="M²/k",
        status="literature",
        citation=f"Evron et al. (2022), {TABLE}",
    ),
]


class Catalogue(tuple[Bound, ...]):
    """All bounds in order; ``catalogue["increasing"]`` is one by name. Prints as a table."""

    __slots__ = ()

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, str):
            return super().__getitem__(key)
        for bound in self:
            if bound.name == key:
                return bound
        raise KeyError(
            f"no bound is called {key!r}; there are {', '.join(repr(bound.name) for bound in self)}"
        )

    def table(self) -> Table:
        """Return the table of all bounds: name, kind, loss, rate, setting, smallest k, status and
        citation.
        """
        keys = (
            "name",
            "kind",
            "quantity",
            "rate",
            "ordering",
            "regularization",
            "min_k",
            "status",
            "citation",
        )
        return Table(
            "Published bounds", {key: [getattr(bound, key) for bound in self] for key in keys}
        )

    def __repr__(self) -> str:
        columns = self.table().columns
        return Table(
            "", {key: columns[key] for key in ("name", "kind", "quantity", "rate", "status")}
        ).text()

    def _repr_html_(self) -> str:
        return html.titled(self.table())


catalogue = Catalogue(_ENTRIES)
