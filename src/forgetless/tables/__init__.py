"""Ordinary tables: readers, the encoder and pipelines that learn task by task."""

from forgetless.tables.encoder import TableEncoder
from forgetless.tables.pipeline import TaskPipeline, make_pipeline
from forgetless.tables.readers import read_table
from forgetless.tables.task_files import read_tasks

__all__ = ["TableEncoder", "TaskPipeline", "make_pipeline", "read_table", "read_tasks"]
