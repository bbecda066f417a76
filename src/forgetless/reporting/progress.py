"""How long computations tell how far they are, and warn where they will take very long."""

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from forgetless._core.extras import needs
from forgetless.reporting.text import printable

Progress = Callable[[int, int, str], None]
"""Called now and then as ``progress(done, total, what)``: how many of how many, and of what, in a few words."""

PATIENCE = 600.0
"""Seconds that a computation may be going to take without a warning."""

_LOOK = 2.0
"""Seconds after the first report after which the speed is known well enough."""

_SETTING_UP = 20.0
"""Seconds that loading and compiling may take before the first report; what takes longer is the work itself."""


def silent(done: int, total: int, what: str) -> None:
    """Tell nobody."""


@contextmanager
def shown(progress: Any) -> Iterator[Progress | None]:
    """Give whom to tell: a bar, in a terminal or a notebook, for True; nobody for None or False; else who was given.

    The bar is gone when the computation ends, however it ends.
    """
    if progress is None or progress is False:
        yield None
        return
    if progress is not True:
        if not callable(progress):
            raise TypeError(f"progress must be True or a callable (done, total, what), got {progress!r}")
        yield progress
        return
    with needs("progress=True", "rich", "plot"):
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar
    # Without markup, since what is told may hold labels of a user's.
    words = TextColumn("{task.description}", markup=False)
    with Bar(words, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), transient=True) as bar:
        line = bar.add_task("starting", total=None)

        def tell(done: int, total: int, what: str) -> None:
            bar.update(line, completed=done, total=total or None, description=printable(what, 50))

        yield tell


def part_of_work(tell: Progress, part: int, n_parts: int) -> Progress:
    """Return whom one of several equally long parts of a computation tells."""

    def told(done: int, total: int, what: str) -> None:
        tell(part * total + done, n_parts * total, what)

    return told


def forewarned(tell: Progress | None, cure: str) -> Progress:
    """Return ``tell`` that also warns, once and after a few seconds, if the rest will take more than ``PATIENCE``.

    The estimate is the time since the first report, per step done since: it holds for work that is the same at every
    step.
    """
    since, known, warned = time.monotonic(), 0, False

    def watched(done: int, total: int, what: str) -> None:
        nonlocal since, known, warned
        if tell is not None:
            tell(done, total, what)
        now = time.monotonic()
        if known == 0 < done and now - since < _SETTING_UP:
            since, known = now, done
        if warned or done <= known or now - since < _LOOK:
            return
        warned = True
        left = (now - since) * (total - done) / (done - known)
        if left > PATIENCE:
            message = f"{total:,} {what} will take about {duration(left)} more; {cure}"
            warnings.warn(message, RuntimeWarning, stacklevel=2)

    return watched


def duration(seconds: float) -> str:
    """Return a time in words."""
    for unit, name in ((31557600.0, "years"), (86400.0, "days"), (3600.0, "hours")):
        if seconds >= 2 * unit:
            return f"{seconds / unit:,.0f} {name}"
    return f"{seconds / 60:,.0f} minutes"
