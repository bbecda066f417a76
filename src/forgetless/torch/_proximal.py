"""The proximal step in the metric in which an optimizer steps.

After the optimizer step from w to v, the proximal step minimises ½λ Σ Ω(w − a)² + 1/(2γ) Σ D(w −
v)², that is

    w = v + s (a − v),   s = γλΩ / (D + γλΩ).

With D = (1 − μ)/(1 − dampening) for SGD with momentum μ and D = √v̂ + ε for Adam, an optimizer at
rest moves by −γg/D, so that the two together rest where g + λΩ(w − a) = 0: at the stationary points
of loss + penalty.

Numbers that are on the device (a tensor as learning rate, Adam's count of steps when fused or
capturable, whether a scaler skips the step) stay there, so that the host does not wait for the
device.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch

LARGE = 2**23
"""Elements from which on launches are cheap beside the work, so that nothing is recorded: a
recording holds the memory of its intermediate results, here twice that of the weights."""


class Number:
    """A number on the device, written only when it changes."""

    def __init__(self, like: Any) -> None:
        self.tensor = torch.empty((), device=like.device, dtype=like.dtype)
        self._value: float | None = None

    def set(self, value: Any) -> None:
        """Take a number, or a tensor of one element; without synchronising the device."""
        if isinstance(value, torch.Tensor):
            self.tensor.copy_(value.reshape(()), non_blocking=True)
            self._value = None
        elif value != self._value:
            self.tensor.fill_(value)
            self._value = value


class Recording:
    """A recorded function of tensors at fixed addresses.

    Parameters
    ----------
    work : callable
        Launches kernels that read and write ``tensors``, and returns nothing.
    tensors : sequence of tensors
        All tensors that it reads or writes and that may be reallocated; ``fits`` compares their
        addresses.
    constants : tuple
        Numbers that the recording contains.
    """

    def __init__(
        self, work: Callable[[], None], tensors: Sequence[Any], constants: tuple[float, ...]
    ) -> None:
        self._constants = constants
        self._places = [each.data_ptr() for each in tensors]
        # The graph refers to addresses, so the memory must not be freed.
        self._storages = [each.untyped_storage() for each in tensors]
        device = tensors[0].device
        self._graph = torch.cuda.CUDAGraph()
        stream, now = torch.cuda.Stream(device), torch.cuda.current_stream(device)
        stream.wait_stream(now)
        with torch.cuda.stream(stream):
            # Other threads, such as those that pin memory, may use the device meanwhile.
            self._graph.capture_begin(capture_error_mode="thread_local")
            try:
                work()
            finally:
                self._graph.capture_end()
        now.wait_stream(stream)

    def fits(self, tensors: Sequence[Any], constants: tuple[float, ...]) -> bool:
        """Whether constants and addresses are those of the recording."""
        return (
            constants == self._constants and [each.data_ptr() for each in tensors] == self._places
        )

    def run(self) -> None:
        """Launch everything, on the current stream."""
        self._graph.replay()


_CHUNK = 2**17
"""Elements processed at once on the CPU: intermediate results stay in its cache."""


@dataclass
class Bucket:
    """Parameters of one group on one device: lists of equal lengths; ``omegas`` is None for the
    identity.
    """

    group: dict[str, Any]
    params: list[Any] = field(default_factory=list)
    centers: list[Any] = field(default_factory=list)
    omegas: list[Any] | None = None
    _weights: tuple[float, list[Any]] | None = None
    _chunks: tuple[list[int], list[list[tuple[Any, ...]]]] | None = None
    _part: "tuple[list[int], Bucket] | None" = None
    numbers: tuple[Number, ...] | None = None
    recording: Recording | None = None

    @cached_property
    def size(self) -> int:
        """Elements of all parameters."""
        return sum(p.numel() for p in self.params)

    def updated(self) -> "Bucket | None":
        """Return the part that the optimizer updates: not frozen parameters or those without a
        gradient.
        """
        live = [i for i, p in enumerate(self.params) if p.grad is not None and p.requires_grad]
        if len(live) == len(self.params):
            return self
        if not live:
            return None
        if self._part is None or self._part[0] != live:
            omegas = None if self.omegas is None else [self.omegas[i] for i in live]
            part = Bucket(
                self.group, [self.params[i] for i in live], [self.centers[i] for i in live], omegas
            )
            self._part = (live, part)
        return self._part[1]

    def weights(self, load: float) -> list[Any]:
        """Return loadΩ/(1 + loadΩ), cached while the load is the same."""
        assert self.omegas is not None
        if self._weights is None or self._weights[0] != load:
            loads = torch._foreach_mul(self.omegas, load)
            self._weights = (load, torch._foreach_div(loads, torch._foreach_add(loads, 1.0)))
        return self._weights[1]

    def chunks(self, squares: list[Any]) -> list[list[tuple[Any, ...]]]:
        """Return for every parameter pieces of two work arrays, w, center, the given array and Ω.

        Views are cached while they refer to the same memory: making them takes as long as using
        them.
        """
        arrays = [
            [p.detach() for p in self.params],
            self.centers,
            squares,
            *([self.omegas] if self.omegas else []),
        ]
        places = [array.data_ptr() for each in arrays for array in each]
        if self._chunks is None or self._chunks[0] != places:
            self._chunks = (places, [_pieces(each) for each in zip(*arrays, strict=True)])
        return self._chunks[1]


def _pieces(arrays: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    if arrays[0].numel() <= _CHUNK or not all(array.is_contiguous() for array in arrays):
        return [(torch.empty_like(arrays[0]), torch.empty_like(arrays[0]), *arrays)]
    roots, changes = torch.empty((2, _CHUNK), dtype=arrays[0].dtype)
    pieces = zip(*(array.view(-1).split(_CHUNK) for array in arrays), strict=True)
    return [(roots[: len(piece[0])], changes[: len(piece[0])], *piece) for piece in pieces]


def rate_of(group: dict[str, Any]) -> Any:
    """Return the learning rate, as a number unless it is on the device."""
    rate = group["lr"]
    return float(rate) if isinstance(rate, torch.Tensor) and rate.device.type == "cpu" else rate


class Plan:
    """All regularized parameters, in buckets; ``fits`` is False once the optimizer has other
    groups.
    """

    def __init__(
        self,
        groups: list[Any],
        names: Mapping[int, str],
        centers: Mapping[str, Any],
        omegas: Mapping[str, Any],
    ):
        self._groups = [(group, len(group["params"])) for group in groups]
        buckets: dict[Any, Bucket] = {}
        for i, group in enumerate(groups):
            for p in group["params"]:
                name = names.get(id(p))
                if name is None:
                    continue
                omega = omegas.get(name)
                bucket = buckets.setdefault((i, p.device, p.dtype, omega is None), Bucket(group))
                bucket.params.append(p)
                bucket.centers.append(centers[name])
                if omega is not None:
                    bucket.omegas = [*(bucket.omegas or []), omega]
        self.buckets = list(buckets.values())

    def fits(self, groups: list[Any]) -> bool:
        """Whether groups were neither added nor replaced, as ``optimizer.load_state_dict`` does."""
        return len(groups) == len(self._groups) and all(
            group is planned and len(group["params"]) == n
            for group, (planned, n) in zip(groups, self._groups, strict=True)
        )


class Scalar:
    """Optimizers with a scalar metric: steps of γg/D, D a number."""

    def damping(self, group: dict[str, Any]) -> float:
        """Return D."""
        return 1.0

    def apply(self, optimizer: Any, bucket: Bucket, strength: float, scale: Any) -> None:
        """Make the proximal step of a bucket; ``scale`` is None, or a tensor that is 0 where the
        step is skipped.
        """
        load = rate_of(bucket.group) * strength / self.damping(bucket.group)
        if isinstance(load, float) and scale is None:
            weight = load / (1.0 + load) if bucket.omegas is None else bucket.weights(load)
            torch._foreach_lerp_(bucket.params, bucket.centers, weight)
            return
        changes = torch._foreach_sub(bucket.centers, bucket.params)
        if bucket.omegas is None:
            torch._foreach_mul_(changes, beside(load / (1.0 + load), changes[0]))
        else:
            loads = torch._foreach_mul(bucket.omegas, beside(load, changes[0]))
            torch._foreach_mul_(changes, torch._foreach_div(loads, torch._foreach_add(loads, 1.0)))
        if scale is not None:
            torch._foreach_mul_(changes, beside(scale, changes[0]))
        torch._foreach_add_(bucket.params, changes)


class Momentum(Scalar):
    """SGD, whose momentum lengthens its steps; Nesterov's, which torch allows without dampening
    only, as much.
    """

    def damping(self, group: dict[str, Any]) -> float:
        momentum = group["momentum"]
        return (1.0 - momentum) / (1.0 - group["dampening"]) if momentum else 1.0


def beside(value: Any, like: Any) -> Any:
    """Return a number or a tensor of one element as a tensor beside ``like``; without synchronising
    the device.
    """
    if isinstance(value, torch.Tensor):
        return value.reshape(()).to(device=like.device, dtype=like.dtype, non_blocking=True)
    return torch.full((), value, device=like.device, dtype=like.dtype)


class Adaptive(Scalar):
    """Adam and AdamW: D = √v̂ + ε, v̂ with its correction c² = 1 − β₂^t for the start.

    The weight of the center is γλΩc / (√v + c(ε + γλΩ)).
    """

    def apply(self, optimizer: Any, bucket: Bucket, strength: float, scale: Any) -> None:
        """Make the proximal step; see ``Scalar.apply``."""
        group, states = bucket.group, [optimizer.state[p] for p in bucket.params]
        square = "max_exp_avg_sq" if group["amsgrad"] else "exp_avg_sq"
        squares, steps = [state[square] for state in states], [state["step"] for state in states]
        load = rate_of(group) * strength
        if (
            bucket.params[0].device.type != "cpu"
            or isinstance(load, torch.Tensor)
            or scale is not None
        ):
            _on_device(bucket, squares, steps, load, scale)
            return
        beta = float(group["betas"][1])
        for step, parts in zip(steps, bucket.chunks(squares), strict=True):
            c = math.sqrt(1.0 - beta ** float(step))
            for arrays in parts:
                _apply_chunk(arrays, load, c, group["eps"])


def _on_device(bucket: Bucket, squares: list[Any], steps: list[Any], load: Any, scale: Any) -> None:
    """Make the step with all numbers on the device, where the same kernels can be launched
    again.
    """
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
        # not where some had no gradient for a while
        together = factors.count(factors[0]) == len(factors)

    def work() -> None:
        load, scale, correction = (number.tensor for number in numbers)
        if counted:
            corrections = _corrections(steps, beta, params[0].dtype)
        else:
            corrections = (
                [correction] * len(steps)
                if together
                else [torch.full_like(correction, c) for c in factors]
            )
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
    corrections = torch._foreach_mul(
        [step.to(dtype) for step in steps], math.log(beta) if beta else -math.inf
    )
    torch._foreach_expm1_(corrections)
    torch._foreach_neg_(corrections)
    torch._foreach_sqrt_(corrections)
    return list(corrections)


def _apply_chunk(arrays: Sequence[Any], load: float, c: float, eps: float) -> None:
    root, change, w, center, square, *omega = arrays
    torch.sqrt(square, out=root)
    torch.sub(center, w, out=change)
    if omega:
        w.addcdiv_(
            change.mul_(*omega), root.add_(*omega, alpha=c * load).add_(c * eps), value=c * load
        )
    else:
        w.addcdiv_(change, root.add_(c * (eps + load)), value=c * load)
