"""Ordinary tables: a reader, an encoder that grows, and a model that learns task by task."""

from forgetless.tables.encoder import TableEncoder
from forgetless.tables.read import read_table
from forgetless.tables.stream import TableModel

__all__ = ["TableEncoder", "TableModel", "read_table"]
