"""The answer for those who do not know k: the average of unregularized steps, beside the schedules that need k."""

from typing import Any

from forgetless._core.arrays import to_numpy
from forgetless.advice import _sampled
from forgetless.advice._losses import Losses
from forgetless.advice.results import Option
from forgetless.engines.expectation import expect
from forgetless.engines.worst_teacher import worst_case
from forgetless.errors import NoExactLawError
from forgetless.filters import Projection

# Of t in the weights: of 0, 1.5 and 2 that with the smallest constant at the k computed, 0.26 against 0.31 for 0
POWER = 2.0


def exact_average(problem: Losses, objective: str) -> Option | None:
    """Return the average with its exact loss; None where that cannot be had."""
    options: dict[str, Any] = {"ordering": problem.ordering, "average": POWER}
    try:
        if objective == "worst_case":
            worst = worst_case(problem.tasks, Projection(), problem.k, **options)
            return _option(objective, worst.loss, worst.error)
        if objective == "validation":
            return None
        result = expect(problem.tasks, Projection(), problem.k, start=problem.start, metrics=objective, **options)
    except (MemoryError, NoExactLawError):
        return None
    return _option(objective, float(to_numpy(result.values[objective])[0]), result.errors[objective])


def sampled_average(problem: Losses, objective: str, seed: int, n_trials: int | None) -> Option | None:
    """Return the average with its loss in random runs; None where these are too far apart."""
    runs = _sampled.decided(problem, [Projection()], objective, seed, n_trials, POWER)
    if runs.heavy(0):
        return None
    loss = float(runs.means[0])
    return _option(objective, loss, float(runs.errors[0]) / loss if loss > 0 else 0.0)


def _option(objective: str, loss: float, relative: float) -> Option:
    values: dict[str, Any] = {objective: loss}
    return Option("no regularization", Projection(), None, loss, **values, error=relative * loss, average=POWER)
