"""Long work: one progress bar, one policy for the threads of BLAS, work on several threads, and
imports that wait.

``for item in track(items, "steps"):`` is a plain loop in a notebook, a log file or a test. On a
terminal a bar by rich appears after two seconds and disappears at the end. ``fl.progress(False)``
switches bars off.

Many small products run on one thread, long products on all. OpenBLAS wakes its threads for matrices
from 64 × 64 on. Waking them costs more than some hundred microseconds of work, and on a busy
machine every product waits for a thread that does not run.
"""

import functools
import importlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from types import ModuleType
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
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
    # Nothing is imported for a loop that is over before a bar would appear.
    start = time.monotonic()
    bar = None
    try:
        for done, item in enumerate(items):
            # Asked at every item, since a call of ``progress`` may come in between.
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
    """Return whether a bar is wanted, has room and would be seen: a log is no terminal."""
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


# ---- threads ----

_WORTH_THREADS = 1e9  # no mutant: threads change the time alone
"""Multiplications in one product, some 0.1 s of work, from which on threads gain more than they
cost."""

_limiting = threading.RLock()
"""Held by the thread that has set the limit."""


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Inside, products of NumPy and SciPy use a single thread each.

    The limit is the whole process's, so one thread at a time sets it and takes it back; for others
    that come meanwhile it holds as long as that one is inside. Two that set it each would leave the
    process with a single thread.
    """
    if not _limiting.acquire(blocking=False):
        yield
        return
    try:
        with _controller().limit(limits=1, user_api="blas"):
            yield
    finally:
        _limiting.release()


def few_threads(work: Callable[..., float]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator that keeps BLAS to one thread during calls of small products.

    Parameters
    ----------
    work : function of the arguments of the decorated function
        The number of multiplications in one of its larger products. From ``_WORTH_THREADS`` on all
        threads are used.

    Examples
    --------
    >>> @few_threads(lambda X: X.size * min(X.shape))
    ... def gram(X):
    ...     return X.T @ X
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            if work(*args, **kwargs) >= _WORTH_THREADS:  # no mutant: threads change the time alone
                return function(*args, **kwargs)
            with one_blas_thread():
                return function(*args, **kwargs)

        return call

    return decorate


def gram_work(shape: tuple[int, ...]) -> float:
    """Return the multiplications in the smaller Gram matrix of a matrix (n, d)."""
    n, d = shape
    return float(n) * d * min(n, d)


@functools.cache
def _controller() -> Any:
    """Return the controller of the BLAS of NumPy and of SciPy, which has one of its own."""
    from threadpoolctl import ThreadpoolController

    # The controller knows the libraries that are loaded when it is made.
    importlib.import_module("scipy.linalg")
    return ThreadpoolController()


_NAME = "forgetless"


def n_threads() -> int:
    """Return how many processors this process may use; FORGETLESS_THREADS in the environment limits
    them further.
    """
    available = os.cpu_count() or 1  # no mutant: threads change the time alone
    # Of a container or of taskset, where the system can say it.
    if hasattr(os, "sched_getaffinity"):
        available = len(os.sched_getaffinity(0))
    limit = os.environ.get("FORGETLESS_THREADS", "")
    if limit.isdecimal():
        available = min(available, max(1, int(limit)))
    return available


def spread(work: Callable[[int, int], None], n_items: int, chunk: int, threads: int) -> None:
    """Call ``work(first, last)`` for consecutive ranges of at most ``chunk`` items, on ``threads``
    threads.
    """
    # A part does not wait for other parts: inside of one the work is done at once.
    if threads <= 1 or threading.current_thread().name.startswith(_NAME):
        work(0, n_items)
        return
    parts = ((first, min(first + chunk, n_items)) for first in range(0, n_items, chunk))
    lock = threading.Lock()

    def drain() -> None:
        while True:
            with lock:
                part = next(parts, None)
            if part is None:
                return
            work(*part)

    # The caller works too: of two threads only one has to be woken.
    # no mutant: threads change the time alone
    others = [_pool(os.getpid()).submit(drain) for _ in range(threads - 1)]
    try:
        drain()
    finally:
        # Arrays are shared: the caller must not use them while a part is running.
        wait(others)
    # Raises what a part has raised.
    for other in others:
        other.result()


@functools.cache
def _pool(_process: int) -> ThreadPoolExecutor:
    """Return the threads of a process, cached since starting them takes longer than many a call."""
    # no mutant: threads change the time alone
    return ThreadPoolExecutor(max(1, n_threads() - 1), thread_name_prefix=_NAME)


class Later(ModuleType):
    """A module that is imported when something in it is first asked for, once it stands in
    ``sys.modules`` under its name.

    ``importlib.util.LazyLoader`` does not wait: ``import scipy.stats`` in another module asks for
    ``__spec__``, which loads what it makes.
    """

    def __getattr__(self, name: str) -> Any:
        # From here on an ordinary module, in whose place nothing has to be put.
        self.__class__ = ModuleType  # type: ignore[assignment]
        return getattr(importlib.reload(self), name)
