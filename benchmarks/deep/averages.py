"""Averages of weights that are evaluated in place of the last ones, for a stack of runs."""

import math
from collections.abc import Sequence
from typing import Any

import torch

from deep.methods import Method, Plan


class Averages:
    """Means of task-end weights, and moving averages of all steps, of those runs that ask for them.

    The moving average begins as the plain mean of the first steps, until these are as many as its horizon.
    """

    def __init__(self, params: Sequence[Any], methods: Sequence[Method], plans: Sequence[Plan], steps: int) -> None:
        device, dtype = params[0].device, params[0].dtype
        reads = [method.read for method in methods]

        def column(values: list[Any]) -> Any:
            return torch.tensor(values, device=device)[:, None, None]

        self.is_mean, self.is_moving = column([r == "mean" for r in reads]), column([r == "moving" for r in reads])
        self.mean = [p.clone() for p in params] if "mean" in reads else None
        self.moving = [p.clone() for p in params] if "moving" in reads else None
        rates = [-math.expm1(-1 / (plan.horizon * steps)) if plan.horizon > 0 else 1.0 for plan in plans]
        self.rate = torch.tensor(rates, dtype=torch.float64).to(device, dtype)[:, None, None]
        self.count = 0

    def step(self, params: Sequence[Any]) -> None:
        """Include the weights of one step."""
        if self.moving is not None:
            self.count += 1
            weight = self.rate.clamp(min=1 / self.count)
            for average, p in zip(self.moving, params, strict=True):
                average.lerp_(p, weight)

    def close(self, params: Sequence[Any], n_learned: int) -> None:
        """Include the weights at the end of a task, the ``n_learned``-th that count."""
        if self.mean is not None:
            for average, p in zip(self.mean, params, strict=True):
                average.lerp_(p, 1 / n_learned)

    def weights(self, params: Sequence[Any]) -> list[Any]:
        """Return the weights that are evaluated."""
        shown = list(params)
        if self.mean is not None:
            shown = [torch.where(self.is_mean, a, p) for a, p in zip(self.mean, shown, strict=True)]
        if self.moving is not None:
            shown = [torch.where(self.is_moving, a, p) for a, p in zip(self.moving, shown, strict=True)]
        return shown
