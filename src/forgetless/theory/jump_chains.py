"""Jump chains: collections of rank-one tasks that are bad for one filter at every step.

There are levels 0..n, level i with d_i orthonormal directions e_{i,a}. A task of kind i < n, drawn
with probability p_i, is the row v = ±√ε e_{i,a} + √(1 − ε) e_{i+1,b}; a, b and sign are uniform.
An error in level i is seldom noticed; when it is, half of it is lost and the rest jumps to level
i + 1, where errors are noticed more seldom still.

Let E_i be the projection on level i. vᵀE_jv is the same for all rows of a kind (ε, 1 − ε or 0), and
by the signs E vvᵀ of kind i is (ε/d_i)E_i + ((1 − ε)/d_{i+1})E_{i+1}. So a step with factor φ takes
Σ f_jE_j to a form of the same kind,

    E (I − φvvᵀ) A (I − φvvᵀ) = A − φ(BA + AB) + φ² E[(vᵀAv) vvᵀ],     B = E vvᵀ = Σ ρ_jE_j,

and n + 1 numbers give the exact loss, whatever the dimension is. Proposition J of
docs/unregularized.md; derived here, not published.
"""

from dataclasses import dataclass

import numpy as np

from forgetless import _validate as validate
from forgetless._validate import Floats
from forgetless.filters import Filter
from forgetless.schedules import Schedule, resolve

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
