"""Task collections as documents: all rows one below the other, and the number of rows of every task."""

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forgetless._core.arrays import to_numpy
from forgetless.io.document import Document, Fields


def to_document(tasks: Iterable[Any], note: str) -> Document:
    """Return the document of pairs (X, y)."""
    pairs = [(to_numpy(X), to_numpy(y)) for X, y in tasks]
    arrays = {
        "X": np.concatenate([X for X, _ in pairs]),
        "y": np.concatenate([y for _, y in pairs]),
        "rows": np.array([len(X) for X, _ in pairs], dtype=np.int64),
    }
    return Document("tasks", {}, arrays, note=note)


def arrays_from(document: Document) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.int64]]:
    """Return X of shape (n, d), y of shape (n,) or (n, c) and the rows of every task; ValueError if they disagree."""
    fields = Fields(document.arrays)
    X, y = fields.array("X", "f", (None, None)), fields.array("y", "f")
    rows = fields.array("rows", "i", (None,), low=0, high=len(X)).astype(np.int64)
    fields.end()
    if y.ndim not in (1, 2) or len(y) != len(X) or 0 in (len(rows), X.shape[1], *y.shape[1:]):
        raise ValueError(f"X of shape {X.shape} and y of shape {y.shape} are no tasks")
    if rows.sum() != len(X):
        raise ValueError(f"its tasks have {rows.sum()} rows, X has {len(X)}")
    return X.astype(np.float64, copy=False), y.astype(np.float64, copy=False), rows


def digest_of(tasks: Iterable[Any]) -> str:
    """Return the SHA-256 of shapes and numbers of all pairs (X, y), in their order."""
    total = hashlib.sha256()
    for pair in tasks:
        for array in pair:
            numbers = np.ascontiguousarray(to_numpy(array), dtype="<f8")
            total.update(f"{numbers.shape}|".encode())
            total.update(numbers.reshape(-1).view(np.uint8).data if numbers.size else b"")
    return total.hexdigest()
