"""The next task: its probabilities after the tasks so far, and the expected loss on it.

With replacement the next task has the probabilities of every draw. Within an epoch it is one of the
tasks not yet seen, so that after t steps of M tasks, e = ⌊t/M⌋ full epochs among them, the expected
loss on it is

    (M(e+1)·average_loss − t·seen_loss) / (M(e+1) − t).

In a single order it is known.
"""

from typing import Any

import numpy as np

from forgetless._core.arrays import Floats
from forgetless.engines.problem import Computed, Problem, check_law
from forgetless.errors import NoExactLawError
from forgetless.orderings import Draws, Epochs, Law, OneOrder, Ordering

NAME = "next_loss"


def is_defined(ordering: Ordering, n_tasks: int, step: int) -> bool:
    """Return whether an ordering has a task after a step."""
    try:
        ordering.check(n_tasks, step + 1)
    except ValueError:
        return False
    return ordering.law(n_tasks, step + 1) is not None


def law_of_next(problem: Problem) -> Law:
    """Return the law of one step more than the last recorded one; ValueError where there is no task
    after that.
    """
    ordering, n_tasks, step = problem.ordering, problem.tasks.n_tasks, int(problem.steps[-1])
    try:
        ordering.check(n_tasks, step + 1)
    except ValueError as error:
        raise ValueError(
            f"next_loss after step {step} needs one task more, and there is none: {error}"
        ) from None
    law = ordering.law(n_tasks, step + 1)
    if law is None:
        raise NoExactLawError(
            f"next_loss needs the probabilities of the next task, and {ordering!r} has no law()"
        )
    check_law(law, ordering, n_tasks, step + 1)
    return law


def probabilities(law: Law, counts: Floats, n_steps: Any) -> Floats:
    """Return the probabilities of the next task, from visits of each task (..., M) in n_steps (...)
    steps.
    """
    steps, n_tasks = np.asarray(n_steps), counts.shape[-1]
    if isinstance(law, Draws):
        return np.broadcast_to(law.probabilities, counts.shape)
    if isinstance(law, OneOrder):
        order = np.array([law.at(int(step)) for step in steps.ravel()]).reshape(steps.shape)
        return np.asarray(order[..., None] == np.arange(n_tasks), dtype=np.float64)
    visits = steps // n_tasks + 1.0  # of a task that was seen in this epoch
    return np.asarray((visits[..., None] - counts) / (visits * n_tasks - steps)[..., None])


def engine_names(problem: Problem, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the metrics from which ``next_loss`` follows in its place; those of the engine if it
    computes it.
    """
    if NAME not in names:
        return names
    law = law_of_next(problem)
    if isinstance(law, OneOrder) or (isinstance(law, Draws) and not law.uniform):
        return names
    needed = ("average_loss", "seen_loss") if isinstance(law, Epochs) else ("average_loss",)
    return tuple(dict.fromkeys([*(name for name in names if name != NAME), *needed]))


def with_next_loss(problem: Problem, names: tuple[str, ...], computed: Computed) -> Computed:
    """Return the requested metrics of an engine, with ``next_loss`` derived where the engine did
    not compute it.
    """
    values, errors = dict(computed.values), dict(computed.errors)
    if NAME in names and NAME not in values:
        average = values["average_loss"]
        values[NAME], errors[NAME] = average, errors["average_loss"]
        if isinstance(problem.law, Epochs):
            n_tasks, t = problem.tasks.n_tasks, problem.steps
            total, seen = (t // n_tasks + 1) * n_tasks, np.where(t > 0, values["seen_loss"], 0.0)
            following = np.maximum((total * average - t * seen) / (total - t), 0.0)
            slack = total * average * errors["average_loss"] + t * seen * errors["seen_loss"]
            extra = Computed.of({NAME: following}, computed.method, {NAME: slack / (total - t)})
            values[NAME], errors[NAME] = extra.values[NAME], extra.errors[NAME]
    return computed._replace(
        values={name: values[name] for name in names}, errors={name: errors[name] for name in names}
    )
