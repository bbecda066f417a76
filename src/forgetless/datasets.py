"""Task collections from files: NumPy archives, CSV and Parquet tables with a column that names the task."""

import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from forgetless.tasks import TaskCollection


def load_tasks(path: str | Path, task: str | None = None, target: str | None = None) -> TaskCollection:
    """Return the tasks stored in a file.

    Parameters
    ----------
    path : str or Path
        ``.npz`` with arrays X (n, d), y (n,) or (n, c) and groups (n,); or ``.csv`` or ``.parquet`` with one row each.
    task, target : str, optional
        Names of the columns with the task and the target; required for tables. All other columns are features and
        must be numbers.

    Returns
    -------
    TaskCollection
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path} is a folder, not a file" if path.is_dir() else f"there is no file {path}")
    kind = path.suffix.lower()
    if kind == ".npz":
        return _from_archive(path)
    if kind not in (".csv", ".parquet"):
        raise ValueError(f"{path.name}: tasks are read from .npz, .csv or .parquet files, not {kind or 'others'}")
    return _from_table(path, kind, task, target)


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


def _from_table(path: Path, kind: str, task: str | None, target: str | None) -> TaskCollection:
    try:
        import pandas
    except ImportError:
        raise ImportError("tables need pandas; install it with: pip install 'forgetless[cli]'") from None
    try:
        table = pandas.read_csv(path) if kind == ".csv" else pandas.read_parquet(path)
    except (ValueError, OSError) as error:  # pandas' and pyarrow's own errors are among these
        raise ValueError(f"{path.name} cannot be read as {kind[1:]} ({error})") from error
    names = ", ".join(map(str, table.columns))
    for role, column in (("task", task), ("target", target)):
        if column is None:
            raise ValueError(f"{path.name} has the columns {names}; say which is the {role}, with --{role} NAME")
        if column not in table.columns:
            raise ValueError(f"{path.name} has no column {column!r} for the {role}; it has {names}")
    if task == target:
        raise ValueError(f"task and target must be different columns, got {task!r} for both")
    if len(table) == 0:
        raise ValueError(f"{path.name} has no rows")
    if table[task].isna().any():
        raise ValueError(
            f"{path.name}: {int(table[task].isna().sum())} rows have no value of {task!r}; drop or name them"
        )
    features: Any = table.drop(columns=[task, target])
    words = [str(name) for name in features.columns if features[name].dtype.kind not in "biuf"]
    if table[target].dtype.kind not in "biuf":
        words.append(str(target))
    if words:
        raise ValueError(f"{path.name}: features and target must be numbers, but {', '.join(words)} is not; encode it")
    if features.shape[1] == 0:
        raise ValueError(f"{path.name} has no feature column besides {task!r} and {target!r}")
    return TaskCollection.from_arrays(
        features.to_numpy(dtype=np.float64), table[target].to_numpy(dtype=np.float64), table[task].to_numpy()
    )
