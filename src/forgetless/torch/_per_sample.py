"""Sums over samples of squares or absolute values of per-sample gradients, exactly.

The square of a mean of gradients is not the mean of their squares, so that the gradient of a batch
is of no use: every sample needs its own. A linear layer z = Wx + b gives them away. With δ =
∂value/∂z of a sample the gradient of W is the outer product δxᵀ, and

    Σ_samples ω reduce(δxᵀ) = (ω reduce(δ))ᵀ reduce(x)    for reduce a square or an absolute value:

one backward pass of the whole batch and one matrix product, without a gradient per sample. On
sequences the gradient of a sample is Σ_time δxᵀ, which is formed for a few samples at a time. Other
models go through ``torch.func.vmap``, or through a loop where their control flow depends on data.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from forgetless.torch.mechanism import Tensors

AT_ONCE = 2**22
"""Numbers of per-sample gradients that are held at a time: 16 MB in float32."""

POSITIONAL = ""
"""The name of an input that has none; a batch is a dictionary of inputs."""


@dataclass(frozen=True)
class Question:
    """What is differentiated: ``value(outputs, target)`` of every sample, for several targets.

    ``probes`` are pairs of tensors (target, weight) with one entry per sample. The answer is
    Σ_probes Σ_samples weight · reduce(∂value/∂w).
    """

    value: Callable[[Any, Any], Any]
    probes: Sequence[tuple[Any, Any]]
    reduce: Callable[[Any], Any]


def logits_of(outputs: Any) -> Any:
    """Return the outputs of a model that are a tensor, or the ``logits`` of an object."""
    if isinstance(outputs, Mapping):
        outputs = outputs.get("logits")
    elif not isinstance(outputs, torch.Tensor):
        outputs = getattr(outputs, "logits", outputs)
    if not isinstance(outputs, torch.Tensor):
        raise TypeError(
            "model must return a tensor, or an object with one called logits, got"
            f" {type(outputs).__name__}; wrap the model in one that returns its logits"
        )
    return outputs


def forward(model: Any, x: Tensors) -> Any:
    """Return the outputs of a model for a batch."""
    return logits_of(model(x[POSITIONAL]) if POSITIONAL in x else model(**x))


def n_rows(x: Tensors) -> int:
    """Return the number of samples of a batch."""
    return len(next(iter(x.values())))


def rows_of(x: Tensors, rows: slice) -> Tensors:
    """Return some samples of a batch."""
    return {name: value[rows] for name, value in x.items()}


def trained(model: Any) -> Tensors:
    """Return the parameters that have gradients, by name."""
    return {name: p for name, p in model.named_parameters() if p.requires_grad}


# ------------------------------------------------------------------------------- linear layers


def linear_layers(model: Any, x: Tensors, question: Question) -> Tensors | None:
    """Return the linear layers with trained parameters, by name, if they determine all gradients.

    None where other layers have trained parameters, where one is used twice, its weight is used
    outside of it, or samples of a batch are mixed. The last two show by comparison with autograd:
    Σ_n s_n δ_n x_nᵀ must be the gradient of Σ_n s_n value_n, with different factors s_n, so that
    gradients do not cancel where the model is trained.
    """
    layers: Tensors = {}
    for name, module in model.named_modules():
        if any(p.requires_grad for p in module.parameters(recurse=False)):
            if type(module) is not torch.nn.Linear:
                return None
            layers[name] = module
    outputs, calls = _record(layers, model, x)
    if not _fits(layers, calls, x):
        return None
    values = question.value(outputs, question.probes[0][0])
    factors = torch.cos(torch.arange(len(values), device=values.device)).to(values.dtype)
    params, results = trained(model), [result for _, _, result in calls]
    options = {"retain_graph": True, "allow_unused": True, "materialize_grads": True}
    wanted = torch.autograd.grad((factors * values).sum(), list(params.values()), **options)
    deltas = torch.autograd.grad(values.sum(), results, **options)
    found = {name: torch.zeros_like(p) for name, p in params.items()}
    for (name, inputs, _), delta in zip(calls, deltas, strict=True):
        rows = (factors.view(-1, *[1] * (delta.ndim - 1)) * delta).flatten(0, -2)
        _add(found, name, rows.T @ inputs.flatten(0, -2), rows.sum(0))
    tolerance = 1e-6 if values.dtype == torch.float64 else 1e-2
    for mine, gradient in zip(found.values(), wanted, strict=True):
        if not float((mine - gradient).norm()) <= tolerance * float(gradient.norm()) + 1e-30:
            return None
    return layers


def by_layers(layers: Tensors, model: Any, x: Tensors, question: Question, total: Tensors) -> bool:
    """Add the answer to ``total``; False, and nothing added, where a layer is not used once."""
    outputs, calls = _record(layers, model, x)
    if not _fits(layers, calls, x):
        return False
    results = [result for _, _, result in calls]
    # Of layers on rows the weighted sum over probes of reduce(δ), for one product at the end.
    sums = [torch.zeros_like(result) for result in results]
    for target, weight in question.probes:
        value = question.value(outputs, target).sum()
        deltas = torch.autograd.grad(value, results, retain_graph=True, materialize_grads=True)
        for i, delta in enumerate(deltas):
            if delta.ndim == 2:
                sums[i] += weight[:, None] * question.reduce(delta)
            else:
                name, inputs, _ = calls[i]
                _add_sequences(total, name, (inputs, delta, weight), question.reduce)
    for (name, inputs, _), own in zip(calls, sums, strict=True):
        if own.ndim == 2:
            _add(total, name, own.T @ question.reduce(inputs), own.sum(0))
    return True


def _record(layers: Tensors, model: Any, x: Tensors) -> tuple[Any, list[tuple[str, Any, Any]]]:
    """Return the outputs of a model, and name, input and output of every call of its layers."""
    calls: list[tuple[str, Any, Any]] = []
    names = {module: name for name, module in layers.items()}

    def record(module: Any, inputs: Any, output: Any) -> Any:
        calls.append((names[module], inputs[0].detach(), output))
        return output.clone()  # what follows may work in place

    hooks = [module.register_forward_hook(record) for module in layers.values()]
    try:
        return forward(model, x), calls
    finally:
        for hook in hooks:
            hook.remove()


def _fits(layers: Tensors, calls: Sequence[Any], x: Tensors) -> bool:
    """Return whether every layer was called once, with one row or one sequence per sample."""
    once = sorted(name for name, _, _ in calls) == sorted(layers)
    return once and all(len(result) == n_rows(x) for _, _, result in calls)


def _add_sequences(total: Tensors, name: str, parts: tuple[Any, Any, Any], reduce: Any) -> None:
    """Add the sum over samples of a layer that sees every sample at several places."""
    inputs, delta, weight = parts
    delta = delta.flatten(1, -2)
    inputs = inputs.flatten(1, -2)
    size = max(1, AT_ONCE // (delta.shape[2] * inputs.shape[2]))
    for d, x, w in zip(delta.split(size), inputs.split(size), weight.split(size), strict=True):
        gradients = d.transpose(1, 2) @ x  # (samples, outputs, inputs)
        matrix = torch.tensordot(w, reduce(gradients), dims=1)
        _add(total, name, matrix, w @ reduce(d.sum(1)))


def _add(total: Tensors, name: str, matrix: Any, vector: Any) -> None:
    """Add to weight and bias of a layer, if they are trained."""
    for key, value in (("weight", matrix), ("bias", vector)):
        full = f"{name}.{key}" if name else key
        if full in total:
            total[full] += value


# ---------------------------------------------------------------------------------- any model


def by_vmap(model: Any, x: Tensors, question: Question, total: Tensors) -> None:
    """Add the answer for any model of one input, by the gradients of a chunk of samples."""
    params = {name: p.detach() for name, p in trained(model).items()}
    tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    rest = {name: each.detach() for name, each in tensors.items() if name not in params}

    def scalar(params: Tensors, row: Any, target: Any) -> Any:
        outputs = torch.func.functional_call(model, {**params, **rest}, (row[None],))
        return question.value(logits_of(outputs), target[None])[0]

    gradient = torch.func.vmap(torch.func.grad(scalar), in_dims=(None, 0, 0))
    size = max(1, AT_ONCE // sum(p.numel() for p in params.values()))
    added = {name: torch.zeros_like(p) for name, p in params.items()}
    for first in range(0, n_rows(x), size):
        rows = slice(first, first + size)
        for target, weight in question.probes:
            gradients = gradient(params, x[POSITIONAL][rows], target[rows])
            for name, each in gradients.items():
                added[name] += torch.tensordot(weight[rows], question.reduce(each), dims=1)
    for name, value in added.items():  # last, so that nothing is added where vmap fails
        total[name] += value


def by_loop(model: Any, x: Tensors, question: Question, total: Tensors) -> None:
    """Add the answer for any model, one sample at a time."""
    params = trained(model)
    for i in range(n_rows(x)):
        row = slice(i, i + 1)
        outputs = forward(model, rows_of(x, row))
        for target, weight in question.probes:
            value = question.value(outputs, target[row]).sum()
            gradients = torch.autograd.grad(
                value, list(params.values()), retain_graph=True, materialize_grads=True
            )
            for name, gradient in zip(params, gradients, strict=True):
                total[name] += weight[i] * question.reduce(gradient)
