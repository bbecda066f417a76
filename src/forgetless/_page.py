"""Self-contained pages from ``templates/``, by jinja2."""

import base64
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from forgetless._table import formula, html_table
from forgetless._text import needs, printable


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
        "table": markup(html_table),
        "data_url": _data_url,
    }
    return environment


def _data_url(picture: bytes) -> str:
    """Return a picture, PNG or SVG, as a URL."""
    kind = "png" if picture.startswith(b"\x89PNG") else "svg+xml"
    return f"data:image/{kind};base64,{base64.b64encode(picture).decode()}"
