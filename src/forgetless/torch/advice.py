"""Comparison of mechanisms against forgetting on the first tasks of a network, under a budget of
training runs.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from statistics import fmean
from typing import Any

import torch

from forgetless._core import validate
from forgetless._progress import track
from forgetless.torch.continual import Continual
from forgetless.torch.importance import mean_importance
from forgetless.torch.schedules import check_choice

DEFAULT_SCALE = 1 / 16
"""A cautious scale of ``fl.schedules.increasing`` beside ``Relative`` importances; docs/deep.md has
what it gained."""

GRIDS: Mapping[str, tuple[float, ...]] = {
    "proximal": (0.25, 1 / 64, 4.0, 1 / 1024, 64.0),
    "merge": (1.0, 2.0, 0.5, 4.0, 0.25),
    "moving": (1.0, 4.0, 0.25, 16.0, 1 / 16),
    "step_size": (1.0, 0.25, 4.0, 1 / 16, 1 / 64),
}
"""First values of the parameter of every mechanism, the most likely first; functions of the user
get the first ones."""

Scores = dict[tuple[str, float], tuple[float, ...]]


@dataclass(frozen=True)
class MechanismAdvice:
    """Result of ``advise``.

    Attributes
    ----------
    mechanism : str
        The best one; ``"none"`` where none is better than training alone.
    value : float
        Of its parameter; 0 for ``"none"``.
    options : dict
        Its arguments of :class:`Continual`.
    scores : dict from (mechanism, value) to tuple of float
        Mean score over all tasks after the last, for every seed.
    without : tuple of float
        The same without a mechanism.
    """

    mechanism: str
    value: float
    options: Mapping[str, Any]
    scores: Scores
    without: tuple[float, ...]

    @property
    def n_runs(self) -> int:
        """Training runs that were made, each over all tasks."""
        return len(self.without) * (1 + len(self.scores))

    @property
    def edge(self) -> str | None:
        """``"smallest"`` or ``"largest"`` where the value is that of all tried of its mechanism;
        otherwise None.
        """
        tried = [value for name, value in self.scores if name == self.mechanism] or [math.nan]
        return {min(tried): "smallest", max(tried): "largest"}.get(self.value)

    def best(self, mechanism: str) -> tuple[float, float]:
        """Return the best value of a mechanism and its mean score."""
        means = _means(mechanism, self.scores)
        value = max(means, key=lambda each: means[each])
        return value, means[value]

    def __str__(self) -> str:
        best = {name: self.best(name) for name, _ in self.scores}
        rows = {
            f"{name} {value:.3g}": self.scores[name, value] for name, (value, _) in best.items()
        }
        ranked = sorted((rows | {"none": self.without}).items(), key=lambda row: -_mean(row[1]))
        text = "; ".join(f"{label}: {_mean(scores):.4g}" for label, scores in ranked)
        if self.mechanism == "none":
            return f"{text}\nno mechanism is better than training alone on these tasks"
        (_, first), (rival, second) = ranked[:2]
        wins = sum(a > b for a, b in zip(first, second, strict=True))
        call = ", ".join(f"{key}={value!r}" for key, value in self.options.items())
        text += f"\n{self.mechanism} is best, above {rival} on {wins} of {len(first)} seeds"
        text += f", of {self.n_runs} training runs: flt.Continual(model, optimizer, {call})"
        return text + (
            f"\nits value is the {self.edge} that was tried; a larger budget goes beyond"
            if self.edge
            else ""
        )


def advise(
    make: Callable[[], tuple[Any, Any]],
    tasks: Sequence[Any],
    train: Callable[[Any, Any, Any], object],
    score: Callable[[Any, Any], float],
    *,
    mechanisms: Sequence[str] | Mapping[str, Callable[[float], Mapping[str, Any]]] = tuple(GRIDS),
    importance: Callable[[Any, Any], Mapping[str, Any]] | None = None,
    budget: int = 21,
    seeds: Sequence[int] = (0,),
) -> MechanismAdvice:
    """Return the mechanism of :class:`Continual`, and the value of its parameter, that do best on
    these tasks.

    Take the first few tasks of a stream. Every mechanism gets as many values as the budget allows:
    five far apart, then beyond a best one at an edge, or half-way beside an inner one. Means over
    seeds decide; with few tasks and seeds a small difference means little. That the choice carries
    over to a longer stream is a heuristic.

    Parameters
    ----------
    make : callable
        Returns a new model and its optimizer; called for every run, after ``torch.manual_seed``.
    tasks : sequence
        Two or more tasks, of whatever kind ``train`` and ``score`` take.
    train : callable
        ``train(model, optimizer, task)`` learns one task, as without a mechanism.
    score : callable
        ``score(model, task)``, the larger the better: accuracy on held-out data of the task, or
        minus a loss.
    mechanisms : sequence of str or dict from str to callable, default all
        ``"proximal"``: λ_t = c times the number of earlier tasks; ``"merge"``: c/t; ``"moving"``:
        average with a time constant in tasks; ``"step_size"``: learning rates times c/t. None of
        them needs the number of tasks, so that the choice serves streams of any length. A function
        of a positive number returns other options of ``Continual``, such as ``lambda scale:
        {"proximal": fl.schedules.increasing(scale=scale), "n_tasks": 5}``.
    importance : callable, optional
        ``importance(model, task)`` of the proximal term, such as ``lambda model, task:
        flt.fisher(model, task[0])``; its strengths are then divided by the mean importance after
        the first task. Without it Ω = 1.
    budget : int, default 21
        Training runs over all tasks, for all seeds together: one of each seed is without a
        mechanism.
    seeds : sequence of int, default (0,)
        More seeds give means over as many runs each.

    Examples
    --------
    >>> import torch, forgetless.torch as flt
    >>> from torch.nn import functional
    >>> def make():
    ...     net = torch.nn.Linear(1, 1, bias=False)
    ...     _ = torch.nn.init.zeros_(net.weight)
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
    >>> print(flt.advise(make, tasks, train, score, budget=13))
    merge 1: -0.6667; moving 4: -0.6695; proximal 4: -0.7778; step_size 0.25: -0.8663; none: -1.667
    merge is best, above moving 4 on 1 of 1 seeds, of 13 training runs: flt.Continual(model,
    optimizer, \
average=('merge', 1.0))
    """
    if len(tasks) < 2:
        raise ValueError(
            f"tasks must be two or more, of which the first is learned freely, got {len(tasks)}"
        )
    if not seeds or not mechanisms:
        raise ValueError(
            f"{'mechanisms' if seeds else 'seeds'} must not be empty; leave it out for the default"
        )
    custom = mechanisms if isinstance(mechanisms, Mapping) else {}
    names = list(custom) or [check_choice("mechanisms", name, tuple(GRIDS)) for name in mechanisms]
    least = len(seeds) * (1 + len(names))
    total = validate.integer(
        "budget", budget, least, f"{len(seeds)} seeds and {len(names)} mechanisms need {least}"
    )
    n_values = (total // len(seeds) - 1) // len(names)
    loop = _Loop(make, tasks, train, score, importance)
    scores: Scores = {}
    without = tuple(loop.run(None, seed) for seed in seeds)
    functions = custom or _functions(loop.n_steps / len(tasks))
    for name in track([name for name in names for _ in range(n_values)], "training runs"):
        unit = (loop.unit or 1.0) if "proximal" in functions[name](1.0) else 1.0
        value = _next(_means(name, scores), GRIDS.get(name, GRIDS["proximal"]), unit)
        if value is not None:
            scores[name, value] = tuple(loop.run(functions[name](value), seed) for seed in seeds)
    name, value = max(scores, key=lambda key: _mean(scores[key]))
    if not _mean(scores[name, value]) > _mean(without):
        return MechanismAdvice("none", 0.0, {}, scores, without)
    return MechanismAdvice(name, value, functions[name](value), scores, without)


def _functions(steps: float) -> dict[str, Callable[[float], dict[str, Any]]]:
    """Return the arguments of ``Continual`` as functions of one number; ``steps``: of one task, the
    mean.
    """
    return {
        "proximal": lambda c: {"proximal": c},
        "merge": lambda c: {"average": ("merge", c)},
        "moving": lambda horizon: {"average": ("moving", horizon * steps)},
        "step_size": lambda c: {"step_size": ("inverse", c)},
    }


def _means(name: str, scores: Scores) -> dict[float, float]:
    return {value: _mean(each) for (own, value), each in scores.items() if own == name}


def _mean(scores: Sequence[float]) -> float:
    """Return the mean; a run that diverged is worse than any other."""
    mean = fmean(scores)
    return mean if math.isfinite(mean) else -math.inf


def _next(means: Mapping[float, float], grid: Sequence[float], unit: float) -> float | None:
    """Return the next value to be tried; None where neighbours of the best one are within a factor
    of 1.5.
    """
    if len(means) < len(grid):
        return grid[len(means)] * unit
    tried = sorted(means)
    at = tried.index(max(means, key=lambda value: means[value]))
    far = max(b / a for a, b in pairwise(tried))
    if at == 0:
        return tried[0] / far
    if at == len(tried) - 1:
        return tried[-1] * far
    low, high = max(
        (tried[at - 1 : at + 1], tried[at : at + 2]), key=lambda pair: pair[1] / pair[0]
    )
    return math.sqrt(low * high) if high / low > 1.5 else None


class _Loop:
    """The user's loop over all tasks, with a mechanism or without."""

    def __init__(
        self, make: Any, tasks: Sequence[Any], train: Any, score: Any, importance: Any
    ) -> None:
        self.make, self.tasks, self.train, self.score, self.importance = (
            make,
            tasks,
            train,
            score,
            importance,
        )
        self.n_steps = 0  # of the first run
        self.unit: float | None = None  # of λ, from the first run

    def run(self, options: Mapping[str, Any] | None, seed: int) -> float:
        """Return the mean score over all tasks after the last, as the mechanism evaluates the
        network.
        """
        with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
            torch.manual_seed(seed)
            model, optimizer = self.make()
            # Without a mechanism the hooks only count steps: merging with a weight of 1 changes
            # nothing.
            continual = Continual(model, optimizer, **(options or {"average": ("merge", 1e9)}))
            n_steps = 0
            for task in self.tasks:
                self.train(model, optimizer, task)
                n_steps += continual.n_steps
                if self.unit is None:
                    self.unit = (
                        1.0
                        if self.importance is None
                        else 1.0 / mean_importance(self.importance(model, task))
                    )
                weighted = self.importance is not None and continual.anchor is not None
                continual.next_task(partial(self.importance, model, task) if weighted else None)
            with continual.averaged_weights():
                mean = fmean(float(self.score(model, task)) for task in self.tasks)
            continual.remove()
        self.n_steps = self.n_steps or n_steps
        return mean
