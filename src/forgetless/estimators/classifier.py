"""Classification on a stream: explicit L2 on one-hot targets. Classes may appear at any time."""

from typing import Any

import numpy as np

from forgetless._core.arrays import Array
from forgetless.estimators.calibration import Calibration, some_rows
from forgetless.estimators.classes import StreamingClassifier, probabilities
from forgetless.estimators.evidence import Experts
from forgetless.estimators.regressor import RETAINED_FRACTION, store
from forgetless.estimators.ridge import chosen_value, is_automatic, ridge_rule
from forgetless.estimators.rules import Rule
from forgetless.estimators.state import Learned, State
from forgetless.solvers.rows import is_sparse


def _temperature(state: State) -> float:
    return 1.0 if state.calibration is None else state.calibration.temperature


class ContinualRidgeClassifier(StreamingClassifier):
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
    retained_fraction_ = RETAINED_FRACTION

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

    def _make_rule(self, n_groups: int | None) -> Rule:
        return ridge_rule(self, n_groups)

    def _value(self, name: str) -> Any:
        return chosen_value(self, name)

    def _fixed(self) -> dict[str, Any]:
        return {
            **super()._fixed(),
            "schedule": "auto" if is_automatic(self) else "one of its own strength",
        }

    def _after(self, state: State, X: Any, y: Any, weight: Any) -> State:
        at = some_rows(int(X.shape[0]))
        rows, targets = X[at, ...] if not is_sparse(X) else X[at], y[at, ...]
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
