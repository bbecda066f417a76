"""The shapes of schedules that advice compares, and the search for the best scale of each.

The loss of many schedules in one batch costs little more than that of one, so that the search
evaluates whole grids: first a coarse one over decades, then finer ones around the minima.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from forgetless import schedules
from forgetless._validate import Floats
from forgetless.filters import Filter, Projection, Ridge
from forgetless.orderings import Cyclic, Ordering
from forgetless.schedules.named import MAKERS, Named, ScheduleLike, as_schedule
from forgetless.tasks import TaskCollection

Losses = Callable[[Sequence[Any]], Floats]
"""A function from schedules to their losses."""

_MOST = 0.9999
"""Largest η of the minimax schedules where labels are noisy: 1 has no guarantee there."""

_LENGTHS = (1.0, 1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32)
"""Parts of the steps over which ramps at the end rise."""

_BUDGETS = (1, 4, 16)
"""Numbers of gradient steps for one task."""

_BETWEEN = 7
"""Points between the neighbours of a minimum: three rounds narrow a factor of 5 to 3 %, where the
loss is flat."""

_ROUNDS = 3
"""Of finer and finer grids."""


@dataclass(frozen=True)
class Shape:
    """A family of schedules with one number to choose, its scale, or with none.

    Attributes
    ----------
    title : str
    make : function
        From a scale to a schedule or a filter.
    scales : array
        The first grid; a single number where there is nothing to choose.
    own : bool
        Whether it is the user's, and has no expression of ours.
    """

    title: str
    make: Callable[[float], Any]
    # no mutant: a schedule without a scale is the same at all of them
    scales: Floats = field(default_factory=lambda: np.ones(1))
    own: bool = False

    def code(self, scale: float) -> str:
        """Return the Python expression of the schedule of one scale."""
        if self.own:
            return f"also[{self.title!r}]"
        made = self.make(scale)
        if isinstance(made, Filter):
            return f"fl.{made!r}"
        # Arguments that say nothing but the default are left out.
        defaults = MAKERS[made.name].__signature__.parameters
        given = {
            name: value for name, value in made.arguments.items() if value != defaults[name].default
        }
        return f"fl.schedules.{Named(made.name, given)!r}"


def shapes(tasks: TaskCollection, k: int, ordering: Ordering) -> list[Shape]:
    """Return the shapes to compare on these tasks, simple ones first; scales are in units of R²."""
    square = tasks.radius**2
    weakest = 1.0  # no mutant: where all rows are zero, no λ changes anything
    if square > 0:
        # Far below the smallest eigenvalue a filter solves its task.
        weakest = max(1e-3 * tasks.singular_values.min() ** 2 / square, 1e-12)

    def constant(scale: float) -> Filter:
        return Ridge(_significant(scale * square))

    def eta(odds: float) -> float:
        # η is searched by η/(1 − η), which has decades on both sides.
        return min(_significant(odds / (1 + odds)), _MOST)

    # Far above k R² the weights hardly change in k steps.
    found = [
        _fixed("no regularization", Projection()),
        Shape("constant", constant, grid(weakest, 10.0 * k)),
    ]
    # The paper's corollary asks for three steps.
    if k >= 3:
        found += [
            _fixed("fixed, near-optimal", schedules.fixed()),
            _fixed("fixed budget", schedules.fixed_budget()),
        ]
    found.append(_fixed("increasing, theorem", schedules.increasing()))
    if tasks.noise or not tasks.is_realizable():
        # The best η is about 1/(1 + σ√(k+1)), σ being the noise over R²‖w⋆‖; far below 1/√k hardly
        # anything is learned.
        odds = grid(0.1 / np.sqrt(k + 1), 100.0)
        found += [
            Shape("minimax", lambda c: schedules.minimax(eta(c)), odds),
            Shape("minimax budget", lambda c: schedules.minimax_budget(1, eta(c)), odds),
        ]
    else:
        found.append(_fixed("minimax", schedules.minimax()))
    found.append(Shape("increasing", schedules.increasing, grid(weakest, 30.0)))
    for n in _BUDGETS:
        # Step sizes stay below 1/R² from this scale on.
        scales = grid(1.01 / n, 30.0, per_decade=2)
        found.append(Shape("increasing budget", partial(schedules.increasing_budget, n), scales))
    ramps = grid(weakest, 30.0, per_decade=2)
    # A ramp of one step is no ramp, unless there is one step only.
    lengths = [length for length in _LENGTHS if length == 1.0 or round(length * k) >= 2]
    found += [Shape("end ramp", partial(schedules.end_ramp, each), ramps) for each in lengths]
    if isinstance(ordering, Cyclic) and k > tasks.n_tasks:
        found.append(_fixed("cyclic, Cai & Diakonikolas", schedules.cyclic(tasks.n_tasks)))
    return found


def own_shapes(
    also: Mapping[str, ScheduleLike], standard: list[Shape], n_tasks: int
) -> list[Shape]:
    """Return the user's schedules as shapes; ValueError if a title is among the standard ones."""
    if not isinstance(also, Mapping) or not all(isinstance(name, str) for name in also):
        raise TypeError(f"also must be a dict of schedules by name, got {also!r}")
    taken = also.keys() & {shape.title for shape in standard}
    if taken:
        raise ValueError(f"also must not name what is compared anyway, got {min(taken)}; rename it")
    return [_fixed(name, as_schedule(each, n_tasks), own=True) for name, each in also.items()]


def _fixed(title: str, schedule: Any, own: bool = False) -> Shape:
    """Return the shape of one schedule, which has no scale."""
    return Shape(title, lambda _: schedule, own=own)


@dataclass(frozen=True, eq=False)
class Option:
    """One shape of schedule, with its losses at the scales that were tried."""

    family: Shape
    points: dict[float, float] = field(default_factory=dict)

    @property
    def shape(self) -> str:
        """The name of the shape."""
        return self.family.title

    @property
    def scales(self) -> Floats:
        """The scales in increasing order: λ of a constant in units of R², the factor of an
        increasing schedule, the slope of a ramp in R² a step, η/(1 − η) of a minimax schedule. One
        number where there is no choice.
        """
        return np.array(sorted(self.points))

    @property
    def losses(self) -> Floats:
        """Their losses."""
        return np.array([self.points[scale] for scale in self.scales.tolist()])

    @property
    def scale(self) -> float:
        """The scale of the smallest loss; of equal ones the smallest scale."""
        return float(self.scales[np.argmin(self.losses)])

    @property
    def loss(self) -> float:
        """The smallest loss."""
        return self.points[self.scale]

    @property
    def schedule(self) -> Any:
        """The schedule of that scale."""
        return self.family.make(self.scale)

    @property
    def code(self) -> str:
        """A Python expression for it; ``also[name]`` for one of your own."""
        return self.family.code(self.scale)

    def __repr__(self) -> str:
        return f"Option({self.code}, loss={self.loss:.4g})"


def search(candidates: Sequence[Shape], losses: Losses) -> list[Option]:
    """Return the best option of every title, in the order of the candidates.

    Use it with the shapes of ``shapes``, or with some of them. The losses of all scales that one
    round asks for come from one batch.

    Parameters
    ----------
    candidates : sequence of Shape
        Several may have one title, such as ramps of different lengths.
    losses : function from schedules to their losses
    """
    curves = [Option(shape) for shape in candidates]
    # A coarse grid over all decades.
    _evaluate(curves, lambda curve: curve.family.scales, losses)
    # Three further decades where the last scale is the best one.
    for _ in range(2):
        ends = [curve for curve in _promising(curves) if curve.scale == curve.scales[-1]]
        _evaluate(ends, lambda curve: grid(2 * curve.scale, 2e3 * curve.scale, 2), losses)
    # Finer grids around the minima.
    for _ in range(_ROUNDS):
        _evaluate(_promising(curves), _between, losses)
    # Of ramps of all lengths, and of budgets of all sizes, the best one stays.
    best: dict[str, Option] = {}
    for curve in curves:
        rival = best.setdefault(curve.shape, curve)
        if curve.loss < rival.loss:
            best[curve.shape] = curve
    return list(best.values())


def _evaluate(
    curves: list[Option],
    scales_of: Callable[[Option], Floats],
    losses: Losses,
) -> None:
    """Add the losses of new scales to their curves, all from one batch."""
    points = []
    for curve in curves:
        # Grids of later rounds overlap with those before.
        scales = scales_of(curve).tolist()
        points += [(curve, scale) for scale in scales if scale not in curve.points]
    if not points:
        return
    values = losses([curve.family.make(scale) for curve, scale in points])
    for (curve, scale), value in zip(points, values.tolist(), strict=True):
        curve.points[scale] = value


def _promising(curves: list[Option]) -> list[Option]:
    """Return the curves that are worth refining: of those of one title the best two."""
    found = []
    for curve in curves:
        # Ramps of six lengths have one title, as have budgets of three sizes.
        rivals = sorted(each.loss for each in curves if each.shape == curve.shape)
        if len(curve.points) > 1 and curve.loss <= rivals[:2][-1]:
            found.append(curve)
    return found


def _between(curve: Option) -> Floats:
    """Return scales around the deepest two local minima: the loss can have two."""
    scales = curve.scales
    losses = curve.losses
    # A dip is lower than both its neighbours; beyond the ends the loss counts as infinite.
    padded = np.concatenate([[np.inf], losses, [np.inf]])
    dips = np.flatnonzero((losses <= padded[:-2]) & (losses < padded[2:]))
    dips = dips[np.argsort(losses[dips], kind="stable")][:2]
    fresh = []
    for dip in dips.tolist():
        low = scales[max(dip - 1, 0)]
        high = scales[min(dip + 1, len(scales) - 1)]
        # Both ends are known.
        between = np.geomspace(low, high, _BETWEEN + 2)[1:-1]
        fresh += [_significant(scale) for scale in between]
    return np.unique(fresh)


def _significant(value: float) -> float:
    """Return a number with four significant digits, so that code is short and exact."""
    return float(f"{value:.4g}")


def grid(low: float, high: float, per_decade: int = 3) -> Floats:
    """Return a logarithmic grid with both ends, of ``per_decade`` points to a factor of ten."""
    n = round(per_decade * np.log10(high / low)) + 1
    return np.array([*map(_significant, np.geomspace(low, high, n))])
