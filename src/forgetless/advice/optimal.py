"""The schedule that minimises the exact loss over all k coefficients, by descent with adjoint
gradients.

The coordinates of the descent (L-BFGS-B) are a_t = ln(1 + λ_t/λ₀), or their increments where the
coefficients must not fall. The logarithm covers decades, and 1 + makes it reach λ = 0 with a finite
slope.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from forgetless import _validate as validate
from forgetless._running import track
from forgetless._validate import Floats
from forgetless.advice import goal_of, losses_on
from forgetless.advice._search import search, shapes
from forgetless.filters import Filter, Ridge
from forgetless.lab import Problem, check_tasks, checked_ordering, with_few_threads
from forgetless.lab.gradient import Adjoint, through_parameters
from forgetless.orderings import OrderingLike
from forgetless.schedules import from_coefficients, resolve
from forgetless.tasks import TaskCollection

_SOFT = (1e-2, 1e-4)
"""Softness of the largest eigenvalue, first and last: the worst teacher changes on the way, and
the loss has kinks."""

_TRIAL = 40  # no mutant: the long descent goes on from where a trial ends
"""Iterations from every start."""

_LONGEST = 600  # no mutant: one iteration of so many
"""Iterations from the best end of these."""

_STARTS = ("no regularization", "constant", "increasing", "end ramp")
"""Shapes at whose best scales the descent starts."""


@dataclass(frozen=True)
class OptimalSchedule:
    """Optimised coefficients with their loss; a schedule for exactly as many steps.

    Attributes
    ----------
    coefficients : tuple of float
        λ_1..λ_k, for the tasks of the optimisation.
    objective : str
    loss : float
        The exact objective.
    best_constant : filter
        The best fixed coefficient, or ``Projection()``.
    best_constant_loss : float
    stationarity : float
        Largest relative change of the loss per unit change of ln(λ_t + λ₀) that no constraint
        forbids: 0 at a stationary point. λ₀ is the smallest squared singular value of a task. In
        the worst case it is that of the largest eigenvalue softened by 1e-4.
    start : str
        The shape from which the descent started.
    monotone : bool
    tracking : float or None
        For ensembles whose optimum has a closed form: the λ that it tends to for many tasks,
        infinite without a walk.
    """

    coefficients: tuple[float, ...] = field(repr=False)
    objective: str
    loss: float
    best_constant: Filter
    best_constant_loss: float
    stationarity: float
    start: str
    monotone: bool = False
    tracking: float | None = None

    @property
    def gap(self) -> float:
        """The relative reduction of the loss from that of the best constant, in [0, 1]."""
        if self.best_constant_loss == 0:
            return 0.0
        return 1 - self.loss / self.best_constant_loss

    @property
    def horizon(self) -> int:
        """k, the number of steps that it is for."""
        return len(self.coefficients)

    def __call__(self, k: int, radius: float) -> Filter:
        """Return the filter of the coefficients."""
        return from_coefficients(self.coefficients)(k, radius)

    def plot(self, ax: Any = None) -> Any:
        """Draw the coefficients over the steps beside the best constant; returns the axes."""
        from forgetless.plots import plot_schedule

        constant = float(self.best_constant.strength())
        return plot_schedule(self.coefficients, constant, f"{self.objective} {self.loss:.4g}", ax)


@with_few_threads
def optimal_schedule(
    tasks: TaskCollection,
    k: int,
    *,
    objective: str | TaskCollection = "average_loss",
    ordering: OrderingLike | None = None,
    monotone: bool = False,
) -> OptimalSchedule:
    """Return coefficients λ_1..λ_k at a local minimum of the exact loss after k random draws.

    The loss is not convex in the coefficients. Descent (L-BFGS-B on ln(1 + λ_t/λ₀) ≥ 0, with exact
    gradients) starts from no regularization and from the best constant, increasing schedule and end
    ramp; the best end is returned, with its ``stationarity``. It is never worse than the best
    constant.

    Parameters
    ----------
    tasks : TaskCollection
        For fresh random tasks see ``fl.ensembles``.
    k : int
        Number of steps. A gradient costs two passes over them.
    objective : "average_loss", "worst_case" or TaskCollection
        As in ``advise``.
    ordering : Ordering or its name, default ``WithReplacement()``
        Any ordering with ``moves``.
    monotone : bool, default False
        Whether the coefficients must not decrease.

    Returns
    -------
    OptimalSchedule
        A schedule for these k steps, with ``.loss``, ``.gap``, ``.stationarity``,
        ``.coefficients``.

    Examples
    --------
    Two tasks at a small angle, worst teacher: near zero for most of the steps, then a ramp.

    >>> import numpy as np
    >>> import forgetless as fl
    >>> s = fl.optimal_schedule(fl.theory.constructions.two_tasks(np.pi / 8), k=16,
    ...     objective="worst_case")
    >>> np.round(s.coefficients[-4:], 1).tolist(), round(s.gap, 2)
    ([0.0, 0.5, 1.3, 2.2], 0.28)
    """
    k = validate.steps(k)
    check_tasks(tasks)
    goal = goal_of(objective, ("average_loss", "worst_case"))
    order = checked_ordering(ordering, tasks, k)
    losses = losses_on(tasks, k, goal, order)
    # Shapes whose steps are ridge steps: the descent is over their coefficients.
    candidates = [each for each in shapes(tasks, k, order) if each.title in _STARTS]
    curves = search(candidates, losses)
    # no mutant: the descent brings filters of its own
    problem = Problem.of(tasks, 1.0, k, order, "last")
    other = objective if isinstance(objective, TaskCollection) else None
    descent = _Descent(Adjoint(problem, worst=goal == "worst_case", other=other), monotone)
    # The descent begins at the best schedule of every shape.
    first = {each.shape: _coefficients(each.schedule, k, tasks.radius) for each in curves}
    name, coefficients = descent.run(first)
    # Exact: the descent has followed a softened worst case.
    loss = float(losses([Ridge(coefficients)])[0])
    # The first two curves are those of no regularization and of the best constant.
    constant = min(curves[:2], key=lambda curve: curve.loss)
    # Smoothing may cost more than it gains, and at an optimum so may rounding.
    if loss > constant.loss:
        name = constant.shape
        loss = constant.loss
        coefficients = first[name]
    return OptimalSchedule(
        tuple(coefficients.tolist()),
        getattr(goal, "name", goal),
        loss,
        constant.schedule,
        constant.loss,
        descent.stationarity(coefficients),
        name,
        monotone,
    )


def _coefficients(schedule: Any, k: int, radius: float) -> Floats:
    """Return λ_1..λ_k of a schedule, or of the ridge steps with its effect at small eigenvalues."""
    return np.array(np.broadcast_to(resolve(schedule, k, radius).strength(), (k,)))


class _Descent:
    """Descent on ln(loss) from several starts."""

    def __init__(self, adjoint: Adjoint, monotone: bool) -> None:
        self.adjoint = adjoint
        self.monotone = monotone
        # Keeps the logarithm of a loss of 0 finite.
        self.rounding = 1e-15 * max(adjoint.first, float(np.finfo(float).tiny))
        tasks = adjoint.problem.tasks
        radius = tasks.radius or 1.0
        # λ₀: below the smallest eigenvalue a coefficient hardly changes any filter factor.
        least = tasks.singular_values.min(initial=radius)
        self.unit = max(float(least) ** 2, 1e-12 * radius**2)
        # Far above kR² the weights hardly change in k steps.
        self.highest = float(np.log1p(1e4 * adjoint.problem.k * radius**2 / self.unit))

    def run(self, starts: dict[str, Floats]) -> tuple[str, Floats]:
        """Return the best start and its minimum: short trials from all starts, then a long descent
        from the best.
        """
        trials = {
            name: self._descend(self._inverse(start), _SOFT[0], _TRIAL)
            for name, start in track(starts.items(), "starts")
        }
        name = min(trials, key=lambda each: trials[each][1])
        x, _ = self._descend(trials[name][0], _SOFT[0], _LONGEST)
        # Only the worst case has kinks, at which a soft maximum is sharpened.
        if self.adjoint.worst:
            x, _ = self._descend(x, _SOFT[1], _LONGEST)
        return name, self._coefficients(x)

    def stationarity(self, coefficients: Floats) -> float:
        """Return the largest entry of the projected gradient: 0 at a stationary point."""
        x = self._inverse(coefficients)
        _, slopes = self._value(x, _SOFT[1])
        # A step of length one against the gradient, and back into the bounds: what is left of it.
        moved = np.clip(x - slopes, 0.0, max(self.highest, float(x.max())))
        return float(np.max(np.abs(moved - x)))

    def _coefficients(self, x: Floats) -> Floats:
        """Return λ_t = λ₀(exp(a_t) − 1) from coordinates: a_t, or increments of it."""
        if self.monotone:
            x = np.minimum(np.cumsum(x), self.highest)
        return np.asarray(self.unit * np.expm1(x))

    def _inverse(self, coefficients: Floats) -> Floats:
        """Return the coordinates of coefficients, or of the nearest ones within the bounds."""
        logs = np.minimum(np.log1p(coefficients / self.unit), self.highest)
        if self.monotone:
            logs = np.maximum(np.diff(logs, prepend=0.0), 0.0)
        return logs

    def _descend(self, x: Floats, softness: float, iterations: int) -> tuple[Floats, float]:
        """Return a local minimum near x and its value."""
        from scipy.optimize import minimize

        # Far below what a loss is known to: the limit of iterations ends the descent.
        accuracy = {"ftol": 1e-14, "gtol": 1e-9}
        found = minimize(
            self._value,
            x,
            args=(softness,),
            method="L-BFGS-B",
            jac=True,
            bounds=[(0.0, self.highest)] * len(x),
            # no mutant: with a longer memory it ends at the same minimum
            options={"maxiter": iterations, "maxcor": 30, **accuracy},
        )
        return np.asarray(found.x), float(found.fun)

    def _value(self, x: Floats, softness: float) -> tuple[float, Floats]:
        """Return ln(loss) and its derivative with respect to x."""
        coefficients = self._coefficients(x)
        filter_ = Ridge(coefficients)
        loss, by_factor, _ = self.adjoint(filter_, softness)
        loss += self.rounding
        slopes = through_parameters(filter_, by_factor, self.adjoint.problem.tasks)["coefficient"]
        # dλ_t/da_t = λ₀ exp(a_t) = λ₀ + λ_t
        by_logs = slopes / loss * (self.unit + coefficients)
        # An increment moves all later coefficients.
        if self.monotone:
            by_logs = np.cumsum(by_logs[::-1])[::-1]
        return float(np.log(loss)), by_logs
