"""Tasks with labels of two classes."""

import numpy as np

import forgetless as fl


def collection(rng, noise=0.0, M=3, d=3, n=2):
    """Tasks with labels of both classes, of a teacher; with ``noise`` some are flipped."""
    teacher = rng.standard_normal(d)
    while True:
        rows = [rng.standard_normal((n, d)) * 10.0 ** rng.uniform(-0.5, 0.5) for _ in range(M)]
        flips = np.where(rng.random((M, n)) < noise, -1.0, 1.0)
        labels = [flip * np.where(X @ teacher > 0, 1.0, -1.0) for X, flip in zip(rows, flips, strict=True)]
        if len(np.unique(labels)) == 2:
            return fl.TaskCollection(list(zip(rows, labels, strict=True)))
