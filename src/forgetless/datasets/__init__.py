"""Task collections from files, NumPy archives or tables with a column that names the task; and real streams by name."""

from forgetless.datasets.files import TaskTable, load_table, load_tasks, numbers_of
from forgetless.datasets.real import STREAMS, load_stream
from forgetless.datasets.stream import RandomFeatures, Stream, Task
from forgetless.datasets.tables import read_table

__all__ = [
    "STREAMS",
    "RandomFeatures",
    "Stream",
    "Task",
    "TaskTable",
    "load_stream",
    "load_table",
    "load_tasks",
    "numbers_of",
    "read_table",
]
