"""The shapes of schedules that advice compares, and the search of their best scales."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from forgetless import schedules
from forgetless._core.arrays import Floats
from forgetless.advice._losses import Evaluate
from forgetless.engines.inputs import ScheduleLike, as_schedule
from forgetless.filters import Filter, Projection, Ridge
from forgetless.orderings import OneOrder, Ordering
from forgetless.schedules import Schedule
from forgetless.tasks import TaskCollection

_NOISES = np.array([0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0])
_LENGTHS = (1.0, 1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32)
_BUDGETS = (1, 4, 16)
# points between the neighbours of a minimum: two rounds narrow the scale from a factor 2 to 5 %
_BETWEEN = 7


@dataclass(frozen=True)
class Shape:
    """One family of schedules."""

    name: str
    make: Callable[[float], Schedule | Filter]  # from a scale to a schedule
    # The first grid of scales; empty for a single schedule, which ``make`` returns for every number
    scales: Floats = field(default_factory=lambda: np.empty(0))


@dataclass
class Curve:
    """The losses of one shape over the scales so far, in increasing order of scale."""

    shape: Shape
    scales: Floats
    losses: Floats

    @property
    def best(self) -> int:
        """Position of the smallest loss; of equal ones that with the smallest scale."""
        return int(np.argmin(self.losses))

    @property
    def best_schedule(self) -> tuple[Any, float]:
        """The schedule of the smallest loss, and its loss."""
        return self.shape.make(float(self.scales[self.best])), float(self.losses[self.best])

    def add(self, scales: Floats, losses: Floats) -> None:
        """Add points in order; a repeated scale takes the newer loss."""
        merged = dict(zip(self.scales.tolist(), self.losses.tolist(), strict=True))
        merged.update(zip(scales.tolist(), losses.tolist(), strict=True))
        self.scales = np.array(sorted(merged))
        self.losses = np.array([merged[scale] for scale in self.scales.tolist()])

    def within(self, factor: float) -> tuple[float, float]:
        """Return the scales between which the loss stays below ``factor`` times the smallest,
        interpolated.
        """
        limit, ends = factor * self.losses[self.best], []
        for step in (-1, 1):
            i = self.best
            while 0 <= i + step < len(self.scales) and self.losses[i + step] <= limit:
                i += step
            end = self.scales[i]
            if 0 <= i + step < len(self.scales):
                part = (limit - self.losses[i]) / (self.losses[i + step] - self.losses[i])
                end *= (self.scales[i + step] / self.scales[i]) ** part
            ends.append(float(end))
        return ends[0], ends[1]


def significant(value: float) -> float:
    """Return a number rounded to four significant digits, so that the repr of a schedule is short
    and exact.
    """
    return float(f"{value:.4g}")


def shapes(tasks: TaskCollection, k: int, ordering: Ordering) -> list[Shape]:
    """Return the shapes to compare, simple ones first, with a first grid of scales in units of
    R².
    """
    square = tasks.radius**2
    least = float(tasks.singular_values.min()) ** 2 if tasks.singular_values.size else square
    # Far below the smallest eigenvalue a filter solves the task; far above k R² the weights hardly
    # change in k steps.
    low = max(1e-3 * least / square, 1e-12) if square else 1.0
    fixed, rising, steep = grid(low, 10.0 * k), grid(low, 30.0), grid(low, 30.0, per_decade=2)
    candidates = [
        Shape("no regularization", lambda _: Projection()),
        Shape("constant", lambda c: Ridge(significant(c * square)), fixed),
    ]
    if k >= 3:
        candidates.append(Shape("fixed, near-optimal", lambda _: schedules.fixed()))
        candidates.append(Shape("fixed budget", lambda _: schedules.fixed_budget()))
    candidates.append(Shape("increasing, theorem", lambda _: schedules.increasing()))
    candidates.append(Shape("minimax", lambda _: schedules.minimax()))
    if not tasks.is_realizable():
        candidates.append(
            Shape(
                "minimax, noise", lambda c: schedules.minimax_budget(noise=significant(c)), _NOISES
            )
        )
    candidates.append(
        Shape("increasing", lambda c: schedules.increasing(scale=significant(c)), rising)
    )
    # Step sizes stay below 1/R² from this scale on.
    candidates += [
        Shape("increasing budget", _budget(n), grid(1.01 / n, 30.0, per_decade=2)) for n in _BUDGETS
    ]
    lengths = [length for length in _LENGTHS if round(length * k) >= 2 or length == 1.0]
    candidates += [Shape("end ramp", _ramp(length), steep) for length in lengths]
    law = ordering.law(tasks.n_tasks, k)
    if isinstance(law, OneOrder) and law.is_cycle(tasks.n_tasks) and k > tasks.n_tasks:
        candidates.append(
            Shape("cyclic, Cai & Diakonikolas", lambda _: schedules.cyclic(tasks.n_tasks))
        )
    return candidates


def own_shapes(
    also: Mapping[str, ScheduleLike] | None, standard: Sequence[Shape], n_tasks: int | None = None
) -> list[Shape]:
    """Return the user's schedules as shapes without a scale; ValueError if a name is one of the
    ``standard`` shapes.
    """
    if also is not None and (
        not isinstance(also, Mapping) or not all(isinstance(name, str) for name in also)
    ):
        raise TypeError(f"also must be a dict of schedules by name, got {also!r}")
    names = {shape.name for shape in standard} & set(also or {})
    if names:
        raise ValueError(
            f"also must not name what is compared anyway, got {', '.join(sorted(names))}; rename it"
        )
    extra = {name: as_schedule(schedule, n_tasks) for name, schedule in (also or {}).items()}
    return [Shape(name, lambda _, schedule=schedule: schedule) for name, schedule in extra.items()]  # type: ignore[misc]


def grid(low: float, high: float, per_decade: int = 3) -> Floats:
    n = max(2, round(per_decade * np.log10(high / low)) + 1)
    return np.array([significant(x) for x in np.geomspace(low, high, n)])


def _budget(n_steps: int) -> Callable[[float], Schedule]:
    return lambda c: schedules.increasing_budget(n_steps=n_steps, scale=significant(c))


def _ramp(length: float) -> Callable[[float], Schedule]:
    return lambda c: schedules.end_ramp(length=length, scale=significant(c))


def scan(candidates: Sequence[Shape], evaluate: Evaluate, *, rounds: int = 2) -> list[Curve]:
    """Return the losses of every shape over its scales: a first grid, then finer ones around the
    deepest minima.
    """
    points = [(shape, shape.scales if shape.scales.size else np.zeros(1)) for shape in candidates]
    curves = [
        Curve(shape, scales, losses)
        for (shape, scales), losses in zip(points, _all(points, evaluate), strict=True)
    ]
    _extend(curves, evaluate)
    for turn in range(rounds + 1):
        refined = []
        for curve in curves:
            if not _promising(curve, curves):
                continue
            fresh = np.setdiff1d(_between(curve) if turn < rounds else _vertex(curve), curve.scales)
            if fresh.size:
                refined.append((curve, fresh))
        values = _all([(curve.shape, fresh) for curve, fresh in refined], evaluate)
        for (curve, fresh), losses in zip(refined, values, strict=True):
            curve.add(fresh, losses)
    return curves


def _extend(curves: Sequence[Curve], evaluate: Evaluate) -> None:
    """Extend curves to larger scales, three decades at a time, where the best scale is the last
    one.
    """
    for _ in range(2):
        ends = [
            curve
            for curve in curves
            if _promising(curve, curves) and curve.best == len(curve.scales) - 1
        ]
        points = [
            (curve.shape, grid(2 * curve.scales[-1], 2e3 * curve.scales[-1], per_decade=2))
            for curve in ends
        ]
        for curve, (_, fresh), losses in zip(ends, points, _all(points, evaluate), strict=True):
            curve.add(fresh, losses)


def _all(points: Sequence[tuple[Shape, Floats]], evaluate: Evaluate) -> list[Floats]:
    """Return the losses of all points, from one batch."""
    schedules = [shape.make(float(scale)) for shape, scales in points for scale in scales]
    if not schedules:
        return []
    ends = np.cumsum([len(scales) for _, scales in points])
    return np.split(evaluate(schedules), ends[:-1])


def _promising(curve: Curve, curves: Sequence[Curve]) -> bool:
    """Whether a curve is worth refining: among those of one name, only the two best."""
    if not curve.shape.scales.size:
        return False
    rivals = sorted(
        other.losses[other.best] for other in curves if other.shape.name == curve.shape.name
    )
    return bool(curve.losses[curve.best] <= rivals[min(1, len(rivals) - 1)])


def _between(curve: Curve) -> Floats:
    """Return scales between the neighbours of the deepest two local minima: the loss can have
    two.
    """
    padded = np.concatenate([[np.inf], curve.losses, [np.inf]])
    dips = np.flatnonzero((padded[1:-1] <= padded[:-2]) & (padded[1:-1] < padded[2:]))
    dips = dips[np.argsort(curve.losses[dips], kind="stable")][:2]
    fresh = []
    for dip in dips.tolist():
        if curve.losses[dip] > 1.5 * curve.losses[curve.best]:
            continue
        low, high = curve.scales[max(dip - 1, 0)], curve.scales[min(dip + 1, len(curve.scales) - 1)]
        fresh += [significant(x) for x in np.geomspace(low, high, _BETWEEN + 2)[1:-1]]
    return np.unique(fresh)


def _vertex(curve: Curve) -> Floats:
    """Return the lowest scale of the parabola through the best point and its neighbours, on
    logarithmic axes.
    """
    i = curve.best
    if not 0 < i < len(curve.scales) - 1:
        return np.empty(0)
    x, y = np.log(curve.scales[i - 1 : i + 2]), curve.losses[i - 1 : i + 2]
    bend, slope, _ = np.polyfit(x - x[1], y, 2)
    return np.array([significant(np.exp(x[1] - 0.5 * slope / bend))]) if bend > 0 else np.empty(0)
