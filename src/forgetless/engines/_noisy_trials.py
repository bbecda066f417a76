"""The inner loop of simulations with fresh label noise and a walking teacher: all trials, one step
at a time.
"""

import math
from typing import Any

import numpy as np

from forgetless._core.arrays import Array, Floats, from_numpy, namespace_of, to_numpy, zeros
from forgetless.engines._trials import ArrayRun, Order, Snapshot
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
        self.method, (self.padded_maps, self.padded_missing) = self._noisy, self._pad()
        self.disturbance, seed = source
        self.generators = _generators(seed, n_trials)
        tasks = coordinates.tasks
        # Libraries differ in the signs of singular vectors; a seed should give the same noise with
        # all of them.
        vectors = to_numpy(tasks.singular_vectors)
        signs = np.sign(vectors[np.arange(len(vectors)), np.argmax(np.abs(vectors), axis=1)])
        # (M, width), padded with zeros
        inverse = np.append(signs / tasks.singular_values, 0.0)[self.positions]
        self.noise = from_numpy(self.disturbance.noise * inverse[:, None, :], like=self.state)
        self.walk = zeros((n_trials, tasks.n_targets, tasks.n_features), self.state)
        self.started = False

    def _normals(self, *shape: int) -> Array:
        """Return independent normals (n_trials, *shape), those of a trial whatever the number of
        trials is.
        """
        draws = np.concatenate([each.standard_normal((TRIALS, *shape)) for each in self.generators])
        return from_numpy(draws[: self.state.shape[0]], like=self.state)

    def _move(self) -> None:
        """Move the teacher: in coordinates that move with it, the weights and their average move
        back.
        """
        n_targets, d = self.walk.shape[1:]
        change = self.disturbance.drift / math.sqrt(d * n_targets) * self._normals(n_targets, d)
        self.walk = self.walk + change
        inside = change if self.coordinates.basis is None else change @ self.coordinates.basis
        self.state, self.average = self.state - inside, self.average - inside

    def _noisy(self, indices: Indices, factors: Floats, errors: Array | None) -> Order:
        xp = namespace_of(self.state)
        if self.started and self.disturbance.drift:
            self._move()
        self.started = True
        now = from_numpy(indices[0].astype(np.int64), like=self.state)
        maps, missing = (
            xp.take(each, now, axis=0) for each in (self.padded_maps, self.padded_missing)
        )
        error = self.state @ xp.matrix_transpose(maps) - xp.matrix_transpose(missing)
        if self.disturbance.noise:
            error = error - xp.take(self.noise, now, axis=0) * self._normals(*error.shape[1:])
        factor = from_numpy(self._by_task(factors)[0][:, None, :], like=self.state)
        self.state = self.state - (error * xp.take(factor, now, axis=0)) @ maps
        return indices, np.broadcast_to(np.arange(indices.shape[1]), indices.shape)

    def snapshot(self, weights: bool) -> Snapshot:
        """Return the trials now, with the walk of their teachers and the part of it outside the
        span.
        """
        xp, basis = namespace_of(self.state), self.coordinates.basis
        outside = 0.0 * self.walk if basis is None else self.walk - (self.walk @ basis) @ basis.T
        base = self.coordinates.origin - xp.matrix_transpose(outside)
        return super().snapshot(weights)._replace(base=base, walk=xp.matrix_transpose(self.walk))


def _generators(seed: Any, n_trials: int) -> list[np.random.Generator]:
    """Return one generator for every few trials, independent of those of the orders."""
    sequence = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
    keys = [(*sequence.spawn_key, group, _STREAM) for group in range(-(-n_trials // TRIALS))]
    return [
        np.random.Generator(np.random.PCG64(np.random.SeedSequence(sequence.entropy, spawn_key=k)))
        for k in keys
    ]
