"""Evaluation of a model on a stream: every task is predicted, learned, and watched on held-out rows until the end."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import length_hint
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

from forgetless._core.arrays import Floats
from forgetless._core.frames import Columns, read_once
from forgetless._core.linalg import for_task
from forgetless.estimators.history import BEFORE
from forgetless.reporting.progress import Progress, progress_callback
from forgetless.solvers.rows import is_sparse

WIDEST = 500
"""Features up to which ridge regression on all tasks, whose matrix is d × d, is a baseline."""


class TargetMeans(NamedTuple):
    """Targets learned so far: the number of rows, their mean, and the mean of those of the last task."""

    rows: int = 0
    mean: Any = np.nan
    last: Any = np.nan

    def after(self, y: Any) -> "TargetMeans":
        """Return the means after one more task."""
        rows, last = self.rows + len(y), y.mean(axis=0)
        return TargetMeans(rows, self.mean + (last - self.mean) * (len(y) / rows) if self.rows else last, last)


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
        """The most frequent class; the first of them in the order of labels if there are several."""
        return max(sorted(self.counts), key=lambda label: self.counts[label], default=None)

    def after(self, y: Any) -> "ClassCounts":
        """Return the counts after one more task."""
        labels, counts = np.unique(y, return_counts=True)
        more = dict(zip(labels.tolist(), counts.tolist(), strict=True))
        both = {label: self.counts.get(label, 0) + more.get(label, 0) for label in {*self.counts, *more}}
        return ClassCounts(both, labels[np.argmax(counts)].item())


class Outcomes(NamedTuple):
    """Labels of held-out rows at the end, and the probabilities (n, c) of the ``classes``."""

    labels: Any
    probabilities: Floats
    classes: Any

    @property
    def log_loss(self) -> float:
        """The mean of −log of the probability of the true class; of rows whose class is known."""
        at = np.searchsorted(self.classes, self.labels).clip(0, len(self.classes) - 1)
        known = self.classes[at] == self.labels
        chosen = np.maximum(self.probabilities[np.flatnonzero(known), at[known]], 1e-300)
        return float(-np.log(chosen).mean()) if known.any() else float("nan")


class Baselines(NamedTuple):
    """Baselines of a stream.

    Attributes
    ----------
    means : TargetMeans or ClassCounts
        Of the tasks that the model has learned before, where they are known.
    joint : unfitted estimator or None
        Learns all tasks together at the end, with the features as they are then, up to 500 of them; every task counts
        the same, as it does in the errors.
    """

    means: TargetMeans | ClassCounts | None = None
    joint: Any = None


@dataclass(frozen=True, eq=False, repr=False)
class StreamResult:
    """Errors of a model on a stream of T tasks.

    For classifiers the error is the fraction of rows that are predicted wrongly instead of the mean squared error, and
    the most frequent class stands for the mean.

    Attributes
    ----------
    model : the fitted estimator or pipeline
    tasks : list of str
        Labels in the order learned.
    rows : array of shape (T,)
        Rows learned of each task.
    errors : array of shape (T, T)
        Mean squared error on the held-out rows of task m (column) after task t ≥ m (row) was learned; NaN for later
        tasks, and everywhere without held-out rows. The last row is of the features as they are at the end.
    change : array of shape (T, 2)
        Increase of the error of each task since it was learned, and the standard error of that, from the same rows.
    before, mean_before, last_before : arrays of shape (T,)
        Mean squared error on the rows of a task before it was learned: of the model, of the mean of all targets so far,
        and of the mean of the task before. NaN for the first task of all.
    constant : array of shape (T,)
        The error on held-out rows of the mean of the trained rows of all tasks, which needs no features.
    joint : array of shape (T,) or None
        The same for ridge regression on all tasks together, where it was a baseline.
    begin, end : TargetMeans or ClassCounts
        Of the targets learned before the first task and up to the last.
    earlier : array
        Values of ``before`` of the tasks in the history of a model that continues.
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
        return _last_step(self.model)

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
        """Error of each task at the end minus that just after it was learned; negative if later tasks helped."""
        return np.asarray(self.errors[-1] - np.diag(self.errors))

    @property
    def prequential_mse(self) -> float:
        """Mean squared error over all rows before they were learned, from the second task of the stream on."""
        mask = np.isfinite(self.before)
        return float(np.average(self.before[mask], weights=self.rows[mask])) if mask.any() else float("nan")

    def __repr__(self) -> str:
        text = f"StreamResult of {len(self.tasks)} tasks: RMSE {self.prequential_mse**0.5:.4g} before learning"
        if not self.watched:
            return text
        then, end = np.sqrt(np.diag(self.errors).mean()), np.sqrt(self.errors[-1].mean())
        return f"{text}; on held-out rows {then:.4g} after learning their task, {end:.4g} at the end"


def evaluate_stream(
    model: Any,
    tasks: Iterable[Any],
    *,
    holdout: float = 0.0,
    seed: int = 0,
    baselines: Baselines | None = None,
    progress: Any = None,
) -> StreamResult:
    """Return the errors of a regressor or classifier that learns tasks one after the other.

    Parameters
    ----------
    model : estimator with ``partial_fit`` and ``predict``, or a pipeline with both
        Learned in place, on the rows that are not held out. One that has learned tasks before continues: which rows of
        a task are held out depends on its number in the whole stream.
    tasks : iterable of (X, y) or (label, X, y)
    holdout : float, default 0.0
        Fraction of the rows of each task that is held out, at least one row; tasks of one row are watched on that row.
        0 for none. At most 20 000 rows are watched in all, about the same number of every task.
    seed : int, default 0
        Chooses the held-out rows.
    baselines : Baselines, optional
        Targets of earlier tasks, and a joint model.
    progress : True or callable, optional
        True for a bar; a callable is called as ``progress(tasks_done, n_tasks, "tasks, now LABEL, N rows/s")`` before
        each task; ``n_tasks`` is 0 where it is unknown.

    Returns
    -------
    StreamResult

    Examples
    --------
    >>> import numpy as np, forgetless as fl
    >>> rng = np.random.default_rng(0)
    >>> tasks = [(X := rng.standard_normal((50, 3)), X @ [1.0, 2.0, 3.0]) for _ in range(4)]
    >>> fl.evaluate_stream(fl.ContinualRidge(alpha=0.1), tasks, holdout=0.2).prequential_mse.__round__(4)
    0.0
    """
    if not 0.0 <= holdout < 1.0:
        raise ValueError(f"holdout must be a fraction of the rows in [0, 1), got {holdout!r}; use e.g. 0.2")
    n_tasks = length_hint(tasks, 0)
    with progress_callback(progress) as report_progress:
        run = _Run(model, holdout, seed, baselines or Baselines())
        for t, task in enumerate(tasks):
            label, X, y = task if len(task) == 3 else (str(t + 1), *task)
            run.report(report_progress, label, n_tasks)
            run.learn(label, X, np.asarray(y))
        return run.result()


class _Run:
    """The errors collected so far."""

    def __init__(self, model: Any, holdout: float, seed: int, baselines: Baselines) -> None:
        self.model, self.holdout, self.seed = model, holdout, seed
        self.classes = is_classifier(_last_step(model))
        self.begin: Any = baselines.means or (ClassCounts() if self.classes else TargetMeans())
        self.joint = baselines.joint
        self.means, self.start = self.begin, time.perf_counter()
        self.first, self.earlier = _past(model)
        self.held_out = HeldOut(model)
        self.labels: list[str] = []
        self.counts: list[int] = []
        self.befores: list[tuple[float, float, float]] = []
        self.errors: list[list[float]] = []
        self.learned: list[tuple[Any, Any]] = []
        self.single = 0

    def report(self, report_progress: Progress, label: str, n_tasks: int) -> None:
        """Report the number of tasks done, the next task and the speed."""
        done, seconds = len(self.labels), max(time.perf_counter() - self.start, 1e-9)
        speed = f", {sum(self.counts) / seconds:,.0f} rows/s" if done else ""
        report_progress(done, n_tasks, f"tasks, now {label}{speed}")

    def learn(self, label: str, X: Any, y: Any) -> None:
        """Predict, learn and watch one task."""
        model = self.model
        X = np.asarray(X) if isinstance(X, list) else X
        X = read_once(X) if getattr(model, "_reads_columns", False) else X
        train, test = split_rows(len(y), self.holdout, [self.seed, 0, self.first + len(self.labels)])
        rows, targets = rows_of(X, train), y[train]
        past = self.means.rows > 0
        own_error = (self.classes or not hasattr(_last_step(model), "history_")) and past
        before = float(row_losses(model.predict(rows), targets, classes=self.classes).mean()) if own_error else np.nan
        model.partial_fit(rows, targets, **({"task": label} if has_levels(model) else {}))
        if past and not own_error:
            before = _last_step(model)._fitted().history.rows[-1][BEFORE]
        means = self.means
        constants = [
            float(row_losses(_constant(mean, targets), targets, classes=self.classes).mean()) if past else np.nan
            for mean in (means.mean, means.last)
        ]
        self.befores.append((before, constants[0], constants[1]))
        if self.joint is not None and self.holdout > 0:
            self.learned.append((rows_of(X, train), targets))
        self.means = means.after(targets)
        self.labels.append(label)
        self.counts.append(len(train))
        if self.holdout > 0:
            self.single += len(y) == 1
            self.held_out.add(label, X, y, test)
            self.errors.append(self.held_out.errors())

    def result(self) -> StreamResult:
        """Return all errors, those of the last row with the features as they are at the end."""
        if not self.labels:
            raise ValueError("there are no tasks to learn; pass at least one (X, y)")
        T, held_out, mean = len(self.labels), self.held_out, self.means.mean
        table, change, constant, joint = np.full((T, T), np.nan), np.full((T, 2), np.nan), np.full(T, np.nan), None
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
            self.model, self.labels, np.array(self.counts), table, change, before, mean_before, last_before, constant,
            joint, begin=self.begin, end=self.means, earlier=self.earlier, single=self.single,
            outcomes=held_out.outcomes() if self.classes and self.holdout > 0 else None,
        )  # fmt: skip

    def _joint_errors(self) -> Floats | None:
        """Return the errors of the joint model on held-out rows; None where there is none, or it would be too wide."""
        if self.joint is None or self.held_out.features.all().shape[1] > WIDEST:
            return None
        mean_rows = float(np.mean(self.counts))
        labels = np.unique(np.concatenate([y for _, y in self.learned])) if self.classes else None

        def numbers(y: Any) -> Any:
            return y if labels is None else (y[:, None] == labels).astype(np.float64)

        # Of all tasks, so that no penalty is on the intercept.
        mean = np.mean([numbers(y).mean(axis=0) for _, y in self.learned], axis=0)

        def blocks() -> Iterator[tuple[Any, Any, Any]]:
            for X, y in self.learned:
                rows = self.held_out.encoded(X)
                weight = np.full(len(y), mean_rows / len(y))
                yield rows.toarray() if is_sparse(rows) else np.asarray(rows), numbers(y) - mean, weight

        self.joint.partial_fit_blocks(blocks)

        def predict(X: Any) -> Any:
            scores = self.joint.predict(X) + mean
            return scores if labels is None else labels[np.argmax(scores, axis=1)]

        return np.array(self.held_out.errors(predict))


def _last_step(model: Any) -> Any:
    return model[-1] if hasattr(model, "steps") else model


def has_levels(model: Any) -> bool:
    """Return whether a model or the last step of a pipeline knows the levels of tasks."""
    return bool(getattr(_last_step(model), "task_levels", False))


def predict_with_levels(model: Any, X: Any, tasks: Any) -> Any:
    """Return the predictions of the last step for encoded rows, with the levels of their tasks where it knows them."""
    return _last_step(model).predict(X, **({"tasks": tasks} if has_levels(model) else {}))


def _past(model: Any) -> tuple[int, Floats]:
    """Return the number of tasks a model has learned, and the errors before learning in its history."""
    estimator = _last_step(model)
    if getattr(estimator, "_state", None) is None:
        return 0, np.zeros(0)
    if is_classifier(estimator):  # whose history has squared errors
        return int(estimator.n_tasks_seen_), np.zeros(0)
    history = estimator.history_
    return int(estimator.n_tasks_seen_), history["mse_before"][history["task"] > 1]  # the first was not predicted


def split_rows(n: int, holdout: float, seed: list[int]) -> tuple[Any, Any]:
    """Return the rows of a task that are learned, and those that are watched."""
    rows = np.arange(n)
    if holdout == 0:
        return rows, rows[:0]
    count = min(n - 1, max(1, round(holdout * n)))
    if count == 0:  # a task of a single row is trained on it and watched on it: there is no other
        return rows, rows
    order = np.random.default_rng(seed).permutation(n)
    learned = np.ones(n, dtype=bool)
    learned[order[:count]] = False
    return np.flatnonzero(learned), order[:count]


ROWS = 20_000
"""Largest number of held-out rows, about the same number of every task."""


class HeldOut:
    """The held-out rows of the tasks so far, as the model takes them.

    Features keep their places, so rows are encoded once, and get zeros for features that come later; ``refresh``
    encodes all of them again.
    """

    def __init__(self, model: Any) -> None:
        self.model, self.classes = model, is_classifier(_last_step(model))
        self.labels: list[str] = []
        self.rows: list[Any] = []
        self.features = _Stack()
        self.targets: list[Floats] = []
        self.learned: list[Floats] = []

    def add(self, label: str, X: Any, y: Floats, held: Any) -> None:
        """Add the rows ``held`` of the task that was learned last."""
        most = max(1, ROWS // _rounded_up(len(self.rows) + 1))
        first = slice(0, most)
        if any(len(part) > most for part in self.targets):
            for parts in (self.rows, self.targets, self.learned):
                parts[:] = [rows_of(part, first) for part in parts]
            self.features.truncate(most)
        self.labels.append(label)
        self.rows.append(rows_of(X, held[first]))
        self.targets.append(y[held[first]])
        features = self.encoded(self.rows[-1])
        self.features.add(features)
        with for_task(features.shape):
            predictions = predict_with_levels(self.model, features, [label] * features.shape[0])
            self.learned.append(row_losses(predictions, self.targets[-1], classes=self.classes))

    def refresh(self) -> None:
        """Encode all rows again."""
        self.features = _Stack()
        for X in self.rows:
            self.features.add(self.encoded(X))

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

    def outcomes(self) -> Outcomes | None:
        """Return the probabilities that a classifier predicts now; None where it has none."""
        model = _last_step(self.model)
        if not hasattr(model, "predict_proba"):
            return None
        return Outcomes(
            np.concatenate(self.targets), np.asarray(model.predict_proba(self.features.all())), model.classes_
        )

    def encoded(self, X: Any) -> Any:
        """Return rows as the last step of a pipeline takes them."""
        if hasattr(self.model, "steps"):
            for _, step in self.model.steps[:-1]:
                X = step.transform(X)
        return X

    def _predict(self, X: Any) -> Any:
        return predict_with_levels(self.model, X, np.repeat(self.labels, self.features.counts))

    def _by_task(self, predict: Callable[[Any], Any]) -> list[Floats]:
        """Return the squared error of every row, task by task, from one product for all."""
        X = self.features.all()
        with for_task(X.shape):
            squares = row_losses(predict(X), np.concatenate(self.targets), classes=self.classes)
        return np.split(squares, np.cumsum(self.features.counts)[:-1])


def _constant(value: Any, like: Any) -> Any:
    """Return one prediction for all rows."""
    return np.broadcast_to(np.asarray(value), (len(like), *np.shape(value)))


def row_losses(predictions: Any, y: Any, *, classes: bool = False) -> Floats:
    """Return the squared error of every row, the mean of several targets; of classes 1 where wrong, else 0."""
    if classes:
        return np.asarray(np.asarray(predictions) != y, dtype=np.float64)
    gap = np.asarray(predictions) - y
    return np.asarray(gap**2 if gap.ndim == 1 else np.mean(gap**2, axis=1))


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
        end, more, room = sum(self.counts), len(X), len(self._dense)
        if self._dense.shape[1] < X.shape[1] or room < end + more:
            room = room if room >= end + more else max(2 * room, end + more)  # doubled, so that few rows take little
            larger = np.zeros((room, max(X.shape[1], self._dense.shape[1])))
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
            wider = [
                sparse.csr_array((part.data, part.indices, part.indptr), shape=(part.shape[0], width))
                for part in map(sparse.csr_array, self._sparse)
            ]
            self._sparse = [sparse.csr_array(sparse.vstack(wider, format="csr"))]
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


def rows_of(X: Any, rows: Any) -> Any:
    """Return some rows of a table or an array."""
    if isinstance(X, Columns):
        return X.rows(rows)
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]
