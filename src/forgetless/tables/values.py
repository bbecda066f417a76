"""Columns of a table as numbers, times or labels: what is written in the cells, whatever the kind
of the column.

pandas has read the file, and knows the columns of numbers. A column of text is factorized once, by
``pandas.factorize``. Everything that is decided about it, whether it holds numbers, dates or
categories, is decided on its distinct labels, of which a large table has few: reading the dates of
a million rows parses some hundred of them.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from forgetless._validate import Array
from forgetless.tables.parsing import CODE, is_sign, label_text, numbers_in, seconds, times_in

_DATE = r"\d\s*[-./:, ]\s*\w|\w\s*[-./:, ]\s*\d"
"""What every date has: two parts with a separator."""

_FEW = 5
_RARE = 0.05
"""At most so many labels, and such a fraction of the rows, may be no numbers in a column of
numbers: 'see note', '12 or 13'."""


class Values:
    """The n cells of a column, which are read as labels, numbers or times when first asked for.

    Parameters
    ----------
    column : series of pandas, or anything that makes one

    Examples
    --------
    >>> values = Values(["1,5", "2,25", "n/a", None])
    >>> values.kind, values.numbers.tolist()
    ('number', [1.5, 2.25, nan, nan])
    >>> Values(["07", "12"]).kind, Values(["E5", "E7"]).kind, Values(["3.1.2024"]).kind
    ('category', 'category', 'date')
    """

    def __init__(self, column: Any) -> None:
        column = pd.Series(column)
        if column.dtype == object:
            # True and False with gaps are booleans, and whole numbers with gaps are numbers.
            column = column.convert_dtypes()
        if column.dtype.kind == "m":
            column = column / pd.Timedelta(seconds=1)
        self.texts: Array = None
        if column.dtype.kind in "biuf":
            self.cells: Array = column.values
        elif column.dtype.kind == "M":
            self.cells = column.array
        else:
            self.cells, self.texts = _labelled(column)

    def part(self, rows: Any) -> "Values":
        """Return the cells of some rows, a slice or an array; texts are factorized no second
        time.
        """
        part = Values.__new__(Values)
        part.cells = self.cells[rows]
        part.texts = self.texts
        return part

    def __len__(self) -> int:
        return len(self.cells)

    @property
    def is_number(self) -> bool:
        """Whether pandas has numbers, true and false among them."""
        return self.texts is None and not self.is_time

    @property
    def is_time(self) -> bool:
        """Whether pandas has times."""
        return bool(self.cells.dtype.kind == "M")

    @cached_property
    def memo(self) -> dict[str, Any]:
        """What columns have found in the cells, so that each is looked for once."""
        return {}

    @cached_property
    def missing(self) -> Array:
        """Where nothing is written."""
        return pd.isna(self.cells) if self.texts is None else self.cells < 0

    @cached_property
    def coded(self) -> tuple[Array, Array]:
        """Codes of the rows, −1 where nothing is written, and the distinct texts that they stand
        for, in the order of their first rows.
        """
        if self.texts is None:
            return _labelled(self.cells)
        codes, found = pd.factorize(self.cells)
        is_text = found >= 0
        # Rows without a text are one of the distinct codes: the others keep their order.
        places = np.where(is_text, np.cumsum(is_text) - 1, -1)
        return places[codes], self.texts[found[is_text]]

    @property
    def written(self) -> Array:
        """The texts of all rows."""
        codes, labels = self.coded
        return np.append(labels, "")[codes]

    @cached_property
    def numbers(self) -> Array:
        """Finite numbers, NaN elsewhere."""
        if not self.is_number:
            return np.append(self._numbers, np.nan)[self.coded[0]]
        numbers = np.asarray(self.cells, dtype=np.float64)
        return np.where(np.isinf(numbers), np.nan, numbers)

    @cached_property
    def distinct_times(self) -> tuple[Array, Array]:
        """Codes of the rows, and the times that they stand for, in seconds since 1970, NaN where
        there is none; a time of the day alone is one of 1970-01-01.
        """
        if self.is_time:
            return pd.factorize(seconds(self.cells), use_na_sentinel=False)
        codes, labels = self.coded
        return codes, np.append(times_in(labels), np.nan)

    @cached_property
    def times(self) -> Array:
        """The times of all rows."""
        codes, times = self.distinct_times
        return times[codes]

    @cached_property
    def _numbers(self) -> Array:
        return numbers_in(self.coded[1])

    def words(self) -> Array:
        """Return where a label is neither a number nor a sign for a missing one."""
        return np.isnan(self._numbers) & ~is_sign(self.coded[1])

    def unread(self, found: Array) -> list[str]:
        """Return the text of every row that has one which was not found, and is no sign for a
        missing value.
        """
        is_lost = np.isnan(found) & ~self.missing
        if self.is_number or not is_lost.any():
            return []
        lost = self.written[is_lost]
        return list(lost[~is_sign(lost)])

    @property
    def kind(self) -> str:
        """What the column seems to hold: "number", "date", "category", or "empty"."""
        if self.missing.all():
            return "empty"
        if self.is_number:
            return "number"
        if self.is_time:
            return "date"
        labels = self.coded[1]
        useful = pd.Series(labels[~is_sign(labels)])
        if not len(useful) or useful.str.fullmatch(CODE).any():
            return "category"
        # 1,5 is a number rather than the first of May.
        looks_dated = self.words().any() and useful.head(10).str.contains(_DATE).all()
        if looks_dated and not self.unread(self.times):
            return "date"
        # A few cells of a column of numbers may be words, and half of them signs for missing ones.
        n = (~self.missing).sum()
        few = self.words().sum() <= _FEW and len(self.unread(self.numbers)) <= _RARE * n
        return "number" if few and np.isfinite(self.numbers).sum() > 0.5 * n else "category"


def _labelled(cells: Any) -> tuple[Array, Array]:
    """Return codes of cells, −1 where nothing is written, and the texts that they stand for."""
    codes, distinct = pd.factorize(cells)
    # Some values have the same text: "Ulm" and "Ulm ", 3 and 3.0.
    again, labels = pd.factorize(np.array([label_text(each) for each in distinct], object))
    return np.append(again, -1)[codes], labels


Columns = Mapping[str, Values]
"""A table: its columns by name."""


def columns_of(table: Any) -> dict[str, Values]:
    """Return the columns of a table: a data frame (of pandas, polars or pyarrow), or a mapping of
    names to columns.
    """
    if isinstance(table, dict) and all(isinstance(each, Values) for each in table.values()):
        return table
    frame = pd.DataFrame(table.to_pandas() if hasattr(table, "to_pandas") else table)
    names = frame.columns.astype(str)
    twice = names[names.duplicated()]
    if len(twice):
        raise ValueError(f"several columns are named {twice[0]!r}; give each a name of its own")
    return {name: Values(frame.iloc[:, i]) for i, name in enumerate(names)}


def rows_of(table: Columns) -> int:
    """Return the number of rows of a table."""
    return len(next(iter(table.values()))) if table else 0


def parts_of(table: Columns, rows: Any) -> dict[str, Values]:
    """Return some rows of a table: a slice or an array."""
    return {name: values.part(rows) for name, values in table.items()}


def targets_of(y: Any) -> Array:
    """Return targets as floats, or classes as strings."""
    y = np.asarray(y)
    if y.ndim != 1:
        raise ValueError(f"y must be of shape (n,), got {y.shape}; one target a row")
    return np.asarray(y, dtype=np.float64 if y.dtype.kind in "iuf" else str)
