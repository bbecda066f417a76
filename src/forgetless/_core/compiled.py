"""Functions compiled by numba where it is installed, and their work spread over threads."""

import functools
import importlib.util
import os
import sys
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any


def _has_numba() -> bool:
    """Return whether numba is installed; it may still fail to import."""
    return importlib.util.find_spec("numba") is not None


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


def compiled(name: str) -> Any | None:
    """Return a compiled module of this package, or None; warns if numba is installed but broken."""
    if not _has_numba():
        return None
    if name not in _modules:
        try:
            _modules[name] = importlib.import_module(f"forgetless.{name}")
        except (ImportError, RuntimeError, OSError) as error:
            _modules[name] = None
            message = f"numba cannot be used ({error}); using the slower array backend"
            warnings.warn(message, RuntimeWarning, stacklevel=3)
    return _modules[name]


_modules: dict[str, Any] = {}
"""Compiled modules by name; None if they cannot be used."""

_NAME = "forgetless"

LOADING = 1.0
"""Seconds that importing numba and loading compiled code takes, roughly."""

_spent = 0.0


def worth_loading(name: str, seconds: float) -> bool:
    """Return whether a compiled module should do work that takes ``seconds`` without it.

    True once it is loaded, and before that as soon as the work that it could have done takes longer
    than loading it: short programs never wait for numba, and long ones soon use it even if every
    single call is short. Both ways give the same numbers up to rounding; FORGETLESS_NUMBA=always or
    =never in the environment fixes the choice and so the last bits.
    """
    global _spent
    fixed = os.environ.get("FORGETLESS_NUMBA")
    if fixed in ("always", "never"):
        return fixed == "always"
    if f"forgetless.{name}" in sys.modules:
        return True
    _spent += seconds
    return _spent > LOADING


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
