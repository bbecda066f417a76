"""Baselines with a memory of O(d²), in the interface of the streaming estimators.

Both remember all past tasks and forget nothing that their memory holds. They are what the O(d) schemes give up.
"""

from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin

from forgetless import _checks
from forgetless._arrays import Array
from forgetless._krylov import ConvergenceError
from forgetless._rows import BLOCK_BYTES, Rows, is_sparse
from forgetless._streaming import Change, StreamingModel
from forgetless.persistence import load, save


class _Baseline(RegressorMixin, StreamingModel):  # type: ignore[misc]
    alpha: float

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        fit_intercept: bool = False,
        memory: int = 2**31,
        history_size: int = 1000,
        holdout: float = 0.0,
        holdout_size: int = 10_000,
        random_state: int | None = None,
    ) -> None:
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.memory = memory
        self.history_size = history_size
        self.holdout = holdout
        self.holdout_size = holdout_size
        self.random_state = random_state

    def _check_parameters(self) -> None:
        super()._check_parameters()
        _checks.number("alpha", self.alpha, "the prior must be proper; use e.g. 1e-6", positive=True)

    def _check_memory(self, d: int) -> None:
        if 16 * d * d > self.memory:
            raise MemoryError(
                f"{type(self).__name__} keeps a matrix of shape ({d}, {d}) and needs {16 * d * d:,} bytes for it, "
                f"more than memory={self.memory:,}; use ContinualRidge, whose memory is O(d), or allow more"
            )

    def predict(self, X: Any) -> Array:
        """Return X·coef_ + intercept_, of shape (n,) or (n, c)."""
        return self._linear(X, "predict")

    def save(self, path: Any) -> None:
        """Write the model to a file: see :func:`forgetless.persistence.save`."""
        save(self, path)

    @classmethod
    def load(cls, path: Any, **parameters: Any) -> Self:
        """Return the model in a file; ``parameters`` replace stored ones."""
        model: Self = load(cls, path, parameters)
        return model

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


class JointRidge(_Baseline):
    """Ridge regression on all tasks together, from the sums XᵀX and Xᵀy of the tasks seen.

    The solution minimises Σ_t ½‖X_t w − y_t‖² + (alpha/2)‖w‖² over the tasks so far: O(d²) memory and O(d³) a task.

    Parameters
    ----------
    alpha : float, default 1.0
        Positive pull to zero.
    fit_intercept, memory, history_size, holdout, holdout_size, random_state
        As in :class:`forgetless.ContinualRidge`.

    Examples
    --------
    >>> from forgetless import JointRidge
    >>> model = JointRidge(alpha=1.0).partial_fit([[1.0]], [2.0]).partial_fit([[1.0]], [5.0])
    >>> round(float(model.coef_[0]), 4)  # (2 + 5) / (1 + 1 + 1)
    2.3333
    """

    def _change(self, rows: Rows, residual: Array, weight: float, right: Array | None, start: Array) -> Change:
        from scipy.linalg import cho_factor, cho_solve

        d = rows.shape[1]
        self._check_memory(d)
        gram = _primal_gram(rows)
        right = rows.adjoint(residual) if right is None else right
        before = self.__dict__.get("gram_")
        total = gram if before is None else before + gram
        moment = np.asarray(right + gram @ start, dtype=np.float64)
        moment = moment if before is None else self.moment_ + moment
        weights = cho_solve(cho_factor(total + self.alpha * np.eye(d), lower=True), moment)
        change = weights - start
        after = _after(residual, right, gram, change)
        return Change(change, after, float(self.alpha), keep={"gram_": total, "moment_": moment})


class RecursiveLeastSquares(_Baseline):
    """Recursive least squares, the non-isotropic alternative: the pull to the past is measured by what was seen.

    Keeps P = (alpha·I + Σ_t X_tᵀX_t)⁻¹ and equals :class:`JointRidge` in exact arithmetic. Where one model fits all
    tasks the loss on seen tasks vanishes with alpha. O(d²) memory, O(n d²) a task of n ≤ d rows.

    Parameters
    ----------
    alpha : float, default 1.0
        Positive pull to zero before the first task.
    fit_intercept, memory, history_size, holdout, holdout_size, random_state
        As in :class:`forgetless.ContinualRidge`.

    Examples
    --------
    >>> from forgetless import RecursiveLeastSquares
    >>> model = RecursiveLeastSquares(alpha=1.0).partial_fit([[1.0]], [2.0]).partial_fit([[1.0]], [5.0])
    >>> round(float(model.coef_[0]), 4)
    2.3333

    References
    ----------
    Chong & Żak (2004), Section 12.2; for zero loss on seen tasks, Evron et al. (2023), Proposition 5.5.
    """

    def _change(self, rows: Rows, residual: Array, weight: float, right: Array | None, start: Array) -> Change:
        d = rows.shape[1]
        self._check_memory(d)
        P = self.__dict__.get("inverse_")
        P = np.eye(d) / self.alpha if P is None else P
        if not rows.readable:
            raise ConvergenceError(
                "RecursiveLeastSquares reads the rows of a task twice, which a generator does not allow; "
                "give a list of blocks, or use JointRidge"
            )
        total = np.zeros_like(start, dtype=np.float64)
        for X, r in _few_rows(rows, residual, d):
            r = r - X @ total
            PX = P @ X.T
            system = X @ PX
            system.flat[:: len(system) + 1] += 1.0
            # The gain K solves K(I + XPXᵀ) = PXᵀ.
            gain = np.linalg.solve(system, PX.T).T
            total += gain @ r
            P = P - gain @ PX.T
            P = 0.5 * (P + P.T)
        left = residual - rows.forward(total.astype(residual.dtype, copy=False))
        return Change(
            total, np.einsum("ij,ij->j", left, left, dtype=np.float64), float(self.alpha), keep={"inverse_": P}
        )


def _primal_gram(rows: Rows) -> Array:
    if not rows.dual:
        return rows.gram
    X = rows.single
    gram = X.T @ X
    return np.asarray(gram.toarray() if is_sparse(gram) else gram, dtype=np.float64)


def _after(residual: Array, right: Array, gram: Array, change: Array) -> Array:
    before = np.einsum("ij,ij->j", residual, residual, dtype=np.float64)
    return np.maximum(before - np.sum((2 * right - gram @ change) * change, axis=0), 0.0)


def _few_rows(rows: Rows, residual: Array, d: int) -> Any:
    """Yield dense float64 blocks of at most d rows with their residuals: an update costs n³ beyond that."""
    step = max(1, min(d, BLOCK_BYTES // (8 * d)))
    first = 0
    for block in rows._blocks():
        for low in range(0, block.shape[0], step):
            part = block[low : low + step]
            part = np.asarray(part.toarray() if is_sparse(part) else part, dtype=np.float64)
            yield part, residual[first : first + len(part)].astype(np.float64)
            first += len(part)
