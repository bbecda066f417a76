"""Regression tasks with their spectra, alone and in collections."""

from forgetless.tasks.collection import TaskCollection
from forgetless.tasks.task import Task, make_task

__all__ = ["Task", "TaskCollection", "make_task"]
