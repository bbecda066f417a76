"""Evaluation of a model on a stream: every task is predicted, learned, and watched on held-out rows
until the end.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import length_hint
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

from forgetless._core.frames import read_once
from forgetless._progress import track
from forgetless._validate import Floats
from forgetless.estimators.held_out import (
    HeldOut,
    Outcomes,
    last_step,
    row_losses,
    rows_of,
    split_rows,
)

WIDEST = 500
"""Features up to which ridge regression on all tasks, whose matrix is d × d, is a baseline."""


class TargetMeans(NamedTuple):
    """Targets learned so far: the number of rows, their mean, and the mean of those of the last
    task.
    """

    rows: int = 0
    mean: Any = np.nan
    last: Any = np.nan

    def after(self, y: Any) -> "TargetMeans":
        """Return the means after one more task."""
        rows = self.rows + len(y)
        last = y.mean(axis=0)
        return TargetMeans(
            rows, self.mean + (last - self.mean) * (len(y) / rows) if self.rows else last, last
        )


class ClassCounts(NamedTuple):
    """Classes learned so far: the rows of each, and the most frequent class of the last task."""

    counts: Mapping[str, int] = {}
    last: Any = None

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(self.counts.values())

    @property
    def mean(self) -> Any:
        """The most frequent class; the first of them in the order of labels if there are
        several.
        """
        return max(sorted(self.counts), key=lambda label: self.counts[label], default=None)

    def after(self, y: Any) -> "ClassCounts":
        """Return the counts after one more task."""
        labels, counts = np.unique(y, return_counts=True)
        more = dict(zip(labels.tolist(), counts.tolist(), strict=True))
        both = {
            label: self.counts.get(label, 0) + more.get(label, 0) for label in {*self.counts, *more}
        }
        return ClassCounts(both, labels[np.argmax(counts)].item())


class Baselines(NamedTuple):
    """Baselines of a stream.

    Attributes
    ----------
    means : TargetMeans or ClassCounts
        Of the tasks that the model has learned before, where they are known.
    joint : unfitted estimator or None
        Learns all tasks together at the end, with the features as they are then, up to 500 of them;
        every task counts the same, as it does in the errors.
    """

    means: TargetMeans | ClassCounts | None = None
    joint: Any = None


@dataclass(frozen=True, eq=False, repr=False)
class StreamResult:
    """Errors of a model on a stream of T tasks.

    For classifiers the error is the fraction of rows that are predicted wrongly instead of the mean
    squared error, and the most frequent class stands for the mean.

    Attributes
    ----------
    model : the fitted estimator or pipeline
    tasks : list of str
        Labels in the order learned.
    rows : array of shape (T,)
        Rows learned of each task.
    errors : array of shape (T, T)
        Mean squared error on the held-out rows of task m (column) after task t ≥ m (row) was
        learned; NaN for later tasks, and everywhere without held-out rows. The last row is of the
        features as they are at the end.
    change : array of shape (T, 2)
        Increase of the error of each task since it was learned, and the standard error of that,
        from the same rows.
    before, mean_before, last_before : arrays of shape (T,)
        Mean squared error on the rows of a task before it was learned: of the model, of the mean of
        all targets so far, and of the mean of the task before. NaN for the first task of all.
    constant : array of shape (T,)
        The error on held-out rows of the mean of the trained rows of all tasks, which needs no
        features.
    joint : array of shape (T,) or None
        The same for ridge regression on all tasks together, where it was a baseline.
    begin, end : TargetMeans or ClassCounts
        Of the targets learned before the first task and up to the last.
    earlier : array
        Values of ``before`` of the tasks that a model that continues has learned before.
    single : int
        Number of tasks of a single row, which is both learned and watched.
    outcomes : Outcomes or None
        Probabilities of held-out rows at the end, of classifiers that have them.
    """

    model: Any
    tasks: list[str]
    rows: NDArray[np.int64]
    errors: Floats
    change: Floats
    before: Floats
    mean_before: Floats
    last_before: Floats
    constant: Floats
    joint: Floats | None
    begin: Any
    end: Any
    earlier: Floats
    single: int
    outcomes: Outcomes | None = None

    @property
    def estimator(self) -> Any:
        """The streaming model itself, without the steps before it."""
        return last_step(self.model)

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
        return np.asarray(self.errors[-1] - np.diag(self.errors))

    @property
    def prequential_mse(self) -> float:
        """Mean squared error over all rows before they were learned, from the second task of the
        stream on.
        """
        mask = np.isfinite(self.before)
        return (
            float(np.average(self.before[mask], weights=self.rows[mask]))
            if mask.any()
            else float("nan")
        )

    def __repr__(self) -> str:
        text = (
            f"StreamResult of {len(self.tasks)} tasks: RMSE {self.prequential_mse**0.5:.4g} before"
            " learning"
        )
        if not self.watched:
            return text
        then = np.sqrt(np.diag(self.errors).mean())
        end = np.sqrt(self.errors[-1].mean())
        return (
            f"{text}; on held-out rows {then:.4g} after learning their task, {end:.4g} at the end"
        )


def evaluate_stream(
    model: Any,
    tasks: Iterable[Any],
    *,
    holdout: float = 0.0,
    seed: int = 0,
    baselines: Baselines | None = None,
) -> StreamResult:
    """Return the errors of a regressor or classifier that learns tasks one after the other.

    Parameters
    ----------
    model : estimator with ``partial_fit`` and ``predict``, or a pipeline with both
        Learned in place, on the rows that are not held out. One that has learned tasks before
        continues: which rows of a task are held out depends on its number in the whole stream.
    tasks : iterable of (X, y) or (label, X, y)
    holdout : float, default 0.0
        Fraction of the rows of each task that is held out, at least one row; tasks of one row are
        watched on that row. 0 for none. At most 20 000 rows are watched in all, about the same
        number of every task.
    seed : int, default 0
        Chooses the held-out rows.
    baselines : Baselines, optional
        Targets of earlier tasks, and a joint model.

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
    run = _Run(model, holdout, seed, baselines or Baselines())
    for t, task in enumerate(track(tasks, "learning tasks", length_hint(tasks, 0) or None)):
        parts = tuple(task)  # an element of a TaskCollection has no length
        label, X, y = parts if len(parts) == 3 else (str(t + 1), *parts)
        run.learn(label, X, np.asarray(y))
    return run.result()


class _Run:
    """The errors collected so far."""

    def __init__(self, model: Any, holdout: float, seed: int, baselines: Baselines) -> None:
        self.model = model
        self.holdout = holdout
        self.seed = seed
        self.classes = is_classifier(last_step(model))
        self.begin: Any = baselines.means or (ClassCounts() if self.classes else TargetMeans())
        self.joint = baselines.joint
        self.means = self.begin
        self.first, self.earlier = _past(model)
        self.held_out = HeldOut(model)
        self.labels: list[str] = []
        self.counts: list[int] = []
        self.befores: list[tuple[float, float, float]] = []
        self.errors: list[list[float]] = []
        self.learned: list[tuple[Any, Any]] = []
        self.single = 0

    def learn(self, label: str, X: Any, y: Any) -> None:
        """Predict, learn and watch one task."""
        model = self.model
        X = np.asarray(X) if isinstance(X, list) else X
        X = read_once(X) if getattr(model, "_reads_columns", False) else X
        train, test = split_rows(
            len(y), self.holdout, [self.seed, 0, self.first + len(self.labels)]
        )
        rows = rows_of(X, train)
        targets = y[train]
        past = self.means.rows > 0
        before = np.nan
        if past:
            losses = row_losses(model.predict(rows), targets, classes=self.classes)
            before = float(losses.mean())
        model.partial_fit(rows, targets)
        means = self.means
        constants = [
            (
                float(row_losses(_constant(mean, targets), targets, classes=self.classes).mean())
                if past
                else np.nan
            )
            for mean in (means.mean, means.last)
        ]
        self.befores.append((before, constants[0], constants[1]))
        # The joint model learns at the end, with the features as they are then.
        if self.joint is not None and self.holdout > 0:
            self.learned.append((rows_of(X, train), targets))
        self.means = means.after(targets)
        self.labels.append(label)
        self.counts.append(len(train))
        if self.holdout > 0:
            self.single += len(y) == 1
            self.held_out.add(X, y, test)
            self.errors.append(self.held_out.errors())

    def result(self) -> StreamResult:
        """Return all errors, those of the last row with the features as they are at the end."""
        if not self.labels:
            raise ValueError("there are no tasks to learn; pass at least one (X, y)")
        T = len(self.labels)
        # Entry (t, m) is the error on task m after task t.
        held_out = self.held_out
        mean = self.means.mean
        table = np.full((T, T), np.nan)
        change = np.full((T, 2), np.nan)
        constant = np.full(T, np.nan)
        joint = None
        if self.holdout > 0:
            held_out.refresh()  # as new rows would be encoded now
            self.errors[-1] = held_out.errors()
            for t, row in enumerate(self.errors):
                table[t, : len(row)] = row
            change = held_out.change()
            constant = np.array(held_out.errors(lambda X: _constant(mean, np.empty(X.shape[0]))))
            joint = self._joint_errors()
        before, mean_before, last_before = np.array(self.befores).T
        return StreamResult(
            self.model,
            self.labels,
            np.array(self.counts),
            table,
            change,
            before,
            mean_before,
            last_before,
            constant,
            joint,
            begin=self.begin,
            end=self.means,
            earlier=self.earlier,
            single=self.single,
            outcomes=held_out.outcomes() if self.classes and self.holdout > 0 else None,
        )

    def _joint_errors(self) -> Floats | None:
        """Return the errors of the joint model on held-out rows; None where there is none, or it
        would be too wide.
        """
        if self.joint is None or self.held_out.features.all().shape[1] > WIDEST:
            return None
        mean_rows = float(np.mean(self.counts))
        labels = np.unique(np.concatenate([y for _, y in self.learned])) if self.classes else None

        for X, y in self.learned:
            targets = y if labels is None else (y[:, None] == labels).astype(np.float64)
            weight = np.full(len(y), mean_rows / len(y))
            self.joint.partial_fit(self.held_out.encoded(X), targets, sample_weight=weight)

        def predict(X: Any) -> Any:
            scores = self.joint.predict(X)
            return scores if labels is None else labels[np.argmax(scores, axis=1)]

        return np.array(self.held_out.errors(predict))


def _past(model: Any) -> tuple[int, Floats]:
    """Return the number of tasks a model has learned, and the errors of the last ones before it
    learned them.
    """
    last = last_step(model)
    if getattr(last, "_state", None) is None:
        return 0, np.zeros(0)
    return last.n_tasks_seen_, last.late_errors_


def _constant(value: Any, like: Any) -> Any:
    """Return one prediction for all rows."""
    return np.broadcast_to(np.asarray(value), (len(like), *np.shape(value)))
