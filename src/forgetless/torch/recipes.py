"""Which λ? Schedules over the tasks, and a search among four strengths in the user's own loop.

``Proximal`` takes a schedule for λ_t, ``StepSize`` one for the factor of the learning rates. A list
with one number per task is a schedule, too.
"""

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from forgetless._running import track
from forgetless.torch.importance import fisher
from forgetless.torch.mechanism import Mechanism, Schedule, planned
from forgetless.torch.proximal import Proximal

STRENGTHS = (1 / 64, 1 / 8, 1.0, 8.0)
"""A factor of 8 apart, in units of the mean importance. On twelve streams the best scale of
increasing EWC was between 1/16 and 16 (docs/benchmarks.md)."""


def increasing(c: float, n_tasks: int) -> Schedule:
    """Return λ_t = c (k + 1)/(k − t + 2), t = 1..k: from c to c(k + 1)/2.

    For ``Proximal`` where the number of tasks k is known. It has the optimal rates for linear
    models in a random order (Levinstein et al. 2025, Theorem "Optimal rates for increasing
    regularization"); for networks it is a heuristic, on the whole no better than a number c.

    Examples
    --------
    >>> import forgetless.torch as flt
    >>> [flt.increasing(1.0, n_tasks=3)(t) for t in (1, 2, 3)]
    [1.0, 1.3333333333333333, 2.0]
    """
    values = planned(n_tasks, lambda t: c * (n_tasks + 1) / (n_tasks - t + 2))
    return _named(f"increasing({c:g}, {n_tasks})", values)


def cosine(n_tasks: int) -> Schedule:
    """Return the factors ½(1 + cos π(t − 1)/k), t = 1..k, for ``StepSize``.

    It needs the right number of tasks k: announcing half of them cost up to 12 points of accuracy,
    twice as many up to 36 (docs/benchmarks.md).

    Examples
    --------
    >>> import forgetless.torch as flt
    >>> [round(flt.cosine(n_tasks=4)(t), 3) for t in (1, 2, 3, 4)]
    [1.0, 0.854, 0.5, 0.146]
    """
    values = planned(n_tasks, lambda t: 0.5 * (1 + math.cos(math.pi * (t - 1) / n_tasks)))
    return _named(f"cosine({n_tasks})", values)


def inverse(c: float = 1.0) -> Schedule:
    """Return the factors min(1, c/t), for any number of tasks; the first task keeps its rate.

    Examples
    --------
    >>> import forgetless.torch as flt
    >>> [flt.inverse(2.0)(t) for t in (1, 2, 3, 4)]
    [1.0, 1.0, 0.6666666666666666, 0.5]
    """
    # The factor 1 at t = 1 also for c < 1.
    return _named(f"inverse({c:g})", lambda t: min(1.0, c / t) if t > 1 else 1.0)


def _named(name: str, schedule: Schedule) -> Schedule:
    """Return a schedule that is printed as the code that made it."""
    schedule.__name__ = name
    return schedule


@dataclass(frozen=True)
class Search:
    """Recipes and their scores; printed, a table with the best one as code to type.

    Attributes
    ----------
    scores : dict from str to float
        By recipe, in the order of the trials; ``"[]"`` is doing nothing.
    """

    scores: dict[str, float]

    @property
    def best(self) -> str:
        """The recipe with the best score; one that diverged is worse than any other."""
        scores = self.scores
        return max(scores, key=lambda recipe: (math.isfinite(scores[recipe]), scores[recipe]))

    def __str__(self) -> str:
        width = max(map(len, self.scores))
        rows = [f"{recipe:<{width}}  {score:.4g}" for recipe, score in self.scores.items()]
        return "\n".join([*rows, f"best: flt.Continual(model, {self.best})"])


def search(
    experiment: Callable[[list[Mechanism]], float],
    importance: Any = fisher,
    *,
    strengths: Sequence[float] = STRENGTHS,
    beside: Sequence[Mechanism] = (),
) -> Search:
    """Return the scores of ``Proximal`` with four strengths, and of doing nothing.

    Take the first few tasks of a stream, and keep the winner for the rest: that it serves there,
    too, is a heuristic. A winner at an end of the grid asks for values beyond it.

    Parameters
    ----------
    experiment : callable
        Your loop: ``experiment(mechanisms)`` makes a new model and ``Continual(model,
        mechanisms)``, trains it on the tasks and returns a score, the larger the better: the mean
        accuracy over all tasks on held-out data, perhaps a mean over seeds.
    importance : callable, default ``flt.fisher``
        As in :class:`Proximal`; None for L2.
    strengths : sequence of float, default (1/64, 1/8, 1, 8)
        c of λ_t = c(t − 1).
    beside : sequence of Mechanism, optional
        What each trial has besides, such as ``[flt.Average(200)]``.

    Examples
    --------
    One weight, which three tasks want at 0, 1 and 2; minus the mean loss is best with λ between:

    >>> import torch
    >>> import forgetless.torch as flt
    >>> def experiment(mechanisms):
    ...     net = torch.nn.Linear(1, 1, bias=False)
    ...     _ = torch.nn.init.zeros_(net.weight)
    ...     continual = flt.Continual(net, mechanisms)
    ...     optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    ...     for target in (0.0, 1.0, 2.0):
    ...         for _ in range(100):
    ...             optimizer.zero_grad()
    ...             (net(torch.ones(1, 1)) - target).square().sum().backward()
    ...             optimizer.step()
    ...         continual.next_task()
    ...     return -sum((net.weight.item() - target) ** 2 for target in (0, 1, 2)) / 3
    >>> print(flt.search(experiment, importance=None))
    []                        -1.667
    [flt.Proximal(0.015625)]  -1.636
    [flt.Proximal(0.125)]     -1.445
    [flt.Proximal(1.0)]       -0.7778
    [flt.Proximal(8.0)]       -1.027
    best: flt.Continual(model, [flt.Proximal(1.0)])
    """
    trials: list[Any] = [[*beside]]
    # Numbers of NumPy would be printed as np.float64(…).
    trials += [[Proximal(float(strength), importance), *beside] for strength in strengths]
    scores = {}
    for mechanisms in track(trials, "training runs"):
        # Mechanisms are printed as the code that makes them.
        recipe = repr(mechanisms)
        # They learn: every trial begins with fresh ones.
        score = experiment(copy.deepcopy(mechanisms))
        if score is None:
            raise TypeError(
                "experiment must return a number, the larger the better, got None; let it end with"
                " return accuracy"
            )
        scores[recipe] = float(score)
    return Search(scores)
