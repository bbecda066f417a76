"""``Continual``: mechanisms around the steps of whichever optimizer trains a model.

torch has hooks before and after the steps of all optimizers: where one steps parameters of the
model, every mechanism is called before and after, in the order of ranks. Parameters are known by
name, and are looked up again at the end of a task and when another optimizer comes.
"""

import contextlib
import warnings
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.optim import optimizer as optimizers

from forgetless import _validate as validate
from forgetless.torch.mechanism import Mechanism, Tensors, copies, set_weights, unwrapped

_ALIVE: "weakref.WeakSet[Continual]" = weakref.WeakSet()
"""Objects with hooks: two on one model would act twice."""


class Continual:
    """Train a network on one task after another: ``next_task(data)`` after every task.

    Your training loop stays as it is. Every optimizer of torch that steps parameters of the model
    is followed, so that a new optimizer for every task, those of trainers, parameter groups,
    accumulated gradients, autocast, clipping, ``torch.compile`` and data parallelism need nothing.
    Only parameters that require gradients are touched, such as adapters. New layers and layers that
    grow are followed; what is new is free in its first task.

    Parameters
    ----------
    model : torch.nn.Module
        The network; wrappers of ``torch.compile`` and data parallelism are looked through.
    mechanisms : sequence of Mechanism, or Mechanism
        ``Proximal``, ``StepSize``, ``Average``, ``Merge`` or your own, at most one of each, in any
        order. An empty list does nothing, for comparison.
    optimizer : torch.optim.Optimizer, optional
        Follow this one only. If it is wrapped, as by accelerate, give the optimizer inside. All
        that step the model are followed if omitted.
    pretrained : bool or data, default False
        True: the present weights count as those of task 1, and training begins with task 2.
        Importances of a pretrained network need data, as in ``next_task``.

    Attributes
    ----------
    task, n_steps : int
        The task that is being learned, from 1, and the optimizer steps in it so far.
    params : dict
        Parameters that are trained, by name.

    Examples
    --------
    >>> import torch
    >>> import forgetless.torch as flt
    >>> net = torch.nn.Linear(3, 2)
    >>> continual = flt.Continual(net, [flt.Average(2), flt.Proximal(1 / 8, flt.fisher)])
    >>> for x in torch.randn(3, 8, 3):
    ...     optimizer = torch.optim.Adam(net.parameters())
    ...     torch.nn.functional.cross_entropy(net(x), x.argmax(1) % 2).backward()
    ...     optimizer.step()
    ...     continual.next_task(x)
    >>> with continual.evaluation():
    ...     prediction = net(x)
    >>> continual
    Continual(task 4, [flt.Proximal(0.125, importance=flt.fisher), flt.Average(2)])
    """

    def __init__(
        self,
        model: Any,
        mechanisms: Sequence[Mechanism] | Mechanism,
        *,
        optimizer: Any = None,
        pretrained: Any = False,
    ) -> None:
        if not isinstance(optimizer, torch.optim.Optimizer | None):
            raise TypeError(
                f"optimizer must be an optimizer of torch or None, got {optimizer!r}; leave it out,"
                " or give one that is made, such as torch.optim.Adam(model.parameters())"
            )
        self.model = unwrapped(model)
        self.mechanisms = _ordered(mechanisms)
        self.task = 1
        self.n_steps = 0
        # During a step: 0 on its device if a GradScaler may skip it and does, 1 if not; else None.
        self.kept: Any = None
        self._only = optimizer
        # Of the step under way: each group with its learning rate, and the optimizer.
        self._rates: list[Any] = []
        self._stepping: Any = None
        self._warned = False
        if any(other.model is self.model for other in _ALIVE):
            raise ValueError(
                "model has a Continual already, and two would act twice; call remove() of the first"
            )
        self._look_up()
        if not self.params:
            raise ValueError("model has no parameter with requires_grad, so there is nothing to do")
        if pretrained is not False:
            self._close(None if pretrained is True else pretrained)
        self._hook()

    def next_task(self, data: Any = None) -> None:
        """Close a task; an error, also an interruption, leaves everything as it was before.

        Parameters
        ----------
        data : optional
            What importances are computed from, such as the loader of the task.
        """
        if self.n_steps == 0:
            raise RuntimeError(
                f"no optimizer has stepped this model in task {self.task}, so that no mechanism has"
                " acted; was another model trained, a copy of this one, or one whose parameters are"
                " flattened (FSDP, DeepSpeed)?"
            )
        self._warn_of_statistics()
        self._close(data)

    @contextlib.contextmanager
    def evaluation(self) -> Iterator[None]:
        """Evaluate with the weights of ``Average`` or ``Merge``; those of training come back.

        Without these two they are the weights of training. Statistics of normalization layers are
        not averaged.
        """
        self._look_up()
        with torch.no_grad():
            shown: Tensors = {}
            # In the order of ranks: beside merging, an average is what is shown.
            for mechanism in self.mechanisms:
                shown |= mechanism.evaluated(self)
        last = copies({name: self.params[name] for name in shown})
        set_weights(self.params, shown)
        try:
            yield
        finally:
            set_weights(self.params, last)

    def state_dict(self) -> dict[str, Any]:
        """Return numbers and tensors by parameter name; a resumed run is equal bit for bit."""
        self._look_up()
        return {
            "task": self.task,
            "n_steps": self.n_steps,
            "mechanisms": [mechanism.state_dict() for mechanism in self.mechanisms],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume, also within a task.

        ValueError, and nothing changed, for a state of other mechanisms or of another model.
        """
        if not {"task", "n_steps", "mechanisms"} <= set(state):
            raise ValueError(
                f"state must be that of a Continual, got keys {sorted(state)}; use state_dict()"
            )
        task = validate.integer("state['task']", state["task"], 1, "tasks are counted from 1")
        n_steps = validate.integer("state['n_steps']", state["n_steps"], 0, "steps of the task")
        self._check(state["mechanisms"])
        # All of it was checked: from here on nothing fails half-way.
        for mechanism, own in zip(self.mechanisms, state["mechanisms"], strict=True):
            mechanism.load_state_dict(own)
        self.task = task
        self.n_steps = n_steps
        self._look_up()

    def remove(self) -> None:
        """Stop following optimizers; the object can still be saved and evaluated."""
        _ALIVE.discard(self)
        for finalizer in self._finalizers:
            finalizer()

    def groups(self, optimizer: Any) -> Iterator[tuple[Any, Tensors]]:
        """Yield parameter groups and, by name, parameters of the model that the step changes."""
        # torch leaves a parameter without a gradient as it is, and so do mechanisms.
        for group in optimizer.param_groups:
            changed = [p for p in group["params"] if p.grad is not None and p.requires_grad]
            named = [self._named[id(p)] for p in changed if id(p) in self._named]
            yield group, dict(named)

    def __repr__(self) -> str:
        # An importance that is a mechanism, too, is shown by its Proximal: what is printed is code.
        shown = [each for each in self.mechanisms if not callable(each)]
        return f"Continual(task {self.task}, {shown})"

    def _close(self, data: Any) -> None:
        self._look_up()
        weights = copies(self.params)
        before = [dict(vars(mechanism)) for mechanism in self.mechanisms]
        try:
            with torch.no_grad():
                for mechanism in self.mechanisms:
                    mechanism.end_task(self, data)
        except BaseException:
            # Mechanisms assign new objects, so that the old attributes are still what they were.
            set_weights(self.params, weights)
            for mechanism, attributes in zip(self.mechanisms, before, strict=True):
                vars(mechanism).update(attributes)
            raise
        self.task += 1
        self.n_steps = 0

    def _look_up(self) -> None:
        """Look up the parameters, and let the mechanisms follow them: layers may be frozen, thawed,
        added or grown between tasks.
        """
        # The parameter itself beside its name, so that it lives and its id stays its own.
        self._named = {id(p): (name, p) for name, p in self.model.named_parameters()}
        self.params = {name: p for name, p in self._named.values() if p.requires_grad}
        # By optimizer the ids of its parameters when they were looked up.
        self._known: Any = weakref.WeakKeyDictionary()
        for mechanism in self.mechanisms:
            mechanism.follow(self.params)

    def _check(self, states: Sequence[Mapping[str, Any]]) -> None:
        """Raise ValueError unless saved states are of these mechanisms and of this model."""
        # Of every mechanism its class, and the names of what it saves.
        own = [(type(each).__name__, {*each.state, "kind"}) for each in self.mechanisms]
        saved = [(each["kind"], {*each}) for each in states]
        if saved != own:
            raise ValueError(
                f"state['mechanisms'] are {[kind for kind, _ in saved]}, those of this Continual"
                f" {[kind for kind, _ in own]}; make it with the mechanisms it was saved with"
            )
        params = dict(self.model.named_parameters())
        for state in states:
            for key, tensors in state.items():
                if not isinstance(tensors, dict):
                    continue
                for name, tensor in tensors.items():
                    where = f"state of {state['kind']}, {key}[{name!r}]"
                    if name not in params:
                        raise ValueError(f"{where} is of no parameter; load it into the same model")
                    shape = tuple(params[name].shape)
                    if tensor.ndim and tuple(tensor.shape) != shape:
                        raise ValueError(
                            f"{where} must have shape {shape}, got {tuple(tensor.shape)}; load it"
                            " into a model that has grown as far as the saved one"
                        )
                    if not bool(tensor.isfinite().all()):
                        raise ValueError(f"{where} must be finite; the file is damaged")

    def _warn_of_statistics(self) -> None:
        if self._warned:
            return
        self._warned = True
        for name, module in self.model.named_modules():
            if module.training and getattr(module, "running_mean", None) is not None:
                warnings.warn(
                    f"running statistics, first of {name!r}, follow the data of every task,"
                    " whatever the weights do; call eval() of such layers after model.train()",
                    stacklevel=3,
                )
                return

    def _hook(self) -> None:
        """Ask torch for calls around the steps of all optimizers, while this object lives."""
        # The hooks hold this object weakly, and with it the model; they go when it goes.
        own = weakref.ref(self)
        # A trace would hold λ as a constant. Its tools are imported here, where optimizers have
        # imported them anyway, and not with this module: they take seconds.
        call = torch.compiler.disable(_call)
        before = optimizers.register_optimizer_step_pre_hook
        after = optimizers.register_optimizer_step_post_hook
        handles = (
            before(lambda optimizer, *_: call(own, "before", optimizer)),
            after(lambda optimizer, *_: call(own, "after", optimizer)),
        )
        self._finalizers = [weakref.finalize(self, handle.remove) for handle in handles]
        _ALIVE.add(self)
        for mechanism in self.mechanisms:
            mechanism.in_use = True

    def _before(self, optimizer: Any) -> None:
        self._restore()  # what a step that failed has left
        if self._only not in (None, optimizer):
            return
        # A new optimizer, or one with other parameters, may come with a model that has changed.
        held = [id(p) for group in optimizer.param_groups for p in group["params"]]
        if self._known.get(optimizer) != held:
            self._look_up()
            self._known[optimizer] = held
        if not any(each in self._named for each in held):
            return
        self._stepping = optimizer
        # For the time of the step StepSize may change the rates.
        self._rates = [(group, group["lr"]) for group in optimizer.param_groups]
        for mechanism in self.mechanisms:
            mechanism.before_step(self, optimizer)

    def _after(self, optimizer: Any) -> None:
        # Of wrappers that step another optimizer inside, the inner step counts.
        if self._stepping is not optimizer:
            return
        # A GradScaler lets fused optimizers find infinite gradients by themselves. Where it counts
        # them on a device, that number stays there: the host does not wait.
        overflow = getattr(optimizer, "found_inf", None)
        if overflow is not None:
            self.kept = 1.0 - overflow.clamp(max=1.0)
        if overflow is None or overflow.device.type != "cpu" or not overflow.item():
            self.n_steps += 1
            for mechanism in self.mechanisms:
                mechanism.after_step(self, optimizer)
        self._restore()

    def _restore(self) -> None:
        for group, rate in self._rates:
            group["lr"] = rate
        self._rates = []
        self._stepping = None
        self.kept = None


def _ordered(mechanisms: Any) -> list[Mechanism]:
    """Return mechanisms in the order of a step, with the importances that are mechanisms, too."""
    if isinstance(mechanisms, Mechanism):
        mechanisms = [mechanisms]
    for each in mechanisms:
        if not isinstance(each, Mechanism):
            raise TypeError(
                f"mechanisms must be a list of Proximal, StepSize, Average, Merge or your own"
                f" Mechanism, got {each!r}; give [flt.Proximal(1/8, flt.fisher)]"
            )
        if each.in_use:
            raise ValueError(
                f"{each} has learned in another Continual; give every Continual mechanisms of its"
                " own"
            )
    # Synaptic intelligence follows the steps, so that it is a mechanism of its own.
    paths = [getattr(each, "importance", None) for each in mechanisms]
    every = [*mechanisms, *(path for path in paths if isinstance(path, Mechanism))]
    if len({type(each) for each in every}) < len(every):
        raise ValueError(f"mechanisms must be of different kinds, got {list(mechanisms)}")
    return sorted(every, key=lambda each: each.rank)


def _call(reference: Any, place: str, optimizer: Any) -> None:
    run = reference()
    if run is None:
        return
    try:
        with torch.no_grad():
            getattr(run, f"_{place}")(optimizer)
    except BaseException:
        run._restore()
        raise
