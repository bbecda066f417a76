"""Alarms of a stream: drift, forgetting, and predictions no better than a mean.

The rules; ``benchmarks/alarms.py`` measures how often they are wrong where nothing has changed:

- **Drift**: the error of a task before it is learned, as a logarithm, lies more than ``DRIFT`` deviations above the
  median of up to ``WINDOW`` tasks before it, of which there must be ``FEWEST``. The deviation is 1.4826 times the
  median absolute deviation of these, and at least √(2/n), which chance alone would do with n rows.
- **Forgetting**: the error on the held-out rows of a task has grown since it was learned by more than ``FORGETTING``
  standard errors of that difference, taken on the same rows, and by more than a tenth. The same of all tasks but the
  last together, where held-out rows of each are too few to tell.
- **Worse than a mean**: the error of a task before it is learned exceeds that of the mean of all targets so far, or of
  the last task, by more than a share of 2√(2/n), which chance may do with n rows.
"""

import math

import numpy as np
from numpy.typing import NDArray

from forgetless.estimators.evaluation import StreamResult

DRIFT, WINDOW, FEWEST = 5.0, 20, 5
FORGETTING, SHARE = 4.0, 0.1


def drifted(
    before: NDArray[np.float64], rows: NDArray[np.int64], earlier: NDArray[np.float64] | None = None
) -> list[int]:
    """Return the numbers (from 0) of the tasks whose error before they were learned was out of line.

    ``earlier`` are the errors of tasks before the first of them.

    Examples
    --------
    >>> import numpy as np
    >>> before = np.array([np.nan, 1.0, 1.1, 0.9, 1.0, 1.1, 0.9, 5.0, 1.0])
    >>> drifted(before, np.full(9, 100))
    [7]
    """
    tasks = []
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(before if earlier is None else np.concatenate([earlier, before]))
    n_earlier = len(logs) - len(before)
    for t in range(len(before)):
        now = logs[n_earlier + t]
        window = logs[max(n_earlier + t - WINDOW, 0) : n_earlier + t]
        window = window[np.isfinite(window)]
        if len(window) < FEWEST or not np.isfinite(now):
            continue
        middle = float(np.median(window))
        deviation = max(1.4826 * float(np.median(np.abs(window - middle))), math.sqrt(2 / rows[t]))
        if now > middle + DRIFT * deviation:
            tasks.append(t)
    return tasks


def forgotten(run: StreamResult) -> list[int]:
    """Return the numbers (from 0) of the tasks that are predicted clearly worse than when they were learned."""
    if not run.watched:
        return []
    grown, error = run.change.T
    learned = np.diag(run.errors)
    with np.errstate(invalid="ignore"):
        clear = (grown > FORGETTING * error) & (grown > SHARE * learned)
    return [int(t) for t in np.flatnonzero(clear)]


def forgotten_together(run: StreamResult) -> bool:
    """Return whether all tasks before the last together are predicted clearly worse than when they were learned."""
    grown, error = run.change[:-1].T
    finite = np.isfinite(error)
    if not run.watched or not finite.any():
        return False
    total, learned = float(grown[finite].sum()), float(np.diag(run.errors)[:-1][finite].sum())
    return total > FORGETTING * math.sqrt(float(np.sum(error[finite] ** 2))) and total > SHARE * learned


def worse_than_baseline(before: NDArray[np.float64], other: NDArray[np.float64], rows: NDArray[np.int64]) -> list[int]:
    """Return the numbers (from 0) of the tasks on which the model was worse than a baseline before it learned them."""
    with np.errstate(invalid="ignore"):
        return [int(t) for t in np.flatnonzero(before > other * (1.0 + 2.0 * np.sqrt(2.0 / rows)))]
