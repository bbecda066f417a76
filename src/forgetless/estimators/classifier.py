"""Classification on a stream: explicit L2 on one-hot targets."""

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from forgetless._core.arrays import Array, from_numpy, namespace_of, to_numpy
from forgetless.estimators._classes import COUNTS, check_class_weight, counted, labels_of, weighed, with_classes
from forgetless.estimators._input import dispatched
from forgetless.estimators._remembering import Remembering
from forgetless.estimators._scheme import alpha_filter, ridge_named
from forgetless.estimators.directions import Directions
from forgetless.estimators.model import store
from forgetless.estimators.state import Learned, State
from forgetless.filters import Filter


class ContinualRidgeClassifier(ClassifierMixin, Remembering):  # type: ignore[misc]
    """Classification on a stream of tasks by :class:`forgetless.ContinualRidge` on one-hot targets.

    The class with the largest prediction wins. Classes may come at any time, declared or not: until then their weights
    are zero, as they would be had they been declared with the first task.

    Parameters
    ----------
    alpha : float, optional
        λ at every task, if no schedule is given. If omitted, 1 without a memory; with ``rank`` s/20 + ⅔ e, where s is
        the mean squared norm of a row of the first task and e what tasks meet of what the memory has lost
        (``docs/memory.md``); with the diagonal metric s.
    class_weight : "balanced" or dict, optional
        Weights of classes in the loss of a task: given, or N/(K·N_k) for the N_k of N rows so far, the task included,
        that are of class k, one of K.
    rank, metric, forget, precision, schedule, objective, n_tasks, radius, beyond, average, loss, standardize, solver
    tol, memory, history_size, holdout, holdout_size, random_state
        As in :class:`forgetless.ContinualRidge`.
    fit_intercept : bool, default True
        As there; without it, all classes are predicted 0 at the origin.

    Attributes
    ----------
    classes_ : array of shape (c,)
    class_counts_ : array of shape (c,)
    coef_ : array of shape (c, d)
    intercept_ : array of shape (c,)
    n_tasks_seen_, radius_, history_, prequential_mse_, seen_mse_, kept_, nbytes_
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

    _has_classes = True

    _remembered: ClassVar[Mapping[str, str]] = {COUNTS: "c"}

    classes_ = Learned(lambda state: state.origin.classes, "All classes so far, sorted.")
    class_counts_ = Learned(lambda state: state.memory.get(COUNTS), "Rows learned of each class.")

    def __init__(
        self,
        alpha: float | None = None,
        *,
        rank: int = 0,
        metric: str = "isotropic",
        forget: float = 0.0,
        precision: str = "float16",
        class_weight: Any = None,
        schedule: Any = None,
        objective: str = "seen",
        n_tasks: int | None = None,
        radius: float | None = None,
        beyond: str = "error",
        average: float | None = None,
        loss: str = "sum",
        fit_intercept: bool = True,
        standardize: bool = False,
        solver: str = "auto",
        tol: float = 1e-10,
        memory: int = 2**31,
        history_size: int = 1000,
        holdout: float = 0.0,
        holdout_size: int = 10_000,
        random_state: int | None = None,
    ) -> None:
        store(self, locals())

    def _check_parameters(self, state: State | None) -> None:
        super()._check_parameters(state)
        check_class_weight(self.class_weight)

    def partial_fit(  # type: ignore[override]  # the order of arguments is that of scikit-learn's classifiers
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None
    ) -> Self:
        """Learn one task.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, d)
        y : array of shape (n,)
            Labels; some may be of classes that were not met before.
        classes : array of shape (c,), optional
            Classes to come, so that they are known from now on; in any call.
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
        """Learn one task given as row blocks; classes not met before must be declared in ``classes``."""
        self._state = self._after_blocks(self._declared(classes), blocks)
        return self

    def _declared(self, classes: Any) -> State:
        """Return the state that the coming task starts from, which knows the classes declared."""
        state = self._current()
        return state if classes is None else with_classes(state, labels_of(classes))

    def _validated(self, state: State, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any, State]:
        labels = _checked(y)
        state = counted(with_classes(state, labels), labels)
        sample_weight = weighed(state, labels, self.class_weight, sample_weight)
        return super()._validated(state, X, _one_hot(state, labels), sample_weight)

    def _validated_block(self, state: State, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any, State]:
        labels, classes = _checked(y), state.origin.classes
        if self.class_weight is not None:
            raise ValueError("class_weight needs tasks as arrays; give sample_weight with the blocks instead")
        strange = np.unique(labels) if classes is None else np.setdiff1d(labels, classes)
        if len(strange):
            raise ValueError(
                f"y holds labels {strange.tolist()[:5]} of classes that were not met before; in blocks these must be "
                "declared: partial_fit_blocks(blocks, classes=...)"
            )
        return super()._validated(counted(state, labels), X, _one_hot(state, labels), sample_weight)

    def decision_function(self, X: Any) -> Array:
        """Return the predicted one-hot targets (n, c); for two classes the second minus the first, (n,)."""
        state = self._fitted()
        scores = self._linear(state, X, "decision_function")
        return scores[:, 1] - scores[:, 0] if len(state.origin.classes) == 2 else scores

    def predict(self, X: Any) -> Array:  # type: ignore[override]  # classes have no standard deviation
        """Return the class with the largest prediction for each row."""
        state = self._fitted()
        scores = self._linear(state, X, "predict")
        xp = namespace_of(scores)
        labels = state.origin.classes[to_numpy(xp.argmax(scores, axis=1))]
        return from_numpy(labels, like=scores) if dispatched(scores) and labels.dtype.kind in "iufb" else labels

    def predict_proba(self, X: Any) -> Array:
        """Return the softmax of the predicted one-hot targets, of shape (n, c).

        The order of classes is that of ``predict``. These are not calibrated: predictions lie mostly between 0 and 1,
        so that even certain answers have moderate values. For probabilities that mean what they say wrap the model in
        scikit-learn's ``CalibratedClassifierCV(FrozenEstimator(model))`` with rows it was not trained on.
        """
        scores = self._linear(self._fitted(), X, "predict_proba")
        xp = namespace_of(scores)
        powers = xp.exp(scores - xp.max(scores, axis=1, keepdims=True))
        return powers / xp.sum(powers, axis=1, keepdims=True)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = False
        return tags

    def _own_schedule(self) -> Any:
        return alpha_filter(1.0 if self.alpha is None else self.alpha)

    def _strength_of(self, filter: Filter, known: Directions) -> float:
        if self.alpha is not None or self.schedule is not None:
            return super()._strength_of(filter, known)
        if known.lost is None:
            return known.unit
        # What was least wrong, untuned, over streams of images, digits and texts; see docs/memory.md.
        return known.unit / 20 + 2 / 3 * known.missing * known.lost.share

    @property
    def _follows_lost(self) -> bool:
        return self.alpha is None and self.schedule is None and self.metric == "isotropic"

    def _named(self, text: str) -> Any:
        return ridge_named(text)

    def _key(self) -> tuple[Any, ...]:
        return (self.alpha, self.schedule, self.n_tasks, self.beyond)


def _checked(y: Any) -> Any:
    """Return labels after scikit-learn's checks."""
    if y is None:
        raise ValueError("ContinualRidgeClassifier requires y to be passed, but the target y is None")
    labels = column_or_1d(labels_of(y), warn=True)
    check_classification_targets(labels)
    return labels


def _one_hot(state: State, labels: Any) -> Any:
    return (labels[:, None] == state.origin.classes[None, :]).astype(np.float64)
