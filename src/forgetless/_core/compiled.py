"""Functions compiled by numba where it is installed, and their work spread over threads."""

import functools
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any


def jit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return ``numba.njit(cache=True, **options)``, without the cache if no folder for it can be
    written.
    """
    from numba import njit

    def compile_lazily(function: Callable[..., Any]) -> Any:
        try:
            return njit(cache=True, **options)(function)
        except RuntimeError:
            return njit(**options)(function)

    return compile_lazily


_NAME = "forgetless"


def n_threads() -> int:
    """Return how many processors this process may use; FORGETLESS_THREADS in the environment limits
    them further.
    """
    available = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    limit = os.environ.get("FORGETLESS_THREADS", "")
    return min(available, max(1, int(limit))) if limit.isdecimal() else available


def spread(work: Callable[[int, int], None], n_items: int, chunk: int, threads: int) -> None:
    """Call ``work(first, last)`` for consecutive ranges of at most ``chunk`` items, on ``threads``
    threads.
    """
    # a part does not wait for other parts
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
    others = [_pool(os.getpid()).submit(drain) for _ in range(threads - 1)]
    try:
        drain()
    finally:
        wait(others)  # arrays are shared: the caller must not use them while a part is running
    for other in others:
        other.result()


@functools.cache
def _pool(_process: int) -> ThreadPoolExecutor:
    """Return the threads of a process, cached since starting them takes longer than many a call."""
    return ThreadPoolExecutor(max(1, n_threads() - 1), thread_name_prefix=_NAME)
