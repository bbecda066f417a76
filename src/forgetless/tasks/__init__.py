"""Regression tasks and collections of them: the data of a continual learner.

A collection stacks the singular vectors of all tasks: Σr of them, r being the rank of a task. They
lie in a joint span of q ≤ min(d, Σr) dimensions. Steps never leave it, and the engines compute in q
coordinates.
"""

import math
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from forgetless import _linalg as linalg
from forgetless import _validate as validate
from forgetless._validate import Array, Floats, as_float, group_labels
from forgetless.io import Document, Fields, write
from forgetless.tasks.task import Task, as_task, check_alike

__all__ = ["Task", "TaskCollection"]

_ROUNDING = 4e-15
"""What is missed of a label, relative to its size, that counts as rounding."""


class TaskCollection:
    """The M regression tasks of a continual learner.

    Parameters
    ----------
    tasks : iterable of (X, y)
        X of shape (n, d) with the same d in every task; y of shape (n,), or (n, c) for c targets.
        Tasks may differ in n, be rank-deficient, have no rows or only zeros. Everything is computed
        in float64, as NumPy arrays. Float64 arrays are not copied: do not change them
        afterwards.
    noise : float, default 0
        Standard deviation σ of label noise that is drawn anew in every row at every visit. Losses
        are those of the labels without it. For labels that are noisy once and for all, add the
        noise to y.
    walk : float, default 0
        The teacher walks: before every task but the first all labels change by X_m δ, δ being
        Gaussian with independent entries of equal variance and E‖δ‖² = walk². Losses are those of
        the present labels, and distances are those from the present teacher.

    Attributes
    ----------
    n_tasks, n_features : int
        M and d.
    target_shape : tuple
        () for y of shape (n,), (c,) for y of shape (n, c).
    weights_shape : tuple
        (d,) or (d, c).
    n_targets : int
        c; 1 for y of shape (n,).
    singular_vectors : array of shape (Σr, d)
        The right singular vectors of all tasks, one below the other.
    singular_values : array of shape (Σr,)
    targets : array of shape (Σr, c)
        V X⁺y of every task, also for c = 1.
    ranks : array of shape (M,)
        The rank r of every task.
    offsets : array of shape (M + 1,)
        The position of the first singular vector of each task among all; at the end, their number.
    owners : array of shape (Σr,)
        The task of every singular vector.
    radii : array of shape (Σr,)
        ‖X_m‖₂ of the task of every singular vector.
    radius : float
        R = max ‖X_m‖₂ over all tasks.
    sizes : array of shape (Σr, c)
        ``Task.sizes`` of the task of every singular vector.
    floors : array of shape (M,)
        The loss of each task that no weights avoid.

    Examples
    --------
    >>> import forgetless as fl
    >>> tasks = fl.TaskCollection([([[1.0, 0.0]], [1.0]), ([[0.0, 2.0]], [4.0])])
    >>> tasks
    TaskCollection(n_tasks=2, n_features=2, rows=1, ranks=1, radius=2)
    >>> tasks.teacher().tolist(), tasks.is_realizable()
    ([1.0, 2.0], True)
    """

    def __init__(
        self,
        tasks: Iterable[Any],
        *,
        noise: float = 0.0,
        walk: float = 0.0,
    ) -> None:
        self.noise = validate.number(
            "noise", noise, "it is the standard deviation of label noise; 0 for none"
        )
        self.walk = validate.number(
            "walk", walk, "it is the root mean square step of the teacher; 0 if it stays"
        )
        # Tasks of another collection keep their spectra.
        self._tasks = tuple(as_task(each, m) for m, each in enumerate(tasks))
        check_alike(self._tasks)
        X, y = self._tasks[0]
        self.n_tasks = len(self._tasks)
        self.n_features = X.shape[1]
        self.target_shape: tuple[int, ...] = y.shape[1:]
        self.weights_shape = (self.n_features, *self.target_shape)
        self.n_targets = math.prod(self.target_shape)
        # All tasks one below the other: task m has rows offsets[m]..offsets[m + 1] − 1.
        self.ranks = np.array([task.rank for task in self])
        self.offsets = np.append(0, np.cumsum(self.ranks))
        self.owners = np.repeat(np.arange(self.n_tasks), self.ranks)
        self.singular_vectors = np.concatenate([task.singular_vectors for task in self])
        self.singular_values = np.concatenate([task.singular_values for task in self])
        targets = np.concatenate([task.targets for task in self])
        self.targets = targets.reshape(-1, self.n_targets)
        largest = np.array([task.radius for task in self])
        # What belongs to a task is repeated for each of its singular vectors.
        self.radii = largest[self.owners]
        self.radius = float(largest.max())
        self.sizes = np.array([task.sizes for task in self])[self.owners]
        self.floors: Floats = np.array([task.floor for task in self])

    @classmethod
    def from_arrays(
        cls,
        X: Any,
        y: Any,
        groups: Any,
        *,
        noise: float = 0.0,
        walk: float = 0.0,
    ) -> "TaskCollection":
        """Split one data set into tasks by a column of group labels.

        Parameters
        ----------
        X : array of shape (n, d)
        y : array of shape (n,) or (n, c)
        groups : array of shape (n,)
            The task each row belongs to: any sortable labels, none missing. Tasks are in sorted
            order of their labels.
        noise, walk : float, default 0

        For a table ``X`` may come from ``fl.tables.TableEncoder``, and ``groups`` is a column.

        Examples
        --------
        >>> import forgetless as fl
        >>> fl.TaskCollection.from_arrays([[1.0], [2.0], [3.0]], [1.0, 2.0, 3.0], ["b", "a", "b"])
        TaskCollection(n_tasks=2, n_features=1, rows=1..2, ranks=1, radius=3.162)
        """
        X = as_float("X", X)
        y = as_float("y", y)
        labels = group_labels(groups)
        if labels.ndim != 1 or not labels.shape == X.shape[:1] == y.shape[:1]:
            raise ValueError(
                f"groups must have one label per row of X and y, got shapes {labels.shape},"
                f" {X.shape} and {y.shape}"
            )
        # Tasks in sorted order of their labels, rows in the order of the table.
        members = [labels == name for name in np.unique(labels)]
        return cls([(X[rows], y[rows]) for rows in members], noise=noise, walk=walk)

    def shifted(self, start: Any) -> "TaskCollection":
        """Return the tasks as they look from ``start``; use it to begin learning elsewhere.

        Learning y from w₀ is learning y − X w₀ from the origin: weights are those minus w₀, and all
        metrics are the same. Shift held-out tasks as well.

        Parameters
        ----------
        start : array of shape (d,) or (d, c)
            w₀.

        Examples
        --------
        >>> import forgetless as fl
        >>> tasks = fl.TaskCollection([([[1.0, 0.0]], [1.0]), ([[0.0, 2.0]], [4.0])])
        >>> tasks.shifted([1.0, 1.0]).teacher().tolist()
        [0.0, 1.0]
        """
        w = as_float("start", start)
        if w.shape != self.weights_shape:
            raise ValueError(
                f"start must have shape {self.weights_shape}, like the weights of these tasks, got"
                f" {w.shape}"
            )
        # The spectra stay: only targets change.
        return self.like(task.shifted(w) for task in self)

    def like(self, tasks: Iterable[Any]) -> "TaskCollection":
        """Return a collection of other tasks with the same noise and walk."""
        return TaskCollection(tasks, noise=self.noise, walk=self.walk)

    @cached_property
    def span(self) -> Floats:
        """An orthonormal basis (d, q) of the joint span of all rows; the identity if q = d."""
        return linalg.span(self.singular_vectors)

    @property
    def span_dimension(self) -> int:
        """q, the dimension of the joint span."""
        return int(self.span.shape[1])

    @cached_property
    def span_vectors(self) -> Array:
        """The singular vectors in coordinates of the joint span, of shape (Σr, q)."""
        whole = self.span_dimension == self.n_features
        return self.singular_vectors if whole else self.singular_vectors @ self.span

    @property
    def mean_rows(self) -> tuple[Floats, Floats]:
        """A (Σr, d) and b (Σr, c) with average loss ½‖A w − b‖² plus the mean floor."""
        # The mean over tasks of ½‖s ∘ (V w − V X⁺y)‖².
        scales = self.singular_values[:, None] / np.sqrt(self.n_tasks)
        return scales * self.singular_vectors, scales * self.targets

    def by_task(self, values: Floats) -> Floats:
        """Return sums of values (..., Σr) over the singular vectors of each task: (..., M)."""
        # Tasks of rank 0 keep the sum 0.
        sums = np.zeros((*values.shape[:-1], self.n_tasks))
        # reduceat would give a task without singular vectors the first value of the next one.
        filled = np.flatnonzero(self.ranks)
        sums[..., filled] = np.add.reduceat(values, self.offsets[filled], axis=-1)
        return sums

    def mean_remaining(self, coefficient: float) -> float:
        """Return 1 − a, a being the mean over tasks of tr[XᵀX(XᵀX + λ)⁻¹]/``span_dimension``, the
        filter factor of a ridge step.
        """
        # In all directions without a singular vector 1 − φ is 1. Summed so that nothing cancels.
        left = coefficient / (coefficient + self.singular_values**2)
        n_dimensions = self.n_tasks * max(1, self.span_dimension)
        return float(np.sum(left) + (n_dimensions - len(left))) / n_dimensions

    def teacher(self) -> Floats:
        """Return the joint least-squares solution of least norm, of shape (d,) or (d, c).

        It is w⋆ = A⁺b, A and b being all X_m and y_m one below the other.
        """
        return self._least_norm.copy()

    @cached_property
    def _least_norm(self) -> Floats:
        z = linalg.joint_solution(
            self.span_vectors,
            self.targets,
            self.singular_values,
            self.radii,
        )
        return np.reshape(self.span @ z, self.weights_shape)

    @cached_property
    def residual(self) -> float:
        """The distance of the tasks from joint realizability: 0 if one model fits all, up to
        rounding; at most 1.

        The largest over tasks and targets of ρ / (‖X‖‖w⋆‖ + ρ) with ρ = ‖X w⋆ − y‖ and w⋆ =
        ``teacher()``, each target with its own w⋆; it does not change when a task or a target is
        rescaled.
        """
        # Every target is judged by its own solution.
        w = self._least_norm.reshape(self.n_features, self.n_targets)
        distances = linalg.norms(w)
        worst = 0.0
        for task in self:
            y = task.y.reshape(len(task.y), self.n_targets)
            rho = linalg.norms(task.X @ w - y)
            # Rounding of labels that are met does not count.
            missed = rho > _ROUNDING * task.sizes
            shares = rho[missed] / (task.radius * distances + rho)[missed]
            worst = float(shares.max(initial=worst))
        return worst

    def is_realizable(self, tol: float = 1e-9) -> bool:
        """Return whether one w fits every task: whether ``residual`` is at most ``tol``."""
        return self.residual <= validate.number("tol", tol, "the default is 1e-9")

    def missing(self, w: Array) -> Array:
        """Return V X⁺y − V w over all singular vectors, of shape (Σr, c)."""
        columns = w.reshape(self.n_features, self.n_targets)
        return self.targets - self.singular_vectors @ columns

    def save(self, path: str | Path) -> None:
        """Write all rows to a file; ``fl.load`` reads it, and so do commands if its suffix is
        ``.safetensors``.
        """
        # Rows of all tasks one below the other, and the number of rows of each.
        X, y = map(np.concatenate, zip(*self, strict=True))
        rows = np.array([len(task.X) for task in self])
        disturbance = {"noise": self.noise, "walk": self.walk}
        write(path, "tasks", disturbance, {"X": X, "y": y, "rows": rows})

    def __len__(self) -> int:
        return self.n_tasks

    def __iter__(self) -> Iterator[Task]:
        return iter(self._tasks)

    def __getitem__(self, index: int | slice) -> Any:
        found = self._tasks[index]
        return self.like(found) if isinstance(found, tuple) else found

    def __repr__(self) -> str:
        shape = f"n_tasks={self.n_tasks}, n_features={self.n_features}"
        targets = f", n_targets={self.n_targets}" if self.target_shape else ""
        rows = _range([len(X) for X, _ in self])
        about = f"{shape}{targets}, rows={rows}, ranks={_range(self.ranks)}"
        # What disturbs the labels, if anything does.
        noise = f", noise={self.noise:g}" if self.noise else ""
        walk = f", walk={self.walk:g}" if self.walk else ""
        return f"TaskCollection({about}, radius={self.radius:.4g}{noise}{walk})"


def _range(counts: Any) -> str:
    ends = sorted({min(counts), max(counts)})
    return "..".join(map(str, ends))


def from_document(document: Document) -> TaskCollection:
    """Return the tasks in a document; ValueError if it holds none, or if arrays disagree."""
    fields = Fields(document.arrays)
    X = fields.array("X", "f", (None, None))
    y = fields.array("y", "f")
    rows = fields.array("rows", "i", (None,), low=0, high=len(X))
    # An array that is not of a collection means that the file is of another kind.
    fields.end()
    # Each task ends where the next one begins.
    ends = np.cumsum(rows, dtype=np.int64)
    if not np.sum(rows) == len(X) == len(y):
        raise ValueError(f"its tasks have {np.sum(rows)} rows, X has {len(X)} and y has {len(y)}")
    pairs = [(X[end - n : end], y[end - n : end]) for n, end in zip(rows, ends, strict=True)]
    header = document.header
    return TaskCollection(pairs, noise=float(header["noise"]), walk=float(header["walk"]))
