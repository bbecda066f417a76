"""Importances of weights from data: Fisher information and memory-aware synapses.

An importance is a function ``(model, data) → {name: nonnegative tensor}``; ``Proximal`` calls it at
the end of every task. Those of this module are means over samples of what is computed for every
sample by itself, in evaluation mode. Modes, buffers and gradients of the model are left unchanged.
"""

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from forgetless import _validate as validate
from forgetless.torch import _per_sample as per_sample
from forgetless.torch._per_sample import POSITIONAL, Question, n_rows, rows_of
from forgetless.torch.mechanism import Tensors, unwrapped, zeros

MOST_CLASSES = 100
"""Classes up to which ``labels="auto"`` takes all of them, one backward pass each."""

ROWS, SEQUENCES = 128, 8  # no mutant: batches of any size are as good
"""Samples that are looked at together: rows of numbers, and of tokens, whose logits are large."""


def fisher(
    model: Any = None,
    data: Any = None,
    *,
    labels: str = "auto",
    likelihood: str = "categorical",
    max_samples: int | None = None,
    generator: Any = None,
) -> Tensors:
    """Return the diagonal of the Fisher information, E[(∂ log p(y|x)/∂w)²], by parameter name.

    With ``Proximal`` this is elastic weight consolidation (EWC). Use it where the loss is a
    cross-entropy or a squared error and the data of a task are at hand at its end. ``Proximal``
    calls it: give the function itself, ``flt.Proximal(1 / 8, flt.fisher)``, and options as
    ``functools.partial(flt.fisher, max_samples=200)``. It is computed for every sample; a
    perceptron needs one backward pass of the batch per class.

    Parameters
    ----------
    model : torch.nn.Module
        Returns logits (batch, classes) or (batch, time, classes), or an object with ``logits``, as
        the models of transformers do. A sequence is one sample, whose log likelihood is the sum
        over its positions.
    data : tensor, pair of tensors or iterable of batches
        x, or (x, y), or a loader of x, of tuples that begin with x and y, or of dictionaries, the
        arguments of the model. Of these ``labels`` is left out, and positions with
        ``attention_mask`` 0 do not count.
    labels : {"auto", "expected", "sampled", "true"}, default "auto"
        ``"expected"``: every class, with the probability that the model gives it. ``"sampled"``:
        one class drawn from these, unbiased, for sequences and many classes. ``"auto"``: expected
        for (batch, classes) with up to 100 classes, otherwise sampled. ``"true"``: the labels of
        the data, beside logits of the same position (−100 does not count): the empirical Fisher,
        which vanishes where they are fitted.
    likelihood : {"categorical", "gaussian"}, default "categorical"
        ``"gaussian"``: squared error with unit variance, E = Σ_c (∂f_c/∂w)²; no labels.
    max_samples : int, optional
        Stop after so many samples.
    generator : torch.Generator, optional
        Of ``"sampled"``; one with seed 0 if omitted.

    Examples
    --------
    >>> import torch
    >>> import forgetless.torch as flt
    >>> net = torch.nn.Linear(2, 2)
    >>> _ = torch.nn.init.zeros_(net.weight), torch.nn.init.zeros_(net.bias)
    >>> flt.fisher(net, torch.tensor([[1.0, 2.0]]))["weight"].tolist()  # p(1 − p) x² = x²/4
    [[0.25, 1.0], [0.25, 1.0]]

    References
    ----------
    Kirkpatrick et al. (2017), elastic weight consolidation.
    """
    if labels not in ("auto", "expected", "sampled", "true"):
        raise ValueError(f"labels must be one of auto, expected, sampled, true, got {labels!r}")
    if likelihood not in ("categorical", "gaussian"):
        raise ValueError(f"likelihood must be categorical or gaussian, got {likelihood!r}")

    def question(outputs: Any, y: Any, mask: Any) -> Question:
        if likelihood == "gaussian":
            return _gaussian(outputs)
        kind = _kind(outputs, labels)
        if kind == "expected":
            return _expected(outputs)
        if kind == "sampled":
            y = _sampled(outputs, generator)
        return _given(outputs, y, mask)

    return _mean(model, data, question, max_samples)


def mas(model: Any = None, data: Any = None, *, max_samples: int | None = None) -> Tensors:
    """Return the mean over samples of abs(∂‖f(x)‖²/∂w): memory-aware synapses, without labels.

    With ``Proximal`` as accurate as synaptic intelligence on the mean of twelve streams (68.8
    percent, EWC 66.1), for any outputs: use it where there is no likelihood.

    Parameters
    ----------
    model, data, max_samples
        As in :func:`fisher`.

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
    Aljundi et al. (2018).
    """

    def question(outputs: Any, *_: Any) -> Question:
        # One probe of weight 1; its target is not used.
        ones = outputs.new_ones(len(outputs))
        return Question(_squared_norm, [(ones, ones)], torch.abs)

    return _mean(model, data, question, max_samples)


# ---------------------------------------------------------------- what is differentiated


def _log_likelihood(outputs: Any, y: Any) -> Any:
    """Return log p(y) of every sample, of sequences the sum over positions; −100 does not count."""
    index = y.clamp(min=0)[..., None]
    logs = outputs.log_softmax(-1).gather(-1, index)
    counted = logs[..., 0] * (y != -100)
    # Labels of positions are independent given the inputs, so that log likelihoods add up.
    return counted.reshape(len(y), -1).sum(1)


def _one_output(outputs: Any, c: Any) -> Any:
    values = outputs.flatten(1)
    return values.gather(1, c[:, None])[:, 0]


def _squared_norm(outputs: Any, _: Any) -> Any:
    return outputs.flatten(1).square().sum(1)


def _kind(outputs: Any, labels: str) -> str:
    """Return which labels logits are beside, "auto" resolved."""
    if outputs.ndim not in (2, 3) or outputs.shape[-1] < 2:
        raise ValueError(
            "model must return logits (batch, classes) or (batch, time, classes) of two classes or"
            f" more, got shape {tuple(outputs.shape)}; for predictions use likelihood='gaussian'"
        )
    if labels != "auto":
        return labels
    few = outputs.ndim == 2 and outputs.shape[1] <= MOST_CLASSES
    return "expected" if few else "sampled"


def _given(outputs: Any, y: Any, mask: Any) -> Question:
    """Return one label for every position, but for those that are masked."""
    if y is None or y.shape != outputs.shape[:-1]:
        raise ValueError(
            f"labels='true' needs labels of shape {tuple(outputs.shape[:-1])} beside the logits,"
            f" got {None if y is None else tuple(y.shape)}; give batches (x, y), or use 'sampled'"
        )
    if mask is not None and y.ndim == 2:
        # Padding is no label: what the model says there is not trained.
        y = y.masked_fill(mask == 0, -100)
    return Question(_log_likelihood, [(y, outputs.new_ones(len(y)))], torch.square)


def _expected(outputs: Any) -> Question:
    """Return all classes as labels, with their probabilities."""
    if outputs.ndim != 2:
        raise ValueError(
            "labels='expected' needs a backward pass for every class and position of a sequence;"
            " use labels='sampled'"
        )
    # Class c as the target of every sample is this index plus c.
    index = outputs.new_zeros(len(outputs), dtype=torch.long)
    # E_y (∂ log p(y)/∂w)² = Σ_c p(c) (∂ log p(c)/∂w)²
    probabilities = outputs.softmax(1)
    probes = [(index + c, probabilities[:, c]) for c in range(outputs.shape[1])]
    return Question(_log_likelihood, probes, torch.square)


def _sampled(outputs: Any, generator: Any) -> Any:
    """Return labels that are drawn from the model."""
    if generator is None:
        # One of its own: a run with importances draws the same batches as one without.
        generator = torch.Generator(outputs.device).manual_seed(0)
    # With y from p(y) the squared gradient of log p(y) has the Fisher information as its mean.
    *shape, n_classes = outputs.shape
    probabilities = outputs.softmax(-1).reshape(-1, n_classes)
    drawn = torch.multinomial(probabilities, 1, generator=generator)
    return drawn.view(shape)


def _gaussian(outputs: Any) -> Question:
    """Return every output by itself: −½(y − f)² has the expected squared gradient (∂f)²."""
    index = outputs.new_zeros(len(outputs), dtype=torch.long)
    n_outputs = outputs.flatten(1).shape[1]
    ones = outputs.new_ones(len(outputs))
    probes = [(index + c, ones) for c in range(n_outputs)]
    return Question(_one_output, probes, torch.square)


# ------------------------------------------------------------------------- means over data


def _mean(
    model: Any, data: Any, ask: Callable[[Any, Any, Any], Question], max_samples: int | None
) -> Tensors:
    """Return the mean over samples of the answers to ``ask(outputs, labels, mask)``.

    ``ask`` says of a batch what is differentiated; the models are asked batch by batch, in the
    fastest of three ways that is exact for them: by layers, by vmap, by a loop.
    """
    if max_samples is not None:
        validate.integer("max_samples", max_samples, 1, "leave it out for all samples")
    model = unwrapped(model)
    if not isinstance(model, torch.nn.Module):
        raise TypeError(
            f"model must be a torch.nn.Module, got {model!r:.100}; Proximal calls importances by"
            " itself: give it flt.fisher without parentheses, options as partial(flt.fisher,"
            " max_samples=200)"
        )
    params = per_sample.trained(model)
    if not params:
        raise ValueError("model has no parameter with requires_grad, so nothing has an importance")
    total = zeros(params)
    device = next(iter(params.values())).device
    layers: Any = None
    n_seen = 0
    # Gradients are needed also where next_task has switched them off.
    with _evaluated(model), torch.enable_grad():
        for x, y in _batches(data, max_samples):
            x = {name: value.to(device) for name, value in x.items()}
            if y is not None:
                y = y.to(device)
            with torch.no_grad():
                outputs = per_sample.forward(model, x)
                question = ask(outputs, y, x.get("attention_mask"))
            if n_seen == 0:
                # What the first batch shows is true of all: it is the model that decides.
                layers = per_sample.linear_layers(model, x, question)
            if not layers or not per_sample.by_layers(layers, model, x, question, total):
                _without_layers(model, x, question, total)
            n_seen += n_rows(x)
    if not n_seen:
        raise ValueError("data has no sample; give a loader that is not used up, or tensors")
    return {name: value / n_seen for name, value in total.items()}


def _without_layers(model: Any, x: Tensors, question: Question, total: Tensors) -> None:
    """Add the answer by vmap; by a loop for language models, whose control flow it cannot see."""
    if POSITIONAL in x:
        # Of control flow that depends on data; a loop says what else is wrong.
        with contextlib.suppress(RuntimeError):
            per_sample.by_vmap(model, x, question, total)
            return
    per_sample.by_loop(model, x, question, total)


@contextlib.contextmanager
def _evaluated(model: Any) -> Iterator[None]:
    """Switch to evaluation; every module's mode is afterwards as it was."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


def _batches(data: Any, max_samples: int | None) -> Iterator[tuple[Tensors, Any]]:
    """Yield inputs by name and labels, or None, of a few samples at a time."""
    pair = isinstance(data, tuple) and len(data) == 2 and isinstance(data[0], torch.Tensor)
    if pair or isinstance(data, torch.Tensor):
        data = [data]
    if not hasattr(data, "__iter__"):
        raise TypeError(
            "data must be a tensor, a pair (x, y) or a loader of batches, got"
            f" {type(data).__name__}; give torch.utils.data.DataLoader(dataset, batch_size=128)"
        )
    left = math.inf if max_samples is None else max_samples
    for batch in data:
        x, y = _inputs(batch)
        # Logits of tokens are large.
        tokens = not all(value.is_floating_point() for value in x.values())
        size = SEQUENCES if tokens else ROWS
        for first in range(0, n_rows(x), size):
            rows = slice(first, first + int(min(size, left)))
            part = rows_of(x, rows)
            left -= n_rows(part)
            yield part, None if y is None else y[rows]
            if left == 0:
                return


def _inputs(batch: Any) -> tuple[Tensors, Any]:
    """Return inputs by name and labels of what a loader yields."""
    if isinstance(batch, Mapping):
        tensors = {key: value for key, value in batch.items() if isinstance(value, torch.Tensor)}
        # The arguments of a model; with its labels it would compute a loss of its own.
        tensors.pop("labels", None)
        if tensors:
            return tensors, None
    if isinstance(batch, torch.Tensor):
        return {POSITIONAL: batch}, None
    x, *labels = batch
    if not isinstance(x, torch.Tensor):
        raise TypeError(
            "a batch must be a tensor, a dictionary of tensors or begin with a tensor, got"
            f" {batch!r:.200}; give batches (x, y)"
        )
    return {POSITIONAL: x}, labels[0] if labels else None
