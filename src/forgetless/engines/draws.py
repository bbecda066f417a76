"""The exact engine for independent draws: expected metrics forwards, the loss as a form of the
start backwards.

Steps are made one by one, or, for a fixed filter, all at once by powers of the operator on second
moments.
"""

import itertools

import numpy as np

from forgetless._core.arrays import Array, Floats
from forgetless._progress import track
from forgetless.engines.averaged import AveragedRun, average_backwards, left_of_averages
from forgetless.engines.independent import IndependentRun, Operator
from forgetless.engines.moments import Moments, average_form, linear_moments, moments_for
from forgetless.engines.powers import DENSE_LIMIT, Spectral, Squaring
from forgetless.engines.problem import Computed, Forms, Problem
from forgetless.engines.rounding import SAFETY, Rounding, diagonal_roots
from forgetless.metrics import follows_drift, follows_path, mean_of


def expectations(problem: Problem, origin: Array, names: tuple[str, ...]) -> Computed:
    """Return the expected metrics at the recorded steps, learned from ``origin``."""
    moments = moments_for(problem.tasks, origin, names, problem.other)
    if problem.average is not None:
        problem.only_average_loss(names)
        return _step_by_step(problem, moments, origin, names)
    powers = problem.constant and names == ("average_loss",) and problem.disturbance is None
    if not powers or not _powers_pay(problem, moments.size, moments.realizable):
        return _step_by_step(problem, moments, origin, names)
    result = _by_powers(problem, moments, origin)
    steps = (
        float(problem.k) * len(problem.filters) * float(problem.tasks.offsets[-1]) * moments.size**2
    )
    if max(result.errors.values()) <= _BLURRED or steps > _AFFORDABLE:
        return result
    # Powers of a matrix lose digits that single steps do not.
    again = _step_by_step(problem, moments, origin, names)
    return again if max(again.errors.values()) < max(result.errors.values()) else result


_BLURRED = 1e-8  # relative error of powers from which on they are replaced by steps
_AFFORDABLE = 3e9  # most operations of these steps, about a second


def _by_powers(problem: Problem, moments: Moments, origin: Array) -> Computed:
    """Return the expected average loss by powers of the operator."""
    rounding = Rounding.of(moments, origin, len(problem.filters))
    operator, form = Operator(moments, problem.probabilities), average_form(moments)
    factors = problem.factors(0, 1)[:, 0, :]
    dense: Spectral | Squaring = (
        Spectral(operator, moments.size, factors)
        if moments.realizable
        else Squaring(operator, moments.size, factors, units=_units(moments, form))
    )
    values = dense.form(moments.start, form, problem.steps)
    uncertainty = 0.5 * SAFETY * dense.uncertainty(moments.start, form, problem.steps)
    # The form already divides by the number of tasks.
    average = mean_of("average_loss", 0.5 * values, 1, float(problem.tasks.floors.mean()))
    rounding.learned(factors)
    decay = Decay.of(problem, moments)
    for step in problem.steps.tolist():
        rounding.recorded(diagonal_roots(dense.powers(moments.start, step)), decay(step))
    curves = {"average_loss": average}
    error = _errors(problem, curves, rounding)["average_loss"] + uncertainty
    return Computed.of(curves, "dense", {"average_loss": error + 1e-15 * problem.k * average})


def _units(moments: Moments, form: Array) -> Floats:
    """Return units in which every coordinate has the size of its contribution to the loss, or 1
    where it has none.
    """
    weights, sizes = (np.sqrt(np.maximum(np.diagonal(each), 0.0)) for each in (form, moments.start))
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
        factors, D = problem.factors(0, 1)[:, 0, :], moments.left
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
    D, last = moments.left, int(problem.steps[-1])
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


def _errors(problem: Problem, curves: dict[str, Floats], rounding: Rounding) -> dict[str, Floats]:
    return rounding.errors(curves, problem.steps, problem.probabilities)


def _step_by_step(
    problem: Problem, moments: Moments, origin: Array, names: tuple[str, ...]
) -> Computed:
    """Return the expected metrics of the iterates, or of their averages."""
    averaged = problem.average is not None
    run: AveragedRun | IndependentRun = (
        AveragedRun(problem, moments)
        if averaged
        else IndependentRun.of(
            problem, moments, path=follows_path(names), drift=follows_drift(names)
        )
    )
    rounding = Rounding.of(moments, origin, len(problem.filters), problem.other)
    needed = (
        names
        if problem.disturbance is None or not follows_path(names)
        else (*names, *{"seen_loss"} - {*names})
    )
    curves = _followed(problem, run, needed, (rounding, Decay.of(problem, moments)))
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
) -> dict[str, Floats]:
    """Return the curves of a run, adding the sizes at every step to ``bounds``."""
    (rounding, decay), last = bounds, int(problem.steps[-1])
    values = problem.empty_curves(names)
    positions = {int(step): i for i, step in enumerate(problem.steps)}
    stops = sorted({*range(0, last, problem.steps_at_once), *positions, 0, last})
    intervals = list(zip([0, *stops], stops, strict=False))
    for first, stop in track(intervals, "steps"):
        if stop > first:
            factors = problem.factors(first, stop)
            run.advance(factors)
            rounding.learned(factors)
        if stop in positions:
            rounding.recorded(run.roots(), None if problem.average is not None else decay(stop))
            for name in names:
                values[name][:, positions[stop]] = run.evaluate(name, stop)
    return values


def forms(problem: Problem, moments: Moments) -> Forms:
    """Return the average loss after each recorded step as a form of the moments before the first.

    The loss is ½⟨V, S⟩ plus the mean floor for every moment matrix S at the start. The moments may
    be those of tasks that no model fits; the form of the linear maps is then the block of V without
    the extra coordinates.
    """
    form, steps = average_form(moments), problem.steps.tolist()
    if problem.average is not None:
        return Forms.of_curves(
            [average_backwards(problem, moments, form, step) for step in steps], "steps"
        )
    if not problem.constant:
        return Forms.of_curves(
            [_backwards(problem, moments, form, step) for step in steps], "steps"
        )
    if not _powers_pay(problem, moments.size, moments.realizable):
        return Forms.of_curves(_fixed_backwards(problem, moments, form), "steps")
    operator, factors = Operator(moments, problem.probabilities), problem.factors(0, 1)[:, 0, :]
    dense = (
        Spectral(operator, moments.size, factors)
        if moments.realizable
        else Squaring(operator, moments.size, factors, adjoint=True)
    )
    return Forms.of_curves([dense.powers(form, step) for step in steps], "dense", 1e-15 * problem.k)


def _fixed_backwards(problem: Problem, moments: Moments, form: Array) -> list[Array]:
    """Return V of shape (Q, Q, B) of every recorded step: for a fixed filter one pass gives all."""
    run = IndependentRun.of(problem, _swapped(moments, form))
    stops = {*range(0, int(problem.steps[-1]), problem.steps_at_once), *problem.steps.tolist()}
    curves, done = [], 0
    for stop in track(sorted(stops), "steps"):
        if stop > done:
            run.advance(problem.factors(done, stop))
        if stop in problem.steps:
            curves.append(run.S.copy())
        done = stop
    return curves


def _swapped(moments: Moments, form: Array) -> Moments:
    """Return the adjoint maps: that of I − Lᵀφ R is the same with L and R exchanged."""
    return Moments(moments.tasks, moments.right, moments.left, form)


def _backwards(problem: Problem, moments: Moments, form: Array, last: int) -> Array:
    """Return V of shape (Q, Q, B) carried from step ``last`` back to the start."""
    # The forward run serves, with time reversed.
    run = IndependentRun.of(problem, _swapped(moments, form))
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


def _powers_pay(problem: Problem, size: int, realizable: bool) -> bool:
    """Return whether powers of the dense operator take less time than steps, both estimated."""
    n, b = size * (size + 1) / 2, len(problem.filters)
    work = 1e-10 * float(problem.tasks.offsets[-1]) * size * size
    last = float(problem.steps[-1])
    if n > DENSE_LIMIT or b * n * n >= 2**27:
        return False
    factor = 1.5e-10 * n**3 if realizable else 4e-11 * n**3 * np.log2(2 + last)
    return bool(b * (2e-4 + n * work + factor) < last * (3e-5 + b * work))
