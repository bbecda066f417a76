"""Bounds for tasks of two classes beside simulated losses; theorems and proofs are in README.md.

All are about the loss on the next task, or its wrong rows, in exchangeable orders: uniform draws
with replacement, or without and k < M. R is the radius of the tasks, β the smoothness of the loss,
G = R√n the Lipschitz constant of the hinge, D = ‖w₀ − w⋆‖ with the nearest w⋆ to the start that has
all margins at least 1.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

import forgetless as fl
from forgetless.errors import ConvergenceError
from research.two_class.laboratory import SignedRows, max_margin, simulate, strengths
from research.two_class.losses import LOSSES, Loss, lipschitz, named
from research.two_class.solvers import Floats, proximal_change

CLOSE = 1e-9
"""Relative tolerance within which numbers count as those of a theorem."""


@dataclass(frozen=True, eq=False)
class Setting:
    """What the hypotheses and values of the bounds depend on."""

    tasks: fl.TaskCollection
    loss: Loss
    coefficients: Floats  # λ_1..λ_k
    ordering: Any
    start: Floats

    @property
    def k(self) -> int:
        """The number of steps."""
        return len(self.coefficients)

    @cached_property
    def rows(self) -> SignedRows:
        """The rows of all tasks times their labels."""
        return SignedRows.of(self.tasks)

    @cached_property
    def distance(self) -> float:
        """D; infinite if the rows are not separable."""
        nearest = max_margin(self.tasks, self.start).weights
        return math.inf if nearest is None else float(np.linalg.norm(self.start - nearest))

    @cached_property
    def eta(self) -> float | None:
        """η if β/(β + λ_t) = η(k+1−t)/(k+1) at every step, as of the minimax schedule."""
        smoothness = self.loss.smoothness(self.tasks.radius)
        if smoothness == math.inf:
            return None
        factors = smoothness / (smoothness + self.coefficients)
        etas = factors * (self.k + 1) / np.arange(self.k, 0, -1)
        if np.ptp(etas) > CLOSE * etas[0] or etas[0] > 1 + CLOSE:
            return None
        return float(etas[0]) if etas[0] < 1 - CLOSE else 1.0

    @cached_property
    def strength(self) -> float | None:
        """λ_t(k−t+2)/(k+1) if it is one positive number, as of increasing schedules."""
        scales = self.coefficients * np.arange(self.k + 1, 1, -1) / (self.k + 1)
        if scales[0] == 0 or np.ptp(scales) > CLOSE * scales[0]:
            return None
        return float(scales[0])

    @property
    def with_replacement(self) -> bool:
        """Whether tasks are drawn uniformly with replacement."""
        return isinstance(self.ordering, fl.WithReplacement) and _uniform(self.ordering)

    @property
    def without_replacement(self) -> bool:
        """Whether tasks are drawn without replacement, and there is a next one."""
        return isinstance(self.ordering, fl.WithoutReplacement) and self.k < self.tasks.n_tasks

    @property
    def orthonormal(self) -> bool:
        """Whether the tasks are k + 1 orthogonal rows of one norm, one each, from the origin."""
        if not np.all(self.rows.counts == 1) or self.tasks.n_tasks != self.k + 1:
            return False
        gram = self.rows.A @ self.rows.A.T
        return not self.start.any() and np.allclose(gram, gram[0, 0] * np.eye(self.k + 1))

    def least(self, factor: float, per_square: float) -> float:
        """Return the smallest factor·f̄(w) + per_square·‖w − w₀‖² over all w, f̄ the mean loss."""
        # It is factor/M times the loss of all rows with a proximal term.
        n_tasks = self.tasks.n_tasks
        coefficient = 2.0 * per_square * n_tasks / factor
        try:
            change = proximal_change(self.rows.A, self.start, coefficient, self.loss)
        except ConvergenceError:  # every w proves a bound, the start too
            change = np.zeros_like(self.start)
        losses = self.loss.value(self.rows.A @ (self.start + change))
        return float(factor * losses.sum() / n_tasks + per_square * change @ change)


def _uniform(ordering: fl.WithReplacement) -> bool:
    return ordering.probabilities is None or np.ptp(ordering.probabilities) < CLOSE


def noise_factor(k: int, eta: float) -> float:
    """Return C = (1 + Σ_t 1/(1 − κ_t))/((1 − η)(k+1)), κ_t = η(k+1−t)/(k+1), of Theorem N.

    Examples
    --------
    >>> round(noise_factor(1000, 0.01), 3)
    1.015
    """
    kappa = eta * np.arange(k, 0, -1) / (k + 1)
    return float((1.0 + np.sum(1.0 / (1.0 - kappa))) / ((1.0 - eta) * (k + 1)))


@dataclass(frozen=True)
class Bound:
    """A theorem: ``reason`` says why it does not apply, empty if it does; ``value`` is the bound.

    ``quantity`` is "next_loss" or "wrong_rows", ``kind`` "upper" or "lower", ``loss`` the name of
    the loss whose steps it is about.
    """

    name: str
    kind: str
    quantity: str
    loss: str
    reason: Callable[[Setting], str]
    value: Callable[[Setting], float]


def _no_minimax(s: Setting) -> str:
    if s.eta is None:
        return "β/(β + λ_t) is not η(k+1−t)/(k+1), as of schedules.minimax(eta=η)"
    return _not_exchangeable(s)


def _not_exchangeable(s: Setting) -> str:
    if s.with_replacement or s.without_replacement:
        return ""
    return "the order is not exchangeable with one task more to come"


def _no_separable_minimax(s: Setting) -> str:
    return _no_minimax(s) if s.distance < math.inf else "the rows are not separable"


def _no_oracle(s: Setting) -> str:
    return "η is 1; use schedules.minimax(eta=…)" if s.eta == 1 else _no_minimax(s)


def _no_increasing(s: Setting) -> str:
    if s.strength is None:
        return "λ_t do not increase as (k+1)/(k−t+2), as of schedules.increasing()"
    return _not_exchangeable(s)


def _minimax_value(s: Setting) -> float:
    """Theorem X′: R²D²/(2η(k+1))."""
    assert s.eta is not None
    return s.tasks.radius**2 * s.distance**2 / (2 * s.eta * (s.k + 1))


def _wrong_rows_value(s: Setting) -> float:
    """Theorem X′ with [m ≤ 0] ≤ max(0, 1 − m)²: twice the squared hinge."""
    return 2 * _minimax_value(s)


def _oracle_value(s: Setting) -> float:
    """Theorem N: β‖w − w₀‖²/(2η(k+1)) + C·f̄(w) at its best w."""
    assert s.eta is not None
    per_square = s.loss.smoothness(s.tasks.radius) / (2 * s.eta * (s.k + 1))
    return s.least(noise_factor(s.k, s.eta), per_square)


def _increasing_value(s: Setting) -> float:
    """Theorem H for λ_t = s(k+1)/(k−t+2), at its best w."""
    assert s.strength is not None
    square = lipschitz(s.tasks.radius, int(s.rows.counts.max())) ** 2
    per_square = s.strength * (s.k + 1) / (2 * (s.k + 2) ** 2)
    return s.least(1.0, per_square) + square * (s.k + 2) / (s.strength * (s.k + 1))


def _lower(loss: Loss, quantity: str, *, once: bool) -> Bound:
    """Return the bound for any algorithm on k + 1 orthonormal rows with random labels.

    A row that was not seen has a loss of at least ½(ℓ(m) + ℓ(−m)) ≥ ℓ(0), and is wrong with
    probability ½.
    """
    at_zero = 0.5 if quantity == "wrong_rows" else float(loss.value(0.0))

    def reason(s: Setting) -> str:
        if not (s.without_replacement if once else s.with_replacement):
            return "the order is another one"
        return "" if s.orthonormal else "the tasks are not k + 1 orthonormal rows, one each"

    def value(s: Setting) -> float:
        return at_zero if once else at_zero * (1 - 1 / (s.k + 1)) ** s.k

    name = "any algorithm, each row once" if once else "any algorithm"
    return Bound(name, "lower", quantity, loss.name, reason, value)


_NEXT = ("upper", "next_loss")

CATALOGUE = [
    Bound("minimax", *_NEXT, "squared_hinge", _no_separable_minimax, _minimax_value),
    Bound(
        "minimax, wrong rows",
        "upper",
        "wrong_rows",
        "squared_hinge",
        _no_separable_minimax,
        _wrong_rows_value,
    ),
    Bound("oracle", *_NEXT, "squared_hinge", _no_oracle, _oracle_value),
    Bound("oracle", *_NEXT, "logistic", _no_oracle, _oracle_value),
    Bound("increasing", *_NEXT, "hinge", _no_increasing, _increasing_value),
    *(_lower(loss, "next_loss", once=False) for loss in LOSSES.values()),
    *(_lower(loss, "next_loss", once=True) for loss in LOSSES.values()),
    *(_lower(loss, "wrong_rows", once=False) for loss in LOSSES.values()),
    *(_lower(loss, "wrong_rows", once=True) for loss in LOSSES.values()),
]
"""All bounds."""


@dataclass(frozen=True)
class Check:
    """A bound on the tasks at hand: its ``value`` where it applies, else None and the reason."""

    bound: Bound
    value: float | None
    reason: str


@dataclass(frozen=True)
class Comparison:
    """Means over simulated runs, their standard errors, and the bounds.

    ``means`` and ``errors`` have "average_loss" and, where the order is exchangeable, "next_loss"
    and "wrong_rows", the number of wrong rows of the next task.
    """

    means: dict[str, float]
    errors: dict[str, float]
    checks: list[Check]

    def values(self, kind: str, quantity: str) -> list[float]:
        """Return the values of the bounds that apply."""
        wanted = (kind, quantity)
        chosen = [each for each in self.checks if (each.bound.kind, each.bound.quantity) == wanted]
        return [each.value for each in chosen if each.value is not None]


def compare_bounds(
    tasks: fl.TaskCollection,
    schedule: Any,
    k: int,
    *,
    loss: Loss | str,
    ordering: Any = None,
    n_trials: int = 100,
    seed: Any = 0,
    start: Any = None,
) -> Comparison:
    """Return simulated losses beside every bound for the loss, and why some do not apply.

    The arguments are those of ``simulate``.

    Examples
    --------
    The minimax schedule on the squared hinge has at most (R/γ)²/(k+1) wrong rows on the next task.

    >>> tasks = fl.TaskCollection([([[1.0, 0.0]], [1]), ([[0.6, -0.8]], [-1]), ([[0.0, 1.0]], [1])])
    >>> c = compare_bounds(tasks, fl.schedules.minimax(), k=20, loss="squared_hinge")
    >>> [round(c.values("upper", name)[0], 3) for name in ("next_loss", "wrong_rows")]
    [0.119, 0.238]
    """
    loss = named(loss)
    chosen = fl.WithReplacement() if ordering is None else ordering
    first = np.zeros(tasks.n_features) if start is None else np.asarray(start, dtype=np.float64)
    coefficients = strengths(SignedRows.of(tasks), schedule, k, tasks.radius, loss)
    setting = Setting(tasks, loss, coefficients, chosen, first)
    samples = _samples(setting, n_trials, seed)
    checks = []
    for bound in CATALOGUE:
        if bound.loss == loss.name:
            reason = bound.reason(setting)
            checks.append(Check(bound, None if reason else bound.value(setting), reason))
    means = {name: float(values.mean()) for name, values in samples.items()}
    deviations = {name: float(values.std(ddof=1)) for name, values in samples.items()}
    errors = {name: each / math.sqrt(n_trials) for name, each in deviations.items()}
    return Comparison(means, errors, checks)


def _samples(s: Setting, n_trials: int, seed: Any) -> dict[str, Floats]:
    """Return losses after the last step of every run, and on the next task."""
    if n_trials < 2:
        raise ValueError(f"n_trials must be at least 2 for standard errors, got {n_trials}")
    filter_ = fl.Ridge(s.coefficients) if np.all(s.coefficients > 0) else fl.Projection()
    runs = simulate(
        s.tasks,
        filter_,
        s.k,
        loss=s.loss,
        ordering=s.ordering,
        n_trials=n_trials,
        seed=seed,
        start=s.start,
    )
    losses = runs.task_losses[:, -1]
    samples = {"average_loss": losses.mean(axis=1)}
    if not _not_exchangeable(s):
        next_task = np.ones_like(losses)
        if s.without_replacement:
            np.put_along_axis(next_task, runs.order, 0.0, axis=1)
        next_task /= next_task.sum(axis=1, keepdims=True)
        wrong = s.rows.by_task((runs.margins[:, -1] <= 0).astype(np.float64))
        samples["next_loss"] = np.sum(next_task * losses, axis=1)
        samples["wrong_rows"] = np.sum(next_task * wrong, axis=1)
    return samples
