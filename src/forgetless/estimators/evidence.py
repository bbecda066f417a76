"""The default rule of the estimators: a mixture of ridge regression by evidence, the mean, and fading memories.

Predictions are a mixture of the solution of ``statistics`` and the mean, and for the next task (``objective="next"``)
also of the solutions with fading memories and of that on the last task. Their shares follow from their errors on every
task before it was learned (exponential weights with a share for all, Herbster and Warmuth 1998). All are linear, and so
is the mixture.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from forgetless._core.arrays import Floats, from_numpy, to_numpy
from forgetless.estimators._units import UnitChange
from forgetless.estimators.levels import TaskMeans
from forgetless.estimators.low_rank import LowRankMemory
from forgetless.estimators.rules import Options, Rule
from forgetless.estimators.state import Change, State, TaskData
from forgetless.estimators.statistics import TINY, Statistics, Sums, mean_variance
from forgetless.io.document import Fields
from forgetless.schedules.base import Auto
from forgetless.solvers.rows import is_sparse, sum_of_grams

DEFAULT_RANK = 100

CHUNK = 2**26
"""Bytes of the dense rows that are learned at a time where there are more features than rows."""

FADING = (0.9, 0.75)
"""Weights that the tasks so far have at the next one, in the fading memories."""

PRIORS = {
    "seen": np.array([4.0, 1.0]) / 5.0,
    "next": np.array([8.0, 2.0, 2.0, 1.0, 1.0]) / 14.0,
    "classes": np.array([1.0, 0.0]),  # the next task may have new ones, whose errors say nothing of those seen
}
"""Shares before the first task: of the solution on all tasks, the fading memories, the last task, and the mean."""

SHARED = 0.05
"""Fraction of the shares that returns to the prior before each task, so that a part can recover."""

FIRST = 2.0
"""Power of the squared errors by which the first task, of which leave-one-out errors are known, decides the shares."""


class Experts(NamedTuple):
    """The statistics of all tasks, and for the next task those with fading memories and of the last task alone.

    ``shares`` are the weights of their solutions, and at the end of the mean, in the mixture.
    """

    statistics: tuple[Statistics, ...]
    shares: Floats

    @property
    def weights(self) -> Floats:
        """The weights (d + intercept, c) to predict with."""
        return np.asarray(np.tensordot(self.shares, self.solutions, 1))

    @property
    def solutions(self) -> Floats:
        """The weights of all parts of the mixture, of shape (parts, d + intercept, c)."""
        return np.stack([*(each.weights for each in self.statistics), self.statistics[0].mean_weights])

    @property
    def retained_fraction(self) -> float:
        """Fraction of the trace of Σ XᵀX that is stored beside the diagonal."""
        return self.statistics[0].retained_fraction

    @property
    def inflation(self) -> float:
        """Factor by which residuals of rows left out are larger than those of rows learned, by their number."""
        all_tasks = self.statistics[0]
        return 1.0 / (1.0 - min((1.0 + all_tasks.freedom) / max(all_tasks.rows, 1.0), 0.9))

    def in_units(self, change: UnitChange, total: float) -> "Experts":
        """Return the same in other units of the columns."""
        return self._replace(statistics=tuple(each.in_units(change, total) for each in self.statistics))

    def widened(self, d: int, count: int) -> "Experts":
        """Return the same with ``count`` more features behind the first d."""
        return self._replace(statistics=tuple(each.widened(d, count) for each in self.statistics))

    def detached(self) -> "Experts":
        """Return the same, whose arrays are never changed in place."""
        return self

    def with_classes(self, place: Any) -> "Experts":
        """Return the same with targets in another order, new ones (-1) being zero in every row so far."""

        def placed(array: Floats) -> Floats:
            return np.where(place >= 0, array[..., place], 0.0)

        statistics = (
            each._replace(weights=placed(each.weights), gradient=placed(each.gradient), squares=placed(each.squares))
            for each in self.statistics
        )
        return self._replace(statistics=tuple(statistics))

    def variances(self, directions: Floats, noise: float) -> Floats:
        """Return E(vᵀ(w − ŵ))² of directions v (n, d), for the slopes ŵ of the mixture."""
        all_tasks = self.statistics[0]
        return all_tasks.variances(directions, noise, self.weights[: len(all_tasks.mean), 0])

    def leverage(self, rows: Floats) -> Floats:
        """Return xᵀ(G + λ)⁻¹x of rows (n, d + intercept)."""
        return self.statistics[0].leverage(rows)

    def arrays(self) -> dict[str, Any]:
        """Return the statistics as arrays for a file."""
        arrays = {"shares": self.shares}
        for number, each in enumerate(self.statistics):
            arrays |= {f"{number}.{name}": value for name, value in each._asdict().items() if value is not None}
        return arrays

    @classmethod
    def from_fields(cls, fields: Fields, memory: LowRankMemory | None, d: int, c: int, intercept: bool) -> "Experts":
        """Return the statistics in the arrays of a file; ValueError where one is not valid."""
        memory = LowRankMemory(0) if memory is None else memory
        shares = fields.array("shares", "f", (None,), low=0.0, high=1.0)
        count = len(shares) - 1
        if len(shares) not in map(len, PRIORS.values()):
            raise ValueError(f"memory.shares are {len(shares)}, of {count} statistics")
        statistics = tuple(
            Statistics.from_fields(fields.part(f"{i}."), memory, d - intercept, c, intercept) for i in range(count)
        )
        return cls(statistics, shares)


class Evidence(Rule):
    """Ridge regression on all tasks by statistics, with the strength of largest evidence."""

    def __init__(self, options: Options, memory: LowRankMemory | None, auto: Auto, *, classes: bool) -> None:
        self.options, self.memory = options, LowRankMemory(0) if memory is None else memory
        self.clip, self.with_levels = auto.clip, self.memory.decay == 0.0
        self.prior = PRIORS["classes" if classes and auto.objective == "seen" else auto.objective]

    def step(self, state: State, task: TaskData) -> Change:
        """Return the change of a state by a task."""
        start = to_numpy(task.start).astype(np.float64)
        d = len(start) - state.fit_intercept
        scale, rank = self.options.scale(task), self.memory.rank
        before, prior = state.memory, self.prior
        statistics = before.statistics if isinstance(before, Experts) else ()
        if len(statistics) != len(prior) - 1:  # at the first task, or at the first one with another objective
            empty = Statistics.empty(statistics[0].weights if statistics else start, d, rank)
            before = Experts((*statistics, *[empty] * len(prior))[: len(prior) - 1], prior)
        memory = self._learned(state, before, task, scale)
        weights = memory.weights
        change = from_numpy(weights - start, like=task.start)
        parts: dict[str, Any] = {"memory": memory}
        if isinstance(state.levels, TaskMeans):
            label = state.label or str(state.n_tasks + 1)
            parts["levels"] = state.levels.after(label, task, state.units, scale)
        strength = memory.statistics[0].strength
        return Change(change, task.error_after(change), strength, error=math.nan, parts=parts)

    def _learned(self, state: State, before: Experts, task: TaskData, scale: float) -> Experts:
        """Return the statistics after a task."""
        lefts = [(1.0 - self.memory.decay) * fading for fading in (1.0, *FADING, 0.0)]
        after: list[Statistics] = []
        for statistics, left in zip(before.statistics, lefts, strict=False):
            if left == 0.0:
                statistics = Statistics.empty(statistics.weights, len(statistics.mean), self.memory.rank)
            # In units of λ of all tasks: columns of a single one may hardly vary.
            unit = mean_variance(after[0].diagonal, after[0].rows) if after else 0.0
            statistics = statistics.decayed(left or 1.0)._replace(unit=unit)
            after.append(self._after(statistics, task, scale).stored(self.memory.dtype))
        if before.statistics[0].rows == 0:
            error, mean_error = after[0].leave_out_errors()
            errors = np.array([*(error for _ in after), mean_error])
            return Experts(tuple(after), _updated(self.prior, errors, FIRST))
        errors = _errors_before(state, task, before.solutions)
        shares = (1.0 - SHARED) * before.shares + SHARED * self.prior
        return Experts(tuple(after), _updated(shares, errors, 0.5))

    def _after(self, statistics: Statistics, task: TaskData, scale: float) -> Statistics:
        """Return statistics after a task, in chunks of rows where there are more features."""
        rank, d = self.memory.rank, len(statistics.mean)
        task = task.relative_to(from_numpy(statistics.weights, like=task.start))
        if not task.rows.readable or d <= rank or task.rows.shape[0] + rank >= d:
            with np.errstate(over="ignore", invalid="ignore"):  # the statistics reject infinite sums
                sums = _sums(task, statistics.intercept, scale)
            return statistics.after(sums, rank)
        first, moved = 0, statistics.weights
        for block in _chunks(task.rows, max(rank, CHUNK // (8 * d))):
            residual = to_numpy(task.residual)[first : first + len(block)].astype(np.float64)
            residual = residual - block @ (statistics.weights - moved)
            weight = task.total * len(block) / task.rows.shape[0]
            statistics = statistics.after(_sums_of_rows(block, residual, statistics.intercept, weight, scale), rank)
            first += len(block)
        return statistics


def _updated(shares: Floats, errors: Floats, power: float) -> Floats:
    """Return the shares of a mixture after squared errors of its parts on a task, which count by their logarithms."""
    errors = np.maximum(errors, TINY)
    shares = shares * (errors.min() / errors) ** power
    return np.asarray(shares / shares.sum())


def _errors_before(state: State, task: TaskData, solutions: Floats) -> Floats:
    """Return the squared errors of predictions with some weights, of shape (parts, d + intercept, c), on a task.

    Features are clipped as for predictions, where rows can be read and an intercept tells the roots of their weights.
    """
    rows, start = task.rows, to_numpy(task.start)
    if rows.readable and not rows.remote and state.fit_intercept:
        errors, first = np.zeros(len(solutions)), 0
        for X in _chunks(rows, max(1, CHUNK // (8 * rows.shape[1]))):
            root, residual = X[:, -1:], to_numpy(task.residual)[first : first + len(X)]
            inside = np.concatenate([state.clipped(X[:, :-1] / root, inward=True) * root, root], axis=1)
            errors += np.sum((residual + X @ start - inside @ solutions) ** 2, axis=(1, 2))
            first += len(X)
        return errors
    views = [task.relative_to(from_numpy(weights, like=task.start)).residual for weights in solutions]
    return np.array([np.sum(to_numpy(residual) ** 2) for residual in views])


def _sums(task: TaskData, intercept: bool, scale: float) -> Sums:
    """Return the sums of a task with XᵀX."""
    rows = task.rows
    gram = to_numpy(sum_of_grams([rows.single], rows.shape[1]) if rows.dual else rows.gram) / scale
    residual = to_numpy(task.residual).astype(np.float64)
    if task.right is not None:
        right = to_numpy(task.right)
    else:
        plain = type(task.residual) is np.ndarray
        right = rows.adjoint_in_float64(residual) if plain else to_numpy(rows.adjoint(task.residual))
    right, squares = right / scale, np.einsum("ij,ij->j", residual, residual) / scale
    if not intercept:
        d, c = right.shape
        return Sums(task.total / scale, task.total, np.zeros(d), np.zeros(c), gram, right, squares)
    total = float(gram[-1, -1])
    mean, offset = gram[:-1, -1] / total, right[-1] / total
    centred = gram[:-1, :-1] - np.outer(total * mean, mean)
    right = right[:-1] - np.outer(total * mean, offset)
    return Sums(total, task.total, mean, offset, centred, right, np.maximum(squares - total * offset**2, 0.0))


def _chunks(rows: Any, count: int) -> Any:
    """Yield the rows of a task as dense float64 arrays of at most ``count`` rows."""
    for block in rows.blocks():
        for first in range(0, int(block.shape[0]), count):
            part = block[first : first + count, ...]
            yield np.asarray(part.toarray() if is_sparse(part) else to_numpy(part), dtype=np.float64)


def _sums_of_rows(rows: Floats, residual: Floats, intercept: bool, weight: float, scale: float) -> Sums:
    """Return the sums of some rows with X itself; ``weight`` is about theirs, where an intercept does not tell it."""
    rows, residual = rows / math.sqrt(scale), residual / math.sqrt(scale)
    d = rows.shape[1] - intercept
    if not intercept:
        squares = np.einsum("ij,ij->j", residual, residual)
        return Sums(weight / scale, weight, np.zeros(d), np.zeros(residual.shape[1]), rows, rows.T @ residual, squares)
    ones, X = rows[:, -1], rows[:, :-1]
    total = float(ones @ ones)
    mean, offset = ones @ X / total, ones @ residual / total
    X, residual = X - np.outer(ones, mean), residual - np.outer(ones, offset)
    return Sums(total, total * scale, mean, offset, X, X.T @ residual, np.einsum("ij,ij->j", residual, residual))
