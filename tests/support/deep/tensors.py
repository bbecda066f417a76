"""Tasks of tensors, in a module that worker processes can import."""

import torch

from support.sweeping import gauss


def tensors(seed, device="cpu"):
    """Return the tasks of :func:`support.sweeping.gauss` on a device."""
    return [(torch.as_tensor(X, device=device), torch.as_tensor(y, device=device)) for X, y in gauss(seed)]
