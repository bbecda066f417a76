"""The schedule that minimises the exact loss over all k coefficients, by descent with adjoint
gradients.
"""

from typing import Any

import numpy as np

from forgetless import _validate as validate
from forgetless._progress import track
from forgetless._threads import one_blas_thread
from forgetless._validate import Floats
from forgetless.advice._search import Coordinates, search
from forgetless.advice.ranking import checked_objective, losses_on, name_of, standard_shapes
from forgetless.advice.results import OptimalSchedule
from forgetless.filters import Ridge
from forgetless.lab.gradient import Adjoint, through_parameters
from forgetless.lab.problem import Problem, check_tasks, checked_ordering, with_few_threads
from forgetless.orderings import OrderingLike
from forgetless.schedules import resolve
from forgetless.tasks import TaskCollection

_SOFT = (1e-2, 1e-4)
"""Softness of the largest eigenvalue, first and last: the worst teacher changes on the way, and
the loss has kinks."""

_TRIAL = 40
"""Iterations from every start."""

_LONGEST = 600
"""Iterations from the best end of these."""

_STARTS = ("no regularization", "constant", "increasing", "end ramp")
"""Shapes at whose best scales the descent starts."""


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
    k = validate.integer("k", k, 1, "ask for at least one step")
    check_tasks(tasks)
    goal = checked_objective(objective, tasks, ("average_loss", "worst_case"))
    order = checked_ordering(ordering, tasks, k)
    losses = losses_on(tasks, k, goal, order)
    candidates = [each for each in standard_shapes(tasks, k, order) if each.title in _STARTS]
    curves = search(candidates, losses, rounds=3)
    starts = {curve.shape.title: curve.shape.make(curve.best) for curve in curves}
    coordinates = _coordinates(tasks, k, monotone)
    problem = Problem.of(tasks, 1.0, k, order, "last")
    other = None if isinstance(goal, str) else goal
    descent = _Descent(Adjoint(problem, worst=goal == "worst_case", other=other), coordinates)
    # The descent begins at the best schedule of every shape.
    first = {name: _coefficients(each, k, tasks.radius) for name, each in starts.items()}
    name, coefficients = descent.run(first)
    loss = float(losses([Ridge(coefficients)])[0])
    # The first two curves are those of no regularization and of the best constant.
    constant = min(curves[:2], key=lambda curve: curve.least)
    # Smoothing may cost more than it gains, and at an optimum so may rounding.
    if loss > constant.least:
        name = constant.shape.title
        loss = constant.least
        coefficients = first[name]
    return OptimalSchedule(
        tuple(coefficients.tolist()),
        name_of(goal),
        loss,
        starts[constant.shape.title],
        constant.least,
        descent.stationarity(coefficients),
        name,
        monotone,
    )


def _coordinates(tasks: TaskCollection, k: int, monotone: bool) -> Coordinates:
    square = tasks.radius**2 or 1.0
    unit = square
    if tasks.singular_values.size:
        # Below the smallest eigenvalue a coefficient hardly changes any filter factor.
        unit = max(float(tasks.singular_values.min()) ** 2, 1e-12 * square)
    return Coordinates(unit, 1e4 * k * square, monotone=monotone)


def _coefficients(schedule: Any, k: int, radius: float) -> Floats:
    return np.array(np.broadcast_to(resolve(schedule, k, radius).strength(), (k,)))


class _Descent:
    """Descent on ln(loss) from several starts."""

    def __init__(self, adjoint: Adjoint, coordinates: Coordinates) -> None:
        self.adjoint = adjoint
        self.coordinates = coordinates
        # keeps the logarithm of a loss of 0 finite
        self.rounding = 1e-15 * max(adjoint.first, float(np.finfo(float).tiny))

    def run(self, starts: dict[str, Floats]) -> tuple[str, Floats]:
        """Return the best start and its minimum: short trials from all starts, then a long descent
        from the best.
        """
        trials = {}
        for name in track(list(starts), "starts"):
            x = self.coordinates.inverse(starts[name])
            trials[name] = self._descend(x, _SOFT[0], _TRIAL)
        name = min(trials, key=lambda each: trials[each][1])
        x = trials[name][0]
        # Only the worst case has kinks, at which a soft maximum is sharpened.
        for softness in _SOFT if self.adjoint.worst else _SOFT[:1]:
            x, _ = self._descend(x, softness, _LONGEST)
        return name, self.coordinates.coefficients(x)

    def stationarity(self, coefficients: Floats) -> float:
        """Return the largest entry of the projected gradient."""
        x = self.coordinates.inverse(coefficients)
        return self.coordinates.stationarity(lambda x: self.value(x, _SOFT[1]), x)

    def _descend(self, x: Floats, softness: float, iterations: int) -> tuple[Floats, float]:
        with one_blas_thread():
            return self.coordinates.descend(lambda x: self.value(x, softness), x, iterations)

    def value(self, x: Floats, softness: float) -> tuple[float, Floats]:
        """Return ln(loss) and its derivative with respect to x."""
        coefficients = self.coordinates.coefficients(x)
        filter_ = Ridge(coefficients)
        loss, by_factor, _ = self.adjoint(filter_, softness)
        loss += self.rounding
        slopes = through_parameters(filter_, by_factor, self.adjoint.problem.tasks)["coefficient"]
        return float(np.log(loss)), self.coordinates.pulled_back(coefficients, slopes / loss)
