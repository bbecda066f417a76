"""Teachers of an ensemble: the solutions of its tasks, through their mean squared distances.

A teacher v_t gives the labels of task t, y = X v_t + noise. Expectations over rotation-invariant
rows depend on the teachers through E‖v_s − v_t‖² alone, with the start w₀ as one more point. All
but ``given`` are random and isotropic, with start 0: their coordinates are Gaussian, and ``norm``
is the root of their mean squared norm.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forgetless._core import validate
from forgetless._core.arrays import Floats

__all__ = ["Teachers", "change", "exchangeable", "given", "one", "recurring", "walk"]


class Teachers(ABC):
    """Base of all teachers."""

    @abstractmethod
    def order(self, k: int) -> NDArray[np.int64]:
        """Return the number of the teacher of each of k tasks, from 1 to P; 0 is the start."""

    @abstractmethod
    def distances(self, k: int) -> Floats:
        """Return the mean squared distances of the start and the P teachers of k tasks, of shape (P
        + 1, P + 1).
        """

    @abstractmethod
    def sample(self, k: int, n_features: int, n_trials: int, rng: np.random.Generator) -> Floats:
        """Return points of shape (n_trials, P + 1, d): the start, then independent draws of the
        teachers.
        """

    def _zeros(self, k: int) -> Floats:
        """Return an array for distances."""
        n_points = int(self.order(k).max()) + 1
        validate.check_memory(
            2.0 * n_points**2, f"distances of {n_points:,} teachers", "use fewer steps"
        )
        return np.zeros((n_points, n_points))

    def check(self, n_features: int) -> None:  # noqa: B027
        """Raise ValueError where the teachers do not have so many features."""


@dataclass(frozen=True)
class Exchangeable(Teachers):
    """Teachers of equal norm and pairwise similarity, one for each part of the tasks."""

    norm: float = 1.0
    similarity: float = 0.0
    n_teachers: int | None = None  # used in turn; None for a new one in every task
    # tasks with the first teacher, after which there is a second one
    change_after: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "norm", validate.number("norm", self.norm, "use 1"))
        similarity = validate.number("similarity", self.similarity, "use 0 for unrelated teachers")
        if similarity > 1:
            raise ValueError(
                f"similarity must lie in [0, 1], got {similarity!r}; 1 is one teacher for all tasks"
            )
        object.__setattr__(self, "similarity", similarity)

    def order(self, k: int) -> NDArray[np.int64]:
        tasks = np.arange(k)
        if self.change_after is not None:
            return 1 + (tasks >= self.change_after)
        return 1 + (tasks if self.n_teachers is None else tasks % self.n_teachers)

    def distances(self, k: int) -> Floats:
        distances = self._zeros(k) + 2.0 * (1.0 - self.similarity) * self.norm**2
        distances[0] = distances[:, 0] = self.norm**2
        np.fill_diagonal(distances, 0.0)
        return distances

    def sample(self, k: int, n_features: int, n_trials: int, rng: np.random.Generator) -> Floats:
        points = np.zeros((n_trials, int(self.order(k).max()) + 1, n_features))
        common = np.sqrt(self.similarity) * rng.standard_normal((n_trials, 1, n_features))
        own = np.sqrt(1.0 - self.similarity) * rng.standard_normal(
            (n_trials, points.shape[1] - 1, n_features)
        )
        points[:, 1:] = self.norm / np.sqrt(n_features) * (common + own)
        return points


@dataclass(frozen=True)
class Walk(Teachers):
    """A random walk: E‖v_{t+1} − v_t‖² = step²."""

    norm: float = 1.0
    step: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "norm", validate.number("norm", self.norm, "use 1"))
        object.__setattr__(
            self, "step", validate.number("step", self.step, "use 0 for a teacher that stays")
        )

    def order(self, k: int) -> NDArray[np.int64]:
        return np.arange(1, k + 1)

    def distances(self, k: int) -> Floats:
        distances, steps = self._zeros(k), np.arange(k)
        distances[1:, 1:] = self.step**2 * np.abs(steps[:, None] - steps)
        distances[0, 1:] = distances[1:, 0] = self.norm**2 + self.step**2 * steps
        return distances

    def sample(self, k: int, n_features: int, n_trials: int, rng: np.random.Generator) -> Floats:
        steps = np.concatenate([[0.0, self.norm], np.full(k - 1, self.step)])[:, None] / np.sqrt(
            n_features
        )
        return np.cumsum(steps * rng.standard_normal((n_trials, k + 1, n_features)), axis=1)


@dataclass(frozen=True, eq=False)
class Given(Teachers):
    """Given vectors, in turn, and a given start."""

    vectors: Floats
    start: Floats

    def order(self, k: int) -> NDArray[np.int64]:
        return 1 + np.arange(k) % len(self.vectors)

    def _points(self, k: int) -> Floats:
        return np.vstack([self.start, self.vectors[: int(self.order(k).max())]])

    def distances(self, k: int) -> Floats:
        points = self._points(k)
        # Differences first: squares minus products would lose the digits of close teachers.
        return np.stack([np.sum((points - point) ** 2, axis=1) for point in points])

    def check(self, n_features: int) -> None:
        if self.vectors.shape[1] != n_features:
            raise ValueError(
                f"teachers have {self.vectors.shape[1]} features, but the ensemble has"
                f" {n_features}; give vectors of shape (n_teachers, {n_features})"
            )

    def sample(self, k: int, n_features: int, n_trials: int, rng: np.random.Generator) -> Floats:
        return np.broadcast_to(self._points(k), (n_trials, *self._points(k).shape))


def one(norm: float = 1.0) -> Teachers:
    """Return one teacher for all tasks, E‖v‖² = norm².

    Examples
    --------
    >>> import forgetless as fl
    >>> fl.ensembles.teachers.one(2.0).distances(k=5).tolist()
    [[0.0, 4.0], [4.0, 0.0]]
    """
    return Exchangeable(norm, n_teachers=1)


def exchangeable(norm: float = 1.0, similarity: float = 0.0) -> Teachers:
    """Return a new teacher for every task, E⟨v_s, v_t⟩ = similarity · norm² for s ≠ t; similarity
    in [0, 1].
    """
    return Exchangeable(norm, similarity)


def recurring(n_teachers: int, norm: float = 1.0, similarity: float = 0.0) -> Teachers:
    """Return exchangeable teachers that come in turn: task t has number t mod ``n_teachers``."""
    return Exchangeable(
        norm,
        similarity,
        validate.integer("n_teachers", n_teachers, 1, "use one() for a single one"),
    )


def change(after: int, norm: float = 1.0, similarity: float = 0.0) -> Teachers:
    """Return one teacher for the first ``after`` tasks and another one, exchangeable with it, for
    the others.
    """
    after = validate.integer("after", after, 1, "use one() for a teacher that stays")
    return Exchangeable(norm, similarity, change_after=after)


def walk(norm: float = 1.0, step: float = 0.0) -> Teachers:
    """Return a teacher that moves before every task but the first: E‖v_1‖² = norm², E‖v_{t+1} −
    v_t‖² = step².

    Examples
    --------
    >>> import forgetless as fl
    >>> fl.ensembles.teachers.walk(step=0.5).distances(k=3)[0].tolist()
    [0.0, 1.0, 1.25, 1.5]
    """
    return Walk(norm, step)


def given(vectors: Any, start: Any = None) -> Teachers:
    """Return given teachers: ``vectors`` of shape (n_teachers, d), in turn where there are more
    tasks.

    ``start`` are the weights before the first task, of shape (d,); the origin if omitted.
    """
    checked = _finite("vectors", vectors)
    if checked.ndim != 2 or checked.size == 0:
        raise ValueError(f"vectors must have shape (n_teachers, n_features), got {checked.shape}")
    first = np.zeros(checked.shape[1]) if start is None else _finite("start", start)
    if first.shape != checked.shape[1:]:
        raise ValueError(
            f"start must have shape {checked.shape[1:]}, as a row of vectors, got {first.shape}"
        )
    return Given(checked, first)


def _finite(name: str, values: Any) -> Floats:
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(
            f"{name} must be an array of numbers, got {type(values).__name__}"
        ) from None
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite, got NaN or infinity")
    return array
