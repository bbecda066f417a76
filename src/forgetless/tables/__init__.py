"""Ordinary tables: a reader, an encoder that grows, and a model that learns task by task."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from forgetless.tables.encoder import TableEncoder
    from forgetless.tables.read import read_table
    from forgetless.tables.stream import TableModel

_PLACES = {"TableEncoder": "encoder", "TableModel": "stream", "read_table": "read"}


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        return getattr(import_module(f"forgetless.tables.{_PLACES[name]}"), name)
    raise AttributeError(f"module 'forgetless.tables' has no attribute {name!r}")


__all__ = ["TableEncoder", "TableModel", "read_table"]
