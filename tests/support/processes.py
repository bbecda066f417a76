"""Processes as the system lists them."""

from pathlib import Path


def descendants(pid):
    """Return the processes that a process started, and that these started."""
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        return []
    direct = [int(word) for word in text.split()]
    return direct + [each for child in direct for each in descendants(child)]


def alive(pid):
    """Return whether a process is there and has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
