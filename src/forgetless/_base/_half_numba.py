"""Half precision, compiled: to single and back, and products that read it as it is stored.

NumPy converts number by number, which takes four to nine times as long. Numbers below the normal range of half
precision are made from integers: with their bits moved they would be below that of single precision too, where
processors take a hundred times as long.
"""

from typing import Any

import numpy as np

from forgetless._base.jit import jit

_FAST = {"reassoc", "contract", "nsz"}
"""Sums in any order, so that several are made at once."""


@jit(error_model="numpy", nogil=True)
def single(bits: Any) -> Any:
    """Return a number of half precision, given as its bits."""
    b = np.uint32(bits)
    size = b & np.uint32(0x7FFF)
    sign = np.uint32((b & np.uint32(0x8000)) << np.uint32(16))
    normal = np.uint32(((size << np.uint32(13)) + np.uint32(112 << 23)) | sign).view(np.float32)
    tiny = np.float32(np.float32(np.int32(size)) * np.float32(2.0**-24))
    small = np.uint32(tiny.view(np.uint32) | sign).view(np.float32)
    return small if size < np.uint32(0x400) else normal


@jit(error_model="numpy", nogil=True)
def widen(bits: Any, out: Any) -> None:
    """Write half-precision numbers, given as their bits, to an array of float32."""
    for i in range(bits.size):
        out[i] = single(bits[i])


@jit(error_model="numpy", nogil=True, fastmath=_FAST)
def dots(bits: Any, x: Any, y: Any, out: Any) -> None:
    """Write the products of rows with two vectors of float32, one in each row of ``out``."""
    for i in range(bits.shape[0]):
        with_x, with_y = np.float32(0.0), np.float32(0.0)
        for j in range(x.size):
            value = single(bits[i, j])
            with_x += value * x[j]
            with_y += value * y[j]
        out[0, i] = with_x
        out[1, i] = with_y


@jit(error_model="numpy", nogil=True, fastmath=_FAST)
def _add(weight: Any, row: Any, out: Any) -> None:
    for j in range(row.size):
        out[j] += weight * single(row[j])


@jit(error_model="numpy", nogil=True, fastmath=_FAST)
def combine(weights: Any, bits: Any, out: Any) -> None:
    """Add the sum of weighted rows to a vector of float32."""
    for i in range(weights.size):
        _add(weights[i], bits[i], out)


@jit(error_model="numpy", nogil=True)
def narrow(values: Any, out: Any) -> None:
    """Write the bits in half precision of float32 numbers up to 1, rounded to nearest, ties to even.

    Bits are moved and the exponent is corrected by a product with a power of two, which is exact.
    """
    for i in range(values.size):
        b = np.float32(values[i] * np.float32(2.0**-112)).view(np.uint32)
        sign = (b >> np.uint32(16)) & np.uint32(0x8000)
        b = b & np.uint32(0x7FFFFFFF)
        b = np.uint32(b + np.uint32(0xFFF) + ((b >> np.uint32(13)) & np.uint32(1)))
        out[i] = np.uint16((b >> np.uint32(13)) | sign)
