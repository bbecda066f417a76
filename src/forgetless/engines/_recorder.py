"""Snapshots of trials under way, turned into metrics and weights many at a time."""

import numpy as np
from numpy.typing import NDArray

from forgetless._base.arrays import Floats, from_numpy, namespace_of, to_numpy, zeros
from forgetless.engines._trials import Run, Snapshot
from forgetless.engines.results import Trace
from forgetless.metrics import Visits, evaluate, follows_path

_TOGETHER = 2**18
"""Numbers of snapshots turned into metrics together: large enough for products, small enough for a cache."""


class Recorder:
    """Collects snapshots at the recorded steps; a product for many of them costs little more than for one."""

    def __init__(
        self, run: Run, names: tuple[str, ...], steps: NDArray[np.int64], n_trials: int, weights: bool
    ) -> None:
        self.coordinates, self.names, self.steps, self.n_trials = run.coordinates, names, steps, n_trials
        self.sums = run.task_sums
        self.track = follows_path(names)
        self.done = 0
        self.pending: list[Snapshot] = []
        tasks = run.coordinates.tasks
        per_step = n_trials * (2 * tasks.n_targets * max(1, int(tasks.offsets[-1])) + tasks.n_tasks)
        if weights:
            per_step += n_trials * tasks.n_features * tasks.n_targets
        self.batch = max(1, _TOGETHER // per_step)
        self.values: dict[str, Floats] = {
            name: np.empty((n_trials, len(steps), *((tasks.n_tasks,) if name.startswith("task") else ())))
            for name in names
        }
        shape = (n_trials, len(steps), tasks.n_features, tasks.n_targets)
        self.weights = zeros(shape, tasks[0].X) if weights else None

    def take(self, run: Run, step: int) -> None:
        """Keep a snapshot where the step is a recorded one."""
        position = self.done + len(self.pending)
        if position < len(self.steps) and int(self.steps[position]) == step:
            self.pending.append(run.snapshot(step, self.weights is not None))
            if len(self.pending) == self.batch:
                self.flush()

    def flush(self) -> None:
        """Turn the snapshots so far into metrics and weights; needed before the weights they start from change."""
        if not self.pending:
            return
        parts, xp = self.pending, namespace_of(self.pending[0].state)
        rows = slice(self.done, self.done + len(parts))
        # Snapshots first, trials second: stacked like that, each is copied as a whole.
        state = xp.stack([part.state for part in parts], axis=0)
        outputs = to_numpy(self.coordinates.errors(state)) * self.coordinates.tasks.singular_values
        visits = self._visits(parts)
        sums = self.sums(outputs, visits.means, self.names)
        for name in self.names:
            found = evaluate(name, sums, visits, self.coordinates.tasks)
            self.values[name][:, rows] = np.swapaxes(found, 0, 1)
        if self.weights is not None:
            moved = None if parts[0].moved is None else xp.stack([part.moved for part in parts], axis=0)
            weights = self.coordinates.weights(state, moved, parts[0].base)
            self.weights[:, rows, :, :] = xp.permute_dims(weights, (1, 0, 2, 3))
        self.done += len(parts)
        self.pending = []

    def _visits(self, parts: list[Snapshot]) -> Visits:
        if not self.track:
            empty = np.zeros((len(parts), self.n_trials, 0))
            return Visits(np.zeros((len(parts), self.n_trials), np.int64), empty, empty, empty)
        found = [part.visits for part in parts if part.visits is not None]
        names = ("n_steps", "counts", "means", "spread")
        return Visits(*(np.stack([getattr(each, name) for each in found], axis=0) for name in names))

    def trace(self) -> Trace:
        """Return everything recorded."""
        self.flush()
        tasks = self.coordinates.tasks
        values = {name: from_numpy(value, like=tasks[0].X) for name, value in self.values.items()}
        weights = self.weights
        if weights is not None and not tasks.target_shape:
            weights = weights[..., 0]
        return Trace(self.steps, values, weights)
