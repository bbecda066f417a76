"""The simulation's inner loop compiled by numba: one trial after the other, trials spread over threads."""

import numpy as np
from numba import get_num_threads, njit, prange
from numpy.typing import NDArray

from forgetless._arrays import Array
from forgetless.metrics import Floats, Visits
from forgetless.orderings import Indices
from forgetless.step import Coordinates

# Sums may be reordered (SIMD) and fused; nothing else of IEEE arithmetic is given up.
_FAST = {"reassoc", "contract"}


@njit(cache=True, fastmath=_FAST, nogil=True)  # type: ignore[untyped-decorator]
def _advance_trial(
    state: Floats,
    moved: Floats,
    counts: Floats,
    means: Floats,
    spread: Floats,
    trial: int,
    indices: Indices,
    shares: Floats,
    kept: Floats,
    scale: Floats,
    maps: Floats,
    missing: Floats,
    offsets: NDArray[np.uint64],
    gram: bool,
    track: bool,
    gains: Floats,
) -> None:
    n_targets, Q = state.shape[1], state.shape[2]
    varying = shares.shape[0] > 1
    total = 0.0
    for t in range(indices.shape[1]):
        m = indices[trial, t]
        low, high = offsets[m], offsets[m + 1]
        row = t if varying else 0
        if track:
            counts[trial, m] += 1.0
            weight = 1.0 / counts[trial, m]
        for c in range(n_targets):
            for j in range(low, high):
                if gram:
                    error = state[trial, c, j]
                else:
                    error = -missing[c, j]
                    for i in range(Q):
                        error += maps[j, i] * state[trial, c, i]
                gains[j - low] = shares[row, j] * error
                if track:
                    # Welford's update of mean and spread with the output right after the step, s(1 − φ)e.
                    output = scale[j] * kept[row, j] * error
                    change = output - means[trial, c, j]
                    means[trial, c, j] += weight * change
                    total += change * (output - means[trial, c, j])
            for j in range(low, high):
                gain = gains[j - low]
                if gram:
                    moved[trial, c, j] += gain
                for i in range(Q):
                    state[trial, c, i] -= gain * maps[j, i]
    spread[trial] += total


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _advance_serial(
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
    offsets: NDArray[np.uint64],
    gram: bool,
    track: bool,
) -> None:
    gains = np.empty(maps.shape[0])
    for trial in range(state.shape[0]):
        _advance_trial(
            state, moved, counts, means, spread, trial, indices, shares, kept, scale, maps, missing, offsets, gram, track, gains
        )


# A second function rather than the same one compiled twice: numba's cache keeps one entry per Python function.
@njit(cache=True, parallel=True, nogil=True)  # type: ignore[untyped-decorator]
def _advance_parallel(
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
    offsets: NDArray[np.uint64],
    gram: bool,
    track: bool,
) -> None:
    for trial in prange(state.shape[0]):
        gains = np.empty(maps.shape[0])
        _advance_trial(
            state, moved, counts, means, spread, trial, indices, shares, kept, scale, maps, missing, offsets, gram, track, gains
        )


class CompiledRun:
    """Trials as NumPy arrays, advanced by a compiled loop; the same numbers as ``ArrayRun`` up to rounding."""

    def __init__(self, coordinates: Coordinates, n_trials: int, track: bool) -> None:
        tasks = coordinates.tasks
        self.coordinates = coordinates
        self.track = track
        self.state = np.ascontiguousarray(coordinates.initial(n_trials))
        self.base: Array | None = None
        shape = (n_trials, tasks.n_targets, len(coordinates.maps))
        self.moved = np.zeros(shape if coordinates.gram else (1, 1, 1))
        self.counts = np.zeros((n_trials, tasks.n_tasks) if track else (1, 1))
        self.means = np.zeros(shape if track else (1, 1, 1))
        self.spread = np.zeros(n_trials)
        self.maps = np.ascontiguousarray(coordinates.maps)
        self.missing = np.ascontiguousarray(coordinates.missing.T)
        self.offsets = tasks.offsets.astype(np.uint64)  # signed indices would block SIMD

    def advance(self, indices: Indices, shares: Floats, kept: Floats) -> None:
        n_trials, n_steps = indices.shape
        work = n_trials * n_steps * (20 + self.maps.size / self.coordinates.tasks.n_tasks)
        # Waking the threads costs some 20 µs.
        parallel = n_trials > 1 and get_num_threads() > 1 and work > 2e5
        advance = _advance_parallel if parallel else _advance_serial
        advance(
            self.state,
            self.moved,
            self.counts,
            self.means,
            self.spread,
            indices,
            shares,
            kept,
            self.coordinates.tasks.singular_values,
            self.maps,
            self.missing,
            self.offsets,
            self.coordinates.gram,
            self.track,
        )

    def outputs(self) -> Floats:
        return np.asarray(self.coordinates.errors(self.state) * self.coordinates.tasks.singular_values)

    def visits(self, n_steps: int) -> Visits:
        steps = np.full(len(self.spread), n_steps)
        return Visits(steps, self.counts.copy(), self.means.copy(), self.spread.copy())

    def weights(self) -> Array:
        return self.coordinates.weights(self.state, self.moved, self.base)

    def rebase(self) -> None:
        if self.coordinates.gram:
            self.base = self.weights()
            self.state = np.ascontiguousarray(self.coordinates.errors_of(self.base))
            self.moved[:] = 0.0
