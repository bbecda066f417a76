"""R networks of one shape, stacked: every parameter has a first dimension R, and one product serves all of them.

A layer is a product of patches (R, n, L, inputs) with weights (R, inputs, outputs): L = 1 patch for a dense layer, one
for every position of a convolution. Runs do not mix, so the gradient of the sum of their losses is each one's own.
"""

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.nn import functional

MEAN, STD = 0.2860, 0.3530
"""Of Fashion-MNIST's pixels; all images are scaled by them."""


@dataclass(frozen=True)
class Layer:
    """``inputs`` of a patch → ``outputs``; a convolution has a kernel, steps of two pixels, and many patches."""

    inputs: int
    outputs: int
    kernel: int = 0
    positions: int = 1

    @property
    def held(self) -> int:
        """Numbers that one sample takes: its patches, and its gradient where that is formed."""
        return max(self.inputs * self.positions, self.inputs * self.outputs if self.kernel else 0)


def layers_of(network: str, n_features: int, outputs: int, hidden: tuple[int, ...]) -> tuple[Layer, ...]:
    """Return the layers: a perceptron with these hidden sizes, or 5 × 5 convolutions, 16 and 32 channels."""
    if network == "mlp":
        sizes = (n_features, *hidden, outputs)
        return tuple(Layer(a, b) for a, b in itertools.pairwise(sizes))
    first = (math.isqrt(n_features) - 3) // 2
    second = (first - 3) // 2
    return Layer(25, 16, 5, first**2), Layer(16 * 25, 32, 5, second**2), Layer(32 * second**2, outputs)


def start(layers: tuple[Layer, ...], seeds: list[int], dtype: Any, device: Any) -> list[Any]:
    """Return initial weights and biases, (R, inputs, outputs) and (R, 1, outputs) in turn, of one seed for each run."""
    made = []
    for i, layer in enumerate(layers):
        gain = math.sqrt(2.0 / layer.inputs) if i < len(layers) - 1 else 0.1 / math.sqrt(layer.inputs)
        own = {
            seed: gain * np.random.default_rng([seed, 11, i]).standard_normal((layer.inputs, layer.outputs))
            for seed in set(seeds)
        }
        kinds = {seed: torch.from_numpy(value).to(device, dtype) for seed, value in own.items()}
        made.append(torch.stack([kinds[seed] for seed in seeds]))
        made.append(torch.zeros(len(seeds), 1, layer.outputs, dtype=dtype, device=device))
    return made


def scaled(x: Any, dtype: Any) -> Any:
    """Return rows as numbers; bytes are pixels."""
    if x.dtype != torch.uint8:
        return x.to(dtype)
    return x.to(dtype).mul_(1 / (255 * STD)).sub_(MEAN / STD)


def forward(layers: tuple[Layer, ...], params: list[Any], x: Any) -> tuple[Any, list[Any], list[Any]]:
    """Return outputs (R, n, C) of rows x (R, n, d), and the patches and results of every layer."""
    R, n = x.shape[:2]
    h, patches, results = x, [], []
    for i, layer in enumerate(layers):
        if layer.kernel:
            side = math.isqrt(h.shape[2] * layer.kernel**2 // layer.inputs)
            # One sample with very many channels: unfold starts a kernel for every sample.
            cut = functional.unfold(h.reshape(1, -1, side, side), layer.kernel, stride=2)
            p = cut.view(R, n, layer.inputs, -1).transpose(2, 3)
        else:
            p = h[:, :, None]
        z = torch.baddbmm(params[2 * i + 1], p.reshape(R, -1, layer.inputs), params[2 * i])
        z = z.view(R, n, -1, layer.outputs)
        patches.append(p)
        results.append(z)
        h = z.transpose(2, 3).flatten(2)
        if i < len(layers) - 1:
            h = h.relu()
    return h, patches, results


def loss_of(out: Any, y: Any, loss: str) -> Any:
    """Return the losses of every row, (R, n): cross-entropy, or half the squared error."""
    if loss == "ce":
        return functional.cross_entropy(out.flatten(0, 1), y.flatten(), reduction="none").view(y.shape)
    return 0.5 * (out - targets(y, out)).square().sum(-1)


def distillation(out: Any, old: Any, loss: str, temperature: float = 2.0) -> Any:
    """Return the mean over rows, (R,), of the distance of outputs (R, n, C) from those of earlier weights.

    For cross-entropy T²KL(old ‖ new) of softened probabilities (Hinton et al., 2015; Li & Hoiem, 2016).
    """
    if loss != "ce":
        return 0.5 * (out - old).square().sum(-1).mean(1)
    new, old = ((each / temperature).log_softmax(-1) for each in (out, old))
    return temperature**2 * functional.kl_div(new, old, reduction="none", log_target=True).sum(-1).mean(1)


def targets(y: Any, out: Any) -> Any:
    """Return what squared error compares outputs with: numbers, or classes as unit vectors."""
    return y[..., None].to(out.dtype) if y.is_floating_point() else functional.one_hot(y, out.shape[-1]).to(out.dtype)


def importance(layers: tuple[Layer, ...], params: list[Any], x: Any, metric: str, loss: str, chunk: int) -> list[Any]:
    """Return the mean over the rows x (R, n, d) of the importance of every parameter, per sample exact.

    ``fisher``: E(∂ log p)², over the labels as the network gives them (of unit variance for squared error); ``mas``:
    the absolute value of ∂‖f‖².
    """
    reduce = torch.abs if metric == "mas" else torch.square
    total = [torch.zeros_like(p) for p in params]
    leaves = [p.detach().requires_grad_() for p in params]
    for rows in x.split(chunk, 1):
        with torch.enable_grad():
            out, patches, results = forward(layers, leaves, rows)
            values = _probes(out, metric, loss)
        for value in values:
            deltas = torch.autograd.grad(value, results, retain_graph=True)
            for i, (p, d) in enumerate(zip(patches, deltas, strict=True)):
                p = p.detach()
                if p.shape[2] == 1:  # one outer product a sample: squares and absolute values factor
                    total[2 * i] += reduce(p[:, :, 0]).transpose(1, 2) @ reduce(d[:, :, 0])
                else:
                    total[2 * i] += reduce(p.transpose(2, 3) @ d).sum(1)
                total[2 * i + 1] += reduce(d.sum(2)).sum(1, keepdim=True)
    return [each / x.shape[1] for each in total]


def _probes(out: Any, metric: str, loss: str) -> list[Any]:
    if metric == "mas":
        return [out.square().sum()]
    if loss == "mse":
        return [out[..., c].sum() for c in range(out.shape[-1])]
    log = out.log_softmax(-1)
    weighted = log * log.detach().mul(0.5).exp()  # the square gets the weight p
    return [weighted[..., c].sum() for c in range(out.shape[-1])]
