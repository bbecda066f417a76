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
def _plain(w: Any, center: Any, square: Any, load: Any, rest: Any) -> None:
    for i in range(w.size):
        w[i] += (center[i] - w[i]) * (load / (math.sqrt(square[i]) + rest))


@jit(error_model="numpy", nogil=True)
def _weighted(w: Any, center: Any, square: Any, omega: Any, load: Any, rest: Any) -> None:
    for i in range(w.size):
        part = load * omega[i]
        w[i] += (center[i] - w[i]) * (part / (math.sqrt(square[i]) + (part + rest)))


def apply(arrays: Sequence[Any], load: float, c: float, eps: float) -> None:
    """Make the step of flat arrays w, center, v and, if given, Ω, with weight γλΩc / (√v + c(ε + γλΩ))."""
    number = arrays[0].dtype.type
    if len(arrays) == 3:
        loop, factor, rest = _plain, number(c * load), number(c * (eps + load))
    else:
        loop, factor, rest = _weighted, number(c * load), number(c * eps)

    def work(first: int, last: int) -> None:
        loop(*(array[first:last] for array in arrays), factor, rest)

    spread(work, arrays[0].size, _PART, torch.get_num_threads())
