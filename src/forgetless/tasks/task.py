"""One regression task and its singular value decomposition; rows, targets and tasks of a table."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forgetless._core import linalg
from forgetless._core.arrays import Array, Floats, as_float
from forgetless._core.dask_arrays import equal_task, is_remote
from forgetless._core.frames import EXACT, columns_of, integers_of, values_of
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


def make_task(X: Any, y: Any, name: str) -> Task:
    """Return a validated pair (X, y) with its spectrum; errors call it ``name``."""
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


def arrays_of(
    frame: Any, task: str, target: str | Sequence[str], encoder: Any
) -> tuple[Floats, Floats, NDArray[Any]]:
    """Return X, y and the task of every row of a table; ``encoder``, if any, converts its features
    to numbers.
    """
    columns = columns_of(frame, "frame")
    targets = [target] if isinstance(target, str) else list(target)
    check_roles("frame", list(columns), task, targets)
    features = {
        name: column for name, column in columns.items() if name != task and name not in targets
    }
    if not features:
        raise ValueError(
            f"frame has no feature column besides {task!r} and {', '.join(map(repr, targets))}"
        )
    X = (
        _stacked(features, "; use encoder=fl.tables.TableEncoder()")
        if encoder is None
        else encoder.fit_transform(features)
    )
    y = _stacked({name: columns[name] for name in targets}, "")
    X, y = X.toarray() if hasattr(X, "toarray") else X, y[:, 0] if isinstance(target, str) else y
    return X, y, labels_of(columns[task], task)


def check_roles(source: str, names: Sequence[str], task: str, targets: Sequence[str]) -> None:
    """Raise ValueError unless the columns of task and targets exist in ``source`` and are
    different.
    """
    for role, name in (("task", task), *(("target", name) for name in targets)):
        if name not in names:
            raise ValueError(
                f"{source} has no column {name!r} for the {role}; it has {', '.join(names[:50])}"
            )
    if len(set(targets)) < len(targets):
        raise ValueError(f"targets must be different columns, got {', '.join(map(repr, targets))}")
    if task in targets:
        raise ValueError(f"task and target must be different columns, got {task!r} for both")


def labels_of(column: Any, name: str) -> NDArray[Any]:
    """Return the task of every row; ValueError where one is missing."""
    if (integers := integers_of(column)) is not None:
        return integers
    values = values_of(column, name)
    if values.missing.any():
        raise ValueError(
            f"{int(values.missing.sum())} rows have no value of {name!r}; drop or name them"
        )
    if values.kind == "string":
        return np.array(values.labels)[values.codes]
    if values.kind == "time":
        return values.numbers.astype("datetime64[us]")
    whole = np.all(values.numbers == np.floor(values.numbers)) and np.all(
        np.abs(values.numbers) < EXACT
    )
    return values.numbers.astype(np.int64) if whole else values.numbers


def _stacked(columns: Mapping[str, Any], hint: str) -> Floats:
    """Return columns of finite numbers as one array."""
    converted = {name: values_of(column, name) for name, column in columns.items()}
    for name, values in converted.items():
        if values.kind != "number" or not np.all(np.isfinite(values.numbers)):
            content = (
                f"{values.kind}s"
                if values.kind in ("string", "time")
                else "missing or infinite values"
            )
            raise ValueError(f"column {name!r} must hold finite numbers, got {content}{hint}")
    return np.column_stack([values.numbers for values in converted.values()])
