"""How long computations tell how far they are, and warn where they will take very long."""

import time
import warnings
from collections.abc import Callable

Progress = Callable[[int, int, str], None]
"""Called now and then as ``progress(done, total, what)``: how many of how many, and of what, in a few words."""

PATIENCE = 600.0
"""Seconds that a computation may be going to take without a warning."""

_LOOK = 2.0
"""Seconds after which the speed is known well enough."""


def silent(done: int, total: int, what: str) -> None:
    """Tell nobody."""


def forewarned(tell: Progress | None, cure: str) -> Progress:
    """Return ``tell`` that also warns, once and after a few seconds, if the rest will take more than ``PATIENCE``.

    The estimate is the time that passed, per step done: it holds for work that is the same at every step.
    """
    begun, warned = time.monotonic(), False

    def watched(done: int, total: int, what: str) -> None:
        nonlocal warned
        if tell is not None:
            tell(done, total, what)
        passed = time.monotonic() - begun
        if warned or done <= 0 or passed < _LOOK:
            return
        warned = True
        left = passed * (total / done - 1.0)
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
