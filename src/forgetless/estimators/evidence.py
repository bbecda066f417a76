"""The default rule of the estimators: a mixture of ridge regression by evidence, the mean, and
trackers.

Predictions are a mixture of the solution of ``statistics`` and the mean, and for the next task
(``objective="next"``) also of weights that follow a drifting solution (``tracking``) and of the
solution on the tasks since the last number that is a power of two, which recovers from an abrupt
change. Their shares follow from their errors on every task before it was learned (exponential
weights with a share for all, Herbster and Warmuth 1998). All are linear, and so is the mixture.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from forgetless._core.arrays import Floats
from forgetless.estimators._units import UnitChange
from forgetless.estimators.low_rank import LowRankMemory
from forgetless.estimators.rules import Options, Rule
from forgetless.estimators.state import Change, State, TaskData
from forgetless.estimators.statistics import TINY, Statistics, Sums, mean_variance
from forgetless.estimators.strength import Auto
from forgetless.estimators.tracking import DRIFTS, Trackers
from forgetless.io import Fields
from forgetless.solvers.rows import Rows, is_sparse, sum_of_grams

DEFAULT_RANK = 100

CHUNK = 2**26
"""Bytes of the dense rows that are learned at a time where there are more features than rows."""

PRIORS = {
    "seen": np.array([4.0, 1.0]) / 5.0,
    "next": np.array([8.0, 1.0, 2.0, 2.0, 1.0]) / 14.0,
    # the next task may have new ones, whose errors say nothing of those seen
    "classes": np.array([1.0, 0.0]),
}
"""Shares before the first task: of the solutions on all tasks and on recent ones, the trackers, and
the mean."""

_SHARED = 0.05
"""Fraction of the shares that returns to the prior before each task, so that a part can recover."""

_FIRST = 2.0
"""Power of the squared errors by which the first task, of which leave-one-out errors are known,
decides the shares."""


class Experts(NamedTuple):
    """The statistics of all tasks, and where the next task counts those of recent tasks, and
    trackers.

    ``shares`` are the weights in the mixture of their solutions and, at the end, of the mean.
    """

    statistics: Statistics
    recent: tuple[Statistics, ...]
    trackers: Trackers
    shares: Floats

    @property
    def weights(self) -> Floats:
        """The weights (d + intercept, c) to predict with."""
        return np.asarray(np.tensordot(self.shares, self.solutions, 1))

    @property
    def solutions(self) -> Floats:
        """The weights of all parts of the mixture, of shape (parts, d + intercept, c)."""
        recent = [each.weights for each in self.recent]
        return np.stack(
            [self.statistics.weights, *recent, *self.trackers.weights, self.statistics.mean_weights]
        )

    @property
    def retained_fraction(self) -> float:
        """Fraction of the trace of Σ XᵀX that is stored beside the diagonal."""
        return self.statistics.retained_fraction

    @property
    def inflation(self) -> float:
        """Factor by which residuals of rows left out are larger than those of rows learned, by
        their number.
        """
        return 1.0 / (
            1.0 - min((1.0 + self.statistics.freedom) / max(self.statistics.rows, 1.0), 0.9)
        )

    def in_units(self, change: UnitChange, total: float) -> "Experts":
        """Return the same in other units of the columns."""
        statistics, *recent = (
            each.in_units(change, total) for each in (self.statistics, *self.recent)
        )
        return Experts(statistics, tuple(recent), self.trackers.in_units(change), self.shares)

    def widened(self, d: int, count: int) -> "Experts":
        """Return the same with ``count`` more features behind the first d."""
        statistics, *recent = (each.widened(d, count) for each in (self.statistics, *self.recent))
        return Experts(statistics, tuple(recent), self.trackers.widened(d, count), self.shares)

    def detached(self) -> "Experts":
        """Return the same, whose arrays are never changed in place."""
        return self

    def with_classes(self, place: Any) -> "Experts":
        """Return the same with targets in another order, new ones (-1) being zero in every row so
        far.
        """

        def placed(part: Any, *names: str) -> Any:
            arrays = {
                name: np.where(place >= 0, getattr(part, name)[..., place], 0.0) for name in names
            }
            return part._replace(**arrays)

        parts = (
            placed(each, "weights", "gradient", "squares")
            for each in (self.statistics, *self.recent)
        )
        statistics, *recent = parts
        return Experts(statistics, tuple(recent), placed(self.trackers, "weights"), self.shares)

    def variances(self, directions: Floats, noise: float) -> Floats:
        """Return E(vᵀ(w − ŵ))² of directions v (n, d), for the slopes ŵ of the mixture."""
        return self.statistics.variances(
            directions, noise, self.weights[: len(self.statistics.mean), 0]
        )

    def leverage(self, rows: Floats) -> Floats:
        """Return xᵀ(G + λ)⁻¹x of rows (n, d + intercept)."""
        return self.statistics.leverage(rows)

    def arrays(self) -> dict[str, Any]:
        """Return the parts as arrays for a file."""
        names = ("trackers", "statistics", "recent")
        parts: tuple[Any, ...] = (self.trackers, self.statistics, *self.recent)
        arrays = {
            f"{name}.{key}": value
            for name, part in zip(names, parts, strict=False)
            for key, value in part._asdict().items()
        }
        return {"shares": self.shares} | {
            name: value for name, value in arrays.items() if value is not None
        }

    @classmethod
    def from_fields(
        cls, fields: Fields, memory: LowRankMemory | None, d: int, c: int, intercept: bool
    ) -> "Experts":
        """Return the statistics in the arrays of a file; ValueError where one is not valid."""
        memory = LowRankMemory(0) if memory is None else memory
        trackers = Trackers.from_fields(fields.part("trackers."), d, c)
        names = ("statistics.", "recent.")[: 1 + bool(len(trackers.inverses))]
        statistics, *recent = (
            Statistics.from_fields(fields.part(name), memory, d - intercept, c, intercept)
            for name in names
        )
        shares = fields.array(
            "shares", "f", (len(names) + len(trackers.inverses) + 1,), low=0.0, high=1.0
        )
        return cls(statistics, tuple(recent), trackers, shares)


class Evidence(Rule):
    """Ridge regression on all tasks by statistics, with the strength of largest evidence."""

    def __init__(
        self, options: Options, memory: LowRankMemory | None, auto: Auto, *, classes: bool
    ) -> None:
        self.options = options
        self.memory = LowRankMemory(0) if memory is None else memory
        self.clip = auto.clip
        self.prior = PRIORS["classes" if classes and auto.objective == "seen" else auto.objective]

    def step(self, state: State, task: TaskData) -> Change:
        """Return the change of a state by a task."""
        start = task.start.astype(np.float64)
        memory = self._learned(state, task, start)
        change = memory.weights - start
        return Change(
            change,
            task.error_after(change),
            memory.statistics.strength,
            error=math.nan,
            parts={"memory": memory},
        )

    def _learned(self, state: State, task: TaskData, start: Floats) -> Experts:
        """Return the memory after a task."""
        before = state.memory
        prior = self.prior
        number = state.n_tasks + 1
        empty = Statistics.empty(start, len(start) - state.fit_intercept, self.memory.rank)
        statistics = self._after(empty if before is None else before.statistics, task)
        # the first task, also of another objective
        begins = before is None or len(before.shares) != len(prior)
        recent: tuple[Statistics, ...] = ()
        if len(prior) > 2:
            again = begins or number & (number - 1) == 0
            # In units of λ of all tasks: columns of a single one may hardly vary.
            unit = mean_variance(statistics.diagonal, statistics.rows)
            recent = (
                self._after((empty if again else before.recent[0])._replace(unit=unit), task),
            )
        if begins:
            if before is None:
                error, mean_error = statistics.leave_out_errors()
                prior = _updated(prior, np.array([error] * (len(prior) - 1) + [mean_error]), _FIRST)
            trackers = Trackers.starting(statistics, len(DRIFTS) if recent else 0)
            return Experts(statistics, recent, trackers, prior)
        trackers = before.trackers.after(self._pieces(task, len(empty.mean)), statistics)
        shares = (1.0 - _SHARED) * before.shares + _SHARED * prior
        shares = _updated(shares, _errors_before(state, task, before.solutions), 0.5)
        return Experts(statistics, recent, trackers, shares)

    def _after(self, statistics: Statistics, task: TaskData) -> Statistics:
        """Return statistics after a task."""
        statistics = statistics.decayed(1.0 - self.memory.decay)
        for piece in self._pieces(task, len(statistics.mean)):
            part = piece.relative_to(statistics.weights)
            # the statistics reject infinite sums
            with np.errstate(over="ignore", invalid="ignore"):
                sums = (_sums if piece is task else _sums_of_rows)(part, statistics.intercept)
            statistics = statistics.after(sums, self.memory.rank)
        return statistics.stored(self.memory.dtype)

    def _pieces(self, task: TaskData, d: int) -> Iterator[TaskData]:
        """Yield a task of d features beside the intercept, in chunks of dense rows where these are
        fewer.
        """
        rank = self.memory.rank
        n = task.rows.shape[0]
        if not task.rows.readable or d <= rank or n + rank >= d:
            yield task
            return
        start = task.start
        first = 0
        for block in _chunks(task.rows, max(rank, CHUNK // (8 * d))):
            residual = task.residual[first : first + len(block)].astype(np.float64)
            total = task.total * len(block) / n
            yield task._replace(
                start=start, rows=Rows.of(block), residual=residual, total=total, right=None
            )
            first += len(block)


def _updated(shares: Floats, errors: Floats, power: float) -> Floats:
    """Return the shares of a mixture after squared errors of its parts on a task, which count by
    their logarithms.
    """
    errors = np.maximum(errors, TINY)
    shares = shares * (errors.min() / errors) ** power
    return np.asarray(shares / shares.sum())


def _errors_before(state: State, task: TaskData, solutions: Floats) -> Floats:
    """Return the squared errors of predictions with some weights, of shape (parts, d + intercept,
    c), on a task.

    Features are clipped as for predictions, where rows can be read and an intercept tells the roots
    of their weights.
    """
    rows = task.rows
    start = task.start
    if rows.readable and not rows.remote and state.fit_intercept:
        errors = np.zeros(len(solutions))
        first = 0
        for X in _chunks(rows, max(1, CHUNK // (8 * rows.shape[1]))):
            root = X[:, -1:]
            residual = task.residual[first : first + len(X)]
            inside = np.concatenate(
                [state.clipped(X[:, :-1] / root, inward=True) * root, root], axis=1
            )
            errors += np.sum((residual + X @ start - inside @ solutions) ** 2, axis=(1, 2))
            first += len(X)
        return errors
    views = [task.relative_to(weights).residual for weights in solutions]
    return np.array([np.sum(residual**2) for residual in views])


def _sums(task: TaskData, intercept: bool) -> Sums:
    """Return the sums of a task with XᵀX."""
    rows = task.rows
    gram = sum_of_grams([rows.single], rows.shape[1]) if rows.dual else rows.gram
    residual = task.residual.astype(np.float64)
    if task.right is not None:
        right = task.right
    else:
        plain = type(task.residual) is np.ndarray
        right = rows.adjoint_in_float64(residual) if plain else rows.adjoint(task.residual)
    squares = np.einsum("ij,ij->j", residual, residual)
    if not intercept:
        d, c = right.shape
        return Sums(task.total, task.total, np.zeros(d), np.zeros(c), gram, right, squares)
    total = float(gram[-1, -1])
    mean = gram[:-1, -1] / total
    offset = right[-1] / total
    centred = gram[:-1, :-1] - np.outer(total * mean, mean)
    right = right[:-1] - np.outer(total * mean, offset)
    return Sums(
        total,
        task.total,
        mean,
        offset,
        centred,
        right,
        np.maximum(squares - total * offset**2, 0.0),
    )


def _chunks(rows: Any, count: int) -> Any:
    """Yield the rows of a task as dense float64 arrays of at most ``count`` rows."""
    for block in rows.blocks():
        for first in range(0, int(block.shape[0]), count):
            part = block[first : first + count, ...]
            yield np.asarray(part.toarray() if is_sparse(part) else part, dtype=np.float64)


def _sums_of_rows(task: TaskData, intercept: bool) -> Sums:
    """Return the sums of some rows with X itself."""
    rows = task.rows.single
    residual = task.residual
    weight = task.total
    d = rows.shape[1] - intercept
    if not intercept:
        squares = np.einsum("ij,ij->j", residual, residual)
        return Sums(
            weight,
            weight,
            np.zeros(d),
            np.zeros(residual.shape[1]),
            rows,
            rows.T @ residual,
            squares,
        )
    ones = rows[:, -1]
    X = rows[:, :-1]
    total = float(ones @ ones)
    mean = ones @ X / total
    offset = ones @ residual / total
    X = X - np.outer(ones, mean)
    residual = residual - np.outer(ones, offset)
    return Sums(
        total,
        total,
        mean,
        offset,
        X,
        X.T @ residual,
        np.einsum("ij,ij->j", residual, residual),
    )
