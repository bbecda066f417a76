"""Half precision, compiled: to single and back, and products that read it as it is stored.

NumPy converts number by number. Processors have an instruction for eight and more at once, which LLVM uses where it
may; elsewhere bits are moved, and numbers below the normal range of half precision are made from integers: with their
bits moved they would be below that of single precision too, where processors take a hundred times as long.
"""

import platform
from typing import Any

import numpy as np
from llvmlite import binding, ir
from numba import types
from numba.core import config
from numba.extending import intrinsic

from forgetless._core.compiled import jit

_FAST = {"reassoc", "contract", "nsz"}
"""Sums in any order, so that several are made at once."""


def _has_instruction() -> bool:
    """Return whether the processor that code is made for converts half precision; LLVM calls a library if not."""
    if getattr(config, "CPU_NAME", None) or getattr(config, "CPU_FEATURES", None):  # another one is asked for
        return False
    return platform.machine() in ("aarch64", "arm64") or bool(binding.get_host_cpu_features().get("f16c"))


def _extend(_typing: Any, _bits: Any) -> Any:
    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.fpext(builder.bitcast(args[0], ir.HalfType()), ir.FloatType())

    return types.float32(types.uint16), generate


def _truncate(_typing: Any, _number: Any) -> Any:
    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.bitcast(builder.fptrunc(args[0], ir.HalfType()), ir.IntType(16))

    return types.uint16(types.float32), generate


_extended: Any = intrinsic(_extend)
_truncated: Any = intrinsic(_truncate)


@jit(error_model="numpy", nogil=True)
def _single_by_bits(bits: Any) -> Any:
    b = np.uint32(bits)
    size = b & np.uint32(0x7FFF)
    sign = np.uint32((b & np.uint32(0x8000)) << np.uint32(16))
    normal = np.uint32(((size << np.uint32(13)) + np.uint32(112 << 23)) | sign).view(np.float32)
    tiny = np.float32(np.float32(np.int32(size)) * np.float32(2.0**-24))
    small = np.uint32(tiny.view(np.uint32) | sign).view(np.float32)
    return small if size < np.uint32(0x400) else normal


@jit(error_model="numpy", nogil=True)
def _half_by_bits(number: Any) -> Any:
    # Rounded to nearest, ties to even. The exponent is corrected by a product with a power of two, which is exact.
    b = np.float32(number * np.float32(2.0**-112)).view(np.uint32)
    sign = (b >> np.uint32(16)) & np.uint32(0x8000)
    b = b & np.uint32(0x7FFFFFFF)
    b = np.uint32(b + np.uint32(0xFFF) + ((b >> np.uint32(13)) & np.uint32(1)))
    return np.uint16((b >> np.uint32(13)) | sign)


if _has_instruction():

    @jit(error_model="numpy", nogil=True)
    def single(bits: Any) -> Any:
        """Return a number of half precision, given as its bits."""
        return _extended(bits)

    @jit(error_model="numpy", nogil=True)
    def half(number: Any) -> Any:
        """Return the bits in half precision of a number up to 1."""
        return _truncated(number)

else:
    single, half = _single_by_bits, _half_by_bits


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
def _add_four(weights: Any, rows: Any, out: Any) -> None:
    for j in range(out.size):
        first = weights[0] * single(rows[0, j]) + weights[1] * single(rows[1, j])
        out[j] += first + weights[2] * single(rows[2, j]) + weights[3] * single(rows[3, j])


@jit(error_model="numpy", nogil=True, fastmath=_FAST)
def _add(weight: Any, row: Any, out: Any) -> None:
    for j in range(row.size):
        out[j] += weight * single(row[j])


@jit(error_model="numpy", nogil=True, fastmath=_FAST)
def combine(weights: Any, bits: Any, out: Any) -> None:
    """Add the sum of weighted rows to a vector of float32."""
    fours = weights.size - weights.size % 4
    for i in range(0, fours, 4):
        _add_four(weights[i : i + 4], bits[i : i + 4], out)
    for i in range(fours, weights.size):
        _add(weights[i], bits[i], out)


@jit(error_model="numpy", nogil=True)
def narrow(values: Any, out: Any) -> None:
    """Write the bits in half precision of float32 numbers up to 1."""
    for i in range(values.size):
        out[i] = half(values[i])
