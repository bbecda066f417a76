"""Streaming estimators in scikit-learn's interface: each task pulls the weights from where the last one left them.

``partial_fit`` learns one task; ``fit`` forgets everything and learns one task per group of rows. The state is O(d):
the weights alone. How a step is computed is in ``solvers.one_task``, which filter it takes in ``_strength``.
"""

from typing import Any, Self

import numpy as np
from array_api_compat import is_array_api_obj
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from forgetless import schedules
from forgetless._base import checks
from forgetless._base.arrays import Array, from_numpy, namespace_of, to_numpy
from forgetless.filters import GradientDescent
from forgetless.streams._input import dispatched
from forgetless.streams._model import store
from forgetless.streams._scheme import Regressor, RidgeStrength
from forgetless.streams._strength import HalfStep, Strength


class ContinualRidge(RidgeStrength, Regressor):
    """Ridge regression on a stream of tasks that is pulled to the previous solution instead of to zero.

    Task t minimises ½‖X_t w − y_t‖² + (λ_t/2)‖w − w_{t−1}‖² from w_0 = 0 in O(d) memory.

    Parameters
    ----------
    alpha : float, default 1.0
        λ_t = alpha at every task, if no schedule is given. For one task from zero this is scikit-learn's ``Ridge``.
    schedule : {"none", "fixed", "increasing", "auto"}, schedule, filter or callable, optional
        λ_t from a schedule of :mod:`forgetless.schedules`, e.g. ``schedules.increasing(scale=0.01)``, or any callable
        ``(k, radius) → filter``. ``"auto"`` takes the λ that would have predicted the last tasks best, found by
        replaying a bounded sample of them.
    n_tasks : int, optional
        The horizon k that schedules need. If omitted, ``fit`` with groups takes their number, and ``partial_fit`` goes
        in epochs of doubling length: a heuristic without a theorem, since the schedule starts anew in every epoch.
    radius : float, optional
        R, for schedules. If omitted, the largest ‖X_t‖₂ so far, the current task included: the true R is reached with
        the largest task, and the strengths before it are smaller than the theorem's.
    beyond : {"error", "anytime"}, default "error"
        What happens to tasks after ``n_tasks``: an error, or epochs of doubling length as above.
    loss : {"sum", "mean"}, default "sum"
        ``"mean"`` divides the loss of a task by its number of rows (the sum of their weights), so that λ_t means the
        same for tasks of different sizes; R is then that of X_t/√n.
    fit_intercept : bool, default False
        Adds a feature that is always 1. Like every other weight the intercept is pulled to its previous value.
    solver : {"auto", "gram", "krylov", "svd"}, default "auto"
        How the step is computed: see :func:`forgetless.solvers.one_task.learn`.
    tol : float, default 1e-10
        Bound of the relative error of a step of ``"krylov"``.
    memory : int, default 2**31
        Bytes that one factorisation may take; larger tasks are solved by ``"krylov"``.
    history_size : int, default 1000
        How many tasks ``history_`` keeps.
    holdout : float, default 0.0
        Share of the rows of each task that is kept for ``seen_mse_`` and never trained on.
    holdout_size : int, default 10000
        How many held-out rows are kept in all.
    random_state : int, optional
        Chooses the held-out rows.

    Attributes
    ----------
    coef_ : array of shape (d,) or (c, d)
    intercept_ : float or array of shape (c,)
    n_tasks_seen_ : int
    radius_ : float
        The running maximum of ‖X_t‖₂, over the tasks for which it was needed or came with the solution (smaller side
        up to 200).
    history_ : dict of arrays
        Per task: ``task``, ``n_rows``, ``strength`` (λ_t), ``radius`` (R; NaN where not known), ``mse_before`` and
        ``mse_after`` learning it, ``error`` of the step (relative; bound or estimate), ``seen_mse`` on held-out rows.
    prequential_mse_ : float
        Mean squared error of predicting every row before learning it.
    seen_mse_ : float
        Mean squared error on the held-out rows of the tasks seen, each task counting the same.
    nbytes_ : int
        Bytes of what is kept from one task to the next.

    Examples
    --------
    >>> import numpy as np
    >>> from forgetless import ContinualRidge
    >>> model = ContinualRidge(alpha=1.0)
    >>> for X, y in [([[1.0, 0.0]], [2.0]), ([[0.0, 1.0]], [4.0])]:
    ...     model = model.partial_fit(X, y)
    >>> model.coef_.tolist(), model.n_tasks_seen_
    ([1.0, 2.0], 2)

    References
    ----------
    Levinstein et al. (2025), Algorithm 1 (regularized continual linear regression).
    """

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        schedule: Any = None,
        n_tasks: int | None = None,
        radius: float | None = None,
        beyond: str = "error",
        loss: str = "sum",
        fit_intercept: bool = False,
        solver: str = "auto",
        tol: float = 1e-10,
        memory: int = 2**31,
        history_size: int = 1000,
        holdout: float = 0.0,
        holdout_size: int = 10_000,
        random_state: int | None = None,
    ) -> None:
        store(self, locals())


class ContinualGD(Regressor):
    """Regression on a stream of tasks with a budget of gradient steps per task, from the previous solution.

    Task t makes N_t steps of size γ_t on ½‖X_t w − y_t‖², computed exactly but not one by one.

    Parameters
    ----------
    n_steps : int, default 100
        N at every task, if no schedule is given; also the N of the schedules by name.
    step_size : float, optional
        γ at every task; half of 1/‖X_t‖² of the largest task so far if omitted.
    schedule : {"fixed", "increasing"}, schedule, filter or callable, optional
        ``"fixed"`` and ``"increasing"`` are the budget presets with ``n_steps``; they choose γ_t.
    n_tasks, radius, beyond, loss, fit_intercept, solver, tol, memory
    history_size, holdout, holdout_size, random_state
        As in :class:`ContinualRidge`. The ``strength`` in ``history_`` is 1/(N_t γ_t).

    Attributes
    ----------
    coef_, intercept_, n_tasks_seen_, radius_, history_, prequential_mse_, seen_mse_
        As in :class:`ContinualRidge`.

    Examples
    --------
    >>> from forgetless import ContinualGD
    >>> model = ContinualGD(n_steps=2, step_size=0.5).partial_fit([[1.0, 0.0]], [2.0])
    >>> model.coef_.round(12).tolist()
    [1.5, 0.0]

    References
    ----------
    Levinstein et al. (2025), Algorithm 2 (continual linear regression with finite step budgets).
    """

    def __init__(
        self,
        n_steps: int = 100,
        step_size: float | None = None,
        *,
        schedule: Any = None,
        n_tasks: int | None = None,
        radius: float | None = None,
        beyond: str = "error",
        loss: str = "sum",
        fit_intercept: bool = False,
        solver: str = "auto",
        tol: float = 1e-10,
        memory: int = 2**31,
        history_size: int = 1000,
        holdout: float = 0.0,
        holdout_size: int = 10_000,
        random_state: int | None = None,
    ) -> None:
        store(self, locals())

    def _own_schedule(self) -> Any:
        if self.step_size is not None:
            return GradientDescent(self.n_steps, self.step_size)
        return HalfStep(checks.integer("n_steps", self.n_steps, 1, "give a whole number of gradient steps"))

    def _names(self) -> dict[str, Any]:
        return {
            "fixed": lambda: schedules.fixed_budget(self.n_steps),
            "increasing": lambda: schedules.increasing_budget(self.n_steps),
        }

    def _key(self) -> tuple[Any, ...]:
        return (
            self.n_steps, self.step_size, self.schedule, self.n_tasks, self.beyond, self.__dict__.get("_n_groups"),
        )  # fmt: skip

    def _must_know_norm(self, strength: Strength) -> bool:
        return True  # also where γ is given: above 2/‖X‖² the steps diverge


class ContinualRidgeClassifier(ClassifierMixin, RidgeStrength):  # type: ignore[misc]
    """Classification on a stream of tasks by :class:`ContinualRidge` on one-hot targets.

    The class with the largest prediction wins. All classes must be declared with the first task, as in every
    scikit-learn classifier with ``partial_fit``; a task need not contain all of them.

    Parameters
    ----------
    alpha, schedule, n_tasks, radius, beyond, loss, solver, tol, memory
    history_size, holdout, holdout_size, random_state
        As in :class:`ContinualRidge`.
    fit_intercept : bool, default True
        As there; without it, all classes are predicted 0 at the origin.

    Attributes
    ----------
    classes_ : array of shape (c,)
    coef_ : array of shape (c, d)
    intercept_ : array of shape (c,)
    n_tasks_seen_, radius_, history_, prequential_mse_, seen_mse_
        As in :class:`ContinualRidge`, of the one-hot targets.

    Examples
    --------
    >>> from forgetless import ContinualRidgeClassifier
    >>> model = ContinualRidgeClassifier(alpha=0.1)
    >>> model = model.partial_fit([[0.0], [1.0]], ["no", "yes"], classes=["no", "yes"])
    >>> model.predict([[0.9]]).tolist()
    ['yes']
    """

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        schedule: Any = None,
        n_tasks: int | None = None,
        radius: float | None = None,
        beyond: str = "error",
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
        with self._all_or_nothing():
            fresh = self._declare(classes)
            X, y, weight = self._validated(X, y, sample_weight, reset=fresh)
            self._learn_task(X, y, weight)
        return self

    def partial_fit_blocks(self, blocks: Any, classes: Any = None) -> Self:
        """Learn one task given as row blocks; ``classes`` as in ``partial_fit``."""
        with self._all_or_nothing():
            self._declare(classes)
            super().partial_fit_blocks(blocks)
        return self

    def _declare(self, classes: Any) -> bool:
        """Begin a task, with all classes to come in the first one; return whether it is that."""
        fresh = self._begin()
        if fresh and classes is None:
            raise ValueError("classes must be given in the first call of partial_fit: all labels to come")
        if fresh:
            self.classes_ = np.unique(_labels(classes))
        elif classes is not None and not np.array_equal(np.unique(_labels(classes)), self.classes_):
            raise ValueError(f"classes must not change after the first task: it declared {self.classes_.tolist()}")
        return fresh

    def _reset(self) -> None:
        declared = self.__dict__.get("classes_") if "coef_" not in self.__dict__ else None
        super()._reset()
        if declared is not None:
            self.classes_ = declared  # by the call that begins the stream

    def _learn_row(self, X: Array, y: Array) -> bool:
        return False

    def _validated(self, X: Any, y: Any, sample_weight: Any, *, reset: bool) -> tuple[Any, Any, Any]:
        if y is None:
            raise ValueError("ContinualRidgeClassifier requires y to be passed, but the target y is None")
        labels = column_or_1d(_labels(y), warn=True)
        check_classification_targets(labels)
        if not hasattr(self, "classes_"):
            self.classes_ = np.unique(labels)
            if len(self.classes_) < 2:
                raise ValueError(f"y must hold at least two classes, got one class: {self.classes_.tolist()}")
        strange = np.setdiff1d(labels, self.classes_)
        if len(strange):
            raise ValueError(
                f"y holds labels {strange.tolist()[:5]} that are not among the classes {self.classes_.tolist()[:20]} "
                "declared with the first task; declare all of them there"
            )
        hot = (labels[:, None] == self.classes_[None, :]).astype(np.float64)
        return super()._validated(X, hot, sample_weight, reset=reset)

    def decision_function(self, X: Any) -> Array:
        """Return the predicted one-hot targets (n, c); for two classes the second minus the first, (n,)."""
        scores = self._linear(X, "decision_function")
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> Array:
        """Return the class with the largest prediction for each row."""
        scores = self._linear(X, "predict")
        xp = namespace_of(scores)
        labels = self.classes_[to_numpy(xp.argmax(scores, axis=1))]
        return from_numpy(labels, like=scores) if dispatched(scores) and labels.dtype.kind in "iufb" else labels


def _labels(y: Any) -> Any:
    return to_numpy(y) if is_array_api_obj(y) else np.asarray(y)
