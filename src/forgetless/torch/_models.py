"""Access to wrapped models, and temporary evaluation mode."""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch.nn.parallel import DataParallel, DistributedDataParallel

Tensors = dict[str, Any]
"""Tensors by the name of a parameter."""


def unwrapped(model: Any) -> Any:
    """Return the module inside ``torch.compile`` and data-parallel wrappers, whose names checkpoints are made of."""
    while True:
        if isinstance(model, DataParallel | DistributedDataParallel):
            model = model.module
        elif hasattr(model, "_orig_mod"):
            model = model._orig_mod
        else:
            return model


@contextlib.contextmanager
def inspected(model: Any) -> Iterator[None]:
    """Switch to evaluation for a while; every module's mode and every buffer are afterwards as they were."""
    modes = [(module, module.training) for module in model.modules()]
    buffers = [(buffer, buffer.detach().clone()) for buffer in model.buffers()]
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode
        with torch.no_grad():
            for buffer, before in buffers:
                buffer.copy_(before)
