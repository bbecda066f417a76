"""Comparison of mechanisms against forgetting on the first tasks of a network, under a budget of training runs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import torch

from forgetless._core import validate
from forgetless.reporting.progress import Progress, progress_callback
from forgetless.torch.continual import Continual
from forgetless.torch.importance import Relative

GRIDS: Mapping[str, tuple[float, ...]] = {
    "proximal": (0.25, 1 / 64, 4.0, 1 / 1024, 64.0),
    "merge": (1.0, 2.0, 0.5, 4.0, 0.25),
    "moving": (1.0, 4.0, 0.25, 16.0, 1 / 16),
    "step_size": (1.0, 0.4, 0.16, 2.5, 0.064),
}
"""Values of the one parameter of every mechanism, the most likely first: c of λ_t = c times the earlier tasks, relative
to the first importance; c of merging; the time constant in tasks; and a factor of the learning rate after task 1."""


@dataclass(frozen=True)
class MechanismAdvice:
    """Result of ``advise_mechanism``.

    Attributes
    ----------
    mechanism : str
        The best one: ``"proximal"``, ``"merge"``, ``"moving"`` or ``"step_size"``; ``"none"`` where none is better than
        training alone.
    options : dict
        Its arguments of :class:`Continual`.
    scores : dict from (mechanism, value) to tuple of float
        Mean score over all tasks after the last, for every seed.
    without : tuple of float
        The same without a mechanism.
    n_runs : int
        Training runs that were made, each over all tasks.
    """

    mechanism: str
    options: Mapping[str, Any]
    scores: Mapping[tuple[str, float], tuple[float, ...]]
    without: tuple[float, ...]
    n_runs: int

    def best(self, mechanism: str) -> tuple[float, float]:
        """Return the best value of a mechanism and its mean score."""
        own = {value: fmean(scores) for (name, value), scores in self.scores.items() if name == mechanism}
        value = max(own, key=lambda each: own[each])
        return value, own[value]

    def __str__(self) -> str:
        alone, names = fmean(self.without), list(dict.fromkeys(name for name, _ in self.scores))
        ranked = sorted(names, key=lambda name: -self.best(name)[1])
        rows = [f"{name} {self.best(name)[0]:.3g}: {self.best(name)[1]:.4g}" for name in ranked]
        lines = ["; ".join([*rows, f"none: {alone:.4g}"])]
        if self.mechanism == "none":
            lines.append("no mechanism is better than training alone on these tasks")
        else:
            wins = self._wins(self.mechanism, ranked[1] if len(ranked) > 1 else None)
            lines.append(f"{self.mechanism} is best{wins}, of {self.n_runs} training runs: {_call(self.options)}")
        return "\n".join(lines)

    def _wins(self, mechanism: str, other: str | None) -> str:
        if other is None:
            return ""
        rows = [self.scores[name, self.best(name)[0]] for name in (mechanism, other)]
        n = sum(a > b for a, b in zip(*rows, strict=True))
        return f", above {other} on {n} of {len(rows[0])} seeds"


def _call(options: Mapping[str, Any]) -> str:
    return f"flt.Continual(model, optimizer, {', '.join(f'{key}={value!r}' for key, value in options.items())})"


def advise_mechanism(
    make: Callable[[], tuple[Any, Any]],
    tasks: Sequence[Any],
    train: Callable[[Any, Any, Any], object],
    score: Callable[[Any, Any], float],
    *,
    importance: Callable[[Any, Any], Mapping[str, Any]] | None = None,
    budget: int = 21,
    seeds: Sequence[int] = (0,),
    progress: Progress | bool | None = None,
) -> MechanismAdvice:
    """Return the mechanism of :class:`Continual` that does best on these tasks, with your own training loop.

    Every mechanism gets as many values of its one parameter, the most likely first, as the budget allows. Means over
    seeds decide; with few tasks and seeds a small difference means little.

    Parameters
    ----------
    make, tasks, train, score
        As in :func:`advise`: ``make()`` returns a new model and its optimizer, ``train(model, optimizer, task)`` learns
        one task, ``score(model, task)`` is larger the better.
    importance : callable, optional
        ``importance(model, task)`` of the proximal term; without it Ω = 1.
    budget : int, default 21
        Training runs over all tasks and seeds: one of ``seeds`` without a mechanism, the rest in equal parts.
    seeds : sequence of int, default (0,)
        More seeds give means over as many runs each.
    progress : bool or callable, optional
        True shows a bar; a callable is called as ``progress(runs_done, n_runs, label)``.

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
    >>> advice = flt.advise_mechanism(make, tasks, train, score, budget=13)
    >>> print(advice)
    merge 1: -0.6667; moving 4: -0.6695; proximal 4: -0.7778; step_size 0.16: -0.844; none: -1.667
    merge is best, above moving on 1 of 1 seeds, of 13 training runs: flt.Continual(model, optimizer, \
average=('merge', 1.0))
    """
    if len(tasks) < 2:
        raise ValueError(f"tasks must be two or more, got {len(tasks)}")
    if not seeds:
        raise ValueError("seeds must not be empty; one seed is enough for a first look")
    least = len(seeds) * (1 + len(GRIDS))
    total = validate.integer("budget", budget, least, f"{len(seeds)} seeds and {len(GRIDS)} mechanisms need {least}")
    n_values = min(5, (total // len(seeds) - 1) // len(GRIDS))
    loop = _Loop(make, tasks, train, score, importance)
    configs = [(name, value) for name, grid in GRIDS.items() for value in grid[:n_values]]
    n_runs = len(seeds) * (1 + len(configs))
    results = dict[tuple[str, float], list[_Result]]()
    with progress_callback(progress) as report:
        report(0, n_runs, "no mechanism")
        alone = [loop.run(None, 0.0, seed, 1.0) for seed in seeds]
        steps = alone[0].steps
        for i, (name, value) in enumerate(configs, 1):
            report(len(seeds) * i, n_runs, f"{name} {value:.3g}")
            results[name, value] = [loop.run(name, value, seed, steps) for seed in seeds]
    scores = {key: tuple(each.score for each in own) for key, own in results.items()}
    without = tuple(each.score for each in alone)
    best = max(scores, key=lambda key: fmean(scores[key]))
    if not fmean(scores[best]) > fmean(without):
        return MechanismAdvice("none", {}, scores, without, n_runs)
    options = _options(*best, len(tasks), steps)
    if best[0] == "proximal":
        options["proximal"] /= results[best][0].unit
    return MechanismAdvice(best[0], options, scores, without, n_runs)


def _options(name: str, value: float, n_tasks: int, steps: float) -> dict[str, Any]:
    """Return the arguments of ``Continual``; ``steps``: of one task."""
    if name == "proximal":
        return {"proximal": value}
    if name == "step_size":  # the first task is learned at the full rate
        rates = [value * (n_tasks - t + 2) / (n_tasks + 1) for t in range(2, n_tasks + 1)]
        return {"step_size": [1.0, *rates], "n_tasks": n_tasks}
    return {"average": (name, value if name == "merge" else value * steps)}


@dataclass(frozen=True)
class _Result:
    score: float
    steps: float  # of one task, the mean
    unit: float  # mean importance after the first task


class _Loop:
    """The user's loop over all tasks, with a mechanism or without."""

    def __init__(self, make: Any, tasks: Sequence[Any], train: Any, score: Any, importance: Any) -> None:
        self.make, self.tasks, self.train, self.score, self.importance = make, tasks, train, score, importance

    def run(self, name: str | None, value: float, seed: int, steps: float) -> _Result:
        """Return the mean score over all tasks after the last, as the mechanism evaluates the network."""
        weighted = name == "proximal" and self.importance is not None
        relative = Relative(None if weighted else 1.0)
        # Without a mechanism the hooks only count steps: merging with a weight of 1 changes nothing.
        options = {"average": ("merge", 1e9)} if name is None else _options(name, value, len(self.tasks), steps)
        with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
            torch.manual_seed(seed)
            model, optimizer = self.make()
            continual, n_steps = Continual(model, optimizer, **options), 0
            for task in self.tasks:
                self.train(model, optimizer, task)
                n_steps += continual.n_steps
                continual.next_task(relative(self.importance(model, task)) if weighted else None)
            with continual.averaged_weights():
                mean = fmean(float(self.score(model, task)) for task in self.tasks)
            continual.remove()
        assert relative.unit is not None
        return _Result(mean, n_steps / len(self.tasks), relative.unit)
