"""Collections of tasks, quantities of all their singular vectors together, and their documents."""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from forgetless._core import linalg, validate
from forgetless._core.arrays import Array, Floats, as_float, group_labels
from forgetless.io import Document, Fields, write
from forgetless.tasks.task import Task, make_task


class TaskCollection:
    """The M regression tasks of a continual learner.

    Parameters
    ----------
    tasks : iterable of (X, y)
        X of shape (n, d) with the same d in every task; y of shape (n,), or (n, c) for c targets.
        Tasks may differ in n, be rank-deficient, have no rows or only zeros. Everything is computed
        in float64, as NumPy arrays. Float64 arrays are not copied: do not change them
        afterwards.

    Examples
    --------
    >>> import numpy as np
    >>> import forgetless as fl
    >>> tasks = fl.TaskCollection([([[1.0, 0.0]], [1.0]), ([[0.0, 2.0]], [4.0])])
    >>> tasks
    TaskCollection(n_tasks=2, n_features=2, rows=1, ranks=1, radius=2)
    >>> tasks.teacher().tolist(), tasks.is_realizable()
    ([1.0, 2.0], True)
    """

    def __init__(self, tasks: Iterable[Any]) -> None:
        checked = []
        for m, pair in enumerate(tasks):
            if isinstance(pair, Task):
                checked.append(pair)
                continue
            try:
                X, y = pair
            except (TypeError, ValueError):
                raise TypeError(
                    f"tasks must hold pairs (X, y), got {type(pair).__name__} at position {m}"
                ) from None
            checked.append(make_task(X, y, f"task {m}"))
        _check_alike(checked)
        self._tasks = tuple(checked)

    @classmethod
    def from_arrays(cls, X: Any, y: Any, groups: Any) -> "TaskCollection":
        """Split one data set into tasks by a column of group labels.

        Parameters
        ----------
        X : array of shape (n, d)
        y : array of shape (n,) or (n, c)
        groups : array of shape (n,)
            The task each row belongs to: any sortable labels, none missing. Tasks are in sorted
            order of their labels.

        Examples
        --------
        >>> import forgetless as fl
        >>> fl.TaskCollection.from_arrays([[1.0], [2.0], [3.0]], [1.0, 2.0, 3.0], ["b", "a", "b"])
        TaskCollection(n_tasks=2, n_features=1, rows=1..2, ranks=1, radius=3.162)
        """
        X, y = as_float("X", X), as_float("y", y)
        labels = group_labels(groups)
        if (
            labels.ndim != 1
            or X.ndim != 2
            or y.ndim not in (1, 2)
            or not len(labels) == X.shape[0] == y.shape[0]
        ):
            raise ValueError(
                f"groups must have one label per row of X and y, got shapes {labels.shape},"
                f" {X.shape} and {y.shape}"
            )
        names, codes = np.unique(labels, return_inverse=True)
        pairs = []
        for code in range(len(names)):
            rows = np.flatnonzero(codes == code)
            pairs.append((X[rows], y[rows]))
        return cls(pairs)

    @classmethod
    def from_table(
        cls, frame: Any, task: str, target: str | Sequence[str], *, encoder: Any = None
    ) -> "TaskCollection":
        """Split a table into tasks by one of its columns.

        Parameters
        ----------
        frame : table
            Of pandas, polars or pyarrow, or a dict of lists.
        task : str
            The column with the task of each row. Tasks are in sorted order of its values.
        target : str or sequence of str
            The column, or columns, of y.
        encoder : transformer, optional
            A transformer of all other columns to numbers, e.g. ``fl.tables.TableEncoder()``, fitted
            on all rows. If omitted they must be numbers.

        Examples
        --------
        >>> import forgetless as fl
        >>> table = {"month": [1, 1, 2], "size": [1.0, 2.0, 3.0], "sales": [2.0, 4.0, 6.0]}
        >>> fl.TaskCollection.from_table(table, "month", "sales")
        TaskCollection(n_tasks=2, n_features=1, rows=1..2, ranks=1, radius=3)
        """
        from forgetless.tasks.task import arrays_of

        return cls.from_arrays(*arrays_of(frame, task, target, encoder))

    @property
    def n_tasks(self) -> int:
        """M, the number of tasks."""
        return len(self._tasks)

    @property
    def n_features(self) -> int:
        """d, the number of features."""
        return int(self._tasks[0].X.shape[1])

    @property
    def target_shape(self) -> tuple[int, ...]:
        """() for y of shape (n,), (c,) for y of shape (n, c); weights have shape (d,) +
        target_shape.
        """
        return tuple(self._tasks[0].y.shape[1:])

    @property
    def n_targets(self) -> int:
        """c, the number of targets."""
        return self.target_shape[0] if self.target_shape else 1

    @cached_property
    def ranks(self) -> list[int]:
        """Numerical rank of each task."""
        return [task.rank for task in self._tasks]

    @cached_property
    def radius(self) -> float:
        """R = max ‖X_m‖₂ over all tasks."""
        return max(task.radius for task in self._tasks)

    @cached_property
    def singular_vectors(self) -> Array:
        """The right singular vectors of all tasks, one below the other, of shape (Σr, d)."""
        return np.concatenate([task.singular_vectors for task in self._tasks], axis=0)

    @cached_property
    def span_vectors(self) -> Array:
        """The singular vectors in coordinates of the joint span, of shape (Σr, q)."""
        return self.singular_vectors if self.span is None else self.singular_vectors @ self.span

    @cached_property
    def targets(self) -> Array:
        """The targets along all singular vectors, of shape (Σr, c), with c = 1 for y of shape
        (n,).
        """
        stacked = np.concatenate([task.targets for task in self._tasks], axis=0)
        return np.reshape(stacked, (stacked.shape[0], self.n_targets))

    @cached_property
    def singular_values(self) -> Floats:
        """The singular values of all tasks, of shape (Σr,)."""
        return np.concatenate([task.singular_values for task in self._tasks])

    @cached_property
    def radii(self) -> Floats:
        """The radius of the task of every singular vector, of shape (Σr,)."""
        return np.repeat([task.radius for task in self._tasks], self.ranks)

    @cached_property
    def target_norms(self) -> Floats:
        """The norms of the rows of ``targets``, of shape (Σr,)."""
        return np.asarray(np.linalg.norm(self.targets, axis=1))

    @cached_property
    def label_norms(self) -> Floats:
        """‖y‖ of the task of every singular vector, of shape (Σr,)."""
        return np.repeat([np.linalg.norm(task.y) for task in self._tasks], self.ranks)

    @cached_property
    def floors(self) -> Floats:
        """The irreducible loss of each task, of shape (M,)."""
        return np.array([task.floor for task in self._tasks])

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """The position of each task's first singular vector among all, and their number, of shape
        (M + 1,).
        """
        return np.concatenate([[0], np.cumsum(self.ranks)]).astype(np.int64)

    @cached_property
    def gram(self) -> Array:
        """Inner products of all singular vectors, of shape (Σr, Σr)."""
        return self.singular_vectors @ self.singular_vectors.T

    @cached_property
    def span(self) -> Array | None:
        """An orthonormal basis (d × q) of the joint span of all rows, or None if it is the whole
        space.

        All iterates lie in w₀ + span, so the engines work in q ≤ min(d, Σr) coordinates.
        """
        return linalg.span(self.singular_vectors, self.ranks)

    @property
    def span_dimension(self) -> int:
        """q, the dimension of the joint span."""
        return self.n_features if self.span is None else int(self.span.shape[1])

    def mean_factor(self, coefficient: float) -> float:
        """Return the mean over tasks of tr[XᵀX(XᵀX + λ)⁻¹]/``span_dimension``, the filter factor of
        a ridge step.
        """
        factors = 1.0 / (1.0 + coefficient / self.singular_values**2)
        return float(np.sum(factors)) / (self.n_tasks * max(1, self.span_dimension))

    def teacher(self, start: Any = None) -> Array:
        """Return the joint least-squares solution nearest to ``start``, of shape (d,) or (d, c).

        It is w⋆ = w₀ + A⁺(b − A w₀), A and b being all X_m and y_m one below the other; w₀ is the
        origin if omitted.
        """
        w0 = self.start(start)
        # Most calls start from the origin, and engines ask for the same solution at every call.
        return self._nearest(w0) if np.any(w0 != 0) else self._least_norm.copy()

    @cached_property
    def _least_norm(self) -> Array:
        return self._nearest(self.start())

    def _nearest(self, w0: Array) -> Array:
        basis = self.span
        columns = np.reshape(w0, (self.n_features, self.n_targets))
        missing = self.targets - self.singular_vectors @ columns
        z = linalg.joint_solution(self.span_vectors, missing, self.singular_values, self.radii)
        return np.reshape(columns + (z if basis is None else basis @ z), w0.shape)

    @cached_property
    def residual(self) -> float:
        """The distance of the tasks from joint realizability: 0 if one model fits all, up to
        rounding; at most 1.

        The largest over tasks and targets of ρ / (‖X‖‖w⋆‖ + ρ) with ρ = ‖X w⋆ − y‖ and w⋆ =
        ``teacher()``, each target with its own w⋆; it does not change when a task or a target is
        rescaled.
        """
        return self._residual(None)

    def is_realizable(self, tol: float = 1e-9, start: Any = None) -> bool:
        """Return whether one w fits every task, as seen from ``start``.

        Parameters
        ----------
        tol : float, default 1e-9
        start : array of shape (d,) or (d, c), optional
            w₀; the origin if omitted. ``residual``, with ‖w⋆ − w₀‖ in place of ‖w⋆‖, must be at
            most ``tol``.
        """
        tol = validate.number("tol", tol, "the default is 1e-9")
        return (self.residual if start is None else self._residual(start)) <= tol

    def _residual(self, start: Any) -> float:
        w, shape = self.teacher(start), (self.n_features, self.n_targets)
        w, w0 = w.reshape(shape), self.start(start).reshape(shape)
        distances, worst = linalg.norms(w - w0), 0.0
        for task in self._tasks:
            if task.X.shape[0]:
                rho = linalg.norms(task.X @ w - task.y.reshape(-1, self.n_targets))
                scales = task.radius * distances + rho
                worst = max(
                    worst,
                    float(np.max(np.divide(rho, scales, out=np.zeros_like(rho), where=rho > 0))),
                )
        return worst

    def missing(self, w: Array) -> Floats:
        """Return V X⁺y − V w over all singular vectors, of shape (Σr, c)."""
        columns = w.reshape(self.n_features, self.n_targets)
        return np.asarray(self.targets - self.singular_vectors @ columns)

    def start(self, start: Any = None) -> Array:
        """Return ``start`` as validated float64 weights of shape (d,) + target_shape; zeros for
        None.
        """
        shape = (self.n_features, *self.target_shape)
        if start is None:
            return np.zeros(shape)
        w = as_float("start", start)
        if w.shape != shape:
            raise ValueError(
                f"start must have shape {shape}, like the weights of these tasks, got {w.shape}"
            )
        return w

    def save(self, path: str | Path) -> None:
        """Write all rows to a file; ``fl.load`` reads it, and so do commands if its suffix is
        ``.safetensors``.
        """
        arrays = {
            "X": np.concatenate([X for X, _ in self._tasks]),
            "y": np.concatenate([y for _, y in self._tasks]),
            "rows": np.array([len(X) for X, _ in self._tasks], dtype=np.int64),
        }
        write(path, "tasks", {}, arrays)

    def __len__(self) -> int:
        return self.n_tasks

    def __iter__(self) -> Iterator[Task]:
        return iter(self._tasks)

    @overload
    def __getitem__(self, index: int) -> Task: ...
    @overload
    def __getitem__(self, index: slice) -> "TaskCollection": ...
    def __getitem__(self, index: int | slice) -> "Task | TaskCollection":
        if isinstance(index, slice):
            return TaskCollection(self._tasks[index])
        return self._tasks[index]

    def __repr__(self) -> str:
        targets = f", n_targets={self.target_shape[0]}" if self.target_shape else ""
        return (
            f"TaskCollection(n_tasks={self.n_tasks}, n_features={self.n_features}{targets},"
            f" rows={_range([task.X.shape[0] for task in self._tasks])},"
            f" ranks={_range(self.ranks)}, radius={self.radius:.4g})"
        )


def _check_alike(tasks: Sequence[Task]) -> None:
    if not tasks:
        raise ValueError("tasks must hold at least one pair (X, y), got an empty collection")
    first = tasks[0]
    for m, task in enumerate(tasks[1:], start=1):
        if task.X.shape[1] != first.X.shape[1]:
            raise ValueError(
                f"X of task {m} has {task.X.shape[1]} columns but task 0 has {first.X.shape[1]}; "
                "all tasks must share the same features"
            )
        if task.y.shape[1:] != first.y.shape[1:]:
            raise ValueError(
                f"y of task {m} has shape {task.y.shape} but task 0 has"
                f" {first.y.shape}; all tasks must have the same number of targets"
            )


def from_document(document: Document) -> TaskCollection:
    """Return the tasks in a document; ValueError if it holds none."""
    X, y, rows = arrays_from(document)
    ends = np.cumsum(rows)[:-1]
    return TaskCollection(list(zip(np.split(X, ends), np.split(y, ends), strict=True)))


def _range(counts: Sequence[int]) -> str:
    low, high = min(counts), max(counts)
    return str(low) if low == high else f"{low}..{high}"


def arrays_from(document: Document) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.int64]]:
    """Return X of shape (n, d), y of shape (n,) or (n, c) and the rows of every task; ValueError if
    they disagree.
    """
    fields = Fields(document.arrays)
    X, y = fields.array("X", "f", (None, None)), fields.array("y", "f")
    rows = fields.array("rows", "i", (None,), low=0, high=len(X)).astype(np.int64)
    fields.end()
    if y.ndim not in (1, 2) or len(y) != len(X) or 0 in (len(rows), X.shape[1], *y.shape[1:]):
        raise ValueError(f"X of shape {X.shape} and y of shape {y.shape} are no tasks")
    if rows.sum() != len(X):
        raise ValueError(f"its tasks have {rows.sum()} rows, X has {len(X)}")
    return X.astype(np.float64, copy=False), y.astype(np.float64, copy=False), rows
