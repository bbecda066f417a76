"""Types of arrays, and validation of what users give as arrays."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = Any
"""A NumPy array; the laboratory computes in float64 throughout."""

Floats = NDArray[np.float64]


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
    except RuntimeError as error:  # a tensor that requires gradients
        raise TypeError(f"{name} does not become an array of NumPy: {error}") from None
    if array.ndim == 0 and array.dtype.kind == "O":
        raise TypeError(
            f"{name} must be an array of numbers, got {type(value).__name__}; convert it, a sparse"
            " matrix with toarray()"
        )
    if array.dtype.kind not in "biuf":
        raise TypeError(
            f"{name} must hold real numbers, got dtype {array.dtype}; convert or drop the column"
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
        # which is not looked at where the last pointer says that there is no entry
        if (np.diff(X.indptr) < 0).any():
            raise ValueError(f"the index pointers of a sparse {name} must not decrease")
        return X.tocsr()
    X = X.tocoo()
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
