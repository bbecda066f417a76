"""Evaluation of a model on a stream: every task is predicted, then learned, and its held-out rows
are predicted again after every later task.

The error of a row is the squared error, averaged over several targets. For a classifier it is 1
where the class is wrong and 0 elsewhere. Entry (t, m) of the table of errors is the mean over the
held-out rows of task m once task t has been learned: a column shows how a task is forgotten.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import is_classifier
from sklearn.utils import _safe_indexing as _take

from forgetless._running import track
from forgetless._validate import Array, Floats

MOST_ROWS = 20_000
"""Held-out rows of all tasks together: all of them are predicted after every task."""


@dataclass(frozen=True, eq=False)
class StreamResult:
    """Errors of a model on a stream of T tasks.

    For regressors these are mean squared errors, for classifiers fractions of wrong rows; the most
    frequent class then stands for the mean.

    Attributes
    ----------
    model : the fitted estimator or pipeline
    tasks : list of str
        Labels in the order learned.
    rows : array of shape (T,)
        Rows learned of each task.
    before, mean_before, last_before : arrays of shape (T,)
        Error on the rows of a task before it was learned: of the model, of the mean of all targets
        so far, and of the mean of the task before. NaN for the first task.
    errors : array of shape (T, T)
        Error on the held-out rows of task m (column) after task t ≥ m (row) was learned; NaN for
        later tasks, and everywhere without held-out rows.
    change : array of shape (T, 2)
        Increase of the error of each task since it was learned, and the standard error of that,
        from the same rows.
    constant : array of shape (T,)
        Error on held-out rows of one prediction, the mean of the targets of all learned rows.
    """

    model: Any
    tasks: list[str]
    rows: NDArray[np.int64]
    before: Floats
    mean_before: Floats
    last_before: Floats
    errors: Floats
    change: Floats
    constant: Floats

    @property
    def watched(self) -> bool:
        """Whether rows were held out."""
        return bool(np.isfinite(self.errors[-1, -1]))

    @property
    def seen(self) -> Floats:
        """Mean over the tasks seen so far of their error, after each task."""
        return np.array([row[: t + 1].mean() for t, row in enumerate(self.errors)])

    @property
    def forgetting(self) -> Floats:
        """Error of each task at the end minus that just after it was learned; negative if later
        tasks helped.
        """
        return np.asarray(self.change[:, 0])

    @property
    def prequential_mse(self) -> float:
        """Mean error over all rows before they were learned, from the second task on; for a
        classifier the fraction of wrong ones.
        """
        if len(self.rows) == 1:
            return float("nan")
        late = slice(1, None)
        return float(np.average(self.before[late], weights=self.rows[late]))

    def __repr__(self) -> str:
        name = "RMSE"
        power = 0.5
        if is_classifier(self.model):
            name = "error rate"
            power = 1.0
        text = (
            f"StreamResult of {len(self.tasks)} tasks: {name}"
            f" {self.prequential_mse**power:.4g} before learning"
        )
        if not self.watched:
            return text
        then = np.diag(self.errors).mean() ** power
        end = self.errors[-1].mean() ** power
        return (
            f"{text}; on held-out rows {then:.4g} after learning their task, {end:.4g} at the end"
        )


def evaluate_stream(
    model: Any, tasks: Iterable[Any], *, holdout: float = 0.0, seed: int = 0
) -> StreamResult:
    """Return the errors of a regressor or classifier that learns tasks one after the other.

    Parameters
    ----------
    model : estimator with ``partial_fit`` and ``predict``, or a pipeline with both
        Learned in place, on the rows that are not held out.
    tasks : iterable of (X, y) or (label, X, y)
    holdout : float, default 0.0
        Fraction of the rows of each task that is held out, at least one row; tasks of one row are
        watched on that row. 0 for none. At most 20 000 rows are watched in all, or one a task,
        about the same number of every task.
    seed : int, default 0
        Chooses the held-out rows.

    Returns
    -------
    StreamResult

    Examples
    --------
    >>> import numpy as np, forgetless as fl
    >>> rng = np.random.default_rng(0)
    >>> tasks = [(X := rng.standard_normal((50, 3)), X @ [1.0, 2.0, 3.0]) for _ in range(4)]
    >>> fl.evaluate_stream(fl.ContinualRidge(alpha=0.1), tasks,
    ...     holdout=0.2).prequential_mse.__round__(4)
    0.0
    """
    if not 0.0 <= holdout < 1.0:
        raise ValueError(
            f"holdout must be a fraction of the rows in [0, 1), got {holdout!r}; use e.g. 0.2"
        )
    watched = _HeldOut(model)
    labels: list[str] = []
    counts: list[int] = []
    center = last = _Center(model)
    before: list[list[float]] = []
    errors: list[Floats] = []
    for t, task in enumerate(track(tasks, "learning tasks")):
        parts = tuple(task)  # an element of a TaskCollection has no length
        if len(parts) == 2:
            parts = (str(t + 1), *parts)
        if len(parts) != 3 or np.ndim(parts[2]) == 0:
            raise ValueError(
                f"tasks must be pairs (X, y) or (label, X, y), got {type(task).__name__} of length"
                f" {len(parts)}; give a list such as [(X1, y1), (X2, y2)]"
            )
        label, X, y = parts
        y = np.asarray(y)
        # The rows held out of a task do not depend on the tasks before it.
        learned, held = _split(len(y), holdout, [seed, 0, t])
        rows = _take(X, learned)
        targets = y[learned]
        if t == 0:
            before.append([np.nan] * 3)
        else:
            # What a model adds is seen beside two predictions that need no features.
            predictions = [model.predict(rows), center.value, last.value]
            before.append([_row_errors(model, each, targets).mean() for each in predictions])
        model.partial_fit(rows, targets)
        labels.append(label)
        counts.append(len(learned))
        center.add(targets)
        last = _Center(model).add(targets)
        if holdout > 0:
            watched.add(_take(X, held), y[held])
            errors.append(watched.errors())
    if not labels:
        raise ValueError("there are no tasks to learn; pass at least one (X, y)")
    T = len(labels)
    # Nothing is known of a task before it has come.
    table = np.full((T, T), np.nan)
    for t, row in enumerate(errors):
        table[t, : t + 1] = row
    change = np.full((T, 2), np.nan)
    constant = np.full(T, np.nan)
    if errors:
        change = watched.change()
        constant = watched.constant(center.value)
    own, of_mean, of_last = np.array(before).T
    return StreamResult(
        model,
        labels,
        np.array(counts),
        own,
        of_mean,
        of_last,
        table,
        change,
        constant,
    )


class _HeldOut:
    """Held-out rows of the tasks so far, ``parts`` and ``targets``, and ``learned``, the error of
    each row just after its task.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self.parts: list[Any] = []
        self.targets: list[Any] = []
        self.learned: list[Floats] = []

    def add(self, X: Any, y: Any) -> None:
        """Add the held-out rows of the task that was learned last."""
        # The share is MOST_ROWS over the number of tasks, which is rounded up to three leading
        # binary digits, so that rows are taken away only now and then.
        count = len(self.parts) + 1
        step = 1 << max(count.bit_length() - 3, 0)
        rounded = -(-count // step) * step
        first = slice(0, max(1, MOST_ROWS // rounded))
        for parts in (self.parts, self.targets, self.learned):
            parts[:] = [_take(part, first) for part in parts]
        rows = _take(X, first)
        targets = y[first]
        self.parts.append(rows)
        self.targets.append(targets)
        errors = _row_errors(self.model, self.model.predict(rows), targets)
        self.learned.append(errors)

    def errors(self) -> Floats:
        """Return the error of every task now."""
        return np.array([part.mean() for part in self._by_task()])

    def change(self) -> Floats:
        """Return the increase of the error of each task since it was learned, and the standard
        error of that.
        """
        increases = []
        for now, then in zip(self._by_task(), self.learned, strict=True):
            gap = now - then
            n = len(gap)
            # The same rows twice: what makes some of them hard cancels in the difference.
            error = np.nan
            if n > 1:
                error = gap.std(ddof=1) / np.sqrt(n)
            increases.append((gap.mean(), error))
        return np.array(increases)

    def constant(self, value: Any) -> Floats:
        """Return the error of every task of one prediction for all rows."""
        errors = [_row_errors(self.model, value, part) for part in self.targets]
        return np.array([part.mean() for part in errors])

    def _by_task(self) -> list[Floats]:
        """Return the error of every row, task by task, from one prediction for all."""
        # One call for all tasks: every call has costs of its own.
        predictions = self.model.predict(_stack(self.parts))
        rows = _row_errors(self.model, predictions, np.concatenate(self.targets))
        ends = np.cumsum([len(part) for part in self.targets])
        return np.split(rows, ends[:-1])


def _row_errors(model: Any, predictions: Any, y: Any) -> Array:
    """Return the squared error of every row, the mean of several targets; of a classifier 1 where
    wrong, else 0.
    """
    if is_classifier(model):
        return np.asarray(np.asarray(predictions) != y, dtype=np.float64)
    squares = (np.asarray(predictions) - y) ** 2
    return squares.reshape(len(y), -1).mean(axis=1)


class _Center:
    """Mean of targets, or the most frequent class, the first of several: a model without
    features.
    """

    def __init__(self, model: Any) -> None:
        self.is_classifier = is_classifier(model)
        self.total: Any = 0.0
        self.rows = 0
        self.counts: Counter[Any] = Counter()

    def add(self, y: Any) -> "_Center":
        """Add the targets of a task."""
        if self.is_classifier:
            self.counts.update(y.tolist())
        else:
            self.total = self.total + y.sum(axis=0)
            self.rows += len(y)
        return self

    @property
    def value(self) -> Any:
        """The one prediction for all rows."""
        if self.is_classifier:
            # Of equally frequent classes the smallest label, not the one that came first.
            return max(sorted(self.counts), key=lambda label: self.counts[label])
        return self.total / self.rows


def _split(n: int, holdout: float, seed: list[int]) -> tuple[Any, Any]:
    """Return the rows of a task that are learned, and those that are watched, None without any."""
    rows = np.arange(n)
    if holdout == 0:
        return rows, None
    count = min(n - 1, max(1, round(holdout * n)))
    if count == 0:
        # A task of a single row is trained on it and watched on it: there is no other.
        return rows, rows
    order = np.random.default_rng(seed).permutation(n)
    # Rows are learned in the order of their task.
    return np.sort(order[count:]), order[:count]


def _stack(parts: list[Any]) -> Any:
    """Return the rows of several tasks, one below the other."""
    if hasattr(parts[0], "iloc"):
        import pandas as pd

        return pd.concat(parts)
    if sparse.issparse(parts[0]):
        return sparse.vstack(parts, format="csr")
    return np.vstack(parts)
