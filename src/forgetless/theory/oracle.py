"""Oracle bounds: the loss on the next task where no model fits all tasks, compared with that of
every weight vector.

For steps with φ_t(R²) = η(k+1−t)/(k+1), 0 < η < 1, tasks in exchangeable order and every w
(docs/proofs.md, Theorem N; n = k + 1, κ_t = φ_t(R²) and ψ_t = φ_t/κ_t; g_t is the surrogate
½(w − X⁺y)ᵀψ_{t+1}(XᵀX/R²)(w − X⁺y) of step t + 1, t < k, and g_k = (L − floor)/R²)

    E L(w_k; next) ≤ E floor + R²[‖w − w₀‖²/(2ηn) + (1/n)Σ_{t≤k} E(g_t(w) + η/(2(1−η))·‖∇g_t(w)‖²)].

The right side is a quadratic in w with a closed minimiser; η is found by a search.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from forgetless import _validate as validate
from forgetless._text import wrapped
from forgetless._validate import Floats
from forgetless.filters import Filter
from forgetless.lab import check_tasks
from forgetless.metrics import quantity
from forgetless.orderings import Ordering, OrderingLike, WithoutReplacement, as_ordering
from forgetless.schedules import minimax, minimax_budget, resolve
from forgetless.tasks import TaskCollection
from forgetless.theory.hypotheses import factors_of

_LOG_ODDS = np.linspace(-14.0, 14.0, 29)
"""ln(η/(1 − η)) of the first search."""

_SEARCH = {"xatol": 1e-5}
"""Accuracy of the second one, in the same unit."""


@dataclass(frozen=True)
class OracleBound:
    """A proved upper bound of the expected loss on the next task, whatever the labels are.

    Attributes
    ----------
    value : float
        The bound for ``schedule``.
    eta : float
        η of the schedule; 1 is possible only where one model fits all tasks.
    weights : array of shape (d,) or (d, c)
        The comparator w that the bound is made with.
    loss : float
        The mean loss of w: what the bound would be without the cost of learning.
    distance : float
        ‖w − w₀‖.
    k : int
    radius : float
    schedule : schedule
    """

    value: float
    eta: float
    weights: Any = field(repr=False)
    loss: float
    distance: float
    k: int
    radius: float
    schedule: Any

    def __repr__(self) -> str:
        return wrapped(
            f"expected loss on the next task ≤ {self.value:.6g} after k = {self.k:,} steps of"
            f" {self.schedule!r}, for these tasks in exchangeable order, with these probabilities:"
            f" weights at distance {self.distance:.4g} from the start have mean loss"
            f" {self.loss:.6g}. Derived, unpublished: Theorem N of docs/proofs.md."
        )


def oracle_bound(
    tasks: TaskCollection,
    k: int,
    *,
    scheme: str = "budget",
    eta: float | None = None,
    ordering: OrderingLike | None = None,
) -> OracleBound:
    """Return the smallest bound of the loss on the next task that Theorem N proves for these tasks,
    noisy or not.

    It needs no noise model and no weights that fit: the loss after k steps of a minimax schedule is
    compared with that of any fixed weights, and those with the smallest bound are chosen, as is η.

    Parameters
    ----------
    tasks : TaskCollection
    k : int
        Number of steps, below M for orders without replacement.
    scheme : "budget" or "ridge"
        One gradient step a task, ``schedules.minimax_budget(eta=η)``, or explicit L2,
        ``schedules.minimax(eta=η)``, whose bound is somewhat larger.
    eta : float, optional
        η in (0, 1]; the best one if omitted. 1 only where one model fits all tasks.
    ordering : Ordering or its name, default ``WithReplacement()``
        With replacement, with any probabilities, or without; the bound is the same without as for
        uniform draws.

    Returns
    -------
    OracleBound
        With ``.value``, ``.eta``, ``.weights`` (the comparator) and ``.schedule``.

    Examples
    --------
    Two labels that contradict each other, ±1: no weights have a loss below ½, and the bound is
    attained.

    >>> import forgetless as fl
    >>> tasks = fl.TaskCollection([([[1.0]], [1.0]), ([[1.0]], [-1.0])])
    >>> round(fl.oracle_bound(tasks, k=100, eta=0.1).value, 6)
    0.555556
    >>> round(fl.oracle_bound(tasks, k=100).value, 3)
    0.5
    """
    check_still(tasks)
    k = validate.steps(k)
    quantity("scheme", scheme, ("budget", "ridge"))
    make = minimax_budget if scheme == "budget" else minimax
    fits = tasks.is_realizable()
    if eta is not None:
        eta = validate.number("eta", eta, "η is a factor in (0, 1]", positive=True)
        if eta > 1 or (eta == 1 and not fits):
            raise ValueError(
                f"eta must be at most 1, and below 1 where no model fits all tasks, got {eta:g};"
                " leave it out"
            )
    p = next_probabilities(tasks, as_ordering(ordering), k)

    def at(eta: float) -> RightSide:
        return right_side(tasks, resolve(make(eta=eta), k, tasks.radius), k, eta, p)

    if eta is None:
        candidates = [_best_eta(lambda each: at(each).value)] + [1.0] * fits
        eta = min(candidates, key=lambda each: at(each).value)
    return OracleBound(
        **at(eta)._asdict(), eta=eta, k=k, radius=tasks.radius, schedule=make(eta=eta)
    )


def next_probabilities(tasks: TaskCollection, ordering: Ordering, k: int) -> Floats:
    """Return the probabilities of each task at every step; ValueError where the order is not
    exchangeable.
    """
    ordering.check(tasks.n_tasks, k)
    if ordering.stationary:
        law: Floats = ordering.following(tasks.n_tasks, 0, np.empty(tasks.n_tasks))
        return law
    if not isinstance(ordering, WithoutReplacement) or k >= tasks.n_tasks:
        raise ValueError(
            f"ordering must be exchangeable with a task after the {k} steps: with replacement, or"
            f" without and k below the number of tasks, {tasks.n_tasks}; got {ordering!r}"
        )
    return np.full(tasks.n_tasks, 1 / tasks.n_tasks)


def _best_eta(value: Callable[[float], float]) -> float:
    """Return the η in (0, 1) with the smallest value: a grid of log-odds, then a bounded search in
    one cell.
    """
    from scipy.optimize import minimize_scalar
    from scipy.special import expit

    def at(log_odds: float) -> float:
        return value(float(expit(log_odds)))

    values = [at(each) for each in _LOG_ODDS]
    i = int(np.argmin(values))
    cell = _LOG_ODDS[max(i - 1, 0) : i + 2]
    found = minimize_scalar(at, bounds=(cell[0], cell[-1]), method="bounded", options=_SEARCH)
    # The value need not have one minimum: what the grid has found may be better.
    best = found.x
    if found.fun > values[i]:
        best = _LOG_ODDS[i]
    return float(expit(best))


class RightSide(NamedTuple):
    """The right side of Theorem N at its best w, with this w, its mean loss and its length."""

    value: float
    weights: Floats
    loss: float
    distance: float


def right_side(tasks: TaskCollection, filter_: Filter, k: int, eta: float, p: Floats) -> RightSide:
    """Return it for a filter with φ_t(R²) = η(k+1−t)/(k+1), and next tasks of probabilities p."""
    n = k + 1
    rows = tasks.singular_vectors
    own = tasks.targets
    weights = np.repeat(p, tasks.ranks)
    linear, squared = _mean_surrogates(filter_, k, tasks.singular_values, tasks.radius)
    # Along a singular vector 2g_t(w) is ψ_t(ξ) and ‖∇g_t(w)‖² is ψ_t(ξ)² times the squared error:
    # the right side is ½‖w‖²/(ηn) + ½Σ costs·error², a ridge problem.
    if eta == 1:
        # At weights that fit all tasks the terms with g_t vanish.
        solution = tasks.teacher().reshape(tasks.n_features, tasks.n_targets)
        costs = np.zeros(len(rows))
    else:
        costs = weights * (linear + eta / (1 - eta) * squared)
        root = np.sqrt(costs)[:, None]
        solution = _ridge(root * rows, root * own, 1 / (eta * n))
    missing = np.sum((rows @ solution - own) ** 2, axis=1)
    floor = float(p @ tasks.floors)
    distance = float(np.linalg.norm(solution))
    unit = 0.5 * distance**2 / (eta * n) + 0.5 * float(costs @ missing)
    # The loss of a task is its floor and ½ξR² times the squared errors along its singular vectors.
    own_losses = weights * tasks.singular_values**2
    return RightSide(
        (floor + tasks.radius**2 * unit) * (1 + 1e-12),
        solution.reshape((tasks.n_features, *tasks.target_shape)),
        floor + 0.5 * float(own_losses @ missing),
        distance,
    )


def _mean_surrogates(filter_: Filter, k: int, s: Floats, radius: float) -> tuple[Floats, Floats]:
    """Return (1/n)(ξ + Σ_tψ_t(ξ)) and (1/n)(ξ² + Σ_tψ_t(ξ)²) of every singular value s, ξ =
    s²/R².
    """
    values, place = np.unique(s, return_inverse=True)
    xi = (values / (radius or 1.0)) ** 2
    # The last surrogate, g_k, is the loss itself.
    linear = xi.copy()
    squared = xi**2
    for factors, kappas in factors_of(filter_, k, values**2, radius):
        psi = factors / kappas
        linear += psi.sum(axis=0)
        squared += (psi**2).sum(axis=0)
    return linear[place] / (k + 1), squared[place] / (k + 1)


def _ridge(G: Floats, b: Floats, penalty: float) -> Floats:
    """Return the minimiser of ‖Gz − b‖² + penalty‖z‖², by the smaller of its two systems."""
    if G.shape[0] <= G.shape[1]:
        return np.asarray(G.T @ np.linalg.solve(G @ G.T + penalty * np.eye(G.shape[0]), b))
    return np.asarray(np.linalg.solve(G.T @ G + penalty * np.eye(G.shape[1]), G.T @ b))


def check_still(tasks: Any) -> None:
    """Raise TypeError for anything but tasks, ValueError for tasks with label noise or a walk."""
    check_tasks(tasks)
    if tasks.noise or tasks.walk:
        raise ValueError(
            f"tasks have noise={tasks.noise:g} and walk={tasks.walk:g}, for which there is no"
            " bound; leave both out: fl.TaskCollection(tasks)"
        )
