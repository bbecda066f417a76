"""Notes of ``fit``: columns that may number rows, unknown columns and repeated tasks of a next file."""

from typing import Any

import numpy as np

from forgetless._core.frames import columns_of, integers_of

LINES = 50
"""Columns of a table that are printed."""


def of_next_file(model: Any, about: Any, tasks: Any, labels: list[str]) -> list[str]:
    """Return notes on the next file: unknown columns, an exceeded horizon, tasks learned before."""
    notes = []
    unknown = [name for name in tasks.columns if name not in model[0].columns_]
    if unknown:
        notes.append(f"columns that the model does not know were left out: {', '.join(unknown[:5])}" + _more(unknown))
    made_for = getattr(model[-1], "n_tasks", None)
    if made_for is not None and model[-1].n_tasks_seen_ > made_for:
        notes.append(
            f"the schedule was made for {made_for} tasks and went on in epochs of doubling length, a heuristic; "
            "--horizon says beforehand how many will come"
        )
    again = [label for label in labels if label in set(about["tasks"])]
    if again:
        notes.append(f"Warning: learned before, and now once more: {', '.join(again[:5])}" + _more(again))
    return notes


def of_first_task(X: Any) -> list[str]:
    """Return warnings about columns that may number rows, which a model would take for a trend."""
    integers = {name: integers_of(column) for name, column in columns_of(X).items() if len(column) >= 20}
    counting = [name for name, column in integers.items() if column is not None and np.all(np.diff(column) > 0)]
    return [
        f"Warning: {name} counts up from row to row; if it numbers rows, use --drop {name}" for name in counting[:5]
    ]


def shortened(columns: Any) -> str:
    """Return a table of columns as text, of very many the first."""
    lines = columns.text().split("\n")
    rest = len(lines) - 1 - LINES
    return "\n".join(lines if rest <= 0 else [*lines[: 1 + LINES], f"and {rest} more: forgetless show"])


def _more(names: list[str]) -> str:
    return f" and {len(names) - 5} more" if len(names) > 5 else ""
