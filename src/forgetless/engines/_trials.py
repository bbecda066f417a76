"""The inner loop of simulations without numba: many trials advance together, step by step.

``Coordinates`` are those in which the equation is applied to a whole collection.
"""

import itertools
import math
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from forgetless._core.arrays import Array, Floats
from forgetless._core.linalg import product
from forgetless.metrics import TaskSums, task_sums
from forgetless.orderings import Indices
from forgetless.tasks import TaskCollection


@dataclass(frozen=True, eq=False)
class Coordinates:
    """Coordinates of the weights with Q numbers per target, and the maps of all Σr singular vectors
    in them.

    The state determines the errors e = V w − V X⁺y. A step on task m takes a = e on the rows of m
    and subtracts (φ ∘ a) @ maps[rows].

    * *span*: the state is w − w₀ in an orthonormal basis of the joint span, Q = q; maps are the
      singular vectors there.
    * *gram*: the state is e itself, Q = Σr; maps is the Gram matrix V Vᵀ. One product less per
      step, for Σr ≪ d.
    """

    tasks: TaskCollection
    origin: Array  # w₀ (d, c)
    maps: Array  # (Σr, Q)
    missing: Array  # V X⁺y − V w₀ (Σr, c), minus the errors at the start
    gram: bool
    basis: Array | None  # (d, Q) of span coordinates; None if they are the features themselves

    def initial(self, n_trials: int) -> Array:
        """Return the state at the start, of shape (n_trials, c, Q)."""
        shape = (n_trials, self.missing.shape[1], self.maps.shape[1])
        if not self.gram:
            return np.zeros(shape)
        return np.array(np.broadcast_to(-self.missing.T, shape))

    def errors(self, state: Array) -> Array:
        """Return e of shape (..., c, Σr) from states of shape (..., c, Q)."""
        return state if self.gram else times(state, self.maps.T) - self.missing.T

    def weights(self, state: Array, updates: Array | None, base: Array | None = None) -> Array:
        """Return weights of shape (..., d, c) from states of shape (..., c, Q).

        In gram coordinates they follow from ``updates``, the sum of φ ∘ a over the steps since the
        weights were ``base`` (w₀ if None), each at its task's rows.
        """
        if self.gram:
            change = -times(updates, self.tasks.singular_vectors)
        else:
            change = state if self.basis is None else times(state, self.basis.T)
        return (self.origin if base is None else base) + np.matrix_transpose(change)

    def errors_of(self, weights: Array) -> Array:
        """Return e of shape (n_trials, c, Σr) from weights of shape (n_trials, d, c)."""
        return np.matrix_transpose(self.tasks.singular_vectors @ weights - self.tasks.targets)


def times(stack: Array, matrix: Array) -> Array:
    """Return stack @ matrix as one product: broadcasting would make many small ones."""
    flat = product(np.reshape(stack, (math.prod(stack.shape[:-1]), stack.shape[-1])), matrix)
    return np.reshape(flat, (*stack.shape[:-1], matrix.shape[-1]))


def span_coordinates(tasks: TaskCollection, start: Array, *, reduced: bool = True) -> Coordinates:
    """Return span coordinates; ``reduced=False`` uses the features, which costs no set-up."""
    maps = tasks.span_vectors if reduced else tasks.singular_vectors
    origin, missing = _origin(tasks, start)
    reduced = reduced and tasks.span_dimension < tasks.n_features
    return Coordinates(
        tasks, origin, maps, missing, gram=False, basis=tasks.span if reduced else None
    )


def gram_coordinates(tasks: TaskCollection, start: Array) -> Coordinates:
    """Return gram coordinates."""
    origin, missing = _origin(tasks, start)
    return Coordinates(tasks, origin, tasks.gram, missing, gram=True, basis=None)


def _origin(tasks: TaskCollection, start: Array) -> tuple[Array, Array]:
    origin = np.reshape(start, (tasks.n_features, tasks.n_targets))
    return origin, tasks.targets - tasks.singular_vectors @ origin


# Numbers kept between two updates of the visit statistics: small enough for a cache, large enough
# to amortise
_BUFFER = 2**20


class Snapshot(NamedTuple):
    """A copy of the trials at one step."""

    state: Array  # (n_trials, c, Q)
    # with ``base``, where it is not the start: arguments of ``Coordinates.weights``
    updates: Array | None
    base: Array | None
    # counts, means and spread of ``Visits`` where the path is tracked
    visits: tuple[Floats, Floats, Floats] | None
    walk: Array | None = None  # (n_trials, d, c): of a walking teacher, to be added to the weights


def part_of(values: Floats, low: int, high: int) -> Floats:
    """Return the rows of some steps; values that are the same at every step have one row."""
    return values[low:high] if len(values) > 1 else values


class Run(Protocol):
    """The state of all trials: the interface of a backend of ``simulate``."""

    coordinates: Coordinates

    def task_sums(self, outputs: Floats, means: Floats, names: tuple[str, ...]) -> TaskSums:
        """Return ``metrics.task_sums``."""

    def advance(
        self, indices: Indices, factors: Floats, residuals: Floats, marks: list[int], weights: bool
    ) -> list[Snapshot]:
        """Make one step per column of ``indices`` (n_trials, T), with φ and 1 − φ of shape (T or 1,
        Σr).

        Returns snapshots after each of the numbers of steps in ``marks``, which increase up to T,
        with updates if ``weights``.
        """

    def snapshot(self, weights: bool) -> Snapshot:
        """Return the trials now."""

    def rebase(self) -> None:
        """Restart from the current weights, so that rounding does not accumulate over millions of
        steps.
        """


class ArrayRun:
    """Trials as one array: a step sorts them by task and makes one product per task that occurs."""

    def __init__(
        self, coordinates: Coordinates, n_trials: int, track: bool, gains: Floats | None = None
    ) -> None:
        self.coordinates = coordinates
        self.state = coordinates.initial(n_trials)
        self.updates = np.zeros(self.state.shape) if coordinates.gram else None
        self.base: Array | None = None
        self.gains, self.done = gains, 0
        self.average = self.state.copy()
        self.average_updates = None if self.updates is None else self.updates.copy()
        tasks = coordinates.tasks
        self.tally = _Tally(tasks.offsets, n_trials, tasks.n_targets) if track else None
        self.ranks = np.diff(tasks.offsets)
        self.width = int(self.ranks.max(initial=0))
        self.positions = self._positions(int(tasks.offsets[-1]))

    def _positions(self, blank: int) -> NDArray[np.int64]:
        """Return the positions of each task's singular vectors among all, (M, width), padded with
        ``blank``.
        """
        offsets, columns = self.coordinates.tasks.offsets, np.arange(self.width)
        return np.where(columns < self.ranks[:, None], offsets[:-1, None] + columns, blank)

    def advance(
        self, indices: Indices, factors: Floats, residuals: Floats, marks: list[int], weights: bool
    ) -> list[Snapshot]:
        snapshots: list[Snapshot] = []
        for low, high in itertools.pairwise([0, *marks, indices.shape[1]]):
            if high > low:
                self._advance(
                    indices[:, low:high], part_of(factors, low, high), part_of(residuals, low, high)
                )
            if len(snapshots) < len(marks):
                snapshots.append(self.snapshot(weights))
        return snapshots

    def _advance(self, indices: Indices, factors: Floats, residuals: Floats) -> None:
        indices = np.ascontiguousarray(indices.T)
        n_trials, n_targets = self.state.shape[:2]
        size = max(1, _BUFFER // (n_trials * n_targets * max(1, self.width)))
        for first in range(0, len(indices), size):
            rows = slice(first, first + size)
            part = rows if len(factors) > 1 else slice(0, 1)
            if self.gains is not None:
                self._average(
                    indices[rows],
                    factors[part],
                    self.gains[self.done : self.done + len(indices[rows])],
                )
                continue
            errors = None
            if self.tally is not None:
                errors = np.zeros((len(indices[rows]), n_trials, n_targets, self.width))
            self._steps(indices[rows], factors[part], errors)
            if self.tally is not None:
                self._count(indices[rows].astype(np.int64), errors, residuals[part])

    def _average(self, indices: Indices, factors: Floats, gains: Floats) -> None:
        """Make steps one by one, each followed by an update of the averages, whose outputs are
        tallied.
        """
        tasks, outputs = indices.astype(np.int64), []
        for t, gain in enumerate(gains.tolist()):
            self._steps(indices[t : t + 1], part_of(factors, t, t + 1), None)
            self.average = self.average + gain * (self.state - self.average)
            if self.updates is not None:
                self.average_updates = self.average_updates + gain * (
                    self.updates - self.average_updates
                )
            if self.tally is not None:
                errors = (
                    self.coordinates.errors(self.average) * self.coordinates.tasks.singular_values
                )
                padded = np.concatenate([errors, np.zeros((*errors.shape[:2], 1))], axis=2)
                outputs.append(
                    np.take_along_axis(padded, self.positions[tasks[t]][:, None, :], axis=2)
                )
        if self.tally is not None:
            self.tally.add(tasks, np.stack(outputs), self.positions)
        self.done += len(tasks)

    def _steps(self, indices: Indices, factors: Floats, errors: Array | None) -> None:
        """Make the steps of indices (T, n_trials), writing the errors before each to ``errors``."""
        coordinates, offsets = self.coordinates, self.coordinates.tasks.offsets.tolist()
        for t, tasks in enumerate(indices):
            now = factors[t if len(factors) > 1 else 0]
            for m in np.unique(tasks).tolist():
                trials = np.flatnonzero(tasks == m)
                rows = slice(offsets[m], offsets[m + 1])
                maps = coordinates.maps[rows]
                if coordinates.gram:
                    error = self.state[trials, :, rows]
                else:
                    error = times(self.state[trials], maps.T) - coordinates.missing[rows].T
                if errors is not None:
                    errors[t, trials, :, : len(maps)] = error
                gain = error * now[rows]
                if self.updates is not None:
                    self.updates[trials, :, rows] += gain
                self.state[trials] -= times(gain, maps)

    def _by_task(self, values: Floats) -> Floats:
        """Return values (T, Σr) arranged by task, (T, M, width), padded with zeros."""
        blank = np.concatenate([values, np.zeros((len(values), 1))], axis=1)
        return blank[:, self.positions]

    def _count(self, tasks: NDArray[np.int64], errors: Array, residuals: Floats) -> None:
        """Add steps to the tally, from the errors before each of them."""
        assert self.tally is not None
        # Right after a step on m, its own error is (1 − φ) ∘ e: the singular vectors of one task
        # are orthonormal.
        factors = self._by_task(residuals * self.coordinates.tasks.singular_values)
        steps = np.arange(len(tasks))[:, None] if len(residuals) > 1 else 0
        outputs = errors * factors[steps, tasks][:, :, None, :]
        self.tally.add(tasks, outputs, self.positions)

    def task_sums(self, outputs: Floats, means: Floats, names: tuple[str, ...]) -> TaskSums:
        return task_sums(outputs, means, self.coordinates.tasks, names)

    def snapshot(self, weights: bool) -> Snapshot:
        state, updates = (
            (self.state, self.updates)
            if self.gains is None
            else (self.average, self.average_updates)
        )
        updates = updates.copy() if weights and updates is not None else None
        visits = None if self.tally is None else self.tally.visits()
        return Snapshot(state.copy(), updates, self.base, visits)

    def rebase(self) -> None:
        if self.updates is None:
            return
        self.base = self.coordinates.weights(self.state, self.updates, self.base)
        self.state = self.coordinates.errors_of(self.base)
        if self.gains is not None:
            self.average_updates = self.average_updates - self.updates
            self.average = self.coordinates.errors_of(
                self.coordinates.weights(self.average, self.average_updates, self.base)
            )
        self.updates = np.zeros(self.state.shape)


class _Tally:
    """Running counts, means and spreads of every task's outputs after its own steps, merged block
    by block.
    """

    def __init__(self, offsets: NDArray[np.int64], n_trials: int, n_targets: int) -> None:
        self.ranks = np.diff(offsets)
        self.counts = np.zeros((n_trials, len(self.ranks)))
        # one blank column for padding
        self.means = np.zeros((n_trials, n_targets, int(offsets[-1]) + 1))
        self.spread = np.zeros((n_trials, len(self.ranks)))

    def add(self, task: NDArray[np.int64], outputs: Floats, positions: NDArray[np.int64]) -> None:
        """Add steps: ``outputs`` (T, n_trials, c, width) of ``task`` (T, n_trials), at
        ``positions`` among all.
        """
        n_trials, n_targets, columns = self.means.shape
        trial = np.broadcast_to(np.arange(n_trials), task.shape)
        visited = (trial * len(self.ranks) + task).ravel()
        fresh: Floats = (
            np.bincount(visited, minlength=self.counts.size)
            .reshape(self.counts.shape)
            .astype(np.float64)
        )
        total = self.counts + fresh
        fraction = self._columns(np.divide(fresh, total, out=np.zeros_like(fresh), where=total > 0))
        old, new = self._columns(self.counts), self._columns(fresh)
        keys = (trial[..., None] * columns + positions[task]).ravel()
        owners = np.repeat(visited, positions.shape[1])
        for c in range(n_targets):
            values = outputs[:, :, c, :].ravel()
            sums = np.bincount(keys, weights=values, minlength=n_trials * columns).reshape(
                n_trials, columns
            )
            means = np.divide(sums, new, out=np.zeros_like(new), where=new > 0)
            deviations = (values - means.ravel()[keys]) ** 2
            # Chan, Golub & LeVeque (1979): counts, means and spreads of two sets merge without
            # cancellation.
            shift = means - self.means[:, c, :]
            squares = np.bincount(owners, weights=deviations, minlength=self.spread.size)
            self.spread += squares.reshape(self.spread.shape) + self._per_task(
                shift**2 * fraction * old
            )
            self.means[:, c, :] += shift * fraction
        self.counts = total

    def _per_task(self, columns: Floats) -> Floats:
        """Return sums of values (n_trials, Σr + 1) over the singular vectors of each task."""
        filled = np.flatnonzero(self.ranks)
        result = np.zeros(self.spread.shape)
        if filled.size:
            heads = (np.cumsum(self.ranks) - self.ranks)[filled]
            result[:, filled] = np.add.reduceat(columns[:, :-1], heads, axis=1)
        return result

    def _columns(self, per_task: Floats) -> Floats:
        """Return values (n_trials, M) repeated for every singular vector of a task, with a zero
        blank column.
        """
        return np.concatenate(
            [np.repeat(per_task, self.ranks, axis=1), np.zeros((len(per_task), 1))], axis=1
        )

    def visits(self) -> tuple[Floats, Floats, Floats]:
        return self.counts.copy(), self.means[:, :, :-1].copy(), self.spread.copy()
