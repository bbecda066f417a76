"""An ordinary table as numbers, task by task: what ``fl.tables.TableEncoder`` does."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import check_is_fitted

from forgetless._core import validate
from forgetless._core.frames import Values, columns_of, values_of
from forgetless.estimators.counted import Encoded
from forgetless.reporting.table import Table
from forgetless.reporting.text import printable
from forgetless.tables._columns import KINDS, Category, Column, Date, Number, RefusedError, Text
from forgetless.tables._dates import format_of

IMPUTE = ("mean", "zero", "error")

WIDEST = 2000
"""Features of categories up to which rows are dense, unless a text is among the columns."""


class TableEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Numbers from a table of numbers, truth values, categories, dates, texts and gaps, learned task by task.

    A feature keeps its place for good: what comes later, such as a category not met before, is added behind the others.
    ``fl.tables.make_pipeline`` tells the model of it; until then it would have been zero in all rows.

    Parameters
    ----------
    categorical, text, date, drop : sequences of str
        Columns that are to be taken for categories, for texts (hashed words and pairs of words) or for dates, and those
        left out. Of all others the first task decides: numbers and truth values are numbers, words are dates where
        all of them can be read as such, else categories.
    impute : {"mean", "zero", "error"}, default "mean"
        What a missing or infinite number becomes: the mean of those so far, 0, or an error. A feature of its own says
        where something is missing, from the first time on.
    max_categories : int, default 100
        How many categories of a column may have features of their own; others are hashed to ``n_buckets`` features.
    min_count : int, default 5
        Rows after which a category gets its own feature; until then, and where it was never met, it is one of the
        "(other)".
    n_buckets : int, default 32
    text_features : int, default 1024
        Buckets of the words of a text.

    Attributes
    ----------
    feature_names_in_ : array of str
    n_features_in_ : int
    words_ : list of str
        Columns whose values count as they are written, where a file could also be read as numbers.

    Examples
    --------
    >>> import forgetless as fl
    >>> table = {"size": [1.0, None, 3.0], "town": ["Ulm", "Bonn", "Ulm"], "day": ["2024-01-01", "2024-01-02", None]}
    >>> encoder = fl.tables.TableEncoder(min_count=1).partial_fit(table)
    >>> encoder.get_feature_names_out()[:4].tolist()
    ['size', 'size is missing', 'town=Ulm', 'town=Bonn']
    >>> encoder.transform(table)[:, :4].tolist()
    [[1.0, 0.0, 1.0, 0.0], [2.0, 1.0, 0.0, 1.0], [3.0, 0.0, 1.0, 0.0]]
    """

    def __init__(
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
        """Forget everything and learn of the columns of a table; y is not used."""
        for name in ("columns_", "order_", "feature_names_in_", "n_features_in_"):
            if hasattr(self, name):
                delattr(self, name)
        return self.partial_fit(X)

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Learn of the columns of one task; features known so far keep their places.

        Parameters
        ----------
        X : table
            Of pandas, polars, pyarrow or another library that narwhals knows, a dict of lists, or an array.
        y : ignored

        Returns
        -------
        self
        """
        self._check_parameters()
        given = self._given(X, reset=not hasattr(self, "columns_"))
        known: dict[str, Column | None] = getattr(self, "columns_", dict.fromkeys(given))
        order = list(getattr(self, "order_", ()))
        made: dict[str, Column | None] = {}
        for name, values in given.items():
            before = known[name]
            column = self._column(name, values) if before is None else before
            made[name] = column if column is None else _told(name, column.learned, values)
            had = 0 if before is None else len(before.parts)
            now = made[name]
            order += [(name, part) for part in range(had, 0 if now is None else len(now.parts))]
        self.columns_, self.order_ = made, order
        self.feature_names_in_ = np.array(list(given), dtype=object)
        self.n_features_in_ = len(given)
        return self

    def transform(self, X: Any) -> Any:
        """Return the features of the rows of a table.

        Returns
        -------
        array of shape (n, d), or a SciPy sparse array where there are texts or more than 2000 features of categories.
        Beside texts numbers are told from their mean in the first task, since models do not centre sparse rows.
        """
        return self.encoded(X).whole()

    @property
    def gives_tables(self) -> bool:
        """Whether ``set_output`` asks for tables rather than arrays."""
        return str(_get_output_config("transform", self)["dense"]) != "default"

    def encoded(self, X: Any) -> Encoded:
        """Return what ``transform`` returns before it is written down: rows can be asked for some at a time."""
        check_is_fitted(self, "columns_")
        given = self._given(X, reset=False)
        places: dict[str, list[int]] = {name: [] for name in self.columns_}
        for place, (name, _) in enumerate(self.order_):
            places[name].append(place)
        pieces = [
            (piece, np.array(places[name]))
            for name, column in self.columns_.items()
            if column is not None
            for piece in _told(name, column.encode, given[name])
        ]
        n, d = len(next(iter(given.values()))), len(self.order_)
        numbers = sum(len(column.parts) for column in self.columns_.values() if isinstance(column, Number | Date))
        wide = d - numbers > WIDEST or any(isinstance(column, Text) for column in self.columns_.values())
        return Encoded((n, d), pieces, wide)

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Return the names of the features: of the column, and what of it."""
        check_is_fitted(self, "columns_")
        parts = {name: () if column is None else column.parts for name, column in self.columns_.items()}
        return np.array([name + parts[name][part] for name, part in self.order_], dtype=object)

    def summary(self) -> Table:
        """Return what became of each column, as a table."""
        check_is_fitted(self, "columns_")
        rows = [
            (printable(name, 40), "empty", 0, "no value so far")
            if column is None
            else (printable(name, 40), column.kind, len(column.parts), printable(column.note(), 120))
            for name, column in self.columns_.items()
        ]
        rows += [(printable(name, 40), "left out", 0, "") for name in self.drop]
        names, kinds, counts, notes = (list(part) for part in zip(*rows, strict=True)) if rows else ([], [], [], [])
        return Table("Columns", {"column": names, "taken for": kinds, "features": counts, "note": notes})

    def doubts(self) -> list[str]:
        """Return sentences about columns that may be something else than what they were taken for."""
        check_is_fitted(self, "columns_")
        found = [
            name
            for name, column in self.columns_.items()
            if isinstance(column, Category) and column.doubtful and name not in self.categorical
        ]
        return [
            f"column {printable(name, 40)!r} was taken for categories, but most of its values look like numbers: leave "
            "gaps empty and write 1234.5, without thousands, $ or %; or say that it is categorical"
            for name in found
        ]

    def groups(self) -> list[list[int]]:
        """Return the places of features that add up to 1 in every row: the categories of a column, days of the week."""
        check_is_fitted(self, "columns_")
        found: dict[str, list[int]] = {}
        for place, (name, part) in enumerate(self.order_):
            column = self.columns_[name]
            if column is not None and column.parts[part] in column.exclusive:
                found.setdefault(name, []).append(place)
        return list(found.values())

    @property
    def words_(self) -> list[str]:
        """Columns whose values are taken as they are written."""
        check_is_fitted(self, "columns_")
        return [name for name, column in self.columns_.items() if column is not None and column.kind != "number"]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.categorical = tags.input_tags.string = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "columns_")

    # --- files ---

    def to_plain(self) -> dict[str, Any]:
        """Return all of it as JSON can hold it."""
        check_is_fitted(self, "columns_")
        columns = [  # a list, since the order of columns decides where features that come later are placed
            [name, None if column is None else {"kind": column.kind, **_plain(column)}]
            for name, column in self.columns_.items()
        ]
        parameters = {
            name: list(value) if isinstance(value, Sequence) and not isinstance(value, str) else value
            for name, value in self.get_params(deep=False).items()
        }
        return {"parameters": parameters, "columns": columns, "order": [list(each) for each in self.order_]}

    @classmethod
    def from_plain(cls, plain: Any) -> Self:
        """Return the encoder that ``to_plain`` described; ValueError where it is none."""
        if not isinstance(plain, dict) or set(plain) != {"parameters", "columns", "order"}:
            raise ValueError("its encoder is not one")
        if set(plain["parameters"]) != set(cls().get_params()):
            raise ValueError("the parameters of its encoder are not those of one")
        made = cls(**plain["parameters"])
        made._check_parameters()
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
        if any(seen[name] != (0 if column is None else len(column.parts)) for name, column in columns.items()):
            raise ValueError("the features of its encoder are not those of its columns")
        made.columns_, made.order_ = columns, order
        made.feature_names_in_ = np.array(list(columns), dtype=object)
        made.n_features_in_ = len(columns)
        return made

    # --- one column ---

    def _check_parameters(self) -> None:
        if self.impute not in IMPUTE:
            raise ValueError(f"impute must be one of {', '.join(IMPUTE)}, got {self.impute!r}")
        for name in ("max_categories", "min_count", "n_buckets", "text_features"):
            validate.integer(name, getattr(self, name), 1, "the default is a good start")
        taken: dict[str, str] = {}
        for role in ("categorical", "text", "date", "drop"):
            value = getattr(self, role)
            if isinstance(value, str) or not all(isinstance(each, str) for each in value):
                raise TypeError(f"{role} must be a list of names of columns, got {value!r}")
            for each in value:
                if taken.setdefault(each, role) != role:
                    raise ValueError(f"column {each!r} is named in {taken[each]} and in {role}; choose one")

    def _given(self, X: Any, *, reset: bool) -> dict[str, Values]:
        """Return the columns that count, in their order."""
        found = {name: column for name, column in columns_of(X).items() if name not in self.drop}
        if reset:
            unknown = [n for role in ("categorical", "text", "date") for n in getattr(self, role) if n not in found]
            if unknown:
                raise ValueError(f"X has no column {unknown[0]!r}; it has {', '.join(list(found)[:20])}")
            names = list(found)
        else:
            names = list(self.columns_)
            if not hasattr(X, "columns") and not isinstance(X, Mapping) and len(found) != len(names):
                have, want = len(found), len(names)
                raise ValueError(f"X has {have} features, but TableEncoder is expecting {want} features as input")
            missing = [name for name in names if name not in found]
            if missing:
                raise ValueError(
                    f"X lacks {len(missing)} of the {len(names)} columns known so far, e.g. {missing[0]!r}; add it, "
                    "with empty values where it is unknown"
                )
        if not names:
            raise ValueError("X has no column that could be a feature; keep at least one")
        codes = {*self.categorical, *(() if reset else self.words_)}
        given = {name: values_of(found[name], name, codes=name in codes) for name in names}
        if len(next(iter(given.values()))) == 0:
            raise ValueError("X has no rows; leave this task out")
        return given

    def _column(self, name: str, values: Values) -> Column | None:
        """Return what a column is when it is first met; None while all of its values are missing."""
        category = Category(self.max_categories, self.min_count, self.n_buckets)
        if name in self.text:
            return Text(self.text_features)
        if name in self.categorical:
            return category
        if name in self.date:
            return Date()
        if values.kind == "number":
            there = values.numbers[np.isfinite(values.numbers)]
            return Number(self.impute, origin=float(np.sum(there / len(there))) if self.text and len(there) else 0.0)
        if values.kind == "time":
            return Date()
        if values.kind == "string":
            format = format_of(values.labels)
            return category if format is None else Date(format)
        return None


def _told(name: str, learn: Any, values: Values) -> Any:
    try:
        return learn(values)
    except RefusedError as error:
        raise ValueError(f"column {name!r} {error}") from None


def _plain(column: Column) -> dict[str, Any]:
    """Return a column as JSON can hold it, which knows neither NaN nor infinities."""
    found = dataclasses.asdict(column)
    return {name: _word(value) if isinstance(value, float) else value for name, value in found.items()}


def _word(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)


def _column_of(plain: Any) -> Column | None:
    """Return the column that ``_plain`` described; ValueError where its values are of other kinds."""
    if plain is None:
        return None
    if not isinstance(plain, dict) or plain.get("kind") not in KINDS:
        raise ValueError("a column of its encoder is of no known kind")
    kind = KINDS[plain["kind"]]
    empty = kind()
    found: dict[str, Any] = {}
    for part in dataclasses.fields(kind):
        value: Any = plain.get(part.name)
        like = getattr(empty, part.name)
        if isinstance(like, tuple):
            good = isinstance(value, list) and all(isinstance(each, str) for each in value)
            value = tuple(value) if good else value
            good = good and len(set(value)) == len(value)
        elif isinstance(like, dict):
            good = isinstance(value, dict) and all(type(each) is int and each >= 0 for each in value.values())
        elif isinstance(like, float):
            value = float(value) if value in ("nan", "inf", "-inf") or type(value) in (int, float) else value
            good = isinstance(value, float)
        else:
            good = type(value) is type(like) and (isinstance(value, str) or value >= 0)
        if not good:
            raise ValueError(f"{part.name} of a column of its encoder is not what it must be")
        found[part.name] = value
    if kind in (Number, Date) and found["parts"][: len(empty.parts)] != empty.parts:
        raise ValueError("parts of a column of its encoder are not what they must be")
    if (kind is Category and not found["buckets"] > 0) or (kind is Text and len(found["parts"]) < found["size"]):
        raise ValueError("buckets of a column of its encoder are not what they must be")
    made: Column = kind(**found)
    return made
