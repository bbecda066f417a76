"""Validation of importances and saved states."""

import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import torch


def check_importance(importance: Mapping[str, Any], params: Mapping[str, Any], names: Collection[str]) -> None:
    """Raise if importances are of other parameters or shapes, negative or not finite."""
    if not isinstance(importance, Mapping):
        raise TypeError(
            f"importance must be a dictionary of tensors by parameter name, got {type(importance).__name__}"
        )
    unknown = [name for name in importance if name not in names]
    if unknown:
        raise ValueError(f"importance names {unknown[0]!r}, which is no parameter of the model; use named_parameters()")
    for name, p in params.items():
        weight = importance.get(name)
        if weight is None:
            if p.requires_grad:
                raise ValueError(f"importance lacks {name!r}; give a tensor for every parameter that is trained")
            continue
        if weight.shape != p.shape:
            raise ValueError(
                f"importance of {name!r} has shape {tuple(weight.shape)}, the parameter {tuple(p.shape)}; compute it "
                "for the model as it is now"
            )
        if not bool(((weight >= 0) & torch.isfinite(weight)).all()):
            raise ValueError(
                f"importance of {name!r} must be nonnegative and finite; look for diverged weights or data"
            )


def check_state(state: Mapping[str, Any], lambdas: Sequence[float], center: str, params: Mapping[str, Any]) -> None:
    """Raise if a saved state belongs to another schedule, kind of center or model."""
    missing = {"version", "schedule", "center_of", "task", "n_anchors", "weighted", "center", "omega"} - set(state)
    if missing or state["version"] != 1:
        raise ValueError("state is not that of an Anchor of this version; use the result of anchor.state_dict()")
    if list(state["schedule"]) != list(lambdas):
        raise ValueError(
            f"the saved schedule has {len(state['schedule'])} strengths from {state['schedule'][0]:.6g} to "
            f"{state['schedule'][-1]:.6g}, this one {len(lambdas)} from {lambdas[0]:.6g} to {lambdas[-1]:.6g}; make "
            "the anchor with the schedule it was saved with"
        )
    if state["center_of"] != center:
        raise ValueError(f"the saved anchor has center={state['center_of']!r}, this one center={center!r}")
    for name, saved in state["center"].items():
        if name not in params:
            raise ValueError(f"the saved anchor holds {name!r}, which the optimizer of this model does not")
        for tensor in (saved, state["omega"].get(name, saved)):
            if tensor.shape != params[name].shape:
                raise ValueError(
                    f"the saved anchor has {name!r} of shape {tuple(tensor.shape)}, the model "
                    f"{tuple(params[name].shape)}; load it into a model that has grown as far as the saved one"
                )


def warn_if_coarse(params: Iterable[Any], stacklevel: int) -> None:
    """Warn that proximal steps are lost to rounding in weights of 8 or 11 bits."""
    coarse = {p.dtype for p in params} & {torch.bfloat16, torch.float16}
    if coarse:
        bits = 8 if torch.bfloat16 in coarse else 11
        warnings.warn(
            f"weights of {min(map(str, coarse))} lose proximal steps below 2^-{bits} of a weight to rounding; keep the "
            "weights in float32 and use torch.autocast",
            stacklevel=stacklevel + 1,
        )
