"""Columns of a table as numbers, times or labels: what is written in the cells, whatever the kind
of the column.

A column of text is factorized once. Everything that is decided about it, whether it holds numbers,
dates or categories, is decided on its distinct labels, of which a large table has few: reading the
dates of a million rows parses some hundred of them.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from forgetless._validate import Floats
from forgetless.tables.parsing import MISSING, number_text, numbers_in, seconds, times_in

_CODE = r"[-+]?0\d+"
"""Digits with a zero in front: a ZIP code or a number of an article, not a quantity."""

_DATE = r"\d\s*[-./:, ]\s*\w|\w\s*[-./:, ]\s*\d"
"""What every date has: two parts with a separator."""

_FEW = 5
_RARE = 0.05
"""At most so many labels, and such a fraction of the rows, may be no numbers in a column of
numbers: 'see note', '12 or 13'."""


class TableError(ValueError):
    """A table that cannot be learned or predicted; the message names the column."""


@contextlib.contextmanager
def naming(name: str) -> Iterator[None]:
    """Put the name of a column before the message of an error."""
    try:
        yield
    except TableError as error:
        raise TableError(f"column {name!r} {error}") from None


class Labels:
    """Distinct texts, with the numbers and times that they stand for.

    Some of the labels of a larger set take what was parsed there.
    """

    def __init__(
        self, texts: NDArray[Any], parent: "Labels | None" = None, places: Any = None
    ) -> None:
        self.texts = texts
        self._parent = parent
        self._places = places

    def some(self, places: Any) -> "Labels":
        """Return some of the labels."""
        return Labels(self.texts[places], self, places)

    @cached_property
    def numbers(self) -> Floats:
        """Numbers, NaN where a label is none."""
        if self._parent is not None:
            return np.asarray(self._parent.numbers[self._places])
        return numbers_in(self.texts)

    @cached_property
    def times(self) -> Floats:
        """Seconds since 1970, NaN where a label is no date."""
        if self._parent is not None:
            return np.asarray(self._parent.times[self._places])
        return times_in(self.texts)

    @cached_property
    def is_sign(self) -> NDArray[np.bool_]:
        """Where a label is a sign for a missing value."""
        lower = pd.Series(self.texts, dtype=object).astype(str).str.strip().str.lower()
        return lower.isin(MISSING).to_numpy()

    def words(self) -> NDArray[np.bool_]:
        """Return where a label is neither a number nor a sign for a missing one."""
        return np.isnan(self.numbers) & ~self.is_sign


@dataclass(frozen=True)
class Values:
    """The n cells of a column, either as floats or as codes of labels.

    Attributes
    ----------
    floats : array of shape (n,) or None
        Numbers; seconds since 1970 where ``is_time``. NaN where nothing is written.
    codes : array of shape (n,) or None
        Places in ``labels``, −1 where nothing is written.
    labels : Labels or None
        The distinct texts in the order of their first rows.
    is_time : bool
        Whether the column came as times, e.g. from Parquet.
    is_truth : bool
        Whether it came as true and false.
    """

    floats: Floats | None = None
    codes: Any = None
    labels: Labels | None = None
    is_time: bool = False
    is_truth: bool = False

    def __len__(self) -> int:
        return len(self.codes if self.floats is None else self.floats)

    @cached_property
    def missing(self) -> NDArray[np.bool_]:
        """Where nothing is written."""
        if self.floats is not None:
            return np.isnan(self.floats)
        return np.asarray(self.codes < 0)

    @cached_property
    def coded(self) -> tuple[NDArray[np.int64], Labels]:
        """Codes and labels; the number 3.0 is "3"."""
        if self.floats is None:
            assert self.labels is not None
            return self.codes, self.labels
        codes, distinct = pd.factorize(self.floats)
        if self.is_time:
            texts = np.datetime_as_string(distinct.astype("datetime64[s]")).astype(object)
        elif self.is_truth:
            texts = np.array([str(value == 1.0) for value in distinct], dtype=object)
        else:
            texts = np.array([number_text(value) for value in distinct.tolist()], dtype=object)
        return codes, Labels(texts)

    @cached_property
    def numbers(self) -> Floats:
        """Finite numbers, NaN elsewhere."""
        if self.floats is not None:
            return np.where(np.isfinite(self.floats), self.floats, np.nan)
        codes, labels = self.coded
        return _at(labels.numbers, codes)

    @cached_property
    def times(self) -> Floats:
        """Seconds since 1970, NaN elsewhere; a time of the day alone is one of 1970-01-01."""
        if self.floats is not None and self.is_time:
            return self.floats
        codes, labels = self.coded
        return _at(labels.times, codes)

    @property
    def kind(self) -> str:
        """What the column seems to hold: "number", "date", "category", or "empty"."""
        if self.missing.all():
            return "empty"
        if self.floats is not None:
            return "date" if self.is_time else "number"
        codes, labels = self.coded
        texts = pd.Series(labels.texts, dtype=object)
        useful = texts[~labels.is_sign]
        if not len(useful) or texts.str.fullmatch(_CODE).any():
            return "category"
        if useful.head(10).str.contains(_DATE).all() and not np.isnan(labels.times).any():
            return "date"
        # A few cells of a column of numbers may be words.
        counts = np.bincount(codes[codes >= 0], minlength=len(texts))
        is_word = labels.words()
        few = is_word.sum() <= _FEW and counts[is_word].sum() <= _RARE * counts.sum()
        return "number" if few and counts[useful.index].sum() > 0.5 * counts.sum() else "category"

    def words(self) -> list[str]:
        """Return the labels that are neither numbers nor signs for missing ones."""
        if self.floats is not None:
            return []
        _, labels = self.coded
        words: list[str] = labels.texts[labels.words()].tolist()
        return words

    def take(self, rows: Any) -> "Values":
        """Return some of the rows."""
        if self.floats is not None:
            return replace(self, floats=self.floats[rows])
        assert self.labels is not None
        # Labels of no row would count as seen.
        places, used = pd.factorize(self.codes[rows])
        new = np.where(used < 0, -1, np.cumsum(used >= 0) - 1)
        return Values(codes=new[places], labels=self.labels.some(used[used >= 0]))


def joined(parts: Sequence[Values]) -> Values:
    """Return the rows of several parts of a column."""
    if len(parts) == 1:
        return parts[0]
    if all(part.floats is not None for part in parts):
        return replace(parts[0], floats=np.concatenate([part.floats for part in parts]))
    coded = [part.coded for part in parts]
    places, texts = pd.factorize(np.concatenate([labels.texts for _, labels in coded]))
    codes = []
    first = 0
    for own, labels in coded:
        new = np.append(places[first : first + len(labels.texts)], -1)
        codes.append(new[own])
        first += len(labels.texts)
    return Values(codes=np.concatenate(codes), labels=Labels(texts))


Columns = Mapping[str, Values]
"""A table: its columns by name."""


def columns_of(table: Any) -> dict[str, Values]:
    """Return the columns of a table: a data frame (of pandas, polars or pyarrow), or a mapping of
    names to columns.
    """
    if isinstance(table, dict) and all(isinstance(each, Values) for each in table.values()):
        return table
    frame = frame_of(table)
    names = [str(name) for name in frame.columns]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise TableError(f"several columns are named {twice[0]!r}; give each a name of its own")
    return {name: values_of(frame.iloc[:, i]) for i, name in enumerate(names)}


def frame_of(table: Any) -> pd.DataFrame:
    """Return a table as a data frame of pandas."""
    if isinstance(table, pd.DataFrame):
        return table
    for convert in ("to_pandas", "to_frame"):
        if hasattr(table, convert):
            return frame_of(getattr(table, convert)())
    return pd.DataFrame(table)


def values_of(column: Any) -> Values:
    """Return the cells of one column."""
    column = pd.Series(column)
    if isinstance(column.dtype, pd.CategoricalDtype):
        codes = column.cat.codes.to_numpy(np.int64)
        # Categories that no row has would count as seen.
        texts = _texts(column.cat.categories)
        return Values(codes=codes, labels=Labels(texts)).take(slice(None))
    if column.dtype.kind == "M":
        return Values(floats=seconds(column), is_time=True)
    if column.dtype.kind == "m":
        return Values(floats=(column / pd.Timedelta(seconds=1)).to_numpy(np.float64))
    if column.dtype.kind in "biuf":
        is_truth = column.dtype.kind == "b"
        floats = column.to_numpy(np.float64, na_value=np.nan)
        return Values(floats=floats, is_truth=is_truth)
    if column.dtype.kind == "c":
        raise TableError("holds complex numbers; give real and imaginary parts as two columns")
    codes, distinct = pd.factorize(column)
    return _merged(codes, np.asarray(distinct, dtype=object))


def _merged(codes: Any, distinct: Any) -> Values:
    """Return codes of values of any type, of which some may have the same text."""
    if len(distinct) and all(isinstance(each, bool | np.bool_) for each in distinct):
        truth = np.asarray(distinct, dtype=np.float64)
        return Values(floats=_at(truth, codes), is_truth=True)
    again, texts = pd.factorize(_texts(distinct))
    places = np.append(again, -1)
    return Values(codes=places[codes], labels=Labels(texts))


def _texts(values: Any) -> NDArray[Any]:
    """Return values as text, stripped."""
    texts = [
        number_text(value) if isinstance(value, float) else str(value).strip() for value in values
    ]
    return np.array(texts, dtype=object)


def _at(values: Floats, codes: Any) -> Floats:
    """Return the values of codes; NaN for −1."""
    return np.asarray(np.append(values, np.nan)[codes])
