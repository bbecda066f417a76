"""Small networks and training loops for the tests of forgetless.torch."""

import itertools

import torch
from torch import nn
from torch.nn import functional

OPTIMIZERS = {
    "sgd": lambda params, lr=0.1: torch.optim.SGD(params, lr=lr),
    "sgd foreach": lambda params, lr=0.1: torch.optim.SGD(params, lr=lr, foreach=True),
    "sgd fused": lambda params, lr=0.1: torch.optim.SGD(params, lr=lr, momentum=0.8, fused=True),
    "momentum": lambda params, lr=0.1: torch.optim.SGD(params, lr=lr, momentum=0.8),
    "dampening": lambda params, lr=0.1: torch.optim.SGD(params, lr=lr, momentum=0.8, dampening=0.3),
    "nesterov": lambda params, lr=0.1: torch.optim.SGD(params, lr=lr, momentum=0.8, nesterov=True),
    "adam": lambda params, lr=0.05: torch.optim.Adam(params, lr=lr),
    "adam foreach": lambda params, lr=0.05: torch.optim.Adam(params, lr=lr, foreach=True),
    "adam fused": lambda params, lr=0.05: torch.optim.Adam(params, lr=lr, fused=True),
    "amsgrad": lambda params, lr=0.05: torch.optim.Adam(params, lr=lr, amsgrad=True),
    "adam, lr a tensor": lambda params, lr=0.05: torch.optim.Adam(params, lr=torch.tensor(lr), foreach=False),
    "adamw": lambda params, lr=0.05: torch.optim.AdamW(params, lr=lr, weight_decay=0.0),
    "adamw fused": lambda params, lr=0.05: torch.optim.AdamW(params, lr=lr, weight_decay=0.0, fused=True),
}

SLOWER = {  # of other metrics; they take more steps to rest
    "nadam": lambda params, lr=0.05: torch.optim.NAdam(params, lr=lr),
    "radam": lambda params, lr=0.05: torch.optim.RAdam(params, lr=lr),
    "rmsprop": lambda params, lr=0.01: torch.optim.RMSprop(params, lr=lr),
    "rmsprop, momentum": lambda params, lr=0.005: torch.optim.RMSprop(params, lr=lr, momentum=0.5),
    "adagrad": lambda params, lr=0.5: torch.optim.Adagrad(params, lr=lr),
}


def mlp(seed=0, sizes=(6, 8, 3)):
    torch.manual_seed(seed)
    layers = [layer for a, b in itertools.pairwise(sizes) for layer in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*layers[:-1])


def batches(n, seed=0, inputs=6, classes=3, rows=16):
    made = torch.Generator().manual_seed(seed)
    return [
        (torch.randn(rows, inputs, generator=made), torch.randint(classes, (rows,), generator=made)) for _ in range(n)
    ]


def train(net, optimizer, data, before_step=lambda: None):
    for x, y in data:
        optimizer.zero_grad()
        functional.cross_entropy(net(x), y).backward()
        before_step()
        optimizer.step()


def weights(net):
    return torch.cat([p.detach().ravel() for p in net.parameters()])
