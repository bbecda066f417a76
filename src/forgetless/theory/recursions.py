"""Upper bounds by recursions of numbers: one filter at every step, and exchangeable orders.

**One filter** (Theorem F of docs/proofs.md): O(1/k) without regularization, or with any
fixed λ. Setting: R = 1, tasks with H = XᵀX are drawn independently, and all steps have one filter φ
with κξ ≤ φ(ξ) ≤ κ on the eigenvalues ξ of the tasks, 0 < κ < 2. Ridge steps, gradient steps and
projections have it with κ = φ(R²), which is 1 without regularization. Put Q := φ(H)/κ, so that
H ≤ Q ≤ I, and

    B := κ E Q,   D := I − B,   T(A) := E[(I − κQ) A (I − κQ)],   A_j := T^j(B),   a_j := ‖A_j‖.

Then E L(w_j) = ½E⟨z_j, Hz_j⟩ ≤ ½E⟨z_j, (E Q)z_j⟩ = ⟨z_0, A_jz_0⟩/(2κ) ≤ a_j‖z_0‖²/(2κ),
and ‖z_0‖ is the distance D of all other lines.

T(A) = DAD + J(A) with a positive map J, and J(I) ≤ B(κI − B). As T(I) ≤ I − (2 − κ)B, the forms A_j
have a budget, Σ_j A_j ≤ I/(2 − κ). So M_j := J(A_j) obeys both

    (i)  M_j ≤ a_j B(κI − B)        and        (ii)  Σ_{j<k} M_j ≤ B(κI − B)/(2 − κ),

and A_k = D^k B D^k + Σ_{j<k} D^{k−1−j} M_j D^{k−1−j}. Use (i) for the part j/k of term j and (ii)
for the rest: y_j = D^{k−1−j}z moves slowly with j, and Cauchy–Schwarz with the weights
k/((k−i)(k−i+1)) takes j out of the vectors. If j a_j ≤ b_j for all j < k, then k a_k ≤ max F_k over
the spectrum 1 − e of D,

    F_k = e·k y^k + e(κ − e)·[k y^{k−1}/(2 − κ) + Σ_{0<j<k} b_j y^{k−1−j}]
                  + e³(κ − e)·Σ_{n≤k−2} (n+1)(n+2) y^n/(2 − κ),     y = (1 − e)²,  0 ≤ e ≤ κ.   (1)

The maximum is enclosed, not sampled. The three sums are even polynomials of 1 − e with nonnegative
coefficients, hence convex: on a piece they lie below their chords. A chord times e, e(κ − e) or
e³(κ − e) has degree at most 5, and lies below its largest Bernstein coefficient. All numbers are
sums of products of nonnegative ones, with the relative error of at most 5 roundings a step and 100
at its end, for which they are inflated.

**Exchangeable orders** (Theorems R and S of docs/proofs.md): the loss on the next task, on the
tasks seen, and on all M tasks. For R = 1, filters φ_t with κ_t = φ_t(1) and ψ_t = φ_t/κ_t that
falls in t, and any 1 = v_{−1} ≤ v_0 ≤ … ≤ v_{k−1}, put x_t = κ_{t+1}v_t for t < k and x_k > 0.
With z_t = w_t − w⋆ and H of the task τ_{t+1}, let e_t = E z_tᵀψ_{t+1}(H)z_t for t < k, and
e_k = E z_kᵀHz_k. Then

    Σ_t c_t e_t ≤ D²,    c_t = x_t(v_{t−1} + 1 − x_t) − (v_t − v_{t−1})Σ_{r>t}x_r ,            (2)
    e_k/2 = E L(w_k; τ_{k+1}),

so that E L ≤ D²/(2c_k) where all other c_t are nonnegative. From the last step to the first, c_t ≥
0 is a lower bound of v_{t−1}, which is rounded upwards here: a pair (v_{k−1}, x_k) that leads to
v_{−1} ≤ 1 proves its bound.
"""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from forgetless._validate import Floats
from forgetless.filters import Filter
from forgetless.theory.steps import downwards, factors_at_radius, upwards

_PIECES = 160
"""Pieces of the spectrum to each factor 2.718 of e: the constants are too large by about 2e-5."""

_SMALLEST = 1e-3
"""Of κ/k: the end of the first piece, below which F_k is under a two-hundredth of its maximum."""


@dataclass(frozen=True, eq=False)
class OneFilterBound:
    """Proved bounds of expected losses over R²D² after 1..k steps of one filter.

    Attributes
    ----------
    kappa : float
        φ(R²).
    constants : array of shape (k,)
        Entry j − 1 over j bounds the average loss after j steps, and the loss on the next task.
    """

    kappa: float
    constants: Floats = field(repr=False)

    @property
    def average_loss(self) -> float:
        """The bound of E L(w_k)."""
        return min(0.5, float(self.constants[-1]) / len(self.constants))

    @property
    def seen_loss(self) -> float:
        """The bound of E (1/k) Σ_i L(w_k; τ_i).

        Leave step i out: w^{−i} is independent of τ_i, and w_k is within ‖φ(H_i)z_{i−1}‖ of it. As
        ‖z_{i−1}‖² − ‖z_i‖² ≥ (2/κ − 1)‖φ(H_i)z_{i−1}‖², their squares sum to at most κD²/(2 − κ).
        The norms add up (Minkowski).
        """
        k = len(self.constants)
        if k == 1:
            return 0.5
        left_out = min(0.5, float(self.constants[-2]) / (k - 1))
        moved = self.kappa / (2 * (2 - self.kappa) * k)
        root = math.sqrt(left_out) + math.sqrt(moved)
        return min(0.5, float(upwards(root * root)))


def one_filter(kappa: float, k: int) -> OneFilterBound:
    """Return proved bounds for k steps of one filter with κξ ≤ φ(ξ) ≤ κ at R = 1.

    Use κ = 1 for no regularization, R²/(R² + λ) for a fixed λ, γR² for one gradient step a task.
    The cost is proportional to k, 0.2 s at k = 4096.

    Examples
    --------
    >>> from forgetless.theory.recursions import one_filter
    >>> [round(j * one_filter(1.0, j).average_loss, 4) for j in (1, 4, 16, 64)]
    [0.1925, 0.2644, 0.2959, 0.3076]
    >>> fixed = one_filter(0.7, 64)  # λ = 3R²/7
    >>> round(64 * fixed.average_loss, 3), round(64 * fixed.seen_loss, 2)
    (0.275, 1.1)
    """
    # The true κ is below this number, and κξ ≤ φ then holds up to twice as many roundings.
    kappa = upwards(kappa)
    least = _SMALLEST * kappa / k
    ends = np.geomspace(least, kappa, math.ceil(_PIECES * math.log(kappa / least)))
    # The eigenvalues of B at the ends of all pieces.
    e = np.concatenate([[0.0], ends])
    y = (1 - e) ** 2
    left, right = _chords(e, kappa)
    constants = np.empty(k)
    power = np.ones_like(y)  # y^{j−1}
    past = np.zeros_like(y)  # Σ_{0<i<j} b_i y^{j−1−i}
    cubes = np.zeros_like(y)  # Σ_{n≤j−2} (n+1)(n+2) y^n
    for j in range(1, k + 1):
        # The three sums of F_j, equation (1), at the ends of the pieces.
        start = j * power * y
        middle = j * power / (2 - kappa) + past
        sums = np.stack([start, middle, cubes / (2 - kappa)])
        # On a piece F_j is below the largest Bernstein coefficient of its chords.
        coefficients = np.einsum("fcp,fp->cp", left, sums[:, :-1])
        coefficients += np.einsum("fcp,fp->cp", right, sums[:, 1:])
        b = float(upwards(coefficients.max()))
        # E L(w_j) ≤ a_jD²/(2κ), and j·a_j ≤ b. From κξ to φ less than two inflations are missing.
        constants[j - 1] = upwards(upwards(b / (2 * kappa)))
        cubes = upwards(cubes + j * (j + 1) * power)
        past = upwards(past * y + b)
        power = upwards(power * y)
    return OneFilterBound(kappa, constants)


def every_k(kappa: float) -> float:
    """Return the constant c of E L(w_k) ≤ c R²D²/k for every k ≥ 1, in closed form.

    Weaker than ``one_filter``; without regularization 0.315 is proved, by other means.

    Examples
    --------
    >>> from forgetless.theory.recursions import every_k
    >>> round(every_k(0.7), 3), round(every_k(1.0), 3)
    (0.646, 0.934)
    """
    mu = kappa / 2 if kappa <= 1 else 1 / (2 * (2 - kappa))
    return (1 / math.e + (kappa + mu) / (2 - kappa)) / (2 - kappa) / (2 * kappa)


def _chords(e: Floats, kappa: float) -> Floats:
    """Return the Bernstein coefficients of products, of shape (2, 3, 6, pieces).

    On every piece two lines, 1 at one end and 0 at the other, are multiplied by the three functions
    e, e(κ − e) and e³(κ − e), and written in degree 5.
    """
    # The function e, by its values at both ends; κ − e; 1; and the two lines.
    line = np.stack([e[:-1], e[1:]])
    rest = kappa - line
    one = np.ones_like(line)
    falling = np.stack([one[0], 0 * one[0]])
    functions = ([line, one, one, one], [line, rest, one, one], [line, line, line, rest])
    ends = (falling, one - falling)
    return np.array([[_product([end, *each]) for each in functions] for end in ends])


def _product(lines: list[Any]) -> Floats:
    """Return the Bernstein coefficients of a product of lines, each given by its two end values.

    Times binomials they are the coefficients of (1 − τ)^{n−i} τ^i, which multiply as those of
    polynomials do: without cancellation, as long as nothing is negative.
    """
    product = np.ones((1, len(lines[0][0])))
    for left, right in lines:
        # (1 − τ)·left raises no power of τ, and τ·right raises all of them by one.
        unraised = np.pad(product * left, ((0, 1), (0, 0)))
        product = unraised + np.pad(product * right, ((1, 0), (0, 0)))
    n = len(lines)
    binomials = np.array([math.comb(n, i) for i in range(n + 1)])
    return np.asarray(product / binomials[:, None])


# ---- exchangeable orders ----


_GRID = (25, 32)  # no mutant: any grid finds the same end
"""Values of x_k and of c_k that are tried at a time."""

_ROUNDS = 6  # no mutant: more of them change less than 1e-6
"""Each narrows the interval of c_k by a factor of about 15, from ln(k + 1) at first to 1e-6."""

_FEW = 24  # no mutant: both ways have the same result, to 1e-6
"""Steps up to which each of the schedules without one step is searched on its own."""

_AT_ONCE = 2**22  # no mutant: only the memory differs
"""Numbers in memory at once: steps times schedules without one step."""

_HALVINGS = 22  # no mutant: more of them change less than 1e-6
"""Bisections of the bound without one step, from a factor of about 2 to 1e-6."""


def bound(filter_: Filter, k: int, quantity: str, n_tasks: int | None) -> float:
    """Return the bound over R²D² of a filter for tasks of radius 1, for k steps of ``n_tasks``."""
    kappa = factors_at_radius(filter_, k)
    if quantity == "next_loss":
        return next_task(kappa)
    if quantity == "seen_loss":
        return seen_tasks(kappa)
    assert n_tasks is not None
    return _average_without_replacement(kappa, n_tasks)


def next_task(kappa: Floats) -> float:
    """Return a bound of E L(w_k; τ_{k+1}) over R²D², from κ_1..κ_k."""
    return float(upwards(0.5 / max(_largest(kappa)[0], 1.0)))


def _largest(kappa: Floats) -> tuple[float, float]:
    """Return the largest c_k that a search over x_k and c_k proves, and its x_k."""
    # The first grid: of ln x_k about its usual place, and of c_k, which is at most k + 1.
    centre = -0.4  # no mutant: any start finds the same end
    width = 2.6  # no mutant: any start finds the same end
    ends = (0.5, len(kappa) + 1.001)
    best = (0.0, 1.0)  # no mutant: passed by the first grid
    for _ in range(_ROUNDS):
        # The middle of the grid is the best x_k so far, at which the first c_k is proved already.
        x = np.exp(centre + width * np.linspace(-1, 1, _GRID[0]))
        c = np.geomspace(*ends, _GRID[1])
        proved = _feasible(kappa, x[:, None], c[None, :])
        if not proved.any():
            break
        # The largest c_k that some x_k proves, and the middle one of these.
        top = np.flatnonzero(proved.any(axis=0))[-1]
        rows = np.flatnonzero(proved[:, top])
        middle = float(x[rows[len(rows) // 2]])
        low = float(c[top])
        best = max(best, (low, middle))
        # The next grid: from this c_k to beyond the first that failed, around this x_k.
        ends = (low, float(c[min(top + 2, len(c) - 1)]))
        centre = float(np.log(middle))
        width *= (len(rows) + 2) / (_GRID[0] - 1)
    return best


def _feasible(kappa: Any, x: Any, c: Any) -> Any:
    """Return where x_k and c_k = x_k(v_{k−1} + 1 − x_k) lead to v_{−1} ≤ 1; ``kappa`` is of shape
    (k,) or (k, …).
    """
    # v_{k−1} from c_k = x_k(v_{k−1} + 1 − x_k)
    v = np.maximum(upwards(upwards(c) / x - 1 + x), 1.0)
    # Σ_{r>t} x_r
    tail = x + np.zeros_like(v)
    needed = np.ones_like(v)
    with np.errstate(over="ignore", invalid="ignore"):
        for share in kappa[::-1]:
            # c_t ≥ 0 of equation (2), solved for v_{t−1}, with x_t = κ_{t+1}v_t
            step = share * v
            least = upwards(v * tail + step * step) - downwards(step)
            needed = least / downwards(step + tail)
            tail = tail + upwards(step)
            # With v_{t−1} = v_t the condition always holds, since x_t ≤ v_t: the least v_{t−1} from
            # 1 on is taken that is needed.
            v = np.minimum(np.maximum(needed, 1.0), v)
    return needed <= 1.0


def seen_tasks(kappa: Floats) -> float:
    """Return a bound of E (1/k)Σ_i L(w_k; τ_i) over R²D² (Theorem S): each step is left out in
    turn.

    With B_i the bound for the schedule without step i, c > max κ_i/(2 − κ_i) and s_i = 1/(c(2 −
    κ_i)/κ_i − 1) it is (1/k)Σ(1 + s_i)B_i + c/(2k); c is chosen from a grid.
    """
    k = len(kappa)
    without = _without_each(kappa)
    ratio = upwards(kappa) / (2 - kappa)
    # Any c above the largest ratio gives a bound: the smallest of 200 is taken.
    c = ratio.max() * (1 + np.geomspace(1e-3, 1e3, 200))
    split = ratio / (c[:, None] - ratio)
    # A mean of numbers is rounded much less often than they are many.
    values = ((1 + split) * without).mean(axis=1) + c / (2 * k)
    return float(upwards(values.min()))


def _without_each(kappa: Floats) -> Floats:
    """Return bounds for the next task of the k schedules without one step, at the x_k of the whole
    schedule.
    """
    k = len(kappa)
    if k == 1:
        return np.array([0.5])
    if k <= _FEW:
        return np.array([next_task(np.delete(kappa, i)) for i in range(k)])
    c, x = _largest(kappa)
    found = []
    index = np.arange(k - 1)[:, None]
    for left_out in np.array_split(np.arange(k), math.ceil(k * k / _AT_ONCE)):
        shares = kappa[index + (index >= left_out)]
        # Without a step the constant is hardly larger; c_k = 0 is proved by v = 1 at any x_k < 2.
        low = np.zeros(len(left_out))
        high = np.full(len(left_out), min(1.3 * c + 1.0, k + 0.001))
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            proved = _feasible(shares, x, middle)
            low = np.where(proved, middle, low)
            high = np.where(proved, high, middle)
        found.append(low)
    return np.asarray(upwards(0.5 / np.maximum(np.concatenate(found), 1.0)))


def _average_without_replacement(kappa: Floats, n_tasks: int) -> float:
    """Return a bound of the average loss over all M tasks, k ≤ M of which were seen once."""
    # A task that was not seen may be the next one, so that its loss has the same law.
    seen_part = len(kappa) / n_tasks
    following = (1 - seen_part) * next_task(kappa)
    return float(upwards(following + seen_part * seen_tasks(kappa)))
