"""Formats of dates in text: the one that fits all values of a column."""

import datetime
import re
from collections.abc import Sequence

import numpy as np

from forgetless._core.arrays import Floats

ISO = "ISO 8601"

_FORMATS = (
    "%d.%m.%Y",
    "%d.%m.%Y %H:%M",
    "%d.%m.%Y %H:%M:%S",
    "%m/%d/%Y",
    "%m/%d/%Y %H:%M",
    "%m/%d/%Y %H:%M:%S",
    "%d/%m/%Y",
    "%d/%m/%Y %H:%M",
    "%d/%m/%Y %H:%M:%S",
    "%m/%d/%Y %I:%M %p",
    "%m/%d/%Y %I:%M:%S %p",
    "%d-%m-%Y",
    "%d-%m-%Y %H:%M",
    "%Y/%m/%d",
    "%Y/%m/%d %H:%M",
    "%Y/%m/%d %H:%M:%S",
    "%d %b %Y",
    "%d %b %Y %H:%M",
    "%d-%b-%Y",
    "%d %B %Y",
    "%b %d, %Y",
    "%B %d, %Y",
    "%Y-%m",
    "%m/%d/%y",
    "%m/%d/%y %H:%M",
    "%d/%m/%y",
    "%d/%m/%y %H:%M",
    "%d.%m.%y",
    "%d.%m.%y %H:%M",
    "%d-%b-%y",
)
"""Tried in this order: where day and month are ambiguous, the first format that fits."""

_DECLARED = ("%Y%m%d", "%Y")
"""Also tried for a column that was declared to hold dates: these look like numbers."""

_DATE_LIKE = re.compile(r"\d\s*[-./:, ]\s*\w|\w\s*[-./:, ]\s*\d")
"""A digit beside a sign that separates the parts of a date."""

_EPOCH = datetime.datetime(1970, 1, 1)


def format_of(labels: Sequence[str], *, declared: bool = False) -> str | None:
    """Return the date format of all strings; None if they are not dates.

    Examples
    --------
    >>> format_of(["2013-01-31",
    ...     "2013-02-01 06:00"]), format_of(["31.1.2013"]), format_of(["north"])
    ('ISO 8601', '%d.%m.%Y', None)
    """
    if not labels or (not declared and not all(_DATE_LIKE.search(label) for label in labels[:10])):
        return None
    format: str
    for format in (ISO, *_FORMATS, *(_DECLARED if declared else ())):
        # Most formats fail on the first strings.
        if parsed(labels[:10], format) is not None and parsed(labels, format) is not None:
            return format
    return None


def parsed(labels: Sequence[str], format: str) -> Floats | None:
    """Return dates in microseconds since 1970 (UTC if they have a zone); None if a string is not
    such a date.
    """
    try:
        return np.array([_one(label.strip(), format) for label in labels], dtype=np.float64)
    except ValueError:
        return None


def _one(label: str, format: str) -> float:
    if format == ISO:
        if not (len(label) >= 8 and label[4] == "-"):  # also 20130131, which may be a number
            raise ValueError(label)
        time = datetime.datetime.fromisoformat(label)
    else:
        time = datetime.datetime.strptime(label, format)
    if time.tzinfo is not None:
        time = time.astimezone(datetime.UTC).replace(tzinfo=None)
    return (time - _EPOCH) / datetime.timedelta(microseconds=1)
