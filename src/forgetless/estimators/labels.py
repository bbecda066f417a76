"""What the classifiers share: labels become one-hot targets."""

import copy
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from forgetless._validate import Floats, check_unmasked
from forgetless.estimators import tasks
from forgetless.estimators.base import Streaming


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
        state = self._state
        self._check_fixed()
        draft = copy.copy(self)
        check_unmasked("y", y)
        labels = column_or_1d(y, warn=True)
        assert_all_finite(labels, input_name="y")
        check_classification_targets(labels)
        own, codes = np.unique(labels, return_inverse=True)
        draft._y_shape = ()
        first = state is None
        X, numbers, weight = tasks.task(
            draft, X, codes.astype(np.float64), sample_weight, first=first
        )
        # Rows of weight zero count as absent, with their classes.
        labels = own[numbers[:, 0].astype(np.int64)]
        every = np.unique(labels)
        # Classes may be declared before they come, and stay once they have come.
        for others in (classes, None if first else state.classes):
            if others is not None:
                every = np.union1d(np.asarray(others), every)
        draft._y_shape = (len(every),)
        targets = (labels[:, None] == every).astype(np.float64)
        return self._commit(draft, self._learned(X, targets, weight, every))

    def _learned(self, X: Any, targets: Floats, weight: Any, every: NDArray[Any]) -> Any:
        """Return the state after a task of one-hot targets (n, c) of the classes ``every``."""
        raise TypeError(f"{type(self).__name__} is a base class; use one of its subclasses")

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class of the largest score."""
        scores = self.decision_function(X)
        best = scores > 0 if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[best.astype(np.int64)])

    def decision_function(self, X: Any) -> NDArray[Any]:
        """Return the scores (n, k); for two classes those of the second, (n,)."""
        raise TypeError(f"{type(self).__name__} is a base class; use one of its subclasses")

    @property
    def classes_(self) -> NDArray[Any]:
        """Classes, sorted."""
        classes: NDArray[Any] = self._fitted().classes
        return classes

    @property
    def prequential_error_(self) -> float:
        """Fraction of rows predicted wrongly before they were learned, from the second task on."""
        return float(self._fitted().before.mean)
