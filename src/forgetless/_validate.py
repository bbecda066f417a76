"""Validation of public arguments: messages name the argument, the value, the allowed values and a
hint.

Every public function checks what it is given, once, at its door; nothing behind it checks again. A
wrong type is a TypeError, a wrong value a ValueError, and an array that does not fit into memory a
MemoryError before it is made. The hint says what to do instead, in a few words.
"""

import math
import numbers
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = Any
"""A NumPy array; the laboratory computes in float64 throughout."""

Floats = NDArray[np.float64]

_LARGEST = 2**62
"""Integers from here on are rejected: NumPy computes with 64 bits."""

_SIGNS = ("nonnegative", "positive")
"""What a number must be, where zero is allowed and where it is not."""


def integer(name: str, value: Any, minimum: int, hint: str, below: float = _LARGEST) -> int:
    """Return ``value`` as an int of at least ``minimum``; reject booleans and fractions.

    Examples
    --------
    >>> integer("k", 3, 1, "ask for at least one step")
    3
    >>> integer("k", 0, 1, "ask for at least one step")
    Traceback (most recent call last):
        ...
    ValueError: k must be at least 1, got 0; ask for at least one step
    """
    # True is an integer of Python, and a mistake here.
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Integral):
        raise TypeError(
            f"{name} must be an integer of at least {minimum}, got {value!r} of type"
            f" {type(value).__name__}; {hint}"
        )
    if value < minimum:
        raise ValueError(f"{name} must be at least {minimum}, got {value}; {hint}")
    if int(value) >= below:
        raise ValueError(
            f"{name} must be below 2**62, got one of {int(value).bit_length()} bits; {hint}"
        )
    return int(value)


def steps(k: Any) -> int:
    """Return k, a number of steps, as an int of at least 1."""
    return integer("k", k, 1, "ask for at least one step")


def number(name: str, value: Any, hint: str, *, positive: bool = False) -> float:
    """Return ``value`` as a finite float that is nonnegative, or positive if asked.

    Examples
    --------
    >>> number("radius", 2, "use tasks.radius", positive=True)
    2.0
    """
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real):
        raise TypeError(
            f"{name} must be a real number, got {value!r} of type {type(value).__name__}; {hint}"
        )
    try:
        result = float(value)
    except OverflowError:
        # An integer above 1e308.
        result = math.inf
    if not math.isfinite(result) or result < 0 or (positive and result == 0):
        raise ValueError(f"{name} must be {_SIGNS[positive]} and finite, got {result!r}; {hint}")
    return result


def numbers_per_step(
    name: str, value: Any, hint: str, *, positive: bool = False
) -> float | NDArray[np.float64]:
    """Return one checked float, or a read-only vector with one checked float per step.

    Parameters of filters are of this kind: one value for all steps, or an array of length k.
    """
    if np.ndim(value) == 0:
        return number(name, _scalar(value), hint, positive=positive)
    values = _vector(name, value, hint).astype(np.float64)
    bad = ~np.isfinite(values) | (values < 0) | (positive & (values == 0))
    if bad.any():
        at = int(np.argmax(bad))
        raise ValueError(
            f"{name} must be {_SIGNS[positive]} and finite at every step, got {values[at]} at step"
            f" {at + 1}; {hint}"
        )
    # Filters are immutable, and so is what they hold.
    values.flags.writeable = False
    return values


def integers_per_step(name: str, value: Any, hint: str) -> int | NDArray[np.int64]:
    """Return one positive int, or a read-only vector with one positive int per step.

    Floats are refused even where they are whole: 2.0 gradient steps are a budget that somebody has
    forgotten to round.
    """
    if np.ndim(value) == 0:
        return integer(name, _scalar(value), 1, hint)
    raw = _vector(name, value, hint)
    if not np.issubdtype(raw.dtype, np.integer):
        raise TypeError(f"{name} must hold integers of at least 1, got dtype {raw.dtype}; {hint}")
    if (raw < 1).any():
        at = int(np.argmax(raw < 1))
        raise ValueError(
            f"{name} must be at least 1 at every step, got {raw[at]} at step {at + 1}; {hint}"
        )
    if (raw >= _LARGEST).any():
        raise ValueError(f"{name} must be below 2**62, got {raw.max()}; {hint}")
    values = raw.astype(np.int64)
    values.flags.writeable = False
    return values


def _scalar(value: Any) -> Any:
    """Return a number of Python for an array without axes, of NumPy or of another library."""
    return value.item() if hasattr(value, "item") else value


def _vector(name: str, value: Any, hint: str) -> NDArray[Any]:
    """Return a vector of real numbers, not empty, that shares no memory with the value."""
    # A copy: the caller may write into his own array later.
    values = np.array(value)
    if values.ndim != 1 or values.size == 0:
        raise ValueError(
            f"{name} must be a number or a vector with one value per step, got an array of shape"
            f" {values.shape}; {hint}"
        )
    if values.dtype.kind not in "iuf":
        raise TypeError(f"{name} must hold real numbers, got dtype {values.dtype}; {hint}")
    return values


MEMORY_LIMIT = 2**33
"""Bytes that the arrays of one call may take: what most machines have free."""


def check_memory(n_numbers: float, what: str, hint: str, limit: float | None = None) -> None:
    """Raise MemoryError above ``limit`` bytes, by default ``MEMORY_LIMIT``.

    ``what`` is followed by "needs … bytes" in the message.
    """
    # In float64, or in integers of the same size.
    n_bytes = 8.0 * n_numbers
    limit = MEMORY_LIMIT if limit is None else limit
    # Also for NaN, as of infinitely many times nothing.
    if not n_bytes <= limit:
        raise MemoryError(
            f"{what} needs {n_bytes / 2**30:,.4g} GiB, of which {limit / 2**30:.3g} GiB may be used"
            f" here; {hint}"
        )


def as_float(name: str, value: Any) -> Floats:
    """Return ``value`` as a finite float64 array of NumPy.

    float64 whatever the input: results are meant to be exact, and a float32 spectrum is not.
    """
    check_unmasked(name, value)
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ValueError(
            f"{name} is not a rectangular array ({error}); give rows of equal length"
        ) from None
    # A tensor that requires gradients.
    except RuntimeError as error:
        raise TypeError(f"{name} does not become an array of NumPy: {error}") from None
    # NumPy wraps what it does not know, such as a sparse matrix, as one object.
    if array.ndim == 0 and array.dtype.kind == "O":
        raise TypeError(
            f"{name} must be an array of numbers, got {type(value).__name__}; convert it, a sparse"
            " matrix with toarray()"
        )
    if array.dtype.kind not in "biuf":
        raise TypeError(
            f"{name} must hold real numbers, got dtype {array.dtype}; convert or drop the column,"
            " or encode text by fl.tables.TableEncoder()"
        )
    array = array.astype(np.float64, copy=False)
    if not np.all(np.isfinite(array)):
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


def as_csr(name: str, X: Any) -> Any:
    """Return a sparse matrix in the format CSR; ValueError for invalid indices, with which SciPy
    would read other memory.
    """
    if X.ndim != 2:
        raise ValueError(f"{name} must have the shape (n, d), got {X.shape}; reshape it")
    if X.format in ("csr", "csc", "bsr"):
        X.check_format(full_check=True)
        # Which SciPy does not look at where the last pointer says that there is no entry.
        if (np.diff(X.indptr) < 0).any():
            raise ValueError(f"the index pointers of a sparse {name} must not decrease")
        return X.tocsr()
    X = X.tocoo()
    # Other formats have no check of their own; as coordinates they have one row and column a value.
    for index, n in zip((X.row, X.col), X.shape, strict=True):
        if index.shape != X.data.shape or (index.size and not 0 <= index.min() <= index.max() < n):
            raise ValueError(f"the indices of a sparse {name} must be in [0, {n}), one per value")
    return X.tocsr()


def group_labels(groups: Any) -> NDArray[Any]:
    """Return the label of every row as a NumPy array; ValueError if one is missing (None, NaN, NaT
    or NA).
    """
    check_unmasked("groups", groups)
    labels = np.asarray(groups)
    if labels.dtype.kind == "O":
        missing = sum(map(_is_missing, labels.ravel().tolist()))
    else:
        # NaN and NaT differ from themselves.
        missing = int(np.sum(labels != labels))
    if missing:
        raise ValueError(
            f"groups must have a label for every row, but {missing} rows have none; drop or name"
            " them"
        )
    return labels


def _is_missing(label: Any) -> bool:
    """Return whether an object stands for no label."""
    try:
        return label is None or not bool(label == label)
    # pandas.NA has no truth value.
    except TypeError:
        return True
