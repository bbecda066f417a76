"""Frozen records as plain data for files, and back: what their annotations say is what a file may hold.

Numbers that JSON does not know are written as words. What a field of type ``Any`` holds is left to a pair of functions
of the caller's.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from forgetless.io.archive import pack_json, refusing, unpack_json
from forgetless.io.atomic import replace_file
from forgetless.io.provenance import Recorded, provenance_of

VERSION = 1

_WORDS = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}

Code = Callable[[Any], Any]

Record = TypeVar("Record")


def _nothing(value: Any) -> Any:
    raise ValueError(f"{type(value).__name__} has no place in a file")


def write(record: Any, path: str | Path, format: str, note: str, other: Code = _nothing) -> None:
    """Write a record with the field ``made`` to a sealed JSON file, with its provenance and a note of the user's."""
    header = {"format": format, "version": VERSION, "note": str(note), "provenance": provenance_of(record.made)}
    replace_file(Path(path), pack_json(header, {"record": to_plain(record, other, ("made",))}))


def read(kind: type[Record], path: str | Path, format: str, other: Code = _nothing, check: Code = _nothing) -> Record:
    """Return the record in a file that ``write`` made, checked by ``check``; FileError for anything else."""
    what = kind.__name__.lower()
    plain = unpack_json(path, format, what, (VERSION,))
    with refusing(Path(path), what):
        if set(plain) != {"version", "note", "provenance", "record"} or not isinstance(plain["provenance"], dict):
            raise ValueError("it does not hold a record with its provenance")
        found = from_plain(kind, plain["record"], other, ("made",))
        check(found)
    made: Record = dataclasses.replace(found, made=Recorded(plain["provenance"]))
    return made


def to_plain(value: Any, other: Code, left_out: tuple[str, ...] = ()) -> Any:
    """Return a record as dicts, lists, words and numbers; ``other`` writes what is none of these.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from forgetless.io.records import from_plain, to_plain
    >>> @dataclass(frozen=True)
    ... class Point:
    ...     x: float
    ...     tags: tuple[str, ...] = ()
    >>> to_plain(Point(float("inf"), ("far",)), other=repr)
    {'x': 'inf', 'tags': ['far']}
    >>> from_plain(Point, {"x": "inf", "tags": ["far"]}, other=eval)
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
        return [to_plain(each, other) for each in value]
    if isinstance(value, Mapping):
        return {str(key): to_plain(each, other) for key, each in value.items()}
    if dataclasses.is_dataclass(value) and _is_record(value):
        names = [field.name for field in dataclasses.fields(value) if field.name not in left_out]
        return {name: _field(value, name, other) for name in names}
    return other(value)


def _is_record(value: Any) -> bool:
    """Whether it is a value of ours to be written field by field: schedules and filters are not."""
    return not callable(value) and not hasattr(value, "factors")


def _field(value: Any, name: str, other: Code) -> Any:
    held, hint = getattr(value, name), get_type_hints(type(value))[name]
    return (None if held is None else other(held)) if hint is Any else to_plain(held, other)


def from_plain(kind: type, plain: Any, other: Code, left_out: tuple[str, ...] = ()) -> Any:
    """Return the record that ``to_plain`` described; ValueError where it describes none."""
    if not isinstance(plain, dict):
        raise ValueError(f"{kind.__name__} must be an object with named fields")
    names = [field.name for field in dataclasses.fields(kind) if field.name not in left_out]
    odd = set(names) ^ set(plain)
    if odd:
        what = "is missing" if min(odd) in names else "does not belong there"
        raise ValueError(f"{kind.__name__}.{min(odd)[:60]} {what}")
    hints = get_type_hints(kind)
    return kind(**{name: _read(f"{kind.__name__}.{name}", hints[name], plain[name], other) for name in names})


def _read(at: str, hint: Any, plain: Any, other: Code) -> Any:
    if hint is Any:
        return None if plain is None else other(plain)
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        if plain is None and NoneType in parts:
            return None
        (hint,) = [part for part in parts if part is not NoneType]
        return _read(at, hint, plain, other)
    if origin is tuple and isinstance(plain, list):
        if len(parts) == 2 and parts[1] is Ellipsis:
            return tuple(_read(at, parts[0], each, other) for each in plain)
        if len(parts) == len(plain):
            return tuple(_read(at, part, each, other) for part, each in zip(parts, plain, strict=True))
    if origin is dict and isinstance(plain, dict):
        return {name: _read(at, parts[1], each, other) for name, each in plain.items()}
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return from_plain(hint, plain, other)
    if hint is float and isinstance(plain, str) and plain in _WORDS:
        return _WORDS[plain]
    if hint is float and isinstance(plain, int | float) and not isinstance(plain, bool):
        return float(plain)
    if hint in (str, bool, int) and type(plain) is hint:
        return plain
    raise ValueError(f"{at} holds a {type(plain).__name__}, which does not belong there")
