"""Computations for a page that is served: curves beyond its own engine, bounds and advice."""

import math
import time
from typing import Any

import numpy as np

from forgetless._core.arrays import Floats
from forgetless.advice.which_lambda import advise
from forgetless.engines.adjoint import loss_gradient
from forgetless.engines.expectation import expect
from forgetless.explorer.plain import MOST_STEPS, filter_of, ordering_of, tasks_of
from forgetless.guarantees.comparison import compare_bounds
from forgetless.guarantees.upper import upper_bound
from forgetless.orderings import WithReplacement
from forgetless.tasks import TaskCollection

MOST_SECONDS = 60.0
"""Seconds after which a computation for a page is given up: others wait for it."""


class Deadline:
    """A progress callback that raises TimeoutError when the time of a request is over."""

    def __init__(self) -> None:
        self._end = time.monotonic() + MOST_SECONDS

    def __call__(self, done: int, total: int, label: str) -> None:
        if time.monotonic() > self._end:
            raise TimeoutError(
                f"this takes longer than {MOST_SECONDS:g} seconds, the most for a page; use fewer"
                " steps or tasks, or compute it in Python"
            )


class Requests:
    """The computations that a page may request, by name.

    Parameters
    ----------
    tasks : TaskCollection or None
        The tasks of requests that hold none.
    """

    def __init__(self, tasks: TaskCollection | None) -> None:
        self.tasks = tasks
        self.actions = {
            "curve": self.curve,
            "compare_bounds": self.compare_bounds,
            "advise": self.advise,
        }

    def __call__(self, action: str, request: dict[str, Any]) -> dict[str, Any]:
        """Return the result as plain values; ValueError or TypeError if the request is invalid."""
        if action not in self.actions:
            raise ValueError(f"action must be one of {', '.join(self.actions)}, got {action!r}")
        try:
            return self.actions[action](request)
        except (KeyError, AttributeError) as error:
            raise ValueError(f"the request is not complete: {error} is missing") from None

    def _tasks_and_steps(self, request: dict[str, Any]) -> tuple[TaskCollection, int]:
        k = request["k"]
        if not isinstance(k, int) or not 1 <= k <= MOST_STEPS:
            raise ValueError(f"k must be a whole number in 1..{MOST_STEPS}, got {k!r}")
        if "tasks" in request:
            return tasks_of(request), k
        if self.tasks is None:
            raise ValueError("the request has no tasks, and the page was opened without any")
        return self.tasks, k

    def curve(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the exact curve after 0..k steps, and its gradient if there is one."""
        tasks, k = self._tasks_and_steps(request)
        filter_, ordering, metric = filter_of(request), ordering_of(request), request["metric"]
        average, steps = request.get("average"), np.arange(k + 1)
        options = {"ordering": ordering, "metrics": metric, "record": steps, "average": average}
        curve = expect(tasks, filter_, k, progress=Deadline(), **options)
        slope, note = None, "no gradient for this order, measure or scheme"
        exact = (
            isinstance(ordering, WithReplacement) and metric == "average_loss" and average is None
        )
        if exact and request["scheme"] != "budget":
            (values,) = loss_gradient(tasks, filter_, k).parameters.values()
            slope, note = _listed(values), ""
        return {"loss": _listed(curve.values[metric]), "slope": slope, "note": note}

    def compare_bounds(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return every bound that applies to the schedule on these tasks, and its upper bound."""
        tasks, k = self._tasks_and_steps(request)
        filter_, ordering = filter_of(request), ordering_of(request)
        comparison = compare_bounds(tasks, filter_, k, ordering=ordering)
        result: dict[str, Any] = {
            "title": "Exact losses, and every bound that applies",
            "text": repr(comparison),
        }
        goal = request["metric"]
        fits = (
            tasks.is_realizable()
            and isinstance(ordering, WithReplacement)
            and request.get("average") is None
        )
        if fits and goal in ("average_loss", "seen_loss") and tasks.radius > 0:
            own = upper_bound(
                filter_,
                k,
                quantity=goal,
                radius=tasks.radius,
                distance=comparison.distance,
            )
            result |= {"upper_bound": own.value, "text": f"{own!r}\n\n{result['text']}"}
        return result

    def advise(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return ranked schedules for these tasks."""
        tasks, k = self._tasks_and_steps(request)
        goal = "seen_loss" if request["metric"] == "seen_loss" else "average_loss"
        options = {"objective": goal, "ordering": ordering_of(request)}
        advice = advise(tasks, k, progress=Deadline(), **options)
        return {"title": "Schedules ranked by their exact loss", "text": repr(advice)}


def _listed(values: Floats) -> list[float | None]:
    """Return numbers for JSON, None for NaN and infinities."""
    return [float(x) if math.isfinite(x) else None for x in values]
