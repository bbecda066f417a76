"""How long computations tell how far they are."""

from collections.abc import Callable

Progress = Callable[[int, int, str], None]
"""Called now and then as ``progress(done, total, what)``: how many of how many, and of what, in a few words."""


def silent(done: int, total: int, what: str) -> None:
    """Tell nobody."""
