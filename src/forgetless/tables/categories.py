"""Features of a column of categories: one for every label, as labels come.

scikit-learn's ``OneHotEncoder`` needs all labels at once, and ``FeatureHasher`` mixes them from the
first one on.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from forgetless._validate import Array
from forgetless.tables.columns import Column, Parts
from forgetless.tables.values import Values

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
class Category(Column):
    """A feature for every label from its first row on, up to ``most``; the others share buckets.

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
        Of identifiers that were learned as numbers: the value of that feature from then on.
    """

    kind = "category"

    most: int = 300
    key: str = ""
    waits: bool = False
    places: dict[int, int] = field(default_factory=dict)
    counts: dict[int, int] = field(default_factory=dict)
    frozen: float | None = None

    @classmethod
    def of_identifiers(cls, number: Any, most: int, key: str) -> "Category":
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
            self.parts[self.places[code]] = f"={label}"

    def split(self, values: Values) -> Parts:
        numbers = {} if self.frozen is None else {"": np.full(len(values), self.frozen)}
        # The last place is that of rows without a value.
        return numbers, np.append(self.places_of(values), -1)[values.coded[0]]

    def places_of(self, values: Values) -> Array:
        """Return the part of every label, −1 where it has none."""
        hashes = self._hashes(values)
        places = [self.places.get(code, -1) for code in hashes]
        if self.has_buckets:
            first = self.parts.index("#0")
            pairs = zip(places, hashes, strict=True)
            places = [place if place >= 0 else first + code % BUCKETS for place, code in pairs]
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
        rows = self.rows - self.missing + int((~values.missing).sum())
        is_own = len(self.counts) + len(new) > NAMES * rows >= NAMES * NAMED_ROWS
        if not is_own or self.waits:
            return ""
        return f"{self.name}: nearly every row has its own text; one counts from its second row on"

    def hidden(self) -> dict[str, Any]:
        """Return the state with hashes in place of rare labels."""
        parts = list(self.parts)
        for code, place in self.places.items():
            if self.counts.get(code, 0) < RARE:
                parts[place] = f"{RARE_NAME} {code:016x})"
        return {**vars(self), "parts": parts}
