"""Provenance of results: the call, its arguments, a digest of its data, versions, system and time.

The digest of the data is computed on request, since most results are looked at and discarded.
"""

import hashlib
import platform
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed
from typing import Any

import numpy as np

from forgetless._core.compiled import n_threads
from forgetless._core.environment import version
from forgetless._core.text import printable

_MAX_TEXT = 4000
"""Characters of an argument that are stored, such as the code of a schedule with many
coefficients."""


@dataclass(frozen=True, eq=False)
class Origin:
    """The call that computed a result.

    Attributes
    ----------
    call : str
    arguments : function without arguments
        Returns the arguments of the call that the result depends on, by name.
    tasks : object with a ``digest``, or None
    created : float
        Seconds since 1970.
    """

    call: str
    arguments: Callable[[], Mapping[str, Any]]
    tasks: Any = None
    created: float = field(default_factory=time.time)

    def to_dict(self) -> dict[str, Any]:
        """Return the provenance as values that JSON has, with the digest of the tasks."""
        arguments = {name: _plain(value) for name, value in self.arguments().items()}
        digest = None if self.tasks is None else self.tasks.digest
        return {"call": self.call, **arguments, "tasks_sha256": digest, **environment(self.created)}

    def __reduce__(self) -> tuple[Any, ...]:
        # Pickles of a result hold its provenance, but not the data.
        return RecordedOrigin, (self.to_dict(),)


@dataclass(frozen=True, eq=False)
class RecordedOrigin:
    """The provenance that was read from a file."""

    values: Mapping[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Return the provenance as values that JSON has."""
        return dict(self.values)


def provenance_of(origin: Origin | RecordedOrigin | None) -> dict[str, Any]:
    """Return the provenance of a result as values that JSON has; empty where the user built it from
    parts.
    """
    return {} if origin is None else origin.to_dict()


def environment(created: float | None = None) -> dict[str, Any]:
    """Return versions, system and time, by default now."""
    moment = time.gmtime(time.time() if created is None else created)
    return {
        "forgetless": version(),
        "python": platform.python_version(),
        "numpy": installed("numpy"),
        "system": f"{platform.system()} {platform.machine()}",
        "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", moment),
    }


def run_environment(engine: str) -> dict[str, Any]:
    """Return versions, machine and command of a run of a sweep that starts now."""
    import sqlite3

    versions = {}
    for name in ("numpy", "scipy", "numba", "torch", "dask", "distributed"):
        with suppress(PackageNotFoundError):
            versions[name] = installed(name)
    return {
        **versions,
        "forgetless": version(),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "system": platform.platform(),
        "processors": n_threads(),
        "host": platform.node(),
        "command": list(sys.orig_argv),
        "engine": engine,
    }


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        digest = hashlib.sha256(value.encode()).hexdigest()
        return value if len(value) <= _MAX_TEXT else f"{value[:200]}… (sha256 {digest})"
    if isinstance(value, float) and not np.isfinite(value):
        return str(value)  # JSON has no infinities
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, np.random.SeedSequence):
        return {"entropy": _plain(value.entropy), "spawn_key": list(value.spawn_key)}
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return printable(repr(value), 1000)
