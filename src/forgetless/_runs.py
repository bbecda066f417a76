"""The simulation's inner loop over any array library: many trials advance together, step by step."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from forgetless._arrays import Array, from_numpy, namespace_of, to_numpy, zeros
from forgetless.metrics import Floats, Visits
from forgetless.orderings import Indices
from forgetless.step import Coordinates

_BUFFER = 2**20
"""Numbers kept between two updates of the visit statistics: small enough for a cache, large enough to amortise."""


class Run(Protocol):
    """Trials under way: what ``simulate`` needs from a backend."""

    def advance(self, indices: Indices, shares: Floats, kept: Floats) -> None:
        """Make one step per column of ``indices`` (n_trials, T), with φ and 1 − φ of shape (T or 1, Σr)."""

    def outputs(self) -> Floats:
        """Return the outputs s ∘ e of every direction now, of shape (n_trials, c, Σr)."""

    def visits(self, n_steps: int) -> Visits:
        """Return a copy of the visit statistics after ``n_steps`` steps."""

    def weights(self) -> Array:
        """Return the weights now, of shape (n_trials, d, c)."""

    def rebase(self) -> None:
        """Start anew from the current weights, so that rounding does not build up over millions of steps."""


class ArrayRun:
    """Trials as one array of an array-API library, advanced by batched products.

    Two ways of making a step, chosen by a cost model in microseconds that was fitted on the benchmark's problems:
    *gather* copies each trial's map and multiplies in one batched call; *loop* sorts the trials by task and makes one
    product per task. Gathering wins for small maps and many tasks, looping for large maps or many trials per task.
    """

    def __init__(self, coordinates: Coordinates, n_trials: int, track: bool) -> None:
        self.coordinates = coordinates
        self.state = coordinates.initial(n_trials)
        self.moved = zeros(self.state.shape, self.state) if coordinates.gram else None
        self.base: Array | None = None
        tasks = coordinates.tasks
        self.tally = Tally(tasks.offsets, n_trials, tasks.n_targets) if track else None
        self.ranks = np.diff(tasks.offsets)
        self.width = int(self.ranks.max(initial=0))
        self.gathers = not coordinates.gram and self._gather_wins(n_trials)
        if self.gathers:
            self.padded_maps, self.padded_missing = self._pad()

    def _gather_wins(self, n_trials: int) -> bool:
        n_tasks, Q = len(self.ranks), self.state.shape[2]
        if n_tasks * self.width * Q > 4 * self.coordinates.maps.shape[0] * Q + 2**16:
            return False  # ranks too uneven to pad
        distinct = n_tasks * -np.expm1(n_trials * np.log1p(-1 / n_tasks)) if n_tasks > 1 else 1.0
        gather = 10 + n_trials * (0.1 + 6e-4 * self.width * Q)
        loop = 10 + 9 * distinct + 1e-4 * n_trials * self.width * Q
        return bool(gather < loop)

    def _pad(self) -> tuple[Array, Array]:
        """Return maps (M, width, Q) and missing (M, c, width), filled up with zero rows: these learn nothing."""
        maps, missing = self.coordinates.maps, self.coordinates.missing
        xp = namespace_of(maps)
        rows = self._positions(len(maps))
        padded = xp.concat([maps, zeros((1, maps.shape[1]), maps)], axis=0)
        blank = xp.concat([missing, zeros((1, missing.shape[1]), maps)], axis=0)
        index = from_numpy(rows.ravel(), like=maps)
        shape = (len(self.ranks), self.width, -1)
        all_maps = xp.reshape(xp.take(padded, index, axis=0), (*shape[:2], maps.shape[1]))
        all_missing = xp.reshape(xp.take(blank, index, axis=0), (*shape[:2], missing.shape[1]))
        return all_maps, xp.permute_dims(all_missing, (0, 2, 1))

    def _positions(self, blank: int) -> NDArray[np.int64]:
        """Return where each task's directions stand among all, of shape (M, width), ``blank`` where there are fewer."""
        offsets, columns = self.coordinates.tasks.offsets, np.arange(self.width)
        return np.where(columns < self.ranks[:, None], offsets[:-1, None] + columns, blank)

    def advance(self, indices: Indices, shares: Floats, kept: Floats) -> None:
        indices = np.ascontiguousarray(indices.T)
        if self.width == 0:
            self._count(indices, None, kept)
            return
        n_trials, n_targets = self.state.shape[:2]
        size = max(1, _BUFFER // (n_trials * n_targets * self.width))
        for first in range(0, len(indices), size):
            rows = slice(first, first + size)
            part = rows if len(shares) > 1 else slice(0, 1)
            move = self._gather if self.gathers else self._loop
            order, errors = move(indices[rows], shares[part])
            chosen = indices[rows] if order is None else np.take_along_axis(indices[rows], order, axis=1)
            self._count(chosen, errors, kept[part], order)

    def _gather(self, indices: Indices, shares: Floats) -> tuple[None, Array]:
        xp, state = namespace_of(self.state), self.state
        n_steps, n_trials = indices.shape
        blank = np.concatenate([shares, np.zeros((len(shares), 1))], axis=1)
        by_task = blank[:, self._positions(shares.shape[1])]  # (T or 1, M, width)
        tasks = indices.astype(np.int64)
        steps = np.arange(n_steps)[:, None] if len(shares) > 1 else 0
        share = from_numpy(by_task[steps, tasks][:, :, None, :], like=state)
        drawn = from_numpy(tasks, like=state)
        missing = xp.take(self.padded_missing, xp.reshape(drawn, (-1,)), axis=0)
        missing = xp.reshape(missing, (n_steps, n_trials, *missing.shape[1:]))
        errors = zeros((n_steps, n_trials, state.shape[1], self.width), state)
        for t in range(n_steps):
            maps = xp.take(self.padded_maps, drawn[t, :], axis=0)
            error = state @ xp.matrix_transpose(maps)
            error -= missing[t, ...]
            errors[t, ...] = error
            state -= (error * share[t, ...]) @ maps
        return None, errors

    def _loop(self, indices: Indices, shares: Floats) -> tuple[NDArray[np.int64], Array]:
        xp, coordinates = namespace_of(self.state), self.coordinates
        n_steps, n_trials = indices.shape
        order = np.argsort(indices, axis=1, kind="stable")
        inverse = np.argsort(order, axis=1, kind="stable")
        # The trials stay sorted between steps: p_t takes the arrangement of step t − 1 to that of step t.
        before = np.concatenate([np.arange(n_trials)[None, :], inverse[:-1]])
        moves = from_numpy(np.take_along_axis(before, order, axis=1), like=self.state)
        share = from_numpy(shares, like=self.state)
        n_targets, offsets = self.state.shape[1], coordinates.tasks.offsets.tolist()
        errors = zeros((n_steps, n_trials, n_targets, self.width), self.state)
        state, moved = self.state, self.moved
        for t in range(n_steps):
            state = xp.take(state, moves[t, :], axis=0)
            moved = None if moved is None else xp.take(moved, moves[t, :], axis=0)
            counts = np.bincount(indices[t])
            now = share[t if len(shares) > 1 else 0, :]
            a = 0
            for m in np.flatnonzero(counts).tolist():
                b, low, high = a + int(counts[m]), offsets[m], offsets[m + 1]
                maps = coordinates.maps[low:high, :]
                flat = (n_targets * (b - a), -1)
                if coordinates.gram:
                    error = state[a:b, :, low:high]
                else:
                    error = xp.reshape(xp.reshape(state[a:b, ...], flat) @ maps.T, (b - a, n_targets, high - low))
                    error = error - coordinates.missing[low:high, :].T
                errors[t, a:b, :, : high - low] = error
                gain = error * now[low:high]
                if moved is not None:
                    moved[a:b, :, low:high] += gain
                state[a:b, ...] -= xp.reshape(xp.reshape(gain, flat) @ maps, (b - a, n_targets, maps.shape[1]))
                a = b
        back = from_numpy(inverse[-1], like=state)
        self.state = xp.take(state, back, axis=0)
        self.moved = None if moved is None else xp.take(moved, back, axis=0)
        return order, errors

    def _count(
        self, tasks: Indices, errors: Array | None, kept: Floats, trials: NDArray[np.int64] | None = None
    ) -> None:
        """Add steps to the statistics; rows of ``tasks`` and ``errors`` follow the order of ``trials``."""
        if self.tally is None:
            return
        if errors is None:
            self.tally.add(tasks, np.zeros((*tasks.shape, self.state.shape[1], 0)), self._positions(0), trials)
            return
        # Right after a step on m, its own error is (1 − φ) ∘ e: the directions of one task are orthonormal.
        factors = np.concatenate([kept * self.coordinates.tasks.singular_values, np.zeros((len(kept), 1))], axis=1)
        by_task = factors[:, self._positions(kept.shape[1])]
        steps = np.arange(len(tasks))[:, None] if len(kept) > 1 else 0
        outputs = to_numpy(errors) * by_task[steps, tasks.astype(np.int64)][:, :, None, :]
        self.tally.add(tasks, outputs, self._positions(kept.shape[1]), trials)

    def outputs(self) -> Floats:
        return np.asarray(to_numpy(self.coordinates.errors(self.state)) * self.coordinates.tasks.singular_values)

    def visits(self, n_steps: int) -> Visits:
        assert self.tally is not None, "visits are asked for only where they are tracked"
        return self.tally.visits(n_steps)

    def weights(self) -> Array:
        return self.coordinates.weights(self.state, self.moved, self.base)

    def rebase(self) -> None:
        if self.moved is None:
            return
        self.base = self.weights()
        self.state = self.coordinates.errors_of(self.base)
        self.moved = zeros(self.state.shape, self.state)


class Tally:
    """Running count, mean and spread of every task's outputs after its own steps, merged block by block."""

    def __init__(self, offsets: NDArray[np.int64], n_trials: int, n_targets: int) -> None:
        self.ranks = np.diff(offsets)
        self.counts = np.zeros((n_trials, len(self.ranks)))
        self.means = np.zeros((n_trials, n_targets, int(offsets[-1]) + 1))  # one blank column for padding
        self.spread = np.zeros(n_trials)

    def add(
        self, tasks: Indices, outputs: Floats, positions: NDArray[np.int64], trials: NDArray[np.int64] | None
    ) -> None:
        """Add steps: ``outputs`` (T, n_trials, c, width) of ``tasks`` (T, n_trials), directions at ``positions``."""
        n_trials, n_targets, columns = self.means.shape
        trial = np.broadcast_to(np.arange(n_trials), tasks.shape) if trials is None else trials
        task = tasks.astype(np.int64)
        fresh = np.bincount((trial * len(self.ranks) + task).ravel(), minlength=self.counts.size)
        fresh = fresh.reshape(self.counts.shape).astype(np.float64)
        total = self.counts + fresh
        fraction = self._columns(np.divide(fresh, total, out=np.zeros_like(fresh), where=total > 0))
        old, new = self._columns(self.counts), self._columns(fresh)
        keys = (trial[..., None] * columns + positions[task]).ravel()
        owners = np.repeat(trial.ravel(), positions.shape[1])
        for c in range(n_targets):
            values = outputs[:, :, c, :].ravel()
            sums = np.bincount(keys, weights=values, minlength=n_trials * columns).reshape(n_trials, columns)
            means = np.divide(sums, new, out=np.zeros_like(sums), where=new > 0)
            deviations = (values - means.ravel()[keys]) ** 2
            # Chan, Golub & LeVeque (1979): counts, means and spreads of two sets merge without cancellation.
            shift = means - self.means[:, c, :]
            self.spread += np.bincount(owners, weights=deviations, minlength=n_trials)
            self.spread += np.sum(shift**2 * fraction * old, axis=1)
            self.means[:, c, :] += shift * fraction
        self.counts = total

    def _columns(self, per_task: Floats) -> Floats:
        """Repeat values (n_trials, M) for every direction of a task, with a zero for the blank column."""
        return np.concatenate([np.repeat(per_task, self.ranks, axis=1), np.zeros((len(per_task), 1))], axis=1)

    def visits(self, n_steps: int) -> Visits:
        steps = np.full(len(self.spread), n_steps)
        return Visits(steps, self.counts.copy(), self.means[:, :, :-1].copy(), self.spread.copy())
