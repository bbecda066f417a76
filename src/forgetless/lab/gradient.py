"""Derivatives of the exact loss with respect to every parameter of every step.

By equations (2) and (5) of ``chain`` and ``worst`` the loss is ½⟨V_t, S_t⟩ at any time t. A change
of φ_j in step t changes M by −L_jᵀR_j, hence the loss by

    ∂loss/∂φ_j = −Σ over moves p (L_j V_t)(M S_{t−1} R_jᵀ),                            (6)

and ∂loss/∂θ_t is the sum of ∂loss/∂φ_j ∂φ_j/∂θ over the singular vectors. One pass backwards for
V_k..V_1 and one forwards for S_0..S_k give all of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from forgetless._running import track
from forgetless._validate import Array, Floats, check_memory
from forgetless.filters import Filter
from forgetless.lab import Problem, with_few_threads
from forgetless.lab.chain import Run, carry
from forgetless.lab.coordinates import Coordinates
from forgetless.lab.worst import backward
from forgetless.metrics import quantity
from forgetless.orderings import Moves, OrderingLike
from forgetless.schedules.named import ScheduleLike
from forgetless.tasks import TaskCollection


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
    parameters: Mapping[str, Floats]
    teacher: Floats | None = field(default=None, repr=False)

    @property
    def coefficient(self) -> Floats:
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
        The expected average loss, or its largest value over unit teachers. Where the largest
        eigenvalue is repeated the latter has no derivative, and that of one of the worst teachers
        is returned.

    Examples
    --------
    >>> import forgetless as fl
    >>> tasks = fl.TaskCollection([([[1.0]], [1.0])])
    >>> g = fl.loss_gradient(tasks, fl.Ridge(1.0), k=1)      # loss ½(λ/(1 + λ))²
    >>> round(g.loss, 6), g.coefficient.round(6).tolist()
    (0.125, [0.125])
    """
    problem = Problem.of(tasks, schedule, k, ordering, "last")
    if problem.labels:
        raise TypeError(
            f"loss_gradient takes one schedule, got {len(problem.filters)}; call it for each"
        )
    worst = quantity("objective", objective, ("average_loss", "worst_case")) == "worst_case"
    value, by_factor, teacher = Adjoint(problem, worst=worst)(problem.filters[0])
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
        self,
        problem: Problem,
        *,
        worst: bool,
        other: TaskCollection | None = None,
    ) -> None:
        self.problem = problem
        self.worst = worst
        self.c = Coordinates(problem.tasks, affine=other is not None, labels=not worst)
        measured = problem.tasks if other is None else other
        self.floor = 0.0 if worst else float(measured.floors.mean())
        # H of the loss that is measured: ½⟨H, S⟩ plus its floor.
        self.form = self.c.average_form
        if other is not None:
            rows = self.c.rows(*other.mean_rows)
            self.form = rows.T @ rows

    @property
    def first(self) -> Any:
        """Twice the loss at the start, less its floor; 1 for unit teachers."""
        if self.worst:
            return 1.0
        return np.sum(self.form * (self.c.start @ self.c.start.T))

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
        c = self.c
        if not c.q:
            # All tasks are zero: nothing is learned, and every teacher has loss 0.
            teacher = np.eye(problem.tasks.n_features)[0] if self.worst else None
            return self.floor, np.zeros((k, len(problem.tasks.singular_values))), teacher
        check_memory(k * len(c.start) ** 2, f"the forms of {k:,} steps", "use fewer steps")
        # Backwards: V_k..V_1 by equation (5), all kept.
        forms: list[Floats] = []
        V = backward(problem, c, self.form, k, forms)[0, :, 0]
        S = c.start @ c.start.T
        teacher = None
        if self.worst:
            values, vectors = np.linalg.eigh(V[: c.q, : c.q])
            # The derivative of λ_max is that of vᵀVv at its eigenvector v; softened, of several.
            # By Euler's theorem on homogeneous functions these moments have the softened loss.
            weights = _softened(values, softness)
            S[: c.q, : c.q] = (vectors * weights) @ vectors.T
            teacher = c.basis @ vectors[:, -1]
        run = Run(c, problem)
        run.S = S[None, :, None, :]
        phi = problem.factors(0, k)
        slopes = np.empty(phi.shape[:2])
        # Forwards from the start, beside the forms V_1..V_k that the way back has left.
        for t, after in enumerate(track(forms[::-1], "steps")):
            run.move_teacher()
            moves = run.moves()
            factors = phi[t]
            slopes[t] = self._of_step(run.S, after, moves, factors[:, 0])
            run.S = carry(run.S, moves, c.maps, factors)
            run.done += 1
        # The loss ½⟨H, S_k⟩ of all states together.
        last = run.S[:, :, 0].sum(axis=0)
        loss = 0.5 * float(np.sum(self.form * last))
        return max(0.0, loss) + self.floor, slopes, teacher

    def _of_step(
        self,
        S: Floats,
        V: Floats,
        moves: Moves,
        phi: Floats,
    ) -> Floats:
        """Return ∂loss/∂φ_j of one step, from the moments before it and the form after it.

        In equation (6), M S R_jᵀ is the row R_j S − Σ_o K_jo φ_o L_o of the task of j, with K the
        sum of R S Rᵀ and of the noise.
        """
        maps = self.c.maps
        owners = self.problem.tasks.owners
        slopes = np.zeros(len(phi))
        _, starts, source, task, probability = moves.table
        # One run of moves between the same two states at a time, as in ``_kernels.push``.
        for begin, end in pairwise(starts):
            before = S[source[begin], :, 0]
            after = V[moves.target[begin], :, 0]
            rows = slice(maps.offsets[task[begin]], maps.offsets[task[end - 1] + 1])
            L = maps.left[rows]
            R = maps.right[rows]
            own = owners[rows]
            T = R @ before
            # Only singular vectors of one task meet in a step.
            K = T @ R.T * (own[:, None] == own)
            K += np.diag(maps.noise[rows] * before[maps.one, maps.one])
            moved = T - (K * phi[rows]) @ L
            # The probability of the move that learns the task of each singular vector.
            p = probability[begin:end][own - task[begin]]
            slopes[rows] -= p * np.sum((L @ after) * moved, axis=1)
        return slopes


def _softened(values: Floats, softness: float) -> Array:
    """Return the derivatives of the (1/ε)-norm of nonnegative eigenvalues in ascending order."""
    top = float(values[-1])
    if softness <= 0 or top <= 0:
        return np.eye(len(values))[-1]
    with np.errstate(under="ignore"):
        # Relative to the largest eigenvalue no power overflows.
        relative = np.maximum(values / top, 0.0)
        norm = np.sum(relative ** (1 / softness)) ** softness
        return (relative / norm) ** (1 / softness - 1)


def through_parameters(
    filter: Filter,
    by_factor: Floats,
    tasks: TaskCollection,
) -> dict[str, Floats]:
    """Return ∂loss/∂θ_t of shape (k,) by the name of θ, from ∂loss/∂φ of shape (k, Σr)."""
    eigenvalues = tasks.singular_values**2
    # The chain rule: φ_tj depends on θ_t alone.
    slopes = filter.broadcast(eigenvalues).derivatives(eigenvalues)
    return {name: np.sum(by_factor * each, axis=1) for name, each in slopes.items()}
