"""Compiled modules where numba is installed, and their work spread over threads."""

import importlib.util
import os
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any


def has_numba() -> bool:
    """Return whether numba is installed; it may still fail to import."""
    return importlib.util.find_spec("numba") is not None


def compiled(name: str) -> Any | None:
    """Return a compiled module of this package, or None; a numba that is installed but broken is warned of."""
    if not has_numba():
        return None
    try:
        return importlib.import_module(f"forgetless.{name}")
    except ImportError as error:
        problem = f"numba cannot be imported ({error}); using the slower array backend"
        warnings.warn(problem, RuntimeWarning, stacklevel=3)
        return None


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
