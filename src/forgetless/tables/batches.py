"""The tasks of a file: its rows by the column of the task, with targets, in bounded memory.

A file up to ``WHOLE`` bytes is read at once, and the rows of a task may lie anywhere in it. A
larger one is read in chunks, of which every task but the last is complete: the rows of the last one
wait for the next chunk. So a larger file must have the rows of a task together, and an error names
the line where one comes again. A task above ``LARGEST`` rows is learned in parts.

So at most a chunk, the rows of a task that it does not complete, and ``LARGEST`` rows are in memory
at a time, however large the file is.
"""

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from forgetless._running import track
from forgetless._text import closest
from forgetless._validate import Array
from forgetless.tables.read import TableFile
from forgetless.tables.values import CODE, Columns, Values, columns_of, numbers_in, parts_of

WHOLE = 2**27
"""Bytes of a file whose tasks may lie anywhere in it; in a larger one each is in one piece. As a
data frame a text file takes two to three times its bytes."""

LARGEST = 500_000
"""Rows of a task that are learned at a time; a task with more is several for the estimator, whose
sums do not depend on how rows are cut."""

MOST_CLASSES = 50
"""Classes of a target of text; more of them, or one for every other row of the first task, are a
mistake."""


class Batches:
    r"""The tasks of a file in the order in which they first appear.

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
        What a user should know of the file, complete after the last task.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "sales.csv"
    >>> _ = path.write_text("month,size,sales\njan,1,10\njan,2,20\nfeb,3,30\n")
    >>> [(label, y.tolist()) for label, X, y in Batches(TableFile(path), "month", "sales")]
    [('jan', [10.0, 20.0]), ('feb', [30.0])]
    """

    def __init__(
        self,
        file: TableFile,
        task: str,
        target: str,
        classes: Any = None,
    ) -> None:
        self.file = file
        self.name = file.path.name
        # Before a row is read.
        check_columns(self.name, file.columns(), task, target)
        self.task = task
        self.target = target
        self.classes = classes
        self.notes = list(file.notes)

    def __iter__(self) -> Iterator[Any]:
        """Yield the label of a task, or of a part of a large one, with its features and targets.

        The features are columns (``Values``), the targets floats, or classes as text. Rows without
        a target are left out, with a note of how many.
        """
        done: dict[str, None] = {}
        last = ""
        lost = 0
        for frame in self._frames():
            # One task of a large table may have few rows, and the table many columns of text.
            # Texts are factorized once for many tasks.
            table = columns_of(frame)
            groups = self._groups(table[self.task], frame.index)
            for name, rows in track(groups.items(), "tasks", len(groups)):
                lines = frame.index[rows]
                # A task may go on in the next part of a file, but not come again after others.
                if name in done and name != last:
                    raise ValueError(
                        f"{self.name}, {self.file.line_of(lines[0])}: the task {name!r} comes again"
                        f" after others; a file of more than {WHOLE // 2**20} MB must be sorted by"
                        f" {self.task!r}"
                    )
                last = name
                X, y = self._task(parts_of(table, rows), lines)
                lost += len(rows) - len(y)
                if len(y):
                    done[name] = None
                    yield name, X, y
        self._note_order(list(done))
        if lost:
            self.notes.append(f"{lost:,} rows without a value of {self.target!r} were left out")
        if not done:
            raise ValueError(f"{self.name} has no row with a value of the target {self.target!r}")

    def _frames(self) -> Iterator[pd.DataFrame]:
        """Yield tables with all rows of their tasks.

        The last task of a chunk may go on in the next: its rows are kept, and put before those of
        the next chunk, unless there are so many that they are learned as a part of the task.
        """
        if self.file.n_bytes <= WHOLE:
            # All at once, so that rows of a task come together wherever they stand.
            yield pd.concat(list(self.file.chunks()))
            return
        rest: Any = None
        for chunk in self.file.chunks():
            frame = pd.concat([rest, chunk])
            tasks = frame[self.task]
            # The first row of the last task.
            first = np.flatnonzero(np.append(True, tasks != tasks.iloc[-1]))[-1]
            # Of a task that fills the memory the rows so far are a part of their own.
            if len(frame) - first >= LARGEST:
                first = len(frame)
            # Rows keep their numbers in the file, by which messages find their lines.
            rest = frame[first:]
            if first:
                yield frame[:first]
        if len(rest):
            yield rest

    def _groups(self, tasks: Values, index: Any) -> dict[str, Any]:
        """Return the rows of every task, in the order in which the tasks first appear.

        A row without a task has no place in the order, so that it is an error, not left out.
        """
        codes, labels = tasks.coded
        gone = np.flatnonzero(codes < 0)
        if not len(labels):
            raise ValueError(f"{self.name} has no value of the task {self.task!r}")
        if len(gone):
            raise ValueError(
                f"{self.name}, {self.file.line_of(index[gone[0]])}: {len(gone)} rows have no value"
                f" of the task {self.task!r}; name or remove them"
            )
        # Codes count labels in the order of their first rows.
        groups = pd.Series(codes).groupby(codes).indices
        return {labels[code]: rows for code, rows in groups.items()}

    def _task(self, table: Columns, lines: Any) -> Any:
        """Return the features and targets of a task, without the rows that have no target."""
        target = table[self.target]
        # The first rows decide for all later ones.
        if self.classes is None:
            self.classes = self._has_classes(target)
        if self.classes:
            y = target.written.astype(str)
            known = ~target.missing
        else:
            y = self._numbers(target, lines)
            known = np.isfinite(y)
        # What a row is predicted from is neither its task nor its target.
        X = {column: table[column] for column in table if column not in (self.task, self.target)}
        if not X:
            raise ValueError(
                f"{self.name} has no column besides {self.task!r} and {self.target!r}: nothing to"
                " predict from"
            )
        # Taking all rows would copy the columns.
        if not known.all():
            X = parts_of(X, known)
        return X, y[known]

    def _has_classes(self, target: Values) -> bool:
        """Return whether the first targets are classes: booleans, codes such as 07, or text that is
        mostly no number.

        Decided once, by the first task or the first part of the file, and held for the others. Text
        of which nearly every row has its own is a mistake, such as a column of names. Codes such as
        07 name something, as they do in a column of features.
        """
        if target.is_number:
            # Numbers are quantities, but true and false are not: 0 and 1 may be either.
            is_truth: bool = target.cells.dtype.kind == "b"
            if not is_truth and set(pd.unique(target.numbers[~target.missing])) == {0.0, 1.0}:
                self.notes.append(
                    f"{self.target} holds 0 and 1 only: taken for numbers (--classes takes them for"
                    " classes)"
                )
            return is_truth
        labels = target.coded[1]
        codes = [label for label in labels if re.fullmatch(CODE, label)]
        # One code shows that the digits beside it are codes too.
        words = labels if codes else labels[target.words()]
        if len(words) <= 0.5 * len(labels):
            return False
        is_own = len(words) > 0.5 * len(target) and len(target) > MOST_CLASSES // 5
        if len(words) > MOST_CLASSES or is_own:
            raise ValueError(
                f"the target {self.target!r} of {self.name} holds {len(words):,} different texts,"
                f" such as {[*codes, *words][0]!r:.40}; choose a column of numbers or of a few"
                " classes"
            )
        return True

    def _numbers(self, target: Values, lines: Any) -> Array:
        """Return targets as numbers, NaN where nothing is written; ValueError with the line of the
        first that is no number.
        """
        y = target.numbers
        words = target.unread(y)
        if words:
            # The first row of the task with this text.
            first = lines[target.written == words[0]][0]
            raise ValueError(
                f"{self.name}, {self.file.line_of(first)}: the target {self.target!r} must hold"
                f" numbers, but holds {words[0]!r:.60}; correct it, or choose another --target"
            )
        return y

    def _note_order(self, labels: list[str]) -> None:
        """Note tasks that seem to come from the last to the first.

        Tasks are never sorted: their order is what a model is judged on, and only the user knows
        it. Labels that fall from row to row, as numbers or as text (2024-02, 2024-01), are the sign
        of an export with the newest rows on top.
        """
        numbers = numbers_in(np.array(labels, dtype=object))
        keys = pd.Index(numbers if np.isfinite(numbers).all() else labels)
        if len(keys) > 2 and keys.is_monotonic_decreasing:
            self.notes.append(
                f"Warning: tasks come in falling order, from {labels[0]} to {labels[-1]}; the last"
                " is taken for the newest: sort the file if it is not"
            )


def check_columns(
    source: str,
    columns: Any,
    *names: Any,
) -> None:
    """Raise ValueError unless a table has some columns.

    Parameters
    ----------
    source : str
        The name of the file, for the message.
    columns : sequence
        The columns of the table. The message lists them, and a similar name first.
    names : str or None
        What must be among them; the first two are those of task and target, which must differ.
    """
    columns = [str(column) for column in columns]
    for name in names:
        if name is None or name in columns:
            continue
        one = "; is the delimiter a comma, a semicolon, a tab or |?" if len(columns) == 1 else ""
        # Case is the most frequent mistake.
        same = [each for each in columns if each.lower() == name.lower()]
        meant = closest(same[0] if same else name, columns)
        raise ValueError(
            f"{source} has no column {name!r}: {meant}it has {', '.join(columns[:30])}{one}"
        )
    if names[0] in names[1:2]:
        raise ValueError(f"task and target must be different columns, got {names[0]!r} for both")
