"""The inner loop of simulations with fresh label noise and a walking teacher: all trials, one step
at a time.
"""

import math
from typing import Any

import numpy as np

from forgetless._core.arrays import Array, Floats
from forgetless.engines._trials import ArrayRun, Snapshot
from forgetless.engines.coordinates import Coordinates
from forgetless.engines.disturbance import Disturbance
from forgetless.orderings import TRIALS, Indices

_STREAM = 1  # the last number of the spawn keys of noise: those of orders end one level above


class NoisyRun(ArrayRun):
    """Trials whose state is w − w₀ less the walk of the teacher, in span coordinates: errors are of
    present labels.
    """

    def __init__(
        self,
        coordinates: Coordinates,
        n_trials: int,
        track: bool,
        gains: Floats,
        source: tuple[Disturbance, Any],
    ) -> None:
        super().__init__(coordinates, n_trials, track, gains)
        # Maps (M, width, Q) and missing (M, width, c), padded with zero rows, which have no effect.
        maps, missing = coordinates.maps, coordinates.missing
        self.maps = np.append(maps, np.zeros((1, maps.shape[1])), axis=0)[self.positions]
        self.missing = np.append(missing, np.zeros((1, missing.shape[1])), axis=0)[self.positions]
        self.disturbance, seed = source
        self.generators = _generators(seed, n_trials)
        tasks = coordinates.tasks
        # LAPACK's versions differ in the signs of singular vectors; a seed should give the same
        # noise with all of them.
        vectors = tasks.singular_vectors
        signs = np.sign(vectors[np.arange(len(vectors)), np.argmax(np.abs(vectors), axis=1)])
        # (M, width), padded with zeros
        inverse = np.append(signs / tasks.singular_values, 0.0)[self.positions]
        self.noise = self.disturbance.noise * inverse[:, None, :]
        self.walk = np.zeros((n_trials, tasks.n_targets, tasks.n_features))
        self.started = False

    def _normals(self, *shape: int) -> Array:
        """Return independent normals (n_trials, *shape), those of a trial whatever the number of
        trials is.
        """
        draws = np.concatenate([each.standard_normal((TRIALS, *shape)) for each in self.generators])
        return draws[: self.state.shape[0]]

    def _move(self) -> None:
        """Move the teacher: in coordinates that move with it, the weights and their average move
        back.
        """
        n_targets, d = self.walk.shape[1:]
        change = self.disturbance.walk / math.sqrt(d * n_targets) * self._normals(n_targets, d)
        self.walk = self.walk + change
        inside = change if self.coordinates.basis is None else change @ self.coordinates.basis
        self.state, self.average = self.state - inside, self.average - inside

    def _steps(self, indices: Indices, factors: Floats, errors: Array | None) -> None:
        if self.started and self.disturbance.walk:
            self._move()
        self.started = True
        now = indices[0].astype(np.int64)
        maps = self.maps[now]
        error = self.state @ np.swapaxes(maps, 1, 2) - np.swapaxes(self.missing[now], 1, 2)
        if self.disturbance.noise:
            error = error - self.noise[now] * self._normals(*error.shape[1:])
        factor = self._by_task(factors)[0][:, None, :]
        self.state = self.state - (error * factor[now]) @ maps

    def snapshot(self, weights: bool) -> Snapshot:
        """Return the trials now, with the walk of their teachers and the part of it outside the
        span.
        """
        basis = self.coordinates.basis
        outside = 0.0 * self.walk if basis is None else self.walk - (self.walk @ basis) @ basis.T
        base = self.coordinates.origin - np.matrix_transpose(outside)
        return super().snapshot(weights)._replace(base=base, walk=np.matrix_transpose(self.walk))


def _generators(seed: Any, n_trials: int) -> list[np.random.Generator]:
    """Return one generator for every few trials, independent of those of the orders."""
    sequence = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
    keys = [(*sequence.spawn_key, group, _STREAM) for group in range(-(-n_trials // TRIALS))]
    return [
        np.random.Generator(np.random.PCG64(np.random.SeedSequence(sequence.entropy, spawn_key=k)))
        for k in keys
    ]
