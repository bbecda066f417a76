"""Rows of an encoded table before they are written down: each column in the form in which it is
smallest.

A table of some words and dates is a few codes a row, and many features. It is written down some
rows at a time where rows are read once, so that they are used while they are in the processor's
cache.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from forgetless._core.arrays import Floats


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
        Features of a column in their smallest form, and their places.
    sparse : bool
        Whether rows are written down as a SciPy sparse array.
    """

    shape: tuple[int, int]
    pieces: list[tuple[Piece, NDArray[np.int64]]]
    sparse: bool

    def whole(self) -> Any:
        """Return all rows."""
        return (
            _sparse(self.shape, self.pieces)
            if self.sparse
            else np.ascontiguousarray(self.block(0, self.shape[0]))
        )

    def block(self, low: int, high: int) -> Floats:
        """Return some rows as a dense array, which is written and lies in memory column by
        column.
        """
        assert not self.sparse, "sparse rows are written as a whole"
        n = min(high, self.shape[0]) - low
        d = self.shape[1]
        columns = np.zeros((d, n))
        row = np.arange(n)
        flat = columns.reshape(-1)
        for piece, places in self.pieces:
            if isinstance(piece, Given):
                columns[places[piece.part]] = piece.values[low : low + n]
            elif isinstance(piece, OneHot):
                parts = piece.parts[low : low + n]
                there = row if parts.min(initial=0) >= 0 else np.flatnonzero(parts >= 0)
                flat[(places * n)[parts[there]] + there] = 1.0
            elif isinstance(piece, Coded):
                codes = piece.codes[low : low + n]
                for place, values in zip(places.tolist(), piece.table.T, strict=True):
                    np.take(values, codes, out=columns[place], mode="wrap")  # −1 is the last
        return columns.T

    def ranges(self) -> Floats:
        """Return the smallest and the largest value of every feature, of shape (2, d)."""
        ranges = np.zeros((2, self.shape[1]))
        for piece, places in self.pieces:
            if isinstance(piece, Given):
                ranges[:, places[piece.part]] = piece.values.min(), piece.values.max()
            elif isinstance(piece, OneHot):
                counts = np.bincount(piece.parts[piece.parts >= 0], minlength=len(places))
                ranges[:, places] = counts == self.shape[0], counts > 0
            elif isinstance(piece, Coded):
                table = piece.table[np.unique(piece.codes)]
                ranges[:, places] = table.min(axis=0), table.max(axis=0)
        return ranges

    def summed(self) -> "_Summed":
        """Return what products with these rows need, without writing them down."""
        n, d = self.shape
        numeric: list[tuple[int, Any]] = []
        coded: list[tuple[Any, Any, Any]] = []
        for piece, places in self.pieces:
            if isinstance(piece, Given):
                numeric.append((int(places[piece.part]), piece.values))
                continue
            assert not isinstance(piece, Hashed), "texts are sparse"
            codes, table = (
                (piece.parts, _one_hot(len(places))) if isinstance(piece, OneHot) else piece
            )
            if len(places) < _FEWEST or len(table) > MOST:
                numeric += [
                    (place, values[codes])
                    for place, values in zip(places.tolist(), table.T, strict=True)
                ]
            else:
                coded.append((np.where(codes < 0, len(table) - 1, codes), table, places))
        # Column by column, in which they are written, centred and multiplied several times as fast.
        dense = np.empty((len(numeric), n))
        mean = np.zeros(len(numeric))
        for i, (_, values) in enumerate(numeric):
            mean[i] = values.mean()
            np.subtract(values, mean[i], out=dense[i])
        return _Summed(
            (n, d), dense.T, mean, np.array([place for place, _ in numeric], dtype=np.int64), coded
        )


def written(X: Any) -> Any:
    """Return rows as arrays."""
    return X.whole() if isinstance(X, Encoded) else X


_FEWEST = 8
"""Features of a coded column below which they are cheaper to multiply than its codes are to
count."""

MOST = 1024
"""Different values of a coded column up to which pairs of two columns are counted."""


class _Summed:
    """Rows X (n, d) of which columns with few values are stored as codes: sums over rows of one
    value are products.

    X counts from ``center``, which is the mean of columns of numbers, and zero for those of codes.
    """

    def __init__(
        self, shape: tuple[int, int], dense: Floats, mean: Floats, places: Any, coded: list[Any]
    ) -> None:
        self.shape = shape
        self._dense = dense
        self._places = places
        self.center = np.zeros(shape[1])
        self.center[places] = mean
        self._coded = [
            (codes, self._matrix(codes, len(table)), table, at) for codes, table, at in coded
        ]

    def _matrix(self, codes: Any, size: int) -> Any:
        """Return the matrix (size, n) that sums up the rows of every code."""
        from scipy import sparse

        n = self.shape[0]
        return sparse.csr_array((np.ones(n), codes, np.arange(n + 1)), shape=(n, size)).T

    def gram(self) -> Floats:
        """Return AᵀA of A = [X, 1]."""
        n, d = self.shape
        gram = np.zeros((d + 1, d + 1))
        last = np.array([d])
        at = self._places
        # Those of numbers have mean zero: their sums, which are rounding, are left out.
        _put(gram, at, at, self._dense.T @ self._dense)
        gram[d, d] = n
        for i, (codes, matrix, table, places) in enumerate(self._coded):
            counts = np.bincount(codes, minlength=len(table)).astype(np.float64)
            _put(gram, places, places, (table.T * counts) @ table)
            _put(gram, places, last, (table.T @ counts)[:, None])
            if len(at):  # column by column, as they lie in memory
                _put(
                    gram,
                    places,
                    at,
                    table.T @ np.column_stack([matrix @ column for column in self._dense.T]),
                )
            for others, _, other, there in self._coded[:i]:
                pairs = np.bincount(codes * len(other) + others, minlength=len(table) * len(other))
                _put(gram, places, there, table.T @ pairs.reshape(len(table), -1) @ other)
        return gram

    def forward(self, V: Floats) -> Floats:
        """Return X V for V of shape (d, c)."""
        product: Floats = self._dense @ V[self._places]
        for codes, _, table, places in self._coded:
            product += (table @ V[places])[codes]
        return product

    def adjoint(self, U: Floats) -> Floats:
        """Return AᵀU, of shape (d + 1, c), for U of shape (n, c)."""
        product = np.zeros((self.shape[1] + 1, U.shape[1]))
        product[self._places] = self._dense.T @ U
        product[-1] = U.sum(axis=0)
        for _, matrix, table, places in self._coded:
            product[places] = table.T @ (matrix @ U)
        return product


def _put(gram: Floats, rows: Any, columns: Any, values: Floats) -> None:
    """Write a part of a symmetric matrix, on both sides."""
    gram[np.ix_(rows, columns)] = values
    gram[np.ix_(columns, rows)] = values.T


def _one_hot(count: int) -> Floats:
    """Return the table of a one-hot column, whose last row is none."""
    return np.eye(count + 1, count)


def _sparse(shape: tuple[int, int], pieces: list[tuple[Piece, NDArray[np.int64]]]) -> Any:
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
