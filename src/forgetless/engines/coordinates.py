"""The coordinates in which simulations apply the equation to a whole collection."""

import math
from dataclasses import dataclass

import numpy as np

from forgetless._core.arrays import Array
from forgetless._core.linalg import product
from forgetless.tasks import TaskCollection


@dataclass(frozen=True, eq=False)
class Coordinates:
    """Coordinates of the weights with Q numbers per target, and the maps of all Σr singular vectors
    in them.

    The state determines the errors e = V w − V X⁺y. A step on task m takes a = e on the rows of m
    and subtracts (φ ∘ a) @ maps[rows].

    * *span*: the state is w − w₀ in an orthonormal basis of the joint span, Q = q; maps are the
      singular vectors there.
    * *gram*: the state is e itself, Q = Σr; maps is the Gram matrix V Vᵀ. One product less per
      step, for Σr ≪ d.
    """

    tasks: TaskCollection
    origin: Array  # w₀ (d, c)
    maps: Array  # (Σr, Q)
    missing: Array  # V X⁺y − V w₀ (Σr, c), minus the errors at the start
    gram: bool
    basis: Array | None  # (d, Q) of span coordinates; None if they are the features themselves

    def initial(self, n_trials: int) -> Array:
        """Return the state at the start, of shape (n_trials, c, Q)."""
        shape = (n_trials, self.missing.shape[1], self.maps.shape[1])
        if not self.gram:
            return np.zeros(shape)
        return np.array(np.broadcast_to(-self.missing.T, shape))

    def errors(self, state: Array) -> Array:
        """Return e of shape (..., c, Σr) from states of shape (..., c, Q)."""
        return state if self.gram else times(state, self.maps.T) - self.missing.T

    def weights(self, state: Array, updates: Array | None, base: Array | None = None) -> Array:
        """Return weights of shape (..., d, c) from states of shape (..., c, Q).

        In gram coordinates they follow from ``updates``, the sum of φ ∘ a over the steps since the
        weights were ``base`` (w₀ if None), each at its task's rows.
        """
        if self.gram:
            change = -times(updates, self.tasks.singular_vectors)
        else:
            change = state if self.basis is None else times(state, self.basis.T)
        return (self.origin if base is None else base) + np.matrix_transpose(change)

    def errors_of(self, weights: Array) -> Array:
        """Return e of shape (n_trials, c, Σr) from weights of shape (n_trials, d, c)."""
        return np.matrix_transpose(self.tasks.singular_vectors @ weights - self.tasks.targets)


def times(stack: Array, matrix: Array) -> Array:
    """Return stack @ matrix as one product: broadcasting would make many small ones."""
    flat = product(np.reshape(stack, (math.prod(stack.shape[:-1]), stack.shape[-1])), matrix)
    return np.reshape(flat, (*stack.shape[:-1], matrix.shape[-1]))


def span_coordinates(tasks: TaskCollection, start: Array, *, reduced: bool = True) -> Coordinates:
    """Return span coordinates; ``reduced=False`` uses the features, which costs no set-up."""
    maps = tasks.span_vectors if reduced else tasks.singular_vectors
    origin, missing = _origin(tasks, start)
    return Coordinates(
        tasks, origin, maps, missing, gram=False, basis=tasks.span if reduced else None
    )


def gram_coordinates(tasks: TaskCollection, start: Array) -> Coordinates:
    """Return gram coordinates."""
    origin, missing = _origin(tasks, start)
    return Coordinates(tasks, origin, tasks.gram, missing, gram=True, basis=None)


def _origin(tasks: TaskCollection, start: Array) -> tuple[Array, Array]:
    origin = np.reshape(start, (tasks.n_features, tasks.n_targets))
    return origin, tasks.targets - tasks.singular_vectors @ origin
