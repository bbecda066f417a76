"""Classification on a stream: explicit L2 on one-hot targets."""

from typing import Any, Self

import numpy as np
from array_api_compat import is_array_api_obj
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from forgetless._base.arrays import Array, from_numpy, namespace_of, to_numpy
from forgetless.streams._input import dispatched
from forgetless.streams._remembering import Remembering
from forgetless.streams._scheme import alpha_filter, ridge_named
from forgetless.streams.model import store
from forgetless.streams.state import Learned, State


class ContinualRidgeClassifier(ClassifierMixin, Remembering):  # type: ignore[misc]
    """Classification on a stream of tasks by :class:`forgetless.ContinualRidge` on one-hot targets.

    The class with the largest prediction wins. All classes must be declared with the first task, as in every
    scikit-learn classifier with ``partial_fit``; a task need not contain all of them.

    Parameters
    ----------
    alpha, rank, metric, forget, precision, schedule, n_tasks, radius, beyond, average, loss, solver, tol, memory
    history_size, holdout, holdout_size, random_state
        As in :class:`forgetless.ContinualRidge`.
    fit_intercept : bool, default True
        As there; without it, all classes are predicted 0 at the origin.

    Attributes
    ----------
    classes_ : array of shape (c,)
    coef_ : array of shape (c, d)
    intercept_ : array of shape (c,)
    n_tasks_seen_, radius_, history_, prequential_mse_, seen_mse_
        As in :class:`forgetless.ContinualRidge`, of the one-hot targets.

    Examples
    --------
    >>> from forgetless import ContinualRidgeClassifier
    >>> model = ContinualRidgeClassifier(alpha=0.1)
    >>> model = model.partial_fit([[0.0], [1.0]], ["no", "yes"], classes=["no", "yes"])
    >>> model.predict([[0.9]]).tolist()
    ['yes']
    """

    _has_classes = True

    classes_ = Learned(lambda state: state.origin.classes, "All classes of the stream, sorted.")

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        rank: int = 0,
        metric: str = "isotropic",
        forget: float = 0.0,
        precision: str = "float16",
        schedule: Any = None,
        n_tasks: int | None = None,
        radius: float | None = None,
        beyond: str = "error",
        average: float | None = None,
        loss: str = "sum",
        fit_intercept: bool = True,
        solver: str = "auto",
        tol: float = 1e-10,
        memory: int = 2**31,
        history_size: int = 1000,
        holdout: float = 0.0,
        holdout_size: int = 10_000,
        random_state: int | None = None,
    ) -> None:
        store(self, locals())

    def partial_fit(  # type: ignore[override]  # the order of arguments is that of scikit-learn's classifiers
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None
    ) -> Self:
        """Learn one task; ``classes`` lists all classes of the stream and is needed in the first call only.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, d)
        y : array of shape (n,)
        classes : array of shape (c,), optional
        sample_weight : float or array of shape (n,), optional

        Returns
        -------
        self
        """
        state = self._declared(classes)
        X, y, weight, state = self._validated(state, X, y, sample_weight)
        self._state = self._after(state, X, y, weight)
        return self

    def partial_fit_blocks(self, blocks: Any, classes: Any = None) -> Self:
        """Learn one task given as row blocks; ``classes`` as in ``partial_fit``."""
        self._state = self._after_blocks(self._declared(classes), blocks)
        return self

    def _declared(self, classes: Any) -> State:
        """Return the state that the coming task starts from, which knows all classes to come."""
        state = self._current()
        known = state.origin.classes
        if known is None and classes is None:
            raise ValueError("classes must be given in the first call of partial_fit: all labels to come")
        if known is None:
            return _with_classes(state, np.unique(_labels(classes)))
        if classes is not None and not np.array_equal(np.unique(_labels(classes)), known):
            raise ValueError(f"classes must not change after the first task: it declared {known.tolist()}")
        return state

    def _validated(self, state: State, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any, State]:
        if y is None:
            raise ValueError("ContinualRidgeClassifier requires y to be passed, but the target y is None")
        labels = column_or_1d(_labels(y), warn=True)
        check_classification_targets(labels)
        classes = state.origin.classes
        if classes is None:
            classes = np.unique(labels)
            if len(classes) < 2:
                raise ValueError(f"y must hold at least two classes, got one class: {classes.tolist()}")
            state = _with_classes(state, classes)
        strange = np.setdiff1d(labels, classes)
        if len(strange):
            raise ValueError(
                f"y holds labels {strange.tolist()[:5]} that are not among the classes {classes.tolist()[:20]} "
                "declared with the first task; declare all of them there"
            )
        hot = (labels[:, None] == classes[None, :]).astype(np.float64)
        return super()._validated(state, X, hot, sample_weight)

    def decision_function(self, X: Any) -> Array:
        """Return the predicted one-hot targets (n, c); for two classes the second minus the first, (n,)."""
        state = self._fitted()
        scores = self._linear(state, X, "decision_function")
        return scores[:, 1] - scores[:, 0] if len(state.origin.classes) == 2 else scores

    def predict(self, X: Any) -> Array:
        """Return the class with the largest prediction for each row."""
        state = self._fitted()
        scores = self._linear(state, X, "predict")
        xp = namespace_of(scores)
        labels = state.origin.classes[to_numpy(xp.argmax(scores, axis=1))]
        return from_numpy(labels, like=scores) if dispatched(scores) and labels.dtype.kind in "iufb" else labels

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = False
        return tags

    def _own_schedule(self) -> Any:
        return alpha_filter(self.alpha)

    def _named(self, text: str) -> Any:
        return ridge_named(text)

    def _key(self) -> tuple[Any, ...]:
        return (self.alpha, self.schedule, self.n_tasks, self.beyond)


def _with_classes(state: State, classes: Array) -> State:
    return state._replace(origin=state.origin._replace(classes=classes))


def _labels(y: Any) -> Any:
    return to_numpy(y) if is_array_api_obj(y) else np.asarray(y)
