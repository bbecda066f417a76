"""Held-out rows of a stream: which they are, the rows as a model takes them, and its errors on
them.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import is_classifier

from forgetless._core.frames import Columns
from forgetless._threads import few_threads, gram_work
from forgetless._validate import Floats


class Outcomes(NamedTuple):
    """Labels of held-out rows at the end, and the probabilities (n, c) of the ``classes``."""

    labels: Any
    probabilities: Floats
    classes: Any

    @property
    def log_loss(self) -> float:
        """The mean of −log of the probability of the true class; of rows whose class is known."""
        last = len(self.classes) - 1
        at = np.searchsorted(self.classes, self.labels).clip(0, last)
        mask = self.classes[at] == self.labels
        if not mask.any():
            return float("nan")
        chosen = self.probabilities[np.flatnonzero(mask), at[mask]]
        return float(-np.log(np.maximum(chosen, 1e-300)).mean())


def last_step(model: Any) -> Any:
    """Return the model itself, without the steps before it."""
    return model[-1] if hasattr(model, "steps") else model


def split_rows(n: int, holdout: float, seed: list[int]) -> tuple[Any, Any]:
    """Return the rows of a task that are learned, and those that are watched."""
    rows = np.arange(n)
    if holdout == 0:
        return rows, rows[:0]
    count = min(n - 1, max(1, round(holdout * n)))
    if count == 0:  # a task of a single row is trained on it and watched on it: there is no other
        return rows, rows
    rng = np.random.default_rng(seed)
    order = rng.permutation(n)
    learned = np.ones(n, dtype=bool)
    learned[order[:count]] = False
    return np.flatnonzero(learned), order[:count]


_ROWS = 20_000
"""Largest number of held-out rows, about the same number of every task."""


class HeldOut:
    """The held-out rows of the tasks so far, as the model takes them.

    Features keep their places, so rows are encoded once, and get zeros for features that come
    later; ``refresh`` encodes all of them again.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self.classes = is_classifier(last_step(model))
        self.rows: list[Any] = []
        self.features = _Stack()
        self.targets: list[Floats] = []
        self.learned: list[Floats] = []

    def add(self, X: Any, y: Floats, held: Any) -> None:
        """Add the rows ``held`` of the task that was learned last."""
        # A long stream watches fewer rows of every task.
        most = max(1, _ROWS // _rounded_up(len(self.rows) + 1))
        first = slice(0, most)
        if any(len(part) > most for part in self.targets):
            for parts in (self.rows, self.targets, self.learned):
                parts[:] = [rows_of(part, first) for part in parts]
            self.features.truncate(most)
        self.rows.append(rows_of(X, held[first]))
        self.targets.append(y[held[first]])
        features = self.encoded(self.rows[-1])
        self.features.add(features)
        predictions = self._predict(features)
        self.learned.append(row_losses(predictions, self.targets[-1], classes=self.classes))

    def refresh(self) -> None:
        """Encode all rows again."""
        self.features = _Stack()
        for X in self.rows:
            features = self.encoded(X)
            self.features.add(features)

    def errors(self, predict: Callable[[Any], Any] | None = None) -> list[float]:
        """Return the mean squared error of every task, of the model or of another function of the
        features.
        """
        return [float(part.mean()) for part in self._by_task(predict or self._predict)]

    def change(self) -> Floats:
        """Return the increase of the error of each task since it was learned, and the standard
        error of that.
        """
        increases = []
        for now, then in zip(self._by_task(self._predict), self.learned, strict=True):
            gap = now - then
            increases.append(
                (gap.mean(), gap.std(ddof=1) / np.sqrt(len(gap)) if len(gap) > 1 else np.nan)
            )
        return np.array(increases)

    def outcomes(self) -> Outcomes | None:
        """Return the probabilities that a classifier predicts now; None where it has none."""
        model = last_step(self.model)
        if not hasattr(model, "predict_proba"):
            return None
        return Outcomes(
            np.concatenate(self.targets),
            np.asarray(model.predict_proba(self.features.all())),
            model.classes_,
        )

    def encoded(self, X: Any) -> Any:
        """Return rows as the last step of a pipeline takes them."""
        if hasattr(self.model, "steps"):
            for _, step in self.model.steps[:-1]:
                X = step.transform(X)
        return X

    @few_threads(lambda *rows: gram_work(rows[1].shape))
    def _predict(self, X: Any) -> Any:
        """Return the predictions of the model for encoded rows."""
        return last_step(self.model).predict(X)

    def _by_task(self, predict: Callable[[Any], Any]) -> list[Floats]:
        """Return the squared error of every row, task by task, from one product for all."""
        X = self.features.all()
        targets = np.concatenate(self.targets)
        squares = row_losses(predict(X), targets, classes=self.classes)
        ends = np.cumsum(self.features.counts)
        return np.split(squares, ends[:-1])


def row_losses(predictions: Any, y: Any, *, classes: bool) -> Floats:
    """Return the squared error of every row, the mean of several targets; of classes 1 where wrong,
    else 0.
    """
    if classes:
        return np.asarray(np.asarray(predictions) != y, dtype=np.float64)
    squares = (np.asarray(predictions) - y) ** 2
    if squares.ndim == 1:
        return np.asarray(squares)
    return np.asarray(np.mean(squares, axis=1))


class _Stack:
    """Rows of several tasks one below the other: in one array that has room for more, or as sparse
    parts.
    """

    def __init__(self) -> None:
        self.counts: list[int] = []
        self._dense = np.zeros((0, 0))
        self._sparse: list[Any] = []

    def add(self, X: Any) -> None:
        """Add the rows of a task below; it may have more features, which are zero in the others."""
        if sparse.issparse(X) or self._sparse:
            self._sparse = [*(self._sparse or ([self.all()] if self.counts else [])), X]
            self.counts.append(int(X.shape[0]))
            return
        X = np.asarray(X)
        end = sum(self.counts)
        more = len(X)
        room = len(self._dense)
        if self._dense.shape[1] < X.shape[1] or room < end + more:
            # doubled, so that few rows take little
            room = room if room >= end + more else max(2 * room, end + more)
            larger = np.zeros((room, max(X.shape[1], self._dense.shape[1])))
            larger[:end, : self._dense.shape[1]] = self._dense[:end]
            self._dense = larger
        self._dense[end : end + more] = X
        self.counts.append(more)

    def truncate(self, most: int) -> None:
        """Remove all but the first ``most`` rows of every task."""
        inside = np.concatenate([np.arange(count) for count in self.counts])
        X = self.all()[np.flatnonzero(inside < most)]
        self.counts = [min(count, most) for count in self.counts]
        if self._sparse:
            self._sparse = [X]
        else:
            self._dense[: len(X)] = X

    def all(self) -> Any:
        """Return all rows."""
        if not self._sparse:
            return self._dense[: sum(self.counts)]
        if len(self._sparse) > 1:
            width = max(int(part.shape[1]) for part in self._sparse)
            wider = [
                sparse.csr_array(
                    (part.data, part.indices, part.indptr), shape=(part.shape[0], width)
                )
                for part in map(sparse.csr_array, self._sparse)
            ]
            self._sparse = [sparse.csr_array(sparse.vstack(wider, format="csr"))]
        return self._sparse[0]


def _rounded_up(count: int) -> int:
    """Return a slightly larger number with few binary digits, so that rows are not removed with
    every task.

    Examples
    --------
    >>> [_rounded_up(count) for count in (1, 7, 9, 85)]
    [1, 7, 10, 96]
    """
    step = 1 << max(count.bit_length() - 3, 0)
    return -(-count // step) * step


def rows_of(X: Any, rows: Any) -> Any:
    """Return some rows of a table or an array."""
    if isinstance(X, Columns):
        return X.rows(rows)
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]
