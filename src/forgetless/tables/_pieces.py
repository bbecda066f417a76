"""The pieces of an encoded table: each column in the form in which it is smallest.

A table of some words and dates is a few codes a row, and many features.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from forgetless._validate import Floats


class Given(NamedTuple):
    """One feature of a column: its value in every row."""

    part: int
    values: NDArray[Any]


class OneHot(NamedTuple):
    """Which feature of a column is 1 in every row; −1 for none."""

    parts: NDArray[np.int64]


class Coded(NamedTuple):
    """All features of a column: which row of a table (m, parts) every row is; −1 is the last."""

    codes: NDArray[np.int64]
    table: Floats


class Hashed(NamedTuple):
    """The first features of a column: which row of a sparse matrix every row is; −1 for none."""

    matrix: Any
    codes: NDArray[np.int64]


Piece = Given | OneHot | Coded | Hashed

Placed = tuple[Piece, NDArray[np.int64]]
"""A piece, and the places of its features."""


def written(shape: tuple[int, int], pieces: list[Placed], *, wide: bool) -> Any:
    """Return the rows of pieces of columns, as an array or, if ``wide``, as a SciPy sparse array.

    ``pieces`` are pairs of a piece and the places of its features.
    """
    if wide:
        return _sparse(shape, pieces)
    n, d = shape
    # Written column by column, and returned row by row.
    columns = np.zeros((d, n))
    for piece, places in pieces:
        # Every feature of a column has a place of its own.
        if isinstance(piece, Given):
            columns[places[piece.part]] = piece.values
        elif isinstance(piece, OneHot):
            there = np.flatnonzero(piece.parts >= 0)  # −1 is none
            columns[places[piece.parts[there]], there] = 1.0
        elif isinstance(piece, Coded):
            for place, values in zip(places.tolist(), piece.table.T, strict=True):
                np.take(values, piece.codes, out=columns[place], mode="wrap")  # −1 is the last
    return np.ascontiguousarray(columns.T)


def _sparse(shape: tuple[int, int], pieces: list[Placed]) -> Any:
    from scipy import sparse

    parts = [
        (rows, at, values)
        for piece, places in pieces
        for rows, at, values in _entries(piece, places)
    ]
    if not parts:
        return sparse.csr_array(shape)
    rows, at, values = (np.concatenate(each) for each in zip(*parts, strict=True))
    return sparse.csr_array((values, (rows, at)), shape=shape)


def _entries(piece: Piece, places: NDArray[np.int64]) -> list[tuple[Any, Any, Any]]:
    """Return the rows, places and values of the entries that are not zero."""
    if isinstance(piece, Given):
        rows = np.flatnonzero(piece.values)
        return [
            (rows, np.full(len(rows), places[piece.part]), piece.values[rows].astype(np.float64))
        ]
    if isinstance(piece, OneHot):
        rows = np.flatnonzero(piece.parts >= 0)
        return [(rows, places[piece.parts[rows]], np.ones(len(rows)))]
    if isinstance(piece, Coded):
        entries = []
        for part, place in enumerate(places.tolist()):
            values = piece.table[:, part][piece.codes]
            rows = np.flatnonzero(values)
            entries.append((rows, np.full(len(rows), place), values[rows]))
        return entries
    block = piece.matrix[np.maximum(piece.codes, 0)].tocoo()
    there = piece.codes[block.row] >= 0
    return [(block.row[there], places[block.col[there]], block.data[there])]
