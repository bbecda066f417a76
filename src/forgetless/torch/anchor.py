"""Proximal regularization towards the weights of earlier tasks, for any network and training loop."""

from collections.abc import Mapping
from typing import Any

import torch

from forgetless._core import validate
from forgetless.torch._proximal import Adaptive, Bucket, Plan, Scalar, metric_of
from forgetless.torch.models import Tensors, check_importance, check_state, unwrapped, warn_if_coarse, warn_if_tracking
from forgetless.torch.schedules import at_task, check_choice, strengths


class Anchor:
    """Regularize a network towards its weights after earlier tasks by a proximal step after every optimizer step.

    Training converges to ∇loss + λ_t Ω(w − a) = 0 with every optimizer: the hook makes a proximal step in the metric in
    which the optimizer itself steps, w ← w + s(a − w) with s = γλΩ/(D + γλΩ), γ the learning rate, D = (1 − μ)/(1 −
    dampening) for SGD and √v̂ + ε for Adam and AdamW. It is stable for every λ and does not enter gradients,
    their clipping or accumulation. It corresponds to the penalty ½λ_t ΣΩ(w − a)² added to the loss, usually a mean over
    rows. The first task is not regularized.

    Parameters
    ----------
    model : torch.nn.Module
        The network; wrappers of ``torch.compile`` and data parallelism are looked through.
    optimizer : torch.optim.Optimizer
        SGD, Adam or AdamW in all their variants; others with ``mode="loss"``. Parameters that it does not hold are not
        regularized.
    schedule : number, sequence, callable, schedule or filter
        λ_t: one number; ``n_tasks`` numbers; t ↦ λ_t, t from 1; or any explicit schedule of forgetless, taken at
        radius 1, so that its ``scale`` is λ in the unit of the loss's curvature.
    n_tasks : int
        k, the horizon.
    mode : {"proximal", "loss", "manual"}, default "proximal"
        ``"loss"``: no hook; add ``anchor.penalty()`` to the loss yourself. It is unstable where γλΩ/D exceeds about 2.
        ``"manual"``: no hook; call ``anchor.step()`` after the optimizer's.
    metric : {"auto", "decoupled"}, default "auto"
        ``"decoupled"`` takes D = 1 for any optimizer; the resting point then depends on the optimizer.
    center : {"previous", "all"}, default "previous"
        The weights after the previous task (the paper), or the mean of one quadratic for every earlier task
        (elastic weight consolidation), which takes as much memory.
    start : bool or dict, default False
        True regularizes the first task as well, towards the present weights: a pretrained network, or the paper's w₀. A
        dictionary gives their importance.
    beyond : {"error", "hold"}, default "error"
        What a training step after ``n_tasks`` tasks does: raise before the weights change, or continue with the last λ.

    Attributes
    ----------
    task : int
        The task that is being learned, from 1.
    lambdas : tuple of float
        λ_1..λ_k.

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

    def __init__(
        self,
        model: Any,
        optimizer: Any,
        schedule: Any,
        n_tasks: int,
        *,
        mode: str = "proximal",
        metric: str = "auto",
        center: str = "previous",
        start: bool | Mapping[str, Any] = False,
        beyond: str = "error",
    ) -> None:
        n_tasks = validate.integer("n_tasks", n_tasks, 1, "give the number of tasks of the whole sequence")
        self.lambdas = strengths(schedule, n_tasks)
        self.mode = check_choice("mode", mode, ("proximal", "loss", "manual"))
        self.metric = check_choice("metric", metric, ("auto", "decoupled"))
        self.center = check_choice("center", center, ("previous", "all"))
        self.beyond = check_choice("beyond", beyond, ("error", "hold"))
        self.task = 1
        self._n_anchors = 0
        self._weighted: bool | None = None
        self._center: Tensors = {}
        self._omega: Tensors = {}  # a name that is missing here has Ω = 1
        self._warned = False
        self._handles: list[Any] = []
        self._plan: Plan | None = None
        self._bind(unwrapped(model), optimizer)
        warn_if_coarse(self._params().values(), stacklevel=3)
        if start is not False:
            self._close(None if start is True else start)

    @property
    def strength(self) -> float:
        """λ of the task that is being learned; 0 while there is no center yet."""
        return at_task(self.lambdas, self.task, self.beyond) if self._center else 0.0

    def step(self) -> None:
        """Make one proximal step; called after every optimizer step in ``mode="proximal"``."""
        strength = self.strength
        if strength == 0.0:
            return
        if self._own is None:
            raise RuntimeError("mode='loss' makes no proximal step; add anchor.penalty() to the loss")
        overflow, scale = getattr(self.optimizer, "found_inf", None), None
        if overflow is not None:  # set by a GradScaler; fused optimizers then skip the step themselves
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
                f"mode={self.mode!r} makes a proximal step, so a penalty would count twice; use mode='loss'"
            )
        strength, total = self.strength, None
        for name, p in self._params().items():
            if name in self._center and p.requires_grad:
                change = (p - self._shaped(name, p)).square()
                part = (change * self._omega[name] if name in self._omega else change).sum()
                total = part if total is None else total + part.to(total.device)
        if total is None:
            return torch.zeros((), device=next(iter(self._params().values())).device)
        return 0.5 * strength * total

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def next_task(self, importance: Mapping[str, Any] | None = None) -> None:
        """Close a task: its weights become the center of the next ones.

        Parameters
        ----------
        importance : dict of tensors by parameter name, optional
            Nonnegative weights, such as ``flt.fisher(model, loader)``; Ω is their mean over tasks. Give them for every
            task or for none (Ω = 1).
        """
        if not self._warned:
            self._warned = True
            warn_if_tracking(self.model, stacklevel=3)
        self._close(importance)
        self.task += 1

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def grow(self, model: Any = None, optimizer: Any = None) -> None:
        """Follow a model whose layers have grown, or that has a new optimizer; new entries have Ω = 0.

        A parameter keeps its name and grows along its dimensions, old entries first. The importance of new entries
        counts from the next call of ``next_task`` on, as a mean over all tasks.
        """
        self._bind(
            self.model if model is None else unwrapped(model), self.optimizer if optimizer is None else optimizer
        )
        params = self._params()
        self._center = {name: center for name, center in self._center.items() if name in params}
        self._omega = {name: omega for name, omega in self._omega.items() if name in params}
        for name, p in params.items():
            center = self._center.get(name)
            if center is not None and center.shape != p.shape:
                omega = self._omega.get(name)
                self._omega[name] = grown(torch.ones_like(center) if omega is None else omega, p, name)
                self._center[name] = grown(center, p, name)

    def remove(self) -> None:
        """Remove the hooks from the optimizer."""
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def state_dict(self) -> dict[str, Any]:
        """Return the state of a run to be resumed: numbers, strings and tensors by parameter name."""
        return {
            "version": 1,
            "schedule": list(self.lambdas),
            "center_of": self.center,
            "task": self.task,
            "n_anchors": self._n_anchors,
            "weighted": self._weighted,
            "center": dict(self._center),
            "omega": dict(self._omega),
        }

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume from ``state_dict``; ValueError if the schedule, the kind of center or a shape differs."""
        params = self._params()
        check_state(state, self.lambdas, self.center, params)

        def beside(tensors: Mapping[str, Any]) -> Tensors:
            return {
                name: t.detach().to(params[name].device, params[name].dtype, copy=True) for name, t in tensors.items()
            }

        self._center, self._omega = beside(state["center"]), beside(state["omega"])
        self.task, self._n_anchors, self._weighted = state["task"], state["n_anchors"], state["weighted"]
        self._plan = None

    def __repr__(self) -> str:
        low, high = min(self.lambdas), max(self.lambdas)
        span = f"λ from {low:.3g} to {high:.3g}" if low < high else f"λ = {low:.3g}"
        return f"Anchor({self.task - 1} of {len(self.lambdas)} tasks learned, center={self.center!r}, {span})"

    def _bind(self, model: Any, optimizer: Any) -> None:
        step_metric = None if self.mode == "loss" else metric_of(optimizer, self.metric)
        self.remove()
        self.model, self.optimizer = model, optimizer
        self._own: Scalar | Adaptive | None = step_metric
        self._plan = None
        if self.mode == "proximal":
            # Before the step, so that past the horizon the weights are unchanged.
            self._handles.append(optimizer.register_step_pre_hook(lambda *_: self._check_horizon()))
            # Not traced by torch.compile: λ and the bias corrections of Adam would be constants of the trace.
            proximal_step = torch.compiler.disable(self.step)
            self._handles.append(optimizer.register_step_post_hook(lambda *_: proximal_step()))

    def _check_horizon(self) -> None:
        at_task(self.lambdas, self.task, self.beyond)

    def _close(self, importance: Mapping[str, Any] | None) -> None:
        params = self._anchored()
        if self._weighted is (importance is None):
            had = "had" if self._weighted else "had no"
            raise ValueError(f"earlier tasks {had} importances; give the importance of every task, or of none")
        if importance is not None:
            check_importance(importance, params, {name for name, _ in self.model.named_parameters()})
        n, centers, omegas = self._n_anchors + 1, {}, {}
        for name, p in params.items():
            weight = None
            if importance is not None:  # frozen parameters may be left out: they did not affect the loss
                weight = importance.get(name)
                weight = torch.zeros_like(p) if weight is None else weight.detach().to(p.device, p.dtype, copy=True)
            center = self._shaped(name, p) if name in self._center else None
            centers[name], omega = joined(center, self._omega.get(name), p.detach(), weight, n, self.center)
            if omega is not None:
                omegas[name] = omega
        self._center, self._omega, self._n_anchors = centers, omegas, n
        self._weighted, self._plan = importance is not None, None

    def _params(self) -> Tensors:
        """Return the parameters of the model that the optimizer holds, by name."""
        in_optimizer = {id(p) for group in self.optimizer.param_groups for p in group["params"]}
        params = {name: p for name, p in self.model.named_parameters() if id(p) in in_optimizer}
        if not params:
            raise ValueError("the optimizer holds no parameter of the model; make it from model.parameters()")
        return params

    def _anchored(self) -> Tensors:
        """Return ``_params``; ValueError if a parameter with a center was replaced."""
        params = self._params()
        replaced = [name for name in self._center if name not in params]
        if replaced:
            raise ValueError(
                f"{replaced[0]} is anchored, and the optimizer does not hold the model's parameter of this name; after "
                "a layer was replaced or left out, create a new optimizer and call anchor.grow(optimizer=optimizer)"
            )
        return params

    def _shaped(self, name: str, p: Any) -> Any:
        center = self._center[name]
        if center.shape != p.shape:
            raise ValueError(
                f"{name} had shape {tuple(center.shape)} and has {tuple(p.shape)}; call anchor.grow() once a layer "
                "has grown"
            )
        return center

    def _planned(self) -> list[Bucket]:
        groups = self.optimizer.param_groups
        if self._plan is None or not self._plan.fits(groups):
            params = self._anchored()
            centers = {name: self._shaped(name, params[name]) for name in self._center}
            names = {id(params[name]): name for name in centers}
            self._plan = Plan(groups, names, centers, self._omega)
        return self._plan.buckets


def joined(center: Any, omega: Any, w: Any, importance: Any, n: int, kind: str) -> tuple[Any, Any]:
    """Return center and Ω after the n-th task, whose weights are ``w``; an Ω or importance of None is all ones.

    Ω is the mean of the importances. Quadratics with diagonal weights F_i add up to one around ΣF_i a_i / ΣF_i, which
    is the center of ``kind="all"``; that of ``"previous"`` is the last weights.
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
    return torch.lerp(center, w.detach(), weight if isinstance(weight, float) else weight.to(w.dtype)), mean


def grown(old: Any, like: Any, name: str) -> Any:
    """Return zeros of the new shape with the old values in the corner where each index begins."""
    if old.ndim != like.ndim or any(a > b for a, b in zip(old.shape, like.shape, strict=True)):
        raise ValueError(
            f"{name} had shape {tuple(old.shape)} and has {tuple(like.shape)}; it may grow along its dimensions, the "
            "old entries first, and not shrink"
        )
    result = torch.zeros_like(like, requires_grad=False)
    result[tuple(slice(0, n) for n in old.shape)] = old.to(device=result.device, dtype=result.dtype)
    return result
