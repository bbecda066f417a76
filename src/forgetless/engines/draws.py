"""The exact engine for independent draws: expected metrics forwards, the loss as a form of the
start backwards.

Steps are made one by one, or, for a fixed filter, all at once by powers of the operator on second
moments.
"""

import itertools
from typing import Any, Literal

import numpy as np

from forgetless._core.arrays import Array, Floats, from_numpy, namespace_of, to_numpy
from forgetless._core.validate import check_memory
from forgetless.engines.averaged import AveragedRun, average_backwards, left_of_averages
from forgetless.engines.independent import IndependentRun, Operator
from forgetless.engines.moments import Moments, average_form, linear_moments, moments_for, repeated
from forgetless.engines.powers import DENSE_LIMIT, Spectral, Squaring, lanczos_power
from forgetless.engines.problem import Computed, Forms, Problem
from forgetless.engines.rounding import SAFETY, Rounding, diagonal_roots
from forgetless.metrics import follows_drift, follows_path, mean_of
from forgetless.orderings import Draws
from forgetless.reporting.progress import Progress

Method = Literal["auto", "steps", "dense", "lanczos"]
_METHODS = ("auto", "steps", "dense", "lanczos")


def method_of(problem: Problem, method: str) -> dict[str, Any]:
    """Return the validated method as an option of the engine of a problem: only independent draws
    have several.
    """
    if method not in _METHODS:
        raise ValueError(f'method must be "auto", "steps", "dense" or "lanczos", got {method!r}')
    if isinstance(problem.law, Draws):
        return {"method": method}
    if method in ("dense", "lanczos"):
        raise ValueError(f"method={method!r} needs draws with replacement; leave it at 'auto'")
    return {}


def expectations(
    problem: Problem,
    origin: Array,
    names: tuple[str, ...],
    report_progress: Progress,
    method: Method = "auto",
) -> Computed:
    """Return the expected metrics at the recorded steps, learned from ``origin``."""
    moments = moments_for(problem.tasks, origin, names, problem.other)
    if problem.average is not None:
        problem.only_average_loss(names)
        _steps_only(problem, method)
        return _step_by_step(problem, moments, origin, names, report_progress)
    powers = problem.constant and names == ("average_loss",) and problem.disturbance is None
    if not powers and method in ("dense", "lanczos"):
        raise ValueError(
            f"method={method!r} needs fixed filters and metrics='average_loss', without noise and"
            " drift; use method='steps'"
        )
    if powers and method == "lanczos" and not moments.realizable:
        raise ValueError("method='lanczos' needs realizable tasks; use method='dense' or 'steps'")
    if method != "auto":
        return _computed(problem, moments, origin, names, report_progress, method)
    method = cheapest(problem, moments.size, moments.realizable) if powers else "steps"
    result = _computed(problem, moments, origin, names, report_progress, method)
    steps = (
        float(problem.k) * len(problem.filters) * float(problem.tasks.offsets[-1]) * moments.size**2
    )
    if method == "steps" or max(result.errors.values()) <= _BLURRED or steps > _AFFORDABLE:
        return result
    # Powers of a matrix lose digits that single steps do not.
    again = _computed(problem, moments, origin, names, report_progress, "steps")
    return again if max(again.errors.values()) < max(result.errors.values()) else result


_BLURRED = 1e-8  # relative error of powers from which on they are replaced by steps
_AFFORDABLE = 3e9  # most operations of these steps, about a second


def _computed(
    problem: Problem,
    moments: Moments,
    origin: Array,
    names: tuple[str, ...],
    report_progress: Progress,
    method: str,
) -> Computed:
    """Return the expected metrics by one method."""
    if method == "steps":
        return _step_by_step(problem, moments, origin, names, report_progress)
    rounding = Rounding.of(moments, origin, len(problem.filters))
    operator, form = Operator(moments, problem.probabilities), average_form(moments)
    factors = from_numpy(problem.factors(0, 1)[:, 0, :], like=moments.left)
    if method == "dense":
        dense: Spectral | Squaring = (
            Spectral(operator, moments.size, factors)
            if moments.realizable
            else Squaring(operator, moments.size, factors, units=_units(moments, form))
        )
        values, error = dense.form(moments.start, form, problem.steps), 1e-15 * problem.k
        uncertainty = 0.5 * SAFETY * dense.uncertainty(moments.start, form, problem.steps)
    else:
        values, error = _by_lanczos(problem, moments, operator, factors, form)
        uncertainty = np.zeros(values.shape)
    # The form already divides by the number of tasks.
    average = mean_of("average_loss", 0.5 * values, 1, float(problem.tasks.floors.mean()))
    report_progress(problem.k, problem.k, "steps")
    rounding.learned(to_numpy(factors))
    decay = Decay.of(problem, moments)
    for step in problem.steps.tolist():
        if method == "dense":
            rounding.recorded(
                diagonal_roots(to_numpy(dense.powers(moments.start, step))), decay(step)
            )
        # a Krylov space is followed backwards, and its own error contains the rounding of forms
        else:
            rounding.recorded(
                np.zeros((moments.size, len(problem.filters))), np.zeros(len(problem.filters))
            )
    curves = {"average_loss": average}
    errors = _errors(problem, curves, rounding)
    return Computed.of(
        curves, method, {"average_loss": errors["average_loss"] + error * average + uncertainty}
    )


def _units(moments: Moments, form: Array) -> Floats:
    """Return units in which every coordinate has the size of its contribution to the loss, or 1
    where it has none.
    """
    weights, sizes = (
        np.sqrt(np.maximum(np.diagonal(to_numpy(each)), 0.0)) for each in (form, moments.start)
    )
    inverse = np.divide(1.0, sizes, out=np.ones_like(sizes), where=sizes > 0)
    return np.asarray(np.where(weights > 0, weights, inverse))


class Decay:
    """A bound on the remaining fraction of a squared error after t steps of a fixed filter on
    realizable tasks; else 1.

    The trace of a second moment shrinks by the largest eigenvalue of Σ_m p_m Λ_m², one less the
    smallest of Vᵀ diag(pφ(2 − φ)) V. Errors made at all steps add up to at most t times as much.
    """

    def __init__(self, rates: Floats) -> None:
        self.rates = rates

    @classmethod
    def of(cls, problem: Problem, moments: Moments) -> "Decay":
        """Return the decay of the schedules of a problem."""
        n_problems = len(problem.filters)
        if not (moments.realizable and problem.constant and moments.size):
            return cls(np.zeros(n_problems))
        factors, D = problem.factors(0, 1)[:, 0, :], to_numpy(moments.left)
        gains = (
            np.repeat(problem.probabilities, problem.tasks.ranks)[:, None]
            * factors
            * (2.0 - factors)
        )
        rates = [
            float(np.linalg.eigvalsh(D.T @ (gains[:, b : b + 1] * D))[0]) for b in range(n_problems)
        ]
        return cls(np.clip(rates, 0.0, 1.0 - 1e-15))  # factors are rounded: nothing vanishes

    def __call__(self, step: int) -> Floats:
        return np.minimum(1.0, max(1, step) * (1.0 - self.rates) ** max(0, step - 1))


_ACCURATE = 1e-9  # relative error above which the decay of errors is computed
_PIECES = 48  # pieces of a schedule whose decay is computed


def _varying_decay(problem: Problem, pieces: list[tuple[int, Floats]]) -> list[Floats]:
    """Return the remaining fraction of early errors at every recorded step, from rates of decay in
    pieces.
    """
    n_problems, first = len(problem.filters), 0
    left, fastest, remaining = np.zeros(n_problems), np.zeros(n_problems), {0: np.ones(n_problems)}
    for stop, rates in pieces:
        left, fastest = left + (stop - first) * np.log1p(-rates), np.maximum(fastest, rates)
        remaining[stop] = np.minimum(1.0, stop * np.exp(left) / (1.0 - fastest))
        first = stop
    return [remaining[step] for step in problem.steps.tolist()]


def _rates(problem: Problem, moments: Moments) -> list[tuple[int, Floats]]:
    """Return the ends of pieces of the schedules, and lower bounds (B,) of the rates of decay of
    squared errors.

    In each piece the smallest gain along every singular vector bounds the rate from below.
    """
    D, last = to_numpy(moments.left), int(problem.steps[-1])
    if problem.constant:
        return [(last, Decay.of(problem, moments).rates)]
    weights = np.repeat(problem.probabilities, problem.tasks.ranks)[:, None]
    grid = np.linspace(0, last, _PIECES + 1).astype(int).tolist() if moments.size else []
    stops = sorted(
        {*grid, *range(0, last, problem.steps_at_once), *problem.steps.tolist(), 0, last}
    )
    pieces = []
    for first, stop in itertools.pairwise(stops):
        factors = problem.factors(first, stop)
        gains = weights * np.min(factors * (2.0 - factors), axis=1)
        rates = np.linalg.eigvalsh(D.T @ (gains.T[:, :, None] * D)).min(axis=1, initial=1.0)
        pieces.append((stop, np.asarray(np.clip(rates, 0.0, 1.0 - 1e-15))))
    return pieces


def _steps_only(problem: Problem, method: str) -> None:
    if method in ("dense", "lanczos"):
        raise ValueError(
            f"method={method!r} cannot follow average={problem.average:g}; use method='steps' or"
            " 'auto'"
        )


def _errors(problem: Problem, curves: dict[str, Floats], rounding: Rounding) -> dict[str, Floats]:
    return rounding.errors(curves, problem.steps, problem.probabilities)


def _step_by_step(
    problem: Problem,
    moments: Moments,
    origin: Array,
    names: tuple[str, ...],
    report_progress: Progress,
) -> Computed:
    """Return the expected metrics of the iterates, or of their averages."""
    n_problems, Q, averaged = len(problem.filters), moments.size, problem.average is not None
    squares, products = (11.0, 4.0) if averaged else (5.0, 3.0)
    check_memory(
        n_problems * (squares * Q**2 + products * moments.left.shape[0] * Q),
        f"{'averages of ' if averaged else ''}{n_problems} schedules in {Q} coordinates",
        "ask for fewer schedules at once, or use simulate",
    )
    run: AveragedRun | IndependentRun = (
        AveragedRun(problem, moments)
        if averaged
        else IndependentRun.of(
            problem, moments, path=follows_path(names), drift=follows_drift(names)
        )
    )
    rounding = Rounding.of(moments, origin, n_problems, problem.other)
    needed = (
        names
        if problem.disturbance is None or not follows_path(names)
        else (*names, *{"seen_loss"} - {*names})
    )
    curves = _followed(
        problem, run, needed, (rounding, Decay.of(problem, moments)), report_progress
    )
    errors = _errors(problem, curves, rounding)
    if problem.disturbance is not None:
        errors = problem.disturbance.errors(errors, curves, moments, problem.probabilities)
        return Computed.of({name: curves[name] for name in names}, "steps", errors)
    result = Computed.of(curves, "steps", errors)
    fixed = problem.constant and not averaged  # then the decay has been used already
    if result.errors.get("average_loss", 0.0) <= _ACCURATE or fixed or not moments.realizable:
        return result
    rates = _rates(problem, moments)
    rounding.left = left_of_averages(problem, rates) if averaged else _varying_decay(problem, rates)
    return Computed.of(curves, "steps", _errors(problem, curves, rounding))


def _followed(
    problem: Problem,
    run: AveragedRun | IndependentRun,
    names: tuple[str, ...],
    bounds: tuple[Rounding, Decay],
    report_progress: Progress,
) -> dict[str, Floats]:
    """Return the curves of a run, adding the sizes at every step to ``bounds``."""
    (rounding, decay), last = bounds, int(problem.steps[-1])
    values = problem.empty_curves(names)
    positions = {int(step): i for i, step in enumerate(problem.steps)}
    stops = sorted({*range(0, last, problem.steps_at_once), *positions, 0, last})
    for first, stop in zip([0, *stops], stops, strict=False):
        if stop > first:
            factors = problem.factors(first, stop)
            run.advance(factors)
            rounding.learned(factors)
        if stop in positions:
            rounding.recorded(run.roots(), None if problem.average is not None else decay(stop))
            for name in names:
                values[name][:, positions[stop]] = run.evaluate(name, stop)
        if stop > first:
            report_progress(stop, problem.k, "steps")
    return values


def _by_lanczos(
    problem: Problem, moments: Moments, operator: Operator, factors: Array, form: Array
) -> tuple[Floats, float]:
    values, worst = np.empty((len(problem.filters), len(problem.steps))), 0.0
    start = to_numpy(moments.start)
    for b, i, V, error in _krylov_forms(operator, form, factors, problem.steps.tolist()):
        form_ = to_numpy(V)
        values[b, i] = float(np.sum(form_ * start))
        # The error is relative to the norm of the form; of the number it may be a larger part.
        size = float(np.linalg.norm(form_) * np.linalg.norm(start))
        worst = max(worst, float(error * size / values[b, i]) if values[b, i] > 0 else 1.0)
    return values, worst


def _krylov_forms(operator: Operator, form: Array, factors: Array, steps: list[int]) -> Any:
    """Yield (schedule, recorded step, form, its relative error)."""
    for b in range(factors.shape[1]):
        for i, step in enumerate(steps):
            V, error = form[:, :, None], 0.0
            if step:
                V, error = lanczos_power(operator, V, factors[:, b : b + 1], step, 1e-12)
            yield b, i, V[:, :, 0], error


def forms(problem: Problem, moments: Moments, method: Method = "auto") -> Forms:
    """Return the average loss after each recorded step as a form of the moments before the first.

    The loss is ½⟨V, S⟩ plus the mean floor for every moment matrix S at the start. The moments may
    be those of tasks that no model fits; the form of the linear maps is then the block of V without
    the extra coordinates.
    """
    operator, form, steps = (
        Operator(moments, problem.probabilities),
        average_form(moments),
        problem.steps.tolist(),
    )
    if problem.average is not None:
        _steps_only(problem, method)
        return Forms.of_curves(
            [average_backwards(problem, moments, form, step) for step in steps], "steps"
        )
    if not problem.constant:
        if method in ("dense", "lanczos"):
            raise ValueError(f"method={method!r} needs fixed filters; use method='steps'")
        return Forms.of_curves(
            [_backwards(problem, moments, form, step) for step in steps], "steps"
        )
    if method == "auto":
        method = cheapest(problem, moments.size, moments.realizable)
    return _fixed_forms(problem, moments, operator, form, method)


def _fixed_forms(
    problem: Problem, moments: Moments, operator: Operator, form: Array, method: str
) -> Forms:
    n_problems, steps = len(problem.filters), problem.steps.tolist()
    factors = from_numpy(problem.factors(0, 1)[:, 0, :], like=form)
    if method == "dense":
        size, self_adjoint = moments.size, moments.realizable
        dense = (
            Spectral(operator, size, factors)
            if self_adjoint
            else Squaring(operator, size, factors, adjoint=True)
        )
        return Forms.of_curves(
            [dense.powers(form, step) for step in steps], "dense", 1e-15 * problem.k
        )
    if method == "lanczos":
        by_schedule: list[list[Array]] = [[] for _ in range(n_problems)]
        worst = 0.0
        for b, _, V, error in _krylov_forms(operator, form, factors, steps):
            by_schedule[b].append(V)
            worst = max(worst, error)
        return Forms(by_schedule, "lanczos", worst)
    xp = namespace_of(form)
    V, curves, done = repeated(form, n_problems), [], 0
    for step in steps:
        for _ in range(step - done):
            V -= operator.decrease_adjoint(V, factors)
        curves.append(xp.asarray(V, copy=True))
        done = step
    return Forms.of_curves(curves, "steps")


def _backwards(problem: Problem, moments: Moments, form: Array, last: int) -> Array:
    """Return V of shape (Q, Q, B) carried from step ``last`` back to the start."""
    # The adjoint of I − Lᵀφ R is the same with L and R exchanged, so the forward run serves, with
    # time reversed.
    swapped = Moments(moments.tasks, moments.right, moments.left, form)
    run = IndependentRun.of(problem, swapped)
    for stop in range(last, 0, -problem.steps_at_once):
        factors = problem.factors(max(0, stop - problem.steps_at_once), stop)
        run.advance(np.ascontiguousarray(factors[:, ::-1, :]))
    return run.S


def left_at(problem: Problem) -> list[Floats]:
    """Return, at every recorded step, the remaining fraction (B,) of squared errors of the first
    forms.
    """
    moments = linear_moments(problem.tasks)
    if problem.average is not None and problem.constant:
        return left_of_averages(problem, _rates(problem, moments))
    decay = Decay.of(problem, moments)
    return [np.broadcast_to(decay(step), len(problem.filters)) for step in problem.steps.tolist()]


def cheapest(problem: Problem, size: int, realizable: bool) -> Method:
    """Return the method with the smallest estimated time: steps, the dense operator or the Krylov
    space.
    """
    n, b = size * (size + 1) / 2, len(problem.filters)
    rows = float(problem.tasks.offsets[-1])
    last = float(problem.steps[-1])
    apply = 3e-5 + 1e-10 * rows * size * size
    costs: dict[Method, float] = {"steps": last * (3e-5 + b * 1e-10 * rows * size * size)}
    if n <= DENSE_LIMIT and b * n * n < 2**27:
        build = b * (1e-4 + 1e-10 * n * rows * size * size)
        factor = 1.5e-10 * n**3 if realizable else 4e-11 * n**3 * np.log2(2 + last)
        costs["dense"] = build + b * (1e-4 + factor)
    if realizable and last > 100:
        vectors = min(n, 20 + 4 * np.sqrt(last))
        costs["lanczos"] = (
            b
            * len(problem.steps)
            * (vectors * (2 * apply + 4e-10 * n * vectors) + 1e-10 * vectors**3)
        )
    return min(costs, key=lambda name: costs[name])
