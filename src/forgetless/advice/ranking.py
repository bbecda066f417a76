"""Advice on λ: schedules of several shapes, each at its best scale, ranked by their exact losses
on the tasks at hand.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from forgetless import _validate as validate
from forgetless._progress import track
from forgetless._validate import Floats
from forgetless.advice._search import Curve, Losses, Shape, own_shapes, search, shapes
from forgetless.advice.results import Advice, Option
from forgetless.filters import Projection
from forgetless.lab.exact import expect
from forgetless.lab.problem import check_tasks, checked_ordering, with_few_threads
from forgetless.lab.worst import worst_case
from forgetless.metrics import loss_on, quantity
from forgetless.orderings import Cyclic, Ordering, OrderingLike
from forgetless.schedules import ScheduleLike, resolve
from forgetless.tasks import TaskCollection

OBJECTIVES = ("average_loss", "seen_loss", "worst_case")

_POWER = 2.0
"""Of t in the weights of averages: of 0, 1.5 and 2 the one with the smallest proved constant."""

_BATCH = 64
"""Schedules in one batch."""

_EQUAL = 1e-4
"""Relative difference up to which losses count as equal, and the simpler shape leads."""

_ROUNDED = 1e-14
"""Part of the largest loss below which a loss is rounding."""


@with_few_threads
def advise(
    tasks: TaskCollection,
    k: int,
    *,
    objective: str | TaskCollection = "average_loss",
    ordering: OrderingLike | None = None,
    also: Mapping[str, ScheduleLike] | None = None,
) -> Advice:
    """Return schedules ranked by their exact loss on these tasks, each shape at its best scale.

    Use it where the data matrices are known, or where earlier tasks stand for later ones; where
    nothing is known of the tasks use ``schedules.minimax()``. The best constant is among the
    shapes, so that the advice is never worse than a tuned λ.

    Compared are: no regularization; a constant; the paper's fixed and increasing schedules and
    their step-budget versions; the increasing ones also at their best scale; the minimax schedule;
    ramps over the last part of the steps; for a cyclic order Cai & Diakonikolas' constant. With
    noisy labels the minimax schedule is that of the best η below 1, for which ``fl.oracle_bound``
    has a guarantee.

    Parameters
    ----------
    tasks : TaskCollection
        Realizable or not.
    k : int
        Number of steps that are planned.
    objective : "average_loss", "seen_loss", "worst_case" or TaskCollection
        The average loss over all tasks, over the tasks seen so far, over all tasks for the worst
        unit teacher (for any labels), or over held-out tasks; always averaged over orderings.
    ordering : Ordering or its name, default ``WithReplacement()``
    also : dict of schedules, filters, names or numbers by label, optional
        Further candidates, without a search for scales.

    Returns
    -------
    Advice
        ``.best`` is a schedule, ``.table`` the ranking as rows, ``.why`` a sentence; it prints as
        both.

    Examples
    --------
    Two tasks at a small angle, 128 steps, the worst teacher: a short ramp at the end beats every
    constant.

    >>> import numpy as np
    >>> import forgetless as fl
    >>> a = fl.advise(fl.theory.constructions.two_tasks(np.pi / 16), k=128, objective="worst_case")
    >>> a.best.name, a.best.arguments["length"]
    ('end_ramp', 0.0625)
    >>> losses = {option.shape: option.loss for option in a.options}
    >>> round(128 * losses["end ramp"], 4), round(128 * losses["no regularization"], 4)
    (0.0657, 0.1051)
    """
    k = validate.integer("k", k, 1, "ask for at least one step")
    check_tasks(tasks)
    order = checked_ordering(ordering, tasks, k)
    goal = checked_objective(objective, tasks, OBJECTIVES)
    losses = losses_on(tasks, k, goal, order)
    standard = standard_shapes(tasks, k, order)
    own = own_shapes(also, (shape.title for shape in standard), tasks.n_tasks)
    curves = search([*standard, *own], losses)
    options = [option(curve, k, tasks) for curve in curves]
    # Of an average of iterates only the loss over all tasks is exact.
    averaged = None
    if goal in ("average_loss", "worst_case"):
        averaged = float(losses_on(tasks, k, goal, order, _POWER)([Projection()])[0])
    return Advice(ranked(options), name_of(goal), k, tasks.radius, averaged)


def checked_objective(
    objective: Any, tasks: TaskCollection, allowed: tuple[str, ...]
) -> str | TaskCollection:
    """Return an objective: a name, or held-out tasks with the features and targets of ``tasks``."""
    if not isinstance(objective, TaskCollection):
        return quantity("objective", objective, allowed)
    held_out, own = ((each.n_features, *each.target_shape) for each in (objective, tasks))
    if held_out != own:
        raise ValueError(
            f"objective must hold tasks with weights of shape {own}, as those learned, got"
            f" {held_out}; hold out rows of the same tasks"
        )
    return objective


def name_of(objective: str | TaskCollection) -> str:
    """Return the name of an objective in ``metrics.QUANTITIES``."""
    return objective if isinstance(objective, str) else "validation"


def losses_on(
    tasks: TaskCollection,
    k: int,
    objective: str | TaskCollection,
    ordering: Ordering,
    average: float | None = None,
) -> Losses:
    """Return the function from schedules to their exact objectives on these tasks."""
    common: dict[str, Any] = {"ordering": ordering, "average": average}
    metric = objective if isinstance(objective, str) else loss_on(objective)

    def batch(schedules: Sequence[Any]) -> Any:
        if metric == "worst_case":
            return worst_case(tasks, schedules, k, **common).worst_case[:, 0]
        result = expect(tasks, schedules, k, metrics=metric, **common)
        return next(iter(result.values.values()))[:, 0]

    def losses(schedules: Sequence[Any]) -> Floats:
        # In parts, so that memory is bounded and a bar can move.
        parts = [schedules[i : i + _BATCH] for i in range(0, len(schedules), _BATCH)]
        return np.concatenate([np.asarray(batch(part)) for part in track(parts, "schedules")])

    return losses


def standard_shapes(tasks: TaskCollection, k: int, ordering: Ordering) -> list[Shape]:
    """Return the shapes to compare on these tasks."""
    square = tasks.radius**2
    weakest = 1.0
    if square > 0:
        # Far below the smallest eigenvalue a filter solves its task.
        weakest = max(1e-3 * float(tasks.singular_values.min()) ** 2 / square, 1e-12)
    return shapes(
        k,
        square,
        weakest,
        noisy=not tasks.is_realizable(),
        cycle=tasks.n_tasks if isinstance(ordering, Cyclic) else None,
    )


def option(curve: Curve, k: int, tasks: TaskCollection) -> Option:
    """Return a shape at its best scale."""
    shape = curve.shape
    schedule = shape.make(curve.best)
    line = (tuple(curve.scales.tolist()), tuple(curve.losses.tolist()))
    return Option(
        shape.title,
        shape.code(curve.best),
        schedule,
        curve.best if shape.searched else None,
        strengths(schedule, k, tasks),
        curve.least,
        *(line if shape.searched else ()),
    )


def strengths(schedule: Any, k: int, tasks: TaskCollection) -> tuple[float, float]:
    """Return λ of the first and of the last step, in units of R²."""
    filter_ = resolve(schedule, k, tasks.radius)
    values = np.ravel(filter_.strength()) / (tasks.radius**2 or 1.0)
    return float(values[0]), float(values[-1])


def ranked(options: Sequence[Option]) -> tuple[Option, ...]:
    """Return the options best first; of those equal to the best the simplest leads."""
    # Noisy labels of square tasks have an infinite loss without regularization.
    losses = [each.loss for each in options if math.isfinite(each.loss)]
    equal = (1 + _EQUAL) * min(losses) + _ROUNDED * max(losses)
    return tuple(sorted(options, key=lambda each: max(each.loss, equal)))
