"""Columns of a table as numbers, times or labels: what people and programs write into cells,
whatever the kind of the column.

pandas has read the file, and knows the columns of numbers. A column of text is factorized once, by
``pandas.factorize``. Everything that is decided about it, whether it holds numbers, dates or
categories, is decided on its distinct labels, of which a large table has few: reading the dates of
a million rows parses some hundred of them. ``pandas.to_numeric`` reads neither currencies nor
thousands, and ``pandas.to_datetime`` reads one format a call.
"""

import re
import warnings
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from forgetless._validate import Array

DAY = 86400.0
"""Seconds."""

EXACT = 2.0**53
"""Below it every integer is a float."""

_SIGNS = "- -- --- – — . .. ... ? ?? * n.a. n/a na nan nil none null missing unknown"

MISSING = {"", *_SIGNS.split()}
"""Signs for a missing value among numbers and dates, in lower case."""

CODE = r"[-+]?0\d+"
"""Digits with a zero in front: a ZIP code or a number of an article, not a quantity."""

_NUMBER = r"[-+]?(?:\d[\d.,'\u00a0\u202f]*|\.\d+)(?:[eE][-+]?\d+)?"

_THOUSANDS = r"(?<=\d)[,'](?=\d{3}(?:\D|$))"
"""A comma or an apostrophe between groups of three digits."""

_POINTS = r"(?<=\d)[.'](?=\d{3}(?:\D|$))"
"""The same where commas are decimal."""

_CLOCK = re.compile(r"^(\s*\d{1,2}:\d\d(:\d\d(\.\d+)?)?\s*)$")
"""A time of the day."""

_FORMATS: tuple[dict[str, Any], ...] = (
    {"format": "ISO8601"},
    {},
    {"dayfirst": True},
    {"format": "mixed"},
)
"""What ``pandas.to_datetime`` is asked for, in this order."""

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
        # A length of time is a number of seconds.
        if column.dtype.kind == "m":
            column = column / pd.Timedelta(seconds=1)
        # Cells are numbers, times, or codes of texts.
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
        # The texts are shared: some of them may be in no row of the part.
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
        if self.texts is None:
            return pd.isna(self.cells)
        return self.cells < 0

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
        # What is infinite cannot be learned, as what is missing.
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
        if self.is_number:
            return []
        is_lost = np.isnan(found) & ~self.missing
        if not is_lost.any():
            return []
        lost = self.written[is_lost]
        return list(lost[~is_sign(lost)])

    @property
    def kind(self) -> str:
        """What the column seems to hold: "number", "date", "category", or "empty".

        Decided on the distinct texts, in this order: a code such as 07 makes all of them labels;
        all must be dates for a date; nearly all must be numbers for a number; the rest are labels.
        """
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
        if few and np.isfinite(self.numbers).sum() > 0.5 * n:
            return "number"
        return "category"


def _labelled(cells: Any) -> tuple[Array, Array]:
    """Return codes of cells, −1 where nothing is written, and the texts that they stand for."""
    codes, distinct = pd.factorize(cells)
    # Some values have the same text: "Ulm" and "Ulm ", 3 and 3.0.
    texts = [label_text(each) for each in distinct]
    again, labels = pd.factorize(np.array(texts, dtype=object))
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


# --- numbers and times in text ---


def label_text(value: Any) -> str:
    """Return a value as a label: 3.0 is "3"."""
    if isinstance(value, float):
        if value % 1 == 0 and abs(value) < EXACT:
            return str(int(value))
        return repr(float(value))
    return str(value).strip()


def is_sign(labels: Array) -> Array:
    """Return where labels are signs for a missing value."""
    # pandas would take a hundred times as long for the few labels of a task.
    return np.array([label.lower() in MISSING for label in labels], dtype=bool)


def numbers_in(labels: Array) -> Array:
    """Return the numbers that labels stand for, NaN where they stand for none.

    Currencies, percent signs, thousands and brackets for negative numbers are understood, and a
    decimal comma where the points of a column make no sense.

    Examples
    --------
    >>> import numpy as np
    >>> numbers_in(np.array(["1,234.5", "$5", "(7)", "E5"], dtype=object)).tolist()
    [1234.5, 5.0, -7.0, nan]
    >>> numbers_in(np.array(["1.234,5", "2,25"], dtype=object)).tolist()
    [1234.5, 2.25]
    """
    texts = pd.Series(labels, dtype=object).astype(str)
    core = texts.str.replace(r"[$€£¥%\s]", "", regex=True).str.replace("−", "-")
    core = core.str.replace(r"^\((.*)\)$", r"-\1", regex=True)
    # "E5" and "1.5 kg" are labels: what is no number as a whole stands for none.
    core = core[core.str.fullmatch(_NUMBER)]
    point = pd.to_numeric(core.str.replace(_THOUSANDS, "", regex=True), errors="coerce")
    # 1.234,5 is no number with decimal points: the reading that fails less often is that of all.
    if point.isna().any():
        swapped = core.str.replace(_POINTS, "", regex=True).str.replace(",", ".")
        comma = pd.to_numeric(swapped, errors="coerce")
        if comma.isna().sum() < point.isna().sum():
            point = comma
    numbers = point.astype(float).reindex(texts.index).to_numpy()
    return np.where(np.isfinite(numbers), numbers, np.nan)


def times_in(labels: Array) -> Array:
    """Return the seconds since 1970 of dates in labels, NaN where there is none.

    ISO 8601 is tried first, then what pandas guesses, then the day before the month; the format
    that reads most labels is taken, so that another file may write its dates in another way.

    Examples
    --------
    >>> import numpy as np
    >>> (times_in(np.array(["02.01.1970", "31.01.1970"], dtype=object)) / DAY).tolist()
    [1.0, 30.0]
    """
    # Few labels are read a hundred times faster one by one than by pandas.
    texts = [_CLOCK.sub(r"1970-01-01 \1", label) for label in labels]
    best = np.full(len(texts), np.nan)
    for options in _FORMATS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # pandas says that it guesses
            found = seconds(pd.to_datetime(texts, errors="coerce", utc=True, **options))
        # 03.04.2024 is a date in several formats, and 31.04.2024 beside it in one of them.
        if np.isnan(found).sum() < np.isnan(best).sum():
            best = found
        if not np.isnan(best).any():
            break
    return best


def seconds(times: Any) -> Array:
    """Return the seconds since 1970 of times of pandas."""
    # Nanoseconds would not reach back to the year 1.
    index = pd.to_datetime(times, utc=True).as_unit("us")
    return np.where(index.isna(), np.nan, index.asi8 / 1e6)
