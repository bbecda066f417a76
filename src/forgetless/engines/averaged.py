"""Exact moments of averaged iterates, for tasks drawn independently.

With U the state of ``engines.moments``, M the random map of one step and g the step's gain, the
average follows Ū ← Ū + g(MU − Ū). M is independent of the earlier steps, so that with M̄ = E M

    S = E[U Uᵀ] ← E[M S Mᵀ],    X = M̄ C,    C = E[U Ūᵀ] ← X + g(S − X),
    A = E[Ū Ūᵀ] ← A + g((1 − g)(X + Xᵀ − 2A) + g(S − A)),

the S on the right being the new one. C costs two products more, and one pass gives every k. Changes
are added instead of forming new values, so that the constant part of U stays constant to the last
bit.

Backwards, the loss of Σ_t ω_t w_t is a form of the start: with H its form, E[z_r | z_s] is a
product of M̄ᵀ, and

    T ← M̄ᵀ(ω_t H + T),    V ← E[Mᵀ V M] + ω_{t−1}² H + ω_{t−1}(T + Tᵀ)

carries V = ω_k² H and T = 0 from step k to the start.
"""

import itertools

import numpy as np

from forgetless._core.arrays import Array, Floats
from forgetless._core.compiled import compiled
from forgetless.engines.independent import Operator, applied, compiled_steps, mirrored
from forgetless.engines.moments import Moments, repeated
from forgetless.engines.problem import Problem
from forgetless.engines.rounding import diagonal_roots
from forgetless.metrics import mean_of


class AveragedRun:
    """The moments of B schedules on the same tasks and of their averages."""

    def __init__(self, problem: Problem, moments: Moments) -> None:
        self.operator = Operator(moments, problem.probabilities)
        self.tasks, self.gains, self.done = moments.tasks, problem.gains, 0
        self.S = moments.initial(len(problem.filters))
        self.C, self.A = (moments.initial(len(problem.filters)) for _ in range(2))
        self.compiled = (
            compiled("engines._moments_numba") if compiled_steps(problem, moments) else None
        )

    def advance(self, factors: Floats) -> None:
        """Make the steps of factors (Σr, T, B)."""
        gains, operator = self.gains[self.done : self.done + factors.shape[1]], self.operator
        self.done += factors.shape[1]
        if self.compiled is not None:
            self.compiled.advance_averaged(self.S, self.C, self.A, operator.arrays, factors, gains)
            return
        for t, gain in enumerate(gains.tolist()):
            phi = np.ascontiguousarray(factors[:, t, :])
            self.S -= operator.decrease(self.S, phi)
            X = self.C - _mean_decrease(
                self.C, operator.left, operator.right, operator.weights * phi
            )
            self.A += gain * (
                (1.0 - gain) * (mirrored(X) - 2.0 * self.A) + gain * (self.S - self.A)
            )
            self.C = X + gain * (self.S - X)

    def roots(self) -> Floats:
        """Return the roots of the diagonals of S and A, the larger ones: conflicting tasks make
        averages small.
        """
        return np.maximum(*(diagonal_roots(each) for each in (self.S, self.A)))

    def evaluate(self, name: str, t: int) -> Floats:
        """Return the expected average loss of the averages, of shape (B,)."""
        excess = self.tasks.singular_values**2 @ self.operator.outputs(self.A)
        return mean_of(name, 0.5 * excess, self.tasks.n_tasks, float(self.tasks.floors.mean()))


def _mean_decrease(C: Array, left: Array, right: Array, weighted: Array) -> Array:
    """Return C − M̄ C = Lᵀ diag(pφ) R C, C being of shape (Q, Q, B) and pφ of shape (Σr, B)."""
    return applied(left.T, weighted[:, None, :] * applied(right, C))


def average_backwards(problem: Problem, moments: Moments, form: Array, last: int) -> Array:
    """Return V of shape (Q, Q, B): the average loss of the average after ``last`` steps as a form
    of the start.
    """
    H = repeated(form, len(problem.filters))
    if last == 0:
        return H
    # The adjoint of I − Lᵀφ R is the same with L and R exchanged.
    adjoint = Moments(moments.tasks, moments.right, moments.left, form)
    operator = Operator(adjoint, problem.probabilities)
    module = compiled("engines._moments_numba") if compiled_steps(problem, adjoint) else None
    omega = np.append(0.0, _weights(problem.gains[:last]))
    V, T = float(omega[last]) ** 2 * H, np.zeros(H.shape)
    for stop in range(last, 0, -problem.steps_at_once):
        first = max(0, stop - problem.steps_at_once)
        factors = np.ascontiguousarray(problem.factors(first, stop)[:, ::-1, :])
        weights = omega[first : stop + 1][::-1].copy()
        if module is not None:
            module.backwards_averaged(V, T, H, operator.arrays, factors, weights)
            continue
        for t, (w, before) in enumerate(itertools.pairwise(weights.tolist())):
            phi = np.ascontiguousarray(factors[:, t, :])
            T += w * H
            T -= _mean_decrease(T, operator.left, operator.right, operator.weights * phi)
            V -= operator.decrease(V, phi)
            V += before * (before * H + mirrored(T))
    return V


def _weights(gains: Floats) -> Floats:
    """Return ω_1..ω_k from the gains: ω_t = g_t Π_{s>t} (1 − g_s)."""
    remaining = np.cumprod(np.append(1.0, 1.0 - gains[:0:-1]))[::-1]
    return np.asarray(gains * remaining)


def with_average(moments: Moments) -> Moments:
    """Return the maps of (U, Ū), in twice as many coordinates: a step changes U alone, then
    ``blend`` changes Ū.
    """
    Q = moments.size
    blank = np.zeros(moments.left.shape)
    left = np.concatenate([moments.left, blank], axis=1)
    right = left if moments.realizable else np.concatenate([moments.right, blank], axis=1)
    start = np.reshape(np.tile(moments.start, (2, 2)), (2 * Q, 2 * Q))
    return Moments(moments.tasks, left, right, start, neglected=moments.neglected)


def blend(like: Array, gain: float) -> Array:
    """Return the map of (U, Ū) that moves Ū towards U, of the shape (2Q, 2Q) of ``like``."""
    Q = like.shape[0] // 2
    matrix = np.eye(2 * Q)
    matrix[Q:, :] = (
        gain * np.concatenate([matrix[:Q, :Q], np.zeros((Q, Q))], axis=1)
        + (1.0 - gain) * matrix[Q:, :]
    )
    return matrix


def average_loss_of(moments: Moments, A: Array) -> Floats:
    """Return the average loss of states with the moment A (Q, Q)."""
    right, tasks = moments.right, moments.tasks
    excess = tasks.singular_values**2 @ np.sum((right @ A) * right, axis=1)
    return mean_of("average_loss", 0.5 * excess, tasks.n_tasks, float(tasks.floors.mean()))


def left_of_averages(problem: Problem, pieces: list[tuple[int, Floats]]) -> list[Floats]:
    """Return, at every recorded step, a bound on the fraction of initial squared errors in those of
    averages.

    ``pieces`` are the ends of parts of the schedule, and lower bounds (B,) of the rates at which
    E‖U‖² decays in each; the mean map decays by the root. Sizes and roundings of S, C and A follow
    the recursions above, every step adding its own; divided by the factors that they decay with,
    they are sums.
    """
    last, n_problems = int(problem.steps[-1]), len(problem.filters)
    if last == 0:
        return [np.ones(n_problems) for _ in problem.steps]
    weights = (np.arange(1, last + 1) / last) ** float(problem.average or 0.0)
    totals, columns = np.cumsum(weights), []
    lengths = np.diff([0, *(end for end, _ in pieces)])
    for b in range(n_problems):
        logs = np.log1p(-np.repeat([float(rates[b]) for _, rates in pieces], lengths))
        half, roots = np.exp(0.5 * logs), np.exp(0.5 * np.cumsum(logs))
        grown = np.cumsum(np.exp(-logs))  # the error of S, over what is left of S
        # of Ū, times the weights so far, as are the errors below
        sizes = np.cumsum(weights * roots)
        before = np.append(0.0, sizes[:-1])
        cross = roots * np.cumsum(weights * roots * grown + before / half + sizes)
        growth = 2 * weights * half * np.append(0.0, cross[:-1]) + weights**2 * roots**2 * grown
        error, squares = np.cumsum(growth + before**2 + sizes**2), totals**2
        part = np.minimum(1.0, np.divide(error, squares, out=np.ones(last), where=squares > 0))
        columns.append(np.append(1.0, part)[problem.steps])
    return list(np.stack(columns, axis=1))
