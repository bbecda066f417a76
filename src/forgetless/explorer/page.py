"""The page: one self-contained file from small parts, without any connection to other machines."""

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

ASSETS = Path(__file__).with_name("assets")

ENGINE = (
    "engine/spectrum.js",
    "engine/problem.js",
    "engine/moments.js",
    "engine/draws.js",
    "engine/one_order.js",
    "engine/engine.js",
)
"""The scripts of the exact engine."""

SCRIPTS = (
    *ENGINE,
    "page/tasks.js",
    "page/reading.js",
    "page/npz.js",
    "page/schedules.js",
    "page/state.js",
    "page/descent.js",
    "page/plot.js",
    "page/search.js",
    "page/draw.js",
    "page/losses.js",
    "page/geometry.js",
    "page/code.js",
    "page/export.js",
    "page/server.js",
    "page/results.js",
    "page/walk.js",
    "page/app.js",
    "page/controls.js",
    "page/files.js",
)
"""All scripts of the page, each after those that it uses."""


def read(*names: str) -> str:
    """Return assets one after the other."""
    return "\n".join((ASSETS / name).read_text(encoding="utf-8") for name in names)


def page(data: Mapping[str, Any] | None = None, *, served: bool = False) -> str:
    """Return the whole page.

    Parameters
    ----------
    data : mapping, optional
        Plain values: ``state``, ``tasks``, ``source``, ``upper_bound``; a server adds ``token``,
        ``held``, ``large``.
    served : bool, default False
        Whether the page may connect to its own server.

    Examples
    --------
    >>> from forgetless.explorer.page import page
    >>> "Draw the regularization" in page(), len(page()) < 300_000
    (True, True)
    """
    style, script = (
        read("style.css"),
        "\n".join(["(() => {", read(*SCRIPTS), "window.App = App;", "})();"]),
    )
    parts = {
        "policy": policy(style, script, served=served),
        "style": style,
        "data": embedded({"shipped": shipped(), "constants": constants(), **(data or {})}),
        "script": script,
    }
    # In one pass over the template, so that text in a part is never taken for a placeholder.
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], read("index.html"))


def policy(style: str, script: str, *, served: bool) -> str:
    """Return the Content-Security-Policy: this style, this script, embedded pictures, no connection
    to others.
    """
    allowed = {
        "default-src": "'none'",
        "script-src": _hash(script),
        "style-src": _hash(style),
        "img-src": "data: blob:",
        "connect-src": "'self'" if served else "'none'",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    return "; ".join(f"{name} {value}" for name, value in allowed.items())


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def embedded(data: Mapping[str, Any]) -> str:
    r"""Return plain values as JSON that cannot end the element around it, whatever text they hold.

    Examples
    --------
    >>> from forgetless.explorer.page import embedded
    >>> print(embedded({"label": "</script><b>"}))
    {"label":"\u003c/script\u003e\u003cb\u003e"}
    """
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    for letter in "<>&":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


def constants() -> dict[str, float]:
    """Return the constants c of guarantees c·R²D²/(k+1) for the theorem's schedule, by what the
    page calls them.
    """
    from forgetless.theory.bounds import catalogue

    names = {
        "paper": "increasing",
        "seen": "increasing, seen tasks",
        "ridge": "increasing, every k",
        "size": "increasing, one gradient step, every k",
    }
    k = 3  # all are c/(k+1)
    return {
        key: round((k + 1) * catalogue[name].evaluate(k, 1.0, 1.0), 9)
        for key, name in names.items()
    }


@cache
def shipped() -> tuple[dict[str, Any], ...]:
    """Return the worst collections known, as plain values."""
    return tuple(json.loads(read("worst.json")))
