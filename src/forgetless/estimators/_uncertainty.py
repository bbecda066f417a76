"""Standard deviations of predictions and coefficients, from the memory of all rows and the errors
so far.

A prediction at x has the variance σ²(1 + xᵀCx). σ² is the mean squared error of rows before they
were learned, over the later half of the tasks in the history; C is the inverse of the remembered Σ
XᵀX, plus λ. For a low-rank memory, the trace that truncations removed is taken to be spread evenly
over all directions.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from forgetless._core.arrays import Floats
from forgetless.estimators.evidence import Experts
from forgetless.estimators.low_rank import Subspace
from forgetless.estimators.state import State
from forgetless.solvers.rows import is_sparse


def noise(state: State) -> float:
    """Return σ²: the error of rows not yet learned, over the later half of the history."""
    history = state.history.columns()
    rows, before, after = (
        history[name].astype(np.float64) for name in ("n_rows", "mse_before", "mse_after")
    )
    if len(rows) == 0:
        return state.history.prequential_mse
    if len(rows) == 1:
        return float(
            after[0] * rows[0] / max(rows[0] - min(rows[0] - 1, state.coef.shape[-1] + 1), 1)
        )
    late = slice(max(1, len(rows) // 2), None)
    return float(np.average(before[late], weights=rows[late]))


def leverage(state: State, rows: Floats) -> Floats:
    """Return xᵀCx of rows (n, d), in the units of the state, the last column being 1 where there is
    an intercept.
    """
    memory = state.memory
    if memory is None:
        return np.zeros(len(rows))
    if not isinstance(memory, Subspace):
        return np.asarray(memory.leverage(rows))
    B = memory.rows(np.float64)
    strength = state.history.columns()["strength"]
    ridge = memory.lost_trace / rows.shape[1]
    ridge += float(strength[-1]) if len(strength) and math.isfinite(strength[-1]) else 0.0
    ridge = max(ridge, 1e-12 * memory.trace / rows.shape[1])
    inner = rows @ B.T
    explained = np.linalg.solve(ridge * np.eye(len(B)) + B @ B.T, inner.T).T if len(B) else inner
    values: Floats = (
        np.einsum("ij,ij->i", rows, rows) - np.einsum("ij,ij->i", inner, explained)
    ) / ridge
    return np.asarray(np.maximum(values, 0.0))


def prediction_std(state: State, X: Any) -> Floats:
    """Return the standard deviation of the targets of rows X, in the units of the state."""
    rows = np.asarray(X.toarray() if is_sparse(X) else X, dtype=np.float64)
    rows = np.column_stack([rows, np.ones(len(rows))]) if state.fit_intercept else rows
    return np.asarray(np.sqrt(noise(state) * (1.0 + leverage(state, rows))))


def coefficient_std(state: State, groups: Sequence[Sequence[int]]) -> Floats | None:
    """Return the standard deviation of every coefficient, in the user's units; None where nothing
    is remembered.

    Features of a group add up to 1, like those of the categories of a column: beside an intercept
    only differences of their coefficients are known. Theirs is that of β_i − Σ p_j β_j, the
    difference to the mean over all rows, where p_j is the share of rows that have feature j. NaN
    where a feature has not varied yet.
    """
    d = state.coef.shape[-1]
    if state.memory is None or d > 5000:
        return None
    scale, mean = (
        (np.ones(d), np.ones(d)) if state.units is None else (state.units.scale, state.units.mean)
    )
    rows = np.eye(d + state.fit_intercept)[:d]
    for group in map(list, groups):
        share = np.maximum(mean[group], 0.0)
        rows[np.ix_(group, group)] -= share / max(float(share.sum()), np.finfo(np.float64).tiny)
    rows[:, :d] *= np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)
    if isinstance(state.memory, Experts):
        std = np.sqrt(state.memory.variances(rows[:, :d], noise(state)))
    else:
        std = np.sqrt(noise(state) * leverage(state, rows))
    return np.where(scale > 0, std, np.nan)
