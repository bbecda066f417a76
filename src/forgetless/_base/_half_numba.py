"""Half precision to single and back, compiled: NumPy converts number by number, which takes four to nine times as long.

Bits are moved and the exponent is corrected by a product with a power of two, which is exact; numbers below the normal
range of half precision come out of the same product.
"""

from typing import Any

import numpy as np

from forgetless._base.jit import jit


@jit(error_model="numpy", nogil=True)
def widen(bits: Any, out: Any) -> None:
    """Write half-precision numbers, given as their bits, to an array of float32."""
    for i in range(bits.size):
        b = np.uint32(bits[i])
        size = np.uint32((b & np.uint32(0x7FFF)) << np.uint32(13)).view(np.float32)
        out[i] = size * np.float32(2.0**112) * np.float32(1 - 2 * np.int32(b >> np.uint32(15)))


@jit(error_model="numpy", nogil=True)
def narrow(values: Any, out: Any) -> None:
    """Write the bits in half precision of float32 numbers up to 1, rounded to nearest, ties to even."""
    for i in range(values.size):
        b = np.float32(values[i] * np.float32(2.0**-112)).view(np.uint32)
        sign = (b >> np.uint32(16)) & np.uint32(0x8000)
        b = b & np.uint32(0x7FFFFFFF)
        b = np.uint32(b + np.uint32(0xFFF) + ((b >> np.uint32(13)) & np.uint32(1)))
        out[i] = np.uint16((b >> np.uint32(13)) | sign)
