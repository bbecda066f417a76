"""Tables of any library as columns of numbers, text or times: pandas, polars, pyarrow …, dicts of lists, arrays."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forgetless._core.arrays import Floats
from forgetless._core.columns import EXACT, Values, integers_of, values_of


class Columns:
    """A table whose columns were converted once, so that selecting rows does not convert them again.

    Columns of one type are converted here. A column of Python objects may hold text in some rows and numbers in others,
    so that it is stored unchanged, and converted where it is used.

    Examples
    --------
    >>> table = Columns({"town": np.array(["Ulm", "Bonn", "Ulm"]), "size": np.array([1.0, 2.0, 3.0])})
    >>> part = table.rows(np.array([1, 2]))
    >>> part.columns["town"], part.columns["size"].numbers.tolist(), len(part)
    (array(['Bonn', 'Ulm'], dtype='<U4'), [2.0, 3.0], 2)
    """

    def __init__(self, columns: Mapping[str, Any]) -> None:
        self.columns = {name: values_of(each, name) if _is_typed(each) else each for name, each in columns.items()}

    def __len__(self) -> int:
        first: Any = next(iter(self.columns.values()), ())
        return first.n_rows if isinstance(first, Values) else len(first)

    def rows(self, rows: Any) -> "Columns":
        """Return some rows: their numbers, or a slice."""
        return Columns({name: _rows_of(each, rows) for name, each in self.columns.items()})


def joined(parts: Sequence[Columns]) -> Columns | None:
    """Return the rows of some tables one below the other; None where a column is not of one kind in all of them."""
    columns = {}
    for name in parts[0].columns:
        values = [part.columns[name] for part in parts]
        kinds = {value.kind for value in values if isinstance(value, Values) and value.kind != "empty"}
        if len(kinds) > 1 or not all(isinstance(value, Values) for value in values):
            return None
        if kinds == {"word"}:
            columns[name] = _joined_words(values)
        else:
            columns[name] = Values((kinds or {"empty"}).pop(), np.concatenate([value.numbers for value in values]))
    return Columns(columns)


def _joined_words(parts: Sequence[Values]) -> Values:
    label_codes: dict[str, int] = {}
    codes = []
    for part in parts:
        place = np.array([*(label_codes.setdefault(label, len(label_codes)) for label in part.labels), -1])
        codes.append(place[part.codes] if part.kind == "word" else np.full(part.n_rows, -1))
    return Values("word", codes=np.concatenate(codes), labels=list(label_codes))


def read_once(table: Any) -> Any:
    """Return a table of any library with its columns read; anything else as it is."""
    return Columns(columns_of(table)) if hasattr(table, "columns") and not isinstance(table, Columns) else table


def _is_typed(column: Any) -> bool:
    """Return whether the type of a column is that of all its values, and its integers are exact as floats."""
    import narwhals as nw

    if isinstance(column, np.ndarray):
        return column.dtype.kind in "bfMm" or (column.dtype.kind in "iu" and _is_small(column))
    if not isinstance(column, nw.Series):
        return False
    dtype: Any = column.dtype
    if dtype.is_integer() and not _is_small(column.drop_nulls().to_numpy()):
        return False
    return bool(dtype.is_numeric() or dtype.is_temporal()) or dtype in (nw.Boolean, nw.String, nw.Categorical, nw.Enum)


def _is_small(integers: NDArray[Any]) -> bool:
    return len(integers) == 0 or (int(integers.max()) < EXACT and int(integers.min()) > -EXACT)


def _rows_of(column: Any, rows: Any) -> Any:
    if isinstance(column, Values):
        return column.select(rows)
    if isinstance(column, list | tuple):
        return [column[i] for i in (range(*rows.indices(len(column))) if isinstance(rows, slice) else rows)]
    return column[rows]


def columns_of(table: Any, name: str = "X") -> dict[str, Any]:
    """Return the columns of a table by name, as :func:`values_of` takes them."""
    if type(table).__module__.startswith("scipy.sparse"):
        raise TypeError(f"{name} is sparse data, which is not supported here: give a table or a dense array")
    if isinstance(table, Columns):
        return dict(table.columns)
    if isinstance(table, Mapping):
        lengths = {str(key): len(value) for key, value in table.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"{name} must have columns of one length, got {lengths}")
        return {str(key): value for key, value in table.items()}
    if isinstance(table, np.ndarray | list | tuple) or (hasattr(table, "__array__") and not hasattr(table, "columns")):
        return _columns_of_array(np.asarray(table), name)
    return _columns_of_frame(table, name)


def _columns_of_frame(table: Any, name: str) -> dict[str, Any]:
    import narwhals as nw

    try:
        frame = nw.from_native(table, eager_only=True)
        names = [str(each) for each in frame.columns]
    except TypeError:
        raise TypeError(
            f"{name} must be a table (pandas, polars, pyarrow), a dict of lists or an array, got {type(table).__name__}"
        ) from None
    except ValueError as error:
        raise ValueError(f"{name} cannot be used as a table: {error}") from None
    if len(set(names)) < len(names):
        twice = next(each for each in names if names.count(each) > 1)
        raise ValueError(f"{name} has several columns named {twice!r}; give each its own name")
    if not hasattr(table, "iloc"):
        return {str(each): frame[each] for each in frame.columns}
    # NumPy's own columns of pandas are taken as they are: narwhals takes a millisecond for each, and there may be many.
    plain = {each for each, dtype in table.dtypes.items() if isinstance(dtype, np.dtype) and dtype.kind in "biuf"}
    return {str(each): table[each].to_numpy() if each in plain else frame.get_column(each) for each in table.columns}


def _columns_of_array(array: NDArray[Any], name: str) -> dict[str, Any]:
    if array.ndim != 2:
        raise ValueError(
            f"{name} must be a table or an array of shape (n, d), got shape {array.shape}. Reshape your data, e.g. "
            "with array.reshape(-1, 1)"
        )
    if array.dtype.kind == "c":
        raise ValueError(f"{name} holds complex numbers. Complex data not supported: take real and imaginary parts")
    if array.shape[1] == 0:
        raise ValueError(f"{name} has 0 feature(s) (shape={array.shape}) while a minimum of 1 is required.")
    return {f"x{i}": array[:, i] for i in range(array.shape[1])}


def arrays_of(frame: Any, task: str, target: str | Sequence[str], encoder: Any) -> tuple[Any, Any, Any]:
    """Return X, y and the task of every row of a table; ``encoder`` makes numbers of its features where it is given."""
    columns = columns_of(frame, "frame")
    targets = [target] if isinstance(target, str) else list(target)
    for role, name in (("task", task), *(("target", name) for name in targets)):
        if name not in columns:
            raise ValueError(f"frame has no column {name!r} for the {role}; it has {', '.join(list(columns)[:20])}")
    if task in targets:
        raise ValueError(f"task and target must be different columns, got {task!r} for both")
    rest = {name: column for name, column in columns.items() if name != task and name not in targets}
    if not rest:
        raise ValueError(f"frame has no feature column besides {task!r} and {', '.join(map(repr, targets))}")
    X = _together(rest, "; use encoder=fl.tables.TableEncoder()") if encoder is None else encoder.fit_transform(rest)
    y = _together({name: columns[name] for name in targets}, "")
    X, y = X.toarray() if hasattr(X, "toarray") else X, y[:, 0] if isinstance(target, str) else y
    return X, y, labels_of(columns[task], task)


def labels_of(column: Any, name: str) -> NDArray[Any]:
    """Return the task of every row; ValueError where one has none."""
    if (integers := integers_of(column)) is not None:
        return integers
    values = values_of(column, name)
    if values.missing.any():
        raise ValueError(f"{int(values.missing.sum())} rows have no value of {name!r}; drop or name them")
    if values.kind == "word":
        return np.array(values.labels)[values.codes]
    if values.kind == "time":
        return values.numbers.astype("datetime64[us]")
    integral = np.all(values.numbers == np.floor(values.numbers)) and np.all(np.abs(values.numbers) < 2**53)
    return values.numbers.astype(np.int64) if integral else values.numbers


def _together(columns: Mapping[str, Any], hint: str) -> Floats:
    """Return columns that are numbers as one array."""
    values_by_name = {name: values_of(column, name) for name, column in columns.items()}
    for name, values in values_by_name.items():
        if values.kind != "number" or not np.all(np.isfinite(values.numbers)):
            what = f"{values.kind}s" if values.kind in ("word", "time") else "missing or infinite values"
            raise ValueError(f"column {name!r} must hold finite numbers, got {what}{hint}")
    return np.column_stack([values.numbers for values in values_by_name.values()])
