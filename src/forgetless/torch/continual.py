"""Continual fine-tuning: proximal term, step sizes that decrease over tasks, averages of weights,
combinations.
"""

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping
from numbers import Real
from typing import Any

import torch

from forgetless._core import validate
from forgetless.torch.anchor import Anchor
from forgetless.torch.averages import Average, average_of, set_weights
from forgetless.torch.hooks import Hooked, check_rates, check_trained, held, inner_optimizer
from forgetless.torch.models import Tensors, unwrapped
from forgetless.torch.schedules import Strengths, budgets, check_choice, filter_of

_DECAYS: dict[str, Callable[[int, int], float]] = {
    "linear": lambda t, k: (k - t + 2) / (k + 1),
    "minimax": lambda t, k: (k - t + 1) / (k + 1),
    "cosine": lambda t, k: 0.5 * (1 + math.cos(math.pi * (t - 1) / k)),
}
"""Fractions of the learning rate at task t of k; "inverse", c/t, needs no k."""


class Continual(Hooked):
    """Train a network on one task after another: three mechanisms against forgetting, alone or
    combined.

    The training loop is unchanged but for ``next_task()`` after every task. Hooks of the optimizer
    do the rest. No mechanism is best everywhere: docs/deep.md has their scores beside each other,
    ``flt.advise`` compares them on your tasks.

    Parameters
    ----------
    model : torch.nn.Module
        The network. Only parameters that the optimizer holds and that require gradients are
        touched, such as adapters.
    optimizer : torch.optim.Optimizer
        Any for step sizes and averages; for a proximal term as in :class:`Anchor`.
    proximal : number, sequence, callable, schedule or filter, optional
        λ_t of :class:`Anchor`. A number c means c times the number of earlier tasks, the sum of
        online EWC, for any number of tasks; everything else as in ``Anchor``, such as ``lambda t:
        0.1`` for a fixed strength.
    step_size : {"linear", "cosine", "minimax", "inverse"}, ("inverse", c), sequence, callable or
    schedule, optional
        Factor of all learning rates at task t: (k − t + 2)/(k + 1), ½(1 + cos π(t − 1)/k), (k − t +
        1)/(k + 1); min(1, c/t) from the second task on, c = 1 if omitted; numbers, t ↦ factor, or
        min(λ)/λ_t of a schedule. Learning-rate schedulers within tasks are left alone.
    average : {"moving", "mean", "merge"} or (name, number), optional
        ``"moving"``: average of all steps, ``("moving", n)`` with a time constant of n steps;
        ``"mean"``: of the weights at the ends of tasks; both are evaluated in
        ``averaged_weights()`` and do not enter training. ``("merge", c)``: w ← w₀ + min(1, c/t)(w −
        w₀) at the end of task t, w₀ the weights before it; c = 1 if omitted.
    n_tasks : int, optional
        k, which ``"linear"``, ``"cosine"``, ``"minimax"`` and schedules of step sizes need.
    **options
        ``start=True`` for a pretrained network, which then counts as the first task; ``beyond``;
        for the proximal term ``center`` and ``metric``, all as in :class:`Anchor`.

    Attributes
    ----------
    task, n_steps : int
        The task that is being learned, from 1, and steps of the optimizer in it.
    anchor : Anchor or None
        The proximal term.

    Examples
    --------
    >>> import torch
    >>> import forgetless.torch as flt
    >>> net = torch.nn.Linear(3, 1)
    >>> optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    >>> continual = flt.Continual(net, optimizer, proximal=0.1, average="moving")
    >>> for x, y in [(torch.randn(8, 3), torch.randn(8, 1)) for _ in range(3)]:
    ...     for _ in range(20):
    ...         optimizer.zero_grad()
    ...         torch.nn.functional.mse_loss(net(x), y).backward()
    ...         optimizer.step()
    ...     continual.next_task()
    >>> with continual.averaged_weights():
    ...     prediction = net(x)
    >>> continual
    Continual(3 tasks learned, proximal, average='moving')

    References
    ----------
    Levinstein et al. (2025); Schwarz et al. (2018), online EWC; Polyak & Juditsky (1992), averages
    of iterates; Wortsman et al. (2022), interpolation of fine-tuned weights.
    """

    def __init__(
        self,
        model: Any,
        optimizer: Any,
        *,
        proximal: Any = None,
        step_size: Any = None,
        average: Any = None,
        n_tasks: int | None = None,
        **options: Any,
    ) -> None:
        if proximal is None and step_size is None and average is None:
            raise ValueError("Continual needs a mechanism: give proximal, step_size or average")
        start, self.beyond = options.get("start", False), options.get("beyond", "error")
        check_choice("beyond", self.beyond, ("error", "hold"))
        self.task, self.n_steps = 1, 0
        self._fractions = _fractions(step_size, n_tasks, bool(start))
        self._rates: list[tuple[dict[str, Any], Any]] = []
        self.anchor: Anchor | None = None
        if proximal is not None:
            schedule = _linear(proximal, bool(start)) if _is_number(proximal) else proximal
            horizon = None if _is_number(proximal) else n_tasks
            self.anchor = Anchor(model, optimizer, schedule, horizon, mode="manual", **options)
        elif others := set(options) - {"start", "beyond"}:
            raise TypeError(f"{min(others)!r} is an option of the proximal term; give proximal")
        self._trained: tuple[tuple[int, ...], Tensors] | None = None
        self._average: Average | None = None
        self.model, self.optimizer = unwrapped(model), inner_optimizer(optimizer)
        self._average = average_of(average, self._params(), pretrained=bool(start))
        self._bind(self.model, self.optimizer)  # last, so that an error leaves no hook behind

    @property
    def fraction(self) -> float:
        """The factor of the learning rates at the present task."""
        return 1.0 if self._fractions is None else self._fractions.at(self.task, self.beyond)

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def next_task(self, importance: Any = None, *, untrained: bool = False) -> None:
        """Close a task.

        Raises RuntimeError if the optimizer made no step in it: trainers may have created another
        one. After an error, such as one in ``importance``, the task is still open and weights are
        not merged.

        Parameters
        ----------
        importance : dict of tensors by parameter name, or callable, optional
            Ω of the proximal term, such as ``flt.fisher(model, loader)``; for every task or for
            none. A function without arguments is called after weights were merged.
        untrained : bool, default False
            Whether the task was learned elsewhere, or not at all.
        """
        if not untrained:
            check_trained(self.n_steps, self.task, "continual")
        if importance is not None and self.anchor is None:
            raise ValueError(
                "importance belongs to the proximal term; give proximal, or leave importance out"
            )
        undo = None if self._average is None else self._average.close(self._params())
        try:
            if callable(importance):
                with torch.enable_grad():
                    importance = importance()
            if self.anchor is not None:
                self.anchor.next_task(importance, untrained=True)
        except BaseException:
            if undo is not None:
                undo()
            raise
        self.task, self.n_steps = self.task + 1, 0
        self._trained = None  # layers may be frozen or thawed between tasks

    @contextlib.contextmanager
    def averaged_weights(self) -> Iterator[None]:
        """Evaluate the model with averaged weights; those of training are back afterwards.

        Without an average they are the weights of training. Statistics of normalization layers are
        not averaged.
        """
        if self._average is None:
            yield
            return
        params = self._params()
        last = {name: p.detach().clone() for name, p in params.items()}
        set_weights(params, self._average.weights(params, self.n_steps))
        try:
            yield
        finally:
            set_weights(params, last)

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def grow(self, model: Any = None, optimizer: Any = None) -> None:
        """Follow a new optimizer, or a model whose layers have grown, as ``Anchor.grow``."""
        model = self.model if model is None else unwrapped(model)
        optimizer = self.optimizer if optimizer is None else optimizer
        if self.anchor is not None:
            self.anchor.grow(model, optimizer)
        self._bind(model, optimizer)
        self._params()

    def state_dict(self) -> dict[str, Any]:
        """Return the state of a run to be resumed: numbers, strings and tensors by parameter
        name.
        """
        return {
            "version": 1,
            "task": self.task,
            "n_steps": self.n_steps,
            "fractions": [self._fraction(t) for t in range(1, self.task + 1)],
            "anchor": None if self.anchor is None else self.anchor.state_dict(),
            "average": None if self._average is None else self._average.state(),
        }

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume from ``state_dict``, for any number of tasks; ValueError names what is damaged or
        differs.
        """
        keys = {"version", "task", "n_steps", "fractions", "anchor", "average"}
        if keys - set(state) or state["version"] != 1:
            raise ValueError(
                "state is not that of a Continual of this version; use the result of state_dict()"
            )
        task = validate.integer("state['task']", state["task"], 1, "tasks are counted from 1")
        n_steps = validate.integer(
            "state['n_steps']", state["n_steps"], 0, "the number of steps of the task"
        )
        for name, own in (("anchor", self.anchor), ("average", self._average)):
            if (state[name] is None) != (own is None):
                raise ValueError(
                    f"state[{name!r}] is {'missing' if own else 'there'}; create it with the same"
                    " mechanisms"
                )
        if list(state["fractions"]) != [self._fraction(t) for t in range(1, task + 1)]:
            raise ValueError(
                "state['fractions'] are of another step_size; create it with the one it was saved"
                " with"
            )
        if self._average is not None:
            self._average.check(state["average"], self._params())
        if self.anchor is not None:
            self.anchor.load_state_dict(state["anchor"])
        if self._average is not None:
            self._average.load(state["average"])
        self.task, self.n_steps = task, n_steps

    def __repr__(self) -> str:
        parts = [f"{self.task - 1} tasks learned"]
        if self.anchor is not None:
            parts.append("proximal")
        if self._fractions is not None:
            parts.append(f"step size × {self._fraction(self.task):.3g}")
        if self._average is not None:
            parts.append(f"average={self._average.name!r}")
        return f"Continual({', '.join(parts)})"

    def _bind(self, model: Any, optimizer: Any) -> None:
        self.model, self.optimizer = model, inner_optimizer(optimizer)
        if self._fractions is not None:
            check_rates(self.optimizer)
        self._hook(self.optimizer, self._before_step, self._after_step)
        self._trained = None

    def _before_step(self) -> None:
        if self.anchor is not None:
            self.anchor.check_horizon()
        self._restore_rates()  # left over where a step was interrupted
        if self._fractions is not None:
            fraction = self.fraction
            self._rates = [(group, group["lr"]) for group in self.optimizer.param_groups]
            for group, rate in self._rates:
                group["lr"] = rate * fraction

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def _after_step(self) -> None:
        self.n_steps += 1
        if self.anchor is not None:
            self.anchor.step()  # with the learning rate of the step
        self._restore_rates()
        if self._average is not None:
            self._average.step(self._params())

    def _restore_rates(self) -> None:
        for group, rate in self._rates:
            group["lr"] = rate
        self._rates = []

    def _fraction(self, task: int) -> float:
        return 1.0 if self._fractions is None else self._fractions.at(task, "hold")

    def _params(self) -> Tensors:
        """Return the parameters that are trained, by name; looked up again once a group was
        added.
        """
        sizes = tuple(len(group["params"]) for group in self.optimizer.param_groups)
        if self._trained is None or self._trained[0] != sizes:
            params = held(self.model, self.optimizer)
            if self._average is not None:
                self._average.follow(params)
            self._trained = sizes, params
        return self._trained[1]


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _linear(c: Any, pretrained: bool) -> Callable[[int], float]:
    """Return λ_t = c times the number of tasks learned before task t."""
    scale = validate.number("proximal", c, "a strength per earlier task", positive=False)
    return lambda t: scale * (t if pretrained else t - 1)


def _fractions(step_size: Any, n_tasks: int | None, pretrained: bool) -> Strengths | None:
    if step_size is None:
        return None
    if isinstance(step_size, str):
        check_choice("step_size", step_size, (*_DECAYS, "inverse"))
        step_size = ("inverse", 1.0) if step_size == "inverse" else step_size
    if isinstance(step_size, tuple | list) and len(step_size) == 2 and step_size[0] == "inverse":
        c = validate.number("step_size", step_size[1], "c of min(1, c/t)", positive=True)
        return Strengths(
            lambda t: min(1.0, c / (t + pretrained)) if t + pretrained > 1 else 1.0, None
        )
    if not isinstance(step_size, str) and filter_of(step_size, n_tasks or 1) is None:
        return Strengths(step_size, None if callable(step_size) else n_tasks)
    if n_tasks is None:
        raise ValueError(
            f"step_size={step_size!r} needs n_tasks; where the number of tasks is unknown use"
            " step_size=('inverse', c), or an average"
        )
    k = validate.integer("n_tasks", n_tasks, 1, "the number of tasks of the whole sequence")
    if isinstance(step_size, str):
        return Strengths([_DECAYS[step_size](t, k) for t in range(1, k + 1)], k)
    return Strengths(budgets(step_size, k), k)
