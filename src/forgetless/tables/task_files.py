"""Task collections from files: NumPy archives, CSV and Parquet tables with a column that names the task."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forgetless.errors import FileError
from forgetless.io.atomic import check_source
from forgetless.io.document import Fields, file_errors, read
from forgetless.io.npz import read_npz
from forgetless.tables.readers import kind_of, line_of, read_table
from forgetless.tasks import TaskCollection
from forgetless.tasks.stored import arrays_from


def load_tasks(
    path: str | Path,
    task: str | None = None,
    target: str | None = None,
    *,
    loss: str = "sum",
    intercept: bool = False,
) -> TaskCollection:
    """Return the tasks stored in a file.

    Parameters
    ----------
    path : str or Path
        ``.fl``, as ``TaskCollection.save`` writes it; ``.npz`` with arrays X (n, d), y (n,) or (n, c) and groups (n,);
        or a table, as CSV, Parquet or Feather.
    task, target : str, optional
        Names of the columns with the task and the target; required for tables. All other columns are features and
        must be numbers.
    loss : {"sum", "mean"}, default "sum"
        ``"mean"`` divides the loss of a task by its number of rows, like ``ContinualRidge(loss="mean")``: X and y are
        divided by the root of that number.
    intercept : bool, default False
        Add a feature that is always 1, the last one, like ``ContinualRidge(fit_intercept=True)``.

    Returns
    -------
    TaskCollection
    """
    if loss not in ("sum", "mean"):
        raise ValueError(f"loss must be one of sum, mean, got {loss!r}")
    path = check_source(path)
    kind = kind_of(path)
    if kind in (".npz", ".fl"):
        X, y, groups = read_archive(path)
        with file_errors(path):
            return _as_learned(TaskCollection.from_arrays(X, y, groups), loss, intercept)
    table = load_table(path, task, target)
    return _as_learned(TaskCollection.from_arrays(table.X, table.y, table.groups), loss, intercept)


def _as_learned(tasks: TaskCollection, loss: str, intercept: bool) -> TaskCollection:
    """Return the tasks as an estimator with that loss and intercept meets them."""
    if loss == "sum" and not intercept:
        return tasks
    pairs = []
    for X, y in tasks:
        scale = max(1, len(X)) ** -0.5 if loss == "mean" else 1.0
        X = np.concatenate([X, np.ones((len(X), 1))], axis=1) if intercept else X
        pairs.append((scale * X, scale * y))
    return TaskCollection(pairs)


def read_archive(path: Path) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return X, y and groups of an ``.npz`` archive or of saved tasks; FileError where it does not hold them."""
    if path.suffix.lower() == ".fl":
        document = read(path, "tasks")
        with file_errors(path):
            X, y, rows = arrays_from(document)
        return X, y, np.repeat(np.arange(len(rows)), rows)
    fields = Fields(read_npz(path))
    missing = {name for name in ("X", "y", "groups") if name not in fields}
    if missing:
        raise FileError(f"{path.name} must hold arrays X, y and groups; {', '.join(sorted(missing))} is missing")
    with file_errors(path):
        X = fields.array("X", "biuf", (None, None))
        y = fields.array("y", "biuf", None)
        groups = fields.array("groups", "biufUSmM", (None,), finite=False)
    if y.ndim not in (1, 2) or not len(X) == len(y) == len(groups):
        shapes = f"{X.shape}, {y.shape} and {groups.shape}"
        raise FileError(f"{path.name} must hold one target and one group per row of X, got shapes {shapes}")
    return X, y, groups


@dataclass(frozen=True)
class TaskTable:
    """Rows of a file with their targets and tasks, in the order of the file.

    Attributes
    ----------
    X : array of shape (n, d)
    y : array of shape (n,) or (n, c)
    groups : array of shape (n,)
    features, targets : tuple of str
        Names of the columns of X and y.
    """

    X: NDArray[Any]
    y: NDArray[Any]
    groups: NDArray[Any]
    features: tuple[str, ...]
    targets: tuple[str, ...]


def load_table(path: str | Path, task: str | None, target: str | Sequence[str] | None) -> TaskTable:
    """Return the rows of a CSV or Parquet file with a column that names the task and one or more targets."""
    path = Path(path)
    table = read_table(path)
    names = ", ".join(map(str, table.columns))
    targets: list[Any] = [target] if isinstance(target, str) else list(target if target else [None])
    for role, column in (("task", task), *(("target", name) for name in targets)):
        if column is None:
            raise ValueError(f"{path.name} has the columns {names}; say which is the {role}, with --{role} NAME")
        if column not in table.columns:
            raise ValueError(f"{path.name} has no column {column!r} for the {role}; it has {names}")
    if len(set(targets)) < len(targets):
        raise ValueError(f"targets must be different columns, got {', '.join(map(repr, targets))}")
    if task in targets:
        raise ValueError(f"task and target must be different columns, got {task!r} for both")
    if len(table) == 0:
        raise ValueError(f"{path.name} has no rows")
    unnamed = table[task].isna()
    if unnamed.any():
        raise ValueError(
            f"{path.name}: {int(unnamed.sum())} rows have no value of {task!r}, first in "
            f"{line_of(path, int(np.argmax(unnamed)))}; drop or name them"
        )
    features: Any = table.drop(columns=[task, *targets])
    index = [name for name in features.columns if str(name).startswith("Unnamed: ")]
    if index:
        raise ValueError(
            f"{path.name} has a column without a name, perhaps the row numbers of a data frame; drop it, e.g. by "
            "writing with index=False, or name it to use it as a feature"
        )
    if features.shape[1] == 0:
        raise ValueError(f"{path.name} has no feature column besides {task!r} and {', '.join(map(repr, targets))}")
    X = numbers_of(features, path)
    y = numbers_of(table[targets], path)
    return TaskTable(
        X,
        y[:, 0] if isinstance(target, str) else y,
        table[task].to_numpy(),
        tuple(map(str, features.columns)),
        tuple(map(str, targets)),
    )


def numbers_of(columns: Any, path: Path) -> NDArray[np.float64]:
    """Return columns of a table as floats; refuse those that are not finite numbers, by name and line."""
    words = [str(column) for column in columns.columns if columns[column].dtype.kind not in "biuf"]
    if words:
        raise ValueError(
            f"{path.name}: features and target must be numbers, but {', '.join(words)} is not; drop or encode it, in "
            "Python with fl.TaskCollection.from_table(..., encoder=fl.tables.TableEncoder())"
        )
    values: NDArray[np.float64] = columns.to_numpy(dtype=np.float64)
    bad = ~np.isfinite(values)
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise ValueError(
            f"{path.name}: {int(bad.sum())} values are missing or infinite, e.g. {columns.columns[column]} in "
            f"{line_of(path, int(row))}; fill or drop"
        )
    return values
