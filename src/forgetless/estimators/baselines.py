"""Baselines with a memory of O(d²), in the interface of the streaming estimators.

Both remember all past tasks and forget nothing that their memory holds. They are what the O(d) schemes give up.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from sklearn.base import RegressorMixin

from forgetless._core import validate
from forgetless._core.arrays import Array
from forgetless.errors import ConvergenceError
from forgetless.estimators._units import Move, Units
from forgetless.estimators._wider import inserted
from forgetless.estimators.model import StreamingModel, store
from forgetless.estimators.state import Change, Gathered, Learned, State
from forgetless.solvers.remote import RemoteRows
from forgetless.solvers.rows import BLOCK_BYTES, Rows, is_sparse, sum_of_grams

EPS = float(np.finfo(np.float64).eps)


class _Baseline(RegressorMixin, StreamingModel):  # type: ignore[misc]
    alpha: float

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        fit_intercept: bool = False,
        standardize: bool = False,
        memory: int = 2**31,
        history_size: int = 1000,
        holdout: float = 0.0,
        holdout_size: int = 10_000,
        random_state: int | None = None,
    ) -> None:
        store(self, locals())

    def _check_parameters(self, state: State | None) -> None:
        super()._check_parameters(state)
        validate.number("alpha", self.alpha, "the prior must be proper; use e.g. 1e-6", positive=True)

    def _check_memory(self, d: int) -> None:
        if 16 * d * d > self.memory:
            raise MemoryError(
                f"{type(self).__name__} keeps a matrix of shape ({d}, {d}) and needs {16 * d * d:,} bytes for it, "
                f"more than memory={self.memory:,}; use ContinualRidge, whose memory is O(d), or allow more"
            )


class JointRidge(_Baseline):
    """Ridge regression on all tasks together, from the sums XᵀX and Xᵀy of the tasks seen.

    The solution minimises Σ_t ½‖X_t w − y_t‖² + (alpha/2)‖w‖² over the tasks so far: O(d²) memory and O(d³) a task.

    Parameters
    ----------
    alpha : float, default 1.0
        Positive pull to zero.
    fit_intercept, standardize, memory, history_size, holdout, holdout_size, random_state
        As in :class:`forgetless.ContinualRidge`.

    Examples
    --------
    >>> from forgetless import JointRidge
    >>> model = JointRidge(alpha=1.0).partial_fit([[1.0]], [2.0]).partial_fit([[1.0]], [5.0])
    >>> round(float(model.coef_[0]), 4)  # (2 + 5) / (1 + 1 + 1)
    2.3333
    """

    _remembered: ClassVar[Mapping[str, str]] = {"gram_": "dd", "moment_": "dc"}

    gram_ = Learned(lambda state: state.memory.get("gram_"), "The sum of XᵀX of all tasks.")
    moment_ = Learned(lambda state: state.memory.get("moment_"), "The sum of Xᵀy of all tasks.")

    def _restated(self, state: State, units: Units) -> State:
        if state.units is not None and state.memory:
            move, gram, moment = Move.between(state.units, units), state.memory["gram_"], state.memory["moment_"]
            state = state._replace(memory={"gram_": move.both(gram), "moment_": move.rows(moment.T).T})
        return super()._restated(state, units)

    def _widened(self, state: State, count: int, names: Any) -> State:
        if state.memory:
            d, gram, moment = state.coef.shape[-1], state.memory["gram_"], state.memory["moment_"]
            gram = inserted(inserted(gram, d, count, 0), d, count, 1)
            state = state._replace(memory={"gram_": gram, "moment_": inserted(moment, d, count, 0)})
        return super()._widened(state, count, names)

    def _step(self, state: State, task: Gathered) -> Change:
        d = task.rows.shape[1]
        self._check_memory(d)
        gram = _primal_gram(task.rows)
        right = _moment(task.rows, task.residual, d) if task.right is None else _float64(task.right)
        start = _float64(task.start)
        moment = right + gram @ start
        total = gram
        if state.memory:
            total, moment = state.memory["gram_"] + gram, state.memory["moment_"] + moment
        weights, rcond = _solve_positive(total + self.alpha * np.eye(d), moment)
        change = weights - start
        with np.errstate(over="ignore", invalid="ignore"):  # the state refuses what is no number
            after = np.maximum(_squares(task.residual) - np.sum((2 * right - gram @ change) * change, axis=0), 0.0)
        memory = {"gram_": total, "moment_": moment}
        return Change(change, after, float(self.alpha), error=10 * EPS / rcond, parts={"memory": memory})


class RecursiveLeastSquares(_Baseline):
    """Recursive least squares, the non-isotropic alternative: the pull to the past is measured by what was seen.

    Keeps P = (alpha·I + Σ_t X_tᵀX_t)⁻¹ and equals :class:`JointRidge` in exact arithmetic; with ``standardize`` the
    prior alpha·I stays in the units of the first task, where ``JointRidge`` has it in those of all. Where one model
    fits all tasks the loss on seen tasks vanishes with alpha. O(d²) memory, O(n d²) a task of n ≤ d rows.

    Parameters
    ----------
    alpha : float, default 1.0
        Positive pull to zero before the first task.
    fit_intercept, standardize, memory, history_size, holdout, holdout_size, random_state
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

    inverse_ = Learned(lambda state: state.memory.get("inverse_"), "P, the inverse of alpha·I + Σ XᵀX.")
    energy_ = Learned(lambda state: state.memory.get("energy_"), "The sum of ‖X‖² (Frobenius) of all tasks.")

    _remembered: ClassVar[Mapping[str, str]] = {"inverse_": "dd", "energy_": ""}

    _fixed_names = (*StreamingModel._fixed_names, "alpha")  # it went into the first inverse

    def _restated(self, state: State, units: Units) -> State:
        if state.units is not None and state.memory:
            move, P = Move.between(state.units, units), state.memory["inverse_"]
            # In standardised units every column has a mean square of 1, and the prior moves with the rest.
            energy = state.units.total * len(P)
            state = state._replace(memory={"inverse_": move.weights(move.weights(P).T), "energy_": energy})
        return super()._restated(state, units)

    def _widened(self, state: State, count: int, names: Any) -> State:
        if state.memory:
            d, P = state.coef.shape[-1], state.memory["inverse_"]
            P = inserted(inserted(P, d, count, 0), d, count, 1)
            new = np.arange(d, d + count)
            P[new, new] = 1.0 / self.alpha
            state = state._replace(memory={**state.memory, "inverse_": P})
        return super()._widened(state, count, names)

    def _step(self, state: State, task: Gathered) -> Change:
        rows, residual, d = task.rows, task.residual, task.rows.shape[1]
        self._check_memory(d)
        if isinstance(rows, RemoteRows):
            X, residual = rows.reduced()  # an equal task of few rows
            rows = Rows.of(X)
        if not rows.readable:
            raise ConvergenceError(
                "RecursiveLeastSquares reads the rows of a task twice, which a generator does not allow; "
                "give a list of blocks, or use JointRidge"
            )
        P, energy = np.eye(d) / self.alpha, 0.0
        if state.memory:
            P, energy = state.memory["inverse_"], state.memory["energy_"]
        total = np.zeros(task.start.shape)
        for X, r in _few_rows(rows, residual, d):
            P, change = _updated(P, X, r - X @ total)
            total += change
            energy += float(np.sum(X * X))
        left = residual - rows.forward(total.astype(residual.dtype, copy=False))
        # ‖P‖·‖P⁻¹‖ is at most this, which bounds what rounding does.
        condition = float(np.abs(P).sum(axis=0).max()) * (self.alpha + energy)
        memory = {"inverse_": P, "energy_": energy}
        return Change(total, _squares(left), float(self.alpha), error=10 * EPS * condition, parts={"memory": memory})


def _updated(P: Array, X: Array, r: Array) -> tuple[Array, Array]:
    """Return P and the change of the weights after some rows; half as many at a time where they are ill-conditioned."""
    PX = P @ X.T
    system = X @ PX
    system.flat[:: len(system) + 1] += 1.0
    gain, rcond = _solve_positive(system, PX.T)
    if rcond < 1e-6 and len(X) > 1:
        half = len(X) // 2
        P, first = _updated(P, X[:half], r[:half])
        P, second = _updated(P, X[half:], r[half:] - X[half:] @ first)
        return P, first + second
    P = P - gain.T @ PX.T
    return 0.5 * (P + P.T), gain.T @ r


def _solve_positive(A: Array, b: Array) -> tuple[Array, float]:
    """Return A⁻¹b for a positive definite A, and an estimate of its reciprocal condition."""
    from scipy.linalg import lapack

    norm1 = float(np.abs(A).sum(axis=0).max())
    factor, info = lapack.dpotrf(A.T, lower=1, clean=0)
    rcond = lapack.dpocon(factor, norm1, uplo="L")[0] if info == 0 and np.isfinite(norm1) else 0.0
    if rcond == 0:
        raise ConvergenceError(
            "the tasks are too ill-conditioned together for this alpha, or too large to be squared; use a larger "
            "alpha, or rescale X towards 1"
        )
    return lapack.dpotrs(factor, b, lower=1)[0], float(rcond)


def _primal_gram(rows: Rows) -> Array:
    return sum_of_grams([rows.single], rows.shape[1]) if rows.dual else rows.gram


def _few_rows(rows: Rows, residual: Array, d: int) -> Any:
    """Yield dense float64 blocks of at most d rows with their residuals: an update costs n³ beyond that."""
    step = max(1, min(d, BLOCK_BYTES // (8 * d)))
    first = 0
    for block in rows.blocks():
        for low in range(0, block.shape[0], step):
            part = block[low : low + step]
            part = np.asarray(part.toarray() if is_sparse(part) else part, dtype=np.float64)
            yield part, residual[first : first + len(part)].astype(np.float64)
            first += len(part)


def _moment(rows: Rows, residual: Array, d: int) -> Array:
    """Return Xᵀr, summed in float64 whatever the rows are."""
    return sum((X.T @ r for X, r in _few_rows(rows, residual, d)), np.zeros((d, residual.shape[1])))


def _float64(array: Array) -> Array:
    return np.asarray(array, dtype=np.float64)


def _squares(columns: Array) -> Array:
    return np.einsum("ij,ij->j", columns, columns, dtype=np.float64)
