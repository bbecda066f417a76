"""A progress bar for everything that can take more than two seconds.

``for item in track(items, "steps"):`` is a plain loop in a notebook, a log file or a test. On a
terminal a bar by rich appears after two seconds and disappears at the end. ``fl.progress(False)``
switches bars off.
"""

import sys
import time
from collections.abc import Iterable, Iterator, Sized
from typing import Any, TypeVar

_Item = TypeVar("_Item")

DELAY = 2.0
"""Seconds before a bar appears: most calls are over by then."""

_settings = {"enabled": True, "busy": False}
"""Whether bars are wanted, and whether one is on the screen: a terminal has room for one."""


def progress(enabled: bool) -> None:
    """Show progress bars on a terminal (the default), or none.

    Examples
    --------
    >>> import forgetless as fl
    >>> fl.progress(False)
    >>> fl.progress(True)
    """
    _settings["enabled"] = bool(enabled)


def track(items: Iterable[_Item], text: str, total: int | None = None) -> Iterator[_Item]:
    """Yield ``items`` one by one, with a bar on a terminal after ``DELAY`` seconds.

    Parameters
    ----------
    items : iterable
        What the loop is about; each item should take a fraction of a second.
    text : str
        What the items are, in a word or two: "steps", "schedules".
    total : int, optional
        Their number, where ``items`` has no length.

    Examples
    --------
    >>> sum(track(range(4), "steps"))
    6
    """
    if total is None and isinstance(items, Sized):
        total = len(items)
    start = time.monotonic()
    bar = None
    try:
        for done, item in enumerate(items):
            if bar is None and time.monotonic() - start > DELAY and _may_show():
                bar = _bar(text, total)
            if bar is not None:
                bar.update(bar.task_ids[0], completed=done)
            yield item
    finally:
        if bar is not None:
            bar.stop()
            _settings["busy"] = False


def _may_show() -> bool:
    return _settings["enabled"] and not _settings["busy"] and sys.stderr.isatty()


def _bar(text: str, total: int | None) -> Any:
    """Return a bar on standard error, which disappears when it is stopped."""
    from rich.console import Console
    from rich.progress import Progress

    bar = Progress(console=Console(stderr=True), transient=True)
    bar.add_task(text, total=total)
    bar.start()
    _settings["busy"] = True
    return bar
