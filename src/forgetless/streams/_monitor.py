"""What a streaming model remembers of its own past, in bounded memory: the last tasks, a sample of held-out rows."""

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from forgetless._base.arrays import Array, to_numpy
from forgetless.solvers.rows import is_sparse, rows_of

COLUMNS = ("task", "n_rows", "strength", "radius", "mse_before", "mse_after", "error", "seen_mse")
"""What ``history_`` holds, one array each."""


BEFORE = COLUMNS.index("mse_before")


class History(NamedTuple):
    """The last ``size`` tasks, and the sums behind the prequential error of all.

    Histories that follow each other share one ``log``, of which each owns the first ``length`` rows. Those are never
    changed; a row behind them belongs to a task that was interrupted before it was published, and is written over.
    """

    size: int
    log: list[tuple[float, ...]]
    length: int = 0
    total: float = 0.0
    squares: float = 0.0

    def with_row(self, row: tuple[float, ...], weight: float) -> "History":
        """Return the history with one more task: its ``COLUMNS``, and the sum of its row weights."""
        size, log, length, total, squares = self
        if size:
            if length >= size + size // 8:  # what is no longer shown leaves memory from time to time
                log, length = log[length - size + 1 : length], size - 1
            elif len(log) > length:
                del log[length:]
            log.append(row)
            length += 1
        # Through ``tuple``, here and in ``State``: half the time of the constructor, which counts for one-row tasks.
        return tuple.__new__(History, (size, log, length, total + weight, squares + weight * row[BEFORE]))

    @property
    def rows(self) -> list[tuple[float, ...]]:
        """The last ``size`` rows, oldest first."""
        return self.log[max(self.length - self.size, 0) : self.length]

    def apart(self) -> "History":
        """Return a history that goes its own way: two that share a log must not both go on."""
        rows = self.rows
        return History(self.size, rows, len(rows), self.total, self.squares)

    def __reduce__(self) -> tuple[Any, ...]:
        return History, tuple(self.apart())

    @property
    def prequential_mse(self) -> float:
        """Mean squared error of every row when it was first met."""
        return self.squares / self.total if self.total > 0 else math.nan

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

    def to_arrays(self) -> dict[str, Any]:
        """Return everything but the size as arrays."""
        return {**self.columns(), "sums": np.array([self.total, self.squares])}

    @classmethod
    def from_arrays(cls, size: int, arrays: Mapping[str, Any]) -> "History":
        """Return a history from what ``to_arrays`` gave."""
        rows = list(zip(*(arrays[name].tolist() for name in COLUMNS), strict=True))
        return cls(size, rows, len(rows), *arrays["sums"].tolist())


class Holdout(NamedTuple):
    """Rows of past tasks that were never trained on: at most ``size`` in all, shared evenly between the tasks.

    With more tasks than ``size`` a uniform sample of the tasks is kept. Which rows and tasks are kept depends only on
    the seed and the number of the task. A part is (number of the task, X, y).
    """

    share: float
    size: int
    seed: int
    parts: tuple[tuple[int, Any, Any], ...] = ()

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
        parts = list(self.parts)
        if len(parts) < self.size:
            parts.append(held)
        else:
            place = int(np.random.default_rng([self.seed, held[0], 1]).integers(n_tasks))
            if place < self.size:
                parts[place] = held
        quota = max(1, self.size // len(parts))
        for i, (task, X, y) in enumerate(parts):
            if X.shape[0] > quota:
                # A copy, not a view: the rows cut off must not stay in memory.
                few = np.arange(quota)
                parts[i] = (task, rows_of(X, few), rows_of(y, few))
        return self._replace(parts=tuple(parts))

    def error(self, predict: Callable[[Any], Array]) -> float:
        """Return the mean over tasks of the mean squared error of predictions (n, c) of their held-out rows."""
        if not self.parts:
            return math.nan
        errors = []
        for _, X, y in self.parts:
            gap = to_numpy(predict(X)) - to_numpy(y).reshape(int(X.shape[0]), -1)
            errors.append(float(np.mean(gap.astype(np.float64) ** 2)))
        return float(np.mean(errors))

    def to_arrays(self) -> dict[str, Any]:
        """Return the seed and the parts as arrays; share and size are parameters of the model."""
        arrays = {"seed": np.array(self.seed)}
        for i, (task, X, y) in enumerate(self.parts):
            arrays |= {f"{i}.task": np.array(task), f"{i}.y": to_numpy(y), **matrix_to_arrays(f"{i}.", X)}
        return arrays

    @classmethod
    def from_arrays(cls, share: float, size: int, arrays: Mapping[str, Any]) -> "Holdout":
        """Return a holdout from what ``to_arrays`` gave."""
        parts: list[tuple[int, Any, Any]] = []
        while (at := f"{len(parts)}.") + "task" in arrays:
            parts.append((int(arrays[at + "task"]), matrix_from_arrays(at, arrays), arrays[at + "y"]))
        return cls(share, size, int(arrays["seed"]), tuple(parts))


def matrix_to_arrays(at: str, X: Any) -> dict[str, Any]:
    """Return the rows X, dense or sparse, as arrays whose names begin with ``at``."""
    if is_sparse(X):
        return {at + part: np.asarray(getattr(X, part)) for part in ("data", "indices", "indptr", "shape")}
    return {at + "X": to_numpy(X)}


def matrix_from_arrays(at: str, arrays: Mapping[str, Any]) -> Any:
    """Return the rows from what ``matrix_to_arrays`` gave."""
    if at + "X" in arrays:
        return arrays[at + "X"]
    from scipy import sparse

    triple = arrays[at + "data"], arrays[at + "indices"], arrays[at + "indptr"]
    return sparse.csr_array(triple, shape=tuple(arrays[at + "shape"]))


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
