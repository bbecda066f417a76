"""The simulation's inner loop compiled by numba: one trial after the other, trials spread over threads."""

import functools
import itertools
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forgetless import metrics
from forgetless._core.arrays import Array, Floats
from forgetless._core.compiled import jit, n_threads, spread
from forgetless.engines._trials import Snapshot, part_of
from forgetless.engines.coordinates import Coordinates
from forgetless.metrics import TaskSums, follows_path
from forgetless.orderings import Indices
from forgetless.tasks import TaskCollection

# Sums may be reordered (SIMD) and fused; nothing else of IEEE arithmetic is given up.
_FAST = {"reassoc", "contract"}


# Unsigned throughout: a signed index may be negative, and the check for that blocks SIMD.
_1, _2 = np.uint64(1), np.uint64(2)

_SHORT = 3
"""Up to so many coordinates the loop over them is unrolled."""

_TOGETHER = 4
"""Trials advanced together: enough to hide the latency of one step, few enough for their states to stay in L1."""


@functools.cache
def _blocks(gram: bool, track: bool, averaged: bool) -> Any:
    """Return the loop for tasks of any rank; the choices are compiled in, which saves a third of the time."""

    @jit(fastmath=_FAST, nogil=True)
    def advance(
        first: int,
        last: int,
        state: Floats,
        moved: Floats,
        counts: Floats,
        means: Floats,
        spread: Floats,
        indices: Indices,
        shares: Floats,
        kept: Floats,
        scale: Floats,
        maps: Floats,
        missing: Floats,
        gains: Floats,
        average: Floats,
        average_moved: Floats,
        offsets: NDArray[np.uint64],
    ) -> None:
        """Advance trials first..last − 1, a few together: their steps are independent, so the processor overlaps them.

        ``state``, ``moved``, ``means`` and the averages have one row per trial and target. Rows of ``maps`` are taken
        in pairs, so that the state is read and written half as often.
        """
        n_targets, Q = missing.shape[0], state.shape[1]
        errors = np.empty(maps.shape[0])
        weight = 0.0
        for group in range(first, last, _TOGETHER):
            for t in range(indices.shape[1]):
                now = t if shares.shape[0] > 1 else 0
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
                            # Welford's update of mean and spread with the outputs right after the step, s(1 − φ)e.
                            total = 0.0
                            for j in range(low, high):
                                output = scale[j] * kept[now, j] * errors[j - low]
                                change = output - means[row, j]
                                means[row, j] += weight * change
                                total += change * (output - means[row, j])
                            spread[trial, m] += total
                        j = low
                        while j < high:
                            a = shares[now, j] * errors[j - low]
                            if gram:
                                moved[row, j] += a
                            if j + _1 < high:
                                b = shares[now, j + _1] * errors[j + _1 - low]
                                if gram:
                                    moved[row, j + _1] += b
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
                                    average_moved[row, i] += gains[t] * (moved[row, i] - average_moved[row, i])
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
def _rank_one(track: bool, width: int, averaged: bool) -> Any:
    """Return the loop for tasks of one direction each; a short state has its length compiled in."""

    @jit(fastmath=_FAST, nogil=True)
    def advance(
        first: int,
        last: int,
        state: Floats,
        counts: Floats,
        means: Floats,
        spread: Floats,
        indices: Indices,
        shares: Floats,
        kept: Floats,
        scale: Floats,
        maps: Floats,
        missing: Floats,
        gains: Floats,
        average: Floats,
    ) -> None:
        """Do the same as ``blocks`` where every task has one direction, five times faster for a short state."""
        n_targets, Q = missing.shape[0], width if width else state.shape[1]
        for group in range(first, last, _TOGETHER):
            for t in range(indices.shape[1]):
                now = t if shares.shape[0] > 1 else 0
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
                            output = scale[m] * kept[now, m] * error
                            change = output - means[row, m]
                            means[row, m] += change / counts[trial, m]
                            spread[trial, m] += change * (output - means[row, m])
                        error *= shares[now, m]
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
def _sums(first: int, last: int, outputs: Floats, means: Floats, offsets: NDArray[np.uint64], found: Floats) -> None:
    """Sum outputs² and their changes over the directions and targets of each task, for rows first..last − 1."""
    for i in range(first, last):
        for m in range(len(offsets) - 1):
            squares = moved = gained = 0.0
            for c in range(outputs.shape[1]):
                for j in range(offsets[m], offsets[m + 1]):
                    x, mean = outputs[i, c, j], means[i, c, j]
                    change = x - mean
                    squares += x * x
                    moved += change * change
                    gained += change * (x + mean)
            found[0, i, m], found[1, i, m], found[2, i, m] = squares, moved, gained


def _task_sums(outputs: Floats, means: Floats, tasks: TaskCollection, names: tuple[str, ...]) -> TaskSums:
    """Do the same as ``metrics.task_sums`` in one pass where the path is tracked."""
    if not follows_path(names):
        return metrics.task_sums(outputs, means, tasks, names)
    lead = outputs.shape[:-2]
    shape = (math.prod(lead), *outputs.shape[-2:])
    flat, around = np.ascontiguousarray(outputs).reshape(shape), np.ascontiguousarray(means).reshape(shape)
    found = np.empty((3, len(flat), tasks.n_tasks))
    offsets = tasks.offsets.astype(np.uint64)
    threads = n_threads() if flat.size > 200_000 else 1  # handing work over costs 50 µs
    spread(lambda a, b: _sums(a, b, flat, around, offsets, found), len(flat), -(-len(flat) // threads), threads)
    return TaskSums(*found.reshape(3, *lead, tasks.n_tasks))


class CompiledRun:
    """Trials as NumPy arrays, advanced by a compiled loop; the same numbers as ``ArrayRun`` up to rounding."""

    def __init__(self, coordinates: Coordinates, n_trials: int, track: bool, gains: Floats | None = None) -> None:
        tasks = coordinates.tasks
        self.coordinates = coordinates
        self.track = track
        self.state = np.ascontiguousarray(coordinates.initial(n_trials))
        self.base: Array | None = None
        rows = (n_trials, tasks.n_targets)
        self.moved = np.zeros((*rows, len(coordinates.maps) if coordinates.gram else 1))
        self.means = np.zeros((*rows, len(coordinates.maps) if track else 1))
        self.counts = np.zeros((n_trials, tasks.n_tasks if track else 0))
        self.spread = np.zeros((n_trials, tasks.n_tasks if track else 0))
        self.gains, self.done = gains, 0
        kept = gains is not None  # else the arrays are never touched
        self.average = self.state.copy() if kept else np.zeros((*rows, 1))
        self.average_moved = self.moved.copy() if kept else np.zeros((*rows, 1))
        self.maps = np.ascontiguousarray(coordinates.maps)
        self.missing = np.ascontiguousarray(coordinates.missing.T)
        self.offsets = tasks.offsets.astype(np.uint64)
        self.rank_one = not coordinates.gram and set(tasks.ranks) == {1}

    def advance(
        self, indices: Indices, shares: Floats, kept: Floats, marks: list[int], weights: bool
    ) -> list[Snapshot]:
        n_trials, n_steps = indices.shape
        found = [self.snapshot(weights) for _ in marks]
        done = self.done

        def work(first: int, last: int) -> None:
            # Each thread makes all steps of its trials, with snapshots on the way: meeting at each would cost more.
            for place, (low, high) in enumerate(itertools.pairwise([0, *marks, n_steps])):
                if high > low:
                    now = part_of(shares, low, high), part_of(kept, low, high)
                    self._advance(first, last, done + low, indices[:, low:high], *now)
                if place < len(marks):
                    self._copy(found[place], slice(first, last))

        size = n_trials * self.state.shape[1] * n_steps * (20 + self.maps.size / self.coordinates.tasks.n_tasks)
        threads = min(n_threads(), -(-n_trials // _TOGETHER)) if size > 1e6 else 1  # handing work over costs 50 µs
        spread(work, n_trials, -(-n_trials // threads), threads)
        self.done += n_steps
        return found

    def _advance(self, first: int, last: int, done: int, indices: Indices, shares: Floats, kept: Floats) -> None:
        rows = self.state.shape[0] * self.state.shape[1]
        state, moved, means = (x.reshape(rows, -1) for x in (self.state, self.moved, self.means))
        average, average_moved = (x.reshape(rows, -1) for x in (self.average, self.average_moved))
        averaged = self.gains is not None
        gains = np.zeros(0) if self.gains is None else self.gains[done : done + indices.shape[1]]
        data: tuple[Any, ...] = (
            indices,
            shares,
            kept,
            self.coordinates.tasks.singular_values,
            self.maps,
            self.missing,
        )
        span, visits, Q = (first, last, state), (self.counts, means, self.spread), state.shape[1]
        if self.rank_one:
            _rank_one(self.track, Q if Q <= _SHORT else 0, averaged)(*span, *visits, *data, gains, average)
        else:
            averages = (gains, average, average_moved)
            _blocks(self.coordinates.gram, self.track, averaged)(*span, moved, *visits, *data, *averages, self.offsets)

    def _copy(self, snapshot: Snapshot, trials: slice) -> None:
        state, moved = self._shown
        snapshot.state[trials] = state[trials]
        if snapshot.moved is not None:
            snapshot.moved[trials] = moved[trials]
        if snapshot.visits is not None:
            for copy, value in zip(snapshot.visits, (self.counts, self.means, self.spread), strict=True):
                copy[trials] = value[trials]

    def task_sums(self, outputs: Floats, means: Floats, names: tuple[str, ...]) -> TaskSums:
        return _task_sums(outputs, means, self.coordinates.tasks, names)

    def snapshot(self, weights: bool) -> Snapshot:
        visits = (self.counts.copy(), self.means.copy(), self.spread.copy()) if self.track else None
        state, moved = self._shown
        return Snapshot(state.copy(), moved.copy() if weights and self.coordinates.gram else None, self.base, visits)

    @property
    def _shown(self) -> tuple[Floats, Floats]:
        """The state that is recorded and what moved it: of the iterates, or of their averages."""
        return (self.state, self.moved) if self.gains is None else (self.average, self.average_moved)

    def rebase(self) -> None:
        if self.coordinates.gram:
            self.base = self.coordinates.weights(self.state, self.moved, self.base)
            self.state = np.ascontiguousarray(self.coordinates.errors_of(self.base))
            if self.gains is not None:
                self.average_moved -= self.moved
                average = self.coordinates.weights(self.average, self.average_moved, self.base)
                self.average = np.ascontiguousarray(self.coordinates.errors_of(average))
            self.moved[:] = 0.0
