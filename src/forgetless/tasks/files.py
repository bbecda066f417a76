"""Tasks in files: what ``TaskCollection.save`` writes, read and checked."""

import numpy as np
from numpy.typing import NDArray

from forgetless._validate import Floats
from forgetless.io import Document, Fields
from forgetless.tasks.collection import TaskCollection


def from_document(document: Document) -> TaskCollection:
    """Return the tasks in a document; ValueError if it holds none."""
    X, y, rows = arrays_from(document)
    ends = np.cumsum(rows)[:-1]
    pairs = zip(np.split(X, ends), np.split(y, ends), strict=True)
    header = document.header
    return TaskCollection(pairs, noise=float(header["noise"]), walk=float(header["walk"]))


def arrays_from(document: Document) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """Return X of shape (n, d), y of shape (n,) or (n, c) and the rows of every task; ValueError if
    they disagree.
    """
    fields = Fields(document.arrays)
    X = fields.array("X", "f", (None, None)).astype(np.float64, copy=False)
    y = fields.array("y", "f").astype(np.float64, copy=False)
    counts = fields.array("rows", "i", (None,), low=0, high=len(X))
    rows = counts.astype(np.int64)
    fields.end()
    sizes = (len(rows), X.shape[1], *y.shape[1:])
    if y.ndim not in (1, 2) or 0 in sizes:
        raise ValueError(f"X of shape {X.shape} and y of shape {y.shape} are no tasks")
    if not rows.sum() == len(X) == len(y):
        raise ValueError(f"its tasks have {rows.sum()} rows, X has {len(X)} and y has {len(y)}")
    return X, y, rows
