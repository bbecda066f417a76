"""The gradient of the exact loss with respect to the parameters of a schedule, by the adjoint
method.
"""

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from forgetless._core.arrays import Array, Floats
from forgetless.engines.independent import Operator
from forgetless.engines.inputs import OrderingLike, ScheduleLike
from forgetless.engines.moments import Moments, average_form, linear_moments, measured
from forgetless.engines.problem import Problem, with_few_threads
from forgetless.filters import Filter
from forgetless.metrics import quantity
from forgetless.orderings import Draws
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
    start: Any = None,
) -> LossGradient:
    """Return the derivative of the exact expected loss after k steps with respect to every
    parameter of every step.

    Parameters
    ----------
    tasks : TaskCollection
    schedule : schedule, filter, name or number
        Of any filter with a parameter: λ_t of ``Ridge``, γ_t of ``GradientDescent``, those of
        custom filters.
    k : int
    ordering : Ordering or its name, default ``WithReplacement()``
        Independent draws.
    objective : "average_loss" or "worst_case"
        The expected average loss from ``start``, or its largest value over unit teachers. Where the
        largest eigenvalue is repeated the latter has no derivative, and that of one of the worst
        teachers is returned.
    start : array of shape (d,) or (d, c), optional
        w₀; only for ``objective="average_loss"``.

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
    if not isinstance(problem.law, Draws):
        raise TypeError(f"loss_gradient needs draws with replacement, got {problem.ordering!r}")
    worst = quantity("objective", objective, ("average_loss", "worst_case")) == "worst_case"
    if worst and start is not None:
        raise ValueError('start does not matter for objective="worst_case"; leave it out')
    moments = linear_moments(tasks) if worst else measured(tasks, tasks.start(start))
    floor = 0.0 if worst else float(tasks.floors.mean())
    adjoint = Adjoint(moments, problem.law, average_form(moments), floor, worst=worst)
    filter_ = problem.filters[0]
    value, by_factor, direction = adjoint(problem.factors_of(0, 0, problem.k), problem.k)
    slopes = through_parameters(filter_, by_factor, tasks)
    if not slopes:
        raise TypeError(
            f"loss_gradient needs a filter with a parameter, got {filter_!r}; use fl.Ridge(0.0) for"
            " λ at 0"
        )
    if direction is None:
        return LossGradient(value, slopes)
    if moments.size == 0:  # all tasks are zero: every teacher has loss 0
        return LossGradient(0.0, slopes, np.eye(tasks.n_features)[0])
    teacher = tasks.span @ direction
    return LossGradient(value, slopes, teacher)


class Adjoint:
    """The exact loss after k random draws and its derivatives, for many schedules on the same
    tasks.

    The loss is half the ``form`` (Q, Q) of the moments after k steps plus ``floor``, or with
    ``worst`` its largest value over unit teachers, for which the moments are linear.
    """

    def __init__(
        self, moments: Moments, law: Draws, form: Array, floor: float, *, worst: bool
    ) -> None:
        self.moments, self.form, self.floor, self.worst = moments, form, floor, worst
        self.operator = Operator(moments, law.probabilities)

    def __call__(
        self, factors: Any, k: int, softness: float = 0.0
    ) -> tuple[float, Floats, Array | None]:
        """Return the loss, ∂loss/∂φ of shape (k, Σr), and for the worst case the worst teacher in
        span coordinates.

        ``factors`` are of shape (k, Σr), or (Σr,) for the same at all steps. With ``softness`` ε >
        0 the largest eigenvalue of the worst case is replaced by the (1/ε)-norm of all q: at most a
        factor q^ε above, and smooth where several teachers are equally bad.
        """
        total = len(self.moments.tasks.singular_values)
        factors = np.ascontiguousarray(np.broadcast_to(factors, (k, total)).T)[:, :, None]
        forms = _backward(self.operator, self.form, factors)
        if not self.worst:
            loss, slopes = _forward(self.operator, self.moments.start, forms, factors)
            return loss + self.floor, slopes, None
        if self.moments.size == 0:
            return 0.0, np.zeros((k, total)), self.form
        values, vectors = np.linalg.eigh(forms[0][:, :, 0])
        value, weights = _softened(values, softness)
        teachers = (vectors * weights) @ vectors.T
        _, slopes = _forward(self.operator, teachers, forms, factors)
        return max(0.0, 0.5 * value), slopes, vectors[:, -1]


def _softened(values: Floats, softness: float) -> tuple[float, Floats]:
    """Return the norm of nonnegative eigenvalues in ascending order, and its derivative with
    respect to each.
    """
    top, weights = float(values[-1]), np.zeros(len(values))
    if softness <= 0 or top <= 0:
        weights[-1] = 1.0
        return top, weights
    with np.errstate(under="ignore"):
        relative = np.maximum(values / top, 0.0)
        norm = float(np.sum(relative ** (1 / softness)) ** softness)
        return top * norm, np.asarray((relative / norm) ** (1 / softness - 1))


def _backward(operator: Operator, form: Array, factors: Floats) -> list[Array]:
    """Return the forms V_0..V_k, each of shape (Q, Q, 1): the final loss is ½⟨V_t, S_t⟩ for every
    t.
    """
    forms = [form[:, :, None]]
    for t in range(factors.shape[1] - 1, -1, -1):
        phi = factors[:, t, :]
        forms.append(forms[-1] - operator.decrease_adjoint(forms[-1], phi))
    return forms[::-1]


def _forward(
    operator: Operator, start: Array, forms: list[Array], factors: Floats
) -> tuple[float, Floats]:
    """Return ½⟨V_0, S_0⟩ and ∂/∂φ of shape (k, Σr).

    A change of φ_j in step t changes M_m by −L_jᵀR_j, and the loss by −p_m (L_j V_t)(M_m S_{t−1}
    R_jᵀ).
    """
    S = start[:, :, None]
    loss = 0.5 * float(np.sum(forms[0] * S))
    slopes = np.empty((factors.shape[1], factors.shape[0]))
    for t in range(factors.shape[1]):
        phi = factors[:, t, :]
        T, W = operator.products(S, phi)
        carried = operator.left @ forms[t + 1][:, :, 0]
        slopes[t] = -operator.weights[:, 0] * np.sum(carried * (T - W)[:, :, 0], axis=1)
        S = S - operator.collect(T, W, phi)
    return max(0.0, loss), slopes


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
