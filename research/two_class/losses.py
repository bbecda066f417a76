"""Losses of two classes, labels −1 and +1, as functions of the margin m = y·xᵀw of a row.

=================  ====================  ======  ==================
name               ℓ(m)                  β       Lipschitz constant
=================  ====================  ======  ==================
``squared_hinge``  ½ max(0, 1 − m)²      R²      none
``logistic``       ln(1 + exp(−m))       R²/4    R√n
``hinge``          max(0, 1 − m)         none    R√n
=================  ====================  ======  ==================

The loss of a task is the sum over its n rows, and R ≥ ‖X‖₂. β is the smoothness of that sum; in
schedules it takes the place of R².
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Loss:
    """A loss of the margin.

    Attributes
    ----------
    name : str
    value : callable
        ℓ of an array of margins, of the same shape.
    ratio : float
        β/R²; infinite for a loss that is not smooth.
    distance : float, optional
        D ≥ ‖w₀ − w⋆‖, which schedules need for a loss that is not smooth.
    """

    name: str
    value: Callable[[Any], Any]
    ratio: float
    distance: float | None = None

    def smoothness(self, radius: float) -> float:
        """Return β, the Lipschitz constant of the gradient of a task."""
        return self.ratio * radius**2

    def scale(self, radius: float, n_rows: int, k: int) -> float:
        """Return the number that takes the place of R² in a schedule of k steps.

        It is β for a smooth loss. For the hinge it is G√(2(k + 1))/D, with the Lipschitz constant
        G = R√n of a task of n rows (Theorem H).
        """
        if self.ratio < math.inf:
            return self.smoothness(radius)
        if self.distance is None:
            raise ValueError(
                "the hinge is not smooth, so a schedule needs a distance; pass loss=hinge(D) with"
                " D ≥ ‖w₀ − w⋆‖, or a coefficient such as fl.Ridge(1.0) as schedule"
            )
        return lipschitz(radius, n_rows) * math.sqrt(2 * (k + 1)) / self.distance


def lipschitz(radius: float, n_rows: int) -> float:
    """Return G = R√n of the hinge and the logistic loss: slopes are at most 1, ‖Xᵀp‖ ≤ R‖p‖."""
    return radius * math.sqrt(n_rows)


def _hinge(margins: Any) -> Any:
    return np.maximum(1.0 - margins, 0.0)


def _squared_hinge(margins: Any) -> Any:
    return 0.5 * _hinge(margins) ** 2


def _logistic(margins: Any) -> Any:
    return np.logaddexp(0.0, -margins)


LOSSES = {
    "squared_hinge": Loss("squared_hinge", _squared_hinge, 1.0),
    "logistic": Loss("logistic", _logistic, 0.25),
    "hinge": Loss("hinge", _hinge, math.inf),
}


def hinge(distance: float) -> Loss:
    """Return the hinge with a distance D ≥ ‖w₀ − w⋆‖, by which schedules are scaled.

    Examples
    --------
    >>> hinge(2.0).scale(radius=3.0, n_rows=4, k=7)
    12.0
    """
    if not distance > 0:
        raise ValueError(f"distance must be positive, got {distance!r}")
    return replace(LOSSES["hinge"], distance=distance)


def named(loss: Loss | str) -> Loss:
    """Return the loss for a loss or its name."""
    if isinstance(loss, Loss):
        return loss
    if loss not in LOSSES:
        raise ValueError(f"loss must be one of {', '.join(LOSSES)}, got {loss!r}")
    return LOSSES[loss]
