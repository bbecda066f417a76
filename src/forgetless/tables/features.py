"""Features of a table: what the columns have in common, and the features of rows as numbers and
indicators.

A column has ``parts``, each of which is a feature. Parts are only added: a feature never changes
its place, and one that is added later was zero in all rows before, so that a model needs one
method besides ``partial_fit``, ``widen(count)``. The kinds of columns are in ``kinds.py``.

A column that begins late, because its first tasks hold no value or because a later file has it for
the first time, is zero where it has no value, as it was before, with a feature that says where it
has one. Any other column has a feature that says where the value is missing.

A column of 40 labels is 40 features, of which one is one in every row. Predictions and statistics
of such rows need no matrix (n, d): with the numbers D (n, p) and the sparse indicators S (n, q),

    X w + b = D w_D + S w_S + b,        XᵀX = [DᵀD, DᵀS; SᵀD, SᵀS],

where SᵀD are sums of numbers by label and SᵀS counts of pairs of labels. A row has one indicator a
column, so that k columns of categories cost n k² additions instead of n q² multiplications. On
tasks of 84,000 rows with 60 features, of which 50 are indicators, this takes a fifth of the time of
a matrix.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from forgetless._running import few_threads, gram_work
from forgetless._validate import Array
from forgetless.estimators.inputs import Linear
from forgetless.estimators.moments import Dense
from forgetless.estimators.rows import Rows
from forgetless.tables.values import Values

MISSING = " is missing"
"""The part that is one where a column has no value."""

PRESENT = " is present"
"""The part that is one where a late column has a value."""

MANY = 1000  # no mutant: with few rows as with many the same is learned
"""Rows from which on their statistics are computed from labels and numbers, without a matrix."""

DENSE = 2000
"""Features up to which all second moments are stored: 32 MB a memory."""

Parts = tuple[dict[str, Any], Array]
"""Parts that are numbers, by name, and the place of the part that is one in each row, −1 for none;
None where a column has no such parts."""


@dataclass(eq=False)
class Column(ABC):
    """What all kinds share: parts, and the number of rows with and without a value.

    Parameters
    ----------
    name : str
    is_late : bool
        Whether rows have been learned before the column began.

    Attributes
    ----------
    parts : list of str
        The features of the column, by what stands behind its name: "" is the number itself, "=Ulm"
        the indicator of a label. New ones are appended.
    rows, missing : int
        Rows learned, and those of them without a value that can be read.
    """

    kind: ClassVar[str] = ""

    unread: ClassVar[float] = 1.0
    """Fraction of the cells of a task that may hold text of another kind: taken for missing."""

    first: ClassVar[Any] = ()
    """Parts from the first row on."""

    name: str
    is_late: bool = False
    parts: list[str] = field(default_factory=list)
    rows: int = 0
    missing: int = 0

    def __post_init__(self) -> None:
        start = [PRESENT, *self.first] if self.is_late else self.first
        # A column of a file has its parts.
        self.parts = self.parts or list(start)

    def grow(self, *parts: str) -> None:
        """Add the parts that are not there yet, behind the others."""
        self.parts += [part for part in parts if part not in self.parts]

    @abstractmethod
    def read(self, values: Values) -> Array:
        """Return what the column holds as floats (n,), NaN where nothing can be read."""

    @abstractmethod
    def update(self, values: Values, present: Array) -> None:
        """Learn the values that are there, of which there is one at least."""

    @abstractmethod
    def split(self, values: Values) -> Parts:
        """Return the parts of rows, without those that say where values are.

        Rows without a value have what stands for a missing one: the mean of a number, no indicator
        of a category.
        """

    def shown_by(self, values: Values) -> str:
        """Return a note if a task shows of the column what the tasks before it could not."""
        return ""

    def state(self) -> dict[str, Any]:
        """Return what a file holds of the column, as JSON values."""
        return vars(self)

    def gone(self, values: Values) -> Array:
        """Return where a column has no value that can be read, (n,).

        A few cells of another kind, such as "see note" among numbers, are missing values. More of
        them than the fraction ``unread`` are an error: the column has changed its kind.
        """
        # Looked for by the comparison with earlier rows, by learning and by encoding.
        if self.kind not in values.memo:
            found = self.read(values)
            unread = values.unread(found)
            if unread and len(unread) > self.unread * (~values.missing).sum():
                raise ValueError(
                    f"column {self.name!r} held {self.kind}s so far and now holds"
                    f" {unread[0]!r:.40}; correct the file, or fit a new model with --drop"
                    f" {self.name}"
                )
            values.memo[self.kind] = np.isnan(found)
        return values.memo[self.kind]

    def learn(self, values: Values) -> None:
        """Learn the column of a task; the first gap adds a feature, unless the column is late."""
        gone = self.gone(values)
        self.rows += len(gone)
        self.missing += int(gone.sum())
        # A task without a value says nothing of the values.
        if not gone.all():
            self.update(values, self.read(values)[~gone])
        if gone.any() and not self.is_late:
            self.grow(MISSING)

    def encoded(self, values: Values) -> Parts:
        """Return all parts.

        A late column was zero in the rows before it began, and is zero where it has no value, so
        that both are alike for a model; only then its features could be added without looking at
        those rows again.
        """
        gone = self.gone(values)
        numbers, places = self.split(values)
        if self.is_late:
            numbers = {part: np.where(gone, 0.0, each) for part, each in numbers.items()}
            places = None if places is None else np.where(gone, -1, places)
        marks = {MISSING: gone, PRESENT: ~gone}
        return numbers | {part: marks[part] for part in self.parts if part in marks}, places


# --- features of rows ---


class Features(NamedTuple):
    """The features of n rows, of which d are known.

    Attributes
    ----------
    shape : (n, d)
    numbers : array of shape (n, p)
    at : array of shape (p,)
        Their places among the d features.
    ones : sparse matrix of shape (n, d + 1)
        The features that are one for a label; the last column stands for no label.
    """

    shape: Any
    numbers: Array
    at: Array
    ones: Any

    def toarray(self, step: int = 1) -> Array:
        """Return the features as a matrix (n, d), or those of every ``step``-th row from the first
        one on.
        """
        # Columns are written, compared and added up one by one, so each is in one piece.
        found = self.ones[::step].toarray(order="F")[:, :-1]
        found[:, self.at] = self.numbers[::step]
        return found

    def predict(self, model: Linear) -> Array:
        """Return the predictions (n,) of a linear model, which holds features in a range.

        An indicator s is zero or one. With both held in the range, its share of a prediction is

            w · held(s) = w · held(0) + s · w · (held(1) − held(0)),

        a constant, and a step in the rows that have the label.
        """
        # Limits of all features, where the model has one for all.
        coef = model.coef[:, 0]
        low = np.resize(model.low, len(coef))
        high = np.resize(model.high, len(coef))
        zero = np.clip(0.0, low, high)
        # The last step is that of rows without a label.
        one = np.clip(1.0, low, high)
        steps = np.append((one - zero) * coef, 0.0)
        zero[self.at] = 0.0
        held = np.clip(self.numbers, low[self.at], high[self.at])
        constant = zero @ coef + model.intercept
        return held @ coef[self.at] + self.ones @ steps + constant

    def rows(self, y: Array) -> Rows:
        """Return the statistics of the rows with targets y (n,); there must be a number.

        All are sums around means. The mean of an indicator is the share p of its label, and with
        the counts C = SᵀS

            Σ (s − p)(s − p)ᵀ = C − n p pᵀ,        Σ (s − p)(x − x̄)ᵀ = Sᵀ(X − x̄),

        where the last is a sum of centred numbers by label.
        """
        # Those of the numbers, as of any matrix.
        own = Rows.of(self.numbers, y[:, None], dense=len(self.at))
        S = self.ones
        counts = (S.T @ S).toarray()[:-1, :-1]
        shares = counts.diagonal() / own.n
        centred = np.column_stack([self.numbers - own.mean, y - own.target])
        sums = (S.T @ centred)[:-1]
        gram = counts - own.n * np.outer(shares, shares)
        gram[self.at] = sums[:, :-1].T
        gram[:, self.at] = sums[:, :-1]
        gram[np.ix_(self.at, self.at)] = own.gram.dense().matrix

        # Rows of numbers are zero in S, and are written over.
        def both(of_indicators: Array, of_numbers: Array) -> Array:
            found = 1.0 * of_indicators
            found[self.at] = of_numbers
            return found

        return replace(
            own,
            mean=both(shares, own.mean),
            gram=Dense(gram),
            cross=both(sums[:, -1:], own.cross),
            # An indicator is never below one if all rows have the label, and zero if none has it.
            low=both(shares == 1.0, own.low),
            high=both(shares > 0.0, own.high),
        )


few = few_threads(lambda _, features, *__: gram_work(features.shape))
"""Keeps predictions of an estimator to one thread where they are short."""


@few
def learn(
    estimator: Any,
    features: Features,
    y: Any,
    before: Any,
) -> None:
    """Learn rows, by their statistics where there are many.

    Parameters
    ----------
    estimator : StreamingRidge or StreamingRidgeClassifier
        Which learns them.
    features : Features of n rows
    y : array of shape (n,)
    before : the estimator that has predicted the task
        Only where no feature leaves its range are squared errors those of a linear function, which
        statistics give.
    """
    n, d = features.shape
    # The first task has no predictions, and a new feature is outside of the range so far.
    is_known = getattr(before, "n_features_in_", 0) == d <= DENSE
    if is_known and y.dtype.kind == "f" and features.at.size and n >= MANY:
        rows = features.rows(y)
        # Errors of predictions outside of the range do not follow from statistics.
        if linear(before).allows(rows.low, rows.high):
            estimator.partial_fit_rows(rows)
            return
    # Few rows, classes, or features that leave their range: with the matrix.
    estimator.partial_fit(features.toarray(), y)


def linear(estimator: Any) -> Linear:
    """Return the model by which an estimator of numbers predicts."""
    model = Linear(estimator.coef_[:, None], np.atleast_1d(estimator.intercept_))
    return model.guarded(estimator.rows_, estimator.guard)
