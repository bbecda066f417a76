"""Features from an ordinary table, learned task by task, with columns and categories that come
later.

scikit-learn's ``OneHotEncoder`` and ``TargetEncoder`` and skrub's ``TableVectorizer`` have a fixed
width and no ``partial_fit``; of 55 real streams 23 gained features after their second task.
"""

import copy
import os
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from forgetless._validate import Floats
from forgetless.tables.columns import KINDS, Category, Column, Date, Number
from forgetless.tables.values import Columns, Values, columns_of, naming

CHOICES = ("number", "categorical", "date", "drop")
"""Parameters that name columns."""


class TableEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Numbers, categories, dates and missing values as features; ``partial_fit`` learns a task.

    Integers that are unique within a task and come again in the next identify units, such as firms
    of a panel: they are taken for categories from then on, with a line in ``notes_``.

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
        number: Sequence[str] = (),
        categorical: Sequence[str] = (),
        date: Sequence[str] = (),
        drop: Sequence[str] = (),
        max_categories: int = 300,
    ) -> None:
        self.number = number
        self.categorical = categorical
        self.date = date
        self.drop = drop
        self.max_categories = max_categories

    def fit(self, X: Any, y: Any = None) -> Self:
        """Discard everything learned, then learn a table as one task."""
        for name in ("columns_", "order_", "tasks_", "notes_", "key_"):
            self.__dict__.pop(name, None)
        return self.partial_fit(X)

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Learn a task: all of it or, after an error, nothing.

        Parameters
        ----------
        X : data frame, or mapping of names to columns
        """
        self._check_choices()
        table = columns_of(X)
        draft = copy.copy(self)
        draft.columns_ = {
            name: column.copied() for name, column in getattr(self, "columns_", {}).items()
        }
        draft.order_ = list(getattr(self, "order_", []))
        draft.tasks_ = getattr(self, "tasks_", 0) + 1
        draft.notes_ = list(getattr(self, "notes_", []))
        draft.key_ = getattr(self, "key_", None) or os.urandom(8).hex()
        draft._begin(table)
        for name, column in draft.columns_.items():
            known = sum(1 for each, _ in draft.order_ if each == name)
            with naming(name):
                column.learn(_of(table, name))
            draft.order_ += [(name, i) for i in range(known, len(column.parts))]
        # One assignment: an error above has changed nothing.
        self.__dict__ = draft.__dict__
        return self

    def _begin(self, table: Columns) -> None:
        """Add the columns that have their first value, and take identifiers for categories."""
        for name, values in table.items():
            known = self.columns_.get(name)
            if isinstance(known, Number) and self._identifies(name, values):
                self.columns_[name] = Category.of_identifiers(known, self.max_categories, self.key_)
                self.notes_.append(identifier_note(name, values))
            if known is not None or name in self.drop:
                continue
            with naming(name):
                kind = self._kind(name, values)
            if kind != "empty":
                self.columns_[name] = self._column(kind, is_late=self.tasks_ > 1)

    def _identifies(self, name: str, values: Values) -> bool:
        """Return whether a column of numbers turns out to identify the rows of a task."""
        known = self.columns_[name]
        return name not in self.number and isinstance(known, Number) and known.recurs(values)

    def identifiers(self, X: Any) -> list[str]:
        """Return the columns that a second task shows to be identifiers."""
        table = columns_of(X)
        names = [name for name in table if name in self.columns_]
        return [name for name in names if self._identifies(name, table[name])]

    def _kind(self, name: str, values: Values) -> str:
        kinds = {"number": self.number, "category": self.categorical, "date": self.date}
        chosen = [kind for kind, names in kinds.items() if name in names]
        return chosen[0] if chosen and not values.missing.all() else values.kind

    def _column(self, kind: str, is_late: bool) -> Column:
        if kind == "category":
            return Category(is_late, self.max_categories, self.key_)
        return Number(is_late) if kind == "number" else Date(is_late)

    def _check_choices(self) -> None:
        """Raise ValueError where a column is named for two things."""
        named = [name for choice in CHOICES for name in getattr(self, choice)]
        twice = sorted({name for name in named if named.count(name) > 1})
        if twice:
            raise ValueError(f"column {twice[0]!r} is named for two of {', '.join(CHOICES)}")

    def transform(self, X: Any) -> Floats:
        """Return the features (n, d) of a table; columns that it lacks are missing values, and
        columns that are not known are ignored.
        """
        check_is_fitted(self, "columns_")
        table = columns_of(X)
        features = np.zeros((rows_of(table), len(self.order_)))
        places: dict[str, list[int]] = {name: [] for name in self.columns_}
        for place, (name, _) in enumerate(self.order_):
            places[name].append(place)
        for name, column in self.columns_.items():
            with naming(name):
                column.encode(features, np.array(places[name]), _of(table, name))
        return features

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the features, "column", "column=label" or "column trend"."""
        check_is_fitted(self, "columns_")
        names = [name + self.columns_[name].parts[i] for name, i in self.order_]
        return np.array(names, dtype=object)

    @property
    def feature_columns(self) -> list[str]:
        """The column of every feature."""
        return [name for name, _ in self.order_]

    @property
    def text_columns(self) -> list[str]:
        """Columns whose cells a reader must leave as they are written: 07 is not 7."""
        kept = [name for name, each in self.columns_.items() if not isinstance(each, Number)]
        return [*kept, *self.categorical, *self.date]

    # --- files ---

    def to_plain(self) -> dict[str, Any]:
        """Return the encoder as JSON values, with hashes in place of rare labels."""
        columns = []
        for name, column in self.columns_.items():
            state = column.hidden() if isinstance(column, Category) else vars(column)
            columns.append({"name": name, "kind": column.kind, "state": state})
        parameters = {name: _listed(value) for name, value in self.get_params().items()}
        return {
            "parameters": parameters,
            "columns": columns,
            "order": [list(each) for each in self.order_],
            "tasks": self.tasks_,
            "notes": self.notes_,
            "key": self.key_,
        }

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> "TableEncoder":
        """Return the encoder of JSON values; ValueError where they are not those of one."""
        encoder = cls(**plain["parameters"])
        encoder.key_ = str(plain["key"])
        encoder.tasks_ = int(plain["tasks"])
        encoder.notes_ = [str(note) for note in plain["notes"]]
        encoder.columns_ = {}
        for each in plain["columns"]:
            column = KINDS[each["kind"]](False)
            expected = set(vars(column)) - {"key"}
            if set(each["state"]) - {"key"} != expected:
                raise ValueError(f"the state of column {each['name']!r} is not one")
            vars(column).update(each["state"])
            if isinstance(column, Category):
                column.key = encoder.key_
            encoder.columns_[str(each["name"])] = column
        encoder.order_ = [(str(name), int(part)) for name, part in plain["order"]]
        if any(not 0 <= i < len(encoder.columns_[name].parts) for name, i in encoder.order_):
            raise ValueError("a feature of its encoder belongs to no column")
        return encoder


def identifier_note(name: str, values: Values) -> str:
    """Return what was done with a column of identifiers, and how to undo it."""
    return (
        f"{name}: integers that occur once a task and come again, such as {len(values)} here; taken"
        f" for categories (--number {name} takes them for numbers)"
    )


def rows_of(table: Columns) -> int:
    """Return the number of rows of a table."""
    return len(next(iter(table.values()))) if table else 0


def _of(table: Columns, name: str) -> Values:
    """Return a column; missing values where the table has none of that name."""
    if name in table:
        return table[name]
    return Values(floats=np.full(rows_of(table), np.nan))


def _listed(value: Any) -> Any:
    return value if isinstance(value, int) else list(value)
