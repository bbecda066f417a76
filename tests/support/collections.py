"""Families of random task collections that the tests share."""

import numpy as np

import forgetless as fl


def random_pairs(rng, *, M=4, d=6, rows=(1, 4), rank=None, realizable=True, targets=None, scales=None):
    """Pairs (X, y) with the given number of rows, built by SVD so that ranks and scales are known."""
    shape = (d,) if targets is None else (d, targets)
    teacher = rng.standard_normal(shape)
    pairs = []
    for m in range(M):
        n = int(rng.integers(rows[0], rows[1] + 1))
        r = min(n, d) if rank is None else min(rank, n, d)
        U = np.linalg.qr(rng.standard_normal((n, r)))[0]
        V = np.linalg.qr(rng.standard_normal((d, r)))[0]
        s = rng.uniform(0.3, 2.0, r) * (1.0 if scales is None else scales[m % len(scales)])
        X = (U * s) @ V.T
        y = X @ teacher
        if not realizable:
            y = y + rng.standard_normal(y.shape) * np.abs(y).max()
        pairs.append((X, y))
    return pairs


FAMILIES = {
    "plain": {},
    "rank-deficient": {"rows": (3, 6), "rank": 2},
    "tall": {"rows": (8, 12)},
    "non-realizable": {"rows": (2, 5), "realizable": False},
    "badly scaled": {"scales": (1e-3, 1.0, 10.0)},
    "two targets": {"targets": 2},
    "two targets, non-realizable": {"targets": 2, "realizable": False, "rows": (7, 9)},
    "rank one": {"rows": (1, 1)},
    "wide": {"d": 40, "M": 3},
    "many tasks": {"M": 30, "d": 3, "rows": (1, 2)},
}


def collection(rng, family="plain", **changes):
    """A collection of a family with some options changed."""
    return fl.TaskCollection(random_pairs(rng, **{**FAMILIES[family], **changes}))


SMALL = [
    {"d": 3, "rows": (1, 2)},
    {"d": 3, "rows": (2, 4), "realizable": False},
    {"d": 3, "rows": (1, 2), "targets": 2, "realizable": False},
    {"d": 7, "rows": (1, 2)},  # features outside the span of all rows
    {"d": 4, "rows": (2, 3), "rank": 1},
]
"""Families with few rows, for sums over all orders and all noise."""
