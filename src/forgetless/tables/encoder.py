"""``fl.tables.TableEncoder``: features from an ordinary table, learned task by task."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from forgetless import _validate as validate
from forgetless._core.frames import Values, columns_of, values_of
from forgetless._table import Table
from forgetless._text import printable
from forgetless.tables._columns import (
    KINDS,
    MISSING,
    Category,
    Column,
    ColumnError,
    Date,
    Empty,
    Number,
    Text,
    beginning_late,
)
from forgetless.tables._numbers import decimal_sign, format_of, is_missing_sign, not_numbers
from forgetless.tables._pieces import written

_IMPUTE = ("mean", "zero", "error")

_ADDED = ("late", "decimal", "treated")
"""Values of columns that files of version 1.0 do not have."""

WIDEST = 2000
"""Features of categories up to which rows are dense; with a text column they are always sparse."""


class BadValueError(ValueError):
    """A value that its column cannot hold."""

    def __init__(self, message: str, column: str, value: str) -> None:
        super().__init__(message)
        self.column = column
        self.value = value


class TableEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Encoder of numbers, booleans, categories, dates, texts and missing values, learned task by
    task.

    A feature never changes its place: later ones, such as a new category, are appended.
    ``fl.tables.make_pipeline`` extends the model by them; in all rows before they are zero.

    Parameters
    ----------
    categorical, text, date, drop : sequences of str
        Columns of categories, of texts (hashed words and pairs of words) and of dates, and columns
        to leave out. For all others the first task decides: numbers and booleans are numbers,
        strings are dates if all of them can be parsed, else categories.
    impute : {"mean", "zero", "error"}, default "mean"
        Replacement of missing and infinite numbers: the mean so far, 0, or an error. From the first
        missing value on, an indicator is a feature of its own.
    max_categories : int, default 100
        Most categories of a column with features of their own; others are hashed to ``n_buckets``
        features.
    min_count : int, default 5
        Rows after which a category gets its own feature; until then, and if it is unknown, it is
        "(other)".
    n_buckets : int, default 32
    text_features : int, default 1024
        Hash buckets of a text.

    Attributes
    ----------
    feature_names_in_ : array of str
    n_features_in_ : int
    text_columns_ : list of str
        Columns to be read from files as text, also where they look like numbers.

    Examples
    --------
    >>> import forgetless as fl
    >>> table = {"size": [1.0, None, 3.0], "town": ["Ulm", "Bonn", "Ulm"], "day": ["2024-01-01",
    ...     "2024-01-02", None]}
    >>> encoder = fl.tables.TableEncoder(min_count=1).partial_fit(table)
    >>> encoder.get_feature_names_out()[:4].tolist()
    ['size', 'size is missing', 'town=Ulm', 'town=Bonn']
    >>> encoder.transform(table)[:, :4].tolist()
    [[1.0, 0.0, 1.0, 0.0], [2.0, 1.0, 0.0, 1.0], [3.0, 0.0, 1.0, 0.0]]
    """

    def __init__(  # noqa: PLR0913
        self,
        *,
        categorical: Sequence[str] = (),
        text: Sequence[str] = (),
        date: Sequence[str] = (),
        drop: Sequence[str] = (),
        impute: str = "mean",
        max_categories: int = 100,
        min_count: int = 5,
        n_buckets: int = 32,
        text_features: int = 1024,
    ) -> None:
        self.categorical = categorical
        self.text = text
        self.date = date
        self.drop = drop
        self.impute = impute
        self.max_categories = max_categories
        self.min_count = min_count
        self.n_buckets = n_buckets
        self.text_features = text_features

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the columns of a table from scratch; y is not used."""
        for name in ("columns_", "order_", "feature_names_in_", "n_features_in_"):
            if hasattr(self, name):
                delattr(self, name)
        return self.partial_fit(X)

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Learn the columns of one task; existing features keep their places.

        Parameters
        ----------
        X : table
            Of pandas, polars or pyarrow, a dict of lists, or
            an array.
        y : ignored
        """
        self._check_parameters()
        inputs = self._inputs(X, reset=not hasattr(self, "columns_"))
        previous: dict[str, Column] = getattr(self, "columns_", dict.fromkeys(inputs, Empty()))
        order = list(getattr(self, "order_", ()))
        columns: dict[str, Column] = {}
        for name, values in inputs.items():
            column = previous[name]
            if isinstance(column, Empty):
                column = self._column(name, values, column.missing)
            columns[name] = _named_errors(name, column.learned, values)
            order += [
                (name, part) for part in range(len(previous[name].parts), len(columns[name].parts))
            ]
        self.columns_ = columns
        self.order_ = order
        self.feature_names_in_ = np.array(list(inputs), dtype=object)
        self.n_features_in_ = len(inputs)
        return self

    def transform(self, X: Any) -> Any:
        """Return the features of the rows of a table.

        Returns
        -------
        array of shape (n, d), or a SciPy sparse array where there are texts or more than 2000
        features of categories. Beside texts the mean of the first task is subtracted from numbers,
        since models do not centre sparse rows.
        """
        check_is_fitted(self, "columns_")
        inputs = self._inputs(X, reset=False)
        places: dict[str, list[int]] = {name: [] for name in self.columns_}
        for place, (name, _) in enumerate(self.order_):
            places[name].append(place)
        pieces = [
            (piece, np.array(places[name]))
            for name, column in self.columns_.items()
            for piece in _named_errors(name, column.encode, inputs[name])
        ]
        n = len(next(iter(inputs.values())))
        d = len(self.order_)
        numbers = sum(
            len(column.parts)
            for column in self.columns_.values()
            if isinstance(column, Number | Date)
        )
        wide = d - numbers > WIDEST or any(
            isinstance(column, Text) for column in self.columns_.values()
        )
        return written((n, d), pieces, wide=wide)

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Return the names of the features: the column and the part of it."""
        check_is_fitted(self, "columns_")
        return np.array(
            [name + self.columns_[name].parts[part] for name, part in self.order_], dtype=object
        )

    def summary(self) -> Table:
        """Return a table of the columns with their kinds and features."""
        check_is_fitted(self, "columns_")
        rows = [
            (printable(name, 40), column.kind, len(column.parts), printable(column.note(), 120))
            for name, column in self.columns_.items()
        ]
        rows += [(printable(name, 40), "left out", 0, "") for name in self.drop]
        names, kinds, counts, notes = (
            (list(part) for part in zip(*rows, strict=True)) if rows else ([], [], [], [])
        )
        return Table(
            "Columns", {"column": names, "taken for": kinds, "features": counts, "note": notes}
        )

    def unreadable(self, X: Any = None) -> dict[str, str]:
        """Return columns of numbers with strings that are taken for missing, each with the first
        such string.

        Strings such as "-" and "?", which stand for a missing value, are not among them.

        Parameters
        ----------
        X : table, optional
            Rows to look at; those learned since the encoder was made or loaded if omitted.
        """
        check_is_fitted(self, "columns_")
        inputs = {} if X is None else self._inputs(X, reset=False)
        strings: dict[str, str] = {}
        for name, column in self.columns_.items():
            if isinstance(column, Number):
                labels = column.treated if X is None else not_numbers(inputs[name], column.decimal)
                strings |= dict(
                    [(name, label) for label in labels if not is_missing_sign(label)][:1]
                )
        return strings

    def warnings(self) -> list[str]:
        """Return sentences about columns whose kind may be wrong."""
        check_is_fitted(self, "columns_")
        return [
            f"column {printable(name, 40)!r} was taken for categories, but most of its values look"
            " like numbers: leave missing values empty and write numbers one way; or declare it"
            " categorical"
            for name, column in self.columns_.items()
            if isinstance(column, Category)
            and column.looks_numeric
            and name not in self.categorical
        ]

    def groups(self) -> list[list[int]]:
        """Return the places of features that add up to 1 in every row: categories of a column, days
        of the week.
        """
        check_is_fitted(self, "columns_")
        groups: dict[str, list[int]] = {}
        for place, (name, part) in enumerate(self.order_):
            column = self.columns_[name]
            if column.parts[part] in column.exclusive:
                groups.setdefault(name, []).append(place)
        return list(groups.values())

    @property
    def text_columns_(self) -> list[str]:
        """Columns to be read from files as text."""
        check_is_fitted(self, "columns_")
        return [
            name for name, column in self.columns_.items() if not isinstance(column, Number | Empty)
        ]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.categorical = tags.input_tags.string = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "columns_")

    # --- files ---

    def to_plain(self) -> dict[str, Any]:
        """Return the encoder as plain values for JSON."""
        check_is_fitted(self, "columns_")
        columns = [  # a list: the order of columns decides where later features are placed
            [name, {"kind": column.kind, **_plain(column)}]
            for name, column in self.columns_.items()
        ]
        parameters = {
            name: (
                list(value) if isinstance(value, Sequence) and not isinstance(value, str) else value
            )
            for name, value in self.get_params(deep=False).items()
        }
        return {
            "parameters": parameters,
            "columns": columns,
            "order": [list(each) for each in self.order_],
        }

    @classmethod
    def from_plain(cls, plain: Any) -> Self:
        """Return the encoder of the values of ``to_plain``; ValueError if they are invalid."""
        if not isinstance(plain, dict) or set(plain) != {"parameters", "columns", "order"}:
            raise ValueError("its encoder is not one")
        if set(plain["parameters"]) != set(cls().get_params()):
            raise ValueError("the parameters of its encoder are not those of one")
        encoder = cls(**plain["parameters"])
        encoder._check_parameters()
        columns = {str(name): _column_of(value) for name, value in plain["columns"]}
        if len(columns) < len(plain["columns"]):
            raise ValueError("two columns of its encoder have the same name")
        order = [(str(name), part) for name, part in plain["order"]]
        # Every part of every column once, those of a column in their order.
        seen = dict.fromkeys(columns, 0)
        for name, part in order:
            if name not in seen or isinstance(part, bool) or part != seen[name]:
                raise ValueError("the features of its encoder are out of order")
            seen[name] += 1
        if any(seen[name] != len(column.parts) for name, column in columns.items()):
            raise ValueError("the features of its encoder are not those of its columns")
        encoder.columns_ = columns
        encoder.order_ = order
        encoder.feature_names_in_ = np.array(list(columns), dtype=object)
        encoder.n_features_in_ = len(columns)
        return encoder

    # --- one column ---

    def _check_parameters(self) -> None:
        if self.impute not in _IMPUTE:
            raise ValueError(f"impute must be one of {', '.join(_IMPUTE)}, got {self.impute!r}")
        for name in ("max_categories", "min_count", "n_buckets", "text_features"):
            validate.integer(name, getattr(self, name), 1, "the default is a good start")
        taken: dict[str, str] = {}
        for role in ("categorical", "text", "date", "drop"):
            value = getattr(self, role)
            if isinstance(value, str) or not all(isinstance(each, str) for each in value):
                raise TypeError(f"{role} must be a list of names of columns, got {value!r}")
            for each in value:
                if taken.setdefault(each, role) != role:
                    raise ValueError(
                        f"column {each!r} is named in {taken[each]} and in {role}; choose one"
                    )

    def _inputs(self, X: Any, *, reset: bool) -> dict[str, Values]:
        """Return the values of the columns that are features, in their order."""
        columns = {name: column for name, column in columns_of(X).items() if name not in self.drop}
        names = list(columns if reset else self.columns_)
        if reset:
            unknown = [
                n
                for role in ("categorical", "text", "date")
                for n in getattr(self, role)
                if n not in columns
            ]
            if unknown:
                raise ValueError(f"X has no column {unknown[0]!r}; it has {', '.join(names[:20])}")
        else:
            self._check_columns(columns, named=hasattr(X, "columns") or isinstance(X, Mapping))
        if not names:
            raise ValueError("X has no column that could be a feature; keep at least one")
        codes = {*self.categorical, *(() if reset else self.text_columns_)}
        inputs = {name: values_of(columns[name], name, codes=name in codes) for name in names}
        if len(next(iter(inputs.values()))) == 0:
            raise ValueError("X has no rows; leave this task out")
        return inputs

    def _check_columns(self, columns: Mapping[str, Any], *, named: bool) -> None:
        """Raise ValueError if columns of earlier tasks are missing."""
        have = len(columns)
        want = len(self.columns_)
        if not named and have != want:
            raise ValueError(
                f"X has {have} features, but TableEncoder is expecting {want} features as input"
            )
        missing = [name for name in self.columns_ if name not in columns]
        if missing:
            raise ValueError(
                f"X lacks {len(missing)} of the {want} columns known so far, e.g. {missing[0]!r};"
                " add it, with empty values where it is unknown"
            )

    def _column(self, name: str, values: Values, rows: int) -> Column:
        """Return the encoder of a column without any value in its first ``rows`` rows."""
        column = self._first_column(name, values)
        if isinstance(column, Empty):
            return Empty(rows)
        return beginning_late(column, rows) if rows else column

    def _first_column(self, name: str, values: Values) -> Column:
        """Return the encoder of a column by its first values."""
        category = Category(self.max_categories, self.min_count, self.n_buckets)
        if name in self.text:
            return Text(self.text_features)
        if name in self.categorical:
            return category
        if name in self.date:
            return Date()
        number = Number(self.impute, origin=math.nan if self.text else 0.0)
        if values.kind == "string":
            format = format_of(values.labels)
            if format is not None:
                return Date(format)
            decimal = decimal_sign(values)
            return category if decimal is None else dataclasses.replace(number, decimal=decimal)
        if values.kind == "time":
            return Date()
        return number if values.kind == "number" else Empty()


def _named_errors(name: str, method: Any, values: Values) -> Any:
    """Return the result of a column's method; its errors name the column."""
    try:
        return method(values)
    except ColumnError as error:
        raise BadValueError(f"column {name!r} {error}", name, error.value) from None


def _plain(column: Column) -> dict[str, Any]:
    """Return a column as plain values for JSON, NaN and infinities as strings."""
    return {
        name: str(value) if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in dataclasses.asdict(column).items()
        if name != "treated"  # strings of rows, which a file does not hold
    }


def _column_of(plain: Any) -> Column:
    """Return the column of the values of ``_plain``; ValueError if they are invalid."""
    if plain is None:  # version 1.0 wrote this for a column without any value
        return Empty()
    if not isinstance(plain, dict) or plain.get("kind") not in KINDS:
        raise ValueError("a column of its encoder is of no known kind")
    kind = KINDS[plain["kind"]]
    empty = kind()
    fields: dict[str, Any] = {}
    for part in dataclasses.fields(kind):
        default = getattr(empty, part.name)
        fields[part.name] = _checked(
            plain.get(part.name, default if part.name in _ADDED else None), default
        )
        if fields[part.name] is None:
            raise ValueError(f"{part.name} of a column of its encoder is invalid")
    if kind in (Number, Date) and fields["parts"][: len(empty.parts)] != empty.parts:
        raise ValueError("parts of a column of its encoder are invalid")
    if (kind is Category and not fields["buckets"] > 0) or (
        kind is Text and len(fields["parts"]) < fields["size"]
    ):
        raise ValueError("buckets of a column of its encoder are invalid")
    if fields.get("late") and MISSING not in fields["parts"]:
        raise ValueError("a late column of its encoder has no indicator of missing values")
    column: Column = kind(**fields)
    return column


def _checked(value: Any, like: Any) -> Any:
    """Return a value from JSON with the type of ``like``; None if it is invalid."""
    if isinstance(like, tuple):
        valid = isinstance(value, list) and all(isinstance(each, str) for each in value)
        return tuple(value) if valid and len(set(value)) == len(value) else None
    if isinstance(like, dict):
        valid = isinstance(value, dict) and all(
            type(each) is int and each >= 0 for each in value.values()
        )
    elif isinstance(like, float):
        return (
            float(value) if value in ("nan", "inf", "-inf") or type(value) in (int, float) else None
        )
    else:
        valid = type(value) is type(like) and (isinstance(value, str) or value >= 0)
    return value if valid else None
