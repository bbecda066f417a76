"""Proximal regularization towards the weights of earlier tasks, for any network and training
loop.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch

from forgetless.torch import models
from forgetless.torch._metrics import metric_of
from forgetless.torch._proximal import Bucket, Plan, Scalar
from forgetless.torch.hooks import Hooked, check_trained, held, inner_optimizer
from forgetless.torch.models import Tensors, check_importance, grown, unwrapped
from forgetless.torch.schedules import Strengths, check_choice, check_schedule


class _State(NamedTuple):
    """What an anchor has learned; replaced by one assignment, so that an interruption leaves the
    old one or the new.
    """

    task: int  # the task that is being learned
    n_anchors: int  # tasks that the center stands for, one more than those closed with ``start``
    weighted: bool | None  # whether tasks have importances; None before the first
    center: Tensors
    omega: Tensors  # a name that is missing here has Ω = 1


class Anchor(Hooked):
    """Regularize a network towards its weights after earlier tasks by a proximal step after every
    optimizer step.

    Training converges to ∇loss + λ_t Ω(w − a) = 0 with every optimizer: the hook makes a proximal
    step in the metric in which the optimizer itself steps, w ← w + s(a − w) with s = γλΩ/(D + γλΩ),
    γ the learning rate, D = (1 − μ)/(1 − dampening) for SGD and √v̂ + ε for Adam and AdamW. It is
    stable for every λ and does not enter gradients, their clipping or accumulation. It corresponds
    to the penalty ½λ_t ΣΩ(w − a)² added to the loss, usually a mean over rows. The first task is
    not regularized.

    Parameters
    ----------
    model : torch.nn.Module
        The network; wrappers of ``torch.compile`` and data parallelism are looked through.
    optimizer : torch.optim.Optimizer
        SGD, Adam, AdamW, NAdam, RAdam, RMSprop or Adagrad in all their variants; others with
        ``metric="decoupled"`` or ``mode="loss"``. Parameters that it does not hold are not
        regularized. Accelerate's wrapper is looked through.
    schedule : number, sequence, callable, schedule or filter
        λ_t: one number; ``n_tasks`` numbers; t ↦ λ_t, t from 1; or any explicit schedule of
        forgetless, taken at radius 1, so that its ``scale`` is λ in the unit of the loss's
        curvature. Find the scale with ``flt.advise`` first: one that is too large stops the network
        from learning.
    n_tasks : int, optional
        k, the horizon. If omitted, a schedule of forgetless is applied in epochs of doubling length
        to any number of tasks, a heuristic without a theorem; a number or a function of t needs
        none.
    mode : {"proximal", "loss", "manual"}, default "proximal"
        ``"loss"``: no hook; add ``anchor.penalty()`` to the loss yourself. It is unstable where
        γλΩ/D exceeds about 2. ``"manual"``: no hook; call ``anchor.step()`` after the optimizer's.
    metric : {"auto", "decoupled"}, default "auto"
        ``"decoupled"`` takes D = 1 for any optimizer; the resting point then depends on the
        optimizer.
    center : {"previous", "all"}, default "previous"
        The weights after the previous task (the paper), or the mean of one quadratic for every
        earlier task (elastic weight consolidation), which takes as much memory.
    start : bool or dict, default False
        True regularizes the first task as well, towards the present weights: a pretrained network,
        or the paper's w₀. A dictionary gives their importance.
    beyond : {"error", "hold"}, default "error"
        What a training step after ``n_tasks`` tasks does: raise before the weights change, or
        continue with the last λ.

    Attributes
    ----------
    task : int
        The task that is being learned, from 1.
    lambdas : tuple of float
        λ_1..λ_k; without ``n_tasks`` those of the tasks so far.

    Examples
    --------
    >>> import torch
    >>> import forgetless as fl, forgetless.torch as flt
    >>> net = torch.nn.Linear(3, 1)
    >>> optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    >>> anchor = flt.Anchor(net, optimizer, fl.schedules.increasing(scale=1.0), n_tasks=3)
    >>> for x, y in [(torch.randn(8, 3), torch.randn(8, 1)) for _ in range(3)]:
    ...     for _ in range(20):
    ...         optimizer.zero_grad()
    ...         torch.nn.functional.mse_loss(net(x), y).backward()
    ...         optimizer.step()
    ...     anchor.next_task()
    >>> anchor
    Anchor(3 of 3 tasks learned, center='previous', λ from 1 to 2)

    References
    ----------
    Levinstein et al. (2025), Algorithm 1; Kirkpatrick et al. (2017), elastic weight consolidation.
    """

    def __init__(  # noqa: PLR0913
        self,
        model: Any,
        optimizer: Any,
        schedule: Any,
        n_tasks: int | None = None,
        *,
        mode: str = "proximal",
        metric: str = "auto",
        center: str = "previous",
        start: bool | Mapping[str, Any] = False,
        beyond: str = "error",
    ) -> None:
        self._strengths = Strengths(schedule, n_tasks)
        self.mode = check_choice("mode", mode, ("proximal", "loss", "manual"))
        self.metric = check_choice("metric", metric, ("auto", "decoupled"))
        self.center = check_choice("center", center, ("previous", "all"))
        self.beyond = check_choice("beyond", beyond, ("error", "hold"))
        self._state = _State(1, 0, None, {}, {})
        self._warned = False
        self._n_steps = 0  # proximal steps, or penalties, of the task
        self._plan: tuple[Plan, _State] | None = None
        self._bind(unwrapped(model), optimizer)
        models.warn_if_coarse(self._params().values(), stacklevel=3)
        if start is not False:
            self._state = self._closed(None if start is True else start)

    @property
    def task(self) -> int:
        """The task that is being learned, from 1."""
        return self._state.task

    @property
    def lambdas(self) -> tuple[float, ...]:
        """λ of all tasks; without ``n_tasks`` of those so far."""
        return self._strengths.first(self.task)

    @property
    def strength(self) -> float:
        """λ of the task that is being learned; 0 while there is no center yet."""
        return self._strengths.at(self.task, self.beyond) if self._state.center else 0.0

    def step(self) -> None:
        """Make one proximal step; called after every optimizer step in ``mode="proximal"``."""
        strength = self.strength
        self._n_steps += 1
        if strength == 0.0:
            return
        if self._own is None:
            raise RuntimeError(
                "mode='loss' makes no proximal step; add anchor.penalty() to the loss"
            )
        overflow, scale = getattr(self.optimizer, "found_inf", None), None
        # set by a GradScaler; fused optimizers then skip the step themselves
        if overflow is not None:
            if overflow.device.type != "cpu":
                scale = 1.0 - overflow.clamp(max=1.0)  # a sum over devices
            elif overflow.item():
                return
        with torch.no_grad():
            for bucket in self._planned():
                updated = bucket.updated()
                if updated is not None:
                    self._own.apply(self.optimizer, updated, strength, scale)

    def penalty(self) -> Any:
        """Return ½λΣΩ(w − a)², a tensor to be added to the loss in ``mode="loss"``."""
        if self.mode != "loss":
            raise RuntimeError(
                f"mode={self.mode!r} makes a proximal step, so a penalty would count twice; use"
                " mode='loss'"
            )
        self._n_steps += 1
        strength, total, (_, _, _, center, omega) = self.strength, None, self._state
        for name, p in self._anchored().items():
            if name in center and p.requires_grad:
                change = (p - center[name]).square()
                part = (change * omega[name] if name in omega else change).sum()
                total = part if total is None else total + part.to(total.device)
        if total is None:
            return torch.zeros((), device=next(iter(self._params().values())).device)
        return 0.5 * strength * total

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def next_task(
        self, importance: Mapping[str, Any] | None = None, *, untrained: bool = False
    ) -> None:
        """Close a task: its weights become the center of the next ones.

        Raises RuntimeError if no step was made in it: another optimizer has trained the model.

        Parameters
        ----------
        importance : dict of tensors by parameter name, optional
            Nonnegative weights, such as ``flt.fisher(model, loader)``; Ω is their mean over tasks.
            Give them for every task or for none (Ω = 1).
        untrained : bool, default False
            Whether the task was learned without this anchor, or not at all.
        """
        state = self._closed(importance)
        if not untrained and (self.mode == "proximal" or self.strength > 0):
            check_trained(self._n_steps, self.task, "anchor")
        if not self._warned:
            self._warned = True
            models.warn_if_tracking(self.model, stacklevel=3)
        self._state, self._n_steps = state._replace(task=state.task + 1), 0

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def grow(self, model: Any = None, optimizer: Any = None) -> None:
        """Follow a model whose layers have grown, or that has a new optimizer; new entries have Ω =
        0.

        A parameter keeps its name and grows along its dimensions, old entries first. The importance
        of new entries counts from the next call of ``next_task`` on, as a mean over all tasks.
        """
        model = self.model if model is None else unwrapped(model)
        self._bind(model, self.optimizer if optimizer is None else optimizer)
        params, state = self._params(), self._state
        centers = {name: center for name, center in state.center.items() if name in params}
        omegas = {name: omega for name, omega in state.omega.items() if name in params}
        for name, p in params.items():
            center = centers.get(name)
            if center is not None and center.shape != p.shape:
                omega = omegas.get(name)
                omegas[name] = grown(
                    torch.ones_like(center) if omega is None else omega, torch.zeros_like(p), name
                )
                centers[name] = grown(center, torch.zeros_like(p), name)
        self._state = state._replace(center=centers, omega=omegas)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of a run to be resumed: numbers, strings and tensors by parameter
        name.
        """
        state = self._state
        return {
            "version": 2,
            "schedule": list(self.lambdas),
            "center_of": self.center,
            "names": list(state.center),
            "n_steps": self._n_steps,
            **state._asdict(),
            "center": dict(state.center),
            "omega": dict(state.omega),
        }

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume from ``state_dict``; ValueError names what is damaged, or differs from this anchor
        and its model.
        """
        params = self._params()
        models.check_state(state, params)
        if state["center_of"] != self.center:
            raise ValueError(
                f"the saved anchor has center={state['center_of']!r}, this one"
                f" center={self.center!r}"
            )
        check_schedule(state["schedule"], self._strengths, state["task"])

        center, omega = (
            {
                name: t.detach().to(params[name].device, params[name].dtype, copy=True)
                for name, t in state[key].items()
            }
            for key in ("center", "omega")
        )
        self._state = _State(state["task"], state["n_anchors"], state["weighted"], center, omega)
        self._n_steps = state["n_steps"]

    def __repr__(self) -> str:
        low, high = min(self.lambdas), max(self.lambdas)
        span = f"λ from {low:.3g} to {high:.3g}" if low < high else f"λ = {low:.3g}"
        horizon = "" if self._strengths.n_tasks is None else f" of {self._strengths.n_tasks}"
        return f"Anchor({self.task - 1}{horizon} tasks learned, center={self.center!r}, {span})"

    def _bind(self, model: Any, optimizer: Any) -> None:
        optimizer = inner_optimizer(optimizer)
        step_metric = None if self.mode == "loss" else metric_of(optimizer, self.metric)
        self.remove()
        self.model, self.optimizer = model, optimizer
        self._own: Scalar | None = step_metric
        self._plan = None
        if self.mode == "proximal":
            # Before the step, so that past the horizon the weights are unchanged.
            self._hook(optimizer, self.check_horizon, self.step)

    def check_horizon(self) -> None:
        """Raise ValueError if the task is beyond the horizon."""
        self._strengths.at(self.task, self.beyond)

    def _closed(self, importance: Mapping[str, Any] | None) -> _State:
        """Return the state with the present weights as those of one more task, whose number is
        unchanged.
        """
        params, state = self._anchored(), self._state
        if state.weighted is (importance is None):
            had = "had" if state.weighted else "had no"
            raise ValueError(
                f"earlier tasks {had} importances; give that of every task, and of a pretrained"
                " network by start=…, or of none"
            )
        if importance is not None:
            check_importance(
                importance, params, {name for name, _ in self.model.named_parameters()}
            )
        n, centers, omegas = state.n_anchors + 1, {}, {}
        for name, p in params.items():
            weight = None
            # frozen parameters may be left out: they did not affect the loss
            if importance is not None:
                weight = importance.get(name)
                weight = (
                    torch.zeros_like(p)
                    if weight is None
                    else weight.detach().to(p.device, p.dtype, copy=True)
                )
            centers[name], omega = joined(
                state.center.get(name), state.omega.get(name), p.detach(), weight, n, self.center
            )
            if omega is not None:
                omegas[name] = omega
        return _State(state.task, n, importance is not None, centers, omegas)

    def _params(self) -> Tensors:
        """Return the parameters of the model that the optimizer holds, by name."""
        return held(self.model, self.optimizer, trained=False)

    def _anchored(self) -> Tensors:
        """Return ``_params``; ValueError if a parameter with a center was replaced, or has
        grown.
        """
        params = self._params()
        for name, center in self._state.center.items():
            if name not in params:
                raise ValueError(
                    f"{name} is anchored, and the optimizer does not hold the model's parameter of"
                    " this name; after a layer was replaced or left out, create a new optimizer"
                    " and call anchor.grow(optimizer=optimizer)"
                )
            if center.shape != params[name].shape:
                raise ValueError(
                    f"{name} had shape {tuple(center.shape)} and has {tuple(params[name].shape)};"
                    " call anchor.grow() once a layer has grown"
                )
        return params

    def _planned(self) -> list[Bucket]:
        groups, state = self.optimizer.param_groups, self._state
        if self._plan is None or self._plan[1] is not state or not self._plan[0].fits(groups):
            names = {id(p): name for name, p in self._anchored().items() if name in state.center}
            self._plan = Plan(groups, names, state.center, state.omega), state
        return self._plan[0].buckets


def joined(center: Any, omega: Any, w: Any, importance: Any, n: int, kind: str) -> tuple[Any, Any]:
    """Return center and Ω after the n-th task, whose weights are ``w``; an Ω or importance of None
    is all ones.

    Ω is the mean of the importances. Quadratics with diagonal weights F_i add up to one around ΣF_i
    a_i / ΣF_i, which is the center of ``kind="all"``; that of ``"previous"`` is the last weights.
    """
    if center is None and n > 1:  # a new parameter had no importance for earlier tasks
        center, omega = w, torch.zeros_like(w)
    if omega is None and importance is None:
        mean, weight = None, 1.0 / n
    elif n == 1:
        mean, weight = importance, 1.0
    else:
        before = torch.ones_like(w) if omega is None else omega
        now = torch.ones_like(w) if importance is None else importance
        mean = torch.lerp(before, now, 1.0 / n)
        weight = torch.where(mean > 0, now / n / mean, 1.0).clamp_(max=1.0)
    if kind == "previous" or center is None:
        return w.detach().clone(), mean
    return (
        torch.lerp(center, w.detach(), weight if isinstance(weight, float) else weight.to(w.dtype)),
        mean,
    )
