"""The constants of Theorem U, proved in rational numbers: E L(w_k) ≤ (c/2)·R²D²/k without
regularization, for every k.

docs/unregularized.md reduces the theorem for a constant c to one inequality on 0 ≤ x ≤ 1
for every k ≥ 1,

    (1 + x)[k x^{2k−1}(1 − x²) + (1 − x)³ Σ_{n≤k−2} (n+1)(n+2) x^{2n+1}] ≤ c(1 + x^{2k−1})

For k below some K it is checked as it stands: a polynomial is positive on an interval where its
Bernstein coefficients are, if necessary after halving the interval. For k ≥ K, with ε := 1 − x²,
s := kε and γ := c − ½, it follows from q·β(s) ≤ γ for s ≥ 0, where q = (1 − ε)^{k−½} and

    β(s) = (3/2 + 1/(2K))s − (1/4 − 1/(4K))s² − 1 − γ.

With s₀ := 2K/(2K − 1), q is at most e^{−s} for s ≥ s₀ and at most e^{−s/s₀} below. Both are at most
one over a Taylor polynomial, and β is negative from s = 8 on: two more polynomial inequalities.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import comb, factorial, lcm

import numpy as np

from forgetless._table import Table

CLAIMS = ((Fraction(2, 3), 7), (Fraction(63, 100), 161))
"""Constants c, with the K from which on the second argument is used."""

_HALVINGS = 30
"""Depth at which an inequality counts as not proved."""

_TAYLOR = 30
"""Degree of the Taylor polynomials of e^s, which are below it for s ≥ 0."""

_NEGATIVE = Fraction(8)
"""β is negative from here on."""


@dataclass(frozen=True)
class Proof:
    """Result of the proof of one constant.

    Attributes
    ----------
    c : Fraction
    start : int
        K.
    failures : tuple of int
        The k < K of which the polynomial is not positive.
    pieces : int
        Intervals on which polynomials have positive Bernstein coefficients, in all.
    tail : bool
        Whether the argument for k ≥ K goes through.
    """

    c: Fraction
    start: int
    failures: tuple[int, ...]
    pieces: int
    tail: bool

    @property
    def holds(self) -> bool:
        """Whether the constant is proved."""
        return self.tail and not self.failures


def prove(c: Fraction, start: int) -> Proof:
    """Return the proof of c, with polynomials for k < ``start``.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from research.proofs.unregularized import prove
    >>> prove(Fraction(2, 3), start=7).holds, prove(Fraction(3, 5), start=12).failures
    (True, (11,))
    """
    pieces = [positive_pieces(difference(k, c)) for k in range(1, start)]
    failures = tuple(k for k, n in enumerate(pieces, start=1) if n == 0)
    return Proof(c, start, failures, sum(pieces), tail_holds(c, start))


def difference(k: int, c: Fraction) -> list[Fraction]:
    """Return the coefficients of the right side minus the left one, lowest first."""
    cubes = [Fraction(0)] * (2 * k)
    for n in range(k - 1):
        cubes[2 * n + 1] = Fraction((n + 1) * (n + 2))
    left = _product(cubes, [1, -3, 3, -1])
    left[2 * k - 1] += k
    left[2 * k + 1] -= k
    left = _product(left, [1, 1])
    right = [Fraction(0)] * len(left)
    right[0] += c
    right[2 * k - 1] += c
    return [r - each for r, each in zip(right, left, strict=True)]


def tail_holds(c: Fraction, start: int) -> bool:
    """Return whether β(s)e^{−s} ≤ γ for s ≥ s₀, and β(s)e^{−s/s₀} ≤ γ for 0 ≤ s ≤ s₀."""
    gamma = c - Fraction(1, 2)
    slope = Fraction(3, 2) + Fraction(1, 2 * start)
    bend = Fraction(1, 4) - Fraction(1, 4 * start)
    beta = [-1 - gamma, slope, -bend]
    middle = Fraction(2 * start, 2 * start - 1)

    def margin(rate: Fraction) -> list[Fraction]:
        taylor = [gamma * rate**n / factorial(n) for n in range(_TAYLOR + 1)]
        return [taylor[n] - (beta[n] if n < len(beta) else 0) for n in range(len(taylor))]

    small = positive_pieces(margin(1 / middle), Fraction(0), middle) > 0
    large = positive_pieces(margin(Fraction(1)), middle, _NEGATIVE) > 0
    at_end = beta[0] + beta[1] * _NEGATIVE + beta[2] * _NEGATIVE**2
    # β is concave: negative and falling at 8, it stays negative.
    falling = beta[1] + 2 * beta[2] * _NEGATIVE < 0
    return small and large and at_end < 0 and falling


def positive_pieces(
    coefficients: list[Fraction], low: Fraction = Fraction(0), high: Fraction = Fraction(1)
) -> int:
    """Return on how many pieces of [low, high] the Bernstein coefficients of a polynomial are
    positive; 0 if the polynomial is not proved to be.
    """
    moved = coefficients
    if (low, high) != (0, 1):
        moved = _substituted(coefficients, low, high - low)
    degree = len(moved) - 1
    scaled = [each / comb(degree, i) for i, each in enumerate(moved)]
    # b_j = Σ_{i≤j} C(j, i) p_i/C(n, i), by repeated sums
    for r in range(1, degree + 1):
        for i in range(degree, r - 1, -1):
            scaled[i] += scaled[i - 1]
    common = lcm(*(each.denominator for each in scaled))
    return _positive([int(each * common) for each in scaled], 0)


def _positive(b: list[int], depth: int) -> int:
    """Return the number of pieces with positive coefficients; 0 if one of them has none."""
    if min(b) > 0:
        return 1
    if b[0] <= 0 or b[-1] <= 0 or depth > _HALVINGS:
        return 0
    left, right = _halves(b)
    first = _positive(left, depth + 1)
    second = _positive(right, depth + 1) if first else 0
    return first + second if second else 0


def _halves(b: list[int]) -> tuple[list[int], list[int]]:
    """Return the Bernstein coefficients on both halves, times 2^degree (de Casteljau)."""
    degree = len(b) - 1
    left = [0] * (degree + 1)
    right = [0] * (degree + 1)
    row = list(b)
    for r in range(degree + 1):
        left[r] = row[0] << (degree - r)
        right[degree - r] = row[degree - r] << (degree - r)
        row = [row[i] + row[i + 1] for i in range(degree - r)]
    return left, right


def _substituted(coefficients: list[Fraction], low: Fraction, width: Fraction) -> list[Fraction]:
    """Return the coefficients of p(low + width·u) in u, by Horner's rule."""
    result = [coefficients[-1]]
    for each in reversed(coefficients[:-1]):
        result = _product(result, [low, width])
        result[0] += each
    return result


def _product(p: list[Fraction], q: list[Fraction] | list[int]) -> list[Fraction]:
    """Return the coefficients of a product."""
    product = np.convolve(np.array(p, dtype=object), np.array(q, dtype=object))
    return list(product)


def table(proofs: list[Proof]) -> Table:
    """Return the results as they are printed."""
    columns = {
        "c": [str(each.c) for each in proofs],
        "E L(w_k) ≤ … R²D²/k": [f"{float(each.c) / 2:.6g}" for each in proofs],
        "polynomials": [each.start - 1 for each in proofs],
        "pieces": [each.pieces for each in proofs],
        "larger k": [str(each.tail) for each in proofs],
        "holds": [str(each.holds) for each in proofs],
    }
    return Table("No regularization, in rational numbers", columns)
