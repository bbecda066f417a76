"""Regression on a stream with explicit L2 towards the previous weights: scheme 1 of the paper.

``partial_fit`` learns one task; ``fit`` starts again and learns one task per group of rows. The
rules are in ``rules``, the computation of a step is in ``solvers.one_task``.
"""

from typing import Any

from sklearn.base import RegressorMixin

from forgetless import schedules
from forgetless._core import validate
from forgetless._schedule import Named, as_schedule
from forgetless.estimators.evidence import DEFAULT_RANK, Evidence
from forgetless.estimators.low_rank import LowRankMemory
from forgetless.estimators.regressor import RETAINED_FRACTION, StreamingRegressor, store
from forgetless.estimators.rules import HalfStep, Options, Rule, Scheduled, Strength
from forgetless.estimators.state import Learned
from forgetless.estimators.strength import Auto, Steady
from forgetless.estimators.tracking import SteadyRule
from forgetless.filters import GradientDescent, Ridge


class ExplicitL2(StreamingRegressor):
    """Base of the estimators with explicit L2, which may choose its strength themselves."""

    retained_fraction_ = RETAINED_FRACTION

    alpha: float | None
    schedule: Any
    n_tasks: int | None

    @property
    def _automatic(self) -> bool:
        """Whether the model chooses its strength itself."""
        schedule = self.schedule
        if schedule is None:
            return self.alpha is None
        return isinstance(schedule, Auto) or (isinstance(schedule, str) and schedule == "auto")

    def _value(self, name: str) -> Any:
        """Return a parameter; of one left out, the value for the schedule."""
        value = getattr(self, name)
        if name == "memory" and isinstance(value, str) and value == "auto":
            return DEFAULT_RANK if self._automatic else None
        if name in ("fit_intercept", "standardize") and value is None:
            return self._automatic
        return value

    def _fixed(self) -> dict[str, Any]:
        kind = "auto" if self._automatic else "one of its own strength"
        return {**super()._fixed(), "schedule": kind}

    def _make_rule(self, n_groups: int | None) -> Rule:
        options = Options.of(self)
        memory = LowRankMemory.of(self._value("memory"))
        schedule = self.schedule
        if self._automatic:
            auto = schedule if isinstance(schedule, Auto) else Auto()
            return Evidence(options, memory, auto, classes=self._has_classes)
        if isinstance(schedule, str):
            schedule = as_schedule(schedule, self.n_tasks)
        elif schedule is None:
            schedule = Ridge(validate.number("alpha", self.alpha, "use 0 for no regularization"))
        if isinstance(schedule, Steady):
            if schedule.noise > 0:
                return SteadyRule(schedule, options, memory)
            schedule = Ridge(0.0)  # as ``schedules.steady``
        return Scheduled(Strength(schedule, self.n_tasks, n_groups), options, memory)


class ContinualRidge(RegressorMixin, ExplicitL2):  # type: ignore[misc]
    """Ridge regression on a stream of tasks: on all rows so far, as far as the memory allows, or by
    the paper's scheme.

    By default (``schedule="auto"``) it stores statistics of all rows and solves ridge regression on
    all of them, with the strength of largest evidence, standardized columns and an intercept. With
    ``alpha`` or another ``schedule`` it is scheme 1 of the paper: task t minimizes ½‖X_t w − y_t‖²
    + (λ_t/2)‖w − w_{t−1}‖² from w_0 = 0 in O(d) memory.

    Parameters
    ----------
    alpha : float, optional
        λ_t = alpha at every task, if no schedule is given. For one task from zero this is
        scikit-learn's ``Ridge``.
    schedule : str, schedule, filter or callable, optional
        λ_t from a schedule of :mod:`forgetless.schedules`, e.g.
        ``schedules.increasing(scale=0.01)`` or by its name, ``"increasing"``, or any callable
        ``(k, radius) → filter``. ``"auto"`` or ``estimators.strength.Auto``, the default if
        there is no ``alpha``, needs neither a horizon nor scaled features.
    n_tasks : int, optional
        The horizon k that schedules need. If omitted, ``fit`` with groups takes their number, and
        ``partial_fit`` proceeds in epochs of doubling length: a heuristic without a theorem, since
        the schedule starts again in every epoch. So do tasks after ``n_tasks``, with a warning.
    radius : float, optional
        R, for schedules. If omitted, the largest ‖X_t‖₂ so far, the current task included: the true
        R is reached with the largest task, and the strengths before it are smaller than the
        theorem's.
    memory : "auto", int, LowRankMemory or None, default "auto"
        Low-rank memory of all tasks beside the weights, by its rank or as
        :class:`forgetless.LowRankMemory`: r·d numbers. ``"auto"`` is rank 100 with
        ``schedule="auto"``, where nothing is lost up to 100 features, and none otherwise. With a
        constant ``alpha``, once r reaches the rank of all rows, the solution is that of joint ridge
        regression (with ``standardize`` up to the change of units). Needs λ_t > 0.
    average : float, optional
        Predict with the average of the weights after every task, those after task t weighted by
        t^average: ``coef_`` and ``predict`` are of the average, while learning continues from the
        last weights. Needs no horizon: 2, with ``alpha=0``, has the best guarantee where it is
        unknown, for tasks that one model fits. Not for streams that change, since an average
        includes old solutions. It takes O(d) more memory.
    fit_intercept : bool, optional
        Adds a feature that is always 1; by default only with ``schedule="auto"``. There the
        intercept is not regularized, otherwise like every other weight.
    standardize : bool, optional
        By default only with ``schedule="auto"``. Learn in units in which every column has mean 0
        and standard deviation 1 over all rows so far. When these statistics change, weights and
        memory are expressed in the new units, so that the function stays as it was; ``coef_`` and
        ``intercept_`` are in the user's units. With an intercept the first task starts from the
        mean of its targets. Columns are scaled but not centred without an intercept, or where X is
        sparse. It takes O(d) more memory, and a copy of every task.
    tol : float, default 1e-10
        Bound of the relative error of a step of a task too large for a factorization.

    Attributes
    ----------
    coef_ : array of shape (d,) or (c, d)
    intercept_ : float or array of shape (c,)
    n_tasks_seen_ : int
    radius_ : float
        The running maximum of ‖X_t‖₂, over the tasks for which it was needed or came with the
        solution (smaller side up to 200).
    history_ : dict of arrays
        The last 1000 tasks: ``task``, ``n_rows``, ``strength`` (λ_t), ``radius`` (R; NaN where not
        known), ``mse_before`` and ``mse_after`` learning it (with ``average`` by the average, and
        by the last weights), ``error`` of the step (relative; bound or estimate).
    prequential_mse_ : float
        Mean squared error of predicting every row before learning it.
    retained_fraction_ : float
        Fraction of the trace of Σ XᵀX that the memory holds. Where it is far below 1, a larger rank
        may help.
    nbytes_ : int
        Size of the state in bytes.

    Notes
    -----
    One thread may learn while others read. Learning replaces all of the state at once, so an error
    or an interruption leaves the model as it was before the task, and ``predict``, ``save``,
    pickling and copying see one whole state. Two attributes read one after the other may be of two
    states: take both from ``copy.copy(model)``. ``forgetless.evaluate_stream`` measures errors on
    held-out rows.

    Examples
    --------
    >>> import numpy as np
    >>> from forgetless import ContinualRidge
    >>> model = ContinualRidge(alpha=1.0)
    >>> for X, y in [([[1.0, 0.0]], [2.0]), ([[0.0, 1.0]], [4.0])]:
    ...     model = model.partial_fit(X, y)
    >>> model.coef_.tolist(), model.n_tasks_seen_
    ([1.0, 2.0], 2)

    With a memory, the second task does not undo the first:

    >>> tasks = [([[1.0, 0.0]], [2.0]), ([[1.0, 1.0]], [0.0])]
    >>> for memory in (None, 1):
    ...     model = ContinualRidge(alpha=0.01, memory=memory)
    ...     for X, y in tasks:
    ...         model = model.partial_fit(X, y)
    ...     print(model.coef_.round(2).tolist(), round(model.retained_fraction_, 2))
    [1.0, -0.99] 0.0
    [1.96, -1.94] 0.87

    References
    ----------
    Levinstein et al. (2025), Algorithm 1 (regularized continual linear regression).
    """

    radius_ = Learned(
        lambda state: state.radius, "The largest ‖X_t‖₂ of the tasks for which it is known."
    )

    def __init__(  # noqa: PLR0913
        self,
        alpha: float | None = None,
        *,
        schedule: Any = None,
        n_tasks: int | None = None,
        radius: float | None = None,
        memory: Any = "auto",
        average: float | None = None,
        fit_intercept: bool | None = None,
        standardize: bool | None = None,
        tol: float = 1e-10,
    ) -> None:
        store(self, locals())


class ContinualGD(RegressorMixin, StreamingRegressor):  # type: ignore[misc]
    """Regression on a stream of tasks with a budget of gradient steps per task, from the previous
    solution.

    Task t performs N_t steps of size γ_t on ½‖X_t w − y_t‖², computed exactly but not one by one.

    Parameters
    ----------
    n_steps : int, default 100
        N at every task, if no schedule is given; also the N of the schedules by name.
    step_size : float, optional
        γ at every task; half of 1/‖X_t‖² of the largest task so far if omitted.
    schedule : str, schedule, filter or callable, optional
        ``"fixed"`` and ``"increasing"`` are the budget presets with ``n_steps``; they choose γ_t.
    n_tasks, radius, average, fit_intercept, standardize, tol
        As in :class:`forgetless.ContinualRidge`. The ``strength`` in ``history_`` is 1/(N_t γ_t).

    Attributes
    ----------
    coef_, intercept_, n_tasks_seen_, radius_, history_, prequential_mse_, nbytes_
        As in :class:`forgetless.ContinualRidge`.

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

    radius_ = Learned(lambda state: state.radius, "The largest ‖X_t‖₂ so far.")

    def __init__(  # noqa: PLR0913
        self,
        n_steps: int = 100,
        step_size: float | None = None,
        *,
        schedule: Any = None,
        n_tasks: int | None = None,
        radius: float | None = None,
        average: float | None = None,
        fit_intercept: bool = False,
        standardize: bool = False,
        tol: float = 1e-10,
    ) -> None:
        store(self, locals())

    def _make_rule(self, n_groups: int | None) -> Rule:
        strength = Strength(self._schedule(), self.n_tasks, n_groups)
        # ‖X‖₂ is measured even where γ is given, since steps above 2/‖X‖² diverge.
        return Scheduled(strength, Options.of(self), measure=True)

    def _schedule(self) -> Any:
        if isinstance(self.schedule, str):
            short = {"fixed": "fixed_budget", "increasing": "increasing_budget"}
            named = as_schedule(short.get(self.schedule, self.schedule), self.n_tasks)
            if isinstance(named, Named) and named.name.endswith("budget"):
                return getattr(schedules, named.name)(n_steps=self.n_steps)
            return named
        if self.schedule is not None:
            return self.schedule
        if self.step_size is not None:
            return GradientDescent(self.n_steps, self.step_size)
        return HalfStep(
            validate.integer("n_steps", self.n_steps, 1, "pass a whole number of gradient steps")
        )
