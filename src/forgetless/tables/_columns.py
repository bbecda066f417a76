"""What an encoder knows of one column, and what it makes of it: numbers, categories, dates, words of a text.

A column becomes features, its ``parts``. New ones may come with every task and are added behind those that are there,
so that a feature keeps its place for good. All of this is immutable: learning makes another value.
"""

import dataclasses
import hashlib
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from forgetless._core.arrays import Floats
from forgetless._core.frames import DAY, Values, format_time
from forgetless.estimators.counted import Coded, Given, Hashed, OneHot, Piece
from forgetless.tables._dates import format_of, parsed

MISSING = " is missing"
OTHER = "=(other)"
YEAR = 365.25 * DAY
SEASON = 300 * DAY
"""Dates that lie this far apart have shown most of a year: its seasons are then features."""

FIGURE = re.compile(r"\s*[-+(]?\s*[$€£¥]?\s*\d[\d.,'\s]*([eE][-+]?\d+)?\s*[%$€£¥)]?\s*$")
"""Words that look like numbers."""

PENDING = 10
"""How many times as many categories are counted as may have a feature of their own."""


class RefusedError(ValueError):
    """Values that a column cannot take; the encoder adds which column it is."""


@dataclass(frozen=True)
class Number:
    """A number: itself, its running mean where it is missing, and whether it was.

    Beside texts it is told from a fixed ``origin``: models do not centre sparse rows, and far from 0 a number would be
    lost in its own size.
    """

    kind: ClassVar[str] = "number"
    impute: str = "mean"
    count: int = 0
    mean: float = 0.0
    infinite: int = 0
    missing: int = 0
    origin: float = 0.0
    parts: tuple[str, ...] = ("",)

    def learned(self, values: Values) -> "Number":
        """Return what is known after some more rows."""
        numbers = self._read(values)
        # A sum that is finite tells that all numbers are.
        total = _sum(numbers)
        there = numbers if math.isfinite(total) else numbers[np.isfinite(numbers)]
        total = total if math.isfinite(total) else _sum(there)
        count = self.count + len(there)
        # Divided first where large numbers add up to infinity.
        more = total / count if math.isfinite(total) and count else float(np.sum(there / max(count, 1)))
        mean = self.mean * (self.count / count) + more if count else 0.0
        gaps = len(numbers) - len(there)
        return dataclasses.replace(
            self,
            count=count,
            mean=mean,
            missing=self.missing + gaps,
            infinite=self.infinite + (int(np.sum(np.isinf(numbers))) if gaps else 0),
            parts=_with(self.parts, MISSING if gaps else None),
        )

    def encode(self, values: Values) -> list[Piece]:
        """Return the features of some rows."""
        numbers = self._read(values)
        if math.isfinite(_sum(numbers)):
            return [Given(0, self._from_origin(numbers))]
        gaps = ~np.isfinite(numbers)
        filled = np.where(gaps, self.mean if self.impute == "mean" else 0.0, numbers)
        found: list[Piece] = [Given(0, self._from_origin(filled))]
        return found + ([Given(self.parts.index(MISSING), gaps)] if MISSING in self.parts else [])

    def _from_origin(self, numbers: Floats) -> Floats:
        return numbers - self.origin if self.origin else numbers

    def _read(self, values: Values) -> Floats:
        if values.kind == "string":
            try:
                told = np.array([float(label) for label in values.labels] + [math.nan])
            except ValueError:
                bad = next(label for label in values.labels if not _is_number(label))
                raise RefusedError(
                    f"was numbers so far and now holds {bad[:40]!r}; leave gaps empty, or begin anew with "
                    "it as categorical"
                ) from None
            values = Values("number", told[values.codes])
        if values.kind == "time":
            raise RefusedError("was numbers so far and now holds dates; give it as before")
        if self.impute == "error" and not np.all(np.isfinite(values.numbers)):
            raise RefusedError("has missing or infinite values, which impute='error' refuses")
        return values.numbers

    exclusive: ClassVar[tuple[str, ...]] = ()

    def note(self) -> str:
        """Return what a user should know."""
        told = {"mean": f"filled with the mean {self.mean:.4g}", "zero": "filled with 0"}.get(self.impute, "")
        said = [f"{self.missing} missing, {told}"] if self.missing else []
        return ", ".join(said + ([f"{self.infinite} of them infinite"] if self.infinite else []))


@dataclass(frozen=True)
class Category:
    """Words: one feature for each that came often enough; the rest share one, or buckets once there are too many."""

    kind: ClassVar[str] = "category"
    most: int = 100
    least: int = 5
    buckets: int = 32
    pending: dict[str, int] = field(default_factory=dict)
    missing: int = 0
    rare: int = 0
    rows: int = 0
    figures: int = 0
    parts: tuple[str, ...] = ()

    def learned(self, values: Values) -> "Category":
        """Return what is known after some more rows."""
        values = values.as_strings()
        parts, pending = list(self.parts), dict(self.pending)
        own = set(parts)
        counts: Any = np.bincount(values.codes[values.codes >= 0], minlength=len(values.labels))
        rare = 0
        named = sum(part.startswith("=") and part != OTHER for part in parts)
        for label, count in zip(values.labels, counts, strict=True):
            if f"={label}" in own:
                continue
            key = _hash(label)
            total = pending.get(key, 0) + int(count)
            if total >= self.least and named < self.most and f"={label}" != OTHER:
                parts.append(f"={label}")
                named += 1
                pending.pop(key, None)
                continue
            rare += int(count)
            if named < self.most:
                if key in pending or len(pending) < PENDING * self.most:
                    pending[key] = total
                if OTHER not in own:
                    parts.append(OTHER)
                    own.add(OTHER)
            elif "#0" not in own:
                parts += [f"#{i}" for i in range(self.buckets)]
                own.add("#0")
                pending = {}
        gaps = int(np.sum(values.missing))
        return dataclasses.replace(
            self,
            pending=pending,
            missing=self.missing + gaps,
            rare=self.rare + rare,
            rows=self.rows + int(counts.sum()),
            figures=self.figures + sum(int(c) for w, c in zip(values.labels, counts, strict=True) if FIGURE.match(w)),
            parts=_with(tuple(parts), MISSING if gaps else None),
        )

    def encode(self, values: Values) -> list[Piece]:
        """Return the features of some rows."""
        values = values.as_strings()
        place = {part: i for i, part in enumerate(self.parts)}
        first, other, gaps = place.get("#0", -1), place.get(OTHER, -1), place.get(MISSING, -1)
        at = [place.get(f"={label}", -1) for label in values.labels]
        for i, label in enumerate(values.labels):
            if at[i] < 0:
                at[i] = first + int(_hash(label), 16) % self.buckets if first >= 0 else other
        codes = values.codes if values.kind == "string" else np.full(len(values.numbers), -1)
        return [OneHot(np.array([*at, gaps], dtype=np.int64)[codes])]

    def note(self) -> str:
        """Return what a user should know."""
        named = [part for part in self.parts if part.startswith("=") and part != OTHER]
        said = [f"{len(named)} categories"]
        if "#0" in self.parts:
            said.append(f"more than {self.most}: {self.rare} rows of others in {self.buckets} buckets")
        elif self.rare:
            said.append(f"{self.rare} rows of rare ones together")
        return ", ".join(said + ([f"{self.missing} missing"] if self.missing else []))

    @property
    def exclusive(self) -> tuple[str, ...]:
        """Features of which a row has one."""
        return self.parts

    @property
    def doubtful(self) -> bool:
        """Whether most words look like numbers."""
        return self.figures > 0.8 * self.rows


YEARLY = [" year sin", " year cos"]


@dataclass(frozen=True)
class Date:
    """A date: trend in years, day of the week, hour where there is one, seasons once most of a year was seen.

    Seasons are zero up to ``since``, the last date before: rows that were learned without them are answered without.
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
    parts: tuple[str, ...] = (" trend", *(f" {day}" for day in ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")))

    def learned(self, values: Values) -> "Date":
        """Return what is known after some more rows."""
        known = self
        values = values.as_strings() if values.kind == "number" else values
        if values.kind == "string" and not self.format:
            known = dataclasses.replace(self, format=_format(values))
        times = known._read(values)
        there = times[~np.isnan(times)]
        if not len(there):
            return dataclasses.replace(
                known, missing=known.missing + len(times), parts=_with(known.parts, MISSING if len(times) else None)
            )
        origin = float(there.min()) if math.isnan(known.origin) else known.origin
        count, gaps = known.count + len(there), len(times) - len(there)
        low, high = min(known.low, float(there.min())), max(known.high, float(there.max()))
        more = [" hour sin", " hour cos"] if np.any(there % DAY != 0) else []
        more += YEARLY if high - low > SEASON else []
        return dataclasses.replace(
            known,
            origin=origin,
            low=low,
            high=high,
            since=known.since if YEARLY[0] in known.parts else known.high,
            count=count,
            mean=known.mean + (float(there.mean() - origin) - known.mean) * (len(there) / count),
            missing=known.missing + gaps,
            parts=_with(known.parts, *more, MISSING if gaps else None),
        )

    def encode(self, values: Values) -> list[Piece]:
        """Return the features of some rows."""
        values = values.as_strings() if values.kind == "number" else values
        if values.kind != "string":
            return [Coded(np.arange(len(values)), self._features(values.numbers))]
        # The same dates come again and again: each is computed once.
        return [Coded(values.codes, self._features(np.append(self._parsed(values.labels), math.nan)))]

    def _features(self, times: Floats) -> Floats:
        """Return the features of times: an array of shape (n, parts)."""
        gaps = np.isnan(times)
        made = np.zeros((len(times), len(self.parts)), order="F")
        made[:, 0] = np.where(gaps, self.mean, times - (0.0 if math.isnan(self.origin) else self.origin)) / YEAR
        times = np.where(gaps, 0.0, times)
        weekday = ((times // DAY).astype(np.int64) + 3) % 7  # 1970 began on a Thursday
        made[np.arange(len(times)), 1 + weekday] = ~gaps
        turns = {"hour": times % DAY / DAY, "year": times % YEAR / YEAR}
        for i, part in enumerate(self.parts[8:], 8):
            if part == MISSING:
                made[:, i] = gaps
            else:
                _, turn, wave = part.split(" ")
                off = gaps | (times <= self.since) if part in YEARLY else gaps
                made[:, i] = np.where(off, 0.0, getattr(np, wave)(2 * math.pi * turns[turn]))
        return made

    def _read(self, values: Values) -> Floats:
        if values.kind == "number":
            values = values.as_strings()
        if values.kind != "string":
            return values.numbers
        return np.append(self._parsed(values.labels), math.nan)[values.codes]

    def _parsed(self, labels: Sequence[str]) -> Floats:
        found = parsed(labels, self.format)
        if found is None:
            raise RefusedError(
                f"was dates so far ({self.format}) and now holds {_strange(labels, self.format)!r}; write all "
                "of them one way"
            )
        return found

    @property
    def exclusive(self) -> tuple[str, ...]:
        """Features of which a row has one."""
        return (*self.parts[1:8], MISSING)

    def note(self) -> str:
        """Return what a user should know."""
        said = [f"{format_time(self.low)} to {format_time(self.high)}"] if self.count else []
        said += [f"read as {self.format}"] if self.format else []
        return ", ".join(said + ([f"{self.missing} missing"] if self.missing else []))


@dataclass(frozen=True)
class Text:
    """A text: its words and pairs of words, hashed."""

    kind: ClassVar[str] = "text"
    size: int = 1024
    missing: int = 0
    parts: tuple[str, ...] = ()

    def learned(self, values: Values) -> "Text":
        """Return what is known after some more rows."""
        parts = self.parts or tuple(f"~{i}" for i in range(self.size))
        gaps = int(np.sum(values.missing))
        return dataclasses.replace(self, parts=_with(parts, MISSING if gaps else None), missing=self.missing + gaps)

    def encode(self, values: Values) -> list[Piece]:
        """Return the features of some rows."""
        from sklearn.feature_extraction.text import HashingVectorizer

        values = values.as_strings()
        found: list[Piece] = []
        if MISSING in self.parts:
            found.append(Given(self.parts.index(MISSING), values.missing))
        if values.kind == "empty":
            return found
        hashed = HashingVectorizer(n_features=self.size, ngram_range=(1, 2)).transform(values.labels)
        return [*found, Hashed(hashed, values.codes)]

    exclusive: ClassVar[tuple[str, ...]] = ()

    def note(self) -> str:
        """Return what a user should know."""
        return f"words and pairs of words in {self.size} buckets" + (
            f", {self.missing} missing" if self.missing else ""
        )


Column = Number | Category | Date | Text

KINDS: dict[str, Any] = {kind.kind: kind for kind in (Number, Category, Date, Text)}


def _sum(numbers: Floats) -> float:
    with np.errstate(over="ignore", invalid="ignore"):
        return float(numbers.sum())


def _format(values: Values) -> str:
    found = format_of(values.labels, declared=True)
    if found is None:
        raise RefusedError(f"cannot be read as dates, e.g. {values.labels[0][:40]!r}; convert it")
    return found


def _strange(labels: Sequence[str], format: str) -> str:
    return next((label[:40] for label in labels if parsed([label], format) is None), "")


def _with(parts: tuple[str, ...], *more: str | None) -> tuple[str, ...]:
    return parts + tuple(part for part in more if part is not None and part not in parts)


def _hash(label: str) -> str:
    """Return a number that stands for a word, the same everywhere."""
    return hashlib.blake2b(label.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _is_number(label: str) -> bool:
    try:
        float(label)
    except ValueError:
        return False
    return True
