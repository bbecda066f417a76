"""Baselines with a memory of O(d²), in the interface of the streaming estimators.

Both remember all past tasks and forget nothing: the reference for the schemes with O(d) memory.
"""

from typing import Any, NamedTuple

import numpy as np
from sklearn.base import RegressorMixin

from forgetless._core import validate
from forgetless._core.arrays import Array, Floats, with_zeros
from forgetless.errors import ConvergenceError
from forgetless.estimators._units import UnitChange
from forgetless.estimators.regressor import StreamingRegressor, store
from forgetless.estimators.rules import Rule
from forgetless.estimators.state import Change, Learned, State, TaskData
from forgetless.io import Fields
from forgetless.solvers.remote import RemoteRows
from forgetless.solvers.rows import BLOCK_BYTES, Rows, is_sparse, sum_of_grams

EPS = float(np.finfo(np.float64).eps)


class NormalEquations(NamedTuple):
    """The sums of XᵀX (d, d) and Xᵀy (d, c) of all tasks, and the ridge penalty."""

    gram: Array
    moment: Array
    alpha: float

    def in_units(self, change: UnitChange, total: float) -> "NormalEquations":
        """Return the sums in other units of the columns."""
        return self._replace(gram=change.gram(self.gram), moment=change.rows(self.moment.T).T)

    def widened(self, d: int, count: int) -> "NormalEquations":
        """Return the sums with ``count`` more features behind the first d."""
        gram = with_zeros(with_zeros(self.gram, d, count, 0), d, count, 1)
        return self._replace(gram=gram, moment=with_zeros(self.moment, d, count, 0))

    def arrays(self) -> dict[str, Any]:
        """Return the memory as arrays for a file."""
        return {name: getattr(self, name) for name in ("gram", "moment")}

    def detached(self) -> "NormalEquations":
        """Return the sums, which are never changed in place."""
        return self

    def leverage(self, rows: Floats) -> Floats:
        """Return xᵀ(Σ XᵀX + alpha·I)⁻¹x of rows (n, d)."""
        A = self.gram + self.alpha * np.eye(rows.shape[1])
        return np.asarray(np.einsum("ij,ij->i", rows, np.linalg.solve(A, rows.T).T))


class InverseGram(NamedTuple):
    """P = (alpha·I + Σ XᵀX)⁻¹ of shape (d, d), the sum of ‖X‖² (Frobenius), and alpha."""

    inverse: Array
    energy: float
    alpha: float

    def in_units(self, change: UnitChange, total: float) -> "InverseGram":
        """Return the inverse in other units of the columns, after rows of weight ``total``."""
        P = change.weights(change.weights(self.inverse).T)
        # In standardized units every column has a mean square of 1, and the prior is converted with
        # the rest.
        return self._replace(inverse=P, energy=total * len(P))

    def widened(self, d: int, count: int) -> "InverseGram":
        """Return the inverse with ``count`` more features behind the first d."""
        P = with_zeros(with_zeros(self.inverse, d, count, 0), d, count, 1)
        new = np.arange(d, d + count)
        P[new, new] = 1.0 / self.alpha
        return self._replace(inverse=P)

    def arrays(self) -> dict[str, Any]:
        """Return the memory as arrays for a file."""
        return {name: getattr(self, name) for name in ("inverse", "energy")}

    def detached(self) -> "InverseGram":
        """Return the inverse, which is never changed in place."""
        return self

    def leverage(self, rows: Floats) -> Floats:
        """Return xᵀPx of rows (n, d)."""
        return np.asarray(np.einsum("ij,jk,ik->i", rows, self.inverse, rows, optimize=True))


class JointRule(Rule):
    """Ridge regression on all tasks together, from the sums XᵀX and Xᵀy."""

    def __init__(self, alpha: float) -> None:
        self.alpha = alpha

    def step(self, state: State, task: TaskData) -> Change:
        """Return the change of a state by a task."""
        d = task.rows.shape[1]
        _check_memory("JointRidge", d)
        gram = _primal_gram(task.rows)
        right = _moment(task.rows, task.residual, d) if task.right is None else _float64(task.right)
        start = _float64(task.start)
        moment = right + gram @ start
        total = gram
        if state.memory is not None:
            total, moment = state.memory.gram + gram, state.memory.moment + moment
        weights, rcond = _solve_positive(total + self.alpha * np.eye(d), moment)
        change = weights - start
        with np.errstate(over="ignore", invalid="ignore"):  # the state rejects infinite weights
            after = np.maximum(
                _squares(task.residual) - np.sum((2 * right - gram @ change) * change, axis=0), 0.0
            )
        memory = NormalEquations(total, moment, self.alpha)
        return Change(change, after, self.alpha, error=10 * EPS / rcond, parts={"memory": memory})


class RecursiveRule(Rule):
    """Recursive least squares: updates of P = (alpha·I + Σ XᵀX)⁻¹."""

    def __init__(self, alpha: float) -> None:
        self.alpha = alpha

    def step(self, state: State, task: TaskData) -> Change:
        """Return the change of a state by a task."""
        rows, residual, d = task.rows, task.residual, task.rows.shape[1]
        _check_memory("RecursiveLeastSquares", d)
        if isinstance(rows, RemoteRows):
            X, residual = rows.reduced()  # an equal task of few rows
            rows = Rows.of(X)
        if not rows.readable:
            raise ConvergenceError(
                "RecursiveLeastSquares reads the rows of a task twice, which a generator does not"
                " allow; give a list of blocks, or use JointRidge"
            )
        P, energy = np.eye(d) / self.alpha, 0.0
        if state.memory is not None:
            P, energy, _ = state.memory
        total = np.zeros(task.start.shape)
        for X, r in _few_rows(rows, residual, d):
            P, change = _updated(P, X, r - X @ total)
            total += change
            energy += float(np.sum(X * X))
        left = residual - rows.forward(total.astype(residual.dtype, copy=False))
        # ‖P‖·‖P⁻¹‖ is at most this, which bounds the effect of rounding.
        condition = float(np.abs(P).sum(axis=0).max()) * (self.alpha + energy)
        memory = InverseGram(P, energy, self.alpha)
        return Change(
            total, _squares(left), self.alpha, error=10 * EPS * condition, parts={"memory": memory}
        )


class JointRidge(RegressorMixin, StreamingRegressor):  # type: ignore[misc]
    """Ridge regression on all tasks together, from the sums XᵀX and Xᵀy of the tasks seen.

    The solution minimizes Σ_t ½‖X_t w − y_t‖² + (alpha/2)‖w‖² over the tasks so far: O(d²) memory
    and O(d³) a task.

    Parameters
    ----------
    alpha : float, default 1.0
        Positive penalty of ‖w‖²/2.
    fit_intercept, standardize
        As in :class:`forgetless.ContinualRidge`.

    Examples
    --------
    >>> from forgetless import JointRidge
    >>> model = JointRidge(alpha=1.0).partial_fit([[1.0]], [2.0]).partial_fit([[1.0]], [5.0])
    >>> round(float(model.coef_[0]), 4)  # (2 + 5) / (1 + 1 + 1)
    2.3333
    """

    gram_ = Learned(
        lambda state: state.memory and state.memory.gram, "The sum of XᵀX of all tasks."
    )
    moment_ = Learned(
        lambda state: state.memory and state.memory.moment, "The sum of Xᵀy of all tasks."
    )

    def __init__(
        self, alpha: float = 1.0, *, fit_intercept: bool = False, standardize: bool = False
    ) -> None:
        store(self, locals())

    def _make_rule(self, n_groups: int | None) -> Rule:
        return JointRule(_checked_alpha(self.alpha))

    def _read_memory(self, fields: Fields, d: int, c: int) -> NormalEquations:
        return NormalEquations(
            fields.array("gram", "f", (d, d)), fields.array("moment", "f", (d, c)), self.alpha
        )


class RecursiveLeastSquares(RegressorMixin, StreamingRegressor):  # type: ignore[misc]
    """Recursive least squares: the penalty on a change of the weights is measured by Σ XᵀX of the
    tasks seen.

    Stores P = (alpha·I + Σ_t X_tᵀX_t)⁻¹ and equals :class:`JointRidge` in exact arithmetic; with
    ``standardize`` the prior alpha·I stays in the units of the first task, where ``JointRidge`` has
    it in those of all. Where one model fits all tasks the loss on seen tasks vanishes with alpha.
    O(d²) memory, O(n d²) a task of n ≤ d rows.

    Parameters
    ----------
    alpha : float, default 1.0
        Positive penalty of ‖w‖²/2 before the first task.
    fit_intercept, standardize
        As in :class:`forgetless.ContinualRidge`.

    Examples
    --------
    >>> from forgetless import RecursiveLeastSquares
    >>> model = RecursiveLeastSquares(alpha=1.0).partial_fit([[1.0]], [2.0]).partial_fit([[1.0]],
    ...     [5.0])
    >>> round(float(model.coef_[0]), 4)
    2.3333

    References
    ----------
    Chong & Żak (2004), Section 12.2; for zero loss on seen tasks, Evron et al. (2023), Proposition
    5.5.
    """

    _gram_suffices = False

    _fixed_names = (*StreamingRegressor._fixed_names, "alpha")  # a part of the first inverse

    inverse_ = Learned(
        lambda state: state.memory and state.memory.inverse, "P, the inverse of alpha·I + Σ XᵀX."
    )
    energy_ = Learned(
        lambda state: state.memory and state.memory.energy,
        "The sum of ‖X‖² (Frobenius) of all tasks.",
    )

    def __init__(
        self, alpha: float = 1.0, *, fit_intercept: bool = False, standardize: bool = False
    ) -> None:
        store(self, locals())

    def _make_rule(self, n_groups: int | None) -> Rule:
        return RecursiveRule(_checked_alpha(self.alpha))

    def _read_memory(self, fields: Fields, d: int, c: int) -> InverseGram:
        return InverseGram(
            fields.array("inverse", "f", (d, d)), fields.number("energy"), self.alpha
        )


def _checked_alpha(alpha: float) -> float:
    return validate.number("alpha", alpha, "the prior must be proper; use e.g. 1e-6", positive=True)


def _check_memory(name: str, d: int) -> None:
    if 16 * d * d > validate.FACTORIZATION_LIMIT:
        raise MemoryError(
            f"{name} stores a matrix of shape ({d}, {d}) and needs {16 * d * d:,} bytes for it,"
            f" more than the limit of {validate.FACTORIZATION_LIMIT:,}; use ContinualRidge, whose"
            " memory is O(d)"
        )


def _updated(P: Array, X: Array, r: Array) -> tuple[Array, Array]:
    """Return P and the change of the weights after some rows; half as many at a time where they are
    ill-conditioned.
    """
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
            "the tasks are too ill-conditioned together for this alpha, or too large to be squared;"
            " use a larger alpha, or rescale X towards 1"
        )
    return lapack.dpotrs(factor, b, lower=1)[0], float(rcond)


def _primal_gram(rows: Rows) -> Array:
    return sum_of_grams([rows.single], rows.shape[1]) if rows.dual else rows.gram


def _few_rows(rows: Rows, residual: Array, d: int) -> Any:
    """Yield dense float64 blocks of at most d rows with their residuals: an update costs n³ beyond
    that.
    """
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
