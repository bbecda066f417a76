"""The rule of ``ContinualLogistic``: the proximal step of the softmax loss, with a low-rank memory
of curvatures.

Task t minimizes Σ_i ω_i ℓ(x_iᵀW, y_i) + ½‖B(W − W_{t−1})‖² + (λ_t/2)‖W − W_{t−1}‖², where ℓ is the
cross-entropy of the classes and ω_i the weight of a row. The rows B approximate all tasks so far,
BᵀB ≈ Σ ω_i h_i x_i x_iᵀ, with a second derivative h_i of each row: an online Laplace approximation
of logistic regression on all rows.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from forgetless._core.arrays import Floats
from forgetless.errors import ConvergenceError
from forgetless.estimators._newton import (
    Objective,
    Step,
    by_products,
    gradient_error,
    minimum,
    probabilities,
)
from forgetless.estimators.low_rank import LowRankMemory, Subspace, leading, squared_norm
from forgetless.estimators.rules import LARGEST, Strength, WithStrength, positive_coefficient
from forgetless.estimators.state import Change, State, TaskData
from forgetless.solvers.one_task import task_norm
from forgetless.solvers.rows import Rows, is_sparse
from forgetless.solvers.stacked import Stacked

CURVATURES = ("auto", "fisher", "mean", "bound")

_NEGLIGIBLE = 1e-12
"""Eigenvalues of the memory below this fraction of the largest are rounding."""

_ROUNDING = 1e-14
"""Eigenvalues of rows below this fraction of the largest are rounding."""

MOST_ROWS = 2000
"""Sparse rows of a task up to which it is learned in their coordinates."""

_SMALLEST = 1e-16
"""λ over ‖X‖²: below, λ is lost in the rounding errors of the loss."""

_ACCEPTED = 1e-6
"""Largest relative error of a step; nearly all have at most 1e-10."""


class SoftmaxStep(WithStrength):
    """One proximal step of softmax per task, with λ of a schedule and perhaps a low-rank memory."""

    starts_at_mean = False

    def __init__(
        self,
        strength: Strength,
        memory: LowRankMemory | None,
        curvature: str,
        radius: float | None = None,
    ) -> None:
        self.strength = strength
        self.memory = memory
        self.curvature = curvature
        self.radius = radius

    def step(self, state: State, task: TaskData) -> Change:
        """Return the change of a state by a task."""
        rows = _LabelledRows.of(task)
        start = _against_another(task.start)
        subspace = None
        if self.memory is not None:
            subspace = (
                Subspace.empty(task.start, self.memory) if state.memory is None else state.memory
            )
            subspace = subspace.decayed(self.memory.decay)
        coefficient, radius, largest = self._coefficient(state, task)
        metric = _Metric.of(subspace, coefficient, len(start))
        # The memory is about the weights of the state, from which the step starts unless they are
        # discounted.
        previous = start if state.coef is None else _against_another(state.start(None, None))
        centre = start + metric.towards(previous - start)
        change, error = rows.minimum(metric, centre)
        weights = centre + change
        before = rows.X @ previous
        after = rows.X @ weights
        parts: dict[str, Any] = {"radius": largest}
        if subspace is not None:
            parts["memory"] = self._remembered(subspace, rows, before, after)
        return Change(
            (weights - start)[:, : task.start.shape[1]],
            rows.squared_error(after),
            coefficient,
            radius,
            error,
            parts,
            rows.squared_error(before),
        )

    def _coefficient(self, state: State, task: TaskData) -> tuple[float, float, float]:
        """Return λ, the radius that it was chosen by (NaN if by none), and the largest norm so
        far.
        """
        radius = math.nan if self.radius is None else self.radius
        largest = state.radius
        if self.strength.needs_radius and self.radius is None:
            largest = max(largest, task_norm(task.rows))
            radius = largest
        filter_ = self.strength.at(state.n_tasks + 1, math.sqrt(0.5) * radius)
        return positive_coefficient(filter_, "ContinualLogistic"), radius, largest

    def _remembered(
        self, subspace: Subspace, rows: "_LabelledRows", before: Floats, after: Floats
    ) -> Subspace:
        """Return the memory with the curvatures of a task, from its outputs before and after it was
        learned.
        """
        assert self.memory is not None
        kind = self.curvature
        if kind == "auto":
            kind = "fisher" if after.shape[1] == 2 else "mean"
        factors = np.sqrt(rows.weights * _curvatures(before, after, kind))[:, None]
        scaled = Rows.of(_times(rows.X, factors))
        size = squared_norm(scaled)
        if not size < LARGEST:
            raise OverflowError(
                "the rows of this task are too large to be remembered; rescale X towards 1"
            )
        stack = Stacked(subspace.rows(np.float64), scaled)
        return subspace.with_task(stack, min(self.memory.rank, scaled.shape[1]), size)


def _against_another(weights: Any) -> Floats:
    """Return weights (d, c) in float64; those of a single class beside those of another one that
    may follow.
    """
    W = weights.astype(np.float64)
    return np.hstack([W, -W]) if W.shape[1] == 1 else W


def _curvatures(before: Floats, after: Floats, kind: str) -> Floats:
    """Return the mean of the nonzero eigenvalues of the second derivative of every row, from its
    outputs (n, c).
    """
    n, c = after.shape
    if kind == "bound":
        return np.full(n, 0.5)
    fisher = [np.sum(p * (1.0 - p), axis=1) / (c - 1) for p in map(probabilities, (before, after))]
    return np.asarray(fisher[1] if kind == "fisher" else 0.5 * (fisher[0] + fisher[1]))


class _Metric(NamedTuple):
    """The penalty zᵀ(λR² + BᵀB)z of a change z, by the eigenvalues and eigenvectors of (BR⁻¹)ᵀBR⁻¹;
    R is diagonal.

    With Vᵀ diag(e) V of the latter and z = R⁻¹Tu, T = I − Vᵀ diag(1 − √(λ/(λ + e))) V, the penalty
    is λ‖u‖².
    """

    coefficient: float  # λ
    values: Floats  # e (q,)
    vectors: Floats  # V (q, d)
    root: Floats  # the diagonal of R (d,)

    @classmethod
    def of(cls, subspace: Subspace | None, coefficient: float, d: int) -> "_Metric":
        """Return the metric of a memory of d weights; λ times the identity without one."""
        root = np.ones(d)
        if subspace is None:
            return cls(coefficient, np.zeros(0), np.zeros((0, d)), root)
        if subspace.diagonal is not None:
            root = subspace.penalty_root(coefficient) / math.sqrt(coefficient)
        B = subspace.rows(np.float64) / root
        values, U = leading(B @ B.T)
        count = int(np.sum(values > _NEGLIGIBLE * values.max(initial=0.0)))
        return cls(
            coefficient, values[:count], (U[:, :count] / np.sqrt(values[:count])).T @ B, root
        )

    def _contracted(self, u: Floats) -> Floats:
        """Return Tu, u of shape (d, …)."""
        if len(self.values) == 0:
            return u
        shrinkage = 1.0 - np.sqrt(self.coefficient / (self.coefficient + self.values))
        return np.asarray(u - self.vectors.T @ (shrinkage[:, None] * (self.vectors @ u)))

    def change(self, u: Floats) -> Floats:
        """Return z = R⁻¹Tu, u of shape (d, c)."""
        return np.asarray(self._contracted(u) / self.root[:, None])

    def root_of_gram(self, X: Any) -> tuple[Floats, Floats]:
        """Return S (n, r) with XR⁻¹TTR⁻¹Xᵀ = SSᵀ for sparse rows, and U (n, r) with u = (XR⁻¹T)ᵀUz
        for z (r, c).

        Both are small where rows are few, whatever the number of features.
        """
        scaled = _times(X, 1.0 / self.root[None, :])
        seen = scaled @ self.vectors.T
        gram = (scaled @ scaled.T).toarray() - (
            seen * (self.values / (self.coefficient + self.values))
        ) @ seen.T
        values, U = leading(gram)
        count = max(1, int(np.sum(values > _ROUNDING * values[0])))
        root = np.sqrt(values[:count])
        return U[:, :count] * root, U[:, :count] / np.maximum(root, np.finfo(np.float64).tiny)

    def rows(self, X: Any) -> Any:
        """Return XR⁻¹T: an operator for sparse rows with a memory, else a matrix."""
        scaled = _times(X, 1.0 / self.root[None, :])
        if not is_sparse(X):
            return np.ascontiguousarray(self._contracted(scaled.T).T)
        if len(self.values) == 0:
            return scaled
        from scipy.sparse.linalg import LinearOperator

        def forward(u: Floats) -> Floats:
            return np.asarray(scaled @ self._contracted(u))

        def adjoint(v: Floats) -> Floats:
            return self._contracted(scaled.T @ v)

        return LinearOperator(
            X.shape, matvec=forward, matmat=forward, rmatmat=adjoint, dtype=np.float64
        )

    def towards(self, z: Floats) -> Floats:
        """Return (λR² + BᵀB)⁻¹BᵀBz: from the centre of one penalty to that of the sum of both."""
        if len(self.values) == 0 or not z.any():
            return np.zeros_like(z)
        root = self.root[:, None]
        shares = self.values / (self.coefficient + self.values)
        return np.asarray(self.vectors.T @ (shares[:, None] * (self.vectors @ (z * root))) / root)


def _times(X: Any, factors: Floats) -> Any:
    """Return X, dense or sparse, times factors of shape (n, 1) or (1, d)."""
    return X.multiply(factors).tocsr() if is_sparse(X) else X * factors


class _LabelledRows(NamedTuple):
    """The rows of a task in float64, an intercept included, the numbers of their classes, and their
    weights.
    """

    X: Any  # (n, d), dense or sparse
    labels: Any  # (n,)
    weights: Floats  # (n,)

    @classmethod
    def of(cls, task: TaskData) -> "_LabelledRows":
        """Return the rows of a task, whose residuals are those of one-hot targets."""
        rows = task.rows
        weight = task.weight
        X = rows.single if rows.single is not None else np.concatenate(list(rows.blocks()))
        X = X.astype(np.float64, copy=False)
        residual = task.residual.astype(np.float64)
        weights = np.ones(len(residual)) if weight is None else weight.astype(np.float64)
        if weight is not None:
            inverse = 1.0 / np.sqrt(weights)[:, None]
            X = _times(X, inverse)
            residual = residual * inverse
        targets = residual + X @ task.start.astype(np.float64)
        return cls(X, np.argmax(targets, axis=1), weights)

    def minimum(self, metric: _Metric, centre: Floats) -> tuple[Floats, float]:
        """Return the change of weights from the centre of a penalty to the minimum, and its
        relative error.
        """
        _check_coefficient(self.X, metric.coefficient)
        objective = Objective(
            metric.rows(self.X), self.X @ centre, self.labels, self.weights, metric.coefficient
        )
        step = self._by_rows(metric, objective) if is_sparse(self.X) else minimum(objective)
        if not step.error <= _ACCEPTED:
            raise ConvergenceError(
                f"the step with λ = {metric.coefficient:.3g} on a task of shape {self.X.shape} has"
                f" a relative error of {step.error:.1g}, more than {_ACCEPTED:g}; use"
                " standardize=True, or a larger alpha"
            )
        return metric.change(step.change), step.error

    def _by_rows(self, metric: _Metric, f: Objective) -> Step:
        """Return the minimum for sparse rows: in coordinates of the rows, where these are few, or
        by products only.
        """
        n, d = self.X.shape
        if n >= min(d, MOST_ROWS):
            return by_products(f)
        S, U = metric.root_of_gram(self.X)
        change = f.B.T @ (U @ minimum(f._replace(B=S)).change)
        # Squares lose digits, so that the error is that of the gradient at the change itself.
        error = gradient_error(f, change)
        return Step(change, error) if error <= _ACCEPTED else by_products(f)

    def squared_error(self, outputs: Floats) -> float:
        """Return the weighted squared error of the class probabilities."""
        p = probabilities(outputs)
        p[np.arange(len(p)), self.labels] -= 1.0
        return float(self.weights @ np.sum(p * p, axis=1))


def _check_coefficient(X: Any, coefficient: float) -> None:
    """Raise ValueError for a λ that is not resolved beside the loss of these rows."""
    # ‖X‖₂ ≤ ‖X‖_F ≤ √min(n, d)‖X‖₂: the cheaper norm, for a limit that is rough in any case.
    square = float((X * X).sum()) / max(1, min(X.shape))
    if coefficient < _SMALLEST * square:
        raise ValueError(
            f"the coefficient λ must be at least {_SMALLEST:g} ‖X‖², ‖X‖² ≥ {square:.3g} for these"
            f" rows, got {coefficient:.3g}; use a larger alpha, or standardize=True"
        )
