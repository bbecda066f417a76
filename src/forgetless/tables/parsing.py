"""Numbers and times in text: what people and programs write into cells.

``pandas.to_numeric`` reads neither currencies nor thousands, and ``pandas.to_datetime`` reads one
format a call; both are asked here for the distinct texts of a column, of which a large table has
few.
"""

import re
import warnings
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


def label_text(value: Any) -> str:
    """Return a value as a label: 3.0 is "3"."""
    if isinstance(value, float):
        return str(int(value)) if value % 1 == 0 and abs(value) < EXACT else repr(float(value))
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
    core = texts.str.strip().str.replace("−", "-").str.replace(r"^\((.*)\)$", r"-\1", regex=True)
    core = core.str.replace(r"[$€£¥%\s]", "", regex=True)
    # "E5" and "1.5 kg" are labels.
    core = core[core.str.fullmatch(_NUMBER)]
    point = pd.to_numeric(core.str.replace(_THOUSANDS, "", regex=True), errors="coerce")
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
        if np.isnan(found).sum() < np.isnan(best).sum():
            best = found
        if not np.isnan(best).any():
            break
    return best


def seconds(times: Any) -> Array:
    """Return the seconds since 1970 of times of pandas."""
    # Nanoseconds would not reach back to the year 1.
    index = pd.DatetimeIndex(pd.to_datetime(times, utc=True)).as_unit("us")
    return np.where(index.isna(), np.nan, index.asi8 / 1e6)
