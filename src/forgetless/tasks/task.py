"""One regression task and its singular value decomposition."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from forgetless._core import linalg
from forgetless._core.arrays import Array, as_float
from forgetless._core.dask_arrays import equal_task, is_remote
from forgetless._core.linalg import quiet_products


@dataclass(frozen=True, eq=False)
class Task:
    """One regression task ½‖Xw − y‖² and its spectrum; unpacks as ``X, y = task``.

    Attributes
    ----------
    X : array of shape (n, d)
    y : array of shape (n,) or (n, c)
    singular_vectors : array of shape (r, d)
        V: the right singular vectors of X with nonzero singular value, as rows.
    singular_values : array of shape (r,)
        s, in decreasing order.
    targets : array of shape (r,) or (r, c)
        V X⁺y, the target of ``singular_vectors @ w``. The task's excess loss is ½‖s ∘ (V w −
        targets)‖².
    floor : float
        The irreducible loss of this task, ½‖y − X X⁺y‖².
    """

    X: Array
    y: Array
    singular_vectors: Array
    singular_values: Array
    targets: Array
    floor: float

    @property
    def rank(self) -> int:
        """Numerical rank r of X."""
        return int(self.singular_values.shape[0])

    @property
    def radius(self) -> float:
        """Spectral norm of X, 0 for a task without information."""
        return float(self.singular_values[0]) if self.rank else 0.0

    def loss(self, w: Array) -> float:
        """Return ½‖Xw − y‖² (summed over targets)."""
        expected = (self.X.shape[1], *self.y.shape[1:])
        w = as_float("w", w)
        if w.shape != expected:
            raise ValueError(f"w must have shape {expected} for this task, got {w.shape}")
        residual = self.X @ w - self.y
        return 0.5 * float(np.sum(residual * residual))

    def __iter__(self) -> Iterator[Array]:
        return iter((self.X, self.y))

    def __repr__(self) -> str:
        n, d = self.X.shape
        return f"Task(n={n}, d={d}, rank={self.rank}, radius={self.radius:.4g})"


def make_task(X: Any, y: Any, name: str = "task") -> Task:
    """Return a validated pair (X, y) with its spectrum."""
    if is_remote(X):
        X, y = equal_task(X, y)
    X, y = as_float(f"X of {name}", X), as_float(f"y of {name}", y)
    if X.ndim != 2:
        raise ValueError(
            f"X of {name} must have shape (n, d), got {X.shape}; use X.reshape(1, -1) for a"
            " single row"
        )
    if y.ndim not in (1, 2):
        raise ValueError(
            f"y of {name} must have shape (n,) or (n, c), got {y.shape}; flatten the targets to"
            " columns"
        )
    if X.shape[0] != y.shape[0]:
        raise ValueError(
            f"X and y of {name} must have the same number of rows, got {X.shape[0]} and"
            f" {y.shape[0]}; give one target row per row of X"
        )
    if y.ndim == 2 and y.shape[1] == 0:
        raise ValueError(f"y of {name} must have at least one column, got shape {y.shape}")
    if X.shape[1] == 0:
        raise ValueError(f"X of {name} must have at least one column, got shape {X.shape}")
    with quiet_products(X.shape[0] * X.shape[1]):
        U, s, V = linalg.spectrum(X)
    fit = U.T @ y
    rest = y - U @ fit
    targets = fit / (s if y.ndim == 1 else s[:, None])
    # With independent rows every y can be fitted, and the residual is rounding.
    floor = 0.0 if s.shape[0] == X.shape[0] else 0.5 * float(np.sum(rest * rest))
    return Task(X, y, V, s, targets, floor)
