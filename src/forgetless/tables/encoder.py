"""Features from an ordinary table, learned task by task, with columns and categories that come
later.

scikit-learn's ``OneHotEncoder`` and ``TargetEncoder`` and skrub's ``TableVectorizer`` have a fixed
width and no ``partial_fit``; of 55 real streams 23 gained features after their second task.

How it grows: ``columns_`` holds the columns in the order in which they had their first value, each
with its parts, and ``order_`` the features in the order in which they came, as pairs (column,
number of the part). A task appends to both and changes nothing that is there,

    order of t tasks = order of t − 1 tasks + new parts of known columns + parts of new columns,

so that feature j means the same for ever, and a model of d features is one of d + c features of
which the last c have been zero in all rows so far (``widen(c)``).
"""

import os
import pickle
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from forgetless._validate import Array
from forgetless.tables.features import Column, Features
from forgetless.tables.kinds import KINDS, Category, Number
from forgetless.tables.values import Columns, Values, columns_of, rows_of

CHOICES = ("number", "categorical", "date", "drop")
"""Parameters that name columns; a column may be named in one of them."""


class TableEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Numbers, categories, dates and missing values as features; ``partial_fit`` learns a task.

    Two kinds of columns show only in the second task what they are; ``notes_`` then has a line.
    Integers that are unique within a task and come again in the next identify units, such as firms
    of a panel: they are taken for categories. Text of which nearly every row has its own is a name:
    a label has a feature from its second row on.

    Parameters
    ----------
    number, categorical, date : sequence of str
        Columns whose kind is not to be found from their first values.
    drop : sequence of str
        Columns that are left out.
    max_categories : int, default 300
        Features of a column of categories; labels beyond share 32.

    Attributes
    ----------
    columns_ : dict from name to column
    notes_ : list of str
        What a user should know of how columns were read.

    Examples
    --------
    >>> import pandas as pd
    >>> from forgetless.tables import TableEncoder
    >>> table = pd.DataFrame({"size": [1.0, None, 3.0], "town": ["Ulm", "Bonn", "Ulm"]})
    >>> encoder = TableEncoder().partial_fit(table)
    >>> encoder.get_feature_names_out().tolist()
    ['size', 'size is missing', 'town=Ulm', 'town=Bonn']
    >>> later = pd.DataFrame({"size": [2.0], "town": ["Köln"], "rain": [5.0]})
    >>> encoder.partial_fit(later).transform(table)[0].tolist()
    [1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0]
    """

    def __init__(
        self,
        *,
        number: Any = (),
        categorical: Any = (),
        date: Any = (),
        drop: Any = (),
        max_categories: int = 300,
    ) -> None:
        self.number = number
        self.categorical = categorical
        self.date = date
        self.drop = drop
        self.max_categories = max_categories

    def fit(self, X: Any, y: Any = None) -> Self:
        """Discard everything learned, then learn a table as one task."""
        return self.start().partial_fit(X)

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Learn a task: all of it or, after an error, nothing.

        Parameters
        ----------
        X : data frame, or mapping of names to columns
        """
        table = columns_of(X)
        # An error in any column must leave all of them as they are: a copy learns. By pickle
        # it takes a tenth of the time of copy.deepcopy.
        draft = pickle.loads(pickle.dumps(self))
        if not hasattr(draft, "columns_"):
            draft.start()
        draft._begin(table)
        for name, column in draft.columns_.items():
            # Parts are only appended: those from here on are new.
            known = sum(1 for each, _ in draft.order_ if each == name)
            column.learn(column_of(table, name))
            draft.order_ += [(name, i) for i in range(known, len(column.parts))]
        # One assignment: an error above has changed nothing.
        self.__dict__ = draft.__dict__
        return self

    def start(self, shown: dict[str, Column] | None = None) -> Self:
        """Discard everything learned.

        Parameters
        ----------
        shown : mapping, optional
            The columns of another encoder that a second task has shown to hold identifiers or
            names: they are taken for such from the first task on.
        """
        # Which of two kinds would count is nothing that a user should have to know.
        named = [name for choice in CHOICES for name in getattr(self, choice)]
        twice = sorted({name for name in named if named.count(name) > 1})
        if twice:
            raise ValueError(f"column {twice[0]!r} is named for two of {', '.join(CHOICES)}")
        self.columns_: dict[str, Column] = {}
        self.order_: list[tuple[str, int]] = []
        self.notes_: list[str] = []
        # Hashes of labels with a key of each model cannot be looked up in a list made for another.
        self.key_ = os.urandom(8).hex()
        self._shown = shown or {}
        return self

    def _begin(self, table: Columns) -> None:
        """Add the columns that have their first value, and change those that a task shows to hold
        identifiers or names.

        What is declared comes first, then what another encoder was shown, then what the cells of
        the task look like. A column without a value waits for its first one.
        """
        is_late = bool(self.order_)
        for name, note in self.shown_by(table).items():
            known = self.columns_[name]
            self.notes_.append(note)
            # Text of names waits from here on; integers that identify units become labels.
            if isinstance(known, Category):
                known.waits = True
            else:
                self.columns_[name] = Category.of_identifiers(known, self.max_categories, self.key_)
        declared = dict.fromkeys(self.number, "number")
        declared |= dict.fromkeys(self.date, "date")
        declared |= dict.fromkeys([*self.categorical, *self._shown], "category")
        for name in [each for each in table if each not in {*self.columns_, *self.drop}]:
            kind = table[name].kind
            # What a column without values holds is known when it has some.
            if kind == "empty":
                continue
            kind = declared.get(name, kind)
            options: Any = {}
            if kind == "category":
                waits = isinstance(self._shown.get(name), Category)
                options = {
                    "most": self.max_categories,
                    "key": self.key_,
                    "waits": waits,
                }
            self.columns_[name] = KINDS[kind](name, is_late, **options)

    def shown_by(self, table: Columns) -> dict[str, str]:
        """Return the columns of which a task shows what the tasks before it could not, each with a
        note: numbers that identify units, and texts that are names.

        Columns whose kind was declared are as declared.
        """
        unsettled = self.columns_.keys() - {*self.number, *self.categorical}
        names = [name for name in table if name in unsettled]
        notes = {name: self.columns_[name].shown_by(table[name]) for name in names}
        return {name: note for name, note in notes.items() if note}

    def transform(self, X: Any) -> Array:
        """Return the features (n, d) of a table; columns that it lacks are missing values, and
        columns that are not known are ignored.
        """
        check_is_fitted(self, "columns_")
        return self.features(columns_of(X)).toarray()

    def features(self, table: Columns) -> Features:
        """Return the features of a table, without a matrix.

        Numbers are columns of a matrix (n, p). The indicators are a sparse matrix of k cells in
        every row, one for each of k columns with labels or weekdays, in the order of rows: a row
        without a label has its one in an extra column d, so that nothing has to be counted.
        """
        n = rows_of(table)
        d = len(self.order_)
        places: Any = {name: [] for name in self.columns_}
        for place, (name, _) in enumerate(self.order_):
            places[name].append(place)
        numbers: Any = {}
        ones = []
        for name, column in self.columns_.items():
            found, one = column.encoded(column_of(table, name))
            # The last place is that of rows without a label.
            at = np.array([*places[name], d])
            for part, each in found.items():
                numbers[at[column.parts.index(part)]] = each
            if one is not None:
                ones.append(at[one])
        # One row an array, and transposed: every column is in one piece.
        columns = np.array([*numbers.values()], dtype=float).reshape(-1, n).T
        # Every row has one cell of each of k columns, so that where rows begin is known.
        k = len(ones)
        cells = (
            np.ones(n * k),
            np.array(ones, dtype=int).T.ravel(),
            np.arange(n + 1) * k,
        )
        indicators = sparse.csr_array(cells, shape=(n, d + 1))
        return Features(
            (n, d),
            columns,
            np.array([*numbers], dtype=int),
            indicators,
        )

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Return the names of the features, "column", "column=label" or "column trend"."""
        check_is_fitted(self, "columns_")
        names = [name + self.columns_[name].parts[i] for name, i in self.order_]
        return np.array(names, dtype=object)

    @property
    def text_columns(self) -> list[str]:
        """Columns whose cells a reader must leave as they are written: 07 is not 7."""
        return [name for name, each in self.columns_.items() if not isinstance(each, Number)]

    # --- files ---

    def to_plain(self) -> dict[str, Any]:
        """Return the encoder as JSON values, with hashes in place of rare labels: whoever reads the
        file does not read the name of a customer of two rows.
        """
        columns = [
            {"kind": column.kind, "state": column.state()} for column in self.columns_.values()
        ]
        return {
            "parameters": {name: list(getattr(self, name)) for name in CHOICES},
            "most": self.max_categories,
            "columns": columns,
            "order": self.order_,
            "notes": self.notes_,
            "key": self.key_,
        }

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> "TableEncoder":
        """Return the encoder of JSON values; ValueError where they are not those of one."""
        encoder = cls(**plain["parameters"], max_categories=plain["most"]).start()
        encoder.key_ = str(plain["key"])
        encoder.notes_ = [str(note) for note in plain["notes"]]
        for each in plain["columns"]:
            column = KINDS[each["kind"]](**each["state"])
            # A name too many is refused by the class, one that lacks here.
            if vars(column).keys() != each["state"].keys() or column.rows < 1:
                raise ValueError(f"the state of column {column.name!r} is not one")
            if isinstance(column, Category):
                # JSON has names of text only.
                column.places = {int(code): place for code, place in column.places.items()}
                column.counts = {int(code): count for code, count in column.counts.items()}
            encoder.columns_[column.name] = column
        encoder.order_ = [(str(name), int(part)) for name, part in plain["order"]]
        if any(not 0 <= i < len(encoder.columns_[name].parts) for name, i in encoder.order_):
            raise ValueError("a feature of its encoder belongs to no column")
        return encoder


def column_of(table: Columns, name: str) -> Values:
    """Return a column; missing values where the table has none of that name."""
    if name in table:
        return table[name]
    return Values(np.full(rows_of(table), np.nan))
