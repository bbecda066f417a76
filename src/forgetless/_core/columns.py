"""Columns of tables of any library: numbers, text or times, with missing values."""

import datetime
import math
from collections.abc import Sequence
from decimal import Decimal
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from forgetless._core.arrays import Floats

DAY = 86_400e6
"""Microseconds of a day."""


EXACT = 2.0**53
"""Integers up to this size are distinct as floats."""


class Values(NamedTuple):
    """A column.

    Attributes
    ----------
    kind : {"number", "word", "time", "empty"}
        Type of the values; "word" is text, and "empty" means that all of them are missing.
    numbers : array of shape (n,)
        Numbers, or times in microseconds since 1970 (UTC); NaN where missing. Empty for text.
    codes : array of shape (n,)
        For text: index of each value in ``labels``, −1 where missing.
    labels : list of str
        Different strings in the order in which they first appear.
    """

    kind: str
    numbers: Floats = np.zeros(0)
    codes: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
    labels: Sequence[str] = ()

    @property
    def n_rows(self) -> int:
        """The number of values."""
        return len(self.codes) if self.kind == "word" else len(self.numbers)

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Which values are missing."""
        return self.codes < 0 if self.kind == "word" else np.isnan(self.numbers)

    def as_words(self) -> "Values":
        """Return numbers or times as text: 3 as "3"."""
        if self.kind in ("word", "empty"):
            return self
        text = moment if self.kind == "time" else number
        return _strings([None if value != value else text(value) for value in self.numbers.tolist()])

    def integers(self) -> NDArray[np.int64] | None:
        """Return numbers as integers; None where they are not all."""
        if self.kind != "number" or not np.all(np.trunc(self.numbers) == self.numbers):
            return None
        return self.numbers.astype(np.int64) if np.max(np.abs(self.numbers)) < EXACT else None

    def select(self, rows: Any) -> "Values":
        """Return some rows, as if only they had been read."""
        if self.kind == "word":
            return _in_order(self.codes[rows], self.labels)
        return _numbers(self.numbers[rows], self.kind)


def moment(microseconds: float) -> str:
    """Return a time as text; beyond what Python's dates reach, its year."""
    try:
        time = datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=microseconds)
    except OverflowError:
        return f"year {1970 + microseconds / (365.2425 * DAY):.0f}"
    return time.isoformat(" ") if microseconds % DAY else time.date().isoformat()


def number(value: float) -> str:
    """Return a number as text: integers with all their digits, as far as floats are exact."""
    return f"{value:.0f}" if abs(value) < 2**53 and value == math.floor(value) else f"{value:.15g}"


def values_of(column: Any, name: str, *, codes: bool = False) -> Values:
    """Return the values of a column, called ``name`` in errors; with ``codes``, integers become text."""
    import narwhals as nw

    integers = None
    if codes:
        integers = column.integers() if isinstance(column, Values) else integers_of(column)
    if integers is not None:
        different, first, which = np.unique(integers, return_index=True, return_inverse=True)
        turn = np.argsort(first)  # labels come in the order in which they first appear
        return Values("word", codes=np.argsort(turn)[which], labels=[str(each) for each in different[turn].tolist()])
    if isinstance(column, Values):
        return column
    if isinstance(column, np.ndarray):
        return _array(column, name)
    try:
        series = nw.from_native(column, series_only=True)
    except TypeError:
        return _objects(list(column), name)
    return _series(series, name)


def _series(column: Any, name: str) -> Values:
    """Return the values of a series of narwhals."""
    import narwhals as nw

    dtype: Any = column.dtype
    if dtype.is_numeric() or dtype == nw.Boolean:
        try:
            return _numbers(column.cast(nw.Float64).to_numpy())
        except ValueError:  # pyarrow rejects integers that are not exact as floats
            return _objects(column.to_list(), name)
    if dtype in (nw.String, nw.Categorical, nw.Enum):
        return _encoded(column.cast(nw.String))
    if dtype == nw.Date:
        column, dtype = column.cast(nw.Datetime("us")), nw.Datetime("us")
    if dtype == nw.Datetime:
        return _numbers(column.dt.timestamp("us").cast(nw.Float64).to_numpy(), "time")
    if dtype == nw.Duration:
        return _numbers(column.dt.total_microseconds().cast(nw.Float64).to_numpy() / 1e6)
    return _objects(column.to_list(), name)


def integers_of(column: Any) -> NDArray[Any] | None:
    """Return a column of integers without missing values, exactly; None if it is not one."""
    import narwhals as nw

    if not isinstance(column, np.ndarray | nw.Series):
        try:
            column = nw.from_native(column, series_only=True)
        except TypeError:
            column = np.array(column) if all(type(each) is int for each in column) else np.zeros(0)
    if isinstance(column, np.ndarray):
        return column if column.dtype.kind in "iu" else None
    return np.asarray(column.to_numpy()) if column.dtype.is_integer() and not column.null_count() else None


def _encoded(column: Any) -> Values:
    """Return a column of strings; by pyarrow where it is installed, which is ten times faster."""
    try:
        import pyarrow
    except ImportError:
        return _strings(column.to_list())
    arrow: Any = column.to_arrow()
    arrow = pyarrow.chunked_array([arrow]) if isinstance(arrow, pyarrow.Array) else arrow
    encoded = arrow.combine_chunks().dictionary_encode()
    encoded = encoded.combine_chunks() if isinstance(encoded, pyarrow.ChunkedArray) else encoded
    if len(encoded.dictionary) == 0:
        return _empty(len(encoded))
    codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return Values("word", codes=codes, labels=encoded.dictionary.to_pylist())


def _in_order(codes: NDArray[np.int64], labels: Sequence[str]) -> Values:
    """Return text with the labels that occur, in the order in which they first appear."""
    n, size = len(codes), len(labels)
    first = np.full(size + 1, n)
    # What is assigned last stays; −1 is the place behind the labels. Where few rows show all labels, they are enough.
    for rows in (min(n, 8 * size + 1000), n):
        first[codes[:rows][::-1]] = np.arange(rows - 1, -1, -1)
        if np.all(first[:size] < n):
            break
    there = np.flatnonzero(first[:size] < n)
    order = there[np.argsort(first[there])]
    if not len(order):
        return _empty(n)
    if len(order) == size and np.array_equal(order, np.arange(size)):
        return Values("word", codes=codes, labels=labels)
    place = np.full(size + 1, -1)
    place[order] = np.arange(len(order))
    return Values("word", codes=place[codes], labels=[labels[i] for i in order.tolist()])


def _strings(values: Sequence[Any]) -> Values:
    """Return text; None and NaN are missing."""
    label_codes: dict[str, int] = {}
    codes = np.fromiter(
        (
            -1 if value is None or value != value else label_codes.setdefault(value, len(label_codes))
            for value in values
        ),
        dtype=np.int64,
        count=len(values),
    )
    return Values("word", codes=codes, labels=list(label_codes)) if label_codes else _empty(len(values))


def _numbers(values: Any, kind: str = "number") -> Values:
    array = np.asarray(values, dtype=np.float64)
    # The first value is enough nearly always.
    some = len(array) > 0 and (not math.isnan(array[0]) or not np.all(np.isnan(array)))
    return Values(kind, array) if some else _empty(len(array))


def _empty(n: int) -> Values:
    return Values("empty", np.full(n, np.nan))


def _array(column: NDArray[Any], name: str) -> Values:
    if column.dtype.kind in "biuf":
        return _numbers(column)
    if column.dtype.kind == "M":
        times = column.astype("datetime64[us]")
        return _numbers(np.where(np.isnat(times), np.nan, times.astype(np.int64).astype(np.float64)), "time")
    if column.dtype.kind == "m":
        times = column.astype("timedelta64[us]")
        return _numbers(np.where(np.isnat(times), np.nan, times.astype(np.int64) / 1e6))
    return _objects(column.tolist(), name)


def _objects(values: Sequence[Any], name: str) -> Values:
    """Return Python's own values: numbers or times if all of them are, else text."""
    missing = [_is_missing(value) for value in values]
    present = [value for value, gone in zip(values, missing, strict=True) if not gone]
    if not present:
        return _empty(len(values))
    conversions: list[tuple[Any, Any, str]] = [
        (Real | Decimal | np.bool_, float, "number"),
        (datetime.timedelta, datetime.timedelta.total_seconds, "number"),
        (datetime.date, _microseconds, "time"),
    ]
    for types, convert, kind in conversions:
        if all(isinstance(value, types) for value in present):
            numbers = [math.nan if gone else convert(value) for value, gone in zip(values, missing, strict=True)]
            return _numbers(numbers, kind)
    for value in present:
        if isinstance(value, list | tuple | dict | set | np.ndarray):
            raise TypeError(
                f"column {name!r} holds a {type(value).__name__}, e.g. {str(value)[:40]}; drop the column, or make one "
                "column of each part"
            )
    return _strings([None if gone else str(value) for value, gone in zip(values, missing, strict=True)])


def _is_missing(value: Any) -> bool:
    if value is None:
        return True
    differs = value != value  # NaN, NaT; pandas' NA is neither equal nor different
    return differs is True or (isinstance(differs, np.bool_) and bool(differs)) or type(value).__name__ == "NAType"


def _microseconds(value: datetime.date) -> float:
    if not isinstance(value, datetime.datetime):
        value = datetime.datetime(value.year, value.month, value.day)
    if value.tzinfo is not None:
        value = value.astimezone(datetime.UTC).replace(tzinfo=None)
    return (value - datetime.datetime(1970, 1, 1)) / datetime.timedelta(microseconds=1)
