"""The singular values of a random task, by a quadrature rule for means of sums over them.

The r singular values of a standard Gaussian matrix with n rows and d columns have a density
proportional to ∏ s^{m−r} exp(−s²/2) |∏_{i<j}(s_i² − s_j²)|, with r = min(n, d) and m = max(n, d).
By de Bruijn's formula E ∏ g(s_i) is a quotient of Pfaffians of the pairings

    ⟨ψ_i g, ψ_j g⟩ = ∬ sgn(y − x) ψ_i(x)g(x) ψ_j(y)g(y) dx dy,

ψ_j being Laguerre functions of s²; for odd r there is one border. With A = ⟨ψ_i, ψ_j⟩, the
derivative of ln Pf along g = 1 + εf is

    E Σ f(s_i) = ½ tr(A⁻¹ ∂A),    ∂A = ⟨ψ_i f, ψ_j⟩ + ⟨ψ_i, ψ_j f⟩,

which is linear in f: a quadrature rule, whose weights are computed once for every n and d.

Reference: N. G. de Bruijn, "On some multiple integrals involving determinants", J. Indian Math.
Soc. 19 (1955).
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from forgetless import _validate as validate
from forgetless._validate import Floats

_ORDER = 16
"""Gauss–Legendre nodes in one panel."""

_TAIL = 9.0
"""Distance beyond √m ± √r: singular values lie outside with a probability below exp(−81/2)
(Davidson and Szarek, 2001)."""

_HALVINGS = 28
"""Panels towards s = 0, down to 1e-9, for weak regularization of square tasks."""


@dataclass(frozen=True, eq=False)
class Spectrum:
    """The law of the singular values of X.

    Attributes
    ----------
    singular_values, weights : arrays of shape (q,)
        E Σ f(s_i) is ``weights @ f(singular_values)``.
    rank : int
    trace : float
        E ‖X‖_F².
    mean_inverse : float
        E Σ 1/s_i².
    error : float
        An estimate of the relative error of such means.
    outer : int
        The last nodes, beyond which the law is cut off; 0 where nothing is.
    weakest : float
        The smallest λ > 0 that the nodes near s = 0 resolve.
    """

    singular_values: Floats
    weights: Floats
    rank: int
    trace: float
    mean_inverse: float
    error: float = 1e-14
    outer: int = 0
    weakest: float = 0.0

    def sum(self, values: Floats) -> Floats:
        """Return E Σ f(s_i) of functions with ``values`` of shape (..., q) at the nodes."""
        return np.asarray(values @ self.weights)


def of_matrix(X: Floats) -> Spectrum:
    """Return the singular values of one matrix."""
    values = np.linalg.svd(X, compute_uv=False)
    values = values[values > values.max(initial=0.0) * max(X.shape) * np.finfo(float).eps]
    squares = values**2
    inverse = float(np.sum(1.0 / squares))
    return Spectrum(values, np.ones(len(values)), len(values), float(np.sum(squares)), inverse)


@lru_cache(maxsize=16)
def wishart(n_rows: int, n_features: int) -> Spectrum:
    """Return the singular values of a standard Gaussian matrix, computed once for every size."""
    rank = min(n_rows, n_features)
    gap = abs(n_rows - n_features)
    panels = _Panels.of(rank, max(n_rows, n_features))
    what = f"the law of {n_rows} × {n_features} Gaussian entries"
    validate.check_memory(4.0 * rank * len(panels.nodes), what, "use simulate")
    weights = _quadrature(panels, rank, gap)
    # Three means have a closed form; ten times their error stands for that of the others.
    x = panels.nodes**2
    means = np.array([np.sum(weights), weights @ x, weights @ x**2])
    trace = float(n_rows * n_features)
    exact = np.array([rank, trace, trace * (n_rows + n_features + 1)])
    error = 10.0 * float(np.max(np.abs(means / exact - 1.0))) + 1e-14
    inverse = rank / (gap - 1.0) if gap >= 2 else math.inf
    weakest = 0.0 if gap >= 2 else 1e-15
    return Spectrum(panels.nodes, weights, rank, trace, inverse, error, _ORDER, weakest)


class _Panels(NamedTuple):
    """Gauss–Legendre nodes in panels that hold the singular values.

    ``inner`` (p, 16, 16) takes values at the nodes of a panel to integrals up to every node.
    """

    nodes: Floats
    weights: Floats
    inner: Floats

    @classmethod
    def of(cls, rank: int, largest: int) -> "_Panels":
        """Return panels with some four zeros of the functions in each."""
        low = max(math.sqrt(largest) - math.sqrt(rank) - _TAIL, 0.0)
        high = math.sqrt(largest) + math.sqrt(rank) + _TAIL
        width = max(0.25, min(1.0, (high - low) / 40.0))
        width = min(width, 2.0 * math.pi / math.sqrt(rank + largest))
        edges = np.linspace(low, high, math.ceil((high - low) / width) + 1)
        if low == 0.0:
            halves = edges[1] * 0.5 ** np.arange(_HALVINGS, -1, -1.0)
            edges = np.concatenate([[0.0], halves, edges[2:]])
        half = np.diff(edges)[:, None] / 2.0
        nodes, weights = np.polynomial.legendre.leggauss(_ORDER)
        # The integral of a Legendre polynomial up to x is (P_{j+1} − P_{j−1})/(2j + 1).
        P = np.polynomial.legendre.legvander(nodes, _ORDER)
        integrals = np.empty((_ORDER, _ORDER))
        integrals[:, 0] = nodes + 1.0
        integrals[:, 1:] = (P[:, 2:] - P[:, :-2]) / (2.0 * np.arange(1, _ORDER) + 1.0)
        inner = half[:, :, None] * (integrals @ np.linalg.inv(P[:, :-1]))
        return cls(
            (edges[:-1, None] + half * (nodes + 1.0)).ravel(), (half * weights).ravel(), inner
        )

    def paired(self, functions: Floats) -> Floats:
        """Return w(x) ∫ sgn(y − x) f(y) dy at every node x for f of shape (q, m)."""
        w = self.weights[:, None]
        shape = (len(self.inner), _ORDER, functions.shape[1])
        sums = (w * functions).reshape(shape).sum(axis=1)
        total = sums.sum(axis=0)
        before = np.cumsum(sums, axis=0) - sums
        up_to = before[:, None] + self.inner @ functions.reshape(shape)
        return np.asarray(w * (total - 2.0 * up_to.reshape(functions.shape)))


def _quadrature(panels: _Panels, rank: int, gap: int) -> Floats:
    """Return the weights of E Σ f(s_i) = ½ tr(A⁻¹ ∂A)."""
    functions = _laguerre_functions(panels.nodes, rank, gap)  # ψ: (r, q)
    paired = panels.paired(functions.T)  # (q, r)
    pairing = functions @ paired
    matrix = (pairing - pairing.T) / 2.0
    if rank % 2:
        # An odd antisymmetric matrix is singular; the border has the integrals of ψ.
        border = functions @ panels.weights
        matrix = np.block([[matrix, border[:, None]], [-border[None, :], np.zeros((1, 1))]])
    inverse = np.linalg.inv(matrix)
    # For f = 1 at one node and 0 at all others: Σ_ab paired_a A⁻¹_ab ψ_b at that node.
    weights = np.sum((paired @ inverse[:rank, :rank]) * functions.T, axis=1)
    if rank % 2:
        weights -= (inverse[:rank, rank] @ functions) * panels.weights
    return np.asarray(weights)


def _laguerre_functions(s: Floats, rank: int, gap: int) -> Floats:
    """Return p_j(s²) s^gap exp(−s²/2), j < r, orthonormal on s > 0, of shape (r, q).

    The recurrence is scaled at every step, with logarithms of the scales, since its factors leave
    the range of floats.
    """
    alpha = gap - 0.5
    x = s * s
    scale = gap * np.log(s) - x / 2.0 + (math.log(2.0) - math.lgamma(alpha + 1.0)) / 2.0
    result = np.empty((rank, len(s)))
    previous = np.zeros_like(x)
    current = np.ones_like(x)
    for j in range(rank):
        result[j] = np.where(scale > -700.0, current * np.exp(np.minimum(scale, 700.0)), 0.0)
        following = (x - (2 * j + 1 + alpha)) * current - math.sqrt(j * (j + alpha)) * previous
        following /= math.sqrt((j + 1) * (j + 1 + alpha))
        size = np.maximum(np.abs(following), np.abs(current))
        previous = current / size
        current = following / size
        scale = scale + np.log(size)
    return result
