"""Exact expectations over random orders without replacement, by dynamic programming over subsets of
tasks.

Given that the first t tasks are the set A, in uniformly random order, S(A) = E[U Uᵀ | A] satisfies

    S(A) = (1/t) Σ_{m ∈ A} M_m S(A∖m) M_mᵀ,

so that level t (all sets of t tasks) follows from level t − 1, and only two levels are in memory.
Every task of A has one visit, or e + 1 visits after e full epochs, so the metrics of the path need
little more per set:

* F(A), the expected sum over visits of L(w_t) − L(w_s), a number that grows by exact differences;
* W(A), the expected sum of ‖X(w_t − w_s)‖², and for it X(A) = E[Σ_s H_τs (z_t − z_s) U_tᵀ | A].

Sets are numbered in colexicographic order, the order of the masks Σ 2^m: the rank of {a_0 < a_1 <
…} is Σ_i C(a_i, i + 1), and the sets inside {0..c − 1} are the first C(c, t) of their level.
"""

import itertools
from copy import copy
from dataclasses import dataclass
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forgetless._core.arrays import Array, Floats
from forgetless._core.compiled import compiled
from forgetless._core.validate import check_memory
from forgetless.engines.moments import OF_MOMENTS, Moments, of_moments
from forgetless.metrics import mean_of

_LARGEST_LEVELS = 2.0**32
"""Bytes that two levels may take: 2^M sets are soon more than any machine has."""


@dataclass
class Level:
    """The conditional expectations of all sets of t tasks, after some full epochs; None where not
    needed.
    """

    t: int
    S: Array  # (n_sets, Q, Q), or lower triangles (n_sets, Q(Q+1)/2) in compiled levels
    F: Array | None = None  # (n_sets,)
    X: Array | None = None  # (n_sets, Q, Q)
    W: Array | None = None  # (n_sets,)
    # (n_sets,): sums of the losses of visited tasks, for compiled levels only
    seen: Array | None = None


def members(n_tasks: int, t: int) -> NDArray[np.int64]:
    """Return all sets of t tasks in colexicographic order, of shape (C(M, t), t), elements
    increasing.
    """
    if 2 * t > n_tasks:  # complements come in the opposite order, and are smaller
        inside = np.ones((comb(n_tasks, t), n_tasks), dtype=bool)
        np.put_along_axis(inside, members(n_tasks, n_tasks - t)[::-1], False, axis=1)
        return np.nonzero(inside)[1].reshape(-1, t)
    sets = np.zeros((1, 0), np.int64)
    for size in range(1, t + 1):
        blocks = []
        for largest in range(size - 1, n_tasks):
            smaller = sets[: comb(largest, size - 1)]
            blocks.append(np.concatenate([smaller, np.full((len(smaller), 1), largest)], axis=1))
        sets = np.concatenate(blocks)
    return sets


def binomials(n_tasks: int, t: int) -> NDArray[np.int64]:
    """Return C(a, i) for a ≤ M and i ≤ t; those beyond any rank that can occur are cut at 2⁶²."""
    return np.array(
        [[min(comb(a, i), 2**62) for i in range(t + 1)] for a in range(n_tasks + 1)], dtype=np.int64
    )


def _predecessors(n_tasks: int, t: int) -> NDArray[np.int64]:
    """Return the rank of A∖m among sets of t − 1, of shape (C(M, t), M); C(M, t − 1) where m is not
    in A.
    """
    sets = members(n_tasks, t)
    table = binomials(n_tasks, t)
    # C(a_i, i + 1): elements before the removed one keep their place
    below = table[sets, np.arange(1, t + 1)]
    above = table[sets, np.arange(t)]  # C(a_i, i): elements after it move down by one
    prefix = np.cumsum(below, axis=1) - below
    suffix = np.cumsum(above[:, ::-1], axis=1)[:, ::-1] - above
    result = np.full((len(sets), n_tasks), comb(n_tasks, t - 1), dtype=np.int64)
    np.put_along_axis(result, sets, prefix + suffix, axis=1)
    return result


class SubsetProgram:
    """The recursion from level to level; ``_subsets_numba`` is the compiled version."""

    def __init__(self, moments: Moments, *, path: bool, drift: bool) -> None:
        self.moments, self.tasks = moments, moments.tasks
        self.path, self.drift = path, drift
        self.bounds = list(itertools.pairwise(self.tasks.offsets.tolist()))
        self.losses, self.drifts = self._task_forms(moments.right), self._task_forms(moments.moves)

    def _task_forms(self, rows: Array) -> list[Array]:
        """Return the form of the squared outputs of every task."""
        scale = self.tasks.singular_values[:, None] ** 2
        return [
            rows[low:high, :].T @ (scale[low:high, :] * rows[low:high, :])
            for low, high in self.bounds
        ]

    def of_task(self, m: int) -> "SubsetProgram":
        """Return the program whose metrics of the path count the visits of task m alone."""
        one = copy(self)
        one.losses, one.drifts = (
            [form if i == m else 0.0 * form for i, form in enumerate(forms)]
            for forms in (self.losses, self.drifts)
        )
        return one

    def check_size(self, k: int) -> None:
        """Raise MemoryError for levels that do not fit into memory."""
        M = self.tasks.n_tasks
        steps = range(1, min(k, M) + 1)
        widest = max((comb(M, t) + comb(M, t - 1) for t in steps), default=1)
        check_memory(
            widest * self._numbers_per_set(),
            f"the exact expectation without replacement over sets of up to {min(k, M)} of {M} tasks"
            f" ({sum(comb(M, t) * t for t in steps):,} updates)",
            "use simulate(ordering=WithoutReplacement(), n_trials=…) for a Monte Carlo estimate",
            _LARGEST_LEVELS,
        )

    def _numbers_per_set(self) -> float:
        # S with the temporaries of one step, the forms of the path, X, and the predecessors of each
        # set.
        matrices = 4.0 + 3.0 * self.path + 4.0 * self.drift
        return matrices * self.moments.size**2 + 2.0 * self.tasks.n_tasks

    def empty_set(self, S: Array, F: float = 0.0, X: Array | None = None, W: float = 0.0) -> Level:
        """Return level 0 from the values before the first task, or after a full epoch."""
        level = Level(0, self._pack(S)[None, ...])
        if self.path:
            level.F = np.zeros((1,)) + F
        if self.drift:
            level.X = (np.zeros(S.shape) if X is None else X)[None, :, :]
            level.W = np.zeros((1,)) + W
        return level

    def uniform(self, t: int, n_sets: int, S: Array) -> Level:
        """Return level t with the same S for every set, for recursions of S alone."""
        packed = self._pack(S)
        return Level(t, np.broadcast_to(packed[None, ...], (n_sets, *packed.shape)))

    def next_epoch(self, level: Level) -> Level:
        """Return level 0 of the next epoch from the last level, that of all tasks."""
        used = (self.path, level.F), (self.drift, level.W)
        F, W = (
            float(values[0]) if needed and values is not None else 0.0 for needed, values in used
        )
        X = level.X[0, :, :] if self.drift and level.X is not None else None
        return self.empty_set(self.full(level), F, X, W)

    def raised(self, level: Level, factors: Floats, epochs: int = 0) -> Level:
        """Return level t + 1 from level t with the factors (Σr,) of that step, after ``epochs``
        full epochs.
        """
        n_tasks, t = self.tasks.n_tasks, level.t + 1
        before = _predecessors(n_tasks, t)
        forms = self._forms(level.t, epochs) if self.path else None
        phi = factors
        totals: list[Array] | None = None
        for m in range(n_tasks):
            parts = self._step(m, level, phi, forms)
            index = before[:, m]
            selected = []
            for part in parts:
                blank = np.zeros((1, *part.shape[1:]))
                selected.append(np.take(np.concatenate([part, blank], axis=0), index, axis=0))
            totals = (
                selected
                if totals is None
                else [total + part for total, part in zip(totals, selected, strict=True)]
            )
        assert totals is not None
        means = [total / t for total in totals]
        return Level(t, means[0], *means[1:])

    def mapped(self, level: Level, N: Array) -> Level:
        """Return N S Nᵀ for every set, for recursions of S alone."""
        S = N @ level.S @ N.T
        return Level(level.t, 0.5 * (S + np.matrix_transpose(S)))

    def _forms(self, t: int, epochs: int) -> tuple[Array, Array]:
        """Return Σ over visits of H_τ for every set of level t, for losses and for drifts."""
        sets = members(self.tasks.n_tasks, t)
        counts = np.full((len(sets), self.tasks.n_tasks), float(epochs))
        np.put_along_axis(counts, sets, epochs + 1.0, axis=1)
        weights, size = counts, self.moments.size
        totals = [
            weights @ np.reshape(np.stack(forms), (-1, size * size))
            for forms in (self.losses, self.drifts)
        ]
        return np.reshape(totals[0], (len(sets), size, size)), np.reshape(
            totals[1], (len(sets), size, size)
        )

    def _step(
        self, m: int, level: Level, phi: Array, forms: tuple[Array, Array] | None
    ) -> list[Array]:
        """Return the new values of every set of the level after a step on task m."""
        low, high = self.bounds[m]
        L, R, factor = (
            self.moments.left[low:high, :],
            self.moments.right[low:high, :],
            phi[low:high],
        )
        T = level.S @ R.T
        K = R @ T
        Y = (T - 0.5 * (L.T * factor) @ K) * factor
        half = Y @ L
        change = half + np.matrix_transpose(half)
        parts = [level.S - change]
        if level.F is not None:
            assert forms is not None
            parts.append(level.F - 0.5 * np.sum(forms[0] * change, axis=(1, 2)))
        if level.X is not None:
            assert forms is not None
            gained = level.X - forms[1] @ (L.T * factor) @ np.matrix_transpose(T)
            parts.append(gained - (gained @ R.T * factor) @ L)
            cross = np.sum(np.sum((L @ level.X) * R, axis=2) * factor, axis=1)
            inner = L @ forms[1] @ L.T * factor * factor[:, None]
            parts.append(level.W - 2.0 * cross + np.sum(inner * K, axis=(1, 2)))
        return parts

    def full(self, level: Level) -> Array:
        """Return the mean of S over the sets of a level."""
        return self._unpack(np.mean(level.S, axis=0))

    def _pack(self, S: Array) -> Array:
        """Return the stored form of a symmetric matrix."""
        return S

    def _unpack(self, packed: Array) -> Array:
        return packed

    def evaluate(self, name: str, level: Level, n_steps: int, epochs: int) -> Any:
        """Return one metric after ``n_steps`` steps, from the level reached."""
        if name in OF_MOMENTS:
            return of_moments(name, self.moments, self.full(level)[:, :, None])[0]
        floor = float(self.tasks.floors.mean())
        if name == "average_loss":
            return float(mean_of(name, self._mean_output(level, None), self.tasks.n_tasks, floor))
        if name == "seen_loss":
            return float(mean_of(name, self._mean_output(level, epochs), n_steps, floor))
        sums = level.F if name == "forgetting" else level.W
        assert sums is not None
        return float(mean_of(name, sums.mean(), n_steps))

    def _mean_output(self, level: Level, epochs: int | None) -> float:
        """Return the mean over sets of ½ Σ_j s_j² R_j S R_jᵀ, each task as often as visited (once
        for None).
        """
        R = self.moments.right
        scale = self.tasks.singular_values[:, None] ** 2
        if epochs is None:
            return 0.5 * float(np.sum(scale * (R @ self.full(level)) * R))
        forms, _ = self._forms(level.t, epochs)
        return 0.5 * float(np.mean(np.sum(forms * level.S, axis=(1, 2))))


def program(moments: Moments, *, path: bool, drift: bool) -> SubsetProgram:
    """Return the subset program, compiled where numba is installed."""
    module = compiled("engines._subsets_numba")
    kind: type[SubsetProgram] = module.CompiledSubsetProgram if module else SubsetProgram
    return kind(moments, path=path, drift=drift)
