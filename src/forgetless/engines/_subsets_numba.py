"""The dynamic program over subsets compiled by numba, with symmetric matrices stored as their lower triangles."""

from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forgetless._core.arrays import Floats
from forgetless._core.compiled import jit, n_threads, spread
from forgetless.engines._subsets import SubsetProgram, binomials
from forgetless.engines.moments import Moments

_FAST = {"reassoc", "contract"}


@jit(fastmath=_FAST, nogil=True)
def _raise_sets(
    first: int,
    last: int,
    t: int,
    table: NDArray[np.int64],
    offsets: NDArray[np.int64],
    L: Floats,
    R: Floats,
    phi: Floats,
    old_S: Floats,
    new_S: Floats,
    path: bool,
    loss_forms: Floats,
    old_F: Floats,
    new_F: Floats,
    seen: Floats,
    drift: bool,
    drift_forms: Floats,
    old_X: Floats,
    new_X: Floats,
    old_W: Floats,
    new_W: Floats,
) -> None:
    """Write level t for the sets number first..last − 1; see ``_subsets`` for the recursions.

    ``table[a, i]`` is C(a, i). The last of the forms is that of all earlier epochs, the others those of one visit.
    """
    n_tasks, Q, total = len(offsets) - 1, L.shape[1], L.shape[0]
    sets = np.empty(t, np.int64)
    rest = first
    for i in range(t - 1, -1, -1):  # the largest a with C(a, i + 1) ≤ rest
        largest = i
        while largest + 1 < n_tasks and table[largest + 1, i + 1] <= rest:
            largest += 1
        sets[i] = largest
        rest -= table[largest, i + 1]
    size = Q * (Q + 1) // 2
    mean, half = np.empty(size), np.empty((Q, Q))
    T, Y, K = np.empty((total, Q)), np.empty((total, Q)), np.empty((total, total))
    H, G = np.empty((Q, Q)), np.empty((Q, Q))
    X, mean_X = np.empty((Q, Q)), np.empty((Q, Q))
    B, row = np.empty((total, Q)), np.empty(Q)
    for number in range(first, last):
        mean[:] = 0.0
        mean_X[:, :] = 0.0
        F, W = 0.0, 0.0
        if path:
            H[:, :] = loss_forms[n_tasks]
            for i in range(t):
                H += loss_forms[sets[i]]
        if drift:
            G[:, :] = drift_forms[n_tasks]
            for i in range(t):
                G += drift_forms[sets[i]]
        before = 0
        after = 0
        for i in range(1, t):
            after += table[sets[i], i]
        for i in range(t):
            m, source = sets[i], before + after
            before += table[sets[i], i + 1]
            if i + 1 < t:
                after -= table[sets[i + 1], i + 1]
            low, high = offsets[m], offsets[m + 1]
            r = high - low
            for j in range(r):
                for y in range(Q):
                    T[j, y] = 0.0
                c = 0
                for x in range(Q):  # row x of the triangle serves both halves of the symmetric product
                    w, a = R[low + j, x], 0.0
                    for y in range(x):
                        T[j, y] += w * old_S[source, c + y]
                        a += R[low + j, y] * old_S[source, c + y]
                    T[j, x] += a + w * old_S[source, c + x]
                    c += x + 1
            for j in range(r):
                for o in range(r):
                    a = 0.0
                    for x in range(Q):
                        a += T[j, x] * R[low + o, x]
                    K[j, o] = a
            for j in range(r):
                for y in range(Q):
                    a = T[j, y]
                    for o in range(r):
                        a -= 0.5 * K[j, o] * phi[low + o] * L[low + o, y]
                    Y[j, y] = a * phi[low + j]
            c = 0
            for x in range(Q):
                for y in range(x + 1):
                    mean[c + y] += old_S[source, c + y]
                for j in range(r):
                    u, v = L[low + j, x], Y[j, x]
                    for y in range(x + 1):
                        mean[c + y] -= u * Y[j, y] + v * L[low + j, y]
                c += x + 1
            if path:
                # ½⟨H(A∖m), change⟩ = −Σ_j Y_j H(A∖m) L_jᵀ, with the form of A∖m as that of A less one visit of m.
                F += old_F[source]
                for j in range(r):
                    for x in range(Q):
                        a = 0.0
                        for y in range(Q):
                            a += (H[x, y] - loss_forms[m, x, y]) * L[low + j, y]
                        F -= Y[j, x] * a
            if drift:
                W += old_W[source]
                for j in range(r):
                    for x in range(Q):
                        a = 0.0
                        for y in range(Q):
                            a += (G[x, y] - drift_forms[m, x, y]) * L[low + j, y]
                        B[j, x] = a
                for x in range(Q):
                    for y in range(Q):
                        a = old_X[source, x, y]
                        X[x, y] = a
                        half[x, y] = a
                for j in range(r):
                    a = 0.0
                    for x in range(Q):
                        for y in range(Q):
                            a += L[low + j, x] * X[x, y] * R[low + j, y]
                    W -= 2.0 * phi[low + j] * a
                    for o in range(r):
                        b = 0.0
                        for x in range(Q):
                            b += B[j, x] * L[low + o, x]
                        W += phi[low + j] * phi[low + o] * K[j, o] * b
                    for x in range(Q):
                        w = B[j, x] * phi[low + j]
                        for y in range(Q):
                            half[x, y] -= w * T[j, y]
                for x in range(Q):
                    for y in range(Q):
                        row[y] = half[x, y]
                    for j in range(r):
                        a = 0.0
                        for y in range(Q):
                            a += half[x, y] * R[low + j, y]
                        a *= phi[low + j]
                        for y in range(Q):
                            row[y] -= a * L[low + j, y]
                    for y in range(Q):
                        mean_X[x, y] += row[y]
        for c in range(size):
            new_S[number, c] = mean[c] / t
        if path:
            new_F[number] = F / t
            c, a = 0, 0.0
            for x in range(Q):
                for y in range(x + 1):
                    a += (H[x, y] if x == y else 2.0 * H[x, y]) * mean[c + y]
                c += x + 1
            seen[number] = 0.5 * a / t
        if drift:
            new_W[number] = W / t
            for x in range(Q):
                for y in range(Q):
                    new_X[number, x, y] = mean_X[x, y] / t
        i = 0  # the next set in colexicographic order
        while i + 1 < t and sets[i] + 1 == sets[i + 1]:
            sets[i] = i
            i += 1
        sets[i] += 1


_raise: Any = _raise_sets

_FULL = 2**18
"""Entries of full matrices held at once."""


class CompiledLevel:
    """Level t with S as lower triangles (n_sets, Q(Q+1)/2); other fields as in ``Level``, empty if not asked for."""

    def __init__(self, t: int, n_sets: int, size: int, *, path: bool, drift: bool) -> None:
        self.t = t
        self.S = np.empty((n_sets, size * (size + 1) // 2))
        self.F = np.zeros(n_sets if path else 0)
        self.seen = np.zeros(n_sets if path else 0)
        self.X = np.zeros((n_sets if drift else 0, size, size))
        self.W = np.zeros(n_sets if drift else 0)


class CompiledSubsetProgram(SubsetProgram):
    """The same as ``SubsetProgram`` for NumPy tasks, some 10 times faster and with a fraction of the memory."""

    def __init__(self, moments: Moments, *, path: bool, drift: bool) -> None:
        super().__init__(moments, path=path, drift=drift)
        self.triangle = np.tril_indices(moments.size)

    def _numbers_per_set(self) -> float:
        size = self.moments.size
        return size * (size + 1) / 2 + 2.0 * self.path + self.drift * (size**2 + 1.0)

    def empty_set(self, S: Any, F: float = 0.0, X: Any = None, W: float = 0.0) -> Any:
        level = CompiledLevel(0, 1, self.moments.size, path=self.path, drift=self.drift)
        level.S[0] = S[self.triangle]
        if self.path:
            level.F[0] = F
        if self.drift:
            level.W[0] = W
            level.X[0] = 0.0 if X is None else X
        return level

    def uniform(self, t: int, n_sets: int, S: Any) -> Any:
        level = CompiledLevel(t, n_sets, self.moments.size, path=False, drift=False)
        level.S[:] = S[self.triangle]
        return level

    def next_epoch(self, level: Any) -> Any:
        F, W = (float(values[0]) if len(values) else 0.0 for values in (level.F, level.W))
        return self.empty_set(self.full(level), F, level.X[0] if self.drift else None, W)

    def raised(self, level: Any, shares: Floats, epochs: int = 0) -> Any:
        n_tasks, t, size = self.tasks.n_tasks, level.t + 1, self.moments.size
        n_sets = comb(n_tasks, t)
        table = binomials(n_tasks, t)
        new = CompiledLevel(t, n_sets, size, path=self.path, drift=self.drift)
        loss, drift = (_with_epochs(forms, epochs, used) for forms, used in self._used())
        maps = (np.ascontiguousarray(self.moments.left), np.ascontiguousarray(self.moments.right))
        common: tuple[Any, ...] = (t, table, self.tasks.offsets, *maps, np.ascontiguousarray(shares), level.S, new.S)
        paths: tuple[Any, ...] = (self.path, loss, level.F, new.F, new.seen)
        drifts: tuple[Any, ...] = (self.drift, drift, level.X, new.X, level.W, new.W)
        threads = n_threads() if n_sets * t > 2000 else 1

        def work(first: int, last: int) -> None:
            _raise(first, last, *common, *paths, *drifts)

        spread(work, n_sets, -(-n_sets // (4 * threads)), threads)
        return new

    def mapped(self, level: Any, N: Floats) -> Any:
        size, (rows, columns) = self.moments.size, self.triangle
        new = CompiledLevel(level.t, len(level.S), size, path=False, drift=False)
        at_once = max(1, _FULL // max(1, size * size))
        for first in range(0, len(level.S), at_once):
            part = slice(first, first + at_once)
            S = np.empty((len(level.S[part]), size, size))
            S[:, rows, columns] = S[:, columns, rows] = level.S[part]
            new.S[part] = (N @ S @ N.T)[:, rows, columns]
        return new

    def _used(self) -> list[tuple[list[Any], bool]]:
        return [(self.losses, self.path), (self.drifts, self.drift)]

    def full(self, level: Any) -> Floats:
        """Return the mean of S over the sets of a level as a full matrix."""
        S = np.zeros((self.moments.size, self.moments.size))
        S[self.triangle] = level.S.mean(axis=0)
        return S + np.tril(S, -1).T

    def _mean_output(self, level: Any, epochs: int | None) -> float:
        if epochs is not None:
            return float(level.seen.mean())
        R, squares = self.moments.right, self.tasks.singular_values[:, None] ** 2
        return 0.5 * float(np.sum(squares * (R @ self.full(level)) * R))


def _with_epochs(forms: list[Any], epochs: int, used: bool) -> Floats:
    if not used:
        return np.zeros((0, 0, 0))
    return np.ascontiguousarray(np.stack([*forms, epochs * np.sum(forms, axis=0)]))
