"""Tasks and schedules as the plain values of a page, and back."""

import math
from typing import Any

import numpy as np

from forgetless._core import validate
from forgetless._core.arrays import Floats
from forgetless.filters import Filter, GradientDescent, Projection, Ridge
from forgetless.orderings import (
    Cyclic,
    FixedOrder,
    Ordering,
    RandomReshuffling,
    WithoutReplacement,
    WithReplacement,
)
from forgetless.schedules import Schedule, resolve
from forgetless.schedules.presets import Increasing
from forgetless.tasks import Task, TaskCollection

FEATURES = 60
"""Coordinates up to which the page computes itself; above them Python does."""

MOST_STEPS = 5000
"""Steps that the page draws."""

MOST_TASKS = 2000
"""Tasks of a request, with their copies, so that one request cannot keep Python from all others."""

_LITERAL = 20_000
"""Numbers up to which a page holds the rows as they are, so that its code can hold them too."""


def plain_tasks(tasks: TaskCollection) -> dict[str, Any]:
    """Return tasks as plain values: their rows, or fewer rows with the same losses.

    Losses depend on the singular values s, the singular vectors V and the targets alone, so that
    s∘V can replace the rows; where there are more features than coordinates of the joint span, in
    these coordinates.
    """
    literal, basis = is_literal(tasks), None if tasks.n_features <= FEATURES else tasks.span
    rows = [_rows(task, basis, literal=literal) for task in tasks]
    return {"d": tasks.n_features if basis is None else int(basis.shape[1]), "tasks": rows}


def is_literal(tasks: TaskCollection) -> bool:
    """Return whether the page holds the rows as they are."""
    n_rows = sum(task.X.shape[0] for task in tasks)
    return tasks.n_features <= FEATURES and n_rows * tasks.n_features <= _LITERAL


def _rows(task: Task, basis: Any, *, literal: bool) -> dict[str, Any]:
    if literal:
        return {
            "X": task.X.tolist(),
            "y": task.y.ravel().tolist(),
            "floor": 0.0,
        }
    s = task.singular_values
    V = task.singular_vectors if basis is None else task.singular_vectors @ basis
    X, y = s[:, None] * V, s * task.targets.ravel()
    return {"X": X.tolist(), "y": y.tolist(), "floor": task.floor}


def plain_schedule(schedule: Schedule | Filter, k: int, radius: float) -> dict[str, Any]:
    """Return a schedule as the state of the page: its name, or the value of every step in units of
    R².
    """
    if isinstance(schedule, Increasing):
        return {"scheme": "ridge", "schedule": {"preset": "increasing", "scale": schedule.scale}}
    filter_, square = resolve(schedule, k, radius), radius * radius or 1.0
    if isinstance(filter_, Projection):
        return {"scheme": "ridge", "schedule": {"preset": "none"}}
    if isinstance(filter_, Ridge):
        return {"scheme": "ridge", "schedule": _values(filter_.coefficient, k, 1 / square)}
    if not isinstance(filter_, GradientDescent):
        raise TypeError(
            "schedule must be of Ridge, GradientDescent or Projection to be drawn, got"
            f" {filter_!r}; use fl.expect"
        )
    counts, sizes = np.unique(filter_.n_steps), np.unique(filter_.step_size)
    if counts.size == 1:
        return {
            "scheme": "size",
            "n": int(counts[0]),
            "schedule": _values(filter_.step_size, k, square),
        }
    if sizes.size == 1:
        budget = _values(np.asarray(filter_.n_steps, dtype=float), k, 1.0)
        return {"scheme": "budget", "size": float(sizes[0] * square), "schedule": budget}
    raise ValueError(
        "schedule must have one n_steps or one step_size for all steps to be drawn, got many of"
        " both; use fl.expect"
    )


def _values(values: Any, k: int, unit: float) -> dict[str, Any]:
    return {"preset": "given", "values": (np.broadcast_to(values, (k,)) * unit).tolist()}


def tasks_of(plain: Any) -> TaskCollection:
    """Return the tasks that a page sent; copies of a task are tasks of their own."""
    d = validate.integer("d", plain.get("d"), 1, "give the number of features")
    counts = [
        validate.integer("count", task.get("count", 1), 1, "a task is there at least once")
        for task in plain["tasks"]
    ]
    if d > FEATURES or sum(counts) > MOST_TASKS:
        raise ValueError(
            f"a request must have at most {FEATURES} features and {MOST_TASKS} tasks with their"
            f" copies, got {d} and {sum(counts)}; open larger tasks from their file: forgetless"
            " explore FILE"
        )
    pairs = []
    for task, count in zip(plain["tasks"], counts, strict=True):
        X, y = (np.asarray(task[name], dtype=np.float64).reshape(-1) for name in ("X", "y"))
        if X.size != d * y.size:
            raise ValueError(f"X must hold {d} values for each of {y.size} targets, got {X.size}")
        pairs += [_with_floor(X.reshape(-1, d), y, float(task.get("floor", 0.0)))] * count
    return TaskCollection(pairs)


def _with_floor(X: Floats, y: Floats, floor: float) -> tuple[Floats, Floats]:
    """Return the pair with a row of zeros, whose loss is ``floor`` for all weights."""
    if not floor > 0:
        return X, y
    return np.concatenate([X, np.zeros((1, X.shape[1]))]), np.append(y, math.sqrt(2 * floor))


def filter_of(plain: Any) -> Filter:
    """Return the filter of the schedule that a page sent."""
    values = np.asarray(plain["values"], dtype=np.float64)
    if plain["scheme"] == "ridge":
        return Ridge(values)
    if plain["scheme"] == "size":
        return GradientDescent(plain["other"], values)
    return GradientDescent(np.rint(values).astype(np.int64), plain["other"])


def ordering_of(plain: Any) -> Ordering:
    """Return the ordering that a page sent."""
    if plain["order"] == "one":
        return FixedOrder(plain["sequence"])
    named = {
        "with": WithReplacement,
        "cyclic": Cyclic,
        "reshuffled": RandomReshuffling,
        "without": WithoutReplacement,
    }
    if plain["order"] not in named:
        raise ValueError(f"order must be one, {', '.join(named)}, got {plain['order']!r}")
    ordering: Ordering = named[plain["order"]]()
    return ordering
