"""Processes as the system lists them."""

import contextlib
import signal
from pathlib import Path


def descendants(pid):
    """Return the processes that a process started, and that these started."""
    direct = []
    for listed in Path(f"/proc/{pid}/task").glob("*/children"):  # of every thread: dask starts workers from another
        with contextlib.suppress(OSError):
            direct += [int(word) for word in listed.read_text().split()]
    return direct + [each for child in direct for each in descendants(child)]


def listening():
    """Call before a program starts that is to be interrupted: the background jobs of a shell ignore SIGINT."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
