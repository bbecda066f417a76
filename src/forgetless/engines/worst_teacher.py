"""The worst case over teachers: the unit solution for which a random ordering does worst on average."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forgetless._base.arrays import Array, Floats, from_numpy, to_numpy
from forgetless.engines import draws, epochs, one_order
from forgetless.engines.draws import Method, method_of
from forgetless.engines.moments import linear_moments
from forgetless.engines.problem import Forms, Problem
from forgetless.engines.rounding import EPS, SAFETY, relative
from forgetless.filters import Filter
from forgetless.orderings import Draws, Epochs, OneOrder, Ordering
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
        Bound on the relative error of every loss, from rounding and, where one was used, from an iteration; 1 says
        that rounding may be all there is. Forms are rounded relative to the mean of X_mᵀX_m they begin with.
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
    average: float | None = None,
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
        backwards anew from each recorded step, and so is an average.
    average : float, optional
        As in ``expect``: the loss is that of the average of the iterates with weights t^average.
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
    problem = Problem.of(tasks, schedule, k, ordering, record, average)
    found = ENGINES[type(problem.law)](problem, linear_moments(tasks), **method_of(problem, method))
    losses, teachers = _largest(found.forms, tasks)
    error = min(1.0, found.error + relative(_rounded(problem, losses), losses))
    if isinstance(record, str) and record == "last":
        losses, teachers = losses[:, 0], teachers[:, 0, :]
    if not problem.grid:
        losses, teachers = losses[0], teachers[0]
    like = tasks[0].X
    loss = float(losses) if losses.ndim == 0 else from_numpy(losses, like=like)
    return WorstCase(loss, from_numpy(teachers, like=like), problem.steps, found.method, error)


ENGINES: dict[type, Callable[..., Forms]] = {Draws: draws.forms, Epochs: epochs.forms, OneOrder: one_order.forms}
"""The exact engine of every law, backwards."""


def _rounded(problem: Problem, losses: Floats) -> Floats:
    """Return the absolute rounding error of losses (B, n)."""
    first = 0.5 * float(np.sum(problem.tasks.singular_values**2)) / problem.tasks.n_tasks
    left = np.ones(losses.shape)
    if isinstance(problem.law, Draws):
        left = np.stack(draws.left_at(problem), axis=1)
    return np.asarray(SAFETY * EPS * np.sqrt(np.maximum(problem.steps, 1.0)) * (left * first + losses))


def _largest(forms: list[list[Array]], tasks: TaskCollection) -> tuple[Floats, Floats]:
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
