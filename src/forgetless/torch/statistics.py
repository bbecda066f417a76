"""Running statistics of normalization layers: they follow the data and are not regularized."""

import warnings
from typing import Any

import torch

from forgetless.torch._models import unwrapped


class _Evaluated:
    """A hook before the forward pass: ``model.train()`` cannot turn such a layer back."""

    def __call__(self, module: Any, inputs: Any) -> None:
        if module.training:
            module.eval()


class FrozenStatistics:
    """What ``freeze_statistics`` returns: ``remove()`` undoes it; also a context.

    Attributes
    ----------
    names : list of str
        The layers that are frozen.
    """

    def __init__(self, model: Any) -> None:
        layers = tracking(model)
        self.names = list(layers)
        self._modes = [(layer, layer.training) for layer in layers.values()]
        self._handles = [layer.register_forward_pre_hook(_Evaluated()) for layer in layers.values()]
        for layer in layers.values():
            layer.eval()

    def remove(self) -> None:
        """Let the layers follow the data again, in their previous mode."""
        for handle in self._handles:
            handle.remove()
        for layer, mode in self._modes:
            layer.train(mode)
        self._handles, self._modes = [], []

    def __enter__(self) -> "FrozenStatistics":
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def freeze_statistics(model: Any) -> FrozenStatistics:
    """Hold the running statistics of all normalization layers, whatever ``model.train()`` says later.

    The layers then normalize by what they know instead of by the batch, as in evaluation; their weights are learned as
    before. Usual after the first task, or from the start for a pretrained network.

    Examples
    --------
    >>> import torch
    >>> import forgetless.torch as flt
    >>> net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    >>> with flt.freeze_statistics(net) as frozen:
    ...     _ = net.train()(torch.randn(8, 3))
    >>> frozen.names, net[1].running_mean.tolist()
    (['1'], [0.0, 0.0, 0.0, 0.0])
    """
    return FrozenStatistics(model)


def tracking(model: Any) -> dict[str, Any]:
    """Return the layers with running statistics that are not frozen, by name."""
    kinds = (torch.nn.modules.batchnorm._NormBase,)
    return {
        name: layer
        for name, layer in unwrapped(model).named_modules()
        if isinstance(layer, kinds)
        and layer.running_mean is not None
        and not any(isinstance(hook, _Evaluated) for hook in layer._forward_pre_hooks.values())
    }


def warn_if_tracking(model: Any, stacklevel: int) -> None:
    """Warn that running statistics will drift."""
    layers = list(tracking(model))
    if layers:
        warnings.warn(
            f"{len(layers)} layers of the model track running statistics (the first is {layers[0]!r}), which follow "
            "the data of the current task despite regularization; flt.freeze_statistics(model) holds them",
            stacklevel=stacklevel,
        )
