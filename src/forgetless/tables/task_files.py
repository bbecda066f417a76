"""Task collections from files: NumPy archives, CSV and Parquet tables with a column that names the
task.
"""

import math
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from forgetless._core.frames import format_number, format_time, read_once, values_of
from forgetless._text import printable
from forgetless._validate import Floats, check_memory
from forgetless.errors import FileError
from forgetless.io import Fields, check_source, file_errors, read
from forgetless.tables._numbers import (
    decimal_sign,
    format_of,
    is_missing_sign,
    not_numbers,
    numbers_in,
    parsed,
)
from forgetless.tables.encoder import BadValueError, TableEncoder
from forgetless.tables.readers import (
    check_labelled,
    check_table,
    chunk_rows,
    is_large,
    kind_of,
    line_of,
    line_with,
    notes_on,
    read_chunks,
    read_table,
)
from forgetless.tasks import TaskCollection
from forgetless.tasks.files import arrays_from
from forgetless.tasks.rows import check_roles, labels_of


def read_tasks(
    path: str | Path,
    *,
    task: str | None = None,
    target: str | Sequence[str] | None = None,
    loss: str = "sum",
    intercept: bool = False,
    standardize: bool = False,
    encoder: TableEncoder | None = None,
) -> TaskCollection:
    """Return the tasks in a file.

    Parameters
    ----------
    path : str or Path
        ``.safetensors``, as ``TaskCollection.save`` writes it; ``.npz`` with arrays X (n, d), y
        (n,) or (n, c) and groups (n,); or a table, as CSV, Parquet, Feather or Excel.
    task, target : str, optional
        Names of the columns with the task and the target, with an encoder also of several targets;
        required for tables. All other columns are features, without an encoder numbers without
        missing values.
    loss : {"sum", "mean"}, default "sum"
        ``"mean"`` divides the loss of a task by its number of rows: X and y are divided by the
        root of that number.
    intercept : bool, default False
        Append a feature that is always 1, like ``ContinualRidge(fit_intercept=True)``.
    standardize : bool, default False
        Scale every feature to mean 0 (with an intercept) and mean square 1 over all rows, the units
        of ``StreamingRidge`` at the end.
    encoder : TableEncoder, optional
        Converts the columns of a table, of any kind, to features as ``forgetless fit`` does. It
        learns the tasks in their order unless it is fitted.

    Returns
    -------
    TaskCollection
        Tasks in sorted order of their labels.
    """
    path = check_source(path)
    if encoder is not None and _is_table(path):
        task, targets = _chosen_columns(path, task, target)
        tasks = _encoded_tasks(
            TableTasks(path, task, targets, drop=encoder.drop, order="sorted"), encoder
        )
    elif _is_table(path):
        task, (name, *others) = _chosen_columns(path, task, target)
        if others:
            raise ValueError(
                f"several targets need an encoder, got {name}, {', '.join(others)}; pass one of"
                " the two"
            )
        tasks = TaskCollection.from_arrays(*_read_rows(path, task, name))
    else:
        X, y, groups = read_archive(path)
        with file_errors(path):
            tasks = TaskCollection.from_arrays(X, y, groups)
    return in_form(tasks, loss, intercept, standardize)


def _is_table(path: Path) -> bool:
    """Return whether a file is a table, and not an archive of arrays."""
    return kind_of(path) not in (".npz", ".safetensors")


def _chosen_columns(
    path: Path, task: str | None, target: str | Sequence[str] | None
) -> tuple[str, tuple[str, ...]]:
    """Return the columns of task and targets; ValueError with the columns of the file where one is
    not chosen.
    """
    targets = (target,) if isinstance(target, str) else tuple(target or ())
    for role, name in (("task", task), ("target", targets)):
        if not name:
            with closing(read_chunks(path, 10)) as chunks:
                names = ", ".join(str(column) for column in next(chunks).columns)
            raise ValueError(
                f"{path.name} has the columns {names}; choose the {role}, with --{role} NAME"
            )
    assert task is not None
    return task, targets


def _encoded_tasks(tasks: "TableTasks", encoder: TableEncoder) -> TaskCollection:
    """Return the tasks of a table, encoded; an encoder that is not fitted learns them first."""
    tasks.rows = 0
    tasks.classes = False
    fitted = hasattr(encoder, "columns_")
    text = encoder.text_columns_ if fitted else (*encoder.categorical, *encoder.text, *encoder.date)
    tasks.text_columns = {*text} - {tasks.task, *tasks.targets}
    with located_errors(tasks.path):
        parts = list(tasks)
        for part in () if fitted else parts:
            encoder.partial_fit(part.X)
        if not encoder.order_:
            raise ValueError(f"{tasks.path.name}: no column has a value: nothing to learn from")
        check_memory(
            2.0 * len(encoder.order_) * tasks.n_rows, f"encoding {tasks.path.name}", "drop columns"
        )
        rows = [encoder.transform(part.X) for part in parts]
    return TaskCollection(
        [
            (X.toarray() if sparse.issparse(X) else X, part.y)
            for X, part in zip(rows, parts, strict=True)
        ]
    )


def in_form(tasks: TaskCollection, loss: str, intercept: bool, standardize: bool) -> TaskCollection:
    """Return the tasks of an estimator with that loss, intercept and standardization."""
    if loss not in ("sum", "mean"):
        raise ValueError(f"loss must be one of sum, mean, got {loss!r}")
    if loss == "sum" and not intercept and not standardize:
        return tasks
    all_rows = np.concatenate([X for X, _ in tasks]) if standardize else np.zeros((1, 1))
    mean = all_rows.mean(axis=0) if standardize and intercept else np.zeros(1)
    size = np.sqrt(np.mean((all_rows - mean) ** 2, axis=0)) if standardize else np.ones(1)
    size[size == 0] = 1.0  # a column that does not vary
    pairs = []
    for X, y in tasks:
        X = (X - mean) / size
        scale = max(1, len(X)) ** -0.5 if loss == "mean" else 1.0
        X = np.concatenate([X, np.ones((len(X), 1))], axis=1) if intercept else X
        pairs.append((scale * X, scale * y))
    return TaskCollection(pairs)


def read_archive(path: Path) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return X, y and groups of an ``.npz`` archive or of saved tasks; FileError where it does not
    hold them.
    """
    if path.suffix.lower() == ".safetensors":
        document = read(path, "tasks")
        with file_errors(path):
            X, y, rows = arrays_from(document)
        return X, y, np.repeat(np.arange(len(rows)), rows)
    # Not np.load, which takes a file that is no archive for a pickle. Pickles inside are refused.
    with file_errors(path), path.open("rb") as file:
        fields = Fields(dict(np.lib.npyio.NpzFile(file)))
    missing = {name for name in ("X", "y", "groups") if name not in fields}
    if missing:
        raise FileError(
            f"{path.name} must hold arrays X, y and groups; {', '.join(sorted(missing))} is missing"
        )
    with file_errors(path):
        X = fields.array("X", "biuf", (None, None))
        y = fields.array("y", "biuf", None)
        groups = fields.array("groups", "biufUSmM", (None,), finite=False)
    if y.ndim not in (1, 2) or not len(X) == len(y) == len(groups):
        shapes = f"{X.shape}, {y.shape} and {groups.shape}"
        raise FileError(
            f"{path.name} must hold one target and one group per row of X, got shapes {shapes}"
        )
    return X, y, groups


def _read_rows(
    path: Path, task: str, target: str
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return X, y and the task of every row of a table; ValueError with the line where it cannot be
    used.
    """
    table = read_table(path)
    check_roles(path.name, [str(name) for name in table.columns], task, [target])
    if len(table) == 0:
        raise ValueError(f"{path.name} has no rows")
    check_labelled(path, table[task], 0)
    features: Any = table.drop(columns=[task, target])
    if any(str(name).startswith("Unnamed: ") for name in features.columns):
        raise ValueError(
            f"{path.name} has a column without a name, perhaps the row numbers of a data frame;"
            " drop it, e.g. by writing with index=False, or name it to use it as a feature"
        )
    if features.shape[1] == 0:
        raise ValueError(f"{path.name} has no feature column besides {task!r} and {target!r}")
    return (
        numbers_of(features, path),
        numbers_of(table[[target]], path)[:, 0],
        table[task].to_numpy(),
    )


def numbers_of(columns: Any, path: Path) -> NDArray[np.float64]:
    """Return columns of a table as floats; ValueError with name and line unless all are finite
    numbers.
    """
    text = [str(column) for column in columns.columns if columns[column].dtype.kind not in "biuf"]
    if text:
        raise ValueError(
            f"{path.name}: features and target must be numbers, but {', '.join(text)} is not; drop"
            " or encode it, in Python with encoder=fl.tables.TableEncoder()"
        )
    values: NDArray[np.float64] = columns.to_numpy(dtype=np.float64)
    bad = ~np.isfinite(values)
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise ValueError(
            f"{path.name}: {int(bad.sum())} values are missing or infinite, e.g."
            f" {columns.columns[column]} in {line_of(path, int(row))}; fill or drop"
        )
    return values


ORDERS = ("file", "sorted", "random")


class Part(NamedTuple):
    """A task: its label, its features as a table or an array, and its targets (n,) or (n, c),
    numbers or classes.
    """

    label: str
    X: Any
    y: NDArray[Any]


@dataclass
class TableTasks:
    """The tasks of a file, with notes about rows and columns left out.

    Attributes
    ----------
    path : Path
    task : str
    targets : sequence of str
    features, drop : sequences of str
        The only columns that are features (empty: all others), and columns that are not.
    order : {"file", "sorted", "random"}
    seed : int
    text_columns : collection of str
        Columns that are not converted to numbers.
    rows : int, optional
        Rows of a chunk; 0 to read all at once; if omitted, files above 256 MB are read in chunks.
    classes : bool, optional
        Whether the target holds classes; if omitted, that of text and booleans does.
    notes : list of str
        Sentences about rows and columns left out.
    n_rows : int
        Rows read so far.
    columns : list of str
        Columns that are features.
    total : int or None
        The number of tasks, unless the file is read in chunks.
    """

    path: Path
    task: str
    targets: Sequence[str]
    features: Sequence[str] = ()
    drop: Sequence[str] = ()
    order: str = "file"
    seed: int = 0
    rows: int | None = None
    text_columns: Collection[str] = ()
    classes: bool | None = None
    notes: list[str] = field(default_factory=list)
    n_rows: int = 0
    total: int | None = None
    n_without_target: int = 0
    columns: list[str] = field(default_factory=list)

    def __iter__(self) -> Iterator[Part]:
        check_table(self.path)
        self.notes += notes_on(self.path)
        if self.rows is None:
            self.rows = chunk_rows(self.path) if is_large(self.path) else 0
        if self.order not in ORDERS:
            raise ValueError(f"order must be one of {', '.join(ORDERS)}, got {self.order!r}")
        if self.rows and self.order != "file":
            raise ValueError(
                f"{self.path.name} is read {self.rows} rows at a time, which needs the order of the"
                " file"
            )
        return self._parts(self._streamed(self.rows) if self.rows else self._whole())

    @property
    def n_usable(self) -> int:
        """Rows read so far that have a target."""
        return self.n_rows - self.n_without_target

    def _parts(self, parts: Iterator[Part]) -> Iterator[Part]:
        """Yield tasks, and add notes on rows left out and on the order of tasks at the end."""
        labels = []
        for part in parts:
            labels.append(part.label)
            yield part
        if self.order == "file" and _is_unsorted(labels):
            hint = (
                "sort the file by it"
                if self.rows
                else "--order sorted learns them from the first to the last"
            )
            first = printable(labels[0], 30)
            last = printable(labels[-1], 30)
            self.notes.append(
                f"tasks are learned in the order of the file, which is not that of {self.task}:"
                f" {first} is first and {last} last; {hint}"
            )
        if self.n_without_target:
            self.notes.append(f"{self.n_without_target} rows without a target were left out")
        if self.n_rows == self.n_without_target:
            raise ValueError(
                f"{self.path.name} has no rows"
                + (" with a target" if self.n_without_target else "")
            )

    def _whole(self) -> Iterator[Part]:
        """Yield the tasks of a table in memory."""
        frame = read_table(self.path, self.text_columns)
        column, X, y = self._split(frame)
        labels = labels_of(column, self.task) if len(y) else np.zeros(0)
        names, first, codes = np.unique(labels, return_index=True, return_inverse=True)
        order = {
            "file": np.argsort(first),
            "sorted": np.arange(len(names)),
            "random": np.random.default_rng([self.seed, 1]).permutation(len(names)),
        }[self.order]
        self.total = len(order)
        # Rows of a task side by side, each in the order of the file.
        sorted_rows = np.argsort(codes, kind="stable")
        ends = np.cumsum(np.bincount(codes, minlength=len(names)))
        for code in order.tolist():
            rows = sorted_rows[(ends[code - 1] if code else 0) : ends[code]]
            yield Part(label(names[code]), X.iloc[rows], y[rows])

    def _streamed(self, rows: int) -> Iterator[Part]:
        """Yield the tasks of a file of which some rows are in memory; the rows of a task must be
        consecutive.
        """
        import pandas

        seen: set[str] = set()
        now = ""
        held: list[tuple[Any, Floats]] = []

        def together() -> Part:
            frames, targets = zip(*held, strict=True)
            X = frames[0] if len(frames) == 1 else pandas.concat(frames, ignore_index=True)
            return Part(now, read_once(X), np.concatenate(targets))

        for frame in read_chunks(self.path, rows, self.text_columns):
            column, X, y = self._split(frame)
            if not len(y):
                continue
            each = column.array
            lows = np.append(0, np.flatnonzero(np.asarray(each[1:] != each[:-1], dtype=bool)) + 1)
            labels = labels_of(column.iloc[lows], self.task)
            for low, high, value in zip(lows, [*lows[1:], len(y)], labels, strict=True):
                name = label(value)
                if name != now or not seen:
                    if held:
                        yield together()
                        held = []
                    if name in seen:
                        raise ValueError(
                            f"{self.path.name} is read {rows} rows at a time, and the rows of task"
                            f" {name!r} are not in one piece; sort it by {self.task}, or read it at"
                            " once with --chunk-rows 0"
                        )
                    now = name
                    seen.add(name)
                held.append((X.iloc[low:high], y[low:high]))
                size = 2.0 * X.shape[1] * sum(len(targets) for _, targets in held)
                check_memory(size, f"task {name!r} of {self.path.name}", "make smaller tasks")
        if held:
            yield together()

    def _split(self, frame: Any) -> tuple[Any, Any, NDArray[Any]]:
        """Return the column of tasks, features and targets of the rows of a frame that have a
        target.
        """
        self._check_columns([str(name) for name in frame.columns])
        check_labelled(self.path, frame[self.task], self.n_rows)
        self.n_rows += len(frame)
        if self.classes is None:
            self.classes = len(self.targets) == 1 and _holds_classes(
                frame[self.targets[0]], self.targets[0]
            )
        if self.classes:
            y, complete = _labels(frame[self.targets[0]], self.targets[0])
        else:
            first_row = self.n_rows - len(frame)
            y = np.column_stack(
                [self._target(frame[name], name, first_row) for name in self.targets]
            )
            complete = np.all(np.isfinite(y), axis=1)
        self.n_without_target += int(np.sum(~complete))
        self.columns = self._names([str(name) for name in frame.columns])
        X = frame[self.columns]
        column = frame[self.task]
        if not complete.all():
            X = X[complete]
            y = y[complete]
            column = column[complete]
        return column, X, y[:, 0] if y.ndim > 1 and len(self.targets) == 1 else y

    def _target(self, column: Any, name: str, first_row: int) -> Floats:
        """Return the numbers of a target; ValueError with the line where a value is not one."""
        values = values_of(column, name)
        if values.kind in ("number", "empty"):
            return values.numbers
        if values.kind != "string":
            raise ValueError(
                f"{self.path.name}: the target {name!r} must be numbers, but holds {values.kind}s"
            )
        decimal = decimal_sign(values)
        counts = not_numbers(values, decimal or ".")
        bad = [
            i
            for i, label in enumerate(values.labels)
            if label in counts and not is_missing_sign(label)
        ]
        if bad or decimal is None:
            row = int(np.argmax(np.isin(values.codes, bad)))
            place = line_of(self.path, first_row + row)
            value = printable(str(column.iloc[row]), 40)
            raise ValueError(
                f"{self.path.name}, {place}: the target {name!r} must be numbers, but holds"
                f" strings, e.g. {value!r}; correct it, or leave it empty; --classes takes numbers"
                " for classes too"
            )
        if counts:
            self.notes.append(
                f"{', '.join(map(repr, counts))} in the target {name!r} was taken for missing"
            )
        return np.append(numbers_in(values.labels, decimal), np.nan)[values.codes]

    def _check_columns(self, names: list[str]) -> None:
        check_roles(self.path.name, names, self.task, self.targets)
        for column in (*self.features, *self.drop):
            if column not in names:
                raise ValueError(
                    f"{self.path.name} has no column {column!r}; it has {', '.join(names[:50])}"
                )

    def _names(self, names: list[str]) -> list[str]:
        """Return the columns that are features."""
        taken = {self.task, *self.targets, *self.drop}
        unnamed = [
            name for name in names if name.startswith("Unnamed: ") and name not in self.features
        ]
        note = f"a column without a name was left out ({', '.join(unnamed)}), perhaps row numbers"
        if unnamed and note not in self.notes:
            self.notes.append(note)
        wanted = list(self.features) or [name for name in names if name not in unnamed]
        names = [name for name in wanted if name not in taken]
        if not names:
            targets = ", ".join(map(repr, self.targets))
            raise ValueError(
                f"{self.path.name} has no feature column besides {self.task!r} and {targets}"
            )
        return names


def _is_unsorted(labels: Sequence[str]) -> bool:
    """Return whether labels are numbers or dates that do not always increase."""
    try:
        values: Any = np.array([float(label) for label in labels])
    except ValueError:
        format = format_of(labels)
        values = None if format is None else parsed(labels, format)
    return values is not None and bool(np.any(np.diff(values) < 0))


@contextmanager
def located_errors(path: Path) -> Iterator[None]:
    """Add the file, and the line of the first such value, to errors about values in it."""
    try:
        yield
    except BadValueError as error:
        line = line_with(path, error.column, error.value)
        raise ValueError(f"{path.name}{line and ', '}{line}: {error}") from error


def _holds_classes(column: Any, name: str) -> bool:
    """Return whether a target holds classes: booleans, or strings of which most are no numbers."""
    if column.dtype == bool or str(column.dtype) == "boolean":
        return True
    values = values_of(column, name)
    if values.kind != "string":
        return False
    counts = not_numbers(values, decimal_sign(values) or ".")
    bad = [
        i for i, text in enumerate(values.labels) if text in counts and not is_missing_sign(text)
    ]
    return bool(np.isin(values.codes, bad).sum() > 0.5 * np.sum(values.codes >= 0))


def _labels(column: Any, name: str) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return the class of every row as a string, and whether it has one."""
    if column.dtype == bool or str(column.dtype) == "boolean":
        column = column.map({True: "True", False: "False"}).astype(object)
    values = values_of(column, name)
    if values.kind == "string":
        labels = np.array([*values.labels, ""])[values.codes]
    else:
        labels = np.array(
            [
                "" if math.isnan(number) else format_number(number)
                for number in values.numbers.tolist()
            ]
        )
    return labels, ~values.missing


def label(task: Any) -> str:
    """Return the label of a task, the same for every type of its column."""
    if isinstance(task, np.datetime64):
        return format_time(float(task.astype("datetime64[us]").astype(np.int64)))
    return format_number(float(task)) if isinstance(task, np.floating) else str(task)
