"""A table of tasks learned as a stream, with held-out rows of every task watched all the way."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forgetless._base.progress import Progress
from forgetless.datasets.files import TaskTable

ORDERS = ("file", "sorted", "random")


WATCHED_ROWS = 20_000
"""At most this many held-out rows are watched in all, the same number of every task."""


@dataclass(frozen=True, eq=False)
class StreamRun:
    """What a stream did.

    Attributes
    ----------
    model : the fitted estimator
    tasks : list of str
        Labels in the order learned.
    errors : array of shape (T, T)
        Mean squared error on the held-out rows of task m (column) after task t (row) was learned.
    constant : array of shape (T,)
        The same for predicting the mean of the trained rows of all tasks, which needs no features.
    joint : array of shape (T,) or None
        The same for ridge regression on all tasks together, if that was asked for.
    """

    model: Any
    tasks: list[str]
    errors: NDArray[np.float64]
    constant: NDArray[np.float64]
    joint: NDArray[np.float64] | None

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
    table: TaskTable,
    *,
    order: str = "file",
    holdout: float = 0.2,
    seed: int = 0,
    joint: Any = None,
    progress: Progress | None = None,
) -> StreamRun:
    """Learn the tasks of a table one after the other.

    Parameters
    ----------
    model : unfitted streaming estimator
        Learned in place, on the rows that are not held out.
    table : TaskTable
    order : {"file", "sorted", "random"}
        Tasks in the order in which they first appear in the file, by label, or shuffled by ``seed``.
    holdout : float
        Share of the rows of each task that is held out, at least one; tasks of one row are watched on that row.
    seed : int
    joint : unfitted estimator, optional
        Learned on all tasks together, as a yardstick.
    progress : callable, optional
        Called as ``progress(tasks_done, n_tasks, "tasks, now LABEL")`` before each task.

    Returns
    -------
    StreamRun
    """
    labels, parts = _parts(table, order, holdout, seed)
    watched = max(1, WATCHED_ROWS // len(parts))
    held = [test[:watched] for _, test in parts]
    X_held = np.concatenate([table.X[rows] for rows in held])
    y_held = np.concatenate([table.y[rows] for rows in held])
    ends = np.cumsum([len(rows) for rows in held])[:-1]

    def errors_of(predict: Callable[[Any], Any]) -> list[float]:
        squares = (predict(X_held) - y_held) ** 2
        return [float(part.mean()) for part in np.split(squares, ends)]

    errors = []
    for t, (train, _) in enumerate(parts):
        if progress is not None:
            progress(t, len(parts), f"tasks, now {labels[t]}")
        model.partial_fit(table.X[train], table.y[train])
        errors.append(errors_of(model.predict))
    trained = np.concatenate([train for train, _ in parts])
    mean = table.y[trained].mean(axis=0)
    together = None
    if joint is not None:
        together = np.array(errors_of(joint.fit(table.X[trained], table.y[trained]).predict))
    return StreamRun(model, labels, np.array(errors), np.array(errors_of(lambda _: mean)), together)


def _parts(table: TaskTable, order: str, holdout: float, seed: int) -> tuple[list[str], list[tuple[Any, Any]]]:
    """Return labels, and the trained and held-out rows of every task in the order of learning."""
    if order not in ORDERS:
        raise ValueError(f"order must be one of {', '.join(ORDERS)}, got {order!r}")
    if not 0.0 < holdout < 1.0:
        raise ValueError(f"holdout must be a share of the rows in (0, 1), got {holdout!r}; use e.g. 0.2")
    names, first, codes = np.unique(table.groups, return_index=True, return_inverse=True)
    turn = {
        "file": np.argsort(first),
        "sorted": np.arange(len(names)),
        "random": np.random.default_rng([seed, 1]).permutation(len(names)),
    }[order]
    parts = []
    for code in turn:
        rows = np.flatnonzero(codes == code)
        mixed = np.random.default_rng([seed, 0, int(code)]).permutation(rows)
        count = min(len(rows) - 1, max(1, round(holdout * len(rows))))
        # A task of a single row is trained on it and watched on it: there is no other.
        test, train = (mixed[:count], np.sort(mixed[count:])) if count else (rows, rows)
        parts.append((train, test))
    return [str(names[code]) for code in turn], parts
