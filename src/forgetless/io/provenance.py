"""Where a result comes from: the call that made it, the data it saw, and the versions at work.

The digest of the data is taken when somebody asks, not at every call: most results are looked at and thrown away.
"""

import hashlib
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version as installed
from typing import Any

import numpy as np

from forgetless._core.arrays import is_array_api_obj, to_numpy
from forgetless._core.version import version
from forgetless.reporting.text import printable

_LONG = 4000
"""Characters of an argument that are written out, such as the code of a schedule with many coefficients."""


@dataclass(frozen=True, eq=False)
class Made:
    """The call that made a result.

    Attributes
    ----------
    call : str
    arguments : function without arguments
        Gives those of the call that the result depends on, by name; arrays and sources of randomness are written by
        ``plain``.
    tasks : object with a ``digest``, or None
    at : float
        Seconds since 1970.
    """

    call: str
    arguments: Callable[[], Mapping[str, Any]]
    tasks: Any = None
    at: float = field(default_factory=time.time)

    def plain(self) -> dict[str, Any]:
        """Return it as plain values, with the digest of the tasks."""
        given = {name: _plain(value) for name, value in self.arguments().items()}
        data = None if self.tasks is None else self.tasks.digest
        return {"call": self.call, **given, "tasks_sha256": data, **environment(self.at)}

    def __reduce__(self) -> tuple[Any, ...]:
        # A pickled result takes its origin along, but not the data.
        return Recorded, (self.plain(),)


@dataclass(frozen=True, eq=False)
class Recorded:
    """The same as it was read from a file."""

    values: dict[str, Any]

    def plain(self) -> dict[str, Any]:
        """Return it as plain values."""
        return dict(self.values)


def environment(at: float | None = None) -> dict[str, Any]:
    """Return versions, system and time."""
    moment = time.gmtime(time.time() if at is None else at)
    return {
        "forgetless": version(),
        "python": platform.python_version(),
        "numpy": installed("numpy"),
        "system": f"{platform.system()} {platform.machine()}",
        "made": time.strftime("%Y-%m-%dT%H:%M:%SZ", moment),
    }


def provenance_of(made: Made | Recorded | None) -> dict[str, Any]:
    """Return the provenance of a result as plain values; empty where it was made by hand."""
    return {} if made is None else made.plain()


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= _LONG else f"{value[:200]}… (sha256 {hashlib.sha256(value.encode()).hexdigest()})"
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, np.random.SeedSequence):
        return {"entropy": _plain(value.entropy), "spawn_key": list(value.spawn_key)}
    if isinstance(value, np.generic):
        return value.item()
    if is_array_api_obj(value):
        return to_numpy(value).tolist()
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return printable(repr(value), 1000)
