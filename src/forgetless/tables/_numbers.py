"""Numbers and dates in text: thousands, decimal commas, currencies, per cent, signs that stand for
a missing value, and the format of dates that fits all values of a column.
"""

import datetime
import math
import re
from collections.abc import Sequence

import numpy as np

from forgetless._core.frames import Values
from forgetless._validate import Floats

_PATTERNS = {
    sign: re.compile(
        rf"(\d{{1,3}}(?:[{others} '\u00a0\u202f]\d{{3}})+|\d*)((?:[{sign}]\d*)?(?:[eE][-+]?\d+)?)"
    )
    for sign, others in ((".", ","), (",", "."))
}
"""Digits, perhaps with thousands, and what follows them, by the decimal sign."""

_FRAME = re.compile(
    r"(?P<minus>[-+−(]?)\s*[$€£¥]?\s*(?P<late>[-−]?)(?P<digits>[^$€£¥%)]*?)\s*[%$€£¥]?\)?"
)

_CODE = re.compile(r"\s*0\d")
"""Strings of digits with a leading zero are codes."""

_MISSING_SIGNS = frozenset(
    [
        "-",
        "--",
        "---",
        "–",
        "—",
        ".",
        "..",
        "...",
        "?",
        "??",
        "*",
        "n.a.",
        "none",
        "missing",
        "unknown",
    ]
)
"""Strings in columns of numbers that stand for a missing value, beside those that pandas reads
so."""

_FEW = 5
SHARE = 0.05
"""Other strings that a column of numbers may hold: so many different ones, in this fraction of the
rows."""


def number_of(label: str, decimal: str = ".") -> float | None:
    """Return the number in a string; None if it is not one.

    Examples
    --------
    >>> number_of("$1,234"), number_of("1.234,5", ","), number_of("(12 %)"), number_of("12O5")
    (1234.0, 1234.5, -12.0, None)
    """
    if decimal == ".":
        try:
            return float(label)
        except ValueError:
            pass
    frame = _FRAME.fullmatch(label.strip())
    parts = frame and _PATTERNS[decimal].fullmatch(frame["digits"])
    if not frame or not parts or not re.search(r"\d", frame["digits"]):
        return None
    value = float(re.sub(r"\D", "", parts[1]) + parts[2].replace(decimal, ".", 1))
    return -value if frame["minus"] in ("-", "−", "(") or frame["late"] else value


def is_missing_sign(label: str) -> bool:
    """Return whether a string stands for a missing value among numbers."""
    return label.strip().lower() in _MISSING_SIGNS


def decimal_sign(values: Values) -> str | None:
    """Return the decimal sign with which nearly all strings of a column are numbers; None if they
    are not.

    A point wins where both are possible: 1,234 is a thousand, and 1.234 a little more than one.

    Examples
    --------
    >>> columns = (["$5", "1,234"], ["5,5", "1,234"], ["A", "6"])
    >>> [decimal_sign(Values("string", codes=np.arange(2), labels=labels)) for labels in columns]
    ['.', ',', None]
    """
    if any(_CODE.match(label) for label in values.labels if label.strip().isdigit()):
        return None
    total = int(np.sum(values.codes >= 0))
    bad, decimal, counts = min(
        (
            (sum(counts.values()), decimal, counts)
            for decimal in _PATTERNS
            for counts in [not_numbers(values, decimal)]
        ),
        key=lambda each: each[0],
    )
    return decimal if bad < 0.5 * total and are_few(counts, total) else None


def are_few(counts: dict[str, int], total: int, share: float = SHARE) -> bool:
    """Return whether strings that are not numbers are few among ``total``, those for missing values
    apart.
    """
    others = [count for label, count in counts.items() if not is_missing_sign(label)]
    return len(others) <= _FEW and sum(others) <= share * total


def not_numbers(values: Values, decimal: str) -> dict[str, int]:
    """Return the strings of a column that are not numbers, with the number of rows of each."""
    bad = [i for i, label in enumerate(values.labels) if number_of(label, decimal) is None]
    counts = (
        np.bincount(values.codes[values.codes >= 0], minlength=len(values.labels)) if bad else ()
    )
    return {values.labels[i]: int(counts[i]) for i in bad}


def numbers_in(labels: Sequence[str], decimal: str) -> Floats:
    """Return the numbers in strings, NaN where there is none."""
    numbers = (number_of(label, decimal) for label in labels)
    return np.array([math.nan if number is None else number for number in numbers])


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
