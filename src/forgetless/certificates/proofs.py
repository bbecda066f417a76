"""Proofs of the constants for every k, run by computer: E L(w_k) ≤ C·R²D²/(k+1), whatever the realizable collection.

R = D = 1, n = k + 1, tasks are drawn independently with any probabilities, losses weighted by the same. Steps are
counted backwards, i = k − t + 2 = 2, …, n, and η = 1/scale ≤ 2. Explicit regularization has λ = n/(ηi); a single
gradient step has size ηi/n ≤ 1. With y = ηs let

    explicit: κ(s) = y/(1+y), b(s) = y(2+y)²/(4(1+y)²), c(s) = y²(3+2y)²/(8(1+y)³);   one step: κ = b = y, c = y²,

and b_i = b(i/n) and so on. The certificate's step (docs/certificates.md, Theorem 1 with base χ(ξ) = ξ, for explicit
regularization with m = (1+κ)/2 and hence q = y²/(2(1+y)); else q = 0) carries A ≤ f_{i−1}(H̄), sup f_{i−1} ≤
α_{i−1}, to A ≤ f_i(H̄) with f_1(ρ) = ρ. Its last term is qρα(u_z−m)², where 0 ≤ f/α ≤ u_z ≤ 1: by the chord of the
square it is at most qρ(m²α − (2m−1)f). As 2b = 2κ + q(2m−1) and c = κ² + qm², on 0 ≤ ρ ≤ 1

    f_i ≤ C_i(ρ) f_{i−1} + α_{i−1}(c_i − κ_i²ρ)ρ,   C_i = max(0, 1 − 2b_iρ + κ_i²ρ²) ≤ e^{−2b_iρ},        (1)

the last because (1−κρ)² − z ≤ (1−κρ)²e^{−z}; and E L ≤ ½ sup f_n. As c ≤ 2b and c² ≤ 4κ² for y ≤ 2, sup f_i ≤
α_{i−1}: every α may be taken ≤ 1. K_j = 2Σ_{i=2}^j b_i, K(s) = 2∫_0^s b, d = c/K, and d₀ = d(0+), which is 9η/8, or
η for one step.

**(c) n < N₀.** (1) is carried out for every n; for k = 1 with q = 0, as a single filter is its own base. f_i/ρ is
convex and falling: its chords between nodes lie above it, and the maximum of ρ times a chord has a closed form.
Rounding is covered by adding 2^-44(g + α) at every step.

**n ≥ N₀.** A profile is P numbers A_1 ≤ … ≤ A_P, A(s) = A_p for (p−1)/P < s ≤ p/P, with A_P = 2C·K(1). Claim: sup
f_j ≤ A(j/n)/K_j for 2 ≤ j ≤ n. Then E L ≤ A_P/(2K_n) ≤ C/n by (K) below. Induction over j: from (1), with x = ρK_j,
v_i = K_i/K_j and α_{i−1} = min(1, A((i−1)/n)/K_{i−1}), on 0 ≤ x ≤ K_j,

    K_j f_j ≤ G_j(x; n) := x e^{−x} + x [c_2 e^{−x(1−v_2)} + Σ_{i=3}^j c_i α_{i−1} e^{−x(1−v_i)}].                  (2)

*G_j falls in n*, a real number ≥ j and ≥ N₀, at fixed j and x, because c_i, A((i−1)/n), c_i/K_{i−1}, v_i and the
range of x do. Compare elasticities, ε_b = 1 − 2y/((1+y)(2+y)) and ε_c = 1 + 3/((1+y)(3+2y)); one step has 1 and 2.
That of K_{i−1} is the mean of those of b_l, 2 ≤ l < i, weighted with b_l, so at most 1: c_i/K_{i−1} falls. All v_i
fall if (M) ε_b at j is at most that mean over l < j, for every j. ε_b falls up to y = √2, where (M) is clear; from
there to y = 2 it is at most ε_b(2) = 2/3. But ∫_0^y b(ε_b − 2/3) = yb − (5/3)∫_0^y b ≥ 0.0133 for √2 ≤ y ≤ 2: the
integrand is positive up to y = 1, then negative, and the value at 2 is that. Sums with spacing h = η/n ≤ 2/N₀
differ from it by less than 0.2h, the integrand's total variation being below 0.1 and its size below 0.05. So the
mean is at least 2/3.
So for j/n in piece p it is enough to look at n′ = max(N₀, jP/p) ≤ n, where j/n′ is still in piece p, and at x ≤ X =
60:

(a) n′ = N₀. The recursion behind (2) is run at n = N₀: G_j ≤ A(j/N₀) where K_j > A(j/N₀); elsewhere the claim is α ≤
1. G_j/x is convex and falling in ρ, so that chords serve as in (c).

(b) n′ = jP/p > N₀; write n for it and σ = j/n = p/P. Sums are compared with integrals:
(K) b is concave (its second derivative by y is −(4+y)/(2(1+y)⁴)), so b(l/n) ≥ n∫_{(l−1)/n}^{l/n} b + b′(l/n)/(2n);
    over l = 1..j: K_j ≥ nK(j/n) + b(j/n) − 3b(1/n), where b(4/n) ≥ 3b(1/n) if 16η ≤ n. So K_j ≥ nK(j/n) for j ≥ 4.
    By trapezoids K_i ≤ nK(i/n) + b(i/n). Hence, with V(s) = K(s)/K(σ) and τ = b(σ)/(nK(σ)) ≤ 1/j, v_i ≤ V(i/n) + τ.
(d) c_i/K_{i−1} ≤ (i/(i−1))² d̄(i/n)/n for any falling d̄ ≥ d that is d₀ up to 4/n: for i ≥ 5 by (K) and K(rs) ≥
    r²K(s), r ≤ 1, as b(s)/s falls; for i = 3, 4 by b_l ≥ (l/i)b_i, so b_i/K_{i−1} ≤ i/((i−2)(i+1)), and c(s) ≤ d₀ s
    b(s), which is 4(3+2y)² ≤ 9(1+y)(2+y)². That d falls: K has elasticity 1 plus the mean of (M), now of integrals,
    hence at least 1 + ε_b ≥ ε_c, as 3(2+y) ≤ (2+y+y²)(3+2y). For one step d is constant.
(s) (1/n)Σ_{i≤j} d̄(i/n)e(i/n) ≤ ∫_0^σ d̄e + (d₀/n)e(σ) for falling d̄ and rising e, here e(s) = A(s)e^{−x(1−V(s))} ≤
    A_p. And (i/(i−1))² = 1 + (2i−1)/(i−1)², where the last terms sum to ≤ 2 ln j over 3 ≤ i ≤ j/2 and are ≤ 5/j
    beyond, for j ≥ 10.
Together G_j(x; n) ≤ x e^{−x} + c(2/n)x + xE(x) with I(x) = ∫_0^σ d̄(s)A(s)e^{−x(1−V(s))} ds and

    E(x) = e^{xτ} { (1 + 5/j)(I(x) + d₀A_p/n) + (2d₀A_p ln j/n) e^{−x(1−V(σ/2))} }.                               (3)

This falls in n at fixed σ, so n = N₀ is the worst; it is checked to be at most A_p on 0 ≤ x ≤ X. I is bounded by
trapezoids, e^{xV} being convex in s, with d̄ at the left ends of cells. Up to x = 4, the value between neighbours on
a grid exceeds the larger one by at most h²/8 times the second derivative, which is at most 2e^{−x} + (2+x)E in size,
because E is a positive mixture of e^{−xy}, |y| ≤ 1. Beyond 4, x e^{−x} and e^{−xτ}E fall.

(tail) x > X, for every n ≥ N₀ and every j, directly from (1). K_j ≤ ηj(j+1)/n, so j ≥ √(XN₀/η) − 1. Steps i > 0.9j:
K_j/K_{i−1} ≤ (1+1/j)/(0.9−1/j)² by (K) and (d). With θ = max(c/(2b), c²/(4κ²)), which rises in s, (c_i − κ_i²ρ)ρ ≤
θ_i(1 − C_i): as c ≤ 2b where C_i > 0, as a parabola in ρ where C_i = 0; and Σ(1−C_i)Π_{l>i}C_l ≤ 1. Together they
give at most A_p·θ(σ)·(1+1/j)/(0.9−1/j)², σ = p/P. The other steps: x e^{−rx}(c_2 + A_pd₀(0.9σ + 2 ln n/n)), r = 1 −
K(0.9σ)/K(σ) − 1/j, as K(0.9s)/K(s) rises by (M); falling for x > 1/r.

(a), (b) and (tail) are computed in ball arithmetic. The profile is chosen by what (b) asks for, and then checked.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from forgetless._base.compiled import compiled
from forgetless._base.progress import Progress
from forgetless._base.tables import Table
from forgetless.theory.constants import Constant, constants

FROM = 2200
"""N₀: from here on by induction, below by computing the certificate."""

_PER_DECADE = 30.0
"""Nodes of part (c): good to 5e-4 of the value."""


@dataclass(frozen=True)
class Proof:
    """What a run found for one constant; (a), (b) and the tail must be below 1, n·certificate at most C.

    Attributes
    ----------
    constant : Constant
    first, middle, tail : float
        The largest left side over its right side in (a), (b) and its tail.
    small : float
        The largest n·certificate over n < N₀, of horizon ``worst``.
    worst : int
    seconds : float
    """

    constant: Constant
    first: float
    middle: float
    tail: float
    small: float
    worst: int
    seconds: float

    @property
    def holds(self) -> bool:
        """Whether the constant is proved."""
        return max(self.first, self.middle, self.tail) < 1 and self.small <= float(self.constant.value)


def prove(constant: Constant, n: int = FROM) -> Proof:
    """Run the proof of one constant, by induction from k + 1 = n on.

    Examples
    --------
    >>> import forgetless as fl
    >>> fl.bounds.catalogue["increasing, every k"].evaluate(k=99, radius=1.0, distance=1.0)
    0.0104
    """
    from forgetless.certificates._induction import induction

    module = compiled("certificates._horizons_numba")
    if module is None:
        raise ImportError("the proofs follow every k below 2200 and need numba for it; install forgetless[fast]")
    began = time.perf_counter()
    large = induction(constant, n)
    explicit = constant.scheme == "explicit"
    small, worst = module.worst_horizon(n, float(1 / constant.scale), explicit, _PER_DECADE)
    seconds = time.perf_counter() - began
    return Proof(constant, large.first, large.middle, large.tail, float(small), int(worst), seconds)


def prove_all(chosen: Iterable[Constant] = constants, progress: Progress | None = None) -> list[Proof]:
    """Run the proofs of several constants, those of the catalogue unless told otherwise."""
    found, chosen = [], list(chosen)
    for done, constant in enumerate(chosen):
        if progress is not None:
            progress(done, len(chosen), constant.name)
        found.append(prove(constant))
    return found


def table(proofs: Iterable[Proof]) -> Table:
    """Return a run as a table."""
    proofs = list(proofs)
    columns: dict[str, list[Any]] = {
        "constant of": [proof.constant.name for proof in proofs],
        "C": [float(proof.constant.value) for proof in proofs],
        f"(a)\nk + 1 ≥ {FROM}": [proof.first for proof in proofs],
        "(b)\n": [proof.middle for proof in proofs],
        "tail\n": [proof.tail for proof in proofs],
        f"(k+1)·loss ≤\nk + 1 < {FROM}": [proof.small for proof in proofs],
        "at k + 1\n": [proof.worst for proof in proofs],
        "verdict": ["proved" if proof.holds else "FAILS" for proof in proofs],
        "seconds": [proof.seconds for proof in proofs],
    }
    return Table("Proofs", columns, number=".5f", formats={"C": "g", "seconds": ".1f"})
