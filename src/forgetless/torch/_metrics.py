"""The metric in which an optimizer steps, and the proximal step in it.

After the optimizer moved from w to v, the pull minimises ½λ Σ Ω(w − a)² + 1/(2γ) Σ D(w − v)², that is

    w = v + s (a − v),   s = γλΩ / (D + γλΩ).

With D = (1 − μ)/(1 − dampening) for SGD with momentum μ and D = √v̂ + ε for Adam, an optimizer at rest moves by −γg/D,
so that the two together rest where g + λΩ(w − a) = 0: at the stationary points of loss + penalty.

Numbers that are on the device (a tensor as learning rate, Adam's count of steps when fused or capturable, whether a
scaler skips the step) stay there: nothing here waits for it.
"""

import math
from typing import Any

import torch

from forgetless.torch._plan import Bucket


class Scalar:
    """Optimizers that step alike in all directions: γg/D, D a number."""

    def damping(self, group: dict[str, Any]) -> float:
        """Return D."""
        return 1.0

    def pull(self, optimizer: Any, bucket: Bucket, strength: float, kept: Any) -> None:
        """Move all parameters of a bucket towards their centers; ``kept`` is None, or 0 on the device to skip."""
        load = _rate(bucket.group) * strength / self.damping(bucket.group)
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


class Adaptive:
    """Adam and AdamW: D = √v̂ + ε, v̂ with its correction c² = 1 − β₂^t for the start.

    The share is γλΩc / (√v + c(ε + γλΩ)).
    """

    def pull(self, optimizer: Any, bucket: Bucket, strength: float, kept: Any) -> None:
        """As ``Scalar.pull``."""
        group, states = bucket.group, [optimizer.state[p] for p in bucket.params]
        squares = [state["max_exp_avg_sq" if group["amsgrad"] else "exp_avg_sq"] for state in states]
        load, steps, beta = _rate(group) * strength, [state["step"] for state in states], float(group["betas"][1])
        if isinstance(load, torch.Tensor) or kept is not None or steps[0].device.type != "cpu":
            self._on_device(bucket, squares, load, steps, kept)
            return
        corrections = [math.sqrt(1.0 - beta ** float(step)) for step in steps]
        if bucket.params[0].device.type == "cpu":
            for c, parts in zip(corrections, bucket.chunks(squares), strict=True):
                for part in parts:
                    _pull_chunk(part, load, c, group["eps"])
            return
        self._by_foreach(bucket, squares, load, corrections)

    def _by_foreach(self, bucket: Bucket, squares: list[Any], load: float, corrections: list[float]) -> None:
        eps, roots = bucket.group["eps"], torch._foreach_sqrt(squares)
        changes = torch._foreach_sub(bucket.centers, bucket.params)
        if bucket.omegas is None:
            torch._foreach_add_(roots, [c * (eps + load) for c in corrections])
        else:
            torch._foreach_mul_(changes, bucket.omegas)
            torch._foreach_add_(roots, torch._foreach_mul(bucket.omegas, [c * load for c in corrections]))
            torch._foreach_add_(roots, [c * eps for c in corrections])
        torch._foreach_addcdiv_(bucket.params, changes, roots, [c * load for c in corrections])

    def _on_device(self, bucket: Bucket, squares: list[Any], load: Any, steps: list[Any], kept: Any) -> None:
        beta, like = float(bucket.group["betas"][1]), bucket.params[0]
        # By expm1: the steps are counted in float32, in which 1 − β^t loses four digits at the start.
        corrections = torch._foreach_mul([step.to(like.dtype) for step in steps], math.log(beta) if beta else -math.inf)
        torch._foreach_expm1_(corrections)
        torch._foreach_neg_(corrections)
        torch._foreach_sqrt_(corrections)
        metrics = torch._foreach_div(torch._foreach_sqrt(squares), corrections)
        torch._foreach_add_(metrics, bucket.group["eps"])
        load = _tensor(load, like)
        if bucket.omegas is None:
            for metric in metrics:  # a foreach call would wait for the device to read the tensor
                metric.add_(load)
            loads = load if kept is None else load * _tensor(kept, like)
            changes = torch._foreach_sub(bucket.centers, bucket.params)
            torch._foreach_mul_(changes, loads)
        else:
            loads = torch._foreach_mul(bucket.omegas, load)
            torch._foreach_add_(metrics, loads)
            changes = torch._foreach_sub(bucket.centers, bucket.params)
            torch._foreach_mul_(changes, loads)
            if kept is not None:
                torch._foreach_mul_(changes, _tensor(kept, like))
        torch._foreach_addcdiv_(bucket.params, changes, metrics)


def _rate(group: dict[str, Any]) -> Any:
    """Return the learning rate, as a number unless it is on the device."""
    rate = group["lr"]
    return float(rate) if isinstance(rate, torch.Tensor) and rate.device.type == "cpu" else rate


def _tensor(value: Any, like: Any) -> Any:
    """Return a number or a tensor of one element as a tensor beside ``like``; from device to device nothing waits."""
    if isinstance(value, torch.Tensor):
        return value.reshape(()).to(device=like.device, dtype=like.dtype, non_blocking=True)
    return torch.full((), value, device=like.device, dtype=like.dtype)


def _pull_chunk(arrays: tuple[Any, ...], load: float, c: float, eps: float) -> None:
    pull, *rest = arrays
    if pull is not None:
        pull(rest, load, c, eps)
        return
    root, change, w, center, square, *omega = rest
    torch.sqrt(square, out=root)
    torch.sub(center, w, out=change)
    if omega:
        w.addcdiv_(change.mul_(*omega), root.add_(*omega, alpha=c * load).add_(c * eps), value=c * load)
    else:
        w.addcdiv_(change, root.add_(c * (eps + load)), value=c * load)


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
