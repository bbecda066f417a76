"""The recorder of a simulation: snapshots of trials, converted to metrics and weights in batches."""

import math

import numpy as np
from numpy.typing import NDArray

from forgetless._core.arrays import Array, Floats, from_numpy, namespace_of, to_numpy, zeros
from forgetless.engines._trials import Run, Snapshot
from forgetless.engines.results import Trace
from forgetless.metrics import Visits, evaluate, follows_path

# Numbers in one batch of snapshots: in most runs all of them, in one product at the end. A threaded product between the
# steps would slow these down, because its threads spin for a while after it.
_TOGETHER = 2**22
_WEIGHTS = 2**18  # temporary weights in memory at once


class Recorder:
    """A buffer of snapshots at the recorded steps: a product for many of them costs little more than for one."""

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
        self.batch = max(1, _TOGETHER // per_step)
        self.values: dict[str, Floats] = {
            name: np.empty((n_trials, len(steps), *((tasks.n_tasks,) if name.startswith("task") else ())))
            for name in names
        }
        shape = (n_trials, len(steps), tasks.n_features, tasks.n_targets)
        self.weights = zeros(shape, tasks[0].X) if weights else None

    @property
    def keeps_weights(self) -> bool:
        """Whether snapshots must contain the updates from which weights are computed."""
        return self.weights is not None

    @property
    def room(self) -> int:
        """Number of snapshots that may be taken before the next ``add``."""
        return self.batch - len(self.pending)

    def add(self, snapshots: list[Snapshot]) -> None:
        """Add snapshots of the next recorded steps."""
        self.pending += snapshots
        if len(self.pending) >= self.batch:
            self.flush()

    def flush(self) -> None:
        """Convert the buffered snapshots to metrics and weights, which depends on the base of the updates."""
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
            values = evaluate(name, sums, visits, self.coordinates.tasks)
            self.values[name][:, rows] = np.swapaxes(values, 0, 1)
        if self.weights is not None:
            self._keep_weights(self.weights, state)
        self.done += len(parts)
        self.pending = []

    def _keep_weights(self, weights: Array, state: Array) -> None:
        parts, xp = self.pending, namespace_of(state)
        at_once = max(1, _WEIGHTS // math.prod((weights.shape[0], *weights.shape[2:])))
        for first in range(0, len(parts), at_once):
            few = parts[first : first + at_once]
            updates = None if few[0].updates is None else xp.stack([part.updates for part in few], axis=0)
            block = self.coordinates.weights(state[first : first + len(few), ...], updates, few[0].base)
            rows = slice(self.done + first, self.done + first + len(few))
            weights[:, rows, :, :] = xp.permute_dims(block, (1, 0, 2, 3))

    def _visits(self, parts: list[Snapshot]) -> Visits:
        if not self.track:
            empty = np.zeros((len(parts), self.n_trials, 0))
            return Visits(np.zeros((len(parts), self.n_trials), np.int64), empty, empty, empty)
        steps = np.broadcast_to(self.steps[self.done : self.done + len(parts), None], (len(parts), self.n_trials))
        visits = [part.visits for part in parts if part.visits is not None]
        counts, means, spread = (np.stack([each[i] for each in visits], axis=0) for i in range(3))
        return Visits(steps, counts, means, spread)

    def trace(self) -> Trace:
        """Return the trace of all recorded steps."""
        self.flush()
        tasks = self.coordinates.tasks
        values = {name: from_numpy(value, like=tasks[0].X) for name, value in self.values.items()}
        weights = self.weights
        if weights is not None and not tasks.target_shape:
            weights = weights[..., 0]
        return Trace(self.steps, values, weights)
