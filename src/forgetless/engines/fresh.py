"""Exact expectations over fresh random tasks by the ensemble equation."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forgetless._core import validate
from forgetless._core.arrays import Floats
from forgetless.engines.inputs import Labels, as_schedules
from forgetless.engines.problem import recorded_steps
from forgetless.engines.results import Expectation
from forgetless.ensembles.base import Ensemble, StepMoments
from forgetless.filters import Filter
from forgetless.metrics import check_metrics
from forgetless.schedules import resolve

DEFAULTS = ("average_loss", "next_loss", "distance")
FRESH_METRICS = (*DEFAULTS, "task_losses", "task_distances")
"""Metrics of ensembles: losses are means over fresh rows, not over the rows that were learned."""


def check_unused(**arguments: tuple[Any, Any]) -> None:
    """Raise TypeError for an argument (value, default) that ensembles do not have and that is not
    at its default.
    """
    for name, (value, default) in arguments.items():
        if value is not default and (default is None or value != default):
            raise TypeError(
                f"{name} is for task collections, and an ensemble has none; leave it out"
            )


@dataclass(frozen=True, eq=False)
class FreshProblem:
    """The validated arguments of ``expect`` and ``simulate`` for an ensemble."""

    ensemble: Ensemble
    filters: list[Filter]
    labels: Labels
    k: int
    steps: NDArray[np.int64]
    names: tuple[str, ...]

    @classmethod
    def of(
        cls, ensemble: Ensemble, schedule: Any, k: int, record: Any, metrics: Any
    ) -> "FreshProblem":
        """Return the problem of validated arguments; ``metrics`` may be None for the defaults."""
        k = validate.integer("k", k, 1, "ask for at least one step")
        schedules, labels = as_schedules(schedule, None, k)
        filters = [resolve(each, k, ensemble.radius, ensemble) for each in schedules]
        names = check_metrics(DEFAULTS if metrics is None else metrics, FRESH_METRICS)
        return cls(ensemble, filters, labels, k, recorded_steps(record, k), names)

    def teachers_of_losses(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the numbers of the teachers of tasks 1..k + 1: of every task learned, and of the
        next one.
        """
        order = self.ensemble.teachers.order(self.k + 1)
        return order[:-1], order[1:]


def expectation(problem: FreshProblem) -> Expectation:
    """Return the expected metrics over fresh tasks."""
    parts = [_one_schedule(problem, filter_) for filter_ in problem.filters]
    values = {name: np.stack([part[name] for part in parts]) for name in problem.names}
    if not problem.labels:
        values = {name: value[0] for name, value in values.items()}
    error = problem.ensemble.error + 8.0 * problem.k * float(np.finfo(float).eps)
    errors = dict.fromkeys(problem.names, min(1.0, error))
    return Expectation(
        problem.steps, values, problem.ensemble.method, errors, labels=problem.labels
    )


def second_moments(ensemble: Ensemble, moments: StepMoments, k: int, last: int) -> Floats:
    """Return E‖w_t − v_i‖² of shape (last + 1, P + 1) for t = 0..last, by the ensemble equation.

    Column i = 0 is the distance to the start; the teachers are those of k tasks.
    """
    D = ensemble.teachers.distances(k)
    order = ensemble.teachers.order(k)
    validate.check_memory(
        float(last + 1) * len(D), f"{last} steps and {len(D)} teachers", "use fewer steps"
    )
    noise = np.zeros_like(moments.noise)
    if ensemble.noise:
        noise = ensemble.noise**2 * moments.noise
    result = np.empty((last + 1, len(D)))
    result[0] = D[0]
    for t in range(last):
        s = min(t, len(moments.learned) - 1)
        teacher = order[t]
        a = moments.learned[s]
        error = result[t, teacher]
        if not (np.isfinite(noise[s]) and np.isfinite(error)):
            result[t + 1] = np.inf  # square tasks with noisy labels, solved exactly
            continue
        own = a * error - moments.squared[s] * error
        result[t + 1] = (1.0 - a) * result[t] + a * D[teacher] - own + noise[s]
        # the same without cancellation
        result[t + 1, teacher] = moments.remaining[s] * error + noise[s]
    return np.maximum(result, 0.0)


def _one_schedule(problem: FreshProblem, filter_: Filter) -> dict[str, Floats]:
    ensemble = problem.ensemble
    steps = problem.steps
    every = second_moments(ensemble, ensemble.moments(filter_), problem.k + 1, int(steps[-1]))
    distances = every[steps]  # (n_steps, P + 1)
    floor = ensemble.n_rows * ensemble.noise**2
    losses = 0.5 * (distances * ensemble.mean_square + floor)
    order, following = problem.teachers_of_losses()
    at = np.arange(len(steps))
    last = np.maximum(steps, 1) - 1
    values = {
        "average_loss": losses[:, order].mean(axis=1),
        "next_loss": losses[at, following[last]],
        "distance": distances[at, order[last]],
        "task_losses": losses[:, order],
        "task_distances": distances[:, order],
    }
    if 0 in steps:
        values["next_loss"][0] = losses[0, order[0]]
    return {name: values[name] for name in problem.names}
