"""Small networks and training loops for the tests of forgetless.torch."""

import itertools

import pytest
import torch
from torch import nn
from torch.nn import functional

import forgetless.torch as flt

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU was found; run this on a machine with one")
DEVICES = ["cpu", pytest.param("cuda", marks=needs_gpu)]

OPTIMIZERS = {
    "sgd": lambda params: torch.optim.SGD(params, lr=0.1),
    "sgd foreach": lambda params: torch.optim.SGD(params, lr=0.1, foreach=True),
    "sgd fused": lambda params: torch.optim.SGD(params, lr=0.1, momentum=0.8, fused=True),
    "momentum": lambda params: torch.optim.SGD(params, lr=0.1, momentum=0.8),
    "dampening": lambda params: torch.optim.SGD(params, lr=0.1, momentum=0.8, dampening=0.3),
    "nesterov": lambda params: torch.optim.SGD(params, lr=0.1, momentum=0.8, nesterov=True),
    "adam": lambda params: torch.optim.Adam(params, lr=0.05),
    "adam foreach": lambda params: torch.optim.Adam(params, lr=0.05, foreach=True),
    "adam fused": lambda params: torch.optim.Adam(params, lr=0.05, fused=True),
    "amsgrad": lambda params: torch.optim.Adam(params, lr=0.05, amsgrad=True),
    "adam, lr a tensor": lambda params: torch.optim.Adam(params, lr=torch.tensor(0.05), foreach=False),
    "adamw": lambda params: torch.optim.AdamW(params, lr=0.05, weight_decay=0.0),
    "adamw fused": lambda params: torch.optim.AdamW(params, lr=0.05, weight_decay=0.0, fused=True),
}


class Lion(torch.optim.Optimizer):
    """Chen et al. (2023): steps by the sign of an interpolated momentum."""

    def __init__(self, params, lr=0.02):
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                momentum = self.state[p].setdefault("exp_avg", torch.zeros_like(p))
                p.sub_(group["lr"] * torch.lerp(p.grad, momentum, 0.9).sign())
                momentum.lerp_(p.grad, 0.01)


def mlp(seed=0, sizes=(6, 8, 3)):
    torch.manual_seed(seed)
    layers = [layer for a, b in itertools.pairwise(sizes) for layer in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*layers[:-1])


def batches(n, seed=0, inputs=6, classes=3, rows=16):
    made = torch.Generator().manual_seed(seed)
    return [
        (torch.randn(rows, inputs, generator=made), torch.randint(classes, (rows,), generator=made)) for _ in range(n)
    ]


def train(net, optimizer, data, before_step=lambda: None, step=None):
    device = next(net.parameters()).device
    for x, y in data:
        optimizer.zero_grad()
        functional.cross_entropy(net(x.to(device)), y.to(device)).backward()
        before_step()
        (step or optimizer.step)()


def begin(*mechanisms, name="adam", seed=0, device="cpu", **options):
    """A network, an optimizer of it, and the mechanisms that follow it."""
    net = mlp(seed).to(device)
    return net, OPTIMIZERS[name](net.parameters()), flt.Continual(net, list(mechanisms), **options)


def learn(net, optimizer, continual, tasks):
    for task in tasks:
        train(net, optimizer, batches(3, seed=task))
        continual.next_task(batches(2, seed=task))


def weights(net):
    return torch.cat([p.detach().ravel() for p in net.parameters()])


def shown(net, continual):
    """Return the weights that are evaluated."""
    with continual.evaluation():
        return weights(net)
