"""The proximal step in Adam's metric compiled by numba: one pass over memory instead of torch's four.

Every operation is rounded as IEEE says, so that the result depends neither on threads nor on where a range ends.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch

from forgetless._core.compiled import jit, spread

_PART = 2**16
"""Weights that a thread takes at a time."""


@jit(error_model="numpy", nogil=True)
def _loop(w: Any, center: Any, square: Any, omega: Any, load: Any, eps: Any) -> None:
    for i in range(w.size):
        part = load * omega[i] if omega.size else load
        w[i] += (center[i] - w[i]) * (part / (math.sqrt(square[i]) + (part + eps)))


def apply(arrays: Sequence[Any], load: float, c: float, eps: float) -> None:
    """Make the step of flat arrays w, center, v and, if given, Ω, with weight γλΩc / (√v + c(ε + γλΩ))."""
    number, (w, center, square, *omegas) = arrays[0].dtype.type, arrays
    tensors = (w, center, square, *(omegas or [w[:0]]))

    def work(first: int, last: int) -> None:
        _loop(*(tensor[first:last] for tensor in tensors), number(c * load), number(c * eps))

    spread(work, arrays[0].size, _PART, torch.get_num_threads())
