"""Held-out rows of all tasks of a stream, and how well a model does on them."""

from collections.abc import Callable
from typing import Any

import numpy as np

from forgetless._core.arrays import Floats
from forgetless._core.frames import Columns
from forgetless._core.products import for_task
from forgetless.solvers.rows import is_sparse

ROWS = 20_000
"""At most this many held-out rows are watched in all, about the same number of every task."""


class Watched:
    """The held-out rows of the tasks so far, as the model takes them.

    Features keep their places, so rows are encoded once, and get zeros for features that come later; ``refresh``
    encodes all of them anew.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self.given: list[Any] = []
        self.made = _Stack()
        self.targets: list[Floats] = []
        self.learned: list[Floats] = []

    def features(self, X: Any) -> Any:
        """Return rows as the estimator takes them."""
        if not hasattr(self.model, "steps"):
            return X
        for _, step in self.model.steps[:-1]:
            X = step.transform(X)
        return X

    def add(self, X: Any, y: Floats, held: Any) -> None:
        """Watch the rows ``held`` of the task that was learned last."""
        most = max(1, ROWS // _rounded_up(len(self.given) + 1))
        few = slice(0, most)
        if any(len(part) > most for part in self.targets):
            for parts in (self.given, self.targets, self.learned):
                parts[:] = [rows_of(part, few) for part in parts]
            self.made.cut(most)
        self.given.append(rows_of(X, held[few]))
        self.targets.append(y[held[few]])
        made = self.features(self.given[-1])
        self.made.add(made)
        with for_task(made.shape):
            self.learned.append(self._squares(self._predict(made), self.targets[-1]))

    def refresh(self) -> None:
        """Encode all rows anew."""
        self.made = _Stack()
        for X in self.given:
            self.made.add(self.features(X))

    def errors(self) -> list[float]:
        """Return the mean squared error of every task."""
        return [float(part.mean()) for part in self._each(self._predict)]

    def errors_of(self, predict: Callable[[Any], Any]) -> list[float]:
        """Return the same of another model on the same features."""
        return [float(part.mean()) for part in self._each(predict)]

    def change(self) -> Floats:
        """Return by how much the error of each task has grown since it was learned, and the standard error of that."""
        found = []
        for now, then in zip(self._each(self._predict), self.learned, strict=True):
            gap = now - then
            found.append((gap.mean(), gap.std(ddof=1) / np.sqrt(len(gap)) if len(gap) > 1 else np.nan))
        return np.array(found)

    def _predict(self, X: Any) -> Any:
        return (self.model[-1] if hasattr(self.model, "steps") else self.model).predict(X)

    def _each(self, predict: Callable[[Any], Any]) -> list[Floats]:
        """Return the squared error of every row, task by task, from one product for all."""
        X = self.made.all()
        with for_task(X.shape):
            squares = self._squares(predict(X), np.concatenate(self.targets))
        return np.split(squares, np.cumsum(self.made.counts)[:-1])

    @staticmethod
    def _squares(found: Any, y: Floats) -> Floats:
        gap = np.asarray(found) - y
        return gap**2 if gap.ndim == 1 else np.mean(gap**2, axis=1)


class _Stack:
    """Rows of several tasks one below the other: in one array that has room for more, or as sparse parts."""

    def __init__(self) -> None:
        self.counts: list[int] = []
        self._dense = np.zeros((0, 0))
        self._sparse: list[Any] = []

    def add(self, X: Any) -> None:
        """Add the rows of a task below; it may have more features, which the others have zeros for."""
        if is_sparse(X) or self._sparse:
            self._sparse = [*(self._sparse or ([self.all()] if self.counts else [])), X]
            self.counts.append(int(X.shape[0]))
            return
        X = np.asarray(X)
        end, more = sum(self.counts), len(X)
        if self._dense.shape[1] < X.shape[1] or len(self._dense) < end + more:
            made = np.zeros((max(ROWS, end + more), max(X.shape[1], self._dense.shape[1])))
            made[:end, : self._dense.shape[1]] = self._dense[:end]
            self._dense = made
        self._dense[end : end + more] = X
        self.counts.append(more)

    def cut(self, most: int) -> None:
        """Keep at most so many rows of every task."""
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
    """Return a number with few digits in base 2 that is a little larger, so that rows need not go with every task.

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
