"""Metrics in which optimizers of torch step, by their class."""

import math
from collections.abc import Callable
from typing import Any

import torch

from forgetless.torch._proximal import Adaptive, Bucket, Momentum, Scalar, beside, rate_of
from forgetless.torch.hooks import check_rates


class Diagonal(Scalar):
    """Optimizers whose metric D is a tensor beside every parameter, by one function of state and
    group.
    """

    def __init__(self, metric: Callable[[dict[str, Any], dict[str, Any]], Any]) -> None:
        self._metric = metric

    def apply(self, optimizer: Any, bucket: Bucket, strength: float, scale: Any) -> None:
        """Make the proximal step; see ``Scalar.apply``."""
        factor = rate_of(bucket.group) * strength
        for i, (p, center) in enumerate(zip(bucket.params, bucket.centers, strict=True)):
            load = factor if bucket.omegas is None else factor * bucket.omegas[i]
            share = load / (self._metric(optimizer.state[p], bucket.group) + load)
            p.addcmul_(center - p, share if scale is None else share * beside(scale, p))


def _nadam(state: dict[str, Any], group: dict[str, Any]) -> Any:
    return (
        (state["exp_avg_sq"] / (1.0 - group["betas"][1] ** state["step"]))
        .sqrt_()
        .add_(group["eps"])
    )


def _radam(state: dict[str, Any], group: dict[str, Any]) -> Any:
    # Without the rectification of the first steps, which are those of SGD with D = 1.
    beta, t = group["betas"][1], float(state["step"])
    most = 2.0 / (1.0 - beta) - 1.0
    length = most - 2.0 * t * beta**t / (1.0 - beta**t)
    if length <= 5.0:
        return torch.ones_like(state["exp_avg_sq"])
    rectified = math.sqrt((length - 4) * (length - 2) * most / ((most - 4) * (most - 2) * length))
    root = state["exp_avg_sq"].sqrt().add_(group["eps"]) / math.sqrt(1.0 - beta**t)
    return root / rectified


def _rmsprop(state: dict[str, Any], group: dict[str, Any]) -> Any:
    square = state["square_avg"]
    if group["centered"]:
        square = (square - state["grad_avg"].square()).clamp_(min=0)
    # momentum lengthens the steps
    return square.sqrt().add_(group["eps"]) * (1.0 - group["momentum"])


def _adagrad(state: dict[str, Any], group: dict[str, Any]) -> Any:
    decay = 1.0 + (state["step"] - 1.0) * group["lr_decay"]  # γ falls by this factor
    return (state["sum"].sqrt() + group["eps"]) * decay


_METRICS: dict[Any, Scalar] = {
    torch.optim.SGD: Momentum(),
    torch.optim.Adam: Adaptive(),
    torch.optim.AdamW: Adaptive(),
    torch.optim.NAdam: Diagonal(_nadam),
    torch.optim.RAdam: Diagonal(_radam),
    torch.optim.RMSprop: Diagonal(_rmsprop),
    torch.optim.Adagrad: Diagonal(_adagrad),
}


def metric_of(optimizer: Any, metric: str) -> Scalar:
    """Return the metric of an optimizer; TypeError for one whose metric or learning rate is not
    known.
    """
    check_rates(optimizer)
    if metric == "decoupled":
        return Scalar()
    # A subclass that steps in a way of its own is another optimizer.
    step = type(optimizer).step
    step_metric = next((own for kind, own in _METRICS.items() if step is kind.step), None)
    if step_metric is None:
        raise TypeError(
            f"the metric in which {type(optimizer).__name__} steps is not known, so that a proximal"
            " step could not mean the same λ; use metric='decoupled', a step of γλΩ/(1 + γλΩ)"
            " towards the center, whose resting point depends on the optimizer, or mode='loss' and"
            " anchor.penalty() in the loss"
        )
    return step_metric
