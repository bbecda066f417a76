"""Task collections in files: sealed archives of all rows, which commands on tables read as well."""

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from forgetless._core.arrays import to_numpy
from forgetless.io.archive import Fields, pack, refusing, unpack
from forgetless.io.atomic import replace_file
from forgetless.io.provenance import environment

FORMAT, VERSION = "forgetless-tasks", 1

WHAT = "tasks"


def write(tasks: Iterable[Any], path: str | Path, note: str) -> None:
    """Write the pairs (X, y): all rows one below the other, and the task that each belongs to."""
    pairs = [(to_numpy(X), to_numpy(y)) for X, y in tasks]
    rows = np.array([len(X) for X, _ in pairs], dtype=np.int64)
    header = {"format": FORMAT, "version": VERSION, "note": str(note), "provenance": environment()}
    arrays = {
        "X": np.concatenate([X for X, _ in pairs]),
        "y": np.concatenate([y for _, y in pairs]),
        "groups": np.repeat(np.arange(len(rows)), rows),
        "rows": rows,
    }
    replace_file(Path(path), pack(header, arrays))


def read(path: str | Path) -> tuple[dict[str, Any], list[tuple[Any, Any]]]:
    """Return the header and the pairs of a file that ``write`` made; FileError for anything else."""
    header, arrays = unpack(path, FORMAT, WHAT, (VERSION,))
    stored = Fields(arrays)
    with refusing(Path(path), WHAT):
        X = stored.array("X", "f", (None, None)).astype(np.float64)
        y = stored.array("y", "f", None).astype(np.float64)
        rows = stored.array("rows", "i", (None,), low=0, high=len(X))
        groups = stored.array("groups", "i", (len(X),))
        stored.end()
        if y.ndim not in (1, 2) or len(y) != len(X) or 0 in (len(rows), X.shape[1], *y.shape[1:]):
            raise ValueError(f"X of shape {X.shape} and y of shape {y.shape} are no tasks")
        if rows.sum() != len(X) or not np.array_equal(groups, np.repeat(np.arange(len(rows)), rows)):
            raise ValueError("the rows of its tasks do not add up")
    ends = np.cumsum(rows)[:-1]
    return header, list(zip(np.split(X, ends), np.split(y, ends), strict=True))


def digest_of(tasks: Iterable[Any]) -> str:
    """Return the SHA-256 of shapes and numbers of all pairs (X, y), in their order."""
    total = hashlib.sha256()
    for pair in tasks:
        for array in pair:
            plain = np.ascontiguousarray(to_numpy(array), dtype="<f8")
            total.update(f"{plain.shape}|".encode())
            total.update(plain.reshape(-1).view(np.uint8).data if plain.size else b"")
    return total.hexdigest()
