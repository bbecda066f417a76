"""The metric in which an optimizer steps, and the proximal step in it.

After the optimizer moved from w to v, the pull minimises ½λ Σ Ω(w − a)² + 1/(2γ) Σ D(w − v)², that is

    w = v + s (a − v),   s = γλΩ / (D + γλΩ).

With D = (1 − μ)/(1 − dampening) for SGD with momentum μ and D = √v̂ + ε for Adam, an optimizer at rest moves by −γg/D,
so that the two together rest where g + λΩ(w − a) = 0: at the stationary points of loss + penalty.

Numbers that are on the device (a tensor as learning rate, Adam's count of steps when fused or capturable, whether a
scaler skips the step) stay there: nothing here waits for it.
"""

from typing import Any

import torch

from forgetless.torch._adaptive import Adaptive
from forgetless.torch._plan import Bucket, rate_of


class Scalar:
    """Optimizers that step alike in all directions: γg/D, D a number."""

    def damping(self, group: dict[str, Any]) -> float:
        """Return D."""
        return 1.0

    def pull(self, optimizer: Any, bucket: Bucket, strength: float, kept: Any) -> None:
        """Move all parameters of a bucket towards their centers; ``kept`` is None, or 0 on the device to skip."""
        load = rate_of(bucket.group) * strength / self.damping(bucket.group)
        if isinstance(load, float) and kept is None:
            share = load / (1.0 + load) if bucket.omegas is None else bucket.shares(load)
            torch._foreach_lerp_(bucket.params, bucket.centers, share)
            return
        changes = torch._foreach_sub(bucket.centers, bucket.params)
        if bucket.omegas is None:
            torch._foreach_mul_(changes, _tensor(load / (1.0 + load), changes[0]))
        else:
            loads = torch._foreach_mul(bucket.omegas, _tensor(load, changes[0]))
            torch._foreach_mul_(changes, torch._foreach_div(loads, torch._foreach_add(loads, 1.0)))
        if kept is not None:
            torch._foreach_mul_(changes, _tensor(kept, changes[0]))
        torch._foreach_add_(bucket.params, changes)


class Momentum(Scalar):
    """SGD, whose momentum lengthens its steps; Nesterov's, which torch allows without dampening only, as much."""

    def damping(self, group: dict[str, Any]) -> float:
        momentum = group["momentum"]
        return (1.0 - momentum) / (1.0 - group["dampening"]) if momentum else 1.0


def _tensor(value: Any, like: Any) -> Any:
    """Return a number or a tensor of one element as a tensor beside ``like``; from device to device nothing waits."""
    if isinstance(value, torch.Tensor):
        return value.reshape(()).to(device=like.device, dtype=like.dtype, non_blocking=True)
    return torch.full((), value, device=like.device, dtype=like.dtype)


def metric_of(optimizer: Any, metric: str) -> Scalar | Adaptive:
    """Return the metric of an optimizer; TypeError for one whose metric is not known."""
    if metric == "decoupled":
        return Scalar()
    # A subclass that steps in a way of its own is another optimizer.
    step = type(optimizer).step
    if step is torch.optim.SGD.step:
        return Momentum()
    if step in (torch.optim.Adam.step, torch.optim.AdamW.step):
        return Adaptive()
    raise TypeError(
        f"the metric in which {type(optimizer).__name__} steps is not known, so that a proximal step could not mean "
        "the same λ; use mode='loss' and add anchor.penalty() to the loss, or metric='decoupled' for a pull by the "
        "learning rate alone, whose λ then depends on the optimizer"
    )
