"""The worst case over teachers, by the recursion of moments backwards.

Write the recursion (2) of ``chain`` as S_t = A_t S_{t−1}. The loss after k steps is ½⟨H, S_k⟩ =
½⟨H, A_k ⋯ A_{t+1} S_t⟩ = ½⟨V_t, S_t⟩ with V_k = H and V_{t−1} = A_tᵀ V_t, that is

    V_{t−1}(s) = Σ over moves s → d of p Mᵀ V_t(d) M,   Mᵀ = I − Rᵀ diag(φ) L:         (5)

the recursion forwards with the moves reversed and L and R exchanged. So the loss is the form
½ u₀ᵀ V_0 u₀ of the start u₀, and half of the largest eigenvalue of V_0 is the loss for the worst
teacher of norm 1.
"""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from forgetless._running import track
from forgetless._validate import Floats
from forgetless.lab import Problem, with_few_threads
from forgetless.lab.chain import Powers, averaged, carry
from forgetless.lab.coordinates import Coordinates
from forgetless.lab.exact import expect, expected
from forgetless.lab.results import Curves
from forgetless.lab.rounding import SAFETY
from forgetless.metrics import average_loss
from forgetless.orderings import OrderingLike
from forgetless.schedules.named import Schedules
from forgetless.tasks import TaskCollection
from forgetless.tasks.task import signs


@with_few_threads
def worst_case(
    tasks: TaskCollection,
    schedule: Schedules,
    k: int,
    *,
    ordering: OrderingLike | None = None,
    record: Any = "last",
    average: float | None = None,
) -> Curves:
    """Return the worst expected average loss over unit teachers, and a teacher that attains it.

    Use it to compare schedules on given data matrices without choosing labels. The data are X_m w⋆,
    learned from the origin, and the expectation is a quadratic form ½ w⋆ᵀ V w⋆, V being the mean of
    X_mᵀX_m carried backwards through the steps. The result is half of its largest eigenvalue, plus
    what label noise and a walk of the teacher add, if the tasks have them: it is the same for every
    teacher. For ‖w₀ − w⋆‖ = D it scales with D².

    Parameters
    ----------
    tasks : TaskCollection
        Its targets do not matter.
    schedule : schedule, filter, name or number; or a list or a dict of these
        As in ``expect``.
    k : int
        Number of steps.
    ordering : Ordering or its name, default ``WithReplacement()``
    record : "last", "log", "all" or steps in 0..k, default "last"
        Each recorded step is a backward pass of its own, which is short for a fixed filter and an
        ordering that repeats.
    average : float, optional
        As in ``expect``: the loss is that of the average of the iterates with weights t^average.

    Returns
    -------
    Curves
        ``.worst_case`` of shape (n_steps,), or (n_schedules, n_steps) for several schedules, and
        ``.teacher``, with an axis of length d more.

    Examples
    --------
    Two unit tasks at 45 degrees, at the best fixed coefficient for two steps:

    >>> import numpy as np
    >>> import forgetless as fl
    >>> tasks = fl.TaskCollection([([[1.0, 0.0]], [0.0]), ([[np.sqrt(0.5), np.sqrt(0.5)]], [0.0])])
    >>> fl.worst_case(tasks, fl.Ridge(1.299), k=2).worst_case.round(4).tolist()
    [0.0692]

    >>> w = fl.worst_case(tasks, {"fixed": "fixed", "λ = 1": 1}, k=16, record=[4, 16])
    >>> w.worst_case.shape, w.teacher.shape
    ((2, 2), (2, 2, 2))

    References
    ----------
    Levinstein et al. (2025), Appendix A, for a fixed coefficient with replacement.
    """
    problem = Problem.of(tasks, schedule, k, ordering, record, average)
    # No comprehension, for the reason in ``exact.expected``.
    parts = list(map(_largest, problem.parts))
    losses = np.concatenate([part[0] for part in parts])
    teachers = np.concatenate([part[1] for part in parts])
    return Curves.of(
        {"worst_case": losses, "teacher": teachers},
        problem.steps,
        problem.labels,
        estimate=lambda: {"worst_case": _relative_error(problem, losses, teachers)},
    )


def _relative_error(
    problem: Problem,
    losses: Floats,
    teachers: Floats,
) -> float:
    """Return the largest error of the losses of these teachers, which are the worst up to rounding.

    The loss of each teacher is computed forwards as well, where its error is known; what the form
    lost on its way backwards is the difference. The eigenvector v of a form with the error E is off
    by ε ≈ ‖E v‖ / gap, which changes the eigenvalue by ε² gap. That is less than the difference
    vᵀEv if E is of the same size in all directions that matter and smaller than the gap; if the gap
    is smaller, both eigenvectors are equally good up to E. ``Coordinates`` without labels have an
    axis for strong directions and one for weak ones, so that E is graded as the form is.
    """
    found = 0.0
    for (b, i), loss in np.ndenumerate(losses):
        forwards = expect(
            _taught(problem.tasks, teachers[b, i]),
            problem.filters[b],
            problem.k,
            ordering=problem.ordering,
            record=problem.steps[i],
            average=problem.average,
        )
        lost = SAFETY * abs(float(forwards.average_loss[0] - loss))
        error = forwards.errors["average_loss"]
        # Of a loss of zero that is not zero forwards no digit is certain.
        if lost:
            error += lost / max(loss, lost)
        found = max(found, min(1.0, error))
    return found


def _taught(tasks: TaskCollection, teacher: Floats) -> TaskCollection:
    """Return the tasks with the labels of a teacher (d,), and the same noise and walk."""
    return tasks.like((X, X @ teacher) for X, _ in tasks)


def _largest(problem: Problem) -> tuple[Floats, Floats]:
    """Return ½λ_max (B, n) and its eigenvectors in feature coordinates (B, n, d)."""
    tasks = problem.tasks
    c = Coordinates(tasks, labels=False)
    shape = (len(problem.filters), len(problem.steps))
    losses = np.zeros(shape)
    teachers = np.zeros((*shape, tasks.n_features))
    teachers[:, :, 0] = 1.0  # if all tasks are zero, every teacher attains 0
    for i, step in enumerate(problem.steps.tolist() if c.q else []):
        V = backward(problem, c, c.average_form, step)
        forms = np.moveaxis(V[0, : c.q, :, : c.q], 1, 0)
        # Eigenvalues ascend: the last one is the largest.
        values, vectors = np.linalg.eigh(forms)
        losses[:, i] = np.maximum(0.5 * values[:, -1], 0.0)
        directions = vectors[:, :, -1] @ c.basis.T
        teachers[:, i] = directions * signs(directions)
    # Their part of the loss does not depend on the teacher: it is the loss for labels zero.
    if tasks.noise or tasks.walk:
        silent = replace(problem, tasks=_taught(tasks, np.zeros(tasks.n_features)))
        losses += expected(silent, [average_loss])["average_loss"]
    return losses, teachers


def backward(
    problem: Problem,
    c: Coordinates,
    form: Floats,
    last: int,
    keep: list[Floats] | None = None,
) -> Floats:
    """Return V_0 (1, Q, B, Q) of a form of the weights after ``last`` steps: equation (5).

    All of V_last..V_1 (states, Q, B, Q) are appended to ``keep``.
    """
    n_tasks = problem.tasks.n_tasks
    ordering = problem.ordering
    n = len(form)
    # L and R exchanged; neither noise nor a walk reaches a form.
    still = np.zeros_like(c.maps.noise)
    maps = c.maps._replace(
        left=c.maps.right,
        right=c.maps.left,
        noise=still,
        one=0,
    )
    of_average = problem.average is not None and last > 0
    # The form of an average reads the trailing half of (U, Ū).
    H = np.pad(form, (n * of_average, 0))
    problem.check_states(len(H))
    # All states end with the same form.
    states = ordering.moves(n_tasks, last - 1).n_targets if last else 1
    V = np.tile(H[:, None, :], (states, 1, len(problem.filters), 1))
    powers = None
    if keep is None:
        powers = Powers.if_faster(problem, maps, last, back=True)
    # The last steps one by one, and then as many periods as there are.
    begin = 0 if powers is None else last // powers.period * powers.period
    problem.announce(last - begin, len(H))
    stops = problem.stops(begin, last, len(H))
    for first, stop in track(list(pairwise(stops))[::-1], "steps"):
        # Steps in reverse order.
        phi = problem.factors(first, stop)[::-1]
        if ordering.stationary and not of_average and keep is None:
            moves = ordering.moves(n_tasks, 0).reversed
            V = carry(V, moves, maps, phi, problem.gains)
            continue
        for t, factors in zip(range(stop - 1, first - 1, -1), phi, strict=True):
            # The form after step t, before it is carried back through it.
            if keep is not None:
                keep.append(V)
            if of_average:
                no_outputs = np.zeros((0, n))
                V = averaged(V, problem.gains[t], no_outputs, back=True)
            moves = ordering.moves(n_tasks, t).reversed
            V = carry(V, moves, maps, factors)
    return V if powers is None else powers.advanced(V, begin)
