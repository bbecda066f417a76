"""Tasks on which digits are lost, with filters and orders for them."""

import numpy as np

import forgetless as fl
from support.agreement import orders_of


def collection(rng):
    """Tasks of independent rows, their singular values from 1 down to 1e-12 within and between tasks."""
    d, M, c = int(rng.integers(1, 4)), int(rng.integers(1, 4)), None if rng.random() < 0.7 else 2
    low, teacher, realizable = rng.choice([0, -3, -6, -9, -12]), rng.standard_normal((d, c or 1)), rng.random() < 0.5
    pairs = []
    for _ in range(M):
        n = int(rng.integers(1, d + 1))
        U, V = np.linalg.qr(rng.standard_normal((n, n)))[0], np.linalg.qr(rng.standard_normal((d, n)))[0].T
        s = 10.0 ** rng.uniform(low, 0, n if rng.random() < 0.5 else 1)
        X = U @ (np.broadcast_to(s, n)[:, None] * V)
        noise = rng.standard_normal((n, c or 1)) * (1 if rng.random() < 0.5 else np.linalg.norm(X))
        y = X @ teacher if realizable else noise
        pairs.append((X, y if c else y[:, 0]))
    shape = (d,) if c is None else (d, c)
    near = teacher.reshape(shape) + 1e-6 * rng.standard_normal(shape)
    starts = [np.zeros(shape), rng.standard_normal(shape), 1e8 * rng.standard_normal(shape), near]
    return pairs, starts[int(rng.integers(4))]


def filter_for(rng, pairs, k):
    square = max(np.linalg.norm(X, 2) for X, _ in pairs) ** 2
    strengths = square * 10.0 ** rng.uniform(-4, 2, k)
    budget = fl.GradientDescent(int(rng.integers(1, 4)), float(rng.uniform(0.1, 1.9) / square))
    filters = [fl.Ridge(strengths), fl.Ridge(strengths[0]), fl.Projection(), budget, fl.Ridge(1e-6 * strengths)]
    return filters[int(rng.integers(5))]


def law_for(rng, M, k):
    """An ordering, how many steps of it, and all its orders with their probabilities."""
    kind = int(rng.integers(4))
    draws = fl.WithReplacement(rng.dirichlet(np.ones(M))) if kind == 0 else None
    ordering = [draws, fl.RandomReshuffling(), fl.WithoutReplacement(), fl.Cyclic()][kind]
    k = min(k, M) if isinstance(ordering, fl.WithoutReplacement) else k
    return ordering, k, orders_of(ordering, M, k)


def agrees(found, name, truth):
    """Whether one value is within its stated error of the truth; an error of 1 claims nothing."""
    value, error = float(found.values[name][-1]), found.errors[name]
    return error >= 1 or abs(value - truth) <= error * max(abs(value), abs(truth))
