"""Progress of long computations: callbacks, a bar by rich, and a warning before very long ones."""

import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from forgetless._core.environment import needs
from forgetless._core.text import printable

Progress = Callable[[int, int, str], None]
"""Called now and then as ``report_progress(done, total, label)``: so many of ``total`` (0:
unknown), and of what."""

PATIENCE = 600.0
"""Remaining seconds above which a computation warns."""

_SAMPLE = 2.0
"""Seconds after the first report after which the speed is estimated."""

_SETUP = 20.0
"""Seconds that loading and compiling may take before the first report; anything longer is the work
itself."""


def silent(done: int, total: int, label: str) -> None:
    """Ignore a report."""


@contextmanager
def progress_callback(progress: Any) -> Iterator[Progress]:
    """Yield the callback for an argument ``progress``: a bar for True, ``silent`` for None and
    False, or itself.
    """
    if progress is True:
        with needs("progress=True", "rich", "plot"):
            import rich.progress  # noqa: F401
        with _bar() as report_progress:
            yield report_progress
    elif progress is None or progress is False:
        yield silent
    elif callable(progress):
        yield progress
    else:
        raise TypeError(
            f"progress must be True or a callable (done, total, label), got {progress!r}"
        )


@contextmanager
def terminal_progress() -> Iterator[Progress]:
    """Yield a bar if standard error is a terminal and rich is installed, otherwise ``silent``."""
    try:
        import rich.progress  # noqa: F401
    except ImportError:
        yield silent
        return
    with _bar() if sys.stderr.isatty() else progress_callback(None) as report_progress:
        yield report_progress


@contextmanager
def _bar() -> Iterator[Progress]:
    """Yield the callback of a bar on standard error, which disappears at the end."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    # Without markup, since labels may be a user's.
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        line = bar.add_task("starting", total=None)
        yield lambda done, total, label: bar.update(
            line, completed=done, total=total or None, description=printable(label, 50)
        )


def part_of_work(report_progress: Progress, part: int, n_parts: int) -> Progress:
    """Return the callback of one of several equally long parts of a computation."""
    return lambda done, total, label: report_progress(part * total + done, n_parts * total, label)


def with_eta_warning(report_progress: Progress, hint: str) -> Progress:
    """Return a callback that also warns, once and after a few seconds, if the rest will take more
    than ``PATIENCE``.

    The estimate is the time since the first report, per step since: it holds for work that is the
    same at every step.
    """
    since, first, checked = time.monotonic(), 0, False

    def report(done: int, total: int, label: str) -> None:
        nonlocal since, first, checked
        report_progress(done, total, label)
        now = time.monotonic()
        if first == 0 < done and now - since < _SETUP:
            since, first = now, done
        if checked or done <= first or now - since < _SAMPLE:
            return
        checked = True
        rest = (now - since) * (total - done) / (done - first)
        if rest > PATIENCE:
            message = f"{total:,} {label} will take about {duration(rest)} more; {hint}"
            warnings.warn(message, RuntimeWarning, stacklevel=2)

    return report


def duration(seconds: float) -> str:
    """Return a time as text."""
    for unit, name in ((31557600.0, "years"), (86400.0, "days"), (3600.0, "hours")):
        if seconds >= 2 * unit:
            return f"{seconds / unit:,.0f} {name}"
    return f"{seconds / 60:,.0f} minutes"
