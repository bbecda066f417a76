"""Fresh label noise at every visit, and a teacher that walks, for finite collections.

Step t learns a task m with the labels y_m + X_m u_t + σε: ε is drawn anew in every row, and u_t,
the distance the teacher has walked, moves before every task but the first by a Gaussian step of
mean square length q², the same in all directions. Losses are those of the present labels without
noise, y_m + X_m u_t. In coordinates that move with the teacher, walks add Q = (q²/d) I to the
second moments S before a step, and noise adds Lᵀ diag(σ²φ²/s²) L after it.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from forgetless._core import validate
from forgetless._core.arrays import Array, Floats
from forgetless.engines._trials import ArrayRun, Coordinates, Snapshot
from forgetless.engines.moments import Moments
from forgetless.errors import NoExactLawError
from forgetless.metrics import OTHER_LOSS
from forgetless.orderings import TRIALS, Draws, Indices


@dataclass(frozen=True)
class Disturbance:
    """The standard deviation σ of label noise, and q, the root mean square step of the teacher."""

    noise: float
    walk: float

    @classmethod
    def of(cls, noise: Any, walk: Any) -> "Disturbance | None":
        """Return the validated disturbance; None if both are 0."""
        sigma = validate.number(
            "noise", noise, "it is the standard deviation of label noise; 0 for none"
        )
        step = validate.number(
            "walk", walk, "it is the root mean square step of the teacher; 0 if it stays"
        )
        return cls(sigma, step) if sigma or step else None

    @property
    def undefined(self) -> tuple[str, ...]:
        """The metrics that compare outputs with earlier ones, for labels that move meanwhile."""
        return ("drift", "task_drift") if self.walk else ()

    def check(self, names: tuple[str, ...]) -> None:
        """Raise ValueError for metrics that a walking teacher does not have."""
        wrong = [name for name in names if name in self.undefined]
        if wrong:
            raise ValueError(
                f"metrics={', '.join(wrong)} compares outputs with earlier ones, and"
                f" walk={self.walk:g} moves the labels meanwhile; ask for forgetting, seen_loss,"
                " average_loss, next_loss, distance or task_losses"
            )

    def check_law(self, law: Any, ordering: Any, average: float | None) -> None:
        """Raise NoExactLawError for orders other than independent draws, and for averages of
        iterates.
        """
        if not isinstance(law, Draws) or average is not None:
            what = f"ordering={ordering!r}" if average is None else f"average={average:g}"
            raise NoExactLawError(
                "noise and walk have an exact expectation for the last iterate of independent"
                f" draws only, got {what}; use simulate, which takes the same arguments"
            )

    def walk_moment(self, moments: Moments) -> Array:
        """Return Q of shape (Q, Q, 1): what one step of the teacher adds to S."""
        q = moments.tasks.span_dimension
        frame = np.eye(q) if moments.frame is None else moments.frame
        q, result = frame.shape[0], np.zeros((moments.size, moments.size, 1))
        result[:q, :q, 0] = self.walk**2 / moments.tasks.n_features * (frame @ frame.T)
        return result

    def variances(self, moments: Moments) -> Array:
        """Return cσ²/s² of every singular vector, (Σr, 1): the mean square noise of its error, over
        all c targets.
        """
        tasks = moments.tasks
        return (tasks.n_targets * self.noise**2 / tasks.singular_values**2)[:, None]

    def outside(self, name: str, n_steps: int, moments: Moments) -> float:
        """Return what the walk adds to a metric outside the joint span of the rows, where S does
        not reach.
        """
        tasks = moments.tasks
        walked = self.walk**2 / tasks.n_features * max(0, n_steps - 1)
        if name == "distance":
            return walked * (tasks.n_features - tasks.span_dimension)
        return (
            0.5 * walked * moments.other.outside
            if name == OTHER_LOSS and moments.other is not None
            else 0.0
        )

    def errors(
        self,
        errors: dict[str, Floats],
        curves: dict[str, Floats],
        moments: Moments,
        probabilities: Floats,
    ) -> dict[str, Floats]:
        """Return absolute errors of curves with those of noise of variance 1/s², s being rounded
        relative to R.
        """
        tasks = moments.tasks
        rounding = (
            8 * np.finfo(np.float64).eps * np.max(tasks.radii / tasks.singular_values, initial=0.0)
        )
        result = {}
        for name, values in curves.items():
            sizes = np.abs(values)
            # a difference of losses, of which the visits of a task are a part
            if name.endswith("forgetting"):
                seen = 2 * curves["seen_loss"]
                sizes = sizes + (
                    seen[..., None] / np.maximum(probabilities, 1e-300)
                    if name.startswith("task")
                    else seen
                )
            result[name] = errors[name] + rounding * sizes
        return result


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
