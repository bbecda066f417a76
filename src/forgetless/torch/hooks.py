"""Hooks around the steps of an optimizer, and the optimizer inside the wrappers of trainers."""

from collections.abc import Callable
from typing import Any

import torch


def inner_optimizer(optimizer: Any) -> Any:
    """Return the optimizer inside wrappers such as accelerate's, whose hooks run at every step."""
    while isinstance(getattr(optimizer, "optimizer", None), torch.optim.Optimizer):
        optimizer = optimizer.optimizer
    return optimizer


class _Hook:
    """A hook of this package, to be recognized among others."""

    def __init__(self, function: Callable[[], None]) -> None:
        # Not traced by torch.compile: λ and the bias corrections of Adam would be constants of the trace.
        self._function = torch.compiler.disable(function)

    def __call__(self, *_: Any) -> None:
        self._function()


class StepHooks:
    """Functions that are called before and after every step of an optimizer, until ``remove()``.

    Raises ValueError if the optimizer has such hooks already: weights would be regularized twice.
    """

    def __init__(self, optimizer: Any, before: Callable[[], None], after: Callable[[], None]) -> None:
        if any(isinstance(hook, _Hook) for hook in optimizer._optimizer_step_post_hooks.values()):
            raise ValueError(
                "optimizer has an Anchor or Continual already, and two would regularize twice; call remove() of the "
                "first one before creating another"
            )
        self._handles = [
            optimizer.register_step_pre_hook(_Hook(before)),
            optimizer.register_step_post_hook(_Hook(after)),
        ]

    def remove(self) -> None:
        """Remove the hooks from the optimizer."""
        for handle in self._handles:
            handle.remove()


def check_trained(n_steps: int | None, task: int, owner: str) -> None:
    """Raise RuntimeError if no step was seen in a task: another optimizer trains the model. None: not counted."""
    if n_steps == 0:
        raise RuntimeError(
            f"task {task} ends without a step of the optimizer that this {owner} follows, so nothing was regularized; "
            f"if a trainer created a new optimizer, call {owner}.grow(optimizer=optimizer) before it trains; for a "
            "task that was learned elsewhere, call next_task(untrained=True)"
        )
