"""HTML of tables, lists and paragraphs, for notebooks and for the templates of pages."""

import html
import re
from collections.abc import Iterable

from forgetless._core.text import printable
from forgetless.reporting.table import Table


def table(content: Table) -> str:
    """Return an HTML table with the cells of the table's text, numbers aligned to the right."""
    columns = content.printed()
    head = "".join(f"<th>{text(column.name)}</th>" for column in columns)
    cells = zip(
        *([_cell(cell, column.numbers) for cell in column.cells] for column in columns), strict=True
    )
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in cells)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def titled(content: Table) -> str:
    """Return a table between its title and its facts, as notebooks show it."""
    return f"{paragraph([content.title])}{table(content)}{paragraph(content.facts)}"


def paragraph(lines: Iterable[str]) -> str:
    """Return a paragraph of lines of text; nothing if there are none."""
    joined = "<br>".join(map(text, lines))
    return f"<p>{joined}</p>" if joined else ""


def bullets(lines: Iterable[str]) -> str:
    """Return a list of lines of text; nothing if there are none."""
    items = "".join(f"<li>{text(line)}</li>" for line in lines)
    return f"<ul>{items}</ul>" if items else ""


def formula(content: str) -> str:
    """Return text with _{…} and ^{…} as subscripts and superscripts."""
    low = re.sub(r"_\{(.*?)\}", r"<sub>\1</sub>", text(content))
    return re.sub(r"\^\{(.*?)\}", r"<sup>\1</sup>", low)


def text(content: str) -> str:
    """Return text with markup and control codes escaped."""
    return html.escape(printable(content))


def _cell(content: str, number: bool) -> str:
    return f'<td class="n">{text(content)}</td>' if number else f"<td>{formula(content)}</td>"
