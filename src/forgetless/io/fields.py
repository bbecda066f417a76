"""Validation of the arrays of a file, one by one, before compiled code uses them."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Shape = tuple[int | None, ...]


class Fields:
    """Arrays of a file that are taken out one by one; ValueError where dtype, shape or range is not as required.

    Parameters
    ----------
    arrays : mapping of names to arrays
    prefix : str
        Stands before the names in error messages.

    Examples
    --------
    >>> import numpy as np
    >>> from forgetless.io.fields import Fields
    >>> fields = Fields({"rows": np.array([3, -1])})
    >>> fields.array("rows", "i", (None,), low=0)
    Traceback (most recent call last):
        ...
    ValueError: rows is below 0
    """

    def __init__(self, arrays: Mapping[str, NDArray[Any]], prefix: str = "") -> None:
        self._arrays, self._prefix = dict(arrays), prefix

    def __contains__(self, name: str) -> bool:
        return name in self._arrays

    def __len__(self) -> int:
        return len(self._arrays)

    def array(
        self,
        name: str,
        kinds: str,
        shape: Shape | None = None,
        *,
        low: float | None = None,
        high: float | None = None,
        finite: bool = True,
    ) -> NDArray[Any]:
        """Return an array whose dtype is of one of the ``kinds``; None allows any length, or any shape."""
        label = f"{self._prefix}{name}"
        if name not in self._arrays:
            raise ValueError(f"{label} is missing")
        array = self._arrays.pop(name)
        array = array.astype(array.dtype.newbyteorder("="), order="C", copy=False)
        if array.dtype.kind not in kinds:
            raise ValueError(f"{label} has the dtype {array.dtype}")
        if shape is not None and not _fits(array.shape, shape):
            raise ValueError(f"{label} has the shape {array.shape}, not {shape}")
        if finite and array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ValueError(f"{label} is not finite")
        # NaN passes both comparisons; it was rejected above unless it is allowed.
        if low is not None and (array < low).any():
            raise ValueError(f"{label} is below {low}")
        if high is not None and (array > high).any():
            raise ValueError(f"{label} is above {high}")
        return array

    def integer(self, name: str, low: int = 0, high: int = 10**15) -> int:
        """Return an integer."""
        return int(self.array(name, "iu", (), low=low, high=high))

    def number(self, name: str, low: float = 0.0) -> float:
        """Return a finite number."""
        return float(self.array(name, "f", (), low=low))

    def part(self, prefix: str) -> "Fields":
        """Return the arrays whose names begin with ``prefix``, without it; they are removed from these."""
        names = [name for name in self._arrays if name.startswith(prefix)]
        return Fields({name.removeprefix(prefix): self._arrays.pop(name) for name in names}, self._prefix + prefix)

    def end(self) -> None:
        """Raise ValueError if an array was not taken out."""
        if self._arrays:
            raise ValueError(f"{self._prefix}{next(iter(self._arrays))} does not belong there")


def _fits(shape: tuple[int, ...], required: Shape) -> bool:
    return len(shape) == len(required) and all(want in (None, n) for want, n in zip(required, shape, strict=True))
