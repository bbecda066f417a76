"""The dynamic program over subsets compiled by numba, with symmetric matrices as lower
triangles.
"""

from math import comb
from typing import Any

import numpy as np

from forgetless._core.arrays import Floats
from forgetless._core.compiled import jit, n_threads, spread
from forgetless.engines._subsets import Level, SubsetProgram, binomials
from forgetless.engines.moments import Moments

_FAST = {"reassoc", "contract"}


@jit(fastmath=_FAST, nogil=True)
def _raise_sets(  # noqa: C901, PLR0912, PLR0915
    first: int, last: int, sets_: Any, maps: Any, moments: Any, paths: Any, drifts: Any
) -> None:
    """Write level t for the sets number first..last − 1; see ``_subsets`` for the recursions.

    The arguments are tuples: t, the table of binomials C(a, i) and the offsets; L, R and the
    factors; S before and after; and for the metrics of the path and for the drift: whether they are
    computed, their forms, and the values before and after. The last of the forms is that of all
    earlier epochs, the others those of one visit.
    """
    t, table, offsets = sets_
    L, R, phi = maps
    old_S, new_S = moments
    path, loss_forms, old_F, new_F, seen = paths
    drift, drift_forms, old_X, new_X, old_W, new_W = drifts
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
                # row x of the triangle serves both halves of the symmetric product
                for x in range(Q):
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
                # ½⟨H(A∖m), change⟩ = −Σ_j Y_j H(A∖m) L_jᵀ, with the form of A∖m as that of A less
                # one visit of m.
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


_FULL = 2**18  # entries of full matrices in memory at once


class CompiledSubsetProgram(SubsetProgram):
    """``SubsetProgram`` for NumPy tasks, some 10 times faster and with a fraction of the memory."""

    def __init__(self, moments: Moments, *, path: bool, drift: bool) -> None:
        super().__init__(moments, path=path, drift=drift)
        self.triangle = np.tril_indices(moments.size)

    def _numbers_per_set(self) -> float:
        size = self.moments.size
        return size * (size + 1) / 2 + 2.0 * self.path + self.drift * (size**2 + 1.0)

    def _pack(self, S: Any) -> Any:
        return S[self.triangle]

    def _unpack(self, packed: Any) -> Any:
        S = np.zeros((self.moments.size, self.moments.size))
        S[self.triangle] = packed
        return S + np.tril(S, -1).T

    def raised(self, level: Level, factors: Floats, epochs: int = 0) -> Level:
        n_tasks, t, size = self.tasks.n_tasks, level.t + 1, self.moments.size
        n_sets = comb(n_tasks, t)
        # arrays that are not needed are empty
        path, drift = n_sets * self.path, n_sets * self.drift
        F, X, W, seen = (
            np.zeros(path),
            np.zeros((drift, size, size)),
            np.zeros(drift),
            np.zeros(path),
        )
        new = Level(t, np.empty((n_sets, level.S.shape[1])), F, X, W, seen)
        old_F, old_X, old_W = (
            level.F if path else F,
            level.X if drift else X,
            level.W if drift else W,
        )
        arguments: tuple[Any, ...] = (
            (t, binomials(n_tasks, t), self.tasks.offsets),
            tuple(
                np.ascontiguousarray(each)
                for each in (self.moments.left, self.moments.right, factors)
            ),
            (np.ascontiguousarray(level.S), new.S),
            (self.path, _with_epochs(self.path, self.losses, epochs), old_F, F, seen),
            (self.drift, _with_epochs(self.drift, self.drifts, epochs), old_X, X, old_W, W),
        )
        threads = n_threads() if n_sets * t > 2000 else 1

        def work(first: int, last: int) -> None:
            _raise_sets(first, last, *arguments)

        spread(work, n_sets, -(-n_sets // (4 * threads)), threads)
        return new

    def mapped(self, level: Level, N: Floats) -> Level:
        size, (rows, columns) = self.moments.size, self.triangle
        new = Level(level.t, np.empty(level.S.shape))
        at_once = max(1, _FULL // max(1, size * size))
        for first in range(0, len(level.S), at_once):
            part = slice(first, first + at_once)
            S = np.empty((len(level.S[part]), size, size))
            S[:, rows, columns] = S[:, columns, rows] = level.S[part]
            new.S[part] = (N @ S @ N.T)[:, rows, columns]
        return new

    def _mean_output(self, level: Level, epochs: int | None) -> float:
        if epochs is None:
            return super()._mean_output(level, None)
        return 0.0 if level.seen is None else float(level.seen.mean())  # None before the first step


def _with_epochs(used: bool, forms: list[Any], epochs: int) -> Floats:
    """Return the forms of one visit of every task, and of all earlier epochs."""
    if not used:
        return np.zeros((0, 0, 0))
    return np.ascontiguousarray(np.stack([*forms, epochs * np.sum(forms, axis=0)]))
