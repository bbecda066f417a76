"""The tasks of a file: its rows by the column of the task, with targets, in bounded memory."""

import difflib
from collections.abc import Collection, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from forgetless._progress import track
from forgetless.tables.parsing import numbers_in
from forgetless.tables.read import TableFile
from forgetless.tables.values import Columns, Values, columns_of, joined

WHOLE = 2**27
"""Bytes of a file whose tasks may lie anywhere in it; in a larger one each is in one piece."""

LARGEST = 500_000
"""Rows of a task that are learned at a time."""

MOST_CLASSES = 50
"""Classes of a target of text; more of them, or one for every other row of the first task, are a
mistake."""


class Batch(NamedTuple):
    """A task, or a part of a large one: its label, features by column, targets."""

    task: str
    X: Columns
    y: NDArray[Any]


class _Piece(NamedTuple):
    """Rows of a task: all columns, and the numbers of the rows in the file."""

    task: str
    table: Columns
    rows: Any


def _whole(pieces: list[_Piece]) -> _Piece:
    """Return pieces of a task as one."""
    if len(pieces) == 1:
        return pieces[0]
    names = pieces[0].table
    table = {name: joined([piece.table[name] for piece in pieces]) for name in names}
    return _Piece(pieces[0].task, table, np.concatenate([piece.rows for piece in pieces]))


class Batches:
    """The tasks of a file in the order in which they first appear.

    Parameters
    ----------
    path : str, Path or TableFile
    task, target : str
        Columns.
    text : collection of str
        Columns whose cells are left as they are written.
    classes : bool, optional
        Whether the target holds classes; decided by the first rows if omitted: text that is no
        number, and booleans.

    Attributes
    ----------
    notes : list of str
        What a user should know of the file.
    rows : int
        Rows read so far.
    """

    def __init__(
        self,
        path: str | Path | TableFile,
        task: str,
        target: str,
        text: Collection[str] = (),
        classes: bool | None = None,
    ) -> None:
        self.file = path if isinstance(path, TableFile) else TableFile(path, {*text} - {target})
        self.task = task
        self.target = target
        self.classes = classes
        self.notes = list(self.file.notes)
        self.rows = 0
        self._without = 0

    def __iter__(self) -> Iterator[Batch]:
        done: dict[str, None] = {}
        chunks: Any = self.file.chunks()
        if self.file.n_bytes() <= WHOLE:
            chunks = [pd.concat(list(chunks))]
        for piece in self._pieces(chunks, done):
            batch = self._batch(piece)
            if len(batch.y):
                yield batch
        self._note_order(list(done))
        if self._without:
            note = f"{self._without:,} rows without a value of {self.target!r} were left out"
            self.notes.append(note)
        if self._without == self.rows:
            raise ValueError(
                f"{self.file.path.name} has no row with a value of the target {self.target!r}"
            )

    def _pieces(self, chunks: Any, done: dict[str, None]) -> Iterator[_Piece]:
        """Yield tasks in one piece, also where a chunk ends inside of one."""
        held: list[_Piece] = []
        for chunk in chunks:
            check_columns(self.file.path.name, chunk.columns, self.task, self.target)
            self.rows += len(chunk)
            table = columns_of(chunk)
            numbers = chunk.index.to_numpy()
            codes, names = self._labels(table, chunk)
            # Rows of a task stay in their order.
            order = np.argsort(codes, kind="stable")
            ends = np.cumsum(np.bincount(codes, minlength=len(names)))
            for i, name in enumerate(track(names, "tasks")):
                rows = order[ends[i - 1] if i else 0 : ends[i]]
                if held and name != held[0].task:
                    yield _whole(held)
                    held = []
                if not held and name in done:
                    self._refuse(name, int(numbers[rows[0]]))
                done[name] = None
                part = {column: values.take(rows) for column, values in table.items()}
                held.append(_Piece(name, part, numbers[rows]))
                if sum(len(piece.rows) for piece in held) >= LARGEST:
                    yield _whole(held)
                    held = []
                    del done[name]
        if held:
            yield _whole(held)

    def _refuse(self, name: str, row: int) -> None:
        raise ValueError(
            f"{self.file.path.name}, {self.file.line_of(row)}: the task {name!r} comes again after"
            f" others; a file of more than {WHOLE // 2**20} MB must be sorted by {self.task!r}"
        )

    def _labels(self, table: Columns, chunk: pd.DataFrame) -> tuple[Any, list[str]]:
        """Return the task of every row, as a code and as text."""
        codes, labels = table[self.task].coded
        gone = np.flatnonzero(codes < 0)
        # A blank line is no row: its target is missing, and any task will do.
        blank = chunk.iloc[gone].isna().all(axis=1).to_numpy()
        if not blank.all():
            line = self.file.line_of(int(chunk.index[gone[~blank][0]]))
            raise ValueError(
                f"{self.file.path.name}, {line}: {int((~blank).sum())} rows have no value of the"
                f" task {self.task!r}; name or remove them"
            )
        if not len(labels.texts):
            raise ValueError(f"{self.file.path.name} has no value of the task {self.task!r}")
        return np.maximum(codes, 0), labels.texts.tolist()

    def _batch(self, piece: _Piece) -> Batch:
        """Return the features and targets of a task."""
        target = piece.table[self.target]
        if self.classes is None:
            self.classes = self._has_classes(target)
        known = ~target.missing
        if self.classes:
            codes, labels = target.coded
            y = np.append(labels.texts, "")[codes].astype(str)
        else:
            y = self._numbers(target, piece.rows)
            known &= np.isfinite(y)
        self._without += int((~known).sum())
        roles = (self.task, self.target)
        features = {name: values for name, values in piece.table.items() if name not in roles}
        if not features:
            raise ValueError(
                f"{self.file.path.name} has no column besides {self.task!r} and {self.target!r}:"
                " nothing to predict from"
            )
        if not known.all():
            features = {name: values.take(known) for name, values in features.items()}
        return Batch(piece.task, features, y[known])

    def _has_classes(self, target: Values) -> bool:
        """Return whether the first targets are classes."""
        if target.is_truth:
            return True
        if target.floats is not None:
            distinct = np.unique(target.floats[~target.missing])
            if len(distinct) == 2 and set(distinct) <= {0.0, 1.0}:
                self.notes.append(
                    f"{self.target} holds 0 and 1 only: taken for numbers (--classes takes them for"
                    " classes)"
                )
            return False
        labels = target.coded[1]
        is_word = labels.words()
        few_rows = is_word.sum() > 0.5 * len(target) and len(target) > MOST_CLASSES // 5
        if is_word.mean() > 0.5 and (is_word.sum() > MOST_CLASSES or few_rows):
            example = labels.texts[is_word][0]
            raise ValueError(
                f"the target {self.target!r} of {self.file.path.name} holds"
                f" {int(is_word.sum()):,} different texts, such as {example!r:.40};"
                " choose a column of numbers or of a few classes"
            )
        return bool(is_word.mean() > 0.5)

    def _numbers(self, target: Values, rows: Any) -> NDArray[np.float64]:
        """Return targets as numbers; ValueError with the line of the first that is none."""
        y = target.numbers
        bad = np.isnan(y) & ~target.missing
        words = target.words()
        if bad.any() and words:
            codes, labels = target.coded
            at = int(np.flatnonzero(bad & np.append(labels.words(), False)[codes])[0])
            line = self.file.line_of(int(rows[at]))
            raise ValueError(
                f"{self.file.path.name}, {line}: the target {self.target!r} must hold numbers, but"
                f" holds {labels.texts[codes[at]]!r:.60}; correct it, or choose another --target"
            )
        return y

    def _note_order(self, labels: list[str]) -> None:
        """Note tasks that seem to come from the last to the first."""
        numbers = numbers_in(np.array(labels, dtype=object))
        keys: list[Any] = numbers.tolist() if np.isfinite(numbers).all() else labels
        if len(keys) > 2 and all(one > other for one, other in pairwise(keys)):
            self.notes.append(
                f"Warning: tasks come in falling order, from {labels[0]} to {labels[-1]}; the last"
                " is taken for the newest: sort the file if it is not"
            )


def check_columns(source: str, columns: Any, *names: str | None) -> None:
    """Raise ValueError unless a table has some columns; the message has similar names."""
    columns = [str(column) for column in columns]
    for name in names:
        if name is None or name in columns:
            continue
        near = difflib.get_close_matches(name, columns, 1, 0.6)
        lower = [column for column in columns if column.lower() == name.lower()]
        meant = f"; did you mean {(lower or near)[0]!r}?" if lower or near else ""
        one = "; is the delimiter right?" if len(columns) == 1 else ""
        raise ValueError(
            f"{source} has no column {name!r}{meant} It has {', '.join(columns[:30])}{one}"
        )
    if len(set(names)) < len(names):
        raise ValueError(f"task and target must be different columns, got {names[0]!r} for both")
