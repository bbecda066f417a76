"""Task collections from files: NumPy archives, CSV and Parquet tables with a column that names the task."""

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
        raise FileNotFoundError(f"there is no file {path}")
    kind = path.suffix.lower()
    if kind == ".npz":
        return _from_archive(path)
    if kind not in (".csv", ".parquet"):
        raise ValueError(
            f"{path.name}: tasks are read from .npz, .csv or .parquet, not {kind or 'a file without suffix'}"
        )
    return _from_table(path, kind, task, target)


def _from_archive(path: Path) -> TaskCollection:
    with np.load(path, allow_pickle=False) as archive:
        missing = {"X", "y", "groups"} - set(archive.files)
        if missing:
            raise ValueError(f"{path.name} must hold arrays X, y and groups; {', '.join(sorted(missing))} is missing")
        return TaskCollection.from_arrays(archive["X"], archive["y"], archive["groups"])


def _from_table(path: Path, kind: str, task: str | None, target: str | None) -> TaskCollection:
    try:
        import pandas
    except ImportError:
        raise ImportError("tables need pandas; install it with: pip install 'forgetless[cli]'") from None
    table = pandas.read_csv(path) if kind == ".csv" else pandas.read_parquet(path)
    names = ", ".join(map(str, table.columns))
    for role, column in (("task", task), ("target", target)):
        if column is None:
            raise ValueError(
                f"{path.name} has the columns {names}; say which is the {role}, with {role}=… or --{role} …"
            )
        if column not in table.columns:
            raise ValueError(f"{path.name} has no column {column!r} for the {role}; it has {names}")
    features: Any = table.drop(columns=[task, target])
    words = [str(name) for name in features.columns if features[name].dtype.kind not in "biuf"]
    if words:
        raise ValueError(f"{path.name}: features must be numbers, but {', '.join(words)} is not; drop or encode it")
    if features.shape[1] == 0:
        raise ValueError(f"{path.name} has no feature column besides {task!r} and {target!r}")
    return TaskCollection.from_arrays(
        features.to_numpy(dtype=np.float64), table[target].to_numpy(dtype=np.float64), table[task].to_numpy()
    )
