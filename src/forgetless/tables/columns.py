"""Features of one column of a table: numbers and dates; ``categories.py`` has the third kind.

A column has ``parts``, each of which is a feature. Parts are only added: a feature never changes
its place, and one that is added later was zero in all rows before, so that a model needs one
method besides ``partial_fit``, ``widen(count)``.

A column that begins late, because its first tasks hold no value or because a later file has it for
the first time, is zero where it has no value, as it was before, with a feature that says where it
has one. Any other column has a feature that says where the value is missing.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from forgetless._validate import Array
from forgetless.tables.parsing import DAY
from forgetless.tables.values import Values

MISSING = " is missing"
PRESENT = " is present"

LARGEST = 1e140
"""Numbers must be below it, since all are squared."""

IDENTIFIERS = 10_000
"""Most values of a task among which identifiers are looked for."""

UNITS = 5
"""Fewest of them: two or three rows of a task often hold 0 and 1, or ranks, once each."""

RECURRING = 0.9
"""Fraction of the values of a task that must have been in the task before, for identifiers: found
9 of 10 identifiers of 55 real tables, and no other column."""

YEAR = 365.25 * DAY
SEASON = 300.0 * DAY
"""A yearly wave is learned from so many days on."""

_WEEKDAYS = [f" {day}" for day in ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")]


Parts = tuple[dict[str, Any], Array]
"""Parts that are numbers, by name, and the place of the part that is one in each row, −1 for none;
None where a column has no such parts."""


@dataclass(eq=False)
class Column(ABC):
    """What all kinds share: parts, and the number of rows with and without a value.

    Parameters
    ----------
    name : str
    is_late : bool
        Whether rows have been learned before the column began.
    """

    kind: ClassVar[str] = ""

    unread: ClassVar[float] = 1.0
    """Fraction of the cells of a task that may hold text of another kind: taken for missing."""

    first: ClassVar[Any] = ()
    """Parts from the first row on."""

    name: str
    is_late: bool = False
    parts: list[str] = field(default_factory=list)
    rows: int = 0
    missing: int = 0

    def __post_init__(self) -> None:
        start = [PRESENT, *self.first] if self.is_late else self.first
        self.parts = self.parts or list(start)

    def grow(self, *parts: str) -> None:
        """Add the parts that are not there yet."""
        self.parts += [part for part in parts if part not in self.parts]

    @abstractmethod
    def read(self, values: Values) -> Array:
        """Return what the column holds, NaN where there is nothing that can be read."""

    @abstractmethod
    def update(self, values: Values, present: Array) -> None:
        """Learn the values that are there, of which there is one at least."""

    @abstractmethod
    def split(self, values: Values) -> Parts:
        """Return the parts, without those that say where values are."""

    def shown_by(self, values: Values) -> str:
        """Return a note if a task shows of the column what the tasks before it could not."""
        return ""

    def gone(self, values: Values) -> Array:
        """Return where a column has no value that can be read; ValueError if this is too often."""
        if self.kind not in values.memo:
            found = self.read(values)
            unread = values.unread(found)
            if len(unread) > self.unread * (~values.missing).sum():
                raise ValueError(
                    f"column {self.name!r} held {self.kind}s so far and now holds"
                    f" {unread[0]!r:.40}; correct the file, or --drop the column"
                )
            values.memo[self.kind] = np.isnan(found)
        return values.memo[self.kind]

    def learn(self, values: Values) -> None:
        """Learn the column of a task."""
        gone = self.gone(values)
        self.rows += len(gone)
        self.missing += int(gone.sum())
        if not gone.all():
            self.update(values, self.read(values)[~gone])
        if gone.any() and not self.is_late:
            self.grow(MISSING)

    def encoded(self, values: Values) -> Parts:
        """Return all parts."""
        gone = self.gone(values)
        numbers, places = self.split(values)
        if self.is_late:
            numbers = {part: np.where(gone, 0.0, each) for part, each in numbers.items()}
            places = None if places is None else np.where(gone, -1, places)
        marks = {MISSING: gone, PRESENT: ~gone}
        return numbers | {part: marks[part] for part in self.parts if part in marks}, places


@dataclass(eq=False)
class Number(Column):
    """A number, its running mean where it is missing.

    Attributes
    ----------
    count, mean, squares
        Rows with a value, their mean, and the sum of squared deviations from it.
    origin : float
        Is subtracted: the first mean of a late column, 0 of others.
    identifiers : list of float
        The integers of the last task, where each occurs once.
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
        # Means and squares of two sets of rows together (Chan, Golub and LeVeque).
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
        self.identifiers = unique_integers(present)

    def split(self, values: Values) -> Parts:
        return {"": np.where(self.gone(values), self.mean, values.numbers) - self.origin}, None

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
    if not UNITS <= len(numbers) <= IDENTIFIERS or (np.floor(numbers) != numbers).any():
        return []
    distinct = np.unique(numbers)
    return distinct.tolist() if len(distinct) == len(numbers) else []


@dataclass(eq=False)
class Date(Column):
    """A trend, the weekday, and where the dates tell one the time of the day and of the year.

    Attributes
    ----------
    origin, low, high : float
        Where the trend is zero, the first and the last time, in seconds since 1970.
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
    since: float = -np.inf
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
            # The wave was zero up to here.
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
        for turn, length, since in ((" hour", DAY, -np.inf), (" year", YEAR, self.since)):
            if f"{turn} sin" in self.parts:
                angle = 2.0 * np.pi * (times % length) / length
                is_off = gone | (times <= since)
                found[f"{turn} sin"] = np.where(is_off, 0.0, np.sin(angle))
                found[f"{turn} cos"] = np.where(is_off, 0.0, np.cos(angle))
        # 1970-01-01 was a Thursday.
        weekday = np.floor(times / DAY + 3).astype(int) % len(_WEEKDAYS)
        places = np.where(gone, -1, self.parts.index(_WEEKDAYS[0]) + weekday)
        return {part: each[codes] for part, each in found.items()}, places[codes]
