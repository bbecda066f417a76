"""Rows of an encoded table before they are written down: each column in the form in which it is smallest.

A table of some words and dates is a few codes a row, and many features. It is written down some rows at a time where
rows are read once, so that they are used while they are in the processor's cache.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from forgetless._base.arrays import Floats


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


class Encoded(NamedTuple):
    """The rows of a table as features.

    Attributes
    ----------
    shape : (int, int)
    pieces : list of (Piece, array)
        What is known of a column, and the places of its features.
    sparse : bool
        Whether rows are written down as a SciPy sparse array.
    """

    shape: tuple[int, int]
    pieces: list[tuple[Piece, NDArray[np.int64]]]
    sparse: bool

    def whole(self) -> Any:
        """Return all rows."""
        return _sparse(self.shape, self.pieces) if self.sparse else np.ascontiguousarray(self.block(0, self.shape[0]))

    def block(self, low: int, high: int) -> Floats:
        """Return some rows as a dense array, which is written and lies in memory column by column."""
        assert not self.sparse, "sparse rows are written as a whole"
        n, d = min(high, self.shape[0]) - low, self.shape[1]
        made = np.zeros((d, n))
        row, flat = np.arange(n), made.reshape(-1)
        for piece, places in self.pieces:
            if isinstance(piece, Given):
                made[places[piece.part]] = piece.values[low : low + n]
            elif isinstance(piece, OneHot):
                parts = piece.parts[low : low + n]
                there = row if parts.min(initial=0) >= 0 else np.flatnonzero(parts >= 0)
                flat[(places * n)[parts[there]] + there] = 1.0
            elif isinstance(piece, Coded):
                codes = piece.codes[low : low + n]
                for place, values in zip(places.tolist(), piece.table.T, strict=True):
                    np.take(values, codes, out=made[place], mode="wrap")  # −1 is the last
        return made.T


def _sparse(shape: tuple[int, int], pieces: list[tuple[Piece, NDArray[np.int64]]]) -> Any:
    from scipy import sparse

    parts = [(rows, at, values) for piece, places in pieces for rows, at, values in _entries(piece, places)]
    if not parts:
        return sparse.csr_array(shape)
    rows, at, values = (np.concatenate(each) for each in zip(*parts, strict=True))
    return sparse.csr_array((values, (rows, at)), shape=shape)


def _entries(piece: Piece, places: NDArray[np.int64]) -> list[tuple[Any, Any, Any]]:
    """Return the rows, places and values of what is not zero."""
    if isinstance(piece, Given):
        rows = np.flatnonzero(piece.values)
        return [(rows, np.full(len(rows), places[piece.part]), piece.values[rows].astype(np.float64))]
    if isinstance(piece, OneHot):
        rows = np.flatnonzero(piece.parts >= 0)
        return [(rows, places[piece.parts[rows]], np.ones(len(rows)))]
    if isinstance(piece, Coded):
        found = []
        for part, place in enumerate(places.tolist()):
            values = piece.table[:, part][piece.codes]
            rows = np.flatnonzero(values)
            found.append((rows, np.full(len(rows), place), values[rows]))
        return found
    block = piece.matrix[np.maximum(piece.codes, 0)].tocoo()
    there = piece.codes[block.row] >= 0
    return [(block.row[there], places[block.col[there]], block.data[there])]
