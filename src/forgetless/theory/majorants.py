"""Majorants: functions that bound a quadratic form from above, and their recursion from the last
step to the first.

The state is f with A ≤ f(B) in the Loewner order. A is the form of the loss after the steps to
come, E L = ½zᵀAz for the error z = w − w⋆ before them. With R = 1 a step is z ← (I − φ(H))z,
H = XᵀX, and κ = φ(1) ≤ 1. B = E χ(H) is the mean of a base χ over the tasks, χ(ξ) ≥ ξ (``steps``),
so that 0 ≤ B ≤ I, and ρ in [0, 1] stands for its eigenvalues. f′ is the f one step earlier in time,
not a derivative. Here f(ρ) = ρ·g(ρ) with g
piecewise linear, so that suprema have a closed form and the curvature that a step adds is bounded:
every number is an upper bound, rounding included. That one step takes f to the f of ``Mesh.step``
is Theorem 1 of docs/proofs.md: its q is the price of unequal singular values (``steps``), and any m
above κ/2 gives a bound.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from forgetless._running import track
from forgetless._validate import Floats
from forgetless.theory.steps import Steps, least_m, upwards

INFLATION = 2.0**-44
"""Relative inflation per step: 512 roundings, where a step has fewer than 60."""

PER_DECADE = 90
"""Nodes per factor ten of ρ. Any mesh gives a bound; finer ones lower it by 2e-5 to 3e-4 of itself,
at a cost in proportion."""


_DIVERGED = 1e6  # no mutant: only the time differs
"""sup f above which no further step returns below the trivial bound, sup f = 1."""


@dataclass(frozen=True, eq=False)
class Mesh:
    """The nodes 0 = r_0 < … < r_N = 1: a logarithmic mesh down to a tenth of 1/k, and a linear one.

    Nodes influence each other through sup f only, which is attained near ρ = 0.4/Σκ ≥ 0.4/k or
    above, so that smaller ρ do not matter.
    """

    r: Floats

    @classmethod
    def of(cls, k: int, per_decade: int = PER_DECADE) -> "Mesh":
        """Return the mesh for k steps."""
        decades = math.log10(10.0 * (k + 1))
        low = np.logspace(-decades, 0.0, math.ceil(per_decade * decades))
        linear = np.linspace(0.02, 1.0, per_decade // 2)
        return cls(np.unique(np.concatenate([[0.0], np.minimum(low, 1.0), linear])))

    @cached_property
    def h(self) -> Floats:
        """The lengths of the cells."""
        return np.diff(self.r)

    @cached_property
    def rest(self) -> Floats:
        """1 − ρ at the nodes."""
        return 1.0 - self.r

    @cached_property
    def start_in_cells(self) -> Floats:
        """The left ends of the cells, in units of their lengths."""
        return self.r[:-1] / self.h

    def sup(self, g: Floats) -> tuple[float, float]:
        """Return an upper bound of sup ρ·g(ρ) over [0, 1], and where it is (nearly) attained.

        On a cell f(a + τh) = (a + τh)(g_a − τδ), δ = g_a − g_b: below its chord for δ ≤ 0, at most
        hδ/4 above it otherwise. Only cells that may exceed the largest node are examined.
        """
        f = self.r * g
        drop = g[:-1] - g[1:]
        at = f.argmax()
        best = float(f[at])
        where = float(self.r[at])
        higher = np.maximum(f[:-1], f[1:]) + 0.25 * self.h * drop
        cells = np.flatnonzero((higher > best) & (drop > 0.0))
        if cells.size:
            # The parabola (a + τh)(g_a − τδ) is highest at τ = (g_a/δ − a/h)/2.
            drop = drop[cells]
            tau = 0.5 * (g[cells] / drop - self.start_in_cells[cells])
            tau = np.clip(tau, 0.0, 1.0)
            rho = self.r[cells] + tau * self.h[cells]
            tops = rho * (g[cells] - tau * drop)
            top = tops.argmax()
            best, where = max((best, where), (float(tops[top]), float(rho[top])))
        return float(upwards(best)), where

    def step(self, g: Floats, alpha: float, kappa: float, q: float = 0.0, m: float = 0.5) -> Floats:
        """Return the values at the nodes of a majorant of f′/ρ: one backward step, α ≥ sup f.

        f′ = (1 − κρ)²f + ακ²ρ(1 − ρ) + qρα(u − m)²,  u = 1 − (1 − f/α)(1 − κρ).

        On a cell of length h on which g has the slope s, f′/ρ exceeds its chord by at most
        h²κ·max(s, 0)/2 + q(h²/4)·sup|u − m|·|αu″|, |αu″| ≤ 2|s| + 2κ(max g + |s|ρ).
        """
        if not alpha:
            # f = 0 stays so.
            return g
        # f′/ρ at the nodes, term by term.
        w = 1.0 - kappa * self.r
        new = w * w * g
        new += (alpha * kappa * kappa) * self.rest
        # What it may exceed its chord by, in every cell.
        rise = g[1:] - g[:-1]
        bend = (0.5 * kappa) * self.h * np.maximum(rise, 0.0)
        if q:
            # e = u − m
            e = 1.0 - m - (1.0 - self.r * g / alpha) * w
            new += (q * alpha) * (e * e)
            bend += q * self._excess(g, e, alpha, kappa)
        # Both nodes of a cell are lifted by its excess: a node by the larger one of its two cells.
        following = np.concatenate([bend[1:], [0.0]])
        new[:-1] += bend
        new[1:] += np.maximum(bend - following, 0.0)
        # Rounding, relative to the terms that were added up.
        new += INFLATION * (g + alpha + q * alpha)
        return new

    def _excess(self, g: Floats, e: Floats, alpha: float, kappa: float) -> Floats:
        """Return how much αe², e = u − m, may exceed its chords."""
        h = self.h
        steep = np.abs(g[1:] - g[:-1])
        highest = np.maximum(g[:-1], g[1:])
        # h²·sup|αu″|, with |αu″| ≤ 2|s| + 2κ(max g + |s|ρ) and |s| = steep/h.
        curve = 2.0 * h * (steep + kappa * (highest * h + steep * self.r[1:]))
        # sup|e| in a cell: its larger end, and what u may bend away from its chord, h²|u″|/8.
        far = np.abs(e)
        far = np.maximum(far[:-1], far[1:]) + curve / (8.0 * alpha)
        return np.asarray(0.25 * far * curve)


@dataclass(frozen=True, eq=False)
class MajorantBound:
    """A bound over R²D², with what it was computed from.

    Attributes
    ----------
    per_unit : float
        Half the supremum of the last majorant.
    steps : Steps
    mesh : Mesh
    m : array
        The m of every step.
    """

    per_unit: float
    steps: Steps
    mesh: Mesh
    m: Floats


def half_supremum(
    steps: Steps, k: int, quantity: str, *, per_decade: int = PER_DECADE
) -> MajorantBound:
    """Return the bound of the average loss, or of the loss on the tasks seen."""
    mesh = Mesh.of(k, per_decade)
    if quantity == "seen_loss":
        m = rising(len(steps.kappa))
        top = _seen_tasks(steps, mesh, m, k)
    else:
        top, m = _last_iterate(steps, mesh)
    return MajorantBound(top / 2, steps, mesh, m)


def rising(n: int) -> Floats:
    """Return m = ½ + ½(n − t + 1)/n for t = 1..n: roughly the path of u at a maximiser."""
    return np.asarray(0.5 + 0.5 * np.arange(n, 0, -1) / n)


def _last_iterate(steps: Steps, mesh: Mesh) -> tuple[float, Floats]:
    """Return twice the bound for the average loss of the last iterate: the better of two m.

    The first rises along a line from ½; the second follows u at the maximiser that the first ends
    with, where the last term of a step then vanishes.
    """
    line = rising(len(steps.kappa))
    first, _, at = _backwards(steps, mesh, line, None)
    # Without a price of unequal singular values m does not matter.
    if steps.proportional:
        return first, line
    second, path, _ = _backwards(steps, mesh, line, at)
    if first <= second:  # no mutant: of two equal bounds
        return first, line
    return second, path


def _backwards(
    steps: Steps, mesh: Mesh, line: Floats, rho: float | None
) -> tuple[float, Floats, float]:
    """Return the smallest sup f on the way from f = ρ after the last step, its m, and the last
    maximiser.

    Each sup f is a bound: steps before that point need only not expand the error.
    """
    # After the last step f = ρ: the form of the loss, E XᵀX/R², is at most B, since ξ ≤ χ(ξ).
    g = np.ones_like(mesh.r)
    m = line.copy()
    least, at = mesh.sup(g)
    alpha = least
    for t in track(range(len(m) - 1, -1, -1), "steps"):
        if alpha > _DIVERGED:  # no mutant: only the time differs
            break
        kappa = float(steps.kappa[t])
        if rho is not None:
            # u of this step at the given ρ (see ``Mesh.step``): with m = u, (u − m)² is 0 there.
            u = rho * float(np.interp(rho, mesh.r, g)) / alpha
            m[t] = max(1 - (1 - u) * (1 - kappa * rho), least_m(kappa))
        g = mesh.step(g, alpha, kappa, steps.price(t, m[t]), m[t])
        alpha, at = mesh.sup(g)
        least = min(least, alpha)
    return least, m, at


def _seen_tasks(steps: Steps, mesh: Mesh, m: Floats, k: int) -> float:
    """Return twice the bound for the loss of the tasks seen: a second function, h, beside f.

    For Theorem 5 of docs/proofs.md. Here h is no cell length, and the arrays f and h hold f/ρ and
    h/ρ at the nodes, as g does elsewhere. Let M be φ(H) of the task of a step, H = XᵀX, and Φ ≤ I
    the random form of its loss after the later steps. Then (I − M)Φ(I − M) ≤ (1 + s)Φ +
    (1 + 1/s)MΦM with s = 1.5κ, E Φ ≤ f(B), and MΦM ≤ M² ≤ νχ(H) with ν ≥ sup φ²/χ. So
    h ← T h + ((1 + s)f + (1 + 1/s)νρ)/k, where T is ``Mesh.step`` with α = sup h. An unused step
    adds 1/k, its weight: the form of the loss of any task is at most I.
    """
    f = np.ones_like(mesh.r)
    h = np.zeros_like(mesh.r)
    for t in track(range(len(m) - 1, -1, -1), "steps"):
        kappa = float(steps.kappa[t])
        split = seen_split(kappa)
        price = steps.price(t, m[t])
        alpha = mesh.sup(f)[0]
        top = mesh.sup(h)[0]
        if max(alpha, top) > _DIVERGED:  # no mutant: only the time differs
            return math.inf
        h = mesh.step(h, top, kappa, price, m[t])
        # The task of this step joins those seen.
        unmoved = ((1 + split) / k) * f
        moved = (1 + 1 / split) * float(steps.nu[t]) / k
        h += upwards(unmoved + moved)
        f = mesh.step(f, alpha, kappa, price, m[t])
    return float(upwards(mesh.sup(h)[0] + steps.unused / k))


def seen_split(kappa: float) -> float:
    """Return s > 0; 1.5κ is near the best of several shapes."""
    return max(1.5 * kappa, 1e-12)
