"""Task collections from files: NumPy archives, CSV and Parquet tables with a column that names the task."""

import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forgetless.tasks import TaskCollection


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
        ``.npz`` with arrays X (n, d), y (n,) or (n, c) and groups (n,); or ``.csv`` or ``.parquet`` with one row each.
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
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path} is a folder, not a file" if path.is_dir() else f"there is no file {path}")
    kind = path.suffix.lower()
    if kind == ".npz":
        return _as_learned(_from_archive(path), loss, intercept)
    if kind not in (".csv", ".parquet"):
        raise ValueError(f"{path.name}: tasks are read from .npz, .csv or .parquet files, not {kind or 'others'}")
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


def _from_archive(path: Path) -> TaskCollection:
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path.name} is damaged or not a plain .npz archive ({type(error).__name__})") from error
    missing = {"X", "y", "groups"} - set(arrays)
    if missing:
        raise ValueError(f"{path.name} must hold arrays X, y and groups; {', '.join(sorted(missing))} is missing")
    return TaskCollection.from_arrays(arrays["X"], arrays["y"], arrays["groups"])


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
    if table[task].isna().any():
        raise ValueError(
            f"{path.name}: {int(table[task].isna().sum())} rows have no value of {task!r}; drop or name them"
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
    X = numbers_of(features, path.name)
    y = numbers_of(table[targets], path.name)
    return TaskTable(
        X,
        y[:, 0] if isinstance(target, str) else y,
        table[task].to_numpy(),
        tuple(map(str, features.columns)),
        tuple(map(str, targets)),
    )


def read_table(path: Path) -> Any:
    """Return a CSV or Parquet file as a pandas data frame."""
    if not path.is_file():
        raise FileNotFoundError(f"{path} is a folder, not a file" if path.is_dir() else f"there is no file {path}")
    kind = path.suffix.lower()
    if kind not in (".csv", ".parquet"):
        raise ValueError(f"{path.name}: tables are read from .csv or .parquet files, not {kind or 'others'}")
    try:
        import pandas
    except ImportError:
        raise ImportError("tables need pandas; install it with: pip install 'forgetless[cli]'") from None
    try:
        return pandas.read_csv(path) if kind == ".csv" else pandas.read_parquet(path)
    except (ValueError, OSError) as error:  # pandas' and pyarrow's own errors are among these
        raise ValueError(f"{path.name} cannot be read as {kind[1:]} ({error})") from error


def numbers_of(columns: Any, name: str) -> NDArray[np.float64]:
    """Return columns of a data frame as floats; refuse those that are not finite numbers, by name."""
    words = [str(column) for column in columns.columns if columns[column].dtype.kind not in "biuf"]
    if words:
        raise ValueError(f"{name}: features and target must be numbers, but {', '.join(words)} is not; encode it")
    values: NDArray[np.float64] = columns.to_numpy(dtype=np.float64)
    bad = ~np.isfinite(values)
    if bad.any():
        column = columns.columns[int(np.argmax(bad.any(axis=0)))]
        raise ValueError(f"{name}: {int(bad.sum())} values are missing or infinite, e.g. in {column}; fill or drop")
    return values
