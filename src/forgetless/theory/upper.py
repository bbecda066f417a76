"""Upper bounds of the expected loss of a schedule that hold for every collection one model fits.

Three methods compute them. ``recursions.one_filter`` is for the same filter at every step, no
regularization among them (docs/unregularized.md); ``majorants`` for schedules that vary, with tasks
drawn with replacement; ``recursions.bound`` for any shuffled order (docs/proofs.md). Derived here,
not published.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps

import numpy as np

from forgetless import _validate as validate
from forgetless._running import P, one_blas_thread
from forgetless._text import wrapped
from forgetless.filters import Filter
from forgetless.metrics import quantity as quantity_of
from forgetless.orderings import OrderingLike, WithoutReplacement, WithReplacement, as_ordering
from forgetless.schedules import ScheduleLike, resolve
from forgetless.schedules.named import as_schedule
from forgetless.theory import recursions
from forgetless.theory.majorants import half_supremum
from forgetless.theory.records import QUANTITIES
from forgetless.theory.steps import LINEAR, Steps, in_units, steps_of

ORDERINGS = {
    "with-replacement": "drawn independently with replacement",
    "without-replacement": "in random order without replacement",
    "exchangeable": "in any exchangeable order, with or without replacement",
}
"""What a bound says about the order of tasks, by the name of the order."""

_NAMES = {WithReplacement: "with-replacement", WithoutReplacement: "without-replacement"}


@dataclass(frozen=True)
class UpperBound:
    """A proved upper bound of an expected loss after k steps, for every collection that one model
    fits.

    Attributes
    ----------
    value : float
        The bound, at most the trivial ½R²D².
    constant : float
        k·value/(R²D²).
    k : int
    quantity : "average_loss", "seen_loss" or "next_loss"
    radius, distance : float
        R and D = ‖w₀ − w⋆‖.
    why : str
        The theorem, its base and mesh, and what it assumes.
    ordering : "with-replacement", "without-replacement" or "exchangeable"
    """

    value: float
    constant: float
    k: int
    quantity: str
    radius: float
    distance: float
    why: str
    ordering: str = "with-replacement"

    def __repr__(self) -> str:
        name = self.quantity.replace("_", " ")
        return wrapped(
            f"expected {name} ≤ {_upwards(self.value)} after k = {self.k:,} steps"
            f" (R = {self.radius:g}, D = {self.distance:g}), that is"
            f" {_upwards(self.constant)} R²D²/k",
            self.why,
        )


def _upwards(value: float) -> str:
    """Return six digits, rounded up."""
    text = f"{value:.6g}"
    if float(text) < value:
        text = f"{value * 1.00001:.6g}"
    return text


def _schedule_first(verb: Callable[P, UpperBound]) -> Callable[P, UpperBound]:
    """Return a verb that says what to do where tasks come first, as in all other verbs."""

    @wraps(verb)
    def checked(*arguments: P.args, **options: P.kwargs) -> UpperBound:
        # Before Python counts the arguments, of which such a call has one too many or too few.
        if arguments:
            as_schedule(arguments[0])
        return verb(*arguments, **options)

    return checked


@_schedule_first
@one_blas_thread()
def upper_bound(
    schedule: ScheduleLike,
    k: int,
    *,
    quantity: str = "average_loss",
    ordering: OrderingLike | None = None,
    n_tasks: int | None = None,
    radius: float = 1.0,
    distance: float = 1.0,
) -> UpperBound:
    """Return an upper bound of the expected loss after k steps that holds for every collection one
    model fits.

    Use it to compare schedules before any data are seen. The tasks may have any ranks and norms up
    to R, there may be any number of them, and they may be drawn with any probabilities. The average
    loss counts tasks as they are drawn; where it counts them with weights w_m instead of their
    probabilities p_m, the bound is max w_m/p_m times as large.

    One filter at every step, no regularization among them, has a bound of order 1/k for every k.
    For tasks drawn with replacement a second bound is computed backwards through the steps, for
    schedules that vary as well; the smaller one is returned. Where single steps of a schedule have
    no bound, as with λ = 0, it is that of the steps after the last of these. For other exchangeable
    orders, see ``ordering``, it is a recursion of two numbers, for strengths that never fall.

    Parameters
    ----------
    schedule : schedule, filter, name or number
        Coefficients λ_t; budgets N_t and γ_t ≤ 1/R², or one gradient step of one size γ < 2/R² on
        every task; or one fixed filter of your own with ξφ(R²)/R² ≤ φ(ξ) ≤ φ(R²) ≤ 1, as concave
        ones have it. They may depend on the tasks through R only.
    k : int
        Number of steps. The cost is proportional to it: about 0.2 s for a thousand.
    quantity : "average_loss", "seen_loss" or "next_loss"
        The last is the loss on the task after these k.
    ordering : "with-replacement" or "without-replacement", optional
        By default with replacement, and for ``next_loss`` any exchangeable order: with replacement,
        without, rows of a shuffled table.
    n_tasks : int, optional
        M, for the average loss over all M ≥ k tasks without replacement.
    radius, distance : float, default 1
        R, the largest spectral norm of a task, and D = ‖w₀ − w⋆‖: the value scales with R²D².

    Returns
    -------
    UpperBound
        With ``.value``, ``.constant`` = k·value/(R²D²) and ``.why``.

    Examples
    --------
    The paper guarantees 20/(k + 1) for this schedule; the worst collection known has 0.979/k:

    >>> import forgetless as fl
    >>> c = fl.upper_bound(fl.schedules.increasing(), k=256)
    >>> round(c.constant, 3), round(c.value, 5)
    (1.008, 0.00394)

    No regularization has the rate 1/k as well, and a fixed strength is a little better:

    >>> [round(fl.upper_bound(fl.Ridge(fixed), k=256).constant, 4) for fixed in (0, 3 / 7)]
    [0.3117, 0.2783]

    In any shuffled order no schedule has a smaller bound than 1/(2(k + 1)):

    >>> round(fl.upper_bound(fl.schedules.minimax(), k=99, quantity="next_loss").value, 6)
    0.005
    """
    k = validate.steps(k)
    goal = quantity_of("quantity", quantity, QUANTITIES)
    order = _named(ordering, goal)
    radius = validate.number("radius", radius, "use tasks.radius", positive=True)
    distance = validate.number(
        "distance", distance, "D is the distance from the start to the joint solution"
    )
    if not distance * distance * radius * radius < math.inf:
        raise ValueError(
            f"R²D² must be a float, got radius {radius!r} and distance {distance!r}; take units"
            " nearer to 1"
        )
    if order == "without-replacement" and (goal == "average_loss" or n_tasks is not None):
        # The next task is one more that has not been seen.
        least = k + (goal == "next_loss")
        n_tasks = validate.integer("n_tasks", n_tasks, least, f"it is M, of which {k} are seen")
    elif n_tasks is not None:
        raise ValueError(
            'n_tasks is for ordering="without-replacement": other bounds hold for any number of'
            " tasks"
        )
    validate.check_memory(400.0 * k, f"an upper bound of {k:,} steps", "ask for fewer")
    # In units of R² and RD every bound is a number that depends on k and the strengths only.
    filter_ = in_units(resolve(schedule, k, radius), radius)
    if order == "with-replacement":
        unit, theorem = independent_draws(filter_, k, goal)
    else:
        unit = recursions.bound(filter_, k, goal, n_tasks)
        letter = "R" if goal == "next_loss" else "S"
        theorem = f"Theorem {letter} of docs/proofs.md, with rigorous rounding error bounds"
    # Also for NaN.
    if not unit < 0.5:
        unit = 0.5
        theorem = "the trivial bound ½R²D²; the theorem gives none that is smaller"
    number = "any number of" if n_tasks is None else f"{n_tasks:,}"
    return UpperBound(
        value=unit * (radius * radius) * (distance * distance),
        constant=k * unit,
        k=k,
        quantity=goal,
        radius=radius,
        distance=distance,
        why=(
            f"Derived, unpublished: {theorem}. It holds for every collection that one model fits,"
            f" of {number} tasks of norm at most R and any rank, {ORDERINGS[order]}."
        ),
        ordering=order,
    )


def _named(ordering: OrderingLike | None, quantity: str) -> str:
    """Return the name of an ordering of ``ORDERINGS``."""
    if ordering is None and quantity == "next_loss":
        return "exchangeable"
    kind = type(as_ordering(ordering))
    if kind not in _NAMES:
        raise ValueError(
            f'ordering must be "with-replacement" or "without-replacement", got {ordering!r}'
        )
    return _NAMES[kind]


def independent_draws(filter_: Filter, k: int, quantity: str) -> tuple[float, str]:
    """Return the smallest bound over R²D² for tasks drawn with replacement, and its theorem.

    The filter is for tasks of radius 1; ValueError names the hypothesis that fails.
    """
    steps = steps_of(filter_, k)
    found = []
    if steps.one_filter:
        found.append(_same_steps(steps, k, quantity))
    if np.all(steps.kappa <= 1):
        found.append(_any_steps(steps, k, quantity))
    unit, theorem = min(found)
    if steps.assumes:
        theorem += f"; it trusts {steps.assumes}"
    return unit, theorem


def _same_steps(steps: Steps, k: int, quantity: str) -> tuple[float, str]:
    """Return the bound of Theorem F, and its name."""
    kappa = float(steps.kappa[0])
    bound = recursions.one_filter(kappa, k)
    # Tasks are drawn independently: the next one has the loss of all.
    unit = bound.seen_loss if quantity == "seen_loss" else bound.average_loss
    return unit, (
        f"Theorem F of docs/proofs.md, one filter with φ(R²) = {kappa:.6g} at every"
        " step, with rigorous rounding error bounds"
    )


def _any_steps(steps: Steps, k: int, quantity: str) -> tuple[float, str]:
    """Return the bound of a majorant, and its theorem."""
    bound = half_supremum(steps, k, quantity)
    # Theorem 4 has a price of unequal singular values, 2 and 3 have none, and 3 is for χ(ξ) = ξ.
    number = "4"
    if steps.proportional:
        number = "2"
    if steps.proportional and steps.base == LINEAR:
        number = "3"
    if quantity == "seen_loss":
        number = "5"
    text = (
        f"Theorem {number} of docs/proofs.md, base {steps.base}, {len(bound.mesh.r)} nodes,"
        " with rigorous rounding error bounds"
    )
    if steps.unused == 1:
        text += "; of the first step it uses only that the error does not grow"
    elif steps.unused:
        text += f"; of the first {steps.unused} steps it uses only that the error does not grow"
    return bound.per_unit, text
