"""The few pieces of HTML that reports are made of: one self-contained page, lists, tables, embedded pictures."""

import base64
import html
from collections.abc import Iterable

from forgetless._base.tables import Table
from forgetless._base.words import printable

STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:46rem;margin:0 auto;padding:1rem;color:#222;background:#fff}
h1{font-size:1.5rem;line-height:1.2}h2{font-size:1.15rem;margin-top:2rem;border-top:1px solid #ccc;padding-top:1rem}
figure{margin:1rem 0}img{max-width:100%;height:auto}figcaption,.small{font-size:.85rem;color:#444}
code{background:#f2f2f2;padding:.1rem .3rem;overflow-wrap:anywhere}.scroll{overflow-x:auto}
table{border-collapse:collapse;font-size:.8rem}th,td{padding:.2rem .5rem;text-align:left;border-bottom:1px solid #ddd}
th,td{white-space:nowrap}td.n{text-align:right;font-variant-numeric:tabular-nums}
@media print{body{max-width:none;font-size:10pt}h2{break-after:avoid}figure{break-inside:avoid}}
"""


def page(title: str, body: str) -> str:
    """Return a whole page that needs no other file."""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>forgetless: {text(title)}</title><style>{STYLE}</style></head><body><main>\n"
        f"<h1>{text(title)}</h1>\n{body}</main></body></html>\n"
    )


def image(png: bytes, alt: str) -> str:
    """Return a picture inside the page, with words for those who do not see it."""
    encoded = base64.b64encode(png).decode()
    return f'<figure><img alt="{text(alt)}" src="data:image/png;base64,{encoded}"></figure>'


def paragraph(lines: Iterable[str]) -> str:
    """Return lines of plain text, one below the other; nothing if there are none."""
    joined = "<br>".join(map(text, lines))
    return f"<p>{joined}</p>" if joined else ""


def bullets(lines: Iterable[str]) -> str:
    """Return lines of plain text as a list; nothing if there are none."""
    items = "".join(f"<li>{text(line)}</li>" for line in lines)
    return f"<ul>{items}</ul>" if items else ""


def table(content: Table) -> str:
    """Return a table that shows what its text shows, with numbers aligned to the right."""
    columns = content.shown()
    head = "".join(f"<th>{text(column.name)}</th>" for column in columns)
    cells = zip(*([_cell(cell, column.numbers) for cell in column.cells] for column in columns), strict=True)
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in cells)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def titled(content: Table) -> str:
    """Return a table below its title, as notebooks show it."""
    return f"{paragraph([content.title])}{table(content)}{paragraph(content.facts)}"


def _cell(content: str, number: bool) -> str:
    return f'<td class="n">{text(content)}</td>' if number else f"<td>{text(content)}</td>"


def text(content: str) -> str:
    """Return words that are no markup, whatever they hold."""
    return html.escape(printable(content))
