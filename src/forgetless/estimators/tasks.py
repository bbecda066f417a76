"""Validation of a task, with a short cut for plain arrays: scikit-learn's checks take ten times as
long as learning a row.
"""

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import _check_sample_weight, validate_data

from forgetless._validate import Floats, as_csr, check_unmasked


def is_dask(X: Any) -> bool:
    """Return whether X is a dask collection."""
    return hasattr(X, "__dask_graph__")


def is_plain(model: Any, X: Any) -> bool:
    """Return whether X is a float array whose features need no check."""
    return (
        type(X) is np.ndarray
        and X.dtype == np.float64
        and X.ndim == 2
        and len(X) > 0
        and X.shape[1] == model.n_features_in_
        and not hasattr(model, "feature_names_in_")
    )


def is_finite(*arrays: Floats) -> bool:
    """Return whether sums of arrays are finite, so that every number is."""
    with np.errstate(all="ignore"):
        return all(np.isfinite(array.sum()) for array in arrays)


def task(model: Any, X: Any, y: Any, weight: Any, *, first: bool) -> tuple[Any, Floats, Any]:
    """Return X (n, d), targets (n, c) and weights (n,) or None; rows of weight zero are left out.

    The attributes that scikit-learn requires are set on the model.
    """
    plain = (
        not first
        and weight is None
        and is_plain(model, X)
        and type(y) is np.ndarray
        and y.dtype == np.float64
        and y.shape == (len(X), *model._y_shape)
        and is_finite(X, y)
    )
    if not plain:
        X, y, weight = _checked(model, X, y, weight, first=first)
    return X, (y[:, None] if y.ndim == 1 else y), weight


def array_of(X: Any) -> Any:
    """Return X before anything multiplies with it: arrays of other libraries as those of NumPy,
    and errors for a mask and for indices outside of a sparse X.

    Data frames stay: scikit-learn takes the names of the features from them.
    """
    check_unmasked("X", X)
    if sparse.issparse(X) and X.ndim == 2:
        return as_csr("X", X)
    if hasattr(X, "__array__") and not hasattr(X, "columns"):
        return np.asarray(X)
    return X


def _checked(model: Any, X: Any, y: Any, weight: Any, *, first: bool) -> tuple[Any, Any, Any]:
    X = array_of(X)
    check_unmasked("y", y)
    check_unmasked("sample_weight", weight)
    with np.errstate(invalid="ignore"):  # infinities of both signs are refused, not summed up
        X, y = validate_data(
            model,
            X,
            y,
            reset=first,
            accept_sparse="csr",
            multi_output=True,
            y_numeric=True,
            dtype=np.float64,
        )
    y = y.astype(np.float64)
    if not first and y.shape[1:] != model._y_shape:
        raise ValueError(
            f"y must have targets of shape {model._y_shape} as in the first task, got"
            f" {y.shape[1:]}; use fit to start again"
        )
    model._y_shape = y.shape[1:]
    return weighted(X, y, weight)


def weighted(X: Any, y: Any, weight: Any) -> tuple[Any, Any, Any]:
    """Return X, y and checked weights or None, without the rows of weight zero, which count as
    absent.
    """
    if weight is None:
        return X, y, None
    weight = _check_sample_weight(weight, X, dtype=np.float64)
    if (weight < 0).any():
        raise ValueError(
            f"sample_weight must be nonnegative, got {weight.min():g}; use 0 to leave a row out"
        )
    kept = np.flatnonzero(weight)
    if len(kept) == 0:
        raise ValueError(
            "sample_weight is zero for every row of a task: nothing to learn; leave the task out"
        )
    if len(kept) < len(weight):
        return X[kept], y[kept], weight[kept]
    return X, y, weight


def rows(model: Any, X: Any, *, is_guarded: bool) -> Any:
    """Return X of a prediction, checked; for the guard, which looks at every number itself, only
    its type and shape.
    """
    if is_plain(model, X) and (is_guarded or is_finite(X)):
        return X
    return validate_data(model, array_of(X), reset=False, accept_sparse="csr", dtype=np.float64)
