"""History of a stream: its last tasks in bounded memory, the prequential error of all tasks, and
the printed table.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from forgetless.reporting import html
from forgetless.reporting.table import Table, frame

COLUMNS = ("task", "n_rows", "strength", "radius", "mse_before", "mse_after", "error")
"""Columns of ``history_``."""

BEFORE = COLUMNS.index("mse_before")

SIZE = 1000
"""Number of tasks in the history."""

PRINTED = 12
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
            log, length = log[length - SIZE + 1 : length], SIZE - 1
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


class TaskHistory(dict[str, Any]):
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
            f", the last {PRINTED} of {n_tasks} stored" if n_tasks > PRINTED else ""
        )
        return Table(title, {name: column[-PRINTED:].tolist() for name, column in self.items()})

    def to_frame(self) -> Any:
        """Return all tasks as a pandas data frame, one row each."""
        return frame(self)

    def plot(self, ax: Any = None) -> Any:
        """Draw the error before and after learning each task, and the strength; returns the
        axes.
        """
        from forgetless.plots.results import plot_history

        return plot_history(self, ax)

    def __repr__(self) -> str:
        table = self.table()
        return f"{table.title}\n{table.text()}"

    def _repr_html_(self) -> str:
        return html.titled(self.table())
