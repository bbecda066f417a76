"""Untrusted text, such as labels of tasks, escaped for terminals, figures and pages."""

LABEL = 60
"""Characters of a label that are shown."""


def printable(text: str, width: int | None = None) -> str:
    r"""Return ``text`` on one line without control codes, which are shown escaped, and no longer than ``width``.

    Escaped is what is neither visible nor a space: among it what moves a cursor, changes colours, reverses the
    direction of writing, or cannot be encoded.

    Examples
    --------
    >>> print(printable("a" + chr(27) + "[2J" + chr(10) + "b"))
    a\x1b[2J\nb
    >>> printable("elephants", 5)
    'elep…'
    """
    if width is not None and len(text) > width:
        text = text[: width - 1] + "…"
    if text.isprintable():
        return text
    escaped = "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
    return printable(escaped, width)


def error_text(error: BaseException, width: int = 2000) -> str:
    r"""Return an error on one line that can be printed and encoded, whatever its message is, or even without one.

    Examples
    --------
    >>> in_words(ValueError("no  such" + chr(10) + "file " + chr(0xD800)))
    'ValueError: no such file \\ud800'
    """
    try:
        message = " ".join(str(error).split())
    except Exception as other:
        message = f"its message cannot be read ({type(other).__name__})"
    return printable(f"{type(error).__name__}: {message}", width)


def label(text: object) -> str:
    """Return a label of a user's as it is shown in tables and pages."""
    return printable(str(text), LABEL)


def plot_label(text: object, width: int = 14) -> str:
    """Return a label that matplotlib draws literally: not as a formula, and not hidden from legends."""
    escaped = printable(str(text), width).replace("$", r"\$")
    return f" {escaped}" if escaped.startswith("_") else escaped
