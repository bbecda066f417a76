"""Exact expectations over all orders of the tasks, their worst case over teachers, and gradients.

A step is affine in the weights and every metric is quadratic, so that expectations follow from
second moments, which obey a linear recursion: see ``moments``.

*The adjoint.* Write the recursion as S_t = A_t S_{t−1}. The loss after k steps is ½⟨H, S_k⟩ =
½⟨H, A_k ⋯ A_{t+1} S_t⟩ = ½⟨V_t, S_t⟩ with V_k = H and V_{t−1} = A_tᵀ V_t, that is

    V_{t−1}(s) = Σ over moves s → d of p Mᵀ V_t(d) M,   Mᵀ = I − Rᵀ diag(φ) L:

the forward recursion with the moves reversed and L and R exchanged. In particular the loss is the
form ½ u₀ᵀ V_0 u₀ of the start u₀, and ½ of the largest eigenvalue of V_0 is the loss for the worst
teacher of norm 1. A change of φ_j in step t changes M by −L_jᵀR_j, hence the loss by

    ∂loss/∂φ_j = −Σ over moves p (L_j V_t)(M S_{t−1} R_jᵀ).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from numbers import Integral
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from forgetless._core import validate
from forgetless._core.arrays import Array, Floats
from forgetless._core.validate import check_memory
from forgetless._progress import track
from forgetless._schedule import Schedules
from forgetless.ensembles import Ensemble
from forgetless.filters import Filter
from forgetless.lab import fresh
from forgetless.lab.moments import (
    Coordinates,
    Run,
    Snapshot,
    averaging,
    carry,
    carry_often,
    check_states,
    conjugate,
)
from forgetless.lab.powers import Powers
from forgetless.lab.problem import Problem, with_few_threads
from forgetless.lab.results import Expectation, WorstCase
from forgetless.lab.rounding import relative_errors
from forgetless.lab.simulate import followed
from forgetless.metrics import Metric, average_loss, check_walk, quantity, resolve
from forgetless.orderings import Moves, OrderingLike
from forgetless.schedules import ScheduleLike
from forgetless.tasks import TaskCollection

_LANES = 32
"""Schedules whose moments are carried together: they stay in the cache."""


@with_few_threads
def expect(
    tasks: TaskCollection | Ensemble,
    schedule: Schedules,
    k: int,
    *,
    ordering: OrderingLike | None = None,
    metrics: Any = ("average_loss",),
    record: Any = "last",
    average: float | None = None,
) -> Expectation:
    """Return expected metrics over all orderings, exact up to rounding.

    Parameters
    ----------
    tasks : TaskCollection or Ensemble
        Realizable or not, with one or several targets; with label noise and a walking teacher if
        they have them. Learning begins at the origin: at w₀ with ``tasks.shifted(w0)``. For an
        ensemble (``fl.ensembles``) the mean is over fresh random tasks; it has no ordering, and the
        metric ``task_distances`` beside those below.
    schedule : schedule, filter, name or number; or a list or a dict of these
        A name is one such as "increasing", a number a fixed coefficient λ. Several are
        evaluated in one batch, far faster than one call each; the keys of a dict are their labels
        in frames and plots.
    k : int
        Number of steps.
    ordering : Ordering or its name, default ``WithReplacement()``
        Any ordering with ``moves``: with or without replacement, reshuffled, cyclic, an explicit
        sequence, your own chain.
    metrics : Metric or name, or several, default ``("average_loss",)``
        See ``fl.metrics``. Those of the path (``seen_loss``, ``forgetting``, ``drift``) follow M
        matrices more, so that they cost about M times as much. ``task_forgetting`` and
        ``task_drift`` are the expected sum over the visits of a task, over the expected number of
        visits; NaN if that is 0. ``fl.metrics.loss_on(tasks)`` is the loss of other tasks.
    record : "last", "log", "all" or steps in 0..k, default "last"
    average : float, optional
        Measure the average Σ_t ω_t w_t of the iterates so far with weights ω_t ∝ t^average (2 is
        recommended, 0 for equal weights) instead of the last one.

    Returns
    -------
    Expectation
        Arrays of shape (n_steps,), or (n_schedules, n_steps) for several schedules; those per task
        have one axis more. ``.errors`` estimates the rounding errors.

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

    >>> noisy = fl.TaskCollection(tasks, noise=0.1)
    >>> e = fl.expect(noisy, {"none": "none", "λ = 1": 1.0}, k=50)
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
        fresh.check_unused(ordering=(ordering, None), average=(average, None))
        return fresh.expectation(fresh.FreshProblem.of(tasks, schedule, k, record, metrics))
    problem = Problem.of(tasks, schedule, k, ordering, record, average)
    wanted = resolve(metrics)
    check_walk(wanted, tasks.walk)
    if any(each.name == "next_loss" for each in wanted):
        problem.next_moves()
    # One order without noise is one run, which keeps relative accuracy.
    exactly = problem.ordering.deterministic and not tasks.noise and not tasks.walk
    follow = _along_one_order if exactly else _along_the_chain
    parts = [follow(part, wanted) for part in problem.parts(_LANES)]
    values = {}
    for name in parts[0]:
        together = np.concatenate([part[name] for part in parts])
        values[name] = together if problem.grid else together[0]
    return Expectation(
        problem.steps,
        values,
        lambda values: relative_errors(problem, values),
        labels=problem.labels,
    )


def _along_the_chain(problem: Problem, metrics: list[Metric]) -> dict[str, Floats]:
    """Return curves (B, n_steps, …) by the recursion of moments."""
    # 1 among the coordinates is needed by all but plain losses around a joint solution.
    path = any(each.path for each in metrics)
    affine = path or any(each.affine for each in metrics)
    coordinates = Coordinates(problem.tasks, affine)
    run = Run(coordinates, problem, path)
    powers = None
    if not path:
        powers = Powers.if_faster(problem, coordinates.maps, int(problem.steps[-1]))
    curves: dict[str, list[Floats]] = {each.name: [] for each in metrics}
    for first, last, recorded in track(list(problem.windows()), "steps"):
        if powers is not None:
            run.S = powers.advanced(run.S, last - first)
            run.done = last
        elif last > first:
            run.advance(problem.factors(first, last))
        if recorded:
            now = Snapshot(run)
            for each in metrics:
                curves[each.name].append(each.evaluate(now))
    return {name: np.stack(values, axis=1) for name, values in curves.items()}


def _along_one_order(problem: Problem, metrics: list[Metric]) -> dict[str, Floats]:
    """Return curves (B, n_steps, …) of a fixed order: one run, faster and more accurate."""
    parts = [followed(problem, b, metrics, 1, 0) for b in range(len(problem.filters))]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


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
    its largest eigenvalue, plus what label noise and a walk of the teacher add, if the tasks have
    them: it is the same for every teacher.

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
        Each recorded step is a backward pass of its own; that of a fixed filter is short.
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
    parts = [_largest(part) for part in problem.parts(_LANES)]
    losses = np.concatenate([part[0] for part in parts])
    teachers = np.concatenate([part[1] for part in parts])
    if isinstance(record, str) and record == "last":
        losses = losses[:, 0]
        teachers = teachers[:, 0, :]
    if not problem.grid:
        losses = losses[0]
        teachers = teachers[0]
    worst = float(losses) if losses.ndim == 0 else losses
    return WorstCase(worst, teachers, problem.steps, problem.labels)


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
    labels = parts[0].labels
    teachers = np.stack([part.teacher for part in parts], axis=1 if labels else 0)
    return WorstCase(losses if labels else losses[0], teachers, np.array(ks), labels)


def _numbers_of_steps(k: Any) -> list[int]:
    if np.ndim(k) != 1:
        raise TypeError(f"k must be a number of steps or a list of them, got {k!r}")
    hint = "ask for at least one step"
    ks = {validate.integer("k", each, 1, hint) for each in np.asarray(k).tolist()}
    if not ks:
        raise ValueError("k must hold at least one number of steps, got none")
    return sorted(ks)


def _largest(problem: Problem) -> tuple[Floats, Floats]:
    """Return ½λ_max (B, n) and its eigenvectors in feature coordinates (B, n, d)."""
    c = Coordinates(problem.tasks, labels=False)
    shape = (len(problem.filters), len(problem.steps))
    losses = np.zeros(shape)
    teachers = np.zeros((*shape, problem.tasks.n_features))
    teachers[:, :, 0] = 1.0  # if all tasks are zero, every teacher attains 0
    for i, step in enumerate(track(problem.steps.tolist(), "steps") if c.q else []):
        V = np.moveaxis(backward(problem, c, c.average_form, step)[0, : c.q, :, : c.q], 1, 0)
        values, vectors = np.linalg.eigh(V)
        losses[:, i] = np.maximum(0.5 * values[:, -1], 0.0)
        directions = vectors[:, :, -1] @ c.basis.T
        # An eigenvector has no sign: its largest entry is positive.
        largest = np.argmax(np.abs(directions), axis=1)[:, None]
        teachers[:, i] = directions * np.sign(np.take_along_axis(directions, largest, axis=1))
    if problem.tasks.noise or problem.tasks.walk:
        still = replace(problem, tasks=problem.tasks.without_labels())
        losses += _along_the_chain(still, [average_loss])["average_loss"]
    return losses, teachers


def backward(
    problem: Problem, c: Coordinates, form: Floats, last: int, keep: list[Floats] | None = None
) -> Floats:
    """Return V_0 (1, Q, B, Q) of a form of the weights after ``last`` steps.

    All of V_last..V_1 (states, Q, B, Q) are appended to ``keep``.
    """
    n_tasks = problem.tasks.n_tasks
    ordering = problem.ordering
    averaged = problem.average is not None
    check_states(problem, len(form) * (1 + averaged))
    V = _last_form(problem, form, last)
    # Backwards the maps are exchanged, and neither noise nor a walk contributes to V.
    zeros = np.zeros_like(c.maps.noise)
    maps = c.maps._replace(left=c.maps.right, right=c.maps.left, noise=zeros, one=0)
    powers = None if keep is not None else Powers.if_faster(problem, maps, last)
    if powers is not None:
        return powers.advanced(V, last)
    windows = [(first, min(stop, last)) for first, stop, _ in problem.windows()]
    for first, stop in reversed([each for each in windows if each[0] < each[1]]):
        phi = problem.factors(first, stop)[::-1]
        if ordering.stationary and not averaged and keep is None:
            moves = ordering.moves(n_tasks, 0).reversed
            V = carry_often(V, moves, maps, phi, np.zeros(0), np.zeros(len(phi)))
            continue
        for t, factors in zip(range(stop - 1, first - 1, -1), phi, strict=True):
            if keep is not None:
                keep.append(V)
            if averaged:
                G = averaging(V.shape[1] // 2, float(problem.gains[t]))
                V = conjugate(G.T, V)
            V = carry(V, ordering.moves(n_tasks, t).reversed, maps, factors)
    return V


def _last_form(problem: Problem, form: Floats, last: int) -> Floats:
    """Return V_last of shape (states, Q, B, Q); a form of the average, if that is measured."""
    n = len(form)
    H = form
    if problem.average is not None:
        # The form reads the average, the trailing half of (U, Ū).
        H = np.zeros((2 * n, 2 * n))
        H[n:, n:] = form
        if last == 0:
            H[:n, :n] = form  # the average of no steps is the start
            H[n:, n:] = 0.0
    # All states end with the same form.
    states = problem.ordering.moves(problem.tasks.n_tasks, last - 1).n_targets if last else 1
    return np.repeat(np.repeat(H[None, :, None, :], states, axis=0), len(problem.filters), axis=2)


@dataclass(frozen=True, eq=False)
class LossGradient:
    """The exact loss and its derivatives.

    Attributes
    ----------
    loss : float
    parameters : dict of arrays of shape (k,)
        ∂loss/∂θ_t of every parameter θ of the filter that has a derivative, by name:
        ``"coefficient"`` for ``Ridge``, ``"step_size"`` for ``GradientDescent``.
    teacher : array of shape (d,) or None
        The worst unit teacher, for ``objective="worst_case"``.
    """

    loss: float
    parameters: dict[str, NDArray[np.float64]]
    teacher: Array | None = field(default=None, repr=False)

    @property
    def coefficient(self) -> NDArray[np.float64]:
        """∂loss/∂λ_t, for schedules of ``Ridge``."""
        if "coefficient" not in self.parameters:
            raise AttributeError(
                f"the schedule has no coefficient; its parameters are {', '.join(self.parameters)}"
            )
        return self.parameters["coefficient"]


@with_few_threads
def loss_gradient(
    tasks: TaskCollection,
    schedule: ScheduleLike,
    k: int,
    *,
    ordering: OrderingLike | None = None,
    objective: Literal["average_loss", "worst_case"] = "average_loss",
) -> LossGradient:
    """Return the derivative of the exact expected loss after k steps with respect to every
    parameter of every step.

    Use it to optimise a schedule: a call costs about three times as much as ``expect``, whatever k
    is.

    Parameters
    ----------
    tasks : TaskCollection
    schedule : schedule, filter, name or number
        Of any filter with a parameter: λ_t of ``Ridge``, γ_t of ``GradientDescent``, those of
        custom filters.
    k : int
    ordering : Ordering or its name, default ``WithReplacement()``
        Any ordering with ``moves``.
    objective : "average_loss" or "worst_case"
        The expected average loss, or its largest value over unit teachers. Where the
        largest eigenvalue is repeated the latter has no derivative, and that of one of the worst
        teachers is returned.

    Examples
    --------
    >>> import forgetless as fl
    >>> tasks = fl.TaskCollection([([[1.0]], [1.0])])
    >>> g = fl.loss_gradient(tasks, fl.Ridge(1.0), k=1)      # loss ½(λ/(1 + λ))²
    >>> round(g.loss, 6), g.coefficient.round(6).tolist()
    (0.125, [0.125])
    """
    problem = Problem.of(tasks, schedule, k, ordering, "last")
    if problem.grid:
        raise TypeError(
            f"loss_gradient takes one schedule, got {len(problem.filters)}; call it for each"
        )
    worst = quantity("objective", objective, ("average_loss", "worst_case")) == "worst_case"
    adjoint = Adjoint(problem, worst=worst)
    value, by_factor, teacher = adjoint(problem.filters[0])
    slopes = through_parameters(problem.filters[0], by_factor, tasks)
    if not slopes:
        raise TypeError(
            f"loss_gradient needs a filter with a parameter, got {problem.filters[0]!r}; use"
            " fl.Ridge(0.0) for λ at 0"
        )
    return LossGradient(value, slopes, teacher)


class Adjoint:
    """The exact loss after k steps and its derivatives, for many schedules of one problem.

    Parameters
    ----------
    problem : Problem
        Its filters do not matter.
    worst : bool
        The loss of the worst unit teacher, instead of that on the labels of the tasks.
    other : TaskCollection, optional
        Tasks whose average loss is measured instead of that of the tasks learned.
    """

    def __init__(
        self, problem: Problem, *, worst: bool = False, other: TaskCollection | None = None
    ) -> None:
        self.problem = problem
        self.worst = worst
        self.c = Coordinates(problem.tasks, affine=other is not None, labels=not worst)
        measured = problem.tasks if other is None else other
        self.floor = 0.0 if worst else float(measured.floors.mean())
        self.form = self.c.average_form
        if other is not None:
            s = other.singular_values[:, None] / np.sqrt(other.n_tasks)
            rows = self.c.rows(s * other.singular_vectors, s * other.targets)
            self.form = rows.T @ rows

    @property
    def first(self) -> float:
        """Twice the loss at the start, less its floor; 1 for unit teachers."""
        return 1.0 if self.worst else float(np.sum(self.form * (self.c.start @ self.c.start.T)))

    def __call__(
        self, filter_: Filter, softness: float = 0.0
    ) -> tuple[float, Floats, Floats | None]:
        """Return the loss, ∂loss/∂φ of shape (k, Σr), and for the worst case the worst teacher.

        With ``softness`` ε > 0 the largest eigenvalue of the worst case is replaced by the
        (1/ε)-norm of all q: at most a factor q^ε above, and smooth where several teachers are
        equally bad.
        """
        problem = replace(self.problem, filters=[filter_])
        k = problem.k
        if not self.c.q:
            # All tasks are zero: nothing is learned, and every teacher has loss 0.
            teacher = np.eye(problem.tasks.n_features)[0] if self.worst else None
            return self.floor, np.zeros((k, len(problem.tasks.singular_values))), teacher
        numbers = float(k) * len(self.c.start) ** 2
        check_memory(numbers, f"the forms of {k:,} steps", "use fewer steps")
        forms: list[Floats] = []
        V = backward(problem, self.c, self.form, k, forms)[0, :, 0]
        S = self.c.start @ self.c.start.T
        teacher = None
        if self.worst:
            q = self.c.q
            values, vectors = np.linalg.eigh(V[:q, :q])
            # The derivative of λ_max is that of vᵀVv at its eigenvector v; softened, of several.
            # By Euler's theorem on homogeneous functions these moments have the softened loss.
            S[:q, :q] = (vectors * _softened(values, softness)) @ vectors.T
            teacher = self.c.basis @ vectors[:, -1]
        loss, slopes = self._forwards(problem, forms, S)
        return max(0.0, loss) + self.floor, slopes, teacher

    def _forwards(self, problem: Problem, forms: list[Floats], S: Floats) -> tuple[float, Floats]:
        """Return the loss less its floor, and ∂loss/∂φ of shape (k, Σr), from the forms V_k..V_1
        and the moments of the start.
        """
        run = Run(self.c, problem)
        run.S = S[None, :, None, :]
        phi = problem.factors(0, problem.k)
        slopes = np.empty(phi.shape[:2])
        for t, form in enumerate(reversed(forms)):
            run.move_teacher()
            moves = run.moves()
            slopes[t] = self._of_step(run.S, form, moves, phi[t, :, 0])
            run.S = carry(run.S, moves, self.c.maps, phi[t])
            run.done += 1
        return 0.5 * float(np.sum(self.form * run.S[:, :, 0].sum(0))), slopes

    def _of_step(self, S: Floats, V: Floats, moves: Moves, phi: Floats) -> Floats:
        """Return ∂loss/∂φ_j of one step, from the moments before it and the form after it.

        M S R_jᵀ is the row R_j S − Σ_o K_jo φ_o L_o of the task of j, with K = R S Rᵀ.
        """
        maps = self.c.maps
        owners = self.problem.tasks.owners
        slopes = np.zeros(len(phi))
        _, starts, source, task, probability = moves.table
        for begin, end in pairwise(starts):
            rows = slice(maps.offsets[task[begin]], maps.offsets[task[end - 1] + 1])
            L = maps.left[rows]
            R = maps.right[rows]
            own = owners[rows]
            T = R @ S[source[begin], :, 0]
            # Only singular vectors of one task meet in a step.
            K = T @ R.T * (own[:, None] == own)
            K[np.diag_indices_from(K)] += maps.noise[rows] * S[source[begin], maps.one, 0, maps.one]
            moved = T - (K * phi[rows]) @ L
            p = probability[begin:end][own - task[begin]]
            slopes[rows] -= p * np.sum((L @ V[moves.target[begin], :, 0]) * moved, axis=1)
        return slopes


def _softened(values: Floats, softness: float) -> Floats:
    """Return the derivatives of the (1/ε)-norm of nonnegative eigenvalues in ascending order."""
    # Relative to the largest eigenvalue no power overflows.
    top = float(values[-1])
    weights = np.zeros(len(values))
    if softness <= 0 or top <= 0:
        weights[-1] = 1.0
        return weights
    with np.errstate(under="ignore"):
        relative = np.maximum(values / top, 0.0)
        norm = float(np.sum(relative ** (1 / softness)) ** softness)
        return np.asarray((relative / norm) ** (1 / softness - 1))


def through_parameters(
    filter: Filter, by_factor: Floats, tasks: TaskCollection
) -> dict[str, Floats]:
    """Return ∂loss/∂θ_t of shape (k,) by the name of θ, from ∂loss/∂φ of shape (k, Σr)."""
    eigenvalues = tasks.singular_values**2
    sensitivities = filter.broadcast(eigenvalues).derivatives(eigenvalues)
    return {
        name: np.sum(by_factor * np.asarray(slopes), axis=1)
        for name, slopes in sensitivities.items()
    }
