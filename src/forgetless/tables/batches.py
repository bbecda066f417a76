"""The tasks of a file: its rows by the column of the task, with targets, in bounded memory.

A file up to ``WHOLE`` bytes is read at once, and the rows of a task may lie anywhere in it. A
larger one is read in chunks, of which every task but the last is complete: the rows of the last one
wait for the next chunk. So a larger file must have the rows of a task together, and an error names
the line where one comes again. A task above ``LARGEST`` rows is learned in parts.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from forgetless._running import track
from forgetless._text import closest
from forgetless.tables.parsing import numbers_in
from forgetless.tables.read import TableFile
from forgetless.tables.values import Values

WHOLE = 2**27
"""Bytes of a file whose tasks may lie anywhere in it; in a larger one each is in one piece."""

LARGEST = 500_000
"""Rows of a task that are learned at a time."""

MOST_CLASSES = 50
"""Classes of a target of text; more of them, or one for every other row of the first task, are a
mistake."""


class Batch(NamedTuple):
    """A task, or a part of a large one: its label, features, targets."""

    task: str
    X: pd.DataFrame
    y: NDArray[Any]


class Batches:
    """The tasks of a file in the order in which they first appear.

    Parameters
    ----------
    file : TableFile
    task, target : str
        Columns.
    classes : bool, optional
        Whether the target holds classes; decided by the first rows if omitted: text that is no
        number, and booleans.

    Attributes
    ----------
    notes : list of str
        What a user should know of the file.
    """

    def __init__(
        self,
        file: TableFile,
        task: str,
        target: str,
        classes: bool | None = None,
    ) -> None:
        self.file = file
        self.name = file.path.name
        self.task = task
        self.target = target
        self.classes = classes
        self.notes = list(file.notes)

    def __iter__(self) -> Iterator[Batch]:
        done: dict[str, None] = {}
        total = 0
        without = 0
        for name, rows in self._pieces(done):
            batch = self._batch(name, rows)
            total += len(rows)
            without += len(rows) - len(batch.y)
            if len(batch.y):
                yield batch
        self._note_order(list(done))
        if without:
            note = f"{without:,} rows without a value of {self.target!r} were left out"
            self.notes.append(note)
        if without == total:
            raise ValueError(f"{self.name} has no row with a value of the target {self.target!r}")

    def _pieces(self, done: dict[str, None]) -> Iterator[tuple[str, pd.DataFrame]]:
        """Yield the rows of every task, also where a chunk of the file ends inside of one."""
        chunks: Any = self.file.chunks()
        if self.file.n_bytes() <= WHOLE:
            chunks = [pd.concat(list(chunks))]
        held: list[pd.DataFrame] = []
        last = ""
        for chunk in chunks:
            check_columns(self.name, chunk.columns, self.task, self.target)
            groups = chunk.groupby(self._labels(chunk), sort=False)
            for name, rows in track(groups, "tasks", groups.ngroups):
                if held and (name != last or sum(map(len, held)) >= LARGEST):
                    yield last, pd.concat(held)
                    held = []
                if name != last and name in done:
                    line = self.file.line_of(int(rows.index[0]))
                    raise ValueError(
                        f"{self.name}, {line}: the task {name!r} comes again after others; a file"
                        f" of more than {WHOLE // 2**20} MB must be sorted by {self.task!r}"
                    )
                last = str(name)
                done[last] = None
                held.append(rows)
        if held:
            yield last, pd.concat(held)

    def _labels(self, chunk: pd.DataFrame) -> NDArray[Any]:
        """Return the task of every row as text."""
        codes, labels = Values(chunk[self.task]).coded
        gone = np.flatnonzero(codes < 0)
        if not len(labels):
            raise ValueError(f"{self.name} has no value of the task {self.task!r}")
        if len(gone):
            line = self.file.line_of(int(chunk.index[gone[0]]))
            raise ValueError(
                f"{self.name}, {line}: {len(gone)} rows have no value of the task {self.task!r};"
                " name or remove them"
            )
        return np.asarray(labels[codes])

    def _batch(self, name: str, rows: pd.DataFrame) -> Batch:
        """Return the features and targets of a task, without the rows that have no target."""
        target = Values(rows[self.target])
        if self.classes is None:
            self.classes = self._has_classes(target)
        if self.classes:
            codes, labels = target.coded
            y = np.append(labels, "")[codes].astype(str)
            known = codes >= 0
        else:
            y = self._numbers(target)
            known = np.isfinite(y)
        X = rows.drop(columns=[self.task, self.target])
        if not len(X.columns):
            raise ValueError(
                f"{self.name} has no column besides {self.task!r} and {self.target!r}: nothing to"
                " predict from"
            )
        return Batch(name, X[known], y[known])

    def _has_classes(self, target: Values) -> bool:
        """Return whether the first targets are classes: booleans, or text that is mostly no number.

        Text of which nearly every row has its own is a mistake, such as a column of names.
        """
        if target.is_number:
            is_truth: bool = target.column.dtype.kind == "b"
            if not is_truth and set(target.column.dropna().unique()) == {0, 1}:
                self.notes.append(
                    f"{self.target} holds 0 and 1 only: taken for numbers (--classes takes them for"
                    " classes)"
                )
            return is_truth
        words = target.coded[1][target.words()]
        if len(words) <= 0.5 * len(target.coded[1]):
            return False
        is_own = len(words) > 0.5 * len(target) and len(target) > MOST_CLASSES // 5
        if len(words) > MOST_CLASSES or is_own:
            raise ValueError(
                f"the target {self.target!r} of {self.name} holds {len(words):,} different texts,"
                f" such as {words[0]!r:.40}; choose a column of numbers or of a few classes"
            )
        return True

    def _numbers(self, target: Values) -> NDArray[np.float64]:
        """Return targets as numbers; ValueError with the line of the first that is none."""
        y = target.numbers
        words = target.unread(y)
        if words:
            codes, labels = target.coded
            at = int(np.flatnonzero(np.append(labels, "")[codes] == words[0])[0])
            line = self.file.line_of(int(target.column.index[at]))
            raise ValueError(
                f"{self.name}, {line}: the target {self.target!r} must hold numbers, but holds"
                f" {words[0]!r:.60}; correct it, or choose another --target"
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
        # Case is the most frequent mistake.
        same = [each for each in columns if each.lower() == name.lower()]
        meant = closest(same[0] if same else name, columns)
        one = "; is the delimiter right?" if len(columns) == 1 else ""
        raise ValueError(
            f"{source} has no column {name!r}: {meant}it has {', '.join(columns[:30])}{one}"
        )
    if names[0] in names[1:2]:
        raise ValueError(f"task and target must be different columns, got {names[0]!r} for both")
