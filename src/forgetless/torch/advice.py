"""Search for the scale of a schedule on the first tasks of a network, coarse then fine."""

import copy
import itertools
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import torch

from forgetless import schedules
from forgetless._core import validate
from forgetless.reporting.progress import Progress, progress_callback
from forgetless.torch.anchor import Anchor
from forgetless.torch.importance import Relative
from forgetless.torch.schedules import strengths

COARSE = tuple(4.0**i for i in range(-5, 4))
"""The nine scales that are tried first; those of ``make bench-deep``."""

DEFAULT_SCALE = 1 / 16
"""A cautious scale for where nothing was tuned: see "Which scale" in docs/deep.md for what it was worth.

For ``fl.schedules.increasing(scale=…)`` with importances divided by their first mean (``Relative``).
"""

Scores = Mapping[float, tuple[float, ...]]
"""Of every scale, over the seeds."""


@dataclass(frozen=True)
class ScaleAdvice:
    """Result of ``advise``.

    Attributes
    ----------
    scale : float
        The best scale, for ``fl.schedules.increasing(scale=…)``.
    scores : dict from scale to tuple of float
        Of every scale that was tried, over the seeds; the larger the better.
    without : tuple of float
        Scores without regularization.
    edge : str or None
        ``"low"`` or ``"high"`` where the best scale is the smallest or the largest that was tried: then larger
        or smaller scales were not tried, and at ``"low"`` regularization may not help at all.
    unit : float
        What a scale is multiplied with to be λ: 1, or 1 over the mean importance after the first task. It is contained
        in ``scale`` and in ``scores``.
    """

    scale: float
    scores: Mapping[float, tuple[float, ...]]
    without: tuple[float, ...]
    edge: str | None
    unit: float = 1.0

    def near(self, tolerance: float = 0.01) -> tuple[float, float]:
        """Return the smallest and the largest scale tried whose mean score is within ``tolerance`` of the best."""
        best = fmean(self.scores[self.scale])
        close = [scale for scale, values in self.scores.items() if fmean(values) >= best - tolerance]
        return min(close), max(close)

    def __str__(self) -> str:
        best, without = fmean(self.scores[self.scale]), fmean(self.without)
        low, high = self.near()
        lines = [
            f"scale {self.scale:.3g}: score {best:.4g} over all tasks after the last, {without:.4g} "
            "without regularization",
            f"{low:.3g} to {high:.3g} are within 0.01 of it, of {len(self.scores)} scales tried",
        ]
        if self.edge:
            side = "smallest" if self.edge == "low" else "largest"
            lines.append(f"it is the {side} that was tried: scales beyond it were not tried; give other scales")
        return "\n".join(lines)


def advise(
    make: Callable[[], tuple[Any, Any]],
    tasks: Sequence[Any],
    train: Callable[[Any, Any, Any], object],
    score: Callable[[Any, Any], float],
    *,
    schedule: Callable[[float], Any] | None = None,
    importance: Callable[[Any, Any], Mapping[str, Any]] | None = None,
    scales: Sequence[float] | None = None,
    seeds: Sequence[int] = (0,),
    center: str = "previous",
    progress: Progress | bool | None = None,
) -> ScaleAdvice:
    """Return the scale with which a schedule over these tasks does best on all of them after the last.

    Take the first few tasks of a stream, and the scale for all of it: that it carries over to a longer stream is a
    heuristic, which holds in the theory of linear models, where the best scale does not grow with the number of tasks.

    Nine scales are tried, a factor of 4 apart, two more where the best one is at an edge, and two half-way beside an
    inner one. All scales share seeds, the weights after the unregularized first task, and torch's random numbers.

    Parameters
    ----------
    make : callable
        Returns a new model and its optimizer; called once for every seed, after ``torch.manual_seed``.
    tasks : sequence
        Two or more tasks, of whatever kind ``train`` and ``score`` take.
    train : callable
        ``train(model, optimizer, task)`` learns one task, as without regularization. It is called with copies, so it
        must create anything else it needs, such as a learning-rate scheduler, from these two.
    score : callable
        ``score(model, task)``, the larger the better: accuracy on held-out data of the task, or minus a loss.
    schedule : callable, optional
        From a scale to what ``Anchor`` takes; ``fl.schedules.increasing`` if omitted.
    importance : callable, optional
        ``importance(model, task)`` for ``next_task``, such as ``lambda model, task: flt.fisher(model, task[0])``. The
        scales are then taken relative to its mean after the first task.
    scales : sequence of float, optional
        Others to begin with, in a geometric progression.
    seeds : sequence of int, default (0,)
        More seeds give means over as many runs.
    center : {"previous", "all"}
        As in ``Anchor``.
    progress : bool or callable, optional
        True shows a bar; a callable is called as ``progress(scales_done, n_scales, label)`` before every training.

    Examples
    --------
    >>> import torch, forgetless.torch as flt
    >>> from torch.nn import functional
    >>> def make():
    ...     net = torch.nn.Linear(1, 1, bias=False)
    ...     return net, torch.optim.SGD(net.parameters(), lr=0.1)
    >>> def train(net, optimizer, task):
    ...     for _ in range(50):
    ...         optimizer.zero_grad()
    ...         functional.mse_loss(net(task[0]), task[1]).backward()
    ...         optimizer.step()
    >>> def score(net, task):
    ...     return -functional.mse_loss(net(task[0]), task[1]).item()
    >>> x = torch.ones(1, 1)
    >>> tasks = [(x, 0 * x), (x, x), (x, 2 * x)]  # no weight fits all; the best is 1
    >>> advice = flt.advise(make, tasks, train, score)
    >>> print(advice)
    scale 2: score -0.6689 over all tasks after the last, -1.667 without regularization
    2 to 2 are within 0.01 of it, of 11 scales tried
    """
    if len(tasks) < 2:
        raise ValueError(f"tasks must be two or more, of which the first is not regularized, got {len(tasks)}")
    if not seeds:
        raise ValueError("seeds must not be empty; one seed is enough for a first look")
    grid = _grid(scales)
    chosen: Callable[[float], Any] = (lambda scale: schedules.increasing(scale=scale)) if schedule is None else schedule
    with progress_callback(progress) as report_progress:
        report_progress(0, 0, "first task")
        began = [_Start(make, tasks, train, importance, seed) for seed in seeds]
        unit, done = began[0].unit, itertools.count()

        def evaluate(scale: float) -> tuple[float, ...]:
            report_progress(next(done), len(grid) + 3, f"scales, now {scale * unit:.3g}")
            lambdas = strengths(chosen(scale * unit) if scale else 0.0, len(tasks))
            return tuple(start.after(lambdas, tasks, train, score, importance, center) for start in began)

        scores, without = _searched(grid, evaluate), evaluate(0.0)
    best = _best(scores)
    edge = {min(scores): "low", max(scores): "high"}.get(best)
    if edge:
        side = "smallest" if edge == "low" else "largest"
        warnings.warn(
            f"the best scale is the {side} that was tried, {best * unit:.3g}; give scales= that extend further",
            stacklevel=2,
        )
    values = {scale * unit: scores[scale] for scale in sorted(scores)}
    return ScaleAdvice(best * unit, values, without, edge, unit)


def _searched(first: list[float], evaluate: Callable[[float], tuple[float, ...]]) -> Scores:
    """Return the scores of some scales, of two beyond a best one at an edge, and of two beside an inner one."""
    scores = {scale: evaluate(scale) for scale in first}
    for more in (_beyond, _between):
        scores |= {scale: evaluate(scale) for scale in more(scores, first[1] / first[0])}
    return scores


def _grid(scales: Sequence[float] | None) -> list[float]:
    grid = list(COARSE) if scales is None else sorted(validate.number("scales", s, "a positive number") for s in scales)
    ratios = [b / a for a, b in itertools.pairwise(grid) if a > 0]
    if len(ratios) < 2 or len(ratios) != len(grid) - 1 or max(ratios) > 1.01 * min(ratios) or min(ratios) <= 1:
        raise ValueError(f"scales must be three or more positive numbers in a geometric progression, got {scales!r}")
    return grid


def _mean(scores: tuple[float, ...]) -> float:
    """Return the mean; a run that diverged is worse than any other."""
    mean = fmean(scores)
    return mean if math.isfinite(mean) else -math.inf


def _best(scores: Scores) -> float:
    return max(scores, key=lambda scale: _mean(scores[scale]))


def _between(scores: Scores, ratio: float) -> list[float]:
    """Return the scales half-way beside an inner optimum."""
    best = _best(scores)
    return [] if best in (min(scores), max(scores)) else [best / math.sqrt(ratio), best * math.sqrt(ratio)]


def _beyond(scores: Scores, ratio: float) -> list[float]:
    """Return two scales beyond a best one at an edge of what was tried."""
    best = _best(scores)
    if best == min(scores):
        return [best / ratio, best / ratio**2]
    return [best * ratio, best * ratio**2] if best == max(scores) else []


class _Start:
    """Model and optimizer after the first task, from which every scale continues."""

    def __init__(self, make: Any, tasks: Any, train: Any, importance: Any, seed: int) -> None:
        self.seed = seed
        with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
            torch.manual_seed(seed)
            self.model, self.optimizer = make()
            train(self.model, self.optimizer, tasks[0])
            self.weights = None if importance is None else importance(self.model, tasks[0])
        self.unit = 1.0
        if self.weights is not None:
            relative = Relative()
            relative(self.weights)
            assert relative.unit is not None
            self.unit = 1 / relative.unit

    def after(self, lambdas: Any, tasks: Any, train: Any, score: Any, importance: Any, center: str) -> float:
        """Return the mean score over all tasks after the last one."""
        with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
            torch.manual_seed(self.seed + 1)
            model, optimizer = copy.deepcopy((self.model, self.optimizer))
            anchor = Anchor(model, optimizer, lambdas, len(tasks), center=center)
            anchor.next_task(self.weights, untrained=True)
            for task in tasks[1:]:
                train(model, optimizer, task)
                anchor.next_task(None if importance is None else importance(model, task))
            anchor.remove()
            return fmean(float(score(model, task)) for task in tasks)
