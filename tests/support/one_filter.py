"""Theorem F literally."""

from fractions import Fraction


def right_side(e, kappa, k, b):
    """Return F_k at 1 − e, for κ, by its definition."""
    y = (1 - e) ** 2
    past = sum((b[j] * y ** (k - 1 - j) for j in range(1, k)), Fraction(0))
    cubes = sum(((n + 1) * (n + 2) * y**n for n in range(k - 1)), Fraction(0))
    jumps = e * (kappa - e) * (k * y ** (k - 1) / (2 - kappa) + past)
    return e * k * y**k + jumps + e**3 * (kappa - e) * cubes / (2 - kappa)
