"""Features of one column of a table, by its kind: number, category or date.

A column has ``parts``, each of which is a feature. Parts are only added: a feature never changes
its place, and one that is added later was zero in all rows before, so that a model needs one
method besides ``partial_fit``, ``widen(count)``.

A column that begins late, because its first tasks hold no value or because a later file has it for
the first time, is zero where it has no value, as it was before, with a feature that says where it
has one. Any other column has a feature that says where the value is missing.
"""

import copy
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from forgetless._validate import Floats
from forgetless.tables.parsing import DAY, EXACT
from forgetless.tables.values import TableError, Values

MISSING = " is missing"
PRESENT = " is present"

BUCKETS = 32
"""Features that the categories beyond the most share."""

RARE = 5
"""Categories of fewer rows stand in a file as hashes."""

LARGEST = 1e140
"""Numbers must be below it, since all are squared."""

IDENTIFIERS = 10_000
"""Most values of a task among which identifiers are looked for."""

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
    is_late : bool
        Whether rows have been learned before the column began.
    """

    kind: ClassVar[str] = ""

    def __init__(self, is_late: bool) -> None:
        self.is_late = is_late
        self.parts: list[str] = [PRESENT] if is_late else []
        self.rows = 0
        self.missing = 0

    def copied(self) -> "Column":
        """Return an independent copy."""
        other = copy.copy(self)
        for name, value in vars(self).items():
            if isinstance(value, list | dict):
                setattr(other, name, value.copy())
        return other

    def grow(self, *parts: str) -> None:
        """Add the parts that are not there yet."""
        self.parts += [part for part in parts if part not in self.parts]

    def gone(self, values: Values) -> NDArray[np.bool_]:
        """Return where a column has no value that can be read."""
        raise NotImplementedError

    def update(self, values: Values, gone: NDArray[np.bool_]) -> None:
        """Learn the values that are there, of which there is one at least."""
        raise NotImplementedError

    def fill(self, features: Floats, at: Any, values: Values, gone: NDArray[np.bool_]) -> None:
        """Write the parts into the columns ``at`` of features that are zero."""
        raise NotImplementedError

    def learn(self, values: Values) -> None:
        """Learn the column of a task."""
        gone = self.gone(values)
        self.rows += len(gone)
        self.missing += int(gone.sum())
        if not gone.all():
            self.update(values, gone)
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

    def __init__(self, is_late: bool = False) -> None:
        super().__init__(is_late)
        self.count = 0
        self.mean = 0.0
        self.squares = 0.0
        self.origin: float | None = None
        self.identifiers: list[int] = []
        self.grow("")

    @property
    def deviation(self) -> float:
        """The standard deviation so far."""
        return float(np.sqrt(self.squares / max(self.count, 1)))

    def gone(self, values: Values) -> NDArray[np.bool_]:
        gone = np.isnan(values.numbers)
        if gone.sum() > 0.5 * len(gone):
            words = values.words()
            unread = gone & ~values.missing
            if words and unread.sum() > 0.5 * (~values.missing).sum():
                raise TableError(f"held numbers so far and now holds {words[0][:40]!r}")
        return gone

    def update(self, values: Values, gone: NDArray[np.bool_]) -> None:
        present = values.numbers[~gone]
        largest = float(np.abs(present).max())
        if largest >= LARGEST:
            raise TableError(f"holds {largest:g}, too large to be squared; rescale or correct it")
        # Chan, Golub and LeVeque: means and squares of two sets of rows together.
        mean = float(present.mean())
        total = self.count + len(present)
        gap = mean - self.mean
        self.squares += float(np.sum((present - mean) ** 2))
        self.squares += gap * gap * self.count * len(present) / total
        self.mean += gap * len(present) / total
        self.count = total
        if self.origin is None:
            self.origin = self.mean
        self.identifiers = unique_integers(present)

    def fill(self, features: Floats, at: Any, values: Values, gone: NDArray[np.bool_]) -> None:
        # A late column is centred, since it was zero in the rows before.
        origin = self.origin if self.is_late and self.origin is not None else 0.0
        numbers = np.where(gone, self.mean, values.numbers)
        features[:, at[self.parts.index("")]] = numbers - origin

    def recurs(self, values: Values) -> bool:
        """Return whether the column identifies the rows of a task: integers that are unique in a
        task and come again in the next.
        """
        if not self.identifiers or values.floats is None:
            return False
        now = unique_integers(values.floats[~values.missing])
        return len(now) > 1 and len(set(now) & set(self.identifiers)) >= RECURRING * len(now)


def unique_integers(numbers: Floats) -> list[int]:
    """Return the integers of a task in which each occurs once; nothing for other numbers."""
    if not 1 < len(numbers) <= IDENTIFIERS:
        return []
    if (numbers[:10] % 1 != 0).any() or (numbers % 1 != 0).any():
        return []
    if np.abs(numbers).max() >= EXACT:
        return []
    distinct = np.unique(numbers).astype(np.int64)
    return distinct.tolist() if len(distinct) == len(numbers) else []


class Category(Column):
    """A feature for every label from its first row on, up to ``most``; the others share buckets.

    Labels of fewer than ``RARE`` rows are stored in a file as hashes with a key of the model, and
    are found again by their hash. Whoever has the file can still try names until the hash fits.
    """

    kind = "category"

    def __init__(self, is_late: bool = False, most: int = 300, key: str = "") -> None:
        super().__init__(is_late)
        self.most = most
        self.key = key
        self.places: dict[str, int] = {}
        self.counts: dict[str, int] = {}
        self.hashed: dict[str, list[int]] = {}
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
        column.frozen = number.mean - (number.origin or 0.0) * number.is_late
        return column

    @property
    def has_buckets(self) -> bool:
        """Whether there are more labels than features."""
        return "#0" in self.parts

    def gone(self, values: Values) -> NDArray[np.bool_]:
        return values.missing

    def update(self, values: Values, gone: NDArray[np.bool_]) -> None:
        codes, labels = values.coded
        rows = np.bincount(codes[codes >= 0], minlength=len(labels.texts))
        self._recall(labels.texts)
        counted = zip(labels.texts.tolist(), rows.tolist(), strict=True)
        for label, count in counted:
            if label not in self.places:
                if len(self.places) + len(self.hashed) >= self.most:
                    self.grow(*(f"#{i}" for i in range(BUCKETS)))
                    continue
                self.places[label] = len(self.parts)
                self.parts.append(f"={label}")
            self.counts[label] = self.counts.get(label, 0) + count

    def _recall(self, labels: Any) -> None:
        """Name the labels again that are known by their hashes."""
        if not self.hashed:
            return
        for label, code in zip(labels.tolist(), self._hashes(labels), strict=True):
            if label not in self.places and str(code) in self.hashed:
                place, count = self.hashed.pop(str(code))
                self.places[label] = place
                self.counts[label] = count
                self.parts[place] = f"={label}"

    def fill(self, features: Floats, at: Any, values: Values, gone: NDArray[np.bool_]) -> None:
        codes, labels = values.coded
        # The last place is that of rows without a value.
        places = np.append(self.places_of(labels.texts), -1)[codes]
        rows = np.flatnonzero(places >= 0)
        features[rows, at[places[rows]]] = 1.0
        if self.frozen is not None:
            features[:, at[self.parts.index("")]] = self.frozen

    def places_of(self, labels: Any) -> NDArray[np.int64]:
        """Return the part of every label, −1 where it has none."""
        places = np.array([self.places.get(label, -1) for label in labels.tolist()], dtype=np.int64)
        unknown = np.flatnonzero(places < 0)
        if len(unknown) and (self.hashed or self.has_buckets):
            codes = self._hashes(labels[unknown])
            places[unknown] = [self.hashed.get(str(code), (-1,))[0] for code in codes]
            if self.has_buckets:
                shared = self.parts.index("#0") + np.array([code % BUCKETS for code in codes])
                places[unknown] = np.where(places[unknown] < 0, shared, places[unknown])
        return places

    def _hashes(self, labels: Any) -> list[int]:
        """Return keyed hashes of labels, the same on every machine."""
        texts = np.array(
            [each.encode("utf-8", "replace").decode() for each in labels], dtype=object
        )
        hashes: list[int] = pd.util.hash_array(texts, hash_key=self.key, categorize=False).tolist()
        return hashes

    def hidden(self) -> dict[str, Any]:
        """Return the state with hashes in place of rare labels."""
        rare = [label for label in self.places if self.counts[label] < RARE]
        state = {name: value for name, value in vars(self).items() if name != "key"}
        if not rare:
            return state
        codes = self._hashes(np.array(rare, dtype=object))
        parts = list(self.parts)
        hashed = dict(self.hashed)
        for label, code in zip(rare, codes, strict=True):
            place = self.places[label]
            parts[place] = f"=(rare label {code:016x})"
            hashed[str(code)] = [place, self.counts[label]]
        keep = {label: place for label, place in self.places.items() if label not in set(rare)}
        counts = {label: self.counts[label] for label in keep}
        return {**state, "parts": parts, "hashed": hashed, "places": keep, "counts": counts}


class Date(Column):
    """A trend, the weekday, and where the dates tell one the time of the day and of the year."""

    kind = "date"

    def __init__(self, is_late: bool = False) -> None:
        super().__init__(is_late)
        self.origin: float | None = None
        self.low: float | None = None
        self.high: float | None = None
        self.since: float | None = None
        self.count = 0
        self.mean = 0.0
        self.grow(" trend", *_WEEKDAYS)

    def gone(self, values: Values) -> NDArray[np.bool_]:
        gone = np.isnan(values.times)
        unread = gone & ~values.missing
        if unread.sum() > 0.05 * len(gone):
            codes, labels = values.coded
            example = labels.texts[codes[unread][0]]
            raise TableError(f"held dates so far and now holds {example[:40]!r}")
        return gone

    def update(self, values: Values, gone: NDArray[np.bool_]) -> None:
        present = values.times[~gone]
        low = float(present.min())
        high = float(present.max())
        if self.origin is None:
            self.origin = float(present.mean()) if self.is_late else low
        self.count += len(present)
        self.mean += (float(present.mean()) - self.origin - self.mean) * len(present) / self.count
        if " year sin" not in self.parts:
            # The wave was zero up to here.
            self.since = self.high
        self.low = low if self.low is None else min(self.low, low)
        self.high = high if self.high is None else max(self.high, high)
        if (present % DAY != 0).any():
            self.grow(" hour sin", " hour cos")
        if self.high - self.low > SEASON:
            self.grow(" year sin", " year cos")

    def fill(self, features: Floats, at: Any, values: Values, gone: NDArray[np.bool_]) -> None:
        place = {part: at[i] for i, part in enumerate(self.parts)}
        elapsed = values.times - (self.origin or 0.0)
        features[:, place[" trend"]] = np.where(gone, self.mean, elapsed) / YEAR
        time = np.where(gone, 0.0, values.times)
        # 1970-01-01 was a Thursday.
        weekday = (time // DAY + 3).astype(np.int64) % 7
        days = np.array([place[day] for day in _WEEKDAYS])
        features[np.arange(len(time)), days[weekday]] = ~gone
        before = gone if self.since is None else gone | (time <= self.since)
        for turn, length, off in ((" hour", DAY, gone), (" year", YEAR, before)):
            if f"{turn} sin" in place:
                angle = 2.0 * np.pi * (time % length) / length
                features[:, place[f"{turn} sin"]] = np.where(off, 0.0, np.sin(angle))
                features[:, place[f"{turn} cos"]] = np.where(off, 0.0, np.cos(angle))


KINDS: dict[str, type[Column]] = {each.kind: each for each in (Number, Category, Date)}
