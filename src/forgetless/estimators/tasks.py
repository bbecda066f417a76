"""Validation of a task, with a short cut for plain arrays: scikit-learn's checks take ten times as
long as learning a row.

What comes out of ``task`` is X (n, d) as float64, dense or CSR, targets (n, c) and positive weights
or None. Nothing behind it checks again.
"""

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import _safe_indexing, indexable
from sklearn.utils.validation import _check_sample_weight, validate_data

from forgetless._validate import Floats, as_csr, check_unmasked, group_labels


def of_groups(X: Any, y: Any, weight: Any, groups: Any) -> list[Any]:
    """Return X, y and weights of every group, a task each, in the order in which the groups first
    appear; all rows are one without groups.
    """
    if groups is None:
        return [(X, y, weight)]
    labels = group_labels(groups)
    if labels.ndim != 1:
        raise ValueError(f"groups must be of shape (n,), got {labels.shape}; one label a row")
    *columns, labels = indexable(array_of(X), y, weight, labels)
    found: list[Any] = []
    # A dict keeps the order in which labels first appear.
    for label in dict.fromkeys(labels.tolist()):
        at = np.flatnonzero(labels == label)
        found.append([None if each is None else _safe_indexing(each, at) for each in columns])
    return found


def task(model: Any, X: Any, y: Any, weight: Any) -> tuple[Any, Floats, Any]:
    """Return X (n, d), targets (n, c) and weights (n,) or None; rows of weight zero are left out.

    The attributes that scikit-learn requires are set on the model. A bare ``BaseEstimator`` stands
    for a model that has learned nothing.
    """
    first = getattr(model, "_state", None) is None
    plain = (
        not first
        and weight is None
        and _is_plain(model, X)
        and type(y) is np.ndarray
        and y.dtype == np.float64
        and y.shape == (len(X), *model._y_shape)
    )
    # A sum is finite where all its numbers are, unless they are huge: then the long way decides.
    with np.errstate(all="ignore"):
        if not plain or not np.isfinite(X.sum() + y.sum()):
            X, y, weight = _checked(model, X, y, weight, first)
    return X, (y[:, None] if y.ndim == 1 else y), weight


def rows(model: Any, X: Any) -> Any:
    """Return X of a prediction with its type and shape checked; ``Linear`` looks at the numbers."""
    if _is_plain(model, X):
        return X
    return validate_data(model, array_of(X), reset=False, accept_sparse="csr", dtype=np.float64)


def array_of(X: Any) -> Any:
    """Return X before anything multiplies with it: arrays of other libraries as those of NumPy,
    and errors for a mask and for indices outside of a sparse X.

    Data frames stay: scikit-learn takes the names of the features from them.
    """
    check_unmasked("X", X)
    if sparse.issparse(X) and X.ndim == 2:
        # SciPy reads memory outside of the matrix where indices are wrong.
        return as_csr("X", X)
    if hasattr(X, "__array__") and not hasattr(X, "columns"):
        return np.asarray(X)
    return X


def _is_plain(model: Any, X: Any) -> bool:
    """Return whether X is a float array whose features need no check."""
    return (
        type(X) is np.ndarray
        and X.dtype == np.float64
        and X.ndim == 2
        and len(X) > 0
        and X.shape[1] == model.n_features_in_
        and not hasattr(model, "feature_names_in_")
    )


def _checked(model: Any, X: Any, y: Any, weight: Any, first: bool) -> tuple[Any, Any, Any]:
    """Return X, y and weights by scikit-learn's checks, which set the number and the names of the
    features at the first task and compare with them later.
    """
    check_unmasked("y", y)
    check_unmasked("sample_weight", weight)
    options = {"accept_sparse": "csr", "multi_output": True, "y_numeric": True, "dtype": np.float64}
    X, y = validate_data(model, array_of(X), y, reset=first, **options)
    y = y.astype(np.float64)  # scikit-learn leaves integers as they are
    if not first and y.shape[1:] != model._y_shape:
        raise ValueError(
            f"y must have targets of shape {model._y_shape} as in the first task, got"
            f" {y.shape[1:]}; use fit to start again"
        )
    model._y_shape = y.shape[1:]
    if weight is None:
        return X, y, None
    weight = _check_sample_weight(weight, X, dtype=np.float64)
    if (weight < 0).any():
        raise ValueError(
            f"sample_weight must be nonnegative, got {weight.min():g}; use 0 to leave a row out"
        )
    # Rows of weight zero count as absent: they change neither means nor ranges nor numbers.
    kept = np.flatnonzero(weight)
    if len(kept) == 0:
        raise ValueError(
            "sample_weight is zero for every row of a task: nothing to learn; leave the task out"
        )
    return X[kept], y[kept], weight[kept]
