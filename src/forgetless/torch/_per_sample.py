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
from typing import Any, NamedTuple

import torch

from forgetless.torch.mechanism import Tensors, zeros

AT_ONCE = 2**22  # no mutant: sums of parts of any size are the same
"""Numbers of per-sample gradients that are held at a time: 16 MB in float32."""

POSITIONAL = ""
"""The name of an input that has none; a batch is a dictionary of inputs."""


class Question(NamedTuple):
    """What is differentiated: ``value(outputs, target)`` of every sample, for several targets.

    ``probes`` are pairs of tensors (target, weight) with one entry per sample, such as a class and
    its probability. The answer is Σ_probes Σ_samples weight · reduce(∂value/∂w), with ``reduce`` a
    square or an absolute value.
    """

    value: Callable[[Any, Any], Any]
    probes: Sequence[tuple[Any, Any]]
    reduce: Callable[[Any], Any]


class Call(NamedTuple):
    """One call of a layer.

    Attributes
    ----------
    name : str
        Of the layer.
    inputs, results : tensors of shape (samples, …, features) and (samples, …, outputs)
        Of rows without axes in between; a sequence has one for its places.
    """

    name: str
    inputs: Any
    results: Any


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
    if POSITIONAL in x:
        return logits_of(model(x[POSITIONAL]))
    return logits_of(model(**x))


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
    outside of it, or samples of a batch are mixed.
    """
    layers: Tensors = {}
    for name, module in model.named_modules():
        # no mutant: with parameters of children no layer is found, and vmap computes the same
        if any(p.requires_grad for p in module.parameters(recurse=False)):
            if type(module) is not torch.nn.Linear:
                return None
            layers[name] = module
    recorded = _record(layers, model, x)
    if recorded is None:
        return None
    outputs, calls = recorded
    # One target is enough to see whether the layers give the gradients.
    target, _ = question.probes[0]
    values = question.value(outputs, target)
    if not _agree(trained(model), calls, values):
        return None
    return layers


def by_layers(layers: Tensors, model: Any, x: Tensors, question: Question, total: Tensors) -> bool:
    """Add the answer to ``total``; False, and nothing added, where a layer is not used once."""
    recorded = _record(layers, model, x)
    if recorded is None:
        return False
    outputs, calls = recorded
    # Of layers on rows the weighted sum over probes of reduce(δ), for one product at the end.
    results = [call.results for call in calls]
    sums = [torch.zeros_like(each) for each in results]
    for target, weight in question.probes:
        values = question.value(outputs, target)
        deltas = _gradients(values, results)
        for call, own, delta in zip(calls, sums, deltas, strict=True):
            if delta.ndim == 2:
                own += weight[:, None] * question.reduce(delta)
            else:
                _add_sequences(total, call, delta, weight, question.reduce)
    for call, own in zip(calls, sums, strict=True):
        if own.ndim == 2:
            # (Σ_probes ω reduce(δ))ᵀ reduce(x), the sum over samples being the matrix product.
            matrix = own.T @ question.reduce(call.inputs)
            # A bias is the weight of an input that is always 1.
            vector = own.sum(0)
            _add(total, call.name, matrix, vector)
    return True


def _record(layers: Tensors, model: Any, x: Tensors) -> tuple[Any, list[Call]] | None:
    """Return the outputs of a model, and every call of its layers; None unless each of them was
    called once, with one row or one sequence per sample.
    """
    calls: list[Call] = []
    names = {module: name for name, module in layers.items()}

    def record(module: Any, inputs: Any, output: Any) -> Any:
        x = inputs[0].detach()
        calls.append(Call(names[module], x, output))
        # What follows may work in place.
        return output.clone()

    hooks = [module.register_forward_hook(record) for module in layers.values()]
    try:
        outputs = forward(model, x)
    finally:
        for hook in hooks:
            hook.remove()
    called = sorted(call.name for call in calls)
    if called != sorted(layers) or any(len(call.results) != n_rows(x) for call in calls):
        return None
    return outputs, calls


def _gradients(values: Any, tensors: Sequence[Any]) -> Any:
    """Return the gradients of a sum of values, keeping the graph for those of other values.

    For the results z of a call they are δ = ∂value/∂z of every sample: samples do not mix, so that
    one pass has all of them.
    """
    total = values.sum()
    # What is not used has the gradient 0.
    return torch.autograd.grad(total, tensors, retain_graph=True, materialize_grads=True)


def _agree(params: Tensors, calls: Sequence[Call], values: Any) -> bool:
    """Return whether inputs and deltas give the gradients that autograd gives.

    Σ_n s_n δ_n x_nᵀ must be the gradient of Σ_n s_n value_n. The factors s_n differ, so that
    gradients do not cancel where the model is trained, and samples that mix are noticed.
    """
    numbers = torch.arange(len(values), device=values.device)
    factors = torch.cos(numbers).to(values.dtype)
    wanted = _gradients(factors * values, list(params.values()))
    found = zeros(params)
    deltas = _gradients(values, [call.results for call in calls])
    for call, delta in zip(calls, deltas, strict=True):
        # Samples are the first axis, and factors are multiplied along the last one.
        scaled = (delta.transpose(0, -1) * factors).transpose(0, -1)
        # Σ_n s_n Σ_time δxᵀ: every place of a sequence is one more row.
        rows = scaled.flatten(0, -2)
        inputs = call.inputs.flatten(0, -2)
        _add(found, call.name, rows.T @ inputs, rows.sum(0))
    # What rounding leaves of sums in another order, and far less than a forgotten term.
    tolerance = 1e-6 if values.dtype == torch.float64 else 1e-2
    for mine, gradient in zip(found.values(), wanted, strict=True):
        # no mutant: where these are found apart, vmap computes the same
        apart = float((mine - gradient).norm())
        if not apart <= tolerance * float(gradient.norm()) + 1e-30:
            return False
    return True


def _add_sequences(total: Tensors, call: Call, delta: Any, weight: Any, reduce: Any) -> None:
    """Add the sum over samples of a layer that sees every sample at several places."""
    delta = delta.flatten(1, -2)
    inputs = call.inputs.flatten(1, -2)
    n_weights = delta.shape[2] * inputs.shape[2]
    size = max(1, AT_ONCE // n_weights)
    for first in range(0, len(delta), size):
        rows = slice(first, first + size)
        own = delta[rows]
        # Σ_time δxᵀ of each sample: (samples, outputs, inputs).
        gradients = own.transpose(1, 2) @ inputs[rows]
        biases = own.sum(1)
        matrix = torch.tensordot(weight[rows], reduce(gradients), dims=1)
        vector = weight[rows] @ reduce(biases)
        _add(total, call.name, matrix, vector)


def _add(total: Tensors, name: str, matrix: Any, vector: Any) -> None:
    """Add to weight and bias of a layer, if they are trained."""
    # A model that is a single layer has no name.
    prefix = f"{name}." if name else ""
    for key, value in {"weight": matrix, "bias": vector}.items():
        full = prefix + key
        if full in total:
            total[full] += value


# ---------------------------------------------------------------------------------- any model


def by_vmap(model: Any, x: Tensors, question: Question, total: Tensors) -> None:
    """Add the answer for any model of one input, by the gradients of a chunk of samples."""
    # Frozen parameters and buffers are constants.
    tensors = dict(model.named_parameters()) | dict(model.named_buffers())
    constants = {name: each.detach() for name, each in tensors.items()}
    params = {name: constants[name] for name in trained(model)}

    def scalar(params: Tensors, row: Any, target: Any) -> Any:
        # Models expect a batch: here one of a single sample.
        outputs = torch.func.functional_call(model, constants | params, (row[None],))
        values = question.value(logits_of(outputs), target[None])
        return values[0]

    of_sample = torch.func.grad(scalar)
    of_samples = torch.func.vmap(of_sample, in_dims=(None, 0, 0))
    n_weights = sum(p.numel() for p in params.values())
    size = max(1, AT_ONCE // n_weights)
    added = zeros(params)
    for first in range(0, n_rows(x), size):
        rows = slice(first, first + size)
        inputs = x[POSITIONAL][rows]
        for target, weight in question.probes:
            gradients = of_samples(params, inputs, target[rows])
            for name, each in gradients.items():
                reduced = question.reduce(each)
                added[name] += torch.tensordot(weight[rows], reduced, dims=1)
    # Last, so that nothing is added where vmap fails.
    for name, value in added.items():
        total[name] += value


def by_loop(model: Any, x: Tensors, question: Question, total: Tensors) -> None:
    """Add the answer for any model, one sample at a time.

    The last resort, as slow as training with batches of one: dictionaries of inputs, and models
    whose control flow depends on data.
    """
    params = trained(model)
    weights = list(params.values())
    for i in range(n_rows(x)):
        row = slice(i, i + 1)
        outputs = forward(model, rows_of(x, row))
        for target, weight in question.probes:
            values = question.value(outputs, target[row])
            gradients = _gradients(values, weights)
            for name, gradient in zip(params, gradients, strict=True):
                total[name] += weight[i] * question.reduce(gradient)
