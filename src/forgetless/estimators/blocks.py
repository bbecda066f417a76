"""Statistics of rows, also of dask arrays: sums over blocks."""

from typing import Any

from sklearn.base import BaseEstimator

from forgetless.estimators import tasks
from forgetless.estimators.rows import DENSE, Rows


def rows_of(
    X: Any, y: Any, sample_weight: Any = None, *, center: bool = True, dense: int = DENSE
) -> Rows:
    """Return the statistics of rows, which ``StreamingRidge.partial_fit_rows`` learns.

    For tasks larger than memory, or on several machines: the sum of the statistics of blocks is
    that of all rows.

    Parameters
    ----------
    X : array or sparse matrix of shape (n, d), or dask array or data frame
        Of dask only d × d numbers of a block leave its worker.
    y : array of shape (n,) or (n, c)
    sample_weight : array of shape (n,), optional
    center : bool, default True
        As ``fit_intercept`` of the model.
    dense : int, default 500
        Features up to which second moments are a matrix.

    Examples
    --------
    >>> import numpy as np, forgetless as fl
    >>> blocks = [(np.eye(3), np.arange(3.0)), (np.ones((2, 3)), np.ones(2))]
    >>> rows = sum(fl.rows_of(X, y) for X, y in blocks)
    >>> rows.n, fl.StreamingRidge(1.0).partial_fit_rows(rows).n_features_in_
    (5.0, 3)
    """
    if hasattr(X, "__dask_graph__"):
        return _sum_of_dask(X, y, sample_weight, {"center": center, "dense": dense})
    # A bare estimator stands for a model before its first task.
    checked = tasks.task(BaseEstimator(), X, y, sample_weight)
    return Rows.of(*checked, center=center, dense=dense)


def _sum_of_dask(X: Any, y: Any, weight: Any, options: dict[str, Any]) -> Rows:
    """Return the sum over blocks of rows, added up in a tree. Lost blocks are dask's to repeat."""
    import dask
    import dask.array as da

    X, y, weight = (
        part.to_dask_array(lengths=True) if hasattr(part, "to_dask_array") else part
        for part in (X, y, weight)
    )
    X = X.rechunk({1: -1})
    columns: list[Any] = [X.to_delayed().ravel()]
    for part in (y, weight):
        if part is None:
            columns.append([None] * X.numblocks[0])
        else:  # cut as the rows of X are
            cut = da.asarray(part).rechunk((X.chunks[0], *part.shape[1:]))
            columns.append(cut.to_delayed().ravel())
    of = dask.delayed(rows_of, pure=True)
    add = dask.delayed(sum, pure=True)
    parts = [of(*block, **options) for block in zip(*columns, strict=True)]
    # In a tree, so that no worker holds many statistics at a time.
    while len(parts) > 1:
        parts = [add(parts[first : first + 8]) for first in range(0, len(parts), 8)]
    result: Rows = parts[0].compute()
    return result
