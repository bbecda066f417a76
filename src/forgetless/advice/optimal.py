"""The schedule that minimises the exact loss over all k coefficients, by descent with adjoint
gradients.
"""

from typing import Any, Literal

import numpy as np

from forgetless._core import validate
from forgetless._core.arrays import Floats
from forgetless._core.threads import one_blas_thread
from forgetless.advice import ensembles
from forgetless.advice._losses import Losses, check_held_out
from forgetless.advice._ranking import best_of_each
from forgetless.advice._shapes import scan, shapes
from forgetless.advice.schedule import OptimalSchedule
from forgetless.engines.adjoint import Adjoint, through_parameters
from forgetless.engines.fresh import check_unused
from forgetless.engines.inputs import OrderingLike
from forgetless.engines.problem import Problem, check_tasks, checked_ordering, with_few_threads
from forgetless.ensembles import Ensemble
from forgetless.filters import Ridge
from forgetless.metrics import quantity
from forgetless.orderings import Draws
from forgetless.reporting.progress import Progress, progress_callback
from forgetless.schedules import resolve
from forgetless.tasks import TaskCollection

# Softness of the largest eigenvalue, first and last: the worst teacher changes on the way, and the
# loss has kinks
_SOFT = (1e-2, 1e-4)
_TRIAL, _LONGEST = 40, 600  # Iterations from every start, and from the best of them


@with_few_threads
def optimal_schedule(  # noqa: PLR0913
    tasks: TaskCollection | Ensemble,
    k: int,
    *,
    objective: Literal[
        "average_loss", "worst_case", "validation", "next_loss", "distance"
    ] = "average_loss",
    ordering: OrderingLike | None = None,
    start: Any = None,
    validation: Any = None,
    monotone: bool = False,
    smooth: float = 0.0,
    progress: Progress | bool | None = None,
) -> OptimalSchedule:
    """Return coefficients λ_1..λ_k at a local minimum of the exact loss after k random draws.

    The loss is not convex in the coefficients. Descent (L-BFGS-B on ln(1 + λ_t/λ₀) ≥ 0, with exact
    gradients) starts from no regularization and from the best constant, increasing schedule and end
    ramp; the best end is returned with a certificate of stationarity. It is never worse than the
    best constant.

    Parameters
    ----------
    tasks : TaskCollection or Ensemble
        For an ensemble with rotation-invariant rows and one teacher, or a walking one and the
        objectives "next_loss" and "distance", the optimum has a closed form
        (``fl.schedules.steady``), and ``.tracking`` is its limit; other arguments than these three
        are for task collections.
    k : int
        Number of steps. A gradient costs two passes over them.
    objective : "average_loss", "worst_case" or "validation"; for ensembles "average_loss",
    "next_loss" or "distance"
        As in ``advise``.
    ordering : Ordering or its name, default ``WithReplacement()``
        Independent draws.
    start : array of shape (d,) or (d, c), optional
        w₀; the origin if omitted.
    validation : TaskCollection, pair (X, y) or list of pairs
        Held-out rows, for ``objective="validation"``.
    monotone : bool, default False
        Whether the coefficients must not decrease.
    smooth : float, default 0
        Nonnegative price of unevenness: ``smooth`` times the sum of squared changes of ln(λ_t + λ₀)
        from step to step is added to the logarithm of the loss.
    progress : bool or callable, optional
        True shows a bar; a callable is called as ``progress(starts_done, n_starts, "starts")``.

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
    if isinstance(tasks, Ensemble):
        others = {
            "ordering": (ordering, None),
            "start": (start, None),
            "validation": (validation, None),
        }
        check_unused(**others, monotone=(monotone, False), smooth=(smooth, 0.0))
        return ensembles.optimal(tasks, k, objective)
    check_tasks(tasks)
    k = validate.integer("k", k, 1, "ask for at least one step")
    goal = quantity("objective", objective, ("average_loss", "worst_case", "validation"))
    ordering = checked_ordering(ordering, tasks, k)
    if not isinstance(Problem.of(tasks, Ridge(0.0), k, ordering, "last").law, Draws):
        raise TypeError(
            f"ordering must be independent draws for exact gradients, got {ordering!r}; leave"
            " it out"
        )
    smooth = validate.number("smooth", smooth, "0 allows any change from step to step")
    held_out = check_held_out(validation, tasks, needed=goal == "validation")
    problem = Losses(tasks, k, ordering, start, held_out, goal)
    search = _Search(_adjoint(problem), _Coordinates(tasks, k, monotone), smooth)
    with progress_callback(progress) as report_progress:
        starts = _starts(problem)
        constants = [name for name in ("no regularization", "constant") if name in starts]
        best_constant = min(constants, key=lambda name: starts[name][1])
        first = {
            each: _coefficients(schedule, k, tasks.radius) for each, (schedule, _) in starts.items()
        }
        name, coefficients = search.run(first, report_progress)
    loss = float(problem.losses([Ridge(coefficients)])[0])
    # smoothing may cost more than it gains; rounding may, at an optimum
    if loss > starts[best_constant][1]:
        name, loss = best_constant, starts[best_constant][1]
        coefficients = _coefficients(starts[name][0], k, tasks.radius)
    stationarity, values = search.stationarity(coefficients), tuple(coefficients.tolist())
    return OptimalSchedule(values, goal, loss, *starts[best_constant], stationarity, name, monotone)


Start = tuple[Any, float]


def _starts(problem: Losses) -> dict[str, Start]:
    """Return the best schedule of every shape of ``Ridge``, and its exact loss."""
    names = ("no regularization", "constant", "increasing", "end ramp")
    candidates = [
        shape for shape in shapes(problem.tasks, problem.k, problem.ordering) if shape.name in names
    ]
    best = best_of_each(scan(candidates, problem.model() or problem.losses, rounds=3))
    schedules = [curve.shape.make(float(curve.scales[curve.best])) for curve in best]
    losses = problem.losses(schedules).tolist()
    return {
        curve.shape.name: start
        for curve, start in zip(best, zip(schedules, losses, strict=True), strict=True)
    }


def _adjoint(problem: Losses) -> Adjoint:
    assert isinstance(problem.law, Draws)
    moments, form, floor = problem.final_form()
    return Adjoint(moments, problem.law, form, floor, worst=problem.objective == "worst_case")


def _coefficients(schedule: Any, k: int, radius: float) -> Floats:
    return np.array(np.broadcast_to(resolve(schedule, k, radius).strength(), (k,)))


class _Coordinates:
    """Unconstrained but for x ≥ 0: a_t = ln(1 + λ_t/λ₀), or with ``monotone`` its increments.

    The logarithm covers decades, and 1 + makes it reach λ = 0 with a finite slope. λ₀ is the
    smallest squared singular value: below it a coefficient hardly changes any filter factor.
    """

    def __init__(self, tasks: TaskCollection, k: int, monotone: bool) -> None:
        singular, square = tasks.singular_values, tasks.radius**2 or 1.0
        self.unit = max(float(singular.min()) ** 2, 1e-12 * square) if singular.size else square
        self.largest = float(np.log1p(1e4 * k * square / self.unit))
        self.monotone = monotone

    def logs(self, x: Floats) -> Floats:
        return np.minimum(np.cumsum(x), self.largest) if self.monotone else x

    def coefficients(self, x: Floats) -> Floats:
        return np.asarray(self.unit * np.expm1(self.logs(x)))

    def inverse(self, coefficients: Floats) -> Floats:
        logs = np.minimum(np.log1p(coefficients / self.unit), self.largest)
        return np.maximum(np.diff(logs, prepend=0.0), 0.0) if self.monotone else logs

    def pulled_back(self, slopes: Floats) -> Floats:
        """Return the derivative with respect to x from the derivative ``slopes`` with respect to
        a.
        """
        return np.cumsum(slopes[::-1])[::-1] if self.monotone else slopes


class _Search:
    """Descent on ln(loss) from several starts."""

    def __init__(self, adjoint: Adjoint, coordinates: _Coordinates, smooth: float) -> None:
        self.adjoint, self.coordinates, self.smooth = adjoint, coordinates, smooth
        moments = adjoint.moments
        first = float(np.sum(adjoint.form * moments.start)) if not adjoint.worst else 1.0
        # keeps the logarithm of a loss of 0 finite
        self.rounding = 1e-15 * max(first, np.finfo(float).tiny)

    def run(self, starts: dict[str, Floats], report_progress: Progress) -> tuple[str, Floats]:
        """Return the best start and its minimum: short trials from all starts, then a long descent
        from the best.
        """
        trials = {}
        for done, (name, coefficients) in enumerate(starts.items(), start=1):
            trials[name] = self._descend(self.coordinates.inverse(coefficients), _SOFT[0], _TRIAL)
            report_progress(done, len(starts) + 1, "starts")
        name = min(trials, key=lambda each: trials[each][1])
        x = trials[name][0]
        for softness in _SOFT if self.adjoint.worst else _SOFT[:1]:
            x, _ = self._descend(x, softness, _LONGEST)
        report_progress(len(starts) + 1, len(starts) + 1, "starts")
        return name, self.coordinates.coefficients(x)

    def stationarity(self, coefficients: Floats) -> float:
        """Return the largest entry of the projected gradient."""
        x = self.coordinates.inverse(coefficients)
        _, slopes = self._value(x, _SOFT[1])
        return float(np.max(np.abs(np.clip(x - slopes, 0.0, self.coordinates.largest) - x)))

    def _descend(self, x: Floats, softness: float, iterations: int) -> tuple[Floats, float]:
        from scipy.optimize import minimize

        options = {
            "maxiter": iterations,
            "maxfun": 2 * iterations,
            "maxcor": 30,
            "ftol": 1e-13,
            "gtol": 1e-8,
        }
        bounds = [(0.0, self.coordinates.largest)] * len(x)
        with one_blas_thread():
            result = minimize(
                self._value, x, (softness,), "L-BFGS-B", jac=True, bounds=bounds, options=options
            )
        return np.asarray(result.x), float(result.fun)

    def _value(self, x: Floats, softness: float) -> tuple[float, Floats]:
        """Return ln(loss) plus the price of unevenness, and its derivative with respect to x."""
        coefficients, logs = self.coordinates.coefficients(x), self.coordinates.logs(x)
        tasks, filter_ = self.adjoint.moments.tasks, Ridge(coefficients)
        loss, by_factor, _ = self.adjoint(
            filter_.factors_of_singular(tasks.singular_values), len(coefficients), softness
        )
        slopes = through_parameters(filter_, by_factor, tasks)["coefficient"]
        changes = np.diff(logs)
        value = np.log(loss + self.rounding) + self.smooth * float(changes @ changes)
        by_logs = slopes * (self.coordinates.unit + coefficients) / (loss + self.rounding)
        by_logs[1:] += 2 * self.smooth * changes
        by_logs[:-1] -= 2 * self.smooth * changes
        return float(value), self.coordinates.pulled_back(by_logs)
