"""The metric in which an optimizer steps, and the proximal step in it.

After the optimizer step from w to v, the proximal step minimises ½λ Σ Ω(w − a)² + 1/(2γ) Σ D(w − v)², that is

    w = v + s (a − v),   s = γλΩ / (D + γλΩ).

With D = (1 − μ)/(1 − dampening) for SGD with momentum μ and D = √v̂ + ε for Adam, an optimizer at rest moves by −γg/D,
so that the two together rest where g + λΩ(w − a) = 0: at the stationary points of loss + penalty.

Numbers that are on the device (a tensor as learning rate, Adam's count of steps when fused or capturable, whether a
scaler skips the step) stay there, so that the host does not wait for the device.
"""

import math
from typing import Any

import torch

from forgetless.torch._plan import LARGE, Bucket, Number, Recording, rate_of


class Scalar:
    """Optimizers with a scalar metric: steps of γg/D, D a number."""

    def damping(self, group: dict[str, Any]) -> float:
        """Return D."""
        return 1.0

    def apply(self, optimizer: Any, bucket: Bucket, strength: float, scale: Any) -> None:
        """Make the proximal step of a bucket; ``scale`` is None, or a tensor that is 0 where the step is skipped."""
        load = rate_of(bucket.group) * strength / self.damping(bucket.group)
        if isinstance(load, float) and scale is None:
            weight = load / (1.0 + load) if bucket.omegas is None else bucket.weights(load)
            torch._foreach_lerp_(bucket.params, bucket.centers, weight)
            return
        changes = torch._foreach_sub(bucket.centers, bucket.params)
        if bucket.omegas is None:
            torch._foreach_mul_(changes, _tensor(load / (1.0 + load), changes[0]))
        else:
            loads = torch._foreach_mul(bucket.omegas, _tensor(load, changes[0]))
            torch._foreach_mul_(changes, torch._foreach_div(loads, torch._foreach_add(loads, 1.0)))
        if scale is not None:
            torch._foreach_mul_(changes, _tensor(scale, changes[0]))
        torch._foreach_add_(bucket.params, changes)


class Momentum(Scalar):
    """SGD, whose momentum lengthens its steps; Nesterov's, which torch allows without dampening only, as much."""

    def damping(self, group: dict[str, Any]) -> float:
        momentum = group["momentum"]
        return (1.0 - momentum) / (1.0 - group["dampening"]) if momentum else 1.0


def _tensor(value: Any, like: Any) -> Any:
    """Return a number or a tensor of one element as a tensor beside ``like``; without synchronising the device."""
    if isinstance(value, torch.Tensor):
        return value.reshape(()).to(device=like.device, dtype=like.dtype, non_blocking=True)
    return torch.full((), value, device=like.device, dtype=like.dtype)


class Adaptive:
    """Adam and AdamW: D = √v̂ + ε, v̂ with its correction c² = 1 − β₂^t for the start.

    The weight of the center is γλΩc / (√v + c(ε + γλΩ)).
    """

    def apply(self, optimizer: Any, bucket: Bucket, strength: float, scale: Any) -> None:
        """Make the proximal step; see ``Scalar.apply``."""
        group, states = bucket.group, [optimizer.state[p] for p in bucket.params]
        square = "max_exp_avg_sq" if group["amsgrad"] else "exp_avg_sq"
        squares, steps = [state[square] for state in states], [state["step"] for state in states]
        load = rate_of(group) * strength
        if bucket.params[0].device.type != "cpu" or isinstance(load, torch.Tensor) or scale is not None:
            _on_device(bucket, squares, steps, load, scale)
            return
        beta = float(group["betas"][1])
        for step, parts in zip(steps, bucket.chunks(squares), strict=True):
            c = math.sqrt(1.0 - beta ** float(step))
            for part in parts:
                _apply_chunk(part, load, c, group["eps"])


def _on_device(bucket: Bucket, squares: list[Any], steps: list[Any], load: Any, scale: Any) -> None:
    """Make the step with all numbers on the device, where the same kernels can be launched again."""
    params, group = bucket.params, bucket.group
    eps, beta = float(group["eps"]), float(group["betas"][1])
    numbers = bucket.numbers
    if numbers is None:
        numbers = bucket.numbers = tuple(Number(params[0]) for _ in range(3))
    numbers[0].set(load)
    numbers[1].set(1.0 if scale is None else scale)
    counted = steps[0].device.type != "cpu"
    together = True
    if not counted:
        factors = [math.sqrt(1.0 - beta ** float(step)) for step in steps]
        numbers[2].set(factors[0])
        together = factors.count(factors[0]) == len(factors)  # not where some had no gradient for a while

    def work() -> None:
        load, scale, correction = (number.tensor for number in numbers)
        if counted:
            corrections = _corrections(steps, beta, params[0].dtype)
        else:
            corrections = [correction] * len(steps) if together else [torch.full_like(correction, c) for c in factors]
        metrics = torch._foreach_div(torch._foreach_sqrt(squares), corrections)
        torch._foreach_add_(metrics, eps)
        changes = torch._foreach_sub(bucket.centers, params)
        if bucket.omegas is None:
            for metric in metrics:  # a foreach call would wait for the device to read the tensor
                metric.add_(load)
            torch._foreach_mul_(changes, load * scale)
        else:
            loads = torch._foreach_mul(bucket.omegas, load)
            torch._foreach_add_(metrics, loads)
            torch._foreach_mul_(changes, loads)
            torch._foreach_mul_(changes, scale)
        torch._foreach_addcdiv_(params, changes, metrics)

    small = together and bucket.size <= LARGE and params[0].device.type == "cuda"
    if not small or torch.cuda.is_current_stream_capturing():
        work()
        return
    tensors, constants = [*params, *squares, *(steps if counted else ())], (eps, beta)
    if bucket.recording is not None and bucket.recording.fits(tensors, constants):
        bucket.recording.run()
        return
    work()
    bucket.recording = Recording(work, tensors, constants)


def _corrections(steps: list[Any], beta: float, dtype: Any) -> list[Any]:
    # By expm1: the steps are counted in float32, in which 1 − β^t loses four digits at the start.
    corrections = torch._foreach_mul([step.to(dtype) for step in steps], math.log(beta) if beta else -math.inf)
    torch._foreach_expm1_(corrections)
    torch._foreach_neg_(corrections)
    torch._foreach_sqrt_(corrections)
    return list(corrections)


def _apply_chunk(arrays: tuple[Any, ...], load: float, c: float, eps: float) -> None:
    compiled, *rest = arrays
    if compiled is not None:
        compiled(rest, load, c, eps)
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
        "the same λ; use mode='loss' and add anchor.penalty() to the loss, or metric='decoupled', whose λ "
        "depends on the optimizer"
    )
