"""Streams of tasks for the tests of estimators."""

import numpy as np


def stream(rng, n_tasks=6, n=5, d=8, targets=(), noise=0.1):
    teacher = rng.standard_normal((d, *targets))
    for _ in range(n_tasks):
        X = rng.standard_normal((n, d))
        yield X, X @ teacher + noise * rng.standard_normal((n, *targets))


def learned(model, tasks):
    for X, y in tasks:
        model.partial_fit(X, y)
    return model


def linear(n, d, seed=0, noise=0.1, targets=()):
    """Rows and targets of a random teacher with the level 3."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, X @ rng.standard_normal((d, *targets)) + noise * rng.standard_normal((n, *targets)) + 3.0


def cut(X, y, sizes):
    """Tasks of so many rows each."""
    places = np.cumsum(sizes)[:-1]
    return list(zip(np.split(X, places), np.split(y, places), strict=True))
