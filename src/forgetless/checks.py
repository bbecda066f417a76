"""Conformance checks of custom filters, schedules and orderings.

Every filter, schedule and ordering of this package passes them in its tests. A check raises
:class:`forgetless.CheckError` with the property that fails and the numbers that show it.
"""

import copy
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from forgetless.engines.expectation import expect
from forgetless.engines.problem import check_law
from forgetless.engines.simulation import simulate
from forgetless.equation import step
from forgetless.errors import CheckError
from forgetless.filters import Filter, Ridge
from forgetless.metrics import METRICS
from forgetless.orderings import BLOCK, Draws, Epochs, Law, OneOrder, Ordering
from forgetless.schedules import Schedule, resolve
from forgetless.tasks import TaskCollection

__all__ = ["check_filter", "check_ordering", "check_schedule"]

# eigenvalues at which a filter is evaluated, for tasks of radius 1
_XI = np.array([1e-3, 0.02, 0.3, 1.0])
_RUNS = 2000


def check_filter(filter: Filter) -> None:
    """Raise CheckError unless factors, per-step values, derivatives and steps of a filter agree
    with each other.

    Parameters
    ----------
    filter : Filter
        With parameters for tasks of radius 1; constant, or with one value per step.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> import numpy as np
    >>> import forgetless as fl
    >>> @dataclass(frozen=True, eq=False)
    ... class GradientFlow(fl.Filter):
    ...     time: float
    ...     def formula(self, eigenvalues):
    ...         return -np.expm1(-self.time * eigenvalues)
    >>> fl.checks.check_filter(GradientFlow(2.0))
    >>> fl.checks.check_filter(GradientFlow(np.array([1.0, 2.0, 4.0])))
    """
    if not isinstance(filter, Filter):
        raise CheckError(f"a filter must inherit from fl.Filter, got {type(filter).__name__}")
    name = type(filter).__name__
    _check_factors(name, filter)
    _check_copies(name, filter)
    for t in range(filter.horizon or 1):
        now = filter if filter.horizon is None else filter.at(t)
        _check_derivatives(name, now)
        _check_scaling(name, now)
        _check_step(name, now)


def _check_factors(name: str, filter: Filter) -> None:
    xi = np.concatenate([[0.0], _XI])
    factors, shape = (
        np.asarray(filter.factors(xi)),
        (() if filter.horizon is None else (filter.horizon,)) + xi.shape,
    )
    _require(
        factors.shape == shape,
        f"{name}.factors must give one factor per eigenvalue: shape {shape}, got {factors.shape}",
    )
    _require(
        bool(np.isfinite(factors).all()),
        f"{name}.factors must be finite, got {factors.ravel().tolist()}",
    )
    _require(
        bool((factors[..., 0] == 0).all()), f"{name}.factors must be 0 at 0, got {factors[..., 0]}"
    )
    inside = bool((factors >= -1e-12).all() and (factors <= 2 + 1e-12).all())
    _require(
        inside, f"{name}.factors must lie in [0, 2], got {factors.min():.6g} to {factors.max():.6g}"
    )
    _same(
        f"{name}.factors_of_singular(s) must be φ(s²)",
        filter.factors_of_singular(np.sqrt(xi)),
        factors,
    )
    _same(
        f"{name}.residual_factors(s) must be 1 − φ(s²)",
        filter.residual_factors(np.sqrt(xi)),
        1 - factors,
    )
    _same(
        f"{name}.factor_at_radius(1) must be φ(1)", filter.factor_at_radius(1.0), factors[..., -1]
    )
    if filter.horizon is not None:
        for t in range(filter.horizon):
            _same(f"{name}.at({t}) must be step {t + 1}", filter.at(t).factors(xi), factors[t])
        _same(
            f"{name}.at(slice) must be those steps",
            filter.at(slice(0, filter.horizon)).factors(xi),
            factors,
        )


def _check_copies(name: str, filter: Filter) -> None:
    twin = copy.deepcopy(filter)
    try:
        alike = bool(twin == filter) and hash(twin) == hash(filter)
    except (TypeError, ValueError):  # raised by the comparison of a dataclass with arrays
        alike = False
    _require(
        alike,
        f"{name} must compare and hash by value; declare it as @dataclass(frozen=True, eq=False)",
    )


def _check_derivatives(name: str, filter: Filter) -> None:
    h = 1e-5 * _XI
    differences = (filter.factors(_XI + h) - filter.factors(_XI - h)) / (2 * h)
    _same(f"{name}.derivative must be φ'", filter.derivative(_XI), differences, 1e-5, 4e-16 / h)
    slope = np.asarray(filter.slope())
    if np.isfinite(slope):
        tiny = 1e-7 / max(1.0, float(slope))
        _same(
            f"{name}.slope must be φ'(0)",
            slope,
            float(np.asarray(filter.factors(np.array([tiny]))[0])) / tiny,
            1e-4,
        )
        _same(
            f"{name}.strength must be 1/φ'(0)",
            filter.strength(),
            np.inf if slope == 0 else 1 / slope,
            1e-6,
        )
    s = np.sqrt(_XI)
    for parameter, slopes in filter.parameter_derivatives(s).items():
        value = getattr(filter, parameter, None)
        if value is None:
            continue  # of a filter inside this one
        expected = filter._by_differences(parameter, value, s)
        rounding = 4e-16 / (1e-5 * abs(float(value))) if value else 0.0
        _same(
            f"{name}.sensitivities[{parameter!r}] must be ∂φ/∂{parameter}",
            slopes,
            expected,
            1e-4,
            rounding,
        )


def _check_scaling(name: str, filter: Filter) -> None:
    for factor in (0.25, 9.0):
        _same(
            f"{name}.scaled({factor}) at {factor}·ξ must be φ(ξ)",
            filter.scaled(factor).factors(factor * _XI),
            filter.factors(_XI),
        )


def _check_step(name: str, filter: Filter) -> None:
    """Compare the step on one task, by its spectrum and as a one-shot task, with a dense
    eigendecomposition.
    """
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3, 5))
    X /= np.linalg.norm(X, 2)
    y, w = rng.standard_normal(3), rng.standard_normal(5)
    eigenvalues, vectors = np.linalg.eigh(X.T @ X)
    eigenvalues = np.where(eigenvalues > 1e-12, eigenvalues, 0.0)
    expected = w - vectors @ (
        np.asarray(filter.factors(eigenvalues)) * (vectors.T @ (w - np.linalg.pinv(X) @ y))
    )
    task = TaskCollection([(X, y)])[0]
    _same(
        f"{name}: fl.step(w, task) must be w − φ(XᵀX)(w − X⁺y)",
        step(w, task, filter),
        expected,
        1e-8,
    )
    _same(
        f"{name}: fl.step(w, (X, y)) must be w − φ(XᵀX)(w − X⁺y)",
        step(w, (X, y), filter),
        expected,
        1e-8,
    )


def check_schedule(
    schedule: Schedule | Filter, ks: Any = (3, 10, 101), radii: Any = (0.3, 1.0, 20.0)
) -> None:
    """Raise CheckError unless a schedule returns, reproducibly, a contracting filter of k steps for
    every k and radius.

    Parameters
    ----------
    schedule : callable (k, radius) → filter, or filter
    ks : sequence of int, default (3, 10, 101)
        Numbers of steps for which the schedule is defined.
    radii : sequence of float, default (0.3, 1.0, 20.0)
        Radii of tasks for which the schedule is defined.

    Examples
    --------
    >>> import numpy as np
    >>> import forgetless as fl
    >>> def linear(k, radius):
    ...     return fl.Ridge(radius**2 * np.arange(1, k + 1))
    >>> fl.checks.check_schedule(linear)
    """
    for k, radius in itertools.product(ks, radii):
        subject = f"schedule({k}, {radius})"
        try:
            filter_, again = (resolve(schedule, k, radius) for _ in range(2))
        except Exception as error:  # a user's function may raise anything
            raise CheckError(f"{subject} failed: {type(error).__name__}: {error}") from error
        _require(
            filter_ == again, f"{subject} must be the same each time, got {filter_!r} and {again!r}"
        )
        s = radius * np.sqrt(_XI)
        residuals = np.asarray(filter_.residual_factors(s))
        _require(
            bool(np.isfinite(residuals).all()),
            f"{subject} must have finite factors at singular values {s.tolist()}",
        )
        worst = float(np.abs(residuals).max())
        _require(
            worst <= 1 + 1e-9,
            f"{subject} makes errors grow by a factor {worst:.6g} on tasks of that radius",
        )
        for t in range(k if filter_.horizon is not None and k <= 10 else 0):
            _same(
                f"{subject}.at({t}) must be step {t + 1}",
                filter_.at(t).residual_factors(s),
                residuals[t],
            )


def check_ordering(ordering: Ordering, n_tasks: int = 4, k: int = 8) -> None:
    """Raise CheckError unless an ordering samples reproducibly, and according to its law if it has
    one.

    Frequencies and simulated means may differ by five standard errors.

    Parameters
    ----------
    ordering : Ordering
    n_tasks, k : int
        Numbers of tasks and steps for which the ordering is defined.

    Examples
    --------
    >>> import forgetless as fl
    >>> fl.checks.check_ordering(fl.WithReplacement([0.5, 0.25, 0.125, 0.125]))
    """
    if not isinstance(ordering, Ordering):
        raise CheckError(
            f"an ordering must inherit from fl.orderings.Ordering, got {type(ordering).__name__}"
        )
    name = type(ordering).__name__
    try:
        ordering.check(n_tasks, k)
    except ValueError as error:
        raise CheckError(
            f"{name} is not defined for {k} steps over {n_tasks} tasks ({error}); give others"
        ) from error
    orders = _sampled(ordering, n_tasks, k, 4000).astype(np.int64)
    alike = np.array_equal(orders[:3], _sampled(ordering, n_tasks, k, 3))
    _require(
        alike,
        f"{name}: a seed must give the same trials each time, however many; draw from rng alone",
    )
    law = ordering.law(n_tasks, k)
    if law is not None:
        try:
            check_law(law, ordering, n_tasks, k)
        except (TypeError, ValueError) as error:
            raise CheckError(str(error)) from error
        for problem in _disagreements(name, law, orders, n_tasks):
            raise CheckError(problem)
        _check_exact(name, ordering, n_tasks, k)
    try:
        ordering.check(n_tasks, 2 * BLOCK + 1)
    except ValueError:
        return  # not defined for so many steps
    _sampled(ordering, n_tasks, 2 * BLOCK + 1, 1)  # blocks of the right sizes


def _sampled(ordering: Ordering, n_tasks: int, k: int, n_trials: int) -> Any:
    try:
        return ordering.sample(n_tasks, k, seed=0, n_trials=n_trials)
    except Exception as error:  # a user's method may raise anything
        raise CheckError(f"{type(ordering).__name__}.blocks failed for k={k}: {error}") from error


def _disagreements(name: str, law: Law, orders: Any, n_tasks: int) -> Iterator[str]:
    n_trials, k = orders.shape
    if isinstance(law, OneOrder):
        expected = [law.at(t) for t in range(k)]
        if not (orders == expected).all():
            yield (
                f"{name}.law says the order {expected[:10]}, but samples are"
                f" {orders[0, :10].tolist()}"
            )
        return
    p = law.probabilities if isinstance(law, Draws) else np.full(n_tasks, 1 / n_tasks)
    for t in range(k):
        frequencies = np.bincount(orders[:, t], minlength=n_tasks) / n_trials
        if np.any(np.abs(frequencies - p) > 5 * np.sqrt(p * (1 - p) / n_trials) + 25 / n_trials):
            yield (
                f"{name}.law draws tasks with {p.tolist()} at step {t + 1}, samples with"
                f" {frequencies.tolist()}"
            )
    if isinstance(law, Epochs):
        yield from _epoch_disagreements(name, orders, n_tasks)
    elif k > 1:
        same, chance = float(np.mean(orders[:, 1:] == orders[:, :-1])), float(p @ p)
        # Neighbouring pairs overlap, which at most doubles the variance of their frequency.
        if abs(same - chance) > 5 * np.sqrt(2 * chance / (n_trials * (k - 1))) + 1e-12:
            yield (
                f"{name}.law says independent draws, which repeat a task with {chance:.4g}; samples"
                f" with {same:.4g}"
            )


def _epoch_disagreements(name: str, orders: Any, n_tasks: int) -> Iterator[str]:
    n_trials, k = orders.shape
    for first in range(0, k, n_tasks):
        epoch = np.sort(orders[:, first : first + n_tasks], axis=1)
        if (np.diff(epoch, axis=1) == 0).any():
            yield f"{name}.law says that no task comes twice in an epoch, but in samples it does"
    if k >= 2 * n_tasks > 2:
        same = float(np.mean(orders[:, :n_tasks] == orders[:, n_tasks : 2 * n_tasks]))
        if abs(same - 1 / n_tasks) > 5 / np.sqrt(n_trials * n_tasks):
            yield (
                f"{name}.law says that epochs are independent; in samples a place keeps its task"
                f" with {same:.4g}"
            )


def _check_exact(name: str, ordering: Ordering, n_tasks: int, k: int) -> None:
    law = ordering.law(n_tasks, k)
    if isinstance(law, Draws) and _RUNS * k * law.probabilities[law.probabilities > 0].min() < 50:
        return  # tasks this rare hardly occur in the runs
    rng = np.random.default_rng(1)
    tasks = TaskCollection(
        [(rng.standard_normal((1, 3)), rng.standard_normal(1)) for _ in range(n_tasks)]
    )
    filter_ = Ridge(tasks.radius**2 * np.linspace(1.0, 0.1, k))
    exact = expect(tasks, filter_, k, ordering=ordering, metrics=METRICS)
    runs = simulate(
        tasks,
        filter_,
        k,
        ordering=ordering,
        n_trials=_RUNS,
        seed=2,
        record="last",
        keep_weights=False,
    )
    scale = float(exact.average_loss[-1] + exact.seen_loss[-1])
    for metric in METRICS:
        values = np.asarray(getattr(runs, metric))[:, -1]
        error, gap = (
            values.std(ddof=1) / np.sqrt(len(values)),
            abs(values.mean() - float(getattr(exact, metric)[-1])),
        )
        _require(
            gap <= 5 * error + 1e-9 * scale,
            f"{name}: the exact {metric} is {float(getattr(exact, metric)[-1]):.6g}, the mean of"
            f" {_RUNS} runs {values.mean():.6g} ± {error:.1g}; law() and blocks() disagree",
        )


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise CheckError(message)


def _same(
    message: str, value: Any, expected: Any, tolerance: float = 1e-8, rounding: Any = 0.0
) -> None:
    a, b = np.broadcast_arrays(
        np.asarray(value, dtype=np.float64), np.asarray(expected, dtype=np.float64)
    )
    close = np.abs(a - b) <= tolerance * np.abs(b) + 1e-3 * tolerance + rounding
    close |= a == b  # infinities
    if not close.all():
        at = int(np.argmin(close))
        raise CheckError(
            f"{message}; it is {a.ravel()[at]:.9g} where {b.ravel()[at]:.9g} is expected"
        )
