"""Ways to step a network, of one model and its optimizer: all of them give the same weights."""

import torch
from torch.nn import functional

from support.deep.networks import train


def plain(net, optimizer):
    return lambda x, y: train(net, optimizer, [(x, y)])


def scaled_and_compiled(net, optimizer):
    """Scales are powers of two, so that scaled gradients are the same."""
    model, scaler = torch.compile(net, backend="aot_eager"), torch.amp.GradScaler("cpu", init_scale=1024.0)

    def step(x, y):
        optimizer.zero_grad()
        scaler.scale(functional.cross_entropy(model(x), y)).backward()
        scaler.step(optimizer)
        scaler.update()

    return step


def compiled_step(net, optimizer):
    """The λ of a task is no constant of the trace."""
    compiled = torch.compile(lambda: optimizer.step(), backend="eager")

    def step(x, y):
        optimizer.zero_grad()
        functional.cross_entropy(net(x), y).backward()
        compiled()

    return step


def closure(net, optimizer):
    """As Lightning steps: gradients are computed within the step."""

    def loss(x, y):
        optimizer.zero_grad()
        functional.cross_entropy(net(x), y).backward()

    return lambda x, y: optimizer.step(lambda: loss(x, y))
