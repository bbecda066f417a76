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
from numpy.typing import NDArray

from forgetless._validate import Floats
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
        self.column = column
        self.gone: dict[str, NDArray[np.bool_]] = {}

    def __len__(self) -> int:
        return len(self.column)

    @property
    def is_number(self) -> bool:
        """Whether pandas has numbers, true and false among them."""
        return self.column.dtype.kind in "biuf"

    @cached_property
    def missing(self) -> NDArray[np.bool_]:
        """Where nothing is written."""
        return np.asarray(self.column.isna())

    @cached_property
    def coded(self) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """Codes of the rows, −1 where nothing is written, and the distinct texts that they stand
        for, in the order of their first rows.
        """
        codes, distinct = pd.factorize(self.column)
        # Some values have the same text: "Ulm" and "Ulm ", 3 and 3.0.
        again, labels = pd.factorize(np.array([label_text(each) for each in distinct], object))
        return np.append(again, -1)[codes], labels

    @cached_property
    def numbers(self) -> Floats:
        """Finite numbers, NaN elsewhere."""
        if not self.is_number:
            return self._of_labels(self._numbers)
        numbers = self.column.to_numpy(np.float64, na_value=np.nan)
        return np.where(np.isfinite(numbers), numbers, np.nan)

    @cached_property
    def times(self) -> Floats:
        """Seconds since 1970, NaN elsewhere; a time of the day alone is one of 1970-01-01."""
        if self.column.dtype.kind == "M":
            return seconds(self.column)
        return self._of_labels(times_in(self.coded[1]))

    @cached_property
    def _numbers(self) -> Floats:
        return numbers_in(self.coded[1])

    def _of_labels(self, found: Floats) -> Floats:
        """Return what was found in the labels for every row."""
        return np.asarray(np.append(found, np.nan)[self.coded[0]])

    def words(self) -> NDArray[np.bool_]:
        """Return where a label is neither a number nor a sign for a missing one."""
        return np.isnan(self._numbers) & ~is_sign(self.coded[1])

    def unread(self, found: Floats) -> list[str]:
        """Return the text of every row that has one which was not found, and is no sign for a
        missing value.
        """
        is_lost = np.isnan(found) & ~self.missing
        if self.is_number or not is_lost.any():
            return []
        codes, labels = self.coded
        lost = codes[is_lost]
        texts: list[str] = labels[lost[~is_sign(labels)[lost]]].tolist()
        return texts

    @property
    def kind(self) -> str:
        """What the column seems to hold: "number", "date", "category", or "empty"."""
        if self.missing.all():
            return "empty"
        if self.is_number:
            return "number"
        if self.column.dtype.kind == "M":
            return "date"
        labels = self.coded[1]
        useful = pd.Series(labels[~is_sign(labels)])
        if not len(useful) or pd.Series(labels).str.fullmatch(CODE).any():
            return "category"
        # 1,5 is a number rather than the first of May.
        looks_dated = self.words().any() and useful.head(10).str.contains(_DATE).all()
        if looks_dated and not np.isnan(times_in(useful.to_numpy())).any():
            return "date"
        # A few cells of a column of numbers may be words, and half of them signs for missing ones.
        n = (~self.missing).sum()
        few = self.words().sum() <= _FEW and len(self.unread(self.numbers)) <= _RARE * n
        return "number" if few and np.isfinite(self.numbers).sum() > 0.5 * n else "category"


Columns = Mapping[str, Values]
"""A table: its columns by name."""


def columns_of(table: Any) -> dict[str, Values]:
    """Return the columns of a table: a data frame (of pandas, polars or pyarrow), or a mapping of
    names to columns.
    """
    if isinstance(table, dict) and all(isinstance(each, Values) for each in table.values()):
        return table
    frame = pd.DataFrame(table.to_pandas() if hasattr(table, "to_pandas") else table)
    names = [str(name) for name in frame.columns]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"several columns are named {twice[0]!r}; give each a name of its own")
    return {name: Values(frame.iloc[:, i]) for i, name in enumerate(names)}


def rows_of(table: Columns) -> int:
    """Return the number of rows of a table."""
    return len(next(iter(table.values()))) if table else 0


def part_of(table: Columns, rows: slice) -> Columns:
    """Return some rows of a table; the table itself, whose labels are known, for all of them."""
    if rows.stop - rows.start == rows_of(table):
        return table
    return {name: Values(values.column.iloc[rows]) for name, values in table.items()}
