"""The moment recursion compiled by numba, with BLAS for its products.

``maps`` are the arrays of the operator: L and R (Σr, Q), offsets (M + 1,) and the probability of
every singular vector.
"""

import numpy as np

from forgetless._core.arrays import Floats
from forgetless._core.compiled import jit, n_threads, spread
from forgetless.engines.independent import OperatorArrays


@jit(fastmath={"reassoc", "contract"}, nogil=True)
def _advance_one(S: Floats, maps: OperatorArrays, phi: Floats) -> None:  # noqa: C901
    """Make all steps of factors (T, Σr) on one S (Q, Q) in place.

    The two large products are BLAS calls from compiled code: at twenty coordinates they take a
    microsecond each.
    """
    L, R, offsets, weights = maps
    Q, n_tasks = S.shape[0], len(offsets) - 1
    T, K, A = np.empty(L.shape), np.empty(len(L)), np.empty((Q, Q))
    across = np.ascontiguousarray(L.T)
    for t in range(phi.shape[0]):
        factor = phi[t]
        np.dot(R, S, T)
        for m in range(n_tasks):
            low, high = offsets[m], offsets[m + 1]
            for j in range(low, high):
                row = T[j]
                for o in range(low, high):
                    total, right = 0.0, R[o]
                    for y in range(Q):
                        total += right[y] * row[y]
                    K[o] = -0.5 * factor[o] * total
                # T_j becomes Y_j: only K, computed above, still depends on the old values.
                p = weights[j] * factor[j]
                for o in range(low, high):
                    w, left = K[o], L[o]
                    for y in range(Q):
                        row[y] += w * left[y]
                for y in range(Q):
                    row[y] *= p
        np.dot(across, T, A)
        for x in range(Q):
            for y in range(x + 1):
                value = S[x, y] - (A[x, y] + A[y, x])
                S[x, y] = value
                S[y, x] = value


@jit(fastmath={"reassoc", "contract"}, nogil=True)
def _averaged_one(
    S: Floats, C: Floats, A: Floats, maps: OperatorArrays, phi: Floats, gains: Floats
) -> None:
    """Make all steps of factors (T, Σr) on the moments S, C and A (Q, Q) of one average; see
    ``averaged``.
    """
    L, R, _, weights = maps
    Q = S.shape[0]
    T, X, across = np.empty(L.shape), np.empty((Q, Q)), np.ascontiguousarray(L.T)
    for t in range(phi.shape[0]):
        _advance_one(S, maps, phi[t : t + 1])
        np.dot(R, C, T)
        for j in range(len(L)):
            p = weights[j] * phi[t, j]
            for y in range(Q):
                T[j, y] *= p
        np.dot(across, T, X)
        gain = gains[t]
        for x in range(Q):
            for y in range(Q):
                X[x, y] = C[x, y] - X[x, y]
        for x in range(Q):
            for y in range(Q):
                C[x, y] = X[x, y] + gain * (S[x, y] - X[x, y])
            for y in range(x + 1):
                value = A[x, y]
                value += gain * (
                    (1.0 - gain) * (X[x, y] + X[y, x] - 2.0 * value) + gain * (S[x, y] - value)
                )
                A[x, y] = value
                A[y, x] = value


@jit(fastmath={"reassoc", "contract"}, nogil=True)
def _backwards_one(
    V: Floats, T: Floats, H: Floats, maps: OperatorArrays, phi: Floats, omega: Floats
) -> None:
    """Carry V and T (Q, Q) of one average back through the steps of factors (T, Σr), the last of
    them first.

    ``omega`` are the weights of the iterates after these steps, and of the one before the first;
    ``maps`` are those of the adjoint.
    """
    L, R, _, weights = maps
    Q = H.shape[0]
    P, X, across = np.empty(L.shape), np.empty((Q, Q)), np.ascontiguousarray(L.T)
    for t in range(phi.shape[0]):
        T += omega[t] * H
        np.dot(R, T, P)
        for j in range(len(L)):
            p = weights[j] * phi[t, j]
            for y in range(Q):
                P[j, y] *= p
        np.dot(across, P, X)
        T -= X
        _advance_one(V, maps, phi[t : t + 1])
        w = omega[t + 1]
        for x in range(Q):
            for y in range(Q):
                V[x, y] += w * (w * H[x, y] + T[x, y] + T[y, x])


def _threads(S: Floats, phi: Floats, n_parts: int) -> int:
    return min(n_threads(), n_parts) if phi.size * S.shape[0] ** 2 > 1_000_000 else 1


def advance_averaged(
    S: Floats, C: Floats, A: Floats, maps: OperatorArrays, phi: Floats, gains: Floats
) -> None:
    """Make all steps of factors (Σr, T, B) on S, C and A (Q, Q, B) in place, one problem after the
    other.
    """

    def work(first: int, last: int) -> None:
        for b in range(first, last):
            parts = [np.ascontiguousarray(each[:, :, b]) for each in (S, C, A)]
            _averaged_one(*parts, maps, np.ascontiguousarray(phi[:, :, b].T), gains)
            S[:, :, b], C[:, :, b], A[:, :, b] = parts

    n_problems = S.shape[2]
    threads = _threads(S, phi, n_problems)
    spread(work, n_problems, -(-n_problems // threads), threads)


def advance(S: Floats, maps: OperatorArrays, phi: Floats) -> None:
    """Make all steps of factors (Σr, T, B) on S (Q, Q, B) in place, one problem after the other."""

    def work(first: int, last: int) -> None:
        for b in range(first, last):
            moments = np.ascontiguousarray(S[:, :, b])
            _advance_one(moments, maps, np.ascontiguousarray(phi[:, :, b].T))
            S[:, :, b] = moments

    n_problems = S.shape[2]
    threads = _threads(S, phi, n_problems)
    spread(work, n_problems, -(-n_problems // threads), threads)


def backwards_averaged(
    V: Floats, T: Floats, H: Floats, maps: OperatorArrays, phi: Floats, omega: Floats
) -> None:
    """Carry V and T (Q, Q, B) back through the reversed steps of factors (Σr, T, B), one problem
    after the other.
    """
    for b in range(V.shape[2]):
        parts = [np.ascontiguousarray(each[:, :, b]) for each in (V, T, H)]
        _backwards_one(*parts, maps, np.ascontiguousarray(phi[:, :, b].T), omega)
        V[:, :, b], T[:, :, b] = parts[:2]
