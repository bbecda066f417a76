"""The exact engine for epochs in random order: a dynamic program over the sets of past, or of
remaining, tasks.
"""

from collections.abc import Iterator
from math import comb

import numpy as np

from forgetless._core.arrays import Array, Floats
from forgetless._progress import track
from forgetless.engines._subsets import Level, SubsetProgram, program
from forgetless.engines.averaged import average_loss_of, blend, with_average
from forgetless.engines.moments import Moments, average_form, moments_for
from forgetless.engines.problem import Computed, Forms, Problem
from forgetless.engines.rounding import Rounding, diagonal_roots
from forgetless.metrics import follows_drift, follows_path


def expectations(problem: Problem, origin: Array, names: tuple[str, ...]) -> Computed:
    """Return the expected metrics at the recorded steps, learned from ``origin``."""
    tasks, n_problems = problem.tasks, len(problem.filters)
    moments = moments_for(tasks, origin, names, problem.other)
    if problem.average is not None:
        problem.only_average_loss(names)
    wide = moments if problem.average is None else with_average(moments)
    per_task = tuple(name for name in names if name in ("task_forgetting", "task_drift"))
    values = problem.empty_curves(names)
    for m in range(tasks.n_tasks if per_task else 0):
        _of_task(problem, moments, m, {name: values[name] for name in per_task})
    others = tuple(name for name in names if name not in per_task)
    subsets = program(wide, path=follows_path(others), drift=follows_drift(others))
    subsets.check_size(int(problem.steps[-1]))
    positions = {int(step): i for i, step in enumerate(problem.steps)}
    rounding, Q = Rounding.of(moments, origin, n_problems, problem.other), moments.size
    roots = np.empty((len(problem.steps), Q, n_problems))
    for b in range(n_problems):
        levels = _levels(problem, b, subsets, wide.start, rounding)
        for step, level in track(levels, "steps", total=int(problem.steps[-1]) + 1):
            if step in positions:
                i, S = positions[step], subsets.full(level)
                sizes = diagonal_roots(S[:, :, None])[:, 0]
                roots[i, :, b] = np.maximum(sizes[:Q], sizes[-Q:] if Q else sizes)
                for name in others:
                    values[name][b, i] = (
                        subsets.evaluate(name, level, step, max(0, step - 1) // tasks.n_tasks)
                        if wide is moments
                        else average_loss_of(moments, S[Q:, Q:])
                    )
    for each in roots:
        rounding.recorded(each)
    visits = np.full(tasks.n_tasks, 1 / tasks.n_tasks)
    return Computed.of(values, "subsets", rounding.errors(values, problem.steps, visits))


def _of_task(problem: Problem, moments: Moments, m: int, curves: dict[str, Floats]) -> None:
    """Write the metrics of the path of one task into curves (B, n_steps, M)."""
    n_tasks, positions = (
        problem.tasks.n_tasks,
        {int(step): i for i, step in enumerate(problem.steps)},
    )
    subsets = program(moments, path=True, drift=follows_drift(tuple(curves))).of_task(m)
    subsets.check_size(int(problem.steps[-1]))
    for b in range(len(problem.filters)):
        for step, level in _levels(problem, b, subsets, moments.start):
            for name, values in curves.items() if step in positions else ():
                # The expected sum over the visits of a task over their expected number, step/M.
                total = subsets.evaluate(
                    name.removeprefix("task_"), level, step, max(0, step - 1) // n_tasks
                )
                values[b, positions[step], m] = total * n_tasks


def _levels(
    problem: Problem, b: int, subsets: SubsetProgram, start: Array, rounding: Rounding | None = None
) -> Iterator[tuple[int, Level]]:
    """Yield the numbers of steps of one schedule up to the last recorded one, with the level after
    each.
    """
    level, n_tasks = subsets.empty_set(start), problem.tasks.n_tasks
    yield 0, level
    for step in range(1, int(problem.steps[-1]) + 1):
        if level.t == n_tasks:
            level = subsets.next_epoch(level)
        factors = problem.factors_of(b, step - 1, step)[0]
        level = subsets.raised(level, factors, (step - 1) // n_tasks)
        if problem.average is not None:
            level = subsets.mapped(level, blend(start, float(problem.gains[step - 1])))
        if rounding is not None:
            rounding.learned(factors[:, None])
        yield step, level


def forms(problem: Problem, moments: Moments) -> Forms:
    """Return the forms, carried backwards over the sets of remaining tasks by the forward
    program.
    """
    tasks, form = problem.tasks, average_form(moments)
    M = tasks.n_tasks
    averaged, Q = problem.average is not None, moments.size
    subsets = program(with_average(moments) if averaged else moments, path=False, drift=False)
    subsets.check_size(int(problem.steps[-1]))
    if averaged:
        form = _of_average(form)
    rows = []
    for b in range(len(problem.filters)):
        row = []
        for step in problem.steps.tolist():
            V, left = form, step
            while left:
                inside = (left - 1) % M + 1  # steps of the epoch that ends here
                level = subsets.uniform(M - inside, comb(M, M - inside), V)
                for size in range(M - inside, M):
                    t = left - inside + M - size
                    if averaged:
                        level = subsets.mapped(level, blend(form, float(problem.gains[t - 1])).T)
                    level = subsets.raised(level, problem.factors_of(b, t - 1, t)[0])
                V, left = subsets.full(level), left - inside
            # Before the first step the average is the state itself.
            row.append(V[:Q, :Q] + V[:Q, Q:] + V[Q:, :Q] + V[Q:, Q:] if averaged else V)
        rows.append(row)
    return Forms(rows, "subsets")


def _of_average(form: Array) -> Array:
    """Return a form of Ū as one of (U, Ū)."""
    size = len(form)
    wide = np.zeros((2 * size, 2 * size))
    wide[size:, size:] = form
    return wide
