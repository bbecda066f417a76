"""Upper bounds for tasks in exchangeable order: the loss on the next task, on the tasks seen, and
on all M tasks.

For R = 1, filters φ_t with κ_t = φ_t(1), ψ_t = φ_t/κ_t nonincreasing in t, and any 1 = v_{−1} ≤ v_0
≤ … ≤ v_{k−1}, put x_t = κ_{t+1}v_t for t < k and x_k > 0. Then (docs/proofs.md, Theorem
R)

    Σ_t c_t e_t ≤ D²,    c_t = x_t(v_{t−1} + 1 − x_t) − (v_t − v_{t−1})Σ_{r>t}x_r ,
    e_k/2 = E L(w_k; τ_{k+1}),

so that E L ≤ D²/(2c_k) where all other c_t are nonnegative. From the last step to the first, c_t ≥
0 is a lower bound of v_{t−1}, which is rounded upwards here: a pair (v_{k−1}, x_k) that leads to
v_{−1} ≤ 1 proves its bound.
"""

import math
from typing import Any

import numpy as np

from forgetless._validate import Floats
from forgetless.filters import Filter
from forgetless.theory.steps import ROUNDED, budgets_of, coefficients_of, ridge_share, steps_of

_INFLATION = 2.0**-46
"""Relative inflation of a step: 64 roundings and those of κ, where a step has fewer than 20."""

_GRID = (25, 32)
"""Values of x_k and of c_k that are tried at a time."""

_ROUNDS = 8
"""Each narrows the interval of c_k by a factor of about 15, from ln(k + 1) at first."""

_ENOUGH = 1e-6
"""Relative width of that interval at which the search ends."""

_FEW = 24
"""Steps up to which each of the schedules without one step is searched on its own."""

_AT_ONCE = 2**22
"""Numbers in memory at once: steps times schedules without one step."""

_HALVINGS = 22
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
    return 0.5 / max(_largest(kappa)[0], 1.0) * (1 + _INFLATION)


def _largest(kappa: Floats) -> tuple[float, float]:
    """Return the largest c_k that a search over x_k and c_k proves, and its x_k."""
    centre = -0.4  # of ln x_k
    width = 2.6
    ends = (0.5, len(kappa) + 1.001)  # of c_k
    best = (0.0, 1.0)
    for _ in range(_ROUNDS):
        # The middle of the grid is the best x_k so far, at which the first c_k is proved already.
        x = np.exp(centre + width * np.linspace(-1, 1, _GRID[0]))
        c = np.geomspace(*ends, _GRID[1])
        proved = _feasible(kappa, x[:, None], c[None, :])
        if not proved.any():
            break
        top = int(np.flatnonzero(proved.any(axis=0))[-1])
        rows = np.flatnonzero(proved[:, top])
        at = int(rows[len(rows) // 2])
        best = max(best, (float(c[top]), float(x[at])))
        ends = (float(c[top]), float(c[min(top + 2, len(c) - 1)]))
        if ends[1] <= ends[0] * (1 + _ENOUGH):
            break
        centre = float(np.log(x[at]))
        width *= (len(rows) + 2) / (_GRID[0] - 1)
    return best


def _feasible(kappa: Any, x: Any, c: Any) -> Any:
    """Return where x_k and c_k = x_k(v_{k−1} + 1 − x_k) lead to v_{−1} ≤ 1; ``kappa`` is of shape
    (k,) or (k, …).
    """
    v = c * (1 + _INFLATION) / x - 1 + x
    up = 1 + _INFLATION
    down = 1 - _INFLATION
    v = np.maximum(v * up, 1.0)
    tail = x + np.zeros_like(v)  # Σ_{r>t} x_r
    needed = np.ones_like(v)
    with np.errstate(over="ignore", invalid="ignore"):
        for share in kappa[::-1]:
            step = share * v
            needed = ((v * tail + step * step) * up - step * down) / ((step + tail) * down)
            tail = tail + step * up
            # v_{t−1} may be anything between what is needed and v_t
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
    ratio = kappa * (1 + ROUNDED) / (2 - kappa)
    c = ratio.max() * (1 + np.geomspace(1e-3, 1e3, 200))
    split = ratio / (c[:, None] - ratio)
    values = (1 + split) @ without / k + c / (2 * k)
    return float(values.min() * (1 + k * 2.0**-50))


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
    return 0.5 / np.maximum(np.concatenate(found), 1.0) * (1 + _INFLATION)


def _average_without_replacement(kappa: Floats, n_tasks: int) -> float:
    """Return a bound of the average loss over all M tasks, k ≤ M of which were seen once."""
    seen_part = len(kappa) / n_tasks
    following = next_task(kappa) if seen_part < 1 else 0.0
    return float((1 - seen_part) * following + seen_part * seen_tasks(kappa)) * (1 + _INFLATION)


def factors_at_radius(filter_: Filter, k: int) -> Floats:
    """Return κ_1..κ_k of a filter for tasks of radius 1; ValueError where ψ_t is not known to be
    nonincreasing.
    """
    coefficients = coefficients_of(filter_, k)
    if coefficients is not None:
        _check_order("coefficient never falls", coefficients, 1)
        return np.asarray(ridge_share(coefficients))
    budgets = budgets_of(filter_, k)
    if budgets is None:
        return steps_of(filter_, k).kappa
    n_steps, sizes = budgets
    _check_order("number of gradient steps never rises", n_steps, -1)
    if np.any(n_steps > 1):
        _check_order("step size never rises", sizes, -1)
    if float(sizes.max()) > 1 + ROUNDED:
        raise ValueError(
            f"the step size reaches {sizes.max():.6g}/R², and the bound needs at most 1/R²"
        )
    with np.errstate(divide="ignore"):
        return np.asarray(-np.expm1(n_steps * np.log1p(-np.minimum(sizes, 1.0))))


def _check_order(rule: str, values: Any, sign: int) -> None:
    """Raise ValueError naming the first pair of steps in the wrong order."""
    wrong = sign * np.diff(values) < 0
    if wrong.any():
        t = int(np.argmax(wrong))
        raise ValueError(
            f"the bound for exchangeable orders needs a schedule whose {rule}, got"
            f" {values[t]:.6g} at step {t + 1} and {values[t + 1]:.6g} at step {t + 2} (in units of"
            " R²); use e.g. fl.schedules.minimax()"
        )
