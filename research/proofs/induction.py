"""Constants for large k: the induction of docs/proofs.md, carried out in ball arithmetic.

Letters are those of that page: n = k + 1, s = i/n, b, c, K, d = c/K, V = K(s)/K(σ), and the profile
A_1 ≤ … ≤ A_P.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from flint import arb, ctx, fmpq

from forgetless.theory.bounds import Constant
from research.arrays import Floats

ctx.prec = 80

PIECES = 20
"""P: the profile is constant on the intervals ((p−1)/P, p/P]."""

_CELLS = 20
"""Cells per piece, on which c/K is taken at its left end."""

_FLAT = 2
"""Cells at 0 on which c/K is taken at 0, so that 4/n is among them from n = 4·P·_CELLS/_FLAT on."""

LEAST = 4 * PIECES * _CELLS // _FLAT
"""The least N₀ for which the sums may be compared with integrals."""

_FAR = Fraction(60)
"""X: from x = X on, what is left of the start and of early steps is below e^-10."""

_LATE = Fraction(9, 10)
"""Steps after this part of the first j count as late in the tail."""

_INFLATE = 1 + 2.0**-44
"""More than twenty roundings to double precision."""


def _ball(x: Fraction | int) -> Any:
    x = Fraction(x)
    return arb(fmpq(x.numerator, x.denominator))


def _up(ball: Any) -> float:
    """Return a float that no number of the ball exceeds."""
    return math.nextafter(float(ball.upper()), math.inf)


@dataclass(frozen=True, eq=False)
class Rates:
    """b, c and K = 2∫b as functions of s, as balls."""

    explicit: bool
    eta: Any

    @classmethod
    def of(cls, constant: Constant) -> "Rates":
        """Return those of a constant's schedule."""
        return cls(constant.scheme == "explicit", _ball(1 / constant.scale))

    def b(self, s: Any) -> Any:
        y = self.eta * s
        return y * ((2 + y) / (1 + y)) ** 2 / 4 if self.explicit else y

    def c(self, s: Any) -> Any:
        y = self.eta * s
        return (y * (3 + 2 * y)) ** 2 / (8 * (1 + y) ** 3) if self.explicit else y * y

    def K(self, s: Any) -> Any:  # noqa: N802 - the letter of the proof
        y = self.eta * s
        return (
            (y * y / 2 + 2 * y - (1 + y).log() - y / (1 + y)) / (2 * self.eta)
            if self.explicit
            else y * s
        )

    def late(self, s: Any) -> float:
        """Return what noise adds over what is forgotten, at most, in a step up to s."""
        y = self.eta * s
        kappa = y / (1 + y) if self.explicit else y
        return max(_up(self.c(s) / (2 * self.b(s))), _up((self.c(s) / kappa) ** 2 / 4))

    @property
    def d0(self) -> Any:
        """The limit of d = c/K at 0, its largest value."""
        return self.eta * _ball(Fraction(9, 8)) if self.explicit else self.eta


@dataclass(frozen=True)
class Induction:
    """What was checked: each number is the largest quotient of a left side by its right side, and
    must be below 1.

    Attributes
    ----------
    first, middle, tail : float
        Inequalities (a), (b) for x ≤ X, and (b) for x > X.
    profile : tuple of float
        A_1, …, A_P.
    """

    first: float
    middle: float
    tail: float
    profile: tuple[float, ...]

    @property
    def holds(self) -> bool:
        """Whether all of them do."""
        return max(self.first, self.middle, self.tail) < 1


def induction(constant: Constant, n: int) -> Induction:
    """Check that E L ≤ C/(k+1) for every k + 1 ≥ n, at R = D = 1."""
    if n < LEAST:
        raise ValueError(f"n must be at least {LEAST}, got {n}")
    if (least := Fraction(1, 2) if constant.scheme == "explicit" else Fraction(1)) > constant.scale:
        raise ValueError(
            f"the scale must be at least {least}, got {constant.scale}; the proof goes no further"
        )
    rates = Rates.of(constant)
    profile: list[Any] = []
    middle = tail = 0.0
    for p in range(1, PIECES + 1):
        piece = _Piece.of(rates, profile, p, n)
        last = 2 * _ball(constant.value) * rates.K(arb(1)) if p == PIECES else None
        bound = piece.least() if last is None else last
        if profile and not bound >= profile[-1]:
            middle = math.inf  # the argument needs a profile that does not fall
        profile.append(bound)
        middle, tail = max(middle, piece.middle(bound)), max(tail, piece.tail(bound))
    return Induction(
        _first(rates, profile, n), middle, tail, tuple(float(bound) for bound in profile)
    )


# Inequality (b)
# ------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Piece:
    """The inequality at σ = p/P, j = σn: x e^{−x} + c(2/n) x + x E(x) ≤ A_p, with E = ``known`` +
    A_p · ``weight``.
    """

    rates: Rates
    n: int
    sigma: Any
    grid: list[Fraction]
    known: list[Any]
    weight: list[Any]

    @classmethod
    def of(cls, rates: Rates, profile: list[Any], p: int, n: int) -> "_Piece":
        """Evaluate E at every x of the grid."""
        sigma, width = _ball(Fraction(p, PIECES)), _ball(Fraction(1, PIECES * _CELLS))
        ends = [_ball(Fraction(i, PIECES * _CELLS)) for i in range(p * _CELLS + 1)]
        levels = [rates.K(s) for s in ends]
        away = [1 - level / levels[-1] for level in levels]
        d = [rates.d0 if i < _FLAT else rates.c(ends[i]) / levels[i] for i in range(len(ends) - 1)]
        scaled = [
            width * each / 2 * (profile[i // _CELLS] if i // _CELLS < p - 1 else 1)
            for i, each in enumerate(d)
        ]
        cut = (p - 1) * _CELLS
        # Every end of a cell collects the halves of its two trapezoids.
        before = [
            (scaled[i] if i < cut else 0) + (scaled[i - 1] if 0 < i <= cut else 0)
            for i in range(cut + 1)
        ]
        within = [
            (scaled[i] if i < len(scaled) else 0) + (scaled[i - 1] if i > cut else 0)
            for i in range(cut, len(ends))
        ]
        j = sigma * n
        drift = rates.b(sigma) / (levels[-1] * n)
        half = 1 - rates.K(sigma / 2) / levels[-1]
        log, edge = 2 * rates.d0 * j.log() / n, rates.d0 / n
        grid, known, weight = _grid(), [], []
        for x in map(_ball, grid):
            e = [(-x * y).exp() for y in away]
            grow, more = (x * drift).exp(), 1 + 5 / j
            known.append(
                grow * more * sum((w * y for w, y in zip(before, e, strict=False)), arb(0))
            )
            integral = sum((w * y for w, y in zip(within, e[cut:], strict=True)), arb(0))
            weight.append(grow * (more * (integral + edge) + log * (-x * half).exp()))
        return cls(rates, n, sigma, grid, known, weight)

    def least(self) -> Any:
        """Return about the least A_p that fulfils the inequality, by what it takes on the grid."""
        found = Fraction(0)
        for x, known, weight in zip(self.grid, self.known, self.weight, strict=True):
            base, share = float(x) * (math.exp(-float(x)) + float(known)), float(x) * float(weight)
            found = max(found, Fraction(base / (1 - share) * (1 + 2e-4))) if share < 1 else found
        return _ball(found)

    def middle(self, bound: Any) -> float:
        """Return the largest left side over A_p on 0 ≤ x ≤ X, between the points of the grid
        too.
        """
        second = self.rates.c(_ball(2) / self.n)
        drift = self.rates.b(self.sigma) / (self.rates.K(self.sigma) * self.n)
        E = [known + bound * weight for known, weight in zip(self.known, self.weight, strict=True)]
        worst = 0.0
        for i in range(len(self.grid) - 1):
            x, y = _ball(self.grid[i]), _ball(self.grid[i + 1])
            most = E[i] * ((y - x) * drift).exp()  # E grows by no more than this on the cell
            if self.grid[i + 1] <= _FINE:
                ends = [at * ((-at).exp() + each) for at, each in ((x, E[i]), (y, E[i + 1]))]
                bend = 2 * (-x).exp() + (2 + y) * most
                left = max(_up(end) for end in ends) + _up((y - x) ** 2 / 8 * bend + second * y)
            else:
                left = _up(x * (-x).exp() + y * most + second * y)
            worst = max(worst, left / float(bound.lower()) * _INFLATE)
        return worst

    def tail(self, bound: Any) -> float:
        """Return the largest left side over A_p on x > X; infinite where the argument does not
        reach.
        """
        rates, n, sigma, x = self.rates, self.n, self.sigma, _ball(_FAR)
        j = (x * n / rates.eta).sqrt() - 1
        cut = sigma * _ball(_LATE)
        late = (1 + 1 / j) / (_ball(_LATE) - 1 / j) ** 2 * arb(rates.late(sigma))
        rate = 1 - rates.K(cut) / rates.K(sigma) - 1 / j
        if not rate * x > 1:
            return math.inf
        early = rates.d0 * (cut + 2 * arb(n).log() / n) + rates.c(_ball(2) / n) / bound
        return _up(late + x * (-rate * x).exp() * early + x * (-x).exp() / bound)


_FINE = Fraction(4)


def _grid() -> list[Fraction]:
    """Return points from 0 to X: steps of 1/50 up to 4, where the maximum lies, then of 2 %."""
    points = [Fraction(i, 50) for i in range(201)]
    while points[-1] < _FAR:
        points.append(min(_FAR, Fraction(round(float(points[-1]) * 1.02 * 50) + 1, 50)))
    return points


# Inequality (a)
# ------------------------------------------------------------------------------------------


def _first(rates: Rates, profile: list[Any], n: int) -> float:
    """Return the largest sup f_j·K_j/A(j/n) of the recursion with min(1, A/K) for α, where that is
    below 1.
    """
    nodes = mesh(n, 60)
    balls = [arb(r) for r in nodes.tolist()]
    g, total, bound, worst = [arb(1)] * len(balls), arb(0), arb(1), 0.0
    for i in range(2, n + 1):
        s = _ball(Fraction(i, n))
        b, noise = rates.b(s), bound * rates.c(s)
        g = [(-2 * b * r).exp() * each + noise for r, each in zip(balls, g, strict=True)]
        total += 2 * b
        bound = profile[-(-i * PIECES // n) - 1] / total
        if not bound < 1:
            bound = arb(1)
            continue
        reached = nodes[:-1] * float(total.lower()) <= float(_FAR) * _INFLATE  # left ends of cells
        top = float(peaks(nodes, np.array([_up(each) for each in g]))[reached].max()) * _INFLATE
        worst = max(worst, top / float(bound.lower()) * _INFLATE)
    return worst


def mesh(n: int, per_decade: int) -> Floats:
    """Return nodes 0 < … < 1, evenly spaced in the logarithm from 0.05/n on."""
    low = math.log10(0.05 / n)
    return np.concatenate([[0.0], np.logspace(low, 0.0, int(-per_decade * low) + 1)[:-1], [1.0]])


def peaks(r: Floats, g: Floats) -> Floats:
    """Return on every cell the maximum of ρ·g(ρ) for g linear there: a parabola's, in closed
    form.
    """
    a, b, slope = r[:-1], r[1:], np.diff(g) / np.diff(r)
    falling = slope < 0
    top = np.where(falling, (g[:-1] - slope * a) / np.where(falling, -2 * slope, 1.0), b)
    x = np.clip(top, a, b)
    return np.asarray(np.maximum(np.maximum(a * g[:-1], b * g[1:]), x * (g[:-1] + slope * (x - a))))
