"""The constants of Theorem U in rational numbers, and what the check refuses."""

from fractions import Fraction

import numpy as np
import pytest

from research.proofs import unregularized
from research.proofs.unregularized import difference, positive_pieces, prove, tail_holds


@pytest.mark.parametrize(("c", "start", "pieces"), [(Fraction(2, 3), 7, 11), (Fraction(63, 100), 161, 881)])
def test_the_constants_are_proved(c, start, pieces):
    assert (c, start) in unregularized.CLAIMS
    proof = prove(c, start)
    assert proof.holds
    assert proof.pieces == pieces


def test_smaller_constants_are_rejected():
    proof = prove(Fraction(3, 5), 20)
    assert proof.failures == tuple(range(11, 20))
    assert not proof.holds
    assert not tail_holds(Fraction(63, 100), 120)
    assert not tail_holds(Fraction(627, 1000), 10**6)  # the limit of the argument is 0.62799
    assert tail_holds(Fraction(6281, 10000), 10**6)


@pytest.mark.parametrize("k", [1, 2, 5, 9])
def test_the_polynomial_is_the_inequality(k):
    """Against its formula, and against the recursion's F_k, of which it is (c − kF_k)(1 + x) on [0, 1]."""
    c = Fraction(2, 3)
    coefficients = difference(k, c)
    for x in (Fraction(0), Fraction(1, 3), Fraction(9, 10), Fraction(1)):
        cubes = sum((n + 1) * (n + 2) * x ** (2 * n + 1) for n in range(k - 1))
        loss = k * (1 - x) * x ** (2 * k) + k * (1 - x) * x ** (2 * k - 1) + (1 - x) ** 3 * cubes
        loss += c * x * (1 - x ** (2 * k - 2)) / (1 + x)
        assert sum(each * x**i for i, each in enumerate(coefficients)) == (c - loss) * (1 + x)


def test_positive_polynomials_are_told_from_others(rng):
    for _ in range(40):
        p = [Fraction(int(each), 7) for each in rng.integers(-9, 10, 6)]
        grid = np.polynomial.polynomial.polyval(np.linspace(0.5, 2, 3001), np.array([float(each) for each in p]))
        found = positive_pieces(p, Fraction(1, 2), Fraction(2)) > 0
        if abs(grid.min()) > 1e-6:
            assert found == (grid.min() > 0)
