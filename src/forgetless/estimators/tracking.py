"""Ridge steps towards the previous weights whose strengths follow from the tasks learned, for
solutions that drift.

Task t minimizes ‖X_t w − y_t‖² + λ_t‖w − w_{t−1}‖², with the rule of ``schedules.steady``
(docs/ensembles.md),

    1/λ_{t+1} = (1 − a_t)/λ_t + g,   a_t = tr[X_tᵀX_t(X_tᵀX_t + λ_t)⁻¹]/d

where g is the squared step of the solution over the variance of the labels' noise, per feature.
:class:`SteadyRule` has the g of its schedule. :class:`Trackers`, for the default rule, have
several: their errors decide which one is used.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from forgetless._core.arrays import Floats, with_zeros
from forgetless.estimators._units import UnitChange
from forgetless.estimators.low_rank import LowRankMemory, leading, squared_norm
from forgetless.estimators.rules import Options, Rule, Scheduled, Strength
from forgetless.estimators.state import Change, State, TaskData
from forgetless.estimators.statistics import Statistics, mean_variance
from forgetless.estimators.strength import Steady
from forgetless.filters import Ridge
from forgetless.io import Fields
from forgetless.solvers.rows import Rows

DRIFTS = np.array([0.01, 0.1])
"""g of the trackers, for columns of unit variance."""

SPECTRUM_SIDE = 1000
"""Smaller side of a task up to which ``SteadyRule`` computes all its eigenvalues."""


class SteadyRule(Rule):
    """One ridge step per task with the strengths of ``schedules.steady``, from the spectra of the
    tasks learned.
    """

    towards_previous = True

    def __init__(self, schedule: Steady, options: Options, memory: LowRankMemory | None) -> None:
        self.schedule = schedule
        self.options = options
        self.memory = memory

    def step(self, state: State, task: TaskData) -> Change:
        """Return the change of a state by a task."""
        schedule = self.schedule
        d = task.rows.shape[1]
        unit = d * schedule.noise**2
        inverse = state.inverse_strength or schedule.distance**2 / unit
        change = Scheduled(Strength(Ridge(1.0 / inverse)), self.options, self.memory).step(
            state, task
        )
        strengths = np.array([1.0 / inverse])
        (left,) = _residual_factors(_spectrum(task.rows), strengths, d)
        parts = {**change.parts, "inverse_strength": left * inverse + schedule.walk**2 / unit}
        return change._replace(parts=parts)


def _spectrum(rows: Rows) -> Floats:
    """Return the eigenvalues of XᵀX, without zeros where X has fewer rows.

    Where both sides are large they are replaced by as many equal ones of the same sum. As x/(x + λ)
    is concave, a_t is then an upper bound.
    """
    if rows.small_side > SPECTRUM_SIDE and rows.readable:
        return np.full(rows.small_side, squared_norm(rows) / rows.small_side)
    return np.maximum(np.linalg.eigvalsh(rows.gram), 0.0)


def _residual_factors(values: Floats, strengths: Floats, d: int) -> Floats:
    """Return 1 − a for strengths λ (q,), by the eigenvalues of XᵀX in d dimensions; zeros may be
    missing or more.
    """
    sums = np.sum(strengths / (values[:, None] + strengths), axis=0)
    return np.asarray(np.maximum(d - len(values) + sums, 0.0) / d)


class Trackers(NamedTuple):
    """Weights (q, d + intercept, c) for all g or none, and 1/λ of the next step of each, in units
    of 1/variance.

    Their unit of λ is the mean variance of the columns times the weight of a row.
    """

    weights: Floats
    inverses: Floats

    @classmethod
    def starting(cls, statistics: Statistics, count: int) -> "Trackers":
        """Return ``count`` trackers that start from the solution on all rows so far, with its
        strength.
        """
        unit, d = _unit(statistics)
        inverse = max(1.0 - statistics.freedom / d, 0.0) * unit / statistics.strength
        return cls(np.repeat(statistics.weights[None], count, axis=0), inverse + DRIFTS[:count])

    @classmethod
    def from_fields(cls, fields: Fields, d: int, c: int) -> "Trackers":
        """Return the trackers in the arrays of a file; ValueError where one is not valid."""
        inverses = fields.array("inverses", "f", (None,), low=DRIFTS.min())
        if len(inverses) not in (0, len(DRIFTS)):
            raise ValueError(f"memory.trackers are {len(inverses)}, not {len(DRIFTS)} or none")
        weights = fields.array("weights", "f", (len(inverses), d, c))
        fields.end()
        return cls(weights, inverses)

    def in_units(self, change: UnitChange) -> "Trackers":
        """Return the same in other units of the columns, with smaller weights of those that vary
        more than before.

        ``State.discounted`` has the reason. The mean so far keeps its prediction: rows far from it
        are new.
        """
        weights = self.weights.copy()
        weights[:, : len(change.ratio)] /= np.maximum(change.ratio, 1.0)[:, None] ** 2
        return self._replace(weights=change.weights(weights))

    def widened(self, d: int, count: int) -> "Trackers":
        """Return the same with ``count`` more features behind the first d."""
        return self._replace(weights=with_zeros(self.weights, d, count, 1))

    def after(self, pieces: Iterable[TaskData], statistics: Statistics) -> "Trackers":
        """Return the trackers after a task, whose pieces are learned one after the other.

        ``statistics`` are those of all rows.
        """
        weights, inverses = self
        if len(inverses) == 0:
            return self
        unit, d = _unit(statistics)
        for piece in pieces:
            strengths = unit / inverses
            changes, values = _steps(piece, weights, strengths)
            weights = weights + changes
            inverses = _residual_factors(values, strengths, d) * inverses
        return Trackers(weights, inverses + DRIFTS)


def _unit(statistics: Statistics) -> tuple[float, int]:
    """Return the unit of λ, and the number of weights of columns that vary, with the intercept."""
    diagonal = statistics.diagonal
    return (
        mean_variance(diagonal, statistics.rows),
        max(int(np.count_nonzero(diagonal)), 1) + statistics.intercept,
    )


def _steps(task: TaskData, weights: Floats, strengths: Floats) -> tuple[Floats, Floats]:
    """Return ridge steps (q, d, c) on a task from weights (q, d, c) with strengths λ (q,), and its
    eigenvalues.
    """
    q, d, c = weights.shape
    rows = task.rows
    tasks = [task.relative_to(each) for each in weights]
    values, vectors = leading(rows.gram)

    def solved(columns: list[Any]) -> Floats:
        along = (vectors.T @ np.hstack(columns)).reshape(-1, q, c)
        return np.asarray(
            vectors @ (along / (values[:, None, None] + strengths[:, None])).reshape(-1, q * c)
        )

    if rows.dual:
        right = solved([each.residual for each in tasks])
        change = rows.adjoint(right)
    else:
        change = solved(
            [rows.adjoint(each.residual) if each.right is None else each.right for each in tasks]
        )
    return np.moveaxis(change.reshape(d, q, c), 1, 0), values
