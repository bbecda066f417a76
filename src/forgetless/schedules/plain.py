"""Conversion of schedules and filters to plain data, and back."""

import dataclasses
from typing import Any

import numpy as np

from forgetless.filters import Filter
from forgetless.schedules.base import Schedule, resolve
from forgetless.schedules.names import REGISTRY, as_listed, entry_of

_KINDS = {entry.kind.__name__: entry.kind for entry in REGISTRY}


def to_plain(schedule: Schedule | Filter, k: int) -> dict[str, Any]:
    """Return a schedule or filter of this package by name and parameters; any other as its filter at radius 1."""
    try:
        return describe(schedule)
    except TypeError:
        pass  # a user's callable, perhaps inside unregularized_first: the whole schedule is resolved instead
    filter_ = resolve(schedule, k, 1.0)
    try:
        return describe(filter_)
    except TypeError:
        raise TypeError(
            f"schedule gives {type(filter_).__name__}, which cannot be written to a file; use the filters of "
            "forgetless, or keep the collection in memory"
        ) from None


def describe(thing: Any) -> dict[str, Any]:
    """Return a schedule or filter of this package by name and parameters; TypeError for anything else."""
    thing = as_listed(thing)
    if entry_of(thing) is None:
        raise TypeError(f"{type(thing).__name__} has no name in a file")
    fields = {field.name: _value(getattr(thing, field.name)) for field in dataclasses.fields(thing)}
    return {"kind": type(thing).__name__, **fields}


def _value(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, tuple):
        return [_value(each) for each in value]
    return value if isinstance(value, int | float) else describe(value)


def from_plain(plain: Any) -> Any:
    """Return the schedule or filter of a result of ``to_plain``; ValueError if it is not one."""
    kind = plain.get("kind") if isinstance(plain, dict) else plain
    if not isinstance(plain, dict) or not isinstance(kind, str) or kind not in _KINDS:
        raise ValueError(f"schedule must name one of {', '.join(_KINDS)}, got {kind!r}")
    values = {name: _restored(value) for name, value in plain.items() if name != "kind"}
    try:
        return _KINDS[kind](**values)
    except TypeError as error:
        raise ValueError(f"schedule {kind} has the wrong parameters ({error})") from None


def _restored(value: Any) -> Any:
    if isinstance(value, dict):
        return from_plain(value)
    if isinstance(value, list) and any(isinstance(each, dict) for each in value):
        return [_restored(each) for each in value]
    return value
