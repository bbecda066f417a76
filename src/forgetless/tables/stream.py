"""A model of a stream of tables: an encoder, a streaming estimator, and its errors on every task
before it learned it.

What happens to a task, in this order:

1. It is compared with the rows before (``changes.py``).
2. It is predicted, and its errors are written down (``scores.py``), beside those of baselines.
3. The encoder learns its columns, which may add features (``encoder.py``).
4. The estimator is widened by as many, and learns the features.

So the errors are those of the very model that goes on, without held-out rows or a second model.

The header of its file has what ``estimators.files`` writes of the estimator, and beside it
``table``: ``objective``; ``encoder``, the state of every column and the order of the features;
``history``, the records of the last 1,000 tasks; of classes ``confusion`` and ``calibration``;
``tasks``, how many were learned; ``about``, columns of task and target and the last file.
"""

import copy
from collections import Counter
from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError

from forgetless import io
from forgetless._validate import Array
from forgetless.estimators import files
from forgetless.estimators.ridge import StreamingRidge
from forgetless.tables import scores
from forgetless.tables.changes import Change, changes
from forgetless.tables.encoder import CHOICES, TableEncoder
from forgetless.tables.features import DENSE, Features, few, learn
from forgetless.tables.kinds import IDENTIFIERS
from forgetless.tables.values import Columns, columns_of, parts_of, rows_of, targets_of

OBJECTIVES = ("next", "all")

BLOCK = 2**27  # no mutant: sums over blocks of any size are the same
"""Bytes of features of a task that are in memory at a time."""

TASKS = 1000
"""Tasks of which the errors are stored."""

SHOWN = 20
"""Changes of a task that are stored."""


class TableModel(BaseEstimator):  # type: ignore[misc]
    """Learns tables task by task, a month or a batch at a time, and predicts the next.

    The target may hold numbers (ridge regression) or classes (text or booleans). Every call of
    ``partial_fit`` predicts the task before it learns it: ``history_`` has the errors, of this very
    model, beside those of the mean and of ridge regression retrained on all rows before.

    Parameters
    ----------
    objective : {"next", "all"}, default "next"
        Small errors on the coming task, by :class:`forgetless.StreamingRidge` with ``adaptive``, or
        on all past tasks together, of which "next" gives the old ones less weight. Classes are
        learned in the same way for both.
    number, categorical, date, drop
        As in :class:`TableEncoder`.

    Attributes
    ----------
    encoder_ : TableEncoder
    estimator_ : StreamingRidge or StreamingRidgeClassifier
    history_ : list of dict
        A record of every task, of the last 1,000: ``task``, ``rows``, ``error`` (mean squared
        error or fraction of wrong rows, None for the first task), and more.
    notes_ : list of str
        How columns were read.
    classes_ : array of str
        The classes, where the target holds some.
    confusion_ : Counter
        Of classes: how often a true one was predicted as another, before the task was learned.

    Examples
    --------
    >>> import pandas as pd
    >>> from forgetless.tables import TableModel
    >>> january = pd.DataFrame({"town": ["Ulm", "Bonn"] * 9, "size": range(18)})
    >>> model = TableModel().partial_fit(january, [1.0 + i for i in range(18)], task="January")
    >>> model = model.partial_fit(january.assign(size=20), [21.0] * 18, task="February")
    >>> model.predict(pd.DataFrame({"town": ["Ulm"], "size": [9]})).round().tolist()
    [10.0]
    >>> [record["task"] for record in model.history_]
    ['January', 'February']
    """

    def __init__(
        self,
        objective: str = "next",
        *,
        number: Any = (),
        categorical: Any = (),
        date: Any = (),
        drop: Any = (),
    ) -> None:
        self.objective = objective
        self.number = number
        self.categorical = categorical
        self.date = date
        self.drop = drop

    # --- learning ---

    def partial_fit(self, X: Any, y: Any, task: Any = None) -> Self:
        """Predict a task, then learn it: all of it or, after an error, nothing.

        Parameters
        ----------
        X : data frame, or mapping of names to columns
        y : array of shape (n,)
            Numbers, or classes as text or booleans.
        task : optional
            Its name in reports; its number if omitted.
        """
        table = columns_of(X)
        y = targets_of(y)
        if not 0 < len(y) == rows_of(table):
            raise ValueError(f"X has {rows_of(table)} rows and y has {len(y)}; one target a row")
        draft = copy.copy(self._knowing(table))
        if not hasattr(self, "encoder_"):
            draft._start(y)
        if (y.dtype.kind == "f") is draft.is_classifier:
            raise ValueError("y held numbers so far and now holds classes, or the other way round")
        draft._learn(table, y, str(draft.n_tasks_ + 1 if task is None else task))
        # One assignment: an error above has changed nothing.
        self.__dict__ = draft.__dict__
        return self

    def _start(self, y: Any) -> None:
        """Begin with an estimator for the kind of the targets."""
        if self.objective not in OBJECTIVES:
            raise ValueError(f"objective must be 'next' or 'all', got {self.objective!r}")
        self.encoder_ = TableEncoder(**{name: getattr(self, name) for name in CHOICES}).start()
        if y.dtype.kind == "f":
            self.estimator_: Any = StreamingRidge(adaptive=self.objective == "next", rank=DENSE)
        else:
            from forgetless.estimators.classifier import StreamingRidgeClassifier

            self.estimator_ = StreamingRidgeClassifier(rank=DENSE)
        self.history_: Any = []
        self.confusion_: Any = Counter()
        self.calibration_ = np.zeros((3, scores.BINS))
        self.n_tasks_ = 0
        self.about_: Any = {}
        self._first: Any = None

    def _learn(self, table: Columns, y: Any, task: str) -> None:
        record = {
            "task": task,
            "rows": len(y),
            "error": None,
            "changes": [],
        }
        if self.n_tasks_:
            record, found = self._predicted(table, y, task)
            if self.is_classifier:
                self.confusion_ = self.confusion_ + scores.pairs(found, y)
                self.calibration_ = self.calibration_ + scores.calibration(found, y)
        encoder = copy.copy(self.encoder_).partial_fit(table)
        if not encoder.order_:
            raise ValueError(
                "no column has a value: nothing to learn from; begin with a task that has some"
            )
        estimator = copy.copy(self.estimator_)
        new = len(encoder.order_) - len(self.encoder_.order_)
        if self.n_tasks_ and new:
            estimator.widen(new)
        self.encoder_ = encoder
        for rows, features in self._features(table):
            learn(estimator, features, y[rows], self.estimator_)
        self.estimator_ = estimator
        self.history_ = [*self.history_, record][-TASKS:]
        self.n_tasks_ += 1
        is_first = self.n_tasks_ == 1 and len(y) <= IDENTIFIERS
        self._first = (table, y, task) if is_first else None

    def _features(self, table: Columns, n_parts: int = 1) -> Iterator[tuple[slice, Features]]:
        """Yield the features of blocks of rows, which fit in memory."""
        n = rows_of(table)
        step = BLOCK // (8 * n_parts * len(self.encoder_.order_))
        for first in range(0, n, step):
            rows = slice(first, first + step)
            # What is known of the cells of a whole table is used again.
            part = table if n <= step else parts_of(table, rows)
            yield rows, self.encoder_.features(part)

    # The encoder says of cells that are too large to be squared which column they are in.
    @np.errstate(over="ignore")
    def _predicted(self, table: Columns, y: Any, task: str) -> tuple[scores.Record, scores.Found]:
        """Return the record of a task that is not learned yet, with its errors and changes, and
        predictions of its rows.
        """
        estimator = self.estimator_
        changed = [list(change) for change in changes(self.encoder_, table, y)[:SHOWN]]
        record = {"task": task, "rows": len(y), "changes": changed}
        parts = [scores.predictions(estimator, each) for _, each in self._features(table)]
        found = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        if self.is_classifier:
            shares = dict(zip(self.classes_.tolist(), estimator.rows_.target, strict=True))
            return record | scores.of_classes(found, y, shares), found
        return record | scores.of_numbers(found, y, float(estimator.rows_.target[0])), found

    def judged(self, X: Any, y: Any, task: Any) -> scores.Record:
        """Return the record that a task would have, without learning it."""
        self._check_learned()
        return self._predicted(columns_of(X), targets_of(y), str(task))[0]

    def _knowing(self, table: Columns) -> "TableModel":
        """Return the model that knows identifiers and names from the first task on, where a second
        task shows them; itself if there are none.

        The rows of the first task are in memory until the second is learned; a model from a file
        knows them from its next task on.
        """
        first = getattr(self, "_first", None)
        if first is None or rows_of(table) < rows_of(first[0]) // 2:
            return self
        notes = self.encoder_.shown_by(table)
        if not 0 < len(notes) < len(self.encoder_.columns_):
            return self
        again: TableModel = clone(self)
        again._start(first[1])
        again.encoder_.start({name: self.encoder_.columns_[name] for name in notes})
        again._learn(*first)
        again.encoder_.notes_ += notes.values()
        again.about_ = self.about_
        again._first = None
        return again

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return predictions (n,), and with ``return_std`` their standard deviations.

        Columns are found by name; missing ones are missing values.
        """
        self._check_learned()
        if return_std and self.is_classifier:
            raise ValueError("return_std needs a target of numbers; classes have predict_proba")
        if not return_std:
            return self._found(X, lambda model, Z: model.predict(Z))
        return tuple(self._found(X, lambda model, Z: model.predict(Z, return_std=True)))

    def predict_proba(self, X: Any) -> Array:
        """Return the probabilities of ``classes_``, (n, k); AttributeError for numbers."""
        self._check_learned()
        return self._found(X, lambda model, Z: model.predict_proba(Z).T).T

    def _found(self, X: Any, predict: Any) -> Array:
        """Return predictions (…, n)."""
        table = columns_of(X)
        if not rows_of(table):
            raise ValueError("X has no rows")
        # A column that is absent is taken for missing values: any table would get predictions.
        if self.encoder_.columns_.keys().isdisjoint(table):
            raise ValueError(
                f"X has no column of the model: it needs {list(self.encoder_.columns_)[:30]}"
            )
        model = self._knowing(table)
        # New memory for large blocks would take longer than the products.
        found = [
            few(predict)(model.estimator_, features.toarray())
            # no mutant: predictions of blocks of any size are the same
            for _, features in model._features(table, 8)
        ]
        return np.concatenate(found, axis=-1)

    def _check_learned(self) -> None:
        if not hasattr(self, "encoder_"):
            raise NotFittedError("this TableModel has learned no task yet; call partial_fit first")

    # --- what it knows ---

    @property
    def is_classifier(self) -> bool:
        """Whether the target holds classes."""
        return hasattr(self.estimator_, "predict_proba")

    @property
    def classes_(self) -> Array:
        """The classes."""
        return self.estimator_.classes_

    @property
    def notes_(self) -> list[str]:
        """How columns were read, and other things to know."""
        return self.encoder_.notes_

    def alarms(self) -> list[scores.Alarm]:
        """Return the alarms of the tasks learned."""
        self._check_learned()
        return scores.alarms(self.history_, self.objective)

    def changes(self, X: Any, y: Any = None) -> list[Change]:
        """Return what a table has that the rows learned have not, without learning it."""
        self._check_learned()
        return changes(self.encoder_, X, y)

    def to_sklearn(self) -> Any:
        """Return a linear model of scikit-learn on the features of ``encoder_.transform(table)``:
        ``LinearRegression``, or ``LogisticRegression`` for classes.

        It has their names in ``feature_names_in_``, and predicts without forgetless, from which
        other tools convert it, e.g. to ONNX. It does not hold features in the range learned.
        """
        self._check_learned()
        model = self.estimator_.to_sklearn()
        model.feature_names_in_ = self.encoder_.get_feature_names_out()
        return model

    def save(self, path: Any) -> None:
        """Write the model to a safetensors file; :func:`forgetless.load` reads it.

        Labels of categories with fewer than five rows are stored as hashes with a key of the file.
        """
        self._check_learned()
        document = files.to_document(self.estimator_)
        table = {
            "objective": self.objective,
            "encoder": self.encoder_.to_plain(),
            "history": self.history_,
            "confusion": [[*pair, count] for pair, count in self.confusion_.items()],
            "calibration": self.calibration_.tolist(),
            "tasks": self.n_tasks_,
            "about": self.about_,
        }
        io.write(path, "table-model", {**document.header, "table": table}, document.arrays)


def from_document(document: io.Document) -> TableModel:
    """Return the model of a document; ValueError where a value is not valid.

    Whoever writes such a file can write any numbers, so that everything that is read is checked.
    """
    table = document.header["table"]
    estimator = files.from_document(document)
    encoder = TableEncoder.from_plain(table["encoder"])
    is_known = type(estimator).__name__ in ("StreamingRidge", "StreamingRidgeClassifier")
    if not is_known or len(encoder.order_) != estimator.n_features_in_:
        raise ValueError("its encoder and its estimator do not fit together")
    if table["objective"] not in OBJECTIVES:
        raise ValueError(f"its objective is {table['objective']!r}")
    model = TableModel(table["objective"], **{name: getattr(encoder, name) for name in CHOICES})
    model.encoder_ = encoder
    model.estimator_ = estimator
    model.history_ = [scores.checked(each) for each in table["history"]]
    model.confusion_ = Counter({(str(t), str(p)): int(n) for t, p, n in table["confusion"]})
    model.calibration_ = np.array(table["calibration"], dtype=float).reshape(3, scores.BINS)
    model.n_tasks_ = int(table["tasks"])
    model.about_ = dict(table["about"])
    return model
