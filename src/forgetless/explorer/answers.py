"""What Python computes for a page that is served: curves it cannot, certificates and advice."""

import math
from typing import Any

import numpy as np

from forgetless._core.arrays import Floats, to_numpy
from forgetless.advice.which_lambda import advise
from forgetless.engines.adjoint import loss_gradient
from forgetless.engines.expectation import expect
from forgetless.explorer.plain import MOST_STEPS, filter_of, ordering_of, tasks_of
from forgetless.guarantees.comparison import compare_bounds
from forgetless.guarantees.upper import upper_bound
from forgetless.orderings import WithReplacement
from forgetless.tasks import TaskCollection


class Answers:
    """Answers to a page's questions, by the name of what is asked for.

    Parameters
    ----------
    tasks : TaskCollection or None
        Those that questions without tasks are about.
    """

    def __init__(self, tasks: TaskCollection | None) -> None:
        self.tasks = tasks
        self.known = {"curve": self.curve, "compare_bounds": self.compare_bounds, "advise": self.advise}

    def __call__(self, action: str, question: dict[str, Any]) -> dict[str, Any]:
        """Return the answer as plain values; ValueError or TypeError says what is wrong with the question."""
        if action not in self.known:
            raise ValueError(f"there is nothing called {action!r} to ask for; there are {', '.join(self.known)}")
        try:
            return self.known[action](question)
        except (KeyError, AttributeError) as error:
            raise ValueError(f"the question is not complete: {error} is missing") from None

    def _about(self, question: dict[str, Any]) -> tuple[TaskCollection, int]:
        k = question["k"]
        if not isinstance(k, int) or not 1 <= k <= MOST_STEPS:
            raise ValueError(f"k must be a whole number in 1..{MOST_STEPS}, got {k!r}")
        if "tasks" in question:
            return tasks_of(question), k
        if self.tasks is None:
            raise ValueError("the question has no tasks, and there are none here")
        return self.tasks, k

    def curve(self, question: dict[str, Any]) -> dict[str, Any]:
        """Return the exact curve after 0..k steps, and the gradient where there is one."""
        tasks, k = self._about(question)
        filter_, ordering, metric = filter_of(question), ordering_of(question), question["metric"]
        average, steps = question.get("average"), np.arange(k + 1)
        found = expect(tasks, filter_, k, ordering=ordering, metrics=metric, record=steps, average=average)
        slope, note = None, "no gradient for this order, measure or scheme"
        exact = isinstance(ordering, WithReplacement) and metric == "average_loss" and average is None
        if exact and question["scheme"] != "budget":
            (values,) = loss_gradient(tasks, filter_, k).parameters.values()
            slope, note = _listed(values), ""
        return {"loss": _listed(to_numpy(found.values[metric])), "slope": slope, "note": note}

    def compare_bounds(self, question: dict[str, Any]) -> dict[str, Any]:
        """Return every bound that applies to the schedule on these tasks, and its certificate."""
        tasks, k = self._about(question)
        filter_, ordering = filter_of(question), ordering_of(question)
        found = compare_bounds(tasks, filter_, k, ordering=ordering)
        answer: dict[str, Any] = {"title": "Exact losses, and every bound that applies", "text": repr(found)}
        goal = question["metric"]
        fits = tasks.is_realizable() and isinstance(ordering, WithReplacement) and question.get("average") is None
        if fits and goal in ("average_loss", "seen_loss") and tasks.radius > 0:
            own = upper_bound(filter_, k, quantity=goal, radius=tasks.radius, distance=found.distance)
            answer |= {"upper_bound": own.value, "text": f"{own!r}\n\n{answer['text']}"}
        return answer

    def advise(self, question: dict[str, Any]) -> dict[str, Any]:
        """Return ranked schedules for these tasks."""
        tasks, k = self._about(question)
        goal = "seen_loss" if question["metric"] == "seen_loss" else "average_loss"
        found = advise(tasks, k, objective=goal, ordering=ordering_of(question))  # type: ignore[arg-type]
        return {"title": "Schedules ranked by their exact loss", "text": repr(found)}


def _listed(values: Floats) -> list[float | None]:
    """Return numbers for JSON, which knows no NaN."""
    return [float(x) if math.isfinite(x) else None for x in values]
