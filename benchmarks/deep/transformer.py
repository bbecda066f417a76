"""R byte-level transformers of one shape, stacked: every parameter has shape (R, rows, columns).

With adapters (LoRA, Hu et al., 2021) the pretrained weights are frozen and every matrix W of a layer becomes W + AB.
Runs do not mix, so the gradient of the sum of their losses is each one's own.
"""

import math
from typing import Any

import torch
from torch.nn import functional

N_BYTES = 256
Weights = dict[str, Any]


def start(seeds: list[int], width: int, layers: int, length: int, device: Any) -> Weights:
    """Return initial weights, of one seed for each run."""
    stacks: list[Weights] = []
    deep = 0.02 / math.sqrt(2 * layers)
    for seed in seeds:
        generator = torch.Generator().manual_seed(seed)

        def normal(rows: int, columns: int, std: float = 0.02, generator: Any = generator) -> Any:
            return std * torch.randn(rows, columns, generator=generator)

        weights = {"bytes": normal(N_BYTES, width), "places": normal(length, width)}
        for i in range(layers):
            weights |= {
                f"{i}.norm1": torch.ones(1, width),
                f"{i}.attention": normal(width, 3 * width),
                f"{i}.mix": normal(width, width, deep),
                f"{i}.norm2": torch.ones(1, width),
                f"{i}.up": normal(width, 4 * width),
                f"{i}.bias": torch.zeros(1, 4 * width),
                f"{i}.down": normal(4 * width, width, deep),
            }
        weights |= {"norm": torch.ones(1, width), "head": normal(width, N_BYTES)}
        stacks.append(weights)
    return {name: torch.stack([weights[name] for weights in stacks]).to(device) for name in stacks[0]}


def adapters(weights: Weights, rank: int, seed: int) -> Weights:
    """Return A and B of every matrix of the layers, B = 0, so that the network is unchanged."""
    generator, matrices = torch.Generator().manual_seed(seed), {}
    for name, weight in weights.items():
        if name.split(".")[-1] in ("attention", "mix", "up", "down"):
            n_runs, rows, columns = weight.shape
            a = torch.randn(rows, rank, generator=generator) / math.sqrt(rows)
            matrices[f"{name}.a"] = a.to(weight.device).expand(n_runs, -1, -1).clone()
            matrices[f"{name}.b"] = torch.zeros(n_runs, rank, columns, device=weight.device)
    return matrices


def forward(weights: Weights, x: Any, heads: int) -> Any:
    """Return logits (R, n, T, 256) of bytes x (R, n, T); products in bfloat16 on a GPU."""
    n_runs, n, length = x.shape
    dtype = torch.bfloat16 if x.is_cuda else weights["bytes"].dtype
    width = weights["bytes"].shape[2]
    rows = (x + N_BYTES * torch.arange(n_runs, device=x.device)[:, None, None]).flatten()
    h = weights["bytes"].flatten(0, 1).index_select(0, rows).view(n_runs, n, length, width)
    h = (h + weights["places"][:, None, :length]).to(dtype)

    def product(h: Any, name: str) -> Any:
        flat = h.reshape(n_runs, n * length, -1)
        out = flat @ weights[name].to(dtype)
        if f"{name}.a" in weights:
            out = out + flat @ weights[f"{name}.a"].to(dtype) @ weights[f"{name}.b"].to(dtype)
        return out.view(n_runs, n, length, -1)

    def norm(h: Any, name: str) -> Any:
        return functional.layer_norm(h, (width,)) * weights[name].to(dtype)[:, None]

    for i in range(sum(name.endswith(".attention") for name in weights)):
        split = product(norm(h, f"{i}.norm1"), f"{i}.attention").view(n_runs * n, length, 3, heads, width // heads)
        q, k, v = split.permute(2, 0, 3, 1, 4)
        attended = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        h = h + product(attended.transpose(1, 2).reshape(n_runs, n, length, width), f"{i}.mix")
        up = product(norm(h, f"{i}.norm2"), f"{i}.up") + weights[f"{i}.bias"].to(dtype)[:, None]
        h = h + product(functional.gelu(up), f"{i}.down")
    return product(norm(h, "norm"), "head")


def losses(weights: Weights, x: Any, heads: int, *, uniform: Any = None) -> Any:
    """Return the mean loss of every run in nats per byte, (R,), of bytes x (R, n, T + 1).

    ``uniform``: numbers (n, T) in [0, 1) that draw labels from the network, the same for all runs; then the sum over
    bytes, whose squared gradient is a Fisher estimate.
    """
    logits = forward(weights, x[..., :-1], heads).float().flatten(0, 2)
    labels = x[..., 1:].flatten()
    if uniform is not None:
        cumulated = logits.detach().softmax(-1).cumsum(-1)
        draws = uniform.flatten().repeat(len(x))
        labels = (cumulated < draws[:, None]).sum(-1).clamp(max=N_BYTES - 1)
    each = functional.cross_entropy(logits, labels, reduction="none").view(len(x), -1)
    return each.mean(1) if uniform is None else each.sum(1)


def gradients(trained: Weights, frozen: Weights, x: Any, heads: int, *, uniform: Any = None) -> list[Any]:
    """Return the gradients of the trained weights, in their order."""
    leaves = {name: p.detach().requires_grad_() for name, p in trained.items()}
    with torch.enable_grad():
        loss = losses({**frozen, **leaves}, x, heads, uniform=uniform).sum()
    return list(torch.autograd.grad(loss, list(leaves.values())))
