"""The exact engine for a single order: forwards by simulation, backwards by the product of its
maps.
"""

import itertools
from dataclasses import replace

import numpy as np

from forgetless._core.arrays import Array, Floats
from forgetless.engines.moments import Moments, average_form, symmetrized
from forgetless.engines.problem import Computed, Forms, Problem
from forgetless.engines.results import Trace
from forgetless.engines.rounding import Rounding, cosines
from forgetless.engines.simulation import Sampling, simulated
from forgetless.orderings import OneOrder


def expectations(problem: Problem, origin: Array, names: tuple[str, ...]) -> Computed:
    """Return the metrics at the recorded steps, learned from ``origin``."""
    sampling = Sampling(names, origin, keep_weights=True)
    traces = [simulated(problem, b, sampling) for b in range(len(problem.filters))]
    values = {name: np.stack([trace.values[name][0] for trace in traces]) for name in names}
    distances = _distances(origin, traces)
    if problem.average is not None:  # averages are rounded with the iterates they are made of
        alone = replace(problem, average=None)
        distances = np.maximum(
            distances,
            _distances(origin, [simulated(alone, b, sampling) for b in range(len(traces))]),
        )
    return Computed.of(values, "one order", _errors(problem, origin, distances, values))


def _distances(origin: Array, traces: list[Trace]) -> Floats:
    """Return the distances of the recorded weights from the start, of shape (B, n_steps)."""
    return np.array([[np.linalg.norm(w) for w in (trace.weights - origin)[0]] for trace in traces])


def _errors(
    problem: Problem, origin: Array, distances: Floats, values: dict[str, Floats]
) -> dict[str, Floats]:
    """Return the absolute errors of all curves: outputs are rounded relative to the weights."""
    tasks = problem.tasks
    assert isinstance(problem.law, OneOrder)
    # The state is the change of the weights, and 1 for the missing targets before the first step.
    missing = np.linalg.norm(tasks.missing(origin), axis=1)
    terms = np.stack([np.ones(len(missing)), missing], axis=1)
    factors = [
        np.abs(problem.factors_of(b, 0, problem.k)).max(axis=0) for b in range(len(distances))
    ]
    rows, first = tasks.singular_vectors, np.array([0.0, 1.0])
    rounding = Rounding(
        tasks,
        origin,
        terms,
        cosines(rows, rows),
        first,
        np.stack(factors, axis=1),
        0.0 * missing,
        squared=False,
    )
    rounding.other = problem.other
    for each in distances.T:
        rounding.recorded(np.stack([each, np.ones(len(each))]))
    order = [problem.law.at(t) for t in range(problem.k)]
    visits = np.bincount(order, minlength=tasks.n_tasks) / problem.k
    return rounding.errors(values, problem.steps, visits)


def forms(problem: Problem, moments: Moments) -> Forms:
    """Return the forms Zᵀ H Z after each recorded step, Z being the product of all maps so far, or
    their average.
    """
    form, rows = average_form(moments), []
    for b in range(len(problem.filters)):
        product, done, line = _Product(problem, moments, b), 0, []
        for step in problem.steps.tolist():
            product.advance(done, step)
            done = step
            Z = product.Z if product.average is None else product.average
            line.append(symmetrized(Z.T @ form @ Z))
        rows.append(line)
    return Forms(rows, "one order")


class _Product:
    """The product of the maps of one order, as a matrix (q, q)."""

    def __init__(self, problem: Problem, moments: Moments, b: int) -> None:
        assert isinstance(problem.law, OneOrder)
        self.problem, self.left, self.b, self.law = problem, moments.left, b, problem.law
        self.Z = np.eye(moments.size)
        self.average: Array | None = None if problem.average is None else self.Z
        self.rows = list(itertools.pairwise(problem.tasks.offsets.tolist()))

    def advance(self, first: int, last: int) -> None:
        """Multiply by the maps of steps first + 1..last; whole periods of a fixed filter by their
        power.
        """
        period = len(self.law.indices) if self.law.repeated and self.average is None else 0
        if period and self.problem.filters[self.b].horizon is None and last - first > 4 * period:
            start = -(-first // period) * period
            self._follow(first, start)
            before = self.Z
            self.Z = np.eye(before.shape[0])
            self._follow(0, period)
            n_periods, square = (last - start) // period, self.Z
            self.Z = before
            while n_periods:
                if n_periods & 1:
                    self.Z = square @ self.Z
                square, n_periods = square @ square, n_periods >> 1
            first = last - (last - start) % period
        self._follow(first, last)

    def _follow(self, first: int, last: int) -> None:
        for t in range(first, last):
            low, high = self.rows[self.law.at(t)]
            D = self.left[low:high, :]
            phi = np.ascontiguousarray(self.problem.factors_of(self.b, t, t + 1)[0, low:high])
            self.Z = self.Z - (D.T * phi) @ (D @ self.Z)
            if self.average is not None:
                self.average = self.average + float(self.problem.gains[t]) * (self.Z - self.average)
