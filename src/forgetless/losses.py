"""Losses of one row, with the constants by which schedules are scaled.

A task's loss is the sum Σ_i ℓ(x_iᵀw, y_i) over its rows. The losses of two classes, y ∈ {−1, +1},
depend on the margin y·xᵀw alone. β, the smoothness of a task's loss, takes the place of R² in the
schedules.

=================  ============================  ====  ==========
name               ℓ                             β     Lipschitz
=================  ============================  ====  ==========
``squared``        ½(xᵀw − y)²                   R²    no
``squared_hinge``  ½ max(0, 1 − y xᵀw)²          R²    no
``logistic``       ln(1 + exp(−y xᵀw))           R²/4  R√n
``softmax``        ln Σ_c exp(xᵀw_c) − xᵀw_y     R²/2  R√(2n)
``hinge``          max(0, 1 − y xᵀw)             no    R√n
=================  ============================  ====  ==========
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from forgetless._core import validate
from forgetless._core.arrays import Floats

__all__ = ["REGISTRY", "Hinge", "Logistic", "Loss", "Softmax", "Squared", "SquaredHinge", "named"]


class Loss(ABC):
    """Base of the losses: value, slope and curvature of rows as functions of their outputs xᵀw."""

    name: ClassVar[str]

    @abstractmethod
    def value(self, outputs: Any, y: Any) -> Floats:
        """Return ℓ of every row, of shape (n,)."""

    @abstractmethod
    def slope(self, outputs: Any, y: Any) -> Floats:
        """Return the derivative of ℓ by the outputs, of their shape."""

    @abstractmethod
    def curvature(self, outputs: Any, y: Any) -> Floats:
        """Return the second derivative of ℓ by the outputs: of shape (n,), or (n, c, c) for c
        outputs.
        """

    def smoothness(self, radius: float) -> float:
        """Return β, the Lipschitz constant of the gradient of a task with ‖X‖₂ ≤ ``radius``;
        infinite if none.
        """
        return math.inf

    def lipschitz(self, radius: float, n_rows: int) -> float:
        """Return the Lipschitz constant G of the loss of a task of ``n_rows`` with ‖X‖₂ ≤
        ``radius``; infinite if none.

        The slopes of a row are at most 1 (√2 for softmax), so ‖Xᵀp‖ ≤ R‖p‖ ≤ R√n.
        """
        return math.inf

    def schedule_scale(self, radius: float, n_rows: int, k: int) -> float:
        """Return the number that takes the place of R² in a schedule of k steps: β for a smooth
        loss.
        """
        return self.smoothness(radius)


@dataclass(frozen=True)
class Squared(Loss):
    """The squared loss ½(xᵀw − y)² of regression; its steps are affine, so that expectations are
    exact.

    Examples
    --------
    >>> import forgetless as fl
    >>> fl.losses.Squared().value([3.0], [1.0]).tolist()
    [2.0]
    """

    name: ClassVar[str] = "squared"

    def value(self, outputs: Any, y: Any) -> Floats:
        return np.asarray(0.5 * (np.asarray(outputs) - y) ** 2)

    def slope(self, outputs: Any, y: Any) -> Floats:
        return np.asarray(np.asarray(outputs) - y)

    def curvature(self, outputs: Any, y: Any) -> Floats:
        return np.ones(np.shape(outputs))

    def smoothness(self, radius: float) -> float:
        return radius * radius


@dataclass(frozen=True)
class SquaredHinge(Loss):
    """The squared hinge ½ max(0, 1 − y xᵀw)²; a step on one row is that of PA-II with C = 1/(2λ).

    Examples
    --------
    >>> import forgetless as fl
    >>> loss = fl.losses.SquaredHinge()
    >>> loss.value([-1.0, 0.5, 2.0], [1, 1, 1]).tolist(), loss.smoothness(2.0)
    ([2.0, 0.125, 0.0], 4.0)
    """

    name: ClassVar[str] = "squared_hinge"

    def value(self, outputs: Any, y: Any) -> Floats:
        return np.asarray(0.5 * np.maximum(1.0 - np.multiply(outputs, y), 0.0) ** 2)

    def slope(self, outputs: Any, y: Any) -> Floats:
        return np.asarray(-np.maximum(1.0 - np.multiply(outputs, y), 0.0) * y)

    def curvature(self, outputs: Any, y: Any) -> Floats:
        return np.asarray(np.multiply(outputs, y) < 1.0, dtype=np.float64)

    def smoothness(self, radius: float) -> float:
        return radius * radius


@dataclass(frozen=True)
class Logistic(Loss):
    """The logistic loss ln(1 + exp(−y xᵀw)) of two classes.

    Examples
    --------
    >>> import forgetless as fl
    >>> loss = fl.losses.Logistic()
    >>> loss.value([0.0, 800.0], [1, -1]).round(6).tolist(), loss.smoothness(2.0)
    ([0.693147, 800.0], 1.0)
    """

    name: ClassVar[str] = "logistic"

    def value(self, outputs: Any, y: Any) -> Floats:
        return np.asarray(np.logaddexp(0.0, -np.multiply(outputs, y)))

    def slope(self, outputs: Any, y: Any) -> Floats:
        return np.asarray(-_sigmoid(-np.multiply(outputs, y)) * y)

    def curvature(self, outputs: Any, y: Any) -> Floats:
        margins = np.multiply(outputs, y)
        return np.asarray(_sigmoid(margins) * _sigmoid(-margins))

    def smoothness(self, radius: float) -> float:
        return 0.25 * radius * radius

    def lipschitz(self, radius: float, n_rows: int) -> float:
        return radius * math.sqrt(n_rows)


def _sigmoid(u: Any) -> Floats:
    """Return 1/(1 + exp(−u)) without overflow."""
    small = np.exp(-np.abs(u))
    return np.asarray(np.where(np.asarray(u) >= 0, 1.0, small) / (1.0 + small))


@dataclass(frozen=True)
class Softmax(Loss):
    """The cross-entropy of c classes, y in 0..c − 1, with outputs of shape (n, c).

    Examples
    --------
    >>> import forgetless as fl
    >>> fl.losses.Softmax().value([[0.0, 0.0], [0.0, 800.0]], [0, 0]).round(6).tolist()
    [0.693147, 800.0]
    """

    name: ClassVar[str] = "softmax"

    def value(self, outputs: Any, y: Any) -> Floats:
        outputs = np.asarray(outputs)
        top = outputs.max(axis=1)
        rows = np.arange(len(outputs))
        return np.asarray(
            np.log(np.exp(outputs - top[:, None]).sum(axis=1)) + top - outputs[rows, np.asarray(y)]
        )

    def slope(self, outputs: Any, y: Any) -> Floats:
        slopes = self.probabilities(outputs)
        rows = np.arange(len(slopes))
        # p − 1 of the right class as −(sum of the others): it is tiny where the row is well
        # classified.
        slopes[rows, np.asarray(y)] = 0.0
        slopes[rows, np.asarray(y)] = -slopes.sum(axis=1)
        return slopes

    def curvature(self, outputs: Any, y: Any) -> Floats:
        p = self.probabilities(outputs)
        return np.asarray(p[:, :, None] * (np.eye(p.shape[1]) - p[:, None, :]))

    def probabilities(self, outputs: Any) -> Floats:
        """Return the probabilities of the classes, of shape (n, c)."""
        outputs = np.asarray(outputs, dtype=np.float64)
        powers = np.exp(outputs - outputs.max(axis=1, keepdims=True))
        return np.asarray(powers / powers.sum(axis=1, keepdims=True))

    def smoothness(self, radius: float) -> float:
        return 0.5 * radius * radius

    def lipschitz(self, radius: float, n_rows: int) -> float:
        return radius * math.sqrt(2.0 * n_rows)


@dataclass(frozen=True, eq=False)
class WeightedSoftmax(Softmax):
    """The softmax of rows times their weights, of shape (n,)."""

    weights: Floats

    def value(self, outputs: Any, y: Any) -> Floats:
        return super().value(outputs, y) * self.weights

    def slope(self, outputs: Any, y: Any) -> Floats:
        return super().slope(outputs, y) * self.weights[:, None]

    def curvature(self, outputs: Any, y: Any) -> Floats:
        return super().curvature(outputs, y) * self.weights[:, None, None]

    def smoothness(self, radius: float) -> float:
        return super().smoothness(radius) * float(self.weights.max(initial=0.0))


@dataclass(frozen=True)
class Hinge(Loss):
    """The hinge max(0, 1 − y xᵀw); a step on one row is that of PA-I with C = 1/λ.

    It is not smooth. A schedule is scaled by G√(2(k + 1))/D instead of β, for which it needs D.

    Parameters
    ----------
    distance : float, optional
        D, the distance of the start from a solution. Only schedules need it, a coefficient λ does
        not.

    Examples
    --------
    >>> import forgetless as fl
    >>> fl.losses.Hinge().value([-1.0, 0.5, 2.0], [1, 1, 1]).tolist()
    [2.0, 0.5, 0.0]
    """

    name: ClassVar[str] = "hinge"
    distance: float | None = None

    def __post_init__(self) -> None:
        if self.distance is not None:
            validate.number(
                "distance", self.distance, "use an upper bound of ‖w₀ − w⋆‖", positive=True
            )

    def value(self, outputs: Any, y: Any) -> Floats:
        return np.asarray(np.maximum(1.0 - np.multiply(outputs, y), 0.0))

    def slope(self, outputs: Any, y: Any) -> Floats:
        return np.asarray(np.where(np.multiply(outputs, y) < 1.0, -1.0, 0.0) * y)

    def curvature(self, outputs: Any, y: Any) -> Floats:
        return np.zeros(np.shape(outputs))

    def lipschitz(self, radius: float, n_rows: int) -> float:
        return radius * math.sqrt(n_rows)

    def schedule_scale(self, radius: float, n_rows: int, k: int) -> float:
        if self.distance is None:
            raise ValueError(
                "the hinge is not smooth, so that a schedule needs a distance; pass"
                " loss=fl.losses.Hinge(distance=D) with D ≥ ‖w₀ − w⋆‖, or a coefficient such as"
                " fl.Ridge(1.0) as schedule"
            )
        return self.lipschitz(radius, n_rows) * math.sqrt(2.0 * (k + 1)) / self.distance


REGISTRY: dict[str, Loss] = {
    each.name: each for each in (Squared(), SquaredHinge(), Logistic(), Softmax(), Hinge())
}
"""All losses by name."""

TWO_CLASSES = ("squared_hinge", "logistic", "hinge")
"""Names of the losses of the margin y·xᵀw."""


def named(loss: Any) -> Loss:
    """Return the loss for a loss or its name.

    Examples
    --------
    >>> import forgetless as fl
    >>> fl.losses.named("squared-hinge")
    SquaredHinge()
    """
    if isinstance(loss, Loss):
        return loss
    result = REGISTRY.get(loss.replace("-", "_")) if isinstance(loss, str) else None
    if result is None:
        raise ValueError(
            f"loss must be one of {', '.join(REGISTRY)}, or an instance of them, got {loss!r}"
        )
    return result


def check_labels(y: Any, name: str) -> Floats:
    """Return labels of two classes, −1 and +1, as a vector; ValueError for others, with the
    argument's ``name``.
    """
    labels = np.asarray(y, dtype=np.float64)
    if labels.ndim != 1:
        raise ValueError(
            f"{name} must have shape (n,) for a loss of two classes, got {labels.shape}"
        )
    values = np.unique(labels)
    if not np.isin(values, (-1.0, 1.0)).all():
        shown = ", ".join(f"{value:g}" for value in values[:6]) + (", …" if len(values) > 6 else "")
        hint = (
            "use 2*y − 1"
            if np.isin(values, (0.0, 1.0)).all()
            else 'use loss="softmax" in fl.step for more classes'
        )
        raise ValueError(
            f"{name} must hold the labels −1 and +1 of two classes, got {shown}; {hint}"
        )
    return labels


def check_classes(y: Any, n_classes: int) -> NDArray[np.int64]:
    """Return labels 0..c − 1 as a vector of integers; ValueError for others."""
    labels = np.asarray(y)
    if (
        labels.ndim != 1
        or np.any(labels != np.floor(labels))
        or np.any((labels < 0) | (labels >= n_classes))
    ):
        raise ValueError(
            f"y must be a vector of labels 0..{n_classes - 1} for the softmax of weights with"
            f" {n_classes} columns, got shape {labels.shape} and values up to"
            f" {labels.max(initial=0):g}; number the classes from 0"
        )
    return labels.astype(np.int64)
