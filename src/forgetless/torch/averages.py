"""Step sizes that change over the tasks, the moving average of the weights, and merging.

The three answer the same question, how much one more task may change the weights, at three places:
in every step, in what is evaluated, and at the end of the task. None of them looks at data.
"""

import math
from typing import Any

import torch

from forgetless import _validate as validate
from forgetless.torch.mechanism import (
    Mechanism,
    Tensors,
    check_rates,
    name_of,
    precise,
    set_weights,
)
from forgetless.torch.schedules import per_task


class StepSize(Mechanism):
    """Multiply all learning rates by a factor that depends on the task.

    Smaller steps in later tasks leave more of what earlier ones have learned. Learning-rate
    schedulers within tasks do not see the factor. Of the mechanisms this is the most even where the
    number of tasks is known: :func:`cosine` was 7.6 points below the best one on average over nine
    streams, and 18.8 at most (docs/benchmarks.md).

    Parameters
    ----------
    factor : callable or sequence of float
        t ↦ factor, such as ``flt.cosine(n_tasks)`` or ``flt.inverse(c)``; or one number per task.

    Examples
    --------
    >>> import torch
    >>> import forgetless.torch as flt
    >>> net = torch.nn.Linear(1, 1, bias=False)
    >>> continual = flt.Continual(net, [flt.StepSize([1.0, 0.5])])
    >>> optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
    >>> for task in (1, 2):
    ...     before = net.weight.item()
    ...     optimizer.zero_grad()
    ...     net(torch.ones(1, 1)).sum().backward()
    ...     optimizer.step()
    ...     print(round(before - net.weight.item(), 6))
    ...     continual.next_task()
    1.0
    0.5
    """

    rank = 0

    def __init__(self, factor: Any) -> None:
        self._given = factor
        self.factor = per_task("factor", factor)

    def before_step(self, run: Any, optimizer: Any) -> None:
        """Scale the learning rates; ``Continual`` restores them after the step."""
        factor = self.factor(run.task)
        check_rates(optimizer)
        for group in optimizer.param_groups:
            group["lr"] = group["lr"] * factor

    def __repr__(self) -> str:
        return f"StepSize({name_of(self._given)})"


class Average(Mechanism):
    """Moving average of the weights after every step, for evaluation; training does not see it.

    The mean of the first ``n_steps``, then an exponential average with this time constant:
    m ← m + r(w − m) with r = max(1/n, 1 − exp(−1/n_steps)) at step n. The best single mechanism on
    rotated images and on classes that come once (docs/deep.md).

    Parameters
    ----------
    n_steps : float
        The time constant. Begin with the number of steps of one task. It has no default: a mean of
        all steps was 5 points below doing nothing on permuted digits.

    Examples
    --------
    >>> import torch
    >>> import forgetless.torch as flt
    >>> net = torch.nn.Linear(1, 1, bias=False)
    >>> _ = torch.nn.init.zeros_(net.weight)
    >>> continual = flt.Continual(net, [flt.Average(n_steps=100)])
    >>> optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
    >>> for _ in range(3):  # w = −1, −2, −3
    ...     optimizer.zero_grad()
    ...     net(torch.ones(1, 1)).sum().backward()
    ...     optimizer.step()
    >>> with continual.evaluation():
    ...     print(net.weight.item())
    -2.0
    """

    rank = 4
    state = ("count", "mean")

    def __init__(self, n_steps: float) -> None:
        self.n_steps = validate.number("n_steps", n_steps, "begin with one task's", positive=True)
        self.count = 0
        self.mean: Tensors = {}

    def after_step(self, run: Any, optimizer: Any) -> None:
        """Include the weights after a step."""
        self.count += 1
        # The average of a parameter begins with its first weights.
        for name in run.params.keys() - self.mean.keys():
            self.mean[name] = precise(run.params[name])
        means = [self.mean[name] for name in run.params]
        pairs = zip(run.params.values(), means, strict=True)
        weights = [p.detach().to(mean.dtype) for p, mean in pairs]
        # 1/n makes a mean of the first n steps; 1 − exp(−1/N) forgets with the time constant N.
        rate = max(1.0 / self.count, -math.expm1(-1.0 / self.n_steps))
        torch._foreach_lerp_(means, weights, rate)

    def evaluated(self, run: Any) -> Tensors:
        """Return the average, of the parameters that have one."""
        return {name: self.mean[name] for name in run.params if name in self.mean}

    def __repr__(self) -> str:
        return f"Average({self.n_steps:g})"


class Merge(Mechanism):
    """Move the weights part of the way back at the end of every task but the first.

    w ← w₀ + min(1, c/t)(w − w₀) after task t, w₀ the weights before it. With c = 1 the result is
    the mean over tasks of the weights that each of them was trained to; a larger c trusts later
    tasks more. The best single mechanism on pairs of classes that return, and on features of a
    pretrained network (docs/deep.md). Within a task ``evaluation()`` shows the weights as merged
    now.

    Parameters
    ----------
    c : float
        Try 1, 2 and 4. It has no default: on five tasks of permuted digits c = 1 was 9 points below
        doing nothing, and c = 4 two points above it.

    Examples
    --------
    >>> import torch
    >>> import forgetless.torch as flt
    >>> net = torch.nn.Linear(1, 1, bias=False)
    >>> _ = torch.nn.init.zeros_(net.weight)
    >>> continual = flt.Continual(net, [flt.Merge(1.0)])
    >>> for rate in (1.0, 6.0):  # each task begins at −1, so that they end at −1 and −7
    ...     net.zero_grad()
    ...     net(torch.ones(1, 1)).sum().backward()
    ...     torch.optim.SGD(net.parameters(), lr=rate).step()
    ...     continual.next_task()
    >>> net.weight.item()  # (−1 − 7)/2
    -4.0
    """

    rank = 1  # before centers and importances are taken, which are those of the merged weights
    state = ("learned", "start")

    def __init__(self, c: float) -> None:
        self.c = validate.number("c", c, "try 1, 2 and 4", positive=True)
        self.learned = 0
        self.start: Tensors = {}

    def end_task(self, run: Any, data: Any) -> None:
        """Merge, and begin the next task from there."""
        merged = self.evaluated(run)
        set_weights(run.params, merged)
        # The merged weights with all their bits, also where parameters have fewer.
        self.start = {name: merged.get(name, precise(p)) for name, p in run.params.items()}
        self.learned += 1

    def evaluated(self, run: Any) -> Tensors:
        """Return the weights as if the task ended now."""
        # t = learned + 1. Before the end of the first task there is no w₀, and nothing is merged.
        share = min(1.0, self.c / (self.learned + 1))
        known = [name for name in run.params if name in self.start]
        return {
            name: torch.lerp(self.start[name], precise(run.params[name]), share) for name in known
        }

    def __repr__(self) -> str:
        return f"Merge({self.c:g})"
