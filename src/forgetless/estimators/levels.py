"""Levels of tasks: linear models with a random intercept for every task, for rows whose task is
known.

Rows of task t are y = xᵀw + b + o_t + noise with o_t ~ N(0, σ²/μ). Beside the statistics of all
rows, from which ridge regression is solved (``statistics``), only the mean row x̄_t and the mean
target ȳ_t of every task are needed. With M_t and r_t the deviations of x̄_t from the mean and of
ȳ_t from the present solution, the rows of a task without their mean have the statistics G − Σ n_t
M_t M_tᵀ, and the means of tasks count n_tμ/(n_t + μ) rows each instead of n_t. λ and μ have the
largest evidence (restricted maximum likelihood, as b has a flat prior), and the level of a task is
its mean residual times n_t/(n_t + μ), the best linear prediction of o_t (Robinson 1991).
"""

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from forgetless._core.arrays import Floats, from_numpy, to_numpy, with_zeros
from forgetless.estimators._units import Units
from forgetless.estimators.statistics import TINY, Statistics, mean_variance
from forgetless.io import Fields

if TYPE_CHECKING:  # a state holds levels
    from forgetless.estimators.state import TaskData

RATIOS = np.append(10.0 ** np.arange(-2.0, 4.01, 0.5), np.inf)
"""Values of μ to choose from."""


class TaskMeans(NamedTuple):
    """Means of the rows and targets of every task, in the user's units.

    Attributes
    ----------
    labels : tuple of str
    totals : array of shape (T,)
        Number of rows, or the sum of their weights, divided as the loss is.
    rows : array of shape (T, d)
    targets : array of shape (T, c)
    """

    labels: tuple[str, ...]
    totals: Floats
    rows: Floats
    targets: Floats

    @classmethod
    def empty(cls) -> "TaskMeans":
        """Return the means before the first task."""
        return cls((), np.zeros(0), np.zeros((0, 0)), np.zeros((0, 0)))

    @classmethod
    def from_fields(cls, fields: Fields, labels: Any, d: int, c: int) -> "TaskMeans":
        """Return the means in the arrays of a file; ValueError where one is not valid."""
        T = len(check_labels(labels))
        totals = fields.array("totals", "f", (T,), low=0.0)
        means = cls(
            tuple(labels),
            totals,
            fields.array("rows", "f", (T, d)),
            fields.array("targets", "f", (T, c)),
        )
        fields.end()
        return means

    def arrays(self) -> dict[str, Any]:
        """Return the numbers as arrays for a file."""
        return {"totals": self.totals, "rows": self.rows, "targets": self.targets}

    def after(self, label: str, task: "TaskData", units: Units | None, scale: float) -> "TaskMeans":
        """Return the means with those of a task, whose loss is divided by ``scale``."""
        total, row, target = _means(task)
        row, total = row if units is None else row * units.scale + units.center, total / scale
        if not self.labels:
            return TaskMeans((label,), np.array([total]), row[None, :], target[None, :])
        if label not in self.labels:
            return TaskMeans(
                (*self.labels, label),
                np.append(self.totals, total),
                np.concatenate([self.rows, row[None, :]]),
                np.concatenate([self.targets, target[None, :]]),
            )
        at = self.labels.index(label)
        totals, rows, targets = self.totals.copy(), self.rows.copy(), self.targets.copy()
        totals[at] += total
        rows[at] += (row - rows[at]) * (total / totals[at])
        targets[at] += (target - targets[at]) * (total / totals[at])
        return TaskMeans(self.labels, totals, rows, targets)

    def widened(self, d: int, count: int) -> "TaskMeans":
        """Return the means with ``count`` more features behind the first d, zero in every row."""
        return self._replace(rows=with_zeros(self.rows, d, count, 1)) if self.labels else self

    def solved(self, statistics: Statistics, units: Units | None) -> "TaskLevels":
        """Return the model of largest evidence on statistics of all rows, in their units.

        Where the memory is truncated, the slopes are those of ridge regression on all rows, without
        levels.
        """
        d, weights = len(statistics.mean), statistics.weights
        rows = self.rows if units is None else units.inward(self.rows)
        M, n = rows - statistics.mean, self.totals[:, None]
        residual = self.targets - (rows @ weights[:d] + weights[d])
        within = statistics._replace(
            gradient=statistics.gradient - M.T @ (n * residual),
            squares=statistics.squares - np.sum(n * residual**2, axis=0),
            gram=None if statistics.gram is None else statistics.gram - (n * M).T @ M,
            unit=mean_variance(statistics.diagonal, statistics.rows),
        )
        best: tuple[float, Any] = (math.inf, None)
        for ratio in RATIOS:
            share = n / (n + ratio)  # of the mean residual that is the level
            means = n * (1.0 - share) if math.isfinite(ratio) else n
            cost, change = _solution(within, M, residual, means)
            cost += residual.shape[1] * float(np.log1p(n / ratio).sum() + np.log(means.sum()))
            if cost < best[0]:
                best = cost, (share, means, change)
        share, means, change = best[1]
        left = residual - M @ change
        constant = np.sum(means * left, axis=0) / means.sum()
        solution = weights.copy()
        solution[:d] += change
        solution[d] += constant - statistics.mean @ change
        levels = share * (left - constant)
        noise = _noise(within, M, residual, means, change) / max(statistics.rows - 1.0, 1.0)
        return TaskLevels(self.labels, solution, levels, noise * (1.0 + share / n))


class TaskLevels(NamedTuple):
    """The model of rows of known tasks.

    Attributes
    ----------
    labels : tuple of str
    weights : array of shape (d + 1, c)
        The intercept is the last.
    levels : array of shape (T, c)
    variances : array of shape (T, c)
        Of targets around the function, with the uncertainty of the level.
    """

    labels: tuple[str, ...]
    weights: Floats
    levels: Floats
    variances: Floats

    @classmethod
    def from_fields(cls, fields: Fields, labels: Any, d: int, c: int) -> "TaskLevels":
        """Return the levels in the arrays of a file; ValueError where one is not valid."""
        T = len(check_labels(labels))
        weights, levels = (
            fields.array("weights", "f", (d + 1, c)),
            fields.array("levels", "f", (T, c)),
        )
        result = cls(
            tuple(labels), weights, levels, fields.array("variances", "f", (T, c), low=0.0)
        )
        fields.end()
        return result

    def arrays(self) -> dict[str, Any]:
        """Return the numbers as arrays for a file."""
        return {"weights": self.weights, "levels": self.levels, "variances": self.variances}

    def numbers_of(self, tasks: Any, n: int) -> Any:
        """Return the number of the task of each of n rows by its label; T for those that were never
        learned.
        """
        if isinstance(tasks, str) or not hasattr(tasks, "__len__") or len(tasks) != n:
            raise ValueError(f"tasks must be one label for each of {n} rows, got {tasks!r:.100}")
        numbers = {label: number for number, label in enumerate(self.labels)}
        labels = tasks.tolist() if hasattr(tasks, "tolist") else tasks
        return np.array(
            [numbers.get(label_of(label), len(numbers)) for label in labels], dtype=np.int64
        )


def check_labels(labels: Any) -> list[str]:
    """Return the labels of tasks in a file; ValueError unless they are different strings."""
    if not isinstance(labels, list) or not all(isinstance(each, str) for each in labels):
        raise ValueError("the labels of its tasks are not strings")
    if len(set(labels)) < len(labels):
        raise ValueError("the labels of its tasks are not different")
    return labels


def label_of(task: Any) -> str:
    """Return the label of a task as a string, the same for 3 and 3.0.

    Examples
    --------
    >>> label_of(3), label_of(3.0), label_of("May")
    ('3', '3', 'May')
    """
    return (
        str(int(task))
        if isinstance(task, float | np.floating) and float(task).is_integer()
        else str(task)
    )


def _means(task: "TaskData") -> tuple[float, Floats, Floats]:
    """Return the weight of the rows of a task with an intercept, their mean, and that of their
    targets.
    """
    rows = task.rows
    if rows.readable:
        unit = np.zeros((rows.shape[1], 1))
        unit[-1] = 1.0
        roots = rows.forward(from_numpy(unit, like=task.start))  # of the weights of the rows
        column = to_numpy(rows.adjoint(roots))[:, 0]
        right = to_numpy(roots)[:, 0] @ to_numpy(task.residual)
    else:
        assert task.right is not None
        column, right = to_numpy(rows.gram)[:, -1], to_numpy(task.right)[-1]
    total = float(column[-1])
    return total, column[:-1] / total, (right + column @ to_numpy(task.start)) / total


def _joined(within: Statistics, M: Floats, residual: Floats, means: Floats) -> Statistics:
    """Return the statistics of rows without the means of their tasks, and of these means with some
    weights.
    """
    total = means.sum()
    M, residual = (
        M - np.sum(means * M, axis=0) / total,
        residual - np.sum(means * residual, axis=0) / total,
    )
    gram = None if within.gram is None else within.gram + (means * M).T @ M
    return within._replace(
        gram=gram,
        gradient=within.gradient + M.T @ (means * residual),
        squares=np.maximum(within.squares + np.sum(means * residual**2, axis=0), 0.0),
    )


def _solution(
    within: Statistics, M: Floats, residual: Floats, means: Floats
) -> tuple[float, Floats]:
    """Return −2 log evidence and the change of the slopes (d, c) with the best λ."""
    joined = _joined(within, M, residual, means)
    if joined.gram is None:
        quadratic = np.maximum(joined.squares, TINY)
        return float((joined.rows - 1.0) * np.log(quadratic).sum()), np.zeros_like(joined.gradient)
    path = joined.path()
    best = int(np.argmin(path.costs))
    return float(path.costs[best]), path.vectors @ path.steps[best]


def _noise(
    within: Statistics, M: Floats, residual: Floats, means: Floats, change: Floats
) -> Floats:
    """Return the squared error after a change of the slopes, the levels being integrated out."""
    joined = _joined(within, M, residual, means)
    product = 0.0 if joined.gram is None else joined.gram @ change
    return np.asarray(
        np.maximum(joined.squares + np.sum(change * (product - 2 * joined.gradient), axis=0), 0.0)
    )
