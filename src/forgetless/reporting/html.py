"""HTML of tables, lists and paragraphs, and self-contained pages from ``templates/``."""

import base64
import html
import re
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

from forgetless._core.text import needs, printable
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
    with needs("pages", "jinja2", "tables"):
        import jinja2
        from markupsafe import Markup

    def markup(convert: Callable[[Any], str]) -> Callable[[Any], Markup]:
        return lambda content: Markup(convert(content))

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).with_name("templates")),
        autoescape=True,
        finalize=lambda value: printable(value) if type(value) is str else value,  # not Markup
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "formula": markup(formula),
        "table": markup(table),
        "data_url": _data_url,
    }
    return environment


def _data_url(picture: bytes) -> str:
    """Return a picture, PNG or SVG, as a URL."""
    kind = "png" if picture.startswith(b"\x89PNG") else "svg+xml"
    return f"data:image/{kind};base64,{base64.b64encode(picture).decode()}"
