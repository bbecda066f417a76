"""Literal losses over all orders without replacement, of many random collections at once."""

import itertools

import numpy as np

from support import literal


def matrices(rng, n, M, d, r):
    """Return XᵀX of n random collections of M tasks of r rows, of shape (n, M, d, d), with the largest norm 1."""
    X = rng.standard_normal((n, M, r, d)) * rng.choice([1.0, 0.3, 0.05], size=(n, M, r, 1))
    H = np.swapaxes(X, -1, -2) @ X
    return H / np.linalg.eigvalsh(H)[..., -1].max(axis=1)[:, None, None, None]


def mean_forms(H, filter_, k, *, average=False):
    """Return means over all orders of the form of the next task, and of the tasks seen, of shape (n, d, d) each.

    With ``average`` the iterate is the plain mean of w_0..w_k.
    """
    n, M, d, _ = H.shape
    phi = [literal.applied(filter_[t], H) for t in range(k)]
    eye = np.broadcast_to(np.eye(d), (n, d, d))
    following, seen, count = np.zeros((n, d, d)), np.zeros((n, d, d)), 0
    for order in itertools.permutations(range(M), k):
        T, total = eye, eye
        for t, m in enumerate(order):
            T = T - phi[t][:, m] @ T
            total = total + T
        T = total / (k + 1) if average else T
        others = [m for m in range(M) if m not in order]
        transposed = np.swapaxes(T, -1, -2)
        if others:
            following += transposed @ H[:, others].mean(axis=1) @ T
        seen += transposed @ H[:, list(order)].mean(axis=1) @ T
        count += 1
    return following / count, seen / count


def worst(forms):
    """Return ½ of the largest eigenvalue of every form."""
    return 0.5 * np.linalg.eigvalsh(forms)[..., -1]
