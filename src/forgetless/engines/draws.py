"""Exact engine for independent draws: expected metrics forwards, the loss as a form of the start backwards.

Steps are made one after the other, or, for a fixed filter, all at once by powers of the operator on second moments.
"""

import itertools
from typing import Any, Literal

import numpy as np

from forgetless._core.arrays import Array, Floats, from_numpy, namespace_of, to_numpy
from forgetless._core.validate import check_memory
from forgetless.engines.averaged import AveragedRun, average_backwards, left_of_averages
from forgetless.engines.independent import IndependentRun
from forgetless.engines.moments import Moments, Operator, average_form, linear_moments, repeated
from forgetless.engines.powers import DENSE_LIMIT, Spectral, Squaring, lanczos_power
from forgetless.engines.problem import Computed, Forms, Problem
from forgetless.engines.reference import measured
from forgetless.engines.rounding import SAFETY, Rounding, diagonal_roots
from forgetless.metrics import mean_of
from forgetless.orderings import Draws
from forgetless.reporting.progress import Progress

Method = Literal["auto", "steps", "dense", "lanczos"]
_METHODS = ("auto", "steps", "dense", "lanczos")


def method_of(problem: Problem, method: str) -> dict[str, Any]:
    """Return the checked method as an option of the engine of a problem: only independent draws have a choice."""
    if method not in _METHODS:
        raise ValueError(f'method must be "auto", "steps", "dense" or "lanczos", got {method!r}')
    if isinstance(problem.law, Draws):
        return {"method": method}
    if method in ("dense", "lanczos"):
        raise ValueError(f"method={method!r} needs draws with replacement; leave it at 'auto'")
    return {}


def expectations(
    problem: Problem, origin: Array, names: tuple[str, ...], report_progress: Progress, method: Method = "auto"
) -> Computed:
    """Return the expected metrics at the recorded steps, learned from ``origin``."""
    moments = measured(problem.tasks, origin)
    if problem.average is not None:
        problem.only_average_loss(names)
        _steps_only(problem, method)
        return _averages(problem, moments, origin, report_progress)
    powers = problem.constant and not problem.follows(names)
    if not powers and method in ("dense", "lanczos"):
        raise ValueError(f"method={method!r} needs fixed filters and metrics='average_loss'; use method='steps'")
    if powers and method == "lanczos" and not moments.realizable:
        raise ValueError("method='lanczos' needs realizable tasks; use method='dense' or 'steps'")
    if method != "auto":
        return _computed(problem, moments, origin, names, report_progress, method)
    method = cheapest(problem, moments.size, moments.realizable) if powers else "steps"
    found = _computed(problem, moments, origin, names, report_progress, method)
    steps = float(problem.k) * len(problem.filters) * float(problem.tasks.offsets[-1]) * moments.size**2
    if method == "steps" or max(found.errors.values()) <= _BLURRED or steps > _AFFORDABLE:
        return found
    # Powers of a matrix lose what single steps keep.
    again = _computed(problem, moments, origin, names, report_progress, "steps")
    return again if max(again.errors.values()) < max(found.errors.values()) else found


_BLURRED, _AFFORDABLE = 1e-8, 3e9
"""Relative error from which on powers are replaced by steps, and operations, about a second, up to which."""


def _computed(
    problem: Problem,
    moments: Moments,
    origin: Array,
    names: tuple[str, ...],
    report_progress: Progress,
    method: str,
) -> Computed:
    """Return the expected metrics by the given method."""
    rounding = Rounding.of(moments, origin, len(problem.filters))
    if method == "steps":
        curves = _step_by_step(problem, moments, names, rounding, report_progress)
        found = Computed.of(curves, "steps", _errors(problem, curves, rounding))
        if found.errors.get("average_loss", 0.0) <= _KNOWN or problem.constant or not moments.realizable:
            return found
        rounding.left = _varying_decay(problem, moments)
        return Computed.of(curves, "steps", _errors(problem, curves, rounding))
    operator, form = Operator(moments, problem.probabilities), average_form(moments)
    shares = from_numpy(problem.shares(0, 1)[:, 0, :], like=moments.left)
    if method == "dense":
        dense: Spectral | Squaring = (
            Spectral(operator, moments.size, shares)
            if moments.realizable
            else Squaring(operator, moments.size, shares, units=_units(moments, form))
        )
        values, error = dense.form(moments.start, form, problem.steps), 1e-15 * problem.k
        lost = 0.5 * SAFETY * dense.uncertainty(moments.start, form, problem.steps)
    else:
        values, error = _by_lanczos(problem, moments, operator, shares, form)
        lost = np.zeros(values.shape)
    # The form already divides by the number of tasks.
    average = mean_of("average_loss", 0.5 * values, 1, float(problem.tasks.floors.mean()))
    report_progress(problem.k, problem.k, "steps")
    rounding.learned(to_numpy(shares))
    decay = Decay.of(problem, moments)
    for step in problem.steps.tolist():
        if method == "dense":
            rounding.recorded(diagonal_roots(to_numpy(dense.powers(moments.start, step))), decay(step))
        else:  # a Krylov space is followed backwards, and its own error holds the rounding of forms
            rounding.recorded(np.zeros((moments.size, len(problem.filters))), np.zeros(len(problem.filters)))
    curves = {"average_loss": average}
    errors = _errors(problem, curves, rounding)
    return Computed.of(curves, method, {"average_loss": errors["average_loss"] + error * average + lost})


def _units(moments: Moments, form: Array) -> Floats:
    """Return units in which every coordinate is of the size of its part of the loss, or 1 where it has none."""
    weights, sizes = (np.sqrt(np.maximum(np.diagonal(to_numpy(each)), 0.0)) for each in (form, moments.start))
    own = np.divide(1.0, sizes, out=np.ones_like(sizes), where=sizes > 0)
    return np.asarray(np.where(weights > 0, weights, own))


class Decay:
    """At most which part of a squared error is left after t steps of a fixed filter on realizable tasks; else all.

    The trace of a second moment shrinks by the largest eigenvalue of Σ_m p_m Λ_m², one less the smallest of
    Vᵀ diag(pφ(2 − φ)) V. Of errors made at all steps at most t times as much is left.
    """

    def __init__(self, rates: Floats) -> None:
        self.rates = rates

    @classmethod
    def of(cls, problem: Problem, moments: Moments) -> "Decay":
        """Return that of the schedules of a problem."""
        n_problems = len(problem.filters)
        if not (moments.realizable and problem.constant and moments.size):
            return cls(np.zeros(n_problems))
        shares, D = problem.shares(0, 1)[:, 0, :], to_numpy(moments.left)
        gains = np.repeat(problem.probabilities, problem.tasks.ranks)[:, None] * shares * (2.0 - shares)
        rates = [float(np.linalg.eigvalsh(D.T @ (gains[:, b : b + 1] * D))[0]) for b in range(n_problems)]
        return cls(np.clip(rates, 0.0, 1.0 - 1e-15))  # shares are rounded: nothing vanishes

    def __call__(self, step: int) -> Floats:
        return np.minimum(1.0, max(1, step) * (1.0 - self.rates) ** max(0, step - 1))


_KNOWN, _PIECES = 1e-9, 48
"""Relative error from which on it is worth to ask how fast errors decay, and pieces of a schedule that are asked."""


def _varying_decay(problem: Problem, moments: Moments) -> list[Floats]:
    """Return what is left of early errors at every recorded step, as ``Decay`` says for fixed filters.

    The steps are divided into pieces; in each the smallest gain of every direction bounds the rate from below.
    """
    n_problems, first = len(problem.filters), 0
    left, fastest, found = np.zeros(n_problems), np.zeros(n_problems), {0: np.ones(n_problems)}
    for stop, rates in _rates(problem, moments):
        left, fastest = left + (stop - first) * np.log1p(-rates), np.maximum(fastest, rates)
        found[stop] = np.minimum(1.0, stop * np.exp(left) / (1.0 - fastest))
        first = stop
    return [found[step] for step in problem.steps.tolist()]


def _rates(problem: Problem, moments: Moments) -> list[tuple[int, Floats]]:
    """Return the ends of pieces of the schedules, and at which rates (B,) squared errors decay at least in each."""
    D, last = to_numpy(moments.left), int(problem.steps[-1])
    if problem.constant:
        return [(last, Decay.of(problem, moments).rates)]
    weights = np.repeat(problem.probabilities, problem.tasks.ranks)[:, None]
    grid = np.linspace(0, last, _PIECES + 1).astype(int).tolist() if moments.size else []
    stops = sorted({*grid, *range(0, last, problem.steps_at_once), *problem.steps.tolist(), 0, last})
    found = []
    for first, stop in itertools.pairwise(stops):
        shares = problem.shares(first, stop)
        gains = weights * np.min(shares * (2.0 - shares), axis=1)
        rates = np.linalg.eigvalsh(D.T @ (gains.T[:, :, None] * D)).min(axis=1, initial=1.0)
        found.append((stop, np.asarray(np.clip(rates, 0.0, 1.0 - 1e-15))))
    return found


def _steps_only(problem: Problem, method: str) -> None:
    if method in ("dense", "lanczos"):
        raise ValueError(f"method={method!r} cannot follow average={problem.average:g}; use method='steps' or 'auto'")


def _averages(problem: Problem, moments: Moments, origin: Array, report_progress: Progress) -> Computed:
    """Return the expected average loss of averaged iterates, step by step."""
    n_problems, Q, last = len(problem.filters), moments.size, int(problem.steps[-1])
    check_memory(
        n_problems * (11.0 * Q**2 + 4.0 * moments.left.shape[0] * Q),
        f"averages of {n_problems} schedules in {Q} coordinates",
        "ask for fewer schedules at once, or use simulate",
    )
    rounding, run = Rounding.of(moments, origin, n_problems), AveragedRun(problem, moments)
    values = np.empty((n_problems, len(problem.steps)))
    wanted = {int(step): i for i, step in enumerate(problem.steps)}
    stops = sorted({*range(0, last, problem.steps_at_once), *wanted, 0, last})
    for first, stop in zip([0, *stops], stops, strict=False):
        if stop > first:
            shares = problem.shares(first, stop)
            run.advance(shares, first)
            rounding.learned(shares)
            report_progress(stop, problem.k, "steps")
        if stop in wanted:
            # Where tasks conflict the average is smaller than the iterates it is rounded with.
            roots = np.maximum(*(diagonal_roots(to_numpy(each)) for each in (run.S, run.A)))
            rounding.recorded(roots)
            values[:, wanted[stop]] = run.average_loss()
    curves = {"average_loss": values}
    found = Computed.of(curves, "steps", _errors(problem, curves, rounding))
    if found.errors["average_loss"] <= _KNOWN or not moments.realizable:
        return found
    rounding.left = left_of_averages(problem, _rates(problem, moments))
    return Computed.of(curves, "steps", _errors(problem, curves, rounding))


def _errors(problem: Problem, curves: dict[str, Floats], rounding: Rounding) -> dict[str, Floats]:
    return rounding.errors(curves, problem.steps, problem.probabilities)


def _step_by_step(
    problem: Problem, moments: Moments, names: tuple[str, ...], rounding: Rounding, report_progress: Progress
) -> dict[str, Floats]:
    n_problems, Q = len(problem.filters), moments.size
    check_memory(
        n_problems * (5.0 * Q**2 + 3.0 * moments.left.shape[0] * Q),
        f"{n_problems} schedules in {Q} coordinates",
        "ask for fewer schedules at once, or use simulate",
    )
    run = IndependentRun.of(problem, moments, path=problem.follows(names), drift="drift" in names)
    values: dict[str, Floats] = {name: np.empty((n_problems, len(problem.steps))) for name in names}
    wanted = {int(step): i for i, step in enumerate(problem.steps)}

    decay = Decay.of(problem, moments)

    def note(step: int) -> None:
        if step in wanted:
            rounding.recorded(diagonal_roots(to_numpy(run.S)), decay(step))
            for name in names:
                values[name][:, wanted[step]] = run.evaluate(name, step)

    note(0)
    last = int(problem.steps[-1])
    stops = sorted({*range(0, last, problem.steps_at_once), *(step for step in wanted if step < last), last})
    for first, stop in itertools.pairwise(stops):
        shares = problem.shares(first, stop)
        run.advance(shares)
        rounding.learned(shares)
        note(stop)
        report_progress(stop, problem.k, "steps")
    return values


def _by_lanczos(
    problem: Problem, moments: Moments, operator: Operator, shares: Array, form: Array
) -> tuple[Floats, float]:
    values, worst = np.empty((len(problem.filters), len(problem.steps))), 0.0
    start = to_numpy(moments.start)
    for b, i, V, error in _krylov_forms(operator, form, shares, problem.steps.tolist()):
        form_ = to_numpy(V)
        values[b, i] = float(np.sum(form_ * start))
        # The error is relative to the norm of the form; of the number it may be a larger part.
        size = float(np.linalg.norm(form_) * np.linalg.norm(start))
        worst = max(worst, float(error * size / values[b, i]) if values[b, i] > 0 else 1.0)
    return values, worst


def _krylov_forms(operator: Operator, form: Array, shares: Array, steps: list[int]) -> Any:
    """Yield (schedule, recorded step, form, its relative error)."""
    for b in range(shares.shape[1]):
        for i, step in enumerate(steps):
            V, error = form[:, :, None], 0.0
            if step:
                V, error = lanczos_power(operator, V, shares[:, b : b + 1], step, 1e-12)
            yield b, i, V[:, :, 0], error


def forms(problem: Problem, moments: Moments, method: Method = "auto") -> Forms:
    """Return the average loss after each recorded step as a form of what came before the first.

    The loss is ½⟨V, S⟩ plus the mean floor for every moment matrix S at the start. The moments may be those of tasks
    that no model fits; the form of the linear maps is then the block of V without the extra coordinates.
    """
    operator, form = Operator(moments, problem.probabilities), average_form(moments)
    n_problems, steps = len(problem.filters), problem.steps.tolist()
    if problem.average is not None:
        _steps_only(problem, method)
        return Forms.of_curves([average_backwards(problem, moments, form, step) for step in steps], "steps")
    if not problem.constant:
        if method in ("dense", "lanczos"):
            raise ValueError(f"method={method!r} needs fixed filters; use method='steps'")
        return Forms.of_curves([_backwards(problem, moments, form, step) for step in steps], "steps")
    if method == "auto":
        method = cheapest(problem, moments.size, moments.realizable)
    shares = from_numpy(problem.shares(0, 1)[:, 0, :], like=form)
    if method == "dense":
        size, self_adjoint = moments.size, moments.realizable
        dense = Spectral(operator, size, shares) if self_adjoint else Squaring(operator, size, shares, adjoint=True)
        return Forms.of_curves([dense.powers(form, step) for step in steps], "dense", 1e-15 * problem.k)
    if method == "lanczos":
        found: list[list[Array]] = [[] for _ in range(n_problems)]
        worst = 0.0
        for b, _, V, error in _krylov_forms(operator, form, shares, steps):
            found[b].append(V)
            worst = max(worst, error)
        return Forms(found, "lanczos", worst)
    xp = namespace_of(form)
    V, curves, done = repeated(form, n_problems), [], 0
    for step in steps:
        for _ in range(step - done):
            V -= operator.decrease_adjoint(V, shares)
        curves.append(xp.asarray(V, copy=True))
        done = step
    return Forms.of_curves(curves, "steps")


def _backwards(problem: Problem, moments: Moments, form: Array, last: int) -> Array:
    """Return V of shape (Q, Q, B) carried from step ``last`` back to the start."""
    # The adjoint of I − Lᵀφ R is the same with L and R exchanged, so the forward run serves, with time reversed.
    swapped = Moments(moments.tasks, moments.right, moments.left, form)
    run = IndependentRun.of(problem, swapped)
    for stop in range(last, 0, -problem.steps_at_once):
        shares = problem.shares(max(0, stop - problem.steps_at_once), stop)
        run.advance(np.ascontiguousarray(shares[:, ::-1, :]))
    return run.S


def left_at(problem: Problem) -> list[Floats]:
    """Return, at every recorded step, which part (B,) of squared errors of forms that were made first is left."""
    moments = linear_moments(problem.tasks)
    if problem.average is not None and problem.constant:
        return left_of_averages(problem, _rates(problem, moments))
    decay = Decay.of(problem, moments)
    return [np.broadcast_to(decay(step), len(problem.filters)) for step in problem.steps.tolist()]


def cheapest(problem: Problem, size: int, realizable: bool) -> Method:
    """Choose by estimated seconds between stepping, the dense operator and the Krylov space."""
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
        costs["lanczos"] = b * len(problem.steps) * (vectors * (2 * apply + 4e-10 * n * vectors) + 1e-10 * vectors**3)
    return min(costs, key=lambda name: costs[name])
