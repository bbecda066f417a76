"""Features of one column of a table: numbers and dates; ``categories.py`` has the third kind.

A column has ``parts``, each of which is a feature. Parts are only added: a feature never changes
its place, and one that is added later was zero in all rows before, so that a model needs one
method besides ``partial_fit``, ``widen(count)``.

A column that begins late, because its first tasks hold no value or because a later file has it for
the first time, is zero where it has no value, as it was before, with a feature that says where it
has one. Any other column has a feature that says where the value is missing.
"""

from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from forgetless._validate import Floats
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


class Column:
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

    def __init__(self, name: str, is_late: bool = False) -> None:
        self.name = name
        self.is_late = is_late
        self.parts: list[str] = [PRESENT] if is_late else []
        self.rows = 0
        self.missing = 0

    def grow(self, *parts: str) -> None:
        """Add the parts that are not there yet."""
        self.parts += [part for part in parts if part not in self.parts]

    def read(self, values: Values) -> Floats:
        """Return what the column holds, NaN where there is nothing that can be read."""
        raise NotImplementedError

    def update(self, values: Values, present: Floats) -> None:
        """Learn the values that are there, of which there is one at least."""
        raise NotImplementedError

    def fill(self, features: Floats, at: Any, values: Values, gone: NDArray[np.bool_]) -> None:
        """Write the parts into the columns ``at`` of features that are zero."""
        raise NotImplementedError

    def shown_by(self, values: Values) -> str:
        """Return a note if a task shows of the column what the tasks before it could not."""
        return ""

    def gone(self, values: Values) -> NDArray[np.bool_]:
        """Return where a column has no value that can be read; ValueError if this is too often."""
        if self.kind not in values.gone:
            found = self.read(values)
            unread = values.unread(found)
            if len(unread) > self.unread * (~values.missing).sum():
                raise ValueError(
                    f"column {self.name!r} held {self.kind}s so far and now holds"
                    f" {unread[0]!r:.40}; correct the file, or --drop the column"
                )
            values.gone[self.kind] = np.isnan(found)
        return values.gone[self.kind]

    def learn(self, values: Values) -> None:
        """Learn the column of a task."""
        gone = self.gone(values)
        self.rows += len(gone)
        self.missing += int(gone.sum())
        if not gone.all():
            self.update(values, self.read(values)[~gone])
        if gone.any() and not self.is_late:
            self.grow(MISSING)

    def encode(self, features: Floats, at: Any, values: Values) -> None:
        """Write the parts of a column into the columns ``at`` of features that are zero."""
        gone = self.gone(values)
        self.fill(features, at, values, gone)
        if self.is_late and gone.any():
            features[np.ix_(gone, at)] = 0.0
        for part, where in ((MISSING, gone), (PRESENT, ~gone)):
            if part in self.parts:
                features[:, at[self.parts.index(part)]] = where


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

    def __init__(self, name: str, is_late: bool = False) -> None:
        super().__init__(name, is_late)
        self.count = 0
        self.mean = 0.0
        self.squares = 0.0
        self.origin = 0.0
        self.identifiers: list[float] = []
        self.grow("")

    def read(self, values: Values) -> Floats:
        return values.numbers

    def update(self, values: Values, present: Floats) -> None:
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

    def fill(self, features: Floats, at: Any, values: Values, gone: NDArray[np.bool_]) -> None:
        numbers = np.where(gone, self.mean, values.numbers)
        features[:, at[self.parts.index("")]] = numbers - self.origin

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


def unique_integers(numbers: Floats) -> list[float]:
    """Return the integers of a task in which each occurs once; nothing for other numbers."""
    if not UNITS <= len(numbers) <= IDENTIFIERS:
        return []
    distinct = np.unique(numbers)
    is_unique = len(distinct) == len(numbers) and not (distinct % 1).any()
    return distinct.tolist() if is_unique else []


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

    def __init__(self, name: str, is_late: bool = False) -> None:
        super().__init__(name, is_late)
        self.origin = 0.0
        self.low = np.inf
        self.high = -np.inf
        self.since = -np.inf
        self.count = 0
        self.mean = 0.0
        self.grow(" trend", *_WEEKDAYS)

    def read(self, values: Values) -> Floats:
        return values.times

    def update(self, values: Values, present: Floats) -> None:
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
        if (present % DAY != 0).any():
            self.grow(" hour sin", " hour cos")
        if self.high - self.low > SEASON:
            self.grow(" year sin", " year cos")

    def fill(self, features: Floats, at: Any, values: Values, gone: NDArray[np.bool_]) -> None:
        # Days come many times, so features are computed for the distinct ones.
        codes, times = pd.factorize(values.times, use_na_sentinel=False)
        gone = np.isnan(times)
        own = np.zeros((len(times), len(at)))
        trend = self.parts.index(" trend")
        own[:, trend] = np.where(gone, self.mean, times - self.origin) / YEAR
        times = np.where(gone, 0.0, times)
        # 1970-01-01 was a Thursday.
        weekday = np.floor(times / DAY + 3).astype(np.int64) % len(_WEEKDAYS)
        own[np.arange(len(times)), trend + 1 + weekday] = ~gone
        waves = ((" hour", DAY, gone), (" year", YEAR, gone | (times <= self.since)))
        for turn, length, is_off in waves:
            if f"{turn} sin" in self.parts:
                angle = 2.0 * np.pi * (times % length) / length
                first = self.parts.index(f"{turn} sin")
                own[:, first] = np.where(is_off, 0.0, np.sin(angle))
                own[:, first + 1] = np.where(is_off, 0.0, np.cos(angle))
        features.T[at] = own[codes].T
