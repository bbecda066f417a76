"""Conversions between array libraries, on top of array-api-compat."""

from typing import Any

import numpy as np
from array_api_compat import (
    array_namespace,
    device,
    is_array_api_obj,
    is_array_api_strict_namespace,
    is_cupy_namespace,
    is_numpy_namespace,
    is_torch_namespace,
    to_device,
)
from numpy.typing import NDArray

Array = Any
"""An array of any array-API library (NumPy, torch, CuPy, …)."""

Floats = NDArray[np.float64]

Namespace = Any
"""The module of functions that goes with an :data:`Array`."""

__all__ = [
    "Array",
    "Floats",
    "Namespace",
    "as_float",
    "check_unmasked",
    "device",
    "eps_of",
    "from_numpy",
    "group_labels",
    "is_array_api_obj",
    "is_numpy_namespace",
    "namespace_of",
    "nbytes",
    "same_library",
    "to_numpy",
    "with_zeros",
    "zeros",
]


def namespace_of(*arrays: Array) -> Namespace:
    """Return the array-API namespace shared by ``arrays``."""
    return array_namespace(*arrays)


def as_float(name: str, value: Any) -> Array:
    """Return ``value`` as a finite float64 array; anything that is not yet an array becomes
    NumPy's.

    float64 whatever the input: results are meant to be exact, and a float32 spectrum is not.
    """
    check_unmasked(name, value)
    array: Any = value if is_array_api_obj(value) else _nested(name, value)
    xp = array_namespace(array)
    if not xp.isdtype(array.dtype, ("integral", "real floating", "bool")):
        raise TypeError(
            f"{name} must hold real numbers, got dtype {array.dtype}; convert or drop the column"
        )
    if is_torch_namespace(xp):
        # a graph through a spectrum is never wanted, and would pin every task in memory
        array = array.detach()
    array = xp.astype(array, xp.float64, copy=False)
    if not bool(xp.all(xp.isfinite(array))):
        raise ValueError(
            f"{name} contains NaN or infinity; only finite values are allowed, so drop or impute"
            " them"
        )
    return array


def check_unmasked(name: str, value: Any) -> None:
    """Raise TypeError for a masked array, whose mask most functions ignore."""
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(
            f"{name} is a masked array, whose mask would be ignored; drop the masked rows first, or"
            " fill them with value.filled(...)"
        )


def group_labels(groups: Any) -> NDArray[Any]:
    """Return the label of every row as a NumPy array; ValueError if one is missing (None, NaN, NaT
    or NA).
    """
    check_unmasked("groups", groups)
    labels = np.asarray(to_numpy(groups) if is_array_api_obj(groups) else groups)
    if labels.dtype.kind == "O":
        missing = sum(map(_is_missing, labels.ravel().tolist()))
    else:
        missing = int(np.sum(labels != labels))
    if missing:
        raise ValueError(
            f"groups must have a label for every row, but {missing} rows have none; drop or name"
            " them"
        )
    return labels


def _is_missing(label: Any) -> bool:
    try:
        return label is None or not bool(label == label)
    except TypeError:  # pandas.NA has no truth value
        return True


def _nested(name: str, value: Any) -> NDArray[Any]:
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ValueError(
            f"{name} is not a rectangular array ({error}); give rows of equal length"
        ) from None
    if array.dtype.kind not in "biuf":
        raise TypeError(
            f"{name} must hold real numbers, got dtype {array.dtype}; convert or drop the column"
        )
    return array


def to_numpy(array: Array) -> NDArray[Any]:
    """Return ``array`` as a NumPy array on the host."""
    xp = array_namespace(array)
    if is_torch_namespace(xp):
        array = array.detach()
    if is_torch_namespace(xp) or is_cupy_namespace(xp):
        array = to_device(array, "cpu")
    elif is_array_api_strict_namespace(xp):
        array = to_device(array, xp.Device("CPU_DEVICE"))
    return np.asarray(array)


def from_numpy(array: NDArray[Any], like: Array) -> Array:
    """Return a NumPy array as an array of the library and device of ``like``."""
    xp = array_namespace(like)
    if is_numpy_namespace(xp):
        return array
    safe = np.ascontiguousarray(array)
    # A read-only array (such as a broadcast) is copied: torch would share its memory and warn.
    return xp.asarray(safe if safe.flags.writeable else safe.copy(), device=device(like))


def same_library(array: Array, like: Array) -> Array:
    """Return ``array`` in the library and device of ``like``, converting through the host if need
    be.
    """
    if array_namespace(array) is array_namespace(like) and device(array) == device(like):
        return array
    return from_numpy(to_numpy(array), like)


def eps_of(array: Array) -> float:
    """Return the relative rounding error of the dtype of ``array``."""
    return float(namespace_of(array).finfo(array.dtype).eps)


def zeros(shape: tuple[int, ...], like: Array) -> Array:
    """Return zeros of the given shape, in the library, dtype and device of ``like``."""
    return array_namespace(like).zeros(shape, dtype=like.dtype, device=device(like))


def with_zeros(array: Array, at: int, count: int, axis: int) -> Array:
    """Return an array with ``count`` zeros before index ``at`` of an axis."""
    before: list[Any] = [slice(None)] * array.ndim
    after = list(before)
    before[axis], after[axis] = slice(None, at), slice(at, None)
    shape = list(array.shape)
    shape[axis] = count
    return namespace_of(array).concat(
        [array[tuple(before)], zeros(tuple(shape), array), array[tuple(after)]], axis=axis
    )


def nbytes(value: Any) -> int:
    """Return the size in bytes of the numbers in a value: arrays, floats, and containers or objects
    of these.
    """
    if isinstance(value, float):
        return 8
    if hasattr(value, "nbytes"):
        return int(value.nbytes)
    if isinstance(value, list | tuple):
        return sum(map(nbytes, value))
    return sum(map(nbytes, vars(value).values())) if hasattr(value, "__dict__") else 0
