"""Two families of tasks whose exact loss is the power of a small matrix.

**Two unit tasks at an angle θ.** In the basis of the bisector and its normal the moment operator of
random draws preserves diagonal matrices, so it is a 2 × 2 matrix,

    B = [[(1−φc)², φ²cs], [φ²cs, (1−φs)²]],   c = cos²(θ/2), s = sin²(θ/2), φ = 1/(1+λ),

with the worst expected loss over unit teachers, and the best fixed coefficient, in closed form.

**Jump chains**, rank-one tasks that are bad for one filter at every step. There are levels 0..n,
level i with d_i orthonormal directions e_{i,a}. A task of kind i < n, drawn with probability p_i,
is the row v = ±√ε e_{i,a} + √(1 − ε) e_{i+1,b}; a, b and sign are uniform. An error in level i is
seldom noticed; when it is, half of it is lost and the rest jumps to level i + 1, where errors are
noticed more seldom still.

Let E_i be the projection on level i. vᵀE_jv is the same for all rows of a kind (ε, 1 − ε or 0), and
by the signs E vvᵀ of kind i is (ε/d_i)E_i + ((1 − ε)/d_{i+1})E_{i+1}. So a step with factor φ takes
Σ f_jE_j to a form of the same kind,

    E (I − φvvᵀ) A (I − φvvᵀ) = A − φ(BA + AB) + φ² E[(vᵀAv) vvᵀ],     B = E vvᵀ = Σ ρ_jE_j,

and n + 1 numbers give the exact loss, whatever the dimension is. Proposition J of
docs/unregularized.md; derived here, not published.
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
    theta, coefficient, k = (np.asarray(x, dtype=np.float64) for x in (theta, coefficient, k))
    inside = (theta > 0) & (theta < np.pi)
    weighted = (coefficient >= 0) & np.isfinite(coefficient)
    counted = (k >= 0) & (k == np.rint(k))
    if not (inside.all() and weighted.all() and counted.all()):
        raise ValueError(
            "theta must lie in (0, π), coefficient must be nonnegative and finite, and k hold"
            f" nonnegative integers, got {theta}, {coefficient} and {k}"
        )
    loss = _loss(*_shape(theta), coefficient, k)
    return float(loss) if np.ndim(loss) == 0 else loss


def _shape(theta: Floats) -> tuple[Floats, Floats]:
    return np.cos(theta / 2) ** 2, np.sin(theta / 2) ** 2


def _loss(c: Floats, s: Floats, coefficient: Floats, k: Floats) -> Floats:
    phi = 1.0 / (1.0 + coefficient)
    # B = p, o; o, q. Everything is divided by φ: then nothing cancels or underflows however large λ
    # is, since (p − q)/φ = (s − c)(1 + λφ), (1 − p)/φ = c(1 + (λ + s)φ) and (1 − q)/φ = s(1 + (λ +
    # c)φ).
    o, shrunk = phi * (c * s), coefficient * phi
    delta = 0.5 * (s - c) * (1.0 + shrunk)
    radius = np.hypot(delta, o)
    # radius ± delta without cancellation: their product is o².
    larger = radius + np.abs(delta)
    smaller = o * (o / larger)
    plus, minus = np.where(delta < 0, smaller, larger), np.where(delta < 0, larger, smaller)
    decrease = 0.5 * (c + s) * (1.0 + shrunk) + o + radius  # (1 − low)/φ
    # (1 − high)(1 − low) = det(I − B) = φ²cs(4 − 2φ), so 1 − high is accurate when tiny.
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        missing = o * (4 - 2 * phi) / decrease
        # high·low = det B = φ³λ((λ + s)(λ + c) + cs), so low is accurate when tiny; near 1 its
        # distance from 1 is.
        weak = (
            shrunk
            * ((coefficient + s) * phi * ((coefficient + c) * phi) + phi * o)
            / (1.0 - missing)
        )
        logarithm = np.where(
            phi * decrease < 0.5, np.log1p(-np.minimum(phi * decrease, 0.5)), np.log(weak)
        )
        high = np.exp(k * np.log1p(-missing))  # much faster than a power
        low = np.exp(k * logarithm)
    low = np.where(k == 0, 1.0, low)  # also where its logarithm is −∞
    along = high * (plus * c + o * s) + low * (minus * c - o * s)
    across = high * (o * c + minus * s) + low * (plus * s - o * c)
    return np.asarray(np.maximum(along, across) / (4 * radius))


_GRID = np.concatenate([np.geomspace(1e-14, 2e-3, 20), np.geomspace(3e-3, 4.0, 160)])
"""λ relative to its size in the linear regime. Around the drop, at kθ² ≈ 1, there can be two dips
close together, and λ⋆ reaches 0 only gradually."""

_POINTS = 9
_ROUNDS = 20
"""Of a search inside a dip: each round narrows it by a factor of four, to 1e-12 of itself. Where
the worst teacher changes the loss has a kink, which is known as precisely as that."""


def two_task_optimum(theta: ArrayLike, k: ArrayLike) -> tuple[Any, Any]:
    """Return the fixed coefficient λ⋆ with the smallest worst-case expected loss, and that loss.

    The search is global: there can be two local minima, and from kθ² ≈ 2 on the best is exactly 0,
    no regularization. While kθ² ≲ 1, λ⋆ ≈ k / ln cot(θ/2).

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
    two_task_loss(theta, 0.0, k)
    problems = np.stack([*_shape(theta.ravel()), k.ravel()])
    best, loss = _optimum(*problems)
    if not k.shape:
        return float(best[0]), float(loss[0])
    return best.reshape(k.shape), loss.reshape(k.shape)


def _optimum(c: Floats, s: Floats, k: Floats) -> Floats:
    """Return λ⋆ and its loss for several problems, of shape (2, problems)."""
    # λ⋆ never exceeds a few times its size in the linear regime; near π/2 that size is infinite and
    # λ⋆ is 0.
    size = k / np.maximum(0.5 * np.abs(np.log(c / s)), 0.5)
    grid = np.concatenate([np.zeros((1, len(k))), _GRID[:, None] * size, 8 * size[None]])
    losses = _loss(c, s, grid, k)
    inner = losses[1:-1]
    rows, columns = np.nonzero((inner <= losses[:-2]) & (inner < losses[2:]))
    low = grid[rows, columns]
    high = grid[rows + 2, columns]
    own = c[columns], s[columns]
    for _ in range(_ROUNDS):
        points = np.linspace(low, high, _POINTS)
        at = np.argmin(_loss(*own, points, k[columns]), axis=0)
        low = np.take_along_axis(points, np.maximum(at - 1, 0)[None], 0)[0]
        high = np.take_along_axis(points, np.minimum(at + 1, _POINTS - 1)[None], 0)[0]
    found = 0.5 * (low + high)
    minima = _loss(*own, found, k[columns])
    best = np.stack([np.zeros_like(k), losses[0]])
    # The best of two dips of one problem is written last.
    for i in np.argsort(-minima, kind="stable"):
        if minima[i] < best[1, columns[i]]:
            best[:, columns[i]] = found[i], minima[i]
    return best


# ---- jump chains ----


RATES = (1.407, 3.058, 5.488, 9.109, 14.788, 24.094, 39.639, 63.222)
"""r_0..r_7, near the maximum of ``jump_chain_limit`` for eight levels."""

_ALONE = 10**6
"""Of k: directions in the last level, from which hardly anything comes back."""


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
        k = validate.integer("k", k, 1, "ask for at least one step")
        factors = np.ravel(resolve(schedule, k, 1.0).table(1.0))
        kinds, means = self._forms()
        rho = means.sum(axis=0)

        def step(factor: float) -> Floats:
            return np.diag(1 - 2 * factor * rho) + factor**2 * means.T @ kinds

        if np.all(factors == factors[0]):
            return 0.5 * float((np.linalg.matrix_power(step(factors[0]), k) @ rho)[0])
        form = rho
        for factor in factors[::-1]:
            form = step(factor) @ form
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

    p_{i−1}/p_i = ``ratio`` and d_i = ⌈2kφp_iε/r_i⌉. With ratio = ε² → 0 and k → ∞, k·loss tends to
    ``jump_chain_limit(levels)``; but then d_0 ≥ 1 needs astronomically large k (1e45 for eight
    levels and ε = .001). Whole dimensions ask for milder ratios and fewer levels.

    Parameters
    ----------
    levels : int
        n, from 1 to 8: 3 for a hundred steps, 4 for a thousand, 6 for a million.
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
    k = validate.integer("k", k, 1, "ask for at least one step")
    if not (0 < factor < 2 and 0 < epsilon < 1 and 0 < ratio < 1):
        raise ValueError(
            "factor must lie in (0, 2), epsilon and ratio in (0, 1), got"
            f" {factor!r}, {epsilon!r} and {ratio!r}; leave them out"
        )
    p = ratio ** (-1.0 * np.arange(levels))
    p = p / p.sum()
    directions = np.ceil(2 * k * factor * p * epsilon / np.array(RATES[:levels])).astype(int)
    return JumpChain(tuple(p.tolist()), (*directions.tolist(), _ALONE * k), epsilon)


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
