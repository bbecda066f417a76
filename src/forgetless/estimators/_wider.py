"""Features that come later: a state as it would be had they been there from the start, zero in every row."""

from typing import Any

import numpy as np

from forgetless._core.arrays import Array, namespace_of, zeros
from forgetless.estimators.monitor import Holdout
from forgetless.estimators.state import State
from forgetless.solvers.rows import is_sparse


def widened(state: State, count: int, names: Any = None) -> State:
    """Return a state with ``count`` more features behind those it has; baselines widen their memory themselves."""
    origin = state.origin
    if origin.n_features is None:
        return state
    d = int(origin.n_features)
    changed: dict[str, Any] = {}
    if origin.feature_names is not None:
        more = [f"x{d + i}" for i in range(count)] if names is None else list(names)
        origin = origin._replace(feature_names=np.array([*origin.feature_names, *more], dtype=object))
    changed["origin"] = origin._replace(n_features=d + count)
    if state.coef is not None:
        changed["coef"] = inserted(state.coef, d, count, state.coef.ndim - 1)
    if state.iterate is not None:
        changed["iterate"] = state.iterate._replace(weights=inserted(state.iterate.weights, d, count, 0))
    if state.advisor is not None:
        few = state.advisor
        changed["advisor"] = few._replace(
            weights=inserted(few.weights, d, count, 1),
            squares=inserted(few.squares, d, count, 0),
            sketch=inserted(few.sketch, d, count, 1),
        )
    if state.directions is not None:
        known = state.directions.apart()
        changed["directions"] = known._replace(
            units=inserted(known.units, d, count, 1),
            diagonal=None if known.diagonal is None else inserted(known.diagonal, d, count, 0),
        )
    if state.holdout is not None:
        changed["holdout"] = _held(state.holdout, d, count)
    if state.units is not None:
        changed["units"] = state.units.widened(count)
    return state._replace(**changed)


def _held(holdout: Holdout, d: int, count: int) -> Holdout:
    X = holdout.X
    if X is None:
        return holdout
    if not is_sparse(X):
        return holdout._replace(X=inserted(X, d, count, 1))
    from scipy import sparse

    return holdout._replace(X=sparse.csr_array((X.data, X.indices, X.indptr), shape=(X.shape[0], d + count)))


def inserted(array: Array, at: int, count: int, axis: int) -> Array:
    """Return an array with ``count`` zeros before index ``at`` of an axis."""
    before: list[Any] = [slice(None)] * array.ndim
    after = list(before)
    before[axis], after[axis] = slice(None, at), slice(at, None)
    shape = list(array.shape)
    shape[axis] = count
    return namespace_of(array).concat(
        [array[tuple(before)], zeros(tuple(shape), array), array[tuple(after)]], axis=axis
    )
