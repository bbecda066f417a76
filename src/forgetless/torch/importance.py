"""Importance of every weight from data: diagonal Fisher information, memory-aware synapses."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch

from forgetless._core import validate
from forgetless.torch import _per_sample as per_sample
from forgetless.torch._per_sample import Probe, n_rows, rows_of, trained
from forgetless.torch.models import Tensors, inspected, unwrapped
from forgetless.torch.schedules import check_choice

_MOST_PASSES = 2048
"""Backward passes for the expected labels of a sequence."""


def fisher(
    model: Any,
    data: Any,
    *,
    labels: str = "expected",
    likelihood: str = "categorical",
    n_samples: int | None = None,
    chunk: int | None = None,
    generator: Any = None,
) -> Tensors:
    """Return the diagonal of the Fisher information, E[(∂ log p(y|x)/∂w)²], per sample exact: a
    mean over samples.

    Computed in evaluation mode; modes, buffers and gradients are left unchanged.

    Parameters
    ----------
    model : torch.nn.Module
        Returns logits (batch, classes) or (batch, time, classes), or an object with ``logits``, as
        the models of transformers do; or predictions for ``likelihood="gaussian"``. A sequence is
        one sample, whose log likelihood is the sum over its positions.
    data : iterable of batches, or tensors
        A loader whose batches are inputs, begin with inputs and labels, or are dictionaries of
        tensors, the arguments of the model; or one tensor x, or a pair (x, y). Of dictionaries
        ``labels`` is left out, and positions where ``attention_mask`` is 0 do not count.
    labels : {"expected", "sampled", "true"}, default "expected"
        ``"expected"``: every label, weighted by the probability the model gives it: the Fisher
        information, one backward pass per class and position, at most 2048. ``"sampled"``: one
        label drawn for each sample and position, unbiased. ``"true"``: the labels of the data,
        beside logits of the same position (−100 does not count): the empirical Fisher, which
        vanishes where the data are fitted.
    likelihood : {"categorical", "gaussian"}, default "categorical"
        Cross-entropy, or squared error with unit variance.
    n_samples : int, optional
        Stop after so many samples; all of them if omitted.
    chunk : int, optional
        Samples whose gradients are held at once where a layer needs ``vmap``; by memory if omitted.
    generator : torch.Generator, optional
        For ``labels="sampled"``.

    Returns
    -------
    dict of tensors by parameter name

    Examples
    --------
    >>> import torch
    >>> import forgetless.torch as flt
    >>> net = torch.nn.Linear(2, 2)
    >>> _ = torch.nn.init.zeros_(net.weight), torch.nn.init.zeros_(net.bias)
    >>> flt.fisher(net, torch.tensor([[1.0, 2.0]]))["weight"].tolist()  # p(1 − p) x² = x²/4
    [[0.25, 1.0], [0.25, 1.0]]
    """
    check_choice("labels", labels, ("expected", "sampled", "true"))
    check_choice("likelihood", likelihood, ("categorical", "gaussian"))

    def probes(outputs: Any, y: Any, mask: Any) -> Sequence[Probe]:
        if labels == "true" and y is None:
            raise ValueError(
                "labels='true' needs labels beside the logits; give batches of (inputs, labels), or"
                " use 'sampled' or 'expected'"
            )
        if likelihood == "categorical":
            return _categorical(outputs, y, mask, labels, generator)
        return _gaussian(outputs, y, labels, generator)

    return _mean(model, data, probes, torch.square, n_samples, chunk)


def mas(
    model: Any, data: Any, *, n_samples: int | None = None, chunk: int | None = None
) -> Tensors:
    """Return the mean over samples of abs(∂‖f(x)‖²/∂w): memory-aware synapses, which need no
    labels.

    Parameters
    ----------
    model, data, n_samples, chunk
        As in :func:`fisher`.

    Returns
    -------
    dict of tensors by parameter name

    Examples
    --------
    >>> import torch
    >>> import forgetless.torch as flt
    >>> net = torch.nn.Linear(2, 1, bias=False)
    >>> _ = torch.nn.init.ones_(net.weight)
    >>> flt.mas(net, torch.tensor([[1.0, 1.0], [-1.0, 0.0]]))["weight"].tolist()
    [[3.0, 2.0]]

    References
    ----------
    Aljundi et al. (2018). They sum over tasks; ``Anchor`` takes the mean, and the schedule grows.
    """

    def probe(out: Any, _: Any) -> tuple[Any, Any]:
        return out.flatten(1).square().sum(1), _ones(out)

    return _mean(model, data, lambda *_: [probe], torch.abs, n_samples, chunk)


class Relative:
    """Divide importances by their mean after the first task, so that a scale means the same for all
    kinds of them.

    Examples
    --------
    >>> import torch
    >>> import forgetless.torch as flt
    >>> relative = flt.Relative()
    >>> relative({"weight": torch.tensor([2.0, 6.0])})["weight"].tolist()
    [0.5, 1.5]
    >>> relative({"weight": torch.tensor([8.0, 8.0])})["weight"].tolist()
    [2.0, 2.0]
    >>> flt.Relative(relative.unit).unit  # of a run that is resumed
    4.0
    """

    def __init__(self, unit: float | None = None) -> None:
        self.unit = unit

    def __call__(self, importance: Mapping[str, Any]) -> Tensors:
        """Return the importance in units of the first one's mean."""
        if self.unit is None:
            self.unit = mean_importance(importance)
        return {name: value / self.unit for name, value in importance.items()}


def mean_importance(importance: Mapping[str, Any]) -> float:
    """Return the mean over all weights after the first task, which must be positive."""
    total = float(sum(value.sum() for value in importance.values()))
    if not total > 0:
        raise ValueError(
            "importance is zero everywhere after the first task; is the network trained there?"
        )
    return total / float(sum(value.numel() for value in importance.values()))


def mean_over_processes(importance: Tensors) -> Tensors:
    """Return the mean of importances over all processes of ``torch.distributed``; all of them must
    call it.

    Each process sees other data; with the same importance everywhere, weights stay the same, bit
    for bit.
    """
    means = {name: value.clone() for name, value in importance.items()}
    for value in means.values():
        torch.distributed.all_reduce(value)
        value /= torch.distributed.get_world_size()
    return means


def _mean(
    model: Any,
    data: Any,
    probes: Callable[[Any, Any, Any], Sequence[Probe]],
    reduce: Callable[[Any], Any],
    n_samples: int | None,
    chunk: int | None,
) -> Tensors:
    model, left = unwrapped(model), None
    if n_samples is not None:
        left = validate.integer("n_samples", n_samples, 1, "leave it out for all samples")
    if chunk is not None:
        chunk = validate.integer("chunk", chunk, 1, "leave it out to choose by memory")
    params, n_seen = trained(model), 0
    if not params:
        raise ValueError("model has no parameter with requires_grad, so nothing has an importance")
    total = {name: torch.zeros_like(p) for name, p in params.items()}
    device = next(iter(params.values())).device
    layered, first = per_sample.can_factor(model), True
    with inspected(model), torch.enable_grad():
        for x, y in _batches(data):
            x = _on(rows_of(x, slice(None if left is None else left - n_seen)), device)
            mask = x.get("attention_mask") if isinstance(x, Mapping) else None
            with torch.no_grad():
                y = None if y is None else y[: n_rows(x)].to(device)
                batch_probes = probes(per_sample.logits_of(model, x), y, mask)
            if layered:
                layered = per_sample.by_layers(model, x, batch_probes, reduce, total, check=first)
            if not layered and isinstance(x, Mapping):
                per_sample.by_loop(model, x, batch_probes, reduce, total)
            elif not layered:
                per_sample.by_vmap(model, x, batch_probes, reduce, total, chunk)
            first, n_seen = False, n_seen + n_rows(x)
            if n_seen == left:
                break
    if not n_seen:
        raise ValueError("data has no sample; give a loader that has not been used up, or tensors")
    return {name: value / n_seen for name, value in total.items()}


def _batches(data: Any) -> Iterable[tuple[Any, Any]]:
    pair = (
        isinstance(data, tuple)
        and len(data) == 2
        and all(isinstance(part, torch.Tensor) for part in data)
    )
    if pair or isinstance(data, torch.Tensor):
        data = [data]
    for batch in data:
        if isinstance(batch, Mapping):
            x = {k: v for k, v in batch.items() if isinstance(v, torch.Tensor) and k != "labels"}
            y, size = None, 8  # logits of sequences are large
        else:
            x, y = (batch, None) if isinstance(batch, torch.Tensor) else (*batch[:2], None)[:2]
            # a graph of the whole data, or all patches that convolutions see in it, would not fit
            size = 128
        if not (x if isinstance(x, Mapping) else isinstance(x, torch.Tensor)):
            raise TypeError(
                "a batch must be a tensor, a dictionary of tensors or begin with a tensor, got"
                f" {batch!r:.200}; give (inputs, labels)"
            )
        for i in range(0, n_rows(x), size):
            rows = slice(i, i + size)
            yield rows_of(x, rows), None if y is None else y[rows]


def _on(x: Any, device: Any) -> Any:
    return (
        {name: value.to(device) for name, value in x.items()}
        if isinstance(x, Mapping)
        else x.to(device)
    )


def _ones(outputs: Any) -> Any:
    return torch.ones(len(outputs), dtype=outputs.dtype, device=outputs.device)


def _categorical(outputs: Any, y: Any, mask: Any, labels: str, generator: Any) -> Sequence[Probe]:
    """Return probes of logits (batch, classes), or (batch, time, classes) with independent labels
    at all positions.

    The expected square of their sum is therefore the sum of the expected squares.
    """
    if outputs.ndim not in (2, 3) or outputs.shape[-1] < 2:
        raise ValueError(
            "model must return logits of shape (batch, classes) or (batch, time, classes), two"
            f" classes or more, got {tuple(outputs.shape)}; for predictions use"
            " likelihood='gaussian'"
        )
    n, classes = len(outputs), outputs.shape[-1]
    length = outputs.shape[1] if outputs.ndim == 3 else 1
    counted = torch.ones(n, length, dtype=torch.bool, device=outputs.device)
    if mask is not None and outputs.ndim == 3:
        counted = mask.bool()
    if labels == "expected":
        if outputs.ndim == 3 and length * classes > _MOST_PASSES:
            raise ValueError(
                f"labels='expected' needs a backward pass for each of {length} positions and"
                f" {classes} classes, of which {_MOST_PASSES} are allowed; use labels='sampled'"
            )

        def of(t: int, c: int) -> Probe:
            def probe(out: Any, index: Any) -> tuple[Any, Any]:
                values = out.reshape(len(out), length, classes)[:, t].log_softmax(1)[:, c]
                return values, values.detach().exp() * counted[index, t]

            return probe

        return [of(t, c) for t in range(length) for c in range(classes)]
    if labels == "sampled":
        y = torch.multinomial(outputs.softmax(-1).reshape(-1, classes), 1, generator=generator)
    elif y.shape != outputs.shape[:-1]:
        raise ValueError(
            f"labels have shape {tuple(y.shape)}, logits {tuple(outputs.shape)}; give one per"
            " position"
        )
    y = y.reshape(n, length)
    counted = counted & (y != -100)
    y = y.clamp(min=0)

    def drawn(out: Any, index: Any) -> tuple[Any, Any]:
        values = (
            out.reshape(len(out), length, classes)
            .log_softmax(2)
            .gather(2, y[index][:, :, None])[:, :, 0]
        )
        return (values * counted[index]).sum(1), _ones(out)

    return [drawn]


def _gaussian(outputs: Any, y: Any, labels: str, generator: Any) -> Sequence[Probe]:
    if labels == "expected":
        return [
            lambda out, _, c=c: (out.flatten(1)[:, c], _ones(out))  # type: ignore[misc]
            for c in range(outputs.flatten(1).shape[1])
        ]
    if labels == "sampled":
        noise = torch.randn(
            outputs.shape, dtype=outputs.dtype, device=outputs.device, generator=generator
        )
    else:
        if y.shape != outputs.shape:
            raise ValueError(
                f"labels have shape {tuple(y.shape)}, predictions {tuple(outputs.shape)}; give them"
                " alike"
            )
        noise = y - outputs
    # −½(y − f)² has the gradient (y − f)∂f
    return [lambda out, index: ((noise[index] * out).flatten(1).sum(1), _ones(out))]
