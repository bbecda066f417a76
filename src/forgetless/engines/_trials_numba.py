"""The inner loop of simulations compiled by numba, with trials distributed over threads."""

import functools
import itertools
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forgetless import metrics
from forgetless._core.arrays import Array, Floats
from forgetless._core.compiled import jit, n_threads, spread
from forgetless.engines._trials import Coordinates, Snapshot, part_of
from forgetless.metrics import TaskSums, follows_path
from forgetless.orderings import Indices
from forgetless.tasks import TaskCollection

# Sums may be reordered (SIMD) and fused; all other rules of IEEE arithmetic hold.
_FAST = {"reassoc", "contract"}
# Unsigned throughout: a signed index may be negative, and the check for that blocks SIMD.
_1, _2 = np.uint64(1), np.uint64(2)
_SHORT = 3  # coordinates up to which the loop over them is unrolled
# trials advanced together: enough to hide the latency of a step, with states that fit into L1
_TOGETHER = 4


@functools.cache
def _blocks(gram: bool, track: bool, averaged: bool) -> Any:  # noqa: C901, PLR0915
    """Return the loop for tasks of any rank, with its options compiled in, which saves a third of
    the time.
    """

    @jit(fastmath=_FAST, nogil=True)
    def advance(  # noqa: C901, PLR0912, PLR0915
        first: int, last: int, states: Any, visits: Any, data: Any, averages: Any, offsets: Any
    ) -> None:
        """Advance trials first..last − 1, a few together: their steps are independent, so the
        processor overlaps them.

        State, updates, means and averages have one row per trial and target. Rows of ``maps`` are
        taken in pairs, so that the state is read and written half as often.
        """
        state, updates = states
        counts, means, spread = visits
        indices, factors, residuals, scale, maps, missing = data
        gains, average, average_updates = averages
        n_targets, Q = missing.shape[0], state.shape[1]
        errors = np.empty(maps.shape[0])
        weight = 0.0
        for group in range(first, last, _TOGETHER):
            for t in range(indices.shape[1]):
                now = t if factors.shape[0] > 1 else 0
                for trial in range(group, min(group + _TOGETHER, last)):
                    m = np.uint64(indices[trial, t])
                    low, high = offsets[m], offsets[m + _1]
                    if track:
                        counts[trial, m] += 1.0
                        weight = 1.0 / counts[trial, m]
                    for c in range(n_targets):
                        row = trial * n_targets + c
                        if gram:
                            for j in range(low, high):
                                errors[j - low] = state[row, j]
                        else:
                            j = low
                            while j < high:
                                a = b = 0.0
                                if j + _1 < high:
                                    for i in range(Q):
                                        a += maps[j, i] * state[row, i]
                                        b += maps[j + _1, i] * state[row, i]
                                    errors[j + _1 - low] = b - missing[c, j + _1]
                                else:
                                    for i in range(Q):
                                        a += maps[j, i] * state[row, i]
                                errors[j - low] = a - missing[c, j]
                                j += _2
                        if track and not averaged:
                            # Welford's update of mean and spread with the outputs right after the
                            # step, s(1 − φ)e.
                            total = 0.0
                            for j in range(low, high):
                                output = scale[j] * residuals[now, j] * errors[j - low]
                                change = output - means[row, j]
                                means[row, j] += weight * change
                                total += change * (output - means[row, j])
                            spread[trial, m] += total
                        j = low
                        while j < high:
                            a = factors[now, j] * errors[j - low]
                            if gram:
                                updates[row, j] += a
                            if j + _1 < high:
                                b = factors[now, j + _1] * errors[j + _1 - low]
                                if gram:
                                    updates[row, j + _1] += b
                                for i in range(Q):
                                    state[row, i] -= a * maps[j, i] + b * maps[j + _1, i]
                            else:
                                for i in range(Q):
                                    state[row, i] -= a * maps[j, i]
                            j += _2
                        if averaged:
                            for i in range(Q):
                                average[row, i] += gains[t] * (state[row, i] - average[row, i])
                            if gram:
                                for i in range(Q):
                                    average_updates[row, i] += gains[t] * (
                                        updates[row, i] - average_updates[row, i]
                                    )
                        if averaged and track:
                            total = 0.0
                            for j in range(low, high):
                                if gram:
                                    a = average[row, j]
                                else:
                                    a = -missing[c, j]
                                    for i in range(Q):
                                        a += maps[j, i] * average[row, i]
                                output = scale[j] * a
                                change = output - means[row, j]
                                means[row, j] += weight * change
                                total += change * (output - means[row, j])
                            spread[trial, m] += total

    return advance


@functools.cache
def _rank_one(track: bool, width: int, averaged: bool) -> Any:  # noqa: C901
    """Return the loop for tasks of rank one, with the length of a short state compiled in."""

    @jit(fastmath=_FAST, nogil=True)
    def advance(first: int, last: int, states: Any, visits: Any, data: Any, averages: Any) -> None:  # noqa: C901, PLR0912
        """Advance trials like ``_blocks`` where every task has rank one, five times faster for a
        short state.
        """
        state, _ = states
        counts, means, spread = visits
        indices, factors, residuals, scale, maps, missing = data
        gains, average, _ = averages
        n_targets, Q = missing.shape[0], width if width else state.shape[1]
        for group in range(first, last, _TOGETHER):
            for t in range(indices.shape[1]):
                now = t if factors.shape[0] > 1 else 0
                for trial in range(group, min(group + _TOGETHER, last)):
                    m = np.uint64(indices[trial, t])
                    if track:
                        counts[trial, m] += 1.0
                    for c in range(n_targets):
                        row = trial * n_targets + c
                        error = -missing[c, m]
                        for i in range(Q):
                            error += maps[m, i] * state[row, i]
                        if track and not averaged:
                            output = scale[m] * residuals[now, m] * error
                            change = output - means[row, m]
                            means[row, m] += change / counts[trial, m]
                            spread[trial, m] += change * (output - means[row, m])
                        error *= factors[now, m]
                        for i in range(Q):
                            state[row, i] -= error * maps[m, i]
                        if averaged:
                            error = -missing[c, m]
                            for i in range(Q):
                                average[row, i] += gains[t] * (state[row, i] - average[row, i])
                                error += maps[m, i] * average[row, i]
                        if averaged and track:
                            output = scale[m] * error
                            change = output - means[row, m]
                            means[row, m] += change / counts[trial, m]
                            spread[trial, m] += change * (output - means[row, m])

    return advance


@jit(fastmath=_FAST, nogil=True)
def _sums(
    first: int, last: int, outputs: Floats, means: Floats, offsets: NDArray[np.uint64], sums: Floats
) -> None:
    """Sum outputs² and their changes over the singular vectors and targets of each task, for rows
    first..last − 1.
    """
    for i in range(first, last):
        for m in range(len(offsets) - 1):
            squares = changes = gains = 0.0
            for c in range(outputs.shape[1]):
                for j in range(offsets[m], offsets[m + 1]):
                    x, mean = outputs[i, c, j], means[i, c, j]
                    change = x - mean
                    squares += x * x
                    changes += change * change
                    gains += change * (x + mean)
            sums[0, i, m], sums[1, i, m], sums[2, i, m] = squares, changes, gains


def _task_sums(
    outputs: Floats, means: Floats, tasks: TaskCollection, names: tuple[str, ...]
) -> TaskSums:
    """Return ``metrics.task_sums``, in one pass where the path is tracked."""
    if not follows_path(names):
        return metrics.task_sums(outputs, means, tasks, names)
    lead = outputs.shape[:-2]
    shape = (math.prod(lead), *outputs.shape[-2:])
    flat, around = (
        np.ascontiguousarray(outputs).reshape(shape),
        np.ascontiguousarray(means).reshape(shape),
    )
    sums = np.empty((3, len(flat), tasks.n_tasks))
    offsets = tasks.offsets.astype(np.uint64)
    threads = n_threads() if flat.size > 200_000 else 1  # handing work over costs 50 µs
    spread(
        lambda a, b: _sums(a, b, flat, around, offsets, sums),
        len(flat),
        -(-len(flat) // threads),
        threads,
    )
    return TaskSums(*sums.reshape(3, *lead, tasks.n_tasks))


class CompiledRun:
    """Trials as NumPy arrays, advanced by a compiled loop; equal to ``ArrayRun`` up to rounding."""

    def __init__(
        self, coordinates: Coordinates, n_trials: int, track: bool, gains: Floats | None = None
    ) -> None:
        tasks = coordinates.tasks
        self.coordinates = coordinates
        self.track = track
        self.state = np.ascontiguousarray(coordinates.initial(n_trials))
        self.base: Array | None = None
        rows = (n_trials, tasks.n_targets)
        self.updates = np.zeros((*rows, len(coordinates.maps) if coordinates.gram else 1))
        self.means = np.zeros((*rows, len(coordinates.maps) if track else 1))
        self.counts = np.zeros((n_trials, tasks.n_tasks if track else 0))
        self.spread = np.zeros((n_trials, tasks.n_tasks if track else 0))
        self.gains, self.done = gains, 0
        averaged = gains is not None  # else the arrays are not used
        self.average = self.state.copy() if averaged else np.zeros((*rows, 1))
        self.average_updates = self.updates.copy() if averaged else np.zeros((*rows, 1))
        self.maps = np.ascontiguousarray(coordinates.maps)
        self.missing = np.ascontiguousarray(coordinates.missing.T)
        self.offsets = tasks.offsets.astype(np.uint64)
        self.rank_one = not coordinates.gram and set(tasks.ranks) == {1}

    def advance(
        self, indices: Indices, factors: Floats, residuals: Floats, marks: list[int], weights: bool
    ) -> list[Snapshot]:
        n_trials, n_steps = indices.shape
        snapshots = [self.snapshot(weights) for _ in marks]
        done = self.done

        def work(first: int, last: int) -> None:
            # Each thread makes all steps of its trials with their snapshots: a barrier at each
            # would cost more.
            for place, (low, high) in enumerate(itertools.pairwise([0, *marks, n_steps])):
                if high > low:
                    now = part_of(factors, low, high), part_of(residuals, low, high)
                    self._advance(first, last, done + low, indices[:, low:high], *now)
                if place < len(marks):
                    self._copy(snapshots[place], slice(first, last))

        size = (
            n_trials
            * self.state.shape[1]
            * n_steps
            * (20 + self.maps.size / self.coordinates.tasks.n_tasks)
        )
        # handing work over costs 50 µs
        threads = min(n_threads(), -(-n_trials // _TOGETHER)) if size > 1e6 else 1
        spread(work, n_trials, -(-n_trials // threads), threads)
        self.done += n_steps
        return snapshots

    def _advance(
        self, first: int, last: int, done: int, indices: Indices, factors: Floats, residuals: Floats
    ) -> None:
        rows = self.state.shape[0] * self.state.shape[1]
        state, updates, means = (
            x.reshape(rows, -1) for x in (self.state, self.updates, self.means)
        )
        average, average_updates = (
            x.reshape(rows, -1) for x in (self.average, self.average_updates)
        )
        averaged = self.gains is not None
        gains = np.zeros(0) if self.gains is None else self.gains[done : done + indices.shape[1]]
        scale, Q = self.coordinates.tasks.singular_values, state.shape[1]
        arguments: tuple[Any, ...] = (
            (state, updates),
            (self.counts, means, self.spread),
            (indices, factors, residuals, scale, self.maps, self.missing),
            (gains, average, average_updates),
        )
        if self.rank_one:
            _rank_one(self.track, Q if Q <= _SHORT else 0, averaged)(first, last, *arguments)
        else:
            _blocks(self.coordinates.gram, self.track, averaged)(
                first, last, *arguments, self.offsets
            )

    def _copy(self, snapshot: Snapshot, trials: slice) -> None:
        state, updates = self._recorded
        snapshot.state[trials] = state[trials]
        if snapshot.updates is not None:
            snapshot.updates[trials] = updates[trials]
        if snapshot.visits is not None:
            for copy, value in zip(
                snapshot.visits, (self.counts, self.means, self.spread), strict=True
            ):
                copy[trials] = value[trials]

    def task_sums(self, outputs: Floats, means: Floats, names: tuple[str, ...]) -> TaskSums:
        return _task_sums(outputs, means, self.coordinates.tasks, names)

    def snapshot(self, weights: bool) -> Snapshot:
        visits = (self.counts.copy(), self.means.copy(), self.spread.copy()) if self.track else None
        state, updates = self._recorded
        return Snapshot(
            state.copy(),
            updates.copy() if weights and self.coordinates.gram else None,
            self.base,
            visits,
        )

    @property
    def _recorded(self) -> tuple[Floats, Floats]:
        """State and updates that are recorded: those of the iterates, or of their averages."""
        return (
            (self.state, self.updates)
            if self.gains is None
            else (self.average, self.average_updates)
        )

    def rebase(self) -> None:
        if self.coordinates.gram:
            self.base = self.coordinates.weights(self.state, self.updates, self.base)
            self.state = np.ascontiguousarray(self.coordinates.errors_of(self.base))
            if self.gains is not None:
                self.average_updates -= self.updates
                average = self.coordinates.weights(self.average, self.average_updates, self.base)
                self.average = np.ascontiguousarray(self.coordinates.errors_of(average))
            self.updates[:] = 0.0
