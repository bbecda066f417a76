"""Sums over samples of squares or absolute values of per-sample gradients, exactly and without a loop over samples.

Layers that see every sample in rows of its own have per-sample gradients that are products of their inputs and of the
backpropagated gradients: for ``nn.Linear`` on (batch, features) one outer product, whose square needs no memory per
sample; for sequences and convolutions one small matrix product a sample. One backward pass serves the whole batch.
Models with other parameters, or layers that are used twice, go through ``torch.func.vmap`` in chunks.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch.nn import functional

from forgetless.torch.models import Tensors

Probe = Callable[[Any, Any], tuple[Any, Any]]
"""Outputs of some samples and their places in the batch ↦ a scalar for each, to be differentiated, and its weight."""

_AT_ONCE = 2**20
"""Numbers of per-sample gradients that are held at a time."""

_TOGETHER = 2**23
"""Numbers that came back from several probes and are held at a time: one product for all of them is quicker."""

_NORMS = (torch.nn.BatchNorm1d, torch.nn.BatchNorm2d, torch.nn.BatchNorm3d, torch.nn.LayerNorm, torch.nn.GroupNorm)


def logits_of(model: Any, x: Any) -> Any:
    """Return the outputs of a model for a batch, a tensor or a dictionary; of objects with logits, those."""
    return _logits(model(**x) if isinstance(x, Mapping) else model(x))


def _logits(outputs: Any) -> Any:
    if isinstance(outputs, torch.Tensor):
        return outputs
    logits = outputs.get("logits") if isinstance(outputs, Mapping) else getattr(outputs, "logits", None)
    if not isinstance(logits, torch.Tensor):
        raise TypeError(
            f"model must return a tensor, or an object with one called logits, got {type(outputs).__name__}; wrap the "
            "model in one that returns its logits"
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
    """Whether all trained parameters sit in layers whose per-sample gradients are products."""
    return all(_factors_exactly(module) for module in model.modules() if _is_trained(module))


def _factors_exactly(module: Any) -> bool:
    if type(module) in (torch.nn.Conv1d, torch.nn.Conv2d):
        return module.padding_mode == "zeros" and not isinstance(module.padding, str)
    if isinstance(module, _NORMS):  # in evaluation mode a sample is normalized by what is stored
        return getattr(module, "track_running_stats", True)
    return type(module) is torch.nn.Linear


def by_layers(
    model: Any, x: Any, probes: Sequence[Probe], reduce: Callable[[Any], Any], total: Tensors, *, check: bool
) -> bool:
    """Add Σ_samples weight · reduce(gradient) of all probes to ``total``; False, and nothing added, if it cannot be so.

    ``check`` compares with autograd at the first probe: summed over samples with different factors, the products must
    be the gradient of that sum.
    """
    owners = {module: name for name, module in model.named_modules() if _is_trained(module)}
    outputs, calls = _recorded_calls(model, x, owners)
    once = len(calls) == len(owners) == len({module for module, _, _ in calls})
    if not once or any(len(output) != n_rows(x) for _, _, output in calls):
        return False
    factors = [_factor(module, inputs) for module, inputs, _ in calls]
    index, places = torch.arange(n_rows(x), device=outputs.device), [output for _, _, output in calls]
    at_once = max(1, _TOGETHER // max(1, sum(output.numel() for output in places)))
    for first in range(0, len(probes), at_once):
        back, weights = [], []
        for probe in probes[first : first + at_once]:
            values, weight = probe(outputs, index)
            back.append(torch.autograd.grad(values.sum(), places, retain_graph=True))
            weights.append(weight)
            if check and first == 0 and len(back) == 1:
                layers = [
                    (owners[m], m, f, d[:, None]) for (m, _, _), f, d in zip(calls, factors, back[0], strict=True)
                ]
                if not _agree(model, layers, values):
                    return False
        for (module, _, _), factor, deltas in zip(calls, factors, zip(*back, strict=True), strict=True):
            _add(total, owners[module], module, factor, torch.stack(deltas, 1), torch.stack(weights, 1), reduce)
    return True


def _is_trained(module: Any) -> bool:
    """Return whether the module itself has trained parameters."""
    return any(p.requires_grad for p in module.parameters(recurse=False))


def _recorded_calls(model: Any, x: Any, modules: Iterable[Any]) -> tuple[Any, list[tuple[Any, Any, Any]]]:
    """Return the outputs of a model, and module, input and output of every call of some of its modules."""
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
    # Different factors, so that gradients do not cancel where the model is trained, and samples that mix are noticed.
    signs, params = torch.cos(torch.arange(len(values), device=values.device, dtype=values.dtype)), trained(model)
    gradients = torch.autograd.grad((signs * values).sum(), list(params.values()), retain_graph=True, allow_unused=True)
    sums = {name: torch.zeros_like(p) for name, p in params.items()}
    for name, module, factor, delta in layers:
        _add(sums, name, module, factor, delta, signs[:, None], lambda g: g)
    tolerance = 1e-6 if values.dtype == torch.float64 else 1e-2
    for name, gradient in zip(params, gradients, strict=True):
        expected = torch.zeros_like(sums[name]) if gradient is None else gradient
        if not float((sums[name] - expected).norm()) <= tolerance * float(expected.norm()) + 1e-30:
            return False
    return True


def _add(total: Tensors, prefix: str, module: Any, factor: Any, delta: Any, weights: Any, reduce: Any) -> None:
    """Add the sum over samples and probes of one layer.

    ``factor`` is the result of ``_factor``, ``delta`` the backpropagated gradient of shape (samples, probes, …),
    ``weights`` are of shape (samples, probes).
    """

    def add(which: str, value: Any) -> None:
        name = f"{prefix}.{which}" if prefix else which
        if name in total:
            total[name].add_(value)

    if type(module) is torch.nn.Linear and delta.ndim == 3:
        # The sum over samples of f(δxᵀ) = f(δ)f(x)ᵀ, for f a square or an absolute value.
        weighted = (reduce(delta) * weights[:, :, None]).sum(1)
        add("weight", weighted.T @ reduce(factor))
        add("bias", weighted.sum(0))
        return
    size = max(1, _AT_ONCE // max(1, delta.shape[1] * module.weight.numel()))
    for d, a, w in zip(delta.split(size), factor.split(size), weights.split(size), strict=True):
        for which, gradient in _gradients(module, a, d).items():
            add(which, (w.flatten() @ reduce(gradient).flatten(2).flatten(0, 1)).view(gradient.shape[2:]))


def _factor(module: Any, inputs: Any) -> Any:
    """Return the input factor of per-sample gradients, the same for all probes."""
    if isinstance(module, _NORMS):
        return _normalized(module, inputs)
    if type(module) is torch.nn.Linear:
        return inputs
    if type(module) is torch.nn.Conv1d:
        inputs = inputs[:, :, None]
    kernel, stride, padding, dilation = (
        (filler, *value) if len(value) == 1 else value
        for value, filler in ((module.kernel_size, 1), (module.stride, 1), (module.padding, 0), (module.dilation, 1))
    )
    patches = functional.unfold(inputs, kernel, dilation, padding, stride)
    return patches.view(len(inputs), module.groups, -1, patches.shape[-1]).transpose(2, 3)


def _gradients(module: Any, factor: Any, delta: Any) -> Tensors:
    """Return the gradients of every sample and probe, of shape (samples, probes, …)."""
    n, n_probes = delta.shape[:2]
    if isinstance(module, _NORMS):
        product = delta * factor[:, None]
        if isinstance(module, torch.nn.LayerNorm):
            over = tuple(range(2, delta.ndim - len(module.normalized_shape)))
        else:
            over = tuple(range(3, delta.ndim))
        return {"weight": product.sum(over) if over else product, "bias": delta.sum(over) if over else delta}
    if type(module) is torch.nn.Linear:
        d, a = delta.flatten(2, -2).transpose(2, 3), factor.flatten(1, -2)  # (n, probes, out, places)
        return {"weight": (d.flatten(1, 2) @ a).view(n, n_probes, *module.weight.shape), "bias": d.sum(3)}
    # The products of all probes with the same patches are one, for every group of channels.
    groups, channels = module.groups, module.out_channels // module.groups
    d = delta.reshape(n, n_probes, groups, channels, -1).transpose(1, 2)
    products = (d.flatten(2, 3) @ factor).view(n, groups, n_probes, channels, -1).transpose(1, 2)
    return {"weight": products.reshape(n, n_probes, *module.weight.shape), "bias": delta.flatten(3).sum(3)}


def _normalized(module: Any, x: Any) -> Any:
    if isinstance(module, torch.nn.LayerNorm):
        return functional.layer_norm(x, module.normalized_shape, None, None, module.eps)
    if isinstance(module, torch.nn.GroupNorm):
        return functional.group_norm(x, module.num_groups, None, None, module.eps)
    return functional.batch_norm(x, module.running_mean, module.running_var, None, None, False, 0.0, module.eps)


def by_vmap(model: Any, x: Any, probes: Sequence[Probe], reduce: Any, total: Tensors, chunk: int | None) -> None:
    """As ``by_layers``, for any model: gradients of a chunk of samples at a time."""
    params = {name: p.detach() for name, p in trained(model).items()}
    rest = {name: t.detach() for name, t in (*model.named_parameters(), *model.named_buffers()) if name not in params}
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
    """As ``by_layers``, for any model and inputs: one sample at a time, for models that ``vmap`` cannot take."""
    params = trained(model)
    for i in range(n_rows(x)):
        outputs = logits_of(model, rows_of(x, slice(i, i + 1)))
        index = torch.tensor([i], device=outputs.device)
        for probe in probes:
            values, weights = probe(outputs, index)
            gradients = torch.autograd.grad(values.sum(), list(params.values()), retain_graph=True, allow_unused=True)
            for name, gradient in zip(params, gradients, strict=True):
                if gradient is not None:
                    total[name].add_(weights[0] * reduce(gradient))
