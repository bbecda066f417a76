"""Held-out rows of all tasks of a stream, and the errors of a model on them."""

from collections.abc import Callable
from typing import Any

import numpy as np

from forgetless._core.arrays import Floats
from forgetless._core.frames import Columns
from forgetless._core.linalg import for_task
from forgetless.solvers.rows import is_sparse

ROWS = 20_000
"""Largest number of held-out rows, about the same number of every task."""


class HeldOut:
    """The held-out rows of the tasks so far, as the model takes them.

    Features keep their places, so rows are encoded once, and get zeros for features that come later; ``refresh``
    encodes all of them again.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self.rows: list[Any] = []
        self.features = _Stack()
        self.targets: list[Floats] = []
        self.learned: list[Floats] = []

    def add(self, X: Any, y: Floats, held: Any) -> None:
        """Add the rows ``held`` of the task that was learned last."""
        most = max(1, ROWS // _rounded_up(len(self.rows) + 1))
        first = slice(0, most)
        if any(len(part) > most for part in self.targets):
            for parts in (self.rows, self.targets, self.learned):
                parts[:] = [rows_of(part, first) for part in parts]
            self.features.truncate(most)
        self.rows.append(rows_of(X, held[first]))
        self.targets.append(y[held[first]])
        features = self._encoded(self.rows[-1])
        self.features.add(features)
        with for_task(features.shape):
            self.learned.append(_squared_errors(self._predict(features), self.targets[-1]))

    def refresh(self) -> None:
        """Encode all rows again."""
        self.features = _Stack()
        for X in self.rows:
            self.features.add(self._encoded(X))

    def errors(self, predict: Callable[[Any], Any] | None = None) -> list[float]:
        """Return the mean squared error of every task, of the model or of another function of the features."""
        return [float(part.mean()) for part in self._by_task(predict or self._predict)]

    def change(self) -> Floats:
        """Return the increase of the error of each task since it was learned, and the standard error of that."""
        increases = []
        for now, then in zip(self._by_task(self._predict), self.learned, strict=True):
            gap = now - then
            increases.append((gap.mean(), gap.std(ddof=1) / np.sqrt(len(gap)) if len(gap) > 1 else np.nan))
        return np.array(increases)

    def _encoded(self, X: Any) -> Any:
        """Return rows as the last step of a pipeline takes them."""
        if hasattr(self.model, "steps"):
            for _, step in self.model.steps[:-1]:
                X = step.transform(X)
        return X

    def _predict(self, X: Any) -> Any:
        return (self.model[-1] if hasattr(self.model, "steps") else self.model).predict(X)

    def _by_task(self, predict: Callable[[Any], Any]) -> list[Floats]:
        """Return the squared error of every row, task by task, from one product for all."""
        X = self.features.all()
        with for_task(X.shape):
            squares = _squared_errors(predict(X), np.concatenate(self.targets))
        return np.split(squares, np.cumsum(self.features.counts)[:-1])


def _squared_errors(predictions: Any, y: Floats) -> Floats:
    gap = np.asarray(predictions) - y
    return gap**2 if gap.ndim == 1 else np.mean(gap**2, axis=1)


class _Stack:
    """Rows of several tasks one below the other: in one array that has room for more, or as sparse parts."""

    def __init__(self) -> None:
        self.counts: list[int] = []
        self._dense = np.zeros((0, 0))
        self._sparse: list[Any] = []

    def add(self, X: Any) -> None:
        """Add the rows of a task below; it may have more features, which are zero in the others."""
        if is_sparse(X) or self._sparse:
            self._sparse = [*(self._sparse or ([self.all()] if self.counts else [])), X]
            self.counts.append(int(X.shape[0]))
            return
        X = np.asarray(X)
        end, more = sum(self.counts), len(X)
        if self._dense.shape[1] < X.shape[1] or len(self._dense) < end + more:
            larger = np.zeros((max(ROWS, end + more), max(X.shape[1], self._dense.shape[1])))
            larger[:end, : self._dense.shape[1]] = self._dense[:end]
            self._dense = larger
        self._dense[end : end + more] = X
        self.counts.append(more)

    def truncate(self, most: int) -> None:
        """Remove all but the first ``most`` rows of every task."""
        inside = np.concatenate([np.arange(count) for count in self.counts])
        X, self.counts = self.all()[np.flatnonzero(inside < most)], [min(count, most) for count in self.counts]
        if self._sparse:
            self._sparse = [X]
        else:
            self._dense[: len(X)] = X

    def all(self) -> Any:
        """Return all rows."""
        if not self._sparse:
            return self._dense[: sum(self.counts)]
        if len(self._sparse) > 1:
            from scipy import sparse

            width = max(int(part.shape[1]) for part in self._sparse)
            parts = [_wider(sparse.csr_array(part), width) for part in self._sparse]
            self._sparse = [sparse.csr_array(sparse.vstack(parts, format="csr"))]
        return self._sparse[0]


def _rounded_up(count: int) -> int:
    """Return a slightly larger number with few binary digits, so that rows are not removed with every task.

    Examples
    --------
    >>> [_rounded_up(count) for count in (1, 7, 9, 85)]
    [1, 7, 10, 96]
    """
    step = 1 << max(count.bit_length() - 3, 0)
    return -(-count // step) * step


def _wider(X: Any, width: int) -> Any:
    from scipy import sparse

    return sparse.csr_array((X.data, X.indices, X.indptr), shape=(X.shape[0], width))


def rows_of(X: Any, rows: Any) -> Any:
    """Return some rows of a table or an array."""
    if isinstance(X, Columns):
        return X.rows(rows)
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]
