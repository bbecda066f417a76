"""States as records: nested tuples and dataclasses whose arrays have named axes.

A field of one name has the same axes wherever it stands, so that features and targets can be added
to a whole state at once, and arrays in files be checked:

    d  features, of which more may come
    w  weights of features, and the intercept behind them
    c  targets, of which more may come
    *  any number
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from forgetless._validate import Array

AXES = {
    **dict.fromkeys(("high", "low", "mean", "rest", "scale"), "d"),
    **dict.fromkeys(("intercept", "minimum", "noise", "squares", "target"), "c"),
    **dict.fromkeys(("coef", "cross"), "dc"),
    **dict.fromkeys(("average", "last"), "wc"),
    "matrix": "dd",
    "vectors": "*d",
}
"""Axes of the arrays in a state, by the names of the fields."""


def widened(record: Any, d: int, count: int) -> Any:
    """Return a record with ``count`` more features behind the first d, zero in all rows."""

    def wide(array: Array, axes: str) -> Array:
        for axis, letter in enumerate(axes):
            # An intercept stays behind the features.
            if letter in "dw":
                array = np.insert(array, np.full(count, d), 0.0, axis=axis)
        return array

    return _mapped(record, wide)


def with_targets(record: Any, place: Array) -> Any:
    """Return a record with targets in another order: column j is that of place j before; those of
    place −1 are new, and were always zero.
    """

    def placed(array: Array, axes: str) -> Array:
        return np.where(place >= 0, array[..., place], 0.0) if axes.endswith("c") else array

    return _mapped(record, placed)


def _mapped(value: Any, change: Callable[[Array, str], Array], name: str = "") -> Any:
    """Return a record with every array changed by a function of it and its axes."""
    if isinstance(value, np.ndarray):
        return change(value, AXES.get(name, ""))
    # The fields of a NamedTuple or dataclass; tuples and numbers have none.
    names = getattr(type(value), "__annotations__", None)
    if names is None:
        return tuple(_mapped(part, change) for part in value) if type(value) is tuple else value
    return type(value)(*(_mapped(getattr(value, each), change, each) for each in names))
