"""Regression on a stream with a budget of gradient steps per task: scheme 2 of the paper."""

from typing import Any

from sklearn.base import RegressorMixin

from forgetless._core import validate
from forgetless.estimators._scheme import Continual
from forgetless.estimators._strength import HalfStep
from forgetless.estimators.model import store
from forgetless.filters import GradientDescent
from forgetless.schedules.names import named


class ContinualGD(RegressorMixin, Continual):  # type: ignore[misc]
    """Regression on a stream of tasks with a budget of gradient steps per task, from the previous solution.

    Task t makes N_t steps of size γ_t on ½‖X_t w − y_t‖², computed exactly but not one by one.

    Parameters
    ----------
    n_steps : int, default 100
        N at every task, if no schedule is given; also the N of the schedules by name.
    step_size : float, optional
        γ at every task; half of 1/‖X_t‖² of the largest task so far if omitted.
    schedule : str, schedule, filter or callable, optional
        ``"fixed"`` and ``"increasing"`` are the budget presets with ``n_steps``; they choose γ_t.
    n_tasks, radius, beyond, average, loss, fit_intercept, standardize, solver, tol, memory
    history_size, holdout, holdout_size, random_state
        As in :class:`forgetless.ContinualRidge`. The ``strength`` in ``history_`` is 1/(N_t γ_t).

    Attributes
    ----------
    coef_, intercept_, n_tasks_seen_, radius_, history_, prequential_mse_, seen_mse_
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

    _norm_always = True  # also where γ is given: above 2/‖X‖² the steps diverge

    def __init__(
        self,
        n_steps: int = 100,
        step_size: float | None = None,
        *,
        schedule: Any = None,
        n_tasks: int | None = None,
        radius: float | None = None,
        beyond: str = "error",
        average: float | None = None,
        loss: str = "sum",
        fit_intercept: bool = False,
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

    def _own_schedule(self) -> Any:
        if self.step_size is not None:
            return GradientDescent(self.n_steps, self.step_size)
        return HalfStep(validate.integer("n_steps", self.n_steps, 1, "give a whole number of gradient steps"))

    def _named(self, text: str) -> Any:
        short = {"fixed": "fixed-budget", "increasing": "increasing-budget"}
        return named(short.get(text, text), *short, n_steps=self.n_steps)

    def _key(self) -> tuple[Any, ...]:
        return (self.n_steps, self.step_size, self.schedule, self.n_tasks, self.beyond)
