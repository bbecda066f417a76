"""Features, targets and tasks of the rows of a table."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forgetless._core.frames import EXACT, columns_of, integers_of, values_of
from forgetless._validate import Floats


def arrays_of(
    frame: Any, task: str, target: str | Sequence[str], encoder: Any
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
    columns = columns_of(frame, "frame")
    targets = [target] if isinstance(target, str) else list(target)
    check_roles("frame", list(columns), task, targets)
    features = {
        name: column for name, column in columns.items() if name != task and name not in targets
    }
    if not features:
        raise ValueError(
            f"frame has no feature column besides {task!r} and {', '.join(map(repr, targets))}"
        )
    if encoder is None:
        X = _stacked(features, "; use encoder=fl.tables.TableEncoder()")
    else:
        X = encoder.fit_transform(features)
    y = _stacked({name: columns[name] for name in targets}, "")
    if hasattr(X, "toarray"):
        X = X.toarray()
    if isinstance(target, str):
        y = y[:, 0]
    return X, y, labels_of(columns[task], task)


def check_roles(source: str, names: Sequence[str], task: str, targets: Sequence[str]) -> None:
    """Raise ValueError unless the columns of task and targets exist in ``source`` and are
    different.
    """
    roles = [("task", task)]
    roles += [("target", name) for name in targets]
    for role, name in roles:
        if name not in names:
            raise ValueError(
                f"{source} has no column {name!r} for the {role}; it has {', '.join(names[:50])}"
            )
    if len(set(targets)) < len(targets):
        raise ValueError(f"targets must be different columns, got {', '.join(map(repr, targets))}")
    if task in targets:
        raise ValueError(f"task and target must be different columns, got {task!r} for both")


def labels_of(column: Any, name: str) -> NDArray[Any]:
    """Return the task of every row; ValueError where one is missing.

    Labels keep their kind: strings, times, or integers where all numbers are whole and exact.
    """
    if (integers := integers_of(column)) is not None:
        return integers
    values = values_of(column, name)
    if values.missing.any():
        raise ValueError(
            f"{int(values.missing.sum())} rows have no value of {name!r}; drop or name them"
        )
    if values.kind == "string":
        return np.array(values.labels)[values.codes]
    if values.kind == "time":
        return values.numbers.astype("datetime64[us]")
    numbers = values.numbers
    # Beyond EXACT not every integer is a float, and different labels would become equal.
    exact = np.all(np.abs(numbers) < EXACT)
    whole = exact and np.all(numbers == np.floor(numbers))
    return numbers.astype(np.int64) if whole else numbers


def _stacked(columns: Mapping[str, Any], hint: str) -> Floats:
    """Return columns of finite numbers as one array."""
    converted = {name: values_of(column, name) for name, column in columns.items()}
    for name, values in converted.items():
        if values.kind != "number" or not np.all(np.isfinite(values.numbers)):
            content = "missing or infinite values"
            if values.kind in ("string", "time"):
                content = f"{values.kind}s"
            raise ValueError(f"column {name!r} must hold finite numbers, got {content}{hint}")
    return np.column_stack([values.numbers for values in converted.values()])
