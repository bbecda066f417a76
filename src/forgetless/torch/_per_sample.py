"""Sums over samples of squares or absolute values of per-sample gradients, exactly and without a
loop over samples.

One backward pass of the batch gives the gradients by the outputs of all layers. For ``nn.Linear``
on (batch, features) the gradient of a sample is one outer product, whose square needs no memory per
sample; other layers are differentiated one by one. Models with other parameters, or layers that are
used twice, go through ``torch.func.vmap`` in chunks.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch

from forgetless.torch.models import Tensors

Probe = Callable[[Any, Any], tuple[Any, Any]]
"""Outputs of some samples and their places in the batch ↦ a scalar for each, to be differentiated,
and its weight."""

_AT_ONCE = 2**20
"""Numbers of per-sample gradients that are held at a time."""

_TOGETHER = 2**23
"""Numbers that came back from several probes and are held at a time: one product for all of them is
quicker."""

_LAYERS = (
    torch.nn.Linear,
    torch.nn.modules.conv._ConvNd,
    torch.nn.modules.batchnorm._BatchNorm,
    torch.nn.LayerNorm,
    torch.nn.GroupNorm,
)
"""Layers that see every sample by itself, in evaluation mode."""


def logits_of(model: Any, x: Any) -> Any:
    """Return the outputs of a model for a batch, a tensor or a dictionary; of objects with logits,
    those.
    """
    return _logits(model(**x) if isinstance(x, Mapping) else model(x))


def _logits(outputs: Any) -> Any:
    if isinstance(outputs, torch.Tensor):
        return outputs
    logits = (
        outputs.get("logits") if isinstance(outputs, Mapping) else getattr(outputs, "logits", None)
    )
    if not isinstance(logits, torch.Tensor):
        raise TypeError(
            "model must return a tensor, or an object with one called logits, got"
            f" {type(outputs).__name__}; wrap the model in one that returns its logits"
        )
    return logits


def n_rows(x: Any) -> int:
    """Return the number of samples of a batch."""
    return len(next(iter(x.values()))) if isinstance(x, Mapping) else len(x)


def rows_of(x: Any, rows: slice) -> Any:
    """Return some samples of a batch."""
    return {name: value[rows] for name, value in x.items()} if isinstance(x, Mapping) else x[rows]


def trained(model: Any) -> Tensors:
    """Return the parameters that have gradients, by name."""
    return {name: p for name, p in model.named_parameters() if p.requires_grad}


def can_factor(model: Any) -> bool:
    """Whether all trained parameters sit in layers that see every sample by itself."""
    return all(_acts_on_samples(module) for module in model.modules() if _is_trained(module))


def _acts_on_samples(module: Any) -> bool:
    # In evaluation mode a sample is normalized by statistics that are stored, if they are.
    return isinstance(module, _LAYERS) and getattr(module, "track_running_stats", True)


def by_layers(
    model: Any,
    x: Any,
    probes: Sequence[Probe],
    reduce: Callable[[Any], Any],
    total: Tensors,
    *,
    check: bool,
) -> bool:
    """Add Σ_samples weight · reduce(gradient) of all probes to ``total``; False, and nothing added,
    if it cannot be so.

    ``check`` compares with autograd at the first probe: summed over samples with different factors,
    they must be the gradient of that sum.
    """
    owners = {module: name for name, module in model.named_modules() if _is_trained(module)}
    outputs, calls = _recorded_calls(model, x, owners)
    once = len(calls) == len(owners) == len({module for module, _, _ in calls})
    if not once or any(len(output) != n_rows(x) for _, _, output in calls):
        return False
    index, places = (
        torch.arange(n_rows(x), device=outputs.device),
        [output for _, _, output in calls],
    )
    at_once = max(1, _TOGETHER // max(1, sum(output.numel() for output in places)))
    for first in range(0, len(probes), at_once):
        back, weights = [], []
        for probe in probes[first : first + at_once]:
            values, weight = probe(outputs, index)
            back.append(torch.autograd.grad(values.sum(), places, retain_graph=True))
            weights.append(weight)
            if check and first == 0 and len(back) == 1:
                layers = [
                    (owners[m], m, x, d[:, None])
                    for (m, x, _), d in zip(calls, back[0], strict=True)
                ]
                if not _agree(model, layers, values):
                    return False
        for (module, inputs, _), deltas in zip(calls, zip(*back, strict=True), strict=True):
            _add(
                total,
                owners[module],
                module,
                inputs,
                torch.stack(deltas, 1),
                torch.stack(weights, 1),
                reduce,
            )
    return True


def _is_trained(module: Any) -> bool:
    """Return whether the module itself has trained parameters."""
    return any(p.requires_grad for p in module.parameters(recurse=False))


def _recorded_calls(
    model: Any, x: Any, modules: Iterable[Any]
) -> tuple[Any, list[tuple[Any, Any, Any]]]:
    """Return the outputs of a model, and module, input and output of every call of some of its
    modules.
    """
    calls: list[tuple[Any, Any, Any]] = []

    def record(module: Any, inputs: Any, output: Any) -> Any:
        calls.append((module, inputs[0].detach(), output))
        return output.clone()  # the next module may work in place

    hooks = [module.register_forward_hook(record) for module in modules]
    try:
        return logits_of(model, x), calls
    finally:
        for hook in hooks:
            hook.remove()


def _agree(model: Any, layers: list[Any], values: Any) -> bool:
    # Different factors, so that gradients do not cancel where the model is trained, and samples
    # that mix are noticed.
    signs, params = (
        torch.cos(torch.arange(len(values), device=values.device, dtype=values.dtype)),
        trained(model),
    )
    gradients = torch.autograd.grad(
        (signs * values).sum(), list(params.values()), retain_graph=True, allow_unused=True
    )
    sums = {name: torch.zeros_like(p) for name, p in params.items()}
    for name, module, inputs, delta in layers:
        _add(sums, name, module, inputs, delta, signs[:, None], lambda g: g)
    tolerance = 1e-6 if values.dtype == torch.float64 else 1e-2
    for name, gradient in zip(params, gradients, strict=True):
        expected = torch.zeros_like(sums[name]) if gradient is None else gradient
        if not float((sums[name] - expected).norm()) <= tolerance * float(expected.norm()) + 1e-30:
            return False
    return True


def _add(
    total: Tensors, prefix: str, module: Any, inputs: Any, delta: Any, weights: Any, reduce: Any
) -> None:
    """Add the sum over samples and probes of one layer.

    ``delta`` is the gradient by its outputs, of shape (samples, probes, …); ``weights`` are
    (samples, probes).
    """

    def add(which: str, value: Any) -> None:
        name = f"{prefix}.{which}" if prefix else which
        if name in total:
            total[name].add_(value)

    if type(module) is torch.nn.Linear and delta.ndim == 3:
        # The sum over samples of f(δxᵀ) = f(δ)f(x)ᵀ, for f a square or an absolute value.
        weighted = (reduce(delta) * weights[:, :, None]).sum(1)
        add("weight", weighted.T @ reduce(inputs))
        add("bias", weighted.sum(0))
        return
    size = max(1, _AT_ONCE // max(1, delta.shape[1] * module.weight.numel()))
    for d, x, w in zip(delta.split(size), inputs.split(size), weights.split(size), strict=True):
        for which, gradient in _gradients(module, x, d).items():
            add(
                which,
                (w.flatten() @ reduce(gradient).flatten(2).flatten(0, 1)).view(gradient.shape[2:]),
            )


def _gradients(module: Any, inputs: Any, delta: Any) -> Tensors:
    """Return the gradients of every sample and probe, of shape (samples, probes, …)."""
    if type(module) is torch.nn.Linear:
        # (samples, probes, out, places)
        d, x = delta.flatten(2, -2).transpose(2, 3), inputs.flatten(1, -2)
        return {"weight": (d.flatten(1, 2) @ x).view(*d.shape[:3], x.shape[2]), "bias": d.sum(3)}
    params = {
        name: p.detach() for name, p in module.named_parameters(recurse=False) if p.requires_grad
    }

    def backward(x: Any, d: Any) -> Any:
        _, vjp = torch.func.vjp(lambda p: torch.func.functional_call(module, p, (x[None],)), params)
        return torch.func.vmap(vjp)(d[:, None])[0]

    gradients: Tensors = torch.func.vmap(backward)(inputs, delta)
    return gradients


def by_vmap(
    model: Any, x: Any, probes: Sequence[Probe], reduce: Any, total: Tensors, chunk: int | None
) -> None:
    """As ``by_layers``, for any model: gradients of a chunk of samples at a time."""
    params = {name: p.detach() for name, p in trained(model).items()}
    rest = {
        name: t.detach()
        for name, t in (*model.named_parameters(), *model.named_buffers())
        if name not in params
    }
    if chunk is None:
        chunk = max(1, _AT_ONCE // max(1, sum(p.numel() for p in params.values())))
    index = torch.arange(len(x), device=x.device)
    for probe in probes:

        def scalar(params: Tensors, row: Any, i: Any, probe: Probe = probe) -> Any:
            outputs = torch.func.functional_call(model, {**params, **rest}, (row[None],))
            values, weights = probe(_logits(outputs), i[None])
            return values[0], weights[0]

        gradient = torch.func.vmap(torch.func.grad(scalar, has_aux=True), in_dims=(None, 0, 0))
        for rows, i in zip(x.split(chunk), index.split(chunk), strict=True):
            gradients, weights = gradient(params, rows, i)
            for name, g in gradients.items():
                total[name].add_(torch.einsum("b,b...->...", weights, reduce(g)))


def by_loop(model: Any, x: Any, probes: Sequence[Probe], reduce: Any, total: Tensors) -> None:
    """As ``by_layers``, for any model and inputs: one sample at a time, for models that ``vmap``
    cannot take.
    """
    params = trained(model)
    for i in range(n_rows(x)):
        outputs = logits_of(model, rows_of(x, slice(i, i + 1)))
        index = torch.tensor([i], device=outputs.device)
        for probe in probes:
            values, weights = probe(outputs, index)
            gradients = torch.autograd.grad(
                values.sum(), list(params.values()), retain_graph=True, allow_unused=True
            )
            for name, gradient in zip(params, gradients, strict=True):
                if gradient is not None:
                    total[name].add_(weights[0] * reduce(gradient))
