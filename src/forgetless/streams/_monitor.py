"""What a streaming model remembers of its own past, in bounded memory: the last tasks, a sample of held-out rows."""

import math
from collections import deque
from typing import Any

import numpy as np

from forgetless._base.arrays import to_numpy
from forgetless.solvers.rows import is_sparse, rows_of

COLUMNS = ("task", "n_rows", "strength", "radius", "mse_before", "mse_after", "error", "seen_mse")
"""What ``history_`` holds, one array each."""


BEFORE = COLUMNS.index("mse_before")


class History:
    """The last ``size`` tasks, and the sums behind the prequential error of all."""

    def __init__(self, size: int) -> None:
        self.rows: deque[tuple[float, ...]] = deque(maxlen=size)
        self.total = 0.0
        self.squares = 0.0

    def add(self, row: tuple[float, ...], weight: float) -> None:
        """Record one task in place: its ``COLUMNS``, and the sum of its row weights."""
        self.rows.append(row)
        self.total += weight
        self.squares += weight * row[BEFORE]

    def with_row(self, row: tuple[float, ...], weight: float) -> "History":
        """Return a history with one more task."""
        other = self.copy()
        other.add(row, weight)
        return other

    def copy(self) -> "History":
        """Return a history that goes its own way."""
        other = History(self.rows.maxlen or 0)
        other.rows.extend(self.rows)
        other.total, other.squares = self.total, self.squares
        return other

    @property
    def prequential_mse(self) -> float:
        """Mean squared error of every row when it was first met."""
        return self.squares / self.total if self.total > 0 else math.nan

    def to_arrays(self) -> dict[str, Any]:
        """Return the columns as arrays."""
        table = np.array(self.rows, dtype=np.float64).reshape(-1, len(COLUMNS))
        found: dict[str, Any] = dict(zip(COLUMNS, table.T, strict=True))
        for name in ("task", "n_rows"):
            found[name] = found[name].astype(np.int64)
        return found

    @classmethod
    def from_arrays(cls, size: int, table: dict[str, Any], total: float, squares: float) -> "History":
        """Return a history from what ``to_arrays`` gave."""
        history = cls(size)
        history.rows.extend(zip(*(table[name].tolist() for name in COLUMNS), strict=True))
        history.total, history.squares = total, squares
        return history


class Holdout:
    """Rows of past tasks that were never trained on: at most ``size`` in all, shared evenly between the tasks.

    With more tasks than ``size`` a uniform sample of the tasks is kept. Which rows and tasks are kept depends only on
    the seed and the number of the task.
    """

    def __init__(self, share: float, size: int, seed: int) -> None:
        self.share, self.size, self.seed = share, size, seed
        self.parts: list[tuple[int, Any, Any]] = []

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
        other = Holdout(self.share, self.size, self.seed)
        parts = other.parts = list(self.parts)
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
        return other

    def error(self, model: Any) -> float:
        """Return the mean over tasks of the mean squared error of ``model`` on their held-out rows."""
        if not self.parts:
            return math.nan
        errors = []
        for _, X, y in self.parts:
            gap = to_numpy(model._raw_predict(X, model._weights(X, y))) - to_numpy(y).reshape(int(X.shape[0]), -1)
            errors.append(float(np.mean(gap.astype(np.float64) ** 2)))
        return float(np.mean(errors))


def nbytes(value: Any) -> int:
    """Return the bytes of the numbers in a value: arrays, sparse matrices, floats, and whatever holds them."""
    if isinstance(value, float):
        return 8
    if is_sparse(value):
        return sum(int(part.nbytes) for part in (value.data, value.indices, value.indptr))
    if hasattr(value, "nbytes"):
        return int(value.nbytes)
    if isinstance(value, list | tuple | deque):
        return sum(map(nbytes, value))
    return sum(map(nbytes, vars(value).values())) if hasattr(value, "__dict__") else 0
