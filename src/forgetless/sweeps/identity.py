"""What a value on an axis of a sweep is: its content as plain data, and a digest of that."""

import dataclasses
import functools
import hashlib
import inspect
import json
import os
from typing import Any

import numpy as np

from forgetless._base.arrays import is_array_api_obj, to_numpy
from forgetless.tasks import TaskCollection

LENGTH = 24
"""Hexadecimal digits of a digest: 96 bits, so that even 10⁹ cells do not meet."""


def digest(plain: Any) -> str:
    """Return the digest of plain data."""
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"), allow_nan=True)
    return hashlib.sha256(text.encode()).hexdigest()[:LENGTH]


def content(value: Any) -> Any:
    """Return any value of an axis as plain data that says all that its results depend on.

    Arrays are named by a digest of their numbers, functions by their name and their source, objects by their class and
    attributes. TypeError for what has no content that could be read, such as a generator.

    Examples
    --------
    >>> import forgetless as fl
    >>> from forgetless.sweeps.identity import content
    >>> content(fl.schedules.increasing(scale=0.5))
    {'class': 'Increasing', 'scale': 0.5}
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, TaskCollection):
        return {"tasks": [[content(task.X), content(task.y)] for task in value]}
    if inspect.isfunction(value) or inspect.isbuiltin(value) or inspect.isclass(value):
        return _code(value) | _closure(value)
    if is_array_api_obj(value):
        return _array(to_numpy(value))
    if isinstance(value, list | tuple | range | set | frozenset):
        parts = [content(each) for each in value]
        return sorted(parts, key=str) if isinstance(value, set | frozenset) else parts
    if isinstance(value, dict):
        return {str(key): content(each) for key, each in value.items()}
    if isinstance(value, functools.partial):
        return {"function": content(value.func), "arguments": content(value.args), "named": content(value.keywords)}
    if inspect.ismethod(value):
        return {"function": value.__name__, "of": content(value.__self__)}
    return _object(value)


def _array(array: np.ndarray[Any, Any]) -> dict[str, Any]:
    array = np.ascontiguousarray(array)
    if array.dtype.hasobject:
        raise TypeError(f"an array of Python objects, of shape {array.shape}, has no content to tell it by")
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    found = hashlib.sha256(little.tobytes()).hexdigest()[:LENGTH]
    return {"array": found, "shape": list(array.shape), "dtype": array.dtype.name}


def _code(thing: Any) -> dict[str, Any]:
    """Return name and source; of this package the name alone, since its version is part of every cell anyway."""
    found: dict[str, Any] = {"name": thing.__qualname__}
    if (thing.__module__ or "").split(".")[0] == "forgetless":
        return found
    try:
        source = inspect.cleandoc(inspect.getsource(thing))
    except (OSError, TypeError):  # typed into a session, compiled, or built in
        return found | {"module": thing.__module__, "code": _bytecode(thing)}
    return found | {"source": hashlib.sha256(source.encode()).hexdigest()[:LENGTH]}


def _bytecode(thing: Any) -> str | None:
    code = getattr(thing, "__code__", None)
    if code is None:
        return None
    parts = [code.co_code, repr([each for each in code.co_consts if not inspect.iscode(each)]).encode()]
    return hashlib.sha256(b"|".join([*parts, repr(code.co_names).encode()])).hexdigest()[:LENGTH]


def _closure(thing: Any) -> dict[str, Any]:
    """Return the values that a function was made with: defaults, and those of the function around it."""
    if not inspect.isfunction(thing):
        return {}
    found: dict[str, Any] = {}
    if thing.__defaults__ or thing.__kwdefaults__:
        found["defaults"] = [content(thing.__defaults__ or ()), content(thing.__kwdefaults__ or {})]
    if thing.__closure__:
        found["around"] = [content(cell.cell_contents) for cell in thing.__closure__]
    return found


def _object(value: Any) -> dict[str, Any]:
    kind = type(value)
    if dataclasses.is_dataclass(value):
        attributes = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    elif hasattr(value, "__dict__"):
        attributes = vars(value)
    else:
        raise TypeError(f"{kind.__name__} has no content to tell it by; use an array, a function or a plain object")
    named: dict[str, Any] = {"class": kind.__qualname__}
    if kind.__module__.split(".")[0] != "forgetless":
        named |= {"code": _code(kind)}
    return named | {name: content(each) for name, each in attributes.items()}
