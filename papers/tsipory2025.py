"""Tsipory, Levinstein, Evron, Kong, Needell and Soudry (NeurIPS 2025), Figure 3a: greedy orders
against random ones.

Fifty Gaussian tasks of rank 10 with 100 features, one pass without regularization; losses without ½
over R²D². Their numbers were not read: the statement is that the loss of the greedy order is
smaller.
"""

import numpy as np

import forgetless as fl
from papers.statement import PAPER as READ
from papers.statement import Statement

PAPER = "Tsipory et al. 2025"
STEPS = [10, 25, 50]
# Scores that agree to this relative difference count as equal; the first task is chosen.
EQUAL = 1e-9


def greedy(
    tasks: fl.TaskCollection, filter_: fl.Filter, k: int, rule: str = "residual"
) -> list[int]:
    """Return the order in which the next task is the one on which the weights are worst, each task
    once.

    Parameters
    ----------
    tasks : TaskCollection
    filter_ : Filter
    k : int
        Number of steps, at most M.
    rule : "residual" or "distance"
        Whether that is the task of the largest loss ½‖X_m w − y_m‖², or the one whose solutions are
        farthest, with the largest ‖X_m⁺(X_m w − y_m)‖.
    """
    w = np.zeros(tasks.n_features)
    order: list[int] = []
    for t in range(k):
        residuals = [task.X @ w - task.y for task in tasks]
        if rule == "distance":
            pairs = zip(tasks, residuals, strict=True)
            residuals = [np.linalg.pinv(task.X, rcond=1e-12) @ each for task, each in pairs]
        scores = np.array([float(each @ each) for each in residuals])
        scores[order] = -np.inf
        order.append(int(np.argmax(scores >= (1 - EQUAL) * scores.max())))
        w = fl.step(w, tasks[order[-1]], filter_[t])
    return order


def statements() -> list[Statement]:
    """Return the loss after a part of the tasks in the order of largest distance, and the mean of
    random orders.
    """
    rng = np.random.default_rng(0)
    w = rng.standard_normal(100)
    k = 50
    tasks = fl.TaskCollection([(X := rng.standard_normal((10, 100)), X @ w) for _ in range(k)])
    unit = 0.5 * tasks.radius**2 * float(w @ w)
    order = fl.FixedOrder(greedy(tasks, fl.Projection(), k, "distance"))
    greedy_losses = fl.expect(tasks, fl.Projection(), k, ordering=order, record=STEPS).average_loss
    trace = fl.simulate(
        tasks,
        fl.Projection(),
        k,
        ordering="without-replacement",
        n_trials=200,
        seed=0,
        record=STEPS,
        metrics="average_loss",
    )
    means = trace.means("average_loss") / unit
    errors = trace.standard_errors("average_loss") / unit
    result = []
    for i, step in enumerate(STEPS):
        text = f"loss of the greedy order against random ones, k = {step}"
        number = float(greedy_losses[i]) / unit
        result.append(Statement(text, float(means[i]), number, READ, "≤", float(errors[i])))
    return result
