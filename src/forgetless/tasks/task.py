"""One regression task and its singular value decomposition; the outputs of weights on tasks.

With X = U diag(s) V the loss of a task is

    ½‖Xw − y‖² = ½‖x‖² + floor,   x = s ∘ (V w − V X⁺y),

so that everything in this library reads a task through its singular vectors V, its singular values
s, the targets V X⁺y and the floor. The *outputs* x are errors, along the singular vectors. Those of
all tasks are one vector of length Σr: losses, forgetting and drift are sums over its parts.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from forgetless import _linalg as linalg
from forgetless._validate import Array, Floats, as_float


@dataclass(frozen=True, eq=False)
class Task:
    """One regression task ½‖Xw − y‖² and its spectrum; unpacks as ``X, y = task``.

    Attributes
    ----------
    X : array of shape (n, d)
    y : array of shape (n,) or (n, c)
    singular_vectors : array of shape (r, d)
        V: the right singular vectors of X with nonzero singular value, as rows; the largest entry
        of each is positive.
    singular_values : array of shape (r,)
        s, in decreasing order.
    targets : array of shape (r,) or (r, c)
        V X⁺y, the target of ``singular_vectors @ w``.
    floor : float
        The loss that no weights avoid, ½‖y − X X⁺y‖².
    sizes : array of shape (c,)
        The scale of the numbers behind each target: ‖y‖ for labels that were given, more for
        ``shifted`` ones. Rounding errors of targets are eps times this over s.
    """

    X: Floats
    y: Floats
    singular_vectors: Floats
    singular_values: Floats
    targets: Floats
    floor: float
    sizes: Floats

    @classmethod
    def of(
        cls,
        X: Any,
        y: Any,
        name: str,
    ) -> "Task":
        """Return the task of a pair (X, y); errors call it ``name``."""
        X = as_float(f"X of {name}", X)
        y = as_float(f"y of {name}", y)
        _check_pair(X, y, name)
        # Threads of BLAS gain nothing on one of many matrices of middling size.
        with linalg.quiet_products(X.size):
            U, s, V = linalg.spectrum(X)
        # A singular vector is determined up to its sign, which differs between versions of LAPACK.
        turned = signs(V)
        V = V * turned
        U = U * turned.T
        # X⁺y = Vᵀ s⁻¹ Uᵀy, so that V X⁺y = s⁻¹ Uᵀy.
        fit = U.T @ y
        # With independent rows every y can be fitted, and what remains is rounding.
        rest = np.zeros(1) if len(s) == len(X) else y - U @ fit
        targets = fit / s.reshape(-1, *[1] * (y.ndim - 1))
        floor = 0.5 * float(np.sum(rest * rest))
        sizes = linalg.norms(y)
        return cls(X, y, V, s, targets, floor, sizes)

    @property
    def rank(self) -> int:
        """Numerical rank r of X."""
        return len(self.singular_values)

    @property
    def radius(self) -> float:
        """Spectral norm of X, 0 for a task without information."""
        return float(np.max(self.singular_values, initial=0.0))

    def shifted(self, w: Floats) -> "Task":
        """Return the task of labels y − X w, which has the same spectrum and the same floor."""
        # y and X w may cancel, but their rounding errors do not.
        return replace(
            self,
            y=self.y - self.X @ w,
            targets=self.targets - self.singular_vectors @ w,
            sizes=self.sizes + self.radius * linalg.norms(w),
        )

    def loss(self, w: Any) -> float:
        """Return ½‖Xw − y‖², summed over targets."""
        residuals = self.X @ as_float("w", w) - self.y
        return 0.5 * float(np.sum(residuals**2))

    def __iter__(self) -> Iterator[Floats]:
        return iter((self.X, self.y))

    def __repr__(self) -> str:
        n, d = self.X.shape
        return f"Task(n={n}, d={d}, rank={self.rank}, radius={self.radius:.4g})"


def signs(rows: Floats) -> Array:
    """Return the signs (n, 1) that make the largest entry of every row positive.

    Singular vectors and eigenvectors have no sign: versions of LAPACK differ, and with them the
    label noise that a seed stands for.
    """
    # The first entry that is largest up to rounding decides.
    largest = np.argmax(np.abs(rows).round(9), axis=1, keepdims=True)
    return np.sign(np.take_along_axis(rows, largest, 1))


def _check_pair(
    X: Floats,
    y: Floats,
    name: str,
) -> None:
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
    if len(X) != len(y):
        raise ValueError(
            f"X and y of {name} must have the same number of rows, got {len(X)} and {len(y)}; give"
            " one target row per row of X"
        )
    if 0 in X.shape[1:] + y.shape[1:]:
        raise ValueError(
            f"X and y of {name} must have at least one column, got shapes {X.shape} and {y.shape}"
        )


def as_task(pair: Any, m: int) -> Task:
    """Return the task of a pair (X, y), the m-th of a collection; TypeError for anything else."""
    if isinstance(pair, Task):
        return pair
    try:
        X, y = pair
    except (TypeError, ValueError):
        raise TypeError(
            f"tasks must hold pairs (X, y), got {type(pair).__name__} at position {m}"
        ) from None
    return Task.of(X, y, f"task {m}")


def check_alike(tasks: Sequence[Task]) -> None:
    """Raise ValueError unless there are tasks, of the same features and targets."""
    if not tasks:
        raise ValueError("tasks must hold at least one pair (X, y), got an empty collection")
    # The number of rows may differ.
    shapes = [(task.X.shape[1], task.y.shape[1:]) for task in tasks]
    first = shapes[0]
    for m, shape in enumerate(shapes):
        if shape != first:
            raise ValueError(
                f"X of task {m} has {shape[0]} columns and y of task {m} has shape"
                f" {tasks[m].y.shape}, but those of task 0 have {first[0]} and {tasks[0].y.shape};"
                " all tasks must share the same features and targets"
            )


class Outputs:
    """The metrics of weights, from outputs x = s ∘ (V w − V X⁺y), with which a loss is ½‖x‖².

    A subclass has a collection ``tasks``, ``n_steps`` and the arrays below. With means and spreads
    no two large numbers are subtracted: over the visits of a task, n of them with outputs x_t, mean
    x̄ and spread Σ‖x_t − x̄‖², the sum of ‖x‖² − ‖x_t‖² is n(‖x‖² − ‖x̄‖²) − spread.

    Attributes
    ----------
    rows : array of shape (..., c, d)
        The weights of c targets.
    visits : array of shape (..., M)
        Steps on each task so far.
    means : array of shape (..., c, Σr)
        Mean outputs of each task right after its own steps.
    spreads : array of shape (..., M)
        Sums of the squared distances of those outputs from their means.
    """

    tasks: Any
    n_steps: int
    rows: Floats
    visits: Floats
    means: Floats
    spreads: Floats

    @cached_property
    def outputs(self) -> Array:
        """The errors s ∘ (V w − V X⁺y) along all singular vectors, of shape (..., c, Σr)."""
        # The error V w − V X⁺y of every singular vector, times its singular value.
        errors = self._times(self.tasks.singular_vectors) - self.tasks.targets.T
        return errors * self.tasks.singular_values

    @cached_property
    def losses(self) -> Array:
        """L(w; m) of every task, of shape (..., M)."""
        return 0.5 * self.tasks.by_task((self.outputs**2).sum(-2)) + self.tasks.floors

    @property
    def seen(self) -> Array:
        """Sums of losses over the visits of each task, of shape (..., M)."""
        return self.visits * self.losses

    @property
    def forgotten(self) -> Array:
        """Sums of changes of losses since the visits of each task, of shape (..., M)."""
        # ‖x‖² − ‖x̄‖² as a product, which vanishes with the change.
        products = (self.outputs - self.means) * (self.outputs + self.means)
        gains = self.tasks.by_task(products.sum(-2))
        return 0.5 * (self.visits * gains - self.spreads)

    @property
    def moved(self) -> Array:
        """Sums of squared changes of outputs since the visits of each task, of shape (..., M)."""
        # Σ ‖x − x_t‖² = n ‖x − x̄‖² + spread over the n visits.
        squares = ((self.outputs - self.means) ** 2).sum(-2)
        return self.visits * self.tasks.by_task(squares) + self.spreads

    def square(self, A: Any, b: Any) -> Array:
        """Return ‖A w − b‖² summed over targets, of shape (...); ‖w − b‖² where A is None."""
        # The identity would be a matrix of d × d.
        products = self.rows if A is None else self._times(A)
        errors = products - columns(b, self.tasks).T
        return np.sum(errors**2, axis=(-2, -1))

    def _times(self, A: Any) -> Array:
        """Return A w for n rows of A, of shape (..., c, n)."""
        # One product for all weights: a product for each of them would read A as often.
        flat = self.rows.reshape(-1, self.tasks.n_features) @ np.transpose(A)
        return flat.reshape(*self.rows.shape[:-1], -1)


def columns(b: Any, tasks: Any) -> Floats:
    """Return targets b as a matrix with a column for every target; one number stands for all."""
    # Rows of b are rows of A: one target is one column.
    array = np.asarray(b, dtype=np.float64)
    return array.reshape(-1, tasks.n_targets) if array.ndim else array[None, None]
