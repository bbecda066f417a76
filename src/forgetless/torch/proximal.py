"""The proximal term towards the weights after the previous task: L2, EWC, MAS and SI.

After an optimizer step from w to v, the proximal step minimises ½λ ΣΩ(w − a)² + 1/(2γ) ΣD(w − v)²,
a the weights after the previous task and γ the learning rate. The derivative is 0 at

    w = v + s(a − v),    s = γλΩ/(D + γλΩ) = 1/(1 + D/(γλΩ)) < 1.

D/γ is the metric in which the optimizer itself steps: D = (1 − μ)/(1 − dampening) for SGD with
momentum μ, which lengthens its steps by 1/D, and D = √v̂ + ε for Adam, which divides by it. An
optimizer at rest moves by v − w = −γg/D, g the gradient of the loss, and the proximal step, whose
equation is λΩ(w − a) + D(w − v)/γ = 0, moves back to w. Both together rest where

    g + λΩ(w − a) = 0,

at the stationary points of loss + ½λΣΩ(w − a)²; the own decay ω of AdamW adds Dωw to that equation.
Therefore one λ means the same for all optimizers: a linear model that is trained to convergence has
the weights of ``fl.step``. And every λ is stable, since s < 1; with the penalty in the loss, SGD
diverges where γλΩ exceeds about 2(1 + μ).
"""

import inspect
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import Any

import torch

from forgetless import _validate as validate
from forgetless.torch.mechanism import (
    Mechanism,
    Schedule,
    Tensors,
    check_rates,
    copies,
    name_of,
    per_task,
)

Numbers = Mapping[str, Any]
"""What an optimizer keeps of a parameter, or the options of a group of parameters."""

Metric = Callable[[Sequence[Numbers], Numbers], Any]
"""(states of some parameters, their group) ↦ D: a number, or a new tensor for each state."""


def sgd(_: Sequence[Numbers], group: Numbers) -> float:
    """Return D of SGD, a number; Nesterov's momentum lengthens steps as much."""
    momentum = group["momentum"]
    if not momentum:
        return 1.0
    # At rest the buffer is b = μb + (1 − dampening)g, so that a step is −γg/D.
    return float((1.0 - momentum) / (1.0 - group["dampening"]))


def adam(states: Sequence[Numbers], group: Numbers) -> list[Any]:
    """Return D = √v̂ + ε of Adam and AdamW, v̂ = v/(1 − β^t), one new tensor for each state."""
    # With amsgrad v̂ is the largest so far.
    key = "max_exp_avg_sq" if group["amsgrad"] else "exp_avg_sq"
    # All parameters of a group by one call for each operation: on a GPU its launches cost most.
    squares = [state[key] for state in states]
    metrics: list[Any] = torch._foreach_sqrt(squares)
    _, beta = group["betas"]
    corrections = [_correction(state["step"], beta) for state in states]
    torch._foreach_div_(metrics, corrections)
    torch._foreach_add_(metrics, group["eps"])
    return metrics


def _correction(step: Any, beta: float) -> Any:
    """Return √(1 − β^t), on the device where fused optimizers count there."""
    if step.device.type == "cpu":
        return math.sqrt(1.0 - beta ** float(step))
    # In float64: steps are counted in float32, in which 1 − β^t loses four digits at the start.
    # Where a GradScaler has skipped all steps, t and v are 0, and 0/0 would spoil the weights.
    t = step.double().clamp_(min=1.0)
    return (1.0 - beta**t).sqrt_()


def decoupled(*_: Any) -> float:
    """Return D = 1, for any optimizer; where it rests then depends on the optimizer."""
    return 1.0


METRICS: dict[Any, Metric] = {
    torch.optim.SGD: sgd,
    torch.optim.Adam: adam,
    torch.optim.AdamW: adam,
}
"""D by class of optimizer. Add your own."""


class Proximal(Mechanism):
    """Train each task to ∇loss(w) + λ_t Ω(w − a) = 0, a the weights after the previous task.

    The penalty ½λ_t ΣΩ(w − a)² is not in the loss: a proximal step follows every optimizer step, so
    that gradients, their clipping and accumulation are those of the loss, and every λ is stable. It
    is exact for SGD, Adam and AdamW in all variants, beside what AdamW's own decay does. The first
    task is free. Of the mechanisms the best on permuted images and on the language model
    (docs/deep.md).

    Parameters
    ----------
    strength : float, callable or sequence of float
        A number c: λ_t = c(t − 1), so that every earlier task counts c, as in online EWC, for any
        number of tasks; begin with 1/8 and search 1/64, 1/8, 1 and 8 (:func:`search`). Or t ↦ λ_t,
        such as ``flt.increasing(c, n_tasks)``, or one number per task.
    importance : callable, optional
        ``importance(model, data)``, called by ``next_task(data)``, returns nonnegative tensors by
        parameter name: ``flt.fisher`` (EWC), ``flt.mas``, ``flt.si`` or your own. Ω is their mean
        over tasks, and over processes; a task without a parameter counts 0. 1 if omitted (L2).
    relative : bool, default True
        Divide importances by their mean over all weights after the first task, so that one strength
        means the same for all networks, losses and importances. This unit is saved in the state.
    decoupled : bool, default False
        Take D = 1 for any optimizer, as decoupled weight decay does; λ then means something else
        for each of them.

    Examples
    --------
    Two quadratic losses ½(w − 1)² and ½(w − 3)²: the second task rests where (w − 3) + 1·(w − 1) =
    0.

    >>> import torch
    >>> import forgetless.torch as flt
    >>> net = torch.nn.Linear(1, 1, bias=False)
    >>> continual = flt.Continual(net, [flt.Proximal(1.0)])
    >>> optimizer = torch.optim.SGD(net.parameters(), lr=0.5, momentum=0.5)
    >>> for target in (1.0, 3.0):
    ...     for _ in range(100):
    ...         optimizer.zero_grad()
    ...         (0.5 * (net(torch.ones(1, 1)) - target) ** 2).sum().backward()
    ...         optimizer.step()
    ...     continual.next_task()
    >>> round(net.weight.item(), 4)
    2.0

    References
    ----------
    Levinstein et al. (2025), Algorithm 1; Kirkpatrick et al. (2017); Schwarz et al. (2018).
    """

    rank = 3
    state = ("learned", "unit", "center", "omega")

    def __init__(
        self,
        strength: Any,
        importance: Any = None,
        *,
        relative: bool = True,
        decoupled: bool = False,
    ) -> None:
        self._given = strength
        self.strength = _strengths(strength)
        if isinstance(importance, type):  # flt.si, in place of flt.si()
            importance = importance()
        if importance is not None and not callable(importance):
            raise TypeError(
                "importance must be a function of model and data, such as flt.fisher, got"
                f" {importance!r}; call next_task(data) and leave the call to Proximal"
            )
        self.importance = importance
        self.relative = relative
        self.decoupled = decoupled
        self.learned = 0
        self.unit: float | None = None
        self.center: Tensors = {}
        self.omega: Tensors = {}

    def before_step(self, run: Any, optimizer: Any) -> None:
        """Raise, before the weights change, if the proximal step cannot be made."""
        self.strength(run.task)
        self._metric_of(optimizer)
        check_rates(optimizer)

    def after_step(self, run: Any, optimizer: Any) -> None:
        """Make the proximal step."""
        strength = self.strength(run.task)
        if strength == 0.0 or not self.center:
            return
        metric_of_group = self._metric_of(optimizer)
        for group, params in run.groups(optimizer):
            # A parameter that is new in this task has no center, and is free.
            names = [name for name in params if name in self.center]
            if not names:
                continue
            # What the optimizer keeps of them: for Adam the averages of squared gradients.
            states = [optimizer.state.get(params[name], {}) for name in names]
            metric = metric_of_group(states, group)
            omegas = [self.omega[name] for name in names]
            rate = group["lr"]
            # A rate on a GPU stays there.
            if not getattr(rate, "is_cuda", False):
                rate = float(rate)
            shares = _shares(metric, omegas, rate * strength)
            if run.kept is not None:  # 0 where a GradScaler has skipped the step
                kept = run.kept.to(shares[0].device, shares[0].dtype)
                torch._foreach_mul_(shares, kept)
            # w ← w + s(a − w)
            weights = [params[name].detach() for name in names]
            centers = [self.center[name] for name in names]
            torch._foreach_lerp_(weights, centers, shares)

    def end_task(self, run: Any, data: Any) -> None:
        """Take the weights as the next center, and include the importance of the task in Ω."""
        values = self._importances(run, data)
        n = self.learned + 1
        # Ω_n = (1 − 1/n) Ω_{n−1} + F_n/n, the mean of the importances F of all n tasks. With λ_t =
        # c(t − 1) the penalty is then c times their sum, as in online EWC. Tasks before a parameter
        # was new, and those in which it was frozen, count as 0.
        share = 1.0 - 1.0 / n
        omega = {name: value * share for name, value in self.omega.items()}
        for name, value in values.items():
            omega[name] = omega.get(name, 0.0) + value / n
        # New dictionaries, so that Continual can go back to the old ones.
        self.center = self.center | copies(run.params)
        self.omega = omega
        self.learned = n
        coarse = {p.dtype for p in run.params.values()} & {torch.bfloat16, torch.float16}
        if n == 1 and coarse:
            warnings.warn(
                f"weights of {min(map(str, coarse))} lose small proximal steps to rounding; keep"
                " them in float32 and use torch.autocast",
                stacklevel=4,
            )

    def follow(self, params: Mapping[str, Any]) -> None:
        """Follow parameters; where one has grown, Ω = 1 becomes a tensor, 0 at new entries."""
        for name in self.center.keys() & params.keys():
            shape = self.center[name].shape
            if shape != params[name].shape:
                self.omega[name] = self.omega[name].expand(shape)
        super().follow(params)

    def new_entries(self, key: str, p: Any) -> Any:
        """Return Ω = 0 for new entries: they are free until their first task ends."""
        if key == "omega":
            return torch.zeros_like(p)
        return super().new_entries(key, p)

    def _importances(self, run: Any, data: Any) -> Tensors:
        """Return the importance of the task by parameter name, the mean over processes."""
        if self.importance is None:
            # One number for all entries of a parameter.
            return {name: p.detach().new_ones(()) for name, p in run.params.items()}
        if data is None and not isinstance(self.importance, Mechanism):
            raise ValueError(
                f"{name_of(self.importance)} is computed from data: call next_task(data), and for a"
                " pretrained network give pretrained=data"
            )
        with torch.enable_grad():
            values = self.importance(run.model, data)
        values = {name: _checked(name, values.get(name), p) for name, p in run.params.items()}
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            # Each process sees other data; with the same Ω everywhere weights stay the same.
            for value in values.values():
                torch.distributed.all_reduce(value)
                value /= torch.distributed.get_world_size()
        if not self.relative:
            return values
        if self.unit is None:
            # The mean of the first Ω becomes 1, and later importances keep their proportion to it.
            total = float(sum(value.sum() for value in values.values()))
            if not total > 0:
                raise ValueError(
                    f"importance {name_of(self.importance)} is 0 everywhere after the first task,"
                    " so that nothing would be held; is the network trained on these data?"
                )
            self.unit = total / sum(value.numel() for value in values.values())
        return {name: value / self.unit for name, value in values.items()}

    def _metric_of(self, optimizer: Any) -> Metric:
        if self.decoupled:
            return decoupled
        # By the function that steps: a subclass without a step of its own is the same optimizer.
        step = inspect.unwrap(type(optimizer).step)
        for kind, metric in METRICS.items():
            if inspect.unwrap(kind.step) is step:
                return metric
        raise TypeError(
            f"the metric in which {type(optimizer).__name__} steps is not known, so that λ would"
            " mean something else; use SGD, Adam or AdamW, decoupled=True, or add it to"
            " forgetless.torch.proximal.METRICS"
        )

    def __repr__(self) -> str:
        parts = [name_of(self._given)]
        if self.importance is not None:
            parts.append(f"importance={name_of(self.importance)}")
        if not self.relative:
            parts.append("relative=False")
        if self.decoupled:
            parts.append("decoupled=True")
        return f"flt.Proximal({', '.join(parts)})"


def _strengths(strength: Any) -> Schedule:
    if isinstance(strength, Real):
        c = validate.number("strength", strength, "try 1/64, 1/8, 1 and 8")
        return lambda t: c * (t - 1)
    return per_task("strength", strength)


def _checked(name: str, value: Any, p: Any) -> Any:
    """Return a copy of an importance; ValueError unless it is nonnegative and fits ``p``."""
    shape = tuple(value.shape) if isinstance(value, torch.Tensor) else type(value).__name__
    if shape != tuple(p.shape):
        raise ValueError(
            f"importance of {name!r} must be a tensor of shape {tuple(p.shape)}, got {shape};"
            " compute it for the model as it is now, by named_parameters()"
        )
    value = value.detach().to(p.device, p.dtype, copy=True)
    is_valid = (value >= 0) & value.isfinite()
    if not bool(is_valid.all()):
        raise ValueError(
            f"importance of {name!r} must be nonnegative and finite, got values from"
            f" {float(value.min())} to {float(value.max())}; look for diverged weights or data"
        )
    return value


def _shares(metric: Any, omegas: Sequence[Any], load: Any) -> list[Any]:
    """Return s = 1/(1 + D/(γλΩ)) of some parameters; ``load`` is γλ.

    In this form s is 0 for Ω = 0 and 1 for a λ of 1e38. Nothing here waits for a device.
    """
    # D/Ω, which is infinite for Ω = 0,
    if isinstance(metric, float):
        shares: list[Any] = torch._foreach_reciprocal(omegas)
        torch._foreach_mul_(shares, metric)
    else:
        shares = metric
        torch._foreach_div_(shares, omegas)
    # over γλ, which may be 0 in a warmup,
    if isinstance(load, float):
        torch._foreach_div_(shares, load)
    else:  # on a device, where a product does not wait for it
        torch._foreach_mul_(shares, load.reciprocal())
    # and 1/(1 + that).
    torch._foreach_add_(shares, 1.0)
    torch._foreach_reciprocal_(shares)
    return shares
