"""Published formulas for tasks that are drawn anew, with standard Gaussian rows
(``fl.ensembles.Gaussian``).
"""

import math
from typing import Any

import numpy as np

from forgetless._core import validate
from forgetless._core.arrays import Floats

__all__ = ["best_constant", "forgetting_of_projections", "generalization_of_projections"]


def generalization_of_projections(
    distances: Any, n_features: int, n_rows: int, noise: float = 0.0
) -> float:
    """Return the mean over k teachers of E‖w_k − v_i‖² after k tasks, each solved exactly from the
    previous weights.

    Parameters
    ----------
    distances : array of shape (k + 1, k + 1)
        Squared distances of the start and the k teachers.
    n_features, n_rows : int
        d and n; with noise they differ by at least two.
    noise : float, default 0
        Standard deviation of the noise of labels.

    Examples
    --------
    >>> import forgetless as fl
    >>> one_teacher = [[0.0, 1.0, 1.0], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]
    >>> fl.theory.fresh_tasks.generalization_of_projections(one_teacher, n_features=10, n_rows=5)
    0.25

    References
    ----------
    Lin, Ju, Liang and Shroff (ICML 2023), Theorem 4.1, as in the public code of Banayeeanzade et
    al. (2025).
    """
    D, k, r, unit = _checked(distances, n_features, n_rows, noise)
    last = r ** np.arange(k - 1, -1, -1)  # the fraction that the k − i tasks after task i leave
    between = (1.0 - r) * float(last @ D[1:, 1:].sum(axis=1)) / k
    return float(r**k * D[0, 1:].mean() + between + unit * (1.0 - r**k))


def forgetting_of_projections(
    distances: Any, n_features: int, n_rows: int, noise: float = 0.0
) -> float:
    """Return the mean over i < k of E‖w_k − v_i‖² − E‖w_i − v_i‖² for k tasks, each solved exactly.

    Arguments as in ``generalization_of_projections``; Theorem 4.1 of Lin et al. (2023), from
    memory.
    """
    D, k, r, unit = _checked(distances, n_features, n_rows, noise)
    if k < 2:
        raise ValueError(f"distances must be those of at least two teachers, got {k}")
    total = 0.0
    for i in range(1, k):
        later = np.arange(i + 1, k + 1)
        weights = (1.0 - r) * (r ** (k - i) - r ** (later - i) + r ** (k - later))
        total += (r**k - r**i) * D[0, i] + float(weights @ D[i, later]) + unit * (r**i - r**k)
    return float(total / (k - 1))


def best_constant(
    n_features: int, n_rows: int, noise: float, k: int, distance: float = 1.0
) -> float:
    """Return 2nk/ln(4nk‖w₀ − v‖²/(dσ²)), the best constant λ for one teacher and label noise as k
    grows.

    That it grows like k/ln k is a theorem of Karpel et al. (ALT 2026), arXiv 2601.13844; the
    constant is derived here from the ensemble equation and not published. The exact optimum is
    0.973, 0.9963 and 0.9999 times as large at k = 10³, 10⁴ and 10⁶ (d = 100, n = 20, σ = ½,
    distance 1).

    Examples
    --------
    >>> import forgetless as fl
    >>> round(fl.theory.fresh_tasks.best_constant(n_features=100, n_rows=20, noise=0.5, k=1000), 1)
    4956.1
    """
    d = validate.integer("n_features", n_features, 1, "a task has at least one feature")
    n = validate.integer("n_rows", n_rows, 1, "a task has at least one row")
    variance = validate.number("noise", noise, "without noise the best λ is 0", positive=True) ** 2
    square = (
        validate.number("distance", distance, "of the start from the teacher", positive=True) ** 2
    )
    ratio = (
        4.0 * n * validate.integer("k", k, 1, "ask for at least one step") * square / (d * variance)
    )
    if ratio <= math.e:
        raise ValueError(
            f"4nk‖w₀ − v‖²/(dσ²) must be large, got {ratio:.3g}; it is a limit for many tasks"
        )
    return 2.0 * n * k / math.log(ratio)


def _checked(
    distances: Any, n_features: int, n_rows: int, noise: float
) -> tuple[Floats, int, float, float]:
    """Return distances, k, r = max(0, 1 − n/d) and the limit of the noise in E‖w − v‖²."""
    D = np.asarray(distances, dtype=np.float64)
    if D.ndim != 2 or D.shape[0] != D.shape[1] or len(D) < 2:
        raise ValueError(
            f"distances must have shape (k + 1, k + 1), of the start and k teachers, got {D.shape}"
        )
    d = validate.integer("n_features", n_features, 1, "a task has at least one feature")
    n = validate.integer("n_rows", n_rows, 1, "a task has at least one row")
    if not (np.isfinite(D).all() and (D >= 0).all()):
        raise ValueError("distances must be finite and nonnegative squares")
    variance = validate.number("noise", noise, "use 0 for labels without noise") ** 2
    if variance and abs(n - d) < 2:
        raise ValueError(
            f"n_rows and n_features must differ by at least two, got {n} and {d}; the mean is"
            " infinite"
        )
    return (
        D,
        len(D) - 1,
        max(0.0, 1.0 - n / d),
        d * variance / (abs(n - d) - 1.0) if variance else 0.0,
    )
