"""Results for people: tables as text, HTML, plain values and data frames, and whole HTML pages.

A ``Table`` is columns with a title. Results derive from ``Printed`` and have a method that returns
their table; text, HTML and data frame follow from it, so that all of them show the same cells.
``render`` fills a page from ``templates/``, which holds tables and pictures and asks for no file.

Cells are numbers, text or None, which is shown as a dash. Names of columns and labels of tasks may
come from anybody's file: text is escaped for terminals, and for HTML besides.
"""

import base64
import html
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import compress
from numbers import Integral, Real
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from forgetless._text import label, needs, printable, readable_number, wrapped


class Noted(NamedTuple):
    """A number with a note printed right behind it: its error, its unit, a mark."""

    value: float | None
    note: str


class _PrintedColumn(NamedTuple):
    """A column as it is printed: its name, its cells, and whether they are numbers."""

    name: str
    cells: list[str]
    numbers: bool


@dataclass(frozen=True)
class Table:
    """Equally long columns with a title, and facts about them, each a sentence.

    Attributes
    ----------
    title : str
    columns : dict from name to list
        The head has as many lines as the longest name.
    facts : tuple of str
    number : str
        Format specification of floats.
    formats : mapping from name to str
        The same for single columns.

    Examples
    --------
    >>> from forgetless._table import Noted, Table
    >>> table = Table("Fruit", {"fruit": ["plum", "fig"], "g": [31.5, None],
    ...     "a piece": [Noted(0.5, " €"), 12]})
    >>> print(table.text())
    fruit     g  a piece
    plum   31.5    0.5 €
    fig       –   12
    >>> table.values()
    {'fruit': ['plum', 'fig'], 'g': [31.5, None], 'a piece': [0.5, 12]}
    """

    title: str
    columns: dict[str, list[Any]]
    facts: tuple[str, ...] = ()
    number: str = ".4g"
    formats: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_rows(
        cls, title: str, rows: Sequence[Mapping[str, Any]], facts: tuple[str, ...] = ()
    ) -> "Table":
        """Return the table of at least one row; all rows have the names of the first."""
        return cls(title, {name: [row[name] for row in rows] for name in rows[0]}, facts)

    def rows(self) -> list[tuple[Any, ...]]:
        """Return the rows as tuples in the order of the columns."""
        return list(zip(*self.columns.values(), strict=True))

    def where(self, **values: Any) -> "Table":
        """Return the rows whose columns have these values, with the same title and facts."""
        columns = self.columns
        # One condition after the other: each leaves the rows that it holds for.
        for name, value in values.items():
            keep = [each == value for each in columns[name]]
            columns = {key: list(compress(column, keep)) for key, column in columns.items()}
        return replace(self, columns=columns)

    def printed(self) -> list[_PrintedColumn]:
        """Return the columns as they are printed, the same for text and HTML."""
        return [
            _printed(name, cells, self.formats.get(name, self.number))
            for name, cells in self.columns.items()
        ]

    def text(self) -> str:
        """Return aligned lines, the head first: numbers to the right, text to the left."""
        # A name of fewer lines stands right above its cells.
        height = max(name.count("\n") for name in self.columns)
        columns = [_aligned(column, height - column.name.count("\n")) for column in self.printed()]
        # Line by line across the columns, without blanks at the end.
        return "\n".join("  ".join(line).rstrip() for line in zip(*columns, strict=True))

    def values(self) -> dict[str, list[Any]]:
        """Return the columns without the notes behind their numbers."""
        return {
            name: [cell.value if isinstance(cell, Noted) else cell for cell in cells]
            for name, cells in self.columns.items()
        }

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values: title, facts and columns."""
        return {"title": self.title, "facts": list(self.facts), "columns": self.values()}

    def to_frame(self) -> Any:
        """Return the columns as a pandas data frame."""
        return frame(self.values())

    def _repr_html_(self) -> str:
        """Return what a notebook shows: title, cells and facts."""
        body = html_table(self)
        return f"{_paragraph(self.title.splitlines())}{body}{_paragraph(self.facts)}"

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(next(iter(self.columns.values())))


class Printed(ABC):
    """Text and HTML of a result from its ``table``.

    Text has the title, the cells, and the facts below them, with lines of at most 98 characters.
    """

    @abstractmethod
    def table(self) -> Table:
        """Return the printed table."""

    def to_frame(self) -> Any:
        """Return the table as a pandas data frame."""
        return self.table().to_frame()

    def __repr__(self) -> str:
        table = self.table()
        text = f"{wrapped(*table.title.splitlines())}\n{table.text()}"
        if table.facts:
            text += f"\n\n{wrapped(*table.facts)}"
        return text

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


def _printed(name: str, cells: list[Any], number: str) -> _PrintedColumn:
    """Return a column as it is printed; ``number`` is the format of its floats."""
    pairs = [cell if isinstance(cell, Noted) else Noted(cell, "") for cell in cells]
    # A note says something about a number: where there is none, it is left out.
    texts = [_cell(pair.value, number) for pair in pairs]
    notes = [pair.note if _is_present(pair.value) else "" for pair in pairs]
    # Notes hang to the right of the numbers, so that a mark behind one of them does not shift its
    # digits.
    width = max(map(len, notes), default=0)
    joined = [text + note.ljust(width) for text, note in zip(texts, notes, strict=True)]
    return _PrintedColumn(name, joined, any(isinstance(pair.value, Real) for pair in pairs))


def _is_present(value: Any) -> bool:
    """Return whether a cell has a value: None and NaN stand for none."""
    return value is not None and not (isinstance(value, Real) and math.isnan(value))


def _cell(value: Any, number: str) -> str:
    """Return a value as text; a count has all its digits."""
    if not _is_present(value):
        return "–"
    if isinstance(value, Real) and not isinstance(value, Integral):
        return readable_number(value, number)
    return label(value)


def _aligned(column: _PrintedColumn, blank: int) -> list[str]:
    """Return the lines of a column, all of one width, below some blank ones."""
    # Blank lines first, so that the last lines of all names stand side by side.
    texts = [*[""] * blank, *column.name.split("\n"), *column.cells]
    width = max(map(len, texts))
    align = str.rjust if column.numbers else str.ljust
    return [align(text, width) for text in texts]


def frame(columns: Mapping[str, Any]) -> Any:
    """Return a pandas data frame of equally long columns: lists, or arrays of any shape, read row
    by row.

    pandas is an extra; without it an ImportError says how to install it.
    """
    with needs("to_frame", "pandas", "plot"):
        import pandas
    flat = {
        name: cells.ravel() if isinstance(cells, np.ndarray) else cells
        for name, cells in columns.items()
    }
    return pandas.DataFrame(flat)


def html_table(content: Table) -> str:
    """Return an HTML table with the cells of the table's text, numbers aligned to the right."""
    columns = content.printed()
    # Rows of HTML from columns of cells.
    head = "".join(f"<th>{html_text(column.name)}</th>" for column in columns)
    cells = zip(
        *([_html_cell(cell, column.numbers) for cell in column.cells] for column in columns),
        strict=True,
    )
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in cells)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _paragraph(lines: Iterable[str]) -> str:
    """Return lines as a paragraph of HTML; nothing for none."""
    joined = "<br>".join(map(html_text, lines))
    return joined and f"<p>{joined}</p>"


def formula(content: str) -> str:
    """Return text with _{…} and ^{…} as subscripts and superscripts.

    Rates of bounds are written so, "k^{−1/4}"; everything else is escaped.
    """
    low = re.sub(r"_\{(.*?)\}", r"<sub>\1</sub>", html_text(content))
    return re.sub(r"\^\{(.*?)\}", r"<sup>\1</sup>", low)


def html_text(content: str) -> str:
    """Return text with markup and control codes escaped."""
    return html.escape(printable(content))


def _html_cell(content: str, number: bool) -> str:
    """Return a cell of HTML; the style sheet aligns those of class n to the right."""
    if number:
        return f'<td class="n">{html_text(content)}</td>'
    return f"<td>{formula(content)}</td>"


# ---- pages ----


def render(template: str, **values: Any) -> str:
    """Return a page from a template; every value is escaped.

    Examples
    --------
    >>> "<h1>1 &lt; 2</h1>" in render("page.html", title="1 < 2")
    True
    """
    return str(_environment().get_template(template).render(**values))


@cache
def _environment() -> Any:
    """Return jinja2's environment, in which a misspelled name is an error and no empty place."""
    with needs("pages", "jinja2", "tables"):
        import jinja2
        from markupsafe import Markup

    def markup(convert: Callable[[Any], str]) -> Callable[[Any], Markup]:
        return lambda content: Markup(convert(content))

    def shown(value: Any) -> Any:
        # Not Markup, a kind of text that is HTML already.
        return printable(value) if type(value) is str else value

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).with_name("templates")),
        autoescape=True,
        finalize=shown,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # What a template calls by name: ``{{ table | table }}``.
    environment.filters |= {
        "formula": markup(formula),
        "table": markup(html_table),
        "data_url": _data_url,
    }
    return environment


def _data_url(picture: bytes) -> str:
    """Return a picture, PNG or SVG, as a URL that holds it: a page is one file."""
    kind = "png" if picture.startswith(b"\x89PNG") else "svg+xml"
    return f"data:image/{kind};base64,{base64.b64encode(picture).decode()}"
