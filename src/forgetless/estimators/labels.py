"""What the classifiers share: labels become one-hot targets, and the largest score is the class.

A class is column j of the targets Y, Y_ij = 1 where row i has it and 0 elsewhere. Two classes may
have one score, that of the second: positive means the second.
"""

from abc import abstractmethod
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from forgetless._running import few_threads, gram_work
from forgetless._validate import Array, Floats, check_unmasked
from forgetless.estimators import tasks
from forgetless.estimators.base import Before, Streaming


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
        own, codes = np.unique(labels, return_inverse=True)
        draft._y_shape = ()
        X, kept, weight = tasks.task(draft, X, codes.astype(np.float64), sample_weight)
        # Rows of weight zero count as absent, with their classes.
        labels = own[kept[:, 0].astype(np.int64)]
        every = np.unique(labels)
        # Classes may be declared before they come, and stay once they have come.
        for others in (classes, getattr(self._state, "classes", None)):
            if others is not None:
                every = np.union1d(others, every)
        draft._y_shape = (len(every),)
        targets = (labels[:, None] == every).astype(np.float64)
        weight = np.ones(len(targets)) if weight is None else weight
        learned = few_threads(lambda X, *_: gram_work(X.shape))(self._learned)
        return self._commit(draft, learned(X, targets, weight, every))

    @abstractmethod
    def _learned(self, X: Any, targets: Floats, weight: Floats, every: Array) -> Any:
        """Return the state after a task of one-hot targets (n, c) of the classes ``every``."""

    def _judged(self, scores: Floats, targets: Floats, weight: Floats, learned: float) -> Before:
        """Return the sums of errors with those of a task of which the model says ``scores``, after
        ``learned`` rows.
        """
        wrong = _best(scores, targets.shape[1]) != targets.argmax(axis=1)
        before: Before = self._state.before
        return before.plus(weight @ wrong, weight.sum(), learned)

    def predict(self, X: Any) -> Array:
        """Return the class of the largest score."""
        linear = self._linear()
        best = _best(linear.predict(tasks.rows(self, X)), len(linear.classes))
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
    return scores.argmax(axis=1) if scores.shape[1] == n_classes else scores[:, 0] > 0
