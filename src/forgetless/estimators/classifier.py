"""Classification on a stream: ridge regression on one-hot targets, with fitted probabilities.

A class is column j of the targets Y, Y_ij = 1 where row i has it and 0 elsewhere. A class that
comes later had the target 0 in all rows before: another column of zeros in the statistics, which is
what declaring it at once would have given. The class of a row is that of the largest score. Two
classes may have one score, that of the second: positive means the second.

The scores of ``StreamingRidgeClassifier`` are the predictions of these targets, and its
probabilities softmax(scores/T) with a T that is fitted on the stream.
"""

from abc import abstractmethod
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.special import log_softmax, softmax
from sklearn.base import ClassifierMixin
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from forgetless._running import few_threads, gram_work
from forgetless._validate import Array, Floats, check_unmasked
from forgetless.estimators import Before, Streaming, files, inputs
from forgetless.estimators.inputs import Linear
from forgetless.estimators.memory import Memory, Remembering, learned

INVERSES = 2.0 ** np.arange(-2.0, 9.01, 0.5)
"""Values of 1/T at which the log-loss is known; in between it is interpolated."""

MOST = 1000
"""Most rows of a task to which T is fitted."""

DECAY = 0.95
"""Factor of the weights of earlier rows at every task: scores get better while a stream is
learned."""

LEAST = 100.0
"""Weight of the rows to which T is always fitted: below it nothing decays."""


class Temperature(NamedTuple):
    """Sums of the log-loss at every value of ``INVERSES``, and the weight of their rows.

    T is fitted to two kinds of scores. Those of a task before it is learned show how scores
    generalize, but say nothing of new classes. Those of the same rows afterwards do; their
    residuals are enlarged as if each row had been left out.
    """

    losses: Floats = np.zeros(len(INVERSES))
    rows: float = 0.0

    @property
    def value(self) -> float:
        """T of the smallest log-loss, by a parabola through the three values around it."""
        best = int(np.argmin(self.losses))
        place = float(best)
        if 0 < best < len(INVERSES) - 1:
            around = self.losses[best - 1 : best + 2]
            before, at, after = around.tolist()
            # The vertex of the parabola through three points at −1, 0 and 1. It is curved upwards:
            # of equal losses the first counts as the smallest, so that the one before is larger.
            curvature = before - 2.0 * at + after
            place += 0.5 * (before - after) / curvature
        # 1/T is 2^(−2 + place/2).
        return float(2.0 ** (2.0 - 0.5 * place))

    def decayed(self) -> "Temperature":
        """Return the sums with less weight for the rows so far."""
        if DECAY * self.rows < LEAST:
            return self
        return Temperature(DECAY * self.losses, DECAY * self.rows)

    def plus(self, scores: Floats, targets: Floats, weights: Floats) -> "Temperature":
        """Return the sums with scores and one-hot targets (n, c) of rows of weights (n,)."""
        # −log softmax of the true class, for every 1/T and row.
        scaled = INVERSES[:, None, None] * scores
        logs = log_softmax(scaled, axis=2)
        losses = -np.sum(logs * targets, axis=2)
        total = self.losses + losses @ weights
        return Temperature(total, self.rows + weights.sum())


class StreamingClassifier(ClassifierMixin, Streaming):  # type: ignore[misc]
    """Base of the classifiers."""

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn one task.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, d)
        y : array of shape (n,)
            Labels.
        classes : array, optional
            Classes of later tasks: :class:`StreamingLogistic` must know them from the first task
            on, :class:`StreamingRidgeClassifier` need not.
        sample_weight : array of shape (n,), optional
        """
        draft = self._draft()
        check_unmasked("y", y)
        labels = column_or_1d(y, warn=True)
        assert_all_finite(labels, input_name="y")
        check_classification_targets(labels)
        own, places = np.unique(labels, return_inverse=True)
        # scikit-learn looks at numbers: a label is the place of its class.
        draft._y_shape = ()
        numbers = places.astype(np.float64)
        X, numbers, weight = inputs.task(draft, X, numbers, sample_weight)
        # Rows of weight zero count as absent, with their classes.
        kept = numbers[:, 0].astype(np.int64)
        labels = own[kept]
        every = np.unique(labels)
        # Classes may be declared before they come, and stay once they have come.
        for others in (classes, getattr(self._state, "classes", None)):
            if others is not None and len(others):
                # NumPy would write numbers as text, so that 1 and "1" were one class.
                are_texts = {np.array(list(each)).dtype.kind in "US" for each in (others, every)}
                if len(are_texts) > 1:
                    raise ValueError("y: classes are numbers or texts, not some of each")
                every = np.union1d(others, every)
        draft._y_shape = (len(every),)
        targets = (labels[:, None] == every).astype(np.float64)
        if weight is None:
            weight = np.ones(len(targets))
        learned = few_threads(lambda X, *_: gram_work(X.shape))(self._learned)
        return self._commit(draft, learned(X, targets, weight, every))

    @abstractmethod
    def _learned(self, X: Any, targets: Floats, weight: Floats, every: Array) -> Any:
        """Return the state after a task of one-hot targets (n, c) of the classes ``every``."""

    def _judged(self, scores: Floats, targets: Floats, weight: Floats, learned: float) -> Before:
        """Return the sums of errors with those of a task of which the model says ``scores``, after
        ``learned`` rows.
        """
        predicted = _best(scores, targets.shape[1])
        wrong = predicted != targets.argmax(axis=1)
        before: Before = self._state.before
        return before.plus(weight @ wrong, weight.sum(), learned)

    def predict(self, X: Any) -> Array:
        """Return the class of the largest score."""
        linear = self._linear()
        scores = linear.predict(inputs.rows(self, X))
        best = _best(scores, len(linear.classes))
        return linear.classes[best.astype(np.int64)]

    @property
    def classes_(self) -> Array:
        """Classes, sorted."""
        return self._linear().classes

    @property
    def prequential_error_(self) -> float:
        """Fraction of rows predicted wrongly before they were learned, from the second task on."""
        return float(self._fitted().before.mean)


def _best(scores: Floats, n_classes: int) -> Any:
    """Return the place of the class of every row."""
    if scores.shape[1] == n_classes:
        return scores.argmax(axis=1)
    # One score, of the second class against the first.
    return scores[:, 0] > 0


class ClassState(NamedTuple):
    """Everything learned: classes, all rows with one-hot targets and their solution, what T is
    fitted to, and the weights of rows that were predicted wrongly before they were learned.
    """

    classes: Array
    memory: Memory
    temperature: Temperature
    before: Before


class StreamingRidgeClassifier(StreamingClassifier, Remembering):
    """Classification on a stream by ridge regression on one-hot targets of all rows so far.

    Which question: it is for *all* tasks seen; nothing is forgotten for the *next* one.

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
        # Drawn in random order: every second row could be all of one class.
        some = np.random.default_rng(0).permutation(len(targets))[:MOST]
        sample = targets[some]
        if state is not None:
            # Where each class was before; −1 for those that are new, whose targets were zero.
            at = np.searchsorted(state.classes, every)
            is_old = np.isin(every, state.classes)
            place = np.where(is_old, at, -1)
            memory = files.with_targets(state.memory, place)
            # Before the task is learned: what scores say of new rows.
            scores = self._of(memory, every).predict(X)
            before = self._judged(scores, targets, weight, memory.rows.n)
            # A row of a new class is left out: no score could have named its class.
            is_known = sample @ (memory.rows.target > 0)
            temperature = state.temperature.decayed()
            temperature = temperature.plus(scores[some], sample, weight[some] * is_known)
        memory = learned(memory, options.blocks(X, targets, weight), options)
        # A residual as if its row had been left out (GCV): divided by 1 − the mean leverage.
        left = 1.0 - min(memory.rows.mean_leverage(memory.fit), 0.9)
        after = self._of(memory, every).predict(X[some])
        residuals = sample - after
        left_out = sample - residuals / left
        temperature = temperature.plus(left_out, sample, weight[some])
        return ClassState(every, memory, temperature, before)

    def _of(self, memory: Memory, classes: Array) -> Linear:
        """Return the model of the solution of a memory."""
        linear = Linear(*memory.fit[:2], classes=classes)
        return linear.guarded(memory.rows, self.guard)

    def _linear(self) -> Linear:
        state: ClassState = self._read()
        return self._of(state.memory, state.classes)

    def decision_function(self, X: Any) -> Array:
        """Return the scores (n, k); for two classes the second minus the first, (n,)."""
        scores = self._values(X)
        if scores.shape[1] == 2:
            return scores[:, 1] - scores[:, 0]
        return scores

    def predict_proba(self, X: Any) -> Array:
        """Return softmax(scores/T), of shape (n, k)."""
        return softmax(self._values(X) / self.temperature_, axis=1)

    def to_sklearn(self) -> Any:
        """Return a fitted ``LogisticRegression`` with the same probabilities, without the guard.

        It needs two classes or more.
        """
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
