"""Regression tasks and collections of them: the data of a continual learner."""

from forgetless.tasks.collection import TaskCollection
from forgetless.tasks.task import Task

__all__ = ["Task", "TaskCollection"]
