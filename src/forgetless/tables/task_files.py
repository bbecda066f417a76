"""Task collections from files: NumPy archives, CSV and Parquet tables with a column that names the task."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forgetless.errors import FileError
from forgetless.io.atomic import check_source
from forgetless.io.document import Fields, file_errors, read
from forgetless.io.npz import read_npz
from forgetless.tables.readers import check_labelled, kind_of, line_of, read_table
from forgetless.tasks import TaskCollection
from forgetless.tasks.collection import arrays_from
from forgetless.tasks.from_table import check_roles


def read_tasks(
    path: str | Path,
    *,
    task: str | None = None,
    target: str | None = None,
    loss: str = "sum",
    intercept: bool = False,
) -> TaskCollection:
    """Return the tasks in a file.

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
        Append a feature that is always 1, like ``ContinualRidge(fit_intercept=True)``.

    Returns
    -------
    TaskCollection
        Tasks in sorted order of their labels.
    """
    if loss not in ("sum", "mean"):
        raise ValueError(f"loss must be one of sum, mean, got {loss!r}")
    path = check_source(path)
    if kind_of(path) in (".npz", ".fl"):
        X, y, groups = read_archive(path)
        with file_errors(path):
            tasks = TaskCollection.from_arrays(X, y, groups)
    else:
        tasks = TaskCollection.from_arrays(*_read_rows(path, task, target))
    return _with_loss(tasks, loss, intercept)


def _with_loss(tasks: TaskCollection, loss: str, intercept: bool) -> TaskCollection:
    """Return the tasks of an estimator with that loss and intercept."""
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


def _read_rows(path: Path, task: str | None, target: str | None) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return X, y and the task of every row of a table; ValueError with the line where it cannot be used."""
    table = read_table(path)
    names = [str(name) for name in table.columns]
    if task is None or target is None:
        role = "task" if task is None else "target"
        raise ValueError(f"{path.name} has the columns {', '.join(names)}; choose the {role}, with --{role} NAME")
    check_roles(path.name, names, task, [target])
    if len(table) == 0:
        raise ValueError(f"{path.name} has no rows")
    check_labelled(path, table[task], 0)
    features: Any = table.drop(columns=[task, target])
    if any(str(name).startswith("Unnamed: ") for name in features.columns):
        raise ValueError(
            f"{path.name} has a column without a name, perhaps the row numbers of a data frame; drop it, e.g. by "
            "writing with index=False, or name it to use it as a feature"
        )
    if features.shape[1] == 0:
        raise ValueError(f"{path.name} has no feature column besides {task!r} and {target!r}")
    return numbers_of(features, path), numbers_of(table[[target]], path)[:, 0], table[task].to_numpy()


def numbers_of(columns: Any, path: Path) -> NDArray[np.float64]:
    """Return columns of a table as floats; ValueError with name and line unless all are finite numbers."""
    text = [str(column) for column in columns.columns if columns[column].dtype.kind not in "biuf"]
    if text:
        raise ValueError(
            f"{path.name}: features and target must be numbers, but {', '.join(text)} is not; drop or encode it, in "
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
