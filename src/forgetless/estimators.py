"""Streaming estimators in scikit-learn's interface: each task pulls the weights from where the last one left them.

``partial_fit`` learns one task; ``fit`` forgets everything and learns one task per group of rows. The state is O(d):
the weights alone. Nothing here knows how a step is computed (``step.learn``) or which filter it takes (``schedules``).
"""

import math
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from forgetless import _checks, schedules
from forgetless._arrays import Array, from_numpy, namespace_of, to_numpy
from forgetless._auto import Advisor
from forgetless._costs import SMALL_SIDE
from forgetless._rows import Rows
from forgetless._streaming import Change, StreamingModel, _dispatched
from forgetless._strength import Strength, equivalent_coefficient, per_row
from forgetless.filters import Filter, GradientDescent, Projection, Ridge
from forgetless.persistence import load, save
from forgetless.step import SOLVERS, learn, task_norm

LOSSES = ("sum", "mean")


class _Continual(StreamingModel):
    """What both schemes share: a schedule, the running radius, and the step itself."""

    schedule: Any
    n_tasks: int | None
    radius: float | None
    beyond: str
    loss: str
    solver: str
    tol: float

    def _own_schedule(self) -> Any:
        """Return the schedule that the parameters stand for."""
        raise NotImplementedError

    def _names(self) -> dict[str, Any]:
        """Return what each schedule name stands for."""
        raise NotImplementedError

    def _strength_now(self) -> Strength:
        """Return the strength of the stream, made again whenever a parameter behind it was changed."""
        key = self._strength_key()
        known = self.__dict__.get("_strength")
        if known is None or known[0] != key:
            chosen = self._own_schedule() if self.schedule is None else self.schedule
            if isinstance(chosen, str):
                if chosen not in self._names():
                    raise ValueError(
                        f"schedule must be {', '.join(self._names())}, a filter or a callable, got {chosen!r}"
                    )
                chosen = self._names()[chosen]()
            known = (key, Strength(chosen, self.n_tasks, self.beyond, self.__dict__.get("_n_groups")))
            self._strength = known
        strength: Strength = known[1]
        return strength

    def _strength_key(self) -> tuple[Any, ...]:
        return (self.schedule, self.n_tasks, self.beyond, self.__dict__.get("_n_groups"))

    def _check_parameters(self) -> None:
        super()._check_parameters()
        for name, value, allowed in (("loss", self.loss, LOSSES), ("solver", self.solver, SOLVERS)):
            if value not in allowed:
                raise ValueError(f"{name} must be one of {', '.join(allowed)}, got {value!r}")
        _checks.number("tol", self.tol, "the default is 1e-10", positive=True)
        if self.radius is not None:
            _checks.number("radius", self.radius, "leave it out for the running maximum", positive=True)
        self._strength_now()

    def _reset(self) -> None:
        super()._reset()
        self.radius_ = 0.0

    def _change(self, rows: Rows, residual: Array, weight: float, right: Array | None, start: Array) -> Change:
        scale = weight if self.loss == "mean" else 1.0
        strength = self._strength_now()
        norm: float | None = None
        if self._must_know_norm(strength) or rows.small_side <= SMALL_SIDE:
            norm = task_norm(rows, self.memory)
        size = math.nan if norm is None else norm / math.sqrt(scale)
        radius = self.radius_ if norm is None else max(self.radius_, size)
        given = self.radius if self.radius is not None else radius
        filter = self._next_filter(strength, rows, residual, scale, given)
        self._check_filter(filter, size)
        made = learn(
            rows, residual, per_row(filter, scale), solver=self.solver, tol=self.tol, memory=self.memory, norm=norm,
            right=right,
        )  # fmt: skip
        keep = {"radius_": radius, **self._observed(rows, residual, scale, start)}
        recorded = math.nan if norm is None else given
        return Change(made.change, made.after, equivalent_coefficient(filter), recorded, made.error, keep)

    def _next_filter(self, strength: Strength, rows: Rows, residual: Array, scale: float, radius: float) -> Filter:
        """Return the filter of the coming task, of which only the subclass that looks at it uses rows and residual."""
        return strength.at(self.n_tasks_seen_ + 1, radius)

    def _observed(self, rows: Rows, residual: Array, scale: float, start: Array) -> dict[str, Any]:
        """Return what a subclass keeps of a task that was learned from ``start``."""
        return {}

    def _must_know_norm(self, strength: Strength) -> bool:
        return strength.needs_radius and self.radius is None

    def _check_filter(self, filter: Filter, norm: float) -> None:
        """Refuse a filter that would not contract on a task of this norm."""

    def save(self, path: Any) -> None:
        """Write the model to a file: see :func:`forgetless.persistence.save`."""
        save(self, path)

    @classmethod
    def load(cls, path: Any, **parameters: Any) -> Self:
        """Return the model in a file; ``parameters`` replace stored ones, e.g. a schedule that could not be stored."""
        model: Self = load(cls, path, parameters)
        return model

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.array_api_support = True
        return tags


class _Regressor(RegressorMixin, _Continual):  # type: ignore[misc]
    def predict(self, X: Any) -> Array:
        """Return X·coef_ + intercept_.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, d)

        Returns
        -------
        array of shape (n,) or (n, c)
        """
        return self._linear(X, "predict")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


class _RidgeStrength(_Continual):
    """The names and the default strength of scheme 1."""

    alpha: float

    def _own_schedule(self) -> Any:
        return Ridge(_checks.number("alpha", self.alpha, "use 0 for no regularization"))

    def _names(self) -> dict[str, Any]:
        # "auto" overrides the filter of every task; what stands here only says that it knows its own radius.
        return {
            "none": Projection, "fixed": schedules.fixed, "increasing": schedules.increasing,
            "auto": lambda: Ridge(0.0),
        }  # fmt: skip

    def _reset(self) -> None:
        super()._reset()
        self.__dict__.pop("_advisor", None)

    def _is_auto(self) -> bool:
        return isinstance(self.schedule, str) and self.schedule == "auto"

    def _must_know_norm(self, strength: Strength) -> bool:
        return (self._is_auto() and self.n_tasks_seen_ < 2) or super()._must_know_norm(strength)

    def _next_filter(self, strength: Strength, rows: Rows, residual: Array, scale: float, radius: float) -> Filter:
        if not self._is_auto():
            return super()._next_filter(strength, rows, residual, scale, radius)
        advisor: Advisor = self.__dict__.get("_advisor", Advisor())
        return Ridge(advisor.advised(radius))

    def _observed(self, rows: Rows, residual: Array, scale: float, start: Array) -> dict[str, Any]:
        if not self._is_auto():
            return {}
        advisor: Advisor = self.__dict__.get("_advisor", Advisor())
        return {"_advisor": advisor.observed(rows, residual, scale, start, self.n_tasks_seen_ + 1)}

    def _strength_key(self) -> tuple[Any, ...]:
        return (self.alpha, self.schedule, self.n_tasks, self.beyond, self.__dict__.get("_n_groups"))

    def _learn_row(self, X: Array, y: Array) -> bool:
        # Compared with what the usual path has established: type, dtype, shape, the parameters behind the strength;
        # finiteness shows in the two inner products. Whatever is unusual goes the usual path, which says what is wrong.
        state = self.__dict__
        coef = state.get("coef_")
        known = state.get("_strength")
        if (
            coef is None
            or known is None
            or "_advisor" in state
            or X.shape != (1, *coef.shape)
            or X.dtype is not coef.dtype
            or y.dtype is not coef.dtype
            or y.shape != (1,)
            or known[0] != self._strength_key()
            or state["_holdout"] is not None
            or "feature_names_in_" in state
        ):
            return False
        x = X[0]
        square = float(x @ x)
        if not 1e-30 < square < 1e30:
            return False
        before = float(y[0]) - float(x @ coef)
        if not -1e30 < before < 1e30:
            return False
        if self.fit_intercept:
            before -= float(self.intercept_)
            square += 1.0
        radius = max(self.radius_, math.sqrt(square))
        used = radius if self.radius is None else self.radius
        task = self.n_tasks_seen_ + 1
        coefficient = known[1].ready_coefficient(task, used)
        if not 0.0 <= coefficient < 1e30:
            return False
        gain = before / (square + coefficient)
        after = before - gain * square
        self.coef_ = coef + x * gain
        if self.fit_intercept:
            self.intercept_ = coef.dtype.type(self.intercept_ + gain)
        self.n_tasks_seen_ = task
        self.radius_ = radius
        self._history.add(task, 1, 1.0, coefficient, used, before * before, after * after, 0.0, math.nan)
        return True


class ContinualRidge(_RidgeStrength, _Regressor):
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
        How the step is computed: see :func:`forgetless.step.learn`.
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
        _store(self, locals())


class ContinualGD(_Regressor):
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
        _store(self, locals())

    def _own_schedule(self) -> Any:
        if self.step_size is not None:
            return GradientDescent(self.n_steps, self.step_size)
        return _HalfStep(_checks.integer("n_steps", self.n_steps, 1, "give a whole number of gradient steps"))

    def _names(self) -> dict[str, Any]:
        return {
            "fixed": lambda: schedules.fixed_budget(self.n_steps),
            "increasing": lambda: schedules.increasing_budget(self.n_steps),
        }

    def _strength_key(self) -> tuple[Any, ...]:
        return (self.n_steps, self.step_size, *super()._strength_key())

    def _must_know_norm(self, strength: Strength) -> bool:
        return True  # also where γ is given: above 2/‖X‖² the steps diverge

    def _check_filter(self, filter: Filter, norm: float) -> None:
        if isinstance(filter, GradientDescent) and float(filter.step_size) * norm * norm >= 2:
            raise ValueError(
                f"step_size={float(filter.step_size):.3g} diverges on this task, whose squared norm is "
                f"{norm * norm:.3g}; it must be below 2/‖X‖² = {2 / norm / norm:.3g}, and "
                "the theorems need half of that"
            )


class _HalfStep:
    """N steps of half of 1/R²: the default of ``ContinualGD``."""

    def __init__(self, n_steps: int) -> None:
        self.n_steps = n_steps

    def __call__(self, k: int, radius: float) -> GradientDescent:
        return GradientDescent(self.n_steps, 0.5 / radius / radius)


class ContinualRidgeClassifier(ClassifierMixin, _RidgeStrength):  # type: ignore[misc]
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
        _store(self, locals())

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
            fresh = not hasattr(self, "coef_")
            if fresh:
                if classes is None:
                    raise ValueError("classes must be given in the first call of partial_fit: all labels to come")
                self._reset()
                self.classes_ = np.unique(_labels(classes))
            elif classes is not None and not np.array_equal(np.unique(_labels(classes)), self.classes_):
                raise ValueError(f"classes must not change after the first task: it declared {self.classes_.tolist()}")
            X, y, weight = self._validated(X, y, sample_weight, reset=fresh)
            self._learn_task(X, y, weight)
        return self

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
        return from_numpy(labels, like=scores) if _dispatched(scores) and labels.dtype.kind in "iufb" else labels


def _labels(y: Any) -> Any:
    return to_numpy(y) if hasattr(y, "__array_namespace__") and not isinstance(y, np.ndarray) else np.asarray(y)


def _store(model: Any, arguments: dict[str, Any]) -> None:
    """Keep the arguments of a constructor as they are, each under its name."""
    for name, value in arguments.items():
        if name != "self":
            setattr(model, name, value)
