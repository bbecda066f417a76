"""Frozen dataclasses as values that JSON has, and back; annotations are the types that a file may
hold.

Infinities and NaN are written as text. The caller gives a pair of functions for fields of type
``Any``.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np

_NOT_FINITE = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}

Coder = Callable[[Any], Any]


def _reject(value: Any) -> Any:
    raise ValueError(f"{type(value).__name__} cannot be stored in a file")


def to_plain(value: Any, encode: Coder = _reject, left_out: tuple[str, ...] = ()) -> Any:
    """Return a dataclass as dicts, lists, text and numbers; ``encode`` converts everything else.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from forgetless.io.records import from_plain, to_plain
    >>> @dataclass(frozen=True)
    ... class Point:
    ...     x: float
    ...     tags: tuple[str, ...] = ()
    >>> to_plain(Point(float("inf"), ("far",)))
    {'x': 'inf', 'tags': ['far']}
    >>> from_plain(Point, {"x": "inf", "tags": ["far"]})
    Point(x=inf, tags=('far',))
    """
    if value is None or isinstance(value, bool | str | int):
        return value
    if isinstance(value, float | np.floating):
        number = float(value)
        return number if math.isfinite(number) else str(number)
    if isinstance(value, np.integer):
        return int(value)
    if isinstance(value, tuple | list):
        return [to_plain(each, encode) for each in value]
    if isinstance(value, Mapping):
        return {str(key): to_plain(each, encode) for key, each in value.items()}
    if dataclasses.is_dataclass(value) and not _is_schedule(value):
        names = [field.name for field in dataclasses.fields(value) if field.name not in left_out]
        return {name: _field(value, name, encode) for name in names}
    return encode(value)


def _is_schedule(value: Any) -> bool:
    """Return whether a dataclass is a schedule or a filter, which ``encode`` converts."""
    return callable(value) or hasattr(value, "factors")


def _field(record: Any, name: str, encode: Coder) -> Any:
    value, hint = getattr(record, name), get_type_hints(type(record))[name]
    return (None if value is None else encode(value)) if hint is Any else to_plain(value, encode)


def from_plain(
    kind: type, plain: Any, decode: Coder = _reject, left_out: tuple[str, ...] = ()
) -> Any:
    """Return the dataclass that ``to_plain`` described; ValueError where it describes none."""
    if not isinstance(plain, dict):
        raise ValueError(f"{kind.__name__} must be an object with named fields")
    names = [field.name for field in dataclasses.fields(kind) if field.name not in left_out]
    unmatched = set(names) ^ set(plain)
    if unmatched:
        problem = "is missing" if min(unmatched) in names else "does not belong there"
        raise ValueError(f"{kind.__name__}.{min(unmatched)[:60]} {problem}")
    hints = get_type_hints(kind)
    return kind(
        **{
            name: _read(f"{kind.__name__}.{name}", hints[name], plain[name], decode)
            for name in names
        }
    )


def _read(at: str, hint: Any, plain: Any, decode: Coder) -> Any:
    if hint is Any:
        return None if plain is None else decode(plain)
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        if plain is None and NoneType in parts:
            return None
        (hint,) = [part for part in parts if part is not NoneType]
        return _read(at, hint, plain, decode)
    if origin is tuple and isinstance(plain, list):
        parts = parts[:1] * len(plain) if parts[1:] == (Ellipsis,) else parts
        if len(parts) == len(plain):
            return tuple(
                _read(at, part, each, decode) for part, each in zip(parts, plain, strict=True)
            )
    if origin is dict and isinstance(plain, dict):
        return {name: _read(at, parts[1], each, decode) for name, each in plain.items()}
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return from_plain(hint, plain, decode)
    return _read_scalar(at, hint, plain)


def _read_scalar(at: str, hint: Any, plain: Any) -> Any:
    if hint is float and type(plain) in (int, float):
        return float(plain)
    if hint is float and isinstance(plain, str) and plain in _NOT_FINITE:
        return _NOT_FINITE[plain]
    if hint in (str, bool, int) and type(plain) is hint:
        return plain
    raise ValueError(f"{at} holds a {type(plain).__name__}, which does not belong there")
