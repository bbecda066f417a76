"""Singular values of random tasks: a quadrature rule for means of sums over them.

The r singular values of a standard Gaussian matrix with n rows and d columns have a density
proportional to ∏ s^{m−r} exp(−s²/2) |∏_{i<j}(s_i² − s_j²)|, with r = min(n, d) and m = max(n, d).
By de Bruijn's formula E ∏ g(s_i) is a quotient of Pfaffians of the pairings

    ⟨ψ_i g, ψ_j g⟩ = ∬ sgn(y − x) ψ_i(x)g(x) ψ_j(y)g(y) dx dy,                         (1)

ψ_j being Laguerre functions of s²; for odd r there is one border. With A = ⟨ψ_i, ψ_j⟩, the
derivative of ln Pf along g = 1 + εf is

    E Σ f(s_i) = ½ tr(A⁻¹ ∂A),    ∂A = ⟨ψ_i f, ψ_j⟩ + ⟨ψ_i, ψ_j f⟩,                    (2)

which is linear in f: a quadrature rule, whose weights are computed once for every n and d.

Integrals are sums over equidistant points u = hk with s = ln(1 + e^u): even in s where the values
lie, and dense towards s = 0 for weak regularization of square tasks. For analytic functions the
error of such sums decreases exponentially in 1/h, and so does that of Haber's rule

    ∫ sgn(v − u) f(v) dv  ≈  h Σ_k (2/π) Si(π(k − j)) f(hk)    at u = hj,              (3)

with the sine integral Si: the pairings are products with one Toeplitz matrix.

References: N. G. de Bruijn, "On some multiple integrals involving determinants", J. Indian Math.
Soc. 19 (1955); S. Haber, "Two formulas for numerical indefinite integration", Math. Comp. 60
(1993).
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.linalg import matmul_toeplitz
from scipy.special import expit, sici

from forgetless._validate import Array, Floats

# no mutant: what lies further out is rounding
_TAIL = 9.0
"""Distance beyond √m ± √r: singular values lie outside with a probability below exp(−81/2)
(Davidson and Szarek, 2001)."""

# no mutant: the rest is rounding
_MARGIN = 24.0
"""What 2π/h exceeds the highest frequency of a product of two functions by: the error of a sum is
then rounding."""

_OUTER = 16
"""The last nodes, which tell what lies beyond them."""


@dataclass(frozen=True, eq=False)
class Spectrum:
    """The law of the singular values of X.

    Attributes
    ----------
    singular_values, weights : arrays of shape (q,)
        E Σ f(s_i) is ``weights @ f(singular_values)``.
    mean_inverse : float
        E Σ 1/s_i².
    outer : int
        The last nodes, beyond which the law is cut off; 0 where nothing is.
    """

    singular_values: Floats
    weights: Floats
    mean_inverse: float
    outer: int = 0

    @property
    def rank(self) -> int:
        """The number r of singular values."""
        return round(float(self.weights.sum()))

    def sum(self, values: Floats) -> Floats:
        """Return E Σ f(s_i) of functions with ``values`` of shape (..., q) at the nodes."""
        return np.asarray(values @ self.weights)


# no mutant: only memory and time differ
@lru_cache(maxsize=16)
def wishart(n_rows: int, n_features: int) -> Spectrum:
    """Return the singular values of a standard Gaussian matrix, computed once for every size."""
    rank = min(n_rows, n_features)
    gap = abs(n_rows - n_features)
    centre = math.sqrt(rank + gap)
    # Singular values of square tasks may be anywhere near 0: the nodes resolve any λ > 1e-290.
    smallest = 1e-16 if gap >= 2 else 1e-150
    # The values lie within √m ± √r but for the tail.
    low = max(centre - math.sqrt(rank) - _TAIL, smallest)
    high = centre + math.sqrt(rank) + _TAIL
    # A Laguerre function of degree r has frequencies up to √(4r + 2·gap).
    h = math.tau / (2.0 * math.sqrt(4.0 * rank + 2.0 * gap) + _MARGIN)
    u = np.arange(math.log(math.expm1(low)), high, h)
    s = np.logaddexp(0.0, u)
    # ds = du/(1 + e^−u)
    weights = _quadrature(s, h * expit(u), rank, gap)
    # E tr (XᵀX)⁻¹ of an inverse Wishart matrix, which square tasks and the next ones do not have.
    mean_inverse = math.inf
    if gap >= 2:
        mean_inverse = rank / (gap - 1.0)
    return Spectrum(s, weights, mean_inverse, _OUTER)


def _quadrature(
    s: Floats,
    ds: Floats,
    rank: int,
    gap: int,
) -> Array:
    """Return the weights of E Σ f(s_i) = ½ tr(A⁻¹ ∂A) at nodes s with the lengths ``ds``."""
    # ψ_j at the nodes, of shape (r, q).
    functions = _laguerre_functions(s, rank, gap)
    # Equation (3): the inner integrals of equation (1) for all ψ_j, times the lengths of the outer.
    sine = 2.0 / math.pi * sici(math.pi * np.arange(len(s)))[0]
    inner = matmul_toeplitz((-sine, sine), (ds * functions).T)
    paired = ds[:, None] * inner
    if rank % 2:
        # An odd antisymmetric matrix is singular; the border has the integrals of ψ.
        paired = np.column_stack([paired, ds])
    size = paired.shape[1]
    upper = np.zeros((size, size))
    upper[:rank] = np.triu(functions @ paired, 1)
    # A is antisymmetric: half of it is computed, so that it is so exactly.
    inverse = np.linalg.inv(upper - upper.T)
    # For f = 1 at one node and 0 at all others: Σ_ab paired_a A⁻¹_ab ψ_b at that node.
    left = paired @ inverse[:, :rank]
    return np.asarray(np.sum(left * functions.T, axis=1))


def _laguerre_functions(s: Floats, rank: int, gap: int) -> Floats:
    """Return p_j(s²) s^gap exp(−s²/2), j < r, orthonormal on s > 0, of shape (r, q).

    The recurrence is scaled at every step, with logarithms of the scales, since its factors leave
    the range of floats.
    """
    alpha = gap - 0.5
    x = s * s
    # The logarithm of p_0 s^gap exp(−s²/2), p_0² = 2/Γ(α + 1) being a constant.
    constant = (math.log(2.0) - math.lgamma(alpha + 1.0)) / 2.0
    scale = gap * np.log(s) - x / 2.0 + constant
    result = np.empty((rank, len(s)))
    previous = np.zeros_like(x)
    current = np.ones_like(x)
    for j in range(rank):
        result[j] = current * np.exp(scale)
        # √((j+1)(j+1+α)) p_{j+1} = (x − 2j − 1 − α) p_j − √(j(j+α)) p_{j−1}
        following = (x - (2 * j + 1 + alpha)) * current
        following -= math.sqrt(j * (j + alpha)) * previous
        following /= math.sqrt((j + 1) * (j + 1 + alpha))
        size = np.maximum(np.abs(following), np.abs(current))
        previous = current / size
        current = following / size
        scale = scale + np.log(size)
    return result
