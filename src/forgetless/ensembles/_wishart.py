"""Exact means of sums over the singular values of a Gaussian matrix.

The r singular values of a standard Gaussian matrix with n rows and d columns have a density
proportional to ∏ s^{m−r} exp(−s²/2) |∏_{i<j}(s_i² − s_j²)|, with r = min(n, d) and m = max(n, d).
By de Bruijn's formula E ∏ g(s_i) is a quotient of Pfaffians of the pairings ⟨ψ_i g, ψ_j g⟩ = ∬
sgn(y − x) ψ_i(x)g(x) ψ_j(y)g(y) dx dy, ψ_j being Laguerre functions of s²; for odd r there is one
border. Its logarithmic derivative at g = 1 is E Σ f(s_i), a quadrature rule whose weights are
computed once.

Reference: N. G. de Bruijn, "On some multiple integrals involving determinants", J. Indian Math.
Soc. 19 (1955).
"""

import math
from functools import cached_property, lru_cache

import numpy as np

from forgetless._core import validate
from forgetless._core.arrays import Floats

_ORDER = 16  # Gauss–Legendre nodes in one panel
_TAIL = (
    # distance beyond √m ± √r: singular values lie outside with a probability below exp(−81/2)
    # (Davidson, Szarek)
    9.0
)
_HALVINGS = 28  # panels towards s = 0, down to 1e-9, for weak regularization of square tasks


class Wishart:
    """The singular values of a standard Gaussian matrix with ``n_rows`` rows and ``n_features``
    columns.

    Attributes
    ----------
    singular_values : array of shape (q,)
        The nodes, at which functions are to be evaluated.
    weights : array of shape (q,)
        E Σ f(s_i) is ``weights @ f(singular_values)``.
    """

    def __init__(self, n_rows: int, n_features: int) -> None:
        self.n_rows = n_rows
        self.n_features = n_features
        self.rank = min(n_rows, n_features)
        self.gap = abs(n_rows - n_features)
        panels = _Panels(_edges(self.rank, max(n_rows, n_features)))
        self.singular_values = panels.nodes
        numbers = 4.0 * self.rank * len(self.singular_values)
        validate.check_memory(
            numbers, f"the law of {n_rows} × {n_features} Gaussian entries", "use simulate"
        )
        self.weights = self._quadrature(panels)

    def _quadrature(self, panels: "_Panels") -> Floats:
        r = self.rank
        functions = _laguerre_functions(self.singular_values, r, self.gap)  # ψ: (r, q)
        paired = panels.paired(functions.T)  # (q, r)
        pairing = functions @ paired
        matrix = (pairing - pairing.T) / 2.0
        if r % 2:
            # An odd antisymmetric matrix is singular; the border has the integrals of ψ.
            border = functions @ panels.weights
            matrix = np.block([[matrix, border[:, None]], [-border[None, :], np.zeros((1, 1))]])
        inverse = np.linalg.inv(matrix)
        weights = np.einsum("qa,ab,bq->q", paired, inverse[:r, :r], functions, optimize=True)
        if r % 2:
            weights -= (inverse[:r, r] @ functions) * panels.weights
        return np.asarray(weights)

    def sum(self, values: Floats) -> Floats:
        """Return E Σ f(s_i) of functions with ``values`` of shape (..., q) at the nodes."""
        return np.asarray(values @ self.weights)

    @property
    def mean_inverse(self) -> float:
        """E Σ 1/s_i², infinite where n and d differ by less than two."""
        return self.rank / (self.gap - 1.0) if self.gap >= 2 else math.inf

    @cached_property
    def error(self) -> float:
        """The largest relative error of means with a closed form, times ten: an estimate for those
        without.
        """
        n, d, x = self.n_rows, self.n_features, self.singular_values**2
        exact = {"rank": self.rank, "trace": n * d, "square": n * d * (n + d + 1.0)}
        computed = {
            "rank": self.sum(np.ones_like(x)),
            "trace": self.sum(x),
            "square": self.sum(x * x),
        }
        return (
            10.0 * max(abs(float(computed[name]) / value - 1.0) for name, value in exact.items())
            + 1e-14
        )


@lru_cache(maxsize=16)
def wishart(n_rows: int, n_features: int) -> Wishart:
    """Return the singular values of a Gaussian matrix, computed once for every size."""
    return Wishart(n_rows, n_features)


def _edges(r: int, m: int) -> Floats:
    """Return the edges of panels that hold the singular values, some four zeros of the functions in
    each.
    """
    low, high = max(math.sqrt(m) - math.sqrt(r) - _TAIL, 0.0), math.sqrt(m) + math.sqrt(r) + _TAIL
    width = min(max(0.25, min(1.0, (high - low) / 40.0)), 2.0 * math.pi / math.sqrt(r + m))
    edges = np.linspace(low, high, math.ceil((high - low) / width) + 1)
    if low > 0.0:
        return edges
    return np.concatenate([[0.0], edges[1] * 0.5 ** np.arange(_HALVINGS, -1, -1.0), edges[2:]])


class _Panels:
    """Gauss–Legendre nodes in panels, with integrals over the line and up to every node."""

    def __init__(self, edges: Floats) -> None:
        nodes, weights = np.polynomial.legendre.leggauss(_ORDER)
        half = np.diff(edges) / 2.0
        self.nodes = (edges[:-1, None] + half[:, None] * (nodes + 1.0)).ravel()
        self.weights = (half[:, None] * weights).ravel()
        # The integral of a Legendre polynomial up to x is (P_{j+1} − P_{j−1})/(2j + 1).
        P = np.polynomial.legendre.legvander(nodes, _ORDER)
        integrals = np.empty((_ORDER, _ORDER))
        integrals[:, 0] = nodes + 1.0
        integrals[:, 1:] = (P[:, 2:] - P[:, :-2]) / (2.0 * np.arange(1, _ORDER) + 1.0)
        self._inner = half[:, None, None] * (integrals @ np.linalg.inv(P[:, :-1]))  # (p, 16, 16)

    def paired(self, functions: Floats) -> Floats:
        """Return w(x) ∫ sgn(y − x) f(y) dy at every node for f of shape (q, m), as an antisymmetric
        operator.

        It and its transpose agree up to the error of the quadrature, and their mean is exactly
        antisymmetric.
        """
        w, shape = self.weights[:, None], (len(self._inner), _ORDER, functions.shape[1])
        panels = (w * functions).reshape(shape)
        sums = panels.sum(axis=1)
        before, total = np.cumsum(sums, axis=0) - sums, sums.sum(axis=0)
        up_to = before[:, None] + self._inner @ functions.reshape(shape)
        forward = w * (total - 2.0 * up_to.reshape(functions.shape))
        after = (total - before - sums)[:, None] * w.reshape(*shape[:2], 1)
        later = after + np.swapaxes(self._inner, 1, 2) @ panels
        backward = w * total - 2.0 * later.reshape(functions.shape)
        return np.asarray((forward - backward) / 2.0)


def _laguerre_functions(s: Floats, r: int, gap: int) -> Floats:
    """Return p_j(s²) s^gap exp(−s²/2), j < r, orthonormal on s > 0, of shape (r, q).

    The recurrence is scaled at every step, with logarithms of the scales, since its factors leave
    the range of floats.
    """
    alpha, x = gap - 0.5, s * s
    scale = gap * np.log(s) - x / 2.0 + (math.log(2.0) - math.lgamma(alpha + 1.0)) / 2.0
    result = np.empty((r, len(s)))
    previous, current = np.zeros_like(x), np.ones_like(x)
    for j in range(r):
        result[j] = np.where(scale > -700.0, current * np.exp(np.minimum(scale, 700.0)), 0.0)
        following = (x - (2 * j + 1 + alpha)) * current - math.sqrt(j * (j + alpha)) * previous
        previous, current = current, following / math.sqrt((j + 1) * (j + 1 + alpha))
        size = np.maximum(np.abs(current), np.abs(previous))
        previous, current, scale = previous / size, current / size, scale + np.log(size)
    return result
