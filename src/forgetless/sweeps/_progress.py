"""How far a sweep is: a bar on a terminal where rich is installed, a callback anywhere."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from forgetless.reporting.progress import Progress, duration, silent


class Teller:
    """Told of every commit, and of what holds a sweep up."""

    def __init__(self, show: Callable[[int, str], None], before: int, total: int) -> None:
        self._show, self._done, self._rate = show, before, Rate(before, total)

    def more(self, count: int) -> None:
        """So many cells are done in addition."""
        self._done += count
        self._show(self._done, self._rate.words(self._done))

    def note(self, words: str) -> None:
        """Something else than the rate is worth a word now."""
        self._show(self._done, words)


@contextmanager
def told(progress: Progress | bool | None, before: int, total: int) -> Iterator[Teller]:
    """Yield what is told of a sweep that has ``before`` of ``total`` cells when it begins."""
    if progress is True or (progress is None and sys.stderr.isatty()):
        try:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
            from rich.progress import Progress as Bar
        except ImportError:
            pass
        else:
            columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}", markup=False))
            with Bar(*columns, console=Console(stderr=True)) as bar:
                shown = bar.add_task("cells", total=total, completed=before)
                yield Teller(lambda done, words: bar.update(shown, completed=done, description=words), before, total)
            return
    show = silent if progress is None or isinstance(progress, bool) else progress
    yield Teller(lambda done, words: show(done, total, words), before, total)


class Rate:
    """Cells per second since the first came, in words: before, workers start."""

    def __init__(self, before: int, total: int) -> None:
        self._before, self._total, self._began = before, total, 0.0

    def words(self, done: int) -> str:
        """Return the rate, and how long the rest will take."""
        if self._began == 0.0:
            self._before, self._began = done, time.monotonic()
        seconds, made = time.monotonic() - self._began, done - self._before
        if made <= 0 or seconds <= 0:
            return "cells"
        rate = made / seconds
        rest = (self._total - done) / rate
        words = f"cells, {rate:.3g} a second"
        if done >= self._total:
            return words
        return f"{words}, {f'{rest:.0f} seconds' if rest < 120 else duration(rest)} left"
