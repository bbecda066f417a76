"""Large collections: a random sketch of the tasks to search on, and paired random runs on all of them to decide."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from forgetless._base.arrays import Floats, to_numpy
from forgetless.advice._losses import Losses
from forgetless.engines.results import Trace
from forgetless.engines.simulation import simulate
from forgetless.metrics import average_loss
from forgetless.orderings import Draws, Law, Ordering, WithReplacement
from forgetless.tasks import TaskCollection

BUDGET = 3e10
"""Operations of one exact evaluation, about a second, from which on advice works on a sketch."""

DECIDING = 1e12
"""Operations, about half a minute, up to which the schedules found on a sketch are evaluated exactly on all tasks."""

_SKETCH = 4e9

TRIALS = 64
"""Random runs at a time."""

_MOST, _CLOSE = 16, 0.03
"""Runs are repeated, at most this many times, until their standard error is this small relative to their mean."""


def operations(tasks: TaskCollection, k: int, objective: str, n_tasks: int | None = None) -> float:
    """Return the operations of one exact evaluation, or of one on ``n_tasks`` average tasks of the collection."""
    M = tasks.n_tasks if n_tasks is None else n_tasks
    rows = float(tasks.offsets[-1]) * M / tasks.n_tasks
    size = min(float(tasks.span_dimension), rows) + tasks.n_targets
    return 4.0 * k * rows * size**2 * (M if objective == "seen_loss" else 1)


def sketch_size(tasks: TaskCollection, k: int, objective: str) -> int:
    """Return how many tasks an exact evaluation is quick on; at least two."""
    M = tasks.n_tasks
    while M > 2 and operations(tasks, k, objective, M) > _SKETCH:
        M -= max(1, M // 20)
    return M


def sketch(
    tasks: TaskCollection, law: Law | None, n_tasks: int, rng: np.random.Generator
) -> tuple[TaskCollection, Ordering]:
    """Return a uniformly random choice of the tasks, and draws restricted to them."""
    assert isinstance(law, Draws), "sketches are of independent draws"
    possible = np.flatnonzero(law.probabilities > 0)
    chosen = np.sort(rng.choice(possible, size=min(n_tasks, len(possible)), replace=False))
    weights = law.probabilities[chosen]
    part = TaskCollection([tasks[int(m)] for m in chosen])
    return part, WithReplacement(None if law.uniform else weights / weights.sum())


def sampled(problem: Losses, schedules: Sequence[Any], metric: str | None, seed: Any) -> Floats:
    """Return a metric of every run of every schedule on the same random orders, of shape (B, TRIALS).

    Without a metric it is the mean loss over the held-out tasks.
    """
    rows = []
    seed = np.random.SeedSequence(seed) if isinstance(seed, list) else seed
    for schedule in schedules:
        trace = _runs(problem, schedule, seed, metric or "average_loss", keep_weights=metric is None)
        if metric is None:
            assert trace.weights is not None
            assert problem.validation is not None
            rows.append(average_loss(problem.validation, trace.weights[:, -1]))
        else:
            rows.append(to_numpy(trace.values[metric])[:, -1])
    return np.array(rows)


def _runs(problem: Losses, schedule: Any, seed: Any, metrics: Any, *, keep_weights: bool = False) -> Trace:
    """Return the ends of ``TRIALS`` random runs, on the same orders for the same seed."""
    return simulate(
        problem.tasks,
        schedule,
        problem.k,
        ordering=problem.ordering,
        start=problem.start,
        seed=seed,
        n_trials=TRIALS,
        record="last",
        metrics=metrics,
        keep_weights=keep_weights,
    )


def enough_runs(problem: Losses, schedule: Any, metric: str | None, seed: list[int]) -> Floats:
    """Return a metric of as many random runs as a small standard error takes, within limits."""
    runs = np.empty(0)
    for turn in range(_MOST):
        runs = np.concatenate([runs, sampled(problem, [schedule], metric, [*seed, turn])[0]])
        if runs.std(ddof=1) <= _CLOSE * abs(runs.mean()) * np.sqrt(len(runs)):
            break
    return runs


def seen_by_difference(problem: Losses, schedules: Sequence[Any], expected: Floats, seed: int) -> tuple[Floats, Floats]:
    """Return expected seen-task losses and their standard errors.

    Only the difference from the average loss is sampled; the average itself is known exactly, and carries most of the
    spread.
    """
    values, errors = np.empty(len(schedules)), np.empty(len(schedules))
    for b, schedule in enumerate(schedules):
        trace = _runs(problem, schedule, seed, ("average_loss", "seen_loss"))
        gap = (to_numpy(trace.seen_loss) - to_numpy(trace.average_loss))[:, -1]
        values[b], errors[b] = expected[b] + gap.mean(), gap.std(ddof=1) / np.sqrt(TRIALS)
    return values, errors
