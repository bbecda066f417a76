"""Wrapped models, their running statistics, and validation of importances and saved states."""

import contextlib
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import torch
from torch.nn.parallel import DataParallel, DistributedDataParallel

from forgetless._core import validate

Tensors = dict[str, Any]
"""Tensors by the name of a parameter."""


def unwrapped(model: Any) -> Any:
    """Return the module inside ``torch.compile`` and data-parallel wrappers, whose names
    checkpoints are made of.
    """
    while hasattr(model, "_orig_mod") or isinstance(model, DataParallel | DistributedDataParallel):
        model = model._orig_mod if hasattr(model, "_orig_mod") else model.module
    return model


def grown(old: Any, new: Any, name: str) -> Any:
    """Return ``new`` with the old values in the corner where each index begins."""
    if old.ndim != new.ndim or any(a > b for a, b in zip(old.shape, new.shape, strict=True)):
        raise ValueError(
            f"{name} had shape {tuple(old.shape)} and has {tuple(new.shape)}; it may grow along its"
            " dimensions, the old entries first, and not shrink"
        )
    new[tuple(slice(0, n) for n in old.shape)] = old.to(new.device, new.dtype)
    return new


@contextlib.contextmanager
def inspected(model: Any) -> Iterator[None]:
    """Switch to evaluation for a while; every module's mode and every buffer are afterwards as they
    were.
    """
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


class _Evaluated:
    """A hook before the forward pass: ``model.train()`` cannot turn such a layer back."""

    def __call__(self, module: Any, inputs: Any) -> None:
        if module.training:
            module.eval()


class FrozenStatistics(contextlib.AbstractContextManager["FrozenStatistics"]):
    """Frozen running statistics, from ``freeze_statistics``; ``remove()`` or the end of the context
    undoes it.

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

    def __exit__(self, *_: object) -> None:
        self.remove()


def freeze_statistics(model: Any) -> FrozenStatistics:
    """Freeze the running statistics of all normalization layers, also against later calls of
    ``model.train()``.

    The layers then normalize by stored statistics instead of by those of the batch, as in
    evaluation; their weights are still trained. Usual after the first task, or from the start for a
    pretrained network.

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
    return {
        name: layer
        for name, layer in unwrapped(model).named_modules()
        if isinstance(layer, torch.nn.modules.batchnorm._NormBase)
        and layer.running_mean is not None
        and not any(isinstance(hook, _Evaluated) for hook in layer._forward_pre_hooks.values())
    }


def warn_if_tracking(model: Any, stacklevel: int) -> None:
    """Warn that running statistics will drift."""
    layers = list(tracking(model))
    if layers:
        warnings.warn(
            f"{len(layers)} layers of the model track running statistics (the first is"
            f" {layers[0]!r}), which follow the data of the current task despite regularization;"
            " flt.freeze_statistics(model) holds them",
            stacklevel=stacklevel,
        )


def check_importance(
    importance: Mapping[str, Any], params: Mapping[str, Any], names: Collection[str]
) -> None:
    """Raise if importances are of other parameters or shapes, negative or not finite."""
    if not isinstance(importance, Mapping):
        raise TypeError(
            "importance must be a dict of tensors by parameter name, got"
            f" {type(importance).__name__}"
        )
    unknown = [name for name in importance if name not in names]
    if unknown:
        raise ValueError(
            f"importance names {unknown[0]!r}, which is no parameter of the model; use"
            " named_parameters()"
        )
    hints = "compute it for the model as it is now", "look for diverged weights or data"
    for name, p in params.items():
        weight = importance.get(name)
        if weight is not None:
            check_tensor(f"importance of {name!r}", weight, p, nonnegative=True, hints=hints)
        elif p.requires_grad:
            raise ValueError(
                f"importance lacks {name!r}; give a tensor for every parameter that is trained"
            )


def check_state(state: Mapping[str, Any], params: Mapping[str, Any]) -> None:
    """Raise ValueError if a saved state is incomplete or damaged, or belongs to another model; the
    text names the key.

    ``names`` are the parameters with a center: those that are new since the last task have none.
    With importances all of them have one.
    """
    keys = {
        "version",
        "schedule",
        "center_of",
        "names",
        "n_steps",
        "task",
        "n_anchors",
        "weighted",
        "center",
        "omega",
    }
    if keys - set(state) or state["version"] != 2:
        raise ValueError(
            "state is not that of an Anchor of this version; use the result of anchor.state_dict()"
        )
    task = validate.integer("state['task']", state["task"], 1, "tasks are counted from 1")
    validate.integer("state['n_steps']", state["n_steps"], 0, "the number of steps of the task")
    closed = validate.integer(
        "state['n_anchors']", state["n_anchors"], 0, "the number of closed tasks"
    )
    if closed not in (task - 1, task):  # one more with ``start``
        raise ValueError(
            f"state['n_anchors'] must be {task - 1} or {task} in task {task}, got {closed}"
        )
    if state["weighted"] not in ((True, False) if closed else (None,)):
        raise ValueError(
            f"state['weighted'] must be a boolean after the first task, got {state['weighted']!r}"
        )
    if bool(closed) != bool(state["names"]):
        raise ValueError(
            f"state['names'] must name the parameters with a center, got {len(state['names'])}"
            " names"
        )
    for key, names in (
        ("center", state["names"]),
        ("omega", state["names"] if state["weighted"] else ()),
    ):
        lost = [name for name in names if name not in state[key]]
        if lost:
            raise ValueError(
                f"state[{key!r}] lacks {lost[0]!r}; the file is incomplete, or of another model"
            )
        for name, tensor in state[key].items():
            check_tensor(
                f"state[{key!r}][{name!r}]", tensor, params.get(name), nonnegative=key == "omega"
            )


_SAVED = "load it into a model that has grown as far as the saved one", "the file is damaged"


def check_tensor(
    key: str, tensor: Any, p: Any, *, nonnegative: bool, hints: tuple[str, str] = _SAVED
) -> None:
    """Raise ValueError unless a tensor has finite numbers in the shape of the parameter ``p``."""
    if p is None:
        raise ValueError(f"{key} is no parameter of this model that the optimizer holds")
    if not isinstance(tensor, torch.Tensor) or tensor.shape != p.shape:
        shape = tuple(tensor.shape) if isinstance(tensor, torch.Tensor) else type(tensor).__name__
        raise ValueError(f"{key} must have shape {tuple(p.shape)}, got {shape}; {hints[0]}")
    if not bool(torch.isfinite(tensor).all()) or (nonnegative and bool((tensor < 0).any())):
        raise ValueError(
            f"{key} must be {'nonnegative and ' if nonnegative else ''}finite; {hints[1]}"
        )


def warn_if_coarse(params: Iterable[Any], stacklevel: int) -> None:
    """Warn that proximal steps are lost to rounding in weights of 8 or 11 bits."""
    coarse = {p.dtype for p in params} & {torch.bfloat16, torch.float16}
    if coarse:
        bits = 8 if torch.bfloat16 in coarse else 11
        warnings.warn(
            f"weights of {min(map(str, coarse))} lose proximal steps below 2^-{bits} of a weight to"
            " rounding; keep the weights in float32 and use torch.autocast",
            stacklevel=stacklevel + 1,
        )
