"""Mechanisms that follow the path of the weights and look at no data: step sizes that change over
the tasks, the moving average of the weights, merging, and synaptic intelligence.

The first three answer the same question, how much one more task may change the weights, at three
places: in every step, in what is evaluated, and at the end of the task. The last one is an
importance for ``Proximal``. Along the path of a task the loss falls by Σ_steps −g·Δw, to first
order: a sum over weights, of which each gets its own share. A weight that has earned much by a
small movement is important.
"""

import math
from typing import Any

import torch

from forgetless import _validate as validate
from forgetless.torch.mechanism import (
    Mechanism,
    Tensors,
    check_rates,
    copies,
    name_of,
    per_task,
    precise,
    set_weights,
    zeros,
)


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
        return f"flt.StepSize({name_of(self._given)})"


class Average(Mechanism):
    """Moving average of the weights after every step, for evaluation; training does not see it.

    The mean of the first ``n_steps``, then an exponential average with this time constant:
    m ← m + r(w − m) with r = max(1/n, 1 − exp(−1/n_steps)) at step n. The best single mechanism on
    rotated images and on classes that come once (docs/deep.md). A step that a ``GradScaler`` skips
    is not counted, except of a fused optimizer on a GPU: the host does not wait to learn of it, and
    the weights, which have not changed, are counted once more.

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
        weights = [p.detach().to(self.mean[name].dtype) for name, p in run.params.items()]
        # 1/n makes a mean of the first n steps; 1 − exp(−1/N) forgets with the time constant N.
        forgetting = -math.expm1(-1.0 / self.n_steps)
        rate = max(1.0 / self.count, forgetting)
        # m ← m + r(w − m), for all parameters at once.
        torch._foreach_lerp_(means, weights, rate)

    def evaluated(self, run: Any) -> Tensors:
        """Return the average, of the parameters that have one."""
        return {name: self.mean[name] for name in run.params if name in self.mean}

    def __repr__(self) -> str:
        return f"flt.Average({self.n_steps:g})"


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
        self.start = {name: precise(p) for name, p in run.params.items()} | merged
        self.learned += 1

    def evaluated(self, run: Any) -> Tensors:
        """Return the weights as if the task ended now."""
        # t = learned + 1. Before the end of the first task there is no w₀, and nothing is merged.
        share = min(1.0, self.c / (self.learned + 1))
        merged = {}
        for name in run.params.keys() & self.start.keys():
            weight = precise(run.params[name])
            # w₀ + share·(w − w₀)
            merged[name] = torch.lerp(self.start[name], weight, share)
        return merged

    def __repr__(self) -> str:
        return f"flt.Merge({self.c:g})"


class SynapticIntelligence(Mechanism):
    """Importances from the path of training: max(0, Σ −g·Δw)/((w_end − w_start)² + damping).

    ``Proximal(c, importance=flt.si)``, or ``flt.si(damping)``. Δw is the step of the optimizer
    itself and g its gradient: what a weight has contributed to the fall of the loss. Use it where
    the data of a task cannot be looked at again, or a Fisher information takes too long; it needs a
    copy of the weights in every step. Best on split MNIST with squared error (71.4 percent, EWC
    60.3).

    Parameters
    ----------
    damping : float, default 0.1
        Keeps the importance of a weight that hardly moved small.

    Examples
    --------
    >>> import torch
    >>> import forgetless.torch as flt
    >>> net = torch.nn.Linear(2, 1, bias=False)
    >>> proximal = flt.Proximal(1.0, importance=flt.si, relative=False)
    >>> continual = flt.Continual(net, [proximal])
    >>> net(torch.tensor([[2.0, 0.0]])).sum().backward()  # g = (2, 0), Δw = (−1, 0)
    >>> torch.optim.SGD(net.parameters(), lr=0.5).step()
    >>> continual.next_task()
    >>> round(proximal.omega["weight"][0, 0].item(), 4)  # 2/(1 + 0.1)
    1.8182

    References
    ----------
    Zenke, Poole & Ganguli (2017).
    """

    rank = 2
    state = ("path", "start")

    def __init__(self, damping: float = 0.1) -> None:
        self.damping = validate.number("damping", damping, "0.1 is usual", positive=True)
        self.path: Tensors = {}
        self.start: Tensors = {}
        self._before: Tensors = {}
        self._values: Tensors = {}

    def before_step(self, run: Any, optimizer: Any) -> None:
        """Keep the weights."""
        # Of all parameters: where the step is given a closure, gradients are not there yet.
        self._before = copies(run.params)

    def after_step(self, run: Any, optimizer: Any) -> None:
        """Add −g·Δw; the proximal step comes later and is no part of Δw."""
        for _, params in run.groups(optimizer):
            for name, p in params.items():
                before = self._before[name]
                if name not in self.path:
                    self.path[name] = torch.zeros_like(p)
                    self.start[name] = before.clone()
                gradient = p.grad
                if run.kept is not None:
                    # A GradScaler runs fused optimizers into infinite gradients, too, where they
                    # leave the weight as it is.
                    gradient = torch.where(p == before, 0.0, gradient)
                # before − p is −Δw, so that this adds −g·Δw.
                self.path[name].addcmul_(gradient, before - p)
        self._before = {}

    def end_task(self, run: Any, data: Any) -> None:
        """Close the path and begin the next."""
        if not self.path:
            raise ValueError(
                "synaptic intelligence has no path before the first step, so that a pretrained"
                " network has no importance; use fisher or mas with pretrained=data"
            )
        self._values = zeros(run.params)
        for name in self.path.keys() & run.params.keys():
            # A path that went up is no merit: its importance is 0.
            merit = self.path[name].clamp(min=0)
            change = run.params[name] - self.start[name]
            self._values[name] = merit / change.square_().add_(self.damping)
        self.path = {}
        self.start = {}

    def new_entries(self, key: str, p: Any) -> Any:
        """Return no path for new entries, which begin where they are."""
        if key == "path":
            return torch.zeros_like(p)
        return super().new_entries(key, p)

    def __call__(self, model: Any, data: Any) -> Tensors:
        """Return the importance of the task that was closed last."""
        return self._values

    def __repr__(self) -> str:
        options = "" if self.damping == 0.1 else f"({self.damping:g})"
        return f"flt.si{options}"


si = SynapticIntelligence
