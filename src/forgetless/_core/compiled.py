"""Compiled modules where numba is installed, and their work spread over threads."""

import contextlib
import functools
import importlib.util
import os
import sys
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any


def has_numba() -> bool:
    """Return whether numba is installed; it may still fail to import."""
    return importlib.util.find_spec("numba") is not None


def compiled(name: str) -> Any | None:
    """Return a compiled module of this package, or None; a numba that is installed but broken is warned of."""
    if not has_numba():
        return None
    if name not in _modules:
        _modules[name], problem = _loaded(name)
        if problem:
            warnings.warn(f"{problem}; using the slower array backend", RuntimeWarning, stacklevel=3)
    return _modules[name]


_modules: dict[str, Any] = {}
"""Compiled modules that were asked for, and None for those that cannot be used."""


def _loaded(name: str) -> tuple[Any | None, str]:
    """Return a compiled module, or None and what is wrong with it."""
    try:
        module = importlib.import_module(f"forgetless.{name}")
        jit = importlib.import_module("forgetless._core.jit")
    except (ImportError, RuntimeError, OSError) as error:  # numba's own errors for a place to keep its cache too
        return None, f"numba cannot be used ({error})"
    damaged = jit.damaged_cache(module)
    for path in damaged:
        with contextlib.suppress(OSError):
            path.unlink()  # so that the next process compiles anew
    if damaged:
        return None, f"compiled code in {damaged[0].parent} was damaged and is removed ({len(damaged)} files)"
    return module, ""


_NAME = "forgetless"

LOADING = 1.0
"""Seconds that importing numba and loading compiled code takes, roughly."""

_spent = 0.0


def worth_loading(name: str, seconds: float) -> bool:
    """Return whether a compiled module should do work that takes ``seconds`` without it.

    Always once it is loaded; before, when the work that it could have done amounts to what loading costs. So a short
    program never waits for numba, and a long one soon has it, even where every single call is short. Both ways give the
    same numbers up to rounding; FORGETLESS_NUMBA=always or =never in the environment fixes the choice, and so the bits.
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
    """Return how many processors this process may use; FORGETLESS_THREADS in the environment limits them further."""
    there = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    limit = os.environ.get("FORGETLESS_THREADS", "")
    return min(there, max(1, int(limit))) if limit.isdecimal() else there


def spread(work: Callable[[int, int], None], n_items: int, chunk: int, threads: int) -> None:
    """Call ``work(first, last)`` for consecutive ranges of at most ``chunk`` items, on ``threads`` threads."""
    if threads <= 1 or threading.current_thread().name.startswith(_NAME):  # a part does not wait for other parts
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
        wait(others)  # arrays are shared: nobody may go on with them while a part is under way
    for other in others:
        other.result()


@functools.cache
def _pool(_process: int) -> ThreadPoolExecutor:
    """Return the threads of this process, kept for the next call: starting them takes longer than many a call."""
    return ThreadPoolExecutor(max(1, n_threads() - 1), thread_name_prefix=_NAME)
