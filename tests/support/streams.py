"""Streams of tasks for the tests of estimators."""

import numpy as np
from scipy import sparse


def stream(rng, n_tasks=6, n=5, d=8, targets=(), noise=0.1):
    teacher = rng.standard_normal((d, *targets))
    for _ in range(n_tasks):
        X = rng.standard_normal((n, d))
        yield X, X @ teacher + noise * rng.standard_normal((n, *targets))


def learned(model, tasks):
    for X, y in tasks:
        model.partial_fit(X, y)
    return model


def sparse_rows(rng, shape, density):
    """Random rows with few entries, a row of them maybe empty; SciPy's own calls its generator rng only since 1.15."""
    n = round(density * shape[0] * shape[1])
    places = rng.integers(shape[0], size=n), rng.integers(shape[1], size=n)
    return sparse.csr_array((rng.uniform(size=n), places), shape=shape)


def linear(n, d, seed=0, noise=0.1, targets=()):
    """Rows and targets of a random teacher with the level 3."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, X @ rng.standard_normal((d, *targets)) + noise * rng.standard_normal((n, *targets)) + 3.0


def cut(X, y, sizes):
    """Tasks of so many rows each."""
    places = np.cumsum(sizes)[:-1]
    return list(zip(np.split(X, places), np.split(y, places), strict=True))
