"""Features, targets and tasks of the rows of a table, by pandas."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forgetless._text import needs
from forgetless._validate import Floats


def arrays_of(
    frame: Any,
    task: str,
    target: str | Sequence[str],
    encoder: Any,
) -> tuple[Floats, Floats, NDArray[Any]]:
    """Return X, y and the task of every row of a table.

    Parameters
    ----------
    frame : table
    task : str
        The column of tasks.
    target : str or sequence of str
        The column of y, of shape (n,), or several, of shape (n, c).
    encoder : transformer or None
        A transformer of the features, which are all other columns, to numbers. They must be numbers
        without it.
    """
    with needs("from_table", "pandas", "tables"):
        import pandas
    table = frame.to_pandas() if hasattr(frame, "to_pandas") else pandas.DataFrame(frame)
    targets = [target] if isinstance(target, str) else list(target)
    _check_roles([str(name) for name in table.columns], task, targets)
    features = table.drop(columns=[task, *targets])
    if not features.shape[1]:
        names = ", ".join(map(repr, targets))
        raise ValueError(f"frame has no feature column besides {task!r} and {names}")
    if encoder is None:
        X = _numbers(features, "; use encoder=fl.tables.TableEncoder()")
    else:
        X = encoder.fit_transform(features)
        X = X.toarray() if hasattr(X, "toarray") else X
    y = _numbers(table[targets], "")
    if isinstance(target, str):
        y = y[:, 0]
    return X, y, _labels(table[task], task)


def _check_roles(names: Sequence[str], task: str, targets: Sequence[str]) -> None:
    """Raise ValueError unless the columns of task and targets exist and are different."""
    for role, name in [("task", task), *(("target", name) for name in targets)]:
        if name not in names:
            raise ValueError(
                f"frame has no column {name!r} for the {role}; it has {', '.join(names[:50])}"
            )
    if len(set(targets)) < len(targets):
        raise ValueError(f"targets must be different columns, got {', '.join(map(repr, targets))}")
    if task in targets:
        raise ValueError(f"task and target must be different columns, got {task!r} for both")


def _labels(column: Any, name: str) -> NDArray[Any]:
    """Return the task of every row: text, times or integers; ValueError where one is missing."""
    if column.isna().any():
        raise ValueError(f"{int(column.isna().sum())} rows have no value of {name!r}; drop them")
    labels = column.to_numpy()
    if labels.dtype == object:
        return np.asarray(labels.astype(str))
    if labels.dtype.kind == "f" and (labels % 1 == 0).all():
        return np.asarray(labels.astype(np.int64))
    return np.asarray(labels)


def _numbers(columns: Any, hint: str) -> Floats:
    """Return columns of finite numbers as one array."""
    for name, column in columns.items():
        is_number = column.dtype.kind in "biuf"
        if not is_number or not np.isfinite(column.to_numpy(np.float64, na_value=np.nan)).all():
            content = "missing or infinite values" if is_number else f"{column.dtype} values"
            raise ValueError(f"column {name!r} must hold finite numbers, got {content}{hint}")
    return np.asarray(columns.to_numpy(np.float64))
