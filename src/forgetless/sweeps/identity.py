"""Identity of a value on an axis of a sweep: its content as plain data, and a digest of it."""

import dataclasses
import functools
import hashlib
import inspect
import json
import os
from types import CodeType, ModuleType
from typing import Any

import numpy as np

from forgetless._core.arrays import is_array_api_obj, to_numpy
from forgetless.tasks import TaskCollection

LENGTH = 24
"""Hexadecimal digits of a digest: 96 bits, so that even 10⁹ cells do not collide."""


def digest(plain: Any) -> str:
    """Return the digest of plain data."""
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"), allow_nan=True)
    return hashlib.sha256(text.encode()).hexdigest()[:LENGTH]


def content(value: Any) -> Any:
    """Return plain data that determine all results of a value of an axis.

    Arrays are identified by a digest of their numbers, functions by name, source, defaults and closure, objects by
    class and attributes, modules by name. TypeError for values without readable content, such as generators.

    Examples
    --------
    >>> import forgetless as fl
    >>> from forgetless.sweeps.identity import content
    >>> content(fl.schedules.increasing(scale=0.5))
    {'class': 'Increasing', 'scale': 0.5}
    """
    return _content(value, ())


def _content(value: Any, within: tuple[int, ...]) -> Any:
    """Return the content of a value inside those with the ids ``within``: functions may refer to themselves."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, ModuleType):
        return {"module": value.__name__}
    if id(value) in within:
        return {"again": within.index(id(value))}
    within = (*within, id(value))
    if isinstance(value, TaskCollection):
        return {"tasks": [[_content(task.X, within), _content(task.y, within)] for task in value]}
    if inspect.isfunction(value) or inspect.isbuiltin(value) or inspect.isclass(value):
        return _code(value, within) | _closure(value, within)
    if is_array_api_obj(value):
        return _array(to_numpy(value))
    if isinstance(value, list | tuple | range | set | frozenset):
        parts = [_content(each, within) for each in value]
        return sorted(parts, key=str) if isinstance(value, set | frozenset) else parts
    if isinstance(value, dict):
        return {str(key): _content(each, within) for key, each in value.items()}
    if isinstance(value, functools.partial):
        parts = [_content(each, within) for each in (value.func, value.args, value.keywords)]
        return dict(zip(("function", "arguments", "named"), parts, strict=True))
    if inspect.ismethod(value):
        return {"function": value.__name__, "of": _content(value.__self__, within)}
    return _object(value, within)


def _array(array: np.ndarray[Any, Any]) -> dict[str, Any]:
    array = np.ascontiguousarray(array)
    if array.dtype.hasobject:
        raise TypeError(f"an array of Python objects, of shape {array.shape}, has no content that identifies it")
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    numbers = hashlib.sha256(little.tobytes()).hexdigest()[:LENGTH]
    return {"array": numbers, "shape": list(array.shape), "dtype": array.dtype.name}


def _code(thing: Any, within: tuple[int, ...]) -> dict[str, Any]:
    """Return name and source; for this package the name alone, since its version is part of every key."""
    plain: dict[str, Any] = {"name": thing.__qualname__}
    if (thing.__module__ or "").split(".")[0] == "forgetless":
        return plain
    code = getattr(thing, "__code__", None)
    # Code without a file, e.g. "<string>": since Python 3.13 inspect finds the source of ``python -c`` for it.
    without_file = code is not None and code.co_filename.startswith("<")
    try:
        # Of the code: of a function that wraps another, the source would be the other's, which is in the closure.
        source = "" if without_file else inspect.cleandoc(inspect.getsource(thing if code is None else code))
    except (OSError, TypeError):  # compiled or built in
        source = ""
    if not source:
        return plain | {"module": thing.__module__, "code": _compiled(thing, within)}
    plain["source"] = hashlib.sha256(source.encode()).hexdigest()[:LENGTH]
    if code is not None and code.co_name == "<lambda>":  # its source is a whole line, on which there may be others
        plain["code"] = digest(_instructions(code))
    return plain


def _compiled(thing: Any, within: tuple[int, ...]) -> Any:
    code = getattr(thing, "__code__", None)
    if code is not None:
        return digest(_instructions(code))
    if not inspect.isclass(thing):
        return None
    return {name: _content(each, within) for name, each in sorted(vars(thing).items()) if inspect.isfunction(each)}


def _instructions(code: CodeType) -> list[Any]:
    """Return compiled code as plain data, with the functions, classes and comprehensions inside it."""
    names = [code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars]
    counts = [code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags]
    return [code.co_code.hex(), counts, [list(each) for each in names], [_constant(each) for each in code.co_consts]]


def _constant(value: Any) -> Any:
    if isinstance(value, CodeType):
        return _instructions(value)
    if isinstance(value, tuple):
        return [_constant(each) for each in value]
    if isinstance(value, frozenset):  # whose order differs between processes
        return {"set": sorted((_constant(each) for each in value), key=str)}
    return repr(value)


def _closure(thing: Any, within: tuple[int, ...]) -> dict[str, Any]:
    """Return defaults and closure of a function."""
    if not inspect.isfunction(thing):
        return {}
    plain: dict[str, Any] = {}
    if thing.__defaults__ or thing.__kwdefaults__:
        plain["defaults"] = [_content(each, within) for each in (thing.__defaults__ or (), thing.__kwdefaults__ or {})]
    if thing.__closure__:
        plain["around"] = [_cell(cell, within) for cell in thing.__closure__]
    return plain


def _cell(cell: Any, within: tuple[int, ...]) -> Any:
    try:
        value = cell.cell_contents
    except ValueError:  # not set yet
        return {"nothing": True}
    return _content(value, within)


def _object(value: Any, within: tuple[int, ...]) -> dict[str, Any]:
    kind = type(value)
    if dataclasses.is_dataclass(value):
        attributes = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    elif hasattr(value, "__dict__"):
        attributes = vars(value)
    else:
        raise TypeError(f"{kind.__name__} has no readable content; use an array, a function or a plain object")
    named: dict[str, Any] = {"class": kind.__qualname__}
    if kind.__module__.split(".")[0] != "forgetless":
        named |= {"code": _code(kind, within)}
    return named | {name: _content(each, within) for name, each in attributes.items()}
