"""Averages of weights over steps and over tasks: moving average, mean of task ends, merging."""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch

from forgetless._core import validate
from forgetless.torch.models import Tensors, check_tensor, grown
from forgetless.torch.schedules import check_choice


class Average:
    """Tensors by parameter name beside the weights: ``step`` after every optimizer step, ``close``
    after every task.

    ``count`` is the number of steps, or of tasks, that the tensors stand for; a pretrained network
    counts as a task.
    """

    name: str

    def __init__(self, params: Tensors, scale: float | None, n_learned: int) -> None:
        self.scale, self.count = scale, n_learned
        self.tensors = {name: _precise(p) for name, p in params.items()}

    def follow(self, params: Tensors) -> None:
        """Follow parameters that are new or have grown: new entries begin with their present
        values.
        """
        for name, p in params.items():
            old = self.tensors.get(name)
            if old is None or old.shape != p.shape:
                self.tensors[name] = _precise(p) if old is None else grown(old, _precise(p), name)
        self.tensors = {name: self.tensors[name] for name in params}

    def step(self, params: Tensors) -> None:
        """Include the weights after a step, where steps count."""

    def close(self, params: Tensors) -> Callable[[], None]:
        """Include the weights after a task, where tasks count; merging changes the weights. Returns
        what undoes it.
        """
        return lambda: None

    def weights(self, params: Tensors, n_steps: int | None) -> Tensors:
        """Return the weights to be evaluated after ``n_steps`` steps of a task, as if it ended now.

        Those are the tensors; the weights themselves as long as nothing was included.
        """
        return self.tensors if self.count else params

    def _set(self, tensors: Tensors, count: int) -> None:
        self.tensors, self.count = tensors, count

    def _lerp(self, params: Tensors, weight: float) -> None:
        tensors = [self.tensors[name] for name in params]
        weights = [
            p.detach().to(tensor.dtype) for p, tensor in zip(params.values(), tensors, strict=True)
        ]
        torch._foreach_lerp_(tensors, weights, weight)

    def state(self) -> dict[str, Any]:
        """Return numbers and tensors."""
        return {
            "kind": self.name,
            "scale": self.scale,
            "count": self.count,
            "tensors": {name: tensor.clone() for name, tensor in self.tensors.items()},
        }

    def check(self, state: Mapping[str, Any], params: Tensors) -> None:
        """Raise ValueError if a saved state is damaged, or of another kind or model."""
        if (state["kind"], state["scale"]) != (self.name, self.scale):
            raise ValueError(
                f"the saved average is {(state['kind'], state['scale'])}, this one"
                f" {(self.name, self.scale)}; give the same average"
            )
        validate.integer(
            "state['average']['count']", state["count"], 0, "a number of steps or tasks"
        )
        lost = [name for name in params if name not in state["tensors"]]
        if lost:
            raise ValueError(
                f"state['average']['tensors'] lacks {lost[0]!r}; load it into the same model"
            )
        for name, tensor in state["tensors"].items():
            check_tensor(
                f"state['average']['tensors'][{name!r}]",
                tensor,
                params.get(name),
                nonnegative=False,
            )

    def load(self, state: Mapping[str, Any]) -> None:
        """Resume from ``state()``, once it was checked."""
        self.count = int(state["count"])
        self.tensors = {
            name: state["tensors"][name].to(own.device, own.dtype, copy=True)
            for name, own in self.tensors.items()
        }


class MovingAverage(Average):
    """The mean of all steps until there are ``scale`` of them, then an exponential average with
    that time constant.
    """

    name = "moving"

    def step(self, params: Tensors) -> None:
        """Include the weights after a step."""
        self.count += 1
        rate = 0.0 if self.scale is None else -math.expm1(-1.0 / self.scale)
        self._lerp(params, max(rate, 1.0 / self.count))


class TaskMean(Average):
    """The mean of the weights at the ends of all tasks, of a pretrained network also those before
    the first.
    """

    name = "mean"

    def close(self, params: Tensors) -> Callable[[], None]:
        """Include the weights at the end of a task."""
        undo = partial(self._set, self.tensors, self.count)
        self._set({name: tensor.clone() for name, tensor in self.tensors.items()}, self.count + 1)
        self._lerp(params, 1.0 / self.count)
        return undo

    def weights(self, params: Tensors, n_steps: int | None) -> Tensors:
        """Return the mean; within a task the one that includes the present weights."""
        if n_steps == 0 and self.count:
            return self.tensors
        return {
            name: torch.lerp(self.tensors[name], _precise(p), 1.0 / (self.count + 1))
            for name, p in params.items()
        }


class Merge(Average):
    """w ← w₀ + α(w − w₀) at the end of task t, w₀ the weights at its start, α = min(1, c/t), c =
    ``scale``.

    With c = 1 the weights are the mean over all tasks of what each of them was trained to. A
    pretrained network counts as one task more. Tensors are w₀.
    """

    name = "merge"

    def close(self, params: Tensors) -> Callable[[], None]:
        """Merge the weights at the end of a task, in place."""
        before = {name: p.detach().clone() for name, p in params.items()}, self.tensors, self.count
        merged = self.weights(params, None)
        set_weights(params, merged)
        self._set(merged, self.count + 1)

        def undo() -> None:
            set_weights(params, before[0])
            self._set(*before[1:])

        return undo

    def weights(self, params: Tensors, n_steps: int | None) -> Tensors:
        """Return the merged weights."""
        assert self.scale is not None
        if not self.count:  # the first task of a new network is free, as with a proximal term
            return {name: _precise(p) for name, p in params.items()}
        share = min(1.0, self.scale / (self.count + 1))
        return {
            name: torch.lerp(self.tensors[name], _precise(p), share) for name, p in params.items()
        }


@torch.no_grad()  # type: ignore[untyped-decorator]
def set_weights(params: Tensors, weights: Tensors) -> None:
    """Copy weights into the parameters of these names."""
    for name, weight in weights.items():
        params[name].copy_(weight)


def average_of(average: Any, params: Tensors, *, pretrained: bool) -> Average | None:
    """Return the average of a name, or of a name and a number."""
    if average is None:
        return None
    kinds = {kind.name: kind for kind in (MovingAverage, TaskMean, Merge)}
    name, scale = (average, None) if isinstance(average, str) else average
    kind = kinds[check_choice("average", name, tuple(kinds))]
    if scale is not None:
        if kind is TaskMean:
            raise ValueError(f"average='mean' takes no number, got {scale!r}")
        scale = validate.number(
            "average", scale, "steps of a moving average, c of merging", positive=True
        )
    elif kind is Merge:
        scale = 1.0
    return kind(params, scale, int(pretrained and kind is not MovingAverage))


def _precise(p: Any) -> Any:
    """Return a copy of a weight, in float32 if it has fewer bits: small steps would be lost to
    rounding.
    """
    p = p.detach()
    return p.float() if p.dtype in (torch.float16, torch.bfloat16) else p.clone()
