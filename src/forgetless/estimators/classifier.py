"""Classification on a stream: ridge regression on one-hot targets, with fitted probabilities."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from forgetless._threads import few_threads, gram_work
from forgetless._validate import Floats
from forgetless.estimators import tasks
from forgetless.estimators.base import Before, Remembering
from forgetless.estimators.labels import StreamingClassifier
from forgetless.estimators.memory import Memory, Options, learned
from forgetless.estimators.ranges import Guard
from forgetless.estimators.temperature import MOST, Temperature, softmax


class ClassState(NamedTuple):
    """Everything learned; ``before`` has the weights of rows that were predicted wrongly."""

    classes: NDArray[Any]
    counts: Floats
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
    class_counts_ : array of shape (k,)
        Sum of the weights of the rows of each.
    coef_, intercept_ : arrays of shape (k, d) and (k,)
    alpha_, rows_, retained_fraction_
        As of :class:`StreamingRidge`.
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

    _states = ClassState
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

    def _widened(self, state: ClassState, count: int) -> dict[str, Any]:
        return {"memory": state.memory.widened(count, self._options())}

    def _options(self) -> Options:
        return Options(self._strength(), self.rank, True, bool(self.standardize))

    @few_threads(lambda *call: gram_work(call[1].shape))
    def _learned(self, X: Any, targets: Floats, weight: Any, every: NDArray[Any]) -> ClassState:
        state = self._state
        options = self._options()
        weights = np.ones(len(targets)) if weight is None else weight
        counts = np.zeros(len(every))
        temperature = Temperature()
        before = Before()
        memory = None
        some = slice(None, None, -(-len(targets) // MOST))  # every row of small tasks
        if state is not None:
            # Where each class was before; −1 for those that are new, whose targets were zero.
            place = np.searchsorted(state.classes, every)
            place = np.where(np.isin(every, state.classes), place, -1)
            counts = np.where(place >= 0, state.counts[place], 0.0)
            rows, fit = state.memory
            memory = Memory(rows.with_targets(place), fit.with_targets(place))
            # Before the task is learned: what scores say of new rows.
            scores = _scores(X, memory, self.guard)
            wrong = scores.argmax(axis=1) != targets.argmax(axis=1)
            n = float(weights.sum())
            before = state.before.plus(float(weights @ wrong), n, rows.n)
            # Rows of new classes say nothing of the others.
            seen = targets[some] @ (counts > 0) > 0
            temperature = state.temperature.decayed()
            temperature = temperature.plus(
                scores[some][seen], targets[some][seen], weights[some][seen]
            )
        memory = learned(memory, options.blocks(X, targets, weight), options)
        after = _scores(X[some], memory, self.guard)
        # A residual as if its row had been left out (GCV).
        freedom = 1.0 + memory.rows.freedom(memory.fit)
        left = 1.0 - min(freedom / max(memory.rows.n, 1.0), 0.9)
        left_out = targets[some] - (targets[some] - after) / left
        temperature = temperature.plus(left_out, targets[some], weights[some])
        counts = counts + weights @ targets
        return ClassState(every, counts, memory, temperature, before)

    @few_threads(lambda _: 0.0)
    def _solved_now(self) -> tuple[ClassState, Memory]:
        state: ClassState = self._state
        return state, state.memory.current(self._options())

    def decision_function(self, X: Any) -> NDArray[Any]:
        """Return the scores (n, k); for two classes the second minus the first, (n,)."""
        scores = self._scores(X)
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def predict_proba(self, X: Any) -> Floats:
        """Return softmax(scores/T), of shape (n, k)."""
        return softmax(self._scores(X) / self.temperature_)

    def _scores(self, X: Any) -> Floats:
        _, memory = self._solved()
        X = tasks.rows(self, X, is_guarded=self.guard is not None)
        return _scores(X, memory, self.guard)

    def _linear(self) -> dict[str, Any]:
        coef = self.coef_ / self.temperature_
        intercept = self.intercept_ / self.temperature_
        if len(self.classes_) == 2:  # one row, of the second class against the first
            coef = coef[1:] - coef[:1]
            intercept = intercept[1:] - intercept[:1]
        return {"coef_": coef, "intercept_": intercept, "classes_": self.classes_}

    @property
    def class_counts_(self) -> Floats:
        """Sum of the weights of the rows of each class."""
        counts: Floats = self._fitted().counts
        return counts

    @property
    def temperature_(self) -> float:
        """T of the probabilities."""
        return float(self._fitted().temperature.value)

    @property
    def coef_(self) -> Floats:
        """Coefficients of the scores."""
        return np.asarray(self._solved()[1].fit.coef.T)

    @property
    def intercept_(self) -> Floats:
        """Intercepts of the scores."""
        return np.asarray(self._solved()[1].fit.intercept)


def _scores(X: Any, memory: Memory, slack: float | None) -> Floats:
    guard = Guard.of(memory.rows, slack)
    return guard.predict(X, memory.fit.coef, memory.fit.intercept)
