"""The schemes of the paper: a task changes the weights by one regularized step, and nothing else is
stored.

Levinstein et al. (2025), Algorithms 1 (explicit L2 towards the previous weights) and 2 (a budget of
gradient steps). They take O(d) memory, do not standardize, and have no intercept by default, so
that the theorems hold. For the smallest error on ordinary data take ``StreamingRidge``.
"""

from abc import abstractmethod
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from forgetless._linalg import average_power, next_total
from forgetless._validate import Floats
from forgetless.equation import change, norm
from forgetless.estimators import Before, StreamingRegressor
from forgetless.estimators.inputs import Linear
from forgetless.filters import Filter, GradientDescent, Ridge
from forgetless.schedules import resolve
from forgetless.schedules.named import as_schedule


class SchemeState(NamedTuple):
    """Everything learned.

    Attributes
    ----------
    last, average : arrays of shape (d, c)
        Weights after the last task, and those that predict.
    total : float
        Σ (i/t)^r of the average.
    radius : float
        The largest ‖X‖₂ so far, where it was needed.
    strength : float
        1/φ'(0) of the last step: λ, or 1/(Nγ).
    before : Before
    """

    last: Floats
    average: Floats
    total: float
    radius: float
    strength: float
    before: Before


class Scheme(StreamingRegressor):
    """Base of the schemes: a stream of steps with the filters of a schedule."""

    schedule: Any
    n_tasks: Any
    radius: Any
    average: Any
    fit_intercept: bool

    _fixed = ("average", "fit_intercept")
    _own: tuple[str, ...] = ()
    """Parameters that take the place of a schedule."""

    @abstractmethod
    def _constant(self, radius: float) -> Filter:
        """Return the filter of every task where there is no schedule; ``radius`` is R so far."""

    def _learned(self, X: Any, y: Floats, weight: Any) -> SchemeState:
        X = self._extended(X)
        shape = (X.shape[1], y.shape[1])
        start = np.zeros(shape)
        state = self._state or SchemeState(start, start, 0.0, 0.0, 0.0, Before())
        t = self._n_seen + 1
        before = state.before
        if t > 1:
            # What the model would have said of the task before it is learned.
            errors = (X @ state.average - y) ** 2
            weights = np.ones(len(y)) if weight is None else weight
            rows = weights.sum()
            # Rows of the first task are not counted: it is taken for as large as this one.
            error = (weights @ errors).sum()
            before = before.plus(error, rows, before.rows + rows)
        residual = y - X @ state.last  # the average answers, and the last weights learn
        if weight is not None:
            # Σ ω(y − xᵀw)² is the squared error of the rows √ω·x and √ω·y.
            root = np.sqrt(weight)[:, None]
            residual = root * residual
            if sparse.issparse(X):
                X = X.multiply(root).tocsr()
            else:
                X = root * X
        # R = max ‖X_t‖₂, from which schedules and step sizes are made.
        radius = state.radius
        if self._needs_radius:
            radius = self.radius
            if radius is None:
                radius = max(state.radius, norm(X))
        filter_ = self._filter(t, radius)
        # w_t = w_{t−1} + g(XᵀX)Xᵀ(y − Xw_{t−1})
        last = state.last + change(X, residual, filter_)
        if not np.isfinite(last).all():
            raise OverflowError(
                f"the weights are not finite after task {t}; rescale X and y towards 1, or use"
                " smaller steps"
            )
        total = state.total
        average = last
        if self.average is not None:
            # w̄ ← w̄ + (w − w̄)/Σ (i/t)^r
            total = next_total(state.total, self.average, t)
            average = state.average + (last - state.average) / total
        strength = float(filter_.strength())
        return SchemeState(
            last,
            average,
            total,
            radius,
            strength,
            before,
        )

    @property
    def _needs_radius(self) -> bool:
        return self.schedule is not None

    def _filter(self, t: int, radius: float) -> Filter:
        """Return the filter of task t."""
        if self.schedule is None:
            return self._constant(radius)
        schedule = as_schedule(self.schedule, self.n_tasks)
        # A filter with one value per step knows its number of tasks.
        listed = getattr(schedule, "horizon", None)
        # As far as it is known: a filter that is the same for all tasks needs none.
        k = self.n_tasks or self._n_groups or listed
        if k is not None and t > k:
            raise ValueError(
                f"task {t} is beyond the {k} tasks that the schedule was made for; set n_tasks to"
                " their number, or use a constant"
            )
        # Without k one entry says whether the filter changes from task to task.
        filter_ = resolve(schedule, k or 1, radius)
        is_budget = isinstance(self, ContinualGD)
        if isinstance(filter_, GradientDescent) != is_budget:
            raise TypeError(
                f"schedule of {type(self).__name__} must give a filter"
                f" {'of gradient descent' if is_budget else 'such as fl.Ridge'}, got {filter_!r};"
                " budgets of gradient steps are for ContinualGD"
            )
        if filter_.horizon is None:
            return filter_
        # One task more would change every entry of a planned schedule.
        if k is None:
            raise ValueError(
                f"schedule {self.schedule!r} depends on the number of tasks: set n_tasks, or use"
                " fit with groups"
            )
        return filter_[t - 1]

    def _check_parameters(self) -> None:
        average_power(self.average)
        super()._check_parameters()
        if self.schedule is None:
            return
        as_schedule(self.schedule, self.n_tasks)
        # Which of the two is meant cannot be known.
        for name in self._own:
            value = getattr(self, name)
            if value is not None:
                raise ValueError(
                    f"{name} and schedule both give the filter, got {name}={value!r} and"
                    f" schedule={self.schedule!r}; leave one out"
                )

    def _extended(self, X: Any) -> Any:
        """Return X with a feature that is always 1, where there is an intercept."""
        if not self.fit_intercept:
            return X
        ones = np.ones((X.shape[0], 1))
        if sparse.issparse(X):
            return sparse.hstack([X, ones], format="csr")
        return np.hstack([X, ones])

    def _linear(self) -> Linear:
        W = self._fitted().average
        if not self.fit_intercept:
            return Linear(W, np.zeros(W.shape[1]))
        # The weight of the feature that is always 1 is the last one.
        return Linear(W[:-1], W[-1])

    @property
    def radius_(self) -> float:
        """R of the schedule: as given, or the largest ‖X‖₂ so far."""
        return float(self._fitted().radius)

    @property
    def alpha_(self) -> float:
        """1/φ'(0) of the last step: λ, or 1/(Nγ)."""
        return float(self._fitted().strength)


class ContinualRidge(Scheme):
    """Regression on a stream of tasks with explicit L2 towards the previous weights: scheme 1 of
    the paper.

    Task t minimizes ½‖X_t w − y_t‖² + (λ_t/2)‖w − w_{t−1}‖² from w_0 = 0. Only the weights are
    stored; wide and sparse tasks are solved on their smaller side.

    Which question: a constant λ, by default 1, keeps following the stream, which is for the *next*
    task. ``schedule="increasing"`` with ``n_tasks`` moves less and less, which is for *all* tasks,
    as the theorem is. For ordinary data :class:`StreamingRidge` answers both.

    Parameters
    ----------
    alpha : float, optional
        λ at every task, 1 if there is no schedule either; 0 projects onto the solutions of the
        task. Not beside a schedule.
    schedule : callable (k, radius) → filter, or str, optional
        Task t takes entry t of ``schedule(n_tasks, radius)``, e.g. of
        ``forgetless.schedules.increasing()``; or a name such as ``"increasing"``.
    n_tasks : int, optional
        k, which schedules need; ``fit`` with groups takes their number.
    radius : float, optional
        R, for schedules. The largest ‖X_t‖₂ so far, the current task included, if omitted: the true
        R is reached with the largest task, and strengths before it are smaller than the theorem's.
    average : float, optional
        Predict with the average of the weights after every task, those after task t weighted by
        t^average; learning continues from the last weights. 2 with ``alpha=0`` has the best
        guarantee where the number of tasks is unknown.
    fit_intercept : bool, default False
        A feature that is always 1, regularized like every other.

    Attributes
    ----------
    coef_ : array of shape (d,) or (c, d)
    intercept_ : float or array of shape (c,)
    radius_, alpha_ : float
        R, where a schedule needs it, and λ of the last task.
    n_tasks_seen_ : int
    prequential_mse_ : float
        Mean squared error of predicting rows before they were learned, from the second task on.

    Examples
    --------
    >>> import forgetless as fl
    >>> model = fl.ContinualRidge(alpha=1.0).partial_fit([[1.0, 0.0]], [2.0])
    >>> model.partial_fit([[0.0, 1.0]], [4.0]).coef_.tolist()
    [1.0, 2.0]
    """

    _own = ("alpha",)

    def __init__(
        self,
        alpha: float | None = None,
        *,
        schedule: Any = None,
        n_tasks: int | None = None,
        radius: float | None = None,
        average: float | None = None,
        fit_intercept: bool = False,
    ) -> None:
        self.alpha = alpha
        self.schedule = schedule
        self.n_tasks = n_tasks
        self.radius = radius
        self.average = average
        self.fit_intercept = fit_intercept

    def _constant(self, radius: float) -> Filter:
        strength = 1.0 if self.alpha is None else float(self.alpha)
        return Ridge(strength)


class ContinualGD(Scheme):
    """Regression on a stream of tasks with a budget of gradient steps per task: scheme 2 of the
    paper.

    Task t performs N_t gradient steps of size γ_t on ½‖X_t w − y_t‖² from the previous weights.

    Which question: a constant budget, the default, keeps following the stream, which is for the
    *next* task; ``schedule="increasing_budget"``, whose steps become smaller, is for *all* tasks.

    Parameters
    ----------
    n_steps : int, optional
        N at every task, 100 if there is no schedule either. Not beside a schedule.
    step_size : float, optional
        γ at every task; half of 1/‖X‖₂² of the largest task so far if omitted.
    schedule, n_tasks, radius, average, fit_intercept
        As in :class:`ContinualRidge`, with filters of gradient descent.

    Attributes
    ----------
    coef_, intercept_, radius_, alpha_, n_tasks_seen_, prequential_mse_
        As in :class:`ContinualRidge`; ``alpha_`` is 1/(Nγ).

    Examples
    --------
    >>> import forgetless as fl
    >>> fl.ContinualGD(n_steps=2, step_size=0.5).partial_fit([[1.0, 0.0]], [2.0]).coef_.tolist()
    [1.5, 0.0]
    """

    _own = ("n_steps", "step_size")

    def __init__(
        self,
        n_steps: int | None = None,
        step_size: float | None = None,
        *,
        schedule: Any = None,
        n_tasks: int | None = None,
        radius: float | None = None,
        average: float | None = None,
        fit_intercept: bool = False,
    ) -> None:
        self.n_steps = n_steps
        self.step_size = step_size
        self.schedule = schedule
        self.n_tasks = n_tasks
        self.radius = radius
        self.average = average
        self.fit_intercept = fit_intercept

    @property
    def _needs_radius(self) -> bool:
        return self.schedule is not None or self.step_size is None

    def _constant(self, radius: float) -> Filter:
        n_steps = 100 if self.n_steps is None else self.n_steps
        step_size = self.step_size
        if step_size is None:
            # Stable up to 2/R²; all columns of zeros have R = 0.
            step_size = 0.5 / max(radius, 1e-150) ** 2
        return GradientDescent(n_steps, float(step_size))
