"""Advice on λ: schedules of several shapes, each at its best scale, ranked by their exact losses
on the tasks at hand.

``_search`` has the shapes and finds their scales; ``optimal`` goes on to the best of all schedules
of explicit L2. Losses are exact expectations, or exact worst cases: nothing is sampled, so that a
second call gives the same ranking.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from forgetless import _validate as validate
from forgetless._running import track
from forgetless._table import Printed, Table
from forgetless._validate import Floats
from forgetless.advice._search import Losses, Option, own_shapes, search, shapes
from forgetless.lab import check_tasks, checked_ordering, with_few_threads
from forgetless.lab.exact import expect
from forgetless.lab.worst import worst_case
from forgetless.metrics import QUANTITIES, Metric, loss_on, quantity
from forgetless.orderings import Ordering, OrderingLike
from forgetless.schedules import ScheduleLike, resolve
from forgetless.tasks import TaskCollection

OBJECTIVES = ("average_loss", "seen_loss", "worst_case")

_BATCH = 64  # no mutant: the size of a batch changes memory and time alone
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
    """

    options: tuple[Option, ...]
    objective: str
    k: int
    radius: float

    @property
    def best(self) -> Any:
        """The schedule to use."""
        return self.options[0].schedule

    def table(self) -> Table:
        """Return the ranking, best first."""
        columns: dict[str, Any] = {
            "shape": [option.shape for option in self.options],
            "schedule": [option.code for option in self.options],
            "λ/R²": [self._range(option.schedule) for option in self.options],
            "loss": [option.loss for option in self.options],
            "× best": [self._ratio(option.loss) for option in self.options],
        }
        return Table(f"Which λ? {self.k} steps", columns, (self.why,))

    @property
    def why(self) -> str:
        """What to use, its loss, and the losses of well-known schedules over it."""
        first = self.options[0]
        # Without a ratio, of a loss that is infinite, a shape is not compared.
        ratios = {option.shape: self._ratio(option.loss) for option in self.options[1:]}
        compared = [
            f"; {ratios[shape]:.3g} times as much {words}"
            for shape, words in _COMPARED.items()
            if ratios.get(shape)
        ]
        loss = f"{QUANTITIES[self.objective]} {first.loss:.4g}"
        return f"Use {first.code}: {loss} at k = {self.k}{''.join(compared)}."

    def plot(self, ax: Any = None) -> Any:
        """Draw the objective against the scale for every shape; returns the axes."""
        from forgetless.plots import plot_advice

        return plot_advice(self, ax)

    def _range(self, schedule: Any) -> str:
        """Return λ of the first and of the last step, in units of R²; for gradient steps that of
        the ridge step with the same effect at small eigenvalues.
        """
        strengths = np.ravel(resolve(schedule, self.k, self.radius).strength())
        ends = (strengths[[0, -1]] / (self.radius**2 or 1.0)).tolist()
        # One number where they are the same.
        return " … ".join(dict.fromkeys(f"{each:.3g}" for each in ends))

    def _ratio(self, loss: float) -> float | None:
        """Return a loss over the least one; None where that is rounding, or it is infinite."""
        least = self.options[0].loss
        if least <= _NOTHING * self.options[-1].loss or not math.isfinite(loss):
            return None
        return loss / least


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
    labels that no model fits, or ``noise=``, the minimax schedule is that of the best η up to
    0.9999; ``fl.oracle_bound`` has its guarantee for labels that no model fits.

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
    k = validate.steps(k)
    check_tasks(tasks)
    order = checked_ordering(ordering, tasks, k)
    goal = goal_of(objective, OBJECTIVES)
    losses = losses_on(tasks, k, goal, order)
    # The user's own come last, so that of equal losses a standard shape leads.
    standard = shapes(tasks, k, order)
    own = own_shapes(also or {}, standard, tasks.n_tasks)
    options = search([*standard, *own], losses)
    return Advice(ranked(options), getattr(goal, "name", goal), k, tasks.radius)


def goal_of(objective: Any, allowed: Sequence[str]) -> Any:
    """Return the metric of an objective: its name, or the loss on held-out tasks."""
    if isinstance(objective, TaskCollection):
        return loss_on(objective, "validation")
    return quantity("objective", objective, allowed)


def losses_on(tasks: TaskCollection, k: int, goal: str | Metric, ordering: Ordering) -> Losses:
    """Return the function from schedules to their exact objectives on these tasks."""

    def losses(schedules: Sequence[Any]) -> Floats:
        found = []
        # In parts, so that memory is bounded and a bar can move.
        for i in track(range(0, len(schedules), _BATCH), "schedules"):
            part = schedules[i : i + _BATCH]
            if goal == "worst_case":
                curves = worst_case(tasks, part, k, ordering=ordering)
            else:
                curves = expect(tasks, part, k, metrics=goal, ordering=ordering)
            found.append(next(iter(curves.values.values()))[:, 0])
        return np.concatenate(found)

    return losses


def ranked(options: Sequence[Option]) -> tuple[Option, ...]:
    """Return the options best first; of those equal to the best the simplest leads."""
    # A loss that overflows is no measure of rounding.
    losses = [each.loss for each in options if math.isfinite(each.loss)]
    equal = (1 + _EQUAL) * min(losses) + _ROUNDED * max(losses)
    return tuple(sorted(options, key=lambda each: max(each.loss, equal)))
