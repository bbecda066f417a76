"""A stream of tasks, each with rows to learn and rows that are never learned."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse

from forgetless._validate import Floats

HELD_OUT = 0.2
"""Share of a task's rows that are never learned, where the data do not say which."""


class Task(NamedTuple):
    """Rows to learn, and rows that are only predicted."""

    X: Any
    y: NDArray[Any]
    X_held: Any
    y_held: NDArray[Any]


@dataclass(frozen=True)
class Stream:
    """Tasks in the order in which they are to be learned, made when they are asked for.

    Attributes
    ----------
    name, source : str
        What it is, and the package that holds the data.
    kind : {"regression", "classes"}
    task : str
        What a task is: a week, a school, a class.
    timed : bool
        Whether the order is that of time; else it is drawn from the seed.
    n_tasks, n_features : int
    make : callable
        Number of a task, from 0 ↦ :class:`Task`.
    n_first : int
        Tasks that a method may look at before it is judged, to find out scales: at least 50 rows and 2d.
    """

    name: str
    source: str
    kind: str
    task: str
    timed: bool
    n_tasks: int
    n_features: int
    make: Callable[[int], Task]
    n_first: int = 1

    def __len__(self) -> int:
        return self.n_tasks

    def __getitem__(self, t: int) -> Task:
        if not -self.n_tasks <= t < self.n_tasks:
            raise IndexError(f"task {t} of a stream of {self.n_tasks}")
        return self.make(t % self.n_tasks)

    def __iter__(self) -> Iterator[Task]:
        return map(self.make, range(self.n_tasks))

    def mapped(self, change: Callable[[Task], Task], n_features: int | None = None) -> "Stream":
        """Return the stream whose tasks are changed when they are made."""
        return replace(self, make=lambda t: change(self.make(t)), n_features=n_features or self.n_features)

    def scaled(self, factors: ArrayLike) -> "Stream":
        """Return the stream with every column multiplied by a factor: other units."""
        factors = np.asarray(factors, dtype=float)

        def times(X: Any) -> Any:
            return X.multiply(factors).tocsr() if issparse(X) else X * factors

        return self.mapped(lambda task: Task(times(task.X), task.y, times(task.X_held), task.y_held))

    def standardized(self, limit: float = 5.0) -> "Stream":
        """Return the stream in units of its first tasks: a stream does not know its future.

        Dense columns are centred, divided by their standard deviation and cut at ``limit`` of it; sparse columns are
        left as they are. Targets of regression are centred and divided too, and not cut.
        """
        first = [self.make(t) for t in range(self.n_first)]
        center: Any = 0.0
        unit: Any = 1.0
        middle, spread = 0.0, 1.0
        if not issparse(first[0].X):
            rows = np.concatenate([task.X for task in first])
            center, unit = rows.mean(axis=0), rows.std(axis=0)
            unit = np.where(unit > 1e-9 * np.abs(rows).max(axis=0, initial=0.0), unit, 1.0)
        if self.kind == "regression":
            labels = np.concatenate([task.y for task in first])
            middle, spread = float(labels.mean()), float(labels.std()) or 1.0

        def features(X: Any) -> Any:
            return X if issparse(X) else np.clip((X - center) / unit, -limit, limit)

        def targets(y: NDArray[Any]) -> NDArray[Any]:
            return (y - middle) / spread if self.kind == "regression" else y

        return self.mapped(
            lambda task: Task(features(task.X), targets(task.y), features(task.X_held), targets(task.y_held))
        )


def grouped(  # noqa: PLR0913
    name: str,
    source: str,
    X: Any,
    y: NDArray[Any],
    groups: NDArray[Any],
    *,
    task: str,
    timed: bool,
    kind: str = "regression",
    min_rows: int = 2,
    seed: int = 0,
) -> Stream:
    """Return the stream of the rows of a table, a task for every group: in their order, or in one drawn from the seed.

    Rows with a missing number and groups of fewer than ``min_rows`` rows are left out; a fifth of every group is held
    out.
    """
    good = np.isfinite(y) if kind == "regression" else np.ones(len(y), dtype=bool)
    if not issparse(X):
        good &= np.isfinite(X).all(axis=1)
    _, codes, counts = np.unique(groups[good], return_inverse=True, return_counts=True)
    keep = np.flatnonzero(good)[counts[codes] >= min_rows]
    X, y = X[keep], y[keep]
    _, codes = np.unique(groups[keep], return_inverse=True)
    rows = np.split(np.argsort(codes, kind="stable"), np.cumsum(np.bincount(codes))[:-1])
    order = np.arange(len(rows)) if timed else np.random.default_rng([seed, 1]).permutation(len(rows))

    def make(t: int) -> Task:
        group = int(order[t])
        mixed = np.random.default_rng([seed, 0, group]).permutation(rows[group])
        n_held = max(1, round(HELD_OUT * len(mixed)))
        held, learned = mixed[:n_held], np.sort(mixed[n_held:])
        return Task(X[learned], y[learned], X[held], y[held])

    d = int(X.shape[1])
    return Stream(name, source, kind, task, timed, len(rows), d, make, _n_first([len(rows[g]) for g in order], d))


def _n_first(sizes: list[int], d: int) -> int:
    needed = max(50, 2 * d if d < 1000 else 50)
    enough = int(np.searchsorted(np.cumsum(sizes), needed)) + 1
    return max(1, min(enough, len(sizes) // 3))


@dataclass(frozen=True)
class RandomFeatures:
    """max(0, xW + b) for random W and b: features wide enough that memory matters, the same for every task.

    Parameters
    ----------
    n_inputs, n_features : int
    seed : int
    """

    n_inputs: int
    n_features: int
    seed: int = 0

    def __post_init__(self) -> None:
        rng = np.random.default_rng([self.seed, 2])
        weights = rng.standard_normal((self.n_inputs, self.n_features)) / np.sqrt(self.n_inputs)
        object.__setattr__(self, "_weights", weights)
        object.__setattr__(self, "_offsets", 0.1 * rng.standard_normal(self.n_features))

    def __call__(self, X: Any) -> Floats:
        """Return the features of rows."""
        return np.asarray(np.maximum(X @ self._weights + self._offsets, 0.0))  # type: ignore[attr-defined]
