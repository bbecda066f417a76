"""Exact engine for epochs in random order: a dynamic program over the sets of tasks seen, or still to come."""

from math import comb

import numpy as np

from forgetless._base.arrays import Array, Floats, to_numpy
from forgetless._base.progress import Progress
from forgetless.engines._subsets import program
from forgetless.engines.moments import Moments, average_form
from forgetless.engines.problem import Computed, Forms, Problem
from forgetless.engines.reference import measured
from forgetless.engines.rounding import Rounding, diagonal_roots


def expectations(problem: Problem, origin: Array, names: tuple[str, ...], progress: Progress | None) -> Computed:
    """Return the expected metrics at the recorded steps, learned from ``origin``."""
    tasks, last = problem.tasks, int(problem.steps[-1])
    moments = measured(tasks, origin)
    subsets = program(tasks, moments, path=problem.follows(names), drift="drift" in names)
    subsets.check_size(last)
    values: dict[str, Floats] = {name: np.empty((len(problem.filters), len(problem.steps))) for name in names}
    wanted = {int(step): i for i, step in enumerate(problem.steps)}
    rounding = Rounding.of(moments, origin, len(problem.filters))
    roots = np.empty((len(problem.steps), moments.size, len(problem.filters)))
    for b in range(len(problem.filters)):
        level = subsets.empty_set(moments.start)
        for step in range(last + 1):
            epochs = max(0, step - 1) // tasks.n_tasks
            if step:
                if level.t == tasks.n_tasks:
                    level = subsets.next_epoch(level)
                shares = problem.shares_of(b, step - 1, step)[0]
                level = subsets.raised(level, shares, epochs)
                rounding.learned(shares[:, None])
            if step in wanted:
                roots[wanted[step], :, b] = diagonal_roots(to_numpy(subsets.full(level))[:, :, None])[:, 0]
                for name in names:
                    values[name][b, wanted[step]] = subsets.evaluate(name, level, step, epochs)
            if progress is not None and step:
                progress(step, problem.k, "steps")
    for each in roots:
        rounding.recorded(each)
    visits = np.full(tasks.n_tasks, 1 / tasks.n_tasks)
    return Computed.of(values, "subsets", rounding.errors(values, problem.steps, visits))


def forms(problem: Problem, moments: Moments) -> Forms:
    """Carry the form backwards over the sets of tasks still to come, which is the forward program read backwards."""
    tasks, form = problem.tasks, average_form(moments)
    M = tasks.n_tasks
    subsets = program(tasks, moments, path=False, drift=False)
    subsets.check_size(int(problem.steps[-1]))
    found = []
    for b in range(len(problem.filters)):
        row = []
        for step in problem.steps.tolist():
            V, left = form, step
            while left:
                inside = (left - 1) % M + 1  # steps of the epoch that ends here
                level = subsets.uniform(M - inside, comb(M, M - inside), V)
                for size in range(M - inside, M):
                    t = left - inside + M - size
                    level = subsets.raised(level, problem.shares_of(b, t - 1, t)[0])
                V, left = subsets.full(level), left - inside
            row.append(V)
        found.append(row)
    return Forms(found, "subsets")
