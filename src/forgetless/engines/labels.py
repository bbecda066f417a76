"""Tasks with labels of two classes: their rows times their labels, separability and the largest
margin.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forgetless._core.arrays import Array, Floats, from_numpy, to_numpy
from forgetless.engines.problem import check_tasks
from forgetless.losses import check_labels
from forgetless.solvers.separation import contradiction, nearest_separator, no_margin
from forgetless.tasks import TaskCollection


@dataclass(frozen=True, eq=False)
class SignedRows:
    """The rows y_i x_i of all tasks, one below the other: A w are the margins of all rows."""

    A: Floats  # (Σn, d)
    offsets: NDArray[np.int64]  # the first row of each task, and their number (M + 1,)

    @classmethod
    def of(cls, tasks: Any) -> "SignedRows":
        """Return the rows of a collection; ValueError unless its labels are −1 and +1, and both
        occur.
        """
        check_tasks(tasks)
        if tasks.target_shape:
            raise ValueError(
                f"y must have shape (n,) for a loss of two classes, got {tasks.n_targets} columns"
            )
        labels = [check_labels(to_numpy(task.y), f"y of task {m}") for m, task in enumerate(tasks)]
        values = np.unique(np.concatenate(labels))
        if len(values) < 2:
            single = f"only {values[0]:+g}" if len(values) else "no rows"
            raise ValueError(
                f"y must hold both labels −1 and +1, got {single} in all tasks; add rows of the"
                " other class"
            )
        parts = [y[:, None] * to_numpy(task.X) for y, task in zip(labels, tasks, strict=True)]
        offsets = np.concatenate([[0], np.cumsum([len(y) for y in labels])])
        return cls(np.ascontiguousarray(np.concatenate(parts)), offsets)

    @property
    def n_tasks(self) -> int:
        return len(self.offsets) - 1

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """The number of rows of each task."""
        return np.diff(self.offsets)

    def of_task(self, m: int) -> Floats:
        """Return the rows of one task."""
        return self.A[self.offsets[m] : self.offsets[m + 1]]

    def by_task(self, values: Floats) -> Floats:
        """Return sums of values (..., Σn) over the rows of each task, of shape (..., M)."""
        result = np.zeros((*values.shape[:-1], self.n_tasks))
        filled = np.flatnonzero(self.counts)
        result[..., filled] = np.add.reduceat(values, self.offsets[filled], axis=-1)
        return result

    def check_margins(self) -> None:
        """Raise ValueError for the first task with rows that contradict each other."""
        for m in range(self.n_tasks):
            rows = contradiction(self.of_task(m)) if self.counts[m] else []
            if rows:
                raise no_margin(f"task {m}", rows)


@dataclass(frozen=True, eq=False)
class MaxMargin:
    """The separation of all rows of a collection by one hyperplane through the origin.

    Attributes
    ----------
    weights : array of shape (d,), or None
        The nearest w to the start with y_i x_iᵀw ≥ 1 for all rows; from the origin, the joint
        max-margin solution w⋆.
    margin : float
        γ = 1/‖w⋆‖, the largest distance of the hyperplane from the nearest row; 0 if the rows are
        not separable.
    contradiction : tuple of (task, row)
        Rows that no w has on the right side; empty if the rows are separable.
    """

    weights: Array | None
    margin: float
    contradiction: tuple[tuple[int, int], ...] = ()

    @property
    def is_separable(self) -> bool:
        """Whether one w has all rows on the right side."""
        return not self.contradiction


def max_margin(tasks: TaskCollection, start: Any = None) -> MaxMargin:
    """Return separability, margin and joint max-margin solution of tasks with labels −1 and +1.

    Parameters
    ----------
    tasks : TaskCollection
    start : array of shape (d,), optional
        ``weights`` are the solution nearest to it; the origin if omitted.

    Examples
    --------
    >>> import forgetless as fl
    >>> tasks = fl.TaskCollection([([[2.0, 0.0]], [1]), ([[0.0, 0.5]], [-1])])
    >>> best = fl.max_margin(tasks)
    >>> best.weights.tolist(), round(best.margin, 6), best.is_separable
    ([0.5, -2.0], 0.485071, True)
    """
    rows = SignedRows.of(tasks)
    contradicting = contradiction(rows.A)
    if contradicting:
        task_of = np.repeat(np.arange(rows.n_tasks), rows.counts)
        pairs = [(int(task_of[i]), int(i - rows.offsets[task_of[i]])) for i in contradicting]
        return MaxMargin(None, 0.0, tuple(pairs))
    smallest = nearest_separator(rows.A, np.zeros(tasks.n_features))
    weights = smallest if start is None else nearest_separator(rows.A, to_numpy(tasks.start(start)))
    return MaxMargin(from_numpy(weights, like=tasks[0].X), float(1.0 / np.linalg.norm(smallest)))
