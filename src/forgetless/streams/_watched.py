"""Held-out rows of all tasks of a stream, and how well a model does on them."""

from collections.abc import Callable
from typing import Any

import numpy as np

from forgetless._base.arrays import Floats
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
        self.made: list[Any] = []
        self.targets: list[Floats] = []
        self.learned: list[Floats] = []

    def features(self, X: Any) -> Any:
        """Return rows as the estimator takes them."""
        if not hasattr(self.model, "steps"):
            return X
        for _, step in self.model.steps[:-1]:
            X = step.transform(X)
        return X

    def add(self, X: Any, y: Floats) -> None:
        """Watch the held-out rows of the task that was learned last."""
        most = max(1, ROWS // (len(self.given) + 1))
        few = slice(0, most)
        if self.given and len(self.given[0]) > most:
            for parts in (self.given, self.made, self.targets, self.learned):
                parts[:] = [rows_of(part, few) for part in parts]
        self.given.append(rows_of(X, few))
        self.made.append(self.features(self.given[-1]))
        self.targets.append(y[few])
        self.learned.append(self._squares(self._predict(self.made[-1]), y[few]))

    def refresh(self) -> None:
        """Encode all rows anew."""
        self.made = [self.features(X) for X in self.given]

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
        width = max(int(part.shape[1]) for part in self.made)
        self.made = [_wider(part, width) for part in self.made]
        if any(map(is_sparse, self.made)):
            from scipy import sparse

            X: Any = sparse.csr_array(sparse.vstack([sparse.csr_array(part) for part in self.made], format="csr"))
        else:
            X = np.concatenate([np.asarray(part) for part in self.made])
        squares = self._squares(predict(X), np.concatenate(self.targets))
        return np.split(squares, np.cumsum([len(part) for part in self.targets])[:-1])

    @staticmethod
    def _squares(found: Any, y: Floats) -> Floats:
        gap = np.asarray(found) - y
        return gap**2 if gap.ndim == 1 else np.mean(gap**2, axis=1)


def _wider(X: Any, width: int) -> Any:
    if X.shape[1] == width:
        return X
    if is_sparse(X):
        from scipy import sparse

        return sparse.csr_array((X.data, X.indices, X.indptr), shape=(X.shape[0], width))
    return np.concatenate([X, np.zeros((len(X), width - X.shape[1]))], axis=1)


def rows_of(X: Any, rows: Any) -> Any:
    """Return some rows of a data frame or an array."""
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]
