"""Records of a stream in bounded memory: the history of its tasks, and the temperature of class
probabilities.

Probabilities are softmax(scores/T). T minimizes the log-loss of rows of every task before it is
learned, and of the same rows afterwards, with residuals enlarged by n/(n − f) for the f degrees of
freedom that the rows learned have used (generalized cross-validation). The first know how
predictions generalize to the next task, the second exist also for classes that have just come.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from forgetless._core.arrays import Floats
from forgetless.reporting.table import Printed, Table, frame

COLUMNS = ("task", "n_rows", "strength", "radius", "mse_before", "mse_after", "error")
"""Columns of ``history_``."""

BEFORE = COLUMNS.index("mse_before")

SIZE = 1000
"""Number of tasks in the history."""

_PRINTED = 12
"""Number of tasks that are printed, the last ones."""


class History(NamedTuple):
    """The last ``SIZE`` tasks, and the prequential error of all: the ``mean`` over rows of weight
    ``total``.

    Successive histories share one ``log``, of which each owns the first ``length`` rows. Those are
    never changed; a row behind them belongs to a task that was interrupted before its state was
    published, and is overwritten.
    """

    log: list[tuple[float, ...]]
    length: int = 0
    total: float = 0.0
    mean: float = 0.0

    def with_row(self, row: tuple[float, ...], weight: float) -> "History":
        """Return the history with one more task: its ``COLUMNS``, and the sum of its row
        weights.
        """
        log, length, total, mean = self
        total += weight
        # a list is cut from time to time only, which costs O(1) per task
        if length >= SIZE + SIZE // 8:
            log = log[length - SIZE + 1 : length]
            length = SIZE - 1
        elif len(log) > length:
            del log[length:]
        log.append(row)
        # Through ``tuple``, here and in ``State``: half the time of the constructor, which counts
        # for one-row tasks. A running mean: a sum of squares could become infinite, and would
        # remain so.
        return tuple.__new__(
            History, (log, length + 1, total, mean + (row[BEFORE] - mean) * (weight / total))
        )

    @property
    def rows(self) -> list[tuple[float, ...]]:
        """The last ``SIZE`` rows, oldest first."""
        return self.log[max(self.length - SIZE, 0) : self.length]

    def detached(self) -> "History":
        """Return a history with a log of its own: two histories that share one must not both be
        continued.
        """
        rows = self.rows
        return History(rows, len(rows), self.total, self.mean)

    def __reduce__(self) -> tuple[Any, ...]:
        return History, tuple(self.detached())

    @property
    def prequential_mse(self) -> float:
        """Mean squared error of every row before it was learned."""
        return self.mean if self.total > 0 else math.nan

    @property
    def nbytes(self) -> int:
        """Size of the stored numbers in bytes."""
        return 8 * (len(COLUMNS) * len(self.log) + 2)

    def columns(self) -> dict[str, Any]:
        """Return the columns of the last ``SIZE`` tasks as arrays."""
        table = np.array(self.rows, dtype=np.float64).reshape(-1, len(COLUMNS))
        columns: dict[str, Any] = dict(zip(COLUMNS, table.T, strict=True))
        return columns | {name: columns[name].astype(np.int64) for name in ("task", "n_rows")}


class TaskHistory(Printed, dict[str, Any]):
    """The last tasks that a model learned: one array per column, printed as a table.

    Examples
    --------
    >>> import forgetless as fl
    >>> model = fl.ContinualRidge(alpha=1.0).partial_fit([[1.0]], [2.0]).partial_fit([[1.0]], [2.0])
    >>> model.history_["mse_before"].tolist()
    [4.0, 1.0]
    """

    def table(self) -> Table:
        """Return the last tasks as a table."""
        n_tasks = len(self["task"])
        title = "Tasks learned" + (
            f", the last {_PRINTED} of {n_tasks} stored" if n_tasks > _PRINTED else ""
        )
        return Table(title, {name: column[-_PRINTED:].tolist() for name, column in self.items()})

    def to_frame(self) -> Any:
        """Return all tasks as a pandas data frame, one row each."""
        return frame(self)

    def plot(self, ax: Any = None) -> Any:
        """Draw the error before and after learning each task, and the strength; returns the
        axes.
        """
        from forgetless.plots.results import plot_history

        return plot_history(self, ax)


INVERSES = 2.0 ** np.arange(-2.0, 9.01, 0.5)
"""Values of 1/T at which the log-loss is known; in between it is interpolated."""

_DECAY = 0.95
"""Weight of the rows so far at the next task, as predictions get better while a stream is
learned."""

_LEAST_ROWS = 100
"""Rows that are not decayed further."""

MOST_ROWS = 1000
"""Rows of a task by which the temperature is fitted."""


class Calibration(NamedTuple):
    """Sums of the log-loss at every value of ``INVERSES``, and the weight of their rows."""

    losses: Floats
    rows: float = 0.0

    @classmethod
    def empty(cls) -> "Calibration":
        """Return the sums before the first row."""
        return cls(np.zeros(len(INVERSES)))

    @property
    def temperature(self) -> float:
        """T with the smallest log-loss: by a parabola through the three values around it; 1 without
        any row.

        Examples
        --------
        >>> scores, targets = np.array([[0.6, 0.4], [0.45, 0.55], [0.6, 0.4]]), np.array([[1, 0],
        ...     [1, 0], [1, 0]])
        >>> round(Calibration.empty().with_rows(scores, targets, np.ones(3)).temperature, 2)
        0.13
        """
        if not self.rows > 0:
            return 1.0
        best = int(np.argmin(self.losses))
        place = float(best)
        if 0 < best < len(INVERSES) - 1:
            before, at, after = self.losses[best - 1 : best + 2]
            place += 0.5 * (before - after) / max(before - 2.0 * at + after, 1e-300)
        return float(2.0 ** -(np.log2(INVERSES[0]) + 0.5 * place))

    def decayed(self) -> "Calibration":
        """Return the sums with less weight for the rows so far."""
        factor = _DECAY if _DECAY * self.rows >= _LEAST_ROWS else 1.0
        return Calibration(factor * self.losses, factor * self.rows)

    def with_rows(self, scores: Floats, targets: Floats, weights: Floats) -> "Calibration":
        """Return the sums with rows of predicted scores and one-hot targets, both (n, c), and of
        weights (n,).
        """
        scaled = INVERSES[:, None, None] * (scores - np.max(scores, axis=1, keepdims=True))
        losses = np.log(np.sum(np.exp(scaled), axis=2)) - np.sum(scaled * targets, axis=2)
        return Calibration(self.losses + losses @ weights, self.rows + float(weights.sum()))


def some_rows(n: int) -> slice:
    """Return at most ``MOST_ROWS`` evenly spaced ones of n rows."""
    return slice(None, None, max(1, math.ceil(n / MOST_ROWS)))
