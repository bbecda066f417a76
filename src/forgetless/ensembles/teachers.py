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

__all__ = ["Teachers", "exchangeable", "given", "one", "walk"]


Normal = Callable[..., Floats]
"""A function of a shape that draws standard normal numbers (n_trials, *shape)."""


class Teachers(ABC):
    """Base of all teachers."""

    def order(self, k: int) -> NDArray[np.int64]:
        """Return the number of the teacher of each of k tasks, from 1 to P; 0 is the start."""
        return np.arange(1, k + 1)

    @abstractmethod
    def distances(self, k: int) -> Floats:
        """Return E‖v_i − v_j‖² (P + 1, P + 1) of the start and the P teachers of k tasks."""

    @abstractmethod
    def sample(
        self,
        k: int,
        d: int,
        normal: Normal,
    ) -> Floats:
        """Return draws (n_trials, P + 1, d) of the start and the teachers of k tasks."""

    def check(self, n_features: int) -> None:  # noqa: B027
        """Raise ValueError unless these are teachers of so many features."""


@dataclass(frozen=True)
class Exchangeable(Teachers):
    """Teachers of equal norm and similarity: E⟨v_i, v_j⟩ = similarity · norm² for i ≠ j.

    v_i = norm (√similarity u + √(1 − similarity) u_i) with independent isotropic u and u_i, of
    which u is common to all. ``turns`` are their numbers in the order of the tasks, from 1 and
    again and again; without them every task has a new one.
    """

    norm: float
    similarity: float
    turns: tuple[int, ...]

    def order(self, k: int) -> NDArray[np.int64]:
        return np.resize(self.turns or super().order(k), k)

    def distances(self, k: int) -> Floats:
        n_points = self.order(k).max() + 1
        # ‖v_i − v_j‖² = ‖v_i‖² + ‖v_j‖² − 2⟨v_i, v_j⟩
        between = 2.0 * (1.0 - self.similarity) * self.norm**2
        return _from_start(between * (1.0 - np.eye(n_points)), self.norm**2)

    def sample(
        self,
        k: int,
        d: int,
        normal: Normal,
    ) -> Floats:
        # Every coordinate has the variance 1/d, so that an isotropic vector has E‖u‖² = 1.
        common = np.sqrt(self.similarity) * normal(1, d)
        own = np.sqrt(1.0 - self.similarity) * normal(self.order(k).max(), d)
        points = self.norm / np.sqrt(d) * (common + own)
        return np.concatenate([np.zeros_like(common), points], axis=1)


@dataclass(frozen=True)
class Walk(Teachers):
    """A random walk: E‖v_1‖² = norm², E‖v_{t+1} − v_t‖² = step²."""

    norm: float
    step: float

    def distances(self, k: int) -> Floats:
        # Independent steps: squares of their lengths add up.
        numbers = np.arange(k + 1.0)
        distances = self.step**2 * np.abs(np.subtract.outer(numbers, numbers))
        return _from_start(distances, self.norm**2 + self.step**2 * numbers[:-1])

    def sample(
        self,
        k: int,
        d: int,
        normal: Normal,
    ) -> Floats:
        # The start, the first teacher, and k − 1 steps.
        sizes = np.array([0.0, self.norm, *[self.step] * (k - 1)])
        return np.cumsum(sizes[:, None] / np.sqrt(d) * normal(k + 1, d), axis=1)


@dataclass(frozen=True, eq=False)
class Given(Teachers):
    """Given points: a start, and vectors in turn."""

    points: Floats

    def order(self, k: int) -> NDArray[np.int64]:
        return 1 + np.arange(k) % (len(self.points) - 1)

    def check(self, n_features: int) -> None:
        given = self.points.shape[1]
        if given != n_features:
            raise ValueError(
                f"teachers have {given} features, but the ensemble has {n_features}; give vectors"
                f" of shape (n_teachers, {n_features})"
            )

    def distances(self, k: int) -> Floats:
        # Differences first: squares minus products would lose the digits of close teachers.
        return np.stack([np.sum((self.points - each) ** 2, axis=1) for each in self.points])

    def sample(
        self,
        k: int,
        d: int,
        normal: Normal,
    ) -> Floats:
        return np.repeat(self.points[None], len(normal(0)), axis=0)


def _from_start(distances: Floats, squares: Any) -> Floats:
    """Return distances with those of the start, which is the first point, replaced."""
    distances[0, 1:] = squares
    distances[1:, 0] = squares
    return distances


def one(norm: float = 1.0) -> Teachers:
    """Return one teacher for all tasks, E‖v‖² = norm².

    Examples
    --------
    >>> import forgetless as fl
    >>> fl.ensembles.teachers.one(2.0).distances(k=5).tolist()
    [[0.0, 4.0], [4.0, 0.0]]
    """
    return exchangeable(norm, turns=1)


def exchangeable(norm: float = 1.0, similarity: float = 0.0, turns: Any = ()) -> Teachers:
    """Return teachers with E⟨v_i, v_j⟩ = similarity · norm² for i ≠ j; similarity in [0, 1].

    Every task has a new one, unless ``turns`` gives their numbers in the order of the tasks: for
    three that recur ``[1, 2, 3]``, for a change after eight tasks ``8 * [1] + 92 * [2]``.

    Examples
    --------
    >>> import forgetless as fl
    >>> fl.ensembles.teachers.exchangeable(turns=[1, 2]).order(5).tolist()
    [1, 2, 1, 2, 1]
    """
    norm = validate.number("norm", norm, "use 1")
    similarity = validate.number("similarity", similarity, "use 0 for unrelated teachers")
    if similarity > 1:
        raise ValueError(
            f"similarity must lie in [0, 1], got {similarity!r}; 1 is one teacher for all tasks"
        )
    if np.size(turns):
        checked = validate.integers_per_step("turns", turns, "teachers are counted from 1")
        turns = tuple(np.ravel(checked).tolist())
    return Exchangeable(norm, similarity, turns)


def walk(norm: float = 1.0, step: float = 0.0) -> Teachers:
    """Return a teacher that moves before every task but the first: E‖v_1‖² = norm², E‖v_{t+1} −
    v_t‖² = step².

    Examples
    --------
    >>> import forgetless as fl
    >>> fl.ensembles.teachers.walk(step=0.5).distances(k=3)[0].tolist()
    [0.0, 1.0, 1.25, 1.5]
    """
    norm = validate.number("norm", norm, "use 1")
    return Walk(norm, validate.number("step", step, "use 0 for a teacher that stays"))


def given(vectors: Any, start: Any = None) -> Teachers:
    """Return given teachers: ``vectors`` of shape (n_teachers, d), in turn where there are more
    tasks.

    ``start`` are the weights before the first task, of shape (d,); the origin if omitted.
    """
    checked = matrix("vectors", vectors)
    if start is None:
        start = np.zeros_like(checked[0])
    first = validate.as_float("start", start)
    if first.shape != checked[0].shape:
        raise ValueError(
            f"start must have {len(checked[0])} features, as the vectors, got shape {first.shape}"
        )
    return Given(np.vstack([first, checked]))


def matrix(name: str, values: Any) -> Floats:
    """Return a finite matrix with at least one row."""
    array = validate.as_float(name, values)
    if array.ndim != 2 or array.size == 0:
        raise ValueError(f"{name} must be a matrix with at least one row, got shape {array.shape}")
    return array
