"""Arrays of half precision, for numbers up to 1: to single and back, the same bits as NumPy's, and their products.

Where numba is, nothing is converted that is only read: the copy would take longer than the product.
"""

from typing import Any

import numpy as np

from forgetless._core.arrays import Array
from forgetless._core.compiled import compiled, worth_loading

_MODULE = "_core._half_numba"

_SECONDS = 3e-9
"""What is taken for a number without numba, about."""

_BITS = np.int32(-0x70002000)
"""The sign of a number of single precision, and the fifteen bits of one of half precision."""


def to_single(array: Array) -> Array:
    """Return an array of float16, of finite numbers, as float32."""
    module = _loaded(array)
    if module is None:
        # A third of NumPy's own time: bits are moved, and a power of two corrects the exponent.
        bits = array.view(np.int16).astype(np.int32)
        bits <<= 13
        bits &= _BITS
        moved = bits.view(np.float32)
        moved *= np.float32(2.0**112)
        return moved
    made = np.empty(array.shape, dtype=np.float32)
    module.widen(np.ascontiguousarray(array).view(np.uint16).reshape(-1), made.reshape(-1))
    return made


def to_half(array: Array) -> Array:
    """Return an array of numbers up to 1 in size as float16."""
    module = _loaded(array)
    if module is None:
        return array.astype(np.float16)
    made = np.empty(array.shape, dtype=np.float16)
    single = np.ascontiguousarray(array, dtype=np.float32)
    module.narrow(single.reshape(-1), made.view(np.uint16).reshape(-1))
    return made


def products(rows: Array, x: Array, y: Array) -> tuple[Array, Array]:
    """Return rows @ x and rows @ y, float32, for rows of half precision and vectors of single."""
    module = _loaded(rows)
    if module is None:
        wide = rows.astype(np.float32)
        return wide @ x, wide @ y
    out = np.empty((2, len(rows)), dtype=np.float32)
    module.dots(rows.view(np.uint16), x, y, out)
    return out[0], out[1]


def combined(weights: Array, rows: Array) -> Array:
    """Return weights @ rows, float32, for rows of half precision and weights of single."""
    module = _loaded(rows)
    if module is None:
        return weights @ rows.astype(np.float32)
    out = np.zeros(rows.shape[1], dtype=np.float32)
    module.combine(weights, rows.view(np.uint16), out)
    return out


def _loaded(array: Array) -> Any:
    if array.size < 2**12 or not worth_loading(_MODULE, array.size * _SECONDS):
        return None
    return compiled(_MODULE)
