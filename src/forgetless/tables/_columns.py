"""Encoders of one column: numbers, categories, dates and texts.

A column becomes features, its ``parts``. Every task may append parts, so that a feature never
changes its place. Encoders are immutable: ``learned`` returns another one.

A model takes a new feature for zero in all rows before. For a column without any value in the first
tasks (``late``) these rows have missing values, so its features count from those of a missing
value: numbers and dates from the mean of the task in which the column begins, and the indicator of
missing values from 1: it is −1 where there is a value.
"""

import dataclasses
import hashlib
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from forgetless._core.frames import DAY, Values, format_time
from forgetless._text import readable_number
from forgetless._validate import Floats
from forgetless.tables._numbers import (
    SHARE,
    are_few,
    format_of,
    is_missing_sign,
    not_numbers,
    numbers_in,
    parsed,
)
from forgetless.tables._pieces import Coded, Given, Hashed, OneHot, Piece

MISSING = " is missing"
_OTHER = "=(other)"
_YEAR = 365.25 * DAY
_SEASON = 300 * DAY
"""Range of dates from which on the seasons of the year are features."""

_FIGURE = re.compile(r"\s*[-+(]?\s*[$€£¥]?\s*\d[\d.,'\s]*([eE][-+]?\d+)?\s*[%$€£¥)]?\s*$")
"""Strings that look like numbers."""

_PENDING = 10
"""Candidate categories that are counted, as a multiple of ``max_categories``."""


class ColumnError(ValueError):
    """Values that a column cannot hold, with an example; the encoder adds the name of the
    column.
    """

    def __init__(self, message: str, value: str = "") -> None:
        super().__init__(message)
        self.value = value


@dataclass(frozen=True)
class Number:
    """A number, the running mean where it is missing, and an indicator of missing values.

    Beside texts a fixed ``origin`` is subtracted, the mean of the first task: models do not centre
    sparse rows, and a number far from 0 would lose digits. ``treated`` are strings taken for
    missing, with the number of rows of each.
    """

    kind: ClassVar[str] = "number"
    impute: str = "mean"
    count: int = 0
    mean: float = 0.0
    infinite: int = 0
    missing: int = 0
    origin: float = 0.0
    decimal: str = "."
    late: bool = False
    parts: tuple[str, ...] = ("",)
    treated: dict[str, int] = field(default_factory=dict)

    def learned(self, values: Values) -> "Number":
        """Return the encoder after some more rows."""
        strings = self._not_numbers(values, SHARE)
        numbers = self._read(values)
        # If the sum is finite, all numbers are.
        total = _sum(numbers)
        present = numbers if math.isfinite(total) else numbers[np.isfinite(numbers)]
        total = total if math.isfinite(total) else _sum(present)
        count = self.count + len(present)
        # Large numbers may add up to infinity: these are divided first.
        more = (
            total / count
            if math.isfinite(total) and count
            else float(np.sum(present / max(count, 1)))
        )
        mean = self.mean * (self.count / count) + more if count else 0.0
        missing = len(numbers) - len(present)
        return dataclasses.replace(
            self,
            count=count,
            mean=mean,
            origin=mean if math.isnan(self.origin) else self.origin,
            missing=self.missing + missing,
            infinite=self.infinite + (int(np.sum(np.isinf(numbers))) if missing else 0),
            parts=_with(self.parts, MISSING if missing else None),
            treated={
                **self.treated,
                **{label: self.treated.get(label, 0) + strings[label] for label in strings},
            },
        )

    def encode(self, values: Values) -> list[Piece]:
        """Return the features of some rows."""
        # Held-out rows of a task may be few, and those that were learned have been checked by
        # ``learned``.
        self._not_numbers(values, 0.5)
        numbers = self._read(values)
        if math.isfinite(_sum(numbers)):
            pieces: list[Piece] = [Given(0, self._from_origin(numbers))]
            return (
                [*pieces, *_indicator(self, np.zeros(len(numbers), dtype=bool))]
                if self.late
                else pieces
            )
        missing = ~np.isfinite(numbers)
        fill = 0.0 if self.impute != "mean" else self.origin if self.late else self.mean
        return [
            Given(0, self._from_origin(np.where(missing, fill, numbers))),
            *_indicator(self, missing),
        ]

    def _from_origin(self, numbers: Floats) -> Floats:
        return numbers - self.origin if self.origin else numbers

    def _read(self, values: Values) -> Floats:
        if values.kind == "string":
            values = Values(
                "number", np.append(numbers_in(values.labels, self.decimal), math.nan)[values.codes]
            )
        if values.kind == "time":
            raise ColumnError("was numbers so far and now holds dates; give it as before")
        if self.impute == "error" and not np.all(np.isfinite(values.numbers)):
            raise ColumnError("has missing or infinite values, which impute='error' rejects")
        return values.numbers

    def _not_numbers(self, values: Values, share: float) -> dict[str, int]:
        """Return strings taken for missing, with their numbers of rows; ColumnError above ``share``
        of the rows.
        """
        counts = not_numbers(values, self.decimal)
        if counts and not are_few(counts, len(values), share):
            bad = next(label for label in counts if not is_missing_sign(label))
            raise ColumnError(
                f"was numbers so far and now holds {bad[:40]!r}; correct it, leave missing values"
                " empty, or begin with the column as categorical",
                bad,
            )
        return counts

    exclusive: ClassVar[tuple[str, ...]] = ()

    def note(self) -> str:
        """Return a note for the summary."""
        mean = self.origin if self.late else self.mean
        filled = {
            "mean": f"filled with the mean {readable_number(mean)}",
            "zero": "filled with 0",
        }.get(self.impute, "")
        signs = (
            f" ({sum(self.treated.values())} written {', '.join(map(repr, self.treated))})"
            if self.treated
            else ""
        )
        notes = (
            [f"{readable_number(self.missing)} missing{signs}, {filled}"] if self.missing else []
        )
        notes += ["with decimal commas"] if self.decimal == "," else []
        return ", ".join(notes + ([f"{self.infinite} of them infinite"] if self.infinite else []))


@dataclass(frozen=True)
class Category:
    """Strings: one feature for each frequent one; the others share one, or hash buckets once there
    are too many.
    """

    kind: ClassVar[str] = "category"
    most: int = 100
    least: int = 5
    buckets: int = 32
    pending: dict[str, int] = field(default_factory=dict)
    missing: int = 0
    rare: int = 0
    rows: int = 0
    figures: int = 0
    late: bool = False
    parts: tuple[str, ...] = ()

    def learned(self, values: Values) -> "Category":
        """Return the encoder after some more rows."""
        values = values.as_strings()
        parts = list(self.parts)
        pending = dict(self.pending)
        own = set(parts)
        counts: Any = np.bincount(values.codes[values.codes >= 0], minlength=len(values.labels))
        rare = 0
        named = sum(part.startswith("=") and part != _OTHER for part in parts)
        for label, count in zip(values.labels, counts, strict=True):
            if f"={label}" in own:
                continue
            key = _hash(label)
            total = pending.get(key, 0) + int(count)
            if total >= self.least and named < self.most and f"={label}" != _OTHER:
                parts.append(f"={label}")
                named += 1
                pending.pop(key, None)
                continue
            rare += int(count)
            if named < self.most:
                if key in pending or len(pending) < _PENDING * self.most:
                    pending[key] = total
                if _OTHER not in own:
                    parts.append(_OTHER)
                    own.add(_OTHER)
            elif "#0" not in own:
                parts += [f"#{i}" for i in range(self.buckets)]
                own.add("#0")
                pending = {}
        missing = int(np.sum(values.missing))
        return dataclasses.replace(
            self,
            pending=pending,
            missing=self.missing + missing,
            rare=self.rare + rare,
            rows=self.rows + int(counts.sum()),
            figures=self.figures
            + sum(int(c) for w, c in zip(values.labels, counts, strict=True) if _FIGURE.match(w)),
            parts=_with(tuple(parts), MISSING if missing else None),
        )

    def encode(self, values: Values) -> list[Piece]:
        """Return the features of some rows."""
        values = values.as_strings()
        place = {part: i for i, part in enumerate(self.parts)}
        first, other = place.get("#0", -1), place.get(_OTHER, -1)
        missing = -1 if self.late else place.get(MISSING, -1)
        at = [place.get(f"={label}", -1) for label in values.labels]
        for i, label in enumerate(values.labels):
            if at[i] < 0:
                at[i] = first + int(_hash(label), 16) % self.buckets if first >= 0 else other
        codes = values.codes if values.kind == "string" else np.full(len(values.numbers), -1)
        pieces: list[Piece] = [OneHot(np.array([*at, missing], dtype=np.int64)[codes])]
        return [*pieces, *_indicator(self, codes < 0)] if self.late else pieces

    def note(self) -> str:
        """Return a note for the summary."""
        named = [part for part in self.parts if part.startswith("=") and part != _OTHER]
        notes = [f"{len(named)} categories"]
        if "#0" in self.parts:
            notes.append(
                f"more than {self.most}: {readable_number(self.rare)} rows of others in"
                f" {self.buckets} buckets"
            )
        elif self.rare:
            notes.append(f"{readable_number(self.rare)} rows of rare ones together")
        return ", ".join(
            notes + ([f"{readable_number(self.missing)} missing"] if self.missing else [])
        )

    @property
    def exclusive(self) -> tuple[str, ...]:
        """Features that add up to the same number in every row."""
        return self.parts

    @property
    def looks_numeric(self) -> bool:
        """Whether most strings look like numbers."""
        return self.figures > 0.8 * self.rows


_YEARLY = [" year sin", " year cos"]


@dataclass(frozen=True)
class Date:
    """A date: trend in years, day of the week, hour where there is one, seasons once most of a year
    was seen.

    Seasons are zero up to ``since``, the last date before they were added: those rows were learned
    without them.
    """

    kind: ClassVar[str] = "date"
    format: str = ""
    origin: float = math.nan
    low: float = math.inf
    high: float = -math.inf
    since: float = -math.inf
    count: int = 0
    mean: float = 0.0
    missing: int = 0
    late: bool = False
    parts: tuple[str, ...] = (
        " trend",
        *(f" {day}" for day in ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")),
    )

    def learned(self, values: Values) -> "Date":
        """Return the encoder after some more rows."""
        values = values.as_strings() if values.kind == "number" else values
        if values.kind == "string" and not self.format:
            return dataclasses.replace(self, format=_format(values)).learned(values)
        times = self._read(values)
        present = times[~np.isnan(times)]
        if not len(present):
            return dataclasses.replace(
                self,
                missing=self.missing + len(times),
                parts=_with(self.parts, MISSING if len(times) else None),
            )
        origin = self.origin
        if math.isnan(origin):
            origin = float(present.mean() if self.late else present.min())
        count = self.count + len(present)
        missing = len(times) - len(present)
        low = min(self.low, float(present.min()))
        high = max(self.high, float(present.max()))
        more = [" hour sin", " hour cos"] if np.any(present % DAY != 0) else []
        more += _YEARLY if high - low > _SEASON else []
        return dataclasses.replace(
            self,
            origin=origin,
            low=low,
            high=high,
            since=self.since if _YEARLY[0] in self.parts else self.high,
            count=count,
            mean=self.mean + (float(present.mean() - origin) - self.mean) * (len(present) / count),
            missing=self.missing + missing,
            parts=_with(self.parts, *more, MISSING if missing else None),
        )

    def encode(self, values: Values) -> list[Piece]:
        """Return the features of some rows."""
        values = values.as_strings() if values.kind == "number" else values
        if values.kind != "string":
            return [Coded(np.arange(len(values)), self._features(values.numbers))]
        # Dates repeat: each is computed once.
        return [
            Coded(values.codes, self._features(np.append(self._parsed(values.labels), math.nan)))
        ]

    def _features(self, times: Floats) -> Floats:
        """Return the features of times: an array of shape (n, parts)."""
        missing = np.isnan(times)
        features = np.zeros((len(times), len(self.parts)), order="F")
        origin = 0.0 if math.isnan(self.origin) else self.origin
        features[:, 0] = np.where(missing, 0.0 if self.late else self.mean, times - origin) / _YEAR
        times = np.where(missing, 0.0, times)
        weekday = ((times // DAY).astype(np.int64) + 3) % 7  # 1970 began on a Thursday
        features[np.arange(len(times)), 1 + weekday] = ~missing
        turns = {"hour": times % DAY / DAY, "year": times % _YEAR / _YEAR}
        for i, part in enumerate(self.parts[8:], 8):
            if part == MISSING:
                features[:, i] = missing - 1.0 if self.late else missing
            else:
                _, turn, wave = part.split(" ")
                off = missing | (times <= self.since) if part in _YEARLY else missing
                features[:, i] = np.where(off, 0.0, getattr(np, wave)(2 * math.pi * turns[turn]))
        return features

    def _read(self, values: Values) -> Floats:
        if values.kind == "number":
            values = values.as_strings()
        if values.kind != "string":
            return values.numbers
        return np.append(self._parsed(values.labels), math.nan)[values.codes]

    def _parsed(self, labels: Sequence[str]) -> Floats:
        times = parsed(labels, self.format)
        if times is None:
            bad = next(label for label in labels if parsed([label], self.format) is None)
            raise ColumnError(
                f"was dates so far ({self.format}) and now holds {bad[:40]!r}; write all of them"
                " one way",
                bad,
            )
        return times

    @property
    def exclusive(self) -> tuple[str, ...]:
        """Features that add up to the same number in every row."""
        return (*self.parts[1:8], MISSING)

    def note(self) -> str:
        """Return a note for the summary."""
        notes = [f"{format_time(self.low)} to {format_time(self.high)}"] if self.count else []
        notes += [f"read as {self.format}"] if self.format else []
        return ", ".join(
            notes + ([f"{readable_number(self.missing)} missing"] if self.missing else [])
        )


@dataclass(frozen=True)
class Text:
    """A text: hashed words and pairs of words."""

    kind: ClassVar[str] = "text"
    size: int = 1024
    missing: int = 0
    late: bool = False
    parts: tuple[str, ...] = ()

    def learned(self, values: Values) -> "Text":
        """Return the encoder after some more rows."""
        parts = self.parts
        if "~0" not in parts[:1]:
            parts = (*(f"~{i}" for i in range(self.size)), *parts)
        missing = int(np.sum(values.missing))
        return dataclasses.replace(
            self, parts=_with(parts, MISSING if missing else None), missing=self.missing + missing
        )

    def encode(self, values: Values) -> list[Piece]:
        """Return the features of some rows."""
        from sklearn.feature_extraction.text import HashingVectorizer

        values = values.as_strings()
        pieces = _indicator(self, values.missing)
        if values.kind == "empty":
            return pieces
        hashed = HashingVectorizer(n_features=self.size, ngram_range=(1, 2)).transform(
            values.labels
        )
        return [*pieces, Hashed(hashed, values.codes)]

    exclusive: ClassVar[tuple[str, ...]] = ()

    def note(self) -> str:
        """Return a note for the summary."""
        return f"words and pairs of words in {self.size} buckets" + (
            f", {readable_number(self.missing)} missing" if self.missing else ""
        )


@dataclass(frozen=True)
class Empty:
    """A column without any value so far: no features, and the number of its rows."""

    kind: ClassVar[str] = "empty"
    missing: int = 0
    parts: tuple[str, ...] = ()

    def learned(self, values: Values) -> "Empty":
        """Return the encoder after some more rows."""
        return Empty(self.missing + len(values))

    def encode(self, values: Values) -> list[Piece]:
        """Return the features of some rows: none."""
        return []

    exclusive: ClassVar[tuple[str, ...]] = ()

    def note(self) -> str:
        """Return a note for the summary."""
        return "no value so far"


Column = Number | Category | Date | Text | Empty

KINDS: dict[str, Any] = {kind.kind: kind for kind in (Number, Category, Date, Text, Empty)}


def beginning_late(column: Number | Category | Date | Text, rows: int) -> Column:
    """Return a new column whose first ``rows`` rows, in the tasks before, had no value."""
    if isinstance(column, Number) and column.impute == "mean":
        column = dataclasses.replace(column, origin=math.nan)
    return dataclasses.replace(column, late=True, missing=rows, parts=_with(column.parts, MISSING))


def _indicator(column: Number | Category | Text, missing: Any) -> list[Piece]:
    """Return the indicator of missing values, where there is one."""
    if MISSING not in column.parts:
        return []
    return [Given(column.parts.index(MISSING), missing - 1.0 if column.late else missing)]


def _sum(numbers: Floats) -> float:
    with np.errstate(over="ignore", invalid="ignore"):
        return float(numbers.sum())


def _format(values: Values) -> str:
    format = format_of(values.labels, declared=True)
    if format is None:
        raise ColumnError(f"cannot be read as dates, e.g. {values.labels[0][:40]!r}; convert it")
    return format


def _with(parts: tuple[str, ...], *more: str | None) -> tuple[str, ...]:
    return parts + tuple(part for part in more if part is not None and part not in parts)


def _hash(label: str) -> str:
    """Return a hash of a string, the same on every machine."""
    return hashlib.blake2b(label.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
