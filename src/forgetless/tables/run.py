"""Tasks of a table learned as a stream, with held-out rows of every task watched all the way."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from forgetless._core.frames import read_once
from forgetless.estimators.monitor import BEFORE
from forgetless.reporting.progress import Progress, progress_callback
from forgetless.solvers.rows import is_sparse
from forgetless.tables._watched import Watched, rows_of
from forgetless.tables.grouped import ORDERS, Part

WIDEST = 500
"""Features up to which ridge regression on all tasks, whose matrix is d × d, is a yardstick."""


class Targets(NamedTuple):
    """Targets learned so far: how many rows, their mean, and the mean of those of the last task."""

    rows: int = 0
    mean: Any = np.nan
    last: Any = np.nan

    def after(self, y: Any) -> "Targets":
        """Return the same with those of one more task."""
        rows, last = self.rows + len(y), y.mean(axis=0)
        return Targets(rows, self.mean + (last - self.mean) * (len(y) / rows) if self.rows else last, last)


@dataclass(frozen=True, eq=False)
class StreamRun:
    """What a stream did; T tasks of n rows each.

    Attributes
    ----------
    model : the fitted estimator or pipeline
    tasks : list of str
        Labels in the order learned.
    rows : array of shape (T,)
        Rows learned of each task.
    errors : array of shape (T, T)
        Mean squared error on the held-out rows of task m (column) after task t ≥ m (row) was learned; NaN for tasks to
        come, and everywhere without held-out rows. The last row is of the features as they are at the end.
    change : array of shape (T, 2)
        How much the error of each task has grown since it was learned, and the standard error of that, from the same
        rows.
    before, mean_before, last_before : arrays of shape (T,)
        Mean squared error on the rows of a task before it was learned: of the model, of the mean of all targets so far,
        and of the mean of the task before. NaN for the first task of all.
    constant : array of shape (T,)
        The error on held-out rows of the mean of the trained rows of all tasks, which needs no features.
    joint : array of shape (T,) or None
        The same for ridge regression on all tasks together, if that was asked for and has at most 500 features.
    begin, end : Targets
        Those learned before the first task, by a model that went on, and up to the last.
    single : int
        Tasks of a single row, which are watched on the row that they were learned from.
    earlier : array
        What ``before`` was of the tasks learned before, as far as the model knows them.
    """

    model: Any
    tasks: list[str]
    rows: NDArray[np.int64]
    errors: NDArray[np.float64]
    change: NDArray[np.float64]
    before: NDArray[np.float64]
    mean_before: NDArray[np.float64]
    last_before: NDArray[np.float64]
    constant: NDArray[np.float64]
    joint: NDArray[np.float64] | None
    begin: Targets
    end: Targets
    earlier: NDArray[np.float64]
    single: int

    @property
    def estimator(self) -> Any:
        """The streaming model itself, without the steps before it."""
        return self.model[-1] if hasattr(self.model, "steps") else self.model

    @property
    def watched(self) -> bool:
        """Whether rows were held out."""
        return bool(np.isfinite(self.errors[-1, -1]))

    @property
    def seen(self) -> NDArray[np.float64]:
        """Mean over the tasks seen so far of their error, after each task."""
        return np.array([row[: t + 1].mean() for t, row in enumerate(self.errors)])

    @property
    def forgetting(self) -> NDArray[np.float64]:
        """Error of each task at the end minus that just after it was learned; negative if later tasks helped."""
        return np.asarray(self.errors[-1] - np.diag(self.errors))


def run_stream(
    model: Any,
    table: Any,
    *,
    order: str = "file",
    holdout: float = 0.2,
    seed: int = 0,
    joint: Any = None,
    progress: Any = None,
) -> StreamRun:
    """Learn the tasks of a table one after the other.

    Parameters
    ----------
    model : unfitted streaming estimator
        Learned in place, on the rows that are not held out.
    table : object with X, y and groups
    order : {"file", "sorted", "random"}
        Tasks in the order in which they first appear in the file, by label, or shuffled by ``seed``.
    holdout, seed, joint, progress
        As in :func:`follow`.

    Returns
    -------
    StreamRun
    """
    if order not in ORDERS:
        raise ValueError(f"order must be one of {', '.join(ORDERS)}, got {order!r}")
    names, first, codes = np.unique(table.groups, return_index=True, return_inverse=True)
    turn = {
        "file": np.argsort(first),
        "sorted": np.arange(len(names)),
        "random": np.random.default_rng([seed, 1]).permutation(len(names)),
    }[order]

    def parts() -> Iterator[Part]:
        for code in turn:
            rows = np.flatnonzero(codes == code)
            yield Part(str(names[code]), table.X[rows], table.y[rows])

    return follow(model, parts(), holdout=holdout, seed=seed, joint=joint, progress=progress, total=len(turn))


def follow(
    model: Any,
    tasks: Iterable[Part],
    *,
    holdout: float = 0.2,
    seed: int = 0,
    joint: Any = None,
    progress: Any = None,
    total: int | None = None,
    begin: Targets | None = None,
) -> StreamRun:
    """Learn tasks as they come.

    Parameters
    ----------
    model : streaming estimator, or a pipeline that ends in one
        Learned in place, on the rows that are not held out. One that has learned tasks before goes on: which rows of a
        task are held out depends on its number in the whole stream.
    tasks : iterable of Part
    holdout : float
        Share of the rows of each task that is held out, at least one; tasks of one row are watched on that row. 0 for
        none. At most 20 000 rows are watched in all, about the same number of every task.
    seed : int
    joint : unfitted estimator, optional
        Learns all tasks together, as a yardstick.
    progress : True or callable, optional
        True for a bar; a callable is called as ``progress(tasks_done, n_tasks, "tasks, now LABEL, N rows/s")`` before
        each task.
    total : int, optional
        The number of tasks, where it is known.
    begin : Targets, optional
        The targets of what the model has learned before, where that is known.

    Returns
    -------
    StreamRun
    """
    if not 0.0 <= holdout < 1.0:
        raise ValueError(f"holdout must be a share of the rows in [0, 1), got {holdout!r}; use e.g. 0.2")
    with progress_callback(progress) as tell:
        return _followed(model, tasks, holdout, seed, joint, tell, total, begin or Targets())


def _followed(
    model: Any,
    tasks: Iterable[Part],
    holdout: float,
    seed: int,
    joint: Any,
    tell: Progress | None,
    total: int | None,
    begin: Targets,
) -> StreamRun:
    single = 0
    labels: list[str] = []
    counts: list[int] = []
    befores: list[tuple[float, float, float]] = []
    errors: list[list[float]] = []
    first, earlier = _earlier(model)
    watched, so_far, start = Watched(model), begin, time.perf_counter()
    for t, (label, X, y) in enumerate(tasks):
        if tell is not None:
            speed = sum(counts) / max(time.perf_counter() - start, 1e-9)
            tell(t, total or 0, f"tasks, now {label}" + (f", {speed:,.0f} rows/s" if t else ""))
        X = read_once(X) if getattr(model, "_reads_columns", False) else X
        train, test = _split(len(y), holdout, seed, first + t)
        rows, targets = rows_of(X, train), y[train]
        rows = model._learn(rows, targets) if hasattr(model, "_learn") else model.partial_fit(rows, targets) and rows
        befores.append(_before(model, targets, so_far) if so_far.rows else (np.nan,) * 3)
        joint = _with(joint, rows, targets)
        so_far = so_far.after(targets)
        labels.append(label)
        counts.append(len(train))
        if holdout > 0:
            single += len(y) == 1
            watched.add(X, y, test)
            errors.append(watched.errors())
    if not labels:
        raise ValueError("there are no tasks to learn")
    T = len(labels)
    table = np.full((T, T), np.nan)
    constant, together, change = np.full(T, np.nan), None, np.full((T, 2), np.nan)
    if holdout > 0:
        watched.refresh()  # as new rows would be encoded now
        errors[-1] = watched.errors()
        for t, row in enumerate(errors):
            table[t, : len(row)] = row
        change = watched.change()
        mean = so_far.mean
        constant = np.array(watched.errors_of(lambda X: np.broadcast_to(mean, (X.shape[0], *np.shape(mean)))))
        together = None if joint is None else np.array(watched.errors_of(joint.predict))
    before, mean_before, last_before = np.array(befores).T
    return StreamRun(
        model, labels, np.array(counts), table, change, before, mean_before, last_before, constant, together,
        begin=begin, end=so_far, earlier=earlier, single=single,
    )  # fmt: skip


def _earlier(model: Any) -> tuple[int, NDArray[np.float64]]:
    """Return how many tasks a model has learned, and the errors on those it knows before it learned them."""
    estimator = model[-1] if hasattr(model, "steps") else model
    if getattr(estimator, "_state", None) is None:
        return 0, np.zeros(0)
    history = estimator.history_
    return int(estimator.n_tasks_seen_), history["mse_before"][history["task"] > 1]  # before the first it knew nothing


def _before(model: Any, y: Any, so_far: Targets) -> tuple[float, float, float]:
    """Return the error on a task before it was learned: of the model, of the mean so far, of the mean of the last."""
    rows = (model[-1] if hasattr(model, "steps") else model)._fitted().history.rows
    own = rows[-1][BEFORE] if rows else np.nan
    return own, float(np.mean((y - so_far.mean) ** 2)), float(np.mean((y - so_far.last) ** 2))


def _with(joint: Any, X: Any, y: Any) -> Any:
    """Return the yardstick after a task; None where there is none, or it would be too wide."""
    if joint is None or X.shape[1] > WIDEST:
        return None
    if getattr(joint, "_state", None) is not None and X.shape[1] > joint.n_features_in_:
        joint.widen(int(X.shape[1]) - joint.n_features_in_)
    from forgetless.tables.pipeline import learned_at_once, written  # scikit-learn, which importing need not load

    if learned_at_once(joint, X, y):
        return joint
    X = written(X)
    return joint.partial_fit(X.toarray() if is_sparse(X) else X, y)


def _split(n: int, holdout: float, seed: int, task: int) -> tuple[Any, Any]:
    """Return the rows of a task that are learned, and those that are watched."""
    rows = np.arange(n)
    if holdout == 0:
        return rows, rows[:0]
    count = min(n - 1, max(1, round(holdout * n)))
    if count == 0:  # a task of a single row is trained on it and watched on it: there is no other
        return rows, rows
    mixed = np.random.default_rng([seed, 0, task]).permutation(n)
    learned = np.ones(n, dtype=bool)
    learned[mixed[:count]] = False
    return np.flatnonzero(learned), mixed[:count]
