"""Tasks in files: what ``TaskCollection.save`` writes, read and checked."""

import numpy as np

from forgetless.io import Document, Fields
from forgetless.tasks.collection import TaskCollection


def from_document(document: Document) -> TaskCollection:
    """Return the tasks in a document; ValueError if it holds none, or if arrays disagree."""
    fields = Fields(document.arrays)
    X = fields.array("X", "f", (None, None))
    y = fields.array("y", "f")
    rows = fields.array("rows", "i", (None,), low=0, high=len(X))
    fields.end()
    ends = np.cumsum(rows, dtype=np.int64)
    if not np.sum(rows) == len(X) == len(y):
        raise ValueError(f"its tasks have {np.sum(rows)} rows, X has {len(X)} and y has {len(y)}")
    pairs = [(X[end - n : end], y[end - n : end]) for n, end in zip(rows, ends, strict=True)]
    header = document.header
    return TaskCollection(pairs, noise=float(header["noise"]), walk=float(header["walk"]))
