"""Learners to be compared with, each a few lines: what others would do with the same memory."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from forgetless._validate import Floats
from forgetless.equation import step
from forgetless.filters import Ridge

NUMBER, SINGLE = 8, 4
"""Bytes of a number; stored rows and vectors are counted in float32, like those of a low-rank memory."""


class OneHot:
    """A regressor of several targets as a classifier: the largest prediction wins."""

    def __init__(self, model: Any, classes: NDArray[Any]) -> None:
        self.model, self.classes = model, classes

    def partial_fit(self, X: Any, y: NDArray[Any]) -> Self:
        """Learn indicators of the classes."""
        self.model.partial_fit(X, (y[:, None] == self.classes).astype(float))
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Return classes."""
        return np.asarray(self.classes[np.argmax(self.model.predict(X), axis=1)])

    @property
    def nbytes_(self) -> int:
        """Bytes of the regressor."""
        return int(self.model.nbytes_)


class RunningMean:
    """Predicts the mean of all targets so far."""

    nbytes_ = 2 * NUMBER

    def __init__(self) -> None:
        self.n, self.total = 0, 0.0

    def partial_fit(self, X: Any, y: Floats) -> Self:
        """Add targets."""
        self.n, self.total = self.n + len(y), self.total + float(np.sum(y))
        return self

    def predict(self, X: Any) -> Floats:
        """Return the mean for every row."""
        return np.full(X.shape[0], self.total / max(1, self.n))


class ClassMeans:
    """Predicts the class whose mean is nearest."""

    def __init__(self, classes: NDArray[Any]) -> None:
        self.classes, self.counts = classes, np.zeros(len(classes))
        self.totals: Any = None

    def partial_fit(self, X: Any, y: NDArray[Any]) -> Self:
        """Add rows to the sums of their classes."""
        hot = (y[:, None] == self.classes).astype(float)
        total = np.asarray(X.T @ hot).T
        self.totals = total if self.totals is None else self.totals + total
        self.counts = self.counts + hot.sum(axis=0)
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Return classes."""
        means = self.totals / np.maximum(self.counts, 1)[:, None]
        score = np.asarray(X @ means.T) - 0.5 * np.sum(means**2, axis=1)
        return np.asarray(self.classes[np.argmax(np.where(self.counts > 0, score, -np.inf), axis=1)])

    @property
    def nbytes_(self) -> int:
        """Bytes of the sums."""
        return 0 if self.totals is None else NUMBER * (self.totals.size + len(self.counts))


class Linear:
    """Weights for (rows, 1): what the learners below share."""

    W: Floats | None = None

    def predict(self, X: Any) -> Floats:
        """Return X W and the constant, of the shape of the targets."""
        assert self.W is not None
        out = np.asarray(X @ self.W[:-1]) + self.W[-1]
        return np.asarray(out[:, 0] if out.shape[1] == 1 else out)


class Reservoir(Linear):
    """A uniform sample of the rows so far, learned again with every task by ridge regression pulled to the weights.

    A kept row counts as many as it stands for.
    """

    def __init__(self, n_rows: int, alpha: float, seed: int = 0) -> None:
        self.n_rows, self.alpha, self.rng = n_rows, alpha, np.random.default_rng(seed)
        self.X: Any = None
        self.seen = 0

    def partial_fit(self, X: Any, y: Floats) -> Self:
        """Learn a task together with the reservoir, and sample anew."""
        X, Y = _with_ones(X), y.reshape(len(y), -1)
        if self.W is None:
            self.W, self.X, self.Y = np.zeros((X.shape[1], Y.shape[1])), X[:0], Y[:0]
        old, new = self.X.shape[0], X.shape[0]
        rows, targets = _stacked([self.X, X]), np.concatenate([self.Y, Y])
        weights = np.sqrt(np.concatenate([np.full(old, self.seen / max(1, old)), np.ones(new)]))
        weighted = rows.multiply(weights[:, None]).tocsr() if issparse(rows) else rows * weights[:, None]
        self.W = np.asarray(step(self.W, (weighted, targets * weights[:, None]), Ridge(self.alpha)))
        self.seen += new
        kept = np.arange(old + new)
        if len(kept) > self.n_rows:
            # Of all rows seen, each is kept with the same probability.
            fresh = int(self.rng.hypergeometric(new, self.seen - new, self.n_rows)) if self.seen > new else self.n_rows
            fresh = max(min(fresh, new), self.n_rows - old)
            kept = np.concatenate(
                [self.rng.permutation(old)[: self.n_rows - fresh], old + self.rng.permutation(new)[:fresh]]
            )
        self.X, self.Y = rows[kept], targets[kept]
        return self

    @property
    def nbytes_(self) -> int:
        """Bytes of the weights, and of the rows at two bytes a number."""
        if self.W is None:
            return 0
        numbers = 2 * self.X.nnz if issparse(self.X) else self.X.size  # a column for every number of a sparse row
        return int(NUMBER * self.W.size + SINGLE * numbers + NUMBER * self.Y.size)


class AllRows(Linear):
    """Ridge regression on all rows so far, which are kept: joint ridge regression where d × d numbers are too many."""

    def __init__(self, alpha: float) -> None:
        self.alpha = alpha
        self.X: Any = None
        self.Y: Any = None

    def partial_fit(self, X: Any, y: Floats) -> Self:
        """Add the rows of a task, and learn all of them from zero."""
        X, Y = _with_ones(X), y.reshape(len(y), -1)
        self.X = X if self.X is None else _stacked([self.X, X])
        self.Y = Y if self.Y is None else np.concatenate([self.Y, Y])
        self.W = np.asarray(step(np.zeros((X.shape[1], Y.shape[1])), (self.X, self.Y), Ridge(self.alpha)))
        return self

    @property
    def nbytes_(self) -> int:
        """Bytes of the weights and the rows."""
        if self.W is None:
            return 0
        rows = self.X.data.nbytes + self.X.indices.nbytes if issparse(self.X) else self.X.nbytes
        return int(NUMBER * self.W.size + rows + self.Y.nbytes)


class FrequentDirections(Linear):
    """The sketch of frequent directions of all rows beside ΣXᵀy, and the ridge solution made of both."""

    def __init__(self, rank: int, alpha: float) -> None:
        self.rank, self.alpha = rank, alpha
        self.B: Any = None

    def partial_fit(self, X: Any, y: Floats) -> Self:
        """Add rows to the sketch: what is cut is taken from every direction that stays."""
        X, Y = _with_ones(X), y.reshape(len(y), -1)
        X = X.toarray() if issparse(X) else X
        if self.B is None:
            self.B, self.moment, self.cut = np.zeros((0, X.shape[1])), np.zeros((X.shape[1], Y.shape[1])), 0.0
        self.moment += X.T @ Y
        _, s, V = np.linalg.svd(np.concatenate([self.B, X]), full_matrices=False)
        top = float(s[self.rank] ** 2) if len(s) > self.rank else 0.0
        self.cut += top
        self.B = np.sqrt(np.maximum(s[: self.rank] ** 2 - top, 0.0))[:, None] * V[: self.rank]
        small = self.B @ self.B.T + self.alpha * np.eye(len(self.B))
        self.W = (self.moment - self.B.T @ np.linalg.solve(small, self.B @ self.moment)) / self.alpha
        return self

    @property
    def nbytes_(self) -> int:
        """Bytes of the moment and the weights, and of the sketch at two bytes a number."""
        return 0 if self.B is None else NUMBER * 2 * self.moment.size + SINGLE * self.B.size


class Counted:
    """An estimator of scikit-learn's with the bytes of its weights."""

    def __init__(self, model: Any, classes: NDArray[Any] | None = None) -> None:
        self.model, self.classes = model, classes

    def partial_fit(self, X: Any, y: NDArray[Any]) -> Self:
        """Learn one pass over the task's rows."""
        self.model.partial_fit(X, y, **({} if self.classes is None else {"classes": self.classes}))
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Return what the model says."""
        return np.asarray(self.model.predict(X))

    @property
    def nbytes_(self) -> int:
        """Bytes of weights and intercepts."""
        return int(self.model.coef_.nbytes + np.asarray(self.model.intercept_).nbytes)


class Fewer:
    """A learner of the first columns only, scaled to keep the size of rows: fewer random features."""

    def __init__(self, model: Any, n_columns: int) -> None:
        self.model, self.n_columns = model, n_columns

    def _few(self, X: Any) -> Any:
        return X[:, : self.n_columns] * float(np.sqrt(X.shape[1] / self.n_columns))

    def partial_fit(self, X: Any, y: NDArray[Any]) -> Self:
        """Learn from the first columns."""
        self.model.partial_fit(self._few(X), y)
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict from the first columns."""
        return np.asarray(self.model.predict(self._few(X)))

    @property
    def nbytes_(self) -> int:
        """Bytes of the learner."""
        return int(self.model.nbytes_)


def _with_ones(X: Any) -> Any:
    ones = np.ones((X.shape[0], 1))
    return _stacked([X, ones], axis=1)


def _stacked(parts: list[Any], axis: int = 0) -> Any:
    if not issparse(parts[0]):
        return np.concatenate(parts, axis=axis)
    from scipy import sparse

    join = sparse.vstack if axis == 0 else sparse.hstack
    return join(parts, format="csr")
