"""Two families of tasks whose exact loss is the power of a small matrix.

**Two unit tasks at an angle θ.** In the basis of the bisector and its normal the moment operator of
random draws preserves diagonal matrices, so it is a 2 × 2 matrix,

    B = [[(1−φc)², φ²cs], [φ²cs, (1−φs)²]],   c = cos²(θ/2), s = sin²(θ/2), φ = 1/(1+λ).

For with A = diag(a, b) a row v has vᵀAv = ca + sb, and E vvᵀ = diag(c, s): the first entry of
E(I − φvvᵀ)A(I − φvvᵀ) is a(1 − 2φc) + φ²c(ca + sb), and the second one alike. The worst expected
loss over unit teachers follows in closed form; the best fixed coefficient is searched.

**Jump chains**, rank-one tasks that are bad for one filter at every step. There are levels 0..n,
level i with d_i orthonormal directions e_{i,a}. A task of kind i < n, drawn with probability p_i,
is the row v = ±√ε e_{i,a} + √(1 − ε) e_{i+1,b}; a, b and sign are uniform. Let ε be small, and p_i
grow so fast with i that a level is left almost only by tasks of its own kind: at a rate r_i/k a
step, which rises with i, since the tasks that notice it become more frequent. So an error in level
0 stays there for a time of order k. Of the square that leaves a level, the part φ/2 (half of it
without regularization) moves to the next level, and the rest is lost. An error in level i has the
loss ½ρ_i ≈ r_i/(4φk): what is still on its way after k steps makes a loss of order 1/k. In level n
there are so many directions that hardly anything is noticed.

Let E_i be the projection on level i. vᵀE_jv is the same for all rows of a kind (ε, 1 − ε or 0), and
by the signs E vvᵀ of kind i is (ε/d_i)E_i + ((1 − ε)/d_{i+1})E_{i+1}. So a step with factor φ takes
Σ f_jE_j to a form of the same kind,

    E (I − φvvᵀ) A (I − φvvᵀ) = A − φ(CA + AC) + φ² E[(vᵀAv) vvᵀ],     C = E vvᵀ = Σ ρ_jE_j,

and n + 1 numbers give the exact loss, whatever the dimension is. Proposition J of
docs/proofs.md; derived here, not published.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from forgetless import _validate as validate
from forgetless._validate import Floats
from forgetless.filters import Filter
from forgetless.schedules import Schedule, resolve


def two_task_loss(theta: ArrayLike, coefficient: ArrayLike, k: ArrayLike) -> Any:
    """Return the worst expected loss over unit teachers of k steps with fixed λ on two unit tasks
    at angle θ.

    Parameters
    ----------
    theta : float or array
        Angle between the two data rows, in (0, π).
    coefficient : float or array
        λ ≥ 0; 0 is no regularization.
    k : int or array
        Number of steps, drawn with replacement. All three broadcast.

    Examples
    --------
    >>> import numpy as np
    >>> import forgetless as fl
    >>> round(fl.theory.two_task_loss(np.pi / 4, 1.299, 2), 6)
    0.069153
    """
    theta = np.asarray(theta, float)
    coefficient = np.asarray(coefficient, float)
    k = np.asarray(k, float)
    inside = (theta > 0) & (theta < np.pi)
    weighted = (coefficient >= 0) & np.isfinite(coefficient)
    counted = (k >= 0) & (k == np.rint(k))
    if not np.all(inside & weighted & counted):
        raise ValueError(
            "theta must lie in (0, π), coefficient must be nonnegative and finite, and k hold"
            f" nonnegative integers, got {theta}, {coefficient} and {k}"
        )
    loss = _loss(*_shape(theta), coefficient, k)
    return loss if loss.shape else loss.item()


def _shape(theta: Floats) -> tuple[Floats, Floats]:
    """Return c and s, the squares of both rows along the bisector and along its normal."""
    return np.cos(theta / 2) ** 2, np.sin(theta / 2) ** 2


def _loss(c: Floats, s: Floats, coefficient: Floats, k: Floats) -> Floats:
    """Return ½ max B^k (c, s), by the larger diagonal entry: the form of the loss, E XᵀX, is
    diag(c, s) before the steps.
    """
    phi = 1.0 / (1.0 + coefficient)
    # B = p, o; o, q. Everything is divided by φ: then nothing cancels or underflows however large λ
    # is, since
    #     (p − q)/φ = (s − c)(1 + λφ),   (1 − p)/φ = c(1 + (λ + s)φ),   (1 − q)/φ = s(1 + (λ + c)φ).
    o = phi * (c * s)
    one_minus_phi = coefficient * phi
    half_sum = 0.5 * (1.0 + one_minus_phi)
    # The eigenvalues of B are (p + q)/2 ± half_gap, with half_gap² = ((p − q)/2)² + o².
    delta = (s - c) * half_sum
    half_gap = np.hypot(delta, o)
    # half_gap ± delta without cancellation: their product is o².
    larger = half_gap + np.abs(delta)
    smaller = o * (o / larger)
    plus = np.where(delta < 0, smaller, larger)
    minus = np.where(delta < 0, larger, smaller)
    # (1 − low)/φ, from the mean of (1 − p)/φ and (1 − q)/φ, which is (c + s)(1 + λφ)/2 + o.
    low_gap_over_phi = (c + s) * half_sum + o + half_gap
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        # (1 − high)(1 − low) = det(I − B) = φ²cs(4 − 2φ), so 1 − high is accurate when tiny.
        high_gap = o * (4 - 2 * phi) / low_gap_over_phi
        # high·low = det B = φ³λ((λ + s)(λ + c) + cs), so low is accurate when tiny.
        product = (coefficient + s) * phi * ((coefficient + c) * phi)
        low_eigenvalue = one_minus_phi * (product + phi * o) / (1.0 - high_gap)
        # Near 1 the distance of low from 1 is accurate.
        low_gap = phi * low_gap_over_phi
        near_one = np.log1p(-np.minimum(low_gap, 0.5))
        logarithm = np.where(low_gap < 0.5, near_one, np.log(low_eigenvalue))
        # By logarithms, which are much faster than powers.
        high = np.exp(k * np.log1p(-high_gap))
        low = np.exp(k * logarithm)
    # Of no steps, also where the logarithm is −∞.
    low = np.where(k == 0, 1.0, low)
    # B^k (c, s) in the basis of both eigenvectors, whose squares are plus and minus over
    # 2·half_gap.
    along = high * (plus * c + o * s) + low * (minus * c - o * s)
    across = high * (o * c + minus * s) + low * (plus * s - o * c)
    return np.asarray(np.maximum(along, across) / (4 * half_gap))


_GRID = np.concatenate([np.geomspace(1e-14, 2e-3, 20), np.geomspace(3e-3, 4.0, 160)])
"""λ in units of k/|ln cot(θ/2)|, near which λ⋆ is while it grows in proportion to k (kθ² ≲ 1).
After that λ⋆ drops to 0. Around this drop there can be two dips close together, and λ⋆ reaches 0
only gradually."""

_POINTS = 9  # no mutant: more of them change less than 1e-12
_ROUNDS = 20  # no mutant: more of them change less than 1e-12
"""Of a search inside a dip: each round narrows it by a factor of four, to 1e-12 of itself. Where
the worst teacher changes the loss has a kink, which is known as precisely as that."""


def two_task_optimum(theta: ArrayLike, k: ArrayLike) -> tuple[Any, Any]:
    """Return the fixed coefficient λ⋆ with the smallest worst-case expected loss, and that loss.

    The search is global: there can be two local minima. For small θ the best is exactly 0, no
    regularization, from kθ² ≈ 2 on. While kθ² ≲ 1, λ⋆ ≈ k/ln cot(θ/2) − ½: the error along the
    bisector has decayed, (1 − φ)^{2k} cos²(θ/2), to the size of the one along the normal, which
    stays near sin²(θ/2).

    Parameters
    ----------
    theta : float or array
        Angle in (0, π).
    k : int or array
        Number of steps; broadcasts against ``theta``.

    Returns
    -------
    coefficient, loss : float or array

    Examples
    --------
    >>> import numpy as np
    >>> import forgetless as fl
    >>> coefficient, loss = fl.theory.two_task_optimum(np.pi / 16, np.array([2, 8, 32, 64]))
    >>> coefficient.round(3).tolist()
    [0.51, 3.006, 1.65, 0.0]

    References
    ----------
    The quantity in Figure 2 of Levinstein et al. (2025), Appendix A, ``fig:emp_fixed_schedule``.
    """
    theta, k = np.broadcast_arrays(np.asarray(theta, float), np.asarray(k, float))
    # For its checks of both.
    two_task_loss(theta, 0.0, k)
    best, loss = _optimum(*_shape(theta.ravel()), k.ravel())
    if not k.shape:
        return best.item(), loss.item()
    return best.reshape(k.shape), loss.reshape(k.shape)


def _optimum(c: Floats, s: Floats, k: Floats) -> Floats:
    """Return λ⋆ and its loss for several problems, of shape (2, problems)."""
    # λ⋆ never exceeds a few times its size in the linear regime; near π/2 that size is infinite and
    # λ⋆ is 0.
    size = k / np.maximum(0.5 * np.abs(np.log(c / s)), 0.5)
    grid = np.concatenate([np.zeros((1, len(k))), _GRID[:, None] * size, 8 * size[None]])
    losses = _loss(c, s, grid, k)
    # A dip of a problem, a column of the grid, is lower than both its neighbours.
    inner = losses[1:-1]
    dips, columns = np.nonzero((inner <= losses[:-2]) & (inner < losses[2:]))
    problems = (c[columns], s[columns])
    steps = k[columns]
    # All dips are searched at once, between their neighbours.
    low = grid[dips, columns]
    high = grid[dips + 2, columns]
    every = np.arange(len(columns))
    for _ in range(_ROUNDS):
        points = np.linspace(low, high, _POINTS)
        at = np.argmin(_loss(*problems, points, steps), axis=0)
        low = points[np.maximum(at - 1, 0), every]
        high = points[np.minimum(at + 1, _POINTS - 1), every]
    found = 0.5 * (low + high)
    minima = _loss(*problems, found, steps)
    # λ = 0, the first of the grid, may be better than all dips.
    best = np.stack([np.zeros_like(k), losses[0]])
    # One problem may have two dips.
    for i in every:
        if minima[i] < best[1, columns[i]]:
            best[:, columns[i]] = found[i], minima[i]
    return best


# ---- jump chains ----


RATES = (1.407, 3.058, 5.488, 9.109, 14.788, 24.094, 39.639, 63.222)
"""r_0..r_7, near the maximum of ``jump_chain_limit`` for eight levels."""

_LAST_PER_STEP = 10**6  # no mutant: more directions change less than the digits shown
"""Directions in the last level for every step: hardly anything comes back from there."""


@dataclass(frozen=True)
class JumpChain:
    """A collection of tasks of norm 1 with its exact loss; see ``jump_chain``.

    Attributes
    ----------
    probabilities : tuple of n floats
        p_0..p_{n−1}, of the kinds of tasks.
    dimensions : tuple of n + 1 ints
        d_0..d_n, of the levels.
    epsilon : float
    """

    probabilities: tuple[float, ...]
    dimensions: tuple[int, ...]
    epsilon: float

    def claim(self, schedule: Schedule | Filter, k: int) -> float:
        """Return the exact expected loss on the next task after k draws, from an error of norm 1 in
        level 0; on Σ2d_id_{i+1} tasks, which are not made.
        """
        k = validate.steps(k)
        factors = np.ravel(resolve(schedule, k, 1.0).table(1.0))
        kinds, means = self._forms()
        # C = Σ ρ_jE_j, which is the form of the loss on the next task.
        rho = means.sum(axis=0)

        def step(factor: float) -> Floats:
            # On level j, CA + AC is 2ρ_jf_j; E[(vᵀAv) vvᵀ] sums Σ_j f_jvᵀE_jv · E vvᵀ over kinds.
            return np.diag(1 - 2 * factor * rho) + factor**2 * means.T @ kinds

        if np.all(factors == factors[0]):
            form = np.linalg.matrix_power(step(factors[0]), k) @ rho
        else:
            # From the last step to the first.
            form = rho
            for factor in factors[::-1]:
                form = step(factor) @ form
        # The error is in level 0, of norm 1.
        return 0.5 * float(form[0])

    def _forms(self) -> tuple[Floats, Floats]:
        """Return vᵀE_jv of every kind, and the coefficients of p_i E vvᵀ; both (n, n + 1)."""
        n = len(self.probabilities)
        kinds = np.zeros((n, n + 1))
        kinds[np.arange(n), np.arange(n)] = self.epsilon
        kinds[np.arange(n), np.arange(1, n + 1)] = 1 - self.epsilon
        means = np.array(self.probabilities)[:, None] * kinds / np.array(self.dimensions, float)
        return kinds, means


def jump_chain(
    levels: int, k: int, *, factor: float = 1.0, epsilon: float = 0.2, ratio: float = 0.2
) -> JumpChain:
    """Return a collection that is bad for k steps of one filter: k·loss is .20 to .22 without
    regularization.

    p_{i−1}/p_i = ``ratio`` and d_i = ⌈2kφp_iε/r_i⌉. For ``factor`` = 1, ratio = ε² → 0 and k → ∞,
    k·loss tends to ``jump_chain_limit(levels)``; but then d_0 ≥ 1 needs astronomically large k
    (1e45 for eight levels and ε = .001). Whole dimensions ask for milder ratios and fewer levels.

    Parameters
    ----------
    levels : int
        n, the number of levels before the last, from 1 to 8: 3 for a hundred steps, 4 for a
        thousand, 6 for a million.
    k : int
    factor : float, default 1
        φ(R²) of the filter, in (0, 2): 1 without regularization.
    epsilon, ratio : float
        In (0, 1).

    Examples
    --------
    >>> import forgetless as fl
    >>> bad = fl.theory.constructions.jump_chain(4, k=1000, epsilon=0.1)
    >>> bad.dimensions[:-1], round(1000 * bad.claim(fl.Projection(), k=1000), 4)
    ((1, 3, 6, 18), 0.2095)
    """
    if levels not in range(1, len(RATES) + 1):
        raise ValueError(f"levels must be 1 to {len(RATES)}, got {levels!r}; 3 for a hundred steps")
    k = validate.steps(k)
    if not (0 < factor < 2 and 0 < epsilon < 1 and 0 < ratio < 1):
        raise ValueError(
            "factor must lie in (0, 2), epsilon and ratio in (0, 1), got"
            f" {factor!r}, {epsilon!r} and {ratio!r}; leave them out"
        )
    p = ratio ** (-1.0 * np.arange(levels))
    p = p / p.sum()
    # Its own kind takes 2φp_iε/d_i of the square in level i a step, to first order in ε; that is
    # r_i/k before d_i is rounded. Kind i − 1 takes another ratio·(1 − ε²)/(2ε) of that if φ = 1:
    # nothing in the limit ratio = ε² → 0, but about half for the defaults.
    directions = np.ceil(2 * k * factor * p * epsilon / RATES[:levels])
    dimensions = (*directions.astype(int).tolist(), _LAST_PER_STEP * k)
    return JumpChain(tuple(p.tolist()), dimensions, epsilon)


def jump_chain_limit(levels: int = len(RATES)) -> float:
    """Return what k·loss tends to without regularization: ½Σ_j [e^G]_{0j} r_j/2.

    G is bidiagonal with G_ii = −r_i and G_{i,i+1} = r_i/2: a particle waits Exp(r_i) in level i and
    dies with probability ½ at each jump; the sum is the density of its death at time 1.

    Examples
    --------
    >>> import forgetless as fl
    >>> round(fl.theory.constructions.jump_chain_limit(), 5)
    0.22576
    """
    from scipy.linalg import expm

    r = np.array(RATES[:levels])
    generator = np.diag(-r) + np.diag(r[:-1] / 2, 1)
    return 0.25 * float(expm(generator)[0] @ r)
