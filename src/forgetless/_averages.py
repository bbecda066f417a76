"""Averages of iterates: w̄_k = Σ_t ω_t w_t with ω_t ∝ t^r over t = 1..k, kept as w̄ ← w̄ + g_k (w_k
− w̄).

The gain g_k = k^r / Σ_{t≤k} t^r depends on k and r alone, so that an average can be read at every
step. w₀ has no weight: the average of no steps is w₀ itself.
"""

import math
from typing import Any

import numpy as np

from forgetless import _validate as validate
from forgetless._validate import Floats

LARGEST = 32.0
"""Largest power r: of an average that is all but the last iterate, and whose sums are still far
from overflow."""


def power(value: Any) -> float | None:
    """Return ``average``, the power r of the weights t^r, checked; None for the last iterate."""
    if value is None:
        return None
    hint = "use 2 for weights t², 0 for equal weights, None for the last iterate"
    result = validate.number("average", value, hint)
    if result > LARGEST:
        raise ValueError(f"average must be at most {LARGEST:g}, got {result!r}; {hint}")
    return result


def next_total(total: float, r: float, t: int) -> float:
    """Return Σ_{i≤t} (i/t)^r, which is 1/g_t, from that of t − 1 (0 before the first step)."""
    return 1.0 + total * math.pow((t - 1) / t, r)


def gains(r: float, k: int) -> Floats:
    """Return g_1..g_k.

    Examples
    --------
    >>> from forgetless._averages import gains
    >>> gains(0, 4).tolist(), gains(2, 3).tolist()
    ([1.0, 0.5, 0.3333333333333333, 0.25], [1.0, 0.8, 0.6428571428571429])
    """
    # In long doubles: a million roundings of a sum would be seen in the last four digits.
    weights = np.arange(1, k + 1, dtype=np.longdouble) ** r
    return np.asarray(weights / np.cumsum(weights), dtype=np.float64)
