"""Checks at the public border: every message names the argument, the value, what is allowed and the cure."""

import math
import numbers
from typing import Any

import numpy as np
from numpy.typing import NDArray


def integer(name: str, value: Any, minimum: int, cure: str) -> int:
    """Return ``value`` as an int of at least ``minimum``; reject booleans and fractions."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Integral):
        raise TypeError(
            f"{name} must be an integer of at least {minimum}, got {value!r} of type {type(value).__name__}; {cure}"
        )
    if value < minimum:
        raise ValueError(f"{name} must be at least {minimum}, got {value}; {cure}")
    return int(value)


def number(name: str, value: Any, cure: str, *, positive: bool = False) -> float:
    """Return ``value`` as a finite float that is nonnegative, or positive if asked."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a real number, got {value!r} of type {type(value).__name__}; {cure}")
    try:
        result = float(value)
    except OverflowError:
        result = math.inf
    if not math.isfinite(result) or result < 0 or (positive and result == 0):
        sign = "positive" if positive else "nonnegative"
        raise ValueError(f"{name} must be {sign} and finite, got {result!r}; {cure}")
    return result


def numbers_per_step(name: str, value: Any, cure: str, *, positive: bool = False) -> float | NDArray[np.float64]:
    """Return one checked float, or a read-only vector with one checked float per step."""
    if np.ndim(value) == 0:
        return number(name, value.item() if hasattr(value, "item") else value, cure, positive=positive)
    values = _vector(name, value, cure).astype(np.float64)
    bad = ~np.isfinite(values) | (values < 0) | ((values == 0) if positive else False)
    if bad.any():
        at = int(np.argmax(bad))
        sign = "positive" if positive else "nonnegative"
        raise ValueError(f"{name} must be {sign} and finite at every step, got {values[at]} at step {at + 1}; {cure}")
    values.flags.writeable = False
    return values


def integers_per_step(name: str, value: Any, cure: str) -> int | NDArray[np.int64]:
    """Return one positive int, or a read-only vector with one positive int per step."""
    if np.ndim(value) == 0:
        return integer(name, value.item() if hasattr(value, "item") else value, 1, cure)
    raw = _vector(name, value, cure)
    if not np.issubdtype(raw.dtype, np.integer):
        raise TypeError(f"{name} must hold integers of at least 1, got dtype {raw.dtype}; {cure}")
    if (raw < 1).any():
        at = int(np.argmax(raw < 1))
        raise ValueError(f"{name} must be at least 1 at every step, got {raw[at]} at step {at + 1}; {cure}")
    if (raw > 2**62).any():
        raise ValueError(f"{name} must be below 2**62, got {raw.max()}; {cure}")
    values = raw.astype(np.int64)
    values.flags.writeable = False
    return values


def _vector(name: str, value: Any, cure: str) -> NDArray[Any]:
    values = np.array(value)
    if values.ndim != 1 or values.size == 0:
        raise ValueError(
            f"{name} must be a number or a vector with one value per step, got an array of shape {values.shape}; {cure}"
        )
    if values.dtype.kind not in "iuf":
        raise TypeError(f"{name} must hold real numbers, got dtype {values.dtype}; {cure}")
    return values


def check_memory(n_numbers: float, what: str, cure: str, limit: float = 8 * 2**30) -> None:
    """Refuse a computation that needs more memory than ``limit`` bytes."""
    n_bytes = 8.0 * n_numbers
    if n_bytes > limit:
        raise MemoryError(f"{what} needs {math.ceil(n_bytes):,} bytes, above the limit of {int(limit):,}; {cure}")
