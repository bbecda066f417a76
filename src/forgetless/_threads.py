"""Work spread over threads: for compiled loops that release the interpreter."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor


def n_threads() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def spread(work: Callable[[int, int], None], n_items: int, chunk: int, threads: int) -> None:
    """Call ``work(first, last)`` for consecutive ranges of at most ``chunk`` items, on ``threads`` threads."""
    if threads <= 1:
        work(0, n_items)
        return
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda first: work(first, min(first + chunk, n_items)), range(0, n_items, chunk)))
