"""What a streaming model remembers of its own past, in bounded memory: the last tasks, a sample of held-out rows."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from forgetless._core.arrays import Array, namespace_of, to_numpy
from forgetless.solvers.rows import is_sparse, rows_of

COLUMNS = ("task", "n_rows", "strength", "radius", "mse_before", "mse_after", "error", "seen_mse")
"""What ``history_`` holds, one array each."""


BEFORE = COLUMNS.index("mse_before")


class History(NamedTuple):
    """The last ``size`` tasks, and the prequential error of all: the ``mean`` over rows of weight ``total``.

    Histories that follow each other share one ``log``, of which each owns the first ``length`` rows. Those are never
    changed; a row behind them belongs to a task that was interrupted before it was published, and is written over.
    """

    size: int
    log: list[tuple[float, ...]]
    length: int = 0
    total: float = 0.0
    mean: float = 0.0

    def with_row(self, row: tuple[float, ...], weight: float) -> "History":
        """Return the history with one more task: its ``COLUMNS``, and the sum of its row weights."""
        size, log, length, total, mean = self
        total += weight
        if size:
            if length >= size + size // 8:  # what is no longer shown leaves memory from time to time
                log, length = log[length - size + 1 : length], size - 1
            elif len(log) > length:
                del log[length:]
            log.append(row)
            length += 1
        # Through ``tuple``, here and in ``State``: half the time of the constructor, which counts for one-row tasks.
        # A running mean: a sum of squares could become infinite, and would remain so.
        return tuple.__new__(History, (size, log, length, total, mean + (row[BEFORE] - mean) * (weight / total)))

    @property
    def rows(self) -> list[tuple[float, ...]]:
        """The last ``size`` rows, oldest first."""
        return self.log[max(self.length - self.size, 0) : self.length]

    def apart(self) -> "History":
        """Return a history that goes its own way: two that share a log must not both go on."""
        rows = self.rows
        return History(self.size, rows, len(rows), self.total, self.mean)

    def __reduce__(self) -> tuple[Any, ...]:
        return History, tuple(self.apart())

    @property
    def prequential_mse(self) -> float:
        """Mean squared error of every row when it was first met."""
        return self.mean if self.total > 0 else math.nan

    @property
    def nbytes(self) -> int:
        """Bytes of the numbers kept."""
        return 8 * (len(COLUMNS) * len(self.log) + 2)

    def columns(self) -> dict[str, Any]:
        """Return the columns of the last ``size`` tasks as arrays."""
        table = np.array(self.rows, dtype=np.float64).reshape(-1, len(COLUMNS))
        found: dict[str, Any] = dict(zip(COLUMNS, table.T, strict=True))
        for name in ("task", "n_rows"):
            found[name] = found[name].astype(np.int64)
        return found


class Holdout(NamedTuple):
    """Rows of past tasks that were never trained on: at most ``size`` in all, shared evenly between the tasks.

    With more tasks than ``size`` a uniform sample of the tasks is kept. Which rows and tasks are kept depends only on
    the seed and the number of the task. The rows of all tasks lie in one matrix, so that an error costs one product.

    Attributes
    ----------
    X : matrix of shape (n, d), or None as long as there is none
    y : array of shape (n, c)
    tasks, counts : arrays of shape (p,)
        The number of each task, and how many of the rows are its own, in this order.
    """

    share: float
    size: int
    seed: int
    X: Any = None
    y: Any = None
    tasks: Any = np.zeros(0, dtype=np.int64)
    counts: Any = np.zeros(0, dtype=np.int64)

    def split(self, X: Any, y: Any, weight: Any, task: int) -> tuple[Any, Any, Any, Any]:
        """Return X, y and weights to train on, and the held-out (task, X, y), if any."""
        n = int(X.shape[0])
        count = min(n - 1, math.floor(self.share * n + 0.5))
        if count == 0:
            return X, y, weight, None
        order = np.random.default_rng([self.seed, task]).permutation(n)
        held, kept = order[:count], np.sort(order[count:])
        train = rows_of(X, kept), rows_of(y, kept), None if weight is None else rows_of(weight, kept)
        return *train, (task, rows_of(X, held), rows_of(y, held))

    def with_part(self, held: Any, n_tasks: int) -> "Holdout":
        """Return a holdout with the held-out rows of the newest of ``n_tasks`` tasks."""
        if held is None:
            return self
        task, X, y = held
        y = to_numpy(y).reshape(int(X.shape[0]), -1)
        tasks, counts, leaving = self.tasks, self.counts, -1
        if len(tasks) >= self.size:
            leaving = int(np.random.default_rng([self.seed, task, 1]).integers(n_tasks))
            if leaving >= self.size:
                return self
        quota = max(1, self.size // (len(tasks) + (leaving < 0)))
        allowed = np.minimum(counts, quota)
        if leaving >= 0:
            allowed[leaving] = 0
        few = np.arange(min(int(X.shape[0]), quota))
        X, y = (rows_of(X, few), y[few]) if len(few) < X.shape[0] else (X, y)
        if self.X is not None:
            old = self.X, self.y
            if int(allowed.sum()) < int(counts.sum()):
                within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
                stay = np.flatnonzero(within < np.repeat(allowed, counts))
                old = rows_of(self.X, stay), self.y[stay]
            X, y = stacked(old[0], X), np.concatenate([old[1], y])
        there = allowed > 0
        tasks, counts = np.append(tasks[there], task), np.append(allowed[there], len(few))
        return self._replace(X=X, y=y, tasks=tasks, counts=counts)

    def error(self, predict: Callable[[Any], Array]) -> float:
        """Return the mean over tasks of the mean squared error of predictions (n, c) of their held-out rows."""
        if self.X is None:
            return math.nan
        with np.errstate(over="ignore"):
            gap = to_numpy(predict(self.X)).astype(np.float64) - self.y
            rows = np.mean(gap * gap, axis=1)
            errors = np.add.reduceat(rows, np.cumsum(self.counts) - self.counts) / self.counts
            return float(np.mean(errors))


def stacked(above: Any, below: Any) -> Any:
    """Return two matrices of one array library, or sparse ones, as one; sparse where one of them is."""
    if is_sparse(above) or is_sparse(below):
        from scipy import sparse

        return sparse.csr_array(sparse.vstack([sparse.csr_array(above), sparse.csr_array(below)], format="csr"))
    return namespace_of(above).concat([above, below], axis=0)


def nbytes(value: Any) -> int:
    """Return the bytes of the numbers in a value: arrays, sparse matrices, floats, and whatever holds them."""
    if isinstance(value, float):
        return 8
    if is_sparse(value):
        return sum(int(part.nbytes) for part in (value.data, value.indices, value.indptr))
    if hasattr(value, "nbytes"):
        return int(value.nbytes)
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return sum(map(nbytes, value))
    return sum(map(nbytes, vars(value).values())) if hasattr(value, "__dict__") else 0
