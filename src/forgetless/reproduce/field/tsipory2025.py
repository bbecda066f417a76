"""Tsipory, Levinstein, Evron, Kong, Needell and Soudry (NeurIPS 2025), Figure 3a: greedy orders
against random ones.

Fifty Gaussian tasks of rank 10 with 100 features, one pass without regularization; losses without ½
over R²D². Their numbers were not read: the statement is that the loss of the greedy order is
smaller.
"""

import numpy as np

from forgetless.engines.expectation import expect
from forgetless.engines.simulation import simulate
from forgetless.filters import Projection
from forgetless.orderings import Greedy, WithoutReplacement
from forgetless.reproduce.field._statement import PAPER as READ
from forgetless.reproduce.field._statement import Statement
from forgetless.tasks import TaskCollection

PAPER = "Tsipory et al. 2025"


def statements() -> list[Statement]:
    """Return the loss after a part of the tasks in the order of largest distance, and the mean of
    random orders.
    """
    rng = np.random.default_rng(0)
    w, k = rng.standard_normal(100), 50
    tasks = TaskCollection([(X := rng.standard_normal((10, 100)), X @ w) for _ in range(k)])
    steps = [10, 25, 50]
    greedy = expect(
        tasks, Projection(), k, ordering=Greedy("distance"), record=steps, normalize=True
    ).average_loss
    trace = simulate(
        tasks,
        Projection(),
        k,
        ordering=WithoutReplacement(),
        n_trials=200,
        seed=0,
        record=steps,
        metrics="average_loss",
        normalize=True,
        keep_weights=False,
    )
    random, errors = trace.means("average_loss"), trace.standard_errors("average_loss")
    return [
        Statement(
            f"loss of the greedy order against random ones, k = {step}",
            float(random[i]),
            float(greedy[i]),
            READ,
            "≤",
            float(errors[i]),
        )
        for i, step in enumerate(steps)
    ]
