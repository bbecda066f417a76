"""What an anchor is given from outside, checked: importances and saved states."""

import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import torch


def check_importance(importance: Mapping[str, Any], params: Mapping[str, Any], known: Collection[str]) -> None:
    """Refuse importances of other parameters, of other shapes, negative or not finite."""
    if not isinstance(importance, Mapping):
        raise TypeError(
            f"importance must be a dictionary of tensors by parameter name, got {type(importance).__name__}"
        )
    strangers = [name for name in importance if name not in known]
    if strangers:
        raise ValueError(
            f"importance names {strangers[0]!r}, which is no parameter of the model; use named_parameters()"
        )
    for name, p in params.items():
        given = importance.get(name)
        if given is None:
            if p.requires_grad:
                raise ValueError(f"importance lacks {name!r}; give a tensor for every parameter that is trained")
            continue
        if given.shape != p.shape:
            raise ValueError(
                f"importance of {name!r} has shape {tuple(given.shape)}, the parameter {tuple(p.shape)}; compute it "
                "for the model as it is now"
            )
        if not bool(((given >= 0) & torch.isfinite(given)).all()):
            raise ValueError(
                f"importance of {name!r} must be nonnegative and finite; look for diverged weights or data"
            )


def check_state(state: Mapping[str, Any], lambdas: Sequence[float], pull: str, params: Mapping[str, Any]) -> None:
    """Refuse a saved state that belongs to another schedule, pull or model."""
    missing = {"version", "schedule", "pull", "task", "n_anchors", "weighted", "center", "omega"} - set(state)
    if missing or state["version"] != 1:
        raise ValueError("state is not that of an Anchor of this version; use what anchor.state_dict() returned")
    if list(state["schedule"]) != list(lambdas):
        raise ValueError(
            f"the saved schedule has {len(state['schedule'])} strengths from {state['schedule'][0]:.6g} to "
            f"{state['schedule'][-1]:.6g}, this one {len(lambdas)} from {lambdas[0]:.6g} to {lambdas[-1]:.6g}; make "
            "the anchor with the schedule it was saved with"
        )
    if state["pull"] != pull:
        raise ValueError(f"the saved anchor has pull={state['pull']!r}, this one pull={pull!r}; make it with the same")
    for name, center in state["center"].items():
        if name not in params:
            raise ValueError(f"the saved anchor holds {name!r}, which the optimizer of this model does not")
        for tensor in (center, state["omega"].get(name, center)):
            if tensor.shape != params[name].shape:
                raise ValueError(
                    f"the saved anchor has {name!r} of shape {tuple(tensor.shape)}, the model "
                    f"{tuple(params[name].shape)}; load it into a model that has grown as far as the saved one"
                )


def warn_if_coarse(params: Iterable[Any], stacklevel: int) -> None:
    """Say that weights of 8 or 11 bits swallow small pulls."""
    coarse = {p.dtype for p in params} & {torch.bfloat16, torch.float16}
    if coarse:
        bits = 8 if torch.bfloat16 in coarse else 11
        warnings.warn(
            f"weights of {min(map(str, coarse))} round a pull by less than 2^-{bits} of a weight away; keep the "
            "weights in float32 and use torch.autocast",
            stacklevel=stacklevel + 1,
        )
