"""Orders that depend on the weights: each is found by learning it once, and is then one order like
any other.
"""

from dataclasses import replace

from forgetless._core.arrays import Array, Floats, to_numpy
from forgetless.engines.problem import Problem
from forgetless.metrics import by_task
from forgetless.orderings import FixedOrder, Greedy
from forgetless.tasks import TaskCollection


def alone(problem: Problem, origin: Array) -> list[tuple[Problem, int]]:
    """Return a problem with an ordinary ordering for every schedule, and the number of the schedule
    there.
    """
    if not isinstance(problem.ordering, Greedy):
        return [(problem, b) for b in range(len(problem.filters))]
    if problem.disturbance is not None:
        raise ValueError(
            f"ordering={problem.ordering!r} depends on the weights, hence on the noise of every"
            " run, which is not implemented; use noise=0 and drift=0, or an ordering that does not"
            " see the weights"
        )
    return [
        (replace(one, ordering=FixedOrder(_order(one, problem.ordering, origin))), 0)
        for one in (
            replace(problem, filters=[filter_], schedules=(schedule,), labels=())
            for filter_, schedule in zip(problem.filters, problem.schedules, strict=True)
        )
    ]


def _order(problem: Problem, rule: Greedy, origin: Array) -> list[int]:
    """Return the tasks of all steps from ``origin``, and one more where there is one, which is the
    next task.
    """
    tasks, rows, errors = (
        problem.tasks,
        to_numpy(problem.tasks.span_vectors),
        -problem.tasks.missing(origin),
    )
    order = [rule.choose(_scores(tasks, errors, rule), [])]
    for t in range(problem.k if rule.repeat else min(problem.k, tasks.n_tasks - 1)):
        low, high = tasks.offsets[order[-1] : order[-1] + 2]
        learned = problem.factors_of(0, t, t + 1)[0, low:high, None] * errors[low:high]
        errors -= rows @ (rows[low:high].T @ learned)
        order.append(rule.choose(_scores(tasks, errors, rule), order))
    return order


def _scores(tasks: TaskCollection, errors: Floats, rule: Greedy) -> Floats:
    """Return the loss of every task, or half the squared distance to its solutions, from errors
    along V (Σr, c).
    """
    if rule.rule == "distance":
        return 0.5 * by_task((errors**2).T, tasks)
    return 0.5 * by_task((tasks.singular_values[:, None] * errors).T ** 2, tasks) + tasks.floors
