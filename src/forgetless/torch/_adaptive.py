"""The proximal step in the metric of Adam, D = √v̂ + ε: compiled on the CPU, recorded on a GPU."""

import math
from typing import Any

import torch

from forgetless.torch._plan import Bucket, rate_of
from forgetless.torch._recorded import LARGE, Number, Recording


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
