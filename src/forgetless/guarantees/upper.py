"""Upper certificates: a bound on the expected loss of a schedule that holds for every collection
one model fits.

The statements and their proofs are in docs/upper-bounds.md (tasks drawn with replacement) and
docs/optimal-schedule.md (any exchangeable order, isotropic teachers); derived here, not published.
"""

import math
import textwrap
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np

from forgetless._core import averages, validate
from forgetless._core.arrays import Floats
from forgetless._core.threads import one_blas_thread
from forgetless.engines.inputs import OrderingLike, ScheduleLike, as_schedule
from forgetless.filters import Filter
from forgetless.guarantees import _majorant, orders
from forgetless.guarantees._average_weights import optimal_weights
from forgetless.guarantees._majorant import INFLATION, PER_DECADE, Mesh
from forgetless.guarantees._steps import LINEAR, Steps, in_units, steps_of
from forgetless.metrics import quantity as quantity_of
from forgetless.reporting.progress import Progress, progress_callback, silent, with_eta_warning
from forgetless.schedules import resolve

QUANTITIES = ("average_loss", "seen_loss", "next_loss")

_LABELS = {
    "average_loss": "average loss",
    "seen_loss": "loss on the tasks seen",
    "next_loss": "loss on the next task",
}


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
    average : float, "optimal" or None
        Of which average of the iterates it is, weights t^average; None for the last iterate.
    radius, distance : float
        R and D = ‖w₀ − w⋆‖.
    status : str
        "derived": proved here, not published.
    why : str
        The theorem, its base and mesh, and what it assumes.
    ordering : "with-replacement", "without-replacement" or "exchangeable"
    weights : array of shape (k + 1,) or None
        The weights of w_0..w_k for ``average="optimal"``.
    """

    value: float
    constant: float
    k: int
    quantity: str
    average: float | Literal["optimal"] | None
    radius: float
    distance: float
    status: str
    why: str
    ordering: str = "with-replacement"
    weights: Floats | None = field(default=None, repr=False, compare=False)

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values."""
        return {**asdict(self), "weights": None if self.weights is None else self.weights.tolist()}

    def __repr__(self) -> str:
        of = (
            ""
            if self.average is None
            else f" of the {_weighting(self.average)}average of the iterates"
        )
        first = (
            f"expected {_LABELS[self.quantity]}{of} ≤ {_upwards(self.value)} after k = {self.k:,}"
            f" steps (R = {self.radius:g}, D = {self.distance:g}), that is"
            f" {_upwards(self.constant)} R²D²/k"
        )
        return "\n".join(
            line
            for each in (first, self.why)
            for line in textwrap.wrap(each, 98, subsequent_indent="  ")
        )


def _weighting(average: float | str) -> str:
    return f"{average} " if isinstance(average, str) else f"t^{average:g}-"


def _upwards(value: float) -> str:
    """Return six digits, rounded up."""
    text = f"{value:.6g}"
    return text if float(text) >= value else f"{value * (1 + 1e-5):.6g}"


@one_blas_thread()
def upper_bound(  # noqa: PLR0913
    schedule: ScheduleLike,
    k: int,
    *,
    quantity: str = "average_loss",
    ordering: OrderingLike | None = None,
    n_tasks: int | None = None,
    teacher: Literal["any", "isotropic"] = "any",
    average: float | Literal["optimal"] | None = None,
    radius: float = 1.0,
    distance: float = 1.0,
    probabilities: Any = None,
    weights: Any = None,
    per_decade: int = PER_DECADE,
    progress: Progress | bool | None = None,
) -> UpperBound:
    """Return an upper bound of the expected loss after k steps that holds for every collection one
    model fits.

    The tasks may have any ranks and norms up to R, and there may be any number of them. If they are
    drawn with replacement, with any probabilities, a function f with A ≤ f(B) is computed backwards
    through the steps, A being the quadratic form of the expected loss and B a mean over the tasks;
    half its supremum is the bound. Schedules of which some steps have no such bound, λ = 0 among
    others, get that of the steps after the last of these. For other exchangeable orders, see
    ``ordering``, it is a recursion of two numbers, for strengths that never fall.

    Parameters
    ----------
    schedule : schedule, filter, name or number
        One fixed filter, coefficients λ_t, budgets N_t and γ_t ≤ 1/R², or filters of your own with
        φ nondecreasing, φ(R²) ≤ 1 and φ(ξ)/ξ nonincreasing, as concave ones are. They may depend on
        the tasks through R only.
    k : int
        Number of steps. The cost is proportional to it: about 0.2 s for a thousand.
    quantity : "average_loss", "seen_loss" or "next_loss"
        The last is the loss on the task after these k.
    ordering : "with-replacement" or "without-replacement", optional
        By default with replacement, and for ``next_loss`` any exchangeable order: with replacement,
        without, rows of a shuffled table.
    n_tasks : int, optional
        M, for the average loss over all M ≥ k tasks without replacement.
    teacher : "any" or "isotropic"
        "isotropic" is the mean over teachers w⋆ with w₀ − w⋆ of covariance (D²/d)I, for one fixed
        filter.
    average : float or "optimal", optional
        Bound the average Σ t^average w_t / Σ t^average over t = 1..k instead of the last iterate,
        or Σ_{t≥0} ω_tw_t with the weights that minimise its bound: for one fixed filter, or one
        gradient step a task.
    radius, distance : float, default 1
        R, the largest spectral norm of a task, and D = ‖w₀ − w⋆‖: the value scales with R²D².
    probabilities, weights : arrays of shape (M,), optional
        How likely each of M tasks is drawn, and how much it counts in the average loss; each
        uniform if only the other is given. If both are left out, tasks count as they are drawn;
        otherwise the bound is multiplied by max(weights/probabilities).
    per_decade : int, default 90
        Nodes per factor ten of the mesh of f. Any mesh gives a bound; finer ones lower it, from
        here by 1e-4 to 3e-4 of itself, at a cost in proportion.
    progress : bool or callable, optional
        True shows a bar; a callable is called as ``progress(done, total, "steps")``.

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
    >>> round(fl.upper_bound(fl.Projection(), k=256, average=2).constant, 3)
    0.259

    In any shuffled order no schedule has a smaller bound than 1/(2(k + 1)):

    >>> round(fl.upper_bound(fl.schedules.minimax(), k=99, quantity="next_loss").value, 6)
    0.005
    """
    k = validate.integer("k", k, 1, "ask for at least one step")
    goal = quantity_of("quantity", quantity, QUANTITIES)
    order = orders.named(ordering, goal)
    radius = validate.number("radius", radius, "use tasks.radius", positive=True)
    distance = validate.number(
        "distance", distance, "D is the distance from the start to the joint solution"
    )
    if not distance * distance * radius * radius < math.inf:
        raise ValueError(
            f"R²D² must be a float, got radius {radius!r} and distance {distance!r}; take units"
            " nearer to 1"
        )
    orders.check(k, goal, order, n_tasks, teacher)
    average = (
        average if isinstance(average, str) and average == "optimal" else averages.power(average)
    )
    plain = order == "with-replacement" and teacher == "any"
    _check_average(average, goal, plain=plain)
    per_decade = validate.integer("per_decade", per_decade, 4, "90 is good to about four digits")
    what = f"a certificate of {k:,} steps on {per_decade:,} nodes per decade"
    numbers = (
        16.0 * k + 200.0 * per_decade + (20.0 * k * per_decade if average == "optimal" else 0.0)
    )
    validate.check_memory(numbers, what, "ask for fewer")
    if goal == "seen_loss" and weights is not None:
        raise ValueError(
            "weights are for average_loss: the loss of tasks seen counts them as they were drawn"
        )
    if not plain and not (probabilities is None and weights is None):
        raise ValueError(
            "probabilities and weights are for tasks drawn with replacement and teacher='any'"
        )
    factor = _factor(probabilities, probabilities if goal == "seen_loss" else weights)
    filter_ = in_units(resolve(as_schedule(schedule), k, radius), radius)
    chosen = None
    if plain:
        with progress_callback(progress) as callback:
            report = with_eta_warning(callback, "ask for fewer steps")
            half = half_supremum(
                filter_, k, goal, average, per_decade=per_decade, report_progress=report
            )
        unit, chosen = half.per_unit * factor, half.weights
    else:
        unit = orders.bound(filter_, k, goal, order, n_tasks, teacher)
    unit = unit if unit < 0.5 else 0.5  # also for NaN
    capped = unit == 0.5
    return UpperBound(
        value=unit * (radius * radius) * (distance * distance),
        constant=k * unit,
        k=k,
        quantity=goal,
        average=average,
        radius=radius,
        distance=distance,
        status="derived",
        why=(
            _explanation(half, goal, average, factor, capped=capped)
            if plain
            else orders.explanation(goal, order, n_tasks, teacher, capped=capped)
        ),
        ordering=order,
        weights=chosen,
    )


def _check_average(average: Any, quantity: str, *, plain: bool) -> None:
    if average is not None and quantity == "seen_loss":
        raise ValueError(
            "average must be None for seen_loss: averages are certified for the average loss only"
        )
    if average is not None and not plain:
        raise ValueError(
            "average must be None here: averages are certified for draws with replacement only"
        )


@dataclass(frozen=True, eq=False)
class HalfSupremum:
    """A bound over R²D², with the steps and the mesh that it was computed with."""

    per_unit: float
    steps: Steps
    mesh: Mesh
    m: Any
    weights: Floats | None = None  # of an optimal average


def half_supremum(
    filter_: Filter,
    k: int,
    quantity: str,
    average: float | Literal["optimal"] | None = None,
    *,
    per_decade: int = PER_DECADE,
    report_progress: Progress = silent,
) -> HalfSupremum:
    """Return the bound over R²D² of a filter for tasks of radius 1; ValueError names the hypothesis
    that fails.
    """
    steps, mesh, weights = steps_of(filter_, k), Mesh.of(k, per_decade), None
    if quantity == "seen_loss":
        bound = _majorant.seen_tasks(steps, mesh, k, report_progress)
    elif average is None:
        bound = _majorant.last_iterate(steps, mesh, report_progress)
    elif steps.proportional and not steps.unused:
        weights = optimal_weights(steps.kappa, Mesh.of(k).r) if isinstance(average, str) else None
        sums_to_one = INFLATION + k * 2.0**-52
        omega = (
            _majorant.average_weights(k, average)  # type: ignore[arg-type]
            if weights is None
            else weights * (1 + sums_to_one)
        )
        bound = _majorant.averaged(steps, mesh, omega, report_progress)
    else:
        raise ValueError(
            "average is certified for one fixed filter, or for one gradient step of any size a"
            " task; leave it out, or use e.g. fl.Projection()"
        )
    return HalfSupremum(bound.sup / 2, steps, mesh, bound.m, weights)


def _factor(probabilities: Any, weights: Any) -> float:
    """Return max w_m/p_m, over the tasks that count."""
    if probabilities is None and weights is None:
        return 1.0
    vectors = [
        _distribution(name, value)
        for name, value in (("probabilities", probabilities), ("weights", weights))
    ]
    M = max(len(each) for each in vectors if each is not None)
    p, w = (np.full(M, 1 / M) if each is None else each for each in vectors)
    if len(p) != len(w):
        raise ValueError(
            f"probabilities and weights must be of the same tasks, got {len(p)} and {len(w)}"
        )
    with np.errstate(divide="ignore"):
        return max(1.0, float((w[w > 0] / p[w > 0]).max()))


def _distribution(name: str, value: Any) -> Any:
    if value is None:
        return None
    try:
        vector = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        vector = np.empty(0)
    if (
        vector.ndim != 1
        or not vector.size
        or not np.all(vector >= 0)
        or not abs(float(vector.sum()) - 1) <= 1e-9
    ):
        raise ValueError(
            f"{name} must be nonnegative numbers that sum to 1, one for each task, got {value!r}"
        )
    return vector / vector.sum()


def _explanation(
    half: HalfSupremum, quantity: str, average: Any, factor: float, *, capped: bool
) -> str:
    steps = half.steps
    if capped:
        how = "the trivial bound ½R²D²; the certificate gives none that is smaller"
    else:
        theorem = "4"
        if steps.proportional:
            theorem = "3" if steps.base == LINEAR else "2"
        theorem = "5" if quantity == "seen_loss" else ("7" if average is not None else theorem)
        how = (
            f"Theorem {theorem} of docs/upper-bounds.md, base {steps.base}, {len(half.mesh.r)}"
            " nodes, "
        )
        how += "with rigorous rounding error bounds"
        if steps.unused:
            first = "first step" if steps.unused == 1 else f"first {steps.unused} steps"
            how += f"; of the {first} it uses only that the error does not grow"
        if not math.isclose(factor, 1.0):
            how += f"; times {factor:.6g}, since the loss does not weigh tasks as they are drawn"
        if steps.assumes:
            how += f"; it trusts {steps.assumes}"
    return (
        f"Derived, unpublished: {how}. It holds for every collection that one model fits, of any"
        " number of tasks of norm at most R and any rank, drawn independently with replacement."
    )
