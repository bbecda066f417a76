"""Classification on a stream: labels as one-hot targets, classes that come at any time.

``StreamingClassifier`` is the base of the classifiers, ``ContinualRidgeClassifier`` is explicit L2.
"""

from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from forgetless._core.arrays import Array, check_unmasked
from forgetless.estimators.evidence import Experts
from forgetless.estimators.history import Calibration, some_rows
from forgetless.estimators.regressor import StreamingRegressor, store
from forgetless.estimators.ridge import ExplicitL2
from forgetless.estimators.state import Learned, State
from forgetless.solvers.rows import is_sparse


class StreamingClassifier(ClassifierMixin, StreamingRegressor):  # type: ignore[misc]
    """Base of the classifiers here: a target for every class, 1 for the rows of that class and 0
    for others.
    """

    _has_classes = True
    _gram_suffices = False

    classes_ = Learned(lambda state: state.origin.classes, "All classes so far, sorted.")
    class_counts_ = Learned(lambda state: state.class_counts, "Rows learned of each class.")
    radius_ = Learned(
        lambda state: state.radius, "The largest ‖X_t‖₂ of the tasks for which it is known."
    )

    def partial_fit(  # type: ignore[override]  # the order of arguments is that of scikit-learn's classifiers
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None
    ) -> Self:
        """Learn one task.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, d)
        y : array of shape (n,)
            Labels; some may be of new classes.
        classes : array of shape (c,), optional
            Classes of later tasks, declared in any call.
        sample_weight : float or array of shape (n,), optional
        """
        state = self._declared(classes)
        X, y, weight, state = self._validated(state, X, y, sample_weight)
        self._state = self._after(state, X, y, weight)
        return self

    def partial_fit_blocks(self, blocks: Any, classes: Any = None) -> Self:
        """Learn one task given as row blocks; new classes must be declared in ``classes``."""
        self._state = self._after_blocks(self._declared(classes), blocks)
        return self

    def _declared(self, classes: Any) -> State:
        """Return the state that the next task starts from, with the declared classes."""
        state = self._current()
        return state if classes is None else self._with_classes(state, np.asarray(classes))

    def _with_classes(self, state: State, labels: Any) -> State:
        """Return the state of a stream with the classes among ``labels`` added."""
        return with_classes(state, labels)

    def _validated(
        self, state: State, X: Any, y: Any, sample_weight: Any
    ) -> tuple[Any, Any, Any, State]:
        labels = _checked(y)
        state = _counted(self._with_classes(state, labels), labels)
        return super()._validated(state, X, _one_hot(state, labels), sample_weight)

    def _validated_block(
        self, state: State, X: Any, y: Any, sample_weight: Any
    ) -> tuple[Any, Any, Any, State]:
        labels = _checked(y)
        classes = state.origin.classes
        new = np.unique(labels) if classes is None else np.setdiff1d(labels, classes)
        if len(new):
            raise ValueError(
                f"y holds labels {new.tolist()[:5]} of new classes; in blocks these must be "
                "declared: partial_fit_blocks(blocks, classes=...)"
            )
        return super()._validated(
            _counted(state, labels), X, _one_hot(state, labels), sample_weight
        )

    def decision_function(self, X: Any) -> Array:
        """Return the scores of all classes (n, c); for two classes the second minus the first,
        (n,).
        """
        state = self._fitted()
        scores = self._linear(state, X)
        return scores[:, 1] - scores[:, 0] if len(state.origin.classes) == 2 else scores

    def predict(self, X: Any) -> Array:  # type: ignore[override]  # classes have no standard deviation
        """Return the class with the largest prediction for each row."""
        state = self._fitted()
        scores = self._linear(state, X)
        return state.origin.classes[np.argmax(scores, axis=1)]

    def predict_proba(self, X: Any) -> Array:
        """Return the probabilities of all classes, of shape (n, c); their order is that of
        ``classes_``.
        """
        return probabilities(self._linear(self._fitted(), X))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = False
        return tags


def probabilities(scores: Array) -> Array:
    """Return the softmax of scores (n, c)."""
    powers = np.exp(scores - np.max(scores, axis=1, keepdims=True))
    return powers / np.sum(powers, axis=1, keepdims=True)


def _checked(y: Any) -> Any:
    """Return labels after scikit-learn's checks."""
    if y is None:
        raise ValueError("a classifier requires y to be passed, but the target y is None")
    check_unmasked("y", y)
    labels = column_or_1d(np.asarray(y), warn=True)
    check_classification_targets(labels)
    return labels


def _one_hot(state: State, labels: Any) -> Any:
    return (labels[:, None] == state.origin.classes[None, :]).astype(np.float64)


def with_classes(state: State, labels: Any) -> State:
    """Return the state of a stream with the classes among ``labels`` added.

    Targets of a new class were 0 at every row so far, so its weights would be zero had it been
    declared at first.
    """
    new = np.unique(labels)
    old = state.origin.classes
    if old is None:
        return state._replace(
            origin=state.origin._replace(classes=new), class_counts=np.zeros(len(new))
        )
    if len(np.setdiff1d(new, old)) == 0:
        return state
    if (new.dtype.kind in "US") != (old.dtype.kind in "US"):
        raise ValueError(
            f"labels {new.tolist()[:5]} are of another kind than the classes {old.tolist()[:5]};"
            " convert them"
        )
    classes = np.union1d(old, new)
    place = np.where(np.isin(classes, old), np.searchsorted(old, classes), -1)
    counts = _placed(state.class_counts, place)
    state = state._replace(origin=state.origin._replace(classes=classes), class_counts=counts)
    if state.coef is not None:
        intercept = (
            _placed(state.intercept, place)
            if state.fit_intercept
            else np.zeros((len(classes),), dtype=state.coef.dtype)
        )
        state = state._replace(coef=_placed(state.coef, place), intercept=intercept)
    if state.iterate is not None:
        state = state._replace(
            iterate=state.iterate._replace(weights=_placed(state.iterate.weights.T, place).T)
        )
    if isinstance(state.memory, Experts):
        state = state._replace(memory=state.memory.with_classes(place))
    return state


def _placed(array: Array, place: Any) -> Array:
    """Return lines of an array in another order, with lines of zeros where ``place`` is -1."""
    empty = np.zeros((1, *array.shape[1:]), dtype=array.dtype)
    return np.concatenate(
        [array[at : at + 1, ...] if at >= 0 else empty for at in place.tolist()], axis=0
    )


def _counted(state: State, labels: Any) -> State:
    """Return the state with the rows of a task added to the counts of their classes."""
    classes = state.origin.classes
    more = np.bincount(np.searchsorted(classes, labels), minlength=len(classes)).astype(np.float64)
    return state._replace(class_counts=state.class_counts + more)


def _temperature(state: State) -> float:
    return 1.0 if state.calibration is None else state.calibration.temperature


class ContinualRidgeClassifier(ExplicitL2, StreamingClassifier):
    """Classification on a stream of tasks by :class:`forgetless.ContinualRidge` on one-hot targets.

    The class with the largest prediction wins. Classes may come at any time, declared or not: until
    then their weights are zero, as they would be had they been declared with the first task.

    Parameters
    ----------
    alpha : float, optional
        λ at every task, if no schedule is given. If both are omitted, the strength is chosen by
        evidence.
    schedule, n_tasks, radius, memory, average, standardize, tol
        As in :class:`forgetless.ContinualRidge`.
    fit_intercept : bool, default True
        As there; without it, all classes are predicted 0 at the origin.

    Attributes
    ----------
    classes_ : array of shape (c,)
    class_counts_ : array of shape (c,)
    coef_ : array of shape (c, d)
    intercept_ : array of shape (c,)
    temperature_ : float
        Scores are divided by it before the softmax of ``predict_proba``; fitted to the log-loss of
        rows before they are learned, and of the same rows afterwards with residuals corrected for
        the fit.
    n_tasks_seen_, radius_, history_, prequential_mse_, retained_fraction_, nbytes_
        As in :class:`forgetless.ContinualRidge`, of the one-hot targets.

    Examples
    --------
    >>> from forgetless import ContinualRidgeClassifier
    >>> model = ContinualRidgeClassifier(alpha=0.1)
    >>> model = model.partial_fit([[0.0], [1.0]], ["no", "yes"], classes=["no", "yes"])
    >>> model.predict([[0.9]]).tolist()
    ['yes']
    >>> model.partial_fit([[3.0]], ["maybe"]).classes_.tolist()
    ['maybe', 'no', 'yes']
    """

    temperature_ = Learned(_temperature, "Temperature of the class probabilities.")

    def __init__(  # noqa: PLR0913
        self,
        alpha: float | None = None,
        *,
        schedule: Any = None,
        n_tasks: int | None = None,
        radius: float | None = None,
        memory: Any = "auto",
        average: float | None = None,
        fit_intercept: bool = True,
        standardize: bool | None = None,
        tol: float = 1e-10,
    ) -> None:
        store(self, locals())

    def _after(self, state: State, X: Any, y: Any, weight: Any) -> State:
        at = some_rows(int(X.shape[0]))
        rows = X[at, ...] if not is_sparse(X) else X[at]
        targets = y[at, ...]
        weights = np.ones(len(targets)) if weight is None else weight[at]
        calibration = (
            Calibration.empty() if state.calibration is None else state.calibration.decayed()
        )
        if state.n_tasks:
            # Rows of classes that the model has not seen say nothing of the others.
            mask = targets @ (state.class_counts - y.sum(axis=0) > 0) > 0
            scores = self._predicted(state, rows)
            calibration = calibration.with_rows(scores[mask], targets[mask], weights[mask])
        after = super()._after(state, X, y, weight)
        if isinstance(after.memory, Experts):
            residual = targets - self._predicted(after, rows)
            calibration = calibration.with_rows(
                targets - residual * after.memory.inflation, targets, weights
            )
        return after._replace(calibration=calibration)

    def predict_proba(self, X: Any) -> Array:
        """Return the probabilities of all classes, of shape (n, c): the softmax of the scores over
        ``temperature_``.

        The order of classes is that of ``classes_``. The temperature is fitted to rows of the tasks
        learned, not to those of tasks given as blocks or dask arrays.
        """
        state = self._fitted()
        return probabilities(self._linear(state, X) / _temperature(state))
