"""Exact expectations over random orderings, and their worst case over teachers."""

from collections.abc import Callable, Iterable
from numbers import Integral
from typing import Any

import numpy as np

from forgetless._core import validate
from forgetless._core.arrays import Array, Floats
from forgetless.engines import draws, epochs, fresh, one_order, upcoming
from forgetless.engines.inputs import OrderingLike, Schedules
from forgetless.engines.moments import linear_moments
from forgetless.engines.problem import Problem, with_few_threads
from forgetless.engines.results import Expectation, WorstCase
from forgetless.engines.rounding import EPS, SAFETY, relative
from forgetless.ensembles import Ensemble
from forgetless.metrics import ALL_METRICS
from forgetless.orderings import Draws, Epochs, OneOrder
from forgetless.tasks import TaskCollection


@with_few_threads
def expect(  # noqa: PLR0913
    tasks: TaskCollection | Ensemble,
    schedule: Schedules,
    k: int,
    *,
    ordering: OrderingLike | None = None,
    metrics: Any = ("average_loss",),
    record: Any = "last",
    start: Any = None,
    average: float | None = None,
    evaluate: TaskCollection | None = None,
    noise: float = 0.0,
    walk: float = 0.0,
) -> Expectation:
    """Return expected metrics over all orderings, exact up to rounding.

    Parameters
    ----------
    tasks : TaskCollection or Ensemble
        Realizable or not, with one or several targets. For an ensemble (``fl.ensembles``) the mean
        is over fresh random tasks; it has no ordering and no start, and the metric
        ``task_distances`` beside those below.
    schedule : schedule, filter, name or number; or a list or a dict of these
        A name is one such as "increasing:0.5", a number a fixed coefficient λ. Several are
        evaluated in one batch, far faster than one call each; the keys of a dict are their labels
        in frames and plots.
    k : int
        Number of steps.
    ordering : Ordering or its name, default ``WithReplacement()``
        Any ordering with a ``law``: with or without replacement, reshuffled, cyclic, an explicit
        sequence.
    metrics : names, default ``("average_loss",)``
        Some of ``average_loss``, ``seen_loss``, ``forgetting``, ``drift``, ``next_loss``,
        ``distance``, and per task ``task_losses``, ``task_forgetting``, ``task_drift``. Those of
        the path follow M matrices instead of one, so that with replacement they cost about M times
        as much. ``next_loss`` is the loss on the task after the last one: with uniform draws the
        average loss, without replacement that on a task not seen. ``distance`` is ‖w_k − w⋆‖², w⋆
        being ``tasks.teacher(start)``. ``task_forgetting`` and ``task_drift`` are the expected sum
        over the visits of a task, over the expected number of visits; NaN if that is 0.
    record : "last", "log", "all" or steps in 0..k, default "last"
    start : array of shape (d,) or (d, c), optional
        w₀; the origin if omitted.
    average : float, optional
        Measure the average Σ_t ω_t w_t of the iterates so far with weights ω_t ∝ t^average (2 is
        recommended, 0 for equal weights) instead of the last one. For random orders only its
        average loss is available.
    evaluate : TaskCollection, optional
        Other tasks with the same features: ``average_loss`` is their mean loss instead of that of
        the tasks learned.
    noise : float, default 0
        Standard deviation σ of label noise that is drawn anew in every row at every visit. Losses
        are those of the labels without it.
    walk : float, default 0
        The teacher walks: before every task but the first all labels change by X_m δ, δ being
        Gaussian with independent entries of equal variance and E‖δ‖² = walk². Losses are those of
        the present labels, and ``distance`` is that from the present teacher. Noise and walk are
        exact for independent draws; tasks need not be realizable.

    Returns
    -------
    Expectation
        Arrays of shape (n_steps,), or (n_schedules, n_steps) for several schedules; those per task
        have one axis more.

    Examples
    --------
    Two unit tasks at 60 degrees, both solved exactly each time: the loss falls by 5/8 per step.

    >>> import numpy as np
    >>> import forgetless as fl
    >>> tasks = fl.TaskCollection([([[1.0, 0.0]], [1.0]), ([[0.5, np.sqrt(0.75)]], [0.5])])
    >>> e = fl.expect(tasks, fl.Projection(), k=3, record="all")
    >>> (e.average_loss[1:] / e.average_loss[:-1]).round(12).tolist()
    [0.625, 0.625]

    Fresh label noise keeps the loss away from zero, the more so the less regularization there is:

    >>> e = fl.expect(tasks, {"none": "none", "λ = 1": 1.0}, k=50, noise=0.1)
    >>> e.average_loss[:, 0].round(5).tolist()
    [0.005, 0.00167]

    Several schedules by name:

    >>> e = fl.expect(tasks, {"none": "none", "λ = 1": 1.0, "rising": "increasing"}, k=16)
    >>> e.labels, e.average_loss[:, 0].round(6).tolist()
    (('none', 'λ = 1', 'rising'), [6.1e-05, 0.000907, 0.031164])

    References
    ----------
    Levinstein et al. (2025), Appendix A, for the average loss of realizable tasks and a fixed
    coefficient.
    """
    if isinstance(tasks, Ensemble):
        fresh.check_unused(ordering=(ordering, None), start=(start, None), average=(average, None))
        fresh.check_unused(evaluate=(evaluate, None), noise=(noise, 0.0), walk=(walk, 0.0))
        return fresh.expectation(fresh.FreshProblem.of(tasks, schedule, k, record, metrics))
    problem = Problem.of(tasks, schedule, k, ordering, record, average).varied(
        evaluate, noise, walk
    )
    names = problem.names(metrics, ALL_METRICS)
    if problem.disturbance is not None:
        problem.disturbance.check_law(
            problem.ordering.law(tasks.n_tasks, problem.k), problem.ordering, problem.average
        )
    engine = _ENGINES[type(problem.law)]
    computed = engine.expectations(
        problem, tasks.start(start), upcoming.engine_names(problem, names)
    )
    return problem.expectation(upcoming.with_next_loss(problem, names, computed))


# The exact engine of every law: ``expectations`` forwards, ``forms`` backwards
_ENGINES: dict[type, Any] = {Draws: draws, Epochs: epochs, OneOrder: one_order}


@with_few_threads
def worst_case(
    tasks: TaskCollection,
    schedule: Schedules,
    k: int | Iterable[int],
    *,
    ordering: OrderingLike | None = None,
    record: Any = "last",
    average: float | None = None,
) -> WorstCase:
    """Return the worst expected average loss over unit teachers after k steps.

    The targets of ``tasks`` do not matter: the data are X_m w⋆, and the expectation is a quadratic
    form ½ w⋆ᵀ V w⋆, V being the mean of X_mᵀX_m carried backwards through the steps. The result is
    its largest eigenvalue.

    Parameters
    ----------
    tasks : TaskCollection
    schedule : schedule, filter, name or number; or a list or a dict of these
        As in ``expect``.
    k : int or several
        Number of steps. For several, each schedule is built for each k; ``record`` gives the first
        steps of one.
    ordering : Ordering or its name, default ``WithReplacement()``
    record : "last", "log", "all" or steps in 0..k, default "last"
        A fixed filter gives the whole curve at little more cost; varying schedules and averages are
        carried backwards separately from each recorded step.
    average : float, optional
        As in ``expect``: the loss is that of the average of the iterates with weights t^average.

    Returns
    -------
    WorstCase
        ``.loss`` is a float for one schedule, one k and ``record="last"``.

    Examples
    --------
    Two unit tasks at 45 degrees, at the best fixed coefficient for two steps:

    >>> import numpy as np
    >>> import forgetless as fl
    >>> tasks = fl.TaskCollection([([[1.0, 0.0]], [0.0]), ([[np.sqrt(0.5), np.sqrt(0.5)]], [0.0])])
    >>> round(fl.worst_case(tasks, fl.Ridge(1.299), k=2).loss, 4)
    0.0692

    >>> w = fl.worst_case(tasks, {"fixed": "fixed", "λ = 1": 1}, k=[4, 8, 16])
    >>> w.steps.tolist(), w.loss.shape, w.teacher.shape
    ([4, 8, 16], (2, 3), (2, 3, 2))

    References
    ----------
    Levinstein et al. (2025), Appendix A, for a fixed coefficient with replacement.
    """
    if not isinstance(k, Integral):

        def solve(each: int) -> WorstCase:
            return worst_case(tasks, schedule, each, ordering=ordering, average=average)

        return _of_several(k, record, solve)
    problem = Problem.of(tasks, schedule, int(k), ordering, record, average)
    result = _ENGINES[type(problem.law)].forms(problem, linear_moments(tasks))
    losses, teachers = _largest(result.forms, tasks)
    error = min(1.0, result.error + relative(_rounded(problem, losses), losses))
    if isinstance(record, str) and record == "last":
        losses, teachers = losses[:, 0], teachers[:, 0, :]
    if not problem.grid:
        losses, teachers = losses[0], teachers[0]
    worst = float(losses) if losses.ndim == 0 else losses
    return WorstCase(worst, teachers, problem.steps, result.method, error, problem.labels)


def _of_several(k: Any, record: Any, solve: Callable[[int], WorstCase]) -> WorstCase:
    """Return the worst cases of several k, with schedules built for each, as one result."""
    if not (isinstance(record, str) and record == "last"):
        raise ValueError(
            f'record must be "last" for several k, got {record!r}; give one k to record steps on'
            " the way"
        )
    ks = _numbers_of_steps(k)
    parts = [solve(each) for each in ks]
    losses = np.stack([part.curves[:, 0] for part in parts], axis=1)
    labels, methods = parts[0].labels, dict.fromkeys(part.method for part in parts)
    return WorstCase(
        (losses if labels else losses[0]),
        np.stack([part.teacher for part in parts], axis=1 if labels else 0),
        np.array(ks),
        ", ".join(methods),
        max(part.error for part in parts),
        labels,
    )


def _numbers_of_steps(k: Any) -> list[int]:
    if np.ndim(k) != 1:
        raise TypeError(f"k must be a number of steps or a list of them, got {k!r}")
    ks = sorted(
        {
            validate.integer("k", each, 1, "ask for at least one step")
            for each in np.asarray(k).tolist()
        }
    )
    if not ks:
        raise ValueError("k must hold at least one number of steps, got none")
    return ks


def _rounded(problem: Problem, losses: Floats) -> Floats:
    """Return the absolute rounding error of losses (B, n)."""
    first = 0.5 * float(np.sum(problem.tasks.singular_values**2)) / problem.tasks.n_tasks
    left = np.ones(losses.shape)
    if isinstance(problem.law, Draws):
        left = np.stack(draws.left_at(problem), axis=1)
    return np.asarray(
        SAFETY * EPS * np.sqrt(np.maximum(problem.steps, 1.0)) * (left * first + losses)
    )


def _largest(forms: list[list[Array]], tasks: TaskCollection) -> tuple[Floats, Floats]:
    """Return ½λ_max and its eigenvector in feature coordinates for every form."""
    losses = np.zeros((len(forms), len(forms[0])))
    teachers = np.zeros((*losses.shape, tasks.n_features))
    for b, row in enumerate(forms):
        for i, V in enumerate(row):
            if V.shape[0] == 0:
                teachers[b, i, 0] = 1.0  # all tasks are zero: every teacher attains 0
                continue
            values, vectors = np.linalg.eigh(V)
            vector = tasks.span @ vectors[:, -1]
            losses[b, i] = 0.5 * max(0.0, float(values[-1]))
            teachers[b, i] = vector * (1.0 if vector[np.argmax(np.abs(vector))] > 0 else -1.0)
    return losses, teachers
