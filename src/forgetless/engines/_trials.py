"""The inner loop of simulations in any array library: many trials advance together, step by
step.
"""

import itertools
from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from forgetless._core.arrays import Array, Floats, from_numpy, namespace_of, to_numpy, zeros
from forgetless.engines.coordinates import Coordinates
from forgetless.metrics import TaskSums, task_sums
from forgetless.orderings import Indices

# Numbers kept between two updates of the visit statistics: small enough for a cache, large enough
# to amortise
_BUFFER = 2**20
# Tasks and trials of shape (T, n_trials), in the order in which a method wrote its errors
Order = tuple[Indices, NDArray[np.int64]]
Method = Callable[[Indices, Floats, Array | None], Order]


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
    """Trials as one array of an array-API library, advanced by batched products.

    A step has three implementations, selected by a cost model in microseconds, fitted to
    ``benchmarks/simulation.py``: *group* holds the trials in equal slots per task, so that one
    batched product serves all tasks; *gather* copies each trial's map instead; *loop* sorts the
    trials by task and makes one product per task that occurs. Groups are fastest for many trials
    per task, gathering for many tasks with small maps, loops for large maps or uneven ranks.
    """

    def __init__(
        self, coordinates: Coordinates, n_trials: int, track: bool, gains: Floats | None = None
    ) -> None:
        self.coordinates = coordinates
        self.state = coordinates.initial(n_trials)
        self.updates = zeros(self.state.shape, self.state) if coordinates.gram else None
        self.base: Array | None = None
        self.gains, self.done = gains, 0
        self.average, self.average_updates = coordinates.initial(n_trials), self.updates
        tasks = coordinates.tasks
        self.tally = Tally(tasks.offsets, n_trials, tasks.n_targets) if track else None
        self.ranks = np.diff(tasks.offsets)
        self.width = int(self.ranks.max(initial=0))
        self.positions = self._positions(int(tasks.offsets[-1]))
        self.method = self._choose(n_trials)
        if self.method is not self._loop:
            self.padded_maps, self.padded_missing = self._pad()

    def _choose(self, n_trials: int) -> Method:
        n_tasks, Q = len(self.ranks), self.state.shape[2]
        uneven = n_tasks * self.width * Q > 4 * self.coordinates.maps.shape[0] * Q + 2**16
        if self.coordinates.gram or uneven or self.width == 0:
            return self._loop
        size = self.width * Q
        distinct = n_tasks * -np.expm1(n_trials * np.log1p(-1 / n_tasks)) if n_tasks > 1 else 1.0
        # the fullest group sets the size of all
        fullest = n_trials + 4 * np.sqrt(n_trials * n_tasks)
        costs: dict[Method, float] = {
            self._group: 6 + n_tasks + 0.03 * n_trials + 2e-4 * fullest * size,
            self._gather: 8 + n_trials * (0.01 + 0.004 * min(size, 20) + 4.5e-4 * size),
            self._loop: 10 + 9 * distinct + 1e-4 * n_trials * size,
        }
        return min(costs, key=lambda method: costs[method])

    def _pad(self) -> tuple[Array, Array]:
        """Return maps (M, width, Q) and missing (M, width, c), padded with zero rows, which have no
        effect.
        """
        maps, missing = self.coordinates.maps, self.coordinates.missing
        xp = namespace_of(maps)
        padded = xp.concat([maps, zeros((1, maps.shape[1]), maps)], axis=0)
        blank = xp.concat([missing, zeros((1, missing.shape[1]), maps)], axis=0)
        index = from_numpy(self.positions.ravel(), like=maps)
        shape = (len(self.ranks), self.width)
        return (
            xp.reshape(xp.take(padded, index, axis=0), (*shape, maps.shape[1])),
            xp.reshape(xp.take(blank, index, axis=0), (*shape, missing.shape[1])),
        )

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
                errors = zeros((len(indices[rows]), n_trials, n_targets, self.width), self.state)
            tasks, trials = self.method(indices[rows], factors[part], errors)
            if self.tally is not None:
                self._count(tasks.astype(np.int64), trials, errors, residuals[part])

    def _average(self, indices: Indices, factors: Floats, gains: Floats) -> None:
        """Make steps one by one, each followed by an update of the averages, whose outputs are
        tallied.
        """
        tasks, outputs = indices.astype(np.int64), []
        for t, gain in enumerate(gains.tolist()):
            self.method(indices[t : t + 1], part_of(factors, t, t + 1), None)
            self.average = self.average + gain * (self.state - self.average)
            if self.updates is not None:
                self.average_updates = self.average_updates + gain * (
                    self.updates - self.average_updates
                )
            if self.tally is not None:
                errors = (
                    to_numpy(self.coordinates.errors(self.average))
                    * self.coordinates.tasks.singular_values
                )
                padded = np.concatenate([errors, np.zeros((*errors.shape[:2], 1))], axis=2)
                outputs.append(
                    np.take_along_axis(padded, self.positions[tasks[t]][:, None, :], axis=2)
                )
        if self.tally is not None:
            trials = np.broadcast_to(np.arange(tasks.shape[1]), tasks.shape)
            self.tally.add(tasks, trials, np.stack(outputs), self.positions)
        self.done += len(tasks)

    def _group(self, indices: Indices, factors: Floats, errors: Array | None) -> Order:
        xp, maps, n_tasks = namespace_of(self.state), self.padded_maps, len(self.ranks)
        n_trials, n_targets, Q = self.state.shape
        slots, sources, size = _slots(indices, n_tasks)
        # One row per slot and target; all that is constant is laid out like the rows, so that
        # nothing broadcasts.
        targets = np.arange(n_targets)
        moves, places = (
            from_numpy(
                (slot[:, :, None] * n_targets + targets).reshape(len(indices), -1), like=maps
            )
            for slot in (sources, slots)
        )
        transposed = xp.asarray(xp.matrix_transpose(maps), copy=True)
        missing = xp.tile(xp.matrix_transpose(self.padded_missing), (1, size, 1))
        factor = from_numpy(self._by_task(factors)[:, :, None, :], like=maps)
        state = xp.reshape(self.state, (n_trials * n_targets, Q))
        for t in range(len(indices)):
            grouped = xp.reshape(
                xp.take(state, moves[t, :], axis=0), (n_tasks, size * n_targets, Q)
            )
            error = grouped @ transposed
            error -= missing
            if errors is not None:
                rows = xp.take(xp.reshape(error, (-1, self.width)), places[t, :], axis=0)
                errors[t, ...] = xp.reshape(rows, errors.shape[1:])
            error *= factor[t if len(factors) > 1 else 0, ...]
            grouped -= error @ maps
            state = xp.reshape(grouped, (-1, Q))
        self.state = xp.reshape(xp.take(state, places[-1, :], axis=0), self.state.shape)
        return indices, np.broadcast_to(np.arange(n_trials), indices.shape)

    def _gather(self, indices: Indices, factors: Floats, errors: Array | None) -> Order:
        xp, maps, missing = namespace_of(self.state), self.padded_maps, self.padded_missing
        factor = from_numpy(self._by_task(factors)[..., None], like=maps)
        task_indices = from_numpy(indices.astype(np.int64), like=maps)
        # targets last, so that neither product needs a copy
        state = xp.matrix_transpose(self.state)
        for t in range(len(indices)):
            now = task_indices[t, :]
            trial_maps = xp.take(maps, now, axis=0)
            error = trial_maps @ state
            error -= xp.take(missing, now, axis=0)
            if errors is not None:
                errors[t, ...] = xp.matrix_transpose(error)
            error *= xp.take(factor[t if len(factors) > 1 else 0, ...], now, axis=0)
            state -= xp.matrix_transpose(trial_maps) @ error
        self.state = xp.matrix_transpose(state)
        return indices, np.broadcast_to(np.arange(indices.shape[1]), indices.shape)

    def _loop(self, indices: Indices, factors: Floats, errors: Array | None) -> Order:
        xp, coordinates = namespace_of(self.state), self.coordinates
        n_steps, n_trials = indices.shape
        order = np.argsort(indices, axis=1, kind="stable")
        tasks = np.take_along_axis(indices, order, axis=1)
        inverse = np.argsort(order, axis=1, kind="stable")
        # The trials stay sorted between steps: moves take the arrangement of one step to that of
        # the next.
        before = np.concatenate([np.arange(n_trials)[None, :], inverse[:-1]])
        moves = from_numpy(np.take_along_axis(before, order, axis=1), like=self.state)
        factor = from_numpy(factors, like=self.state)
        n_targets, offsets = self.state.shape[1], coordinates.tasks.offsets.tolist()
        state, updates = self.state, self.updates
        groups = _runs(tasks)
        for t in range(n_steps):
            state = xp.take(state, moves[t, :], axis=0)
            updates = None if updates is None else xp.take(updates, moves[t, :], axis=0)
            now = factor[t if len(factors) > 1 else 0, :]
            for m, a, b in groups[t]:
                low, high = offsets[m], offsets[m + 1]
                maps = coordinates.maps[low:high, :]
                if coordinates.gram:
                    error = state[a:b, :, low:high]
                else:
                    flat = xp.reshape(state[a:b, ...], (n_targets * (b - a), maps.shape[1]))
                    error = xp.reshape(flat @ maps.T, (b - a, n_targets, high - low))
                    error -= coordinates.missing[low:high, :].T
                if errors is not None:
                    errors[t, a:b, :, : high - low] = error
                gain = error * now[low:high]
                if updates is not None:
                    updates[a:b, :, low:high] += gain
                change = xp.reshape(gain, (n_targets * (b - a), high - low)) @ maps
                state[a:b, ...] -= xp.reshape(change, (b - a, n_targets, maps.shape[1]))
        back = from_numpy(inverse[-1], like=state)
        self.state = xp.take(state, back, axis=0)
        self.updates = None if updates is None else xp.take(updates, back, axis=0)
        return tasks, order

    def _by_task(self, values: Floats) -> Floats:
        """Return values (T, Σr) arranged by task, (T, M, width), padded with zeros."""
        blank = np.concatenate([values, np.zeros((len(values), 1))], axis=1)
        return blank[:, self.positions]

    def _count(
        self, tasks: NDArray[np.int64], trials: NDArray[np.int64], errors: Array, residuals: Floats
    ) -> None:
        """Add steps to the tally; along the second axis everything is in the order of
        ``trials``.
        """
        assert self.tally is not None
        # Right after a step on m, its own error is (1 − φ) ∘ e: the singular vectors of one task
        # are orthonormal.
        factors = self._by_task(residuals * self.coordinates.tasks.singular_values)
        steps = np.arange(len(tasks))[:, None] if len(residuals) > 1 else 0
        outputs = to_numpy(errors) * factors[steps, tasks][:, :, None, :]
        self.tally.add(tasks, trials, outputs, self.positions)

    def task_sums(self, outputs: Floats, means: Floats, names: tuple[str, ...]) -> TaskSums:
        return task_sums(outputs, means, self.coordinates.tasks, names)

    def snapshot(self, weights: bool) -> Snapshot:
        xp = namespace_of(self.state)
        state, updates = (
            (self.state, self.updates)
            if self.gains is None
            else (self.average, self.average_updates)
        )
        updates = xp.asarray(updates, copy=True) if weights and updates is not None else None
        visits = None if self.tally is None else self.tally.visits()
        return Snapshot(xp.asarray(state, copy=True), updates, self.base, visits)

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
        self.updates = zeros(self.state.shape, self.state)


def _runs(tasks: Indices) -> list[list[tuple[int, int, int]]]:
    """Return for each row of sorted task indices its runs as (task, first, last + 1)."""
    n_steps, n_trials = tasks.shape
    new = np.ones((n_steps, n_trials), dtype=bool)
    new[:, 1:] = tasks[:, 1:] != tasks[:, :-1]
    steps, firsts = np.nonzero(new)
    lasts = np.append(firsts[1:], 0)
    lasts[lasts == 0] = n_trials
    runs = list(zip(tasks[steps, firsts].tolist(), firsts.tolist(), lasts.tolist(), strict=True))
    ends = np.cumsum(new.sum(axis=1)).tolist()
    return [runs[a:b] for a, b in zip([0, *ends[:-1]], ends, strict=True)]


def _slots(indices: Indices, n_tasks: int) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """Return an assignment of the trials of every step to equal groups of slots, one group per
    task.

    These are the slots (T, n_trials) of each trial; for every slot the one of the same trial one
    step before (T, n_tasks · size), trial i being in slot i before the first step and unused slots
    having an arbitrary source; and the number of slots per task.
    """
    n_steps, n_trials = indices.shape
    order = np.argsort(indices, axis=1, kind="stable")
    tasks = np.take_along_axis(indices, order, axis=1).astype(np.int64)
    keys = np.arange(n_steps)[:, None] * n_tasks + indices
    counts = np.bincount(keys.ravel(), minlength=n_steps * n_tasks).reshape(n_steps, n_tasks)
    size = int(counts.max())
    heads = np.cumsum(counts, axis=1) - counts
    slots = np.empty((n_steps, n_trials), np.int64)
    sorted_slots = tasks * size + np.arange(n_trials) - np.take_along_axis(heads, tasks, axis=1)
    np.put_along_axis(slots, order, sorted_slots, axis=1)
    sources = np.zeros((n_steps, n_tasks * size), np.int64)
    np.put_along_axis(
        sources, slots, np.concatenate([np.arange(n_trials)[None, :], slots[:-1]]), axis=1
    )
    return slots, sources, size


class Tally:
    """Running counts, means and spreads of every task's outputs after its own steps, merged block
    by block.
    """

    def __init__(self, offsets: NDArray[np.int64], n_trials: int, n_targets: int) -> None:
        self.ranks = np.diff(offsets)
        self.counts = np.zeros((n_trials, len(self.ranks)))
        # one blank column for padding
        self.means = np.zeros((n_trials, n_targets, int(offsets[-1]) + 1))
        self.spread = np.zeros((n_trials, len(self.ranks)))

    def add(
        self,
        task: NDArray[np.int64],
        trial: NDArray[np.int64],
        outputs: Floats,
        positions: NDArray[np.int64],
    ) -> None:
        """Add steps: ``outputs`` (T, n_trials, c, width) of ``task`` (T, n_trials), at
        ``positions`` among all.
        """
        n_trials, n_targets, columns = self.means.shape
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
