"""Schedules: the filter of each of k steps, from k and R = max ‖X_m‖₂, the radius of the tasks.

A schedule is any callable ``(k, radius) → filter`` whose filter is constant or has one value per
step, such as

>>> import numpy as np
>>> import forgetless as fl
>>> def square_root(k, radius):
...     return fl.Ridge(radius**2 * np.sqrt(np.arange(1, k + 1)))

The functions below return one. Begin with ``increasing`` where the tasks may be the worst possible
and k is known, with ``minimax`` for the smallest possible guarantee on the next task, and with
``end_ramp`` on benign tasks; ``fl.advise`` compares them on tasks at hand. D is the distance from
the start to a solution of all tasks, t = 1..k the number of a step.

Wherever a schedule is expected, a filter stands for itself at every step, a number λ for
``fl.Ridge(λ)``, and a name for the function of that name with its default arguments.
"""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from forgetless import _validate as validate
from forgetless._validate import Floats
from forgetless.filters import Filter, GradientDescent, Ridge
from forgetless.schedules.named import (
    Named,
    Schedule,
    ScheduleLike,
    amount,
    counts,
    resolve,
    schedule,
)

__all__ = [
    "Named",
    "Schedule",
    "ScheduleLike",
    "constant",
    "cyclic",
    "end_ramp",
    "fixed",
    "fixed_budget",
    "from_coefficients",
    "increasing",
    "increasing_budget",
    "minimax",
    "minimax_budget",
    "resolve",
    "steady",
]


@schedule
def fixed(k: int, square: float) -> Filter:
    """λ = R²(ln k − 1) at every step: expected loss at most 5 R²D² ln k / k in k ≥ 3 steps.

    Examples
    --------
    >>> import forgetless as fl
    >>> round(fl.schedules.fixed()(100, radius=2.0).coefficient, 4)
    14.4207

    References
    ----------
    Levinstein et al. (2025), Corollary "Near-optimal rates via fixed regularization strength" (i),
    Section 4.1, upper. The paper says k ≥ 2, where λ would be negative.
    """
    if k < 3:
        raise ValueError(
            f"k must be at least 3 for schedules.fixed, got {k}; use schedules.constant"
        )
    return Ridge(square * (math.log(k) - 1))


@schedule
def increasing(k: int, square: float, scale: float = 13 / 3) -> Filter:
    """λ_t = scale · R² (k+1)/(k−t+2): expected loss at most 20 R²D²/(k+1) at scale 13/3, k ≥ 2.

    The growth is hyperbolic, from scale·R² at t = 1 to scale·R²(k+1)/2 at t = k, so k must be known
    beforehand. The guarantee is for the worst case; on benign tasks a smaller scale is often much
    better, and 0 is no regularization. At scale 1/4 ``fl.upper_bound`` proves 0.282, 0.305, 0.318
    and 0.324 R²D²/k in k = 16, 64, 256 and 1024 steps (derived, unpublished), where the paper's
    13/3 has 0.869, 0.974, 1.008 and 1.019.

    Examples
    --------
    >>> import forgetless as fl
    >>> fl.schedules.increasing(scale=1.0)(3, radius=1.0).coefficient.round(4).tolist()
    [1.0, 1.3333, 2.0]

    References
    ----------
    Levinstein et al. (2025), Theorem "Optimal rates for increasing regularization" (i), Section
    4.2, upper.
    """
    return Ridge(scale * square / _decay(k))


@schedule
def fixed_budget(k: int, square: float, n_steps: int = 1) -> Filter:
    """N gradient steps of size γ = (1 − (1 − 1/ln k)^{1/N})/R²: the guarantee of ``fixed``.

    It holds for every N, in k ≥ 3 steps, by part (ii) of the same corollary. The paper fixes γ and
    derives a real N; here γ follows from N, so that nothing is rounded.

    Examples
    --------
    >>> import forgetless as fl
    >>> f = fl.schedules.fixed_budget(n_steps=4)(100, radius=1.0)
    >>> f.table(1.0).round(6).item()  # 1/ln 100
    0.217147
    """
    if k < 3:
        raise ValueError(f"k must be at least 3 for schedules.fixed_budget, got {k}; use constant")
    return _budget(n_steps, 1 / math.log(k), square)


@partial(schedule, n_steps=counts, scale=amount("smaller values regularize less", positive=True))
def increasing_budget(
    k: int,
    square: float,
    n_steps: int | Sequence[int] = 1,
    scale: float = 13 / 3,
) -> Filter:
    """N_t gradient steps of size γ_t = (k−t+2)/(scale·R²(k+1)N_t): the guarantee of ``increasing``.

    ``n_steps`` is one number, or one per step; γ_tR² < 1 needs N_t > 1/scale. Part (ii) of the same
    theorem has N_t = η_t/γ_t for real numbers; here γ_t follows from N_t, so that it stays exact.

    Examples
    --------
    >>> import forgetless as fl
    >>> fl.schedules.increasing_budget(n_steps=2, scale=1.0)(3, radius=1.0).step_size.tolist()
    [0.5, 0.375, 0.25]
    """
    if np.ndim(n_steps) and np.size(n_steps) != k:
        raise ValueError(
            f"n_steps has {np.size(n_steps)} values but k is {k}; give one integer, or one per step"
        )
    # γ_t R² = (k−t+2)/(scale (k+1) N_t), which must be below 1 at every step.
    counts = np.broadcast_to(n_steps, (k,))
    relative = _decay(k) / scale / counts
    t = relative.argmax()
    if relative[t] >= 1:
        least = math.floor(relative[t] * counts[t]) + 1
        raise ValueError(
            f"n_steps={counts[t]} with scale={scale} makes the step size at step {t + 1}"
            f" {relative[t]:.3g}/R², which must be below 1/R²; use n_steps of at least {least}"
        )
    return GradientDescent(counts, relative / (square or 1.0))


@schedule
def minimax(
    k: int,
    square: float,
    eta: float = 1.0,
    noise: float = 0.0,
) -> Filter:
    """λ_t = R²((k+1)/(η(k+1−t)) − 1), with η = 1 λ_t = R²t/(k+1−t): the optimal worst case.

    For tasks in exchangeable order (with replacement, without, rows of a shuffled table) that one
    model fits, the expected loss on the next task is at most R²D²/(2(k+1)) at η = 1, and no
    algorithm has a smaller bound (derived here, not published: docs/proofs.md). With
    replacement that is the average loss. On easy collections other schedules have smaller losses.

    Parameters
    ----------
    eta : float, default 1
        η in (0, 1]: below 1 for noisy labels, where ``fl.oracle_bound`` gives the bound and the
        best η.
    noise : float, default 0
        σ = √E‖∇L(w⋆; τ)‖² / (R²‖w₀ − w⋆‖), the size of the gradients that remain at the joint
        solution w⋆. It divides η by 1 + σ√(k+1), which is the best η for this noise.

    Examples
    --------
    >>> import forgetless as fl
    >>> fl.schedules.minimax()(3, radius=1.0).coefficient.round(4).tolist()
    [0.3333, 1.0, 3.0]

    References
    ----------
    Derived here, Theorem X of docs/proofs.md, tight. Step sizes that decay linearly to
    zero have the optimal rate of last iterates for Lipschitz losses: Zamani & Glineur (2023),
    Defazio et al. (2023).
    """
    eta = eta / (1 + noise * math.sqrt(k + 1))
    # λ_t = R²((k+1)/(η(k+1−t)) − 1).
    t = np.arange(1, k + 1)
    # Over a common denominator: (k+1)/(η(k+1−t)) − 1 would cancel.
    relative = ((1 - eta) * (k + 1) + eta * t) / (eta * (k + 1 - t))
    return Ridge(relative * square)


@schedule
def minimax_budget(
    k: int,
    square: float,
    n_steps: int = 1,
    eta: float = 1.0,
    noise: float = 0.0,
) -> Filter:
    """N gradient steps of size γ_t, 1 − (1 − γ_tR²)^N = η(k+1−t)/(k+1): the guarantee of
    ``minimax``, whose ``eta`` and ``noise`` it has.

    Examples
    --------
    >>> import forgetless as fl
    >>> fl.schedules.minimax_budget()(3, radius=1.0).step_size.tolist()
    [0.75, 0.5, 0.25]
    """
    eta = eta / (1 + noise * math.sqrt(k + 1))
    return _budget(n_steps, eta * (np.arange(k, 0, -1) / (k + 1)), square)


@schedule
def cyclic(k: int, square: float, n_tasks: int) -> Filter:
    """λ = 2MR²√ln(k/M) at every step, for M = ``n_tasks`` in a fixed cyclic order and k > M steps.

    Examples
    --------
    >>> import forgetless as fl
    >>> round(fl.schedules.cyclic(10)(100, radius=1.0).coefficient, 4)
    30.3485

    References
    ----------
    Cai & Diakonikolas (2025), last-iterate rate of the incremental proximal method, upper; as
    stated by Levinstein et al. (2025), Section 6.
    """
    if k <= n_tasks:
        raise ValueError(
            f"k must be at least {n_tasks + 1} for schedules.cyclic, more than one cycle, got {k}"
        )
    return Ridge(2 * n_tasks * square * math.sqrt(math.log(k / n_tasks)))


@schedule
def end_ramp(k: int, square: float, length: float = 1 / 8, scale: float = 1.0) -> Filter:
    """λ_t = 0 first, then scale · R² · j at the j-th of the last ``length`` · k steps.

    The ramp has at least one step. With scale 1 the filter factor at the radius is 1/(1 + j), as if
    its iterates were averaged. This is the shape that exact optimisation finds on most collections
    (``fl.optimal_schedule``); no theorem covers it.

    Examples
    --------
    >>> import forgetless as fl
    >>> fl.schedules.end_ramp(length=0.5, scale=2.0)(6, radius=1.0).coefficient.tolist()
    [0.0, 0.0, 0.0, 2.0, 4.0, 6.0]
    """
    before = k - max(1, round(length * k))
    return Ridge(scale * square * np.maximum(0.0, np.arange(1, k + 1) - before))


@schedule
def steady(
    k: int,
    _square: float,
    tasks: Any,
    noise: float,
    walk: float = 0.0,
    distance: float = 1.0,
) -> Filter:
    """1/λ_{t+1} = (1 − a(λ_t))/λ_t + q²/(dσ²), from λ_1 = dσ²/D²: the best strength for label
    noise σ, a solution that walks by q from task to task, and its distance D from the start.

    a(λ) = E tr[XᵀX(XᵀX + λ)⁻¹]/d is the mean filter factor on ``tasks``, a collection or an
    ensemble, in their d dimensions. Use it where labels are noisy or the number of tasks is not
    known: λ_t does not depend on k. For fresh tasks with rotation-invariant rows it is optimal
    among all spectral filters and for every number of steps (a scalar Kalman filter; derived here,
    not published: docs/laboratory.md). Without a walk λ_t increases, for standard Gaussian rows by
    about nλ/(λ + n + d) a task, which tends to n. With a walk it tends to the λ with a(λ)/λ =
    q²/(dσ²), from below or from above; for these rows λ(λ + n + d) is then about ndσ²/q².

    Examples
    --------
    >>> import forgetless as fl
    >>> tasks = fl.ensembles.Gaussian(n_features=60, n_rows=12)
    >>> fl.schedules.steady(tasks, noise=0.2**0.5)(4, tasks.radius).coefficient.round(2).tolist()
    [12.0, 14.3, 16.94, 19.92]
    """
    coefficients = np.zeros(k)
    if noise == 0:
        return Ridge(coefficients)
    sizes = np.array([distance, walk])
    with np.errstate(all="ignore"):
        # D²/(dσ²) and q²/(dσ²)
        ratios = np.square(sizes) / (max(1, tasks.span_dimension) * np.square(noise))
    if not np.isfinite(ratios).all() or np.any((ratios > 0) != (sizes > 0)):
        raise ValueError(
            "noise, walk and distance must have ratios of squares that are floats, got"
            f" noise={noise!r}, walk={walk!r}, distance={distance!r}; rescale the data towards 1"
        )
    # 1/λ_1 = D²/(dσ²), and a walk adds q²/(dσ²) at every task.
    inverse, moved = ratios
    for t in range(k):
        coefficients[t] = 1.0 / inverse
        inverse = tasks.mean_remaining(coefficients[t]) * inverse + moved
    return Ridge(coefficients)


@schedule
def constant(_k: int, _square: float, filter: Filter) -> Filter:
    """φ_t = φ, one filter for every k and R.

    Examples
    --------
    >>> import forgetless as fl
    >>> fl.schedules.constant(fl.Ridge(0.5))(10, radius=3.0)
    Ridge(coefficient=0.5)
    """
    return filter


def from_coefficients(coefficients: ArrayLike) -> Named:
    """λ_t = coefficients[t−1], for exactly as many steps as there are.

    Examples
    --------
    >>> import forgetless as fl
    >>> fl.schedules.from_coefficients([0.0, 1.0, 4.0])(3, radius=1.0).coefficient.tolist()
    [0.0, 1.0, 4.0]
    """
    hint = "use 0 for an unregularized step"
    values = validate.numbers_per_step("coefficients", coefficients, hint)
    return constant(Ridge(np.atleast_1d(values)))


def _decay(k: int) -> Floats:
    """Return (k−t+2)/(k+1) for t = 1..k."""
    return np.arange(k + 1, 1, -1) / (k + 1)


def _budget(n_steps: int, share: Any, square: float) -> GradientDescent:
    """Return N steps with the factor κ at the radius, 1 − (1 − γR²)^N = ``share``; at R = 0, where
    all steps are the same, γ is γR².
    """
    # γR² = 1 − (1 − share)^{1/N}, without cancellation.
    relative = share if n_steps == 1 else -np.expm1(np.log1p(-share) / n_steps)
    return GradientDescent(n_steps, relative / (square or 1.0))
