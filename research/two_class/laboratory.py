"""Tasks of two classes that are learned one after another by proximal steps.

These steps are not affine, so nothing is exact over random orders: ``simulate`` runs samples of
them. A single order, such as ``fl.Cyclic()``, is deterministic.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

import forgetless as fl
from forgetless._running import track
from research.two_class.losses import Loss, named
from research.two_class.solvers import (
    Floats,
    contradiction,
    labels_of,
    nearest_separator,
    proximal_change,
)


def step(w: Any, task: Any, filter: Any, loss: Loss | str) -> Floats:
    """Return the weights after one task (X, y): argmin_u Σ_i ℓ(y_i x_iᵀu) + (λ/2)‖u − w‖².

    ``filter`` is ``fl.Ridge(λ)``, or ``fl.Projection()`` for λ → 0: the nearest weights with all
    margins at least 1.

    Examples
    --------
    >>> step([0.0, 5.0], ([[1.0, 0.0]], [-1]), fl.Ridge(1.0), "squared_hinge").round(9).tolist()
    [-0.5, 5.0]
    """
    X, y = task
    w = np.asarray(w, dtype=np.float64)
    A = labels_of(y)[:, None] * np.asarray(X, dtype=np.float64)
    if w.shape != A.shape[1:]:
        raise ValueError(f"w must have shape {A.shape[1:]} for this task, got {w.shape}")
    change = proximal_change(A, w, float(_coefficients(filter, 1)[0]), named(loss))
    return np.asarray(w + change)


def _coefficients(filter: Any, k: int) -> Floats:
    """Return λ_1..λ_k of a filter; 0 for ``fl.Projection``."""
    if isinstance(filter, fl.Projection):
        return np.zeros(k)
    if not isinstance(filter, fl.Ridge):
        raise TypeError(f"the filter must be fl.Ridge or fl.Projection, got {filter!r}")
    return np.broadcast_to(np.asarray(filter.coefficient, dtype=np.float64), (k,))


@dataclass(frozen=True, eq=False)
class SignedRows:
    """The rows y_i x_i of all tasks, one below the other: A w are the margins of all rows."""

    A: Floats
    counts: NDArray[np.int64]  # rows of every task

    @classmethod
    def of(cls, tasks: fl.TaskCollection) -> "SignedRows":
        """Return the rows of a collection; ValueError unless both labels occur."""
        labels = [labels_of(task.y) for task in tasks]
        if len(np.unique(np.concatenate(labels))) < 2:
            raise ValueError("y must hold both labels −1 and +1; add rows of the other class")
        parts = [y[:, None] * np.asarray(task.X) for y, task in zip(labels, tasks, strict=True)]
        return cls(np.concatenate(parts), np.array([len(y) for y in labels]))

    @cached_property
    def parts(self) -> list[Floats]:
        """The rows of every task."""
        return np.split(self.A, np.cumsum(self.counts)[:-1])

    def by_task(self, values: Floats) -> Floats:
        """Return sums of values (..., Σn) over the rows of each task, of shape (..., M)."""
        membership = np.repeat(np.eye(len(self.counts)), self.counts, axis=0)
        return np.asarray(values @ membership)


@dataclass(frozen=True, eq=False)
class Runs:
    """Simulated runs; a metric has shape (n_trials, k + 1), step 0 being the start.

    Attributes
    ----------
    weights : array of shape (n_trials, k + 1, d)
    order : array of shape (n_trials, k)
        The task of every step, numbered from 0.
    """

    weights: Floats
    order: NDArray[np.int64]
    rows: SignedRows
    loss: Loss

    @cached_property
    def margins(self) -> Floats:
        """The margins of all rows, of shape (n_trials, k + 1, Σn)."""
        return np.asarray(self.weights @ self.rows.A.T)

    @cached_property
    def task_losses(self) -> Floats:
        """The loss of every task, of shape (n_trials, k + 1, M)."""
        return self.rows.by_task(self.loss.value(self.margins))

    @property
    def average_loss(self) -> Floats:
        """The mean loss over all tasks."""
        return np.asarray(self.task_losses.mean(axis=-1))

    @property
    def error(self) -> Floats:
        """The mean over all tasks of the share of rows with a margin of at most 0."""
        wrong = self.rows.by_task((self.margins <= 0).astype(np.float64))
        return np.asarray((wrong / np.maximum(self.rows.counts, 1)).mean(axis=-1))

    @property
    def max_violation(self) -> Floats:
        """The largest distance of a margin below 1."""
        return np.asarray(np.maximum(1.0 - self.margins, 0.0).max(axis=-1))

    @property
    def forgetting(self) -> Floats:
        """(1/k) Σ_t [L(w_k; τ_t) − L(w_t; τ_t)] after all steps, of shape (n_trials,)."""
        own = self.order[:, :, None]
        after = np.take_along_axis(self.task_losses[:, 1:], own, axis=2)[:, :, 0]
        now = np.take_along_axis(self.task_losses[:, -1], self.order, axis=1)
        return np.asarray((now - after).mean(axis=1))


def strengths(rows: SignedRows, schedule: Any, k: int, radius: float, loss: Loss) -> Floats:
    """Return λ_1..λ_k of a filter, a number λ, or a schedule, which is scaled by the loss."""
    if isinstance(schedule, int | float):
        schedule = fl.Ridge(float(schedule))
    if not isinstance(schedule, fl.Filter):
        scale = loss.scale(radius, int(rows.counts.max()), k)
        schedule = schedule(k, scale**0.5)
    return _coefficients(schedule, k)


def simulate(
    tasks: fl.TaskCollection,
    schedule: Any,
    k: int,
    *,
    loss: Loss | str,
    ordering: Any = None,
    n_trials: int = 1,
    seed: Any = None,
    start: Any = None,
) -> Runs:
    """Return ``n_trials`` runs of k proximal steps on tasks with labels −1 and +1.

    Parameters
    ----------
    tasks : TaskCollection
    schedule : schedule, fl.Ridge, fl.Projection or a number λ
        A schedule such as ``fl.schedules.increasing()`` has β of the loss in place of R².
    k : int
    loss : Loss or its name
        "squared_hinge", "logistic" or "hinge"; ``hinge(D)`` for schedules.
    ordering : Ordering, default ``fl.WithReplacement()``
    n_trials : int, default 1
    seed : int, SeedSequence, Generator or None
        The orders are those of ``fl.simulate`` with the same seed.
    start : array of shape (d,), optional
        w₀; the origin if omitted.

    Examples
    --------
    >>> tasks = fl.TaskCollection([([[1.0, 0.0]], [1]), ([[0.6, 0.8]], [-1])])
    >>> runs = simulate(tasks, 1.0, 2, loss="squared_hinge", ordering=fl.Cyclic())
    >>> runs.weights[0].round(3).tolist(), runs.average_loss.round(3).tolist()
    ([[0.0, 0.0], [0.5, 0.0], [0.11, -0.52]], [[0.5, 0.485, 0.304]])
    """
    loss = named(loss)
    rows = SignedRows.of(tasks)
    coefficients = strengths(rows, schedule, k, tasks.radius, loss)
    chosen = fl.WithReplacement() if ordering is None else ordering
    order = chosen.sample(tasks.n_tasks, k, seed, n_trials).astype(np.int64)
    weights = np.zeros((n_trials, k + 1, tasks.n_features))
    if start is not None:
        weights[:, 0] = start
    for trial in track(range(n_trials), "runs"):
        for t, task in enumerate(order[trial]):
            w = weights[trial, t]
            change = proximal_change(rows.parts[task], w, float(coefficients[t]), loss)
            weights[trial, t + 1] = w + change
    return Runs(weights, order, rows, loss)


@dataclass(frozen=True, eq=False)
class MaxMargin:
    """The separation of all rows of a collection by one hyperplane through the origin.

    Attributes
    ----------
    weights : array of shape (d,), or None
        The nearest w to the start with all margins at least 1; None if there is none.
    margin : float
        γ = 1/‖w⋆‖, w⋆ being the nearest one to the origin: the largest distance of a hyperplane
        from the nearest row. 0 if the rows are not separable.
    contradiction : tuple of (task, row)
        Rows that no w has on the right side; empty if the rows are separable.
    """

    weights: Floats | None
    margin: float
    contradiction: tuple[tuple[int, int], ...] = ()


def max_margin(tasks: fl.TaskCollection, start: Any = None) -> MaxMargin:
    """Return separability, margin and joint max-margin solution of tasks with labels −1 and +1.

    Examples
    --------
    >>> tasks = fl.TaskCollection([([[2.0, 0.0]], [1]), ([[0.0, 0.5]], [-1])])
    >>> best = max_margin(tasks)
    >>> best.weights.tolist(), round(best.margin, 6)
    ([0.5, -2.0], 0.485071)
    """
    rows = SignedRows.of(tasks)
    contradicting = contradiction(rows.A)
    if contradicting:
        task_of = np.repeat(np.arange(tasks.n_tasks), rows.counts)
        first = np.cumsum(rows.counts) - rows.counts
        pairs = tuple((int(task_of[i]), int(i - first[task_of[i]])) for i in contradicting)
        return MaxMargin(None, 0.0, pairs)
    smallest = nearest_separator(rows.A, np.zeros(tasks.n_features))
    margin = float(1.0 / np.linalg.norm(smallest))
    if start is None:
        return MaxMargin(smallest, margin)
    return MaxMargin(nearest_separator(rows.A, np.asarray(start, dtype=np.float64)), margin)
