"""HTML of reports: a self-contained page, lists, tables, embedded images."""

import base64
import html
import re
from collections.abc import Iterable, Mapping

from forgetless.reporting.table import Table
from forgetless.reporting.text import printable

STYLE = """
:root{color-scheme:light dark;--paper:#fff;--ink:#222;--soft:#444;--line:#ccc;--code:#f2f2f2}
@media (prefers-color-scheme:dark){:root{--paper:#15181c;--ink:#e3e6e8;--soft:#b4bac0;--line:#454b52;--code:#262b31}
figure img{filter:invert(.92) hue-rotate(180deg)}}
body{font:16px/1.5 system-ui,sans-serif;max-width:72rem;margin:0 auto;padding:1rem}
body{color:var(--ink);background:var(--paper)}
h1,p,ul{max-width:46rem}h1{font-size:1.5rem;line-height:1.2}
h2{font-size:1.15rem;margin-top:2rem;border-top:1px solid var(--line);padding-top:1rem}
figure{margin:0}img{max-width:100%;height:auto}figcaption,.small{font-size:.85rem;color:var(--soft)}
.panels{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,20rem),1fr));gap:1rem;margin:1rem 0}
.panels.one{max-width:46rem}.panels.two{grid-template-columns:repeat(auto-fit,minmax(min(100%,26rem),1fr))}
.panels img{width:100%;height:auto;display:block}
.zoom{cursor:zoom-in;display:block}.zoom input{position:absolute;opacity:0}
.zoom input:focus-visible+span{outline:2px solid #0072B2}
.zoom input:checked+span{position:fixed;inset:0;z-index:9;overflow:auto;
background:var(--paper);cursor:zoom-out;padding:1rem}
.zoom input:checked+span img{width:max(100%,60rem);max-width:none;max-height:none}
dl{columns:24rem;column-gap:2rem}dl div{break-inside:avoid}dt{font-weight:600}dd{margin:0 0 .5rem 1rem}
code{background:var(--code);padding:.1rem .3rem;overflow-wrap:anywhere}.scroll{overflow-x:auto}
table{border-collapse:collapse;font-size:.8rem}
th,td{padding:.2rem .5rem;text-align:left;border-bottom:1px solid var(--line);white-space:nowrap}
td.n{text-align:right;font-variant-numeric:tabular-nums}
@media print{body{max-width:none;font-size:10pt}h2{break-after:avoid}figure{break-inside:avoid}}
"""
"""In the dark, figures are inverted and their hues turned back; a click, or the space bar, enlarges one."""


def page(title: str, body: str) -> str:
    """Return a whole page that needs no other file."""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>forgetless: {text(title)}</title><style>{STYLE}</style></head><body><main>\n"
        f"<h1>{text(title)}</h1>\n{body}</main></body></html>\n"
    )


def image(picture: bytes, alt: str) -> str:
    """Return an embedded image, PNG or SVG, with an alternative text; a click enlarges it."""
    kind = "png" if picture.startswith(b"\x89PNG") else "svg+xml"
    encoded = base64.b64encode(picture).decode()
    return (
        '<figure><label class="zoom"><input type="checkbox" aria-label="enlarge the figure"><span>'
        f'<img alt="{text(alt)}" src="data:image/{kind};base64,{encoded}"></span></label></figure>'
    )


def panels(pictures: Iterable[str]) -> str:
    """Return images side by side, on a narrow screen below each other."""
    images = list(pictures)
    kind = " one" if len(images) == 1 else " two" if len(images) % 2 == 0 and len(images) % 3 else ""
    return f'<div class="panels{kind}">{"".join(images)}</div>'


def definitions(meanings: Mapping[str, str]) -> str:
    """Return a list of terms with their meanings."""
    return (
        "<dl>"
        + "".join(f"<dt>{formula(term)}</dt><dd>{formula(meaning)}</dd>" for term, meaning in meanings.items())
        + "</dl>"
    )


def formula(content: str) -> str:
    """Return text with _{…} and ^{…} as subscripts and superscripts."""
    low = re.sub(r"_\{(.*?)\}", r"<sub>\1</sub>", text(content))
    return re.sub(r"\^\{(.*?)\}", r"<sup>\1</sup>", low)


def paragraph(lines: Iterable[str]) -> str:
    """Return lines of plain text, one below the other; nothing if there are none."""
    joined = "<br>".join(map(text, lines))
    return f"<p>{joined}</p>" if joined else ""


def bullets(lines: Iterable[str]) -> str:
    """Return lines of plain text as a list; nothing if there are none."""
    items = "".join(f"<li>{text(line)}</li>" for line in lines)
    return f"<ul>{items}</ul>" if items else ""


def table(content: Table) -> str:
    """Return a table with the cells of its text, numbers aligned to the right."""
    columns = content.formatted()
    head = "".join(f"<th>{text(column.name)}</th>" for column in columns)
    cells = zip(*([_cell(cell, column.numbers) for cell in column.cells] for column in columns), strict=True)
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in cells)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def titled(content: Table) -> str:
    """Return a table below its title, as notebooks show it."""
    return f"{paragraph([content.title])}{table(content)}{paragraph(content.facts)}"


def _cell(content: str, number: bool) -> str:
    return f'<td class="n">{text(content)}</td>' if number else f"<td>{formula(content)}</td>"


def text(content: str) -> str:
    """Return printable text with markup escaped."""
    return html.escape(printable(content))
