"""Exact engine for epochs in random order: a dynamic program over the sets of tasks seen, or still to come."""

from math import comb

import numpy as np

from forgetless._core.arrays import Array, Floats, namespace_of, to_numpy, zeros
from forgetless.engines._subsets import program
from forgetless.engines.averaged import average_loss_of, blend, with_average
from forgetless.engines.moments import Moments, average_form
from forgetless.engines.problem import Computed, Forms, Problem
from forgetless.engines.reference import measured
from forgetless.engines.rounding import Rounding, diagonal_roots
from forgetless.reporting.progress import Progress


def expectations(problem: Problem, origin: Array, names: tuple[str, ...], report_progress: Progress) -> Computed:
    """Return the expected metrics at the recorded steps, learned from ``origin``."""
    tasks, last = problem.tasks, int(problem.steps[-1])
    moments = measured(tasks, origin)
    if problem.average is not None:
        problem.only_average_loss(names)
    wide = moments if problem.average is None else with_average(moments)
    subsets = program(tasks, wide, path=problem.follows(names), drift="drift" in names)
    subsets.check_size(last)
    values: dict[str, Floats] = {name: np.empty((len(problem.filters), len(problem.steps))) for name in names}
    wanted = {int(step): i for i, step in enumerate(problem.steps)}
    rounding = Rounding.of(moments, origin, len(problem.filters))
    roots = np.empty((len(problem.steps), moments.size, len(problem.filters)))
    for b in range(len(problem.filters)):
        level = subsets.empty_set(wide.start)
        for step in range(last + 1):
            epochs = max(0, step - 1) // tasks.n_tasks
            if step:
                if level.t == tasks.n_tasks:
                    level = subsets.next_epoch(level)
                shares = problem.shares_of(b, step - 1, step)[0]
                level = subsets.raised(level, shares, epochs)
                if wide is not moments:
                    level = subsets.mapped(level, blend(moments, float(problem.gains[step - 1])))
                rounding.learned(shares[:, None])
            if step in wanted:
                S, Q = subsets.full(level), moments.size
                sizes = diagonal_roots(to_numpy(S)[:, :, None])[:, 0]
                roots[wanted[step], :, b] = np.maximum(sizes[:Q], sizes[-Q:] if Q else sizes)
                for name in names:
                    values[name][b, wanted[step]] = (
                        subsets.evaluate(name, level, step, epochs)
                        if wide is moments
                        else average_loss_of(moments, S[Q:, Q:])
                    )
            if step:
                report_progress(step, problem.k, "steps")
    for each in roots:
        rounding.recorded(each)
    visits = np.full(tasks.n_tasks, 1 / tasks.n_tasks)
    return Computed.of(values, "subsets", rounding.errors(values, problem.steps, visits))


def forms(problem: Problem, moments: Moments) -> Forms:
    """Carry the form backwards over the sets of tasks still to come, which is the forward program read backwards."""
    tasks, form = problem.tasks, average_form(moments)
    M = tasks.n_tasks
    averaged, Q = problem.average is not None, moments.size
    subsets = program(tasks, with_average(moments) if averaged else moments, path=False, drift=False)
    subsets.check_size(int(problem.steps[-1]))
    if averaged:
        form = _of_average(form)
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
                    if averaged:
                        level = subsets.mapped(level, blend(moments, float(problem.gains[t - 1])).T)
                    level = subsets.raised(level, problem.shares_of(b, t - 1, t)[0])
                V, left = subsets.full(level), left - inside
            # Before the first step the average is the state itself.
            row.append(V[:Q, :Q] + V[:Q, Q:] + V[Q:, :Q] + V[Q:, Q:] if averaged else V)
        found.append(row)
    return Forms(found, "subsets")


def _of_average(form: Array) -> Array:
    """Return a form of Ū as one of (U, Ū)."""
    xp, blank = namespace_of(form), zeros(form.shape, form)
    return xp.concat([xp.concat([blank, blank], axis=1), xp.concat([blank, form], axis=1)], axis=0)
