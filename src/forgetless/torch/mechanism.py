"""``Mechanism``, the base of all mechanisms: hooks around steps and tasks, and a state that is
saved, follows parameters to other devices and grows with them; and what mechanisms share: values
that change from task to task, copies of weights, and how they are printed.
"""

import copy
import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar

import torch

Tensors = dict[str, Any]
"""Tensors by the name of a parameter."""

Schedule = Callable[[int], float]
"""A function of the task t = 1, 2, 3 and so on: λ_t of ``Proximal``, the factor of ``StepSize``."""


class Mechanism:
    """Equations around optimizer steps and at the ends of tasks; override what yours needs.

    ``run`` is the :class:`~forgetless.torch.Continual` that calls: ``run.task`` is the number of
    the task, ``run.params`` are the trained parameters by name, ``run.groups(optimizer)`` those
    that a step changes. Gradients are off. Learning rates that are changed before a step are
    restored after it; weights and attributes are restored where ``next_task`` fails. After a step
    ``run.kept`` is None, or for fused optimizers under a ``GradScaler`` a tensor on their device: 0
    if the step was skipped, else 1. On the processor nothing is called after a skipped step.

    Attributes
    ----------
    rank : int
        Mechanisms are called in the order of their ranks, whatever the order of the list: step
        sizes 0, merging 1, paths 2, proximal terms 3, averages 4.
    state : tuple of str
        Names of attributes that are saved: numbers, and dictionaries of tensors by parameter name.

    Examples
    --------
    Weights that never leave [−1, 1]:

    >>> import torch
    >>> import forgetless.torch as flt
    >>> class Clamp(flt.Mechanism):
    ...     def after_step(self, run, optimizer):
    ...         for p in run.params.values():
    ...             p.clamp_(-1, 1)
    >>> net = torch.nn.Linear(1, 1, bias=False)
    >>> continual = flt.Continual(net, [Clamp()])
    >>> net(torch.ones(1, 1)).sum().backward()
    >>> torch.optim.SGD(net.parameters(), lr=9.0).step()
    >>> net.weight.item()
    -1.0
    """

    rank: ClassVar[int] = 3
    state: ClassVar[tuple[str, ...]] = ()
    in_use = False

    def before_step(self, run: Any, optimizer: Any) -> None:
        """Act before an optimizer step; an error here leaves the weights as they are."""

    def after_step(self, run: Any, optimizer: Any) -> None:
        """Act after it; the weights may be changed in place."""

    def end_task(self, run: Any, data: Any) -> None:
        """Act in ``next_task(data)``; assign new objects to attributes, which can be undone."""

    def evaluated(self, run: Any) -> Tensors:
        """Return the weights of ``continual.evaluation()`` that differ from those of training."""
        return {}

    def new_entries(self, key: str, p: Any) -> Any:
        """Return what the tensor ``key`` has at new entries of a parameter: its present values."""
        return p.detach().clone()

    def follow(self, params: Mapping[str, Any]) -> None:
        """Move tensors to the devices of their parameters, and let them grow with these.

        They also get as many bits as a parameter that has more: ``model.float()``.
        """
        for key in self.state:
            tensors = getattr(self, key)
            if not isinstance(tensors, dict):
                continue
            for name in tensors.keys() & params.keys():
                tensor = tensors[name]
                p = params[name]
                # A number stands for all entries of its parameter.
                if tensor.ndim and tensor.shape != p.shape:
                    tensor = _grown(name, tensor, self.new_entries(key, p))
                # No step may be lost to rounding that the parameter itself would show.
                dtype = torch.promote_types(tensor.dtype, p.dtype)
                tensors[name] = tensor.to(p.device, dtype)

    def state_dict(self) -> dict[str, Any]:
        """Return a copy of the state, with the name of the class as ``kind``."""
        saved = {key: getattr(self, key) for key in self.state}
        saved["kind"] = type(self).__name__
        return copy.deepcopy(saved)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over a state."""
        for key in self.state:
            setattr(self, key, copy.deepcopy(state[key]))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


def unwrapped(model: Any) -> Any:
    """Return the module inside ``torch.compile`` and data-parallel wrappers."""
    wrappers = torch.nn.DataParallel, torch.nn.parallel.DistributedDataParallel
    while True:
        if hasattr(model, "_orig_mod"):
            model = model._orig_mod
        elif isinstance(model, wrappers):
            model = model.module
        else:
            return model


def check_rates(optimizer: Any) -> None:
    """Raise TypeError if an optimizer chooses its learning rate itself, so that none is known."""
    if any(group["lr"] is None for group in optimizer.param_groups):
        raise TypeError(
            f"{type(optimizer).__name__} has lr=None and chooses its learning rate itself, so that"
            " Proximal and StepSize cannot follow it; give lr (Adafactor: relative_step=False), or"
            " use Average or Merge"
        )


def precise(p: Any) -> Any:
    """Return a copy of a weight, in float32 if it has fewer bits: small steps would be lost."""
    dtype = torch.promote_types(p.dtype, torch.float32)
    return p.detach().to(dtype, copy=True)


def copies(params: Mapping[str, Any]) -> Tensors:
    """Return a copy of every parameter."""
    return {name: p.detach().clone() for name, p in params.items()}


def zeros(params: Mapping[str, Any]) -> Tensors:
    """Return a tensor of zeros like every parameter."""
    return {name: torch.zeros_like(p) for name, p in params.items()}


def set_weights(params: Mapping[str, Any], weights: Mapping[str, Any]) -> None:
    """Copy weights into the parameters of these names."""
    with torch.no_grad():
        for name, weight in weights.items():
            params[name].copy_(weight)


def name_of(function: Any) -> str:
    """Return how a function is written in code, such as ``flt.mas`` or ``partial(flt.mas, …)``."""
    if isinstance(function, partial):
        options = ", ".join(f"{key}={value!r}" for key, value in function.keywords.items())
        return f"partial({name_of(function.func)}, {options})"
    if not hasattr(function, "__name__"):
        return repr(function)
    # The names of this package are typed as those of the examples.
    prefix = "flt." if str(function.__module__).startswith("forgetless.torch") else ""
    return f"{prefix}{function.__name__}"


def _grown(name: str, old: Any, new: Any) -> Any:
    """Return ``new`` with the old values in the corner where every index begins."""
    fits = old.ndim == new.ndim and all(a <= b for a, b in zip(old.shape, new.shape, strict=True))
    if not fits:
        raise ValueError(
            f"{name!r} had shape {tuple(old.shape)} and has {tuple(new.shape)}; a layer may grow"
            " along its dimensions, the old entries first, and not shrink; give another layer"
            " another name"
        )
    new = new.to(old.device, old.dtype)
    corner = tuple(slice(0, n) for n in old.shape)
    new[corner] = old
    return new


# --- schedules ---


def per_task(name: str, schedule: Any) -> Schedule:
    """Return a schedule that checks its values: finite and nonnegative numbers.

    ``schedule`` is a function of the task, or a list of numbers; ``name`` is for errors.
    """
    if callable(schedule):
        function = schedule
    elif hasattr(schedule, "__len__") and not isinstance(schedule, str):
        function = planned(len(schedule), lambda t: schedule[t - 1])
    else:
        raise TypeError(
            f"{name} must be a function of the task t = 1, 2, …, or a list with one number per"
            f" task, got {schedule!r}; Proximal also takes one number, such as 1/8, and a factor of"
            " StepSize for all tasks is lambda t: 0.5"
        )

    def checked(t: int) -> float:
        value = float(function(t))
        if not 0 <= value < math.inf:
            raise ValueError(
                f"{name} is {value} at task {t}; it must be finite and nonnegative at every task"
            )
        return value

    # What is wrong from the start is said at the start.
    checked(1)
    return checked


def planned(n_tasks: int, function: Schedule) -> Schedule:
    """Return a schedule of ``n_tasks`` values function(t); past its end a training step raises an
    error before it changes the weights.
    """

    def schedule(t: int) -> float:
        if t > n_tasks:
            raise ValueError(
                f"task {t} is beyond the {n_tasks} tasks of the schedule; plan more tasks, or hold"
                f" the last value by lambda t: schedule(min(t, {n_tasks}))"
            )
        return function(t)

    return schedule
