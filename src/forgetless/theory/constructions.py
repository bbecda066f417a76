"""Constructions: the task collections of the lower bounds and of bad cases, each with its claimed
loss.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from forgetless import _validate as validate
from forgetless._validate import Floats
from forgetless.filters import Filter
from forgetless.schedules import Schedule, resolve
from forgetless.tasks import TaskCollection
from forgetless.theory.closed_forms import JumpChain as JumpChain
from forgetless.theory.closed_forms import jump_chain as jump_chain
from forgetless.theory.closed_forms import jump_chain_limit as jump_chain_limit

_Claim = Callable[[Filter, int], float]


class Construction(TaskCollection):
    """Tasks of one row each, with a claim about their loss from the origin.

    Attributes
    ----------
    name : str
    quantity : str
        ``"average_loss"``, ``"worst_case"`` (the largest over unit teachers) or ``"seen_loss"``.
    """

    def __init__(self, name: str, rows: Any, teacher: Any, quantity: str, claim: _Claim) -> None:
        super().__init__([(row[None, :], row[None, :] @ teacher) for row in rows])
        self.name = name
        self.quantity = quantity
        self._claim = claim

    def claim(self, schedule: Schedule | Filter, k: int) -> float:
        """Return the expected loss from the origin after k uniform draws with replacement under a
        schedule: exact, but of ``seen_task`` a lower bound.
        """
        k = validate.steps(k)
        return float(self._claim(resolve(schedule, k, self.radius), k))


def _residual_factors(filter_: Filter, k: int) -> Floats:
    """Return 1 − φ_t(1) for t = 1..k, the residual factors of a unit row."""
    factors = filter_.remaining(np.array(1.0))
    return np.broadcast_to(factors, (k,))


def _orthonormal_loss(n_tasks: int, filter_: Filter, k: int) -> float:
    """Return (1/2M) Π_t (1 − 1/M + (1 − φ_t(1))²/M): the loss along one of M orthonormal rows, from
    a distance of 1.
    """
    squares = _residual_factors(filter_, k) ** 2
    # At every step the row is drawn with probability 1/M, and its error changes then alone.
    left = 1 - 1 / n_tasks + squares / n_tasks
    return float(np.prod(left)) / (2 * n_tasks)


def _equiangular_loss(n: int, cosine: float, n_tasks: int, filter_: Filter, k: int) -> float:
    """Return the worst expected loss of n unit rows of pairwise cosine ρ among M tasks; the others
    are copies of one row orthogonal to them.

    Permuting the rows changes nothing, so the form V = a·P₁ + b·P₂ + f·P_filler stays of that kind:
    P₁ projects onto the mean row, P₂ onto the rest of their span. Σ v vᵀ is α = 1 + (n−1)ρ on the
    first and β = 1 − ρ on the second.
    """
    alpha = 1 + (n - 1) * cosine
    beta = 1 - cosine
    # Every task is drawn with probability 1/M; the form of the loss is E XᵀX.
    frequent = 1 - n / n_tasks
    mean = alpha / n_tasks
    rest = beta / n_tasks
    a = mean
    b = rest
    f = frequent
    for residual in _residual_factors(filter_, k)[::-1]:
        phi = 1 - residual
        # V − (φ/M)Σ(vvᵀV + Vvvᵀ) + (φ²/M)Σ(vᵀVv)vvᵀ, with the same c = vᵀVv for all n rows.
        c = (a * alpha + (n - 1) * b * beta) / n
        a -= mean * phi * (2 * a - phi * c)
        b -= rest * phi * (2 * b - phi * c)
        f *= 1 - frequent * (1 - residual**2)
    # A single row has no rest P₂.
    return 0.5 * max(a, b * (n > 1), f)


def two_tasks(theta: float) -> Construction:
    """Return two tasks of one unit row each, (1, 0) and (cos θ, sin θ): the problem of the paper's
    appendix.

    Parameters
    ----------
    theta : float
        Angle in (0, π). Labels are those of w⋆ = (1, 0); the claim is over all unit teachers.

    Examples
    --------
    >>> import numpy as np
    >>> import forgetless as fl
    >>> tasks = fl.theory.constructions.two_tasks(np.pi / 4)
    >>> round(tasks.claim(fl.Ridge(1.299), k=2), 6)
    0.069153
    """
    theta = validate.number("theta", theta, "give the angle in radians, in (0, π)", positive=True)
    if theta >= np.pi:
        raise ValueError(f"theta must lie in (0, π), got {theta}; angles repeat after π")
    first = np.array([1.0, 0.0])
    second = np.array([np.cos(theta), np.sin(theta)])
    rows = np.array([first, second])
    # The sign of a row does not matter, so cosines may be taken nonnegative.
    cosine = abs(float(second[0]))
    claim = partial(_equiangular_loss, 2, cosine, 2)
    return Construction("two_tasks", rows, first, "worst_case", claim)


def unseen_task(k: int, sign: int = 1) -> Construction:
    """Return k tasks of which one often does not occur in k draws: no algorithm can beat 1/(16k) on
    both signs.

    k − 1 tasks require w₁ = 0 and one w₂ = ±1. With probability (1 − 1/k)^k ≥ ¼ the last is not
    drawn, and its sign is unknown. R = D = 1 from w₀ = 0, where a filter's expected loss is exactly
    (1/2k) ∏_t (1 − 1/k + (1 − φ_t(1))²/k) ≥ 1/(8k).

    Parameters
    ----------
    k : int
        At least 2.
    sign : 1 or −1

    Examples
    --------
    >>> import forgetless as fl
    >>> fl.theory.constructions.unseen_task(2).claim(fl.Projection(), k=2)
    0.0625

    References
    ----------
    Levinstein et al. (2025), Theorem in Appendix B ("for any algorithm"), lower,
    ``thm:any_algorithm_lower_bound``; the exact value is derived.
    """
    k = validate.integer("k", k, 2, "the bound needs at least two tasks")
    if sign not in (1, -1):
        raise ValueError(f"sign must be 1 or -1, got {sign!r}")
    rows = np.eye(2)[[0] * (k - 1) + [1]]
    teacher = np.array([0.0, sign])
    # The loss is along the odd task alone, as that of a row among k orthonormal ones.
    claim = partial(_orthonormal_loss, k)
    return Construction("unseen_task", rows, teacher, "average_loss", claim)


def orthonormal_rows(n_tasks: int) -> Construction:
    """Return M tasks of one row each, the unit vectors, with teacher 1/√M in every coordinate: R =
    D = 1.

    No algorithm knows anything about a row that it has not seen. Without replacement, after k = M −
    1 steps from the origin, the expected loss on the last row is 1/(2M) = 1/(2(k+1)) for every
    filter, and at least that, averaged over the signs of the labels, for every algorithm: the
    minimax schedule is optimal.

    Parameters
    ----------
    n_tasks : int
        M, at least 1.

    Examples
    --------
    With replacement the average loss of a filter is (1/2M) Π_t (1 − 1/M + (1 − φ_t(1))²/M):

    >>> import forgetless as fl
    >>> tasks = fl.theory.constructions.orthonormal_rows(4)
    >>> round(tasks.claim(fl.Projection(), k=3), 6)
    0.052734
    >>> exact = fl.expect(tasks, fl.schedules.minimax(), k=3, ordering="without-replacement",
    ...     metrics="next_loss")
    >>> round(float(exact.next_loss[0]), 12)
    0.125
    """
    n_tasks = validate.integer("n_tasks", n_tasks, 1, "give the number of rows")
    rows = np.eye(n_tasks)
    teacher = np.full(n_tasks, 1 / np.sqrt(n_tasks))
    claim = partial(_orthonormal_loss, n_tasks)
    return Construction("orthonormal_rows", rows, teacher, "average_loss", claim)


def seen_task(k: int) -> Construction:
    """Return k tasks on which explicit L2 cannot keep the seen-task loss below order 1/k, whatever
    the coefficients.

    k − 1 tasks have the row e₂ and one (e₁ + e₂)/√2; the solution is w⋆ = −e₁, so R = D = 1.
    With probability (1 − 1/k)^{k−1} ≥ 1/e the odd task is seen exactly once, and then the seen-task
    loss is at least (1/16k)·2(k−1)/(2k−1). The product of the two is a lower bound of the
    expectation, for filter factors in [0, 1].

    The claim is sharper, and for n steps of any filter: the odd task is drawn once, at step t, with
    probability (1/k)(1 − 1/k)^{n−1}; the error along e₁ is then 1 − φ_t(1)/2 for good, and the
    seen-task loss at least (1 − φ_t(1)/2)²·(n−1)/(2n(2n−1)), whatever the other coordinate is.

    Parameters
    ----------
    k : int
        At least 2.

    Examples
    --------
    >>> import forgetless as fl
    >>> round(fl.theory.constructions.seen_task(9).claim(fl.Projection(), k=9), 6)
    0.002547

    References
    ----------
    Levinstein et al. (2025), Lemma "Lower bound for seen-task loss", Section 4.3 and Appendix B,
    lower, with constant 1/144 for k ≥ 9; this constant is derived by minimising over the coordinate
    their proof splits on.
    """
    k = validate.integer("k", k, 2, "the bound needs at least two tasks")
    rows = np.array([[0.0, 1.0]] * (k - 1) + [np.full(2, np.sqrt(0.5))])

    def claim(filter_: Filter, steps: int) -> float:
        # Of the odd task at a given step, and at no other.
        once = (1 - 1 / k) ** (steps - 1) / k
        # (1 − φ/2)² is (1 + (1 − φ))²/4, summed over that step; ``seen_task_loss`` has φ = 1.
        squares = (1 + _residual_factors(filter_, steps)) ** 2
        return once * float(np.sum(squares)) * seen_task_loss(steps)

    return Construction("seen_task", rows, np.array([-1.0, 0.0]), "seen_loss", claim)


def unseen_task_loss(k: int, n_tasks: int) -> float:
    """Return (1 − 1/M)^k/(2M): one of M tasks was not drawn, and its label is a guess."""
    return (1 - 1 / n_tasks) ** k / (2 * n_tasks)


def seen_task_probability(k: int) -> float:
    """Return (1 − 1/k)^{k−1}: the probability that the odd task is drawn exactly once in k
    draws.
    """
    return (1 - 1 / k) ** (k - 1)


def seen_task_loss(k: int) -> float:
    """Return (1/16k)·2(k−1)/(2k−1): the least seen-task loss once the odd task was drawn exactly
    once in k steps.
    """
    return (k - 1) / (8 * k * (2 * k - 1))


def rare_tasks(k: int, n_rare: int = 2, weight: float = 7.0, cosine: float = 0.3) -> Construction:
    """Return one frequent task orthogonal to a few rare ones at equal angles, a family of very bad
    collections.

    Parameters
    ----------
    k : int
        The horizon of the frequencies.
    n_rare : int, default 2
        Number of rare tasks.
    weight : float, default 7
        Each rare task is drawn about ``weight`` times in k steps, if k is large enough: there are
        round(k/weight) tasks, but at least n_rare + 1; the frequent one is repeated as often as
        needed, so that draws are uniform.
    cosine : float, default 0.3
        Between any two rare rows, in [0, 1).

    Notes
    -----
    The defaults are near the worst of this kind for the increasing schedule (k·loss = 0.950 at k =
    64, 0.975 at 256). For the fixed schedule weights of 4 to 6 and cosine 0.5 are worse (0.443 and
    0.571), without regularization weight 1.75 and cosine 0.6 (0.204 and 0.205).

    Examples
    --------
    >>> import forgetless as fl
    >>> tasks = fl.theory.constructions.rare_tasks(64)
    >>> tasks.n_tasks, tasks.n_features
    (9, 3)
    >>> round(64 * tasks.claim(fl.schedules.increasing(), k=64), 3)
    0.95
    """
    k = validate.integer("k", k, 2, "the frequencies need a horizon")
    n_rare = validate.integer("n_rare", n_rare, 1, "give at least one rare task")
    weight = validate.number("weight", weight, "draws of each rare task in k steps", positive=True)
    cosine = validate.number("cosine", cosine, "rows at 90 degrees have cosine 0")
    if cosine >= 1:
        raise ValueError(f"cosine must be below 1, got {cosine}; parallel rows are one task")
    n_tasks = max(n_rare + 1, round(k / weight))
    gram = np.eye(n_rare + 1)
    gram[:n_rare, :n_rare] += cosine * (1 - np.eye(n_rare))
    # The rows of a Cholesky factor have these scalar products; the last is the frequent one.
    different = np.linalg.cholesky(gram)
    rows = different[np.minimum(np.arange(n_tasks), n_rare)]
    teacher = np.full(n_rare + 1, 1 / np.sqrt(n_rare + 1))
    claim = partial(_equiangular_loss, n_rare, cosine, n_tasks)
    return Construction("rare_tasks", rows, teacher, "worst_case", claim)
