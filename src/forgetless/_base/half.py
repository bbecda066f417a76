"""Arrays of half precision to single and back, for numbers up to 1: the same bits as NumPy's, sooner where numba is."""

from typing import Any

import numpy as np

from forgetless._base.arrays import Array
from forgetless._base.compiled import compiled, worth_loading

_MODULE = "_base._half_numba"

_SECONDS = 2e-9
"""What NumPy takes for a number, about."""


def to_single(array: Array) -> Array:
    """Return an array of float16 as float32."""
    module = _loaded(array)
    if module is None:
        return array.astype(np.float32)
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


def _loaded(array: Array) -> Any:
    if array.size < 2**12 or not worth_loading(_MODULE, array.size * _SECONDS):
        return None
    return compiled(_MODULE)
