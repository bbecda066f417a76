"""Classification on a stream: ridge regression on one-hot targets, with fitted probabilities.

The scores of a row are the predictions of its targets, and its probabilities softmax(scores/T). A
class that comes later had the target 0 in all rows before: another column of zeros in the
statistics, which is what declaring it at once would have given.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.special import softmax

from forgetless._validate import Array, Floats
from forgetless.estimators import records
from forgetless.estimators.base import Before
from forgetless.estimators.labels import StreamingClassifier
from forgetless.estimators.linear import Linear
from forgetless.estimators.memory import Memory, Remembering, learned
from forgetless.estimators.temperature import MOST, Temperature


class ClassState(NamedTuple):
    """Everything learned; ``before`` has the weights of rows that were predicted wrongly."""

    classes: Array
    memory: Memory
    temperature: Temperature
    before: Before


class StreamingRidgeClassifier(StreamingClassifier, Remembering):
    """Classification on a stream by ridge regression on one-hot targets of all rows so far.

    Classes may come at any time: in rows before, targets of a new class were zero. Take
    :class:`StreamingLogistic` where norms of rows differ much or two classes are nearly separable.

    Parameters
    ----------
    alpha, rank, standardize, guard
        As in :class:`StreamingRidge`.

    Attributes
    ----------
    classes_ : array of shape (k,)
    coef_, intercept_ : arrays of shape (k, d) and (k,)
    alpha_, rows_, retained_fraction_
        As of :class:`StreamingRidge`; ``rows_.target`` are the shares of the classes.
    temperature_ : float
        Scores are divided by it before the softmax of ``predict_proba``.
    n_tasks_seen_ : int
    prequential_error_ : float
        Fraction of rows that were predicted wrongly before they were learned, from the second task
        on.

    Examples
    --------
    >>> import forgetless as fl
    >>> X = [[0.0], [1.0], [4.0], [5.0]]
    >>> model = fl.StreamingRidgeClassifier().partial_fit(X, ["a", "a", "b", "b"])
    >>> model.partial_fit([[9.0], [10.0]], ["c", "c"]).predict([[0.0], [10.0]]).tolist()
    ['a', 'c']
    """

    _fixed = ("rank", "standardize")

    def __init__(
        self,
        alpha: float | None = None,
        *,
        rank: int | None = None,
        standardize: bool = True,
        guard: float | None = 1.0,
    ) -> None:
        self.alpha = alpha
        self.rank = rank
        self.standardize = standardize
        self.guard = guard

    def _learned(self, X: Any, targets: Floats, weight: Floats, every: Array) -> ClassState:
        state: ClassState | None = self._state
        options = self._options()
        temperature = Temperature()
        before = Before()
        memory = None
        some = slice(None, None, -(-len(targets) // MOST))  # every row of small tasks
        sample = targets[some]
        if state is not None:
            # Where each class was before; −1 for those that are new, whose targets were zero.
            at = np.searchsorted(state.classes, every)
            place = np.where(np.isin(every, state.classes), at, -1)
            memory = records.with_targets(state.memory, place)
            # Before the task is learned: what scores say of new rows.
            scores = self._of(memory, every).predict(X)
            before = self._judged(scores, targets, weight, memory.rows.n)
            # Rows of new classes say nothing of the others.
            is_known = sample @ (memory.rows.target > 0)
            temperature = state.temperature.decayed()
            temperature = temperature.plus(scores[some], sample, weight[some] * is_known)
        memory = learned(memory, options.blocks(X, targets, weight), options)
        # A residual as if its row had been left out (GCV): divided by 1 − the mean leverage.
        left = 1.0 - min(memory.rows.mean_leverage(memory.fit), 0.9)
        after = self._of(memory, every).predict(X[some])
        left_out = sample - (sample - after) / left
        temperature = temperature.plus(left_out, sample, weight[some])
        return ClassState(every, memory, temperature, before)

    def _of(self, memory: Memory, classes: Array) -> Linear:
        """Return the model of the solution of a memory."""
        return Linear(*memory.fit[:2], classes=classes).guarded(memory.rows, self.guard)

    def _linear(self) -> Linear:
        state: ClassState = self._read()
        return self._of(state.memory, state.classes)

    def decision_function(self, X: Any) -> Array:
        """Return the scores (n, k); for two classes the second minus the first, (n,)."""
        scores = self._values(X)
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def predict_proba(self, X: Any) -> Array:
        """Return softmax(scores/T), of shape (n, k)."""
        return softmax(self._values(X) / self.temperature_, axis=1)

    def to_sklearn(self) -> Any:
        """Return a fitted ``LogisticRegression`` with the same probabilities, without the guard."""
        model = super().to_sklearn()
        model.coef_ = model.coef_ / self.temperature_
        model.intercept_ = model.intercept_ / self.temperature_
        if len(self.classes_) == 2:  # one row, of the second class against the first
            model.coef_ = np.diff(model.coef_, axis=0)
            model.intercept_ = np.diff(model.intercept_)
        return model

    @property
    def temperature_(self) -> float:
        """T of the probabilities."""
        return float(self._fitted().temperature.value)
