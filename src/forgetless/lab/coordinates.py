"""The state of a learner, and one step of it as a matrix.

In q coordinates of the joint span the weights are w = w_ref + B z. Learning begins at w = 0. The
state is U = (z, I), the identity of size c for c targets making steps linear: on task m

    U ← M U,   M = I − Lᵀ diag(φ) R,   L = [D 0],   R = [D −e],                      (1)

with a row of L and R for every singular vector of the task, D = V B, and e = V X⁺y − V w_ref, what
w_ref misses. For then R U = D z − e = V w − V X⁺y is the error along the singular vectors, of which
the step removes the fraction φ. If w_ref = w⋆ fits all tasks then e = 0, and I is left out. A loss
is ½‖s ∘ R U‖² plus its floor, so that all metrics are quadratic in U.
"""

from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr

from forgetless._validate import Array, Floats
from forgetless.tasks import TaskCollection

_CANCELLED = 1e4
"""Ratio of squares of terms to that of the labels from which on a reference loses digits."""

_FITS = 2e-13
"""What a joint solution may miss, relative to the sizes that it is computed from, and fit."""


class Maps(NamedTuple):
    """The arrays of ``_kernels.push`` that do not change with the steps."""

    left: Floats
    right: Floats
    offsets: NDArray[np.int64]
    noise: Floats  # the variance along every singular vector
    one: int  # the coordinate of 1

    @property
    def backward(self) -> "Maps":
        """Those of forms, which neither noise nor a walk reaches: see ``backward``."""
        return Maps(self.right, self.left, self.offsets, np.zeros_like(self.noise), 0)


class Coordinates:
    """The maps L and R of a collection, in as few coordinates as there are.

    The reference is the joint solution w⋆: errors decay there, and so does their rounding. But with
    weak tasks, or rows that almost repeat, w⋆ is at a distance of targets over singular values, and
    terms of 1e14 would cancel to a loss of 1. Then the reference is the start, and the basis begins
    with the strongest singular vectors, so that no large coordinate adds to a strong output.

    Parameters
    ----------
    tasks : TaskCollection
    affine : bool
        Whether 1 is needed among the coordinates for other reasons than labels, noise or a walk.
    labels : bool
        Without them, they are X w⋆ for any w⋆, and only changes matter: for worst cases.

    Attributes
    ----------
    basis, reference : arrays of shape (d, q) and (d, c)
        B and w_ref.
    start : array of shape (q, c) or (q + c, c)
        U before the first step.
    maps : Maps
    """

    def __init__(
        self,
        tasks: TaskCollection,
        affine: bool = False,
        labels: bool = True,
    ) -> None:
        self.tasks = tasks
        self.basis = tasks.span
        c = tasks.n_targets if labels else 1
        self.reference = np.zeros((tasks.n_features, c))
        self.dropped = np.zeros((len(tasks.singular_values), c))
        missing = np.zeros_like(self.dropped)
        if labels:
            self.reference += tasks.teacher().reshape(self.reference.shape)
            missing = self._missing()
        D = tasks.span_vectors
        start = -self.basis.T @ self.reference
        if labels and self._cancels(D, start, missing):
            # Columns in order of their strength: a pivoted QR puts the strong directions first.
            strength = np.maximum(tasks.singular_values, 1e-10 * tasks.radius)
            rows = strength[:, None] * tasks.singular_vectors
            directions = qr(rows.T, mode="economic", pivoting=True)[0]
            self.basis = directions[:, : len(start)]
            self.reference = np.zeros_like(self.reference)
            # Around the start nothing has been learned: e is all of the targets.
            missing = tasks.targets
            D = tasks.singular_vectors @ self.basis
            start = np.zeros_like(start)
        self.q = len(start)
        self.affine = affine or bool(tasks.noise or tasks.walk or missing.any())
        left = right = np.ascontiguousarray(D)
        self.start = start
        if self.affine:
            # L does not change the coordinate of 1, and R reads e from it: equation (1).
            left = np.hstack([D, np.zeros_like(missing)])
            right = np.hstack([D, -missing])
            self.start = np.vstack([start, np.eye(c)])
        # A row has noise of variance σ²; along a singular vector it is σ²/s², for c targets.
        variances = c * (tasks.noise / tasks.singular_values) ** 2
        self.maps = Maps(left, right, tasks.offsets, variances, self.q if self.affine else 0)

    def _missing(self) -> Floats:
        """Return e of the reference w⋆: exactly zero if one model fits all tasks up to rounding."""
        tasks = self.tasks
        missing = tasks.missing(self.reference)
        size = np.abs(tasks.targets) + np.linalg.norm(self.reference, axis=0)
        rounding = _FITS * (tasks.radii[:, None] * size + tasks.sizes)
        if np.any(np.abs(missing) > rounding / tasks.singular_values[:, None]):
            return missing
        # Stated errors count what is taken for rounding here.
        self.dropped = np.abs(missing)
        return np.zeros_like(missing)

    def _cancels(
        self,
        D: Floats,
        start: Floats,
        missing: Floats,
    ) -> bool:
        """Return whether terms around w⋆ are so large that losses lose digits."""
        weights = self.tasks.singular_values[:, None]
        # The sizes of the summands of s ∘ (D z − e) at the start, without signs.
        terms = (np.abs(D) @ np.abs(start) + np.abs(missing)) * weights
        labels = self.tasks.targets * weights
        return bool(np.sum(terms**2) > _CANCELLED * np.sum(labels**2))

    def rows(self, A: Floats, b: Floats) -> Floats:
        """Return rows F with ‖A w − b‖² = ‖F U‖²; needs ``affine``."""
        return np.hstack([A @ self.basis, A @ self.reference - b])

    @cached_property
    def average_form(self) -> Array:
        """H with average loss ½⟨H, E[U Uᵀ]⟩ plus the mean floor."""
        scaled = self.tasks.singular_values[:, None] * self.maps.right
        return scaled.T @ scaled / self.tasks.n_tasks
