"""Hooks around the steps of an optimizer, and the optimizer inside the wrappers of trainers."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from forgetless.torch.models import Tensors


def inner_optimizer(optimizer: Any) -> Any:
    """Return the optimizer inside wrappers such as accelerate's, whose hooks run at every step."""
    while isinstance(getattr(optimizer, "optimizer", None), torch.optim.Optimizer):
        optimizer = optimizer.optimizer
    return optimizer


def held(model: Any, optimizer: Any, *, trained: bool = True) -> Tensors:
    """Return the parameters of a model that an optimizer holds, by name; only those that are
    trained.
    """
    in_optimizer = {id(p) for group in optimizer.param_groups for p in group["params"]}
    named = ((name, p) for name, p in model.named_parameters() if id(p) in in_optimizer)
    params = {name: p for name, p in named if p.requires_grad or not trained}
    if not params:
        kind = "trained parameter" if trained else "parameter"
        raise ValueError(
            f"the optimizer holds no {kind} of the model; make it from model.parameters()"
        )
    return params


def check_rates(optimizer: Any) -> None:
    """Raise TypeError if an optimizer chooses its learning rate itself, so that none is known."""
    if any(group["lr"] is None for group in optimizer.param_groups):
        raise TypeError(
            f"{type(optimizer).__name__} has lr=None and chooses its learning rate itself, so that"
            " neither a proximal step nor a decay can follow it; give lr (relative_step=False), or"
            " use mode='loss' of Anchor, or an average"
        )


class _Hook:
    """A hook of this package, to be recognized among others."""

    def __init__(self, function: Callable[[], None]) -> None:
        # Not traced by torch.compile: λ and the bias corrections of Adam would be constants of the
        # trace.
        self._function = torch.compiler.disable(function)

    def __call__(self, *_: Any) -> None:
        self._function()


class Hooked:
    """Base of classes with hooks on an optimizer."""

    _handles: Sequence[Any] = ()

    def _hook(self, optimizer: Any, before: Callable[[], None], after: Callable[[], None]) -> None:
        """Call functions before and after every step; ValueError if another object does: it would
        regularize twice.
        """
        self.remove()
        if any(isinstance(hook, _Hook) for hook in optimizer._optimizer_step_post_hooks.values()):
            raise ValueError(
                "optimizer has an Anchor or Continual already, and two would regularize twice; call"
                " remove() of the first one before creating another"
            )
        self._handles = [
            optimizer.register_step_pre_hook(_Hook(before)),
            optimizer.register_step_post_hook(_Hook(after)),
        ]

    def remove(self) -> None:
        """Remove the hooks from the optimizer."""
        for handle in self._handles:
            handle.remove()
        self._handles = ()


def check_trained(n_steps: int, task: int, owner: str) -> None:
    """Raise RuntimeError if no step was seen in a task: another optimizer trains the model."""
    if n_steps == 0:
        raise RuntimeError(
            f"task {task} ends without a step of the optimizer that this {owner} follows, so"
            " nothing was regularized; if a trainer created a new optimizer, call"
            f" {owner}.grow(optimizer=optimizer) before it trains; for a task that was learned"
            " elsewhere, call next_task(untrained=True)"
        )
