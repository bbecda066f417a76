"""Tables of pandas, or of a library that converts to pandas, dicts of lists and arrays, column by
column.
"""

import datetime
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forgetless._validate import Floats

DAY = 86_400e6
"""Microseconds of a day."""

EXACT = 2.0**53
"""Integers below this size are exact as floats."""


@dataclass(frozen=True)
class Values:
    """Values of a column: numbers, strings or times.

    Attributes
    ----------
    kind : {"number", "string", "time", "empty"}
        "empty" where all values are missing.
    numbers : array of shape (n,)
        Numbers, or times in microseconds since 1970 (UTC); NaN where missing. Of shape (0,) for
        strings.
    codes : array of shape (n,)
        For strings: the index into ``labels`` of each value, −1 where missing.
    labels : sequence of str
        Distinct strings in order of first appearance.
    """

    kind: str
    numbers: Floats = field(default_factory=lambda: np.zeros(0))
    codes: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    labels: Sequence[str] = ()

    def __len__(self) -> int:
        return len(self.codes) if self.kind == "string" else len(self.numbers)

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Mask of the missing values."""
        return self.codes < 0 if self.kind == "string" else np.isnan(self.numbers)

    def as_strings(self) -> "Values":
        """Return numbers or times as strings: 3 as "3"."""
        if self.kind in ("string", "empty"):
            return self
        text = format_time if self.kind == "time" else format_number
        return _strings(
            [None if math.isnan(value) else text(value) for value in self.numbers.tolist()]
        )

    def __getitem__(self, rows: Any) -> "Values":
        """Return the values of some rows (an array or a slice), as if the column had no others."""
        if self.kind != "string":
            return _numbers(self.numbers[rows], self.kind)
        codes, size = self.codes[rows], len(self.labels)
        first = np.full(size + 1, len(codes))
        # the last assignment wins; −1 is the extra place
        first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)
        order = np.argsort(first[:size], kind="stable")[: int(np.sum(first[:size] < len(codes)))]
        place = np.full(size + 1, -1)
        place[order] = np.arange(len(order))
        return _labelled(place[codes], [self.labels[i] for i in order.tolist()])


class Columns:
    """A table whose columns are converted once: :class:`Values`, or arrays of objects or large
    integers.

    Objects may be strings in some rows and numbers in others: these columns are converted where
    they are used.

    Examples
    --------
    >>> part = read_once({"town": ["Ulm", "Bonn", "Ulm"], "size": np.array([1.0, 2.0,
    ...     3.0])}).rows(np.array([1, 2]))
    >>> part.columns["town"].tolist(), part.columns["size"].numbers.tolist(), len(part)
    (['Bonn', 'Ulm'], [2.0, 3.0], 2)
    """

    def __init__(self, columns: Mapping[str, Values | NDArray[Any]]) -> None:
        self.columns = dict(columns)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def rows(self, rows: Any) -> "Columns":
        """Return some rows: their numbers, or a slice."""
        return Columns({name: column[rows] for name, column in self.columns.items()})


def read_once(table: Any) -> Any:
    """Return the :class:`Columns` of a table or a dict of lists; arrays unchanged."""
    if isinstance(table, Columns) or not (hasattr(table, "columns") or isinstance(table, Mapping)):
        return table
    return Columns({name: _converted(column) for name, column in columns_of(table).items()})


def columns_of(table: Any, name: str = "X") -> dict[str, Any]:
    """Return the columns of a table by name, as :func:`values_of` takes them."""
    if type(table).__module__.startswith("scipy.sparse"):
        raise TypeError(
            f"{name} is sparse data, which is not supported here: pass a table or a dense array"
        )
    if isinstance(table, Columns):
        return table.columns
    if isinstance(table, Mapping):
        lengths = {str(key): len(column) for key, column in table.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"{name} must have columns of one length, got {lengths}")
        return dict(zip(lengths, table.values(), strict=True))
    if isinstance(table, np.ndarray | list | tuple) or (
        hasattr(table, "__array__") and not hasattr(table, "columns")
    ):
        return _columns_of_array(np.asarray(table), name)
    table = _in_pandas(table)
    if not hasattr(table, "iloc"):
        raise TypeError(
            f"{name} must be a table (pandas, polars, pyarrow), a dict of lists or an array, got"
            f" {type(table).__name__}"
        )
    columns: dict[str, Any] = {}
    for i, label in enumerate(map(str, table.columns)):
        if label in columns:
            raise ValueError(f"{name} has several columns named {label!r}; give each its own name")
        columns[label] = table.iloc[:, i]
    return columns


def _in_pandas(data: Any) -> Any:
    """Return a table or a column of polars or pyarrow as one of pandas; others as they are."""
    return data.to_pandas() if hasattr(data, "to_pandas") else data


def _columns_of_array(array: NDArray[Any], name: str) -> dict[str, Any]:
    if array.ndim != 2:
        raise ValueError(
            f"{name} must be a table or an array of shape (n, d), got shape {array.shape}. Reshape"
            " your data, e.g. with array.reshape(-1, 1)"
        )
    if array.dtype.kind == "c":
        raise ValueError(
            f"{name} holds complex numbers. Complex data not supported: take real and imaginary"
            " parts"
        )
    if array.shape[1] == 0:
        raise ValueError(
            f"{name} has 0 feature(s) (shape={array.shape}) while a minimum of 1 is required."
        )
    return {f"x{i}": array[:, i] for i in range(array.shape[1])}


def values_of(column: Any, name: str, *, codes: bool = False) -> Values:
    """Return the values of a column, which errors call ``name``; integers as strings if
    ``codes``.
    """
    if codes and (integers := integers_of(column)) is not None:
        distinct, first, which = np.unique(integers, return_index=True, return_inverse=True)
        order = np.argsort(first)  # labels come in order of first appearance
        return Values(
            "string",
            codes=np.argsort(order)[which],
            labels=[str(each) for each in distinct[order].tolist()],
        )
    values = _converted(column)
    return values if isinstance(values, Values) else _objects(values.tolist(), name)


def integers_of(column: Any) -> NDArray[Any] | None:
    """Return a column of integers without missing values, with all their digits; None if it is not
    one.
    """
    if isinstance(column, Values):
        whole = column.kind == "number" and np.all(np.trunc(column.numbers) == column.numbers)
        return (
            column.numbers.astype(np.int64)
            if whole and np.max(np.abs(column.numbers)) < EXACT
            else None
        )
    column = _series_or_array(column)
    return np.asarray(column) if column.dtype.kind in "iu" else None


def _series_or_array(column: Any) -> Any:
    """Return a column as a series of pandas or as an array, of objects where it is a list."""
    column = _in_pandas(column)
    if hasattr(column, "dtype"):
        return column
    integers = len(column) > 0 and all(type(value) is int for value in column)
    return np.array(column) if integers else np.fromiter(column, dtype=object, count=len(column))


def _converted(column: Any) -> Values | NDArray[Any]:
    """Return the values of a column of one type; an array of objects or of integers that floats
    cannot hold.
    """
    if isinstance(column, Values):
        return column
    column = _series_or_array(column)
    if not isinstance(column, np.ndarray):
        column = _of_series(column)
    if isinstance(column, Values):
        return column
    kind = column.dtype.kind
    if kind in "Mm":
        whole = column.astype(f"{kind}8[us]")
        floats = np.where(np.isnat(whole), np.nan, whole.astype(np.int64).astype(np.float64))
        return _numbers(floats, "time") if kind == "M" else _numbers(floats / 1e6)
    exact = kind in "bf" or (
        kind in "iu" and (not len(column) or max(int(column.max()), -int(column.min())) < EXACT)
    )
    return _numbers(column) if exact else column


def _of_series(series: Any) -> Values | NDArray[Any]:
    """Return strings of a series of pandas as values, others as an array."""
    from pandas.api import types

    if isinstance(series.dtype, types.CategoricalDtype):
        series = series.astype(object)
    if types.infer_dtype(series, skipna=True) == "string":
        codes, labels = series.factorize()
        return _labelled(codes.astype(np.int64), [str(each) for each in labels])
    if isinstance(series.dtype, types.DatetimeTZDtype):
        series = series.dt.tz_convert(None)
    if types.is_numeric_dtype(series.dtype) and series.isna().any():
        return np.asarray(series.to_numpy(dtype=np.float64, na_value=np.nan))
    return np.asarray(series.to_numpy())


def _labelled(codes: Any, labels: Sequence[str]) -> Values:
    return (
        Values("string", codes=codes, labels=labels)
        if labels
        else _numbers(np.full(len(codes), np.nan))
    )


def _strings(values: Sequence[str | None]) -> Values:
    places: dict[str, int] = {}
    codes = [-1 if value is None else places.setdefault(value, len(places)) for value in values]
    return _labelled(np.array(codes, dtype=np.int64), list(places))


def _numbers(values: Any, kind: str = "number") -> Values:
    numbers = np.asarray(values, dtype=np.float64)
    # The first value nearly always decides.
    some = len(numbers) > 0 and (not math.isnan(numbers[0]) or not np.all(np.isnan(numbers)))
    return Values(kind if some else "empty", numbers)


def _objects(values: Sequence[Any], name: str) -> Values:
    """Return Python objects as numbers or times where all of them are, else as strings."""
    mask = [_is_missing(value) for value in values]
    present = [value for value, missing in zip(values, mask, strict=True) if not missing]
    kinds: tuple[tuple[Any, Any, str], ...] = (
        (Real | Decimal | np.bool_, float, "number"),
        (datetime.timedelta, datetime.timedelta.total_seconds, "number"),
        (datetime.date, _microseconds, "time"),
    )
    for types, convert, kind in kinds:
        if all(isinstance(value, types) for value in present):
            numbers = [
                math.nan if missing else convert(value)
                for value, missing in zip(values, mask, strict=True)
            ]
            return _numbers(numbers, kind)
    for value in present:
        if isinstance(value, list | tuple | dict | set | np.ndarray):
            raise TypeError(
                f"column {name!r} holds a {type(value).__name__}, e.g. {str(value)[:40]}; drop the"
                " column, or make one column of each part"
            )
    return _strings(
        [None if missing else str(value) for value, missing in zip(values, mask, strict=True)]
    )


def _is_missing(value: Any) -> bool:
    # pandas' NA is neither equal to itself nor different
    if value is None or type(value).__name__ == "NAType":
        return True
    differs = value != value  # NaN and NaT
    return isinstance(differs, bool | np.bool_) and bool(differs)


def _microseconds(value: datetime.date) -> float:
    """Return a date or a time (UTC where it has no zone) in microseconds since 1970."""
    if not isinstance(value, datetime.datetime):
        value = datetime.datetime(value.year, value.month, value.day)
    since = datetime.datetime(1970, 1, 1, tzinfo=None if value.tzinfo is None else datetime.UTC)
    return (value - since) / datetime.timedelta(microseconds=1)


def format_time(microseconds: float) -> str:
    """Return a time as text; beyond the range of Python's dates, its year."""
    try:
        time = datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=microseconds)
    except OverflowError:
        return f"year {1970 + microseconds / (365.2425 * DAY):.0f}"
    return time.isoformat(" ") if microseconds % DAY else time.date().isoformat()


def format_number(value: float) -> str:
    """Return a number as text, an integer with all its digits as far as floats hold them."""
    return f"{value:.0f}" if abs(value) < EXACT and value == math.floor(value) else f"{value:.15g}"
