"""Features of one column of a table, by its kind: number, category or date.

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
from forgetless.tables.values import TableError, Values

MISSING = " is missing"
PRESENT = " is present"

BUCKETS = 32
"""Features that the categories beyond the most share."""

RARE = 5
"""Categories of fewer rows stand in a file as hashes."""

RARE_NAME = "=(rare label"
"""How the parts of such categories begin."""

LARGEST = 1e140
"""Numbers must be below it, since all are squared."""

IDENTIFIERS = 10_000
"""Most values of a task among which identifiers are looked for."""

RECURRING = 0.9
"""Fraction of the values of a task that must have been in the task before, for identifiers: found
9 of 10 identifiers of 55 real tables, and no other column."""

NAMES = 0.8
"""A column of which more than this fraction of all rows has a label of its own holds names: on
three of 100 real tables a feature for each was 1.3 to 2.4 times the error of none."""

NAMED_ROWS = 16
"""Rows without which nothing is said of names."""

COUNTED = 10
"""Labels that are counted, times the most that have a feature."""

YEAR = 365.25 * DAY
SEASON = 300.0 * DAY
"""A yearly wave is learned from so many days on."""

_WEEKDAYS = [f" {day}" for day in ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")]


class Column:
    """What all kinds share: parts, and the number of rows with and without a value.

    Parameters
    ----------
    is_late : bool
        Whether rows have been learned before the column began.
    """

    kind: ClassVar[str] = ""

    unread: ClassVar[float] = 1.0
    """Fraction of the cells of a task that may hold text of another kind: taken for missing."""

    def __init__(self, is_late: bool) -> None:
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

    def shown_by(self, name: str, values: Values) -> str:
        """Return a note if a task shows of the column what the tasks before it could not."""
        return ""

    def gone(self, values: Values) -> NDArray[np.bool_]:
        """Return where a column has no value that can be read; TableError if this is too often."""
        found = self.read(values)
        unread = values.unread(found)
        if len(unread) > self.unread * (~values.missing).sum():
            raise TableError(f"held {self.kind}s so far and now holds {unread[0][:40]!r}")
        return np.isnan(found)

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
    """A number, its running mean where it is missing."""

    kind = "number"
    unread = 0.5

    def __init__(self, is_late: bool = False) -> None:
        super().__init__(is_late)
        self.count = 0
        self.mean = 0.0
        self.squares = 0.0
        self.origin = 0.0
        self.identifiers: list[float] = []
        self.grow("")

    @property
    def deviation(self) -> float:
        """The standard deviation so far."""
        return float(np.sqrt(self.squares / max(self.count, 1)))

    def read(self, values: Values) -> Floats:
        return values.numbers

    def update(self, values: Values, present: Floats) -> None:
        largest = float(np.abs(present).max())
        if largest >= LARGEST:
            raise TableError(f"holds {largest:g}, too large to be squared; rescale or correct it")
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

    def shown_by(self, name: str, values: Values) -> str:
        if not self.identifiers or not values.is_number:
            return ""
        now = unique_integers(values.numbers[~values.missing])
        again = len({*now} & {*self.identifiers})
        if len(now) < 2 or again < RECURRING * len(now):
            return ""
        return (
            f"{name}: integers that occur once a task and come again, such as {len(now)} here;"
            f" taken for categories (--number {name} takes them for numbers)"
        )


def unique_integers(numbers: Floats) -> list[float]:
    """Return the integers of a task in which each occurs once; nothing for other numbers."""
    if not 1 < len(numbers) <= IDENTIFIERS:
        return []
    distinct = np.unique(numbers)
    is_unique = len(distinct) == len(numbers) and not (distinct % 1).any()
    return distinct.tolist() if is_unique else []


class Category(Column):
    """A feature for every label from its first row on, up to ``most``; the others share buckets.

    Labels are known by hashes with a key of the model. In a file those of fewer than ``RARE`` rows
    have no other name. Whoever has the file can still try names until a hash fits.

    Parameters
    ----------
    is_late : bool
    most : int
        Features.
    key : str
        16 characters.
    waits : bool
        Whether labels have a feature from their second row on only: for columns of names.
    """

    kind = "category"

    def __init__(
        self, is_late: bool = False, most: int = 300, key: str = "", waits: bool = False
    ) -> None:
        super().__init__(is_late)
        self.most = most
        self.key = key
        self.waits = waits
        self.places: dict[int, int] = {}
        self.counts: dict[int, int] = {}
        self.frozen: float | None = None

    @classmethod
    def of_identifiers(cls, number: Number, most: int, key: str) -> "Category":
        """Return the column of identifiers that were learned as numbers: their feature stays in its
        place, and is constant from now on.
        """
        column = cls(number.is_late, most, key)
        column.parts = list(number.parts)
        column.rows = number.rows
        column.missing = number.missing
        column.frozen = number.mean - number.origin
        return column

    @property
    def has_buckets(self) -> bool:
        """Whether there are more labels than features."""
        return "#0" in self.parts

    def read(self, values: Values) -> Floats:
        return np.where(values.missing, np.nan, 0.0)

    def update(self, values: Values, present: Floats) -> None:
        codes, labels = values.coded
        rows = np.bincount(codes[codes >= 0], minlength=len(labels)).tolist()
        hashes = self._hashes(labels)
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
            self.parts[self.places[code]] = f"={label}"

    def fill(self, features: Floats, at: Any, values: Values, gone: NDArray[np.bool_]) -> None:
        codes, labels = values.coded
        # The last place is that of rows without a value.
        places = np.append(self.places_of(labels), -1)[codes]
        rows = np.flatnonzero(places >= 0)
        features[rows, at[places[rows]]] = 1.0
        if self.frozen is not None:
            features[:, at[self.parts.index("")]] = self.frozen

    def places_of(self, labels: Any) -> NDArray[np.int64]:
        """Return the part of every label, −1 where it has none."""
        hashes = self._hashes(labels)
        places = np.array([self.places.get(code, -1) for code in hashes], dtype=np.int64)
        if self.has_buckets:
            buckets = np.array([code % BUCKETS for code in hashes], dtype=np.int64)
            places = np.where(places < 0, self.parts.index("#0") + buckets, places)
        return places

    def _hashes(self, labels: Any) -> list[int]:
        """Return keyed hashes of labels, the same on every machine."""
        texts = np.array([each.encode("utf-8", "replace") for each in labels], dtype=object)
        hashes = pd.util.hash_array(texts, hash_key=self.key, categorize=False)
        return [int(code) for code in hashes]

    def shown_by(self, name: str, values: Values) -> str:
        new = set(self._hashes(values.coded[1])) - self.counts.keys()
        rows = self.rows - self.missing + int((~values.missing).sum())
        is_own = len(self.counts) + len(new) > NAMES * rows >= NAMES * NAMED_ROWS
        if not is_own or self.waits:
            return ""
        return f"{name}: nearly every row has a text of its own; one counts from its second row on"

    def hidden(self) -> dict[str, Any]:
        """Return the state with hashes in place of rare labels."""
        parts = list(self.parts)
        for code, place in self.places.items():
            if self.counts.get(code, 0) < RARE:
                parts[place] = f"{RARE_NAME} {code:016x})"
        return {**vars(self), "parts": parts}


class Date(Column):
    """A trend, the weekday, and where the dates tell one the time of the day and of the year."""

    kind = "date"
    unread = 0.05

    def __init__(self, is_late: bool = False) -> None:
        super().__init__(is_late)
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
        place = {part: at[i] for i, part in enumerate(self.parts)}
        elapsed = np.where(gone, self.mean, values.times - self.origin)
        features[:, place[" trend"]] = elapsed / YEAR
        time = np.where(gone, 0.0, values.times)
        # 1970-01-01 was a Thursday.
        weekday = (time // DAY + 3).astype(np.int64) % 7
        days = at[self.parts.index(_WEEKDAYS[0]) :]
        features[np.arange(len(time)), days[weekday]] = ~gone
        for turn, length, off in (
            (" hour", DAY, gone),
            (" year", YEAR, gone | (time <= self.since)),
        ):
            if f"{turn} sin" in place:
                angle = 2.0 * np.pi * (time % length) / length
                for wave in (np.sin, np.cos):
                    at_wave = place[f"{turn} {wave.__name__}"]
                    features[:, at_wave] = np.where(off, 0.0, wave(angle))


KINDS: dict[str, type[Column]] = {each.kind: each for each in (Number, Category, Date)}
