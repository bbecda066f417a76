"""The history of a model as it is shown: a dictionary of arrays that prints, draws and frames itself."""

from typing import Any

from forgetless.reporting import html
from forgetless.reporting.table import Table, frame

_LINES = 12
"""Tasks that are printed, the last ones."""


class TaskHistory(dict[str, Any]):
    """The last tasks that a model learned: one array for every column, and a table where it is printed.

    Examples
    --------
    >>> import forgetless as fl
    >>> model = fl.ContinualRidge(alpha=1.0).partial_fit([[1.0]], [2.0]).partial_fit([[1.0]], [2.0])
    >>> model.history_["mse_before"].tolist()
    [4.0, 1.0]
    """

    def table(self) -> Table:
        """Return the last tasks."""
        shown = {name: column[-_LINES:].tolist() for name, column in self.items()}
        n_tasks = len(self["task"])
        left = f", the last {_LINES} of {n_tasks} kept" if n_tasks > _LINES else ""
        return Table(f"Tasks learned{left}", shown)

    def to_frame(self) -> Any:
        """Return all tasks as a pandas data frame, one row each."""
        return frame(self)

    def plot(self, ax: Any = None) -> Any:
        """Draw the error before and after learning each task, and the strength; returns the axes."""
        from forgetless.plots import plot_history

        return plot_history(self, ax)

    def __repr__(self) -> str:
        table = self.table()
        return f"{table.title}\n{table.text()}"

    def _repr_html_(self) -> str:
        return html.titled(self.table())
