"""Where results come from: versions, machine and command, as the store keeps them for every run."""

import platform
import sqlite3
import sys
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed
from typing import Any

from forgetless._core.compiled import n_threads
from forgetless._core.version import version

PACKAGES = ("numpy", "scipy", "numba", "torch", "dask", "distributed")


def provenance(engine: str) -> dict[str, Any]:
    """Return the facts of a run that begins now."""
    return {
        "forgetless": version(),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        **{name: found for name in PACKAGES if (found := _installed(name))},
        "system": platform.platform(),
        "processor": platform.processor() or platform.machine(),
        "processors": n_threads(),
        "host": platform.node(),
        "command": list(sys.orig_argv),
        "engine": engine,
    }


def _installed(name: str) -> str | None:
    try:
        return installed(name)
    except PackageNotFoundError:
        return None
