"""What a model answers with what it has learned: predictions with their deviation, its history and errors."""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from forgetless._core.arrays import Array, namespace_of, to_numpy
from forgetless.estimators._input import check_dispatch, check_namespace, check_operator, checked_indices, dispatched
from forgetless.estimators._uncertainty import deviation, of_coefficients
from forgetless.estimators.history import TaskHistory
from forgetless.estimators.state import State
from forgetless.solvers.rows import is_operator, is_sparse


class Answering(BaseEstimator):  # type: ignore[misc]
    """An estimator whose answers all come from one state at a time."""

    _state: State | None
    _array_api: bool

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return X·coef_ + intercept_.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, d)
        return_std : bool, default False
            Also return the standard deviation of every target around its prediction, for a single target: from the
            errors of rows before they were learned, and, where the model remembers more than its weights (``rank``,
            or a d × d matrix), how far a row lies from what it has seen.

        Returns
        -------
        array of shape (n,) or (n, c), and with ``return_std`` another of shape (n,)
        """
        state = self._fitted()
        if not return_std:
            return self._linear(state, X, "predict")
        if state.coef.ndim > 1 or state.origin.frozen:
            what = "a single target" if state.coef.ndim > 1 else "a model saved with state='learn'"
            raise ValueError(f"return_std needs {what}; leave it out")
        found = self._linear(state, X, "predict")
        rows = validate_data(self._holding(state), X, reset=False, accept_sparse="csr", dtype=np.float64)
        rows = rows.toarray() if is_sparse(rows) else rows
        rows = rows if state.units is None else state.units.inward(rows)
        return found, deviation(state, rows, getattr(self, "loss", "sum"), getattr(self, "alpha", 0.0))

    def _coef_std(self, groups: Any = ()) -> Any:
        """Return the standard deviation of every coefficient of a single target; None where it is not known.

        ``groups`` are features that add up to 1, such as categories.
        """
        state = self._fitted()
        if state.coef.ndim > 1 or state.origin.frozen:
            return None
        return of_coefficients(state, getattr(self, "loss", "sum"), getattr(self, "alpha", 0.0), groups)

    def _linear(self, state: State, X: Any, method: str) -> Array:
        """Return X·coef_ + intercept_ of one state."""
        coef, xp = state.coef, namespace_of(state.coef)
        check_dispatch(coef)
        if is_operator(X):
            check_operator(self, state, X, type(self).__name__)
            coef, state = state.shown.coef, state.shown
            return X @ coef.T + state.intercept if coef.ndim > 1 else X @ coef + state.intercept
        if self._array_api:
            check_namespace(coef, X, f"{type(self).__name__}.{method}")
        elif dispatched(X):
            X = to_numpy(X)
        draft, X = self._holding(state), checked_indices(X)
        X = validate_data(draft, X, reset=False, accept_sparse="csr", dtype=[xp.float64, xp.float32])
        if state.units is not None and isinstance(X, np.ndarray):
            return state.units.product(X, coef) + state.intercept
        if state.units is not None and not is_sparse(X):
            X = state.units.inward(X)
        elif state.units is not None:
            coef, state = state.shown.coef, state.shown
        if X.dtype != coef.dtype and not is_sparse(X):
            wide = xp.result_type(X.dtype, coef.dtype)
            X, coef = xp.astype(X, wide, copy=False), xp.astype(coef, wide, copy=False)
        return X @ coef.T + state.intercept if coef.ndim > 1 else X @ coef + state.intercept

    def _fitted(self) -> State:
        check_is_fitted(self)
        assert self._state is not None
        return self._state

    @property
    def history_(self) -> TaskHistory:
        """The last ``history_size`` tasks as a dictionary of arrays: see :class:`forgetless.ContinualRidge`."""
        return TaskHistory(self._fitted().history.columns())

    @property
    def prequential_mse_(self) -> float:
        """Mean squared error of predicting every row of every task before learning it (weighted as in training)."""
        return self._fitted().history.prequential_mse

    @property
    def seen_mse_(self) -> float:
        """Mean over tasks of the mean squared error on their held-out rows, unweighted; NaN without ``holdout``."""
        return self._fitted().seen_error()

    @property
    def nbytes_(self) -> int:
        """Bytes of what is kept from one task to the next: weights, memories, history, candidates, held-out rows."""
        return self._fitted().nbytes

    def _holding(self, state: State | None) -> Any:
        """Return a model with the same parameters and another state."""
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._state = state
        return other
