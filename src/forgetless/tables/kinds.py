"""The kinds of columns: numbers, dates and categories.

A subclass of ``Column`` says what it reads, what it learns and which parts it has. What else must
know a new kind: ``Values.kind``, which finds it in the cells; ``KINDS`` below; what counts as a
change of it in ``changes.py``; and how a report words its effect in ``report.py``.

Of categories scikit-learn's ``OneHotEncoder`` needs all labels at once, and ``FeatureHasher`` mixes
them from the first one on: here every label has a feature as it comes.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from forgetless._validate import Array
from forgetless.tables.features import Column, Parts
from forgetless.tables.values import DAY, Values

LARGEST = 1e140  # no mutant: 1e140 + 1 is the same float
"""Numbers must be below it: their squares are added up, and a float ends at 1.8e308."""

IDENTIFIERS = 10_000
"""Most values of a task among which identifiers are looked for."""

UNITS = 5
"""Fewest of them: two or three rows of a task often hold 0 and 1, or ranks, once each."""

RECURRING = 0.9
"""Fraction of the values of a task that must have been in the task before, for identifiers: found
9 of 10 identifiers of 55 real tables, and no other column."""

YEAR = 365.25 * DAY
"""Seconds."""

SEASON = 300.0 * DAY
"""A yearly wave is learned from so many days on: from fewer a wave and a trend look alike."""

_WEEKDAYS = [
    " Mon",
    " Tue",
    " Wed",
    " Thu",
    " Fri",
    " Sat",
    " Sun",
]

BUCKETS = 32
"""Features that the categories beyond the most share."""

RARE = 5
"""Categories of fewer rows stand in a file as hashes."""

RARE_NAME = "=(rare label"
"""How the parts of such categories begin."""

NAMES = 0.8
"""A column of which more than this fraction of all rows has a label of its own holds names: on
three of 100 real tables a feature for each was 1.3 to 2.4 times the error of none."""

NAMED_ROWS = 16
"""Rows without which nothing is said of names."""

COUNTED = 10
"""Labels that are counted, times the most that have a feature."""


@dataclass(eq=False)
class Number(Column):
    """A number, its running mean where it is missing, which says nothing of the row.

    Attributes
    ----------
    count, mean, squares
        Rows with a value, their mean, and the sum of squared deviations from it, of all tasks.
    origin : float
        Is subtracted: the first mean of a late column, 0 of others.
    identifiers : list of float
        The integers of the last task, where each occurs once: if they come again in the next,
        they name units, such as the firms of a panel, and are no quantities.
    """

    kind = "number"
    unread = 0.5
    first = ("",)

    count: int = 0
    mean: float = 0.0
    squares: float = 0.0
    origin: float = 0.0
    identifiers: list[float] = field(default_factory=list)

    def read(self, values: Values) -> Array:
        return values.numbers

    def update(self, values: Values, present: Array) -> None:
        largest = float(np.abs(present).max())
        if largest >= LARGEST:
            raise ValueError(
                f"column {self.name!r} holds {largest:g}, too large to be squared; rescale or"
                " correct it"
            )
        # Means and squares of two sets of rows together (Chan, Golub and LeVeque): with n rows of
        # mean a and m of mean b, M = (n a + m b) / (n + m), and the squares around M are those
        # around a and b, and (b − a)² n m / (n + m).
        mean = float(present.mean())
        total = self.count + len(present)
        gap = mean - self.mean
        self.squares += float(np.sum((present - mean) ** 2))
        self.squares += gap * gap * self.count * len(present) / total
        self.mean += gap * len(present) / total
        if self.is_late and not self.count:
            # A late column is centred on its first task, since it was zero in the rows before.
            self.origin = self.mean
        self.count = total
        # Of this task alone: they are compared with those of the next.
        self.identifiers = unique_integers(present)

    def split(self, values: Values) -> Parts:
        numbers = np.where(self.gone(values), self.mean, values.numbers)
        return {"": numbers - self.origin}, None

    def shown_by(self, values: Values) -> str:
        if not self.identifiers or not values.is_number:
            return ""
        now = unique_integers(values.numbers[~values.missing])
        again = len({*now} & {*self.identifiers})
        if not now or again < RECURRING * len(now):
            return ""
        return (
            f"{self.name}: integers that occur once a task and come again, such as {len(now)} here;"
            f" taken for categories (--number {self.name} takes them for numbers)"
        )


def unique_integers(numbers: Array) -> list[float]:
    """Return the integers of a task in which each occurs once; nothing for other numbers."""
    # Most numbers are no integers, and sorting takes ten times as long as looking.
    if not UNITS <= len(numbers) <= IDENTIFIERS or (numbers % 1 != 0).any():
        return []
    distinct = np.unique(numbers)
    if len(distinct) < len(numbers):
        return []
    return list(map(float, distinct))


@dataclass(eq=False)
class Date(Column):
    """A trend, the weekday, and where the dates tell one the time of the day and of the year.

    The trend is in years, so that its weight is a change in a year. A wave of length T is the pair
    sin(2πt/T), cos(2πt/T): any wave of that length is a sum of the two.

    Attributes
    ----------
    origin, low, high : float
        Where the trend is zero, and the first and the last time learned, in seconds since 1970.
    since : float
        The wave of the year is zero up to here: it was not known yet.
    count, mean
        Rows with a time, and their mean distance from the origin.
    """

    kind = "date"
    unread = 0.05
    first = (" trend", *_WEEKDAYS)

    origin: float = 0.0
    low: float = np.inf
    high: float = -np.inf
    since: float = np.inf
    count: int = 0
    mean: float = 0.0

    def read(self, values: Values) -> Array:
        return values.times

    def update(self, values: Values, present: Array) -> None:
        mean = float(present.mean())
        if not self.count:
            self.origin = mean if self.is_late else float(present.min())
        self.count += len(present)
        self.mean += (mean - self.origin - self.mean) * len(present) / self.count
        if " year sin" not in self.parts:
            # If this task begins the wave, it has been zero in all rows so far, and must stay so
            # for their dates, whichever file they come from.
            self.since = self.high
        self.low = min(self.low, float(present.min()))
        self.high = max(self.high, float(present.max()))
        if (values.distinct_times[1] % DAY > 0).any():
            self.grow(" hour sin", " hour cos")
        if self.high - self.low > SEASON:
            self.grow(" year sin", " year cos")

    def split(self, values: Values) -> Parts:
        # Days come many times, so that features are computed for the distinct ones.
        codes, times = values.distinct_times
        gone = np.isnan(times)
        found = {" trend": np.where(gone, self.mean, times - self.origin) / YEAR}
        times = np.where(gone, 0.0, times)
        for turn, length, since in (
            (" hour", DAY, -np.inf),
            (" year", YEAR, self.since),
        ):
            if f"{turn} sin" in self.parts:
                angle = 2.0 * np.pi * (times % length) / length
                is_off = gone | (times <= since)
                found[f"{turn} sin"] = np.where(is_off, 0.0, np.sin(angle))
                found[f"{turn} cos"] = np.where(is_off, 0.0, np.cos(angle))
        # Days are counted from Monday, and 1970-01-01 was a Thursday.
        weekday = np.floor(times / DAY + 3).astype(int) % len(_WEEKDAYS)
        places = np.where(gone, -1, self.parts.index(_WEEKDAYS[0]) + weekday)
        return {part: each[codes] for part, each in found.items()}, places[codes]


@dataclass(eq=False)
class Category(Column):
    """A feature for every label from its first row on, up to ``most``; the others share buckets.

    A label beyond has the bucket of its hash modulo ``BUCKETS``. A label that has no feature when
    a row is predicted is a row without a label, as if the weight of the label were zero.

    Labels are known by hashes with a key of the model. In a file those of fewer than ``RARE`` rows
    have no other name. Whoever has the file can still try names until a hash fits.

    Parameters
    ----------
    name, is_late
        As of every column.
    most : int
        Features.
    key : str
        16 characters.
    waits : bool
        Whether labels have a feature from their second row on only: for columns of names.

    Attributes
    ----------
    places : dict from hash to place in ``parts``
    counts : dict from hash to number of rows
        Also of labels that wait.
    frozen : float or None
        Of identifiers that were learned as numbers: the value of that feature from then on, the
        mean of the rows so far, so that it adds to the intercept only.
    """

    kind = "category"

    most: int = 300
    key: str = ""
    waits: bool = False
    places: dict[int, int] = field(default_factory=dict)
    counts: dict[int, int] = field(default_factory=dict)
    frozen: float | None = None

    @classmethod
    def of_identifiers(
        cls,
        number: Any,
        most: int,
        key: str,
    ) -> "Category":
        """Return the column of identifiers that were learned as numbers: their feature stays in its
        place, and is constant from now on.
        """
        return cls(
            number.name,
            number.is_late,
            number.parts,
            number.rows,
            number.missing,
            most=most,
            key=key,
            frozen=number.mean - number.origin,
        )

    @property
    def has_buckets(self) -> bool:
        """Whether there are more labels than features."""
        return "#0" in self.parts

    def read(self, values: Values) -> Array:
        return np.where(values.missing, np.nan, 0.0)

    def update(self, values: Values, present: Array) -> None:
        codes, labels = values.coded
        # Rows of every label; the place 0 is of those without one.
        rows = np.bincount(codes + 1)[1:].tolist()
        hashes = self._hashes(values)
        for label, code, count in zip(labels.tolist(), hashes, rows, strict=True):
            if code in self.counts or len(self.counts) < COUNTED * self.most:
                self.counts[code] = self.counts.get(code, 0) + count
            if code not in self.places:
                if self.waits and self.counts.get(code, 0) < 2:
                    continue
                if len(self.places) >= self.most:
                    self.grow(*(f"#{i}" for i in range(BUCKETS)))
                    continue
                self.places[code] = len(self.parts)
                self.parts.append("")
            # In a file the name of a rare label is its hash: here it is known again.
            self.parts[self.places[code]] = f"={label}"

    def split(self, values: Values) -> Parts:
        numbers = {}
        if self.frozen is not None:
            numbers[""] = np.full(len(values), self.frozen)
        # The last place is that of rows without a value.
        return numbers, np.append(self.places_of(values), -1)[values.coded[0]]

    def places_of(self, values: Values) -> Array:
        """Return the part of every label, −1 where it has none."""
        hashes = self._hashes(values)
        places = [self.places.get(code, -1) for code in hashes]
        if self.has_buckets:
            first = self.parts.index("#0")
            pairs = zip(places, hashes, strict=True)
            places = [first + code % BUCKETS if place < 0 else place for place, code in pairs]
        return np.array(places, dtype=int)

    def _hashes(self, values: Values) -> Any:
        """Return keyed hashes of labels, the same on every machine."""
        if self.key not in values.memo:
            texts = [each.encode("utf-8", "replace") for each in values.coded[1]]
            hashes = pd.util.hash_array(np.array(texts, dtype=object), "utf8", self.key, False)
            values.memo[self.key] = hashes.tolist()
        return values.memo[self.key]

    def shown_by(self, values: Values) -> str:
        new = set(self._hashes(values)) - self.counts.keys()
        # Of all rows with a label, these ones included.
        rows = self.rows - self.missing + int((~values.missing).sum())
        is_own = len(self.counts) + len(new) > NAMES * rows >= NAMES * NAMED_ROWS
        if not is_own or self.waits:
            return ""
        return f"{self.name}: nearly every row has its own text; one counts from its second row on"

    def state(self) -> dict[str, Any]:
        # With hashes in place of rare labels.
        parts = list(self.parts)
        for code, place in self.places.items():
            if self.counts.get(code, 0) < RARE:
                parts[place] = f"{RARE_NAME} {code:016x})"
        return {**vars(self), "parts": parts}


KINDS: dict[str, Any] = {each.kind: each for each in (Number, Category, Date)}
