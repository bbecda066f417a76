"""Diagnostics of the data: label noise, and a missing constant feature."""

import math

import numpy as np

from forgetless._core.arrays import to_numpy
from forgetless.advice._claims import down
from forgetless.metrics import average_loss
from forgetless.tasks import TaskCollection


def fits(tasks: TaskCollection) -> bool:
    """Return whether one model fits all tasks up to rounding of the losses.

    Stricter than ``is_realizable``, which is relative to ‖w⋆‖: where features nearly repeat each other, w⋆ is so far
    away that noise of any size is small against it. The loss at w⋆ must be negligible against that of w = 0 too, or at
    most the rounding of X w⋆.
    """
    if not tasks.is_realizable():
        return False
    w = tasks.teacher()
    rounded = 1e3 * _EPS * tasks.radius * float(np.linalg.norm(to_numpy(w)))
    return float(average_loss(tasks, w)) <= max(1e-12 * float(average_loss(tasks, 0.0 * w)), rounded**2)


_EPS = float(np.finfo(np.float64).eps)


def label_noise(tasks: TaskCollection) -> tuple[float | None, str]:
    """Return the standard deviation of the label noise and the source of the estimate.

    Tasks with more rows than their rank have irreducible residuals: their squares over the degrees of freedom estimate
    σ². Without such tasks the residuals of the joint solution are used, assuming that one model generated all tasks.
    None where neither has a degree of freedom.

    Examples
    --------
    >>> import forgetless as fl
    >>> from forgetless.advice._data import label_noise
    >>> sigma, source = label_noise(fl.TaskCollection([([[1.0], [1.0]], [0.0, 2.0])]))
    >>> round(sigma**2, 6), source  # residuals ±1, one degree of freedom
    (2.0, 'within tasks')
    """
    rows = [int(task.X.shape[0]) for task in tasks]
    inside = sum(n - r for n, r in zip(rows, tasks.ranks, strict=True)) * tasks.n_targets
    if inside > 0:
        return math.sqrt(2 * float(tasks.floors.sum()) / inside), "within tasks"
    across = (sum(rows) - tasks.span_dimension) * tasks.n_targets
    if across <= 0:
        return None, "not identified"
    xp, w = tasks.xp, tasks.teacher()
    if fits(tasks):
        return 0.0, "between tasks"
    square = sum(float(xp.sum((task.X @ w - task.y) ** 2)) for task in tasks)
    return math.sqrt(square / across), "between tasks"


def uncentred(tasks: TaskCollection) -> list[str]:
    """Return a note where targets are so far from centred that a constant feature would reduce the loss by much."""
    if fits(tasks):
        return []
    w = to_numpy(tasks.teacher()).reshape(tasks.n_features, tasks.n_targets)
    rows = [(to_numpy(task.X), to_numpy(task.y).reshape(-1, tasks.n_targets)) for task in tasks if task.y.shape[0]]
    X, y = np.concatenate([X for X, _ in rows]), np.concatenate([y for _, y in rows])
    # Tasks whose loss is a mean are divided by √n, and a constant feature of theirs with them.
    shrunk = np.concatenate([np.full(len(X), len(X) ** -0.5) for X, _ in rows])
    rest, gained = y - X @ w, 0.0
    for constant in (np.ones(len(X)), shrunk):
        new = constant - X @ np.linalg.lstsq(X, constant, rcond=None)[0]
        square = float(new @ new)
        if square > 1e-12 * float(constant @ constant):
            gained = max(gained, float(np.sum((new @ rest) ** 2)) / square / float(np.sum(rest**2)))
    free = len(X) - tasks.span_dimension
    if free < 2 or gained < max(_GAINED, 10 / free):
        return []
    worst = int(np.argmax(np.abs(y.mean(axis=0)) / np.maximum(y.std(axis=0), np.finfo(float).tiny)))
    return [
        f"targets are not centred (mean {y.mean(axis=0)[worst]:.3g}, standard deviation {y.std(axis=0)[worst]:.3g}): a "
        f"feature that is always 1 would take away {down(100 * gained):.2g} % of the least possible loss. Add one, or "
        "centre features and targets."
    ]


_GAINED = 0.1  # fraction of the least possible loss from which on a missing constant feature is reported
