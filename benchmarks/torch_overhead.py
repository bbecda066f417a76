"""What forgetless.torch costs: mechanisms beside plain training, the Fisher information beside a loop over samples.

    python benchmarks/torch_overhead.py [repeats]

A perceptron of a million parameters, batches of 128, on the GPU too if there is one; medians of ratios of a few steps
taken in turns. Beside them, what it costs to copy the weights once after every step: no mechanism moves less memory.
"""

import statistics
import sys
import time
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional

import forgetless.torch as flt
from harness import medians, ratio, table

OPTIMIZERS = {
    "SGD": lambda params: torch.optim.SGD(params, lr=0.01),
    "SGD, momentum": lambda params: torch.optim.SGD(params, lr=0.01, momentum=0.9),
    "Adam": lambda params: torch.optim.Adam(params, lr=1e-3),
    "Adam, fused": lambda params: torch.optim.Adam(params, lr=1e-3, fused=True),
    "AdamW": lambda params: torch.optim.AdamW(params, lr=1e-3),
}


def network(device: str) -> nn.Module:
    torch.manual_seed(0)
    layers = (nn.Linear(784, 800), nn.ReLU(), nn.Linear(800, 450), nn.ReLU(), nn.Linear(450, 10))
    return nn.Sequential(*layers).to(device)


def training(device: str, make: Callable, kind: str, steps: int) -> Callable[[], object]:
    net = network(device)
    optimizer = make(net.parameters())
    x, y = torch.randn(128, 784, device=device), torch.randint(10, (128,), device=device)
    params = [p.detach() for p in net.parameters()]
    copies = [p.clone() for p in params]
    random = lambda *_: {name: torch.rand_like(p) for name, p in net.named_parameters()}  # noqa: E731
    mechanisms = {
        "proximal": [flt.Proximal(1.0)],
        "importances": [flt.Proximal(1.0, random)],
        "average": [flt.Average(100)],
    }.get(kind)
    continual = flt.Continual(net, mechanisms, pretrained=[x]) if mechanisms else None

    def run() -> object:
        for _ in range(steps):
            optimizer.zero_grad()
            functional.cross_entropy(net(x), y).backward()
            optimizer.step()
            if kind == "copy":
                torch._foreach_copy_(copies, params)
        if device == "cuda":
            torch.cuda.synchronize()
        return continual  # which lives as long as the function

    return run


def overhead(device: str, repeats: int) -> str:
    steps, pairs, rows = (3, 3 * repeats, []) if device == "cpu" else (10, 15 * repeats, [])
    kinds = ("plain", "copy", "proximal", "importances", "average")
    for name, make in OPTIMIZERS.items():
        times = paired({kind: training(device, make, kind, steps) for kind in kinds}, pairs)
        plain = times.pop("plain")
        ratios = [statistics.median(a / b for a, b in zip(each, plain, strict=True)) for each in times.values()]
        rows.append([name, f"{1e3 * statistics.median(plain) / steps:.2f} ms", *(f"{each:.3f}" for each in ratios)])
    header = ["optimizer", "plain step", "weights copied", "Proximal", "Proximal, importances", "Average"]
    return table(f"Training with mechanisms, {device}", "python benchmarks/torch_overhead.py", header, rows)


def paired(runs: dict[str, Callable[[], None]], n: int) -> dict[str, list[float]]:
    """Return n times of each, taken in turns and in both directions: what else the machine does meets all alike."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for run in runs.values():
        run()
    for i in range(n):
        for name in list(runs)[:: 1 if i % 2 else -1]:
            start = time.perf_counter()
            runs[name]()
            times[name].append(time.perf_counter() - start)
    return times


def by_loop(net: nn.Module, x: torch.Tensor) -> list[torch.Tensor]:
    params = list(net.parameters())
    total = [torch.zeros_like(p) for p in params]
    for row in x:
        for value in net(row[None])[0].log_softmax(0):
            gradients = torch.autograd.grad(value, params, retain_graph=True)
            for each, gradient in zip(total, gradients, strict=True):
                each.add_(gradient.square(), alpha=value.detach().exp().item() / len(x))
    return total


def importances(device: str, repeats: int) -> str:
    rows = []
    conv = nn.Sequential(
        nn.Conv2d(1, 16, 3, stride=2), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2), nn.ReLU(),
        nn.Flatten(), nn.Linear(32 * 36, 10),
    )  # fmt: skip
    torch.manual_seed(0)
    cases = {
        "perceptron, 1M": (network(device), torch.randn(512, 784, device=device)),
        "convolutions": (conv.to(device).eval(), torch.randn(512, 1, 28, 28, device=device)),
    }
    for name, (net, x) in cases.items():
        few = x[:8]
        wanted, found = by_loop(net, few), list(flt.fisher(net, few).values())
        apart = max(float((a - b).norm() / b.norm()) for a, b in zip(found, wanted, strict=True))
        contestants = {
            "loop": lambda net=net, x=few: by_loop(net, x),
            "fisher": lambda net=net, x=x: flt.fisher(net, x),
        }
        times = medians(contestants, repeats)
        loop, ours = times["loop"] / len(few), times["fisher"] / len(x)
        rows.append([name, f"{1e3 * loop:.2f} ms", f"{1e3 * ours:.3f} ms", ratio(loop / ours), f"{apart:.0e}"])
    header = ["network", "loop, a sample", "flt.fisher, a sample", "faster", "relative difference"]
    return table(f"Exact Fisher, 10 labels, {device}", "python benchmarks/torch_overhead.py", header, rows)


if __name__ == "__main__":
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    torch.set_num_threads(1)
    for device in ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]:
        print(overhead(device, repeats), end="\n\n")
        print(importances(device, max(3, repeats // 3)), end="\n\n")
