"""Advice on λ: schedules of several shapes, each at its best scale, ranked by their exact losses
on the tasks at hand.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from forgetless import _validate as validate
from forgetless._progress import track
from forgetless._table import Printed, Table
from forgetless._validate import Floats
from forgetless.advice._search import Curve, Losses, own_shapes, search, shapes
from forgetless.filters import Projection
from forgetless.lab.exact import expect
from forgetless.lab.problem import check_tasks, checked_ordering, with_few_threads
from forgetless.lab.worst import worst_case
from forgetless.metrics import QUANTITIES, loss_on, quantity
from forgetless.orderings import Ordering, OrderingLike
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

_NOTHING = 1e-13
"""Part of the loss of the worst option below which a loss has no ratios."""


_COMPARED = {
    "no regularization": "without regularization",
    "constant": "with the best constant λ",
    "increasing, theorem": "with the theorem's schedule",
}
"""Shapes that the sentence compares with the best, in its words."""


@dataclass(frozen=True)
class Option:
    """One shape of schedule at its best scale.

    Attributes
    ----------
    shape : str
    code : str
        A Python expression for the schedule; ``also[name]`` for one of your own.
    schedule : schedule or filter
        Usable wherever a schedule is.
    scale : float or None
        The number that was searched: λ of a constant in units of R², the factor of an increasing
        schedule, the slope of a ramp in R² a step; None where there is none.
    strengths : pair of float
        λ of the first and of the last step, in units of R²; for gradient steps that of the ridge
        step with the same effect at small eigenvalues.
    loss : float
        The objective.
    scales, losses : tuples of float
        The line of this shape in ``Advice.plot``.
    """

    shape: str
    code: str
    schedule: Any = field(repr=False)
    scale: float | None
    strengths: tuple[float, float]
    loss: float
    scales: tuple[float, ...] = field(default=(), repr=False)
    losses: tuple[float, ...] = field(default=(), repr=False)


@dataclass(frozen=True, repr=False)
class Advice(Printed):
    """Schedules in the order of their losses; prints as a table and a sentence.

    Attributes
    ----------
    options : tuple of Option
        One for every shape, best first.
    objective : str
    k : int
    radius : float
        R.
    averaged : float or None
        The loss of the average of unregularized iterates with weights t², which needs neither k
        nor R: ``fl.expect(…, fl.Projection(), k, average=2)``. None where it is not exact.
    """

    options: tuple[Option, ...]
    objective: str
    k: int
    radius: float
    averaged: float | None = None

    @property
    def best(self) -> Any:
        """The schedule to use."""
        return self.options[0].schedule

    def table(self) -> Table:
        """Return the ranking, best first."""
        columns: dict[str, list[Any]] = {
            "shape": [option.shape for option in self.options],
            "schedule": [option.code for option in self.options],
            "λ/R²": [_range(option.strengths) for option in self.options],
            "loss": [option.loss for option in self.options],
            "× best": [self._ratio(option.loss) for option in self.options],
        }
        return Table(f"Which λ? {self.k} steps", columns, (self.why,))

    @property
    def why(self) -> str:
        """What to use, its loss, and the losses of well-known schedules over it."""
        first = self.options[0]
        text = f"Use {first.code}: {QUANTITIES[self.objective]} {first.loss:.4g}"
        text += f" after {self.k} {'step' if self.k == 1 else 'steps'}"
        losses = {option.shape: option.loss for option in self.options[1:]}
        ratios = [
            f"{self._ratio(losses[shape]):.3g} times as much {words}"
            for shape, words in _COMPARED.items()
            if shape in losses and self._ratio(losses[shape]) is not None
        ]
        text += f"; {', '.join(ratios)}." if ratios else "."
        ratio = None if self.averaged is None else self._ratio(self.averaged)
        if ratio is None:
            return text
        average = "The t²-average of unregularized steps, which needs no k, has"
        return f"{text} {average} {ratio:.3g} times as much."

    def plot(self, ax: Any = None) -> Any:
        """Draw the objective against the scale for every shape; returns the axes."""
        from forgetless.plots import plot_advice

        return plot_advice(self, ax)

    def _ratio(self, loss: float) -> float | None:
        least = self.options[0].loss
        if least <= _NOTHING * self.options[-1].loss or not math.isfinite(loss):
            return None
        return loss / least


def _range(strengths: tuple[float, float]) -> str:
    first, last = (f"{each:.3g}" for each in strengths)
    return first if first == last else f"{first} … {last}"


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
        ``.best`` is a schedule, ``.table()`` the ranking, ``.why`` a sentence; it prints as both.

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
    standard = shapes(tasks, k, order)
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

    def losses(schedules: Sequence[Any]) -> Floats:
        found = []
        # In parts, so that memory is bounded and a bar can move.
        for i in track(range(0, len(schedules), _BATCH), "schedules"):
            part = schedules[i : i + _BATCH]
            if objective == "worst_case":
                curves = worst_case(tasks, part, k, **common)
            else:
                metric = objective if isinstance(objective, str) else loss_on(objective)
                curves = expect(tasks, part, k, metrics=metric, **common)
            found.append(next(iter(curves.values.values()))[:, 0])
        return np.concatenate(found)

    return losses


def option(curve: Curve, k: int, tasks: TaskCollection) -> Option:
    """Return a shape at its best scale."""
    shape = curve.shape
    schedule = shape.make(curve.best)
    strengths = np.ravel(resolve(schedule, k, tasks.radius).strength()) / (tasks.radius**2 or 1.0)
    return Option(
        shape.title,
        shape.code(curve.best),
        schedule,
        curve.best if shape.searched else None,
        (float(strengths[0]), float(strengths[-1])),
        curve.least,
        tuple(curve.scales.tolist()) if shape.searched else (),
        tuple(curve.losses.tolist()) if shape.searched else (),
    )


def ranked(options: Sequence[Option]) -> tuple[Option, ...]:
    """Return the options best first; of those equal to the best the simplest leads."""
    # Noisy labels of square tasks have an infinite loss without regularization.
    losses = [each.loss for each in options if math.isfinite(each.loss)]
    equal = (1 + _EQUAL) * min(losses) + _ROUNDED * max(losses)
    return tuple(sorted(options, key=lambda each: max(each.loss, equal)))
