"""Text for people: numbers, what to install, and untrusted text, such as labels of tasks, escaped
for terminals, figures and pages.
"""

import textwrap
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from importlib import import_module
from typing import Any

_LABEL = 60  # no mutant: where a long label is cut
"""Most characters of a label in tables and pages."""


def printable(text: str, width: int | None = None) -> str:
    r"""Return ``text`` on one line, with unprintable characters escaped and at most ``width``
    characters.

    Unprintable characters may move the cursor, change colours, reverse the direction of writing, or
    have no encoding.

    Examples
    --------
    >>> print(printable("a" + chr(27) + "[2J" + chr(10) + "b"))
    a\x1b[2J\nb
    >>> printable("elephants", 5)
    'elep…'
    """
    # Cut first: a label of a file may have a million characters.
    if width is not None and len(text) > width:
        text = text[: width - 1] + "…"
    if text.isprintable():
        return text
    escaped = "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )
    # Escapes are longer than what they stand for.
    return printable(escaped, width)


def wrapped(*lines: str) -> str:
    """Return text whose lines are broken at 98 characters, and continued with an indent.

    Examples
    --------
    >>> print(wrapped("short", "", "word " * 20))
    short
    <BLANKLINE>
    word word word word word word word word word word word word word word word word word word word
        word
    """
    return "\n".join(textwrap.fill(line, 98, subsequent_indent="    ") for line in lines)


def error_text(error: BaseException) -> str:
    r"""Return the type and message of an error on one printable line.

    Examples
    --------
    >>> error_text(ValueError("no  such" + chr(10) + "file " + chr(0xD800)))
    'ValueError: no such file \\ud800'
    """
    return printable(f"{type(error).__name__}: {' '.join(str(error).split())}", 2000)


def label(text: object) -> str:
    """Return a label for tables and pages."""
    return printable(str(text), _LABEL)


def figure_label(text: object, width: int = 14) -> str:
    """Return a label that matplotlib draws literally: not as a formula, and not hidden from
    legends.
    """
    literal = printable(str(text), width).replace("$", r"\$")
    # matplotlib leaves labels with an underscore in front out of legends.
    if literal.startswith("_"):
        literal = f" {literal}"
    return literal


def closest(name: object, known: Iterable[str]) -> str:
    """Return a question that names what was probably meant; nothing if no known name is close.

    Examples
    --------
    >>> closest("averge_loss", ["average_loss", "drift"])
    "did you mean 'average_loss'? "
    """
    names = list(known)
    # A part of a name, such as the loss, is meant more often than a typing error.
    text = str(name)
    close = [each for each in names if len(text) > 2 and text in each]
    close = close or get_close_matches(text, names, n=1)
    if not close:
        return ""
    return f"did you mean {' or '.join(map(repr, close))}? "


def readable_number(value: Any, number: str = ".4g") -> str:
    """Return a number in the format ``number``; a large one not as a power of ten, but with digits
    in groups.

    Examples
    --------
    >>> [readable_number(x) for x in (35012.3, 2670.4, -1234567.0, 0.00001, 244737)]
    ['35 010', '2670', '-1 235 000', '1e-05', '244 737']
    >>> [readable_number(x) for x in (9999, 10_000, 999_999_999, 1e9)]
    ['9999', '10 000', '999 999 999', '1e+09']
    """
    # A count is known to its last digit.
    if isinstance(value, int):
        text = str(value)
    else:
        text = format(value, number)
    whole = text.lstrip("-").isdigit() or "e+" in text
    if not whole or not 10_000 <= abs(value) < 1e9:
        return text
    return f"{float(text):,.0f}".replace(",", " ")


def version() -> str:
    """Return it; asked for when it is needed, since the package itself imports what asks."""
    return str(import_module("forgetless").__version__)


def how(extra: str) -> str:
    """Return how to install an extra of this package, from a checkout as from an index.

    Examples
    --------
    >>> from forgetless._text import how
    >>> how("plot")
    "pip install '.[plot]' in a checkout of forgetless, or pip install 'forgetless[plot]'"
    """
    return (
        f"pip install '.[{extra}]' in a checkout of forgetless, or pip install"
        f" 'forgetless[{extra}]'"
    )


@contextmanager
def needs(what: str, package: str, extra: str) -> Iterator[None]:
    """Say what to install where an import inside fails."""
    try:
        yield
    except ImportError as error:
        raise ImportError(
            f"{what} needs {package} ({error}); install it with: {how(extra)}"
        ) from error
