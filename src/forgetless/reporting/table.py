"""Tables of columns, printed as text or HTML, or converted to CSV and pandas."""

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np

from forgetless._core.environment import needs
from forgetless.reporting.text import label


class Noted(NamedTuple):
    """A number with a note printed behind it: its error, its unit, a mark."""

    value: float | None
    note: str


class FormattedColumn(NamedTuple):
    """A column as it is printed: its name, its cells, and whether they are numbers."""

    name: str
    cells: list[str]
    numbers: bool


@dataclass(frozen=True)
class Table:
    """Equally long columns with a title, and facts about them as sentences.

    Attributes
    ----------
    title : str
    columns : dict from name to list
        A name of several lines makes a head of several lines.
    facts : tuple of str
    number : str
        How floats are printed, as a format specification.
    formats : mapping from name to str
        The same for single columns.

    Examples
    --------
    >>> from forgetless.reporting.table import Noted, Table
    >>> table = Table("Fruit", {"fruit": ["plum", "fig"], "g": [31.5, None], "a piece": [Noted(0.5, " €"), 12]})
    >>> print(table.text())
    fruit     g  a piece
    plum   31.5    0.5 €
    fig       –   12
    >>> print(table.to_csv(), end="")
    fruit,g,a piece
    plum,31.5,0.5
    fig,,12
    """

    title: str
    columns: dict[str, list[Any]]
    facts: tuple[str, ...] = ()
    number: str = ".4g"
    formats: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_rows(cls, title: str, rows: Sequence[Mapping[str, Any]], facts: tuple[str, ...] = ()) -> "Table":
        """Return the table of some rows, at least one, that all have the names of the first."""
        return cls(title, {name: [row[name] for row in rows] for name in rows[0]}, facts)

    def rows(self) -> list[tuple[Any, ...]]:
        """Return the rows as tuples in the order of the columns."""
        return list(zip(*self.columns.values(), strict=True))

    def where(self, **values: Any) -> "Table":
        """Return the rows in which the named columns have the given values."""
        keep = [i for i in range(len(self)) if all(self.columns[name][i] == value for name, value in values.items())]
        return replace(self, columns={name: [column[i] for i in keep] for name, column in self.columns.items()})

    def formatted(self) -> list[FormattedColumn]:
        """Return the columns as they are printed, for text and HTML alike."""
        return [_formatted(name, cells, self.formats.get(name, self.number)) for name, cells in self.columns.items()]

    def text(self) -> str:
        """Return aligned lines, the head first: numbers to the right, text to the left."""
        height = max(name.count("\n") for name in self.columns)
        columns = [_aligned(column, height - column.name.count("\n")) for column in self.formatted()]
        return "\n".join("  ".join(line).rstrip() for line in zip(*columns, strict=True))

    def values(self) -> dict[str, list[Any]]:
        """Return the columns without the notes behind their numbers."""
        return {
            name: [cell.value if isinstance(cell, Noted) else cell for cell in cells]
            for name, cells in self.columns.items()
        }

    def to_csv(self) -> str:
        """Return the table as CSV, with every digit of its numbers; missing values are empty."""
        text, columns = io.StringIO(), self.values()
        csv.writer(text, lineterminator="\n").writerows([columns, *zip(*columns.values(), strict=True)])
        return text.getvalue()

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values: title, facts and columns."""
        return {"title": self.title, "facts": list(self.facts), "columns": self.values()}

    def to_frame(self) -> Any:
        """Return the columns as a pandas data frame."""
        return frame(self.values())

    def _repr_html_(self) -> str:
        from forgetless.reporting.html import titled  # which renders tables, and so knows this module

        return titled(self)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))


def _formatted(name: str, cells: list[Any], number: str) -> FormattedColumn:
    pairs = [cell if isinstance(cell, Noted) else Noted(cell, "") for cell in cells]
    texts = [_cell(pair.value, number) for pair in pairs]
    notes = [pair.note if _is_present(pair.value) else "" for pair in pairs]
    # Notes hang to the right of the numbers, so that a mark behind one of them does not shift its digits.
    width = max(map(len, notes), default=0)
    joined = [text + note.ljust(width) for text, note in zip(texts, notes, strict=True)]
    return FormattedColumn(name, joined, any(isinstance(pair.value, Real) for pair in pairs))


def _is_present(value: Any) -> bool:
    return value is not None and not (isinstance(value, Real) and math.isnan(value))


def _cell(value: Any, number: str) -> str:
    if not _is_present(value):
        return "–"
    return format(value, number) if isinstance(value, Real) and not isinstance(value, Integral) else label(value)


def _aligned(column: FormattedColumn, blank: int) -> list[str]:
    texts = [*[""] * blank, *column.name.split("\n"), *column.cells]
    width = max(map(len, texts))
    return [text.rjust(width) if column.numbers else text.ljust(width) for text in texts]


def frame(columns: Mapping[str, Any]) -> Any:
    """Return a pandas data frame of equally long columns: lists, or arrays of any shape, read row by row."""
    with needs("to_frame", "pandas", "frame"):
        import pandas
    flat = {name: np.ravel(cells) if isinstance(cells, np.ndarray) else cells for name, cells in columns.items()}
    return pandas.DataFrame(flat)
