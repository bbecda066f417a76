"""Task collections from files: NumPy archives, CSV and Parquet tables with a column that names the task."""

from forgetless.datasets.files import TaskTable, load_table, load_tasks, numbers_of, read_table

__all__ = ["TaskTable", "load_table", "load_tasks", "numbers_of", "read_table"]
