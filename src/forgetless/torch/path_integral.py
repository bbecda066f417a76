"""Importance of every weight from the path of training: synaptic intelligence."""

from collections.abc import Mapping
from typing import Any

import torch

from forgetless._core import validate
from forgetless.torch.hooks import Hooked, held, inner_optimizer
from forgetless.torch.models import Tensors, unwrapped


class PathIntegral(Hooked):
    """Sum −g·Δw over the steps of a task, by hooks of the optimizer; ``importance()`` closes the
    task.

    The importance is max(0, Σ −g·Δw) / ((w_end − w_start)² + damping). Δw is the optimizer's own
    movement and g the gradient it used (clipped, if it was), without regularization: an ``Anchor``
    on the same optimizer acts later, in whichever order they were created.

    Parameters
    ----------
    model : torch.nn.Module
    optimizer : torch.optim.Optimizer
    damping : float, default 0.1
        Keeps the importance of a weight that hardly moved small.

    Examples
    --------
    >>> import torch
    >>> import forgetless.torch as flt
    >>> net = torch.nn.Linear(2, 1, bias=False)
    >>> _ = torch.nn.init.zeros_(net.weight)
    >>> optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
    >>> path = flt.PathIntegral(net, optimizer)
    >>> net(torch.tensor([[2.0, 0.0]])).sum().backward()  # g = (2, 0), Δw = (−1, 0)
    >>> optimizer.step()
    >>> round(path.importance()["weight"][0, 0].item(), 4)  # 2 / (1 + 0.1)
    1.8182

    References
    ----------
    Zenke, Poole & Ganguli (2017). They sum over tasks; ``Anchor`` takes the mean, and the schedule
    grows.
    """

    def __init__(self, model: Any, optimizer: Any, damping: float = 0.1) -> None:
        self.model, self.optimizer = unwrapped(model), inner_optimizer(optimizer)
        self.damping = validate.number("damping", damping, "0.1 is usual", positive=True)
        before = self.optimizer.register_step_pre_hook(lambda *_: self._before())
        after = self.optimizer.register_step_post_hook(lambda *_: self._after())
        # Ahead of the proximal step of an anchor that was created earlier.
        self.optimizer._optimizer_step_post_hooks.move_to_end(after.id, last=False)
        self._handles = [before, after]
        self._reset()

    def _reset(self) -> None:
        params = self._params()
        self._path = {name: torch.zeros_like(p) for name, p in params.items()}
        self._start = {name: p.detach().clone() for name, p in params.items()}
        self._old: Tensors = {}

    def _params(self) -> Tensors:
        return held(self.model, self.optimizer)

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def _before(self) -> None:
        self._old = {name: p.clone() for name, p in self._params().items() if p.grad is not None}

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def _after(self) -> None:
        # A scaler lets fused optimizers run into gradients that are not finite, and they then stay
        # where they are.
        skipping = getattr(self.optimizer, "found_inf", None) is not None
        for name, p in self._params().items():
            old = self._old.pop(name, None)
            if old is None:
                continue
            # grown since the task began
            if name not in self._path or self._path[name].shape != p.shape:
                self._path[name], self._start[name] = torch.zeros_like(p), old
            change = old.sub_(p) if self._start[name] is not old else old - p
            gradient = torch.where(change == 0, 0.0, p.grad) if skipping else p.grad
            self._path[name].addcmul_(gradient, change)

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def importance(self) -> Tensors:
        """Return the importance of the task that ends here, by parameter name, and begin the
        next.
        """
        importances = {}
        for name, p in self._params().items():
            if name in self._path and self._path[name].shape == p.shape:
                squared_change = (p - self._start[name]).square_()
                importances[name] = (
                    self._path[name].clamp(min=0).div_(squared_change.add_(self.damping))
                )
            else:
                importances[name] = torch.zeros_like(p)
        self._reset()
        return importances

    def state_dict(self) -> dict[str, Any]:
        """Return the path so far, to resume within a task."""
        parts = {"path": self._path, "start": self._start}
        return {
            key: {name: t.clone() for name, t in tensors.items()} for key, tensors in parts.items()
        }

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume from ``state_dict``."""
        params = self._params()
        for name, p in params.items():
            if name not in state["path"] or state["path"][name].shape != p.shape:
                raise ValueError(
                    f"state['path'] lacks {name!r} of shape {tuple(p.shape)}; load it into the same"
                    " model"
                )
        self._path, self._start = (
            {name: state[key][name].to(p.device, p.dtype, copy=True) for name, p in params.items()}
            for key in ("path", "start")
        )
