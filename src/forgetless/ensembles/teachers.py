"""Teachers of an ensemble: the solutions of its tasks, through their mean squared distances.

A teacher v_t gives the labels of task t, y = X v_t + noise. Expectations over rotation-invariant
rows depend on the teachers through E‖v_s − v_t‖² alone, with the start w₀ as one more point. All
but ``given`` are random and isotropic, with start 0: their coordinates are Gaussian, and ``norm``
is the root of their mean squared norm.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forgetless import _validate as validate
from forgetless._validate import Floats

__all__ = ["Teachers", "change", "exchangeable", "given", "one", "recurring", "walk"]


Normal = Callable[..., Floats]
"""A function of a shape that draws standard normal numbers (n_trials, *shape)."""


class Teachers(ABC):
    """Base of all teachers."""

    @abstractmethod
    def order(self, k: int) -> NDArray[np.int64]:
        """Return the number of the teacher of each of k tasks, from 1 to P; 0 is the start."""

    def distances(self, k: int) -> Floats:
        """Return E‖v_i − v_j‖² (P + 1, P + 1) of the start and the P teachers of k tasks."""
        n_points = int(self.order(k).max()) + 1
        what = f"distances of {n_points:,} teachers"
        validate.check_memory(2.0 * n_points**2, what, "use fewer steps")
        return self._distances(k)

    @abstractmethod
    def _distances(self, k: int) -> Floats:
        """Return the same, for so many teachers that they fit into memory."""

    @abstractmethod
    def sample(self, k: int, d: int, normal: Normal) -> Floats:
        """Return draws (n_trials, P + 1, d) of the start and the teachers of k tasks."""

    def check(self, n_features: int) -> None:  # noqa: B027
        """Raise ValueError where the teachers do not have so many features."""


@dataclass(frozen=True)
class Exchangeable(Teachers):
    """Teachers of equal norm and similarity, in turn; with ``change_after`` the second one follows
    the first after so many tasks.
    """

    norm: float = 1.0
    similarity: float = 0.0
    n_teachers: int | None = None
    change_after: int | None = None

    def order(self, k: int) -> NDArray[np.int64]:
        tasks = np.arange(k)
        if self.change_after is not None:
            return 1 + (tasks >= self.change_after)
        return 1 + (tasks if self.n_teachers is None else tasks % self.n_teachers)

    def _distances(self, k: int) -> Floats:
        between = 2.0 * (1.0 - self.similarity) * self.norm**2
        distances = np.full((self.order(k).max() + 1,) * 2, between)
        distances[0] = distances[:, 0] = self.norm**2
        np.fill_diagonal(distances, 0.0)
        return distances

    def sample(self, k: int, d: int, normal: Normal) -> Floats:
        common = np.sqrt(self.similarity) * normal(1, d)
        own = np.sqrt(1.0 - self.similarity) * normal(self.order(k).max(), d)
        points = self.norm / np.sqrt(d) * (common + own)
        return np.concatenate([np.zeros_like(common), points], axis=1)


@dataclass(frozen=True)
class Walk(Teachers):
    """A random walk: E‖v_{t+1} − v_t‖² = step²."""

    norm: float = 1.0
    step: float = 0.0

    def order(self, k: int) -> NDArray[np.int64]:
        return np.arange(1, k + 1)

    def _distances(self, k: int) -> Floats:
        steps = np.arange(k)
        distances = np.zeros((k + 1, k + 1))
        distances[1:, 1:] = self.step**2 * np.abs(steps[:, None] - steps)
        distances[0, 1:] = distances[1:, 0] = self.norm**2 + self.step**2 * steps
        return distances

    def sample(self, k: int, d: int, normal: Normal) -> Floats:
        sizes = np.array([0.0, self.norm, *[self.step] * (k - 1)])
        return np.cumsum(sizes[:, None] / np.sqrt(d) * normal(k + 1, d), axis=1)


@dataclass(frozen=True, eq=False)
class Given(Teachers):
    """Given vectors, in turn, and a given start."""

    vectors: Floats
    start: Floats

    def order(self, k: int) -> NDArray[np.int64]:
        return 1 + np.arange(k) % len(self.vectors)

    def _points(self, k: int) -> Floats:
        return np.vstack([self.start, self.vectors[: self.order(k).max()]])

    def sample(self, k: int, d: int, normal: Normal) -> Floats:
        points = self._points(k)
        return np.broadcast_to(points, (len(normal(0)), *points.shape))

    def _distances(self, k: int) -> Floats:
        points = self._points(k)
        # Differences first: squares minus products would lose the digits of close teachers.
        return np.stack([np.sum((points - point) ** 2, axis=1) for point in points])

    def check(self, n_features: int) -> None:
        if self.vectors.shape[1] != n_features:
            raise ValueError(
                f"teachers have {self.vectors.shape[1]} features, but the ensemble has"
                f" {n_features}; give vectors of shape (n_teachers, {n_features})"
            )


def one(norm: float = 1.0) -> Teachers:
    """Return one teacher for all tasks, E‖v‖² = norm².

    Examples
    --------
    >>> import forgetless as fl
    >>> fl.ensembles.teachers.one(2.0).distances(k=5).tolist()
    [[0.0, 4.0], [4.0, 0.0]]
    """
    return _exchangeable(norm, 0.0, 1)


def exchangeable(norm: float = 1.0, similarity: float = 0.0) -> Teachers:
    """Return a new teacher for every task, E⟨v_s, v_t⟩ = similarity · norm² for s ≠ t; similarity
    in [0, 1].
    """
    return _exchangeable(norm, similarity)


def recurring(n_teachers: int, norm: float = 1.0, similarity: float = 0.0) -> Teachers:
    """Return exchangeable teachers that come in turn: task t has number t mod ``n_teachers``."""
    number = validate.integer("n_teachers", n_teachers, 1, "use one() for a single one")
    return _exchangeable(norm, similarity, number)


def change(after: int, norm: float = 1.0, similarity: float = 0.0) -> Teachers:
    """Return one teacher for the first ``after`` tasks and another one, exchangeable with it, for
    the others.
    """
    after = validate.integer("after", after, 1, "use one() for a teacher that stays")
    return _exchangeable(norm, similarity, None, after)


def walk(norm: float = 1.0, step: float = 0.0) -> Teachers:
    """Return a teacher that moves before every task but the first: E‖v_1‖² = norm², E‖v_{t+1} −
    v_t‖² = step².

    Examples
    --------
    >>> import forgetless as fl
    >>> fl.ensembles.teachers.walk(step=0.5).distances(k=3)[0].tolist()
    [0.0, 1.0, 1.25, 1.5]
    """
    step = validate.number("step", step, "use 0 for a teacher that stays")
    return Walk(validate.number("norm", norm, "use 1"), step)


def given(vectors: Any, start: Any = None) -> Teachers:
    """Return given teachers: ``vectors`` of shape (n_teachers, d), in turn where there are more
    tasks.

    ``start`` are the weights before the first task, of shape (d,); the origin if omitted.
    """
    checked = matrix("vectors", vectors)
    first = np.zeros((1, checked.shape[1])) if start is None else matrix("start", [start])
    if first.shape[1] != checked.shape[1]:
        raise ValueError(
            f"start must have {checked.shape[1]} features, as the vectors, got {first.shape[1]}"
        )
    return Given(checked, first[0])


def matrix(name: str, values: Any) -> Floats:
    """Return a finite matrix with at least one row."""
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(
            f"{name} must be an array of numbers, got {type(values).__name__}"
        ) from None
    if array.ndim != 2 or array.size == 0 or not np.isfinite(array).all():
        raise ValueError(
            f"{name} must be a finite matrix with at least one row, got shape {array.shape}"
        )
    return array


def _exchangeable(
    norm: float, similarity: float, n_teachers: int | None = None, change_after: int | None = None
) -> Exchangeable:
    norm = validate.number("norm", norm, "use 1")
    similarity = validate.number("similarity", similarity, "use 0 for unrelated teachers")
    if similarity > 1:
        raise ValueError(
            f"similarity must lie in [0, 1], got {similarity!r}; 1 is one teacher for all tasks"
        )
    return Exchangeable(norm, similarity, n_teachers, change_after)
