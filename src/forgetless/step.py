"""THE equation: one task and one filter make an affine map of the weights.

    w  ←  w − φ(XᵀX) (w − X⁺y)

In the spectrum X = U·diag(s)·V of the task this is w ← w − Vᵀ φ(s²) ∘ (V w − V X⁺y). Every other place in the
package that moves weights applies this map in other coordinates, through :class:`Coordinates`.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from forgetless._arrays import Array, as_float, from_numpy, namespace_of, same_library, to_numpy, zeros
from forgetless.filters import Filter
from forgetless.tasks import Task, TaskCollection


def check_single(task: Any, filter: Any) -> None:
    """Refuse anything but one task and the filter of one step."""
    if not isinstance(task, Task) or not isinstance(filter, Filter):
        raise TypeError(
            f"this needs a Task, such as tasks[0], and a filter, such as fl.Ridge(1.0); got {type(task).__name__} and "
            f"{type(filter).__name__}"
        )
    if filter.horizon is not None:
        raise ValueError(f"filter must be that of a single step, got {filter.horizon} steps; use filter.at(t - 1)")


def step(w: Any, task: Task, filter: Filter) -> Array:
    """Return the weights after learning one task.

    Parameters
    ----------
    w : array of shape (d,) or (d, c)
        Weights before the step.
    task : Task
        An element of a ``TaskCollection``.
    filter : Filter
        How much of each direction is learned; constant, or ``schedule(k, radius).at(t - 1)`` for step t.

    Returns
    -------
    array of the shape of ``w``

    Examples
    --------
    >>> import forgetless as fl
    >>> task = fl.TaskCollection([([[1.0, 0.0]], [2.0])])[0]
    >>> fl.step([0.0, 5.0], task, fl.Ridge(1.0)).tolist()
    [1.0, 5.0]
    """
    check_single(task, filter)
    w = same_library(as_float("w", w), like=task.X)
    expected = (task.X.shape[1], *task.y.shape[1:])
    if tuple(w.shape) != expected:
        raise ValueError(f"w must have shape {expected} for this task, got {tuple(w.shape)}")
    share = from_numpy(np.asarray(filter.learned(to_numpy(task.singular_values))), like=task.X)
    error = task.directions @ w - task.targets
    return w - task.directions.T @ (error * (share if w.ndim == 1 else share[:, None]))


@dataclass(frozen=True, eq=False)
class Coordinates:
    """Small coordinates in which the equation is applied to a whole collection.

    Both kinds track a state with rows of length Q per target and know the error e = V w − V X⁺y of every direction
    of every task, Σr in number. A step on task m takes a = e on the rows of m and subtracts (φ ∘ a) @ maps[rows].

    * *span*: the state is w − w₀ in an orthonormal basis of the joint span, Q = q; maps are the directions there.
    * *gram*: the state is e itself, Q = Σr; maps is the Gram matrix V Vᵀ. One product less per step, for Σr ≪ d.

    Attributes
    ----------
    maps : array of shape (Σr, Q)
    missing : array of shape (Σr, c)
        V X⁺y − V w₀, minus the errors at the start.
    gram : bool
    basis : array of shape (d, Q) or None
        Span coordinates only: None if they are the features themselves.
    """

    tasks: TaskCollection
    origin: Array
    maps: Array
    missing: Array
    gram: bool
    basis: Array | None

    def initial(self, n_trials: int) -> Array:
        """Return the state at the start, of shape (n_trials, c, Q)."""
        xp = namespace_of(self.maps)
        shape = (n_trials, self.missing.shape[1], self.maps.shape[1])
        if not self.gram:
            return zeros(shape, self.maps)
        return xp.asarray(xp.broadcast_to(-self.missing.T, shape), copy=True)

    def errors(self, state: Array) -> Array:
        """Return e of shape (n_trials, c, Σr) from a state."""
        return state if self.gram else state @ self.maps.T - self.missing.T

    def weights(self, state: Array, moved: Array | None, base: Array | None = None) -> Array:
        """Return weights of shape (n_trials, d, c).

        In gram coordinates the state does not hold them: ``moved`` is the sum of φ ∘ a over the steps made since the
        weights were ``base`` (w₀ if None), each at its task's rows.
        """
        xp = namespace_of(self.maps)
        if self.gram:
            change = -(moved @ self.tasks.directions)
        else:
            change = state if self.basis is None else state @ self.basis.T
        return (self.origin if base is None else base) + xp.matrix_transpose(change)

    def errors_of(self, weights: Array) -> Array:
        """Return e of shape (n_trials, c, Σr) from weights of shape (n_trials, d, c)."""
        xp = namespace_of(self.maps)
        return xp.matrix_transpose(self.tasks.directions @ weights - self.tasks.targets)


def span_coordinates(tasks: TaskCollection, start: Array, *, reduced: bool = True) -> Coordinates:
    """Return span coordinates; ``reduced=False`` keeps the features, which costs no set-up."""
    basis = tasks.span if reduced else None
    maps = tasks.directions if basis is None else tasks.directions @ basis
    origin, missing = _origin(tasks, start)
    return Coordinates(tasks, origin, maps, missing, gram=False, basis=basis)


def gram_coordinates(tasks: TaskCollection, start: Array) -> Coordinates:
    """Return gram coordinates."""
    origin, missing = _origin(tasks, start)
    return Coordinates(tasks, origin, tasks.gram, missing, gram=True, basis=None)


def _origin(tasks: TaskCollection, start: Array) -> tuple[Array, Array]:
    origin = tasks.xp.reshape(start, (tasks.n_features, tasks.n_targets))
    return origin, tasks.targets - tasks.directions @ origin
