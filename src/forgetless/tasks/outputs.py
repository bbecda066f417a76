"""The outputs of weights on all tasks, and the losses and changes that follow from them.

With the singular value decomposition X = U diag(s) V of a task its loss is ½‖x‖² + floor, where

    x = s ∘ (V w − V X⁺y)

are the *outputs* along its singular vectors, less the targets. The outputs of all tasks are one
vector of length Σr: losses, forgetting and drift are sums over its parts.
"""

from functools import cached_property
from typing import Any

import numpy as np

from forgetless._validate import Array, Floats
from forgetless.tasks.collection import TaskCollection


class Outputs:
    """The metrics of weights, from outputs x = s ∘ (V w − V X⁺y), with which a loss is ½‖x‖².

    A subclass has ``tasks``, ``n_steps`` and the arrays below. In the form with means and spreads
    no two large numbers are subtracted: Σ over visits of ‖x‖² − ‖x_t‖² is n(‖x‖² − ‖x̄‖²) − spread.

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

    tasks: TaskCollection
    n_steps: int
    rows: Floats
    visits: Floats
    means: Floats
    spreads: Floats

    @cached_property
    def outputs(self) -> Array:
        """X = s ∘ (V w − V X⁺y) along all singular vectors, of shape (..., c, Σr)."""
        errors = self._times(self.tasks.singular_vectors) - self.tasks.targets.T
        return errors * self.tasks.singular_values

    @cached_property
    def losses(self) -> Floats:
        """L(w; m) of every task, of shape (..., M)."""
        return 0.5 * self.tasks.by_task((self.outputs**2).sum(-2)) + self.tasks.floors

    @property
    def seen(self) -> Floats:
        """Sums of losses over the visits of each task, of shape (..., M)."""
        return self.visits * self.losses

    @property
    def forgotten(self) -> Floats:
        """Sums of changes of losses since the visits of each task, of shape (..., M)."""
        # ‖x‖² − ‖x̄‖² as a product, which vanishes with the change.
        products = (self.outputs - self.means) * (self.outputs + self.means)
        gains = self.tasks.by_task(products.sum(-2))
        return 0.5 * (self.visits * gains - self.spreads)

    @property
    def moved(self) -> Floats:
        """Sums of squared changes of outputs since the visits of each task, of shape (..., M)."""
        squares = ((self.outputs - self.means) ** 2).sum(-2)
        return self.visits * self.tasks.by_task(squares) + self.spreads

    def square(self, A: Any, b: Any) -> Array:
        """Return ‖A w − b‖² summed over targets, of shape (...); ‖w − b‖² where A is None."""
        products = self.rows if A is None else self._times(A)
        errors = products - columns(b, self.tasks).T
        return np.sum(errors**2, axis=(-2, -1))

    def _times(self, A: Any) -> Array:
        """Return A w for n rows of A, of shape (..., c, n)."""
        # One product for all weights: a product for each of them would read A as often.
        flat = self.rows.reshape(-1, self.tasks.n_features) @ np.transpose(A)
        return flat.reshape(*self.rows.shape[:-1], -1)


def columns(b: Any, tasks: TaskCollection) -> Floats:
    """Return targets b as a matrix with a column for every target; one number stands for all."""
    array = np.asarray(b, dtype=np.float64)
    return array.reshape(-1, tasks.n_targets) if array.ndim else np.full((1, 1), array)
