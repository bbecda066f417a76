"""Comparison of schedules by random runs on the same orders, for large collections."""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forgetless._core.arrays import Floats
from forgetless.advice._losses import Losses
from forgetless.engines.results import Trace
from forgetless.engines.simulation import simulate
from forgetless.metrics import average_loss
from forgetless.orderings import Draws
from forgetless.tasks import TaskCollection

TRIALS = 64  # random runs at a time
_FEWEST = 8  # fewest runs of a search: in many coordinates single runs are close to their mean
# operations, about 15 s each, of the search for scales and of the final comparison
SEARCH = DECIDE = 4e10
_SEARCHED = 220  # schedules in a search, about
# Runs are repeated, up to this many, until the standard error is this fraction of the loss above
# the least possible
_MOST, _CLOSE = 4096, 0.005
_RARE = 0.05  # fraction of a mean that may be due to kinds of runs that did not occur
_SEEN = 25  # expected occurrences from which on the spread shows a kind of run
# Fraction of the initial loss that the next run may have as far as runs show: their number cannot
# prove a mean far below that fraction of it
_FLUKE = 1e-5
# squared ratio of spread and mean from which on rare runs that dominate the mean may be missing
_HEAVY = 2.0


@dataclass(frozen=True)
class Runs:
    """The losses of some schedules in the same random runs."""

    losses: Floats  # (B, N)
    floor: float  # the irreducible loss, above which spreads are measured
    # bound of the contribution to a mean of runs that are too rare to be among these
    unseen: float = 0.0

    @property
    def n_runs(self) -> int:
        """Number of runs."""
        return int(self.losses.shape[1])

    @property
    def means(self) -> Floats:
        """Mean loss of every schedule, of shape (B,)."""
        return np.asarray(self.losses.mean(axis=1))

    @property
    def errors(self) -> Floats:
        """Standard errors of the means."""
        return np.asarray(self.losses.std(axis=1, ddof=1) / np.sqrt(self.n_runs))

    def heavy(self, b: int) -> bool:
        """Whether the runs of a schedule are so far apart that its standard error is unreliable."""
        above = self.losses[b] - self.floor
        mean = max(float(above.mean()), 0.0)
        return bool(self.unseen > _RARE * mean or above.var(ddof=1) > _HEAVY * mean**2)

    def ratio(self, other: int, best: int) -> tuple[float, float]:
        """Return the ratio of the mean losses of two schedules above the floor, and its standard
        error.

        Runs are paired: the common effect of an order on both schedules cancels.
        """
        a, b = self.losses[other] - self.floor, self.losses[best] - self.floor
        ratio = float(a.mean() / b.mean()) if b.mean() > 0 else np.inf
        if not np.isfinite(ratio):
            return np.inf, np.inf
        return ratio, float((a - ratio * b).std(ddof=1) / np.sqrt(self.n_runs) / b.mean())

    def lower(self, other: int, best: int) -> tuple[float, float]:
        """Return the mean difference of the second schedule and the first, and its standard
        error.
        """
        gap = self.losses[best] - self.losses[other]
        return float(gap.mean()), float(gap.std(ddof=1) / np.sqrt(self.n_runs))


def searching(problem: Losses, n_trials: int | None) -> Callable[[Sequence[Any]], Floats]:
    """Return an evaluation of schedules by their mean over a few runs on all tasks, the same for
    every call.
    """
    few = int(SEARCH / (_SEARCHED * _operations(problem)))
    n_runs = n_trials or max(_FEWEST, min(TRIALS, few))
    return lambda schedules: sampled(problem, schedules, n_runs, [problem.seed, 0]).mean(axis=1)


def decided(
    problem: Losses,
    schedules: Sequence[Any],
    n_trials: int | None = None,
    average: float | None = None,
) -> Runs:
    """Return as many runs of the schedules as a small error needs, on orders that no search has
    used.
    """
    floor, first = (
        (problem.least if problem.objective == "average_loss" else 0.0),
        problem.initial(),
    )
    most = int(min(_MOST, max(TRIALS, DECIDE / (len(schedules) * _operations(problem)))))
    parts: list[Floats] = []
    while True:
        parts.append(
            sampled(problem, schedules, n_trials or TRIALS, [problem.seed, 1 + len(parts)], average)
        )
        losses = np.concatenate(parts, axis=1)
        runs = Runs(
            losses, floor, (_unseen(problem, losses.shape[1]) + _FLUKE / losses.shape[1]) * first
        )
        best = int(np.argmin(runs.means))
        close = runs.errors[best] <= _CLOSE * max(
            float(runs.means[best]) - floor, 0.0
        ) and not runs.heavy(best)
        if n_trials is not None or close or runs.n_runs + TRIALS > most:
            return runs


def _unseen(problem: Losses, n_runs: int) -> float:
    """Return about the probability of runs in which a task that no others can replace occurs at
    most twice.

    Only kinds of runs that are too rare to show in the spread are counted.
    """
    if not isinstance(problem.law, Draws):
        return 0.0
    alone = _alone(problem.tasks)
    p, k = problem.law.probabilities[alone], problem.k
    kinds = [
        float(np.sum(math.comb(k, n) * p**n * (1.0 - p) ** (k - n))) for n in range(min(k, 2) + 1)
    ]
    return sum(kind for kind in kinds if kind * n_runs < _SEEN)


def _alone(tasks: TaskCollection) -> NDArray[np.bool_]:
    """Return for every task whether one of its singular vectors has a leverage above a half among
    all tasks.
    """
    D = tasks.span_vectors
    leverage = np.sum((D @ np.linalg.pinv(D.T @ D, hermitian=True)) * D, axis=1)
    bounds = itertools.pairwise(tasks.offsets.tolist())
    return np.array([bool(np.any(leverage[low:high] > 0.5)) for low, high in bounds])


def _operations(problem: Losses) -> float:
    """Return the operations of one random run."""
    tasks = problem.tasks
    rows = float(tasks.offsets[-1])
    return (
        4.0
        * problem.k
        * tasks.n_targets
        * rows
        / tasks.n_tasks
        * min(float(tasks.span_dimension), rows)
        + 1.0
    )


def sampled(
    problem: Losses, schedules: Sequence[Any], n_runs: int, seed: Any, average: float | None = None
) -> Floats:
    """Return the objective of every run of every schedule on the same random orders, of shape (B,
    n_runs).
    """
    rows = []
    for schedule in schedules:
        if problem.objective == "validation":
            trace = _runs(
                problem, schedule, n_runs, seed, "average_loss", average=average, keep_weights=True
            )
            assert trace.weights is not None
            assert problem.validation is not None
            rows.append(average_loss(problem.validation, trace.weights[:, -1]))
        else:
            trace = _runs(problem, schedule, n_runs, seed, problem.objective, average=average)
            rows.append(trace.values[problem.objective][:, -1])
    return np.array(rows)


def _runs(
    problem: Losses,
    schedule: Any,
    n_runs: int,
    seed: Any,
    metrics: Any,
    *,
    keep_weights: bool = False,
    **options: Any,
) -> Trace:
    """Return the last step of random runs, on the same orders for the same seed."""
    options |= {
        "ordering": problem.ordering,
        "start": problem.start,
        "metrics": metrics,
        "keep_weights": keep_weights,
    }
    options["seed"] = np.random.SeedSequence(seed) if isinstance(seed, list) else seed
    return simulate(problem.tasks, schedule, problem.k, n_trials=n_runs, record="last", **options)


def seen_by_difference(
    problem: Losses, schedules: Sequence[Any], expected: Floats
) -> tuple[Floats, Floats]:
    """Return expected seen-task losses and their standard errors.

    Only the difference from the average loss is sampled; the average itself is exact, and has most
    of the spread.
    """
    values, errors = np.empty(len(schedules)), np.empty(len(schedules))
    for b, schedule in enumerate(schedules):
        trace = _runs(problem, schedule, TRIALS, problem.seed, ("average_loss", "seen_loss"))
        gap = (trace.seen_loss - trace.average_loss)[:, -1]
        values[b], errors[b] = max(0.0, expected[b] + gap.mean()), gap.std(ddof=1) / np.sqrt(TRIALS)
    return values, errors
