"""Regression on a stream with a budget of gradient steps per task: scheme 2 of the paper."""

from typing import Any

from sklearn.base import RegressorMixin

from forgetless._core import validate
from forgetless.estimators.regressor import StreamingRegressor, store
from forgetless.estimators.rules import Options, Rule, Scheduled
from forgetless.estimators.state import Learned
from forgetless.estimators.strength import HalfStep, Strength
from forgetless.filters import GradientDescent
from forgetless.schedules.names import named


class ContinualGD(RegressorMixin, StreamingRegressor):  # type: ignore[misc]
    """Regression on a stream of tasks with a budget of gradient steps per task, from the previous solution.

    Task t performs N_t steps of size γ_t on ½‖X_t w − y_t‖², computed exactly but not one by one.

    Parameters
    ----------
    n_steps : int, default 100
        N at every task, if no schedule is given; also the N of the schedules by name.
    step_size : float, optional
        γ at every task; half of 1/‖X_t‖² of the largest task so far if omitted.
    schedule : str, schedule, filter or callable, optional
        ``"fixed"`` and ``"increasing"`` are the budget presets with ``n_steps``; they choose γ_t.
    n_tasks, radius, average, loss, fit_intercept, standardize, solver, tol
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

    def __init__(
        self,
        n_steps: int = 100,
        step_size: float | None = None,
        *,
        schedule: Any = None,
        n_tasks: int | None = None,
        radius: float | None = None,
        average: float | None = None,
        loss: str = "sum",
        fit_intercept: bool = False,
        standardize: bool = False,
        solver: str = "auto",
        tol: float = 1e-10,
    ) -> None:
        store(self, locals())

    def _make_rule(self, n_groups: int | None) -> Rule:
        strength = Strength(self._schedule(), self.n_tasks, n_groups)
        # ‖X‖₂ is measured even where γ is given, since steps above 2/‖X‖² diverge.
        return Scheduled(strength, Options.of(self), measure=True)

    def _schedule(self) -> Any:
        if isinstance(self.schedule, str):
            short = {"fixed": "fixed-budget", "increasing": "increasing-budget"}
            return named(short.get(self.schedule, self.schedule), *short, n_steps=self.n_steps)
        if self.schedule is not None:
            return self.schedule
        if self.step_size is not None:
            return GradientDescent(self.n_steps, self.step_size)
        return HalfStep(validate.integer("n_steps", self.n_steps, 1, "pass a whole number of gradient steps"))
