"""The quadratic ½Σ Ω(w − a)² of the tasks learned so far: two tensors for any number of tasks."""

from typing import Any

import torch


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
