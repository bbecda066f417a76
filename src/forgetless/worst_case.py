"""The worst case over teachers: the unit solution for which a random ordering does worst on average."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forgetless._arrays import Array, from_numpy, namespace_of, to_numpy
from forgetless._powers import Spectral, lanczos_power
from forgetless._subsets import check_size
from forgetless.expect import Method, Problem, average_form, cheapest, program
from forgetless.filters import Filter
from forgetless.metrics import Floats
from forgetless.moments import Moments, Operator, linear_moments, repeated
from forgetless.orderings import Ordering, Reshuffled, WithoutReplacement, WithReplacement
from forgetless.schedules import Schedule
from forgetless.tasks import TaskCollection


@dataclass(frozen=True, eq=False)
class WorstCase:
    """The largest expected average loss over all teachers of unit norm, and a teacher that attains it.

    Attributes
    ----------
    loss : float, or array with the schedules and then the steps along its axes
        For data y_m = X_m w⋆, ‖w⋆‖ = 1, learned from the origin; for ‖w₀ − w⋆‖ = D it scales with D².
    teacher : array of shape loss.shape + (d,)
    steps : array of shape (n_steps,)
    method : str
        How the values were computed.
    error : float
        Estimated relative error beyond rounding; 0 where there is none.
    """

    loss: Any
    teacher: Array = field(repr=False)
    steps: NDArray[np.int64] = field(repr=False)
    method: str
    error: float


def worst_case(
    tasks: TaskCollection,
    schedule: Schedule | Filter | Sequence[Schedule | Filter],
    k: int,
    *,
    ordering: Ordering | None = None,
    record: Any = "last",
    method: Method = "auto",
) -> WorstCase:
    """Return the worst expected average loss over unit teachers after k steps.

    The targets of ``tasks`` do not matter: the data are X_m w⋆, and the expectation is a quadratic form ½ w⋆ᵀ V w⋆,
    V being the mean of X_mᵀX_m carried backwards through the steps. Its largest eigenvalue gives the answer.

    Parameters
    ----------
    tasks : TaskCollection
    schedule : schedule, filter, or a list of these
    k : int
    ordering : Ordering, default ``WithReplacement()``
    record : "last", "log", "all" or steps in 0..k, default "last"
        At which steps. A fixed filter gives the whole curve at little more cost; a schedule that varies is followed
        backwards anew from each recorded step.
    method : "auto", "steps", "dense" or "lanczos"
        As in ``expect``.

    Returns
    -------
    WorstCase
        ``.loss`` is a float for one schedule and ``record="last"``.

    Examples
    --------
    Two unit tasks at 45 degrees, at the best fixed coefficient for two steps:

    >>> import numpy as np
    >>> import forgetless as fl
    >>> tasks = fl.TaskCollection([([[1.0, 0.0]], [0.0]), ([[np.sqrt(0.5), np.sqrt(0.5)]], [0.0])])
    >>> round(fl.worst_case(tasks, fl.Ridge(1.299), k=2).loss, 4)
    0.0692

    References
    ----------
    Levinstein et al. (2025), Appendix A, for a fixed coefficient with replacement.
    """
    problem = Problem.of(tasks, schedule, k, ordering, record)
    if method not in ("auto", "steps", "dense", "lanczos"):
        raise ValueError(f'method must be "auto", "steps", "dense" or "lanczos", got {method!r}')
    moments = linear_moments(tasks)
    forms, used, error = _forms(problem, moments, method)
    losses, teachers = _largest(forms, tasks)
    if isinstance(record, str) and record == "last":
        losses, teachers = losses[:, 0], teachers[:, 0, :]
    if not problem.grid:
        losses, teachers = losses[0], teachers[0]
    like = tasks[0].X
    loss = float(losses) if losses.ndim == 0 else from_numpy(losses, like=like)
    return WorstCase(loss, from_numpy(teachers, like=like), problem.steps, used, error)


Forms = list[list[Array]]
"""For each schedule and recorded step the form V, of shape (q, q)."""


def _forms(problem: Problem, moments: Moments, method: Method) -> tuple[Forms, str, float]:
    law = problem.ordering
    if isinstance(law, WithReplacement):
        return _independent(problem, moments, method)
    if method in ("dense", "lanczos"):
        raise ValueError(f"method={method!r} needs draws with replacement; leave it at 'auto'")
    if isinstance(law, WithoutReplacement | Reshuffled):
        return _over_subsets(problem, moments), "subsets", 0.0
    return _along_one_order(problem, moments), "one order", 0.0


def _independent(problem: Problem, moments: Moments, method: Method) -> tuple[Forms, str, float]:
    operator, form = Operator(moments, problem.probabilities), average_form(moments)
    n_problems, steps = len(problem.filters), problem.steps.tolist()
    if not problem.constant:
        if method in ("dense", "lanczos"):
            raise ValueError(f"method={method!r} needs fixed filters; use method='steps'")
        curves = [_backwards(problem, operator, form, step) for step in steps]
        return [[curve[:, :, b] for curve in curves] for b in range(n_problems)], "steps", 0.0
    if method == "auto":
        method = cheapest(problem, moments.size, True)
    shares = from_numpy(problem.shares(0, 1)[:, 0, :], like=form)
    if method == "dense":
        spectral = Spectral(operator, moments.size, shares)
        curves = [spectral.powers(form, step) for step in steps]
        return [[curve[:, :, b] for curve in curves] for b in range(n_problems)], "dense", 1e-14 * problem.k
    if method == "lanczos":
        return _by_lanczos(operator, form, shares, steps)
    xp = namespace_of(form)
    V = repeated(form, n_problems)
    found, done = [], 0
    for step in steps:
        for _ in range(step - done):  # a fixed filter's operator is its own adjoint, so forwards will do
            V -= operator.decrease(V, shares)
        found.append(xp.asarray(V, copy=True))
        done = step
    return [[curve[:, :, b] for curve in found] for b in range(n_problems)], "steps", 0.0


def _by_lanczos(operator: Operator, form: Array, shares: Array, steps: list[int]) -> tuple[Forms, str, float]:
    forms, worst = [], 0.0
    for b in range(shares.shape[1]):
        row = []
        for step in steps:
            V, error = form[:, :, None], 0.0
            if step:
                V, error = lanczos_power(operator, V, shares[:, b : b + 1], step, 1e-12)
            row.append(V[:, :, 0])
            worst = max(worst, error)
        forms.append(row)
    return forms, "lanczos", worst


def _backwards(problem: Problem, operator: Operator, form: Array, last: int) -> Array:
    """Return V of shape (q, q, B) carried from step ``last`` back to the start."""
    V = repeated(form, len(problem.filters))
    for t in range(last, 0, -1):
        V -= operator.decrease(V, from_numpy(problem.shares(t - 1, t)[:, 0, :], like=form))
    return V


def _over_subsets(problem: Problem, moments: Moments) -> Forms:
    """Carry the form backwards over the sets of tasks still to come, which is the forward program read backwards."""
    tasks, form = problem.tasks, average_form(moments)
    M = tasks.n_tasks
    check_size(M, int(problem.steps[-1]), moments.size, path=False, drift=False)
    subsets = program(tasks, moments, path=False, drift=False)
    forms = []
    for b in range(len(problem.filters)):
        row = []
        for step in problem.steps.tolist():
            V, left = form, step
            while left:
                inside = (left - 1) % M + 1  # steps of the epoch that ends here
                level = subsets.uniform(M - inside, comb(M, M - inside), V)
                for size in range(M - inside, M):
                    t = left - inside + M - size
                    level = subsets.raised(level, problem.shares(t - 1, t)[:, 0, b])
                V, left = subsets.full(level), left - inside
            row.append(V)
        forms.append(row)
    return forms


def _along_one_order(problem: Problem, moments: Moments) -> Forms:
    tasks, xp = problem.tasks, namespace_of(moments.left)
    order = problem.ordering.sample(tasks.n_tasks, problem.k).tolist()
    rows = list(itertools.pairwise(tasks.offsets.tolist()))
    forms = []
    for b in range(len(problem.filters)):
        line = []
        for step in problem.steps.tolist():
            V = average_form(moments)
            for t in range(step, 0, -1):
                low, high = rows[order[t - 1]]
                D = moments.left[low:high, :]
                phi = from_numpy(problem.shares(t - 1, t)[low:high, 0, b], like=D)
                half = (D.T * phi) @ (D @ V - 0.5 * ((D @ V @ D.T) * phi) @ D)
                V = V - half - xp.matrix_transpose(half)
            line.append(V)
        forms.append(line)
    return forms


def _largest(forms: Forms, tasks: TaskCollection) -> tuple[Floats, Floats]:
    """Return ½λ_max and its eigenvector in feature coordinates for every form."""
    basis = None if tasks.span is None else to_numpy(tasks.span)
    losses = np.zeros((len(forms), len(forms[0])))
    teachers = np.zeros((*losses.shape, tasks.n_features))
    for b, row in enumerate(forms):
        for i, V in enumerate(row):
            if V.shape[0] == 0:
                teachers[b, i, 0] = 1.0  # no task moves or measures anything: every teacher attains 0
                continue
            values, vectors = np.linalg.eigh(to_numpy(V))
            vector = vectors[:, -1] if basis is None else basis @ vectors[:, -1]
            losses[b, i] = 0.5 * max(0.0, float(values[-1]))
            teachers[b, i] = vector * (1.0 if vector[np.argmax(np.abs(vector))] > 0 else -1.0)
    return losses, teachers
