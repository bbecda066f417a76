"""Ordinary tables: readers, the encoder, pipelines, evaluation of streams and their report."""

from forgetless.tables.encoder import TableEncoder
from forgetless.tables.grouped import ORDERS
from forgetless.tables.pipeline import TaskPipeline, make_pipeline
from forgetless.tables.readers import read_table
from forgetless.tables.task_files import TaskTable, load_table, load_tasks

__all__ = [
    "ORDERS",
    "TableEncoder",
    "TaskPipeline",
    "TaskTable",
    "load_table",
    "load_tasks",
    "make_pipeline",
    "read_table",
]
