"""Identity of a value on an axis of a sweep: its content as plain data, and a digest of it."""

import dataclasses
import functools
import hashlib
import inspect
import json
import logging
import os
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from forgetless.sweeps.code import (
    LENGTH,
    code_digest,
    globals_of,
    module_of,
    module_source,
    own_imports,
    pinned_reference,
    pinned_version,
    text_digest,
)
from forgetless.tasks import TaskCollection

Within = tuple[int, ...]
"""Identifiers of the objects around a value, the outermost first: objects may contain
themselves."""

_CONTAINERS: tuple[type, ...] = (list, tuple, range, set, frozenset, dict)
_BASES: tuple[type, ...] = (str, int, float, list, tuple, set, frozenset, dict)
"""Built-in types whose subclasses have a value beside their attributes."""


def digest(plain: Any) -> str:
    """Return the digest of plain data."""
    return text_digest(json.dumps(plain, sort_keys=True, separators=(",", ":"), allow_nan=True))


def content(value: Any) -> Any:
    """Return plain data that determine all results of a value of an axis.

    Arrays are identified by a digest of their numbers; functions by name, source, defaults, closure
    and the globals that they use; objects by class and attributes; classes by their members and
    base classes; modules by their source. Code of the standard library and of installed packages is
    identified by its name and version. TypeError for values without readable content, such as
    generators.

    Examples
    --------
    >>> import forgetless as fl
    >>> from forgetless.sweeps.identity import content
    >>> content(fl.schedules.increasing(scale=0.5))
    {'class': 'Increasing', 'scale': 0.5}
    """
    return _Reader().read(value, ())


class _Reader:
    """Reads the content of one value; functions, classes and modules are read once and then
    referred to by number.
    """

    def __init__(self) -> None:
        self._numbers: dict[int, tuple[int, Any]] = {}
        """Numbers of functions, classes and modules by identifier; with the object, so that no
        other one gets it."""

    def read(self, value: Any, within: Within) -> Any:
        """Return the content of a value."""
        if value is None or type(value) in (bool, int, float, str):
            return value
        if isinstance(value, np.generic):
            return value.item()
        if isinstance(value, os.PathLike):
            return os.fspath(value)
        if isinstance(value, np.ufunc | np.dtype | logging.Logger):
            return repr(value)
        if (reference := pinned_reference(value)) is not None:
            return reference
        if isinstance(value, FunctionType | BuiltinFunctionType | type | ModuleType):
            return self._code(value, within)
        if id(value) in within:
            return {"again": within.index(id(value))}
        return self._data(value, (*within, id(value)))

    def _data(self, value: Any, within: Within) -> Any:
        if isinstance(value, TaskCollection):
            tasks = [[self.read(task.X, within), self.read(task.y, within)] for task in value]
            return {"tasks": tasks} | (
                {} if type(value) is TaskCollection else {"class": self.read(type(value), ())}
            )
        if isinstance(value, np.ndarray):
            return _array(value)
        if type(value) in _CONTAINERS:
            return self._container(value, within)
        if isinstance(value, bytes | bytearray):
            return {type(value).__name__: repr(value)}
        if isinstance(value, functools.partial):
            parts = [self.read(each, within) for each in (value.func, value.args, value.keywords)]
            return dict(zip(("function", "arguments", "named"), parts, strict=True))
        if isinstance(value, MethodType):
            return {
                "function": self.read(value.__func__, within),
                "of": self.read(value.__self__, within),
            }
        return self._object(value, within)

    def _container(self, value: Any, within: Within) -> Any:
        if isinstance(value, dict):
            return {str(key): self.read(each, within) for key, each in value.items()}
        # in no order, so that numbers of one element must not enter another
        if isinstance(value, set | frozenset):
            return sorted((_Reader().read(each, within) for each in value), key=str)
        return [self.read(each, within) for each in value]

    def _object(self, value: Any, within: Within) -> dict[str, Any]:
        kind = type(value)
        pinned = pinned_version(module_of(kind))
        # functools.lru_cache, numba.njit, …
        if pinned is not None and hasattr(value, "__wrapped__"):
            return {"class": self.read(kind, ()), "wraps": self.read(value.__wrapped__, within)}
        attributes = _attributes(value)
        base = next((each for each in _BASES if isinstance(value, each)), None)
        if attributes is None and base is None:
            raise TypeError(
                f"{kind.__name__} has no readable content; use an array, a function or a plain"
                " object"
            )
        plain: dict[str, Any] = {"class": kind.__qualname__}
        if kind.__module__.partition(".")[0] != "forgetless":
            plain["code"] = self.read(kind, within)
        if base is not None:
            items = base(value)
            plain["value"] = items if base not in _CONTAINERS else self._container(items, within)
        named = {
            name: self._named(f"{kind.__name__}.{name}", each, within)
            for name, each in (attributes or {}).items()
        }
        return plain | named

    # --- functions, classes and modules ---

    def _code(self, thing: Any, within: Within) -> dict[str, Any]:
        if id(thing) in self._numbers:
            return {"code": self._numbers[id(thing)][0]}
        self._numbers[id(thing)] = (len(self._numbers), thing)
        if isinstance(thing, ModuleType):
            return self._module(thing, within)
        pinned = pinned_version(module_of(thing))
        plain: dict[str, Any] = {"name": thing.__qualname__, "version": pinned}
        if isinstance(thing, FunctionType):
            return plain | self._function(thing, within, own=pinned is None)
        if isinstance(thing, type):
            return plain if pinned is not None else plain | self._class(thing, within)
        return plain | {"of": self.read(thing.__self__, within)}

    def _function(self, function: FunctionType, within: Within, *, own: bool) -> dict[str, Any]:
        """Return defaults and closure of a function; of the user's own also its code and the
        globals that it uses.
        """
        plain: dict[str, Any] = {}
        if function.__defaults__ or function.__kwdefaults__:
            defaults = (function.__defaults__ or (), function.__kwdefaults__ or {})
            plain["defaults"] = [self.read(each, within) for each in defaults]
        if function.__closure__:
            plain["around"] = [self._cell(cell, within) for cell in function.__closure__]
        if own:
            plain |= code_digest(function)
            attributes = {
                name: each for name, each in vars(function).items() if name != "__wrapped__"
            }
            used = {
                **globals_of(function),
                **{f".{name}": each for name, each in attributes.items()},
            }
            prefix = f"{function.__qualname__} uses"
            plain["globals"] = {
                name: self._named(f"{prefix} {name}", each, within) for name, each in used.items()
            }
        return plain

    def _named(self, name: str, value: Any, within: Within) -> Any:
        """Return the content of a value that an error calls ``name``."""
        try:
            return self.read(value, within)
        except TypeError as error:
            raise TypeError(f"{name}: {error}") from None

    def _cell(self, cell: Any, within: Within) -> Any:
        try:
            value = cell.cell_contents
        except ValueError:  # not set yet
            return {"nothing": True}
        return self.read(value, within)

    def _class(self, kind: type, within: Within) -> dict[str, Any]:
        """Return the metaclass, the base classes and the members of a class of the user's own."""
        members = {
            name: each for name, each in sorted(vars(kind).items()) if _is_member(name, each)
        }
        plain = {
            name: self._member(f"{kind.__qualname__}.{name}", each, within)
            for name, each in members.items()
        }
        bases = [self.read(each, within) for each in kind.__mro__[1:] if each is not object]
        return {"bases": bases, "members": plain} | (
            {} if type(kind) is type else {"meta": self.read(type(kind), ())}
        )

    def _member(self, name: str, value: Any, within: Within) -> Any:
        if isinstance(value, classmethod | staticmethod):
            return {type(value).__name__: self._named(name, value.__func__, within)}
        if isinstance(value, property):
            return {
                "property": [
                    self._named(name, each, within) for each in (value.fget, value.fset, value.fdel)
                ]
            }
        if isinstance(value, functools.cached_property):
            return {"cached": self._named(name, value.func, within)}
        if (
            hasattr(value, "__get__")
            and not isinstance(value, FunctionType)
            and not hasattr(value, "__dict__")
        ):
            return {"descriptor": type(value).__name__}  # of a slot
        return self._named(name, value, within)

    def _module(self, module: ModuleType, within: Within) -> dict[str, Any]:
        imports = [self.read(each, within) for each in own_imports(module)]
        return {"module": module.__name__, "source": module_source(module), "imports": imports}


def _is_member(name: str, value: Any) -> bool:
    """Return whether a member of a class is its author's: a method, or an attribute that Python did
    not add.
    """
    if name.startswith("__") and name.endswith("__"):
        return isinstance(value, FunctionType | classmethod | staticmethod | property)
    return name != "_abc_impl"


def _attributes(value: Any) -> dict[str, Any] | None:
    """Return the attributes of an object, with those in slots; None if there is no place for
    any.
    """
    kind = type(value)
    if dataclasses.is_dataclass(value) and kind.__module__.partition(".")[0] == "forgetless":
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    slots = [name for base in kind.__mro__ for name in _slots(base)]
    if not slots and not hasattr(value, "__dict__"):
        return None
    attributes = {name: getattr(value, name) for name in slots if hasattr(value, name)} | getattr(
        value, "__dict__", {}
    )
    members = {name: inspect.getattr_static(kind, name, None) for name in attributes}
    return {
        name: attributes[name]
        for name, each in members.items()
        if not isinstance(each, functools.cached_property)
    }


def _slots(kind: type) -> list[str]:
    names = vars(kind).get("__slots__", ())
    return [
        name
        for name in ((names,) if isinstance(names, str) else names)
        if not name.startswith("__")
    ]


def _array(array: np.ndarray[Any, Any]) -> dict[str, Any]:
    array = np.ascontiguousarray(array)
    if array.dtype.hasobject:
        raise TypeError(
            f"an array of Python objects, of shape {array.shape}, has no content that identifies it"
        )
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    numbers = hashlib.sha256(little.tobytes()).hexdigest()[:LENGTH]
    return {"array": numbers, "shape": list(array.shape), "dtype": array.dtype.name}
